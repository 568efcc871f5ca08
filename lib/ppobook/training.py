"""Training a policy: the loop of rollout and update, its history, loading and resuming."""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.divergences import k3
from ppobook.envs import EnvLike, EnvMaker, env_maker, has_id, make_env
from ppobook.envs.saving import episodes_are_cut
from ppobook.episodes import episode_totals, mean
from ppobook.fast import FASTER, classic_envs, numpy_actor
from ppobook.learner import RESERVED, AnyPolicy, AnyValue, Learner
from ppobook.registry import ALGORITHMS
from ppobook.rollouts import Collector, PolicyActor, Rollout
from ppobook.run.base import BaseRun
from ppobook.run.checkpoint import Checkpoint, Format, read_checkpoint
from ppobook.run.config import new_config, resumed_config, settings_of
from ppobook.run.first_update import Untrained, check_networks
from ppobook.run.folder import RunFolder, checkpoints, update_of
from ppobook.run.history import History
from ppobook.run.loop import TrainingLoop
from ppobook.run.machine import checked_device, float32_on_cpu, stream
from ppobook.run.progress import say
from ppobook.run.registry import short_name
from ppobook.run.settings import argument, schedules
from ppobook.run.state import attributes, check_state, check_update
from ppobook.run.training import run_training
from ppobook.settings import CONTINUOUS, VECTORS
from ppobook.spaces import describe_space, space_of
from ppobook.validation import copied, counted

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

# A reward from which on losses may overflow.
_LARGE_REWARD = 1e15

# Beside the state, where environments can be saved.
_ENVIRONMENTS = "environments.pkl"

FORMAT = Format("ppobook.train", 2, parts=("spaces", "learner", "collector"), files=(_ENVIRONMENTS,))


@dataclass(kw_only=True, repr=False)
class Run(BaseRun):
    """What `train` returns.

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
    """A run as of its last checkpoint: policy, critic, history, config.

    The environment is not made, and its pickled state is not opened.

    Parameters
    ----------
    folder : path
    learner : subclass of Learner, optional
        The class, for a run of a user's own class. The run's config holds its name, which is not imported: a
        stranger's run could name anything.
    device : str, optional
        Where the networks are put. Default: where they were trained, or the CPU if that is not available.

    Raises
    ------
    ValueError, OSError
        No run there; a damaged checkpoint, or one in another format; a run of a user's own class without
        `learner`, or with another one.
    """
    if learner is not None and not isinstance(learner, type):
        raise TypeError(f"learner must be the class that the run was trained by, got {learner!r}")
    checkpoint = read_checkpoint(RunFolder.at("folder", folder), FORMAT)
    if device is None:
        with contextlib.suppress(ValueError):
            device = checked_device(checkpoint.config.get("device", "cpu"))
    with checkpoint.rebuilding():
        kind = ALGORITHMS.of_run(checkpoint.config, learner, "learner")
    return _run_of(_learner_of(checkpoint, kind, "cpu" if device is None else device), checkpoint)


class Record(NamedTuple):
    """What a run's folder holds besides networks; read without the class of a user's learner."""

    history: pd.DataFrame
    config: dict[str, Any]
    observation_space: gym.Space
    action_space: gym.Space


def read_record(folder: str | Path, name: str = "folder") -> Record:
    """History, config and spaces of a run, as of its last checkpoint.

    Parameters
    ----------
    folder : path
    name : str
        The argument that the folder was passed as, for messages.

    Raises
    ------
    ValueError, OSError
        As for `load`.
    """
    checkpoint = read_checkpoint(RunFolder.at(name, folder), FORMAT)
    with checkpoint.rebuilding():
        spaces = [space_of(description) for description in checkpoint.state["spaces"]]
        return Record(History(checkpoint.state["history"]).table(), copied(checkpoint.config), *spaces)


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
    checkpoint_minutes: float = 5.0,
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
        See `ppobook.envs.make_env`. The last two have no preset, and are passed again on resume, unless an id
        stands for them: they are compared by name and spaces alone. Where the run could pickle its
        environments these go on, with the attributes that they had, and not those of the one passed again.
    seed : int, default 0
        Seeds everything: the same seed, settings and machine give the same run, to the bit.
    total_steps : int, default 100,000
        Training stops at the first whole batch at or past this number of environment steps, summed over the
        environments and counted from the start of the run. With `resume`, a larger number continues a
        finished run.
    out : path, optional
        A new folder for the run.
    checkpoint_every : int, default 10
        Updates between two checkpoints.
    resume : path, optional
        Resume from the last checkpoint in this folder. Everything else stays as it was: of the other
        arguments only `total_steps`, `checkpoint_every`, `checkpoint_minutes`, `device`, `num_threads`,
        `progress` and `tensorboard` may change.
        Schedules go by `total_steps`, so a larger one puts a finished schedule back to its middle.
    device : str, default "cpu"
        Where the networks are put.
    num_threads : int, default 1
        Threads of torch. One is the fastest for networks as small as the book's.
    checkpoint_minutes : float, default 5
        A checkpoint is also written when the last one is older than this, if the environments can be pickled.
    progress : bool, optional
        Whether to show a progress bar. Default: in a terminal and in a notebook; elsewhere a line on stderr
        every 15 seconds.
    tensorboard : bool
        Also write the history as TensorBoard events, in `out`.
    **settings
        Of the algorithm, as listed in its `Settings` class. Default: the environment's preset, else the
        algorithm's default.

    Returns
    -------
    Run
        Its history has a row for each update: update, steps and episodes so far; return_mean, _std, _min,
        _max and length_mean of the episodes that ended in the batch (undiscounted; NaN if none did);
        policy_loss, value_loss and grad_norm, means over the gradient steps of the update; entropy of the
        policy after the update; explained_variance of the returns by the values recorded in the rollout;
        approx_kl, the k3 estimate of KL(before, after) on the batch; and wall-clock times in columns named
        seconds…. A column that an algorithm does not have is NaN; its further metrics have columns after
        these.

    Raises
    ------
    ValueError, TypeError, OSError
        An argument that can't be used.
    FloatingPointError
        The weights have diverged, or a loss or the norm of a gradient is not finite.
    Interrupted
        Ctrl-C, SIGTERM or SIGHUP: a KeyboardInterrupt with the run so far. The update in progress is
        finished, unless Ctrl-C is pressed again, or SIGTERM comes while whole episodes are collected.

    Notes
    -----
    Whatever ends a run, an error of an environment included, its whole updates are saved in `out`, and are
    the `run` of the exception, also where `out` cannot be written; a process that is killed without notice
    loses those since the last checkpoint. So does one whose update in progress cannot be undone: networks of
    more than 64 MB are not copied before it.

    A run that is killed and resumed gives the history (times aside) and the weights of an unbroken one, to
    the bit, where the environments can be pickled. Where they can't, and `out` is given, they are reset at
    every checkpoint due by `checkpoint_every`, which is said when training begins; so does the run that
    resumes, and the two agree again. A run that stopped between two of those, by a signal, an error or at its
    end, goes on from the last one that was due, and repeats the few updates after it. One that has none goes
    on with new episodes where it stopped; so does one whose repeated updates would differ, as a schedule goes
    by another `total_steps` now. Both are said.
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
        lambda: _Training.new(asked),
        lambda folder: _Training.resumed(folder, asked),
        out=out,
        resume=resume,
        num_threads=num_threads,
        progress=progress,
        tensorboard=tensorboard,
        checkpoint_minutes=checkpoint_minutes,
    )
    return training.run()


class _Training(TrainingLoop):
    """A training run in progress."""

    # The settings that neither the user nor the defaults have set, but the environment's preset.
    preset: Mapping[str, Any] = MappingProxyType({})
    # The rewards of the last batch.
    rewards: Tensor | None = None
    counter = "steps"
    unit = "step"
    limit = "total_steps"
    format = FORMAT
    reserved = RESERVED

    def __init__(self, config: dict[str, Any], learner: Learner, envs: gym.vector.VectorEnv) -> None:
        super().__init__(config, History.empty(COLUMNS, COUNTS))
        self.learner = learner
        self.collector = Collector(
            envs,
            learner.policy,
            seed=stream(config["seed"], "rollouts"),
            actor=numpy_actor if config["fast"] else PolicyActor,
        )
        self.saves_environments = self.collector.saves_environments

    @classmethod
    def new(cls, asked: dict[str, Any]) -> _Training:
        """A run from its beginning."""
        kind, config = new_config(ALGORITHMS, asked, checkpoint_every=10)
        if "env" not in asked:  # it may be here by a misspelt name
            others = {name: x for name, x in asked.items() if name != "total_steps"}
            kind.settings_class.make(short_name(config["algorithm"]), others, {})
        maker = _maker(asked.pop("env", None), asked)
        steps = argument("total_steps", asked.pop("total_steps", 100_000))
        config |= {"env": maker.name, "total_steps": steps}
        name = short_name(config["algorithm"])
        preset = kind.presets.get(config["env"], {})
        settings = kind.settings_class.make(name, asked, preset)
        config |= asdict(settings)
        # A user's own algorithm may use any setting as it likes.
        given = asked if config["algorithm"] in ALGORITHMS else {}
        settings.refuse_without_effect(given)
        envs = _make_envs(maker, config)
        spaces = envs.single_observation_space, envs.single_action_space
        try:
            settings.refuse_without_effect(given, _facts(*spaces))
            learner = _form(kind, config)(*spaces, settings, seed=config["seed"], device=config["device"])
            check_state(learner)
        except BaseException:
            envs.close()
            raise
        training = cls(config, learner, envs)
        training.preset = {name: value for name, value in preset.items() if name not in asked}
        return training

    @classmethod
    def resumed(cls, folder: RunFolder, asked: dict[str, Any]) -> _Training:
        """A run as of its last checkpoint."""
        checkpoint = read_checkpoint(folder, FORMAT)
        with checkpoint.rebuilding():  # before a module is imported for the environment
            ALGORITHMS.of_run(checkpoint.config, asked.get("algorithm"))
        maker = _maker_again(asked, checkpoint.config["env"])
        kind, _, config = resumed_config(ALGORITHMS, folder, checkpoint, asked, cls.limit)
        steps = checkpoint.state["history"]["steps"]
        if checkpoint.update and steps[-1] < config["total_steps"] and not checkpoint.files:
            if not checkpoint.state.get("environments_saved", True) and _same_updates(checkpoint, config):
                checkpoint = _last_due(folder, checkpoint)
            if checkpoint.state["collector"]["steps"]:
                say(f"{checkpoint.where} has no {_ENVIRONMENTS}: the run goes on with new episodes")
        learner = _learner_of(checkpoint, kind, config["device"])
        envs = _make_envs(maker, config)
        spaces = envs.single_observation_space, envs.single_action_space
        if maker.own is not None and spaces != learner.spaces:
            raise ValueError(f"env must have the spaces that it had, {learner.spaces}, got {spaces}")
        training = cls(config, learner, envs)
        training.restore(checkpoint)
        return training

    def title(self) -> str:
        return Run.title(self.config)

    def passed_again(self) -> list[str]:
        algorithm, env = self.config["algorithm"], self.config["env"]
        own = {"algorithm": ":" in algorithm, "env": not has_id(env)}
        return [name for name in own if own[name]]

    def announcement(self) -> str:
        """Steps and updates: an update takes a whole batch, so they may be more than was asked for."""
        times, envs = self.config["num_steps"], self.config["num_envs"]
        updates = math.ceil((self.config["total_steps"] - self.position) / (times * envs))
        if self.learner.value is None:  # a batch of whole episodes
            what = f"updates of at least {times:,} × {envs:,} steps"
        else:
            of = f"{counted(updates, 'update')} of {times:,} × {envs:,}"
            what = f"{counted(updates * times * envs, 'step')} in {of}"
        after = f", after step {self.position:,}" if self.position else ""
        return f"{self.title()}: {what}{after}{self._preset_in_words()}"

    def _preset_in_words(self) -> str:
        """The settings that the preset has set, on a line of their own."""
        if not self.preset:
            return ""
        ends = [f"{name} goes to {final:g}" for name, final in schedules(self.preset).items()]
        listed = ", ".join(f"{name}={x!r}" for name, x in self.preset.items())
        at_end = f" ({' and '.join(ends)} at the end of the run)" if ends else ""
        return f"\npreset for {self.config['env']}: {listed}{at_end}"

    def shown(self, row: dict[str, float]) -> dict[str, Any]:
        mean = row["return_mean"]
        return {"mean_return": f"{mean:.4g}" if mean == mean else "no episode ended"}

    def run(self) -> Run:
        return _run_of(self.learner, self.checkpoint())

    def modules(self) -> list[nn.Module]:
        return [network for network in (self.learner.policy, self.learner.value) if network is not None]

    def learning_rates(self) -> dict[str, float]:
        rates = super().learning_rates()
        if self.learner.value is None:
            rates.pop("value_lr", None)
        if "lr" not in rates and self.config.get("max_kl"):  # what bounds TRPO's step
            rates["max_kl"] = self.config["max_kl"]
        return rates

    def one_update(self) -> dict[str, Any]:
        learner = self.learner
        learner.progress = self.progress
        before = attributes(learner)
        networks: dict[str, Any] = {"policy": self.collector.policy, "value": learner.value}
        begin = time.perf_counter()
        self.collector.leave_if_urgent = self.interrupts.leave_if_urgent
        rollout = learner.collect(self.collector)
        between = time.perf_counter()
        self.rewards = rollout.rewards
        untrained = None
        if self.update == 0:  # not after a resume: a policy of one's own may count its calls
            untrained = Untrained(learner, networks, check_networks(learner, rollout))
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused
            metrics = self.metrics(f"{type(learner).__name__}.update", learner.update(rollout))
        for name, network in networks.items():
            if getattr(learner, name) is not network:  # nor are the new one's parameters the optimizer's
                raise ValueError(
                    f"{type(learner).__name__}.update must change the {name} in place, got another module as "
                    f"self.{name}. Use load_state_dict"
                )
        check_update(learner, before)
        if untrained is not None:
            untrained.tell()
        used = learner.used(rollout)
        if not {"entropy", "approx_kl"} <= metrics.keys():
            metrics = _after_update(learner.policy, rollout, used) | metrics
        returns, lengths = episode_totals(rollout, used)
        past_episodes = int(self.history.last("episodes")) if self.history else 0
        row = dict.fromkeys(COLUMNS, np.nan) | {
            "steps": self.position + rollout.rewards.numel(),
            "episodes": past_episodes + len(returns),
            **metrics,
        }
        if len(returns) > 0:
            row |= {f"return_{name}": getattr(returns, name)() for name in ("mean", "std", "min", "max")}
            row["length_mean"] = lengths.mean()
        return row | {"seconds_rollout": between - begin, "seconds_update": time.perf_counter() - between}

    def overflowing(self) -> str:
        largest = 0.0 if self.rewards is None else self.rewards.abs().max().item()
        if largest < _LARGE_REWARD:
            return ""
        scaled = getattr(self.learner.settings, "normalize_rewards", True)
        remedy = "Make them smaller" + ("" if scaled else ", or set normalize_rewards=True")
        return f"rewards of up to {largest:.2g} are too large for a float32. {remedy}"

    def before_checkpoint(self) -> None:
        if self.update and not self.saves_environments:
            self._reset_environments()
        elif not self.saves_environments and (said := episodes_are_cut(self.collector.envs, self.config)):
            say(said)

    @property
    def saves_anywhere(self) -> bool:
        return self.saves_environments

    def state(self) -> dict[str, Any]:
        return {"learner": self.learner.state_dict(), "collector": self.collector.state_dict()}

    def set_state(self, state: dict[str, Any]) -> None:
        self.learner.go_back(state["learner"])
        collector = state["collector"]
        if collector["environments"] is not None:
            self.collector.load_state_dict(collector)
        else:  # nothing can bring them back
            self.collector.generator.set_state(collector["generator"])

    def parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        state = self.state()
        environments = state["collector"].pop("environments")
        spaces = [describe_space(space) for space in self.learner.spaces]
        saved = environments is not None
        parts = {"spaces": spaces, "environments_saved": saved, **state}
        return parts, {_ENVIRONMENTS: environments} if saved else {}

    def restore(self, checkpoint: Checkpoint) -> None:
        super().restore(checkpoint)
        collector = checkpoint.state["collector"]
        if not checkpoint.files:
            if self.update:
                self._reset_environments()
            self.collector.generator.set_state(collector["generator"])
            return
        environments = checkpoint.files[_ENVIRONMENTS]
        if not has_id(env := self.config["env"]) and self.progress < 1:
            say(f"env {env!r} goes on as it was saved: attributes of the one passed again are not read")
        try:
            self.collector.load_state_dict({**collector, "environments": environments})
        except Exception as error:  # unpickling a damaged file can raise nearly anything
            raise ValueError(
                f"{checkpoint.where}/{_ENVIRONMENTS} must be as it was written, by these versions of the "
                f"libraries, got: {validation.reason(error).rstrip('.')}. Without the file the run resumes "
                "with new episodes"
            ) from None

    def _reset_environments(self) -> None:
        """Begin new episodes; which ones depends on the seed and the update alone."""
        self.collector.reset(stream(self.config["seed"], f"environments after update {self.update}"))
        self.learner.reset_episodes()


def _same_updates(checkpoint: Checkpoint, config: dict[str, Any]) -> bool:
    """Whether updates that are repeated are as before: schedules go by `total_steps`."""
    scheduled = ":" in config["algorithm"] or schedules(config)
    return not scheduled or config["total_steps"] == checkpoint.config["total_steps"]


def _last_due(folder: RunFolder, last: Checkpoint) -> Checkpoint:
    """The last checkpoint at which environments that can't be saved were reset; `last` if there is none.

    Going back is said: the updates after it are done again.
    """
    for path in reversed(checkpoints(folder.path)):
        # Checkpoints with a pickle are passed over: whoever removed a stranger's pickle does not want an
        # earlier one read.
        if not (path / _ENVIRONMENTS).exists():
            checkpoint = last if update_of(path) == last.update else read_checkpoint(folder, FORMAT, path)
            if checkpoint.state["collector"]["steps"] == 0:  # since the reset
                if checkpoint.update < last.update:
                    say(
                        f"{last.where}: environments that can't be pickled were last reset at update "
                        f"{checkpoint.update}: the run goes back to it, and repeats "
                        f"{counted(last.update - checkpoint.update, 'update')}"
                    )
                return checkpoint
    return last


def _learner_of(checkpoint: Checkpoint, kind: type[Learner], device: str) -> Learner:
    """The learner as of a checkpoint."""
    state, config = checkpoint.state, checkpoint.config
    with checkpoint.rebuilding():
        observations, actions = (space_of(description) for description in state["spaces"])
        settings, device = settings_of(kind, config), checked_device(device)
        kind = _form(kind, config)
        learner = kind(observations, actions, settings, seed=config["seed"], device=device)
        learner.load_state_dict(state["learner"])
        History(state["history"])
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


def _facts(observations: gym.Space, actions: gym.Space) -> dict[str, str]:
    """What settings may need of an environment's spaces, in words."""
    return {
        "observations": f"states ({observations})"
        if isinstance(observations, gym.spaces.Discrete)
        else VECTORS,
        "actions": CONTINUOUS if isinstance(actions, gym.spaces.Box) else f"the actions {actions}",
    }


def _maker(env: Any, asked: dict[str, Any]) -> EnvMaker:
    """What makes the environments. Where it has keyword arguments of its own, they are asked for."""
    maker = env_maker(env)
    if not isinstance(env, str):
        if asked.get("env_kwargs"):
            raise ValueError(
                f"env_kwargs must be left out where env is not an id, got {asked['env_kwargs']!r}"
            )
        asked["env_kwargs"] = maker.settings
    return maker


def _maker_again(asked: dict[str, Any], before: str) -> EnvMaker:
    """What makes the environments of a run that is resumed; `before` names them in its config."""
    env = asked.pop("env", None)
    if env is None and not has_id(before):
        raise ValueError(f"env must be passed on resume, as the run's was no id, {before!r}, got None")
    maker = _maker(before if env is None else env, asked)
    if env not in (None, before) and maker.name != before:
        allowed = f"left out on resume, or {before!r}" if has_id(before) else f"{before!r} on resume,"
        raise ValueError(f"env must be {allowed} as before, got {maker.name!r}")
    return maker


def _make_envs(maker: EnvMaker, config: dict[str, Any]) -> gym.vector.VectorEnv:
    settings = config["env_kwargs"] if maker.own is None else {}
    envs = classic_envs(maker, config["num_envs"], **settings) if config["fast"] else None
    return envs or make_env(maker, config["num_envs"], infos=False, **settings)
