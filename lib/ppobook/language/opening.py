"""Models, reward models and references, opened from what the user passed: runs, folders, names or models."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from ppobook.language import hf
from ppobook.language.pretrained import Pretrained
from ppobook.language.pretrained_tokenizer import open_tokenizer
from ppobook.language.rewards import RewardModel, open_reward
from ppobook.language.run import Run, load_from
from ppobook.language.stage import Stage, Task
from ppobook.language.world import World
from ppobook.run.folder import RunFolder, is_run
from ppobook.run.machine import stream


def open_model(
    model: Any,
    tokenizer: Any = None,
    *,
    dtype: str | None = None,
    lora: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> tuple[Any, Any]:
    """Open a model and its tokenizer.

    Parameters
    ----------
    model : Run, path, str or torch module
        A run or its folder; a model of transformers, its folder, or its name on the hub; or a `Decoder` or
        another `LanguageModel`, or a `RewardModel` on one.
    tokenizer : Tokenizer, tokenizer of transformers, path or str, optional
        Default: that of the run or in the folder. Required with a model in memory.
    dtype, lora, seed
        Of a model of transformers, as for `open_pretrained`.

    Returns
    -------
    model : torch module
        The model of a run, a `LanguageModel` or a `RewardModel` as it is, unless `dtype` or `lora` is given;
        a new model in all other cases.
    tokenizer : Tokenizer
    """
    run = run_given("model", model)
    if run is not None:
        model, tokenizer = run.model, run.tokenizer if tokenizer is None else tokenizer
    body = getattr(model, "body", model)
    if not hasattr(body, "start_cache") or (isinstance(body, Pretrained) and (dtype or lora is not None)):
        return hf.open_pretrained(model, tokenizer, dtype=dtype, lora=lora, seed=seed)
    if dtype is not None or lora is not None:
        raise ValueError(f"dtype and lora must be left out for a {type(body).__name__}")
    if tokenizer is None:
        raise ValueError("tokenizer must be passed with a model in memory, got None")
    return model, open_tokenizer(tokenizer)


def run_given(argument: str, given: Any, device: str = "cpu") -> Run | None:
    """The run that was passed, or whose folder was; else None."""
    if isinstance(given, Run):
        return given
    if not isinstance(given, str | Path) or not Path(given).is_dir():
        return None
    theirs = ("config.json", "adapter_config.json")  # of transformers, of peft
    if not is_run(given) and any(Path(given, name).exists() for name in theirs):
        return None
    return load_from(RunFolder.at(argument, given), device)


def open_reward_model(argument: str, given: Any, tokenizer: Any) -> RewardModel:
    """Open the reward model of a run, or a sequence classifier, which must have the policy's words."""
    reward_model, own = open_model(given, tokenizer if isinstance(given, nn.Module) else None)
    if not isinstance(reward_model, RewardModel):
        raise ValueError(f"{argument} must be a reward model, got a {type(reward_model).__name__}")
    check_same_words(argument, own, tokenizer)
    return reward_model


def open_reference(given: Any, tokenizer: Any, dtype: str | None = None) -> Any:
    """Open the model that the KL of a policy is measured from. It must have the policy's words."""
    model, own = open_model(given, tokenizer if isinstance(given, nn.Module) else None, dtype=dtype)
    check_same_words("reference", own, tokenizer)
    return model


def check_same_words(argument: str, other: Any, tokenizer: Any) -> None:
    """Check that another tokenizer has the words of this one. It may have further words, as for padding."""
    words, others = (getattr(x, "words", None) or () for x in (tokenizer, other))
    if others[: len(words)] != words:
        raise ValueError(f"{argument} must have the same words as the model, got other words")


# ---------------------------------------------------------------------------------------- for a training run


def open_task(
    kind: type[Stage], given: Task, device: str, seed: int = 0, how: Mapping[str, Any] | None = None
) -> Task:
    """Open everything that a stage works with, as passed by the user; models are copied.

    `how` are `lora` and `dtype` of a transformers model, `seed` is the run's.
    """
    name, how = getattr(kind, "algorithm", kind.__name__), how or {}
    run = run_given("model", given.model)
    data = run.world if given.data is None and run is not None else given.data
    if data is None:
        raise ValueError("data must be a World, a list of dicts, a JSONL file or a Dataset, got None")
    world = data if isinstance(data, World) else None
    model: Any = None
    tokenizer = given.tokenizer
    if given.model is not None:
        if tokenizer is None and world is not None and isinstance(given.model, nn.Module):
            tokenizer = world.tokenizer
        model, tokenizer = open_model(run or given.model, tokenizer, seed=stream(seed, "adapters"), **how)
        if isinstance(model, RewardModel) and not kind.starts_from_reward_model:
            raise ValueError(f"model must be a language model for {name!r}, got a reward model")
        if isinstance(model, RewardModel) and world is not None:
            raise ValueError("data must be pairs of your own where model is a reward model, got a World")
        if model is (run.model if run is not None else given.model):
            model = copy.deepcopy(model)
        model.to(device)
        eos = getattr(model, "body", model).eos
        if eos != tokenizer.eos:
            raise ValueError(f"model must end sequences with the tokenizer's id {tokenizer.eos}, got {eos}")
    elif world is None or how or not kind.starts_from_scratch:
        raise ValueError(f"model must be a run, its folder or a model for {name!r}, got None")
    elif tokenizer is None:
        tokenizer = world.tokenizer
    if world is not None:
        check_same_words("data", world.tokenizer, tokenizer)
    task = Task(model, tokenizer, data)
    for argument, wanted in (("reward", kind.wants_reward), ("reference", kind.wants_reference)):
        if not wanted and getattr(given, argument) is not None:
            raise ValueError(f"{argument} must be left out for {name!r}")
    if kind.wants_reward:
        task.reward = open_reward(reward_given(given.reward, tokenizer), tokenizer, world)
        if task.reward.module is not None:
            task.reward.module.to(device)
    if kind.wants_reference:
        reference = model if given.reference is None else open_reference(given.reference, tokenizer)
        if reference.vocab_size != model.vocab_size:
            raise ValueError(
                f"reference must have the model's {model.vocab_size} tokens, got {reference.vocab_size}"
            )
        task.reference = copy.deepcopy(reference).to(device).eval().requires_grad_(False)
    return task


def reward_given(given: Any, tokenizer: Any) -> Any:
    """A copy of the reward model that was passed, or whose run or folder was; anything else as it is."""
    if isinstance(given, Run | Path | nn.Module) or (isinstance(given, str) and given != "gold"):
        return copy.deepcopy(open_reward_model("reward", given, tokenizer))
    return given


# --------------------------------------------------------------------------------------- for the command line


class Policy(NamedTuple):
    """A language model, with what is needed to sample from it."""

    name: str
    model: Any
    tokenizer: Any
    run: Run | None
    device: str = "cpu"


def open_policy(
    argument: str, name: str, tokenizer: str | None = None, dtype: str | None = None, device: str = "cpu"
) -> Policy:
    """Open the language model in a run's folder, or a transformers model."""
    no_progress_bars()
    run = run_given(argument, name)
    model, opened = open_model(run or name, tokenizer, dtype=dtype)
    return Policy(name, model.to(device), opened, run, device)


def no_progress_bars(quiet: bool = False) -> None:
    """Turn off transformers' progress bars without a terminal."""
    if quiet or not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # read when it is imported
        if "transformers" in sys.modules:
            sys.modules["transformers"].logging.disable_progress_bar()


def common_data(policies: Sequence[Policy]) -> Any:
    """The World or file that policies were trained on; a ValueError if there is none, or not the same."""
    known = [found for policy in policies if (found := data_of(policy.run)) is not None]
    if not known:
        raise ValueError("there are no data to take prompts from: give --data FILE or --world SIZES")
    if any(getattr(x, "config", x) != getattr(known[0], "config", known[0]) for x in known):
        raise ValueError("the models were trained on different data: give --world or --data")
    return known[0]


def data_of(run: Run | None) -> Any:
    """The world of a run, or its file; None if its data were in memory."""
    if run is None:
        return None
    return run.world if run.world is not None else run.config["data"].get("file")
