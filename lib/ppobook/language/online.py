"""Online algorithms: data are sampled from the policy while it is trained.

online_dpo       DPO on pairs sampled from the policy in every update              Guo et al. 2024
iterative_ppo    PPO, with a reward model that is trained further                  Ziegler et al. 2019
lagged_grpo      GRPO on completions of the policy as it was k updates ago         Noukhovitch et al. 2024
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ppobook import divergences
from ppobook.language import grpo, reward
from ppobook.language.data import Prompts, take_rows
from ppobook.language.grpo import GRPO
from ppobook.language.on_policy import Sampling
from ppobook.language.pairs import EVAL_BATCH_SIZE, SampledPairs
from ppobook.language.ppo import PPO
from ppobook.language.reward import RewardModelling
from ppobook.language.rewards import RewardModel
from ppobook.language.settings import (
    IterativePPOSettings,
    LaggedGRPOSettings,
    OnlineDPOSettings,
    RewardSettings,
)
from ppobook.language.stage import Task
from ppobook.language.tokens import Completions, Pairs, completion_logits, token_entropy, token_logp
from ppobook.preferences import dpo_loss, ipo_loss
from ppobook.run.machine import stream


@dataclass
class PairBatch:
    """Sampled pairs: `completions` has P chosen ones, then the P rejected; `ref_logp`, [2 P], their log
    π_ref."""

    completions: Completions
    ref_logp: Tensor

    def __len__(self) -> int:
        return len(self.completions) // 2

    def select(self, pairs: Tensor) -> PairBatch:
        """Some pairs, without the columns that are padding in all of them."""
        rows = torch.cat([pairs, pairs + len(self)])
        return PairBatch(take_rows(self.completions, rows, str(rows.device)), self.ref_logp[rows])


class OnlineDPO(Sampling):
    """DPO on pairs that are sampled from the policy. Options: `OnlineDPOSettings`.

        repeat
            sample k completions of each prompt x from π_θ
            score them: y_w is the best of them, y_l the worst
            descend the mean DPO loss of the pairs (x, y_w, y_l); π_ref stays fixed

    **Optimum.** With noise s and two completions a prompt, preferences are Bradley-Terry with rewards R / s,
    and the optimum of the DPO loss is π_ref exp(R / (s β)) / Z. Without noise the better completion always
    wins: then DPO without label smoothing has no finite optimum for any β.

    **Equal rewards.** The preference is random: such a pair pulls its two completions together. `tied` in the
    history is the share of these pairs.

    The gradient ignores that the samples depend on the policy, as in the paper.

    **Differences to TRL 1.16.** It samples at `temperature` but computes log-probabilities at 1, and prefers
    the first of two completions with equal rewards. Its "ipo" is on sums, as here; that of its DPOTrainer on
    means.

    References
    ----------
    Guo et al. 2024, "Direct language model alignment from online AI feedback", algorithm 1, where another
    language model is asked for the preference. Best and worst of more than two: Dong et al. 2024, "RLHF
    workflow: from reward modeling to online RLHF".
    """

    algorithm = "online_dpo"
    settings_class = OnlineDPOSettings

    settings: OnlineDPOSettings

    def step(self, number: int) -> dict[str, Any]:
        batch, metrics = self.make_pairs(number)
        return metrics | self.minibatch_step(batch)  # forward, loss, gradient step

    def make_pairs(self, number: int) -> tuple[PairBatch, dict[str, Any]]:
        """Sample and score the completions of an update. Returns the pairs and the metrics of the batch."""
        s = self.settings
        prompts = self.draw_prompts(number, s.batch_size // s.group_size).repeat(s.group_size)
        completions = self.sample(prompts)
        rewards = self.score(completions, prompts.columns)
        ref_logp = self.reference_logp(completions)
        metrics = self.metrics(completions, rewards, ref_logp)
        rewards = self.apply_truncation_penalty(completions, rewards)
        best, worst = best_and_worst(rewards, s.group_size, noise=s.noise, generator=self.generator)
        metrics["tied"] = (rewards[best] == rewards[worst]).float().mean().item()
        rows = torch.cat([best, worst])
        return PairBatch(take_rows(completions, rows, self.device), ref_logp[rows].sum(dim=1)), metrics

    def forward(self, batch: PairBatch) -> dict[str, Tensor]:
        """log π_θ(y | x) of both sides, with gradient, and the sum of both sides' entropies, [P] each."""
        s, completions, mask = self.settings, batch.completions, batch.completions.mask
        logits = completion_logits(self.model, completions)
        logp = token_logp(logits, completions.tokens, s.temperature, mask=mask).sum(dim=1)
        entropy = token_entropy(logits.detach(), s.temperature).masked_fill(~mask, 0.0).sum(dim=1)
        chosen, rejected = logp.chunk(2)
        return {"chosen": chosen, "rejected": rejected, "entropy": entropy.view(2, -1).sum(dim=0)}

    def loss(
        self, batch: PairBatch, outputs: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """− log σ(β h) for "dpo", (h − 1 / (2 β))² for "ipo"; and metrics."""
        s = self.settings
        outputs = self.forward(batch) if outputs is None else outputs
        ref_chosen, ref_rejected = batch.ref_logp.chunk(2)
        logp = outputs["chosen"], outputs["rejected"], ref_chosen, ref_rejected
        if s.loss == "ipo":
            loss, metrics = ipo_loss(*logp, s.beta)
        else:
            loss, metrics = dpo_loss(*logp, s.beta, label_smoothing=s.label_smoothing)
        return loss, metrics | {"entropy": outputs["entropy"].sum() / batch.completions.mask.sum()}

    def loss_weight(self, batch: PairBatch) -> int:
        return len(batch)


def best_and_worst(
    rewards: Tensor, group_size: int, *, noise: float = 0.0, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The best and the worst completion of each prompt, by a noisy preference.

        u_i = R_i + noise · g_i        g_i from a standard Gumbel distribution
        best: the largest u of the group, worst: the smallest; the order of equal ones is random

    Of two, the first one is better with probability σ((R_1 − R_2) / noise), as in the Bradley-Terry model; of
    more, the order follows the Plackett-Luce model.

    Parameters
    ----------
    rewards : tensor, shape (B,)
        The completions of one prompt are consecutive.
    group_size : int of at least 2
    noise : float of at least 0
        In units of the reward.
    generator : torch.Generator
        On the device of rewards.

    Returns
    -------
    best, worst : int64, shape (B / group_size,)
        Row numbers; never the same one.
    """
    utilities = rewards.double().view(-1, group_size)
    uniform = torch.rand(utilities.shape, generator=generator, dtype=torch.float64, device=rewards.device)
    if noise > 0:
        utilities = utilities - noise * (-uniform.log()).log()
    # Shuffled first, then sorted by a stable sort, so that the order of equal ones is random.
    shuffled = uniform.argsort(dim=1)
    order = shuffled.gather(1, utilities.gather(1, shuffled).argsort(dim=1, stable=True))
    first = torch.arange(0, len(rewards), group_size, device=rewards.device)
    return first + order[:, -1], first + order[:, 0]


class IterativePPO(PPO):
    """PPO with a reward model that is trained further on the policy's completions.

        every `refresh_every` updates, and before the first one
            sample two completions of each of `pairs` prompts from π_θ, and ask for preferences
            add these preferences to the earlier ones
            train the reward model on all of them, as the stage "reward" does
        an update of PPO on the rewards of the reward model

    `fresh_accuracy` in the history is the reward model's accuracy on the new preferences before it is trained
    on them: how far the policy has left its training data. `fresh_accuracy_after` is its accuracy afterwards.
    The scale of its rewards changes each time, so compare `gold` over a run, not `reward`.

    **Preferences** are those of `World.prefer`. For others, or other data, a subclass has its own `ask`.

    **Differences to the papers.** Both train a new reward model each time, on all preferences so far, from
    the language model. Here training continues from the current reward model; its training data from before
    this run are not used again. The critic is never reset.

    References
    ----------
    Ziegler et al. 2019, "Fine-tuning language models from human preferences", section 2.3. Bai et al. 2022,
    "Training a helpful and harmless assistant with reinforcement learning from human feedback", section 4.5.
    """

    algorithm = "iterative_ppo"
    settings_class = IterativePPOSettings
    state_attributes = (*PPO.state_attributes, "asked")

    settings: IterativePPOSettings
    reward_model: RewardModel

    def __init__(
        self, task: Task, settings: IterativePPOSettings, *, seed: int = 0, device: str = "cpu"
    ) -> None:
        super().__init__(task, settings, seed=seed, device=device)
        if not isinstance(self.reward_model, RewardModel):
            raise ValueError(f"reward must be a reward model, which can be trained, got {self.reward.name!r}")
        self.asked = SampledPairs(None)

    def step(self, number: int) -> dict[str, Any]:
        refresh = self.refresh(number) if number % self.settings.refresh_every == 0 else {}
        metrics = super().step(number)
        return metrics | refresh | {"tokens": metrics["tokens"] + refresh.get("tokens", 0)}

    def refresh(self, number: int) -> dict[str, Any]:
        """Ask for preferences between completions of the policy, and train the reward model on them."""
        s, old = self.settings, self.asked.pairs
        new, tokens = self.ask(number)
        metrics = {"tokens": tokens, "fresh_accuracy": self.accuracy(new)}
        keep = [new] if old is None else [old, new]
        sides = ([getattr(pairs, side) for pairs in keep] for side in ("chosen", "rejected"))
        self.asked.pairs = pairs = Pairs(*map(Completions.join, sides))
        settings = RewardSettings(
            updates=s.reward_model_epochs * -(-len(pairs) // s.reward_model_batch_size),
            lr=s.reward_model_lr,
            warmup=0,
            batch_size=s.reward_model_batch_size,
            pooling=self.reward_model.pooling,
            eval_pairs=0,
            micro_batch_size=s.micro_batch_size,
        )
        task = Task(self.reward_model.requires_grad_(True), self.tokenizer, pairs)
        seed = stream(self.seed, f"lesson {number}")
        stage = RewardModelling(task, settings, seed=seed, device=self.device)
        for k in range(settings.updates):
            stage.set_lr(k)
            stage.step(k)
        stage.before_save()  # centres the rewards
        self.reward_model.requires_grad_(False)
        return metrics | {"fresh_accuracy_after": self.accuracy(new), "preferences": len(pairs)}

    @torch.no_grad()
    def ask(self, number: int) -> tuple[Pairs, int]:
        """Preferences between completions of the current policy, and the number of their tokens."""
        s = self.settings
        prompt_rows = torch.randint(
            len(self.prompts), (s.pairs,), generator=self.generator, device=self.device
        )
        sides: tuple[list[Completions], list[Completions]] = ([], [])
        for rows in prompt_rows.split(EVAL_BATCH_SIZE):
            prompts = self.prompts.select(rows.cpu())
            for side, temperature in zip(sides, s.temperatures, strict=True):
                side.append(self.generate(self.model, prompts, temperature))
        first, second = (take_rows(Completions.join(side), torch.arange(s.pairs)) for side in sides)
        tokens = int(first.mask.sum() + second.mask.sum())
        seed = stream(self.seed, f"preferences {number}")
        return self.task.data.prefer(first, second, noise=s.noise, seed=seed), tokens

    def accuracy(self, pairs: Pairs) -> float:
        """The share of pairs whose chosen completion has the larger reward; a tie counts half."""
        rows = self.micro_batch(EVAL_BATCH_SIZE)
        chosen, rejected = (
            reward.pooled_rewards(self.reward_model, side, rows) for side in (pairs.chosen, pairs.rejected)
        )
        return (0.5 + 0.5 * (chosen - rejected).sign()).mean().item()


class LaggedGRPO(GRPO):
    """GRPO on completions of the policy as it was k updates ago. Options: `LaggedGRPOSettings`.

        θ_n: the weights at the start of update n
        sample from π_μ, μ = θ_{n−k} (θ_0 in the first k updates), and score, as in GRPO
        gradient steps with the ratio

            ρ_t = π_θ / π_μ            corrected: the clip keeps π_θ close to π_μ
            ρ_t = π_θ / π_{θ_n}        not corrected: starts at 1, as if π_{θ_n} had sampled
            ρ_t = π_θ / π_{θ_n}, and Â_t times min(π_{θ_n} / π_μ, C)           `max_weight`: both

    So it goes where some machines sample while others train. The ratio to the sampler corrects for the choice
    of the next token, not for the states before it nor for the rewards, which are of completions by π_μ. As
    it both corrects and is clipped, with a long lag tokens are clipped that this update has not changed yet;
    the third form separates the two roles.

    **Metrics.** `lag_kl` is KL(π_μ, π_{θ_n}) per token, by k3. reward, kl_reference and so on are of π_μ.

    References
    ----------
    Noukhovitch et al. 2024, "Asynchronous RLHF: faster and more efficient off-policy RL for language models".
    The two roles: Hilton, Cobbe and Schulman 2021, "Batch size-invariance for policy
    optimization". A truncated weight: Espeholt et al. 2018, "IMPALA: scalable distributed deep-RL with
    importance weighted actor-learner architectures"; for language models Yao et al. 2025, "Your efficient RL
    framework secretly brings you off-policy RL training".
    """

    algorithm = "lagged_grpo"
    settings_class = LaggedGRPOSettings
    state_attributes = (*GRPO.state_attributes, "sampler", "past")

    settings: LaggedGRPOSettings

    def __init__(
        self, task: Task, settings: LaggedGRPOSettings, *, seed: int = 0, device: str = "cpu"
    ) -> None:
        super().__init__(task, settings, seed=seed, device=device)
        if settings.max_weight is not None and settings.corrected:
            raise ValueError("corrected must be False with max_weight, got True")
        if settings.max_weight is not None and settings.surrogate == "sequence":
            raise ValueError("surrogate must be 'clip' or 'cispo' with max_weight, got 'sequence'")
        self.sampler = copy.deepcopy(self.model).requires_grad_(False)
        self.past: list[dict[str, Tensor]] = []  # the weights of earlier updates, oldest first

    def step(self, number: int) -> dict[str, Any]:
        self.past = [*self.past, copy.deepcopy(self.model.state_dict())]
        if len(self.past) > self.settings.lag:
            self.sampler.load_state_dict(self.past[0])
            self.past = self.past[1:]
        return super().step(number)

    def sample(self, prompts: Prompts) -> Completions:
        """One completion of each prompt by the sampler, with its log-probabilities."""
        return self.generate(self.sampler, prompts, self.settings.temperature)

    def make_experience(self, number: int) -> tuple[grpo.Experience | None, dict[str, Any]]:
        s = self.settings
        experience, metrics = super().make_experience(number)
        if experience is None:
            return None, metrics
        completions, advantages = experience.completions, experience.advantages
        mask, sampler_logp = completions.mask, completions.logp  # log π_μ
        logp = self.compute_logp(self.model, completions)  # log π_{θ_n}
        metrics["lag_kl"] = divergences.k3(sampler_logp[mask], logp[mask]).mean().item()
        if s.corrected:
            return experience, metrics
        if s.max_weight is not None:
            advantages = advantages * (logp - sampler_logp).exp().clamp(max=s.max_weight)
        completions = replace(completions, logp=logp)
        return replace(experience, completions=completions, advantages=advantages), metrics
