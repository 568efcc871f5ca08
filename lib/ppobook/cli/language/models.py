"""The models, reward models and data that the words of the command line name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ppobook.cli.parsing import MaybeFile, imported, literal

if TYPE_CHECKING:
    from ppobook.language.evaluating import Evaluation
    from ppobook.language.opening import Policy
    from ppobook.language.world import World

MaybeModel = Annotated[str | None, tyro.conf.arg(metavar="MODEL")]
MaybeSizes = Annotated[str | None, tyro.conf.arg(metavar="SIZES")]


@dataclass(frozen=True)
class Measures:
    """The measures that models are evaluated by.

    Args:
        reward_model: a run of 'reward', or MODULE:FUNCTION, for the column reward
        reference: a model, for the column kl_reference
        n: number of completions
    """

    reward_model: str | None = None
    reference: str | None = None
    n: int = 512


@dataclass(frozen=True)
class Generation:
    """Options for sampling completions.

    Args:
        data: JSONL with prompts; if left out, the run's data
        world: a World as data, as in nouns=8,places=8
        tokenizer: of a transformers model, if it is in another place
        seed: random seed of the tokens
        temperature: sampling temperature; 0 is greedy
        top_k: sample from the k most probable tokens only
        top_p: sample from the most probable tokens with this share of the probability only
        max_new_tokens: maximum length; if left out, the world's or 64
        dtype: of a transformers model: float32 or bfloat16
        device: device of the networks
        num_threads: threads of torch
    """

    data: MaybeFile = None
    world: str | None = None
    tokenizer: str | None = None
    seed: int = 0
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None
    dtype: str | None = None
    device: str = "cpu"
    num_threads: int = 1

    def sampling(self) -> dict[str, Any]:
        names = ("temperature", "top_k", "top_p", "seed", "max_new_tokens")
        return {name: getattr(self, name) for name in names}


def open_models(names: Sequence[str], how: Generation) -> list[Policy]:
    """The language models of these names."""
    from ppobook.language.opening import open_policy

    return [open_policy("model", name, how.tokenizer, how.dtype, how.device) for name in names]


def measured(policies: Sequence[Policy], by: Measures, how: Generation) -> dict[str, Evaluation]:
    """The evaluations of policies, by their names; reward model and reference are opened once."""
    from ppobook.language.evaluating import evaluate
    from ppobook.language.opening import open_reference

    data = open_data(how, policies)
    others: dict[str, Any] = {}
    if by.reward_model is not None:
        others["reward_model"] = open_reward(by.reward_model, policies)
    if by.reference is not None:
        others["reference"] = open_reference(by.reference, policies[0].tokenizer, how.dtype)
    others |= {"n": by.n, **how.sampling()}
    return {p.name: evaluate(p.model, data, tokenizer=p.tokenizer, **others) for p in policies}


def open_reward(name: str, policies: Sequence[Policy]) -> Any:
    """The reward model or the function that a name means."""
    from ppobook.language.opening import open_reward_model

    if names_function(name):
        return function_of(name)
    return open_reward_model("reward_model", name, policies[0].tokenizer)


def open_data(how: Generation, policies: Sequence[Policy]) -> Any:
    """The data to take prompts from: those that the options name, or those of the runs."""
    from ppobook.language.opening import common_data

    if how.data is not None and how.world is not None:
        raise ValueError("one of data and world must be given, got both")
    if how.data is not None:
        return how.data
    return common_data(policies) if how.world is None else world_of(how.world)


def names_function(name: Any) -> bool:
    """Tell MODULE:FUNCTION from a file or folder."""
    return isinstance(name, str) and ":" in name and not Path(name).exists()


def function_of(name: str) -> Any:
    """The reward function that my_module:short names."""
    return imported(name, "reward", "short")


def world_of(sizes: Any) -> World:
    """The World of `nouns=8,places=8`, or of a mapping in a file."""
    from ppobook.language.world import World

    return World(**sizes_in("world", sizes))


def sizes_in(option: str, text: Any) -> dict[str, Any]:
    """`nouns=8,clauses=0.5,0.5` as {"nouns": 8, "clauses": (0.5, 0.5)}."""
    if isinstance(text, dict):
        return text
    found = dict(part.partition("=")[::2] for part in re.split(r",(?=\s*[A-Za-z_]\w*=)", text))
    if not all(found.values()):
        example = "r=8,alpha=16" if option == "lora" else "nouns=8,places=8"
        raise ValueError(f"{option} must be names with numbers, as in {example}, got {text!r}")
    return {name.strip(): literal(value) for name, value in found.items()}
