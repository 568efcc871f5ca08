"""Gymnasium spaces as plain data, for checkpoints."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


def describe_space(space: gym.Space) -> dict[str, Any]:
    """A space in plain data, so that loading a policy needs neither its environment nor a pickle."""
    if isinstance(space, gym.spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, gym.spaces.Box):
        return {
            "kind": "Box",
            "low": space.low.tolist(),
            "high": space.high.tolist(),
            "dtype": space.dtype.name,
        }
    if isinstance(space, gym.spaces.MultiDiscrete):
        return {
            "kind": "MultiDiscrete",
            "nvec": space.nvec.tolist(),
            "start": space.start.tolist(),
            "dtype": space.dtype.name,
        }
    if isinstance(space, gym.spaces.MultiBinary):
        return {"kind": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.shape)}
    raise ValueError(
        f"spaces must be Discrete, MultiDiscrete, MultiBinary or Box to be saved in a checkpoint, got {space}"
    )


def space_of(description: dict[str, Any]) -> gym.Space:
    """The space that `describe_space` described."""
    kind = description["kind"]
    if kind == "Discrete":
        return gym.spaces.Discrete(description["n"], start=description["start"])
    if kind == "MultiDiscrete":
        dtype = np.dtype(description["dtype"]).type
        return gym.spaces.MultiDiscrete(description["nvec"], start=description["start"], dtype=dtype)
    if kind == "MultiBinary":
        return gym.spaces.MultiBinary(description["n"])
    low, high = (np.array(description[name], description["dtype"]) for name in ("low", "high"))
    return gym.spaces.Box(low, high, dtype=low.dtype.type)
