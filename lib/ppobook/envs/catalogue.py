"""A table of the environments that `make_env` can make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium as gym
from gymnasium import spaces

from ppobook.envs.vector import make_env

if TYPE_CHECKING:
    import pandas as pd


def list_envs() -> pd.DataFrame:
    """The environments that `make_env` can make here, one per row, newest versions only.

    Returns
    -------
    DataFrame
        Columns id, observation, actions (both in words) and step_limit (missing where there is none).
        Environments whose package is not installed are left out.
    """
    import pandas as pd

    newest: dict[str, tuple[int, str]] = {}
    for env_id in gym.registry:
        name, _, version = env_id.rpartition("-v")
        newest[name] = max(newest.get(name, (-1, "")), (int(version) if version.isdigit() else -1, env_id))
    rows = []
    for _, env_id in newest.values():
        try:
            envs = make_env(env_id)
        except (TypeError, ValueError):
            continue
        rows.append(
            {
                "id": env_id,
                "observation": _in_words(envs.single_observation_space),
                "actions": _in_words(envs.single_action_space),
                "step_limit": gym.registry[env_id].max_episode_steps,
            }
        )
        envs.close()
    return pd.DataFrame(rows).astype({"step_limit": "Int64"})


def _in_words(space: spaces.Space) -> str:
    if isinstance(space, spaces.Discrete):
        return f"one of {space.n}"
    if isinstance(space, spaces.MultiDiscrete):
        return "one each of " + ", ".join(map(str, space.nvec.tolist()))
    size = space.shape[0] if space.shape else 0
    numbers = "1 number" if size == 1 else f"{size} numbers"
    if isinstance(space, spaces.Box) and space.is_bounded():
        low, high = space.low.min(), space.high.max()
        if (space.low == low).all() and (space.high == high).all():
            return f"{numbers} in [{low:g}, {high:g}]"
    return numbers
