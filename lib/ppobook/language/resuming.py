"""Data and reward of a run that is resumed: from its config, or given again and compared with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ppobook import validation
from ppobook.language.data import digest_of
from ppobook.language.opening import reward_model_in
from ppobook.language.rewards import Reward, RewardModel, open_reward
from ppobook.language.stage import Stage
from ppobook.language.world import World
from ppobook.run.folder import RunFolder
from ppobook.run.machine import stream
from ppobook.run.progress import say


def data_config(data: Any) -> dict[str, Any]:
    """The config's entry for data: a world, a file, or a digest of data in memory."""
    if isinstance(data, World):
        return {"world": validation.copied(data.config)}
    if isinstance(data, str | Path):
        # Absolute: a run may be resumed from another directory. A file that was moved is given again.
        return {"file": str(Path(data).absolute()), "digest": digest_of(data)}
    return {"digest": digest_of(data)}


def data_of_run(folder: RunFolder, config: dict[str, Any], given: Any) -> Any:
    """The data of a run that is resumed."""
    kept = config["data"]
    if "world" in kept:
        if given is not None and data_config(given) != kept:
            raise ValueError(f"data must be left out, or the world of {folder}, got other data")
        return World(**kept["world"])
    data = kept.get("file") if given is None else given
    if data is None:
        raise ValueError(f"data must be given again, since {folder} was given them in memory, got None")
    if isinstance(data, World) or digest_of(data) != kept["digest"]:
        raise ValueError(f"data must be those of {folder}, got other data")
    return data


def reward_of_run(
    folder: RunFolder,
    config: dict[str, Any],
    given: Any,
    reward_model: RewardModel | None,
    tokenizer: Any,
    world: World | None,
) -> Reward | None:
    """The reward of a run that is resumed: from its checkpoint; only a function is given again."""
    named = config["reward"]
    if reward_model is not None or named in (None, "gold"):
        if given is not None and not (named == "gold" and isinstance(given, str) and given == "gold"):
            raise ValueError(f"reward must be left out, since {folder} has its own, {named!r}, got {given!r}")
        reward = reward_model if reward_model is not None else named
        return None if reward is None else open_reward(reward, tokenizer, world)
    if given is None:
        raise ValueError(f"reward must be given again, {named!r} as in {folder}, got None")
    opened = open_reward(reward_model_in(given, tokenizer), tokenizer, world)
    if opened.name != named:
        raise ValueError(f"reward must be {named!r}, as in {folder}, got {opened.name!r}")
    if named.endswith("<lambda>"):
        say(f"reward is taken to be the lambda of {folder}: lambdas have no names to compare")
    return opened


def state_on_device(stage: Stage, state: dict[str, Any], device: str, update: int) -> dict[str, Any]:
    """The state of a stage that was on another device.

    The state of a random generator belongs to its kind of device. On another kind it is replaced by that of
    a generator seeded by the run's seed and the update.
    """
    if torch.device(device).type == torch.device(stage.device).type:
        return state
    state = dict(state)
    for name in state:
        mine = getattr(stage, name)
        if isinstance(mine, torch.Generator):
            mine.manual_seed(stream(stage.seed, f"{name} after update {update}"))
            state[name] = mine.get_state()
    return state
