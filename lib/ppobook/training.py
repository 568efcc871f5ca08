"""What the trainers of policies share: the loop of rollout and update, its history, loading and resuming.

An algorithm is a `Learner`: it says how it gathers a batch and what it does with it. What is the same
whatever is trained stands in `ppobook.runs`, all the rest here, so that an algorithm's own file holds the
algorithm and nothing else.

The folder of a run is that of `ppobook.runs`, and in a checkpoint of it, where environments can be saved::

    environments.pkl          the environments in mid-episode, pickled; only resuming reads it

**Trust.** A pickle can run code when it is read. `load` does not unpickle `environments.pkl`, and
`state.pt` is read in torch's restricted mode, so a stranger's run is safe to load. Resume only runs that
you would also execute; without its `environments.pkl` a run can still be resumed, with new episodes.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import math
import re
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from ppobook import _doors, runs
from ppobook.divergences import k3
from ppobook.envs import MOST_ENVS, make_env
from ppobook.networks import Policy, policy_for, value_for
from ppobook.returns import discounted_returns
from ppobook.rollouts import Collector, Rollout
from ppobook.runs import Checkpoint, History, Home, setting, stream

# These are at hand here too, for whoever has a run in hand.
from ppobook.runs import Interrupted as Interrupted
from ppobook.runs import threads as threads

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

# The columns that no algorithm may fill.
_FILLED = ("update", "steps", "episodes", "length_mean", "return_*", "seconds*")

# Layers whose answer to one observation depends on chance, or on the other observations beside it.
_FICKLE = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)

# What a checkpoint has beside its state, where environments can be saved.
_ENVIRONMENTS = "environments.pkl"

# Without a critic a batch holds whole episodes. A world that shows no end for so long has none.
_ENDLESS = 100_000


# ---------------------------------------------------------------------------------------------- settings


@dataclass(frozen=True)
class Settings(runs.Settings):
    """The settings that every algorithm has."""

    num_envs: int = setting(8, "environments stepped side by side", low=1, high=MOST_ENVS)
    num_steps: int = setting(128, "steps that each environment takes before an update", low=1, high=1_000_000)
    gamma: float = setting(0.99, "discount of rewards that come a step later", low=0, high=1)
    hidden: tuple[int, ...] = setting(
        (64, 64), "widths of the hidden layers, of policy and critic alike", low=1, high=8192
    )
    env_kwargs: dict[str, Any] = setting({}, "keyword arguments of the environment")  # noqa: RUF009

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """A setting's value in its type, after its door."""
        return _keywords(name, value) if name == "env_kwargs" else super().checked(name, value)


def _keywords(name: str, value: Any) -> dict[str, Any]:
    """Keyword arguments of an environment, in plain data: a checkpoint must hold them."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"{name} is {value!r}; a dict of keyword arguments is wanted")
    taken = sorted({"env_id", "num_envs", "seed", "id", "disable_env_checker"} & value.keys())
    if taken:
        raise ValueError(
            f"{name} holds {taken[0]!r}, which training sets itself; arguments of the environment are wanted"
        )
    plain: dict[str, Any] = runs.storable(name, value)
    return plain


# ---------------------------------------------------------------------------------------------- learners


class Learner(runs.Remembering):
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
    What may stand in `remembers` is said at `ppobook.runs.Remembering`. An attribute that is a random
    generator, or has `state_dict` and `load_state_dict`, and is not listed is refused when training begins.
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
    _checkpoint: Checkpoint = field(repr=False)

    def save(self, folder: str | Path) -> Path:
        """Write the run to a new folder, from which `load` and `train(resume=…)` work.

        Raises
        ------
        OSError
            The folder holds something already, or cannot be written.
        """
        home = Home.at("folder", folder)
        runs.new_folder(home)
        runs.write_checkpoint(home.folder, self._checkpoint)
        return home.folder


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
    checkpoint = _read(Home.at("folder", folder))
    if device is None:
        with contextlib.suppress(ValueError):
            device = runs.device(checkpoint.state["config"].get("device", "cpu"))
    return _run_of(_learner_of(checkpoint, learner, device or "cpu"), checkpoint)


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
    checkpoint = _read(Home.at(name, folder))
    state = checkpoint.state
    try:
        spaces = [_space(description) for description in state["spaces"]]
        return Record(History(state["history"]).table(), dict(state["config"]), *spaces)
    except Exception as error:
        raise checkpoint.damaged(error) from None


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
    given = {
        "algorithm": algorithm,
        "env": env,
        "seed": seed,
        "checkpoint_every": checkpoint_every,
        "device": device,
    }
    asked = {name: value for name, value in given.items() if value is not None} | settings
    if total_steps is not None:
        total_steps = runs.whole("total_steps", total_steps)
    training = runs.carry_out(
        lambda: _Training.fresh(asked, total_steps),
        lambda home: _Training.resumed(home, asked, total_steps),
        out=out,
        resume=resume,
        num_threads=num_threads,
        progress=progress,
        tensorboard=tensorboard,
    )
    return training.run()


class _Training(runs.Training):
    """A run while it runs."""

    counter = "steps"
    unit = "steps"
    limit = "total_steps"
    format = runs.CONTROL

    def __init__(self, config: dict[str, Any], learner: Learner, envs: gym.vector.VectorEnv) -> None:
        super().__init__(config, History.empty(COLUMNS, COUNTS))
        self.learner = learner
        self.collector = Collector(envs, learner.policy, seed=stream(config["seed"], "rollouts"))
        self.keeps_episodes = self.collector.saves_environments

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
            "device": runs.device(asked.pop("device", "cpu")),
        }
        called = short_name(config["algorithm"])
        settings = kind.settings_class.make(called, asked, kind.presets.get(config["env"], {}))
        config |= asdict(settings)
        envs = _envs_of(config)
        spaces = envs.single_observation_space, envs.single_action_space
        try:
            learner = kind(*spaces, settings, seed=config["seed"], device=config["device"])
            runs.refuse_to_forget(learner)
            learner.state_dict()
        except BaseException:
            envs.close()
            raise
        return cls(config, learner, envs)

    @classmethod
    def resumed(cls, home: Home, asked: dict[str, Any], total_steps: int | None) -> _Training:
        checkpoint = _read(home)
        given = asked.pop("algorithm") if isinstance(asked.get("algorithm"), type) else None
        if "device" in asked:  # the only setting that says nothing about what is learned
            checkpoint.state["config"]["device"] = runs.device(asked.pop("device"))
        learner = _learner_of(checkpoint, given)
        config = checkpoint.state["config"]
        runs.refuse_other_settings(home, asked, config, learner.settings)
        total_steps = total_steps or config["total_steps"]
        steps = checkpoint.state["history"]["steps"]
        if checkpoint.update and steps[-1] < total_steps and not checkpoint.files:
            due = _last_due(home.folder, config["checkpoint_every"])
            if due is not None and runs.update_of(due) < checkpoint.update:
                device = config["device"]
                checkpoint = _read(home, due)
                checkpoint.state["config"]["device"] = device
                learner = _learner_of(checkpoint, given)
        config = checkpoint.state["config"] | {"total_steps": total_steps}
        training = cls(config, learner, _envs_of(config))
        training.go_on_from(checkpoint)
        training._restore(checkpoint)
        return training

    def label(self) -> str:
        return f"{short_name(self.config['algorithm'])} on {self.config['env']}"

    def shown(self, row: dict[str, float]) -> dict[str, Any]:
        return {"mean_return": f"{row['return_mean']:.4g}"}

    def run(self) -> Run:
        return _run_of(self.learner, self.checkpoint())

    def modules(self) -> list[nn.Module]:
        return [network for network in (self.learner.policy, self.learner.value) if network is not None]

    def rates(self) -> dict[str, float]:
        rates = super().rates()
        if self.learner.value is None:
            rates.pop("value_lr", None)
        return rates

    def one_update(self) -> dict[str, Any]:
        learner = self.learner
        learner.progress = self.progress
        begin = time.perf_counter()
        rollout = learner.collect(self.collector)
        # A float64 can be too large for a float32. A finite sum has finite terms, and is found quickly.
        if not (math.isfinite(rollout.rewards.sum()) or torch.isfinite(rollout.rewards).all()):
            raise ValueError(
                f"env={self.config['env']!r} gave a reward beyond what a float32 holds; smaller ones are "
                "wanted"
            )
        between = time.perf_counter()
        measured = runs.checked_metrics(f"{type(learner).__name__}.update", learner.update(rollout), _FILLED)
        used = learner.used(rollout)
        if not {"entropy", "approx_kl"} <= measured.keys():
            measured = _after(learner.policy, rollout, used) | measured
        returns, lengths = _episodes(rollout, used)
        past_episodes = int(self.history.last("episodes")) if self.history else 0
        row = dict.fromkeys(COLUMNS, np.nan) | {
            "steps": self.position + rollout.rewards.numel(),
            "episodes": past_episodes + len(returns),
            **measured,
        }
        if len(returns) > 0:
            row |= {f"return_{name}": getattr(returns, name)() for name in ("mean", "std", "min", "max")}
            row["length_mean"] = lengths.mean()
        return row | {"seconds_rollout": between - begin, "seconds_update": time.perf_counter() - between}

    def before_checkpoint(self) -> None:
        if not self.keeps_episodes:
            self._begin_afresh()

    def parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        collector = self.collector.state_dict()
        environments = collector.pop("environments")
        state = {
            "spaces": [_describe(space) for space in self.learner.spaces],
            "learner": self.learner.state_dict(),
            "collector": collector,
        }
        return state, {} if environments is None else {_ENVIRONMENTS: environments}

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Put the environments and the collector back to where they were."""
        collector = checkpoint.state["collector"]
        if not checkpoint.files:
            self._begin_afresh()
            self.collector.generator.set_state(collector["generator"])
            return
        try:
            self.collector.load_state_dict({**collector, "environments": checkpoint.files[_ENVIRONMENTS]})
        except Exception as error:  # unpickling what was cut short can raise nearly anything
            raise ValueError(
                f"{checkpoint.where}/{_ENVIRONMENTS} is cut short, or was written with other versions "
                f"({_doors.reason(error)}); wanted: the file as it was written, or none: without it the run "
                "goes on with new episodes"
            ) from None

    def _begin_afresh(self) -> None:
        """New episodes, the same ones whoever begins them after this update."""
        self.collector.reset(stream(self.config["seed"], f"environments after update {self.update}"))
        self.learner.begin_afresh()


# ------------------------------------------------------------------------------------------- checkpoints


def _read(home: Home, checkpoint: Path | None = None) -> Checkpoint:
    """A checkpoint of a run, the last one if it is not said which."""
    return runs.read_checkpoint(
        home,
        format=runs.CONTROL,
        needs=("spaces", "learner", "collector"),
        files=(_ENVIRONMENTS,),
        checkpoint=checkpoint,
    )


def _last_due(folder: Path, every: int) -> Path | None:
    """The last checkpoint at which environments that cannot be saved were reset."""
    # One that has them is not read here: whoever removed a stranger's pickle did not mean the one before.
    due = [
        path
        for path in runs.checkpoints(folder)
        if runs.update_of(path) % every == 0 and not (path / _ENVIRONMENTS).exists()
    ]
    return due[-1] if due else None


def _learner_of(checkpoint: Checkpoint, given: Any = None, device: str | None = None) -> Learner:
    """The learner of a checkpoint, as far as it had come; `given` is its class, where that is a user's."""
    state = checkpoint.state
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
        device = runs.device(config["device"] if device is None else device)
        learner = kind(observations, actions, settings, seed=config["seed"], device=device)
        learner.load_state_dict(state["learner"])
        History(state["history"])
    except ValueError as error:
        raise ValueError(f"{checkpoint.where}: {error}") from None
    except Exception as error:
        raise checkpoint.damaged(error) from None
    return learner


def _run_of(learner: Learner, checkpoint: Checkpoint) -> Run:
    history = History(checkpoint.state["history"]).table()
    # Copies, of both at once so that what they share stays shared: the learner's may be views of one long
    # vector, with all of which a caller's torch.save would fill a file.
    policy, value = copy.deepcopy((learner.policy, learner.value))
    return Run(policy, history, dict(checkpoint.state["config"]), value, checkpoint)


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
