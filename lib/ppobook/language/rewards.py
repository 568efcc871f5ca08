"""Rewards of completions: the formula of a World, a reward model, or a function of texts.

A reward function takes lists of texts, as TRL's do, and returns one number for each completion::

    def short(prompts, completions, **columns):
        return [-len(text.split()) for text in completions]

Further columns of the data are passed as keyword arguments, one value per completion. Texts contain the
special tokens that a policy generates, except padding and the end of sequence; TRL removes all of them.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.language.model import Scalar
from ppobook.language.settings import POOLINGS
from ppobook.language.tokens import Completions, Tokenizer, completion_values
from ppobook.language.world import World

Columns = Mapping[str, Sequence[Any]]


class Reward(Protocol):
    """A callable that returns the reward of each completion."""

    @property
    def name(self) -> str:
        """Its name in a config: "gold", "reward_model", or "function short"."""

    @property
    def module(self) -> nn.Module | None:
        """Its network, which becomes part of checkpoints, or None."""

    def __call__(self, completions: Completions, columns: Columns) -> Tensor:
        """The reward of each completion, [B], float32, on the same device."""


class RewardModel(Scalar):
    """A reward model: the reward of a completion, computed from one output per token.

    Parameters
    ----------
    body : LanguageModel
        Copied.
    pooling : str
        "sum" adds the outputs of all tokens, "last" takes the output of the last token, as Stiennon et al.
        2020, Ouyang et al. 2022 and TRL do. With a sum, the contribution of a word is repeated each time it
        occurs.
    bias : bool
        Of the output layer.

    Attributes
    ----------
    zero : tensor, scalar
        Subtracted from the reward of each completion, as comparisons do not determine an offset. Initially 0;
        the stage "reward" sets it (`centre`).
    """

    zero: Tensor

    def __init__(self, body: Any, pooling: str = "sum", bias: bool = True) -> None:
        super().__init__(body, bias)
        self.pooling = validation.choice("pooling", pooling, POOLINGS)
        self.register_buffer("zero", self.output.weight.new_zeros(()))

    def rewards(self, completions: Completions) -> Tensor:
        """The reward of each completion, [B], with gradient."""
        return self.pooled(completions) - self.zero

    def pooled(self, completions: Completions) -> Tensor:
        """The rewards before `zero` is subtracted, [B], with gradient."""
        outputs = completion_values(self, completions)[:, 1:].masked_fill(~completions.mask, 0.0)
        if self.pooling == "sum":
            return outputs.sum(dim=1)
        return outputs.gather(1, completions.last[:, None]).squeeze(1)


class GoldReward:
    """The true reward of a World."""

    name = "gold"
    module = None

    def __init__(self, world: World) -> None:
        self.world = world

    def __call__(self, completions: Completions, columns: Columns) -> Tensor:
        return self.world.gold(completions)


class LearnedReward:
    """The reward of a reward model."""

    name = "reward_model"

    def __init__(self, reward_model: RewardModel) -> None:
        self.module = reward_model.eval()

    @torch.no_grad()
    def __call__(self, completions: Completions, columns: Columns) -> Tensor:
        return self.module.rewards(completions).float()


class FunctionReward:
    """The reward of a function of texts, with its return value checked."""

    module = None

    def __init__(self, function: Callable[..., Any], tokenizer: Tokenizer) -> None:
        self.function = function
        self.tokenizer = tokenizer
        self.name = f"function {getattr(function, '__name__', type(function).__name__)}"
        self.place = _place_of(function)
        # Without **kwargs, a function receives only the columns that it names.
        self.takes = inspect.signature(function).parameters
        self.takes_all = any(p.kind is p.VAR_KEYWORD for p in self.takes.values())

    def __call__(self, completions: Completions, columns: Columns) -> Tensor:
        known: dict[str, Any] = {
            **columns,
            "prompts": completions.prompt_texts(self.tokenizer),
            "completions": completions.texts(self.tokenizer),
        }
        given = {name: x for name, x in known.items() if self.takes_all or name in self.takes}
        answer = self.function(**given)
        return numbers_of(self.name + self.place, answer, len(completions)).to(completions.tokens.device)


def _place_of(function: Any) -> str:
    """Return the place of a function's code, " (my_rewards.py, line 7)"; empty if it is in no file."""
    code = getattr(function, "__code__", None)
    if code is None or not os.path.exists(code.co_filename):
        return ""
    return f" ({os.path.relpath(code.co_filename)}, line {code.co_firstlineno})"


def numbers_of(name: str, answer: Any, n: int) -> Tensor:
    """The return value of a reward function as a tensor of n finite numbers."""
    if not isinstance(answer, Iterable):
        raise TypeError(f"reward {name} must return a list of {n} numbers, got {type(answer).__name__}")
    listed: list[float] = []
    for i, x in enumerate(answer):
        try:
            listed.append(float(x))
        except (TypeError, ValueError):
            raise TypeError(f"reward {name} must return numbers, got {x!r} for completion {i}") from None
    if len(listed) != n:
        raise ValueError(f"reward {name} must return {n} numbers, one per completion, got {len(listed)}")
    rewards = torch.tensor(listed, dtype=torch.float32)
    for i in (~torch.isfinite(rewards)).nonzero():
        raise ValueError(
            f"reward {name} must return finite numbers, got {listed[int(i)]} for completion {int(i)}"
        )
    return rewards


def open_reward(reward: Any, tokenizer: Tokenizer, world: World | None) -> Reward:
    """A user's argument `reward`, "gold", a RewardModel or a function, as a `Reward`."""
    if isinstance(reward, GoldReward | LearnedReward | FunctionReward):
        return reward
    if isinstance(reward, RewardModel):
        return LearnedReward(reward.requires_grad_(False))
    if isinstance(reward, str) and reward == "gold":
        if world is None:
            raise ValueError("reward must be a reward model or a function if data is not a World, got 'gold'")
        return GoldReward(world)
    if callable(reward) and not isinstance(reward, nn.Module):
        return FunctionReward(reward, tokenizer)
    raise TypeError(
        "reward must be a run of 'reward', its folder, 'gold', or a function of prompts and completions, "
        f"got {type(reward).__name__}"
    )
