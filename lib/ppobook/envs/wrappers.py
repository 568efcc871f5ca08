"""Wrappers that give an environment the spaces that policies know, and name it in errors."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ppobook import validation

# The attributes of these classes are in the environments that checkpoints hold, so they keep their names.


class CheckedEnv(gym.Wrapper):
    """Validates what `reset` and `step` return; names environment and step where it is wrong or they fail.

    An observation must be of the shape and kind of its space: a float is not cast to an integer, nor an
    integer to a dtype that can't hold it. Flags must be bool, a reward a finite real number. Whether
    observations are finite is for `Collector` to find; bounds of real numbers are not enforced.
    """

    def __init__(self, env: gym.Env, name: str) -> None:
        super().__init__(env)
        self._name = name
        self._steps = 0
        self._expect(env.observation_space)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # An earlier version did not have all of it.
        self._expect(self.env.observation_space)

    def _expect(self, space: gym.Space) -> None:
        """What most observations are, so that `step` can tell by a comparison."""
        box = isinstance(space, spaces.Box)
        self._shape, self._dtype = (space.shape, space.dtype) if box else (None, None)
        self._wide = self._dtype is not None and self._dtype.kind == "f" and self._dtype.itemsize > 4
        self._states = range(0)
        if isinstance(space, spaces.Discrete):
            self._states = range(int(space.start), int(space.start + space.n))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        self._steps = 0
        try:
            returned = self.env.reset(seed=seed, options=options)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # GeneratorExit and sys.exit, too
            raise self._error(f"raised {validation.reason(error)}") from error
        pair = isinstance(returned, tuple | list) and len(returned) == 2
        if not (pair and isinstance(returned[1], dict | None)):  # an observation alone may be two numbers
            raise self._error(f"must return observation and info, got {_short(returned)}")
        observation, info = returned
        return self._fitted(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        self._steps += 1
        try:
            returned = self.env.step(action)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self._error(f"raised {validation.reason(error)}") from error
        try:
            observation, reward, terminated, truncated, info = returned
        except (TypeError, ValueError):
            raise self._error(
                f"must return observation, reward, terminated, truncated and info, got {_short(returned)}"
            ) from None
        if not (isinstance(reward, float) and -_LARGEST <= reward <= _LARGEST):
            reward = self._real(reward)
        if terminated.__class__ not in _BOOLS or truncated.__class__ not in _BOOLS:
            flags = {"terminated": terminated, "truncated": truncated}
            name = next(name for name, flag in flags.items() if flag.__class__ not in _BOOLS)
            raise self._error(f"must return True or False as {name}, got {_short(flags[name])}")
        return self._fitted(observation), reward, terminated, truncated, info

    def close(self) -> None:
        """Close; one that fails then costs no result."""
        with contextlib.suppress(Exception, SystemExit):
            super().close()

    def _real(self, reward: Any) -> float:
        try:
            array = np.asarray(reward)
        except (TypeError, ValueError, RuntimeError):  # whatever is no array
            array = np.array(None)
        large = array.dtype.kind == "O" and array.size == 1 and isinstance(array.item(), int)
        if not large and (array.size != 1 or array.dtype.kind not in "fiub"):
            raise self._error(f"must return a real number as reward, got {_short(reward)}")
        number = validation.as_float(array.item())
        if not -_LARGEST <= number <= _LARGEST:
            what = "that a float32 can hold" if large or math.isfinite(number) else "that is finite"
            raise self._error(f"must return a reward {what}, got {validation.shown(array.item())}")
        return number

    def _fitted(self, observation: Any) -> Any:
        # Most observations are returned here.
        if observation.__class__ is np.ndarray:
            if observation.shape == self._shape and observation.dtype == self._dtype and not self._wide:
                return observation
        elif observation.__class__ is int and observation in self._states:
            return observation
        try:
            return _fitted(observation, self.env.observation_space)
        except _MisfitError as fault:
            raise self._error(f"must return an observation of {fault}") from None

    def _error(self, what: str) -> ValueError:
        when = f"in step {self._steps} of an episode" if self._steps else "on a reset"
        return ValueError(f"{self._name} {what} {when}")


_BOOLS = (bool, np.bool_)
_LARGEST = float(np.finfo(np.float32).max)


class _MisfitError(ValueError):
    """What an observation must be, and is instead."""


def _fitted(x: Any, space: gym.Space, where: str = "") -> Any:
    """An observation in the dtypes of its space; raises where it would have to be changed for that."""
    if isinstance(space, spaces.Discrete):
        states = f"dtype {space.dtype} in [{space.start}, {space.start + space.n - 1}]"
        try:
            state = operator.index(x)
        except TypeError:
            raise _MisfitError(f"{states}{where}, got {_short(x)} ({type(x).__name__})") from None
        if not space.start <= state < space.start + space.n:
            raise _MisfitError(f"{states}{where}, got {state}")
        return state
    if isinstance(space, spaces.Dict) and isinstance(x, Mapping) and x.keys() == space.keys():
        return {key: _fitted(x[key], space[key], f"{where} in {key!r}") for key in space}
    if isinstance(space, spaces.Tuple) and isinstance(x, list | tuple) and len(x) == len(space):
        return tuple(_fitted(part, space[i], f"{where} in [{i}]") for i, part in enumerate(x))
    if not isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        if not space.contains(x):
            raise _MisfitError(f"the space {space}{where}, got {_short(x)}")
        return x
    try:
        array = np.asarray(x)
    except (TypeError, ValueError, RuntimeError):  # lists of several lengths, say
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise _MisfitError(f"shape {space.shape} and dtype {space.dtype}{where}, got {_short(x)}")
    if array.shape != space.shape:
        raise _MisfitError(f"shape {space.shape}{where}, got {array.shape}")
    if array.dtype.kind in "iu" and space.dtype.kind in "iu":
        held = np.iinfo(space.dtype)
        outside = array[(array < held.min) | (array > held.max)]
        if outside.size:
            raise _MisfitError(f"dtype {space.dtype}{where}, got {outside[0]} ({array.dtype})")
    elif not np.can_cast(array.dtype, space.dtype, "same_kind"):
        raise _MisfitError(f"dtype {space.dtype}{where}, got {array.dtype}")
    if array.dtype.kind == space.dtype.kind == "f":
        _refuse_too_large(array, space.dtype, where)
    with np.errstate(over="ignore"):  # `Collector` finds the infinity
        fitted = array.astype(space.dtype)
    if not isinstance(space, spaces.Box) and not space.contains(fitted):
        raise _MisfitError(f"the space {space}{where}, got {_short(x)}")
    return fitted


def _refuse_too_large(x: np.ndarray, dtype: Any, where: str) -> None:
    """Raise for a finite number that would be infinite in this dtype, or in the float32 of a rollout."""
    held = np.finfo(min(dtype, np.dtype(np.float32), key=lambda one: one.itemsize))
    if not (np.abs(x) <= held.max).all():
        outside = x[np.isfinite(x) & (np.abs(x) > held.max)]
        if outside.size:
            raise _MisfitError(f"numbers that a {held.dtype} can hold{where}, got {outside[0]}")


def _short(x: Any) -> str:
    """The repr in one line, cut after 80 characters."""
    text = " ".join(repr(x).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


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
