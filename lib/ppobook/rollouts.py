"""Rollouts: step a vector environment with a policy, and return what happened as tensors.

Every step of a batch is one that the policy took. An episode's last step is followed, in the same
environment, by the first step of the next one; the last observation of a truncated episode is in
`Rollout.final_observations`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from torch import Tensor

from ppobook import validation
from ppobook.envs import env_seeds
from ppobook.envs.saving import env_name, load_envs, save_envs
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


class PolicyActor:
    """Acts in a rollout by `policy.sample`."""

    def __init__(self, policy: Policy, steps: int, num_envs: int, generator: torch.Generator) -> None:
        self.policy = policy
        self.generator = generator
        self.logps: list[Tensor] = []

    def sample(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return actions [N, ...] at these observations, and the same within the environment's bounds."""
        x = torch.from_numpy(observations).to(self.generator.device)
        actions, logp = self.policy.sample(x, self.generator)
        self.logps.append(logp)
        return _to_numpy(actions), _to_numpy(self.policy.in_bounds(actions))

    def logp(self, actions: Tensor) -> Tensor:
        """Return the log-probabilities [steps, N] of all sampled actions."""
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
    actor : class
        Acts in a rollout: `PolicyActor`, or another one with the same methods.

    Attributes
    ----------
    generator : torch.Generator
        For sampling actions.
    """

    def __init__(
        self, envs: VectorEnv, policy: Policy, *, seed: int | None = None, actor: Any = PolicyActor
    ) -> None:
        mode = envs.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise ValueError(
                "envs must have the autoreset mode SAME_STEP, as ppobook.envs.make_env makes it, "
                f"got {getattr(mode, 'name', mode)}"
            )
        _refuse_running_statistics(envs)
        _check_policy_fits(policy, envs)
        self.envs = envs
        self.policy = policy
        self.actor = actor
        parameter = next(policy.parameters(), None) if isinstance(policy, torch.nn.Module) else None
        self.device = torch.device("cpu") if parameter is None else parameter.device
        self.generator = torch.Generator(self.device)
        if seed is None:
            self.generator.seed()
        else:
            # Environments take seeds of any size, torch of 64 bits.
            self.generator.manual_seed(seed % 2**64)
        self.reset(seed)

    def reset(self, seed: int | Sequence[int | None] | None = None) -> None:
        """Begin new episodes; with a seed, or one for each environment, reseed the environments.

        The actions' generator is not reset.
        """
        n = self.envs.num_envs
        self._steps = 0
        self._totals = np.zeros(n)
        self._episode_start = np.zeros(n, dtype=np.int64)  # in steps since the last reset
        seeds: Any = env_seeds(seed, n) if isinstance(seed, int) else seed
        observations, _ = self.envs.reset(seed=seeds)
        self._current = self._array(observations)

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
            A reward, an observation or a log-probability that is not finite.
        """
        actor = self.actor(self.policy, steps, self.envs.num_envs, self.generator)
        # Time is the first axis in storage: a step writes one row of each array.
        observations = np.empty((steps + 1, *self._current.shape), dtype=self._current.dtype)
        rewards = np.empty((steps, self.envs.num_envs))
        terminated, truncated = np.empty((2, *rewards.shape), dtype=bool)
        actions: list[np.ndarray] = []
        ended: list[tuple[int, Episode]] = []

        observations[0] = self._current
        for t in range(steps):
            try:
                action, action_in_bounds = actor.sample(observations[t])
            except validation.NotFiniteError:
                self._refuse_unless_finite("observation", observations[: t + 1])
                raise
            actions.append(action.copy())  # an environment may write into what it is given
            observations[t + 1], rewards[t], terminated[t], truncated[t], episodes = self._step(
                action_in_bounds
            )
            ended += [(t, episode) for episode in episodes]
        self._current = observations[-1].copy()

        seen, taken = self._tensor(observations), self._tensor(np.stack(actions))
        logp, final = actor.logp(taken), self._final_observations(ended, terminated)
        self._refuse_unless_finite("reward", rewards)
        self._refuse_unless_finite("observation", observations)
        self._refuse_unless_finite("final observation", final.cpu().numpy())
        self._refuse_unless_finite("log-probability of an action", logp.float().cpu().numpy())
        return Rollout(
            observations=seen[:-1].transpose(0, 1),
            actions=taken.transpose(0, 1),
            rewards=self._tensor(rewards.astype(np.float32)).T,
            terminated=self._tensor(terminated).T,
            truncated=self._tensor(truncated).T,
            logp=logp.T,
            final_observations=final,
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
        result = self._step(_to_numpy(self.policy.in_bounds(actions)))
        observations, rewards, terminated, truncated, episodes = result
        self._current = self._array(observations)
        self._refuse_unless_finite("reward", rewards)
        self._refuse_unless_finite("observation", self._current)
        return rewards, terminated, truncated, episodes

    def _step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[Episode]]:
        """Step the environments; return also the episodes that ended."""
        observations, rewards, terminated, truncated, infos = self.envs.step(actions)
        self._steps += 1
        if observations.dtype != self._current.dtype:
            observations = self._array(observations)
        self._totals += rewards
        over = terminated | truncated
        episodes: list[Episode] = []
        for i in over.nonzero()[0].tolist():
            length = self._steps - int(self._episode_start[i])
            final = np.asarray(infos["final_obs"][i])
            episodes.append(Episode(i, float(self._totals[i]), length, final))
            self._totals[i], self._episode_start[i] = 0, self._steps
        return observations, rewards, terminated, truncated, episodes

    def _final_observations(self, ended: Sequence[tuple[int, Episode]], terminated: np.ndarray) -> Tensor:
        """The last observations of truncated episodes, by environment, then by time."""
        final = {
            (e.environment, t): e.final_observation for t, e in ended if not terminated[t, e.environment]
        }
        return self._tensor(self._array([final[key] for key in sorted(final)] or self._current[:0]))

    @property
    def saves_environments(self) -> bool:
        """True if `state_dict` can hold the environments' state; see `ppobook.envs.saving`."""
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
        return np.asarray(observations).astype(dtype, casting="same_kind")

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _refuse_unless_finite(self, what: str, array: np.ndarray) -> None:
        # A finite sum has finite terms. One that is not may have overflowed; then look at each.
        if math.isfinite(array.sum(dtype=np.float64)) or np.isfinite(array).all():
            return
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        raise ValueError(
            f"each {what} in {env_name(self.envs)} must be finite, got {array[tuple(place)]} (index {place} "
            "of the steps and environments of a rollout)"
        )


def _to_numpy(actions: Tensor) -> np.ndarray:
    """Convert actions to an array: bfloat16, which NumPy lacks, to float32, which holds all its numbers."""
    actions = actions.float() if actions.dtype == torch.bfloat16 else actions
    return actions.cpu().numpy()


def _refuse_running_statistics(envs: Any) -> None:
    """Raise for wrappers that normalize by what they have seen: `evaluate` would begin with none of it."""
    while envs is not None:
        if any(type(x).__name__ == "RunningMeanStd" for x in vars(envs).values()):
            raise ValueError(
                "env must have no running statistics, which are not saved with a policy: set normalize_"
                f"observations=True or normalize_rewards=True in place of {type(envs).__name__}"
            )
        first = envs.envs[0] if isinstance(envs, SyncVectorEnv) else None
        envs = envs.env if isinstance(envs, gym.Wrapper | VectorWrapper) else first


def _check_policy_fits(policy: Any, envs: VectorEnv) -> None:
    """Raise for other actions or observations: a policy with two actions would never try the third."""
    actions, observations = envs.single_action_space, envs.single_observation_space
    expected: dict[str, Any] = {}
    if isinstance(actions, spaces.Discrete):
        expected["n_actions"] = int(actions.n)
    elif isinstance(actions, spaces.MultiDiscrete):
        expected["nvec"] = tuple(actions.nvec.tolist())
    elif isinstance(actions, spaces.Box):
        expected["act_dim"] = actions.shape[0]
    if isinstance(observations, spaces.Box):
        expected["obs_dim"] = observations.shape[-1]
    elif isinstance(observations, spaces.Discrete):
        expected["n_states"] = int(observations.n)
    for name, size in expected.items():
        given = getattr(policy, name, None)
        library = type(policy).__module__.startswith("ppobook.")
        if given != size and (given is not None or library):
            raise ValueError(
                f"policy must have {name} {size} for {env_name(envs)}, with observations {observations} and "
                f"actions {actions}, got {given}"
            )
