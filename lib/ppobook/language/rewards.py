"""Where rewards come from: the world's formula, a reward model, or a function of yours.

A function takes lists of texts, as TRL's do, and returns a number each::

    def short(prompts, completions, **columns):
        return [-len(text.split()) for text in completions]

Columns of the data beside the prompt are handed on by their names, a value a completion. Special tokens that
a policy says stand in the texts, but for padding and the end; TRL leaves all of them out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence, Set
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
    """Completions in, a number each out."""

    @property
    def name(self) -> str:
        """For a config: "gold", "reward_model", or "function short"."""

    @property
    def module(self) -> nn.Module | None:
        """The network behind it, for a checkpoint."""

    def __call__(self, completions: Completions, columns: Columns) -> Tensor:
        """The reward of each completion, [B], float32, on their device."""


class RewardModel(Scalar):
    """A reward model: one number for a completion, from one number for each of its tokens.

    Parameters
    ----------
    body : LanguageModel
        Copied.
    pooling : str
        "sum" adds the tokens' numbers up, "last" takes that of the last token alone. What is learned about
        one kind word, a sum pays again for each further one; the last token need not. So the choice decides
        how a reward model goes wrong far from its data, and not only how well it fits them.
    bias : bool
        Whether a constant is added to each number.

    Attributes
    ----------
    zero : tensor, scalar
        What is subtracted from each completion's reward: a model that has learned from comparisons has no
        zero of its own. 0, until somebody sets it.
    """

    zero: Tensor

    def __init__(self, body: Any, pooling: str = "sum", bias: bool = True) -> None:
        super().__init__(body, bias)
        self.pooling = validation.choice("pooling", pooling, POOLINGS)
        self.register_buffer("zero", self.output.weight.new_zeros(()))

    def rewards(self, completions: Completions) -> Tensor:
        """The reward of each completion, [B], with a gradient."""
        return self.pooled(completions) - self.zero

    def pooled(self, completions: Completions) -> Tensor:
        """The same before `zero` is subtracted."""
        numbers = completion_values(self, completions)[:, 1:].masked_fill(~completions.mask, 0.0)
        if self.pooling == "sum":
            return numbers.sum(dim=1)
        return numbers.gather(1, completions.last[:, None]).squeeze(1)


class GoldReward:
    """The world's true reward."""

    name = "gold"
    module = None

    def __init__(self, world: World) -> None:
        self.world = world

    def __call__(self, completions: Completions, columns: Columns) -> Tensor:
        return self.world.gold(completions)


class LearnedReward:
    """What a reward model says."""

    name = "reward_model"

    def __init__(self, reward_model: RewardModel) -> None:
        self.module = reward_model.eval().requires_grad_(False)

    @torch.no_grad()
    def __call__(self, completions: Completions, columns: Columns) -> Tensor:
        return self.module.rewards(completions).float()


class FunctionReward:
    """What a function of texts says, after a door."""

    module = None

    def __init__(self, function: Callable[..., Any], tokenizer: Tokenizer) -> None:
        self.function = function
        self.tokenizer = tokenizer
        # No function is taken for the world's reward on account of what it is called.
        self.name = f"function {getattr(function, '__name__', type(function).__name__)}"
        try:
            taken = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):  # some that are written in C don't say
            taken = [inspect.Parameter("columns", inspect.Parameter.VAR_KEYWORD)]
        # A function that names what it takes is not handed what it does not name.
        self.takes_all = any(p.kind is p.VAR_KEYWORD for p in taken)
        self.takes = [p.name for p in taken if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self.needs = [p.name for p in taken if p.default is p.empty and p.name in self.takes]

    def __call__(self, completions: Completions, columns: Columns) -> Tensor:
        known: dict[str, Any] = {
            **columns,
            "prompts": completions.prompt_texts(self.tokenizer),
            "completions": completions.texts(self.tokenizer),
        }
        for name in self.needs:
            if name not in known:
                raise TypeError(
                    f"reward {self.name} takes {name!r}; a function of what there is, "
                    f"{', '.join(map(repr, sorted(known)))}, is wanted"
                )
        given = {name: x for name, x in known.items() if self.takes_all or name in self.takes}
        answer = self.function(**given)
        return numbers_of(self.name, answer, len(completions)).to(completions.tokens.device)


def numbers_of(name: str, answer: Any, n: int) -> Tensor:
    """What a reward function returned, as a tensor of n finite numbers.

    Raises
    ------
    ValueError, TypeError
        Not n of them, or one that is no finite number, in float32; the sentence names the function.
    """
    try:
        if isinstance(answer, str | Mapping | Set):  # whose entries are no numbers, or in no order
            raise TypeError
        given = list(answer)
    except (TypeError, ValueError, RuntimeError):
        what = type(answer).__name__
        raise TypeError(f"reward {name} returned a {what}; a list of {n} numbers is wanted") from None
    listed: list[float] = []
    for i, x in enumerate(given):
        try:
            listed.append(float(x))
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"reward {name} returned {x!r} for completion {i}; a number is wanted") from None
    if len(listed) != n:
        raise ValueError(f"reward {name} returned {len(listed)} numbers; {n} are wanted, one a completion")
    rewards = torch.tensor(listed, dtype=torch.float32)
    for i in (~torch.isfinite(rewards)).nonzero():
        raise ValueError(
            f"reward {name} returned {listed[int(i)]} for completion {int(i)}; finite numbers are wanted"
        )
    return rewards


def open_reward(reward: Any, tokenizer: Tokenizer, world: World | None) -> Reward:
    """What a user gave as reward, as a `Reward`.

    Parameters
    ----------
    reward : "gold", RewardModel, or function

    Raises
    ------
    ValueError, TypeError
        "gold" without a world; something of another kind.
    """
    if isinstance(reward, GoldReward | LearnedReward | FunctionReward):
        return reward
    if isinstance(reward, RewardModel):
        return LearnedReward(reward)
    if isinstance(reward, str) and reward == "gold":
        if world is None:
            raise ValueError("reward is 'gold', and the data are no World; only a World has a true reward")
        return GoldReward(world)
    if callable(reward) and not isinstance(reward, nn.Module):
        return FunctionReward(reward, tokenizer)
    raise TypeError(
        f"reward is of type {type(reward).__name__}; a run of 'reward', its folder, 'gold', or a function of "
        "prompts and completions is wanted"
    )
