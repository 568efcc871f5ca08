"""Rollouts: step a vector of environments with a policy, and return what happened as tensors.

Every step in a batch is one that the policy took. An episode's last step is followed, in the same
environment, by the first step of the next; what an episode showed when it was cut stands beside the batch, in
`Rollout.final_observations`.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from torch import Tensor

from ppobook import validation
from ppobook.envs import SameStepVectorEnv, env_seeds
from ppobook.policies import Policy
from ppobook.policies.policies import Act


@dataclass(frozen=True)
class Rollout:
    """T steps in each of N environments. Time is the second axis; the tensors are on the policy's device.

    They are views of storage in which time comes first, so ``x.transpose(0, 1).flatten(0, 1)`` copies
    nothing, and ``x.flatten(0, 1)`` does.

    Attributes
    ----------
    observations : [N, T, *obs]
        What the policy saw: float32, or int64 states.
    actions : [N, T] int64, or [N, T, act]
        As the policy drew them. Where a box has bounds, the environment got the nearest action inside.
    rewards : [N, T] float32
    terminated, truncated : [N, T] bool
        Whether the episode ended here by itself, and whether it was cut, by a time limit say. They are never
        merged: what comes after the one is worth 0, after the other it is worth V(final observation).
    logp : [N, T]
        Log-probability of the action under the policy that took it; no gradient.
    final_observations : [K, *obs]
        What the episodes that were cut, and had not terminated, showed last; in the order of
        ``torch.nonzero(truncated & ~terminated)``.
    last_observations : [N, *obs]
        What each environment shows after the last step: where to bootstrap from. If the last step ended an
        episode, it is already the first observation of the next.
    episode_returns : float64 array, [E]
        Undiscounted returns of the episodes that ended in this rollout, in the order in which they ended.
        What they earned in earlier rollouts is included.
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
        """One rollout from several that a collector returned one after the other."""
        if not parts:
            raise ValueError("parts is empty; at least one rollout is wanted")
        along_time = ("observations", "actions", "rewards", "terminated", "truncated", "logp")
        # Each part lists its cuts environment by environment, and so must the whole.
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
    """An episode that has just ended: where, its undiscounted return, its length, and what it showed last."""

    environment: int
    total: float
    length: int
    final_observation: np.ndarray


class Collector:
    """A policy's walk through a vector of environments, which goes on from rollout to rollout.

    Parameters
    ----------
    envs : gymnasium vector environment
        From `ppobook.envs.make_env`, or any other whose autoreset mode is SAME_STEP. In the mode that
        Gymnasium has by default, the step after an episode's end is a reset that ignores its action; such a
        step must not enter a batch.
    policy : Policy
        Asked anew in each rollout, so it may learn between them.
    seed : int, optional
        For the environments and for the actions. Left out, the environments are reset without one, so those
        from ``make_env(..., seed=...)`` go on with theirs, and the actions differ from run to run.

    Attributes
    ----------
    generator : torch.Generator
        Where the actions' random numbers come from.
    """

    def __init__(self, envs: VectorEnv, policy: Policy, *, seed: int | None = None) -> None:
        if not isinstance(envs, VectorEnv):
            raise TypeError(
                f"envs is of type {type(envs).__name__}; a vector environment is wanted, as "
                "ppobook.envs.make_env makes it"
            )
        mode = envs.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise ValueError(
                f"envs has the autoreset mode {getattr(mode, 'name', mode)}; SAME_STEP is wanted, "
                "as ppobook.envs.make_env makes it"
            )
        _refuse_unless_fits(policy, envs)
        self.envs = envs
        # Not for a subclass, whose own `step` may do more.
        self._step_envs = envs.step_bare if type(envs) is SameStepVectorEnv else envs.step
        self.policy = policy
        parameter = next(policy.parameters(), None) if isinstance(policy, torch.nn.Module) else None
        self.device = torch.device("cpu") if parameter is None else parameter.device
        self.generator = torch.Generator(self.device)
        if seed is None:
            self.generator.seed()
        else:
            # Environments take a seed of any size, torch one of 64 bits.
            self.generator.manual_seed(validation.count("seed", seed, low=0) % 2**64)
        self.reset(seed)

    def reset(self, seed: int | None = None) -> None:
        """Leave the episodes under way and begin new ones; with a seed, give the environments new ones too.

        The actions' random numbers go on as they were.
        """
        n = self.envs.num_envs
        self._steps = 0
        self._totals = np.zeros(n)
        self._begun = np.zeros(n, dtype=np.int64)  # how many steps came before the episode under way
        if seed is None:
            observations, _ = self.envs.reset()
        else:
            seeds: Any = env_seeds(
                validation.count("seed", seed, low=0), n
            )  # gymnasium's annotation omits lists
            observations, _ = self.envs.reset(seed=seeds)
        self._seen = self._array(observations)
        self._refuse_unless_finite("observation", self._seen, range(n), self._steps)

    @property
    def observations(self) -> Tensor:
        """What each environment shows now, [N, *obs]."""
        return self._tensor(self._seen)

    @property
    def lengths(self) -> np.ndarray:
        """How many steps the episode under way has, in each environment: int64, [N]."""
        return self._steps - self._begun

    @torch.no_grad()
    def collect(self, steps: int) -> Rollout:
        """Take so many steps in every environment.

        A policy that has an `actor` is asked in that form; any other through `sample`.

        Raises
        ------
        ValueError
            A count below 1; an observation or a reward that is not finite, naming environment and step; a
            policy whose numbers are not.
        """
        steps = validation.count("steps", steps)
        # Time comes first in storage: a step writes one row of each array.
        observations = np.empty((steps + 1, *self._seen.shape), dtype=self._seen.dtype)
        rewards = np.empty((steps, self.envs.num_envs))
        terminated, truncated = np.empty((2, *rewards.shape), dtype=bool)
        actions: list[np.ndarray] = []
        logps: list[Tensor] = []
        ended: list[tuple[int, Episode]] = []
        before, taken = self._steps, 0
        has_quick = getattr(self.policy, "actor", None)
        quick = has_quick(steps, self.envs.num_envs, self.generator) if has_quick else None
        act: Any = quick or self._asking(logps)
        observations[0] = self._seen
        try:
            for t in range(steps):
                drawn, given = act(t, observations[t])
                observations[t + 1], rewards[t], terminated[t], truncated[t], episodes = self._step(given)
                actions.append(drawn)
                taken += 1
                if episodes:
                    ended += [(t, episode) for episode in episodes]
        except Exception:
            # Whatever failed may have failed over a number that came before.
            self._refuse_unless_sound(
                observations[: taken + 1], rewards[:taken], terminated, ended, before, actions
            )
            if quick:
                self.policy.sample(self._tensor(observations[taken]), torch.Generator(self.device))
            raise
        finally:
            self._seen = observations[taken].copy()
        self._refuse_unless_sound(observations, rewards, terminated, ended, before, actions)

        seen, drawn_all = self._tensor(observations), self._tensor(np.stack(actions))
        logp = quick.logp(drawn_all) if quick else torch.stack(logps)
        if quick and not math.isfinite(logp.sum().item()):
            # It may be that the policy gives no numbers; `sample` then refuses, with a sentence.
            self.policy.sample(seen[:-1], torch.Generator(self.device))
        # As torch.nonzero has them: by environment, then by time.
        cuts = sorted(
            (episode.environment, t) for t, episode in ended if not terminated[t, episode.environment]
        )
        showed = {(episode.environment, t): episode.final_observation for t, episode in ended}
        finals = np.array([showed[cut] for cut in cuts]).reshape(-1, *self._seen.shape[1:])
        return Rollout(
            observations=seen[:-1].transpose(0, 1),
            actions=drawn_all.transpose(0, 1),
            rewards=self._tensor(rewards.astype(np.float32)).T,
            terminated=self._tensor(terminated).T,
            truncated=self._tensor(truncated).T,
            logp=logp.T,
            final_observations=self._tensor(self._array(finals)),
            last_observations=seen[-1],
            episode_returns=np.array([episode.total for _, episode in ended], dtype=np.float64),
            episode_lengths=np.array([episode.length for _, episode in ended], dtype=np.int64),
        )

    def step(self, actions: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[Episode]]:
        """Take these actions, one in each environment.

        `observations` then has what the environments show: where the step ended an episode, the first
        observation of the next.

        Returns
        -------
        rewards, terminated, truncated : arrays, [N]
        episodes : list of Episode
            Those that ended in this step.
        """
        before = self._steps
        observations, *found, episodes = self._step(self.policy.in_bounds(actions).cpu().numpy())
        rewards, terminated, truncated = found
        seen = np.stack([self._seen, self._array(observations)])
        self._seen = seen[1].copy()
        ended = [(0, episode) for episode in episodes]
        self._refuse_unless_sound(seen, rewards[None], terminated[None], ended, before)
        return rewards, terminated, truncated, episodes

    def _step(
        self, given: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[Episode]]:
        """One step of the environments, and the books kept about it; nothing is looked at yet."""
        observations, rewards, terminated, truncated, infos = self._step_envs(given)
        self._steps += 1
        self._totals += rewards
        over = terminated | truncated
        episodes: list[Episode] = []
        if np.count_nonzero(over):  # few steps end an episode, and the others should not pay for it
            finals = infos["final_obs"]
            for i in over.nonzero()[0].tolist():
                length = self._steps - int(self._begun[i])
                episodes.append(Episode(i, float(self._totals[i]), length, np.asarray(finals[i])))
                self._totals[i], self._begun[i] = 0, self._steps
        return observations, rewards, terminated, truncated, episodes

    def _asking(self, logps: list[Tensor]) -> Act:
        """What stands in for `Policy.actor` where a policy has none: asked step by step, its logp kept."""

        def act(_: int, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            actions, logp = self.policy.sample(self._tensor(observations), self.generator)
            logps.append(logp)
            return actions.cpu().numpy(), self.policy.in_bounds(actions).cpu().numpy()

        return act

    @property
    def saves_environments(self) -> bool:
        """Whether `state_dict` can hold the environments' state.

        It cannot where that is in another process, or in a library that keeps it to itself (Box2D, MuJoCo).
        """
        return _pickled(self.envs) is not None

    def state_dict(self) -> dict[str, Any]:
        """Where the walk stands, to go on from there to the same bits.

        Returns
        -------
        dict
            Tensors and whole numbers; and under ``"environments"`` bytes, the pickled environments, or None
            where `saves_environments` is False.
        """
        return {
            "generator": self.generator.get_state(),
            "observations": self.observations,
            "steps": self._steps,
            "totals": torch.tensor(self._totals),
            "lengths": torch.tensor(self.lengths),
            "environments": _pickled(self.envs),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to what `state_dict` returned.

        Where that holds no environments, only the actions' random numbers go back: the episodes under way
        are lost, so new ones are begun. To have an unbroken run do the same, call ``reset(seed)`` in it when
        the state is saved, and ``reset`` with the same seed after loading.

        The environments are unpickled, which runs what the bytes say: load only what you saved yourself.
        """
        self.generator.set_state(state["generator"])
        if state["environments"] is None:
            self.reset()
            return
        envs: Any = self.envs
        restored = pickle.loads(state["environments"])
        if isinstance(restored, list) != hasattr(envs, "envs"):
            raise ValueError(
                f"state holds environments of another kind than envs ({_name(envs)}); those of the same "
                "environment, saved by this version of ppobook, are wanted"
            )
        if not isinstance(restored, list):
            envs.load_state_dict(restored)
        elif len(restored) != envs.num_envs:
            raise ValueError(
                f"state has {len(restored)} environments; {envs.num_envs} are wanted, as in envs"
            )
        else:
            for old in envs.envs:
                old.close()
            envs.envs = restored
        self._seen = state["observations"].cpu().numpy().copy()
        self._steps = state["steps"]
        self._totals = state["totals"].numpy().copy()
        self._begun = self._steps - state["lengths"].numpy()

    def _array(self, observations: Any) -> np.ndarray:
        """A copy of observations: whole numbers where they are states, else float32."""
        states = isinstance(self.envs.single_observation_space, spaces.Discrete)
        with np.errstate(over="ignore"):  # what a float32 does not hold is refused, with a sentence
            return np.array(observations, dtype=np.int64 if states else np.float32)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _refuse_unless_sound(
        self,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        ended: Sequence[tuple[int, Episode]],
        before: int,
        actions: Sequence[np.ndarray] = (),
    ) -> None:
        """Refuse the first reward or observation, in time, that is not finite; `before` steps came before.

        The first row of observations has been looked at. Where an action came earlier that was no number,
        the policy is refused, and not the environment that was given it.
        """
        finals = [(t, episode) for t, episode in ended if not terminated[t, episode.environment]]
        # A finite sum has finite terms; one that is not may have overflowed, so then each is looked at.
        with np.errstate(over="ignore", invalid="ignore"):
            sums = [x.sum() for x in (observations, rewards, *(episode[-1] for _, episode in finals))]
        if all(map(math.isfinite, sums)):
            return
        everywhere = range(self.envs.num_envs)
        for t, row in enumerate(rewards):
            step = before + t + 1
            if t < len(actions) and not np.isfinite(actions[t]).all():
                self.policy.sample(self._tensor(observations[t]), torch.Generator(self.device))
            self._refuse_unless_finite("reward", row, everywhere, step)
            self._refuse_unless_finite("observation", observations[t + 1], everywhere, step)
            for at, episode in finals:
                if at == t:  # the last thing an episode showed: somebody will ask for its value
                    final = episode.final_observation[None]
                    self._refuse_unless_finite("final observation", final, [episode.environment], step)

    def _refuse_unless_finite(
        self, what: str, array: np.ndarray, environments: Sequence[int], step: int
    ) -> None:
        if np.isfinite(array).all():
            return
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise ValueError(
            f"environment {environments[row]} of {self.envs.num_envs} ({_name(self.envs)}) gave the {what} "
            f"{array[row]} in step {step} after the last reset; finite numbers are wanted, of a size that a "
            "float32 holds"
        )


def _refuse_unless_fits(policy: Policy, envs: VectorEnv) -> None:
    """Two actions for an environment with three would run without complaint, and never try the third."""
    if not callable(getattr(policy, "sample", None)):
        hint = ", and this has one: .policy" if hasattr(policy, "policy") else ""
        raise TypeError(f"policy is of type {type(policy).__name__}; a policy is wanted{hint}")
    space = envs.single_action_space
    wanted: tuple[str, Any]
    if isinstance(space, spaces.Discrete):
        wanted = "n_actions", int(space.n)
    elif isinstance(space, spaces.MultiDiscrete):
        wanted = "nvec", tuple(space.nvec.tolist())
    elif isinstance(space, spaces.MultiBinary):
        wanted = "nvec", (2,) * int(np.prod(space.shape))
    else:
        wanted = "act_dim", (space.shape or (0,))[0]
    for name in ("n_actions", "nvec", "act_dim"):
        had = getattr(policy, name, None)
        if had is not None and (name, had) != wanted:
            raise ValueError(
                f"policy has {name} {had}; one for the actions of {_name(envs)}, {space}, is wanted"
            )


class _StatePickler(pickle.Pickler):
    """Refuses what would be pickled without its state.

    An `EzPickle` object saves how it was made and comes back as new: no error, and another episode.
    """

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, EzPickle) and type(obj).__getstate__ is EzPickle.__getstate__:
            raise pickle.PicklingError(f"{type(obj).__name__} would be saved without its state")
        return NotImplemented


def _pickled(envs: VectorEnv) -> bytes | None:
    """The environments inside a vector environment, random numbers and all; None where that can't be had."""
    # A wrapper around the vector may have a state of its own, so only the bare one is known to be complete.
    if isinstance(envs, VectorWrapper):
        return None
    own = getattr(envs, "state_dict", None)
    if callable(own):
        return pickle.dumps(own())
    if not isinstance(envs, SyncVectorEnv):
        return None
    file = io.BytesIO()
    try:
        _StatePickler(file).dump(envs.envs)
    except Exception:  # whatever an environment's parts raise when asked to be pickled
        return None
    return file.getvalue()


def _name(envs: VectorEnv) -> str:
    spec = envs.spec or (envs.envs[0].spec if isinstance(envs, SyncVectorEnv) else None)
    return spec.id if spec else type(envs).__name__
