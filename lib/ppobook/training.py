"""Training a policy: the loop of rollout and update, its history, loading and resuming.

    repeat until total_steps
        learner.update(learner.collect(collector))

Around these two calls, in `ControlLoop.one_update`, stand metrics, checkpoints, signals and resuming, which
control shares with language models (`ppobook.run.loop`).
"""

from __future__ import annotations

import contextlib
import copy
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.divergences import k3
from ppobook.envs import EnvLike, EnvMaker, env_maker, has_id, make_env
from ppobook.episodes import episode_totals, mean
from ppobook.fast import FASTER, classic_envs, numpy_actor
from ppobook.learner import AnyPolicy, AnyValue, Learner
from ppobook.ppo import PPO
from ppobook.rollouts import Collector, PolicyActor, Rollout
from ppobook.run.base import BaseRun
from ppobook.run.checkpoint import Checkpoint, read_checkpoint
from ppobook.run.config import new_config, resumed_config, settings_of
from ppobook.run.folder import RunFolder
from ppobook.run.history import History
from ppobook.run.loop import TrainingLoop, run_training
from ppobook.run.machine import checked_device, float32_on_cpu, stream
from ppobook.run.metrics import finite
from ppobook.run.progress import say
from ppobook.run.registry import Registry, short_name
from ppobook.spaces import describe_space, space_of
from ppobook.trpo import TRPO
from ppobook.validation import counted
from ppobook.vanilla import Vanilla

ALGORITHMS: Registry[Learner] = Registry("algorithm", Learner, {"vanilla": Vanilla, "trpo": TRPO, "ppo": PPO})

# The columns of every run's history, in this order; an algorithm may add others.
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

# These are integers; all others are floats.
COUNTS = ("update", "steps", "episodes")

# Beside the state, where environments can be saved.
_ENVIRONMENTS = "environments.pkl"

FORMAT = "ppobook.train 2"


@dataclass(kw_only=True, repr=False)
class Run(BaseRun):
    """The result of `train`.

    Attributes
    ----------
    policy : torch module
        Trained; `policy.sample(observations)` acts. Its observations and discrete actions are those of
        `make_env`: the actions of ``Discrete(3, start=5)`` are 0, 1 and 2, to which 5 is to be added.
    value : torch module or None
        The critic, if the run has one.
    history : DataFrame
        One row an update; see `train`.
    config : dict
        Everything the run was asked for, defaults and presets included.
    """

    policy: AnyPolicy
    value: AnyValue | None

    @staticmethod
    def title(config: dict[str, Any]) -> str:
        """The algorithm and its environment."""
        return f"{short_name(config['algorithm'])} on {config['env']}"


@float32_on_cpu()
def load(folder: str | Path, learner: type[Learner] | None = None, device: str | None = None) -> Run:
    """Load a run as of its last checkpoint: policy, critic, history, config.

    The environment is not made, and its pickled state is not opened.

    Parameters
    ----------
    folder : path
    learner : subclass of Learner, optional
        The class, for a run of a user's own class. The run's config holds its name, which is not imported: a
        stranger's run could name anything.
    device : str, optional
        The device of the networks. Default: that of training, or the CPU if this machine does not have it.

    Raises
    ------
    ValueError, OSError
        No run there; a damaged checkpoint, or one in another format; a run of a user's own class without
        `learner`, or with another one.
    """
    checkpoint = read_checkpoint(RunFolder.at("folder", folder), FORMAT)
    with checkpoint.rebuilding():
        kind = ALGORITHMS.of_run(checkpoint.config, learner, "learner")
        if device is None:
            device = "cpu"
            with contextlib.suppress(ValueError):
                device = checked_device(checkpoint.config["device"])
    return _run_of(_learner_of(checkpoint, kind, device), checkpoint)


class Record(NamedTuple):
    """The content of a run's folder besides networks; read without the class of a user's learner."""

    history: pd.DataFrame
    config: dict[str, Any]
    observation_space: gym.Space
    action_space: gym.Space


def read_record(folder: str | Path, name: str = "folder") -> Record:
    """History, config and spaces of a run, as of its last checkpoint; `name` is the argument in messages."""
    checkpoint = read_checkpoint(RunFolder.at(name, folder), FORMAT)
    with checkpoint.rebuilding():
        spaces = [space_of(description) for description in checkpoint.state["spaces"]]
        return Record(History(checkpoint.state["history"]).table(), checkpoint.config, *spaces)


@float32_on_cpu()
def train(
    algorithm: str | type[Learner] | None = None,
    env: EnvLike | None = None,
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
    env : str, gymnasium.Env or function
        A Gymnasium id, such as "CartPole-v1"; an environment; or a function without arguments that makes one.
        See `ppobook.envs.make_env`.
    seed : int, default 0
        The same seed, settings and machine give the same run, to the bit.
    total_steps : int, default 100,000
        Training stops at the first whole batch at or past this number of environment steps, summed over the
        environments and counted from the start of the run.
    out : path, optional
        A new folder for the run.
    checkpoint_every : int, default 10
        Updates between two checkpoints. One is also written when the last one is five minutes old.
    resume : path, optional
        Continue from the last checkpoint in this folder. Only `total_steps`, `checkpoint_every`, `device` and
        the arguments below may change; an environment or a class of your own is passed again, and the run
        goes on in the environment as it was saved. Schedules go by `total_steps`, so a larger one puts a
        finished schedule back to its middle.
    device : str, default "cpu"
        The device of the networks.
    num_threads : int, default 1
        Threads of torch. One is the fastest for networks as small as the book's.
    progress : bool, optional
        Show a progress bar. Default: in a terminal and in a notebook; elsewhere a line every 15 seconds.
    tensorboard : bool
        Also write the history as TensorBoard events, in `out`.
    **settings
        Settings of the algorithm, as listed in its `Settings` class. Default: the environment's preset, else
        the algorithm's default.

    Returns
    -------
    Run
        Its history has a row for each update: update, steps and episodes so far; return_mean, _std, _min,
        _max and length_mean of the episodes that ended in the batch (undiscounted; NaN if none did);
        policy_loss, value_loss and grad_norm, means over the gradient steps of the update; entropy of the
        policy after the update; explained_variance of the returns by the values of the rollout; approx_kl,
        the k3 estimate of KL(before, after) on the batch; wall-clock times in columns named seconds…; and
        further metrics of the algorithm.

    Raises
    ------
    ValueError, TypeError, OSError
        An argument that can't be used.
    FloatingPointError
        The weights have diverged, or a loss or the norm of a gradient is not finite.
    Interrupted
        Ctrl-C, SIGTERM or SIGHUP: a KeyboardInterrupt with the run so far. The update in progress is finished
        and saved, unless Ctrl-C is pressed again.

    Notes
    -----
    A run that is killed, or that fails, loses the updates since the last checkpoint. Resumed, it gives the
    history (times aside) and the weights of an unbroken run, to the bit, if its environments can be pickled.
    If they can't, the resumed run begins new episodes and says so.
    """
    given = {
        "algorithm": algorithm,
        "env": env,
        "seed": seed,
        "total_steps": total_steps,
        "checkpoint_every": checkpoint_every,
        "device": device,
    }
    asked = {name: value for name, value in given.items() if value is not None} | settings
    training = run_training(
        lambda: ControlLoop.new(asked),
        lambda folder: ControlLoop.resumed(folder, asked),
        out=out,
        resume=resume,
        num_threads=num_threads,
        progress=progress,
        tensorboard=tensorboard,
    )
    return training.run()


class ControlLoop(TrainingLoop):
    """A training run in progress."""

    # The settings that come from the environment's preset, for the announcement.
    preset: tuple[str, ...] = ()
    counter = "steps"
    unit = "step"
    limit = "total_steps"
    format = FORMAT

    def __init__(self, config: dict[str, Any], learner: Learner, envs: gym.vector.VectorEnv) -> None:
        super().__init__(config, History.empty(COLUMNS, COUNTS))
        self.learner = learner
        self.collector = Collector(
            envs,
            learner.policy,
            seed=stream(config["seed"], "rollouts"),
            actor=numpy_actor if config["fast"] else PolicyActor,
        )

    @classmethod
    def new(cls, asked: dict[str, Any]) -> ControlLoop:
        """A run from its beginning."""
        kind, config = new_config(ALGORITHMS, asked, checkpoint_every=10)
        name = short_name(config["algorithm"])
        total_steps = validation.whole("total_steps", asked.pop("total_steps", 100_000))
        if "env" not in asked:  # it may be here by a misspelt name
            kind.settings_class.make(name, asked, {})
        maker = _maker(asked.pop("env", None), asked)
        config |= {"env": maker.name, "total_steps": total_steps}
        preset = kind.presets.get(maker.name, {})
        settings = kind.settings_class.make(name, asked, preset)
        config |= asdict(settings)
        envs = _make_envs(maker, config)
        spaces = envs.single_observation_space, envs.single_action_space
        learner = _form(kind, config)(*spaces, settings, seed=config["seed"], device=config["device"])
        training = cls(config, learner, envs)
        training.preset = tuple(one for one in preset if one not in asked)
        return training

    @classmethod
    def resumed(cls, folder: RunFolder, asked: dict[str, Any]) -> ControlLoop:
        """A run as of its last checkpoint."""
        checkpoint = read_checkpoint(folder, FORMAT)
        with checkpoint.rebuilding():  # before a module is imported for the environment
            ALGORITHMS.of_run(checkpoint.config, asked.get("algorithm"))
        maker = _maker_again(asked, checkpoint.config["env"])
        kind, _, config = resumed_config(ALGORITHMS, folder, checkpoint, asked, cls.limit)
        training = cls(config, _learner_of(checkpoint, kind, config["device"]), _make_envs(maker, config))
        training.restore(checkpoint)
        return training

    def title(self) -> str:
        return Run.title(self.config)

    def announcement(self) -> str:
        """The steps and updates of the run, and the settings of its preset."""
        times, envs = self.config["num_steps"], self.config["num_envs"]
        updates = math.ceil((self.config["total_steps"] - self.position) / (times * envs))
        plan = f"{counted(updates, 'update')} of {times:,} × {envs:,} steps"
        if self.learner.value is None:  # a batch of whole episodes
            plan = f"updates of at least {times:,} × {envs:,} steps"
        listed = ", ".join(f"{name}={self.config[name]!r}" for name in self.preset)
        return f"{self.title()}: {plan}{f'; preset: {listed}' if listed else ''}"

    def shown(self, row: dict[str, float]) -> dict[str, Any]:
        mean = row["return_mean"]
        return {"mean_return": f"{mean:.4g}" if mean == mean else "no episode ended"}

    def run(self) -> Run:
        return _run_of(self.learner, self.checkpoint())

    def modules(self) -> list[nn.Module]:
        return [network for network in (self.learner.policy, self.learner.value) if network is not None]

    def one_update(self) -> dict[str, Any]:
        learner = self.learner
        learner.progress = self.progress
        begin = time.perf_counter()
        rollout = learner.collect(self.collector)
        between = time.perf_counter()
        metrics = finite(learner.update(rollout))
        used = learner.used(rollout)
        if not {"entropy", "approx_kl"} <= metrics.keys():
            metrics = _after_update(learner.policy, rollout, used) | metrics
        returns, lengths = episode_totals(rollout, used)
        row = dict.fromkeys(COLUMNS, np.nan) | metrics
        if len(returns) > 0:
            row |= {f"return_{name}": getattr(returns, name)() for name in ("mean", "std", "min", "max")}
            row["length_mean"] = lengths.mean()
        return row | {
            "steps": self.position + rollout.rewards.numel(),
            "episodes": (int(self.history.last("episodes")) if self.history else 0) + len(returns),
            "seconds_rollout": between - begin,
            "seconds_update": time.perf_counter() - between,
        }

    def parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        collector = self.collector.state_dict()
        environments = collector.pop("environments")
        spaces = [describe_space(space) for space in self.learner.spaces]
        parts = {"spaces": spaces, "learner": self.learner.state_dict(), "collector": collector}
        return parts, {} if environments is None else {_ENVIRONMENTS: environments}

    def restore(self, checkpoint: Checkpoint) -> None:
        super().restore(checkpoint)
        collector = checkpoint.state["collector"]
        if _ENVIRONMENTS in checkpoint.files:
            environments = checkpoint.files[_ENVIRONMENTS]
            try:
                self.collector.load_state_dict({**collector, "environments": environments})
            except Exception as error:  # unpickling a damaged file can raise nearly anything
                raise ValueError(
                    f"{checkpoint.where}/{_ENVIRONMENTS} must be as it was written, got: "
                    f"{validation.reason(error)}; without the file the run resumes with new episodes"
                ) from None
            return
        self.collector.generator.set_state(collector["generator"])
        if self.update and self.progress < 1:
            self.collector.reset(stream(self.config["seed"], f"environments after update {self.update}"))
            self.learner.reset_episodes()
            say(f"{checkpoint.where} has no {_ENVIRONMENTS}: the run goes on with new episodes")


def _learner_of(checkpoint: Checkpoint, kind: type[Learner], device: str) -> Learner:
    """The learner as of a checkpoint."""
    state, config = checkpoint.state, checkpoint.config
    with checkpoint.rebuilding():
        observations, actions = (space_of(description) for description in state["spaces"])
        settings, device = settings_of(kind, config), checked_device(device)
        kind = _form(kind, config)
        learner = kind(observations, actions, settings, seed=config["seed"], device=device)
        learner.load_state_dict(state["learner"])
    return learner


def _form(kind: type[Learner], config: dict[str, Any]) -> type[Learner]:
    """The class itself, or with fast=True its faster subclass."""
    return FASTER.get(kind, kind) if config["fast"] else kind


def _run_of(learner: Learner, checkpoint: Checkpoint) -> Run:
    # Both are copied at once, so that what they share stays shared. Copies, since the learner's parameters
    # may be views of one long vector, all of which torch.save would write.
    policy, value = copy.deepcopy((learner.policy, learner.value))
    return Run.of(checkpoint, policy=policy, value=value)


@torch.no_grad()
def _after_update(policy: AnyPolicy, rollout: Rollout, used: Tensor | None) -> dict[str, float]:
    """Entropy of the new policy, and its KL divergence from the policy that collected the rollout."""
    distribution = policy.distribution(rollout.observations)
    logp = distribution.logp(rollout.actions)
    return {
        "entropy": mean(distribution.entropy(), used).item(),
        "approx_kl": mean(k3(rollout.logp, logp), used).item(),
    }


def _maker(env: Any, asked: dict[str, Any]) -> EnvMaker:
    """The maker of the environments. If it has keyword arguments of its own, they are asked for."""
    if isinstance(env, str):
        return env_maker(env)
    maker = env_maker(env, asked.get("env_kwargs"))
    asked["env_kwargs"] = maker.settings
    return maker


def _maker_again(asked: dict[str, Any], before: str) -> EnvMaker:
    """The maker of the environments of a run that is resumed; `before` names them in its config."""
    env = asked.pop("env", None)
    if env is None and not has_id(before):
        raise ValueError(f"env must be passed on resume, as the run's was no id, {before!r}, got None")
    maker = _maker(before if env is None else env, asked)
    asked["env"] = maker.name
    return maker


def _make_envs(maker: EnvMaker, config: dict[str, Any]) -> gym.vector.VectorEnv:
    settings = config["env_kwargs"] if maker.own is None else {}
    envs = classic_envs(maker, config["num_envs"], **settings) if config["fast"] else None
    return envs or make_env(maker, config["num_envs"], infos=False, reset=False, **settings)
