"""Right and wrong answers to what chapter 3 has filled in by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

from .losses import by_cases, flat_where

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


UP = (0.5, 0.8, 1.1, 1.2, 1.5)
DOWN = (0.5, 0.8, 1.0, 1.2, 1.5)


def table(
    ratios: tuple[float, ...],
    advantage: float,
    *,
    clip: Callable[[float], float] = lambda r: min(max(r, 0.8), 1.2),
    product: Callable[[float, float], float] | None = None,
    least: Callable[[float, float], float] = min,
    flat: Callable[[float, float, float], bool] = lambda r, plain, least: least < plain - 1e-9,
    plain: Callable[[float, float], float] = lambda r, a: r * a,
) -> Callable[[], dict[float, tuple[Any, ...]]]:
    """A reader's table, computed with one part done wrongly."""

    def function():
        rows = {}
        for r in ratios:
            first, second = plain(r, advantage), clip(r)
            third = second * advantage if product is None else product(r, advantage)
            fourth = least(first, third)
            rows[r] = (first, second, third, fourth, flat(r, first, fourth))
        return rows

    return function


for name, ratios, advantage in (("clip-table-up", UP, 1.0), ("clip-table-down", DOWN, -1.0)):
    made = table(ratios, advantage)
    up = advantage > 0
    RIGHT[name] = [
        made,
        lambda made=made: [(r, *row) for r, row in made().items()],
        lambda made=made: [[*row[:4], "yes" if row[4] else "no"] for row in made().values()],
        lambda made=made: np.array([[float(x) for x in row] for row in made().values()]),
        lambda made=made: {
            round(r, 1): tuple(np.float32(x) for x in row[:4]) + row[4:] for r, row in made().items()
        },
        lambda made=made: {r: (*row[:4], "y" if row[4] else "n") for r, row in made().items()},
        lambda made=made: {r: (*row[:4], torch.tensor(row[4])) for r, row in made().items()},
        lambda made=made: {r: torch.tensor(row) for r, row in made().items()},
        lambda made=made: {r: (*row[:4], np.bool_(row[4])) for r, row in made().items()},
    ]
    WRONG[name] = {
        "clipped on one side only": [
            table(ratios, advantage, clip=lambda r: min(r, 1.2)),
            table(ratios, advantage, clip=lambda r: max(r, 0.8)),
        ],
        "the column clip(r) is r itself": table(ratios, advantage, clip=lambda r: r),
        "flat and not flat are exchanged": table(
            ratios, advantage, flat=lambda r, plain, least: not least < plain - 1e-9
        ),
        "the clip without the minimum": table(ratios, advantage, least=lambda a, b: b),
        "the clip never counts": table(ratios, advantage, least=lambda a, b: a),
        "nothing is flat": table(ratios, advantage, flat=lambda *_: False),
        "everything is flat": table(ratios, advantage, flat=lambda *_: True),
        "flat is not the same as outside the clip range": table(
            ratios, advantage, flat=lambda r, *_: not 0.79 < r < 1.21
        ),
        "flat on the wrong side": table(
            ratios, advantage, flat=lambda r, *_, up=up: r < 0.79 if up else r > 1.21
        ),
        "the knee itself is called flat": table(
            ratios, advantage, flat=lambda r, *_, up=up: r > 1.19 if up else r < 0.81
        ),
    }

# A clip of another width: what is past its knees is not the knee.
UNNAMED["clip-table-up"] = [table(UP, 1.0, clip=lambda r: min(max(r, 0.9), 1.1))]

WRONG["clip-table-up"] |= {
    "an end of the clip range that is no knee here": table(UP, 1.0, flat=lambda r, *_: r > 1.21 or r == 0.8),
    "the larger of the two": table(UP, 1.0, least=max),
}
WRONG["clip-table-down"] |= {
    "an end of the clip range that is no knee here": table(
        DOWN, -1.0, flat=lambda r, *_: r < 0.79 or r == 1.2
    ),
    "the smaller in size, not the smaller number": table(DOWN, -1.0, least=lambda a, b: min(a, b, key=abs)),
    "the clip is put on the product": table(
        DOWN, -1.0, clip=lambda r: min(max(r, 0.8), 1.2), product=lambda r, a: min(max(r * a, 0.8), 1.2)
    ),
    "the sign of the advantage is lost": table(
        DOWN, -1.0, plain=lambda r, a: r, product=lambda r, a: min(max(r, 0.8), 1.2)
    ),
    "−0.8 is taken for a floor": table(
        DOWN, -1.0, least=lambda a, b: max(a, -0.8), flat=lambda r, *_: r > 0.81
    ),
}


# --- hunt-minmax

CASES = ((0.5, 1), (1.5, 1), (0.5, -1), (1.5, -1))


def columns(suspicious, healthy):
    return lambda: dict(zip(CASES, zip(suspicious, healthy, strict=True), strict=True))


RIGHT["hunt-minmax"] = [
    columns((0, 1, -1, 0), (1, 0, 0, -1)),
    lambda: [(0.0, 1.0), (1.0, 0.0), (-1.0, 0.0), (0.0, -1.0)],
    lambda: np.array([[0, 1], [1, 0], [-1, 0], [0, -1]]),
    lambda: torch.tensor([[0, 1], [1, 0], [-1, 0], [0, -1]]),
    lambda: {k: torch.tensor(row) for k, row in columns((0, 1, -1, 0), (1, 0, 0, -1))().items()},
]
WRONG["hunt-minmax"] = {
    "the two columns are exchanged": columns((1, 0, 0, -1), (0, 1, -1, 0)),
    "the slopes of the loss, not of the objective": columns((0, -1, 1, 0), (-1, 0, 0, 1)),
    "the values, not the slopes": [
        columns((0.8, 1.5, -0.5, -1.2), (0.5, 1.2, -0.8, -1.5)),
        columns((-0.8, -1.5, 0.5, 1.2), (1, 0, 0, -1)),
    ],
    "the slope by log π, not by r": columns((0, 1.5, -0.5, 0), (0.5, 0, 0, -1.5)),
    "the same in both": columns((1, 0, 0, -1), (1, 0, 0, -1)),
    "flat is not the same as outside the clip range": [
        columns((0, 1, -1, 0), (0, 0, 0, 0)),
        columns((0, 0, 0, 0), (1, 0, 0, -1)),
    ],
    "nothing is flat": columns((1, 1, -1, -1), (1, 0, 0, -1)),
    "the sign of the advantage is lost": columns((0, 1, 1, 0), (1, 0, 0, 1)),
}
UNNAMED["hunt-minmax"] = [
    columns((0, 1, -1, 0), (1, 0, 0, -1.5)),
    columns((0, 1, 0, 0), (1, 0, 0, -1)),
    columns((0, -1, 1, 0), (1, 0, 0, -1)),
    columns((0, 1, -1, 0), (0, 0, 0, -1)),
]


# --- ratio-one


def by_autograd(ratio, advantages, eps):
    log_ratio = ratio.log().requires_grad_()
    r = log_ratio.exp()
    total = torch.minimum(r * advantages, r.clamp(1 - eps, 1 + eps) * advantages).sum()
    return torch.autograd.grad(total, log_ratio)[0]


def one_at_a_time(ratio, advantages, eps):
    out = []
    for r, a in zip(ratio.tolist(), advantages.tolist(), strict=True):
        done = r > 1 + eps if a > 0 else r < 1 - eps
        out.append(0.0 if done else r * a)
    return np.array(out)


RIGHT["ratio-one"] = [by_autograd, one_at_a_time]
WRONG["ratio-one"] = {
    "the weights of the loss, not of the objective": lambda r, a, eps: (
        -torch.where(flat_where(r, a, eps), 0.0, r * a)
    ),
    "averaged already": lambda r, a, eps: torch.where(flat_where(r, a, eps), 0.0, r * a) / len(r),
    "the slope by r, not by θ": lambda r, a, eps: torch.where(flat_where(r, a, eps), 0.0, a),
    "nothing is flat": [lambda r, a, eps: r * a, lambda r, a, eps: a],
    "the value, not the slope": [
        lambda r, a, eps: by_cases(r, a, eps),
        lambda r, a, eps: r.clamp(1 - eps, 1 + eps) * a,
    ],
    "flat is not the same as outside the clip range": lambda r, a, eps: torch.where(
        (r - 1).abs() > eps, 0.0, r * a
    ),
    "flat on the wrong side": lambda r, a, eps: torch.where(flat_where(r, -a, eps), 0.0, r * a),
    "the sign of the advantage is not asked for": lambda r, a, eps: torch.where(r > 1 + eps, 0.0, r * a),
    "nothing pushes inside the clip range": lambda r, a, eps: torch.where(
        r * a < r.clamp(1 - eps, 1 + eps) * a, r * a, 0.0
    ),
    "flat for one sign of the advantage only": [
        lambda r, a, eps: torch.where((a > 0) & (r > 1 + eps), 0.0, r * a),
        lambda r, a, eps: torch.where((a < 0) & (r < 1 - eps), 0.0, r * a),
    ],
    "eps is not used": lambda r, a, eps: torch.where(flat_where(r, a, 0.2), 0.0, r * a),
    "the knee itself is called flat": lambda r, a, eps: torch.where(
        ((a > 0) & (r >= 1 + eps)) | ((a < 0) & (r <= 1 - eps)), 0.0, r * a
    ),
}
UNNAMED["ratio-one"] = [
    lambda r, a, eps: torch.where(flat_where(r, a, eps), 0.0, r * a.clamp(-3, 3)),
    lambda r, a, eps: torch.where((r - 1) * a > eps, 0.0, r * a),
    lambda r, a, eps: torch.where(flat_where(r, a, eps), 0.0, r.clamp(max=3.5) * a),
    lambda r, a, eps: torch.where(flat_where(r, a, eps), 0.0, r**0.99 * a),
    lambda r, a, eps: torch.where(flat_where(r, a, eps), 0.0, r.clamp(max=20) * a),
    lambda r, a, eps: torch.where(flat_where(r, a, eps + 0.003), 0.0, r * a),
    lambda r, a, eps: torch.where(flat_where(r, a, eps) | (a.abs() < 1e-3), 0.0, r * a),
    *(
        lambda r, a, eps, low=low: torch.where(
            ((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < low(eps))), 0.0, r * a
        )
        for low in (lambda eps: 1 / (1 + eps), lambda eps: np.exp(-eps), lambda eps: max(1 - eps, 0.5))
    ),
]
