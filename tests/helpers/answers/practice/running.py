"""Answers to the exercises on settings, alarms and seeds."""

from __future__ import annotations

import hashlib
import itertools
import math
import random

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- sb3-settings


def settings(size=None, weight=lambda c: c / 2, steps=None):
    def function(num_envs, num_steps, num_minibatches, epochs, value_coef, total_steps):
        rollout = num_envs * num_steps
        updates = math.ceil(total_steps / rollout)
        given = {
            "envs": num_envs,
            "length": num_steps,
            "rollout": rollout,
            "parts": num_minibatches,
            "epochs": epochs,
            "updates": updates,
            "total": total_steps,
        }
        batch = rollout // num_minibatches if size is None else size(given)
        taken = updates * epochs * num_minibatches if steps is None else steps(given)
        return batch, taken, weight(value_coef)

    return function


def by_loops(num_envs, num_steps, num_minibatches, epochs, value_coef, total_steps):
    played, taken = 0, 0
    while played < total_steps:
        played += num_envs * num_steps
        for _epoch in range(epochs):
            for _minibatch in range(num_minibatches):
                taken += 1
    return np.array([num_envs * num_steps / num_minibatches, taken, 0.5 * value_coef])


RIGHT["sb3-settings"] = [
    settings(),
    by_loops,
    settings(
        size=lambda g: int(g["rollout"] / g["parts"]),
        steps=lambda g: -(-g["total"] // g["rollout"]) * g["epochs"] * g["parts"],
    ),
]
WRONG["sb3-settings"] = {
    "a count is given as a size": settings(size=lambda g: g["parts"]),
    "the steps of one environment": settings(size=lambda g: g["length"] // g["parts"]),
    "the whole rollout is one minibatch": [
        settings(size=lambda g: g["rollout"]),
        settings(size=lambda g: g["length"]),
    ],
    "the value loss keeps its weight": settings(weight=lambda c: c),
    "the weight is doubled": settings(weight=lambda c: 2 * c),
    "the weight does not depend on value_coef": [
        settings(weight=lambda c: 0.5),
        lambda *args: (64, 1600, 0.5),
    ],
    "it stops after a minibatch, not a rollout": [
        settings(steps=lambda g: math.ceil(g["total"] / (g["rollout"] // g["parts"])) * g["epochs"]),
        settings(steps=lambda g: g["total"] // (g["rollout"] // g["parts"]) * g["epochs"]),
    ],
    "the epochs are not counted": settings(steps=lambda g: g["updates"] * g["parts"]),
    "the minibatches are not counted": settings(steps=lambda g: g["updates"] * g["epochs"]),
    "only rollouts are counted": settings(steps=lambda g: g["updates"]),
    "the last rollout is left out": settings(
        steps=lambda g: g["total"] // g["rollout"] * g["epochs"] * g["parts"]
    ),
    "a part of a rollout is counted": settings(
        steps=lambda g: g["total"] / g["rollout"] * g["epochs"] * g["parts"]
    ),
    "rollouts of one environment": [
        settings(steps=lambda g: math.ceil(g["total"] / g["length"]) * g["epochs"] * g["parts"]),
        settings(steps=lambda g: g["total"] // g["length"] * g["epochs"] * g["parts"]),
    ],
}
UNNAMED["sb3-settings"] = [
    settings(size=lambda g: g["length"] // g["parts"] * g["envs"]),
    settings(steps=lambda g: (g["total"] // g["rollout"] + 1) * g["epochs"] * g["parts"]),
    settings(steps=lambda g: g["updates"] * 80),
]


# --- first-alarm


def alarm(
    above=lambda x, limit: not x <= limit,
    patience=lambda p: p,
    none=-1,
    shift=0,
    at="start",
    reset=True,
):
    def function(gauge, limit, asked):
        streak, first = 0, None
        for update, x in enumerate(gauge):
            if above(x, limit):
                first = update if streak == 0 or first is None else first
                streak += 1
                if streak == patience(asked):
                    return (first if at == "start" else update) + shift
            elif reset:
                streak = 0
        return none(gauge) if callable(none) else none

    return function


def by_windows(gauge, limit, patience):
    high = ~(np.asarray(gauge) <= limit)
    if len(high) < patience:
        return -1
    windows = np.lib.stride_tricks.sliding_window_view(high, patience).all(1)
    return int(windows.argmax()) if windows.any() else -1


def by_groups(gauge, limit, patience):
    where = 0
    for high, group in itertools.groupby(gauge, key=lambda x: x > limit or x != x):
        size = len(list(group))
        if high and size >= patience:
            return where
        where += size
    return -1


def counted(gauge, limit, patience):
    """The third update above, wherever the first two were."""
    found = [i for i, x in enumerate(gauge) if not x <= limit]
    return found[patience - 1] if len(found) >= patience else -1


RIGHT["first-alarm"] = [alarm(), by_windows, by_groups]
WRONG["first-alarm"] = {
    "a single spike sets it off": alarm(patience=lambda p: 1),
    "two in a row are enough": alarm(patience=lambda p: max(1, p - 1)),
    "counted, but not in a row": counted,
    "updates are counted from 1": alarm(shift=1),
    "the update after the alarm": alarm(at="end", shift=1),
    "the last of the updates": alarm(at="end"),
    "no alarm is an update": [alarm(none=0), alarm(none=len)],
    "it watches the wrong side": alarm(above=lambda x, limit: not x >= limit),
    "nan is no alarm": [
        alarm(above=lambda x, limit: x > limit),
        lambda gauge, limit, patience: by_windows(
            np.nan_to_num(gauge, nan=np.nanmax(gauge)), limit, patience
        ),
    ],
    "an alarm at update 0 is taken for none": lambda gauge, limit, patience: (
        by_windows(gauge, limit, patience) or -1
    ),
}
UNNAMED["first-alarm"] = [
    lambda gauge, limit, patience: next(
        (
            t
            for t in range(0, len(gauge) - patience + 1, patience)
            if (~(np.asarray(gauge, float) <= limit))[t : t + patience].all()
        ),
        -1,
    ),
    alarm(above=lambda x, limit: not x < limit),
    lambda gauge, limit, patience: by_windows(gauge[:-1], limit, patience),
    lambda gauge, limit, patience: by_windows(gauge, limit, 3),
    lambda gauge, limit, patience: by_windows(gauge, 0.1, patience),
    lambda gauge, limit, patience: by_windows(np.abs(gauge), limit, patience),
    lambda gauge, limit, patience: by_windows(np.nan_to_num(gauge, nan=1.0), limit, patience),
    alarm(above=lambda x, limit: (x > limit and x < math.inf) or x != x),
]


# --- hunt-seeds


def spawned(seed, num_envs):
    return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(num_envs)]


def drawn(seed, num_envs):
    return np.random.default_rng(seed).integers(2**31, size=num_envs)


def hashed(seed, num_envs):
    return [int(hashlib.sha256(f"{seed}/{i}".encode()).hexdigest()[:12], 16) for i in range(num_envs)]


def far_apart(seed, num_envs):
    return [seed * 1_000_000 + i for i in range(num_envs)]


RIGHT["hunt-seeds"] = [
    spawned,
    drawn,
    hashed,
    far_apart,
    lambda seed, n: torch.tensor([seed * 2**32 + i for i in range(n)]),
    lambda seed, n: [(seed + i) * (seed + i + 1) // 2 + i for i in range(n)],
    lambda seed, n: [random.Random(f"{seed} {i}").getrandbits(31) for i in range(n)],
]
WRONG["hunt-seeds"] = {
    "a seed is no integer from 0 on": [
        lambda seed, n: np.random.default_rng(seed).random(n),
        lambda seed, n: [-i - 1000 * seed for i in range(n)],
        lambda seed, n: np.floor(2**31 * np.random.default_rng(seed).random(n)),
    ],
    "every call is another run": lambda seed, n: [random.randrange(2**31) for _ in range(n)],
    "all environments are the same": lambda seed, n: [seed] * n,
    "the run's seed makes no difference": lambda seed, n: list(range(n)),
    "two runs share environments": [
        lambda seed, n: [seed + i for i in range(n)],
        lambda seed, n: [2 * seed + i for i in range(n)],
    ],
    "runs of different sizes share environments": lambda seed, n: [seed * n + i for i in range(n)],
    "two runs far apart share environments": [
        lambda seed, n: [seed + 1_000_000 * i for i in range(n)],
        lambda seed, n: [seed + 7919 * i for i in range(n)],
        lambda seed, n: seed + 2**16 * np.arange(n),
        lambda seed, n: [seed + 100_003 * (i + 1) for i in range(n)],
    ],
    "many environments run into the next seed": lambda seed, n: [100 * seed + i for i in range(n)],
}
UNNAMED["hunt-seeds"] = [
    lambda seed, n: np.random.default_rng(seed).integers(0, 10_000, n).tolist(),
    lambda seed, n: [seed * 1_000_000 + i % 512 for i in range(n)],
    lambda seed, n: [(seed % 16) * 1_000_000 + i for i in range(n)],
]
