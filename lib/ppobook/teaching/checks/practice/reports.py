"""Checks of the exercises on what may be said of a few seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

import numpy as np

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, random_problems
from . import CHAPTER


def _number(answer: Answer, *arguments: Any, what: str = "the result") -> float:
    return float(as_array(answer(*arguments), (), what))


@CHAPTER.check("performance-profile", section="sec-practice-reporting")
def performance_profile(answer: Answer) -> Findings:
    returns, thresholds = np.array([100.0, 500, 500, 200]), np.array([150.0, 500, 99, 200])
    got = as_array(answer(returns, thresholds), (4,))
    yield from recognise(
        got,
        {
            "a return at the threshold counts": [0.75, 0.5, 1, 0.75],
            "the seeds below are counted": either([0.25, 0.5, 0, 0.25], [0.25, 1, 0, 0.5]),
            "a number of seeds, not a share": either([3.0, 0, 4, 2], [3.0, 2, 4, 3]),
            "the thresholds are sorted": [1, 0.75, 0.5, 0],
            "a return for each threshold": [0, 0, 1, 0],
            "a tie counts half": [0.75, 0.25, 1, 0.625],
            "equal returns count once": [2 / 3, 0, 1, 1 / 3],
        },
    )
    whole = as_array(answer(returns.astype(int), thresholds.astype(int)), (4,))
    yield from recognise(whole, {"shares are cut to integers": [0, 0, 1, 0]})
    one = as_array(answer(np.array([3.0]), np.array([1.0, 2.0, 5.0])), (3,))
    yield Property("one seed is above its thresholds or it is not", close(one, [1, 1, 0]), numbers(one))

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        returns = rng.choice([1.0, 100.0]) * rng.integers(-5, 6, size=rng.integers(1, 9))
        thresholds = rng.choice([1.0, 100.0]) * rng.integers(-6, 7, size=rng.integers(1, 9))
        kind = rng.choice(["int", "float"])  # many environments pay in integers
        part = 0.3 if kind == "float" else 1
        return {"returns": part * returns.astype(kind), "thresholds": part * thresholds.astype(kind)}

    def slow(p: Problem) -> list[float]:
        return [sum(1 for x in p.returns if x > limit) / len(p.returns) for limit in p.thresholds]

    yield agrees(answer, slow, random_problems(draw), arrays=True)


@CHAPTER.check("improvement", section="sec-practice-reporting")
def improvement(answer: Answer) -> Findings:
    ours, theirs = np.array([1.0, 4, 4, 2]), np.array([2.0, 4])
    probes = [(ours, theirs), (np.array([5.0, 1, 1]), np.array([4.0, 0, 3]))]
    seen = [_number(answer, *probe, what="the probability") for probe in probes]
    yield from recognise(
        seen,
        {
            "a tie is a win": [5 / 8, 5 / 9],
            "a tie counts for nothing": [2 / 8, 5 / 9],
            "ties are left out": [2 / 5, 5 / 9],
            "the wrong one wins": [9 / 16, 4 / 9],
            "seeds are compared in pairs": [seen[0], 2 / 3],
            "a number of wins, not a share": either([3.5, 5.0], [2.0, 5.0]),
            "only the means are compared": either([0.0, 0.5], [0.0, 0.0], [0.0, 1.0]),
        },
        got=seen[0],
        second=seen[1],
    )
    same = _number(answer, np.array([3.0, 7]), np.array([3.0, 7]), what="the probability")
    yield Property("a learner against itself has one half", close(same, 0.5), numbers(same))

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        sizes, width, kind = rng.integers(1, 8, size=2), rng.choice([3, 1000]), rng.choice(["int", "float"])
        part = 0.25 if kind == "float" else 1
        ours, theirs = (rng.integers(-width, width + 1, size=size).astype(kind) for size in sizes)
        return {"ours": part * ours, "theirs": part * (theirs - rng.choice([0, width]))}

    def slow(p: Problem) -> float:
        points = [1.0 if x > y else 0.5 if x == y else 0.0 for x in p.ours for y in p.theirs]
        return sum(points) / len(points)

    yield agrees(answer, slow, random_problems(draw), arrays=True)


@CHAPTER.check("hunt-report", section="sec-practice-reporting")
def hunt_report(answer: Answer) -> Findings:
    # Two seeds, three checkpoints, three episodes. The last checkpoints earn 3 and 7 on average.
    returns = np.array([[[10.0] * 3, [0] * 3, [2, 3, 4]], [[0.0, 1, 2], [16] * 3, [5, 7, 9]]])

    def ask(values: np.ndarray) -> tuple[float, float]:
        mean, half = as_array(answer(values), (2,), "the mean and half of the interval")
        return float(mean), float(half)

    mean, half = ask(returns)
    wide = 1.96 * 2.0  # the seeds' means have a standard deviation of √8, and there are two
    pooled = returns[:, -1].ravel()
    across = returns[:, -1].mean(0)  # what one would average over if the axes were exchanged
    twice = [(4 + returns[:, -1].var(1, ddof=d).mean() / 6) ** 0.5 for d in (0, 1)]
    yield from recognise(
        mean,
        {
            "each seed brings its best checkpoint": 13.0,
            "the checkpoint that is best for all seeds": 8.0,
            "all checkpoints are averaged": returns.mean(),
            "the first checkpoint": 5.5,
            "the best episode of the last checkpoint": 6.5,
        },
    )
    yield from recognise(
        half,
        {
            "episodes are taken for seeds": either(*(1.96 * pooled.std(ddof=d) / 6**0.5 for d in (0, 1))),
            "the scatter of seeds, not of their mean": either(1.96 * 8**0.5, 8**0.5),
            "divided by the number, not by one less": 1.96 * 2.0 / 2**0.5,
            "one standard error, not 1.96": 2.0,
            "the whole interval, not half of it": 2 * wide,
            "divided by the number of episodes": 1.96 * 8**0.5 / 6**0.5,
            "the interval is of the checkpoints that were chosen": either(1.96 * 3, 1.96 * 3 / 2**0.5),
            "the interval is over episodes": either(*(1.96 * across.std(ddof=d) / 3**0.5 for d in (0, 1))),
            "the scatter of episodes is added once more": either(*(1.96 * error for error in twice)),
        },
        mean=mean,
    )
    alike = ask(np.array([[[1.0, 5]], [[5.0, 1]], [[3.0, 3]]]))
    yield Property(
        "seeds with equal means leave no doubt about the mean of the seeds",
        close(alike, [3, 0]),
        f"the mean {numbers(alike[0])}, half of the interval {numbers(alike[1])}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        seeds, checkpoints, episodes = rng.integers(2, 7), rng.integers(1, 5), rng.integers(1, 7)
        levels = rng.choice([1, 100]) * rng.normal(size=(seeds, checkpoints, 1))
        return {"returns": levels + rng.choice([0.1, 10]) * rng.normal(size=(seeds, checkpoints, episodes))}

    def slow(p: Problem) -> list[float]:
        levels = [sum(seed[-1]) / len(seed[-1]) for seed in p.returns]
        # The variance of one seed is half the mean squared difference of two.
        pairs = [(x - y) ** 2 for i, x in enumerate(levels) for y in levels[:i]]
        error = (sum(pairs) / len(pairs) / 2 / len(levels)) ** 0.5
        return [sum(levels) / len(levels), 1.96 * error]

    yield agrees(answer, slow, random_problems(draw), arrays=True)


def _splits(values: list[float], size: int) -> Iterator[tuple[list[float], list[float]]]:
    """Every way to take `size` of the values, and what is left."""
    if size in (0, len(values)):
        yield (values, []) if size else ([], values)
        return
    for taken, left in _splits(values[1:], size - 1):
        yield [values[0], *taken], left
    for taken, left in _splits(values[1:], size):
        yield taken, [values[0], *left]


@CHAPTER.check("permutation", section="sec-practice-reporting")
def permutation(answer: Answer) -> Findings:
    first, second = np.array([5.0, 10, 13]), np.array([1.0, 3, 8, 11])  # 11 of 35 splits

    def of_splits(p: Any, differ: Any = lambda a, b: abs(np.mean(a) - np.mean(b))) -> list[float]:
        """Return the gap between the two groups in the experiment, and then in every split."""
        a, b = list(map(float, p[0])), list(map(float, p[1]))
        return [differ(a, b), *(differ(x, y) for x, y in _splits(a + b, len(a)))]

    def share(found: list[float], strict: bool = False) -> float:
        seen, *every = found
        return float(np.mean([x > seen + 1e-9 if strict else x >= seen - 1e-9 for x in every]))

    pair = (first, second)
    right = share(of_splits(pair))
    signed = of_splits(pair, lambda a, b: np.mean(a) - np.mean(b))
    got = _number(answer, *pair, what="the p-value")
    yield from recognise(
        got,
        {
            "one side only": share(signed),
            "the other side only": share([-x for x in signed]),
            "the experiment itself is left out": either(share(of_splits(pair), strict=True), right - 1 / 35),
            "the sums are compared": share(of_splits(pair, lambda a, b: abs(sum(a) - sum(b)))),
            "the less extreme are counted": 1 - right,
            "a number of splits, not a share": 35 * right,
        },
        right=right,
    )
    twice = np.array([1.0, 2, 2]), np.array([2.0, 3, 5])
    got = _number(answer, *twice, what="the p-value")
    a, b = ([float(x) for x in group] for group in twice)
    by_value = [(x, [v for v in y if v not in x]) for x, y in _splits(a + b, 3)]
    gaps = [abs(float(np.mean(x) - np.mean(y))) for x, y in [(a, b), *by_value]]
    yield from recognise(got, {"equal results are taken for one": share(gaps)}, want=share(of_splits(twice)))
    alone = _number(answer, np.array([1.0, 2, 3]), np.array([7.0, 8, 9]), what="the p-value")
    yield Property(
        "three seeds all below three others are 2 of 20 splits",
        close(alone, 0.1),
        f"the p-value: {numbers(alone)}",
    )
    same = _number(answer, np.array([4.0, 4]), np.array([4.0, 4, 4]), what="the p-value")
    yield Property("equal numbers are no evidence", close(same, 1.0), f"the p-value: {numbers(same)}")
    # In tenths, differences that are equal come out unequal in one or another of these, however one sums.
    for counts in (
        ([6.0, 5, 8], [2.0, 9, 6]),
        ([8.0, 2, 5], [1.0, 7, 3]),
        ([8.0, 4], [6.0, 2, 6, 8]),
        ([4.0, 9, 7], [6.0, 3, 7, 2]),
        ([4.0, 5, 6, 2], [9.0, 4, 2]),
    ):
        whole = [np.array(group) for group in counts]
        tenths = [group / 10 for group in whole]
        rounded, exact = (_number(answer, *groups, what="the p-value") for groups in (tenths, whole))
        want = share(of_splits(whole))
        if not close(rounded, exact) and rounded < want - 1e-3:
            yield Mistake("a rounding decides", ours=tenths[0], theirs=tenths[1], got=rounded, want=want)

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        sizes = rng.integers(1, 6, size=2)
        shift = rng.choice([0, 2, 5])
        a, b = rng.integers(-9, 10, size=sizes[0]) + shift, rng.integers(-9, 10, size=sizes[1])
        scale = rng.choice([1, 0.1, 0.001, 37.3])
        return {"a": a * scale, "b": b * scale}

    yield agrees(answer, lambda p: share(of_splits((p.a, p.b))), random_problems(draw), arrays=True)


@CHAPTER.check("winners-curse", section="sec-practice-tuning")
def winners_curse(answer: Answer) -> Findings:
    def ask(settings: int, error: float) -> float:
        return _number(answer, settings, error, what="how much too high")

    two, ten = ask(2, 3.0), ask(10, 3.0)
    exact = [3 / math.sqrt(math.pi), 3 * 1.538753]
    normal = NormalDist()
    quantiles: tuple[Callable[[int], float], ...] = (
        lambda k: 0.5 ** (1 / k),  # the median of the best
        lambda k: k / (k + 1),
        lambda k: 1 - 1 / k,
        lambda k: (k - 0.375) / (k + 0.25),  # Blom
        lambda k: (k - math.pi / 8) / (k - math.pi / 4 + 1),  # Elfving
    )
    yield from recognise(
        [two, ten],
        {
            "a bound, not the mean": either(
                *([3 * math.sqrt(c * math.log(k)) for k in (2, 10)] for c in (1, 2))
            ),
            "the standard error is left out": [x / 3 for x in exact],
            "the variance in place of its root": [3 * x for x in exact],
            "the mean of all settings": [0.0, 0.0],
            "divided by the root of their number": [
                x / math.sqrt(k) for x, k in zip(exact, (2, 10), strict=True)
            ],
            "one setting too few": [0.0, 3 * 1.485013],
            "one setting too many": [3 * 0.846284, 3 * 1.586436],
            "the largest size, whatever its sign": [3 * 2 / math.sqrt(math.pi), ten],
            "one quantile, not the mean": either(
                *([3 * normal.inv_cdf(at(k)) for k in (2, 10)] for at in quantiles)
            ),
        },
        tolerance=1e-2,
        two=two,
        ten=ten,
    )
    one = ask(1, 1.0)
    yield Property(
        "of one setting nothing was chosen", abs(one) < 0.02, f"one setting is {numbers(one)} too high"
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return {
            "settings": int(rng.integers(2, 60)) if rng.random() < 0.8 else int(rng.choice([100, 300])),
            "error": float(rng.choice([0.01, 1.0, 25.0]) * rng.uniform(1, 3)),
        }

    def relative(settings: int, error: float) -> float:
        return ask(settings, error) / error

    def slow(p: Problem) -> float:
        """The chance that the best is above x, less the chance that it is below -x, added up over x > 0."""
        total, step = 0.0, 0.01
        for i in range(800):
            x = (i + 0.5) * step
            below = 0.5 * (1 + math.erf(x / math.sqrt(2)))
            total += step * (1 - below**p.settings - (1 - below) ** p.settings)
        return total

    # Twice the tolerance is forgiven: once for the size of the number, once for that of the largest.
    yield agrees(
        relative, slow, random_problems(draw), what="how much too high, in standard errors", tolerance=5e-3
    )
