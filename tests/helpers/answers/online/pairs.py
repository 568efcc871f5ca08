"""Right and wrong answers to the odds of a pair that is the best and the worst of a group."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def chance(rewards, order, weigh=math.exp):
    p = 1.0
    for place in range(len(order)):
        left = [rewards[k] - max(rewards[j] for j in order[place:]) for k in order[place:]]
        p *= weigh(left[0]) / sum(map(weigh, left))
    return p


def orders(rewards, first, last):
    others = [k for k in range(len(rewards)) if k not in (first, last)]
    return sum(chance(rewards, [first, *o, last]) for o in permutations(others))


def by_all(rewards):
    r = torch.tensor(rewards)
    found = [[], []]
    for order in permutations(range(len(r))):
        if sorted((order[0], order[-1])) == [0, 1]:
            v = r[list(order)]
            tails = torch.stack([v[i:].logsumexp(0) for i in range(len(v))])
            found[order[0]].append((v - tails).sum())
    return torch.stack(found[0]).logsumexp(0) - torch.stack(found[1]).logsumexp(0)


def by_sets(rewards):
    """From the back: who is last, given what is left; sets in place of orders."""
    r = np.asarray(rewards, dtype=float)
    r = r - r.max()

    def log_ending(left, last):
        # log P(last is chosen last of left + last)
        if not left:
            return 0.0
        everyone = [*left, last]
        top = max(r[k] for k in everyone)
        total = top + math.log(sum(math.exp(r[k] - top) for k in everyone))
        parts = [r[k] - total + log_ending(tuple(j for j in left if j != k), last) for k in left]
        return max(parts) + math.log(sum(math.exp(p - max(parts)) for p in parts))

    others = tuple(range(2, len(r)))
    return r[0] - r[1] + log_ending(others, 1) - log_ending(others, 0)


def one_order(rewards):
    o = list(range(2, len(rewards)))
    return math.log(chance(rewards, [0, *o, 1]) / chance(rewards, [1, *o, 0]))


def drawn_apart(rewards):
    return 2 * (rewards[0] - rewards[1])


def right_after(rewards):
    def worst(i, j):
        rest = [k for k in range(len(rewards)) if k != i]
        low = min(rewards[k] for k in rest)
        return (low - rewards[j]) - math.log(sum(math.exp(low - rewards[k]) for k in rest))

    return worst(0, 1) - worst(1, 0)


def second(rewards):
    best = torch.tensor(rewards).softmax(0)
    there, back = (best[i] * best[j] / (1 - best[i]) for i, j in ((0, 1), (1, 0)))
    return (there / back).log()


def only_last(rewards):
    last = [sum(chance(rewards, o) for o in permutations(range(len(rewards))) if o[-1] == j) for j in (0, 1)]
    return math.log(last[1] / last[0])


def raw(rewards):
    def p(order):
        e = np.exp(rewards)
        return np.prod([e[t] / sum(e[k] for k in order[i:]) for i, t in enumerate(order)])

    o = list(permutations(range(2, len(rewards))))
    return np.log(sum(p([0, *x, 1]) for x in o) / sum(p([1, *x, 0]) for x in o))


def by_products(rewards):
    e = np.exp(rewards - np.max(rewards))

    def p(order):
        return np.prod([e[t] / sum(e[k] for k in order[i:]) for i, t in enumerate(order)])

    o = list(permutations(range(2, len(rewards))))
    return np.log(sum(p([0, *x, 1]) for x in o) / sum(p([1, *x, 0]) for x in o))


def merged(rewards):
    if len(rewards) == 2:
        return rewards[0] - rewards[1]
    other = np.logaddexp.reduce(rewards[2:])
    return rewards[0] - rewards[1] + np.logaddexp(rewards[0], other) - np.logaddexp(rewards[1], other)


def averaged(rewards):
    def log_chance(order):
        v = np.asarray(rewards, dtype=float)[list(order)]
        return sum(v[i] - np.logaddexp.reduce(v[i:]) for i in range(len(v)))

    others = list(permutations(range(2, len(rewards))))
    return np.mean([log_chance((0, *o, 1)) - log_chance((1, *o, 0)) for o in others])


RIGHT["best-worst-odds"] = [
    lambda r: by_sets(r),
    by_all,
    lambda r: np.float64(by_sets(r.tolist())),
    lambda r: torch.tensor(by_sets(r)),
]
WRONG["best-worst-odds"] = {
    "the sign is turned round": lambda r: -by_sets(r),
    "odds, not their logarithm": lambda r: np.exp(by_sets(r)),
    "a probability, not odds": [
        lambda r: 1 / (1 + np.exp(-by_sets(r))),
        lambda r: orders(r, 0, 1),
        lambda r: math.log(orders(r, 0, 1)),
    ],
    "the others are not there": lambda r: r[0] - r[1],
    "each place counts as a whole choice": lambda r: (len(r) - 1) * (r[0] - r[1]),
    "best and worst are drawn apart": drawn_apart,
    "one order of the others": one_order,
    "the worst is chosen right after the best": [
        right_after,
        lambda r: right_after(r) + r[0] - r[1],
    ],
    "the others are added up to one text": merged,
    "the logarithms of the orders are averaged": averaged,
    "the second is taken for the last": second,
    "only who is last is counted": only_last,
    "large rewards overflow": [raw, by_products],
}
UNNAMED["best-worst-odds"] = [
    lambda r: by_sets(np.clip(r, -700, 700)),
    lambda r: by_sets(r) if len(r) < 5 else r[0] - r[1],
    lambda r: by_sets(r) * (1.001 if len(r) < 3 else 1.0) + 0.01,
]
