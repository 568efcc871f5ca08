"""Right and wrong answers to the table by hand, exact values and TD(0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- gae-table

REWARDS, VALUES = np.array([1, 0, 3, 1, 0, 2]), np.array([2, 4, 1, 2, 3, 5, 4])
INSIDE = [True, True, False, False, True, False]


def table(
    followed: Any = (4, 1, 0, 6, 5, 4),
    delta: Callable[[Any, Any, Any], Any] = lambda r, f, v: r + 0.5 * f - v,
    factor: float = 0.4,
    inside: Any = INSIDE,
    advantages: Callable[[Any], Any] | None = None,
) -> Callable[[], Any]:
    """The three lists, from the reader's own entries."""

    def function():
        f = np.array(followed)
        deltas = delta(REWARDS, f, VALUES[:6])
        if advantages is not None:
            return f.tolist(), deltas.tolist(), list(advantages(deltas))
        found, carried = np.zeros(6), 0.0
        for t in reversed(range(6)):
            carried = deltas[t] + factor * inside[t] * carried
            found[t] = carried
        return f.tolist(), deltas.tolist(), found.tolist()

    return function


def forwards(deltas):
    found, carried = [], 0.0
    for delta in deltas:
        carried = delta + 0.4 * carried
        found.append(carried)
    return found


def forwards_in_its_episode(deltas):
    found, carried = [], 0.0
    for t, delta in enumerate(deltas):
        carried = delta + 0.4 * (0.0 if t in (0, 3, 4) else carried)
        found.append(carried)
    return found


RIGHT["gae-table"] = [
    table(),
    lambda: tuple(np.array(column) for column in table()()),
    lambda: tuple(torch.tensor(column) for column in table()()),
    lambda: ((4, 1, 0, 6, 5, 4), (1, -3.5, 2, 2, -0.5, -1), (-0.08, -2.7, 2, 2, -0.9, -1)),
]
WRONG["gae-table"] = {
    "the first list is discounted already": [
        lambda: ((2, 0.5, 0, 3, 2.5, 2), *table()()[1:]),
        table((2, 0.5, 0, 1.5, 2.5, 2), delta=lambda r, f, v: r + f - v),
    ],
    "the state itself, not what followed": table(VALUES[:6]),
    "the terminal state is given a value": [table((4, 1, 2, 6, 5, 4)), table(VALUES[1:])],
    "the reset observation is taken for the final one": table((4, 1, 0, 3, 5, 4)),
    "a truncation is taken for an end": table((4, 1, 0, 0, 5, 4)),
    "the end of the rollout is taken for the end of the episode": table((4, 1, 0, 6, 5, 0)),
    "gamma is missing in delta": table(delta=lambda r, f, v: r + f - v),
    "lam stands in delta": [
        table(delta=lambda r, f, v: r + 0.8 * f - v),
        table(delta=lambda r, f, v: r + 0.4 * f - v),
    ],
    "the value of the state is not subtracted": table(delta=lambda r, f, v: r + 0.5 * f),
    "the sign is turned round": table(delta=lambda r, f, v: v - r - 0.5 * f),
    "only the TD error": table(factor=0.0),
    "only one step ahead": table(
        advantages=lambda d: [x + 0.4 * on * y for x, on, y in zip(d, INSIDE, [*d[1:], 0], strict=True)]
    ),
    "lam is not used": table(factor=0.5),
    "gamma is missing in the recursion": table(factor=0.8),
    "the recursion runs on into the next episode": table(inside=[True] * 6),
    "the recursion runs on after a truncation": table(inside=[True, True, False, True, True, False]),
    "the recursion runs forwards": [table(advantages=forwards), table(advantages=forwards_in_its_episode)],
}
UNNAMED["gae-table"] = [
    lambda: ((4, 1, 0, 6, 5, 4), (1, -3.5, 2, 2, -0.5, -1), (-0.08, -2.7, 2, 2, -0.9, 1)),
    lambda: ((4, 1, 0, 6, 5, 4), (1, 3.5, 2, 2, -0.5, -1), (-0.08, -2.7, 2, 2, -0.9, -1)),
    lambda: ((4, 1, 0, 5, 5, 4), (1, -3.5, 2, 1.5, -0.5, -1), (-0.08, -2.7, 2, 1.5, -0.9, -1)),
    table(factor=1.0),
]


# --- state-values


def by_sweeps(count: int) -> Callable[..., Any]:
    def function(P, rewards, gamma):  # noqa: N803
        values = np.zeros(len(rewards))
        for _ in range(count):
            values = rewards + gamma * P @ values
        return values

    return function


def until_nothing_changes(P, rewards, gamma):  # noqa: N803
    """Sweeps of twice the length each time: P, P², P⁴, …"""
    values, step = rewards.astype(float), gamma * P
    while np.abs(step).max() > 1e-15:
        values, step = values + step @ values, step @ step
    return values


def gauss(P, rewards, gamma):  # noqa: N803
    """Elimination by hand, in Python's floats."""
    size = len(rewards)
    rows = [
        [float(i == j) - gamma * float(P[i, j]) for j in range(size)] + [float(rewards[i])]
        for i in range(size)
    ]
    for i in range(size):
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(size):
            if k != i:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def solved(
    left: Callable[[Any, float], Any], right: Callable[..., Any] = lambda p, r: r
) -> Callable[..., Any]:
    return lambda p, r, gamma: np.linalg.solve(np.eye(len(r)) - left(p, gamma), right(p, r))


def normalised(P):  # noqa: N803
    total = P.sum(1, keepdims=True)
    return P / np.where(total > 0, total, 1)


RIGHT["state-values"] = [
    gauss,
    until_nothing_changes,
    lambda p, r, gamma: np.linalg.inv(np.eye(len(p)) - gamma * p) @ r,
    lambda p, r, gamma: np.linalg.lstsq(np.eye(len(p)) - gamma * p, r, rcond=None)[0],
    lambda p, r, gamma: torch.linalg.solve(
        torch.eye(len(p), dtype=torch.float64) - gamma * torch.tensor(p), torch.tensor(r)
    ),
]
WRONG["state-values"] = {
    "only the reward": lambda p, r, gamma: r + 0.0,
    "one sweep only": by_sweeps(2),
    "a few sweeps only": by_sweeps(3),
    "gamma is not used": lambda p, r, gamma: np.linalg.pinv(np.eye(len(p)) - p) @ r,
    "the matrix is turned round": solved(lambda p, gamma: gamma * p.T),
    "the next state is added with a minus": solved(lambda p, gamma: -gamma * p),
    "the end of the episode is forgotten": solved(lambda p, gamma: gamma * normalised(p)),
    "every state leads to itself": lambda p, r, gamma: r / (1 - gamma),
    "the reward of arriving, not of leaving": [
        solved(lambda p, gamma: gamma * p, lambda p, r: p @ r + 0.0),
        lambda p, r, gamma: p @ np.linalg.solve(np.eye(len(p)) - gamma * p, r),
    ],
    "discounted once too often": lambda p, r, gamma: gamma * gauss_array(p, r, gamma),
    "what follows, without the reward": lambda p, r, gamma: gauss_array(p, r, gamma) - r,
}


def gauss_array(P, rewards, gamma):  # noqa: N803
    return np.array(gauss(P, rewards, gamma))


UNNAMED["state-values"] = [
    by_sweeps(30),
    by_sweeps(100),
    by_sweeps(1500),
    lambda p, r, gamma: gauss_array(p, np.abs(r) * np.sign(r.sum()), gamma),
    lambda p, r, gamma: gauss_array(p, r, min(gamma, 0.9)),
    lambda p, r, gamma: gauss_array(p, r, gamma).clip(-50, 50),
]


# --- td-update


def td(
    *,
    mask: Callable[[Any], Any] = lambda over: not over,
    sign: float = 1.0,
    discount: float | None = None,
    rate: float | None = None,
    old: bool | str = False,
    order: Callable[[Any], Any] = lambda steps: steps,
    to: str = "left",
) -> Callable[..., Any]:
    def function(values, states, rewards, next_states, terminated, gamma, lr):
        table, first = values.copy(), values.copy()
        gamma, lr = (gamma if discount is None else discount), (lr if rate is None else rate)
        for k in order(list(range(len(states)))):
            s, ahead = states[k], next_states[k]
            future, own = first if old else table, first if old is True else table
            delta = rewards[k] + gamma * mask(terminated[k]) * future[ahead] - own[s]
            table[s if to == "left" else ahead] += sign * lr * delta
        return table

    return function


def as_an_average(values, states, rewards, next_states, terminated, gamma, lr):
    table = [float(v) for v in values]
    for s, r, n, over in zip(states, rewards, next_states, terminated, strict=True):
        target = float(r) if over else float(r) + gamma * table[int(n)]
        table[int(s)] = (1 - lr) * table[int(s)] + lr * target
    return table


def in_torch(values, states, rewards, next_states, terminated, gamma, lr):
    table = torch.tensor(values)
    for k in range(len(states)):
        delta = rewards[k] + gamma * (1 - int(terminated[k])) * table[next_states[k]] - table[states[k]]
        table[states[k]] = table[states[k]] + lr * delta
    return table


def all_at_once(values, states, rewards, next_states, terminated, gamma, lr):
    table = values.copy()
    table[states] += lr * (rewards + gamma * ~terminated * values[next_states] - values[states])
    return table


def next_row(values, states, rewards, next_states, terminated, gamma, lr):
    following = np.append(states[1:], next_states[-1:])
    return td()(values, states, rewards, following, terminated, gamma, lr)


def next_row_with_zeros(values, states, rewards, next_states, terminated, gamma, lr):
    more = np.append(values, 0.0)
    return td()(more, states, rewards, np.append(states[1:], -1), terminated, gamma, lr)[:-1]


def zero_at_an_end(values, states, rewards, next_states, terminated, gamma, lr):
    table = values.copy()
    for s, r, n, over in zip(states, rewards, next_states, terminated, strict=True):
        if over:
            table[n] = 0.0
        table[s] += lr * (r + gamma * table[n] - table[s])
    return table


def reward_masked(values, states, rewards, next_states, terminated, gamma, lr):
    return td()(values, states, rewards * ~terminated, next_states, terminated, gamma, lr)


def ends_left_out(values, states, rewards, next_states, terminated, gamma, lr):
    going = ~terminated
    rest = (x[going] for x in (states, rewards, next_states, terminated))
    return td()(values, *rest, gamma, lr)


def overwritten(values, *rest):
    values[:] = td()(values, *rest)
    return values


RIGHT["td-update"] = [td(), as_an_average, in_torch, lambda *args: tuple(td()(*args))]
WRONG["td-update"] = {
    "nothing moves": lambda values, *rest: values.copy(),
    "the done mask is missing": td(mask=lambda over: 1),
    "every error comes from the old table": td(old=True),
    "the next state's value comes from the old table": td(old="future"),
    "the terminal state's entry is overwritten": zero_at_an_end,
    "the next row is taken for where the step led": [next_row, next_row_with_zeros],
    "a second visit overwrites the first": all_at_once,
    "the learning rate is not used": td(rate=1.0),
    "gamma is not used": td(discount=1.0),
    "it moves away from the target": td(sign=-1.0),
    "the state that was reached is moved": td(to="reached"),
    "the last reward is lost with the mask": reward_masked,
    "the step that ends the episode is left out": ends_left_out,
    "from the last step to the first": td(order=lambda steps: steps[::-1]),
    "an argument is overwritten": overwritten,
}
UNNAMED["td-update"] = [
    td(rate=0.5, discount=0.5),
    td(mask=lambda over: 0),
    td(discount=0.0),
    lambda *args: td()(*args) + 1,
]
