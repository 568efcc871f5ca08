"""Finite Markov decision processes whose values, gradients, visits and best policies are computed exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ppobook import validation

# `sample_episodes` takes a longer episode for one that never ends.
_MOST_STEPS = 100_000


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
        The discount. With 1, a policy must reach a terminal state from everywhere.
    start : array, shape (S,)
        Initial-state distribution; 0 at terminal states.
    terminal : array of bool, shape (S,), optional
        Which states end an episode. None of them, if left out.
    state_names, action_names : sequences of str, optional
    positions : array, shape (S, 2), optional
        Row and column of each state, for drawing.

    Raises
    ------
    ValueError
        A row of P or a start that is no distribution, a gamma outside [0, 1].

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
        n_states, n_actions, _ = transitions.shape

        ends = np.zeros(n_states, dtype=bool) if terminal is None else np.array(terminal, dtype=bool)
        # A terminal state keeps to itself and earns nothing, whatever its rows say.
        transitions[ends] = 0
        transitions[ends, :, np.flatnonzero(ends)] = 1

        rewards = np.array(R, dtype=np.float64)
        if rewards.shape == (n_states, n_actions):
            rewards = np.repeat(rewards[:, :, None], n_states, axis=2)
        rewards[ends] = 0

        _check_distributions("P", transitions)
        gamma = validation.number("gamma", gamma, low=0, high=1)
        first = np.array(start, dtype=np.float64)
        _check_distributions("start", first)

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

        `probs` is an array or a tensor of shape (S, A), with probs[s, a] = π(a | s). The values have shape
        (S,), and are 0 at terminal states.
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
        return value if validation.is_tensor(probs) else float(value)

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

        Logits and gradient have shape (S, A). The gradient is detached, and 0 at terminal states.

        References
        ----------
        Sutton et al. 2000, theorem 1; Agarwal et al. 2021, "On the theory of policy gradient methods:
        optimality, approximation, and distribution shift", lemma C.1 (there with normalised visits).
        """
        weights = np.exp(_array(logits) - _array(logits).max(axis=1, keepdims=True))
        probs = weights / weights.sum(axis=1, keepdims=True)
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
            Truncate an episode after so many steps. If left out, every episode is played to its end.

        Returns
        -------
        Episodes
            Each of shape (B, T), T being the longest episode's length.
        """
        policy = _array(probs)
        self._check_policy(policy)
        rng = np.random.default_rng(seed)
        choose_action, choose_next = cumulative(policy), cumulative(self.P)

        state = _draw(np.broadcast_to(cumulative(self.start), (episodes, self.n_states)), rng)
        playing = np.arange(episodes)
        columns: list[tuple[np.ndarray, ...]] = []
        while len(playing) and len(columns) != max_steps:
            if len(columns) == _MOST_STEPS:
                raise ValueError(
                    "probs must be a policy that reaches a terminal state, got an episode of more than "
                    f"{_MOST_STEPS} steps. max_steps truncates episodes"
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

    def _under(self, probs: Any) -> tuple[Any, Any]:
        """P_π and R_π, with nothing after a terminal state: its row of P_π is 0, and so is its value."""
        self._check_policy(_array(probs))
        probs = probs if validation.is_tensor(probs) else np.asarray(probs)
        onward = self._like(self.P * ~self.terminal[:, None, None], probs)
        return (onward * probs[:, :, None]).sum(1), (self._like(self.R, probs) * probs).sum(1)

    def _like(self, table: np.ndarray, given: Any) -> Any:
        """A table as the caller's kind of thing: an array, or a tensor of the same dtype and device."""
        if not validation.is_tensor(given):
            return table
        import torch

        dtype = given.dtype if given.is_floating_point() else torch.float64
        return torch.as_tensor(table, dtype=dtype, device=given.device)

    def _check_policy(self, probs: np.ndarray) -> None:
        shape = self.n_states, self.n_actions
        validation.shape("probs", probs, shape, "one row per state, one column per action")
        _check_distributions("probs", probs, ". logits.softmax(-1) makes probabilities", tolerance=1e-4)


def _solve(matrix: Any, right: Any) -> Any:
    if validation.is_tensor(matrix):
        import torch

        return torch.linalg.solve(matrix, right)
    return np.linalg.solve(matrix, right)


def cumulative(probs: np.ndarray) -> np.ndarray:
    """Running sums along the last axis that end in exactly 1."""
    sums = probs.cumsum(axis=-1)
    return sums / sums[..., -1:]


def _draw(cumulative: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index for each row of running sums. What has probability 0 is never drawn."""
    return (rng.random((len(cumulative), 1)) >= cumulative).sum(axis=1)


def _array(x: Any) -> np.ndarray:
    """An array, a tensor or nested lists as an array of float64."""
    return np.asarray(x.detach().cpu() if validation.is_tensor(x) else x, dtype=np.float64)


def _check_distributions(name: str, probs: np.ndarray, hint: str = "", tolerance: float = 1e-8) -> None:
    if (probs < 0).any():
        where = validation.place(probs < 0)
        raise ValueError(f"{name} must be probabilities, got {probs.min():g} at index {where}{hint}")
    totals = probs.sum(axis=-1)
    off = ~(np.abs(totals - 1) <= tolerance)  # NaN is off
    if off.any():
        where = f" at index {validation.place(off)}" if off.ndim else ""
        raise ValueError(f"{name} must sum to 1, got {totals[off].flat[0]:g}{where}{hint}")
