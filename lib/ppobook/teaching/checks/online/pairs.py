"""Checks of online pairs: the odds of a pair that is the best and the worst of a group."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np

from .. import Answer, Findings, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, random_problems
from . import CHAPTER


def _ranking(rewards: list[float]) -> float:
    """Return the probability of this order, best first."""
    p = 1.0
    for i in range(len(rewards)):
        p /= sum(math.exp(r - rewards[i]) for r in rewards[i:])
    return p


@CHAPTER.check("best-worst-odds", section="sec-online-dpo")
def best_worst_odds(answer: Answer) -> Findings:
    def ask(*rewards: float) -> float:
        back = answer(np.array(rewards))
        return float(as_array(back, (), "the log-odds", finite=False))

    def orders(r: np.ndarray, first: int, last: int) -> float:
        middle = [k for k in range(len(r)) if k not in (first, last)]
        return sum(_ranking([float(r[k]) for k in (first, *order, last)]) for order in permutations(middle))

    r = np.array([2.0, 1.0, 0.5, -1.0])
    got = float(as_array(answer(r), (), "the log-odds"))
    there, back = orders(r, 0, 1), orders(r, 1, 0)
    right = math.log(there / back)
    w = np.exp(r)
    best = w / w.sum()
    worst = (1 / w) / (1 / w).sum()
    one = [_ranking([float(r[k]) for k in order]) for order in ((0, 2, 3, 1), (1, 2, 3, 0))]
    # The last place by e^−R, straight after the first.
    rest = [(1 / w[j]) / (1 / w[[k for k in range(4) if k != i]]).sum() for i, j in ((0, 1), (1, 0))]
    # Second instead of last.
    second = [best[i] * best[j] / (1 - best[i]) for i, j in ((0, 1), (1, 0))]
    last = [
        sum(_ranking([float(r[k]) for k in order]) for order in permutations(range(4)) if order[3] == j)
        for j in (0, 1)
    ]
    merged = w[:2] + w[2] + w[3]  # for the third and fourth text, one with both weights
    mean = [
        np.prod([_ranking([float(r[k]) for k in (a, *order, b)]) for order in ((2, 3), (3, 2))])
        for a, b in ((0, 1), (1, 0))
    ]
    yield from recognise(
        got,
        {
            "the sign is turned round": -right,
            "odds, not their logarithm": there / back,
            "a probability, not odds": either(there, there / (there + back), math.log(there)),
            "the others are not there": either(1.0, math.e, math.log(best[0] / best[1])),
            "each place counts as a whole choice": 3.0,
            "best and worst are drawn apart": either(2.0, math.log(best[0] * worst[1] / best[1] / worst[0])),
            "one order of the others": either(
                math.log(one[0] / one[1]),
                math.log(_ranking([2.0, -1, 0.5, 1]) / _ranking([1.0, -1, 0.5, 2])),
            ),
            "the worst is chosen right after the best": either(
                math.log(rest[0] / rest[1]), math.log(best[0] * rest[0] / best[1] / rest[1])
            ),
            "the others are added up to one text": 1 + math.log(merged[0] / merged[1]),
            "the logarithms of the orders are averaged": math.log(mean[0] / mean[1]) / 2,
            "the second is taken for the last": math.log(second[0] / second[1]),
            "only who is last is counted": math.log(last[1] / last[0]),
        },
    )
    far = ask(900.0, 0.0, -900.0), ask(1000.5, 1000.0, 1000.0)
    small = math.log((1 + math.exp(0.5)) / 2) + 0.5
    yield from recognise(
        np.array(far),
        {"large rewards overflow": not np.isfinite(far).all()},
    )
    yield Property(
        "it is right for large rewards, too",
        close(far, [1800, small], 1e-2),
        f"with the rewards 900, 0 and −900 and with 1000.5, 1000 and 1000 you get {numbers(np.array(far))}",
    )
    yield Property(
        "two completions alone have the odds of Bradley and Terry",
        close([ask(1.7, 0.2), ask(-2000.3, -2000)], [1.5, -0.3], 1e-3),
        f"with 1.7 and 0.2 the log-odds are {numbers(ask(1.7, 0.2))}, with −2000.3 and −2000 "
        f"{numbers(ask(-2000.3, -2000))}",
    )
    yield Property(
        "equal rewards have even odds in any group",
        abs(ask(0.4, 0.4, 3.0, -2.0)) < 1e-6,
        f"with rewards 0.4, 0.4, 3 and −2 the log-odds are {numbers(ask(0.4, 0.4, 3.0, -2.0))}",
    )
    yield Property(
        "a far worse third completion doubles the log-odds, a far better one leaves them unchanged",
        close([ask(1, 0, -12), ask(1, 0, 12)], [2, 1], 1e-3),
        f"1 and 0 beside −12 and beside 12 have {numbers([ask(1, 0, -12), ask(1, 0, 12)])}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size = int(rng.choice([2, 3, 4, 5, 6]))
        return {"rewards": rng.choice([0.1, 1, 3]) * rng.normal(size=size) + rng.choice([0, 50, -2000])}

    def slow(p: Problem) -> float:
        """Over all orders of the whole group."""
        r = p.rewards - p.rewards.max()
        chance = [0.0, 0.0]
        for order in permutations(range(len(r))):
            if {order[0], order[-1]} == {0, 1}:
                chance[order[0]] += _ranking([float(r[k]) for k in order])
        return math.log(chance[0] / chance[1])

    yield agrees(answer, slow, random_problems(draw, 30), what="the log-odds", arrays=True)
