"""Vector environments: several seeded copies of any Gymnasium environment, stepped together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ppobook import validation
from ppobook.envs.wrappers import CheckedEnv, flat
from ppobook.fast import choose

# More would take minutes to make: a mistake in the argument.
MOST_ENVS = 10_000


class SameStepVectorEnv(SyncVectorEnv):
    """Environments stepped one by one; where a step ends an episode, the next one begins in the same step.

    It is Gymnasium's `SyncVectorEnv` with ``AutoresetMode.SAME_STEP``, where every step is that of an action
    and no step of a batch is a mere reset; an episode's last observation is in ``infos["final_obs"]``. Here
    that is a copy, since some environments overwrite the array that they returned, and a step costs less.

    Parameters
    ----------
    makers : sequence of functions without arguments
        One for each environment.
    infos : bool
        Merge the info dicts of the environments, as Gymnasium does. MuJoCo's environments report half a dozen
        numbers in each step, and merging them is a tenth of its time. Without, `step` returns the final
        observations only.
    """

    def __init__(self, makers: Sequence[Callable[[], gym.Env]], *, infos: bool = True) -> None:
        super().__init__(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        self.infos = infos

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step in each environment: observations, rewards, terminated, truncated, infos."""
        space = self.single_observation_space
        observations = np.empty((self.num_envs, *(space.shape or ())), dtype=space.dtype)
        rewards = np.empty(self.num_envs)
        terminated = np.empty(self.num_envs, dtype=bool)
        truncated = np.empty(self.num_envs, dtype=bool)
        infos: dict[str, Any] = {}
        for i, env in enumerate(self.envs):
            observation, reward, terminates, truncates, info = env.step(actions[i])
            rewards[i], terminated[i], truncated[i] = reward, terminates, truncates
            if terminates or truncates:
                final = {"final_obs": np.copy(observation), "final_info": info if self.infos else {}}
                infos = self._add_info(infos, final, i)
                observation, info = env.reset()
            observations[i] = observation
            if info and self.infos:
                infos = self._add_info(infos, info, i)
        return observations, rewards, terminated, truncated, infos


def make_env(
    env_id: str,
    num_envs: int = 1,
    seed: int | None = None,
    *,
    infos: bool = True,
    fast: bool = True,
    **settings: Any,
) -> VectorEnv:
    """Several copies of an environment, stepped together, reset and ready to be stepped.

    Each copy has its own random numbers, and runs with neighbouring seeds share none. Whatever an environment
    has, its actions become Discrete, MultiDiscrete or a Box, all with one axis and counted from 0, and its
    observations a Box with one axis, or Discrete (where actions are Discrete too).

    CartPole, Acrobot and Pendulum have a fast form that steps all copies at once (`ppobook.fast.classic`);
    other environments are stepped one by one (`SameStepVectorEnv`).

    Parameters
    ----------
    env_id : str
        The id of any environment registered with Gymnasium that has Discrete, MultiDiscrete, MultiBinary or
        Box actions; ``"module:Name-v0"`` imports the module first. `list_envs` lists them.
    num_envs : int
    seed : int, optional
    infos : bool
        Return in `step` what environments report in their info dicts, and not just final observations.
    fast : bool
        Use the fast form where there is one. Episodes are the same.
    **settings
        For the environment, as in ``gymnasium.make``: ``max_episode_steps=200``, or ``slip=0.2`` for ours.

    Raises
    ------
    ValueError
        An unknown id, one whose package is not installed, settings that the environment does not take,
        spaces of other kinds. Later, in `reset` and `step`: errors inside an environment, with its index and
        the step.
    """
    num_envs = validation.count("num_envs", num_envs, high=MOST_ENVS)
    if seed is not None:
        seed = validation.count("seed", seed, low=0)
    if not isinstance(env_id, str):
        raise TypeError(f"env must be the id of an environment, such as 'CartPole-v1', got {env_id!r}")

    first = _make(env_id, settings)

    def make(i: int) -> gym.Env:
        env = first if i == 0 else _make(env_id, settings)
        return CheckedEnv(flat(env, env_id), f"environment {i} of {num_envs} ({env_id})")

    envs: VectorEnv | None = choose.vector_envs(first, num_envs, fast)
    if envs is None:
        envs = SameStepVectorEnv([partial(make, i) for i in range(num_envs)], infos=infos)
    envs.reset(seed=env_seeds(seed, num_envs))  # type: ignore[arg-type]  # its annotation omits lists
    return envs


def env_seeds(seed: int | None, num_envs: int) -> list[int | None]:
    """A seed for each environment. With Gymnasium's seed + i, runs 0 and 1 would share all but one."""
    if seed is None:
        return [None] * num_envs
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(num_envs, np.uint32)]


def _make(env_id: str, settings: dict[str, Any]) -> gym.Env:
    try:
        with warnings.catch_warnings():
            # Gymnasium warns of every environment that has a newer version.
            warnings.simplefilter("ignore")
            return gym.make(env_id, disable_env_checker=True, **settings)
    except gym.error.UnregisteredEnv as error:
        hint = validation.did_you_mean(env_id, map(str, gym.registry))
        raise ValueError(
            f"env must be the id of a known environment (`ppobook envs` lists them), got {env_id!r}{hint}"
        ) from error
    except Exception as error:  # anything an environment's constructor raises
        missing = isinstance(error, ImportError | gym.error.DependencyNotInstalled)
        why = "needs a package that is not installed" if missing else "cannot be made"
        given = f" with {settings}" if settings else ""
        raise ValueError(f"env {env_id!r}{given} {why}: {validation.reason(error)}") from error
