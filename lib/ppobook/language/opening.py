"""TODO."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from ppobook.language.model import Decoder
from ppobook.language.registry import _name_of
from ppobook.language.rewards import RewardModel, open_reward
from ppobook.language.run import Run, _load, is_run
from ppobook.language.stage import Stage, Task
from ppobook.language.tokens import WordTokenizer
from ppobook.language.world import World
from ppobook.run.folder import RunFolder
from ppobook.run.machine import stream


def open_task(
    kind: type[Stage], given: Task, device: str, seed: int = 0, how: Mapping[str, Any] | None = None
) -> Task:
    """What a stage works with, from what the user gave: models copied, names and folders opened.

    `how` is what was asked of a transformers model, lora or dtype.
    """
    how = how or {}
    origin = _run_in("model", given.model)
    data = given.data
    if data is None and origin is not None:
        data = origin.world
    if data is None:
        raise ValueError("data is None; a World, a list of dicts, a JSONL file or a Dataset is wanted")
    world = data if isinstance(data, World) else None

    tokenizer = given.tokenizer
    if tokenizer is not None and not hasattr(tokenizer, "eos"):
        from ppobook.language import hf

        tokenizer = hf.open_tokenizer(tokenizer)
    if (
        tokenizer is not None
        and not isinstance(tokenizer, WordTokenizer)
        and not hasattr(tokenizer, "description")
    ):
        raise TypeError(
            f"tokenizer is of type {type(tokenizer).__name__}, which no checkpoint can hold; a "
            "WordTokenizer, a tokenizer of transformers, or the folder of one is wanted"
        )
    if origin is not None:
        tokenizer = origin.tokenizer if tokenizer is None else tokenizer
        model = (
            open_model(origin.model, tokenizer, world, seed, how)[0] if how else copy.deepcopy(origin.model)
        )
    elif given.model is not None:
        model, tokenizer = open_model(given.model, tokenizer, world, seed, how)
    elif world is not None and kind.starts_from_scratch and not how:
        model, tokenizer = None, world.tokenizer if tokenizer is None else tokenizer
    else:
        raise ValueError(
            f"model is None; {_name_of(kind)!r} wants a run, its folder, a Decoder or a transformers model"
        )
    if isinstance(model, RewardModel):
        if not kind.starts_from_reward_model:
            raise ValueError(f"model is a reward model; {_name_of(kind)!r} wants a language model")
        if world is not None:
            raise ValueError(
                "model is a reward model, and data is a World, whose pairs a language model samples; "
                "pairs of your own are wanted"
            )
    if world is not None:
        refuse_other_words("data", world.tokenizer, tokenizer)
    if model is not None:
        model.to(device).requires_grad_(True)
        refuse_other_tokens(model, tokenizer, world)

    reward = None
    if kind.wants_reward:
        if given.reward is None:
            raise ValueError(
                f"reward is None; {_name_of(kind)!r} wants a run of 'reward', 'gold', or a function"
            )
        reward = open_reward(_reward_model_in(given.reward, tokenizer), tokenizer, world)
        if reward.module is not None:
            reward.module.to(device)
            refuse_other_vocabulary("reward", reward.module, model)
    elif given.reward is not None:
        raise ValueError(f"reward was given, and {_name_of(kind)!r} has no use for one; wanted: leave it out")

    reference = None
    if kind.wants_reference:
        reference = copy.deepcopy(model)
        if given.reference is not None:
            reference = _reference_in(given.reference, tokenizer, world).to(device)
        refuse_other_vocabulary("reference", reference, model)
        reference.eval().requires_grad_(False)
    elif given.reference is not None:
        raise ValueError(f"reference was given, and {_name_of(kind)!r} has none; wanted: leave it out")
    return Task(model, tokenizer, data, reward, reference)


def _run_in(name: str, given: Any) -> Run | None:
    """The run that was given, or whose folder was; None if it is something else."""
    if isinstance(given, Run):
        return given
    if isinstance(given, str | Path) and is_run(given):
        return _load(RunFolder.at(name, given), "cpu")
    return None


def _reward_model_in(reward: Any, tokenizer: Any) -> Any:
    """The reward model of a run or a folder; anything else as it is."""
    if isinstance(reward, str | Path) and reward != "gold":
        if not is_run(reward) and Path(reward, "config.json").is_file():
            from ppobook.language import hf

            return hf.open_reward_model(reward, tokenizer)
        if ":" in str(reward) and not Path(reward).exists():
            raise ValueError(
                f"reward is {str(reward)!r}, and there is no such folder; the function itself is wanted, "
                "whose name only the command line takes"
            )
        reward = _load(RunFolder.at("reward", reward), "cpu")
    if not isinstance(reward, Run):
        return copy.deepcopy(reward) if isinstance(reward, RewardModel) else reward
    if not isinstance(reward.model, RewardModel):
        raise ValueError(f"reward is a run of {reward.config['stage']!r}; one of 'reward' is wanted")
    refuse_other_words("reward", reward.tokenizer, tokenizer)
    return copy.deepcopy(reward.model)


def _reference_in(given: Any, tokenizer: Any, world: World | None) -> Any:
    origin = _run_in("reference", given)
    if origin is not None:
        refuse_other_words("reference", origin.tokenizer, tokenizer)
    model = open_model(given, tokenizer, world)[0] if origin is None else copy.deepcopy(origin.model)
    if isinstance(model, RewardModel):
        raise ValueError("reference is a reward model; a language model is wanted")
    return model


def open_model(
    model: Any,
    tokenizer: Any,
    world: World | None,
    seed: int = 0,
    how: Mapping[str, Any] | None = None,
) -> tuple[Any, Any]:
    """A copy of a model that is no run, and its tokenizer."""
    if tokenizer is None and world is not None and isinstance(model, nn.Module):
        tokenizer = world.tokenizer
    if isinstance(getattr(model, "body", model), Decoder):
        for name in how or {}:
            raise ValueError(f"{name} was given, and is for models of transformers; wanted: leave it out")
        if tokenizer is None:
            raise ValueError("tokenizer is None; with a Decoder one is wanted")
        return copy.deepcopy(model), tokenizer
    # Only now: transformers is an extra, and takes a second to import.
    from ppobook.language import hf

    return hf.open_pretrained(model, tokenizer, seed=stream(seed, "adapters"), **how or {})


def refuse_other_vocabulary(name: str, model: Any, policy: Any) -> None:
    """Refuse a reference or a reward model whose tokens are not the policy's."""
    other = getattr(model, "body", model).vocab_size
    # A sequence classifier has a pad of its own, a word that no model says.
    more = name == "reward" and other > policy.vocab_size
    if other != policy.vocab_size and not more:
        raise ValueError(
            f"{name} has a vocabulary of {other} tokens and the model one of {policy.vocab_size}; "
            "the same is wanted"
        )


def refuse_other_words(name: str, mine: Any, tokenizer: Any) -> None:
    """Refuse data, a reference or a reward model that were made with other words than the model."""
    words, others = (getattr(x, "words", None) for x in (tokenizer, mine))
    if words == others:
        return
    if words is None or others is None:
        kinds = f"tokens of a {type(mine).__name__}, and the model those of a {type(tokenizer).__name__}"
    elif len(words) != len(others):
        kinds = f"a vocabulary of {len(others)} tokens and the model one of {len(words)}"
    else:
        one, other = next((a, b) for a, b in zip(others, words, strict=True) if a != b)
        kinds = f"the word {one!r} where the model has {other!r}"
    raise ValueError(f"{name} has {kinds}; what the model was made with is wanted")


def refuse_other_tokens(model: Any, tokenizer: Any, world: World | None) -> None:
    """Refuse a model that does not fit its tokenizer. It may have room for more ids, but not in a World."""
    body = getattr(model, "body", model)
    n, wanted = body.vocab_size, tokenizer.vocab_size
    if n < wanted or (world is not None and n != wanted):
        raise ValueError(
            f"model has a vocabulary of {n} tokens and its tokenizer one of {wanted}; the same is wanted"
        )
    if body.eos != tokenizer.eos:
        raise ValueError(
            f"model ends a sequence with id {body.eos} and its tokenizer with {tokenizer.eos}; "
            "the same is wanted"
        )
