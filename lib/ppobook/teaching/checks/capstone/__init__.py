"""Checks of the capstone: PPO from a blank file, in stages that are checked one by one.

The stages are those of four chapters, so a hint sends to the chapter that explained its part. What an answer
is called with are Gymnasium's environments that write down what happens in them, and networks so small that
the numbers can be followed.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from .. import Chapter

CLIPPED = Chapter(3, "The clipped surrogate", {"sec-eps-kl": "What ε says about the KL"})
GAE = Chapter(
    4,
    "Generalized advantage estimation (GAE)",
    {
        "sec-gae-ends": "Three ways to stop",
        "sec-gae-lambda": "GAE: the average of all n-step advantages",
        "sec-gae-td": "The TD error",
    },
)
WHOLE = Chapter(
    5,
    "The whole of PPO",
    {
        "sec-ppo-three-parts": "A loss in three parts",
        "sec-ppo-value-loss": "The value loss, and clipping it",
        "sec-ppo-entropy": "The entropy bonus",
        "sec-ppo-loop": "The loop",
        "sec-ppo-details": "One detail at a time",
    },
    also=(CLIPPED, GAE),
)
PRACTICE = Chapter(
    6,
    "PPO in practice",
    {
        "sec-practice-probes": "A ladder of probe environments",
        "sec-practice-reporting": "How to report",
        "sec-practice-gauges": "What each gauge says: a table for debugging",
    },
)


class Tape(gym.Env):
    """An environment that plays random episodes and writes down each step, reset and seed.

    Attributes
    ----------
    steps : list of (observation, action, reward, terminated, truncated, next observation)
    resets : list of int
        How many steps had been made at each reset.
    seeds : list
        What each reset was given.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, number: int = 0, size: int = 3, actions: int = 2, longest: int = 4) -> None:
        self.rng = np.random.default_rng(1000 + number)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Discrete(actions)
        self.size, self.actions, self.longest = size, actions, longest
        self.steps: list[tuple[np.ndarray, int, float, bool, bool, np.ndarray]] = []
        self.resets: list[int] = []
        self.seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.resets.append(len(self.steps))
        self.seeds.append(seed)
        self.left = int(self.rng.integers(1, self.longest + 1))
        self.now = self._look()
        return self.now.copy(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Take a step."""
        self.left -= 1
        before, self.now, reward = self.now, self._look(), float(self.rng.normal())
        kind = int(self.rng.integers(3)) if self.left == 0 else -1
        terminated, truncated = kind in (0, 2), kind in (1, 2)
        self.steps.append((before, int(action), reward, terminated, truncated, self.now))
        return self.now.copy(), reward, terminated, truncated, {}

    def _look(self) -> np.ndarray:
        return self.rng.normal(size=self.observation_space.shape).astype(np.float32)

    @property
    def returns(self) -> list[float]:
        """The undiscounted returns of the episodes that were played to their end, in their order."""
        totals, total = [], 0.0
        for _, _, reward, terminated, truncated, _ in self.steps:
            total += reward
            if terminated or truncated:
                totals.append(total)
                total = 0.0
        return totals


class Deck:
    """Tapes that are played from where the reader's function runs, and stay here: what they say is true."""

    __lends__ = ("make", "reset", "step")

    MOST = 1000  # environments that a check lets be made

    def __init__(self) -> None:
        self._made: list[Tape] = []

    def make(self) -> tuple[int, int, int]:
        """A new tape: its number, the size of an observation, and how many actions there are."""
        if len(self._made) == self.MOST:
            raise ValueError(f"there can be {self.MOST} environments, and one more is made")
        self._made.append(Tape(len(self._made)))
        tape = self._made[-1]
        return len(self._made) - 1, tape.size, tape.actions

    def reset(self, number: int, seed: int | None) -> np.ndarray:
        """Begin an episode; the first observation."""
        return self._made[number].reset(seed=seed)[0]

    def step(self, number: int, action: int) -> tuple[np.ndarray, float, bool, bool]:
        """Take a step."""
        return self._made[number].step(action)[:4]

    @property
    def tapes(self) -> list[Tape]:
        """Count the episodes that were played."""
        return [tape for tape in self._made if tape.resets]
