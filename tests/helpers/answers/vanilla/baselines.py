"""Answers to the exercises on baselines, as readers might write them."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- leave-one-out


def one_by_one(returns):
    rows = [returns[i] - torch.cat([returns[:i], returns[i + 1 :]]).mean() for i in range(len(returns))]
    return torch.stack(rows)


RIGHT["leave-one-out"] = [lambda g: (g - g.mean()) * len(g) / (len(g) - 1), one_by_one]
WRONG["leave-one-out"] = {
    "the baseline has seen the return that it judges": lambda g: g - g.mean(),
    "one too many in the divisor": lambda g: g - (g.sum() - g) / len(g),
    "the baseline, not the advantage": lambda g: (g.sum() - g) / (len(g) - 1),
    "the sign is turned round": lambda g: (g.sum() - g) / (len(g) - 1) - g,
    "nothing is subtracted": lambda g: g,
    "the own return is taken off the mean, not out of it": lambda g: g - (g.mean() - g),
    "the sum of the others, not their mean": lambda g: g - (g.sum() - g),
    "compared with one other, not with all the others": [
        lambda g: g - g.roll(1),
        lambda g: g - torch.cat([g[1:2], g[:1].expand(len(g) - 1)]),
    ],
    "divided by the spread": lambda g: (g - g.mean()) / g.std(correction=0),
}


# --- hunt-perfect-baseline


def loop_over_states(states, actions, returns):
    out = returns.clone()
    for s in states.unique():
        out[states == s] -= returns[states == s].mean()
    return out


def matrix_of_visits(states, actions, returns):
    same = (states[:, None] == states[None, :]).float()
    return returns - same @ returns / same.sum(1)


def the_others_of_the_state(states, actions, returns):
    same = (states[:, None] == states[None, :]).float() - torch.eye(len(states))
    return returns - same @ returns / same.sum(1)


def by_key(keys, returns):
    same = (keys[:, None] == keys[None, :]).float()
    return same @ returns / same.sum(1)


def no_visits(states, actions, returns):
    visits, totals = torch.zeros(10), torch.zeros(10)
    visits.index_add_(0, states, torch.ones_like(returns))
    totals.index_add_(0, states, returns)
    return returns - F.one_hot(states, 10).float() @ (totals / visits)


RIGHT["hunt-perfect-baseline"] = [loop_over_states, matrix_of_visits, the_others_of_the_state]
WRONG["hunt-perfect-baseline"] = {
    "the baseline still sees the action": lambda s, a, g: g - by_key(10 * s + a, g),
    "no baseline is left": lambda s, a, g: g,
    "the baseline has forgotten the state": lambda s, a, g: g - g.mean(),
    "the sign is turned round": lambda s, a, g: by_key(s, g) - g,
    "a division by zero visits": no_visits,
}


# --- best-baseline


def closed_form(probs, rewards):
    own, other = (
        probs * (1 - probs) ** 2,
        probs**2,
    )  # what pulls of arm k, and of the others, weigh for logit k
    everyone = other * ((probs * rewards).sum() - probs * rewards)
    return (own * rewards + everyone) / (own + other * (1 - probs))


def minimised(probs, rewards):
    p, r = probs.double().numpy(), rewards.double().numpy()
    squares = (np.eye(len(p)) - p) ** 2
    low, high = np.full(len(p), r.min()), np.full(len(p), r.max())
    for _ in range(200):
        left, right_ = low + (high - low) / 3, high - (high - low) / 3
        at_left, at_right = (p @ ((r[:, None] - b) ** 2 * squares) for b in (left, right_))
        low, high = np.where(at_left < at_right, low, left), np.where(at_left < at_right, right_, high)
    return (low + high) / 2


def squared(probs):
    return (torch.eye(len(probs)) - probs) ** 2


RIGHT["best-baseline"] = [closed_form, minimised]
WRONG["best-baseline"] = {
    "the expected reward": lambda p, r: (p @ r).expand(len(p)),
    "every arm counted alike": lambda p, r: r.mean().expand(len(p)),
    "one baseline for all logits": lambda p, r: (
        (p * squared(p).sum(1)) @ r / (p @ squared(p).sum(1))
    ).expand(len(p)),
    "weighed by the size of the score, not by its square": lambda p, r: (
        (p * r) @ squared(p).sqrt() / (p @ squared(p).sqrt())
    ),
    "the policy's own weights are missing": lambda p, r: r @ squared(p) / squared(p).sum(0),
    "the weights do not add up to one": lambda p, r: (p * r) @ squared(p),
    "the rewards are squared too": lambda p, r: (p * r**2) @ squared(p) / (p @ squared(p)),
}


# --- what only the last property refuses


def of_states(count, *, least=1):
    def function(states, actions, returns):
        visits, totals = torch.zeros(count), torch.zeros(count)
        states = states.clamp(max=count - 1)
        visits.index_add_(0, states, torch.ones_like(returns))
        totals.index_add_(0, states, returns)
        return returns - (totals / visits.clamp(min=least))[states]

    return function


def leave_out_by_value(returns):
    return torch.stack([g - returns[returns != g].mean() if (returns != g).any() else 0 * g for g in returns])


def median_of_the_others(returns):
    return torch.stack(
        [g - torch.cat([returns[:i], returns[i + 1 :]]).median() for i, g in enumerate(returns)]
    )


def zeros_are_no_visits(states, actions, returns):
    return returns - by_key(states, returns) * by_key(states, torch.ones_like(returns)) / by_key(
        states, (returns != 0).float()
    ).clamp(min=1e-9)


UNNAMED["leave-one-out"] = [
    *(leave_out_by_value, median_of_the_others, lambda g: g - g.median(), lambda g: g / g.mean()),
    *(lambda g: (g - g.mean()) * 4 / 3, lambda g: (g - g.mean()) * len(g) / min(len(g) - 1, 10)),
]
UNNAMED["hunt-perfect-baseline"] = [
    *(of_states(4), of_states(2), of_states(50), of_states(10, least=2), zeros_are_no_visits),
    lambda s, a, g: g - by_key(s, g) * (a.max() < 10),
]
UNNAMED["best-baseline"] = [
    lambda p, r: closed_form(p, r) + 1e-2 * (r - r.mean()),
    lambda p, r: closed_form(p.clamp(min=0.01) / p.clamp(min=0.01).sum(), r),
    lambda p, r: closed_form(p, r) if p.max() < 0.97 else (p @ r).expand_as(p),
]
