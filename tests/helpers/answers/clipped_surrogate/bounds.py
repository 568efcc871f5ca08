"""Right and wrong answers about a lower bound, and about a clip range and its KL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


RIGHT["lower-bound"] = [
    lambda: [[1.0, 0.0], [0.3, 0.7], [0.6, 0.4]],
    lambda: torch.tensor([[0.7, 0.3], [0.25, 0.75], [1.0, 0.0]]),
    lambda: np.array([[0.95, 0.05], [0.0, 1.0], [0.7, 0.3]]),
]
WRONG["lower-bound"] = {
    "the old policy, unchanged": lambda: [[0.1, 0.9], [0.5, 0.5], [0.5, 0.5]],
    "the promise is kept": [
        lambda: [[0.1, 0.9], [0.6, 0.4], [0.6, 0.4]],
        lambda: [[0.1, 0.9], [0.4, 0.6], [0.6, 0.4]],
    ],
    "nothing was promised": [
        lambda: [[0.1, 0.9], [0.4, 0.6], [0.4, 0.6]],
        lambda: [[0.1, 0.9], [1.0, 0.0], [0.4, 0.6]],
    ],
}


def bounds(
    *,
    forward: Callable[..., float] = lambda e, h: -(h * np.log(1 - e) + e * np.log(1 + h)) / (e + h),
    backward: Callable[..., float] = lambda e, h: (
        (h * (1 - e) * np.log(1 - e) + e * (1 + h) * np.log(1 + h)) / (e + h)
    ),
    single: Callable[..., float] = lambda e, h: max(-e - np.log(1 - e), h - np.log(1 + h)),
    swap: bool = False,
    unit: float = 1.0,
) -> Callable[..., Any]:
    def function(eps, eps_high):
        two = forward(eps, eps_high), backward(eps, eps_high)
        return tuple(unit * x for x in (*(two[::-1] if swap else two), single(eps, eps_high)))

    return function


def in_torch_with_two_actions(eps, eps_high):
    r = torch.tensor([1 - eps, 1 + eps_high], dtype=torch.float64)
    old = torch.tensor([eps_high, eps], dtype=torch.float64) / (eps + eps_high)
    kl = torch.distributions.kl_divergence
    p, q = torch.distributions.Categorical(old), torch.distributions.Categorical(old * r)
    return torch.stack([kl(p, q), kl(q, p), (r - 1 - r.log()).max()])


def by_chords(eps, eps_high):
    def chord(f):
        low, high = f(1 - eps), f(1 + eps_high)
        return low + (high - low) * eps / (eps + eps_high)

    return [
        chord(lambda r: -np.log(r)),
        chord(lambda r: r * np.log(r)),
        np.max([r - 1 - np.log(r) for r in (1 - eps, 1 + eps_high)]),
    ]


def in_float32(eps, eps_high):
    r, old = torch.tensor([1 - eps, 1 + eps_high]), torch.tensor([eps_high, eps]) / (eps + eps_high)
    return (old * -r.log()).sum(), (old * r * r.log()).sum(), (r - 1 - r.log()).max()


RIGHT["eps-kl"] = [bounds(), in_torch_with_two_actions, by_chords, in_float32]
WRONG["eps-kl"] = {
    "in bits, not in nats": bounds(unit=1 / np.log(2)),
    "every ratio at the same end of the clip range": [
        bounds(forward=lambda e, h: -np.log(1 - e)),
        bounds(forward=lambda e, h: np.log(1 + h)),
        bounds(backward=lambda e, h: (1 + h) * np.log(1 + h)),
    ],
    "the weights of the two ends are exchanged": bounds(
        forward=lambda e, h: -(e * np.log(1 - e) + h * np.log(1 + h)) / (e + h)
    ),
    "the approximation, not the bound": bounds(forward=lambda e, h: e * h / 2),
    "the two directions are exchanged": bounds(swap=True),
    "the wrong end of the clip range for a sample": bounds(single=lambda e, h: h - np.log(1 + h)),
    "the larger end of the clip range is not always the lower one": bounds(
        single=lambda e, h: -e - np.log(1 - e)
    ),
    "the sample's KL in the other direction": bounds(single=lambda e, h: (1 - e) * np.log(1 - e) + e),
    "the upper end does not come in": lambda e, h: bounds()(e, e),
    "both ends weighed alike": bounds(forward=lambda e, h: -(np.log(1 - e) + np.log(1 + h)) / 2),
}
UNNAMED["eps-kl"] = [
    bounds(
        single=lambda e, h: max(-e - np.log(1 - e), h - np.log(1 + h)) if h < 1 else h - np.log(1 + h) + 0.1
    ),
    bounds(backward=lambda e, h: (1 - e) * np.log(1 - e) / 2 + (1 + h) * np.log(1 + h) / 2 if e > h else 1.0),
    lambda e, h: bounds()(round(e, 1), h),
]
