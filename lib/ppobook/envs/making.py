"""Environments from what users pass: an id, a spec, an environment, or a function that makes one."""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, find_highest_version, get_env_id, parse_env_id
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

from ppobook import validation

EnvLike = str | EnvSpec | gym.Env | Callable[[], gym.Env]

# Steps in which two environments are compared.
_TRIAL = 10
# Wrappers of `gymnasium.make` that change neither observations nor rewards.
_NEUTRAL = (OrderEnforcing, PassiveEnvChecker)
_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class EnvMaker:
    """Makes as many environments of one kind as are asked for.

    Attributes
    ----------
    name : str
        The full id, such as "CartPole-v1"; for an environment or a factory that no id stands for, a
        description with brackets, such as "my_module.MyEnv()", which no id has.
    settings : dict
        Keyword arguments that go with the id.
    own : function of a count, optional
        Makes them where no id stands for them.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    own: Callable[[int], Iterator[gym.Env]] | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """What is registered under the id; None where there is none."""
        return gym.registry.get(self.name.rpartition(":")[2])

    def make(self, num_envs: int) -> Iterator[gym.Env]:
        """New environments, each when it is asked for."""
        num_envs = validation.count("num_envs", num_envs)
        if self.own is not None:
            return self.own(num_envs)
        return (_by_id(self) for _ in range(num_envs))


def env_maker(env: EnvLike | EnvMaker, settings: dict[str, Any] | None = None) -> EnvMaker:
    """What makes environments of this kind.

    Parameters
    ----------
    env : str, EnvSpec, gymnasium.Env or function
        As for `make_env`.
    settings : dict, optional
        Keyword arguments for an environment that is given by its id.

    Raises
    ------
    ValueError, TypeError
        An id that is not known; an environment that can't be made; settings for one that has its own;
        something else.
    """
    settings = {} if settings is None else validation.keywords("settings", settings)
    if isinstance(env, str):
        return EnvMaker(_full_id(str(env)), settings)
    if isinstance(env, EnvMaker) and env.own is None:
        return replace(env, settings=settings) if settings else env
    hint = "" if isinstance(env, EnvMaker | gym.Env) else validation.other_half(env, "ppobook")
    network = hasattr(env, "forward")  # which is callable, too
    known = isinstance(env, EnvMaker | EnvSpec | gym.Env) or (callable(env) and not network and not hint)
    if isinstance(env, VectorEnv) or not known:
        got = type(env).__name__ if hint or network else repr(env)
        got = "a vector environment" if isinstance(env, VectorEnv) else got
        raise TypeError(
            "env must be the id of an environment, such as 'CartPole-v1', an environment, or a function that "
            f"makes one, got {got}{hint}"
        )
    if settings:
        raise ValueError(
            "keyword arguments of an environment must be left out where env is not an id, "
            f"got {', '.join(settings)}"
        )
    if isinstance(env, EnvMaker):
        return env
    if isinstance(env, gym.Env):
        _refuse_without_spaces(env, _described(env))
        return _registered(env) or EnvMaker(_described(env), own=partial(_copies, env))
    if isinstance(env, EnvSpec):
        make, name = partial(_call, partial(gym.make, env), env.id), f"gymnasium.make({env.id})"
        with_id = _registered(make())
        return with_id or EnvMaker(name, own=partial(_called, make, name))
    name = _function_name(env)
    return EnvMaker(name, own=partial(_called, partial(_call, env, name), name))


def has_id(name: str) -> bool:
    """Whether an `EnvMaker.name` is an id, from which the environment can be made again."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    return "(" not in name


def _full_id(env_id: str) -> str:
    """The id with its version; without a module of ours or Gymnasium's, which are imported anyway."""
    module, colon, name = env_id.rpartition(":")
    if colon and module:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:  # anything the module raises
            raise _cannot_be_made(env_id, {}, error) from error
    if name not in gym.registry:
        try:
            namespace, short, version = parse_env_id(name)
        except gym.error.Error:
            raise _unknown(env_id) from None
        newest = find_highest_version(namespace, short) if version is None else None
        name = get_env_id(namespace, short, newest)
        if name not in gym.registry:
            raise _unknown(env_id) from None
    known = module.partition(".")[0] in ("", "gymnasium", "ppobook")
    return name if known else f"{module}:{name}"


def _unknown(env_id: str) -> ValueError:
    module, _, name = env_id.rpartition(":")
    entries = {other: spec.entry_point for other, spec in gym.registry.items()}
    own = [
        repr(other)
        for other, x in entries.items()
        if module and module in (f"{x}".partition(":")[0], getattr(x, "__module__", ""))
    ]
    hint = (
        f": {module} has {', '.join(own)}" if own else validation.did_you_mean(name, map(str, gym.registry))
    )
    spaces = {spec.namespace for spec in gym.registry.values()}
    if not hint and "/" in name and name.partition("/")[0] not in spaces:
        hint = f". An id that a package registers is given with it, as in package:{name}"
    return ValueError(
        f"env must be the id of a known environment (`ppobook envs` lists them), got {env_id!r}{hint}"
    )


def _cannot_be_made(name: str, settings: dict[str, Any], error: BaseException) -> ValueError:
    missing = isinstance(error, ImportError | gym.error.DependencyNotInstalled)
    module, colon, rest = name.partition(":")
    if colon and (module.endswith(".py") or "/" in module):
        own = f"{Path(module).stem}:{rest}"
        return ValueError(f"env must name its module, as in {own!r}, and not the module's file, got {name!r}")
    why = "needs a package that is not installed" if missing else "cannot be made"
    given = f" with {settings}" if settings else ""
    return ValueError(f"env {name!r}{given} {why}: {validation.reason(error)}")


def _by_id(maker: EnvMaker) -> gym.Env:
    make = partial(gym.make, maker.name, disable_env_checker=True, **validation.copied(maker.settings))
    quiet = maker.spec is not None and ".mujoco" in str(maker.spec.entry_point)
    with _quiet_mujoco() if quiet else contextlib.nullcontext():
        return _call(make, maker.name, maker.settings)


@contextlib.contextmanager
def _quiet_mujoco() -> Iterator[None]:
    """Without MuJoCo's warnings about Gymnasium's model files, which it prints and writes into a file."""
    try:
        mujoco: Any = importlib.import_module("mujoco")
    except ImportError:
        yield
        return
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _call(make: Callable[[], gym.Env], name: str, settings: dict[str, Any] | None = None) -> gym.Env:
    try:
        with warnings.catch_warnings():
            # Gymnasium warns of every environment that has a newer version.
            warnings.simplefilter("ignore")
            env = make()
    except (Exception, SystemExit) as error:  # anything an environment's constructor raises
        raise _cannot_be_made(name, settings or {}, error) from error
    if not isinstance(env, gym.Env):
        raise TypeError(f"env must be a function that returns a gymnasium.Env, got {env!r} from {name}")
    _refuse_without_spaces(env, name)
    return env


def _refuse_without_spaces(env: gym.Env, name: str) -> None:
    """Raise TypeError for an environment whose class forgets a space."""
    for what in ("observation_space", "action_space"):
        space = getattr(env, what, None)
        if not isinstance(space, gym.Space):
            raise TypeError(f"{what} of env {name!r} must be a gymnasium.Space, got {space!r}")


def _called(make: Callable[[], gym.Env], name: str, num_envs: int) -> Iterator[gym.Env]:
    """Environments of a factory."""
    made: list[gym.Env] = []
    for _ in range(num_envs):
        env = make()
        if any(env.unwrapped is other.unwrapped for other in made):
            raise ValueError(
                f"env must be a function that returns a new environment each time, got {name}, which "
                "returned the same one twice"
            )
        made.append(env)
        yield env


def _copies(env: gym.Env, num_envs: int) -> Iterator[gym.Env]:
    """The environment itself, or copies of it if there are to be several."""
    if num_envs == 1:
        return iter([env])
    try:
        *copies, another = (copy.deepcopy(env) for _ in range(num_envs + 1))
        # Some classes are copied by calling their constructor again: Box2D's and MuJoCo's.
        fault = "" if _alike(env, another) else "whose copy behaves differently"
    except Exception as error:  # anything an environment's parts raise when copied
        fault = f"which cannot be copied ({validation.reason(error)})"
    if fault:
        raise ValueError(
            f"env must be a function that makes an environment for num_envs={num_envs}, got "
            f"{_described(env)}, {fault}. Or set num_envs to 1"
        )
    return iter(copies)


def _registered(env: gym.Env) -> EnvMaker | None:
    """The id and settings of an environment that is as `gymnasium.make` makes it; None for others."""
    spec = env.spec
    known = gym.registry.get(spec.id) if spec is not None else None
    if spec is None or known is None:
        return None
    settings = {
        name: x
        for name, x in spec.kwargs.items()
        if name not in known.kwargs or _comparable(x) != _comparable(known.kwargs[name])
    }
    if spec.max_episode_steps != known.max_episode_steps:
        settings["max_episode_steps"] = -1 if spec.max_episode_steps is None else spec.max_episode_steps
    try:
        json.dumps(settings)
        twin = next(EnvMaker(spec.id, settings).make(1))
    except (TypeError, ValueError):
        return None
    alike = _layers(env) == _layers(twin) and _alike(env, twin)
    twin.close()
    return EnvMaker(spec.id, settings) if alike else None


def _layers(env: gym.Env) -> list[type]:
    """The classes of an environment and its wrappers, the outermost first; without neutral wrappers."""
    layers: list[type] = []
    while isinstance(env, gym.Wrapper):
        layers += [] if isinstance(env, _NEUTRAL) else [type(env)]
        env = env.env
    return [*layers, type(env)]


def _alike(a: gym.Env, b: gym.Env) -> bool:
    """Whether two environments have the same spaces and attributes, and do the same in a few steps."""
    return (
        a.observation_space == b.observation_space
        and a.action_space == b.action_space
        and (_played(a) == _played(b))
    )


def _played(env: gym.Env) -> list[Any]:
    """What comes of the same few steps, and the attributes that are plain data."""
    seen: list[Any] = []
    actions = copy.deepcopy(env.action_space)
    actions.seed(0)
    try:
        seen.append(env.reset(seed=0)[0])
        for _ in range(_TRIAL):
            *result, _ = env.step(actions.sample())
            seen.append(result)
            if result[2] or result[3]:
                seen.append(env.reset()[0])
    except (Exception, SystemExit) as error:  # it will come again, and be reported, when steps are taken
        seen.append(repr(error))
    return [_comparable(seen), _comparable(vars(env.unwrapped))]


def _comparable(x: Any) -> Any:
    """What is plain data, in a form that == compares, NaN included; of the rest the class."""
    if isinstance(x, dict):
        return {name: _comparable(value) for name, value in x.items()}
    if isinstance(x, list | tuple):
        return [_comparable(value) for value in x]
    if isinstance(x, np.ndarray | np.generic):
        return x.dtype.str, x.shape, x.tobytes()
    return repr(x) if isinstance(x, _PLAIN) else type(x)


def _described(env: gym.Env) -> str:
    """An environment and its wrappers: "RewardScale(my_module.MyEnv())"."""
    *wrappers, inner = _layers(env)
    name = f"{inner.__module__}.{inner.__qualname__}()"
    for wrapper in reversed(wrappers):
        name = f"{wrapper.__qualname__}({name})"
    return name


def _function_name(function: Callable[[], Any]) -> str:
    """A factory: "my_module.make_it()"."""
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    if not hasattr(inner, "__qualname__"):
        inner = type(inner)
    return f"{inner.__module__}.{inner.__qualname__}()"
