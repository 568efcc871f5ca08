"""Checks of the three actions: where one would like to go, which way the clip pushes, and where it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import Answer, Findings, Property, Stop, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, finite_differences, random_problems
from . import CHAPTER, near_the_ends, probabilities

WORTH = np.array([1.0, 0.0, -1.0])
EVEN, TILTED = np.zeros(3), np.log([0.2, 0.5, 0.3])


def as_arrays(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The exercise is one of NumPy: its function gets arrays, and not the tensors of `agrees`."""
    return lambda *args: answer(*(x.double().numpy() if hasattr(x, "numpy") else x for x in args))


@CHAPTER.check("three-actions-target", section="sec-three-actions")
def three_actions_target(answer: Answer) -> Findings:
    def ask(logits: np.ndarray, advantages: np.ndarray) -> np.ndarray:
        return as_array(answer(logits, advantages), logits.shape, "the probabilities")

    got, other = ask(EVEN, WORTH), ask(TILTED, WORTH)
    kept = np.clip(got, 1e-9, None) * 3
    steep, reverse = (how - how.mean() for how in (np.log(kept), -1 / kept))
    raw = np.exp(probabilities(TILTED) + WORTH)
    same, third = close(got, other), np.full(3, 1 / 3)
    yield from recognise(
        got,
        {
            "not probabilities": not close(got.sum(), 1.0, 1e-3) or (got < -1e-6).any(),
            "the price of distance is left out": got.max() > 0.999,
            "the old policy does not come in": same and not close(got, third),
            "the KL in the other direction": close(reverse, WORTH, 1e-2),
            "one gradient step, not the optimum": close(steep, WORTH / 3, 1e-3),
            "the advantages do not come in": close(got, third) and close(other, probabilities(TILTED)),
            "the advantages are lost at logits of zero": close(got, third),
            "the bad action is preferred": close(steep, -WORTH, 1e-3),
            "the price of distance is not 1": steep[0] > 0.1
            and close(steep, steep[0] * WORTH, 1e-3)
            and not close(steep[0], 1.0, 1e-2),
            "the old probabilities stand where their logarithms belong": close(other, raw / raw.sum()),
        },
        other=other,
        price=1 / max(steep[0], 1e-9),
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size = rng.integers(2, 7)
        scale = rng.choice([0.01, 1, 5])
        return {
            "old_logits": rng.choice([0.1, 1, 3]) * rng.normal(rng.choice([-3, 0, 3]), size=size)
            + rng.choice([0, 0, 0, 800]),
            "advantages": scale * rng.normal(rng.choice([-3, 0, 3]), size=size),
        }

    def slow(p: Problem) -> np.ndarray:
        """Walk, each time half of the way that still pays, until nothing does."""
        new = old = probabilities(p.old_logits)
        for _ in range(60):
            pays = p.advantages - np.log(new / old)
            new = new * np.exp((pays - pays.max()) / 2)
            new = new / new.sum()
        return np.asarray(new)

    yield agrees(as_arrays(answer), slow, random_problems(draw), what="your policy", tolerance=4e-4)


def expected_gain(logits: np.ndarray, old: np.ndarray, worth: np.ndarray, eps: float) -> float:
    """The clipped surrogate's expectation written out: a term grows with slope A up to its knee."""
    total = 0.0
    for p, q, a in zip(probabilities(old), probabilities(logits), worth, strict=True):
        knee = 1 + eps if a > 0 else 1 - eps
        reached = sorted([q / p, knee])[0 if a > 0 else 1]
        total += p * a * reached
    return total


def differences(logits: np.ndarray, *rest: Any) -> np.ndarray:
    return finite_differences(lambda z: expected_gain(z, *rest), logits)


@CHAPTER.check("three-actions-slope", section="sec-three-actions")
def three_actions_slope(answer: Answer) -> Findings:
    def ask(logits: np.ndarray, old: np.ndarray, advantages: np.ndarray, eps: float = 0.2) -> np.ndarray:
        return as_array(answer(logits, old, advantages, eps), logits.shape, "the gradient")

    lopsided = np.array([2.0, 0.0, -1.0])
    away = TILTED + np.array([0.1, 0.0, -0.05])
    past = np.log([0.45, 0.4, 0.15])  # the ratios 1.35, 1.2, 0.45: both acting samples past their knees
    wrong_way = np.log([0.2, 0.35, 0.45])  # 0.6, 1.05, 1.35: both have moved against their advantages
    start, there = ask(EVEN, EVEN, WORTH), ask(away, TILTED, lopsided)
    beyond, back, wide = ask(past, EVEN, WORTH), ask(wrong_way, EVEN, WORTH), ask(past, EVEN, WORTH, 0.6)
    knees = ask(EVEN, EVEN, WORTH, 0.0)  # at ε = 0 the old policy itself is at every knee
    new, old = probabilities(away), probabilities(TILTED)
    exact, free = differences(away, TILTED, lopsided, 0.2), differences(past, EVEN, WORTH, 1e9)

    def centred(pushes: np.ndarray) -> np.ndarray:
        return pushes - new * pushes.sum()

    def still(slope: np.ndarray) -> bool:
        return bool(np.abs(slope).max() < 1e-6)

    yield from recognise(
        [start, there],
        {
            "downhill": close(start, -WORTH / 3, 1e-3),
            "the gradient by the probabilities, not by the logits": [WORTH, lopsided],
            "a mean over the actions, on top of the expectation": close(start, WORTH / 9, 1e-3),
            "a sum over the actions, not an expectation": [
                WORTH,
                either(centred(new / old * lopsided), 3 * exact),
            ],
            "one sample, not the expectation": close(start, [2 / 3, -1 / 3, -1 / 3], 1e-3),
            "the softmax is forgotten": [start, either(new * lopsided, old * lopsided)],
            "the expectation is taken under the new policy": [start, centred(new * new / old * lopsided)],
            "the ratio is left out of the slope": [start, centred(old * lopsided)],
            "flat on the wrong side": still(back) and not still(beyond),
            "nothing is clipped": close(beyond, free, 1e-3),
            "flat is not the same as outside the clip range": still(back),
            "eps is not used": still(wide) and still(beyond),
            "the knee itself is called flat": close(start, WORTH / 3, 1e-3) and still(knees),
        },
        start=start,
        there=there,
        exact=exact,
        beyond=beyond,
    )
    yield Property(
        "at the old policy it is the policy gradient",
        close(start, WORTH / 3, 1e-3),
        f"there your gradient is {numbers(start)}",
    )
    yield Property(
        "exactly at a knee it has the full slope",
        close(knees, WORTH / 3, 1e-3),
        f"with eps = 0, at the old policy, it is {numbers(knees)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size, eps = rng.integers(2, 6), float(rng.choice([0.05, 0.2, 0.5]))
        old = rng.choice([0.1, 1, 4]) * rng.normal(size=size)
        logits = old + rng.choice([0.1, 0.3, 1]) * rng.normal(size=size)
        first, ratio = probabilities(old)[0], float(near_the_ends(rng, eps, ()))
        if rng.random() < 0.5 and first * ratio < 0.9:  # the others share what the first one leaves
            logits = old + np.log([ratio, *[(1 - first * ratio) / (1 - first)] * (size - 1)])
        return {
            "logits": logits,
            "old_logits": old,
            "advantages": rng.choice([0.01, 1, 100]) * rng.normal(rng.choice([-1, 0, 1]), size=size),
            "eps": eps,
        }

    def slow(p: Problem) -> np.ndarray:
        return differences(p.logits, p.old_logits, p.advantages, p.eps)

    yield agrees(as_arrays(answer), slow, random_problems(draw, 60), what="the gradient")


@CHAPTER.check("three-actions", section="sec-three-actions")
def three_actions(answer: Answer) -> Findings:
    def climb(logits: Any, advantages: Any, *rest: Any) -> np.ndarray:
        back = answer(logits, advantages, *rest)
        wanted = f"an array [steps + 1, {len(logits)}]"
        if back is None:
            raise Stop("returned", "nothing came back", f"{wanted} must come back. Is there a `return`?")
        try:
            path = np.asarray(back, dtype=np.float64)
        except (TypeError, ValueError):
            raise Stop("returned", "wrong type", f"it must be {wanted}.") from None
        if path.shape == (len(logits),):
            words = "the ratios after *each* step must come back, and at the start."
            raise Stop("returned", "only the end", words)
        if path.ndim != 2 or path.shape[1] != len(logits) or not len(path):
            words = f"it must have shape [steps + 1, {len(logits)}], and has {list(path.shape)}."
            raise Stop("returned", "wrong shape", words)
        if not np.isfinite(path).all():
            raise Stop("returned", "not finite", "a ratio that is not finite came back.")
        return path

    def at_rest(ratios: np.ndarray) -> bool:
        """Return whether the gradient is zero at these ratios to three equal probabilities."""
        return bool(np.abs(differences(np.log(np.abs(ratios)), EVEN, WORTH, 0.2)).max() < 1e-6)

    path = climb(EVEN, WORTH, 0.005, 5000)
    first, last, steps = path[0], path[-1], len(path) - 1
    yield from recognise(
        first,
        {
            "probabilities, not ratios": 1 / 3,
            "logarithms, not ratios": 0,
            "the start is missing": not close(first, np.ones(3)),
            "it stops before its first step": steps == 0,
        },
        first=first,
    )
    tilted = climb(TILTED, WORTH, 0.005, 3)[0]
    endless = np.log([0.45, 0.45, 0.1]), np.array([1.0, 1.0, -9.0])  # here something always pushes
    lengths = [
        len(climb(*endless, 0.01, 700)) - 700,
        len(climb(EVEN, WORTH, 0.005, 7)) - 7,
        len(climb(EVEN, WORTH * 1e-12, 0.005, 7)) - 7,
        len(climb(EVEN, np.array([0.0, 1.0, -1.0]), 0.005, 7)) - 7,
    ]
    narrow = climb(EVEN, WORTH, 0.005, 5000, 0.05)[-1]
    ended, unasked = (at_rest(end) for end in (last, climb(EVEN, WORTH, 0.0005)[-1]))
    at_end = abs(last[0] - 1.2) < 1e-6 or abs(last[2] - 0.8) < 1e-6
    yield from recognise(
        last,
        {
            "the ratio is upside down": close(np.mean(1 / last), 1.0) and not close(np.mean(last), 1.0),
            "downhill": last[0] < 0.9,
            "no action ever falls silent": last[0] > 1.3 and steps > 100,
            "it stops when the first action falls silent": 1.195 < last[0] < 1.2035
            and last[2] > 0.805
            and steps < 1000,
            "the policy is put back into the clip range": last[0] <= 1.2 + 1e-9
            and last[2] >= 0.8 - 1e-9
            and at_end,
            "it goes on when nothing pushes": ended and steps > 100 and close(path[-1], path[-2], 1e-12),
            "it does not begin at the old policy": not close(tilted, np.ones(3)),
            "most is not the number of steps": lengths[0] != 1 or lengths[1] != 1,
            "it stops while something still pushes a little": lengths[2] != 1,
            "one entry of the slope decides when it stops": lengths[3] != 1,
            "eps is not used": ended and close(narrow, last, 1e-3),
        },
        steps=steps,
        sum=np.mean(last),
        tilted=tilted,
        long=lengths[0] + 700,
        short=lengths[1] + 7,
        small=lengths[2] + 6,
        other=lengths[3] + 6,
    )
    said = f"with steps of 0.005 you end at {numbers(last, 5)} after {steps} steps"
    single = np.log(climb(EVEN, WORTH, 0.3, 1, 0.0)[-1])
    yield Property(
        "the first step moves the logits by `step` times (1/3, 0, −1/3)",
        close(single - single.mean(), [0.1, 0.0, -0.1], 1e-3),
        f"with a step of 0.3, and eps = 0, they move by {numbers((single - single.mean()).round(6))}",
    )
    yield Property(
        "the first action passes its knee, and the third still carries it on",
        bool(1.205 < last[0] < 1.225 and (path[:, 0] > 1.2).sum() > 3),
        said,
    )
    yield Property("the second loses, though its advantage is zero", 0.98 < last[1] < 0.99, said)
    far = climb(EVEN, WORTH, 10.0, 5000)[-1]
    yield Property("a long step overshoots more", far[0] > 2, f"with steps of 10 you end at {numbers(far)}")
    words = "without most and eps it climbs until nothing pushes at eps = 0.2"
    yield Property(words, unasked, "with steps of 0.0005 something still pushes where it ends")

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size, scale = rng.integers(2, 6), rng.choice([1e-3, 1, 10])
        return {
            "old_logits": rng.choice([0.1, 1, 2]) * rng.normal(size=size),
            "advantages": scale * rng.normal(rng.choice([-1, 0, 1]), size=size),
            "step": float(rng.choice([0.1, 1, 3]) / scale),
            "most": int(rng.integers(1, 9)),
            "eps": float(rng.choice([0.05, 0.2, 0.5])),
        }

    def slow(p: Problem) -> list[np.ndarray]:
        """Steps along differences of the objective, as long as they say anything."""
        logits, ratios = p.old_logits, [np.ones(len(p.old_logits))]
        for _ in range(p.most):
            slope = differences(logits, p.old_logits, p.advantages, p.eps)
            if np.abs(slope).max() < 1e-7 * np.abs(p.advantages).max():
                break
            logits = logits + p.step * slope
            ratios.append(probabilities(logits) / probabilities(p.old_logits))
        return ratios

    def whole(path: Any, most: int) -> np.ndarray:
        """A path of most + 1 rows, the missing ones zero."""
        rows = np.zeros((most + 2, len(path[0])))
        rows[: len(path[: most + 2])] = path[: most + 2]
        return rows

    yield agrees(
        lambda z, a, step, most, eps: whole(as_arrays(climb)(z, a, step, most, eps), most),
        lambda p: whole(slow(p), p.most),
        random_problems(draw),
        what="the path (rows of zeros where it has ended)",
        tolerance=1e-4,
    )
