"""CartPole, Acrobot and Pendulum as vectors of environments in NumPy.

The worlds are Gymnasium's, with its numbers; what differs is that all environments of a vector take a step in
one go. To step one after the other costs several times what the policy and the bookkeeping of a rollout
cost, and would decide how fast these small worlds are learned. A test holds each to Gymnasium's own, step by
step and, from the same seeds, episode by episode.

`ppobook.envs.make_env` uses these forms for the environments that have one, unless it is given settings that
they do not know.
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


class ClassicVectorEnv(VectorEnv):
    """What the three have in common: seeds, time limit, and the next episode in the step that ends one.

    Each environment has random numbers of its own, as Gymnasium's environment with that seed has them. The
    observation that an episode ended on is in ``infos["final_obs"]``, as in `SyncVectorEnv`.

    Parameters
    ----------
    env : gymnasium environment
        The single one, for its spaces and its spec.
    num_envs : int
    max_episode_steps : int, optional
        After so many steps an episode is truncated. Left out: never.
    """

    _size: ClassVar[int]  # numbers that describe the state of one environment

    def __init__(self, env: gym.Env, num_envs: int, max_episode_steps: int | None) -> None:
        self.num_envs = num_envs
        self.spec = env.spec
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self.observation_space = batch_space(env.observation_space, num_envs)
        self.action_space = batch_space(env.action_space, num_envs)
        self._limit = max_episode_steps
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        # One row for each number of the state, so that a step's arithmetic is on whole rows.
        self._state = np.zeros((self._size, num_envs))
        self._clock = 0
        self._begun = np.zeros(num_envs, dtype=np.int64)
        self._next_look = max_episode_steps

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a new episode everywhere; with a seed (for environment i: seed + i) or seeds, seeded anew.

        Raises
        ------
        ValueError
            Another number of seeds than of environments; options, of which there are none.
        """
        if options:
            raise ValueError(f"options is {options!r}; these environments have none")
        if seed is None:
            seed = [None] * self.num_envs
        elif not isinstance(seed, Sequence):
            seed = [int(seed) + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"seed has {len(seed)} entries; {self.num_envs} are wanted, one an environment")
        for i, one in enumerate(seed):
            if one is not None or self._rngs[i] is None:
                self._rngs[i] = seeding.np_random(one)[0]
        self._clock = 0
        self._next_look = self._limit
        for i in range(self.num_envs):
            self._begin(i)
        return self._show(self._state), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step in each environment: observations, rewards, terminated, truncated, infos."""
        rewards, terminated = self._advance(np.asarray(actions))
        self._clock += 1
        observations = self._show(self._state)
        truncated = np.zeros(self.num_envs, dtype=bool)
        if self._clock == self._next_look:
            truncated = self._too_long()
        over = terminated | truncated
        if not np.count_nonzero(over):
            return observations, rewards, terminated, truncated, {}

        final = np.empty(self.num_envs, dtype=object)
        for i in over.nonzero()[0].tolist():
            final[i] = observations[i]
            self._begin(i)
        infos = {"final_obs": final, "_final_obs": over, "final_info": {}, "_final_info": over.copy()}
        return self._show(self._state), rewards, terminated, truncated, infos

    def state_dict(self) -> dict[str, Any]:
        """Where all environments stand, random numbers included."""
        return {
            "rngs": [rng and rng.bit_generator.state for rng in self._rngs],
            "state": self._state.copy(),
            "clock": self._clock,
            "begun": self._begun.copy(),
            "next_look": self._next_look,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to what `state_dict` returned."""
        if len(state["rngs"]) != self.num_envs:
            raise ValueError(
                f"state has {len(state['rngs'])} environments; {self.num_envs} are wanted, as in envs"
            )
        for i, one in enumerate(state["rngs"]):
            self._rngs[i] = None
            if one is not None:
                rng = seeding.np_random(0)[0]
                rng.bit_generator.state = one
                self._rngs[i] = rng
        self._state[:] = state["state"]
        self._clock, self._begun = state["clock"], state["begun"].copy()
        self._next_look = state["next_look"]

    def _begin(self, i: int) -> None:
        """A new episode in one environment."""
        rng = self._rngs[i]
        assert rng is not None, "reset comes before step"
        self._state[:, i] = self._start(rng)
        self._begun[i] = self._clock

    def _too_long(self) -> np.ndarray:
        """Which episodes have reached the limit, [N]; and the step at which the next one may have.

        Until then nothing needs to look: episodes that begin later than the oldest end later.
        """
        assert self._limit is not None
        truncated = self._begun + self._limit <= self._clock
        going_on = np.where(truncated, self._clock, self._begun)
        self._next_look = int(going_on.min()) + self._limit
        return truncated

    @staticmethod
    @abstractmethod
    def _start(rng: np.random.Generator) -> np.ndarray:
        """The state in which an episode begins, [size]."""

    @staticmethod
    @abstractmethod
    def _show(state: np.ndarray) -> np.ndarray:
        """What states [size, n] look like, float32 [n, obs]: a new array."""

    @abstractmethod
    def _advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Move the state on by one step; rewards and terminated, [N]."""


class CartPole(ClassicVectorEnv):
    """Push a cart left or right so that the pole on it stays up: a reward of 1 for each step.

    With force F, cart 1 kg, pole m = 0.1 kg with its centre ℓ = 0.5 m up, M = 1.1 kg in all and no friction:

        P = (F + m ℓ θ̇² sin θ) / M
        θ̈ = (g sin θ − P cos θ) / (ℓ (4/3 − m cos² θ / M))
        ẍ = P − m ℓ θ̈ cos θ / M

    by Euler steps of 0.02 s. It terminates 2.4 m off the middle or 12° off the vertical.

    References
    ----------
    Barto, Sutton and Anderson 1983, "Neuronlike adaptive elements that can solve difficult learning control
    problems"; Florian 2007, "Correct equations for the dynamics of the cart-pole system", equations 23, 24.
    """

    _size = 4  # x, ẋ, θ, θ̇
    _forces = np.array([-10.0, 10.0])
    _bounds = np.array([[2.4], [12 * 2 * np.pi / 360]])

    @staticmethod
    def _start(rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-0.05, 0.05, size=4)

    @staticmethod
    def _show(state: np.ndarray) -> np.ndarray:
        return state.T.astype(np.float32)

    def _advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mass, pole, half_length, gravity, tau = 1.1, 0.1, 0.5, 9.8, 0.02
        positions, speeds = self._state[0::2], self._state[1::2]
        theta, spin = self._state[2], self._state[3]
        sin, cos = np.sin(theta), np.cos(theta)
        push = (_chosen(self._forces, actions) + pole * half_length * (spin * spin) * sin) / mass
        turn = (gravity * sin - cos * push) / (half_length * (4 / 3 - pole * (cos * cos) / mass))
        positions += tau * speeds
        speeds[0] += tau * (push - pole * half_length * turn * cos / mass)
        spin += tau * turn
        outside = np.abs(positions) > self._bounds
        return np.ones(self.num_envs), outside[0] | outside[1]


class Acrobot(ClassicVectorEnv):
    """Swing the tip of two hanging links above a line, by torque at the joint between: −1 for each step.

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
    def _start(rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-0.1, 0.1, size=4).astype(np.float32)

    @staticmethod
    def _show(state: np.ndarray) -> np.ndarray:
        seen = np.empty((state.shape[1], 6), dtype=np.float32)
        seen[:, 0:3:2], seen[:, 1:4:2] = np.cos(state[:2]).T, np.sin(state[:2]).T
        seen[:, 4:] = state[2:].T
        return seen

    def _advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        torque, state, dt = _chosen(self._torques, actions), self._state, 0.2
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
        """The state's derivative by time."""
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
    """Swing up a pendulum and keep it there, by a torque of up to 2: it costs to be off, to move, to push.

    With θ from the upright, in (−π, π] for the reward, and torque u:

        θ̈ = 3 g / (2 ℓ) sin θ + 3 / (m ℓ²) u            g = 10, m = ℓ = 1
        reward = −(θ² + 0.1 θ̇² + 0.001 u²)               of the state that the torque was chosen in

    by semi-implicit Euler steps of 0.05 s, the speed kept within ±8. It never terminates.
    """

    _size = 2  # θ, θ̇

    @staticmethod
    def _start(rng: np.random.Generator) -> np.ndarray:
        high = np.array([np.pi, 1.0])
        return rng.uniform(-high, high)

    @staticmethod
    def _show(state: np.ndarray) -> np.ndarray:
        seen = np.empty((state.shape[1], 3), dtype=np.float32)
        seen[:, 0], seen[:, 1], seen[:, 2] = np.cos(state[0]), np.sin(state[0]), state[1]
        return seen

    def _advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if actions.shape != (self.num_envs, 1):
            raise ValueError(
                f"actions has shape {actions.shape}; {(self.num_envs, 1)} is wanted, a torque each"
            )
        theta, spin = self._state
        torque = np.minimum(np.maximum(actions[:, 0], -2.0), 2.0)
        off = (theta + np.pi) % (2 * np.pi) - np.pi
        rewards = -(off * off + 0.1 * (spin * spin) + 0.001 * (torque * torque))
        spin += (15.0 * np.sin(theta) + 3.0 * torque) * 0.05
        np.minimum(np.maximum(spin, -8, out=spin), 8, out=spin)
        theta += spin * 0.05
        return rewards, np.zeros(self.num_envs, dtype=bool)


# By the class of the single environment: an id may have been registered anew, for another one.
_FORMS: dict[str, type[ClassicVectorEnv]] = {
    "gymnasium.envs.classic_control.cartpole.CartPoleEnv": CartPole,
    "gymnasium.envs.classic_control.acrobot.AcrobotEnv": Acrobot,
    "gymnasium.envs.classic_control.pendulum.PendulumEnv": Pendulum,
}


def classic_vector(env: gym.Env, num_envs: int) -> ClassicVectorEnv | None:
    """The vector form of this environment, if there is one that does just what it does."""
    limit, bare = None, env
    while isinstance(bare, gym.Wrapper):
        if type(bare) is gym.wrappers.TimeLimit and limit is None:
            limit = bare._max_episode_steps
        elif type(bare) is not gym.wrappers.OrderEnforcing:
            return None
        bare = bare.env
    form = _FORMS.get(f"{type(bare).__module__}.{type(bare).__qualname__}")
    return None if form is None else form(env, num_envs, limit)


def _chosen(table: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The entries of a table that the actions stand for."""
    try:
        return actions.choose(table)  # which, other than an index, refuses -1
    except (ValueError, TypeError):
        raise ValueError(
            f"actions is {actions}; whole numbers from 0 to {len(table) - 1} are wanted, one an environment"
        ) from None
