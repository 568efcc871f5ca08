"""TODO."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ppobook import validation
from ppobook.fast.classic import classic_vector

if TYPE_CHECKING:
    pass

# More copies of an environment than this would take minutes to make, and nobody means it.
MOST_ENVS = 10_000


class SameStepVectorEnv(SyncVectorEnv):
    """Environments stepped one after the other, each starting its next episode in the step that ends one.

    So every step is an action's: no step of a batch is a mere reset. The observation that an episode ended on
    is in ``infos["final_obs"]``, as in Gymnasium's own `SyncVectorEnv`. Two differences: that observation is
    a copy, so an environment that reuses its array cannot overwrite it with the next episode's first one;
    and, with arrays of one shape to fill, a step costs less.
    """

    def __init__(self, makers: Sequence[Callable[[], gym.Env]]) -> None:
        super().__init__(makers, autoreset_mode=AutoresetMode.SAME_STEP)

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step in each environment: observations, rewards, terminated, truncated, infos."""
        return self._step(actions, everything=True)

    def step_bare(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """A step whose infos hold final observations only, for a collector, which reads no more.

        MuJoCo's environments tell half a dozen numbers in each step, and to merge those of all environments
        takes an eighth of the time.
        """
        return self._step(actions, everything=False)

    def _step(
        self, actions: Any, everything: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        space = self.single_observation_space
        observations = np.empty((self.num_envs, *(space.shape or ())), dtype=space.dtype)
        rewards = np.empty(self.num_envs)
        terminated = np.empty(self.num_envs, dtype=bool)
        truncated = np.empty(self.num_envs, dtype=bool)
        infos: dict[str, Any] = {}
        for i, env in enumerate(self.envs):
            observation, reward, over, cut, info = env.step(actions[i])
            rewards[i], terminated[i], truncated[i] = reward, over, cut
            if over or cut:
                final = {"final_obs": np.copy(observation), "final_info": info if everything else {}}
                infos = self._add_info(infos, final, i)
                observation, info = env.reset()
            observations[i] = observation
            if info and everything:
                infos = self._add_info(infos, info, i)
        return observations, rewards, terminated, truncated, infos


def make_env(env_id: str, num_envs: int = 1, seed: int | None = None, **settings: Any) -> VectorEnv:
    """Several copies of an environment, stepped together, reset and ready to be stepped.

    Each copy has random numbers of its own, drawn from the seed, and runs with neighbouring seeds share none.
    Actions are a whole number from 0 on, several such numbers at once, or a flat box; observations are a
    whole number from 0 on (with actions of the first kind only) or a flat box of numbers. Whatever an
    environment has beyond that, a tuple of observations, an image, a count from 1, is flattened or renumbered
    here.

    CartPole, Acrobot and Pendulum are stepped all at once (`ppobook.envs.classic`), everything else one after
    the other (`SameStepVectorEnv`).

    Parameters
    ----------
    env_id : str
        The id of any environment registered with Gymnasium that has discrete, multi-discrete, multi-binary or
        box actions; ``"module:Name-v0"`` imports the module first. `list_envs` shows what there is.
    num_envs : int
    seed : int, optional
    **settings
        For the environment, as in ``gymnasium.make``: ``max_episode_steps=200``, or ``slip=0.2`` for ours.

    Raises
    ------
    ValueError
        An id nobody knows (with the closest ones named), one whose package is not installed, settings it
        refuses, actions that are neither discrete nor a box. Also later, from `reset` and `step`: whatever
        goes wrong inside an environment, naming it and the step.
    """
    num_envs = validation.count("num_envs", num_envs, high=MOST_ENVS)
    if seed is not None:
        seed = validation.count("seed", seed, low=0)
    if not isinstance(env_id, str):
        raise TypeError(f"env is {env_id!r}; the id of an environment is wanted, such as 'CartPole-v1'")

    envs: VectorEnv | None = None
    if settings.keys() <= {"max_episode_steps"}:
        envs = classic_vector(_made(env_id, settings), num_envs)
    if envs is not None:
        envs.reset(seed=env_seeds(seed, num_envs))  # type: ignore[arg-type]  # its annotation omits lists
        return envs

    def make(i: int) -> gym.Env:
        return _Watched(_plain(_made(env_id, settings), env_id), f"environment {i} of {num_envs} ({env_id})")

    envs = SameStepVectorEnv([partial(make, i) for i in range(num_envs)])
    envs.reset(seed=env_seeds(seed, num_envs))
    return envs


def env_seeds(seed: int | None, num_envs: int) -> list[int | None]:
    """A seed for each environment. Gymnasium's own, seed + i, gives runs 0 and 1 all but one in common."""
    if seed is None:
        return [None] * num_envs
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(num_envs, np.uint32)]


class _Watched(gym.Wrapper):
    """Says which environment it was, and in which step, when one fails or gives what it should not."""

    def __init__(self, env: gym.Env, name: str) -> None:
        super().__init__(env)
        self._name = name
        self._shape = env.observation_space.shape
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        self._steps = 0
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except Exception as error:  # an environment is a stranger's code
            raise self._fault(f"raised {validation.reason(error)}") from error
        self._look(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        self._steps += 1
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            raise self._fault(f"raised {validation.reason(error)}") from error
        if not isinstance(reward, float | int):
            number = np.asarray(reward)
            if number.ndim or number.dtype.kind not in "fiub":
                raise self._fault(f"gave the reward {reward!r}", "one number is wanted")
        self._look(observation)
        return observation, reward, terminated, truncated, info

    def _look(self, observation: Any) -> None:
        # A whole number and most arrays are seen to fit without NumPy, which takes its time over a number.
        if observation is not None and getattr(observation, "shape", ()) == self._shape:
            return
        if observation is None or np.shape(observation) != self._shape:
            what = "None" if observation is None else f"an observation of shape {np.shape(observation)}"
            raise self._fault(f"gave {what}", f"an observation of shape {self._shape} is wanted")

    def _fault(self, what: str, wanted: str = "") -> ValueError:
        when = f"in step {self._steps} of an episode" if self._steps else "on a reset"
        return ValueError(f"{self._name} {what} {when}" + (f"; {wanted}" if wanted else ""))


class _FlatObservation(gym.ObservationWrapper):
    """Any observation as one flat box; a discrete one becomes a one-hot vector."""

    # Gymnasium's own wrapper of this kind holds a lambda, and so could not be saved in a checkpoint.
    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = spaces.flatten_space(env.observation_space)

    def observation(self, observation: Any) -> Any:
        return spaces.flatten(self.env.observation_space, observation)


class _PlainAction(gym.ActionWrapper):
    """Discrete actions counted from 0; boxes, and several discrete actions at once, with one axis."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        space = env.action_space
        self._start: Any = 0
        if isinstance(space, spaces.Discrete):
            self.action_space, self._start = spaces.Discrete(space.n), space.start
        elif isinstance(space, spaces.MultiDiscrete):
            self.action_space, self._start = spaces.MultiDiscrete(space.nvec.ravel()), space.start
        elif isinstance(space, spaces.MultiBinary):
            self.action_space = spaces.MultiDiscrete([2] * int(np.prod(space.shape)))
        else:
            self.action_space = spaces.flatten_space(space)

    def action(self, action: Any) -> Any:
        space = self.env.action_space
        if isinstance(space, spaces.Discrete):
            return action + self._start
        # In the space's own type, for environments that look.
        return (action.reshape(space.shape) + self._start).astype(space.dtype, copy=False)


def _made(env_id: str, settings: dict[str, Any]) -> gym.Env:
    try:
        with warnings.catch_warnings():
            # Gymnasium warns of every environment that has a newer version; who names one wants that one.
            warnings.simplefilter("ignore")
            return gym.make(env_id, disable_env_checker=True, **settings)
    except gym.error.UnregisteredEnv as error:
        raise ValueError(f"env is {env_id!r}; {_nearest_id(env_id)}") from error
    except Exception as error:  # whatever its maker raises, it was asked for by this id
        missing = isinstance(error, ImportError | gym.error.DependencyNotInstalled)
        why = "needs what is not installed" if missing else "cannot be made"
        given = f" with {settings}" if settings else ""
        raise ValueError(f"env is {env_id!r}{given}, which {why}: {validation.reason(error)}") from error


def _plain(env: gym.Env, env_id: str) -> gym.Env:
    """The environment with the few kinds of spaces that the policies know."""
    actions, observations = env.action_space, env.observation_space
    if not isinstance(actions, spaces.Discrete | spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        raise ValueError(
            f"env is {env_id!r}, whose actions are {actions}; discrete or box actions are wanted"
        )
    if isinstance(actions, spaces.Box) and not np.issubdtype(actions.dtype, np.floating):
        raise ValueError(f"env is {env_id!r}, whose actions are {actions}; a box of real numbers is wanted")
    if not observations.is_np_flattenable:
        raise ValueError(
            f"env is {env_id!r}, whose observations are {observations}; some of a fixed size are wanted"
        )
    for what, space in (("actions", actions), ("observations", observations)):
        if spaces.flatdim(space) == 0:
            raise ValueError(
                f"env is {env_id!r}, whose {what} are {space}, which is empty; at least a number is wanted"
            )
    plain = isinstance(actions, spaces.Discrete) or len(actions.shape) == 1
    if isinstance(actions, spaces.Discrete | spaces.MultiDiscrete):
        plain = plain and not np.any(actions.start)
    if isinstance(actions, spaces.MultiBinary) or not plain:
        env = _PlainAction(env)
    states = isinstance(observations, spaces.Discrete) and observations.start == 0
    flat = isinstance(observations, spaces.Box) and len(observations.shape) == 1
    if not flat and not (states and isinstance(actions, spaces.Discrete)):
        env = _FlatObservation(env)
    return env


def _nearest_id(env_id: str) -> str:
    known = [str(known_id) for known_id in gym.registry]
    hint = validation.did_you_mean(env_id, known).removeprefix(". ")
    return f"{hint} the id of a known environment is wanted (`ppobook envs` lists them)".strip()
