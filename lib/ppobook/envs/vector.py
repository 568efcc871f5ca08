"""Vector environments: several seeded copies of any Gymnasium environment, stepped together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ppobook import validation
from ppobook.envs.making import EnvLike, EnvMaker, env_maker
from ppobook.envs.wrappers import check_fits, flat

# More would take minutes to make: a mistake in the argument.
MOST_ENVS = 10_000


class SameStepVectorEnv(SyncVectorEnv):
    """Environments stepped one by one; where a step ends an episode, the next one begins in the same step.

    It is Gymnasium's `SyncVectorEnv` with ``AutoresetMode.SAME_STEP``, where every step is that of an action
    and no step of a batch is a mere reset; an episode's last observation is in ``infos["final_obs"]``. Here
    that is a copy, since some environments overwrite the array that they returned, and a step costs less.

    Without `infos`, which take a tenth of MuJoCo's time, `step` returns the final observations only.
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
            check_fits(space, observation, env)
            rewards[i], terminated[i], truncated[i] = reward, terminates, truncates
            if terminates or truncates:
                final = {"final_obs": np.copy(observation), "final_info": info if self.infos else {}}
                infos = self._add_info(infos, final, i)
                observation, info = env.reset()
                check_fits(space, observation, env)
            observations[i] = observation
            if info and self.infos:
                infos = self._add_info(infos, info, i)
        return observations, rewards, terminated, truncated, infos


def make_env(
    env: EnvLike | EnvMaker,
    num_envs: int = 1,
    seed: int | None = None,
    *,
    infos: bool = True,
    reset: bool = True,
    **settings: Any,
) -> VectorEnv:
    """Several copies of an environment, stepped together, and reset with the seed.

    Each copy has its own random numbers, and runs with neighbouring seeds share none. Whatever an environment
    has, its actions become Discrete, MultiDiscrete or a Box, all with one axis and counted from 0, and its
    observations a Box with one axis, or Discrete (where actions are Discrete too).

    Parameters
    ----------
    env : str, gymnasium.Env or function
        With Discrete, MultiDiscrete, MultiBinary or Box actions:

        - the id of any environment registered with Gymnasium (`list_envs` lists them); without a version the
          newest one; ``"module:Name-v0"`` imports the module first;
        - an environment: it is used itself, or copies by `copy.deepcopy` where `num_envs` is above 1;
        - a function without arguments (or a class) that returns a new environment each time.
    num_envs : int
    seed : int, optional
    infos : bool
        Return in `step` what environments report in their info dicts, and not just final observations.
    reset : bool
        False: leave the first reset to the caller. What an environment draws there and keeps, a level say, is
        then decided by the seed that the caller passes.
    **settings
        With an id, for the environment, as in ``gymnasium.make``: ``max_episode_steps=200``, or ``slip=0.2``
        for ours.

    Raises
    ------
    ValueError, TypeError
        An unknown id, settings that the environment does not take, spaces of other kinds, an environment that
        can't be copied.
    """
    num_envs = validation.count("num_envs", num_envs, high=MOST_ENVS)
    if seed is not None:
        seed = validation.count("seed", seed, low=0)
    maker = env_maker(env, settings)
    makes = maker.make(num_envs)

    envs = SameStepVectorEnv([lambda: flat(next(makes), maker.name)] * num_envs, infos=infos)
    if reset:
        envs.reset(seed=env_seeds(seed, num_envs))  # type: ignore[arg-type]  # its annotation omits lists
    return envs


def env_seeds(seed: int | None, num_envs: int) -> list[int]:
    """A seed for each environment. With Gymnasium's seed + i, runs 0 and 1 would share all but one."""
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(num_envs, np.uint32)]
