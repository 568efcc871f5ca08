"""Checks of one pair by hand, of the loss from four numbers, and of where a pair comes to rest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from .. import Answer, Findings, Property, Stop, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems, tensor
from ..rlhf import part, several
from . import CHAPTER, log_sigmoid, sigmoid

# --- one pair, by hand

PARTS = ("ratios", "h", "chance", "loss", "weight")
HAND = 6e-3  # rounded to two or three digits


@CHAPTER.check("pair-by-hand", section="sec-dpo-loss")
def pair_by_hand(answer: Answer) -> Findings:
    back = answer()
    if isinstance(back, list | tuple) and len(back) == len(PARTS):
        for name, one in zip(PARTS, back, strict=True):
            if one is ... or one is None or (isinstance(one, list | tuple) and any(x is ... for x in one)):
                raise Stop("returned", "an entry is still empty", f"“{name}” still has an empty entry.")
    shapes = ((2,), (), (), (), ())
    ratios, h, chance, loss, weight = several(back, shapes, PARTS, finite=True)
    right = np.array([1.7, -0.9])
    yield from recognise(
        ratios,
        {
            "policy and reference are exchanged": -right,
            "chosen and rejected are exchanged": right[::-1],
            "the prompt is counted": right + 0.3,
            "the end of sequence is left out": [1.0, -1.1],
            "padding is counted": [-0.3, -0.9],
            "a mean, not a sum": either([0.425, -0.18], [0.34, -0.18]),
            "the reference is not subtracted": [-2.4, -4.7],
            "a ratio, not its logarithm": np.exp(right),
        },
        tolerance=HAND,
    )
    yield from recognise(
        h,
        {
            "h has the wrong sign": -2.6,
            "the ratios are added, not subtracted": 0.8,
            "h has β in it": 1.3,
        },
        tolerance=HAND,
    )
    yield from recognise(
        chance,
        {
            "the probability is without β": sigmoid(2.6),
            "the probability of the rejected text": sigmoid(-1.3),
            "β divides": sigmoid(5.2),
        },
        tolerance=HAND,
    )
    yield from recognise(
        loss,
        {
            "the loss has the wrong sign": log_sigmoid(1.3),
            "the loss belongs to the other choice": -log_sigmoid(-1.3),
            "β is in front of the loss": either(-0.5 * log_sigmoid(1.3), -0.5 * log_sigmoid(2.6)),
            "the loss is without β": -log_sigmoid(2.6),
        },
        tolerance=HAND,
    )
    yield from recognise(
        weight,
        {
            "the weight is without β": sigmoid(-1.3),
            "the weight is certainty, not surprise": either(0.5 * sigmoid(1.3), sigmoid(1.3)),
            "the weight belongs to the first step": 0.25,
        },
        tolerance=HAND,
    )
    meant = (right, 2.6, sigmoid(1.3), -log_sigmoid(1.3), 0.5 * sigmoid(-1.3))
    for name, got, this in zip(PARTS, (ratios, h, chance, loss, weight), meant, strict=True):
        yield Property(name, close(got, this, HAND), f"you have {numbers(got)}")


# --- the loss from four numbers

CHOSEN, REJECTED = np.array([-3.0, -5, -9]), np.array([-6.0, -5, -4])
REF_CHOSEN, REF_REJECTED = np.array([-4.0, -4, -7.5]), np.array([-5.0, -4, -5.5])


@CHAPTER.check("dpo-loss", section="sec-dpo-loss")
def dpo_loss(answer: Answer) -> Findings:
    def ask(c: Any, r: Any, ref_c: Any, ref_r: Any, beta: float, eps: float = 0.0) -> float:
        given = [tensor(np.asarray(x, dtype=np.float64)) for x in (c, r, ref_c, ref_r)]
        return float(as_array(answer(*given, beta, eps), (), "the loss", finite=beta < 1))

    # Log-ratios 1, −1, −1.5 of the chosen and −1, −1, 1.5 of the rejected texts; h is 2, 0 and −3.
    got = ask(CHOSEN, REJECTED, REF_CHOSEN, REF_REJECTED, 0.5)
    small = ask(CHOSEN, REJECTED, REF_CHOSEN, REF_REJECTED, 0.1)
    elsewhere = ask(CHOSEN, REJECTED, REF_CHOSEN - 2 * CHOSEN, REF_REJECTED + 3, 0.5)
    up, down = CHOSEN - REF_CHOSEN, REJECTED - REF_REJECTED
    h = up - down

    def mean(x: Any) -> float:
        return float(-log_sigmoid(x).mean())

    yield from recognise(
        got,
        {
            "the sign is reversed": -mean(h / 2),
            "h has the wrong sign": mean(-h / 2),
            "a sum, not a mean": 3 * mean(h / 2),
            "β is on the wrong side": either(0.5 * mean(h), mean(2 * h), 2 * mean(h), 0.5 * mean(h / 2)),
            "β is not used": close([got, small], [mean(h)] * 2, 1e-3),
            "the reference is missing": close([got, elsewhere], [mean((CHOSEN - REJECTED) / 2)] * 2, 1e-3),
            "the log-ratios mix the two texts": either(
                mean((CHOSEN - REF_REJECTED - REJECTED + REF_CHOSEN) / 2), mean((up - REF_REJECTED) / 2)
            ),
            "a probability, not its logarithm": either(-sigmoid(h / 2).mean(), sigmoid(-h / 2).mean()),
            "the margins are averaged first": mean(h.mean() / 2),
            "each text has its own sigmoid": mean(up / 2) + mean(-down / 2),
            "only the chosen text counts": either(mean(up / 2), -up.mean(), -up.mean() / 2, -CHOSEN.mean()),
            "a hinge, not a logarithm": np.maximum(0, 1 - h / 2).mean(),
            "the margin itself": either(-h.mean() / 2, -h.mean()),
            "a logarithm with another base": either(mean(h / 2) / math.log(2), mean(h / 2) / math.log(10)),
        },
    )
    smooth, more = (ask(CHOSEN, REJECTED, REF_CHOSEN, REF_REJECTED, 0.5, eps) for eps in (0.2, 0.4))
    yes, no = mean(h / 2), mean(-h / 2)
    yield from recognise(
        smooth,
        {
            "label smoothing is not used": close([smooth, more], [yes, yes], 1e-3),
            "the smoothed weights are exchanged": 0.2 * yes + 0.8 * no,
            "the loss is scaled, not smoothed": either(0.8 * yes, 0.6 * yes),
            "the second case is subtracted": either(0.8 * yes - 0.2 * no, (0.8 * yes - 0.2 * no) / 0.6),
            "half of the smoothing": 0.9 * yes + 0.1 * no,
            "the weights do not add up to 1": either(yes + 0.2 * no, yes + 0.2),
            "the margin is smoothed, not the label": mean(0.6 * h / 2),
        },
    )
    zero = np.zeros(2)
    far = [ask([90.0, -2000.0], zero, zero, zero, 1.0, eps) for eps in (0.0, 0.1)]
    fine = close(got, yes, 1e-3)
    yield from recognise(
        np.array(far),
        {
            "the loss overflows": not np.isfinite(far).all(),
            "small probabilities have a minimum": bool(fine and far[0] < 990),
        },
    )
    given = [leaf(x) for x in ([90.0, -2000.0], zero, zero, zero)]
    for eps in (0.0, 0.1):
        steep = gradients(answer(*given, 1.0, eps), given[0], what="the loss")[0]
        yield from recognise(steep, {"the gradient overflows": not np.isfinite(steep).all()})
    given = [leaf(x) for x in (CHOSEN, REJECTED, REF_CHOSEN, REF_REJECTED)]
    felt = gradients(answer(*given, 0.5, 0.0), *given, what="the loss")
    slopes = -0.5 * sigmoid(-h / 2) / 3
    yield from recognise(
        felt[0],
        {
            "the reference gets a gradient": bool(np.abs(felt[2:]).max() > 1e-7),
            "one text gets no gradient": not felt[0].any() or not felt[1].any(),
            "the weight is detached": bool(np.ptp(felt[0]) < 1e-6),
            "the slope is wrong at h = 0": bool(
                close(felt[0][[0, 2]], slopes[[0, 2]]) and not close(felt[0][1], slopes[1])
            ),
        },
        meant=slopes[1],
        reference=np.array(felt[2]),
        rejected=np.array(felt[1]),
    )
    problems = random_problems(_four, 30)
    yield agrees(
        answer,
        lambda p: float(
            np.mean(
                [
                    -(1 - p.label_smoothing) * _log_chance(p.beta * ((a - c) - (b - d)))
                    - p.label_smoothing * _log_chance(-p.beta * ((a - c) - (b - d)))
                    for a, b, c, d in zip(p.chosen, p.rejected, p.ref_chosen, p.ref_rejected, strict=True)
                ]
            )
        ),
        problems,
        by=("chosen", "rejected"),
        held=("ref_chosen", "ref_rejected"),
        what="the loss",
    )


def _log_chance(x: float) -> float:
    """log σ(x), one number at a time."""
    return -math.log1p(math.exp(-abs(x))) + min(x, 0.0)


def _four(rng: np.random.Generator) -> dict[str, Any]:
    size, scale = int(rng.choice([1, 2, 5, 12])), float(rng.choice([0.1, 2, 40]))
    ref = -30 * rng.random(size=(2, size))
    moved = ref + scale * rng.normal(size=(2, size))
    if rng.random() < 0.2:
        moved[1], ref[1] = moved[0], ref[0]  # equal pairs
    if rng.random() < 0.15:
        moved = ref.copy()  # before the first step
    return {
        "chosen": moved[0],
        "rejected": moved[1],
        "ref_chosen": ref[0],
        "ref_rejected": ref[1],
        "beta": float(rng.choice([0.01, 0.1, 1, 5])),
        "label_smoothing": float(rng.choice([0, 0, 0.1, 0.5])),
    }


# --- where a pair comes to rest

RESTS = ("the push", "the place of rest")


def _two(h: Tensor, *rest: Any) -> list[tuple[int, ...]]:
    return [tuple(h.shape)] * 2


@CHAPTER.check("pair-rest", section="sec-dpo-beta")
def pair_rest(answer: Answer) -> Findings:
    def ask(h: Any, share: Any, beta: float, eps: float = 0.0) -> list[np.ndarray]:
        given = [tensor(np.asarray(x, dtype=np.float64)) for x in (h, share)]
        return several(answer(*given, beta, eps), _two(given[0]), RESTS)

    # Four pairs: a share of 0.8 at h = 0, 3 and −2, and one of 0.3 at h = 1; β is 0.5.
    h, p = np.array([0.0, 3, -2, 1]), np.array([0.8, 0.8, 0.8, 0.3])
    push, rest = ask(h, p, 0.5)
    now, odds = sigmoid(h / 2), np.log(p / (1 - p))
    right = 0.5 * (p - now)
    yield from recognise(
        push,
        {
            "the sign is reversed": -right,
            "the push is without β": p - now,
            "every choice counts for the first text": either(0.5 * (1 - now), 1 - now),
            "votes for the second text push the wrong way": either(
                0.5 * (p * (1 - now) + (1 - p) * now), 0.5 * p * (1 - now)
            ),
            "the push weights by certainty, not by surprise": either(
                0.5 * (p * now - (1 - p) * (1 - now)), 0.5 * now
            ),
            "the push belongs to IPO": either(p - 0.5 - 0.5 * h, 2 * (p - 0.5 - 0.5 * h), -2 * (h - 1)),
            "the argument of σ is without β": either(0.5 * (p - sigmoid(h)), p - sigmoid(h)),
        },
    )
    yield from recognise(
        rest,
        {
            "rest and push have opposite signs": -2 * odds,
            "the rest is without β": odds,
            "β multiplies the rest": odds / 2,
            "log p, not its odds": either(2 * np.log(p), np.log(p)),
            "a probability, not its log-odds": either(2 * p, p, 2 * (p - 0.5), 2 * p / (1 - p)),
            "the rest depends on where h is": either(2 * odds - h, odds - h / 2),
            "a logarithm with another base": either(2 * odds / math.log(2), 2 * odds / math.log(10)),
            "the majority decides": bool(np.ptp(np.abs(rest)) < 1e-6 < np.abs(rest).max()),
        },
    )
    smooth, more = ask(h, p, 0.5, 0.1), ask(h, p, 0.5, 0.3)
    q = 0.9 * p + 0.1 * (1 - p)
    yield from recognise(
        smooth[1],
        {
            "label smoothing is not used": close([smooth[1], more[1]], [2 * odds] * 2, 1e-3),
            "smoothing moves the share to 0, not to one half": either(
                2 * np.log(0.9 * p / (1 - 0.9 * p)), 2 * np.log(0.8 * p / (1 - 0.8 * p))
            ),
            "the rest is scaled": either(1.8 * odds, 1.6 * odds),
            "half of the smoothing": 2 * np.log((0.9 * p + 0.05) / (0.95 - 0.9 * p)),
        },
    )
    yield from recognise(
        smooth[0],
        {
            "the push is not smoothed": bool(
                close(smooth[0], right) and close(smooth[1], 2 * np.log(q / (1 - q)))
            )
        },
    )
    sure = ask([0.0, 0.0], [1.0, 0.0], 0.5)
    ends = [sure[1], ask([0.0, 0.0], [1.0, 0.0], 0.5, 0.1)[1]]
    yield from recognise(
        ends[0],
        {
            "certain choices come to rest": bool(np.isfinite(ends[0]).any()),
            "certain choices do not push": close(sure[0], [0, 0]) or bool(np.isnan(sure[0]).any()),
            "certain choices give nan": bool(np.isnan(ends[0]).any()),
        },
        sure=sure[0],
    )
    far = ask([-2000.0, 2000.0, 90.0], [0.8, 0.2, 1.0], 1.0)[0]
    yield from recognise(far, {"the push overflows": not np.isfinite(far).all()})
    signs = "with certain choices h goes to infinity on the side of the choices"
    yield Property(signs, bool(ends[0][0] > 0 > ends[0][1]), f"you have {numbers(ends[0])}")

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size = int(rng.choice([1, 2, 4, 9]))
        eps = float(rng.choice([0, 0, 0.05, 0.3, 0.5]))
        share = rng.uniform(0.01, 0.99, size=size)
        share[rng.random(size) < 0.2] = 0.5
        if eps:
            share[rng.random(size) < 0.3] = float(rng.integers(2))
        return {
            "h": rng.choice([0.1, 5, 300]) * rng.normal(size=size),
            "share": share,
            "beta": float(rng.choice([0.02, 0.3, 1, 4])),
            "label_smoothing": eps,
        }

    problems = random_problems(draw, 40)
    for which, name in enumerate(RESTS):
        slow = _slow_push if which == 0 else _slow_rest
        yield agrees(part(answer, which, RESTS, _two), slow, problems, what=name)


def _people(p: Problem) -> list[tuple[float, float]]:
    """Each pair's h, and with which probability a smoothed label says that the first text won."""
    return [
        (x, share * (1 - p.label_smoothing) + (1 - share) * p.label_smoothing)
        for x, share in zip(p.h, p.share, strict=True)
    ]


def _slow_push(p: Problem) -> list[float]:
    """Voter by voter."""
    found = []
    for x, first in _people(p):
        surprise = [math.exp(_log_chance(sign * p.beta * x)) for sign in (-1, 1)]
        found.append(p.beta * (first * surprise[0] - (1 - first) * surprise[1]))
    return found


def _slow_rest(p: Problem) -> list[float]:
    """By halving an interval."""
    found = []
    for _, first in _people(p):
        low, high = -40.0, 40.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if math.exp(_log_chance(middle)) < first else (low, middle)
        found.append(middle / p.beta)
    return found
