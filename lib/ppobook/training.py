"""What every trainer shares: the loop, its progress and history, checkpoints and resuming.

An algorithm is a `Learner`: it says how it gathers a batch and what it does with it. All the rest is here,
so that its own file holds the algorithm and nothing else.

A run's folder::

    config.json               what was asked for, for people
    history.csv               one row an update, for people and plots; times are in columns named seconds…
    checkpoint-000120/        all that is needed to go on from update 120; the last two are kept
        state.pt              weights, optimizers, random generators, history; read with weights_only=True
        environments.pkl      the environments in mid-episode, pickled; only resuming reads it

**Trust.** A pickle can run code when it is read. `load` does not unpickle `environments.pkl`, and
`state.pt` is read in torch's restricted mode, so a stranger's run is safe to load. Resume only runs that
you would also execute; without its `environments.pkl` a run can still be resumed, with new episodes.
"""

from __future__ import annotations

import array
import contextlib
import copy
import csv
import errno
import importlib
import inspect
import io
import json
import math
import os
import re
import shutil
import signal
import sys
import threading
import time
import types
import typing
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, NamedTuple, Self

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from tqdm import tqdm

import ppobook
from ppobook import _doors
from ppobook.divergences import k3
from ppobook.envs import MOST_ENVS, make_env
from ppobook.networks import Policy, policy_for, value_for
from ppobook.returns import discounted_returns
from ppobook.rollouts import Collector, Rollout

# A policy is a module with the methods of `networks.Policy`; ours and a user's own are treated alike, so
# nothing more is said of its type.
AnyPolicy = Any
AnyValue = nn.Module

# Found by name when asked for: this room may not import the trainers, which are built on it.
ALGORITHMS = {
    "vanilla": "ppobook.vanilla:Vanilla",
    "trpo": "ppobook.trpo:TRPO",
    "ppo": "ppobook.ppo:PPO",
}

# What every run records of an update, in this order; an algorithm may add to it.
COLUMNS = (
    "update",
    "steps",
    "episodes",
    "return_mean",
    "return_std",
    "return_min",
    "return_max",
    "length_mean",
    "policy_loss",
    "value_loss",
    "entropy",
    "explained_variance",
    "approx_kl",
    "grad_norm",
    "seconds_rollout",
    "seconds_update",
    "seconds",
)

# These are whole numbers; all others are floats.
COUNTS = ("update", "steps", "episodes")

# Layers whose answer to one observation depends on chance, or on the other observations beside it.
_FICKLE = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)

# The columns that no algorithm may fill.
_COUNTED = ("update", "steps", "episodes", "length_mean")

# The layout of a checkpoint. One with another number is refused, and not guessed at.
FORMAT = 1

# Without a critic a batch holds whole episodes. A world that shows no end for so long has none.
_ENDLESS = 100_000


# ---------------------------------------------------------------------------------------------- settings


def setting(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] | None = None,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> Any:
    """A field of a `Settings` class: its default, a sentence for people, and what it may be."""
    limits = {"low": low, "high": high, "above": above}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    metadata = {"help": help, "choices": choices, "limits": limits}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """The settings that every algorithm has."""

    num_envs: int = setting(8, "environments stepped side by side", low=1, high=MOST_ENVS)
    num_steps: int = setting(128, "steps that each environment takes before an update", low=1, high=1_000_000)
    gamma: float = setting(0.99, "discount of rewards that come a step later", low=0, high=1)
    hidden: tuple[int, ...] = setting(
        (64, 64), "widths of the hidden layers, of policy and critic alike", low=1, high=8192
    )
    env_kwargs: dict[str, Any] = setting({}, "keyword arguments of the environment")  # noqa: RUF009

    @classmethod
    def make(cls, algorithm: str, given: dict[str, Any], preset: dict[str, Any]) -> Self:
        """The settings of a run: what was given, else the environment's preset, else the defaults.

        Raises
        ------
        ValueError, TypeError
            A name that the algorithm does not have, or a value that the setting does not take.
        """
        known = {f.name: f for f in fields(cls)}
        written = inspect.get_annotations(cls).items()
        forgotten = [name for name, kind in written if name not in known and "ClassVar" not in str(kind)]
        if forgotten:
            raise TypeError(
                f"{cls.__name__} adds {forgotten[0]!r} and is no dataclass; "
                "@dataclass(frozen=True) is wanted above the class"
            )
        for name in given:
            if name not in known:
                raise ValueError(
                    f"{name}={given[name]!r}: {algorithm} has no such setting; "
                    f"{_doors.nearest(name, list(known), show=len(known))}"
                )
        return cls(**{name: cls.checked(name, value) for name, value in {**preset, **given}.items()})

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """A setting's value in its type, after its door."""
        # A subclass may annotate a field without `setting`: then it has no limits, and its type counts.
        metadata = cls.__dataclass_fields__[name].metadata
        limits, choices = metadata.get("limits", {}), metadata.get("choices")
        wanted = typing.get_type_hints(cls)[name]
        if typing.get_origin(wanted) in (types.UnionType, typing.Union):
            kinds = [kind for kind in typing.get_args(wanted) if kind is not types.NoneType]
            # The command line and a file have no other word for None.
            if len(kinds) < len(typing.get_args(wanted)) and str(value).lower() == "none":
                return None
            wanted = kinds[0] if len(kinds) == 1 else Any
        if choices is not None:
            return _doors.choice(name, value, choices)
        if wanted is bool:
            return _doors.flag(name, value)
        if wanted is int:
            return _whole(name, value, **limits)
        if wanted is float:
            return _doors.number(name, value, **limits)
        if wanted is str:
            if not isinstance(value, str):
                raise TypeError(f"{name} is {value!r}; a string is wanted")
            return str(value)
        if typing.get_origin(wanted) is tuple:
            value = value.tolist() if isinstance(value, np.ndarray) else value
            several = value if isinstance(value, list | tuple) else (value,)
            read = _doors.number if float in typing.get_args(wanted) else _whole
            return tuple(read(name, one, **limits) for one in several)
        return _keywords(name, value) if name == "env_kwargs" else _storable(name, value)


def _whole(name: str, value: Any, **limits: Any) -> int:
    """A count. 1e5 is how people write a hundred thousand."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return _doors.count(name, whole, **limits)


def _keywords(name: str, value: Any) -> dict[str, Any]:
    """Keyword arguments of an environment, in plain data: a checkpoint must hold them."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"{name} is {value!r}; a dict of keyword arguments is wanted")
    taken = sorted({"env_id", "num_envs", "seed", "id", "disable_env_checker"} & value.keys())
    if taken:
        raise ValueError(
            f"{name} holds {taken[0]!r}, which training sets itself; arguments of the environment are wanted"
        )
    plain: dict[str, Any] = _storable(name, value)
    return plain


def _storable(name: str, value: Any) -> Any:
    """A value in plain data: a checkpoint must hold it."""
    plain = _plain(value)
    try:
        json.dumps(plain)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} is {value!r}, which no checkpoint can hold; numbers, strings, True, False, None, and "
            "lists and dicts of them are wanted"
        ) from None
    return plain


def _plain(value: Any) -> Any:
    """NumPy's numbers, strings and arrays as Python's own."""
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        inside = [_plain(one) for one in value]
        return tuple(inside) if isinstance(value, tuple) else inside
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


# ---------------------------------------------------------------------------------------------- learners


class Learner:
    """An algorithm, for one environment's kind of observations and actions.

    A subclass names its `settings_class` and `presets`, makes what it needs in `__init__`, lists in
    `remembers` the attributes that a checkpoint must hold, and writes `update`. The loop does the rest. What
    is to differ from an algorithm of the book is written as a subclass of it, given to `train`, and to `load`
    in order to read its runs::

        @dataclass(frozen=True)
        class MySettings(PPO.settings_class):
            memory: float = setting(0.9, "share of the old average that is kept", low=0, high=1)

        class MyPPO(PPO):
            settings_class = MySettings
            remembers = (*PPO.remembers, "average")         # else a resumed run would begin with 0 again

            def __init__(self, observation_space, action_space, settings, **kwargs):
                super().__init__(observation_space, action_space, settings, **kwargs)
                self.average = 0.0

            def networks(self, observation_space, action_space, seed):
                policy, value = super().networks(observation_space, action_space, seed)
                return MyPolicy(observation_space, action_space), value

        run = train(MyPPO, env="CartPole-v1", memory=0.95, out="run")
        run = load("run", learner=MyPPO)

    A checkpoint holds the name of the class and not its code, so that reading a stranger's run never runs a
    stranger's module; whoever has the class hands it over. The class may stand in a notebook, and may move
    to a module later: only its own name must stay. On the command line it is `my_module:MyPPO`.

    Attributes
    ----------
    policy : torch module with the methods of `ppobook.networks.Policy`
        It need not be a class of the book's.
    value : torch module or None
        Observations [..., obs] to values [...].
    settings : Settings
    device : str
    progress : float
        The share of `total_steps` done before the present update, from 0 to below 1: for schedules.

    Notes
    -----
    `remembers` takes modules, optimizers and whatever else has `state_dict` and `load_state_dict`, random
    generators of torch and NumPy, tensors, numbers, strings, and lists and dicts of them. An attribute that
    is a generator, or has those two methods, and is not listed is refused when training begins.
    """

    algorithm: ClassVar[str]
    settings_class: ClassVar[type[Settings]] = Settings
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    remembers: ClassVar[tuple[str, ...]] = ("policy", "value")

    policy: AnyPolicy
    value: AnyValue | None
    progress: float = 0.0

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        settings: Any,
        *,
        seed: int = 0,
        device: str = "cpu",
        critic: bool = True,
    ) -> None:
        """Fresh networks on the device; without `critic`, only the policy is kept."""
        self.settings = settings
        self.device = device
        self.spaces = observation_space, action_space
        # Layers of torch draw their first weights from its global generator. A user's network is made of
        # them, and has to be the same when the seed is.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream(seed, "networks"))
            made = self.networks(observation_space, action_space, seed)
        policy, value = _checked_networks(type(self).__name__, made, critic)
        self.policy = policy.to(device)
        self.value = value.to(device) if critic and value is not None else None

    def networks(
        self, observation_space: gym.Space, action_space: gym.Space, seed: int
    ) -> tuple[AnyPolicy, AnyValue | None]:
        """A fresh policy and critic: what a subclass overrides to bring its own.

        Parameters
        ----------
        observation_space, action_space : gymnasium.Space
            Of a single environment.
        seed : int
            The run's. Modules that draw from torch's global generator need not look at it: the generator is
            seeded before the call and put back after it.

        Returns
        -------
        policy : torch module with the methods of `ppobook.networks.Policy`
        value : torch module, or None for an algorithm without a critic
            The two may share modules.
        """
        hidden = self.settings.hidden
        policy = policy_for(observation_space, action_space, hidden, seed=stream(seed, "policy"))
        return policy, value_for(observation_space, hidden, seed=stream(seed, "critic"))

    def collect(self, collector: Collector) -> Rollout:
        """The batch of one update."""
        return collector.collect(self.settings.num_steps)

    def used(self, rollout: Rollout) -> Tensor | None:
        """Which steps of the batch count, [N, T] bool; None if all of them do."""
        return None

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learn from a batch; return what the history should say about it.

        A name of `COLUMNS` fills that column, any other one adds a column. An algorithm that measures
        `entropy` and `approx_kl` itself returns them, and spares the loop a pass through the networks. The
        names that the loop fills are refused: `update`, `steps`, `episodes`, `length_mean`, and all that
        begin with `return_` or `seconds`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method update; one is wanted")

    def begin_afresh(self) -> None:
        """Forget what was kept of the episodes under way: the environments have been reset."""

    def state_dict(self) -> dict[str, Any]:
        """All that has been learned so far, for a checkpoint."""
        return {
            name: _remembered(name, getattr(self, name))
            for name in self.remembers
            if getattr(self, name) is not None
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to what `state_dict` returned."""
        for name, part in state.items():
            mine = getattr(self, name)
            if hasattr(mine, "load_state_dict"):
                mine.load_state_dict(part)
            elif isinstance(mine, torch.Generator):
                mine.set_state(part)
            elif isinstance(mine, np.random.Generator):
                mine.bit_generator.state = part
            else:
                setattr(self, name, part.to(self.device) if isinstance(part, Tensor) else part)


def _remembered(name: str, x: Any) -> Any:
    """What a checkpoint holds of an attribute."""
    if hasattr(x, "state_dict") and hasattr(x, "load_state_dict"):
        return x.state_dict()
    if isinstance(x, torch.Generator):
        return x.get_state()
    if isinstance(x, np.random.Generator):
        return x.bit_generator.state
    return x.detach().clone() if isinstance(x, Tensor) else _storable(name, x)


def _checked_networks(learner: str, made: Any, critic: bool) -> tuple[AnyPolicy, AnyValue | None]:
    """What `networks` returned, after the door."""
    if not isinstance(made, tuple) or len(made) != 2:
        raise TypeError(
            f"{learner}.networks returned {type(made).__name__}; a pair (policy, value) is wanted"
        )
    policy, value = made
    if not isinstance(policy, nn.Module) or not (value is None or isinstance(value, nn.Module)):
        wrong, x = ("policy", policy) if not isinstance(policy, nn.Module) else ("value", value)
        raise TypeError(
            f"{learner}.networks returned a {wrong} of type {type(x).__name__}; a torch.nn.Module is wanted"
        )
    lacking = [name for name in vars(Policy) if not name.startswith("_") and not hasattr(policy, name)]
    if lacking:
        raise TypeError(
            f"{learner}.networks returned a policy of type {type(policy).__name__}, which has no "
            f"{' and no '.join(lacking)}; the methods of ppobook.networks.Policy are wanted"
        )
    for network in (policy, value):
        for part in [] if network is None else network.modules():
            if isinstance(part, _FICKLE):
                raise ValueError(
                    f"{learner}.networks returned a network with a {type(part).__name__}, which answers "
                    "differently in training, so that a ratio to its own past would mean nothing; LayerNorm, "
                    "or none, is wanted"
                )
    if critic and value is None:
        raise TypeError(
            f"{learner}.networks returned no value, and this algorithm has a critic; "
            "a torch.nn.Module is wanted"
        )
    return policy, value


def _refuse_to_forget(learner: Learner) -> None:
    """Refuse a learner with a part that changes and that its checkpoints would lack."""
    absent = [name for name in learner.remembers if not hasattr(learner, name)]
    if absent:
        raise ValueError(
            f"{type(learner).__name__}.remembers lists {absent[0]!r}, which it does not have after __init__; "
            "an attribute is wanted (super().__init__ makes those of the class it extends)"
        )
    kept = [getattr(learner, name) for name in learner.remembers]
    known = {
        id(x)
        for part in kept
        if isinstance(part, nn.Module)
        for x in part.state_dict(keep_vars=True).values()
    }
    for name, part in vars(learner).items():
        if name in learner.remembers:
            continue
        if isinstance(part, nn.Module):
            lost = any(id(x) not in known for x in part.state_dict(keep_vars=True).values())
        else:
            lost = isinstance(part, torch.Generator | np.random.Generator) or (
                hasattr(part, "state_dict") and hasattr(part, "load_state_dict")
            )
        if lost:
            kind = type(learner).__name__
            raise ValueError(
                f"{kind} has {name}, a {type(part).__name__}, which its checkpoints would lack; "
                f'remembers = (…, "{name}") is wanted in {kind}'
            )


def learner_class(algorithm: Any) -> type[Learner]:
    """The learner of this name; a subclass of `Learner` stands for itself."""
    if isinstance(algorithm, type) and issubclass(algorithm, Learner):
        return algorithm
    if isinstance(algorithm, type):
        raise TypeError(f"algorithm is the class {algorithm.__name__}; a subclass of Learner is wanted")
    module, _, name = ALGORITHMS[_doors.choice("algorithm", algorithm, ALGORITHMS)].partition(":")
    found: type[Learner] = getattr(importlib.import_module(module), name)
    return found


def learner_name(kind: type[Learner]) -> str:
    """What a run's config calls a learner: "ppo", or "my_module:MyPPO" for a user's own."""
    place = f"{kind.__module__}:{kind.__qualname__}"
    short = {where: name for name, where in ALGORITHMS.items()}
    return short.get(place, place)


def short_name(algorithm: str) -> str:
    """For people: "ppo", and "MyPPO" for "my_module:MyPPO"."""
    return re.split(r"[:.]", algorithm)[-1]


def _learner_of_run(config: dict[str, Any], learner: Any) -> type[Learner]:
    """The class that a run was trained by. One of the user's own is never imported, only taken."""
    named = config["algorithm"]
    if learner is None:
        if isinstance(named, str) and ":" in named:
            short = short_name(named)
            raise ValueError(
                f"the run was trained by {named!r}, a class that is not ppobook's; wanted: the class itself, "
                f"as in load(folder, learner={short}) or train({short}, resume=folder); on the command line "
                f"my_module:{short}"
            )
        return learner_class(named)
    if not isinstance(learner, type):
        raise TypeError(f"learner is {learner!r}; the class itself is wanted, and not its name")
    kind = learner_class(learner)
    if learner_name(kind) != named and not (":" in named and kind.__name__ == short_name(named)):
        raise ValueError(
            f"learner is {learner_name(kind)!r}, and the run was trained by {named!r}, which is wanted"
        )
    return kind


def gradient_step(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    """One step of the optimizer down the loss; returns the length of the gradient."""
    optimizer.zero_grad()
    loss.backward()
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    optimizer.step()
    return norm.item()


@torch.no_grad()
def critic_values(value: nn.Module, rollout: Rollout) -> tuple[Tensor, Tensor, Tensor]:
    """What the critic expects at every place where a rollout can go on or stop.

    Returns
    -------
    values : [N, T]
        V of the observation that each action was taken in.
    last_values : [N]
        V of what each environment shows after the last step: an unfinished episode goes on from there.
    final_values : [N, T]
        V of the observation at which an episode was truncated; NaN at all other steps.
    """
    values = value(rollout.observations)
    if values.shape != rollout.rewards.shape:
        raise ValueError(
            f"the critic gave values of shape {tuple(values.shape)} for observations of shape "
            f"{tuple(rollout.observations.shape)}; {tuple(rollout.rewards.shape)} is wanted, one number an "
            "observation (.squeeze(-1) takes away a last axis of 1)"
        )
    final_values = torch.full_like(rollout.rewards, torch.nan)
    cut = rollout.truncated & ~rollout.terminated
    if cut.any():
        final_values[cut] = value(rollout.final_observations)
    return values, value(rollout.last_observations), final_values


def collect_episodes(collector: Collector, at_least: int) -> Rollout:
    """Whole episodes: from a reset, `at_least` steps in each environment, and on until all have ended.

    An environment that has ended goes on stepping while others are waited for. Those steps are in the
    rollout, and cost what steps cost; `whole_episodes` says which ones count.

    Raises
    ------
    ValueError
        An environment shows no end.
    """
    collector.reset()
    parts = [collector.collect(at_least)]
    waiting = ~_ended(parts[0])[:, -1]
    while waiting.any():
        parts.append(collector.collect(max(1, at_least // 16)))
        waiting = waiting & ~_ended(parts[-1]).any(1)
        if sum(part.rewards.shape[1] for part in parts) > at_least + _ENDLESS:
            raise ValueError(
                f"an episode has gone on for {_ENDLESS} steps; without a critic whole episodes are needed; "
                'wanted: baseline="value", or an environment with a time limit'
            )
    return Rollout.join(parts)


def whole_episodes(rollout: Rollout, at_least: int) -> Tensor:
    """The steps of a rollout from `collect_episodes` that belong to its batch, [N, T] bool.

    In each environment: everything up to the first end of an episode at step `at_least` or later. Whether
    another episode belongs to the batch is so decided before it begins, and never by how it turns out; that
    is what makes the sum over a batch's episodes right on average (Wald's identity). To keep just the
    episodes that happen to be over after a fixed number of steps would prefer short ones.
    """
    ended = _ended(rollout).clone()
    ended[:, : at_least - 1] = False
    over_before = ended.cumsum(1) - ended.int()
    return over_before == 0


def episode_starts(rollout: Rollout) -> Tensor:
    """For each step the index of the first step of its episode in this rollout, [N, T] int64."""
    first = torch.zeros_like(rollout.terminated, dtype=torch.int64)
    first[:, 1:] = torch.where(
        _ended(rollout)[:, :-1], torch.arange(1, first.shape[1], device=first.device), 0
    )
    return first.cummax(1).values


def _ended(rollout: Rollout) -> Tensor:
    return rollout.terminated | rollout.truncated


def _episodes(rollout: Rollout, used: Tensor | None) -> tuple[np.ndarray, np.ndarray]:
    """Returns and lengths of the episodes that ended in this batch."""
    if used is None:
        return np.asarray(rollout.episode_returns, float), np.asarray(rollout.episode_lengths, float)
    first = used & (episode_starts(rollout) == torch.arange(used.shape[1], device=used.device))
    played = rollout.rewards.double(), rollout.terminated, rollout.truncated
    length = discounted_returns(torch.ones_like(played[0]), *played[1:], gamma=1.0)
    return discounted_returns(*played, gamma=1.0)[first].cpu().numpy(), length[first].cpu().numpy()


# ------------------------------------------------------------------------------------------------- a run


@dataclass
class Run:
    """What training gives back.

    Attributes
    ----------
    policy : torch module
        Trained; `policy.sample(observations)` acts.
    history : DataFrame
        One row an update; see `train`.
    config : dict
        Everything the run was asked for, defaults and presets included.
    value : torch module or None
        The critic, if the run has one.
    """

    policy: AnyPolicy
    history: pd.DataFrame
    config: dict[str, Any]
    value: AnyValue | None
    _snapshot: _Snapshot = field(repr=False)

    def save(self, folder: str | Path) -> Path:
        """Write the run to a new folder, from which `load` and `train(resume=…)` work.

        Raises
        ------
        OSError
            The folder holds something already, or cannot be written.
        """
        path = _new_folder("folder", folder)
        _write(path, self._snapshot)
        return path


def load(folder: str | Path, learner: type[Learner] | None = None, device: str | None = None) -> Run:
    """A run as its last checkpoint has it: policy, critic, history, config.

    The environment is not made, and its pickled state is not opened.

    Parameters
    ----------
    folder : path
    learner : subclass of Learner, optional
        For a run that `train` did with a class of the user's own: that class. Its name stands in the run's
        config, and is not imported: a stranger's run could name anything.
    device : str, optional
        Where its networks are put. Left out: where they were trained, or on the CPU if that is not here.

    Raises
    ------
    ValueError, OSError
        No run there, a checkpoint that is cut short, from another version, or not ours to read; a run of a
        user's own class, and no `learner` or another one.
    """
    snapshot = _read("folder", folder)
    if device is None:
        with contextlib.suppress(ValueError):
            device = _device(snapshot.state["config"].get("device", "cpu"))
    return _run_of(_learner_of(snapshot, learner, device or "cpu"), snapshot)


class Record(NamedTuple):
    """What a run's folder says of it, without its networks: so it can be read without the class of a user's
    learner.
    """

    history: pd.DataFrame
    config: dict[str, Any]
    observation_space: gym.Space
    action_space: gym.Space


def read_record(folder: str | Path, name: str = "folder") -> Record:
    """History, config and spaces of a run, as its last checkpoint has them.

    Parameters
    ----------
    folder : path
    name : str
        The argument that the folder came in, for the sentence that refuses it.

    Raises
    ------
    ValueError, OSError
        As for `load`.
    """
    snapshot = _read(name, folder)
    state = snapshot.state
    try:
        spaces = [_space(description) for description in state["spaces"]]
        return Record(_table(state["history"]), dict(state["config"]), *spaces)
    except Exception as error:
        raise _changed(snapshot, error) from None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training. The update under way was finished first and, given a folder, saved.

    Attributes
    ----------
    run : Run
        As far as it came.
    """

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


def train(
    algorithm: str | type[Learner] | None = None,
    env: str | None = None,
    seed: int | None = None,
    total_steps: int | None = None,
    out: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: str | Path | None = None,
    device: str | None = None,
    *,
    num_threads: int = 1,
    progress: bool | None = None,
    tensorboard: bool = False,
    **settings: Any,
) -> Run:
    """Train a policy.

    Parameters
    ----------
    algorithm : str or subclass of Learner
        "vanilla", "trpo" or "ppo"; or a class of your own, see `Learner`.
    env : str
        A Gymnasium id, such as "CartPole-v1".
    seed : int, default 0
        Decides everything random: the same seed, settings and machine give the same run, to the bit.
    total_steps : int, default 100,000
        Training stops at the first whole batch at or past so many environment steps, all environments
        together, counted from the start of the run; on resume too, where a larger number makes a finished run
        go on.
    out : path, optional
        A new folder for the run. One that holds something is refused.
    checkpoint_every : int, default 10
        Updates between two checkpoints.
    resume : path, optional
        Go on from the last checkpoint in this folder. Everything else is as it was; of the other arguments
        only `total_steps`, `device`, `num_threads`, `progress` and `tensorboard` may say something new.
        Schedules go by `total_steps`: one that was at its end is back in the middle when that grows.
    device : str, default "cpu"
        Where the networks live.
    num_threads : int, default 1
        Threads of torch. The book's networks are small, and one is then fastest.
    progress : bool, optional
        A bar with rate and time left. If left out: in a terminal and in a notebook.
    tensorboard : bool
        Also write the history as TensorBoard events, under `out`.
    **settings
        Of the algorithm, as its `Settings` class lists them. One that is left out comes from the
        environment's preset, else from the default.

    Returns
    -------
    Run
        Its history has a row for each update: update, steps and episodes so far; return_mean, _std, _min,
        _max and length_mean of the episodes that ended in the batch (undiscounted; NaN if none did);
        policy_loss, value_loss and grad_norm, means over the gradient steps of the update; entropy of the
        policy after the update; explained_variance of the returns by the values recorded in the rollout;
        approx_kl, the k3 estimate of KL(before, after) on the batch; and, in columns named seconds…,
        wall-clock times. What an algorithm lacks is NaN; what it measures beyond these stands in
        columns of its own, after them.

    Raises
    ------
    ValueError, TypeError, OSError
        An argument that cannot be used, with a sentence that says why.
    FloatingPointError
        The weights have grown beyond all bounds. The last checkpoint is whole.
    Interrupted
        Ctrl-C; a KeyboardInterrupt that carries the run so far. A second Ctrl-C does not wait.

    Notes
    -----
    A run that is killed and resumed gives the history (times aside) and the weights of an unbroken one, to
    the bit, where the environments can be pickled. Where they cannot, they are reset at every checkpoint that
    is due, by the run that goes through and by the one that resumes, so that the two agree again. A run that
    stopped between two of those, by Ctrl-C or at its end, is resumed from the one that was due last, and does
    the few updates after it a second time. Only one that `Run.save` wrote then has no such checkpoint, and
    goes on with new episodes.
    """
    asked = {
        "algorithm": algorithm,
        "env": env,
        "seed": seed,
        "out": out,
        "checkpoint_every": checkpoint_every,
        "device": device,
    }
    asked = {name: value for name, value in asked.items() if value is not None} | settings
    # More threads than this and the system may refuse one in the middle, which ends the process.
    num_threads = _doors.count("num_threads", num_threads, high=256)
    if progress is not None:
        progress = _doors.flag("progress", progress)
    if total_steps is not None:
        total_steps = _whole("total_steps", total_steps)
    if _doors.flag("tensorboard", tensorboard) and out is None and resume is None:
        raise ValueError("tensorboard=True, and out is left out; a folder is wanted to write the events to")

    with contextlib.ExitStack() as held:
        home: _Home | None = None
        if resume is not None:
            home = _Home("resume", _doors.path("resume", resume))
            held.enter_context(_locked(home))
            training = _Training.resumed(home, asked, total_steps)
        else:
            folder = None if out is None else _doors.path("out", out)
            training = _Training.fresh(asked, total_steps)
            if folder is not None:
                home = _Home("out", _new_folder("out", folder))
                held.enter_context(_locked(home))
        held.enter_context(threads(num_threads))
        training.go(home, held.enter_context(_Interrupts()), progress, tensorboard)
    return training.run()


@contextlib.contextmanager
def threads(n: int) -> Iterator[None]:
    """Let torch and NumPy use n threads inside the block. Nothing else here changes their number."""
    before = torch.get_num_threads()
    # NumPy's matrix products would take all cores, and on matrices of this size wait for most of them.
    with threadpool_limits(n):
        torch.set_num_threads(n)
        try:
            yield
        finally:
            torch.set_num_threads(before)


class _Home(NamedTuple):
    """The folder of a run under way, and the argument that it came in."""

    name: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.name}={str(self.folder)!r}"


class _Training:
    """A run while it runs."""

    def __init__(self, config: dict[str, Any], learner: Learner, envs: gym.vector.VectorEnv) -> None:
        self.config = config
        self.learner = learner
        self.collector = Collector(envs, learner.policy, seed=stream(config["seed"], "rollouts"))
        self.keeps_episodes = self.collector.saves_environments
        self.history = _History()
        self.seconds = 0.0

    @classmethod
    def fresh(cls, asked: dict[str, Any], total_steps: int | None) -> _Training:
        kind = learner_class(asked.pop("algorithm", None))
        if not isinstance(asked.get("env"), str):
            raise ValueError(
                f"env is {asked.get('env')!r}; the id of an environment is wanted, such as 'CartPole-v1'"
            )
        config: dict[str, Any] = {
            "algorithm": learner_name(kind),
            "env": str(asked.pop("env")),
            "seed": _doors.count("seed", asked.pop("seed", 0), low=0),
            "total_steps": total_steps or 100_000,
            "checkpoint_every": _doors.count("checkpoint_every", asked.pop("checkpoint_every", 10)),
            "device": _device(asked.pop("device", "cpu")),
        }
        asked.pop("out", None)
        called = short_name(config["algorithm"])
        settings = kind.settings_class.make(called, asked, kind.presets.get(config["env"], {}))
        config |= asdict(settings)
        envs = _envs_of(config)
        spaces = envs.single_observation_space, envs.single_action_space
        try:
            learner = kind(*spaces, settings, seed=config["seed"], device=config["device"])
            _refuse_to_forget(learner)
            learner.state_dict()
        except BaseException:
            envs.close()
            raise
        return cls(config, learner, envs)

    @classmethod
    def resumed(cls, home: _Home, asked: dict[str, Any], total_steps: int | None) -> _Training:
        snapshot = _read(*home)
        given = asked.pop("algorithm") if isinstance(asked.get("algorithm"), type) else None
        if "device" in asked:  # the only setting that says nothing about what is learned
            snapshot.state["config"]["device"] = _device(asked.pop("device"))
        learner = _learner_of(snapshot, given)
        config = snapshot.state["config"]
        for name, value in asked.items():
            if name == "out":
                raise ValueError(
                    f"out={str(value)!r}: a resumed run stays in its folder; wanted: resume without out"
                )
            if name not in config:
                raise ValueError(
                    f"{name}={value!r}: the run has no such setting, and a resumed run keeps its settings; "
                    "wanted: leave it out"
                )
            same = learner.settings.checked(name, value) if hasattr(learner.settings, name) else value
            if same != config[name]:
                raise ValueError(
                    f"{name}={value!r}: the run in {str(home.folder)!r} has {config[name]!r}, and a resumed "
                    "run keeps its settings; wanted: leave it out"
                )
        total_steps = total_steps or config["total_steps"]
        history = _History(snapshot.state["history"])
        if len(history) and history.last("steps") < total_steps and snapshot.environments is None:
            due = _last_due(home.folder, config["checkpoint_every"])
            if due is not None and _number(due) < snapshot.update:
                device = config["device"]
                snapshot = _read(*home, due)
                snapshot.state["config"]["device"] = device
                learner = _learner_of(snapshot, given)
        config = snapshot.state["config"] | {"total_steps": total_steps}
        training = cls(config, learner, _envs_of(config))
        training.history = _History(snapshot.state["history"])
        training.seconds = snapshot.state["seconds"]
        training._restore(snapshot)
        return training

    @property
    def update(self) -> int:
        return len(self.history)

    @property
    def steps(self) -> int:
        return int(self.history.last("steps")) if self.history else 0

    def run(self) -> Run:
        return _run_of(self.learner, self.snapshot())

    def go(
        self, home: _Home | None, interrupts: _Interrupts, progress: bool | None, tensorboard: bool
    ) -> None:
        total, every = self.config["total_steps"], self.config["checkpoint_every"]
        folder = home.folder if home else None
        if home and self.steps < total:
            _refuse_unless_writable(*home)
            for later in _checkpoints(home.folder):  # of updates that are now done a second time
                if _number(later) > self.update:
                    shutil.rmtree(later)
        started = time.perf_counter() - self.seconds
        saved = self.update if self.history else -1
        with _bar(self, progress) as bar, _events(folder if tensorboard else None, self.steps) as log:
            if not self.history:
                saved = self._save(home, due=True)
            while self.steps < total and not interrupts.asked:
                row = self._one_update()
                self.seconds = time.perf_counter() - started
                row["seconds"] = self.seconds
                self.history.append(row)
                log(row)
                if not bar.disable:
                    mean_return = f"{row['return_mean']:.4g}"
                    bar.set_postfix(update=self.update, mean_return=mean_return, refresh=False)
                    bar.update(int(row["steps"]) - bar.n)
                if self.update % every == 0:
                    saved = self._save(home, due=True)
            if home is not None and saved < self.update:
                saved = self._save(home, due=False)
        if interrupts.asked and self.steps < total:
            kept = (
                f"; go on with resume={str(folder)!r}"
                if folder is not None
                else ", and kept nowhere but in .run"
            )
            raise Interrupted(
                f"stopped by Ctrl-C after update {self.update}, {self.steps} steps{kept}", self.run()
            )

    def _one_update(self) -> dict[str, float]:
        learner = self.learner
        learner.progress = min(1.0, self.steps / self.config["total_steps"])
        begin = time.perf_counter()
        rollout = None
        try:
            rollout = learner.collect(self.collector)
            # A float64 can be too large for a float32. A finite sum has finite terms, and is found quickly.
            if not (math.isfinite(rollout.rewards.sum()) or torch.isfinite(rollout.rewards).all()):
                raise ValueError(
                    f"env={self.config['env']!r} gave a reward beyond what a float32 holds; smaller ones are "
                    "wanted"
                )
            between = time.perf_counter()
            measured = _checked_columns(type(learner).__name__, learner.update(rollout))
            used = learner.used(rollout)
            if not {"entropy", "approx_kl"} <= measured.keys():
                measured = _after(learner.policy, rollout, used) | measured
            if not _weights_are_finite(learner):
                raise FloatingPointError
        except Exception as error:
            # Weights without bounds make nearly anything stumble; then they are what to speak of.
            if not _grown_beyond_bounds(learner):
                raise
            rates = {name: rate for name, rate in self.config.items() if f"_{name}".endswith("_lr")}
            if learner.value is None:
                rates.pop("value_lr", None)
            now = " or ".join(f"{name} (now {rate:g})" for name, rate in rates.items())
            raise FloatingPointError(
                f"the weights have grown beyond all bounds, seen in update {self.update + 1}; "
                f"a smaller {now or 'step'} is wanted. Checkpoints saved before are whole"
            ) from error
        returns, lengths = _episodes(rollout, used)
        past_episodes = int(self.history.last("episodes")) if self.history else 0
        row = dict.fromkeys(COLUMNS, np.nan) | {
            "update": self.update + 1,
            "steps": self.steps + rollout.rewards.numel(),
            "episodes": past_episodes + len(returns),
            **measured,
        }
        if len(returns) > 0:
            row |= {f"return_{name}": getattr(returns, name)() for name in ("mean", "std", "min", "max")}
            row["length_mean"] = lengths.mean()
        row |= {"seconds_rollout": between - begin, "seconds_update": time.perf_counter() - between}
        return {name: int(number) if name in COUNTS else float(number) for name, number in row.items()}

    def _save(self, home: _Home | None, *, due: bool) -> int:
        """A checkpoint after the present update; returns its number."""
        if due and not self.keeps_episodes:
            # Whoever resumes here can only begin new episodes, so the run that goes on does the same.
            self._begin_afresh()
        if home is not None:
            try:
                _write(home.folder, self.snapshot())
            except OSError as error:
                remedy = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "mend that"
                raise OSError(
                    f"{home} cannot be written any more ({error.strerror or error}); "
                    f"earlier checkpoints are whole; {remedy} and resume from there"
                ) from None
        return self.update

    def snapshot(self) -> _Snapshot:
        """All that is needed to go on from here."""
        collector = self.collector.state_dict()
        environments = collector.pop("environments")
        state = {
            "format": FORMAT,
            "version": ppobook.__version__,
            "config": self.config,
            "spaces": [_describe(space) for space in self.learner.spaces],
            "learner": self.learner.state_dict(),
            "collector": collector,
            "history": self.history.tensors(),
            "seconds": self.seconds,
        }
        return _Snapshot(state, environments, text=self.history.text())

    def _restore(self, snapshot: _Snapshot) -> None:
        """Put the environments and the collector back to where they were."""
        collector = snapshot.state["collector"]
        if snapshot.environments is None:
            self._begin_afresh()
            self.collector.generator.set_state(collector["generator"])
            return
        try:
            self.collector.load_state_dict({**collector, "environments": snapshot.environments})
        except Exception as error:  # unpickling what was cut short can raise nearly anything
            raise ValueError(
                f"{snapshot.where}/environments.pkl is cut short, or was written with other versions "
                f"({_doors.reason(error)}); wanted: the file as it was written, or none: without it the run "
                "goes on with new episodes"
            ) from None

    def _begin_afresh(self) -> None:
        """New episodes, the same ones whoever begins them after this update."""
        self.collector.reset(stream(self.config["seed"], f"environments after update {self.update}"))
        self.learner.begin_afresh()


# ------------------------------------------------------------------------------------------- checkpoints


@dataclass
class _Snapshot:
    """A checkpoint in memory: what `state.pt` and `environments.pkl` hold, and where they were read."""

    state: dict[str, Any]
    environments: bytes | None
    where: str = ""
    text: str | None = None

    @property
    def update(self) -> int:
        return len(self.state["history"]["update"])


class _History:
    """The table of a run, by columns: a checkpoint late in a run costs hardly more than an early one."""

    def __init__(self, columns: dict[str, Any] | None = None) -> None:
        columns = dict.fromkeys(COLUMNS, ()) if columns is None else columns
        self.columns = {
            name: array.array("q" if name in COUNTS else "d", torch.as_tensor(column).tolist())
            for name, column in columns.items()
        }
        if len({len(column) for column in self.columns.values()}) != 1:
            raise ValueError("history: its columns differ in length")
        self.lines: list[str] = []

    def __len__(self) -> int:
        return len(self.columns["update"])

    def append(self, row: dict[str, float]) -> None:
        """A row. A column that it lacks, or brings for the first time, has NaN elsewhere."""
        for name in [name for name in row if name not in self.columns]:
            self.columns[name] = array.array("d", [math.nan] * len(self))
            self.lines.clear()
        for name, column in self.columns.items():
            column.append(row.get(name, math.nan))

    def last(self, name: str) -> float:
        return self.columns[name][-1]

    def tensors(self) -> dict[str, Tensor]:
        """The columns, for a checkpoint."""
        return {name: torch.from_numpy(np.array(column)) for name, column in self.columns.items()}

    def text(self) -> str:
        """The table as CSV. What was written before is kept: to format numbers takes longer than all else."""
        buffer = io.StringIO()
        table = csv.writer(buffer, lineterminator="\n")
        if not self.lines:
            table.writerow(self.columns)
        done = max(0, len(self.lines) - 1)
        table.writerows(zip(*(column[done:] for column in self.columns.values()), strict=True))
        self.lines += buffer.getvalue().splitlines(keepends=True)
        return "".join(self.lines)


def _write(folder: Path, snapshot: _Snapshot) -> None:
    """Add a checkpoint to a run's folder, in one step; drop all but the last two."""
    final = folder / f"checkpoint-{snapshot.update:06d}"
    part = folder / f"{final.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    state = io.BytesIO()
    torch.save(snapshot.state, state)
    _write_bytes(part / "state.pt", state.getvalue())
    if snapshot.environments is not None:
        _write_bytes(part / "environments.pkl", snapshot.environments)
    if final.exists():  # the same update again, as when a finished run is resumed
        shutil.rmtree(final)
    os.rename(part, final)

    # For people. `load` and `resume` read the checkpoint, so these may lag behind it after a kill.
    _write_whole(folder / "config.json", json.dumps(snapshot.state["config"], indent=2) + "\n")
    text = _History(snapshot.state["history"]).text() if snapshot.text is None else snapshot.text
    _write_whole(folder / "history.csv", text)
    for old in _checkpoints(folder)[:-2]:
        shutil.rmtree(old, ignore_errors=True)


def _write_bytes(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _write_whole(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def _checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    found = [path for path in folder.iterdir() if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(found, key=_number)


def _number(checkpoint: Path) -> int:
    """The update that a checkpoint was written after."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def _last_due(folder: Path, every: int) -> Path | None:
    """The last checkpoint at which environments that cannot be saved were reset."""
    # One that has them is not read here: whoever removed a stranger's pickle did not mean the one before.
    due = [
        path
        for path in _checkpoints(folder)
        if _number(path) % every == 0 and not (path / "environments.pkl").exists()
    ]
    return due[-1] if due else None


def _read(name: str, folder: str | Path, checkpoint: Path | None = None) -> _Snapshot:
    """A checkpoint, the last one, of a run's folder; `name` is the argument that the folder came in."""
    folder = _doors.path(name, folder)
    where = f"{name}={str(folder)!r}"
    try:
        checkpoints = _checkpoints(folder)
    except OSError as error:
        absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        what = "is no folder" if absent else f"cannot be read ({error.strerror})"
        raise OSError(f"{where} {what}; wanted: the folder of a run, as train(out=…) writes it") from None
    if not checkpoints:
        raise FileNotFoundError(
            f"{where} holds no checkpoint; wanted: the folder of a run, as train(out=…) writes it"
        )
    last = checkpoint or checkpoints[-1]
    earlier = f" To go back to {checkpoints[-2].name}, remove {last.name}." if len(checkpoints) > 1 else ""
    where += f": {last.name}"
    try:
        content = (last / "state.pt").read_bytes()
        environments = last / "environments.pkl"
        pickled = environments.read_bytes() if environments.exists() else None
    except FileNotFoundError:
        raise FileNotFoundError(f"{where} has no state.pt; wanted: the whole checkpoint.{earlier}") from None
    except OSError as error:  # nothing may be wrong with it
        raise OSError(
            f"{where} cannot be read ({error.strerror}); wanted: files that this user may read"
        ) from None
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:  # its message has advice in it that is not ours to give
        raise ValueError(
            f"{where}/state.pt is cut short, or is no checkpoint of this package; "
            f"wanted: the file as it was written.{earlier}"
        ) from None
    found = state.get("format") if isinstance(state, dict) else None
    if found != FORMAT:
        by = f" by ppobook {state['version']}" if isinstance(state, dict) and "version" in state else ""
        raise ValueError(
            f"{where} was written{by} in checkpoint format {found!r}; "
            f"wanted: format {FORMAT}, which ppobook {ppobook.__version__} reads"
        )
    lacking = {"config", "spaces", "learner", "collector", "history", "seconds"} - state.keys()
    if lacking:
        raise ValueError(f"{where}/state.pt has no {min(lacking)!r}; wanted: the file as it was written")
    return _Snapshot(state, pickled, where)


@contextlib.contextmanager
def _locked(home: _Home) -> Iterator[None]:
    """Keep a second process from training in the same folder."""
    # The system lets go of such a lock however its holder ends, kill -9 included. Where there is none to be
    # had, as on Windows and some network drives, nothing is locked.
    try:
        import fcntl

        handle = os.open(home.folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{home} is being trained in already; wanted: one at a time") from None
        yield
    finally:
        os.close(handle)


def _refuse_unless_writable(name: str, folder: Path) -> None:
    try:
        probe = folder / "probe.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(
            f"{name}={str(folder)!r} cannot be written ({error.strerror}); wanted: a folder that can"
        ) from None


def _new_folder(name: str, folder: str | Path) -> Path:
    """A folder that holds nothing yet, made if need be."""
    path = _doors.path(name, folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        # What a run leaves that was killed before its first checkpoint is nothing worth keeping.
        left = [entry for entry in path.iterdir() if not entry.name.endswith(".part")]
    except OSError as error:
        raise OSError(
            f"{name}={str(folder)!r} cannot be written ({error.strerror}); wanted: a folder that can"
        ) from None
    _refuse_unless_writable(name, path)
    if left:
        run = _checkpoints(path)
        what = f"holds a run already, up to {run[-1].name}" if run else f"holds {left[0].name!r} already"
        go_on = f"resume={str(folder)!r} to go on with it, or " if run and name == "out" else ""
        raise FileExistsError(f"{name}={str(folder)!r} {what}; wanted: {go_on}a new folder")
    return path


def _learner_of(snapshot: _Snapshot, given: Any = None, device: str | None = None) -> Learner:
    """The learner of a checkpoint, as far as it had come; `given` is its class, where that is a user's."""
    state = snapshot.state
    try:
        config = state["config"]
        kind = _learner_of_run(config, given)
        names = [f.name for f in fields(kind.settings_class)]
        new = [name for name in names if name not in config]
        if given is not None and new:
            raise ValueError(
                f"{kind.__name__} has the setting {new[0]!r}, which the run was made without; "
                "wanted: the class as it was then"
            )
        settings = kind.settings_class(**{name: config[name] for name in names})
        observations, actions = (_space(description) for description in state["spaces"])
        device = _device(config["device"] if device is None else device)
        learner = kind(observations, actions, settings, seed=config["seed"], device=device)
        learner.load_state_dict(state["learner"])
        _History(state["history"])
    except ValueError as error:
        raise ValueError(f"{snapshot.where}: {error}") from None
    except Exception as error:
        raise _changed(snapshot, error) from None
    return learner


def _changed(snapshot: _Snapshot, error: Exception) -> ValueError:
    """A checkpoint that is ours by its format, and yet something in it is not."""
    return ValueError(
        f"{snapshot.where}/state.pt lacks something, or was changed, or was written by another class or "
        f"version ({_doors.reason(error)}); wanted: the file as it was written, and the class and ppobook "
        f"{snapshot.state.get('version')} that wrote it"
    )


def _table(history: dict[str, Any]) -> pd.DataFrame:
    columns = _History(history).tensors()
    return pd.DataFrame({name: column.numpy() for name, column in columns.items()})


def _run_of(learner: Learner, snapshot: _Snapshot) -> Run:
    history = _table(snapshot.state["history"])
    # Copies, of both at once so that what they share stays shared: the learner's may be views of one long
    # vector, with all of which a caller's torch.save would fill a file.
    policy, value = copy.deepcopy((learner.policy, learner.value))
    return Run(policy, history, dict(snapshot.state["config"]), value, snapshot)


def _describe(space: gym.Space) -> dict[str, Any]:
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
        f"space {space}: no checkpoint can hold it; Discrete, MultiDiscrete, MultiBinary or Box is wanted"
    )


def _space(description: dict[str, Any]) -> gym.Space:
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


# ----------------------------------------------------------------------------------------- small helpers


def mean(x: Tensor, mask: Tensor | None) -> Tensor:
    """The mean of the entries that count."""
    return x.mean() if mask is None else torch.where(mask, x, 0.0).sum() / mask.sum()


def _checked_columns(learner: str, measured: Any) -> dict[str, float]:
    """What `update` returned, after its door."""
    if not isinstance(measured, dict):
        raise TypeError(
            f"{learner}.update returned {type(measured).__name__}; a dict of numbers is wanted, maybe empty"
        )
    for name, number in measured.items():
        if name in _COUNTED or str(name).startswith(("return_", "seconds")):
            raise ValueError(
                f"{learner}.update tells {name!r}, a column that the loop fills; another name is wanted"
            )
        try:
            float(number)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"{learner}.update tells {name!r} of type {type(number).__name__}; one number is wanted"
            ) from None
    return measured


def _weights_are_finite(learner: Learner) -> bool:
    networks = [network for network in (learner.policy, learner.value) if network is not None]
    weights = [p.detach() for network in networks for p in network.parameters()]
    # A finite length has finite terms, and is found in one go. One that is not may have overflowed.
    if math.isfinite(torch.nn.utils.get_total_norm(weights).item()):
        return True
    return all(torch.isfinite(p).all() for p in weights)


# A weight of this size is none that has been learned.
_NO_WEIGHT = 1e6


@torch.no_grad()
def _grown_beyond_bounds(learner: Learner) -> bool:
    """Whether the weights are no numbers any more, or so large that what they lead to soon is none."""
    networks = [network for network in (learner.policy, learner.value) if network is not None]
    return any(
        not torch.isfinite(p).all() or p.abs().max() > _NO_WEIGHT
        for network in networks
        for p in network.parameters()
        if p.numel() > 0
    )


@torch.no_grad()
def _after(policy: AnyPolicy, rollout: Rollout, used: Tensor | None) -> dict[str, float]:
    """Entropy of the policy as it is now, and how far it has moved from the one that played the rollout."""
    distribution = policy.distribution(rollout.observations)
    logp = distribution.logp(rollout.actions)
    return {
        "entropy": mean(distribution.entropy(), used).item(),
        "approx_kl": mean(k3(rollout.logp, logp), used).item(),
    }


def _envs_of(config: dict[str, Any]) -> gym.vector.VectorEnv:
    return make_env(config["env"], config["num_envs"], **config["env_kwargs"])


def stream(seed: int, purpose: str) -> int:
    """A seed for one purpose, so that the streams of a run do not run in step."""
    return int(np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1)[0])


def _device(device: Any) -> str:
    try:
        torch.zeros(1, device=device).item()  # there are devices that hold shapes and no numbers
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(
            f"device={device!r} cannot be used ({reason}); wanted: 'cpu', or an accelerator torch has"
        ) from None
    return str(device)


class _Interrupts:
    """Ctrl-C waits for the update under way: half of one could not be resumed. A second one does not wait."""

    asked = False

    def __enter__(self) -> Self:
        # Only the main thread may say what a signal does; elsewhere nothing changes.
        self.mine = threading.current_thread() is threading.main_thread()
        if self.mine:
            self.before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        if self.mine:
            signal.signal(signal.SIGINT, self.before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def _bar(training: _Training, progress: bool | None) -> tqdm:
    if progress is None:
        # In a notebook stderr is no terminal, and yet somebody looks at it.
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        progress = sys.stderr.isatty() or hasattr(shell, "kernel")
    return tqdm(
        total=training.config["total_steps"],
        initial=training.steps,
        desc=f"{short_name(training.config['algorithm'])} on {training.config['env']}",
        unit=" steps",
        unit_scale=True,
        # TQDM_DISABLE=1 is for stored runs, whose output must not depend on the clock.
        disable=not progress or bool(int(os.environ.get("TQDM_DISABLE") or 0)),
    )


@contextlib.contextmanager
def _events(folder: Path | None, steps: int) -> Iterator[Any]:
    """A function that logs a row to TensorBoard, or one that does nothing."""
    if folder is None:
        yield lambda row: None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(
            "tensorboard=True, and TensorBoard is not installed; wanted: pip install 'ppobook[tensorboard]'"
        ) from None
    # After a kill there may be events of updates that the checkpoint does not have: those are purged.
    with SummaryWriter(folder / "tensorboard", purge_step=steps + 1) as writer:

        def log(row: dict[str, float]) -> None:
            for name, number in row.items():
                if name != "steps" and number == number:
                    writer.add_scalar(name, number, int(row["steps"]))

        yield log
