"""GRPO: several completions of each prompt, and their own mean in the place of a critic.

    repeat
        sample G completions y_1 … y_G of each prompt x with π_old; note log π_old of each of their tokens
        score the whole of each: R_i = R(x, y_i)
        advantage of each token of y_i     Â_i = (R_i − mean(R_1 … R_G)) / std(R_1 … R_G)
        for each of K epochs, for each minibatch of whole groups, in a random order
            ρ_it = π_θ(y_it | x, y_i,<t) / π_old(y_it | x, y_i,<t)
            step up   mean over i of  1/|y_i| Σ_t [ min(ρ_it Â_i, clip(ρ_it, 1 − ε, 1 + ε) Â_i) − β k3_it ]

        k3_it = π_ref / π_θ − 1 − log(π_ref / π_θ)     at y_it: an estimate of KL(π_θ, π_ref)

A critic predicts what a prompt is worth, and is wrong at first. The mean of G completions is right at once,
but costs G completions, and knows nothing of how one of them is going: all its tokens get the same advantage.

Shao et al. 2024, "DeepSeekMath: pushing the limits of mathematical reasoning in open language models",
section 4.1.1, equations 3 and 4; the advantages: section 4.1.2. What others have made of it are the rows of
`variants`: each is GRPO with a few settings changed, and each setting can be changed alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from ppobook import validation
from ppobook.diagnostics import clip_range, normalize, ratio_means
from ppobook.language.sampling import Experience, Sampling, kl_estimate
from ppobook.language.settings import BASELINES, PAPERS, SCALES, VARIANTS, GRPOSettings
from ppobook.language.stage import Task
from ppobook.language.tokens import Completions, completion_logits, token_entropy, token_logp
from ppobook.objectives import (
    cispo_loss,
    clipped_surrogate_loss,
    masked_mean,
    sequence_surrogate_loss,
)


def variants() -> pd.DataFrame:
    """What each variant sets: one row a variant, one column a setting that any of them changes.

    dr_grpo
        The deviation divides a group by how much it disagrees, and 1/|y| a token by how many others there
        are; both make some completions count more than others. Neither is divided by; a constant is.
    dapo
        Each token counts alike; ratios may rise further than they may fall; groups that all got the same
        reward teach nothing, and are replaced by others; what comes near the limit of length is worth less.
    gspo
        One ratio for the whole, since the reward is for the whole.
    cispo
        The clip bounds the weight of a token, and silences none. The paper does not say where; 4 is the bound
        of 5 that TRL recommends, and a lower bound of 1 − 1 = 0 is none.
    rloo
        REINFORCE: each completion against the mean of the *others*, which no longer depends on it; the KL is
        part of the reward; one step, in which the ratio is 1. The loss is minus log π(y | x) Â of whole
        completions, so their tokens are summed.
    reinforce++
        One completion of each prompt: no group. What later tokens cost in KL is taken off each token's
        advantage; then all advantages of the batch are brought to mean 0 and deviation 1.
    reinforce++_baseline
        A group again, for its mean; the deviation is the batch's; the KL is in the loss, as k2.

    Returns
    -------
    DataFrame
        Indexed by the variant's name; the last column is its paper.
    """
    names = [name for name in GRPOSettings.__dataclass_fields__ if any(name in v for v in VARIANTS.values())]
    made = {variant: GRPOSettings.make("grpo", {"variant": variant}, {}) for variant in VARIANTS}
    rows = [
        {name: getattr(settings, name) for name in names} | {"paper": PAPERS[variant]}
        for variant, settings in made.items()
    ]
    return pd.DataFrame(rows, index=pd.Index(made, name="variant"), dtype=object)


# ----------------------------------------------------------------------------------------- the advantages


def group_advantages(
    rewards: Tensor, group_size: int, *, baseline: str = "group", scale: str = "group", eps: float = 1e-4
) -> Tensor:
    """How much better each completion is than others of its prompt.

        Â_i = (R_i − b_i) / (s_i + eps)

        b_i   group: the mean of its group's rewards, its own among them
              leave_one_out: the mean of the other G − 1
              batch: the mean of all
        s_i   group: the deviation of its group's rewards      batch: that of all
              none: Â_i = R_i − b_i

    Deviations have n − 1 below. A group whose rewards are all equal has nothing to say, and gets exactly 0:
    no rounding is divided by eps. Only with baseline="batch", and a scale that is not the group's, is it
    compared with other groups.

    **What is right on average.** The leave-one-out baseline does not depend on what it is taken off, so
    Â_i ∇ log π(y_i), on average over samples of π, is the gradient of the expected reward. A group's mean has
    a G-th part of R_i in it; R_i − mean is (G − 1)/G of the leave-one-out advantage, and so is its gradient.
    Dividing by the group's deviation is another matter: it weighs prompts by how far their completions
    disagree, and no reward has that gradient in general.

    Parameters
    ----------
    rewards : tensor, shape (B,)
        The completions of one prompt stand side by side: the first group_size, then the next.
    group_size : int
        How many completions a prompt has, G; B is a multiple of it.
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
    ValueError, TypeError
        Rewards that are not one finite number a completion, or not whole groups; an unknown name; a single
        completion where it would have to be compared with others.

    References
    ----------
    Shao et al. 2024, "DeepSeekMath", section 4.1.2. Kool et al. 2019, "Buy 4 REINFORCE samples, get a
    baseline for free!", for leave_one_out. TRL 1.16's scale_rewards has the same names, n − 1 and eps.
    """
    rewards = validation.tensor("rewards", rewards).detach()
    group_size = validation.count("group_size", group_size)
    validation.choice("baseline", baseline, BASELINES)
    validation.choice("scale", scale, SCALES)
    eps = validation.number("eps", eps, low=0)
    if rewards.ndim != 1 or len(rewards) == 0 or len(rewards) % group_size:
        raise ValueError(
            f"rewards has shape {tuple(rewards.shape)} and group_size is {group_size}; one number a "
            "completion, and whole groups of them, are wanted"
        )
    validation.finite("rewards", rewards)
    if group_size == 1 and (baseline != "batch" or scale == "group"):
        name = "baseline" if baseline != "batch" else "scale"
        raise ValueError(
            f"group_size is 1, and {name} is {baseline if name == 'baseline' else scale!r}; at least 2 are "
            "wanted, for a completion alone has nothing to be compared with"
        )
    if len(rewards) == 1:
        raise ValueError("rewards has a single entry; at least 2 are wanted, to be compared")

    groups = rewards.view(-1, group_size)
    whole = rewards.expand(1, -1)
    means = (whole if baseline == "batch" else groups).mean(dim=1, keepdim=True)
    advantages = groups - means
    if baseline == "leave_one_out":
        # R_i − Σ_{j ≠ i} R_j / (G − 1), without taking each one out of the sum.
        advantages = advantages * (group_size / (group_size - 1))
    if scale != "none":
        advantages = advantages / ((whole if scale == "batch" else groups).std(dim=1, keepdim=True) + eps)
    compared = whole if baseline == "batch" and scale != "group" else groups
    return advantages.masked_fill(_all_equal(compared), 0.0).view(-1)


def _all_equal(rows: Tensor) -> Tensor:
    """Whether a row holds one number only, [rows, 1]."""
    return (rows == rows[:, :1]).all(dim=1, keepdim=True)


# ----------------------------------------------------------------------------------------------- the stage


class GRPO(Sampling):
    """Group relative policy optimization, and its variants, as `GRPOSettings` describe them.

    **There is no critic.** All tokens of a completion share its advantage, but for `kl_in="to_go"`.

    **The KL** to the reference stands in the loss by default, as k3 without the ratio. Its *value* is right
    on average; its gradient is that of KL(π_ref, π) and not of KL(π, π_ref), and charges each token for its
    own state only (`ppobook.language.sampling.kl_estimate`). k2, or `kl_weighted=True`, or `kl_in="reward"`
    with k1 lead down the KL itself. β is in units of the advantage there, and in units of the reward in the
    other two places: with `scale="group"` a β is as strong where rewards are large as where they are small.

    **Groups whose rewards are all equal** teach nothing: their advantages are 0. `dead_groups` is their share
    of those sampled, by the rewards as they were given, before any penalty. `filter_groups` leaves them out
    and samples further prompts in their place, at most `max_rounds` times for one update; then it is made
    from the groups there are, and from none, not at all.

    **A completion truncated** at `max_new_tokens` counts as one that ended there; `truncation="penalty"`
    subtracts `missing_eos_penalty` from its reward.

    **What the history says.** reward, kl_reference, length and the like are of everything that was sampled,
    before groups are left out. loss, policy_loss, entropy, the ratio's figures and grad_norm are means over
    all gradient steps of the update; clip_fraction and ratio are of whole sequences with
    `surrogate="sequence"`; flat_fraction is 0 with "cispo", which silences nothing.

    **Differences to TRL 1.16**, whose loss_type, scale_rewards and importance_sampling_level these settings
    match; kl_weighted is its use_bias_correction_kl, which is True there by default. On one minibatch the
    losses are the same; but its beta is 0 by default, and

    - it weighs a token's KL by the ratio of its sequence where GSPO has one, and not by the token's own;
    - its advantages in a group whose rewards agree are roundings over 1e-4, and here 0;
    - its dr_grpo divides by the group's deviation, unless scale_rewards is "none" as well;
    - its dapo and cispo divide by the tokens of the whole batch, so that a minibatch of long completions
      takes a longer step; here each minibatch is its own mean (there: bnpo). There is no dynamic sampling,
      and the punishment of length is a reward function;
    - its epsilon_high of cispo is the bound itself, 1 more than here;
    - its RLOOTrainer has one ratio of whole completions, π_θ(y | x) / π_old(y | x), which like the tokens' is
      1 in RLOO's single step;
    - its normalize_advantages, there for reinforce++, is over completions and not over tokens, and what it
      takes off for the KL is the whole completion's and not that to come.
    """

    algorithm = "grpo"
    settings_class = GRPOSettings
    state_attributes = (*Sampling.state_attributes, "rounds")

    settings: GRPOSettings

    def __init__(self, task: Task, settings: GRPOSettings, *, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(task, settings, seed=seed, device=device)
        s = settings
        if s.batch_size % s.group_size:
            raise ValueError(
                f"batch_size is {s.batch_size} and group_size is {s.group_size}; a multiple of it is wanted"
            )
        self.groups, self.together = s.batch_size // s.group_size, s.group_size
        if s.num_minibatches > self.groups:
            raise ValueError(
                f"num_minibatches is {s.num_minibatches}, and batch_size {s.batch_size} with group_size "
                f"{s.group_size} makes {self.groups}; at most one part a group is wanted"
            )
        if s.surrogate == "sequence" and s.kl_in == "to_go" and s.kl_coef:
            raise ValueError(
                "kl_in is 'to_go', which gives each token an advantage of its own, and surrogate is "
                "'sequence', which has one a sequence; kl_in='reward' is wanted"
            )
        # Rewards of no meaning, to hear before any training what this baseline and scale will not do.
        self.compare(torch.zeros(s.batch_size))
        self.rounds = 0

    def step(self, number: int) -> dict[str, Any]:
        row, experience = self.gather()
        row["kl_coef"] = self.settings.kl_coef
        if experience is None:
            return row
        steps: list[dict[str, float]] = []
        for rows in self.minibatches(len(experience)):
            steps.append(
                self.learn(
                    rows,
                    part=experience.select,
                    read=self.read,
                    loss=self.loss,
                    weight=lambda some: some.weight(self.settings.reduction),
                )
            )
        return row | {name: fmean(step[name] for step in steps) for name in steps[0]}

    @torch.no_grad()
    def gather(self) -> tuple[dict[str, Any], Experience | None]:
        """A row for the history, and the groups to learn from, if there are any."""
        s = self.settings
        parts: list[Completions] = []
        scores: list[Tensor] = []
        alive = 0
        while not parts or (s.filter_groups and alive < self.groups and len(parts) < s.max_rounds):
            prompts = self.draw_prompts(self.rounds, self.groups).repeat(s.group_size)
            parts.append(self.sample(prompts))
            scores.append(self.score(parts[-1], prompts.columns))
            alive += self.groups - int(self.dead(scores[-1]).sum())
            self.rounds += 1
        completions, rewards = Completions.join(parts), torch.cat(scores)
        ref_logp = self.reference_logp(completions)

        row, dead = self.told(completions, rewards, ref_logp), self.dead(rewards)
        if s.group_size > 1:
            row["dead_groups"] = dead.float().mean().item()
        if s.filter_groups:
            row["rounds"] = len(parts)
            if alive == 0:
                return row, None
            rows = self.rows_of((~dead).nonzero()[: self.groups, 0])
            completions, rewards, ref_logp = completions.select(rows), rewards[rows], ref_logp[rows]
        return row, Experience(completions, ref_logp, self.advantages(completions, rewards, ref_logp))

    def dead(self, rewards: Tensor) -> Tensor:
        """Whether the rewards of a group are all equal, one entry a group."""
        return _all_equal(rewards.view(-1, self.settings.group_size))[:, 0]

    def advantages(self, completions: Completions, rewards: Tensor, ref_logp: Tensor) -> Tensor:
        """The advantage of each token, [B, T], 0 at padding."""
        s, mask = self.settings, completions.mask
        kl = s.kl_coef * kl_estimate(s.kl_estimator, completions.logp, ref_logp, mask=mask)
        whole = self.less_length(completions, self.less_penalty(completions, rewards.to(kl.dtype)))
        if s.kl_in == "reward":
            whole = whole - kl.sum(dim=1)
        advantages = self.compare(whole)[:, None].expand(mask.shape)
        if s.kl_in == "to_go":
            advantages = advantages - kl.flip(1).cumsum(dim=1).flip(1)
        advantages = advantages.masked_fill(~mask, 0.0)
        return normalize(advantages, mask) if s.normalize_advantages else advantages

    def compare(self, rewards: Tensor) -> Tensor:
        """`group_advantages`, as the settings have them."""
        s = self.settings
        return group_advantages(rewards, s.group_size, baseline=s.baseline, scale=s.scale)

    def less_length(self, completions: Completions, rewards: Tensor) -> Tensor:
        """Rewards after DAPO's soft punishment: it grows from 0, where the last share begins, to 1."""
        share = self.settings.overlong * self.max_new_tokens
        if share == 0:
            return rewards
        beyond = completions.lengths - (self.max_new_tokens - share)
        return rewards - (beyond / share).clamp(0, 1).to(rewards.dtype)

    def minibatches(self, completions: int) -> Iterator[Tensor]:
        """The rows of each gradient step: whole groups, in an order that is new in each epoch."""
        s, groups = self.settings, completions // self.settings.group_size
        for _ in range(s.epochs):
            order = torch.randperm(groups, generator=self.generator, device=self.device)
            for part in order.tensor_split(min(s.num_minibatches, groups)):
                yield self.rows_of(part)

    def rows_of(self, groups: Tensor) -> Tensor:
        """The numbers of the completions of some groups."""
        size = self.settings.group_size
        return (groups[:, None] * size + torch.arange(size, device=groups.device)).view(-1)

    def read(self, experience: Experience) -> dict[str, Tensor]:
        """What the policy says of the completions, [B, T] each; logp with a gradient."""
        s, completions = self.settings, experience.completions
        logits = completion_logits(self.model, completions)
        return {
            "logp": token_logp(logits, completions.tokens, s.temperature, mask=completions.mask),
            "entropy": token_entropy(logits.detach(), s.temperature),
        }

    def loss(
        self, experience: Experience, said: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """What a gradient step on these should make small, and what the history should say of it.

        `said` is what `read` says of them, if it is known.
        """
        s, completions = self.settings, experience.completions
        mask, old_logp, advantages = completions.mask, completions.logp, experience.advantages
        said = self.read(experience) if said is None else said
        logp = said["logp"]
        how: dict[str, Any] = {"mask": mask, "reduction": s.reduction}
        if s.reduction == "constant":
            how["denominator"] = len(mask) * float(s.length or self.max_new_tokens)

        if s.surrogate == "clip":
            loss = clipped_surrogate_loss(
                logp, old_logp, advantages, s.clip_eps, clip_eps_high=s.clip_eps_high, **how
            )
        elif s.surrogate == "sequence":
            loss = sequence_surrogate_loss(
                logp, old_logp, advantages[:, 0], s.clip_eps, s.clip_eps_high, **how
            )
        else:
            loss = cispo_loss(logp, old_logp, advantages, s.clip_eps_high or s.clip_eps, s.clip_eps, **how)
        diagnostics = {"policy_loss": loss.item(), **self.figures(said, experience)}
        if s.kl_in == "loss" and s.kl_coef:
            weight = old_logp if s.kl_weighted else None
            kl = kl_estimate(s.kl_estimator, logp, experience.ref_logp, weight, mask=mask)
            loss = loss + s.kl_coef * masked_mean(kl, **how)
        return loss, diagnostics

    @torch.no_grad()
    def figures(self, said: dict[str, Tensor], experience: Experience) -> dict[str, Any]:
        """The entropy, and what the ratios are."""
        s, mask = self.settings, experience.completions.mask
        low, high = clip_range(s.clip_eps, s.clip_eps_high)
        log_ratio = torch.where(mask, said["logp"] - experience.completions.logp, 0.0)
        advantages = torch.where(mask, experience.advantages, 0.0)
        found = ratio_means(log_ratio, advantages, low, high, mask)
        if s.surrogate == "sequence":
            means = log_ratio.sum(dim=1) / mask.sum(dim=1)
            found = ratio_means(means, advantages[:, 0], low, high) | {"approx_kl": found["approx_kl"]}
        if s.surrogate == "cispo":
            found["flat_fraction"] = torch.zeros(())
        return {"entropy": said["entropy"][mask].mean(), **found}
