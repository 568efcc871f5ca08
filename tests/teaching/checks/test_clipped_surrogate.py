"""The checks of chapter 3's exercises: answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the tables that they print.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from checks import CheckTests, Exercises, Right, Wrong

from ppobook.course import masters
from ppobook.teaching import checks
from ppobook.teaching.checks import clipped_surrogate

EXERCISES = Exercises("03_the_clipped_surrogate")
RIGHT: Right = {}
WRONG: Wrong = {}


# --- the tables

UP = (0.5, 0.8, 1.0, 1.1, 1.2, 1.3, 1.5, 2.0)
DOWN = (0.5, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0)


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
        "flat is not the same as outside the box": table(
            ratios, advantage, flat=lambda r, *_: not 0.79 < r < 1.21
        ),
        "flat on the wrong side": table(
            ratios, advantage, flat=lambda r, *_, up=up: r < 0.79 if up else r > 1.21
        ),
        "the knee itself is called flat": table(
            ratios, advantage, flat=lambda r, *_, up=up: r > 1.19 if up else r < 0.81
        ),
    }

WRONG["clip-table-up"] |= {
    "r = 0.8 is no knee here": table(UP, 1.0, flat=lambda r, *_: r > 1.21 or r == 0.8),
    "the larger of the two": table(UP, 1.0, least=max),
}
WRONG["clip-table-down"] |= {
    "r = 1.2 is no knee here": table(DOWN, -1.0, flat=lambda r, *_: r < 0.79 or r == 1.2),
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


# --- the clipped loss, in NumPy and in torch


def in_numpy(
    *,
    ratio: Callable[..., Any] = lambda new, old: np.exp(new - old),
    term: Callable[..., Any] = lambda r, a, eps: np.minimum(r * a, np.clip(r, 1 - eps, 1 + eps) * a),
    reduce: Callable[..., Any] = np.mean,
    sign: float = -1.0,
) -> Callable[..., Any]:
    return lambda logp, old, a, eps: sign * reduce(term(ratio(logp, old), a, eps))


def step_by_step(logp, old_logp, advantages, eps):
    total = 0.0
    for new, old, a in zip(logp, old_logp, advantages, strict=True):
        r = np.exp(new - old)
        if a >= 0:
            total += a * min(r, 1 + eps)
        else:
            total += a * max(r, 1 - eps)
    return -total / len(logp)


def mean_of_what_pushes(logp, old_logp, advantages, eps):
    r = np.exp(logp - old_logp)
    kept = ~(((advantages > 0) & (r > 1 + eps)) | ((advantages < 0) & (r < 1 - eps)))
    return -np.sum((r * advantages)[kept]) / kept.sum() if kept.any() else np.nan


def in_torch(
    *,
    ratio: Callable[..., Any] = lambda new, old: (new - old).exp(),
    term: Callable[..., Any] = lambda r, a, eps: torch.minimum(r * a, r.clamp(1 - eps, 1 + eps) * a),
    reduce: Callable[..., Any] = torch.mean,
    sign: float = -1.0,
    keep_old: bool = False,
    keep_worth: bool = False,
    cut: bool = False,
) -> Callable[..., Any]:
    def function(logp, old_logp, advantages, eps=0.2):
        old = old_logp if keep_old else old_logp.detach()
        worth = advantages if keep_worth else advantages.detach()
        r = ratio(logp.detach() if cut else logp, old)
        return sign * reduce(term(r, worth, eps))

    return function


def by_cases(r, a, eps):
    return torch.where(a > 0, r.clamp(max=1 + eps), r.clamp(min=1 - eps)) * a


def by_mask(r, a, eps):
    flat = ((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < 1 - eps))
    return r * a * ~flat + (1 + eps * a.sign()) * a * flat


RIGHT["clipped-loss-numpy"] = [
    step_by_step,
    in_numpy(term=lambda r, a, eps: np.where(a > 0, np.minimum(r, 1 + eps), np.maximum(r, 1 - eps)) * a),
    lambda new, old, a, eps: (
        np.maximum(-np.exp(new - old) * a, -np.clip(np.exp(new - old), 1 - eps, 1 + eps) * a).sum() / a.size
    ),
    in_numpy(
        term=lambda r, a, eps: (
            np.minimum(r, np.exp(np.clip(np.log(r), np.log(1 - eps), np.log(1 + eps)))) * a
            if (a > 0).all()
            else np.minimum(r * a, np.exp(np.clip(np.log(r), np.log(1 - eps), np.log(1 + eps))) * a)
        )
    ),
]
WRONG["clipped-loss-numpy"] = {
    "min and max swapped": in_numpy(
        term=lambda r, a, eps: np.maximum(r * a, np.clip(r, 1 - eps, 1 + eps) * a)
    ),
    "the clip without the minimum": in_numpy(term=lambda r, a, eps: np.clip(r, 1 - eps, 1 + eps) * a),
    "nothing is clipped": in_numpy(term=lambda r, a, eps: r * a),
    "the minimum is taken of the ratios": in_numpy(
        term=lambda r, a, eps: np.minimum(r, np.clip(r, 1 - eps, 1 + eps)) * a
    ),
    "the clip is put on the product": in_numpy(
        term=lambda r, a, eps: np.minimum(r * a, np.clip(r * a, 1 - eps, 1 + eps))
    ),
    "the clip is put on the advantage": [
        in_numpy(term=lambda r, a, eps: np.minimum(r * a, r * np.clip(a, 1 - eps, 1 + eps))),
        in_numpy(term=lambda r, a, eps: r * np.clip(a, -eps, eps)),
    ],
    "clipped on one side only": [
        in_numpy(term=lambda r, a, eps: np.minimum(r * a, np.clip(r, None, 1 + eps) * a)),
        in_numpy(term=lambda r, a, eps: np.minimum(r * a, np.clip(r, 1 - eps, None) * a)),
    ],
    "the box is around 0, not around 1": [
        in_numpy(term=lambda r, a, eps: np.minimum(r * a, np.clip(r, -eps, eps) * a)),
        in_numpy(term=lambda r, a, eps: np.minimum(r * a, np.clip(r - 1, -eps, eps) * a)),
    ],
    "the two ends of the box are exchanged": in_numpy(
        term=lambda r, a, eps: np.minimum(r * a, np.clip(r, 1 + eps, 1 - eps) * a)
    ),
    "flat is taken for worth nothing": in_numpy(
        term=lambda r, a, eps: r * a * ~(((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < 1 - eps)))
    ),
    "the ratio is always 1": in_numpy(ratio=lambda new, old: np.exp(new - new)),
    "the loss is always the same": [in_numpy(term=lambda r, a, eps: 0 * r), lambda *_: -1.0],
    "eps is not used": in_numpy(term=lambda r, a, eps: np.minimum(r * a, np.clip(r, 0.8, 1.2) * a)),
    "ratio by division": in_numpy(ratio=lambda new, old: new / old),
    "the ratio is upside down": in_numpy(ratio=lambda new, old: np.exp(old - new)),
    "the logarithm of the ratio, not the ratio": in_numpy(ratio=lambda new, old: new - old),
    "a reward, not a loss": in_numpy(sign=1.0),
    "a sum, not a mean": in_numpy(reduce=np.sum),
    "one loss for each step": in_numpy(reduce=lambda x: x),
    "the clip is put on the logarithm": [
        # around what looks right, and around what looks wrong
        in_numpy(term=lambda r, a, eps: np.minimum(r * a, np.exp(np.clip(np.log(r), -eps, eps)) * a)),
        in_numpy(term=lambda r, a, eps: np.minimum(r * a, np.exp(np.clip(np.log(r), 1 - eps, 1 + eps)) * a)),
    ],
    "the mean leaves out what is flat": mean_of_what_pushes,
    "the advantages are centred inside the loss": [
        lambda new, old, a, eps: in_numpy()(new, old, (a - a.mean()) / (a.std() + 1e-8), eps),
        lambda new, old, a, eps: in_numpy()(new, old, a - a.mean(), eps),
    ],
}
RIGHT["clipped-loss"] = [
    in_torch(term=by_cases),
    in_torch(term=by_mask),
    lambda new, old, a, eps=0.2: in_torch()(new.double(), old.double(), a.double(), eps),
    in_torch(term=lambda r, a, eps: torch.max(-r * a, -r.clip(1 - eps, 1 + eps) * a), sign=1.0),
    # The gap is what the plain surrogate promises too much.
    in_torch(term=lambda r, a, eps: r * a - F.relu((r - r.clamp(1 - eps, 1 + eps)) * a)),
]
WRONG["clipped-loss"] = {
    "min and max swapped": [
        in_torch(term=lambda r, a, eps: torch.maximum(r * a, r.clamp(1 - eps, 1 + eps) * a)),
        in_torch(term=lambda r, a, eps: torch.min(-r * a, -r.clamp(1 - eps, 1 + eps) * a), sign=1.0),
    ],
    "the clip without the minimum": in_torch(term=lambda r, a, eps: r.clamp(1 - eps, 1 + eps) * a),
    "nothing is clipped": in_torch(term=lambda r, a, eps: r * a),
    "the minimum is taken of the ratios": in_torch(
        term=lambda r, a, eps: torch.minimum(r, r.clamp(1 - eps, 1 + eps)) * a
    ),
    "the clip is put on the product": in_torch(
        term=lambda r, a, eps: torch.minimum(r * a, (r * a).clamp(1 - eps, 1 + eps))
    ),
    "the clip is put on the advantage": in_torch(
        term=lambda r, a, eps: torch.minimum(r * a, r * a.clamp(1 - eps, 1 + eps))
    ),
    "clipped on one side only": in_torch(
        term=lambda r, a, eps: torch.minimum(r * a, r.clamp(max=1 + eps) * a)
    ),
    "eps is not used": in_torch(term=lambda r, a, eps: by_cases(r, a, 0.2)),
    "ratio by division": in_torch(ratio=lambda new, old: new / old),
    "the ratio is upside down": in_torch(ratio=lambda new, old: (old - new).exp()),
    "the logarithm of the ratio, not the ratio": in_torch(ratio=lambda new, old: new - old),
    "a reward, not a loss": in_torch(sign=1.0),
    "a sum, not a mean": in_torch(reduce=torch.sum),
    "old_logp is not detached": in_torch(keep_old=True),
    "the advantages are not detached": in_torch(keep_worth=True),
    "cut off from autograd": in_torch(cut=True),
    "no gradient reaches logp": lambda logp, old, a, eps=0.2: (
        in_torch()(logp.detach(), old, a, eps) + 0 * logp.sum()
    ),
    "an argument is detached in place": lambda logp, old, a, eps=0.2: in_torch(keep_old=True)(
        logp, old.detach_(), a, eps
    ),
    "the clip is put on the logarithm": in_torch(
        term=lambda r, a, eps: torch.minimum(r * a, r.log().clamp(-eps, eps).exp() * a)
    ),
    "flat is taken for worth nothing": in_torch(
        term=lambda r, a, eps: r * a * ~(((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < 1 - eps)))
    ),
    "the ratio is always 1": lambda logp, old, a, eps=0.2: in_torch()(logp, logp.detach(), a, eps),
    "the advantages are centred inside the loss": [
        lambda logp, old, a, eps=0.2: in_torch()(logp, old, a - a.mean(), eps),
        lambda logp, old, a, eps=0.2: in_torch()(logp, old, (a - a.mean()) / a.std(correction=0), eps),
    ],
}
# Of the hunt's batch no probability is too small for a float.
RIGHT["hunt-minmax"] = [*RIGHT["clipped-loss"], in_torch(ratio=lambda new, old: new.exp() / old.exp())]
WRONG["hunt-minmax"] = dict(WRONG["clipped-loss"])
WRONG["clipped-loss"] |= {
    "not averaged over all entries": [in_torch(reduce=lambda x: x), in_torch(reduce=lambda x: x.mean(1))],
    "a sum, not a mean": [in_torch(reduce=torch.sum), in_torch(reduce=lambda x: x.sum(0).mean())],
}


# --- hunt-division


def with_price(
    *,
    ratio: Callable[..., Any] = lambda new, old: (new - old).exp(),
    price: Callable[..., Any] = lambda kl, beta: beta * kl,
    reduce: Callable[..., Any] = torch.mean,
    sign: float = -1.0,
    keep_old: bool = False,
    keep_worth: bool = False,
) -> Callable[..., Any]:
    def function(logp, old_logp, advantages, kl, beta):
        old = old_logp if keep_old else old_logp.detach()
        worth = advantages if keep_worth else advantages.detach()
        return sign * reduce(ratio(logp, old) * worth - price(kl, beta))

    return function


RIGHT["hunt-division"] = [
    with_price(ratio=lambda new, old: new.exp() / old.exp()),
    with_price(ratio=lambda new, old: 1 + (new - old).expm1()),
    lambda logp, old, a, kl, beta: beta * kl.mean() - ((logp - old.detach()).exp() * a.detach()).mean(),
]
WRONG["hunt-division"] = {
    "the ratio is still a division": with_price(ratio=lambda new, old: new / old),
    "the ratio is upside down": with_price(ratio=lambda new, old: (old - new).exp()),
    "the logarithm of the ratio, not the ratio": with_price(ratio=lambda new, old: new - old),
    "a clip has come in": with_price(ratio=lambda new, old: (new - old).exp().clamp(0.8, 1.2)),
    "the penalty is a bonus": with_price(price=lambda kl, beta: -beta * kl),
    "the penalty is gone": with_price(price=lambda kl, beta: 0 * kl),
    "beta is not used": [with_price(price=lambda kl, beta: kl), with_price(price=lambda kl, beta: 3.0 * kl)],
    "a sum, not a mean": [with_price(reduce=torch.sum), with_price(price=lambda kl, beta: beta * kl.sum())],
    "no gradient reaches logp": with_price(ratio=lambda new, old: (new - old).detach().exp()),
    "the penalty is multiplied with the advantage": lambda logp, old, a, kl, beta: (
        -(((logp - old.detach()).exp() - beta * kl) * a.detach()).mean()
    ),
    "a reward, not a loss": with_price(sign=1.0),
    "old_logp is not detached": with_price(keep_old=True),
    "the advantages are not detached": with_price(keep_worth=True),
    "the KL is detached": with_price(price=lambda kl, beta: beta * kl.detach()),
}


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


def flat_where(ratio, advantages, eps):
    return ((advantages > 0) & (ratio > 1 + eps)) | ((advantages < 0) & (ratio < 1 - eps))


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
    "flat is not the same as outside the box": lambda r, a, eps: torch.where((r - 1).abs() > eps, 0.0, r * a),
    "flat on the wrong side": lambda r, a, eps: torch.where(flat_where(r, -a, eps), 0.0, r * a),
    "the sign of the advantage is not asked for": lambda r, a, eps: torch.where(r > 1 + eps, 0.0, r * a),
    "nothing pushes inside the box": lambda r, a, eps: torch.where(
        r * a < r.clamp(1 - eps, 1 + eps) * a, r * a, 0.0
    ),
    "flat for one sign of the advantage only": [
        lambda r, a, eps: torch.where((a > 0) & (r > 1 + eps), 0.0, r * a),
        lambda r, a, eps: torch.where((a < 0) & (r < 1 - eps), 0.0, r * a),
    ],
    "eps is not used": lambda r, a, eps: torch.where(flat_where(r, a, 0.2), 0.0, r * a),
}


# --- adaptive-beta


def rule(
    *, up: float = 2.0, down: float = 0.5, above: float = 1.5, below: float = 1 / 1.5, held: bool = True
) -> Callable[..., Any]:
    def function(beta, kl, target, lowest=1e-4, highest=1e4):
        if kl > above * target:
            beta = beta * up
        elif kl < below * target:
            beta = beta * down
        return min(max(beta, lowest), highest) if held else beta

    return function


def by_powers(beta, kl, target, lowest=1e-4, highest=1e4):
    return np.clip(beta * 2.0 ** (int(kl > 1.5 * target) - int(1.5 * kl < target)), lowest, highest)


def as_a_tensor(beta, kl, target, lowest=1e-4, highest=1e4):
    return torch.tensor(rule()(beta, kl, target), dtype=torch.float64).clamp(lowest, highest)


def held_where_it_moves(beta, kl, target, lowest=1e-4, highest=1e4):
    if kl < target / 1.5:
        return max(beta / 2, lowest)
    return min(2 * beta, highest) if kl > 1.5 * target else beta


def by_addition(beta, kl, target, lowest=1e-4, highest=1e4):
    change = 0.5 if kl > 1.5 * target else -0.5 if kl < target / 1.5 else 0.0
    return min(max(beta + change, lowest), highest)


def target_of_its_own(beta, kl, target, lowest=1e-4, highest=1e4):
    return rule()(beta, kl, 0.03, lowest, highest)


RIGHT["adaptive-beta"] = [rule(), by_powers, as_a_tensor, held_where_it_moves]
WRONG["adaptive-beta"] = {
    "the thresholds are a distance from the target, not a factor": (
        lambda beta, kl, target, lowest=1e-4, highest=1e4: rule()(beta, 1 + (kl - target) / 3, 1.0)
    ),
    "lowest and highest are exchanged": [
        lambda beta, kl, target, lowest=1e-4, highest=1e4: max(
            min(rule()(beta, kl, target), lowest), highest
        ),
        lambda beta, kl, target, lowest=1e-4, highest=1e4: min(rule()(beta, kl, target), lowest),
    ],
    "the KL does not come in": lambda beta, kl, target, lowest=1e-4, highest=1e4: rule()(beta, beta, target),
    "the thresholds stand at the target itself": [
        lambda beta, kl, target, lowest=1e-4, highest=1e4: min(max(beta * kl / target, lowest), highest),
        rule(above=1.0, below=1.0),
        rule(below=1.0),
    ],
    "the upper threshold is not 1.5 times the target": rule(above=2.0),
    "halved when it should be doubled": rule(up=0.5, down=2.0),
    "beta never changes": rule(up=1.0, down=1.0),
    "it adapts in one direction only": [rule(down=1.0), rule(up=1.0)],
    "the factors and the thresholds are exchanged": rule(up=1.5, down=1 / 1.5, above=2.0, below=0.5),
    "the lower threshold is not target / 1.5": rule(below=0.5),
    "nothing keeps it within its range": rule(held=False),
    "the change is added, not multiplied": by_addition,
    "the target does not come in": target_of_its_own,
}


# --- clip-diagnostics


def gauges(**other: Callable[..., Any]) -> Callable[..., Any]:
    """The report, with some of its entries computed as `other` says, from r, A and ε."""
    right_ones: dict[str, Callable[..., Any]] = {
        "clip_fraction": lambda r, a, eps: ((r < 1 - eps) | (r > 1 + eps)).float().mean(),
        "flat_fraction": lambda r, a, eps: flat_where(r, a, eps).float().mean(),
        "approx_kl": lambda r, a, eps: (r - 1 - r.log()).mean(),
        "ratio_mean": lambda r, a, eps: r.mean(),
        "ratio_std": lambda r, a, eps: r.std(correction=0),
    }
    loss = other.pop("loss", in_torch())

    def function(logp, old_logp, advantages, eps=0.2):
        r = (logp - old_logp).detach().exp()
        parts = {**right_ones, **other}
        report = {key: part(r, advantages, eps) for key, part in parts.items()}
        return {"loss": loss(logp, old_logp, advantages, eps), **report}

    return function


def in_plain_numbers(logp, old_logp, advantages, eps=0.2):
    change = (logp.detach() - old_logp.detach()).double().flatten().numpy()
    r, a = np.exp(change), advantages.detach().flatten().numpy()
    ratio = (logp - old_logp.detach()).exp()
    return {
        "loss": -by_cases(ratio, advantages.detach(), eps).mean(),
        "clip_fraction": np.mean(abs(r - 1) > eps),
        "flat_fraction": np.mean((r - 1) * np.sign(a) > eps),
        "approx_kl": np.mean(np.expm1(change) - change),
        "ratio_mean": float(r.mean()),
        "ratio_std": r.var() ** 0.5,
    }


def with_more_than_was_asked(logp, old_logp, advantages, eps=0.2):
    return gauges()(logp, old_logp, advantages, eps) | {"entropy": None}


def with_graphs(logp, old_logp, advantages, eps=0.2):
    r = (logp - old_logp).exp()
    return {**gauges()(logp, old_logp, advantages, eps), "ratio_mean": r.mean()}


RIGHT["clip-diagnostics"] = [gauges(), in_plain_numbers, with_more_than_was_asked]
WRONG["clip-diagnostics"] = {
    "a count, not a share": gauges(clip_fraction=lambda r, a, eps: ((r - 1).abs() > eps).sum()),
    "clip_fraction counts one side only": [
        gauges(clip_fraction=lambda r, a, eps: (r > 1 + eps).float().mean()),
        gauges(clip_fraction=lambda r, a, eps: (r < 1 - eps).float().mean()),
    ],
    "clip_fraction counts the flat samples": gauges(
        clip_fraction=lambda r, a, eps: flat_where(r, a, eps).float().mean()
    ),
    "clip_fraction counts those inside": gauges(
        clip_fraction=lambda r, a, eps: ((r - 1).abs() < eps).float().mean()
    ),
    "eps is not used": [
        gauges(clip_fraction=lambda r, a, eps: ((r - 1).abs() > 0.2).float().mean()),
        gauges(flat_fraction=lambda r, a, eps: flat_where(r, a, 0.2).float().mean()),
    ],
    "the logarithm is compared with the box, not the ratio": [
        gauges(clip_fraction=lambda r, a, eps: (r.log().abs() > eps).float().mean()),
        gauges(flat_fraction=lambda r, a, eps: (r.log() * a.sign() > eps).float().mean()),
    ],
    "flat_fraction is a share of those outside": gauges(
        flat_fraction=lambda r, a, eps: flat_where(r, a, eps).sum() / ((r - 1).abs() > eps).sum().clamp(min=1)
    ),
    "the logarithm of the mean, not the mean of the logarithms": gauges(
        approx_kl=lambda r, a, eps: r.mean() - 1 - r.mean().log()
    ),
    "the variance, not the standard deviation": [
        gauges(ratio_std=lambda r, a, eps: r.var()),
        gauges(ratio_std=lambda r, a, eps: r.var(correction=0)),
    ],
    "the mean of the logarithms": [
        gauges(ratio_mean=lambda r, a, eps: r.log().mean().exp()),
        gauges(ratio_mean=lambda r, a, eps: r.log().mean()),
    ],
    "flat_fraction counts all that are outside": gauges(
        flat_fraction=lambda r, a, eps: ((r - 1).abs() > eps).float().mean()
    ),
    "flat_fraction counts the wrong side": gauges(
        flat_fraction=lambda r, a, eps: flat_where(r, -a, eps).float().mean()
    ),
    "flat_fraction counts good actions only": gauges(
        flat_fraction=lambda r, a, eps: ((a > 0) & (r > 1 + eps)).float().mean()
    ),
    "flat_fraction counts bad actions only": gauges(
        flat_fraction=lambda r, a, eps: ((a < 0) & (r < 1 - eps)).float().mean()
    ),
    "flat_fraction counts samples without an advantage": gauges(
        flat_fraction=lambda r, a, eps: (
            (((a >= 0) & (r > 1 + eps)) | ((a <= 0) & (r < 1 - eps))).float().mean()
        )
    ),
    "approx_kl has the wrong sign": gauges(approx_kl=lambda r, a, eps: (r.log() - (r - 1)).mean()),
    "r − 1 without the logarithm": gauges(approx_kl=lambda r, a, eps: (r - 1).mean()),
    "log r alone": [
        gauges(approx_kl=lambda r, a, eps: r.log().mean()),
        gauges(approx_kl=lambda r, a, eps: -r.log().mean()),
    ],
    "the KL in the other direction": gauges(approx_kl=lambda r, a, eps: (r * r.log() - (r - 1)).mean()),
    "the ratio of the approx_kl is upside down": gauges(
        approx_kl=lambda r, a, eps: (1 / r - 1 + r.log()).mean()
    ),
    "half the squared logarithm": gauges(approx_kl=lambda r, a, eps: 0.5 * (r.log() ** 2).mean()),
    "the standard deviation is divided by one less than n": gauges(ratio_std=lambda r, a, eps: r.std()),
    "the two fractions are exchanged": gauges(
        clip_fraction=lambda r, a, eps: flat_where(r, a, eps).float().mean(),
        flat_fraction=lambda r, a, eps: ((r - 1).abs() > eps).float().mean(),
    ),
    "min and max swapped": gauges(
        loss=in_torch(term=lambda r, a, eps: torch.maximum(r * a, r.clamp(1 - eps, 1 + eps) * a))
    ),
    "old_logp is not detached": gauges(loss=in_torch(keep_old=True)),
    "cut off from autograd": gauges(loss=in_torch(cut=True)),
    "a gauge is still on the graph": with_graphs,
}


# --- hunt-stale


def logp_of(logits, states, actions):
    return logits.log_softmax(-1)[torch.arange(len(logits))[:, None], states, actions]


def steps(
    *,
    old: Callable[[Any], Any] = lambda logits: logits.detach().clone(),
    sign: float = 1.0,
    most: int | None = None,
    report: Callable[..., Any] | None = None,
    zero: bool = True,
    step: bool = True,
    own_eps: float | None = None,
) -> Callable[..., Any]:
    def function(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
        before, kept = logits.detach().clone(), old(logits)
        eps = eps if own_eps is None else own_eps
        for _ in range(epochs if most is None else most):
            loss = in_torch()(
                logp_of(logits, states, actions), logp_of(kept, states, actions), advantages, eps
            )
            if zero:
                optimizer.zero_grad()
            (sign * loss).backward()
            if step:
                optimizer.step()
        now = logp_of(logits.detach(), states, actions)
        then = logp_of(before, states, actions)
        return now - then if report is None else report(logits, now, then)

    return function


def with_cases(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    first = logp_of(logits, states, actions).detach()
    for _ in range(epochs):
        change = logp_of(logits, states, actions) - first
        loss = -by_cases(change.exp(), advantages, eps).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return logp_of(logits, states, actions) - first


def all_log_probabilities_kept(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    table = torch.log_softmax(logits.data, dim=-1)
    return steps(old=lambda _: table)(logits, optimizer, states, actions, advantages, epochs, eps)


def reports_the_loop(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    first = logp_of(logits, states, actions).detach()
    for _ in range(epochs):
        logp = logp_of(logits, states, actions)
        optimizer.zero_grad()
        in_torch()(logp, first, advantages, eps).backward()
        optimizer.step()
    return (logp - first).detach()


def on_a_copy(logits, optimizer, *batch, **settings):
    return steps()(logits.detach().clone().requires_grad_(), optimizer, *batch, **settings)


def put_back(logits, optimizer, *batch, **settings):
    before = logits.detach().clone()
    shown = steps()(logits, optimizer, *batch, **settings)
    logits.data = before
    return shown


def anew_in_every_epoch(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    first = logp_of(logits, states, actions).detach()
    for _ in range(epochs):
        steps(most=1)(logits, optimizer, states, actions, advantages, 1, eps)
    return logp_of(logits, states, actions).detach() - first


def on_the_same_graph(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    first = logp_of(logits, states, actions)
    for _ in range(epochs):
        ratio = (logp_of(logits, states, actions) - first).exp()
        optimizer.zero_grad()
        (-by_cases(ratio, advantages, eps).mean()).backward()
        optimizer.step()
    return (logp_of(logits, states, actions) - first).detach()


RIGHT["hunt-stale"] = [steps(), with_cases, all_log_probabilities_kept]
WRONG["hunt-stale"] = {
    "the old policy still moves along": [
        steps(old=lambda logits: logits.detach()),
        steps(old=lambda logits: logits.data),
        anew_in_every_epoch,
    ],
    "it goes downhill": steps(sign=-1.0),
    "one step, whatever epochs says": steps(most=1),
    "what it reports is not what happened": [
        steps(report=lambda z, now, then: 0 * now),
        steps(report=lambda z, now, then: then - now),
    ],
    "what comes back is still on the graph": steps(report=lambda z, now, then: z.sum() * 0 + now - then),
    "the gradients are not zeroed between the steps": steps(zero=False),
    "the optimizer takes no step": steps(step=False),
    "eps is not used": steps(own_eps=0.2),
    "the log ratios of before the last step": reports_the_loop,
    "the logits are left as they were": [on_a_copy, put_back],
    "old_logp is not detached": on_the_same_graph,
}


# --- lower-bound

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


# --- three-actions-target


def softmax(logits):
    weights = np.exp(logits - np.max(logits))
    return weights / weights.sum()


def tilted(old_logits, advantages):
    weights = np.exp(old_logits) * np.exp(advantages)
    return weights / weights.sum()


def climbed(old_logits, advantages):
    old, logits = softmax(old_logits), np.array(old_logits, dtype=float)
    for _ in range(3000):
        new = softmax(logits)
        slope = new * (advantages - np.log(new / old))
        logits = logits + 0.5 * (slope - new * slope.sum())
    return softmax(logits)


def in_a_tensor(old_logits, advantages):
    return torch.softmax(torch.tensor(old_logits + advantages), dim=0)


def reverse(old_logits, advantages):
    old = softmax(old_logits)
    low, high = advantages.max() + 1e-9, advantages.max() + 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (old / (middle - advantages)).sum() > 1 else (low, middle)
    return old / (low - advantages)


RIGHT["three-actions-target"] = [tilted, climbed, in_a_tensor]
WRONG["three-actions-target"] = {
    "the KL in the other direction": reverse,
    "not probabilities": [lambda z, a: z + a, lambda z, a: np.exp(a)],
    "the price of distance is left out": lambda z, a: np.eye(len(a))[np.argmax(a)],
    "the old policy does not come in": lambda z, a: softmax(a),
    "the bad action is preferred": lambda z, a: softmax(z - a),
    "the price of distance is not 1": [lambda z, a: softmax(z + a / 2), lambda z, a: softmax(z + 2 * a)],
    "the advantages do not come in": lambda z, a: softmax(z),
    "the advantages are lost at logits of zero": lambda z, a: softmax(z * a),
    "the old probabilities stand where their logarithms belong": lambda z, a: softmax(softmax(z) + a),
    "one gradient step, not the optimum": lambda z, a: softmax(z + softmax(z) * (a - softmax(z) @ a)),
}


# --- three-actions-slope


def flat_by_case(r, a, eps):
    return ((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < 1 - eps))


def slope_of(
    *,
    weight: Callable[..., Any] = lambda old, new: old,
    flat: Callable[..., Any] = lambda r, a, eps: ((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < 1 - eps)),
    by_ratio: Callable[..., Any] = lambda r: r,
    through_softmax: bool = True,
    sign: float = 1.0,
) -> Callable[..., Any]:
    def function(logits, old_logits, advantages, eps):
        old, new = softmax(old_logits), softmax(logits)
        r = new / old
        pushes = weight(old, new) * by_ratio(r) * advantages * ~flat(r, advantages, eps)
        return sign * (pushes - new * pushes.sum() * through_softmax)

    return function


def with_autograd(logits, old_logits, advantages, eps):
    z = torch.tensor(logits, requires_grad=True)
    old, a = torch.tensor(softmax(old_logits)), torch.tensor(advantages)
    gain = (old * by_cases(z.softmax(0) / old, a, eps)).sum()
    return torch.autograd.grad(gain, z)[0]


def entry_by_entry(logits, old_logits, advantages, eps):
    old, new, out = softmax(old_logits), softmax(logits), np.zeros(len(logits))
    for a in range(len(logits)):
        r, worth = new[a] / old[a], advantages[a]
        if (worth > 0 and r > 1 + eps) or (worth < 0 and r < 1 - eps):
            continue
        for k in range(len(logits)):
            out[k] += old[a] * worth * r * ((a == k) - new[k])
    return out


RIGHT["three-actions-slope"] = [slope_of(), with_autograd, entry_by_entry]
WRONG["three-actions-slope"] = {
    "downhill": slope_of(sign=-1.0),
    "a sum over the actions, not an expectation": [
        slope_of(weight=lambda old, new: np.ones(len(old))),
        slope_of(sign=3.0),
    ],
    "a mean over the actions, on top of the expectation": slope_of(sign=1 / 3),
    "the gradient by the probabilities, not by the logits": lambda z, old, a, eps: np.where(
        flat_by_case(softmax(z) / softmax(old), a, eps), 0.0, a
    ),
    "flat on the wrong side": slope_of(flat=lambda r, a, eps: flat_by_case(r, -a, eps)),
    "eps is not used": slope_of(flat=lambda r, a, eps: flat_by_case(r, a, 0.2)),
    "one sample, not the expectation": lambda z, old, a, eps: slope_of(
        weight=lambda old, new: np.eye(len(old))[0]
    )(z, old, a, eps),
    "the softmax is forgotten": slope_of(through_softmax=False),
    "the expectation is taken under the new policy": slope_of(weight=lambda old, new: new),
    "the ratio is left out of the slope": slope_of(by_ratio=lambda r: 1.0),
    "nothing is clipped": slope_of(flat=lambda r, a, eps: r < 0),
    "flat is not the same as outside the box": slope_of(flat=lambda r, a, eps: abs(r - 1) > eps),
}


# --- three-actions


def climber(
    *,
    slope: Callable[..., Any] = slope_of(),  # noqa: B008
    anchor_moves: bool = False,
    stop: Callable[..., bool] = lambda s, r: not s.any(),
    show: Callable[..., Any] = lambda new, old: new / old,
    end: Callable[[Any], Any] = np.array,
    back: Callable[[Any], Any] = lambda r: r,
    extra: int = 0,
) -> Callable[..., Any]:
    def function(old_logits, advantages, step, most=20_000, eps=0.2):
        old, logits = softmax(old_logits), np.array(old_logits, dtype=float)
        anchor, path = old_logits, [show(softmax(logits), old)]
        for _ in range(most + extra):
            s = slope(logits, anchor, advantages, eps)
            if stop(s, softmax(logits) / old):
                break
            logits = logits + step * s
            logits = np.log(back(softmax(logits) / old) * old)
            anchor = logits if anchor_moves else anchor
            path.append(show(softmax(logits), old))
        return end(path)

    return function


def a_while_loop(old_logits, advantages, step, most=20_000, eps=0.2):
    z, old = torch.tensor(old_logits), torch.tensor(softmax(old_logits))
    a, path = torch.tensor(advantages), [torch.ones(len(advantages), dtype=torch.float64)]
    while len(path) <= most:
        leaf = z.clone().requires_grad_()
        gain = (old * by_cases(leaf.softmax(0) / old, a, eps)).sum()
        (slope,) = torch.autograd.grad(gain, leaf)
        if slope.abs().max() < 1e-12:
            break
        z = z + step * slope
        path.append(z.softmax(0) / old)
    return torch.stack(path)


RIGHT["three-actions"] = [climber(), climber(end=list), a_while_loop]
WRONG["three-actions"] = {
    "probabilities, not ratios": climber(show=lambda new, old: new),
    "the ratio is upside down": climber(show=lambda new, old: old / new),
    "it stops before its first step": climber(stop=lambda s, r: not s.all()),
    "it goes on when nothing pushes": climber(stop=lambda s, r: False),
    "it does not begin at the old policy": lambda old_logits, a, step, most=20_000, eps=0.2: (
        climber()(0 * old_logits, a, step, most) / 3 / softmax(old_logits)
    ),
    "logarithms, not ratios": climber(show=lambda new, old: np.log(new / old) - np.log(new / old).mean()),
    "the start is missing": climber(end=lambda path: np.array(path[1:])),
    "downhill": climber(slope=slope_of(sign=-1.0)),
    "the anchor moves along": [
        climber(anchor_moves=True),
        climber(slope=slope_of(flat=lambda r, a, eps: r < 0)),
    ],
    "it stops when the first action falls silent": climber(stop=lambda s, r: bool((r > 1.2).any())),
    "the policy is put back into the box": climber(end=lambda path: np.clip(np.array(path), 0.8, 1.2)),
    "most is not the number of steps": climber(extra=-1),
}


# --- eps-kl


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
    "every ratio at the same end of the box": [
        bounds(forward=lambda e, h: -np.log(1 - e)),
        bounds(forward=lambda e, h: np.log(1 + h)),
        bounds(backward=lambda e, h: (1 + h) * np.log(1 + h)),
    ],
    "the weights of the two ends are exchanged": bounds(
        forward=lambda e, h: -(e * np.log(1 - e) + h * np.log(1 + h)) / (e + h)
    ),
    "the approximation, not the bound": bounds(forward=lambda e, h: e * h / 2),
    "the two directions are exchanged": bounds(swap=True),
    "the wrong end of the box for a sample": bounds(single=lambda e, h: h - np.log(1 + h)),
    "the larger end of the box is not always the lower one": bounds(single=lambda e, h: -e - np.log(1 - e)),
    "the sample's KL in the other direction": bounds(single=lambda e, h: (1 - e) * np.log(1 - e) + e),
    "the upper end does not come in": lambda e, h: bounds()(e, e),
    "both ends weighed alike": bounds(forward=lambda e, h: -(np.log(1 - e) + np.log(1 + h)) / 2),
}


# --- inside-the-box


def brought_back(
    *,
    together: bool = False,
    share: float = 0.8,
    eps_own: float | None = None,
    sign: float = 1.0,
    leave: bool = False,
    stay: bool = False,
    clamp_only: bool = False,
    measure: Callable[[Any], Any] = lambda change: (change.exp() - 1).abs(),
    halvings: int = 10_000,
    steps_taken: int | None = None,
) -> Callable[..., Any]:
    def function(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
        eps = eps if eps_own is None else eps_own
        before = logits.detach().clone()
        then = logp_of(before, states, actions)
        steps(sign=sign, most=steps_taken)(logits, optimizer, states, actions, advantages, epochs, eps)
        way = logits.detach() - before
        part = torch.ones(len(logits), 1, 1)
        for _ in range(0 if leave or clamp_only else halvings):
            out = measure(logp_of(before + part * way, states, actions) - then) > eps
            out = out.any()[None, None, None] if together else out.any(1)[:, None, None]
            if not out.any():
                break
            part = torch.where(out, share * part, part)
        with torch.no_grad():
            logits.copy_(before if stay else before + part * way)
        now = logp_of(logits.detach(), states, actions) - then
        return now.clamp(np.log(1 - eps), np.log(1 + eps)) if clamp_only else now

    return function


def bisected(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    """The plain surrogate, one step, and then the furthest point of the line that is inside."""
    before = logits.detach().clone()
    then = logp_of(before, states, actions)
    loss = -((logp_of(logits, states, actions) - then).exp() * advantages).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    way = logits.detach() - before
    low, high = torch.zeros(len(logits)), torch.ones(len(logits))
    for _ in range(60):
        middle = (low + high) / 2
        moved = logp_of(before + middle[:, None, None] * way, states, actions) - then
        inside = ((moved.exp() - 1).abs() <= eps).all(1)
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
    logits.data = before + low[:, None, None] * way
    return logp_of(logits.detach(), states, actions) - then


def epoch_by_epoch(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    """Each step is halved until the policy that it leads to is inside."""
    then = logp_of(logits, states, actions).detach()
    for _ in range(epochs):
        start = logits.detach().clone()
        loss = in_torch()(logp_of(logits, states, actions), then, advantages, eps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for _ in range(30):
            moved = (logp_of(logits.detach(), states, actions) - then).exp() - 1
            out = (moved.abs() > eps).any(1)[:, None, None]
            logits.data = torch.where(out, (start + logits.detach()) / 2, logits.detach())
        moved = (logp_of(logits.detach(), states, actions) - then).exp() - 1
        out = (moved.abs() > eps).any(1)[:, None, None]
        logits.data = torch.where(out, start, logits.detach())
    return logp_of(logits.detach(), states, actions) - then


def mixed_with_the_old_one(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    """The ratio of a mixture is the mixture of the ratios."""
    before = logits.detach().clone()
    then = logp_of(before, states, actions)
    steps()(logits, optimizer, states, actions, advantages, epochs, eps)
    with torch.no_grad():
        far = ((logp_of(logits, states, actions) - then).exp() - 1).abs().amax(1)
        share = (0.999 * eps / far.clamp(min=1e-9)).clamp(max=1)[:, None, None]
        logits.copy_(((1 - share) * before.softmax(-1) + share * logits.softmax(-1)).log())
        return logp_of(logits, states, actions) - then


def one_step_of_the_mean(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    """One step on the mean over all learners, each of which is then brought back, and the rate put back."""
    kept = optimizer.state_dict()
    shown = brought_back(share=0.5, steps_taken=1)(
        logits, optimizer, states, actions, advantages, epochs, eps
    )
    optimizer.load_state_dict(kept)
    return shown


def reports_the_optimizer(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    brought_back()(logits, optimizer, states, actions, advantages, epochs, eps)
    return torch.zeros(states.shape)


def reports_with_a_graph(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    shown = brought_back()(logits, optimizer, states, actions, advantages, epochs, eps)
    return shown + 0 * logits.sum()


RIGHT["inside-the-box"] = [
    brought_back(share=0.5),
    bisected,
    epoch_by_epoch,
    mixed_with_the_old_one,
    one_step_of_the_mean,
]
WRONG["inside-the-box"] = {
    "the logarithm is compared with the box, not the ratio": brought_back(
        measure=lambda change: change.abs()
    ),
    "inside at one end of the box only": brought_back(measure=lambda change: change.exp() - 1),
    "a ratio is outside the box": [
        brought_back(share=0.5, halvings=5),
        brought_back(leave=True),
        brought_back(clamp_only=True),
    ],
    "nothing moves": brought_back(stay=True),
    "it goes the wrong way": brought_back(sign=-1.0),
    "one learner holds up the others": brought_back(together=True),
    "eps is not used": brought_back(eps_own=0.2),
    "what it reports is not what happened": reports_the_optimizer,
    "what comes back is still on the graph": reports_with_a_graph,
}


# --- tests


class TestChecks(CheckTests):
    module = clipped_surrogate
    exercises = EXERCISES
    right, wrong = RIGHT, WRONG
    kinds = {"Prove": 3, "Build": 3, "Hunt": 3, "Reflect": 3}  # noqa: RUF012


@pytest.mark.parametrize("name", ["clip-table-up", "clip-table-down"])
def test_a_table_that_is_not_filled_says_where(name: str) -> None:
    stub = f'raise NotImplementedError("not yet: {name}")'
    verdict = checks.run(name, EXERCISES.blank(name, lambda source: source.replace(stub, "return table")))
    assert (verdict.kind, verdict.name) == ("returned", "an entry is still empty")
    assert "row r = 0.5" in verdict.message


def test_a_table_is_checked_row_by_row() -> None:
    def slipped():
        rows = table(UP, 1.0)()
        return rows | {1.5: (1.5, 1.2, 1.2, 1.4, True)}

    verdict = checks.run("clip-table-up", slipped)
    assert verdict.kind == "property"
    assert "✓ r = 1.3" in verdict.message
    assert "this fails: r = 1.5\n  Seen: look again at min\n" in verdict.message
    short = checks.run("clip-table-up", lambda: {r: row for r, row in table(UP, 1.0)().items() if r != 1.1})
    assert "there is none for r = 1.1" in " ".join(short.message.split())


def test_the_page_says_how_many_exercises_there_are() -> None:
    said = {"thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17}
    first = re.search(r"^(\w+) exercises for", EXERCISES.cells[0]["source"], re.MULTILINE)
    assert first
    assert said[first[1].lower()] == len(masters.exercises(masters.read(EXERCISES.master)))


def test_an_unforeseen_mistake_is_told_the_property_it_breaks() -> None:
    verdict = checks.run("clipped-loss", in_torch(term=lambda r, a, eps: by_cases(r, a, eps) - 0.1 * r + 0.1))
    assert verdict.kind == "property"
    assert "this fails: a good action counts in full until 1 + ε" in verdict.message
    assert "Read: chapter 3" in verdict.message


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        (
            "clipped-loss",
            in_torch(ratio=lambda new, old: new.exp() / old.exp()),
            "it survives probabilities too small for a float",
        ),
        (
            "clipped-loss-numpy",
            in_numpy(ratio=lambda new, old: np.exp(new) / np.exp(old)),
            "it survives probabilities too small for a float",
        ),
        (
            "clipped-loss-numpy",
            lambda new, old, a, eps: in_numpy(reduce=np.sum)(new, old, a, eps) / (np.float64(len(a)) - 1),
            "at r = 1 the objective is the advantage, whatever it is",
        ),
        (
            "clipped-loss",
            in_torch(term=lambda r, a, eps: torch.minimum(r * a, r.detach().clamp(1 - eps, 1 + eps) * a)),
            "at r = 1 it is the policy gradient",
        ),
        (
            "adaptive-beta",
            lambda beta, kl, target, lowest=1e-4, highest=1e4: rule()(beta, kl, target),
            "it stays within lowest and highest",
        ),
        (
            "three-actions-slope",
            lambda z, old, a, eps: slope_of(
                weight=lambda *_: softmax(old), by_ratio=lambda r: softmax(z) / softmax(old)
            )(z, 0 * old, a, eps),
            "the knees are those of the old policy's ratios, whatever the old policy is",
        ),
        (
            "three-actions",
            climber(slope=slope_of(flat=lambda r, a, eps: abs(r - 1) > eps)),
            "each step adds `step` times the slope that differences give, outside the box too",
        ),
        (
            "three-actions",
            climber(slope=slope_of(through_softmax=False)),
            "each step adds `step` times the slope that differences give, outside the box too",
        ),
    ],
)
def test_a_mistake_without_a_name_breaks_its_property(
    name: str, answer: Callable[..., Any], words: str
) -> None:
    with np.errstate(all="ignore"):
        verdict = checks.run(name, answer)
    assert (verdict.kind, verdict.name) == ("property", words), verdict.message


def test_an_entry_of_a_table_that_is_right_is_not_called_wrong() -> None:
    rows = table(DOWN, -1.0)()
    minus = {r: (row[0], -row[1], *row[2:]) for r, row in rows.items()}
    verdict = checks.run("clip-table-down", lambda: minus)
    assert "this fails: r = 0.5\n  Seen: look again at clip(r)\n" in verdict.message


@pytest.mark.parametrize("name", ["hunt-stale", "inside-the-box"])
def test_what_the_cell_below_could_not_use_is_refused(name: str) -> None:
    answer = EXERCISES.reference(name)
    both = checks.run(name, lambda *args, **kwargs: (answer(*args, **kwargs), torch.zeros(())))
    assert (both.kind, both.name) == ("returned", "more than the log ratios")
    array = checks.run(name, lambda *args, **kwargs: answer(*args, **kwargs).numpy())
    assert (array.kind, array.name) == ("returned", "an array")


def test_a_climb_without_a_return_is_told_so() -> None:
    verdict = checks.run("three-actions", lambda *_: None)
    assert verdict.name == "nothing came back"


# --- what the texts say of the tables that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    """Everything that the master defines, its solutions too, and its constants; no table is made yet."""
    space = EXERCISES.namespace()
    for cell in EXERCISES.cells:
        if cell["cell_type"] == "code" and masters.part(cell) is None:
            tree = ast.parse(cell["source"])
            tree.body = [n for n in tree.body if isinstance(n, ast.Assign) and "learn(" not in ast.unparse(n)]
            tree.body = [n for n in tree.body if "tune(" not in ast.unparse(n)]
            exec(compile(tree, "a cell", "exec"), space)
    for solution in EXERCISES.solutions.values():
        exec(solution.source, space)
    return space


def parts(cell: str) -> tuple[float, float]:
    middle, half = cell.split(" ± ")
    return float(middle), float(half)


@pytest.mark.slow
def test_the_hunts_show_the_metrics_that_their_bugs_produce(world: dict[str, Any]) -> None:
    learn, steps_of = world["learn"], world["twenty_steps"]
    healthy = learn(lambda *b: steps_of(world["clipped_surrogate_loss"], *b))
    assert healthy.worst.iloc[-1] > 0.6
    assert healthy.earned.iloc[-1] == pytest.approx(0.94, abs=0.03)
    assert healthy.clip_fraction[0] > 0.5

    swapped = learn(lambda *b: steps_of(world["suspicious_loss"], *b))
    assert swapped.earned[0] > healthy.earned[0] + 0.05
    assert swapped["KL, all actions"][0] > 10 * healthy["KL, all actions"][0]
    assert swapped.clip_fraction[0] > 0.95
    assert swapped["largest ratio"].max() > 200
    assert swapped.earned.iloc[-1] == pytest.approx(0.55, abs=0.08)

    divided = learn(lambda *b: world["with_penalty"](world["suspicious_penalized_loss"], *b), updates=21)
    assert divided["KL, all actions"].between(0.003, 0.03).all()
    assert divided.clip_fraction.max() < 0.25
    assert divided.ratio_mean.sub(1).abs().max() < 0.01
    assert (divided.loss < 0).all()
    assert divided.earned.iloc[-1] < 0.12
    assert divided.earned[0] < 0.25

    stale = learn(world["suspicious_update"])
    assert (stale.clip_fraction == 0).all()
    assert stale.approx_kl.abs().max() < 1e-6
    assert stale["largest ratio"].max() == pytest.approx(1, abs=1e-6)
    assert stale.loss.abs().max() < 1e-6
    assert stale["KL, all actions"][0] > 1
    assert stale.earned.iloc[-1] == pytest.approx(0.65, abs=0.06)


@pytest.mark.slow
def test_what_is_said_of_the_learning_rates(world: dict[str, Any]) -> None:
    swept = world["sweep"](world["clip_report"])
    first, five = swept["clip_fraction, 1st"], swept["clip_fraction, 1-5"]
    assert first[0.003] < 0.01
    assert first[0.03] > 0.5
    assert max(first[0.03], first[0.1], first[0.3]) - min(first[0.03], first[0.1], first[0.3]) < 0.1
    assert five[1.0] < five.max()
    kl = swept["approx_kl, 1st"]
    assert kl.is_monotonic_increasing
    assert (kl < 0.0231).tolist() == [True, True, False, False, False, False]
    wrong_side = 1 - swept["flat, 1st"][0.03:] / first[0.03:]
    assert wrong_side.between(0.25, 0.35).all()
    assert 0.12 < first[0.01] < 0.22  # a sixth
    earned, half = (swept["earned"].map(lambda cell, i=i: parts(cell)[i]) for i in (0, 1))
    same = slice(0.03, 0.3)  # their intervals overlap
    assert (earned + half)[same].min() > (earned - half)[same].max()
    assert earned[1.0] < earned[0.3] - 0.03
    assert swept["worst"][1.0] == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
def test_what_the_rubrics_say(world: dict[str, Any]) -> None:
    four = world["four_objectives"]()
    lost = four["lost"].str.rstrip("%").astype(float)
    worst, early = four["worst"].astype(float), four["earned after 10"].astype(float)
    assert lost["minimum"] == 0
    assert lost[["no clip", "maximum"]].min() >= 45
    assert 0 < lost["clip alone"] <= 6
    assert worst["minimum"] > 2 * worst.drop("minimum").max()
    assert early["clip alone"] > early["minimum"] + 0.07
    means = four["after 31"].map(lambda cell: parts(cell)[0])
    assert abs(means["clip alone"] - means["minimum"]) < 0.03
    assert four["astray"]["clip alone"] > four["astray"]["minimum"]

    shown = world["opinions"]()
    promised, second, gained = (
        shown[column].map(lambda cell: parts(cell)[0]) for column in ("promised", "second batch", "gained")
    )
    assert (promised > 3 * gained).all()
    for way in shown.index:
        assert abs(second[way] - gained[way]) < parts(shown["second batch"][way])[1] * 1.5 + 1e-3
    tenth, harm = shown["worst tenth"].astype(float), shown["harmful"].str.rstrip("%").astype(float)
    assert tenth.idxmin() == gained.idxmax() == "plain, 300 steps"
    assert harm["plain, 1 step"] == pytest.approx(30, abs=4)
    last = ["clip, 300 steps", "natural, KL 0.03", "plain until KL 0.03"]
    assert gained[last].between(0.05, 0.085).all()
    assert tenth[last].idxmax() == harm[last].idxmax() == "clip, 300 steps"
    kl = shown["KL"].astype(float)
    assert 60 < kl["plain, 300 steps"] / kl["clip, 300 steps"] < 130

    tuned = world["tune"]()
    assert tuned["KL of this update"].max() < 0.03
    assert tuned["KL from the start"].iloc[-1] == pytest.approx(4, abs=0.5)
    assert tuned["reward model"].is_monotonic_increasing
    assert tuned["people"].max() == pytest.approx(0.6, abs=0.1)
    assert tuned["people"].iloc[-1] < -1.5
    assert tuned.clip_fraction.iloc[-1] < 0.05
