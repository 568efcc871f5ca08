"""TODO."""

from __future__ import annotations

import contextlib
import copy
import math
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.divergences import k3
from ppobook.envs import make_env
from ppobook.episodes import episode_totals, mean
from ppobook.learner import AnyPolicy, AnyValue, Learner
from ppobook.registry import _learner_of_run, learner_class, learner_name, short_name
from ppobook.rollouts import Collector, Rollout
from ppobook.run.checkpoint import CONTROL, Checkpoint, read_checkpoint, write_checkpoint
from ppobook.run.folder import RunFolder, checkpoints, new_folder, update_of
from ppobook.run.history import History, checked_metrics

# These are at hand here too, for whoever has a run in hand.
from ppobook.run.interrupts import Interrupted as Interrupted
from ppobook.run.loop import TrainingLoop, run_training
from ppobook.run.machine import checked_device, stream
from ppobook.run.machine import threads as threads
from ppobook.run.settings import refuse_other_settings, whole
from ppobook.run.state import refuse_to_forget
from ppobook.spaces import describe_space, space_of

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


# What a checkpoint has beside its state, where environments can be saved.
_ENVIRONMENTS = "environments.pkl"


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
        home = RunFolder.at("folder", folder)
        new_folder(home)
        write_checkpoint(home.folder, self._checkpoint)
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
    checkpoint = _read(RunFolder.at("folder", folder))
    if device is None:
        with contextlib.suppress(ValueError):
            device = checked_device(checkpoint.state["config"].get("device", "cpu"))
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
    checkpoint = _read(RunFolder.at(name, folder))
    state = checkpoint.state
    try:
        spaces = [space_of(description) for description in state["spaces"]]
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
        total_steps = whole("total_steps", total_steps)
    training = run_training(
        lambda: _Training.fresh(asked, total_steps),
        lambda home: _Training.resumed(home, asked, total_steps),
        out=out,
        resume=resume,
        num_threads=num_threads,
        progress=progress,
        tensorboard=tensorboard,
    )
    return training.run()


class _Training(TrainingLoop):
    """A run while it runs."""

    counter = "steps"
    unit = "steps"
    limit = "total_steps"
    format = CONTROL

    def __init__(self, config: dict[str, Any], learner: Learner, envs: gym.vector.VectorEnv) -> None:
        super().__init__(config, History.empty(COLUMNS, COUNTS))
        self.learner = learner
        self.collector = Collector(
            envs, learner.policy, seed=stream(config["seed"], "rollouts"), fast=config.get("fast", True)
        )
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
            "seed": validation.count("seed", asked.pop("seed", 0), low=0),
            "total_steps": total_steps or 100_000,
            "checkpoint_every": validation.count("checkpoint_every", asked.pop("checkpoint_every", 10)),
            "device": checked_device(asked.pop("device", "cpu")),
        }
        called = short_name(config["algorithm"])
        settings = kind.settings_class.make(called, asked, kind.presets.get(config["env"], {}))
        config |= asdict(settings)
        envs = _envs_of(config)
        spaces = envs.single_observation_space, envs.single_action_space
        try:
            learner = kind(*spaces, settings, seed=config["seed"], device=config["device"])
            refuse_to_forget(learner)
            learner.state_dict()
        except BaseException:
            envs.close()
            raise
        return cls(config, learner, envs)

    @classmethod
    def resumed(cls, home: RunFolder, asked: dict[str, Any], total_steps: int | None) -> _Training:
        checkpoint = _read(home)
        given = asked.pop("algorithm") if isinstance(asked.get("algorithm"), type) else None
        if "device" in asked:  # the only setting that says nothing about what is learned
            checkpoint.state["config"]["device"] = checked_device(asked.pop("device"))
        learner = _learner_of(checkpoint, given)
        config = checkpoint.state["config"]
        refuse_other_settings(home, asked, config, learner.settings)
        total_steps = total_steps or config["total_steps"]
        steps = checkpoint.state["history"]["steps"]
        if checkpoint.update and steps[-1] < total_steps and not checkpoint.files:
            due = _last_due(home.folder, config["checkpoint_every"])
            if due is not None and update_of(due) < checkpoint.update:
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
        measured = checked_metrics(f"{type(learner).__name__}.update", learner.update(rollout), _FILLED)
        used = learner.used(rollout)
        if not {"entropy", "approx_kl"} <= measured.keys():
            measured = _after(learner.policy, rollout, used) | measured
        returns, lengths = episode_totals(rollout, used)
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
            self._reset_environments()

    def parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        collector = self.collector.state_dict()
        environments = collector.pop("environments")
        state = {
            "spaces": [describe_space(space) for space in self.learner.spaces],
            "learner": self.learner.state_dict(),
            "collector": collector,
        }
        return state, {} if environments is None else {_ENVIRONMENTS: environments}

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Put the environments and the collector back to where they were."""
        collector = checkpoint.state["collector"]
        if not checkpoint.files:
            self._reset_environments()
            self.collector.generator.set_state(collector["generator"])
            return
        try:
            self.collector.load_state_dict({**collector, "environments": checkpoint.files[_ENVIRONMENTS]})
        except Exception as error:  # unpickling what was cut short can raise nearly anything
            raise ValueError(
                f"{checkpoint.where}/{_ENVIRONMENTS} is cut short, or was written with other versions "
                f"({validation.reason(error)}); wanted: the file as it was written, or none: without it the run "
                "goes on with new episodes"
            ) from None

    def _reset_environments(self) -> None:
        """New episodes, the same ones whoever begins them after this update."""
        self.collector.reset(stream(self.config["seed"], f"environments after update {self.update}"))
        self.learner.reset_episodes()


def _read(home: RunFolder, checkpoint: Path | None = None) -> Checkpoint:
    """A checkpoint of a run, the last one if it is not said which."""
    return read_checkpoint(
        home,
        format=CONTROL,
        needs=("spaces", "learner", "collector"),
        files=(_ENVIRONMENTS,),
        checkpoint=checkpoint,
    )


def _last_due(folder: Path, every: int) -> Path | None:
    """The last checkpoint at which environments that cannot be saved were reset."""
    # One that has them is not read here: whoever removed a stranger's pickle did not mean the one before.
    due = [
        path
        for path in checkpoints(folder)
        if update_of(path) % every == 0 and not (path / _ENVIRONMENTS).exists()
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
        observations, actions = (space_of(description) for description in state["spaces"])
        device = checked_device(config["device"] if device is None else device)
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
    return make_env(
        config["env"], config["num_envs"], infos=False, fast=config.get("fast", True), **config["env_kwargs"]
    )
