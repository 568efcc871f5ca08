"""CartPole, Acrobot and Pendulum as vector environments that step all copies at once, in NumPy.

They are Gymnasium's environments, with the same dynamics, seeds and episodes. Stepping those one by one costs
several times what policy and bookkeeping cost in a rollout.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ppobook.envs import env_maker, env_seeds


class ClassicVectorEnv(VectorEnv):
    """Seeds, time limit and autoreset (``AutoresetMode.SAME_STEP``, as in `SyncVectorEnv`).

    Each environment has its own random numbers, those of Gymnasium's environment with that seed. A single
    `env` is passed for its spaces and its spec.
    """

    _size: ClassVar[int]  # length of the state vector of one environment

    def __init__(self, env: gym.Env, num_envs: int, max_episode_steps: int | None) -> None:
        self.num_envs = num_envs
        self.spec = env.spec
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self.observation_space = batch_space(env.observation_space, num_envs)
        self.action_space = batch_space(env.action_space, num_envs)
        self._limit = np.iinfo(np.int64).max if max_episode_steps is None else max_episode_steps
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        # One row for each component of the state, so that arithmetic is on whole rows.
        self._state = np.zeros((self._size, num_envs))
        self._clock = 0
        self._episode_start = np.zeros(num_envs, dtype=np.int64)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin new episodes; with a seed (seed + i for environment i) or a list of seeds, reseed."""
        if seed is None:
            seed = [None] * self.num_envs
        elif not isinstance(seed, Sequence):
            seed = [int(seed) + i for i in range(self.num_envs)]
        for i, one in enumerate(seed):
            if one is not None or self._rngs[i] is None:
                self._rngs[i] = seeding.np_random(one)[0]
        self._clock = 0
        for i in range(self.num_envs):
            self._begin_episode(i)
        return self._observe(self._state), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step in each environment: observations, rewards, terminated, truncated, infos."""
        rewards, terminated = self._advance(np.asarray(actions))
        self._clock += 1
        observations = self._observe(self._state)
        truncated = self._clock - self._episode_start >= self._limit
        over = terminated | truncated
        if not np.count_nonzero(over):
            return observations, rewards, terminated, truncated, {}

        final = np.empty(self.num_envs, dtype=object)
        for i in over.nonzero()[0].tolist():
            final[i] = observations[i]
            self._begin_episode(i)
        infos = {"final_obs": final, "_final_obs": over, "final_info": {}, "_final_info": over.copy()}
        return self._observe(self._state), rewards, terminated, truncated, infos

    def state_dict(self) -> dict[str, Any]:
        """The state of all environments, random number generators included."""
        return {
            "rngs": [rng and rng.bit_generator.state for rng in self._rngs],
            "state": self._state.copy(),
            "clock": self._clock,
            "begun": self._episode_start.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for i, one in enumerate(state["rngs"]):
            self._rngs[i] = None
            if one is not None:
                rng = seeding.np_random(0)[0]
                rng.bit_generator.state = one
                self._rngs[i] = rng
        self._state[:] = state["state"]
        self._clock, self._episode_start = state["clock"], state["begun"].copy()

    def _begin_episode(self, i: int) -> None:
        """Begin a new episode in one environment."""
        rng = self._rngs[i]
        assert rng is not None, "call reset before step"
        self._state[:, i] = self._initial_state(rng)
        self._episode_start[i] = self._clock

    @staticmethod
    @abstractmethod
    def _initial_state(rng: np.random.Generator) -> np.ndarray:
        """An initial state, [size]."""

    @staticmethod
    @abstractmethod
    def _observe(state: np.ndarray) -> np.ndarray:
        """The observations of states [size, n]: a new float32 array [n, obs]."""

    @abstractmethod
    def _advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Advance the state by one step; return rewards and terminated, [N]."""


class CartPole(ClassicVectorEnv):
    """Push a cart left or right so that the pole on it stays up; reward 1 in each step.

    With force F, cart 1 kg, pole m = 0.1 kg with its centre ℓ = 0.5 m up, M = 1.1 kg in all and no friction:

        P = (F + m ℓ θ̇² sin θ) / M
        θ̈ = (g sin θ − P cos θ) / (ℓ (4/3 − m cos² θ / M))
        ẍ = P − m ℓ θ̈ cos θ / M

    by Euler steps of 0.02 s. It terminates 2.4 m from the middle or 12° from the vertical.

    References
    ----------
    Barto, Sutton and Anderson 1983, "Neuronlike adaptive elements that can solve difficult learning control
    problems"; Florian 2007, "Correct equations for the dynamics of the cart-pole system", equations 23, 24.
    """

    _size = 4  # x, ẋ, θ, θ̇
    _forces = np.array([-10.0, 10.0])
    _bounds = np.array([[2.4], [12 * 2 * np.pi / 360]])

    @staticmethod
    def _initial_state(rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-0.05, 0.05, size=4)

    @staticmethod
    def _observe(state: np.ndarray) -> np.ndarray:
        return state.T.astype(np.float32)

    def _advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mass, pole, half_length, gravity, tau = 1.1, 0.1, 0.5, 9.8, 0.02
        positions, speeds = self._state[0::2], self._state[1::2]
        theta, spin = self._state[2], self._state[3]
        sin, cos = np.sin(theta), np.cos(theta)
        push = (self._forces[actions] + pole * half_length * (spin * spin) * sin) / mass
        turn = (gravity * sin - cos * push) / (half_length * (4 / 3 - pole * (cos * cos) / mass))
        positions += tau * speeds
        speeds[0] += tau * (push - pole * half_length * turn * cos / mass)
        spin += tau * turn
        outside = np.abs(positions) > self._bounds
        return np.ones(self.num_envs), outside[0] | outside[1]


class Acrobot(ClassicVectorEnv):
    """Swing the tip of two links above a line by torque at the joint between them; reward −1 in each step.

    Both links have length and mass 1, their centre in the middle and moment of inertia 1. The equations of
    motion are integrated by one Runge-Kutta step of 0.2 s.

    References
    ----------
    Sutton 1996, "Generalization in reinforcement learning: successful examples using sparse coarse coding";
    Sutton and Barto 2018, "Reinforcement learning: an introduction", section 11.3 of the first edition.
    """

    _size = 4  # θ1, θ2, and their speeds
    _torques = np.array([-1.0, 0.0, 1.0])
    _fastest = np.array([[4 * np.pi], [9 * np.pi]])

    @staticmethod
    def _initial_state(rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-0.1, 0.1, size=4).astype(np.float32)

    @staticmethod
    def _observe(state: np.ndarray) -> np.ndarray:
        seen = np.empty((state.shape[1], 6), dtype=np.float32)
        seen[:, 0:3:2], seen[:, 1:4:2] = np.cos(state[:2]).T, np.sin(state[:2]).T
        seen[:, 4:] = state[2:].T
        return seen

    def _advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        torque, state, dt = self._torques[actions], self._state, 0.2
        k1 = self._slope(state, torque)
        k2 = self._slope(state + dt / 2 * k1, torque)
        k3 = self._slope(state + dt / 2 * k2, torque)
        k4 = self._slope(state + dt * k3, torque)
        state += dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        angles, speeds = state[:2], state[2:]
        while np.count_nonzero(np.abs(angles) > np.pi):
            angles -= 2 * np.pi * ((angles > np.pi) * 1.0 - (angles < -np.pi))
        np.minimum(np.maximum(speeds, -self._fastest, out=speeds), self._fastest, out=speeds)
        terminated = -np.cos(angles[0]) - np.cos(angles[1] + angles[0]) > 1
        return terminated - 1.0, terminated

    @staticmethod
    def _slope(state: np.ndarray, torque: np.ndarray) -> np.ndarray:
        """The derivative of the state by time."""
        theta1, theta2, spin1, spin2 = state
        sin2, cos2 = np.sin(theta2), np.cos(theta2)
        d1 = 0.25 + (1.25 + cos2) + 1 + 1
        d2 = 0.25 + 0.5 * cos2 + 1
        phi2 = 0.5 * 9.8 * np.cos(theta1 + theta2 - np.pi / 2)
        phi1 = (
            -0.5 * (spin2 * spin2) * sin2
            - spin2 * spin1 * sin2
            + 1.5 * 9.8 * np.cos(theta1 - np.pi / 2)
            + phi2
        )
        turn2 = (torque + d2 / d1 * phi1 - 0.5 * (spin1 * spin1) * sin2 - phi2) / (1.25 - d2 * d2 / d1)
        slope = np.empty_like(state)
        slope[0], slope[1], slope[2], slope[3] = spin1, spin2, -(d2 * turn2 + phi1) / d1, turn2
        return slope


class Pendulum(ClassicVectorEnv):
    """Swing up a pendulum and keep it there, by a torque of up to 2.

    With θ from the upright, in (−π, π] for the reward, and torque u:

        θ̈ = 3 g / (2 ℓ) sin θ + 3 / (m ℓ²) u            g = 10, m = ℓ = 1
        reward = −(θ² + 0.1 θ̇² + 0.001 u²)               in the state before the step

    by semi-implicit Euler steps of 0.05 s, the speed clipped to ±8. It never terminates.
    """

    _size = 2  # θ, θ̇

    @staticmethod
    def _initial_state(rng: np.random.Generator) -> np.ndarray:
        high = np.array([np.pi, 1.0])
        return rng.uniform(-high, high)

    @staticmethod
    def _observe(state: np.ndarray) -> np.ndarray:
        seen = np.empty((state.shape[1], 3), dtype=np.float32)
        seen[:, 0], seen[:, 1], seen[:, 2] = np.cos(state[0]), np.sin(state[0]), state[1]
        return seen

    def _advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        theta, spin = self._state
        torque = np.minimum(np.maximum(actions[:, 0], -2.0), 2.0)
        off = (theta + np.pi) % (2 * np.pi) - np.pi
        rewards = -(off * off + 0.1 * (spin * spin) + 0.001 * (torque * torque))
        spin += (15.0 * np.sin(theta) + 3.0 * torque) * 0.05
        np.minimum(np.maximum(spin, -8, out=spin), 8, out=spin)
        theta += spin * 0.05
        return rewards, np.zeros(self.num_envs, dtype=bool)


# By the entry point in the spec of the single environment, with which it was registered.
FORMS: dict[str, type[ClassicVectorEnv]] = {
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv": CartPole,
    "gymnasium.envs.classic_control.acrobot:AcrobotEnv": Acrobot,
    "gymnasium.envs.classic_control.pendulum:PendulumEnv": Pendulum,
}


def classic_envs(env: Any, num_envs: int = 1, seed: int | None = None, **settings: Any) -> Any:
    """Make vector environments as `ppobook.envs.make_env` does; None where they have no form here."""
    maker = env_maker(env, settings)
    if maker.own is not None:
        return None
    single = next(maker.make(1))
    spec = single.spec
    if spec is None or spec.kwargs or spec.additional_wrappers or spec.entry_point not in FORMS:
        return None
    envs = FORMS[spec.entry_point](single, num_envs, spec.max_episode_steps)
    envs.reset(seed=env_seeds(seed, num_envs))
    return envs
