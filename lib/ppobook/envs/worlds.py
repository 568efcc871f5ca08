"""Two small worlds, a chain and a gridworld, as instances of `TabularMDP` and as Gymnasium environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ppobook.envs.tabular import TabularMDP, cumulative


def chain(
    length: int = 5,
    *,
    left_reward: float = 0.1,
    right_reward: float = 1.0,
    step_reward: float = 0.0,
    slip: float = 0.1,
    start: int | None = None,
    gamma: float = 0.95,
) -> TabularMDP:
    """A corridor with an exit at either end; the near prize is small and the far one large.

        exit 0 ← 1 − 2 − … − length → exit length + 1

    States 1 … length are walked through; 0 and length + 1 are terminal. Action 0 goes left, action 1 right.
    Any policy that gives both actions some probability ends with probability one; with slip > 0, any policy.

    Parameters
    ----------
    length : int
        How many states lie between the exits.
    left_reward, right_reward : float
        What leaving by an exit pays.
    step_reward : float
        What every step pays, the last one too.
    slip : float in [0, 1]
        The probability that a step goes the other way.
    start : int, optional
        The first state; the middle one (of two, the left) if left out.
    gamma : float in [0, 1]

    With slip = 0, step_reward = 0 and gamma = 1, it is the random walk of Sutton and Barto 2018, example 6.2.
    """
    first = (length + 1) // 2 if start is None else start
    n_states = length + 2
    transitions = np.zeros((n_states, 2, n_states))
    inside = np.arange(1, length + 1)
    for action, direction in enumerate((-1, 1)):
        transitions[inside, action, inside + direction] += 1 - slip
        transitions[inside, action, inside - direction] += slip
    rewards = np.full(transitions.shape, step_reward)
    rewards[:, :, 0] += left_reward
    rewards[:, :, -1] += right_reward
    terminal = np.zeros(n_states, dtype=bool)
    terminal[[0, -1]] = True
    return TabularMDP(
        transitions,
        rewards,
        gamma,
        np.eye(n_states)[first],
        terminal,
        action_names=("left", "right"),
        positions=[(0, column) for column in range(n_states)],
    )


def gridworld(
    layout: Sequence[str] = ("S...", "..P.", "....", "P..G"),
    *,
    goal_reward: float = 1.0,
    pit_reward: float = -1.0,
    step_reward: float = -0.02,
    slip: float = 0.1,
    gamma: float = 0.95,
) -> TabularMDP:
    """A small grid with a goal to reach and pits to keep out of.

    A layout is one string a row: ``S`` where an episode starts (evenly among several), ``G`` a goal, ``P``
    a pit, ``#`` a wall, ``.`` floor. Goals and pits are terminal. Actions 0 to 3 go up, right, down and left;
    one that would leave the grid or enter a wall stays where it is. States count the cells that are no walls,
    row by row; `positions` has their row and column.

    Parameters
    ----------
    layout : sequence of str
    goal_reward, pit_reward : float
        What entering a goal or a pit pays.
    step_reward : float
        What every step pays, the last one too.
    slip : float in [0, 1]
        The probability of going at a right angle to where one meant to go, half of it to each side.
    gamma : float in [0, 1]
    """
    rows = list(layout)
    if not set("SG") <= set("".join(rows)) <= set("SGP#."):
        raise ValueError(f"layout must consist of S, G, P, # and ., with an S and a G, got {layout!r}")
    cells = [(i, j) for i, row in enumerate(rows) for j, kind in enumerate(row) if kind != "#"]
    number = {cell: state for state, cell in enumerate(cells)}
    kinds = np.array([rows[i][j] for i, j in cells])
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    transitions = np.zeros((len(cells), 4, len(cells)))
    for (i, j), state in number.items():
        neighbours = [number.get((i + di, j + dj), state) for di, dj in moves]
        for action in range(4):
            transitions[state, action, neighbours[action]] += 1 - slip
            transitions[state, action, neighbours[action - 1]] += slip / 2
            transitions[state, action, neighbours[(action + 1) % 4]] += slip / 2
    on_entering = step_reward + goal_reward * (kinds == "G") + pit_reward * (kinds == "P")
    return TabularMDP(
        transitions,
        np.broadcast_to(on_entering, transitions.shape),
        gamma,
        (kinds == "S") / (kinds == "S").sum(),
        (kinds == "G") | (kinds == "P"),
        state_names=[f"{kind}({i}, {j})" for kind, (i, j) in zip(kinds, cells, strict=True)],
        action_names=("up", "right", "down", "left"),
        positions=cells,
    )


class TabularEnv(gym.Env):
    """A `TabularMDP` as a Gymnasium environment: states and actions are its observations and actions.

    The rewards are not discounted; gamma belongs to the learner.
    """

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp = mdp
        self.observation_space = spaces.Discrete(mdp.n_states)
        self.action_space = spaces.Discrete(mdp.n_actions)
        self._next = cumulative(mdp.P)
        self._first = cumulative(mdp.start)
        self._state = int(mdp.start.argmax())

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict]:
        """Draw a first state."""
        super().reset(seed=seed)
        self._state = int(np.searchsorted(self._first, self.np_random.random(), side="right"))
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        """Draw the next state; terminated when that is a terminal one."""
        before = self._state
        self._state = int(np.searchsorted(self._next[before, action], self.np_random.random(), side="right"))
        reward = float(self.mdp.rewards[before, action, self._state])
        return self._state, reward, bool(self.mdp.terminal[self._state]), False, {}


def chain_env(**settings: Any) -> TabularEnv:
    """``ppobook/Chain-v0``: the environment of `chain`, which says what the settings are."""
    return TabularEnv(chain(**settings))


def gridworld_env(**settings: Any) -> TabularEnv:
    """``ppobook/Gridworld-v0``: the environment of `gridworld`, which says what the settings are."""
    return TabularEnv(gridworld(**settings))


# The limits are there to stop a policy that walks in circles; an episode of a policy that explores does not
# get near them, so the exact values, which know of no limit, hold.
gym.register("ppobook/Chain-v0", "ppobook.envs:chain_env", max_episode_steps=1000)
gym.register("ppobook/Gridworld-v0", "ppobook.envs:gridworld_env", max_episode_steps=1000)
