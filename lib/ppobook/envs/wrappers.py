"""Wrappers that give an environment the spaces that policies know, and name it in errors."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ppobook import validation

# The attributes of these classes are in the environments that checkpoints hold, so they keep their names.


class CheckedEnv(gym.Wrapper):
    """Validates rewards and observations, and names environment and step where one is wrong or fails."""

    def __init__(self, env: gym.Env, name: str) -> None:
        super().__init__(env)
        self._name = name
        self._shape = env.observation_space.shape
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        self._steps = 0
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except Exception as error:
            raise self._error(f"raised {validation.reason(error)}") from error
        self._check_observation(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        self._steps += 1
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            raise self._error(f"raised {validation.reason(error)}") from error
        if not isinstance(reward, float | int):
            array = np.asarray(reward)
            if array.ndim or array.dtype.kind not in "fiub":
                raise self._error(f"must return a number as reward, got {reward!r}")
        self._check_observation(observation)
        return observation, reward, terminated, truncated, info

    def _check_observation(self, observation: Any) -> None:
        # Most observations pass here, without NumPy, which is slow for single numbers.
        if observation is not None and getattr(observation, "shape", ()) == self._shape:
            return
        if observation is None or np.shape(observation) != self._shape:
            got = "None" if observation is None else np.shape(observation)
            raise self._error(f"must return an observation of shape {self._shape}, got {got}")

    def _error(self, what: str) -> ValueError:
        when = f"in step {self._steps} of an episode" if self._steps else "on a reset"
        return ValueError(f"{self._name} {what} {when}")


class FlatObservation(gym.ObservationWrapper):
    """Any observation as a Box with one axis; a discrete one as a one-hot vector.

    Like `gymnasium.wrappers.FlattenObservation`, which holds a lambda and so cannot be pickled.
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = spaces.flatten_space(env.observation_space)

    def observation(self, observation: Any) -> Any:
        return spaces.flatten(self.env.observation_space, observation)


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


def flat(env: gym.Env, env_id: str) -> gym.Env:
    """The environment with Discrete, MultiDiscrete or Box spaces with one axis."""
    actions, observations = env.action_space, env.observation_space
    named = f"env {env_id!r}"
    if not isinstance(actions, spaces.Discrete | spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        raise ValueError(f"{named} must have discrete or box actions, got {actions}")
    if isinstance(actions, spaces.Box) and not np.issubdtype(actions.dtype, np.floating):
        raise ValueError(f"{named} must have discrete actions or a box of real numbers, got {actions}")
    if not observations.is_np_flattenable:
        raise ValueError(f"{named} must have observations of a fixed size, got {observations}")
    for what, space in (("actions", actions), ("observations", observations)):
        if spaces.flatdim(space) == 0:
            raise ValueError(f"{named} must have {what} with at least one entry, got {space}")
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
