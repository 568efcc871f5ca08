"""Advantages and targets with bugs, and without."""

from __future__ import annotations

import itertools

import numpy as np
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def norm(x):
    return (x - x.mean()) / (x.std() + 1e-8)


def made(
    runs_on=False,
    dead=False,
    targets=lambda raw, values: raw + values,
    future=False,
    late=False,
    shown=norm,
    decay=None,
):
    def function(rewards, values, last_value, terminated, gamma, lam):
        raw, later = np.zeros(len(rewards)), 0.0
        ends = np.append(terminated[1:], False) if late else terminated
        for t in reversed(range(len(rewards))):
            ahead = (0.0 if dead else last_value) if t + 1 == len(rewards) else values[t + 1]
            goes_on = 1.0 - ends[t]
            delta = rewards[t] + gamma * ahead * (1.0 if future else goes_on) - values[t]
            later = delta + (gamma * lam if decay is None else decay) * later * (1.0 if runs_on else goes_on)
            raw[t] = later
        return shown(raw), targets(raw, values)

    return function


def by_episodes(rewards, values, last_value, terminated, gamma, lam):
    following = np.append(values[1:], last_value)
    errors = rewards + gamma * np.where(terminated, 0.0, following) - values
    cuts = [0, *(np.flatnonzero(terminated) + 1), len(errors)]
    raw = np.concatenate(
        [
            [sum((gamma * lam) ** k * x for k, x in enumerate(part[t:])) for t in range(len(part))]
            for part in (errors[a:b] for a, b in itertools.pairwise(cuts))
        ]
    )
    return [norm(raw), raw + values]


RIGHT["final-debug"] = [made(), by_episodes]
WRONG["final-debug"] = {
    "all three bugs are still there": made(runs_on=True, dead=True, targets=lambda raw, v: norm(raw) + v),
    "two bugs are still there": [
        made(runs_on=True, dead=True),
        made(runs_on=True, targets=lambda raw, v: norm(raw) + v),
        made(dead=True, targets=lambda raw, v: norm(raw) + v),
    ],
    "the sum runs on across an end": made(runs_on=True),
    "the rollout's last step has no future": made(dead=True),
    "the targets are made of normalized advantages": made(targets=lambda raw, v: norm(raw) + v),
    "a finished episode is given a future": made(future=True),
    "the flags are read one step late": made(late=True),
    "the advantages are not normalized": made(shown=lambda raw: raw),
    "the targets are normalized, too": made(targets=lambda raw, v: norm(raw + v)),
    "the targets lack the values": [made(targets=lambda raw, v: raw), made(targets=lambda raw, v: norm(raw))],
    "the sum does not look further than a step": made(decay=0.0),
}
UNNAMED["final-debug"] = [
    made(shown=lambda raw: (raw - raw.mean()) / (raw.std(ddof=1) + 1e-8)),
    made(decay=0.45),
    made(shown=lambda raw: raw / raw.std()),
]
