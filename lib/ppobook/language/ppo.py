"""PPO on tokens: make completions that a reward likes, and stay near a reference.

    repeat
        sample a completion y of each prompt x with π_old; note log π_old and log π_ref of each of its tokens
        score the whole: R(x, y)
        reward of each token    r_t = − β (log π_old − log π_ref)(y_t | x, y_<t),   and R on top at the last
        advantages Â_t by GAE with γ = 1, and targets for the critic, Â_t + V_t
        for each of K epochs, for each minibatch of completions, in a random order
            ρ_t = π_θ(y_t | x, y_<t) / π_old(y_t | x, y_<t)
            step up   mean of min(ρ_t Â_t, clip(ρ_t, 1 − ε, 1 + ε) Â_t) − c_v ½ (V_t − target)² + c_e H
        β follows the KL, if it has a target

Two leashes, and they hold different things: the clip takes away what is gained by leaving π_old within one
update; the KL charges for leaving π_ref over all of them. What is made large is

    E_π [ R(x, y) ] − β KL(π, π_ref),   with the optimum   π* ∝ π_ref exp(R / β)

Ziegler et al. 2019, "Fine-tuning language models from human preferences", section 2.2; Ouyang et al. 2022,
"Training language models to follow instructions with human feedback", equation 2; the loss is that of
Schulman et al. 2017, "Proximal policy optimization algorithms", equations 7 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ppobook.diagnostics import explained_variance, normalize
from ppobook.language import sampling
from ppobook.language.model import Scalar
from ppobook.language.rewards import RewardModel
from ppobook.language.sampling import Sampling, kl_estimate
from ppobook.language.settings import PPOSettings
from ppobook.language.stage import Task
from ppobook.language.tokens import (
    Completions,
    completion_logits,
    completion_values,
    token_entropy,
    token_logp,
)
from ppobook.objectives import masked_mean, ppo_loss
from ppobook.returns import gae


@dataclass
class Experience(sampling.Experience):
    """A batch of completions, with what the critic said of them, [B, T], and what it should have said."""

    values: Tensor
    returns: Tensor


class PPO(Sampling):
    """Proximal policy optimization of a language model, as `PPOSettings` describe it.

    **Where the reward goes.** That of the whole is paid at the last token of the completion, its end of
    sequence if it has one. γ is 1: a completion is worth what it is worth, however long it takes to say.

    **The KL** to the reference is charged token by token, by default in the reward, where the advantages
    carry it back to the tokens that led there; `kl_in="loss"` charges each token for its own state only, as
    `ppobook.language.sampling.kl_estimate` explains, and which estimators are right. With a `kl_target`, β
    is adapted (`ProportionalCoefficient`).

    **A completion truncated** at `max_new_tokens`: with `truncation="end"` it gets its reward, and nothing
    follows. "penalty" subtracts `missing_eos_penalty` from that. "bootstrap" treats the limit as no part of
    the task: the completion gets no reward, and the critic's value after its last token stands in for what it
    would have earned. Where most completions are truncated, the critic then learns from itself.

    **The critic** is a network of its own, begun from the reward model's body or from the policy's, with a new
    output of 0 everywhere. It shares no weight with the policy: its errors are large at first, and they
    should not move what the policy says.

    **What is normalised, and over what.** Advantages over all tokens of the batch, padding aside, before the
    first epoch; "minibatch" does it over those of each minibatch. `normalize_rewards` divides the tokens'
    rewards, KL and all, by their deviation over the batch, and leaves their mean where it is.

    **What the history says.** loss, its parts, entropy, the ratio's figures and grad_norm are means over all
    gradient steps of the update: approx_kl is how far the policy was from π_old on the way.
    explained_variance is that of the values noted when the batch was sampled.

    **Differences to TRL's PPOTrainer**, as it stood in version 1.12, the last one that had it. Its vf_coef,
    0.1, is the value_coef here, its cliprange_value, 0.2, the value_clip_eps; its kl_coef is 0.05. But

    - of a completion that ended it pays the reward one token *after* the end: the critic has a state more to
      learn, and the end's advantage gets the reward by way of λ;
    - its deviations are those of n − 1;
    - its approx_kl is k2, and counts padding in the mean.
    """

    algorithm = "ppo"
    settings_class = PPOSettings
    state_attributes = (*Sampling.state_attributes, "critic", "kl_coef")

    settings: PPOSettings

    def __init__(self, task: Task, settings: PPOSettings, *, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(task, settings, seed=seed, device=device)
        s = settings
        if s.num_minibatches > s.batch_size:
            raise ValueError(
                f"num_minibatches is {s.num_minibatches} and batch_size is {s.batch_size}; "
                "at most one part a completion is wanted"
            )
        if s.kl_target is not None and s.kl_coef == 0:
            raise ValueError("kl_coef is 0, which no factor makes larger; above 0 is wanted with kl_target")
        reward_model = None if s.critic_from == "policy" else self.reward_model
        if s.critic_from == "reward_model" and not isinstance(reward_model, RewardModel):
            raise ValueError(
                "critic_from is 'reward_model', and the reward is no model of ours; 'policy' is wanted"
            )
        body = reward_model.body if isinstance(reward_model, RewardModel) else self.model
        self.critic = Scalar(body).to(device).requires_grad_(True)
        self.kl_coef = ProportionalCoefficient(s.kl_coef, s.kl_target, s.kl_horizon)
        self.optimizer = self.optimizer_of(self.model, self.critic)

    def step(self, number: int) -> dict[str, Any]:
        s = self.settings
        experience, row = self.gather(number)
        steps: list[dict[str, float]] = []
        for _ in range(s.epochs):
            order = torch.randperm(len(experience), generator=self.generator, device=self.device)
            for rows in order.tensor_split(s.num_minibatches):
                minibatch = self.minibatch(experience, rows)
                steps.append(
                    self.learn(
                        torch.arange(len(minibatch)),
                        part=minibatch.select,
                        read=self.read,
                        loss=self.loss,
                        weight=lambda some: some.weight(s.reduction),
                    )
                )
        row["kl_coef"] = self.kl_coef.value
        self.kl_coef.update(row["kl_reference"], len(experience))
        return row | {name: fmean(step[name] for step in steps) for name in steps[0]}

    @torch.no_grad()
    def gather(self, number: int) -> tuple[Experience, dict[str, Any]]:
        """Completions of this update's prompts, with what they were worth; and a row for the history."""
        prompts = self.draw_prompts(number, self.settings.batch_size)
        completions = self.sample(prompts)
        rewards = self.score(completions, prompts.columns)
        ref_logp = self.reference_logp(completions)
        values = self.map_batches(lambda some: completion_values(self.critic, some), completions)
        paid = self.token_rewards(completions, rewards, ref_logp)
        advantages, returns = self.estimate(completions, paid, values)
        row = self.told(completions, rewards, ref_logp)
        said = completions.mask
        row["explained_variance"] = float(explained_variance(values[:, :-1][said], returns[said]))
        return Experience(completions, ref_logp, advantages, values[:, :-1], returns), row

    def token_rewards(self, completions: Completions, rewards: Tensor, ref_logp: Tensor) -> Tensor:
        """What each token earns, [B, T], 0 at padding."""
        s, logp = self.settings, completions.logp
        earned = torch.zeros_like(logp)
        if s.kl_in == "reward":
            kl = kl_estimate(s.kl_estimator, logp, ref_logp, mask=completions.mask)
            earned -= self.kl_coef.value * kl
        whole = self.less_penalty(completions, rewards.to(logp.dtype))
        if s.truncation == "bootstrap":
            whole = torch.where(completions.ended, whole, 0.0)
        earned.scatter_add_(1, completions.last[:, None], whole[:, None])
        return normalize(earned, completions.mask, shift_mean=False) if s.normalize_rewards else earned

    def estimate(self, completions: Completions, earned: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Advantages and targets of the tokens, [B, T]; values are [B, T + 1]."""
        s, terminated, truncated = self.settings, completions.terminated, completions.truncated
        if s.truncation != "bootstrap":
            terminated, truncated = terminated | truncated, torch.zeros_like(truncated)
        advantages, returns = gae(
            earned, values, terminated, truncated, values[:, 1:], gamma=s.gamma, lam=s.lam
        )
        if s.normalize_advantages == "batch":
            advantages = normalize(advantages, completions.mask)
        return advantages, returns

    def minibatch(self, experience: Experience, rows: Tensor) -> Experience:
        """What a gradient step is made from."""
        some = experience.select(rows)
        if self.settings.normalize_advantages != "minibatch":
            return some
        return replace(some, advantages=normalize(some.advantages, some.completions.mask))

    def read(self, experience: Experience) -> dict[str, Tensor]:
        """What policy and critic say of the completions, [B, T] each, with a gradient."""
        s, completions = self.settings, experience.completions
        logits = completion_logits(self.model, completions)
        return {
            "logp": token_logp(logits, completions.tokens, s.temperature, mask=completions.mask),
            "values": completion_values(self.critic, completions)[:, :-1],
            # With no bonus it is only looked at, and its gradient would cost as much as that of logp.
            "entropy": token_entropy(logits if s.entropy_coef else logits.detach(), s.temperature),
        }

    def loss(
        self, experience: Experience, said: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """What a gradient step on these should make small, and what the history should say of it.

        `said` is what `read` says of them, if it is known.
        """
        s, completions = self.settings, experience.completions
        said = self.read(experience) if said is None else said
        mask, old_logp, logp = completions.mask, completions.logp, said["logp"]
        reduction: dict[str, Any] = {"mask": mask, "reduction": s.reduction}
        if s.reduction == "constant":
            reduction["denominator"] = float(len(mask) * self.max_new_tokens)
        loss, diagnostics = ppo_loss(
            logp,
            old_logp,
            experience.advantages,
            said["values"],
            experience.returns,
            said["entropy"],
            clip_eps=s.clip_eps,
            clip_eps_high=s.clip_eps_high,
            value_coef=s.value_coef,
            entropy_coef=s.entropy_coef,
            old_values=experience.values,
            value_clip_eps=s.value_clip_eps,
            **reduction,
        )
        if s.kl_in == "loss":
            weight = old_logp if s.kl_weighted else None
            kl = kl_estimate(s.kl_estimator, logp, experience.ref_logp, weight, mask=mask)
            loss = loss + self.kl_coef.value * masked_mean(kl, **reduction)
        return loss, diagnostics


class ProportionalCoefficient:
    """The weight β of the KL to the reference: fixed, or led so that a completion's KL comes to a target.

        e = clip(KL / target − 1, −0.2, 0.2)
        β ← β (1 + e n / horizon)                          after n completions

    Parameters
    ----------
    value : float
        β at first.
    target : float or None
        In nats, summed over a completion. None: β stays.
    horizon : int
        In completions. The paper has 0.1 for n / horizon.

    References
    ----------
    Ziegler et al. 2019, "Fine-tuning language models from human preferences", section 2.2.
    """

    def __init__(self, value: float, target: float | None, horizon: int) -> None:
        self.value = value
        self.target = target
        self.horizon = horizon

    def update(self, kl: float, completions: int) -> None:
        """Follow the KL that was seen in so many completions."""
        if self.target is not None:
            error = min(max(kl / self.target - 1, -0.2), 0.2)
            self.value *= 1 + error * min(1.0, completions / self.horizon)

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]
