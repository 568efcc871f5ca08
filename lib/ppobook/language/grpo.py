"""GRPO: several completions of each prompt, compared with each other; no critic.

    repeat
        sample G completions y_1 … y_G of each prompt x from π_old; store log π_old of each token
        score each completion: R_i = R(x, y_i)
        advantage of each token of y_i     Â_i = (R_i − mean(R_1 … R_G)) / std(R_1 … R_G)
        for each of K epochs, for each minibatch of whole groups, in random order
            ρ_it = π_θ(y_it | x, y_i,<t) / π_old(y_it | x, y_i,<t)
            ascend   mean over i of  1/|y_i| Σ_t [ min(ρ_it Â_i, clip(ρ_it, 1 − ε, 1 + ε) Â_i) − β k3_it ]

        k3_it = π_ref / π_θ − 1 − log(π_ref / π_θ)     at y_it: an estimate of KL(π_θ, π_ref)

A critic has to be trained before its values are right. The mean of G rewards is an unbiased baseline at once,
but costs G completions, and gives all tokens of a completion the same advantage.

Shao et al. 2024, "DeepSeekMath: pushing the limits of mathematical reasoning in open language models",
section 4.1.1, equations 3 and 4; the advantages: section 4.1.2. Later algorithms are the rows of `variants`:
each is GRPO with a few settings changed, and each of these settings can be changed by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from ppobook import validation
from ppobook.diagnostics import normalize, ratios
from ppobook.language.on_policy import Experience, Sampling, kl_estimate
from ppobook.language.settings import BASELINES, SCALES, VARIANTS, GRPOSettings
from ppobook.language.stage import Task
from ppobook.language.tokens import Completions, completion_logits, token_logp_and_entropy
from ppobook.objectives import cispo_loss, clipped_surrogate_loss, masked_mean, sequence_surrogate_loss
from ppobook.run.metrics import means


def variants() -> pd.DataFrame:
    """The settings of each variant: one row per variant, one column per setting that any of them changes.

    dr_grpo
        Divides neither by the group's standard deviation nor by 1/|y|, but by a constant.
    dapo
        Mean over tokens; a wider upper clip; groups whose rewards are all equal are replaced; a penalty near
        the maximum length.
    gspo
        One ratio per sequence, as there is one reward per sequence.
    cispo
        Clips the weight of a token instead of removing its gradient. The paper gives no bounds; the upper one
        is TRL's, 5.
    rloo
        REINFORCE with a leave-one-out baseline; the KL penalty is part of the reward; one gradient step; the
        loss sums over tokens.
    reinforce++
        One completion per prompt. The KL penalty of all later tokens is subtracted from each token's
        advantage; then the advantages of the batch are normalized.
    reinforce++_baseline
        A group's mean as the baseline, the batch's standard deviation, and the KL in the loss, as k2.

    Returns
    -------
    DataFrame
        Indexed by the variant's name; the last column is its paper.
    """
    changed = {name for variant in VARIANTS.values() for name in variant.settings}
    rows = []
    for name, variant in VARIANTS.items():
        settings = asdict(GRPOSettings.make("grpo", {"variant": name}, {}))
        rows.append({one: x for one, x in settings.items() if one in changed} | {"paper": variant.paper})
    return pd.DataFrame(rows, index=pd.Index(VARIANTS, name="variant"), dtype=object)


# ----------------------------------------------------------------------------------------- the advantages


def group_advantages(
    rewards: Tensor, group_size: int, *, baseline: str = "group", scale: str = "group", eps: float = 1e-4
) -> Tensor:
    """Compute how much better each completion is than others of its prompt.

        Â_i = (R_i − b_i) / (s_i + eps)

        b_i   group: the mean of its group's rewards, its own among them
              leave_one_out: the mean of the other G − 1
              batch: the mean of all
        s_i   group: the standard deviation of its group's rewards      batch: that of all
              none: Â_i = R_i − b_i

    Standard deviations divide by n − 1. A group whose rewards are all equal has advantages of exactly 0,
    unless it is compared with other groups, by baseline="batch" with another scale than the group's.

    With scale="none", leave_one_out gives the gradient of the expected reward on average, and the group's
    mean (G − 1)/G of it. The group's standard deviation gives that of no reward in general.

    Parameters
    ----------
    rewards : tensor, shape (B,)
        The completions of one prompt are consecutive.
    group_size : int
        G; B is a multiple of it.
    baseline : "group", "leave_one_out" or "batch"
    scale : "group", "batch" or "none"
    eps : float of at least 0
        In units of the reward.

    Returns
    -------
    tensor, shape (B,)
        Detached, in the dtype of rewards.

    Raises
    ------
    ValueError
        Rewards that are not whole groups; an unknown name; groups of one that would be compared with
        themselves.

    References
    ----------
    Shao et al. 2024, "DeepSeekMath", section 4.1.2. Kool et al. 2019, "Buy 4 REINFORCE samples, get a
    baseline for free!", for leave_one_out. TRL 1.16's scale_rewards has the same names, n − 1 and eps.
    """
    validation.choice("baseline", baseline, BASELINES)
    validation.choice("scale", scale, SCALES)
    if rewards.ndim != 1 or len(rewards) % group_size:
        raise ValueError(
            f"rewards must have one axis, and whole groups of group_size, {group_size}, "
            f"got shape {tuple(rewards.shape)}"
        )
    if group_size == 1 and (baseline != "batch" or scale == "group"):
        raise ValueError(f"group_size must be at least 2 with baseline={baseline!r}, scale={scale!r}, got 1")
    # In float64, whose rounding errors are small beside any spread of float32.
    groups = rewards.detach().double().view(-1, group_size)
    whole = groups.view(1, -1)
    rows = whole if baseline == "batch" else groups
    advantages = (rows - rows.mean(dim=1, keepdim=True)).view_as(groups)
    if baseline == "leave_one_out":
        # R_i − Σ_{j ≠ i} R_j / (G − 1), without taking each one out of the sum.
        advantages = advantages * (group_size / (group_size - 1))
    if scale != "none":
        advantages = advantages / ((whole if scale == "batch" else groups).std(dim=1, keepdim=True) + eps)
    compared = whole if baseline == "batch" and scale != "group" else groups
    return advantages.masked_fill(_all_equal(compared), 0.0).view(-1).to(rewards.dtype)


def _all_equal(rows: Tensor) -> Tensor:
    """Return which rows hold a single number throughout, [rows, 1]."""
    return (rows == rows[:, :1]).all(dim=1, keepdim=True)


# ----------------------------------------------------------------------------------------------- the stage


class GRPO(Sampling):
    """Group relative policy optimization and its variants. Options: `GRPOSettings`.

    **No critic.** All tokens of a completion have the same advantage, except with `kl_in="to_go"`.

    **KL penalty.** By default it is a term of the loss: k3 without the ratio, whose gradient is that of
    KL(π_ref, π). `kl_weighted=True` makes it that of KL(π, π_ref) for the next token
    (`ppobook.language.on_policy.kl_estimate`); `kl_in="reward"` with k1 penalizes whole completions. In the
    loss β is in units of the advantage, elsewhere in units of the reward.

    **Groups whose rewards are all equal** have advantages of 0. `dead_groups` is their share, by the rewards
    before any penalty. `filter_groups` replaces them by groups of further prompts, sampling at most
    `max_rounds` times in an update; without any group, the update is skipped.

    **Truncated completions** count as ended; `truncation="penalty"` subtracts `missing_eos_penalty` from
    their reward.

    **Metrics.** reward, kl_reference, length and so on are of all completions sampled, before groups are
    filtered. loss, policy_loss, entropy, the statistics of the ratio and grad_norm are means over all
    gradient steps of the update; with `surrogate="sequence"` clip_fraction and ratio are of whole sequences;
    flat_fraction is 0 with "cispo", whose gradient never vanishes.

    **Differences to TRL 1.16.** Its loss_type, scale_rewards and importance_sampling_level correspond to
    settings here; kl_weighted is its use_bias_correction_kl, True by default there. On one minibatch the
    losses are the same; but its beta is 0 by default, and

    - it weights a token's KL by the ratio of its sequence with GSPO, and not by the token's own;
    - its advantages in a group whose rewards agree are rounding errors over 1e-4, and 0 here;
    - its dr_grpo divides by the group's standard deviation, unless scale_rewards is "none" as well;
    - its dapo and cispo divide by the tokens of the whole batch, so that a minibatch of long completions
      takes a longer step; here each minibatch is a mean of its own (there: bnpo). There is no dynamic
      sampling, and the overlong penalty is a reward function;
    - its epsilon_high of cispo is the bound itself, 1 more than here;
    - its RLOOTrainer has one ratio of whole completions, π_θ(y | x) / π_old(y | x), which like the tokens' is
      1 in RLOO's single step;
    - its normalize_advantages, for reinforce++, is over completions and not over tokens, and subtracts the
      KL of the whole completion, not of the tokens to come.
    """

    algorithm = "grpo"
    settings_class = GRPOSettings
    state_attributes = (*Sampling.state_attributes, "rounds")

    settings: GRPOSettings

    def __init__(self, task: Task, settings: GRPOSettings, *, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(task, settings, seed=seed, device=device)
        self.groups = settings.batch_size // settings.group_size
        if settings.surrogate == "sequence" and settings.kl_in == "to_go" and settings.kl_coef:
            raise ValueError("kl_in must be 'reward' or 'loss' with surrogate='sequence', got 'to_go'")
        self.rounds = 0

    def step(self, number: int) -> dict[str, Any]:
        s = self.settings
        experience, metrics = self.make_experience(number)
        metrics["kl_coef"] = s.kl_coef
        if experience is None:
            return metrics
        steps = []
        for _ in range(s.epochs):
            for rows in self.minibatches(len(experience)):
                steps.append(self.minibatch_step(experience.select(rows)))  # forward, loss, gradient step
        return metrics | means(steps)

    def make_experience(self, number: int) -> tuple[Experience | None, dict[str, Any]]:
        """Sample and score the completions of an update. Returns them with the metrics of the batch.

        None in place of the completions if filter_groups leaves no group.
        """
        s = self.settings
        sampled: list[Completions] = []
        scored: list[Tensor] = []
        found = 0
        while not sampled or (s.filter_groups and found < self.groups and len(sampled) < s.max_rounds):
            prompts = self.draw_prompts(self.rounds, self.groups).repeat(s.group_size)
            sampled.append(self.sample(prompts))  # with log π_old
            scored.append(self.score(sampled[-1], prompts.columns))
            found += self.groups - int(self.dead_groups(scored[-1]).sum())
            self.rounds += 1
        completions, rewards = Completions.join(sampled), torch.cat(scored)
        ref_logp = self.reference_logp(completions)

        metrics, dead = self.metrics(completions, rewards, ref_logp), self.dead_groups(rewards)
        if s.group_size > 1:
            metrics["dead_groups"] = dead.float().mean().item()
        if s.filter_groups:
            metrics["rounds"] = len(sampled)
            if found == 0:
                return None, metrics
            rows = self.rows_of((~dead).nonzero()[: self.groups, 0])
            completions, rewards, ref_logp = completions.select(rows), rewards[rows], ref_logp[rows]
        advantages = self.advantages(completions, rewards, ref_logp)
        return Experience(completions, ref_logp, advantages), metrics

    def advantages(self, completions: Completions, rewards: Tensor, ref_logp: Tensor) -> Tensor:
        """The advantage of each token, [B, T], 0 at padding."""
        s, mask = self.settings, completions.mask
        kl = s.kl_coef * kl_estimate(s.kl_estimator, completions.logp, ref_logp, mask=mask)
        rewards = self.apply_truncation_penalty(completions, rewards.to(kl.dtype))
        rewards = self.apply_overlong_penalty(completions, rewards)
        if s.kl_in == "reward":  # RLOO
            rewards = rewards - kl.sum(dim=1)
        advantages = group_advantages(rewards, s.group_size, baseline=s.baseline, scale=s.scale)
        advantages = advantages[:, None].expand(mask.shape)
        if s.kl_in == "to_go":  # REINFORCE++: the KL of a token and of those after it
            advantages = advantages - kl.flip(1).cumsum(dim=1).flip(1)
        advantages = advantages.masked_fill(~mask, 0.0)
        return normalize(advantages, mask) if s.normalize_advantages else advantages

    def apply_overlong_penalty(self, completions: Completions, rewards: Tensor) -> Tensor:
        """DAPO's soft punishment: it grows from 0 to 1 over the last share `overlong` of max_new_tokens."""
        interval = self.settings.overlong * self.max_new_tokens
        if interval == 0:
            return rewards
        excess = completions.lengths - (self.max_new_tokens - interval)
        return rewards - (excess / interval).clamp(0, 1).to(rewards.dtype)

    def forward(self, batch: Experience) -> dict[str, Tensor]:
        """log π_θ, with gradient, and the policy's entropy for each token, [B, T]."""
        s, completions = self.settings, batch.completions
        logits = completion_logits(self.model, completions)
        logp, entropy = token_logp_and_entropy(
            logits, completions.tokens, s.temperature, completions.mask, entropy_gradient=False
        )
        return {"logp": logp, "entropy": entropy}

    def loss(
        self, batch: Experience, outputs: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """The surrogate loss, plus β KL with kl_in="loss"; and metrics."""
        s, completions = self.settings, batch.completions
        outputs = self.forward(batch) if outputs is None else outputs
        logp, old_logp, advantages = outputs["logp"], completions.logp, batch.advantages
        reduction = self.reduction(completions.mask)
        low, high = s.clip_eps, s.clip_eps if s.clip_eps_high is None else s.clip_eps_high

        if s.surrogate == "sequence":  # GSPO: one ratio and one advantage per sequence
            policy_loss = sequence_surrogate_loss(logp, old_logp, advantages[:, 0], low, high, **reduction)
        elif s.surrogate == "cispo":  # the policy gradient, weighted by the clipped ratio
            policy_loss = cispo_loss(logp, old_logp, advantages, high, low, **reduction)
        else:
            policy_loss = clipped_surrogate_loss(
                logp, old_logp, advantages, low, clip_eps_high=high, **reduction
            )
        metrics = {"policy_loss": policy_loss, **self.ratio_metrics(outputs, batch)}
        if s.kl_in != "loss" or s.kl_coef == 0:
            return policy_loss, metrics
        weights = old_logp if s.kl_weighted else None
        kl = kl_estimate(s.kl_estimator, logp, batch.ref_logp, weights, mask=completions.mask)
        return policy_loss + s.kl_coef * masked_mean(kl, **reduction), metrics

    def reduction(self, mask: Tensor) -> dict[str, Any]:
        """The mean over tokens, or over sequences of their means, or the sum divided by a constant."""
        s = self.settings
        reduction: dict[str, Any] = {"mask": mask, "reduction": s.reduction}
        if s.reduction == "constant":
            reduction["denominator"] = len(mask) * float(s.length or self.max_new_tokens)
        return reduction

    @torch.no_grad()
    def ratio_metrics(self, outputs: dict[str, Tensor], batch: Experience) -> dict[str, Any]:
        """The entropy and the statistics of the ratio."""
        s, mask = self.settings, batch.completions.mask
        log_ratio = outputs["logp"] - batch.completions.logp
        clip: dict[str, Any] = {"clip_eps": s.clip_eps, "clip_eps_high": s.clip_eps_high}
        metrics = ratios(log_ratio, batch.advantages, **clip, mask=mask)
        if s.surrogate == "sequence":
            means = torch.where(mask, log_ratio, 0.0).sum(dim=1) / mask.sum(dim=1)
            metrics = ratios(means, batch.advantages[:, 0], **clip) | {"approx_kl": metrics["approx_kl"]}
        if s.surrogate == "cispo":
            metrics["flat_fraction"] = torch.zeros(())
        return {"entropy": outputs["entropy"][mask].mean(), **metrics}

    # ------------------------------------------------------------------------------------- groups and rows

    def dead_groups(self, rewards: Tensor) -> Tensor:
        """Return which groups have equal rewards throughout, [groups]."""
        return _all_equal(rewards.view(-1, self.settings.group_size))[:, 0]

    def minibatches(self, completions: int) -> Iterator[Tensor]:
        """The rows of each minibatch of an epoch: whole groups, in a new random order."""
        s, groups = self.settings, completions // self.settings.group_size
        order = torch.randperm(groups, generator=self.generator, device=self.device)
        for part in order.tensor_split(min(s.num_minibatches, groups)):
            yield self.rows_of(part)

    def rows_of(self, groups: Tensor) -> Tensor:
        """The rows of the completions of some groups."""
        size = self.settings.group_size
        return (groups[:, None] * size + torch.arange(size, device=groups.device)).view(-1)
