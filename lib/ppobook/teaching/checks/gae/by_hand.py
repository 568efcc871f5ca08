"""Checks of what needs no estimator yet: a table by hand, exact values, one pass of TD(0)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .. import Answer, Findings, Property, Stop, as_array, close, either, numbers, recognise, words
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, in_numpy, weighted_average

COLUMNS = ("what followed", "delta", "advantage")


def _columns(back: Any) -> np.ndarray:
    """The three columns that the reader filled in, [3, 6]."""
    if back is None:
        raise Stop("returned", "nothing came back", "three lists must come back. Is there a `return`?")
    if not isinstance(back, list | tuple) or len(back) != 3:
        raise Stop("returned", "no table", f"three lists of six numbers must come back, got {words(back)}.")
    for name, column in zip(COLUMNS, back, strict=True):
        if isinstance(column, list | tuple) and any(entry is ... or entry is None for entry in column):
            raise Stop(
                "returned", "an entry is still empty", f"the list “{name}” still has an entry to fill."
            )
    return np.array([as_array(column, (6,), f"“{n}”") for n, column in zip(COLUMNS, back, strict=True)])


@CHAPTER.check("gae-table", section="sec-gae-td")
def gae_table(answer: Answer) -> Findings:
    following, deltas, advantages = table = _columns(answer())
    rewards, values = np.array([1, 0, 3, 1, 0, 2]), np.array([2, 4, 1, 2, 3, 5, 4])
    bare = rewards - values[:6]
    ahead = advantages - deltas  # what the reader put behind each TD error
    yield from recognise(
        table,
        {
            "the first list is discounted already": close(following[[0, 1, 4, 5]], [2, 0.5, 2.5, 2]),
            "the state itself, not what followed": close(following[[0, 1]], [2, 4]),
            "the terminal state is given a value": not close(following[2], 0),
            "the reset observation is taken for the final one": close(following[3], 3),
            "a truncation is taken for an end": close(following[3], 0),
            "the end of the rollout is taken for the end of the episode": close(following[5], 0),
        },
        following=following,
    )
    by_own = rewards + 0.5 * following  # with the reader's own first column
    yield from recognise(
        deltas,
        {
            "gamma is missing in delta": bare + following,
            "lam stands in delta": either(bare + 0.8 * following, bare + 0.4 * following),
            "the value of the state is not subtracted": by_own,
            "the sign is turned round": values[:6] - by_own,
        },
    )
    if close(deltas, by_own - values[:6]):
        shift = np.append(deltas[1:], 0)
        later = np.append(advantages[1:], 0)
        inside = np.array([True, True, False, False, True, False])
        yield from recognise(
            advantages,
            {
                "only the TD error": deltas,
                "only one step ahead": deltas + 0.4 * inside * shift,
                "lam is not used": close(ahead, 0.5 * inside * later),
                "gamma is missing in the recursion": close(ahead, 0.8 * inside * later),
                "the recursion runs on into the next episode": close(ahead, 0.4 * later),
                "the recursion runs on after a truncation": close(
                    ahead, 0.4 * (inside | (np.arange(6) == 3)) * later
                ),
                "the recursion runs forwards": close(ahead[1:], 0.4 * advantages[:-1])
                or close(ahead, 0.4 * np.array([0, *advantages[:5]]) * [1, 1, 1, 0, 0, 1]),
            },
            deltas=deltas,
        )
    right = np.array([4.0, 1, 0, 6, 5, 4])
    for t, last in enumerate((2, 2, 2, 3, 5, 5)):
        part = slice(t, last + 1)
        wanted = [
            right[t],
            rewards[t] + 0.5 * right[t] - values[t],
            weighted_average(rewards[part].tolist(), right[part].tolist(), float(values[t]), 0.5, 0.8),
        ]
        wrong = [n for n, x, y in zip(COLUMNS, table[:, t], wanted, strict=True) if not close(x, y, 1e-3)]
        yield Property(f"step {t}", not wrong, f"look again at {', '.join(wrong)}")


@CHAPTER.check("state-values", section="sec-gae-values")
def state_values(answer: Answer) -> Findings:
    ask = in_numpy(answer)
    # State 0 always leads to state 1; from there half of the episodes end and half stay. Values 3 and 4.
    P = np.array([[0.0, 1.0], [0.0, 0.5]])  # noqa: N806
    got = as_array(answer(P, np.array([1.0, 3.0]), 0.5), (2,), "the values", finite=False)
    yield from recognise(
        got,
        {
            "only the reward": [1, 3],
            "one sweep only": [2.5, 3.75],
            "a few sweeps only": [2.875, 3.9375],
            "gamma is not used": [7, 6],
            "the matrix is turned round": [1, 14 / 3],
            "the next state is added with a minus": [-0.2, 2.4],
            "the end of the episode is forgotten": [4, 6],
            "every state leads to itself": [2, 6],
            "the reward of arriving, not of leaving": [4, 2],
            "discounted once too often": [1.5, 2],
            "what follows, without the reward": [2, 1],
        },
    )
    short = as_array(answer(np.zeros((1, 1)), np.array([-3.0]), 0.9), (1,), "the values")
    yield Property(
        "a state that ends at once is worth its reward",
        close(short, [-3]),
        f"with P = [[0]], a reward of −3 and gamma = 0.9 you have {numbers(short)}",
    )
    endless = as_array(answer(np.ones((1, 1)), np.array([1.0]), 0.9999), (1,), "the values")
    yield Property(
        "a reward of 1 for ever is worth 1 / (1 − γ)",
        close(endless, [10_000], 1e-3),
        f"with gamma = 0.9999 you have {numbers(endless, 5)}, and not 10000",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size = int(rng.integers(1, 7))
        going = rng.choice([0, 0.3, 0.9, 1], size=(size, 1))
        gamma = float(rng.choice([0, 0.5, 0.9, 0.98, 1]))
        share = rng.dirichlet(np.ones(size) * rng.choice([0.1, 1]), size=size)
        return {
            "P": share * (going if gamma < 1 else np.minimum(going, 0.9)),
            "rewards": rng.choice([0.01, 1, 100]) * rng.normal(rng.choice([-1, 0, 1]), size=size),
            "gamma": gamma,
        }

    def slow(p: Problem) -> np.ndarray:
        """Return the rewards from each state at steps 0, 1, 2, … until nothing is left."""
        total, chances = np.zeros(len(p.rewards)), np.eye(len(p.rewards))
        while chances.max() > 1e-7:
            total += chances @ p.rewards
            chances = p.gamma * chances @ p.P
        return total

    yield agrees(ask, slow, random_problems(draw, 30), what="the values")


@CHAPTER.check("td-update", section="sec-gae-td")
def td_update(answer: Answer) -> Findings:
    # 0 → 1 with reward 1; 1 → 2 with reward 2, terminated; 0 → 1 with reward 3.
    first = np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]), np.array([1, 2, 1])
    ended = np.array([False, True, False])
    got = as_array(answer(np.array([10.0, 20.0, 30.0]), *first, ended, 0.5, 0.5), (3,), "the table")
    yield from recognise(
        got,
        {
            "nothing moves": [10, 20, 30],
            "the done mask is missing": [11.375, 18.5, 30],
            "every error comes from the old table": [12, 11, 30],
            "the next state's value comes from the old table": [11.75, 11, 30],
            "the terminal state's entry is overwritten": [9.5, 11, 0],
            "a second visit overwrites the first": [11.5, 11, 30],
            "the learning rate is not used": [4, 2, 30],
            "gamma is not used": [14.75, 11, 30],
            "it moves away from the target": [5.5, 29, 30],
            "the state that was reached is moved": either([10, 22.125, 20.75], [10, 22.125, 20.5]),
            "the last reward is lost with the mask": [9.25, 10, 30],
            "the step that ends the episode is left out": [11.75, 20, 30],
            "from the last step to the first": [9, 11, 30],
        },
    )
    # 0 → 1, and the clock runs out; then 2 → 0. State 1 is worth 8, and state 2 is worth 4.
    apart = np.array([0, 2]), np.zeros(2), np.array([1, 0]), np.zeros(2, dtype=bool)
    reset = as_array(answer(np.array([0.0, 8.0, 4.0]), *apart, 0.5, 0.5), (3,), "the table")
    yield from recognise(
        reset, {"the next row is taken for where the step led": close(reset[0], 1)}, first=reset[0]
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size, steps = int(rng.integers(1, 5)), int(rng.choice([0, 1, 2, 4, 9, 30]))
        return {
            "values": rng.choice([0.1, 1, 100]) * rng.normal(size=size),
            "states": rng.integers(size, size=steps),
            "rewards": rng.choice([0.1, 1, 100]) * rng.normal(rng.choice([-1, 0, 1]), size=steps),
            "next_states": rng.integers(size, size=steps),
            "terminated": rng.random(steps) < rng.choice([0, 0.2, 1]),
            "gamma": float(rng.choice([0, 0.5, 0.9, 1])),
            "lr": float(rng.choice([0, 0.1, 0.5, 1])),
        }

    def slow(p: Problem) -> list[float]:
        """A state's value after k steps, from what the two states were worth after k − 1."""

        @cache
        def after(k: int, state: int) -> float:
            if k == 0:
                return float(p.values[state])
            before = after(k - 1, state)
            if p.states[k - 1] != state:
                return before
            future = 0.0 if p.terminated[k - 1] else p.gamma * after(k - 1, int(p.next_states[k - 1]))
            return float((1 - p.lr) * before + p.lr * (p.rewards[k - 1] + future))

        return [after(len(p.states), state) for state in range(len(p.values))]

    yield agrees(in_numpy(answer), slow, random_problems(draw, 30), what="the table")
