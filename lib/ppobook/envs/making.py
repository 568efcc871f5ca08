"""Environments from what users pass: an id, an environment, or a function that makes one."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import find_highest_version, get_env_id, parse_env_id

from ppobook import validation
from ppobook.envs.saving import is_rebuilt_when_copied

EnvLike = str | gym.Env | Callable[[], gym.Env]


@dataclass(frozen=True)
class EnvMaker:
    """Makes as many environments of one kind as are asked for.

    Attributes
    ----------
    name : str
        The full id, such as "CartPole-v1"; for an environment or a factory, its name with brackets, such as
        "my_module.MyEnv()", which no id has.
    settings : dict
        Keyword arguments that go with the id.
    own : function of a count, optional
        Makes them where no id stands for them.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    own: Callable[[int], Iterator[gym.Env]] | None = None

    def make(self, num_envs: int) -> Iterator[gym.Env]:
        """New environments, each when it is asked for."""
        if self.own is not None:
            return self.own(num_envs)
        return (_by_id(self) for _ in range(num_envs))


def env_maker(env: EnvLike | EnvMaker, settings: dict[str, Any] | None = None) -> EnvMaker:
    """The maker of environments of this kind.

    `env` is as for `make_env`; `settings` are keyword arguments for an environment that is given by its id.
    """
    settings = settings or {}
    if isinstance(env, str):
        return EnvMaker(_full_id(str(env)), settings)
    if isinstance(env, EnvMaker) and env.own is None:
        return replace(env, settings=settings) if settings else env
    if settings:
        raise ValueError(f"env must be an id for it to take keyword arguments, got {env!r} with {settings}")
    if isinstance(env, EnvMaker):
        return env
    if isinstance(env, gym.Env):
        return EnvMaker(_described(env), own=partial(_copies, env))
    if callable(env):
        return EnvMaker(_name_of(env), own=partial(_called, env))
    raise TypeError(
        "env must be the id of an environment, such as 'CartPole-v1', an environment, or a function that "
        f"makes one, got {env!r}"
    )


def has_id(name: str) -> bool:
    """Return True if an `EnvMaker.name` is an id, from which the environment can be made again."""
    return "(" not in name


def _full_id(env_id: str) -> str:
    """The id with its version; without a module of ours or Gymnasium's, which are imported anyway."""
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        namespace, short, version = parse_env_id(name)
        if version is None:
            name = get_env_id(namespace, short, find_highest_version(namespace, short))
        gym.registry[name]
    except (gym.error.Error, KeyError, ImportError) as error:
        hint = f": {error}" if isinstance(error, ImportError) else ""
        hint = hint or validation.did_you_mean(name, map(str, gym.registry))
        raise ValueError(
            f"env must be the id of a known environment (`ppobook envs` lists them), got {env_id!r}{hint}"
        ) from None
    return name if module.partition(".")[0] in ("", "gymnasium", "ppobook") else f"{module}:{name}"


def _by_id(maker: EnvMaker) -> gym.Env:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium warns of every environment that has a newer version
        try:
            return gym.make(maker.name, disable_env_checker=True, **copy.deepcopy(maker.settings))
        except Exception as error:  # anything a constructor raises, for a setting that it does not know, say
            given = f" with {maker.settings}" if maker.settings else ""
            reason = validation.reason(error)
            raise ValueError(f"env {maker.name!r}{given} cannot be made: {reason}") from error


def _called(make: Callable[[], gym.Env], num_envs: int) -> Iterator[gym.Env]:
    """Environments of a function, each its own."""
    made: list[gym.Env] = []
    for _ in range(num_envs):
        env = make()
        if any(env.unwrapped is other.unwrapped for other in made):
            raise ValueError(
                f"env must return a new environment each time, got {_name_of(make)} twice the same"
            )
        made.append(env)
        yield env


def _copies(env: gym.Env, num_envs: int) -> Iterator[gym.Env]:
    """The environment itself, or copies of it if there are to be several."""
    if num_envs == 1:
        return iter([env])
    try:
        if is_rebuilt_when_copied(env.unwrapped):
            raise TypeError("its constructor would be called again")
        return iter([copy.deepcopy(env) for _ in range(num_envs)])
    except Exception as error:  # anything an environment's parts raise when copied
        raise ValueError(
            f"env must be a function that makes an environment for num_envs={num_envs}, got "
            f"{_described(env)}, which cannot be copied ({validation.reason(error)})"
        ) from error


def _described(env: gym.Env) -> str:
    """An environment and its wrappers: "RewardScale(my_module.MyEnv())"."""
    if isinstance(env, gym.Wrapper):
        return f"{type(env).__qualname__}({_described(env.env)})"
    return _name_of(type(env))


def _name_of(made_by: Any) -> str:
    """A class or a function that makes an environment: "my_module.make_it()"."""
    kind = made_by if hasattr(made_by, "__qualname__") else type(made_by)
    return f"{kind.__module__}.{kind.__qualname__}()"
