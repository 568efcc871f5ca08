"""Checks of chapter 4's exercises, generalized advantage estimation.

Advantages are linear in the rewards and in the values. So most probes are a single 1 among zeros, a reward or
a value: what it adds to each step says which factors and which masks a reader's function has, and each such
number can be worked out with a pencil.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from .. import Chapter

CHAPTER = Chapter(
    4,
    "Generalized advantage estimation (GAE)",
    {
        "sec-gae-problem": "Two learners that differ in one number",
        "sec-gae-values": "What a state is worth",
        "sec-gae-discount": "Why discount at all?",
        "sec-gae-td": "The TD error",
        "sec-gae-nstep": "Some rewards, then the critic",
        "sec-gae-lambda": "GAE: the average of all n-step advantages",
        "sec-gae-ends": "Three ways to stop",
        "sec-gae-code": "The code",
    },
)


def in_numpy(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The reader's function as it is meant to be called, with arrays in float64 where tensors come."""

    def plain(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return (value.double() if value.is_floating_point() else value).numpy()

    return lambda *args: answer(*map(plain, args))


def weighted_average(
    rewards: Sequence[float], following: Sequence[float], value: float, gamma: float, lam: float
) -> float:
    """GAE of the first step of a segment, from its meaning: each n-step advantage by itself, and its weight.

    following[k] is the value of what followed step k, 0 after a termination; the segment ends where its last
    step does.
    """
    total, earned, left = 0.0, 0.0, 1.0
    for n in range(1, len(rewards) + 1):
        earned += gamma ** (n - 1) * rewards[n - 1]
        weight = left if n == len(rewards) else left * (1 - lam)
        total += weight * (earned + gamma**n * following[n - 1] - value)
        left -= weight
    return total


def flags(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw where episodes end: another density in each row, none in one, and few in a long row."""
    density = rng.choice([0, 0.1, 0.3, 0.7] if shape[-1] < 20 else [0, 0.02], size=(*shape[:-1], 1))
    return np.asarray(rng.random(shape) < density)
