"""The spaces of `make_env` as plain data, for checkpoints."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


def describe_space(space: gym.Space) -> dict[str, Any]:
    """A space in plain data, so that loading a policy needs neither its environment nor a pickle."""
    if isinstance(space, gym.spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n)}
    if isinstance(space, gym.spaces.MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "dtype": space.dtype.name}
    assert isinstance(space, gym.spaces.Box)
    return {"kind": "Box", "low": space.low.tolist(), "high": space.high.tolist(), "dtype": space.dtype.name}


def space_of(description: dict[str, Any]) -> gym.Space:
    """The space that `describe_space` described."""
    kind = description["kind"]
    if kind == "Discrete":
        return gym.spaces.Discrete(description["n"])
    dtype = np.dtype(description["dtype"]).type
    if kind == "MultiDiscrete":
        return gym.spaces.MultiDiscrete(description["nvec"], dtype=dtype)
    low, high = (np.array(description[name], dtype) for name in ("low", "high"))
    return gym.spaces.Box(low, high, dtype=dtype)
