"""Rollouts: step a vector environment with a policy, and return what happened as tensors.

Every step of a batch is one that the policy took. An episode's last step is followed, in the same
environment, by the first step of the next one; the last observation of a truncated episode is in
`Rollout.final_observations`.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from ppobook import validation
from ppobook.envs import env_seeds
from ppobook.envs.saving import env_name, load_envs, save_envs
from ppobook.fast import choose
from ppobook.policies import Policy


@dataclass(frozen=True)
class Rollout:
    """T steps in each of N environments. Time is the second axis; tensors are on the policy's device.

    They are views of storage in which time comes first, so ``x.transpose(0, 1).flatten(0, 1)`` copies
    nothing, and ``x.flatten(0, 1)`` does.

    Attributes
    ----------
    observations : [N, T, *obs]
        float32, or int64 for states.
    actions : [N, T] int64, or [N, T, act]
        As sampled. A box environment got the nearest action within its bounds.
    rewards : [N, T] float32
    terminated, truncated : [N, T] bool
        Whether the episode ended here, and whether it was truncated, by a time limit for instance. They are
        never merged: the value of what follows is 0 after the one, V(final observation) after the other.
    logp : [N, T]
        Log-probability of the action under the policy that sampled it; detached.
    final_observations : [K, *obs]
        The last observations of the episodes that were truncated and not terminated, in the order of
        ``torch.nonzero(truncated & ~terminated)``.
    last_observations : [N, *obs]
        The observations after the last step, to bootstrap from. Where that step ended an episode, it is the
        first observation of the next one.
    episode_returns : float64 array, [E]
        Undiscounted returns of the episodes that ended in this rollout, in the order in which they ended,
        with rewards from earlier rollouts.
    episode_lengths : int64 array, [E]
    """

    observations: Tensor
    actions: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    logp: Tensor
    final_observations: Tensor
    last_observations: Tensor
    episode_returns: np.ndarray
    episode_lengths: np.ndarray

    @staticmethod
    def join(parts: Sequence[Rollout]) -> Rollout:
        """One rollout from consecutive ones of a collector."""
        if not isinstance(parts, Sequence) or not parts:
            raise ValueError(f"parts must be a list of at least one rollout, got {parts!r}")
        for i, part in enumerate(parts):
            validation.instance(f"parts[{i}]", part, Rollout)
        along_time = ("observations", "actions", "rewards", "terminated", "truncated", "logp")
        # Each part lists its final observations environment by environment, and so must the whole.
        environment = torch.cat([torch.nonzero(part.truncated & ~part.terminated)[:, 0] for part in parts])
        order = environment.argsort(stable=True)
        return Rollout(
            **{name: torch.cat([getattr(part, name) for part in parts], dim=1) for name in along_time},
            final_observations=torch.cat([part.final_observations for part in parts])[order],
            last_observations=parts[-1].last_observations,
            episode_returns=np.concatenate([part.episode_returns for part in parts]),
            episode_lengths=np.concatenate([part.episode_lengths for part in parts]),
        )


class Episode(NamedTuple):
    """An episode that has ended: environment, undiscounted return, length, and its last observation."""

    environment: int
    total: float
    length: int
    final_observation: np.ndarray


class PlainActor:
    """Actions of a rollout by `policy.sample`."""

    def __init__(self, policy: Policy, steps: int, num_envs: int, generator: torch.Generator) -> None:
        self.policy = policy
        self.generator = generator
        self.logps: list[Tensor] = []

    def sample(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Actions [N, ...] at these observations, and the same within the environment's bounds."""
        x = torch.from_numpy(observations).to(self.generator.device)
        actions, logp = self.policy.sample(x, self.generator)
        self.logps.append(logp)
        return _to_numpy(actions), _to_numpy(self.policy.in_bounds(actions))

    def logp(self, actions: Tensor) -> Tensor:
        """Log-probabilities [steps, N] of all sampled actions."""
        return torch.stack(self.logps)


class Collector:
    """Collects rollouts of a policy in a vector environment. Episodes continue from one to the next.

    Parameters
    ----------
    envs : gymnasium vector environment
        From `ppobook.envs.make_env`, or any other with ``AutoresetMode.SAME_STEP``. In Gymnasium's default
        mode the step after an episode's end is a reset that ignores its action, and must not enter a batch.
    policy : Policy
        It may be updated between rollouts.
    seed : int, optional
        For environments and actions. Without, the environments are reset without a seed, so those from
        ``make_env(..., seed=...)`` keep theirs, and actions differ from run to run.
    fast : bool
        Sample with the policy's fast form where it has one (`ppobook.fast.actor`). Its actions are the same
        (those of a Gaussian up to rounding).

    Attributes
    ----------
    generator : torch.Generator
        For sampling actions.
    """

    def __init__(
        self, envs: VectorEnv, policy: Policy, *, seed: int | None = None, fast: bool = True
    ) -> None:
        if not isinstance(envs, VectorEnv):
            raise TypeError(
                "envs must be a vector environment, as ppobook.envs.make_env makes it, "
                f"got {type(envs).__name__}"
            )
        mode = envs.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise ValueError(
                "envs must have the autoreset mode SAME_STEP, as ppobook.envs.make_env makes it, "
                f"got {getattr(mode, 'name', mode)}"
            )
        _check_policy_fits(policy, envs)
        self.envs = envs
        self.policy = policy
        self.fast = validation.flag("fast", fast)
        parameter = next(policy.parameters(), None) if isinstance(policy, torch.nn.Module) else None
        self.device = torch.device("cpu") if parameter is None else parameter.device
        self.generator = torch.Generator(self.device)
        if seed is None:
            self.generator.seed()
        else:
            # Environments take seeds of any size, torch of 64 bits.
            self.generator.manual_seed(validation.count("seed", seed, low=0) % 2**64)
        self.reset(seed)

    def reset(self, seed: int | Sequence[int | None] | None = None) -> None:
        """Begin new episodes; with a seed, or one for each environment, reseed the environments.

        The actions' generator is not reset.
        """
        n = self.envs.num_envs
        self._steps = 0
        self._totals = np.zeros(n)
        self._episode_start = np.zeros(n, dtype=np.int64)  # in steps since the last reset
        if seed is None:
            observations, _ = self.envs.reset()
        else:
            # Gymnasium's annotation is int.
            seeds: Any = seed
            if isinstance(seed, Sequence) and not isinstance(seed, str):
                if len(seed) != n:
                    raise ValueError(f"seed must have {n} entries, one an environment, got {len(seed)}")
                for i, one in enumerate(seed):
                    if one is not None:
                        validation.count(f"seed[{i}]", one, low=0)
            else:
                seeds = env_seeds(seed, n)
            observations, _ = self.envs.reset(seed=seeds)
        self._current = self._array(observations)
        self._check_finite("observation", self._current, range(n), [0] * n)

    @property
    def observations(self) -> Tensor:
        """The current observation of each environment, [N, *obs]."""
        return self._tensor(self._current)

    @property
    def lengths(self) -> np.ndarray:
        """The length so far of the current episode of each environment: int64, [N]."""
        return self._steps - self._episode_start

    @torch.no_grad()
    def collect(self, steps: int) -> Rollout:
        """Take `steps` steps in every environment.

        Raises
        ------
        ValueError
            A count below 1, or one for which memory is too small; an observation or a reward that is not
            finite, naming environment and step; outputs of the policy that are not finite.
        """
        n = self.envs.num_envs
        refuse_unless_it_fits(n, validation.count("steps", steps), self._current.nbytes // n)
        make_actor = choose.actor(self.policy, self.fast) or PlainActor
        actor = make_actor(self.policy, steps, self.envs.num_envs, self.generator)
        # Time is the first axis in storage: a step writes one row of each array.
        observations = np.empty((steps + 1, *self._current.shape), dtype=self._current.dtype)
        rewards = np.empty((steps, self.envs.num_envs))
        terminated, truncated = np.empty((2, *rewards.shape), dtype=bool)
        actions: list[np.ndarray] = []
        ended: list[tuple[int, Episode]] = []
        first, done = self._steps, 0

        observations[0] = self._current
        try:
            for t in range(steps):
                action, action_in_bounds = actor.sample(observations[t])
                actions.append(action)
                result = self._step(action_in_bounds)
                observations[t + 1], rewards[t], terminated[t], truncated[t], episodes = result
                if episodes:
                    ended += [(t, episode) for episode in episodes]
                done += 1
        except Exception:
            # It may be due to a value that is not finite, from an earlier step or from the policy.
            self._validate(observations[: done + 1], rewards[:done], terminated, ended, first, actions)
            self._validate_policy(actor, observations[done])
            raise
        finally:
            self._current = observations[done].copy()
        self._validate(observations, rewards, terminated, ended, first, actions)

        seen, taken = self._tensor(observations), self._tensor(np.stack(actions))
        logp = actor.logp(taken)
        if not math.isfinite(logp.sum().item()):
            self._validate_policy(actor, observations[:-1])
        return Rollout(
            observations=seen[:-1].transpose(0, 1),
            actions=taken.transpose(0, 1),
            rewards=self._tensor(rewards.astype(np.float32)).T,
            terminated=self._tensor(terminated).T,
            truncated=self._tensor(truncated).T,
            logp=logp.T,
            final_observations=self._final_observations(ended, terminated),
            last_observations=seen[-1],
            episode_returns=np.array([episode.total for _, episode in ended], dtype=np.float64),
            episode_lengths=np.array([episode.length for _, episode in ended], dtype=np.int64),
        )

    def step(self, actions: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[Episode]]:
        """Take these actions, one in each environment. `observations` holds what follows.

        Returns
        -------
        rewards, terminated, truncated : arrays, [N]
        episodes : list of Episode
            Those that ended in this step.
        """
        validation.instance("actions", actions, Tensor)
        expected = (self.envs.num_envs, *actions.shape[1:])
        validation.shape("actions", actions, expected, "one action an environment")
        first = self._steps
        result = self._step(_to_numpy(self.policy.in_bounds(actions)))
        observations, rewards, terminated, truncated, episodes = result
        both = np.stack([self._current, self._array(observations)])
        self._current = both[1].copy()
        self._validate(both, rewards[None], terminated[None], [(0, episode) for episode in episodes], first)
        return rewards, terminated, truncated, episodes

    def _step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[Episode]]:
        """One step of the environments, and the episodes that ended in it. Results are not validated."""
        observations, rewards, terminated, truncated, infos = self.envs.step(actions)
        self._steps += 1
        if observations.dtype != self._current.dtype:
            observations = self._array(observations)
        self._totals += rewards
        over = terminated | truncated
        episodes: list[Episode] = []
        if np.count_nonzero(over):
            for i in over.nonzero()[0].tolist():
                length = self._steps - int(self._episode_start[i])
                final = np.asarray(infos["final_obs"][i])
                episodes.append(Episode(i, float(self._totals[i]), length, final))
                self._totals[i], self._episode_start[i] = 0, self._steps
        return observations, rewards, terminated, truncated, episodes

    def _final_observations(self, ended: Iterable[tuple[int, Episode]], terminated: np.ndarray) -> Tensor:
        """The last observations of truncated episodes, by environment, then by time."""
        final = {
            (e.environment, t): e.final_observation for t, e in ended if not terminated[t, e.environment]
        }
        return self._tensor(self._array([final[key] for key in sorted(final)] or self._current[:0]))

    @property
    def saves_environments(self) -> bool:
        """Whether `state_dict` can hold the environments' state; see `ppobook.envs.saving`."""
        return save_envs(self.envs) is not None

    def state_dict(self) -> dict[str, Any]:
        """The state, from which rollouts continue to the same bits.

        Returns
        -------
        dict
            Tensors and integers; under ``"environments"`` bytes, the pickled environments, or None where
            `saves_environments` is False.
        """
        return {
            "generator": self.generator.get_state(),
            "observations": self.observations,
            "steps": self._steps,
            "totals": torch.tensor(self._totals),
            "lengths": torch.tensor(self.lengths),
            "environments": save_envs(self.envs),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Where that holds no environments, only the actions' generator is restored, and new episodes begin. To
        have an uninterrupted run do the same, call ``reset(seed)`` in it when the state is saved, and
        ``reset`` with the same seed after loading.

        The environments are unpickled, which can run code: load only what you saved yourself.
        """
        self.generator.set_state(state["generator"])
        if state["environments"] is None:
            self.reset()
            return
        load_envs(self.envs, state["environments"])
        self._current = state["observations"].cpu().numpy().copy()
        self._steps = state["steps"]
        self._totals = state["totals"].numpy().copy()
        self._episode_start = self._steps - state["lengths"].numpy()

    def _array(self, observations: Any) -> np.ndarray:
        """A copy of observations: int64 for states, else float32."""
        states = isinstance(self.envs.single_observation_space, spaces.Discrete)
        dtype = np.int64 if states else np.float32
        with np.errstate(over="ignore"):  # `_validate` finds the infinity
            return np.asarray(observations).astype(dtype, casting="same_kind")

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    # Validation of what environments and policies return, once per rollout.

    def _validate(
        self,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        ended: Sequence[tuple[int, Episode]],
        first: int,
        actions: Sequence[np.ndarray] = (),
    ) -> None:
        """Raise for the first reward or observation, in time, that is not finite.

        `first` steps were taken before. The first row of observations has been validated. Where an earlier
        action is not finite, the error is the policy's.
        """
        finals = [(t, episode) for t, episode in ended if not terminated[t, episode.environment]]
        # A finite sum has finite terms. One that is not may have overflowed; then look at each.
        with np.errstate(over="ignore", invalid="ignore"):
            sums = [x.sum() for x in (observations, rewards, *(episode[-1] for _, episode in finals))]
        if all(map(math.isfinite, sums)):
            return
        everywhere = range(self.envs.num_envs)
        for t, row in enumerate(rewards):
            if t < len(actions) and not np.isfinite(actions[t]).all():
                self.policy.sample(self._tensor(observations[t]), torch.Generator(self.device))  # raises
            # Counted in the episode; the observation in which one ends is the first of the next.
            steps = [self._step_in_episode(i, first + t + 1, ended, first) for i in everywhere]
            self._check_finite("reward", row, everywhere, steps)
            over = {episode.environment for at, episode in ended if at == t}
            seen = [0 if i in over else step for i, step in enumerate(steps)]
            self._check_finite("observation", observations[t + 1], everywhere, seen)
            for at, episode in finals:
                if at == t:
                    final = episode.final_observation[None]
                    self._check_finite("final observation", final, [episode.environment], [episode.length])

    def _step_in_episode(
        self, environment: int, step: int, ended: Sequence[tuple[int, Episode]], first: int
    ) -> int:
        """The number in its episode of a step, counted from the last reset of all environments."""
        ends = [(first + t + 1, e.length) for t, e in ended if e.environment == environment]
        before = [end for end, _ in ends if end < step]
        start = ends[0][0] - ends[0][1] if ends else int(self._episode_start[environment])
        return step - (before[-1] if before else start)

    def _validate_policy(self, actor: Any, observations: np.ndarray) -> None:
        """Raise if the policy's outputs are not finite: `sample` validates them, its fast form does not."""
        if not isinstance(actor, PlainActor):
            self.policy.sample(self._tensor(observations), torch.Generator(self.device))

    def _check_finite(
        self, what: str, array: np.ndarray, environments: Sequence[int], steps: Sequence[int]
    ) -> None:
        if np.isfinite(array).all():
            return
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise ValueError(
            f"environment {environments[row]} of {self.envs.num_envs} ({env_name(self.envs)}) must return a "
            f"finite {what}, got {array[row]} in step {steps[row]} after the last reset"
        )


def _to_numpy(actions: Tensor) -> np.ndarray:
    """As an array; NumPy has no bfloat16, and every number of that is one of float32."""
    actions = actions.float() if actions.dtype == torch.bfloat16 else actions
    return actions.cpu().numpy()


def refuse_unless_it_fits(num_envs: int, num_steps: int, observation_size: int = 4) -> None:
    """Raise unless a rollout with observations of so many bytes fits in the machine's memory."""
    # Besides observations: rewards as float64 and float32, flags, actions, log-probabilities.
    size = num_envs * num_steps * (observation_size + 8 + 4 + 2 + 8 + 4)
    if size > _memory():
        raise ValueError(
            f"num_envs * num_steps must fit in memory, got {num_envs} * {num_steps}, which takes more than "
            f"{size / 2**30:,.0f} GiB"
        )


def _memory() -> float:
    """The machine's memory in bytes; infinity where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf


def refuse_no_policy(policy: Any, *methods: str) -> None:
    """Raise unless this can be a policy: it has `sample`, which takes a generator, and these methods."""
    if missing := [name for name in ("sample", *methods) if not callable(getattr(policy, name, None))]:
        got, hint = type(policy).__name__, validation.other_half(policy, "ppobook")
        if hasattr(policy, "policy"):
            hint = ". Use its attribute .policy"
        elif isinstance(policy, str | os.PathLike):
            got = repr(os.fspath(policy))
            hint = ". The policy comes before the environment; that of a run is load(folder).policy"
        raise TypeError(f"policy must have a method {missing[0]}, got {got}{hint}")
    try:
        signature = inspect.signature(policy.sample)
    except (TypeError, ValueError):  # one that is not written in Python
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise TypeError(
            f"policy must have a method sample(observations, generator), got sample{signature}"
        ) from None


def _check_policy_fits(policy: Policy, envs: VectorEnv) -> None:
    """A policy with two actions would run in an environment with three, and never try the third."""
    refuse_no_policy(policy, "in_bounds")
    space = envs.single_action_space
    expected: tuple[str, Any]
    if isinstance(space, spaces.Discrete):
        expected = "n_actions", int(space.n)
    elif isinstance(space, spaces.MultiDiscrete):
        expected = "nvec", tuple(space.nvec.tolist())
    elif isinstance(space, spaces.MultiBinary):
        expected = "nvec", (2,) * int(np.prod(space.shape))
    else:
        expected = "act_dim", (space.shape or (0,))[0]
    _check_size(policy, ("n_actions", "nvec", "act_dim"), expected, f"actions of {env_name(envs)}, {space}")
    space = envs.single_observation_space
    expected = "obs_dim", (space.shape or (0,))[-1]
    if isinstance(space, spaces.Discrete):
        expected = "n_states", int(space.n)
    # A policy of a user's own may turn states into vectors.
    own = type(policy).__module__.partition(".")[0] != "ppobook"
    names = (expected[0],) if own else ("n_states", "obs_dim")
    _check_size(policy, names, expected, f"observations of {env_name(envs)}, {space}")


def _check_size(policy: Policy, names: Sequence[str], expected: tuple[str, Any], what: str) -> None:
    for name in names:
        size = getattr(policy, name, None)
        if size is not None and (name, size) != expected:
            raise ValueError(
                f"policy must have {expected[0]} {expected[1]} for the {what}, got {name} {size}"
            )
