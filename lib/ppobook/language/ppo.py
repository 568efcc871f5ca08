"""PPO on tokens: maximize a reward of completions, close to a reference policy.

    repeat
        sample a completion y of each prompt x from π_old; store log π_old and log π_ref of each token
        score the completion: R(x, y)
        reward of each token    r_t = − β (log π_old − log π_ref)(y_t | x, y_<t),   plus R at the last token
        advantages Â_t by GAE with γ = 1, and returns Â_t + V_t as targets of the critic
        for each of K epochs, for each minibatch of completions, in random order
            ρ_t = π_θ(y_t | x, y_<t) / π_old(y_t | x, y_<t)
            ascend   mean of min(ρ_t Â_t, clip(ρ_t, 1 − ε, 1 + ε) Â_t) − c_v ½ (V_t − target)² + c_e H
        adapt β to the KL, if there is a target

The clip bounds how far one update moves from π_old; the KL penalty bounds how far all updates together move
from π_ref. The objective is

    E_π [ R(x, y) ] − β KL(π, π_ref),   with the optimum   π* ∝ π_ref exp(R / β)

Ziegler et al. 2019, "Fine-tuning language models from human preferences", section 2.2; Ouyang et al. 2022,
"Training language models to follow instructions with human feedback", equation 2 without its pretraining
term; the loss is that of Schulman et al. 2017, "Proximal policy optimization algorithms", equations 7 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ppobook.adaptive_kl import AdaptiveKLCoefficient
from ppobook.diagnostics import explained_variance, normalize
from ppobook.language import on_policy
from ppobook.language.model import Scalar
from ppobook.language.on_policy import Sampling, kl_estimate
from ppobook.language.rewards import RewardModel
from ppobook.language.settings import PPOSettings
from ppobook.language.stage import Task
from ppobook.language.tokens import (
    Completions,
    completion_logits,
    completion_values,
    token_logp_and_entropy,
)
from ppobook.objectives import masked_mean, ppo_loss
from ppobook.returns import gae
from ppobook.run.metrics import means


@dataclass
class Experience(on_policy.Experience):
    """A batch of completions with the critic's values and their targets, [B, T]."""

    values: Tensor
    returns: Tensor


class PPO(Sampling):
    """Proximal policy optimization of a language model. Options: `PPOSettings`.

    **Reward.** The reward of a completion is received at its last token, the end of sequence if it has one.
    γ is 1: a completion is not worth less because it is longer.

    **KL penalty.** By default it is part of each token's reward, so that GAE propagates it back to the tokens
    before; with `kl_in="loss"` each token is penalized for its own state only. With `kl_target`, β is adapted
    (`AdaptiveKLCoefficient`, rule "proportional").

    **Truncated completions**, those that reach `max_new_tokens` without an end of sequence: with
    `truncation="end"` they receive their reward and nothing follows; "penalty" subtracts
    `missing_eos_penalty`; "bootstrap" replaces the reward by the critic's value after the last token.

    **Critic.** A network of its own, initialized from the body of the reward model or of the policy with a
    new output layer of zeros. Shared weights would be disturbed by its large first gradients.

    **Normalization.** Advantages over all tokens of the batch before the first epoch; "minibatch": over those
    of each minibatch. `normalize_rewards` divides the tokens' rewards, KL included, by their standard
    deviation over the batch and leaves their mean.

    **Metrics.** loss, its parts, entropy, the statistics of the ratio and grad_norm are means over all
    gradient steps of the update. explained_variance is that of the values at sampling time.

    **Differences to TRL's PPOTrainer** (version 1.12, the last one that had it). Its vf_coef, 0.1, is
    value_coef here; its cliprange_value, 0.2, is value_clip_eps; its kl_coef is 0.05. Furthermore

    - it gives the reward of a completion that ended one token *after* the end: the critic has one more state
      to learn, and the advantage of the end gets the reward by way of λ;
    - its standard deviations divide by n − 1;
    - its approx_kl is k2, and its mean counts padding.
    """

    algorithm = "ppo"
    settings_class = PPOSettings
    state_attributes = (*Sampling.state_attributes, "critic", "kl_coef")

    settings: PPOSettings

    def __init__(self, task: Task, settings: PPOSettings, *, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(task, settings, seed=seed, device=device)
        s = settings
        body = self.reward_model.body if isinstance(self.reward_model, RewardModel) else self.model
        self.critic = Scalar(body).to(device).requires_grad_(True)
        self.kl_coef = AdaptiveKLCoefficient(
            s.kl_coef, s.kl_target, rule="proportional", horizon=s.kl_horizon
        )
        self.optimizer = self.optimizer_of(self.model, self.critic)

    def step(self, number: int) -> dict[str, Any]:
        s = self.settings
        experience, metrics = self.make_experience(number)
        steps = []
        for _ in range(s.epochs):
            order = torch.randperm(len(experience), generator=self.generator, device=self.device)
            for rows in order.tensor_split(s.num_minibatches):
                minibatch = self.minibatch(experience, rows)
                steps.append(self.minibatch_step(minibatch))  # forward, loss, gradient step
        metrics["kl_coef"] = self.kl_coef.value
        self.kl_coef.update(metrics["kl_reference"], len(experience))
        return metrics | means(steps)

    def make_experience(self, number: int) -> tuple[Experience, dict[str, Any]]:
        """Sample and score the completions of an update. Returns them with the metrics of the batch."""
        prompts = self.draw_prompts(number, self.settings.batch_size)
        completions = self.sample(prompts)  # with log π_old
        rewards = self.score(completions, prompts.columns)
        ref_logp = self.reference_logp(completions)
        values = self.map_batches(lambda batch: completion_values(self.critic, batch), completions)

        token_rewards = self.token_rewards(completions, rewards, ref_logp)
        advantages, returns = self.estimate_advantages(completions, token_rewards, values)

        metrics, mask = self.metrics(completions, rewards, ref_logp), completions.mask
        metrics["explained_variance"] = float(explained_variance(values[:, :-1][mask], returns[mask]))
        return Experience(completions, ref_logp, advantages, values[:, :-1], returns), metrics

    def token_rewards(self, completions: Completions, rewards: Tensor, ref_logp: Tensor) -> Tensor:
        """The reward of each token, [B, T], 0 at padding: − β KL, and R at the last token."""
        s, logp = self.settings, completions.logp
        token_rewards = torch.zeros_like(logp)
        if s.kl_in == "reward":
            kl = kl_estimate(s.kl_estimator, logp, ref_logp, mask=completions.mask)
            token_rewards -= self.kl_coef.value * kl
        rewards = self.apply_truncation_penalty(completions, rewards.to(logp.dtype))
        if s.truncation == "bootstrap":
            rewards = torch.where(completions.ended, rewards, 0.0)
        token_rewards.scatter_add_(1, completions.last[:, None], rewards[:, None])
        if s.normalize_rewards:
            token_rewards = normalize(token_rewards, completions.mask, shift_mean=False)
        return token_rewards

    def estimate_advantages(
        self, completions: Completions, token_rewards: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """GAE over the tokens of each completion: advantages and returns, [B, T], from values [B, T + 1]."""
        s, terminated, truncated = self.settings, completions.terminated, completions.truncated
        if s.truncation != "bootstrap":
            terminated, truncated = terminated | truncated, torch.zeros_like(truncated)
        advantages, returns = gae(
            token_rewards, values, terminated, truncated, values[:, 1:], gamma=s.gamma, lam=s.lam
        )
        if s.normalize_advantages == "batch":
            advantages = normalize(advantages, completions.mask)
        return advantages, returns

    def minibatch(self, experience: Experience, rows: Tensor) -> Experience:
        """Some rows; their advantages are normalized here with normalize_advantages="minibatch"."""
        batch = experience.select(rows)
        if self.settings.normalize_advantages == "minibatch":
            batch = replace(batch, advantages=normalize(batch.advantages, batch.completions.mask))
        return batch

    def forward(self, batch: Experience) -> dict[str, Tensor]:
        """log π_θ, V and the policy's entropy for each token, [B, T]."""
        s, completions = self.settings, batch.completions
        logits = completion_logits(self.model, completions)
        # Without a bonus the entropy is a metric only, and its gradient would cost as much as that of logp.
        logp, entropy = token_logp_and_entropy(
            logits,
            completions.tokens,
            s.temperature,
            completions.mask,
            entropy_gradient=s.entropy_coef > 0,
        )
        values = completion_values(self.critic, completions)[:, :-1]
        return {"logp": logp, "values": values, "entropy": entropy}

    def loss(
        self, batch: Experience, outputs: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """L_policy + c_v L_value − c_e H, plus β KL with kl_in="loss"; and metrics."""
        s, completions, mask = self.settings, batch.completions, batch.completions.mask
        outputs = self.forward(batch) if outputs is None else outputs
        reduction: dict[str, Any] = {"mask": mask, "reduction": s.reduction}
        if s.reduction == "constant":
            reduction["denominator"] = float(len(mask) * self.max_new_tokens)

        loss, metrics = ppo_loss(
            outputs["logp"],
            completions.logp,
            batch.advantages,
            outputs["values"],
            batch.returns,
            outputs["entropy"],
            clip_eps=s.clip_eps,
            clip_eps_high=s.clip_eps_high,
            value_coef=s.value_coef,
            entropy_coef=s.entropy_coef,
            old_values=batch.values,
            value_clip_eps=s.value_clip_eps,
            **reduction,
        )
        if s.kl_in == "loss":
            old_logp = completions.logp if s.kl_weighted else None
            kl = kl_estimate(s.kl_estimator, outputs["logp"], batch.ref_logp, old_logp, mask=mask)
            loss = loss + self.kl_coef.value * masked_mean(kl, **reduction)
        return loss, metrics
