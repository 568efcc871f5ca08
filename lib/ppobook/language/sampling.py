"""What all stages have in common that sample from the model which they train: PPO, GRPO and the online loops.

    prompts of this update            draw_prompts
    completions from π_old            sample
    one reward a completion           score, and less_penalty for those that were cut
    log π_ref of each token           reference_logp
    how far π is from π_ref           kl_estimate
    the row of the history            told

A stage extends `Sampling` and writes `step`. Tokens are drawn at `temperature`, and everything is a matter of
that distribution: the ratio, the entropy, and the KL, for which the reference is read at it as well. There is
no top-k or top-p in training: the ratio would compare with a policy that nothing was drawn from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor

from ppobook import divergences, validation
from ppobook.language.data import Batches, Prompts, prompts_of
from ppobook.language.model import LanguageModel, generate
from ppobook.language.rewards import GoldReward, Reward
from ppobook.language.settings import MAX_NEW_TOKENS, SamplingSettings
from ppobook.language.stage import Stage, Task
from ppobook.language.stored import part_of, take_rows
from ppobook.language.tokens import Completions, completion_logits, token_logp

KL_ESTIMATORS = {"k1": divergences.k1, "k2": divergences.k2, "k3": divergences.k3}


@dataclass
class Experience:
    """Completions, and what is to be learned from them. At padding all of it means nothing.

    Attributes
    ----------
    completions : Completions
        B of them.
    ref_logp : [B, T]
    advantages : [B, T]
    """

    completions: Completions
    ref_logp: Tensor
    advantages: Tensor

    def __len__(self) -> int:
        return len(self.completions)

    def select(self, rows: Tensor) -> Self:
        """Some of the completions, with no more columns than the longest of these needs."""
        completions = take_rows(self.completions, rows, str(rows.device))
        width = completions.tokens.shape[1]
        others = (f.name for f in fields(self) if f.name != "completions")
        return type(self)(completions, **{name: getattr(self, name)[rows, :width] for name in others})

    def weight(self, reduction: str) -> int:
        """How much of a minibatch's loss is that of these: its tokens, or its rows, as `reduction` has it."""
        return int(self.completions.mask.sum()) if reduction == "token" else len(self)


class Sampling(Stage):
    """A stage that learns from completions of its own.

    Attributes
    ----------
    reference : torch module
        π_ref, frozen.
    reward : Reward
    reward_model : torch module or None
        The network behind the reward, if there is one; kept for the checkpoint.
    prompts : Prompts
        All there are.
    max_new_tokens : int
    together : int
        So many completions side by side are of one prompt, and are sampled and scored by one process.
    """

    together = 1
    settings_class = SamplingSettings
    state_attributes = (*Stage.state_attributes, "reference", "reward_model")
    wants_reward = True
    wants_reference = True

    def __init__(self, task: Task, settings: Any, *, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(task, settings, seed=seed, device=device)
        assert task.reward is not None
        self.reference = task.reference
        self.reward: Reward = task.reward
        self.reward_model = task.reward.module
        self.prompts: Prompts = prompts_of(task.data, task.tokenizer)
        readers = {"model": self.model, "reference": self.reference, "reward": self.reward_model}
        self.max_new_tokens: int = settings.max_new_tokens or (
            room_after(self.prompts, readers) if task.world is None else task.world.max_new_tokens
        )
        longest = int(self.prompts.mask.sum(dim=1).max())
        for name, context in _contexts(readers).items():
            if longest + self.max_new_tokens > context:
                raise ValueError(
                    f"max_new_tokens is {self.max_new_tokens} and the longest prompt has {longest} tokens; "
                    f"together at most the context of {name}, {context}, are wanted"
                )

    def draw_prompts(self, number: int, n: int) -> Prompts:
        """The n prompts of an update. Each is drawn once before any is drawn again."""
        rows = Batches(len(self.prompts), n, self.seed).rows(number)
        return self.prompts.select(rows)

    def sample(self, prompts: Prompts) -> Completions:
        """A completion of each prompt by the model as it is now, with log π_old of each token."""
        return self.drawn(self.model, prompts, self.settings.temperature)

    def drawn(self, model: LanguageModel, prompts: Prompts, temperature: float) -> Completions:
        """A completion of each prompt by a model, at a temperature.

        All processes draw the random numbers of all rows. So which of them writes a row, and beside which
        others, does not change what it is.
        """
        tokens, mask = prompts.tokens.to(self.device), prompts.mask.to(self.device)
        shape = len(tokens), self.max_new_tokens
        numbers = torch.rand(shape, generator=self.generator, dtype=torch.float64, device=self.device)

        def written(rows: Tensor) -> Completions:
            return generate(
                model,
                tokens[rows],
                mask[rows],
                self.max_new_tokens,
                temperature=temperature,
                numbers=numbers[rows],
            )

        return Completions.join(self.map_rows(len(tokens), written, together=self.together))

    def score(self, completions: Completions, columns: Mapping[str, Sequence[Any]]) -> Tensor:
        """What the reward says of each completion, [B], before KL and penalty.

        A function is given all that its process has to score at once, and of a prompt's group the whole.
        """

        def scored(rows: Tensor) -> Tensor:
            some = {name: [column[i] for i in rows.tolist()] for name, column in columns.items()}
            return self.reward(part_of(completions, rows, self.device), some)

        n = len(completions)
        at_once = n if self.reward_model is None else None
        return torch.cat(self.map_rows(n, scored, at_once=at_once, together=self.together))

    def less_penalty(self, completions: Completions, rewards: Tensor) -> Tensor:
        """Rewards after `missing_eos_penalty`, where the setting `cut` asks for it."""
        if self.settings.truncation != "penalty":
            return rewards
        return rewards - self.settings.missing_eos_penalty * (~completions.ended).to(rewards.dtype)

    def reference_logp(self, completions: Completions) -> Tensor:
        """log π_ref of each token, [B, T], 0 at padding."""
        return self.logp_of(self.reference, completions)

    def logp_of(self, model: LanguageModel, completions: Completions) -> Tensor:
        """log π of each token, [B, T], 0 at padding, without a gradient."""

        def logp(some: Completions) -> Tensor:
            logits = completion_logits(model, some)
            return token_logp(logits, some.tokens, self.settings.temperature, mask=some.mask)

        return self.map_batches(logp, completions)

    def told(self, completions: Completions, rewards: Tensor, ref_logp: Tensor) -> dict[str, Any]:
        """What the history says of a batch that was sampled.

        Parameters
        ----------
        completions : Completions
        rewards : tensor, shape (B,)
            As `score` gave them.
        ref_logp : tensor, shape (B, T)

        Returns
        -------
        dict
            tokens, their number; reward, its mean over completions, and reward_std; gold, where there is a
            world; kl_reference, log π_old − log π_ref summed over each completion's tokens (k1), the mean
            over completions; length; ended, the share that ended of itself.
        """
        world = self.task.world
        of_each = (completions.logp - ref_logp).sum(dim=1)  # both are 0 at padding
        row = {
            "tokens": int(completions.mask.sum()),
            "reward": rewards.mean().item(),
            "reward_std": rewards.std(correction=0).item(),
        }
        if world is not None:
            known = isinstance(self.reward, GoldReward)
            row["gold"] = (rewards if known else world.gold(completions)).mean().item()
        return row | {
            "kl_reference": of_each.mean().item(),
            "length": completions.lengths.float().mean().item(),
            "ended": completions.ended.float().mean().item(),
        }


def room_after(prompts: Prompts, readers: Mapping[str, Any]) -> int:
    """How long a completion may be where nobody says: MAX_NEW_TOKENS, or what has room after the prompts.

    Parameters
    ----------
    prompts : Prompts
    readers : dict
        Whoever reads prompt and completion, by name; None and what has no context are left out.

    Raises
    ------
    ValueError
        A prompt that fills a context.
    """
    longest = int(prompts.mask.sum(dim=1).max())
    room = MAX_NEW_TOKENS
    for name, context in _contexts(readers).items():
        if longest >= context:
            raise ValueError(
                f"data has a prompt of {longest} tokens, and the context of {name} is {context}; a shorter "
                "prompt is wanted, after which something has room"
            )
        room = min(room, context - longest)
    return room


def _contexts(readers: Mapping[str, Any]) -> dict[str, int]:
    found = {name: getattr(getattr(model, "body", model), "context", None) for name, model in readers.items()}
    return {name: context for name, context in found.items() if context is not None}


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

    The *values* of k1 and k3 are right on average. What matters of a loss is its gradient, and there the
    three differ. With π the policy being trained, it is on average that of

    =========  ==================  ================================
    estimator  with the ratio      without, on tokens drawn from π
    =========  ==================  ================================
    k1         KL(π, π_ref)        a constant: nothing happens
    k2         E_π[k2], no KL      KL(π, π_ref)
    k3         KL(π, π_ref)        KL(π_ref, π), the other way round
    =========  ==================  ================================

    As a *reward*, where no gradient flows through the number, k1 is right and the others are not: k3 there
    leads down KL(π, π_ref) − KL(π_ref, π).

    Each is the KL of the next token in the state that was met. What a token does to the KL of *later* states
    has no part in this gradient. As a reward it has: later ones flow back through the advantages.

    Parameters
    ----------
    estimator : "k1", "k2" or "k3"
    logp, ref_logp : tensors of one shape
    old_logp : tensor, the shape of logp, optional
        Detached inside.
    mask : bool, the shape of logp, optional
        Elsewhere the result is 0, and what stands there is not read.

    Raises
    ------
    ValueError
        An unknown name, shapes that differ, a number that is not finite.

    References
    ----------
    Schulman 2020, "Approximating KL divergence". Tang and Munos 2025, "On a few pitfalls in KL divergence
    gradient estimation for RL". Liu et al. 2025, "Rethinking KL regularization in RLHF: from value estimation
    to gradient optimization".
    """
    estimate = KL_ESTIMATORS[validation.choice("kl_estimator", estimator, KL_ESTIMATORS)]
    weight = None if old_logp is None else logp - old_logp.detach()
    if mask is not None:
        # Before any arithmetic: a NaN in the padding would reach the gradient as 0 · NaN.
        logp, ref_logp = (torch.where(mask, x, 0.0) for x in (logp, ref_logp))
        weight = None if weight is None else torch.where(mask, weight, 0.0)
    kl: Tensor = estimate(logp, ref_logp)
    return kl if weight is None else weight.exp() * kl
