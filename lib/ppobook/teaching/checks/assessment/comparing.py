"""The check of the last task: who is ahead at the same cost, seed by seed, with an interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Answer, Findings, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, random_problems
from . import GRPO as CHAPTER

QUANTILE = 2.8


@CHAPTER.check("final-compare", section="sec-grpo-measured")
def final_compare(answer: Answer) -> Findings:
    # Five seeds, and what either method has at a cost of 5.
    first, second = np.array([5.0, 7, 6, 9, 8]), np.array([4.0, 4, 8, 6, 5])
    costs = [np.array([0.0, 4, 8])] * 5, [np.array([0.0, 10])] * 5
    ours, theirs = [np.array([0.0, y - 1, y + 3]) for y in first], [np.array([0.0, 2 * y]) for y in second]

    def ask(*curves: Any, at: float = 5.0, quantile: float = QUANTILE) -> np.ndarray:
        first, second = curves
        back = answer(list(first), list(second), at, quantile)
        return as_array(back, (2,), "the mean and half of the interval")

    runs = [list(zip(cost, ys, strict=True)) for cost, ys in zip(costs, (ours, theirs), strict=True)]
    mean, half = ask(*runs)
    gaps = first - second
    apart = np.sqrt(first.var(ddof=1) / 5 + second.var(ddof=1) / 5)
    error = gaps.std(ddof=1) / 5**0.5
    yield from recognise(
        mean,
        {
            "the second is ahead": -gaps.mean(),
            "the nearest look, not the cost": either((first - 1 - 2 * second).mean(), (first - 1).mean()),
            "the ends of the runs are compared": (first + 3 - 2 * second).mean(),
            "the share of seeds that are ahead": 0.8,
            "the median, not the mean": 3.0,
        },
        right=gaps.mean(),
    )
    yield from recognise(
        half,
        {
            "the seeds are not paired": QUANTILE * apart,
            "the scatter of seeds, not of their mean": either(QUANTILE * gaps.std(ddof=1), gaps.std(ddof=1)),
            "divided by the number, not by one less": QUANTILE * gaps.std() / 5**0.5,
            "one standard error": error,
            "1.96, whatever the quantile": 1.96 * error,
            "the whole interval, not half of it": 2 * QUANTILE * error,
        },
        mean=mean,
    )
    # The last run of the first method ends at a cost of 2, with a score of 100.
    mean, half = ask([*runs[0][:4], (np.array([0.0, 2]), np.array([0.0, 100]))], runs[1])
    rest = gaps[:4].sum()
    yield from recognise(
        mean,
        {
            "a run that ended before is carried on": (rest + 95) / 5,
            "a run that ended before is carried on along its slope": (rest + 245) / 5,
            "a run that ended before counts for 0": either((rest - 5) / 5, rest / 5),
        },
    )
    even = ask(runs[0], runs[0])
    yield Property(
        "a method compared with itself is ahead by exactly 0",
        close(even, [0, 0]),
        f"the mean is {numbers(even[0])}, and half of the interval {numbers(even[1])}",
    )

    def asked(costs: Any, ys: Any, their_costs: Any, theirs: Any, at: float, quantile: float) -> np.ndarray:
        return ask(
            list(zip(costs, ys, strict=True)),
            list(zip(their_costs, theirs, strict=True)),
            at=at,
            quantile=quantile,
        )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        n, looks, at = int(rng.integers(2, 6)), int(rng.integers(2, 6)), float(rng.uniform(1, 4))

        def costs() -> np.ndarray:
            x = np.hstack([np.zeros((n, 1)), rng.uniform(0.2, 2, size=(n, looks)).cumsum(1)])
            # Two seeds at least get there with both.
            x[:2] *= np.maximum(1.0, 1.1 * at / x[:2, -1:])
            return x

        return {
            "costs": costs(),
            "ours": rng.normal(size=(n, looks + 1)),
            "their_costs": costs(),
            "theirs": rng.normal(size=(n, looks + 1)),
            "at": at,
            "quantile": float(rng.choice([2.0, 2.26])),
        }

    def slow(p: Problem) -> list[float]:
        def height(x: np.ndarray, y: np.ndarray) -> float | None:
            for (a, left), (b, right) in zip(
                zip(x, y, strict=True), zip(x[1:], y[1:], strict=True), strict=False
            ):
                if a <= p.at <= b:
                    return float(left + (right - left) * (p.at - a) / (b - a))
            return None

        gaps = []
        for run in zip(p.costs, p.ours, p.their_costs, p.theirs, strict=True):
            first, second = height(*run[:2]), height(*run[2:])
            if first is not None and second is not None:
                gaps.append(first - second)
        mean = sum(gaps) / len(gaps)
        variance = sum((g - mean) ** 2 for g in gaps) / (len(gaps) - 1)
        return [mean, p.quantile * (variance / len(gaps)) ** 0.5]

    yield agrees(asked, slow, random_problems(draw, 30), arrays=True)
