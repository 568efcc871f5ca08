"""The base of the stages that train on their own samples: PPO, GRPO and the online algorithms.

    prompts of this update                   draw_prompts
    completions y ~ π_old, log π_old         sample
    rewards R(x, y)                          score, apply_truncation_penalty
    log π_ref of each token                  reference_logp
    metrics of the batch                     metrics
    one gradient step on a minibatch         minibatch_step

A stage extends `Sampling` and writes `step`, `forward` and `loss`. Tokens are sampled at `temperature`, and
ratio, entropy and KL are those of that distribution, and the reference's at the same temperature.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor

from ppobook import divergences
from ppobook.language import parallel
from ppobook.language.data import Batches, Prompts, part_of, prompts_of, take_rows
from ppobook.language.generation import generate
from ppobook.language.model import LanguageModel
from ppobook.language.rewards import GoldReward, Reward
from ppobook.language.settings import MAX_NEW_TOKENS, SamplingSettings
from ppobook.language.stage import Stage, Task
from ppobook.language.tokens import Completions, completion_logits, token_logp

KL_ESTIMATORS = {"k1": divergences.k1, "k2": divergences.k2, "k3": divergences.k3}


@dataclass
class Experience:
    """A batch of B completions, with log π_old, and what the loss reads of them: [B, T], undefined at
    padding."""

    completions: Completions
    ref_logp: Tensor
    advantages: Tensor

    def __len__(self) -> int:
        return len(self.completions)

    def select(self, rows: Tensor) -> Self:
        """Some rows, without the columns that are padding in all of them."""
        completions = take_rows(self.completions, rows, str(rows.device))
        width = completions.tokens.shape[1]
        others = (f.name for f in fields(self) if f.name != "completions")
        return type(self)(completions, **{name: getattr(self, name)[rows, :width] for name in others})


class Sampling(Stage):
    """A stage that trains on completions sampled from its own model.

    Attributes
    ----------
    reference : torch module
        π_ref, frozen.
    reward : Reward
    reward_model : torch module or None
        The network behind the reward, if there is one; a checkpoint contains it.
    prompts : Prompts
        All prompts of the data.
    rows_per_prompt : int
        Number of consecutive completions that share a prompt; one process samples and scores all of them.
    """

    settings_class = SamplingSettings
    state_attributes = (*Stage.state_attributes, "reference", "reward_model")
    wants_reward = True
    wants_reference = True

    def __init__(self, task: Task, settings: Any, *, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(task, settings, seed=seed, device=device)
        self.rows_per_prompt: int = getattr(settings, "group_size", 1)
        if settings.batch_size % self.rows_per_prompt:
            raise ValueError(
                f"batch_size must be a multiple of group_size, {self.rows_per_prompt}, "
                f"got {settings.batch_size}"
            )
        self.reference = task.reference
        self.reward: Reward = task.reward  # type: ignore[assignment]  # one is opened for each that wants it
        self.reward_model = self.reward.module
        self.prompts: Prompts = prompts_of(task.data, task.tokenizer)
        models = self.model, self.reference, self.reward_model
        self.max_new_tokens: int = settings.max_new_tokens or (
            default_max_new_tokens(self.prompts, models) if task.world is None else task.world.max_new_tokens
        )
        room = _room(self.prompts, models)
        if self.max_new_tokens > room:
            raise ValueError(
                f"max_new_tokens must be at most {room}, what the longest prompt leaves of the "
                f"context, got {self.max_new_tokens}"
            )

    def draw_prompts(self, number: int, n: int) -> Prompts:
        """The n prompts of an update. Each is drawn once before any is drawn again."""
        return self.prompts.select(Batches(len(self.prompts), n, self.seed).rows(number))

    def sample(self, prompts: Prompts) -> Completions:
        """One completion of each prompt by the current policy, with log π_old of each token."""
        return self.generate(self.model, prompts, self.settings.temperature)

    def generate(self, model: LanguageModel, prompts: Prompts, temperature: float) -> Completions:
        """One completion of each prompt by a model.

        Every process draws the random numbers of all rows, so the completions do not depend on how rows are
        shared.
        """
        tokens, mask = prompts.tokens.to(self.device), prompts.mask.to(self.device)
        shape = len(tokens), self.max_new_tokens
        numbers = torch.rand(shape, generator=self.generator, dtype=torch.float64, device=self.device)

        def generate_rows(rows: Tensor) -> Completions:
            return generate(
                model,
                tokens[rows],
                mask[rows],
                self.max_new_tokens,
                temperature=temperature,
                numbers=numbers[rows],
            )

        at_once = self.settings.generation_rows
        parts = self.map_rows(len(tokens), generate_rows, at_once=at_once, together=self.rows_per_prompt)
        return Completions.join(parts)

    def score(self, completions: Completions, columns: Mapping[str, Sequence[Any]]) -> Tensor:
        """The reward of each completion, [B], before KL and truncation penalties.

        A reward function is called once with all rows of its process, never with a part of a prompt's group.
        """
        mine = parallel.share(len(completions), self.rows_per_prompt)
        at_once = None if self.reward_model is None else self.settings.micro_batch_size
        rewards = []
        with parallel.raised_in_all():
            for rows in mine.split(at_once or len(completions)) if len(mine) else ():
                selected = {name: [column[i] for i in rows.tolist()] for name, column in columns.items()}
                some = part_of(completions, rows.to(self.device), self.device)
                rewards.append(self.reward(some, selected))
        return torch.cat(parallel.joined(rewards, self.device))

    def apply_truncation_penalty(self, completions: Completions, rewards: Tensor) -> Tensor:
        """Rewards [B], less `missing_eos_penalty` for truncated completions if truncation="penalty"."""
        if self.settings.truncation != "penalty":
            return rewards
        return rewards - self.settings.missing_eos_penalty * (~completions.ended).to(rewards.dtype)

    def reference_logp(self, completions: Completions) -> Tensor:
        """log π_ref of each token, [B, T], 0 at padding."""
        return self.compute_logp(self.reference, completions)

    def compute_logp(self, model: LanguageModel, completions: Completions) -> Tensor:
        """log π of each token under a model, [B, T], 0 at padding, without gradient."""

        def logp(batch: Completions) -> Tensor:
            logits = completion_logits(model, batch)
            return token_logp(logits, batch.tokens, self.settings.temperature, mask=batch.mask)

        return self.map_batches(logp, completions)

    def metrics(self, completions: Completions, rewards: Tensor, ref_logp: Tensor) -> dict[str, Any]:
        """Metrics of a sampled batch.

        tokens, their number; reward (before penalties) and reward_std over completions; gold, if there is a
        world; kl_reference, log π_old − log π_ref summed over a completion's tokens (k1), averaged over
        completions; length; ended, the share of completions that end with an end of sequence.
        """
        world = self.task.world
        log_ratio = (completions.logp - ref_logp).sum(dim=1)  # both are 0 at padding
        row = {
            "tokens": int(completions.mask.sum()),
            "reward": rewards.mean().item(),
            "reward_std": rewards.std(correction=0).item(),
        }
        if world is not None:
            known = isinstance(self.reward, GoldReward)
            row["gold"] = (rewards if known else world.gold(completions)).mean().item()
        return row | {
            "kl_reference": log_ratio.mean().item(),
            "length": completions.lengths.float().mean().item(),
            "ended": completions.ended.float().mean().item(),
        }

    # ------------------------------------------------------------------------------- the gradient step

    def loss_weight(self, batch: Any) -> int:
        """The number of entries that the loss of a batch is a mean over: its tokens or its rows."""
        return int(batch.completions.mask.sum()) if self.settings.reduction == "token" else len(batch)

    def minibatch_step(self, minibatch: Any) -> dict[str, Any]:
        """One gradient step on the loss of a minibatch. Returns the loss, its metrics and grad_norm."""
        rows = torch.arange(len(minibatch), device=self.device)
        return self.learn(rows, select=minibatch.select)  # forward, loss, gradient step


def default_max_new_tokens(prompts: Prompts, models: Sequence[Any]) -> int:
    """The default of max_new_tokens: MAX_NEW_TOKENS, or what the contexts of the models leave."""
    return min(MAX_NEW_TOKENS, _room(prompts, models))


def _room(prompts: Prompts, models: Sequence[Any]) -> int:
    """Room that the longest prompt leaves in the shortest context of the models that have one."""
    longest = int(prompts.mask.sum(dim=1).max())
    context = min(getattr(getattr(model, "body", model), "context", sys.maxsize) for model in models)
    if longest >= context:
        raise ValueError(f"prompts must be shorter than the context, {context} tokens, got one of {longest}")
    return context - longest


def kl_estimate(
    estimator: str,
    logp: Tensor,
    ref_logp: Tensor,
    old_logp: Tensor | None = None,
    *,
    mask: Tensor | None = None,
) -> Tensor:
    """An estimate of KL(π, π_ref) from each token, [B, T]; with a gradient, if logp has one.

        k1 = log π − log π_ref        k2 = ½ k1²        k3 = π_ref/π − 1 + k1
        with old_logp, each times the ratio π / π_old, through which there is a gradient as well

    The *values* of k1 and k3 are right on average. With π the policy being trained, the *gradient* is on
    average that of

    =========  ==================  ================================
    estimator  with the ratio      without, on tokens drawn from π
    =========  ==================  ================================
    k1         KL(π, π_ref)        a constant: nothing happens
    k2         E_π[k2], no KL      KL(π, π_ref)
    k3         KL(π, π_ref)        KL(π_ref, π), the other way round
    =========  ==================  ================================

    As a *reward*, where no gradient flows through the number, k1 is right and the others are not: k3 there
    leads down KL(π, π_ref) − KL(π_ref, π). Each is the KL of the next token in the state that was met; only
    as a reward does it reach the tokens before, by the advantages.

    Parameters
    ----------
    estimator : "k1", "k2" or "k3"
    logp, ref_logp : tensors of one shape
    old_logp : tensor, the shape of logp, optional
        Detached inside.
    mask : bool, the shape of logp, optional
        Elsewhere the result is 0, and what stands there is not read.

    References
    ----------
    Schulman 2020, "Approximating KL divergence". Tang and Munos 2025, "On a few pitfalls in KL divergence
    gradient estimation for RL". Liu et al. 2025, "Rethinking KL regularization in RLHF: from value estimation
    to gradient optimization".
    """
    estimate = KL_ESTIMATORS[estimator]
    weight = None if old_logp is None else logp - old_logp.detach()
    if mask is not None:
        # Before any arithmetic: a NaN in the padding would reach the gradient as 0 · NaN.
        logp, ref_logp = (torch.where(mask, x, 0.0) for x in (logp, ref_logp))
        weight = None if weight is None else torch.where(mask, weight, 0.0)
    kl: Tensor = estimate(logp, ref_logp)
    return kl if weight is None else weight.exp() * kl
