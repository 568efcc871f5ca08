"""What a stage works with, made from what the user passed: runs, folders, names, models, functions."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from ppobook.language.hub import refuse_nowhere
from ppobook.language.model import Decoder
from ppobook.language.records import records_of
from ppobook.language.registry import STAGES
from ppobook.language.rewards import Reward, RewardModel, open_reward
from ppobook.language.run import Run, load_from
from ppobook.language.stage import Stage, Task
from ppobook.language.tokens import WordTokenizer
from ppobook.language.world import World
from ppobook.run.folder import RunFolder, is_run
from ppobook.run.machine import stream
from ppobook.run.spellings import did_you_mean
from ppobook.run.weights import weights_are_finite

# What a model may be besides one of transformers.
_BESIDES = "a run, its folder, a Decoder, "


def open_task(
    kind: type[Stage], given: Task, device: str, seed: int = 0, how: Mapping[str, Any] | None = None
) -> Task:
    """What a stage works with: models copied, names and folders opened.

    Parameters
    ----------
    kind : subclass of Stage
    given : Task
        What the user passed.
    device : str
    seed : int
        The run's.
    how : mapping, optional
        `lora` and `dtype`, of a transformers model.
    """
    origin = run_given("model", given.model)
    data = origin.world if given.data is None and origin is not None else given.data
    if data is None:
        if given.model is None and not kind.starts_from_scratch:
            raise _missing_model(kind, how or {})
        if isinstance(given.model, World):
            raise TypeError("model must be a run, its folder or a model, got a World: pass it as data")
        if isinstance(given.model, str | Path) and origin is None:
            refuse_nowhere("model", str(given.model))
        if origin is None and given.model is not None:
            refuse_unless_model(given.model)
        _refuse_reward_model(kind, origin.model if origin is not None else given.model)
        raise ValueError("data must be a World, a list of dicts, a JSONL file or a Dataset, got None")
    if isinstance(data, str | Path) and not Path(data).is_file():
        records_of(data)  # says what is wrong, before models are opened
    world = data if isinstance(data, World) else None
    model, tokenizer = _open_policy(kind, given, origin, world, seed, how or {})
    if world is not None:
        refuse_other_words("data", world.tokenizer, tokenizer, "tokenizer" if model is None else "model")
    if model is not None:
        model.to(device)
        if not weights_are_finite([model]):
            raise ValueError("model must have finite weights, got NaN or infinity")
        refuse_other_tokens(model, tokenizer, world)
    reward = _open_reward(kind, given.reward, model, tokenizer, world, device)
    reference = _open_reference(kind, given.reference, model, tokenizer, world, device)
    return Task(model, tokenizer, data, reward, reference)


def _refuse_reward_model(kind: type[Stage], model: Any) -> None:
    if isinstance(model, RewardModel) and not kind.starts_from_reward_model:
        name = STAGES.name_of(kind)
        raise ValueError(f"model must be a language model for {name!r}, got a reward model")


def _open_policy(
    kind: type[Stage], given: Task, origin: Run | None, world: World | None, seed: int, how: Mapping[str, Any]
) -> tuple[Any, Any]:
    """A copy of the model that is trained, None for a new one, and the tokenizer."""
    tokenizer = _open_tokenizer(given.tokenizer)
    if origin is not None:
        if tokenizer is not None:
            refuse_replaced_words(tokenizer, origin.tokenizer)
        tokenizer = origin.tokenizer if tokenizer is None else tokenizer
        model = copy.deepcopy(origin.model)
        if how:
            model = open_model(origin.model, tokenizer, world, seed, how)[0]
    elif given.model is not None:
        model, tokenizer = open_model(given.model, tokenizer, world, seed, how)
    elif world is not None and kind.starts_from_scratch and not how:
        model, tokenizer = None, world.tokenizer if tokenizer is None else tokenizer
    else:
        raise _missing_model(kind, how)
    _refuse_reward_model(kind, model)
    if isinstance(model, RewardModel) and world is not None:
        raise ValueError("data must be pairs of your own where model is a reward model, got a World")
    return model, tokenizer


def _missing_model(kind: type[Stage], how: Mapping[str, Any]) -> ValueError:
    why = ": a new one needs a World as data" if kind.starts_from_scratch else ""
    if how:
        why = f": {' and '.join(how)} must be for a transformers model"
    return ValueError(
        "model must be a run, its folder, a Decoder or a transformers model for "
        f"{STAGES.name_of(kind)!r}, got None{why}"
    )


def tokenizer_in(given: Any) -> Any:
    """The tokenizer of a folder or of transformers as a `Tokenizer`; one of ours, and None, as it is."""
    if given is None or hasattr(given, "eos"):
        return given
    from ppobook.language.pretrained_tokenizer import open_tokenizer

    return open_tokenizer(given)


def _open_tokenizer(given: Any) -> Any:
    given = tokenizer_in(given)
    if not (given is None or isinstance(given, WordTokenizer) or hasattr(given, "description")):
        raise TypeError(
            "tokenizer must be a WordTokenizer, a tokenizer of transformers or the folder of one, which a "
            f"checkpoint can hold, got {type(given).__name__}"
        )
    return given


def _open_reward(
    kind: type[Stage], given: Any, model: Any, tokenizer: Any, world: World | None, device: str
) -> Reward | None:
    if not kind.wants_reward:
        if given is not None:
            raise ValueError(f"reward must be left out for {STAGES.name_of(kind)!r}, got {given!r}")
        return None
    if given is None:
        raise ValueError(
            f"reward must be a run of 'reward', 'gold' or a function for {STAGES.name_of(kind)!r}, got None"
        )
    reward = open_reward(reward_model_in(given, tokenizer), tokenizer, world)
    if reward.module is not None:
        reward.module.to(device)
        refuse_other_vocabulary("reward", reward.module, model)
    return reward


def _open_reference(
    kind: type[Stage], given: Any, model: Any, tokenizer: Any, world: World | None, device: str
) -> Any:
    if not kind.wants_reference:
        if given is not None:
            raise ValueError(f"reference must be left out for {STAGES.name_of(kind)!r}, got {given!r}")
        return None
    if given is None:
        reference = copy.deepcopy(model)
    else:
        origin = run_given("reference", given)
        if origin is None:
            with errors_about("reference"):
                reference = open_model(given, tokenizer, world)[0]
        else:
            refuse_other_words("reference", origin.tokenizer, tokenizer)
            reference = copy.deepcopy(origin.model)
        if isinstance(reference, RewardModel):
            raise ValueError("reference must be a language model, got a reward model")
        reference.to(device)
    refuse_other_vocabulary("reference", reference, model)
    return reference.eval().requires_grad_(False)


def run_given(name: str, given: Any) -> Run | None:
    """The run that was passed, or whose folder was; else None."""
    if isinstance(given, Run):
        return given
    if isinstance(given, str | Path) and is_run(given):
        return load_from(RunFolder.at(name, given))
    return None


def is_pretrained(given: Any) -> bool:
    """Whether this is the folder of a transformers model, or a model in memory that is none of ours."""
    if isinstance(given, nn.Module):
        body = getattr(given, "body", given)
        return not (hasattr(body, "hidden") or hasattr(body, "start_cache"))
    return isinstance(given, str | Path) and not is_run(given) and Path(given, "config.json").is_file()


def reward_model_in(reward: Any, tokenizer: Any) -> Any:
    """The reward model of a run or a folder; anything else as it is."""
    if is_pretrained(reward):
        from ppobook.language import hf

        with errors_about("reward"):
            return hf.open_reward_model(reward, tokenizer)
    if isinstance(reward, str | Path) and reward != "gold":
        if ":" in str(reward) and not Path(reward).exists():
            raise ValueError(
                f"reward must be a folder or the function itself, got {str(reward)!r}: its name is for the "
                "command line"
            )
        if not Path(reward).exists() and (hint := did_you_mean(str(reward), ["gold"])):
            raise ValueError(
                f"reward must be a run of 'reward', its folder or 'gold', got {str(reward)!r}{hint}"
            )
        reward = load_from(RunFolder.at("reward", reward))
    if not isinstance(reward, Run):
        return copy.deepcopy(reward) if isinstance(reward, RewardModel) else reward
    if not isinstance(reward.model, RewardModel):
        raise ValueError(f"reward must be a run of 'reward', got one of {reward.config['stage']!r}")
    refuse_other_words("reward", reward.tokenizer, tokenizer)
    return copy.deepcopy(reward.model)


def open_model(
    model: Any,
    tokenizer: Any,
    world: World | None,
    seed: int = 0,
    how: Mapping[str, Any] | None = None,
) -> tuple[Any, Any]:
    """A copy of a model that is not a run, and its tokenizer."""
    if tokenizer is None and world is not None and isinstance(model, nn.Module):
        tokenizer = world.tokenizer
    if isinstance(getattr(model, "body", model), Decoder):
        for name, value in (how or {}).items():
            raise ValueError(f"{name} must be left out for a Decoder, got {value!r}")
        if tokenizer is None:
            raise ValueError("tokenizer must be passed with a Decoder, got None")
        return copy.deepcopy(model), tokenizer
    # Imported late: transformers is an optional dependency and takes a second to import.
    from ppobook.language import hf

    return hf.opened(model, tokenizer, seed=stream(seed, "adapters"), besides=_BESIDES, **how or {})


def refuse_unless_model(model: Any) -> None:
    """Raise TypeError for what `open_model` can't open."""
    if not isinstance(getattr(model, "body", model), Decoder):
        from ppobook.language import hf

        hf.refuse_unless_model(model, _BESIDES)


@contextlib.contextmanager
def errors_about(option: str) -> Iterator[None]:
    """Let errors about "model" be about another argument, whose model is opened."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if not (message := str(error)).startswith("model "):
            raise
        raise type(error)(option + message.removeprefix("model")) from None


def refuse_other_vocabulary(name: str, model: Any, policy: Any) -> None:
    """Refuse a reference or a reward model whose vocabulary is not the policy's."""
    size = getattr(model, "body", model).vocab_size
    # A sequence classifier has a padding token of its own, which the policy never samples.
    larger = name == "reward" and size > policy.vocab_size
    if size != policy.vocab_size and not larger:
        raise ValueError(f"{name} must have the model's {policy.vocab_size} tokens, got {size}")


def refuse_other_words(name: str, mine: Any, tokenizer: Any, of: str = "model") -> None:
    """Refuse data, a reference or a reward model that were made with other words than the model."""
    words, others = (getattr(x, "words", None) for x in (tokenizer, mine))
    if words == others:
        return
    if words is None or others is None:
        expected, got = f"tokens of a {type(tokenizer).__name__}", f"those of a {type(mine).__name__}"
    elif len(words) != len(others):
        expected, got = f"{len(words)} tokens", f"{len(others)}"
    else:
        other, word = next((a, b) for a, b in zip(others, words, strict=True) if a != b)
        expected, got = f"word {word!r}", f"{other!r}"
    raise ValueError(f"{name} must have the {of}'s {expected}, got {got}: words differ")


def refuse_replaced_words(tokenizer: Any, own: Any) -> None:
    """Refuse a tokenizer that has another word where the run's own has one. It may have further words."""
    for new, old in zip(getattr(tokenizer, "words", ()), getattr(own, "words", ()), strict=False):
        if old is not None and new != old:
            raise ValueError(f"tokenizer must have the run's word {old!r}, got {new!r}")


def refuse_other_tokens(model: Any, tokenizer: Any, world: World | None) -> None:
    """Refuse a model that does not fit its tokenizer.

    It may have more ids, as padded vocabularies do, unless data is a World or the tokenizer is a
    `WordTokenizer`, which can't decode them.
    """
    body = getattr(model, "body", model)
    size, expected = body.vocab_size, tokenizer.vocab_size
    exact = world is not None or isinstance(tokenizer, WordTokenizer)
    if size < expected or (exact and size != expected):
        raise ValueError(f"model must have the tokenizer's {expected} tokens, got {size}")
    if body.eos != tokenizer.eos:
        raise ValueError(f"model must end sequences with the tokenizer's id {tokenizer.eos}, got {body.eos}")
