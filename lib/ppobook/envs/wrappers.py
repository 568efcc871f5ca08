"""Wrappers that give an environment the spaces that policies know."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class FlatObservation(gym.ObservationWrapper):
    """Any observation as a Box with one axis; a discrete one as a one-hot vector.

    Like `gymnasium.wrappers.FlattenObservation`, which holds a lambda and so cannot be pickled.
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = spaces.flatten_space(env.observation_space)

    def observation(self, observation: Any) -> Any:
        space = self.env.observation_space
        check_fits(space, observation, self.env)
        return spaces.flatten(space, observation)


class FlatAction(gym.ActionWrapper):
    """Discrete and MultiDiscrete actions that count from 0; MultiBinary as MultiDiscrete; one axis."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        space = env.action_space
        self._start: Any = 0
        if isinstance(space, spaces.Discrete):
            self.action_space, self._start = spaces.Discrete(space.n), space.start
        elif isinstance(space, spaces.MultiDiscrete):
            self.action_space, self._start = spaces.MultiDiscrete(space.nvec.ravel()), space.start
        elif isinstance(space, spaces.MultiBinary):
            self.action_space = spaces.MultiDiscrete([2] * int(np.prod(space.shape)))
        else:
            self.action_space = spaces.flatten_space(space)

    def action(self, action: Any) -> Any:
        space = self.env.action_space
        if isinstance(space, spaces.Discrete):
            return action + self._start
        # In the space's own dtype, which some environments check.
        return (action.reshape(space.shape) + self._start).astype(space.dtype, copy=False)


def check_fits(space: gym.Space, observation: Any, env: gym.Env) -> None:
    """Raise unless an observation is in the space; in a Box, up to its bounds and the precision of floats.

    NumPy would broadcast an array of another shape, and cut fractions for a space of integers.
    """
    if not _fits(space, observation):
        raise ValueError(f"each observation of {env} must be in {space}, got {observation!r}")


def _fits(space: gym.Space, observation: Any) -> bool:
    if isinstance(space, spaces.Box):
        x = np.asarray(observation)
        same = x.dtype == space.dtype or np.can_cast(x.dtype, space.dtype, "same_kind")
        return same and x.shape == space.shape
    if isinstance(space, spaces.Dict):
        return all(_fits(part, observation[key]) for key, part in space.items())
    if isinstance(space, spaces.Tuple):
        return all(_fits(part, x) for part, x in zip(space, observation, strict=True))
    return space.contains(observation)


def flat(env: gym.Env, env_id: str) -> gym.Env:
    """The environment with Discrete, MultiDiscrete or Box spaces with one axis."""
    actions, observations = env.action_space, env.observation_space
    integers = isinstance(actions, spaces.Box) and not np.issubdtype(actions.dtype, np.floating)
    if integers or not isinstance(
        actions, spaces.Discrete | spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary
    ):
        raise ValueError(f"env {env_id!r} must have discrete actions or a box of real numbers, got {actions}")
    if not observations.is_np_flattenable:
        raise ValueError(f"env {env_id!r} must have observations of a fixed size, got {observations}")
    one_axis = isinstance(actions, spaces.Discrete) or len(actions.shape) == 1
    from_zero = not np.any(getattr(actions, "start", 0))
    if isinstance(actions, spaces.MultiBinary) or not (one_axis and from_zero):
        env = FlatAction(env)
    states = isinstance(observations, spaces.Discrete) and observations.start == 0
    box = isinstance(observations, spaces.Box) and len(observations.shape) == 1
    # There is a policy for states with Discrete actions only.
    if not box and not (states and isinstance(actions, spaces.Discrete)):
        env = FlatObservation(env)
    return env
