"""Models, reward models and data by the names that the command line has for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from ppobook.language.hub import refuse_nowhere
from ppobook.language.opening import (
    errors_about,
    open_model,
    refuse_other_vocabulary,
    refuse_other_words,
)
from ppobook.language.rewards import RewardModel
from ppobook.language.run import Run, load
from ppobook.run.folder import is_run
from ppobook.run.machine import checked_device


class Policy(NamedTuple):
    """A language model, with what is needed to sample from it."""

    name: str
    model: Any
    tokenizer: Any
    run: Run | None
    device: str = "cpu"


def open_policy(
    option: str, name: str, tokenizer: str | None = None, dtype: str | None = None, device: str = "cpu"
) -> Policy:
    """The language model in a run's folder, or a transformers model."""
    no_progress_bars()
    device = checked_device(device)
    run = run_in(name, device)
    if run is None:
        refuse_nowhere(option, name)
        how = {} if dtype is None else {"dtype": dtype}
        with errors_about(option):
            model, opened = open_model(name, tokenizer, None, how=how)
        return Policy(name, model.to(device), opened, None, device)
    if isinstance(run.model, RewardModel):
        raise ValueError(f"{option} must be a language model, got {name!r}, a reward model")
    for other, value in (("tokenizer", tokenizer), ("dtype", dtype)):
        if value is not None:
            raise ValueError(f"--{other} {value}: the run {name!r} has its own; leave it out")
    return Policy(name, run.model, run.tokenizer, run, device)


def no_progress_bars(quiet: bool = False) -> None:
    """Without a terminal transformers shows no progress bars."""
    if quiet or not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # read when it is imported
        if "transformers" in sys.modules:
            sys.modules["transformers"].logging.disable_progress_bar()


def run_in(name: str, device: str = "cpu") -> Run | None:
    return load(name, device) if is_run(name) else None


def open_reward_model(option: str, name: str, policies: Sequence[Policy]) -> Any:
    """The reward model in a run's folder, one of transformers, or a function, for completions of policies."""

    first, *others = policies
    run = run_in(name, first.device)
    if run is None:
        refuse_nowhere(option, name, kind="a run of 'reward', MODULE:FUNCTION")
        from ppobook.language import hf

        with errors_about(option):
            reward_model = hf.open_reward_model(name, first.tokenizer).to(first.device)
    elif not isinstance(run.model, RewardModel):
        raise ValueError(f"{option} must be a run of 'reward', got {name!r}, one of {run.config['stage']!r}")
    else:
        reward_model = run.model
        refuse_other_words(option, run.tokenizer, first.tokenizer)
    for policy in policies:
        refuse_other_vocabulary("reward", reward_model, policy.model)
    for policy in others:
        refuse_other_words(f"model {policy.name!r}", policy.tokenizer, first.tokenizer)
    return reward_model


def open_reference(name: str, policies: Sequence[Policy], dtype: str | None, device: str) -> Any:
    """The language model that the KL of these policies is measured from."""
    opened = open_policy("reference", name, None, dtype, device)
    for policy in policies:
        refuse_other_words("reference", opened.tokenizer, policy.tokenizer)
    return opened.model


def common_data(policies: Sequence[Policy]) -> Any:
    """The World or file that policies were trained on.

    Raises
    ------
    ValueError
        They were trained on different data, or on data in memory.
    """
    known = [(policy, found) for policy in policies if (found := data_of(policy.run)) is not None]
    for policy, found in known:
        if getattr(found, "config", found) != getattr(known[0][1], "config", known[0][1]):
            raise ValueError(
                f"{known[0][0].name!r} and {policy.name!r} were trained on different data: "
                "give --world or --data"
            )
    if not known:
        raise ValueError("there are no data to take prompts from: give --data FILE or --world SIZES")
    return known[0][1]


def data_of(run: Run | None) -> Any:
    """The world of a run, or its file; None if its data were in memory."""
    if run is None:
        return None
    return run.world if run.world is not None else run.config["data"].get("file")
