"""Environments: any Gymnasium id as a seeded vector of environments, and small worlds that are known exactly.

A learner sees a world through samples only. To judge what it learns, the book keeps two worlds, a chain and
a gridworld, whose values, gradients, visits and best policies are computed by linear algebra (`TabularMDP`).
The same two worlds are registered with Gymnasium as ``ppobook/Chain-v0`` and ``ppobook/Gridworld-v0``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ppobook import _doors
from ppobook.envs.classic import classic_vector

if TYPE_CHECKING:
    import pandas as pd

# An episode of a sampled world that is longer than this never ends, as far as anybody can tell.
_ENDLESS = 100_000

# More copies of an environment than this would take minutes to make, and nobody means it.
MOST_ENVS = 10_000


class Episodes(NamedTuple):
    """Sampled episodes, one a row, padded with zeros to the longest.

    Attributes
    ----------
    states, actions : int64, shape (B, T)
        The state at each step and the action taken there.
    rewards : float64, shape (B, T)
        What that action earned.
    mask : bool, shape (B, T)
        True where the episode was still going on. Everything else is padding.
    """

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    mask: np.ndarray


class TabularMDP:
    """A world of finitely many states and actions, known exactly.

    What a policy gradient method estimates from samples is computed here from the tables:

        V = R_π + γ P_π V                                   the policy's values (Bellman)
        Q(s, a) = R(s, a) + γ Σ_s' P(s' | s, a) V(s')
        J = Σ_s start(s) V(s)                               what the policy is worth
        d(s) = Σ_t γ^t Pr(S_t = s)                          discounted visits
        ∂J/∂θ(s, a) = d(s) π(a | s) (Q(s, a) − V(s))        for a softmax over the logits θ(s, ·)

    An episode ends on entering a terminal state: nothing is earned from there on, so its value is 0.

    Parameters
    ----------
    P : array, shape (S, A, S)
        P[s, a, s'] is the probability of getting to s' by action a in s. Terminal states' rows are not read.
    R : array, shape (S, A) or (S, A, S)
        The reward of action a in s; with three axes, of getting from s to s' by it.
    gamma : float in [0, 1]
        The discount. With 1, a policy must reach a terminal state from everywhere, or its value is refused.
    start : array, shape (S,)
        The distribution of the first state. None of it on a terminal state.
    terminal : array of bool, shape (S,), optional
        Which states end an episode. None of them, if left out.
    state_names, action_names : sequences of str, optional
    positions : array, shape (S, 2), optional
        Row and column of each state, for drawing.

    Raises
    ------
    ValueError
        Shapes that do not fit, a row of P or a start that is no distribution, a value that is not finite,
        a gamma outside [0, 1].

    References
    ----------
    Sutton, McAllester, Singh and Mansour 2000, "Policy gradient methods for reinforcement learning with
    function approximation", theorem 1.
    """

    def __init__(
        self,
        P: Any,  # noqa: N803 - the field's name
        R: Any,  # noqa: N803
        gamma: float,
        start: Any,
        terminal: Any = None,
        *,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        positions: Any = None,
    ) -> None:
        transitions = np.array(P, dtype=np.float64)
        if transitions.ndim != 3 or transitions.shape[0] != transitions.shape[2] or 0 in transitions.shape:
            raise ValueError(f"P has shape {transitions.shape}; (S, A, S) is wanted")
        n_states, n_actions, _ = transitions.shape

        ends = np.zeros(n_states, dtype=bool) if terminal is None else np.array(terminal)
        if ends.shape != (n_states,) or ends.dtype != bool:
            raise ValueError(
                f"terminal has shape {ends.shape} and dtype {ends.dtype}; one bool for each of the "
                f"{n_states} states is wanted"
            )
        # A terminal state keeps to itself and earns nothing, whatever its rows say.
        transitions[ends] = 0
        transitions[ends, :, np.flatnonzero(ends)] = 1

        rewards = np.array(R, dtype=np.float64)
        if rewards.shape == (n_states, n_actions):
            rewards = np.repeat(rewards[:, :, None], n_states, axis=2)
        if rewards.shape != transitions.shape:
            raise ValueError(
                f"R has shape {rewards.shape}; {(n_states, n_actions)} or {transitions.shape} is wanted, "
                "to go with P"
            )
        rewards[ends] = 0
        _doors.finite("R", rewards)

        _refuse_unless_distributions("P", transitions, ", for each state and action")
        gamma = _doors.number("gamma", gamma, low=0, high=1)
        first = np.array(start, dtype=np.float64)
        if first.shape != (n_states,):
            raise ValueError(f"start has shape {first.shape}; ({n_states},) is wanted, to go with P")
        _refuse_unless_distributions("start", first, "")
        if first[ends].any():
            raise ValueError(
                "start puts probability on a terminal state; an episode is wanted to begin elsewhere"
            )

        self.P = transitions
        self.R = (transitions * rewards).sum(axis=2)
        self.rewards = rewards
        self.gamma = gamma
        self.start = first
        self.terminal = ends
        self.n_states = n_states
        self.n_actions = n_actions
        self.state_names = tuple(state_names or map(str, range(n_states)))
        self.action_names = tuple(action_names or map(str, range(n_actions)))
        self.positions = None if positions is None else np.array(positions)

    def __repr__(self) -> str:
        return f"TabularMDP({self.n_states} states, {self.n_actions} actions, gamma={self.gamma})"

    # Exact quantities. Each takes an array and returns arrays, or takes a tensor and returns tensors through
    # which gradients flow.

    def policy_value(self, probs: Any) -> Any:
        """The value of every state under a policy, by solving V = R_π + γ P_π V.

        Parameters
        ----------
        probs : array or tensor, shape (S, A)
            probs[s, a] = π(a | s).

        Returns
        -------
        V : shape (S,); 0 at terminal states

        Raises
        ------
        ValueError
            If probs is not a policy, or if gamma is 1 and the policy may go on for ever.
        """
        between, rewards = self._under(probs)
        return _solve(self._like(np.eye(self.n_states), probs) - self.gamma * between, rewards)

    def q_values(self, probs: Any) -> Any:
        """Q(s, a) = R(s, a) + γ Σ_s' P(s' | s, a) V(s'), shape (S, A), for a policy as in `policy_value`."""
        values = self.policy_value(probs)
        return self._like(self.R, probs) + self.gamma * (self._like(self.P, probs) @ values)

    def advantages(self, probs: Any) -> Any:
        """A(s, a) = Q(s, a) − V(s), shape (S, A): how much better than usual an action is."""
        return self.q_values(probs) - self.policy_value(probs)[:, None]

    def objective(self, probs: Any) -> Any:
        """J = Σ_s start(s) V(s), the expected discounted return of an episode.

        A float for an array. For a tensor a scalar tensor, so that
        ``mdp.objective(logits.softmax(-1)).backward()`` leaves the exact policy gradient in ``logits.grad``.
        """
        value = self._like(self.start, probs) @ self.policy_value(probs)
        return value if _doors.is_tensor(probs) else float(value)

    def state_occupancy(self, probs: Any) -> Any:
        """d(s) = Σ_t γ^t Pr(S_t = s): how often a state is visited in an episode, late visits counting less.

        Shape (S,), 0 at terminal states, where no action is taken. It adds up to the expected length of an
        episode if gamma is 1, and to at most 1 / (1 − γ) otherwise; so it is no distribution.
        """
        between, _ = self._under(probs)
        arrivals = _solve(
            self._like(np.eye(self.n_states), probs) - self.gamma * between.T, self._like(self.start, probs)
        )
        return arrivals * self._like(~self.terminal, probs)

    def policy_gradient(self, logits: Any) -> Any:
        """The exact gradient of J by the logits of a softmax policy, π(· | s) = softmax(logits[s]).

            ∂J/∂θ(s, a) = d(s) π(a | s) A(s, a)

        Parameters
        ----------
        logits : array or tensor, shape (S, A)

        Returns
        -------
        gradient : shape (S, A), detached; 0 at terminal states

        References
        ----------
        Sutton et al. 2000, theorem 1; Agarwal et al. 2021, "On the theory of policy gradient methods:
        optimality, approximation, and distribution shift", lemma C.1 (there with normalised visits).
        """
        table = _as_array(logits)
        self._refuse_unless_table("logits", table)
        probs = np.exp(table - table.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        gradient = self.state_occupancy(probs)[:, None] * probs * self.advantages(probs)
        return self._like(gradient, logits)

    def optimal_policy(self) -> np.ndarray:
        """A best policy, by policy iteration: shape (S, A), one 1 in each row.

        Of several equally good actions it takes one. `policy_value` of it gives the optimal values.

        References
        ----------
        Howard 1960, "Dynamic programming and Markov processes".
        """
        probs = np.full((self.n_states, self.n_actions), 1 / self.n_actions)
        while True:
            q = self.q_values(probs)
            # Rounding must not make two equally good actions take turns for ever.
            better = q.max(axis=1) > (probs * q).sum(axis=1) + 1e-10 * (1 + np.abs(q).max())
            undecided = probs.max(axis=1) < 1
            if not (better | undecided).any():
                return probs
            probs = np.where((better | undecided)[:, None], np.eye(self.n_actions)[q.argmax(axis=1)], probs)

    # Samples.

    def sample_episodes(
        self,
        probs: Any,
        episodes: int,
        seed: int | np.random.Generator | None = None,
        *,
        max_steps: int | None = None,
    ) -> Episodes:
        """Play episodes, all at once, from start to terminal state.

        Parameters
        ----------
        probs : array or tensor, shape (S, A)
        episodes : int
            How many, B.
        seed : int or numpy Generator, optional
        max_steps : int, optional
            Cut an episode after so many steps. What it would have earned afterwards is then missing from its
            return. If left out, every episode is played to its end.

        Returns
        -------
        Episodes
            states, actions, rewards and mask, each of shape (B, T), T being the longest episode's length.

        Raises
        ------
        ValueError
            If probs is not a policy, a count is below 1, or an episode does not end.
        """
        policy = _as_array(probs)
        self._refuse_unless_policy(policy)
        episodes = _doors.count("episodes", episodes)
        if max_steps is not None:
            max_steps = _doors.count("max_steps", max_steps)
        rng = np.random.default_rng(seed)
        choose_action, choose_next = _cumulative(policy), _cumulative(self.P)

        state = _draw(np.broadcast_to(_cumulative(self.start), (episodes, self.n_states)), rng)
        playing = np.arange(episodes)
        columns: list[tuple[np.ndarray, ...]] = []
        while len(playing) and len(columns) != max_steps:
            if len(columns) == _ENDLESS:
                raise ValueError(
                    f"probs: an episode had not ended after {_ENDLESS} steps; a policy that reaches a "
                    "terminal state is wanted, or max_steps, to cut episodes"
                )
            action = _draw(choose_action[state], rng)
            following = _draw(choose_next[state, action], rng)
            columns.append((playing, state, action, self.rewards[state, action, following]))
            going = ~self.terminal[following]
            playing, state = playing[going], following[going]

        shape = (episodes, len(columns))
        batch = Episodes(np.zeros(shape, int), np.zeros(shape, int), np.zeros(shape), np.zeros(shape, bool))
        for step, (who, state, action, reward) in enumerate(columns):
            batch.states[who, step] = state
            batch.actions[who, step] = action
            batch.rewards[who, step] = reward
            batch.mask[who, step] = True
        return batch

    # Inside.

    def _under(self, probs: Any) -> tuple[Any, Any]:
        """P_π and R_π, with nothing after a terminal state: its row of P_π is 0, and so is its value."""
        self._refuse_unless_policy(_as_array(probs))
        probs = probs if _doors.is_tensor(probs) else np.asarray(probs)
        onward = self._like(self.P * ~self.terminal[:, None, None], probs)
        return (onward * probs[:, :, None]).sum(1), (self._like(self.R, probs) * probs).sum(1)

    def _like(self, table: np.ndarray, given: Any) -> Any:
        """A table as the caller's kind of thing: an array, or a tensor of the same dtype and device."""
        if not _doors.is_tensor(given):
            return table
        import torch

        dtype = given.dtype if given.is_floating_point() else torch.float64
        return torch.as_tensor(table, dtype=dtype, device=given.device)

    def _refuse_unless_table(self, name: str, table: np.ndarray) -> None:
        _doors.shape(name, table, (self.n_states, self.n_actions), "a row a state and a column an action")
        _doors.finite(name, table)

    def _refuse_unless_policy(self, probs: np.ndarray) -> None:
        self._refuse_unless_table("probs", probs)
        _refuse_unless_distributions(
            "probs", probs, ", for each state (logits.softmax(-1) makes probabilities)", tolerance=1e-4
        )
        if self.gamma == 1:
            # Who gets to a terminal state? Walk backwards from those until nobody new turns up.
            one_step = (self.P * probs[:, :, None]).sum(axis=1) > 0
            arrives = self.terminal
            for _ in range(self.n_states):
                arrives = arrives | one_step[:, arrives].any(axis=1)
            if not arrives.all():
                name = self.state_names[int(np.flatnonzero(~arrives)[0])]
                raise ValueError(
                    f"probs goes on for ever from state {name}; with gamma = 1 a policy that reaches a "
                    "terminal state from everywhere is wanted, such as one that tries every action"
                )


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

    Notes
    -----
    With slip = 0, step_reward = 0 and gamma = 1, going left and right equally often makes the value of state
    i lie on the straight line between the two rewards (Sutton and Barto 2018, example 6.2).
    """
    length = _doors.count("length", length)
    slip = _doors.number("slip", slip, low=0, high=1)
    first = (length + 1) // 2 if start is None else start
    if first not in range(1, length + 1):
        raise ValueError(f"start is {start!r}; one of the states 1 to {length} is wanted")

    n_states = length + 2
    transitions = np.zeros((n_states, 2, n_states))
    inside = np.arange(1, length + 1)
    for action, direction in enumerate((-1, 1)):
        transitions[inside, action, inside + direction] += 1 - slip
        transitions[inside, action, inside - direction] += slip
    rewards = np.full(transitions.shape, float(step_reward))
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
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError(f"layout is {layout!r}; strings of one length are wanted, one a row")
    unknown = set("".join(rows)) - set("SGP#.")
    if unknown:
        raise ValueError(f"layout holds {', '.join(map(repr, sorted(unknown)))}; S, G, P, # and . are wanted")
    if "S" not in "".join(rows) or "G" not in "".join(rows):
        raise ValueError(f"layout is {layout!r}; at least one start S and one goal G are wanted")
    slip = _doors.number("slip", slip, low=0, high=1)

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
        self._next = _cumulative(mdp.P)
        self._first = _cumulative(mdp.start)
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
    num_envs = _doors.count("num_envs", num_envs, high=MOST_ENVS)
    if seed is not None:
        seed = _doors.count("seed", seed, low=0)
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


def list_envs() -> pd.DataFrame:
    """The environments that `make_env` can make here, one a row, newest versions only.

    Returns
    -------
    DataFrame
        Columns id, observation, actions (in words) and step_limit (missing where there is none). An
        environment whose package is not installed is left out; it fails at once, and costs no time.
    """
    import pandas as pd

    newest: dict[str, tuple[int, str]] = {}
    for env_id in gym.registry:
        name, _, version = env_id.rpartition("-v")
        newest[name] = max(newest.get(name, (-1, "")), (int(version) if version.isdigit() else -1, env_id))
    rows = []
    for _, env_id in newest.values():
        try:
            envs = make_env(env_id)
        except (TypeError, ValueError):
            continue
        rows.append(
            {
                "id": env_id,
                "observation": _in_words(envs.single_observation_space),
                "actions": _in_words(envs.single_action_space),
                "step_limit": gym.registry[env_id].max_episode_steps,
            }
        )
        envs.close()
    return pd.DataFrame(rows).astype({"step_limit": "Int64"})


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
            raise self._fault(f"raised {_doors.reason(error)}") from error
        self._look(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        self._steps += 1
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            raise self._fault(f"raised {_doors.reason(error)}") from error
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
        raise ValueError(f"env is {env_id!r}{given}, which {why}: {_doors.reason(error)}") from error


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
    nearest = _doors.nearest(env_id, known, show=0).partition("? ")
    hint = f"{nearest[0]}? " if nearest[1] else ""
    return f"{hint}the id of a known environment is wanted (`ppobook envs` lists them)"


def _in_words(space: spaces.Space) -> str:
    if isinstance(space, spaces.Discrete):
        return f"one of {space.n}"
    if isinstance(space, spaces.MultiDiscrete):
        return "one each of " + ", ".join(map(str, space.nvec.tolist()))
    size = space.shape[0] if space.shape else 0
    numbers = "1 number" if size == 1 else f"{size} numbers"
    if isinstance(space, spaces.Box) and space.is_bounded():
        low, high = space.low.min(), space.high.max()
        if (space.low == low).all() and (space.high == high).all():
            return f"{numbers} in [{low:g}, {high:g}]"
    return numbers


def _as_array(value: Any) -> np.ndarray:
    return np.asarray(value.detach().cpu() if _doors.is_tensor(value) else value, dtype=np.float64)


def _solve(matrix: Any, right: Any) -> Any:
    if _doors.is_tensor(matrix):
        import torch

        return torch.linalg.solve(matrix, right)
    return np.linalg.solve(matrix, right)


def _cumulative(probs: np.ndarray) -> np.ndarray:
    """Running sums along the last axis that end in exactly 1."""
    sums = probs.cumsum(axis=-1)
    return sums / sums[..., -1:]


def _draw(cumulative: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index for each row of running sums. What has probability 0 is never drawn."""
    return (rng.random((len(cumulative), 1)) >= cumulative).sum(axis=1)


def _refuse_unless_distributions(name: str, probs: np.ndarray, why: str, tolerance: float = 1e-8) -> None:
    _doors.finite(name, probs)
    if (probs < 0).any():
        raise ValueError(
            f"{name} is {probs.min():g} at index {_doors.place(probs < 0)}; probabilities are wanted"
        )
    totals = probs.sum(axis=-1)
    off = np.abs(totals - 1) > tolerance
    if off.any():
        where = f" at index {_doors.place(off)}" if off.ndim else ""
        raise ValueError(f"{name} adds up to {totals[off].flat[0]:g}{where}; 1 is wanted{why}")
