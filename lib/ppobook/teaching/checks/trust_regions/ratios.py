"""Checks of the exercises on ratios and on how many trajectories are left."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems
from . import CHAPTER, divergence, softmax, two


@CHAPTER.check("per-step-ratio", section="sec-ratios")
def per_step_ratio(answer: Answer) -> Findings:
    # Two trajectories, of three steps and of one; the last two entries of the second row are padding.
    new = np.array([[0.5, 0.25, 0.6], [0.3, 0.9, 0.5]])
    old = np.array([[0.25, 0.5, 0.2], [0.6, 0.45, 0.1]])
    mask = np.array([[True, True, True], [True, False, False]])
    real = np.array([2.0, 0.5, 3.0, 0.5])  # of the four steps that were taken

    def ask(logp: Any, old_logp: Any, mask: Any) -> tuple[Any, Any]:
        return two(answer(logp, old_logp, mask), "the ratios of the steps and those of the trajectories")

    logp, old_logp = leaf(np.log(new)), leaf(np.log(old))
    each, product = ask(logp, old_logp, torch.tensor(mask))
    steps, whole = as_array(each, (2, 3), "the first result"), as_array(product, (2,), "the second result")
    yield from recognise(
        steps[mask],
        {
            "the logarithms are divided": (np.log(new) / np.log(old))[mask],
            "a step's exponential is missing": np.log(new / old)[mask],
            "the ratio is upside down": (old / new)[mask],
            "the mask is turned round": close(steps, np.where(mask, 1.0, new / old)),
            "a difference of probabilities, not a ratio": (new - old)[mask],
            "padding gets a ratio of its own": close(steps[mask], real) and not close(steps[~mask], [1, 1]),
        },
        padding=steps[~mask],
    )
    root = 3 ** (1 / 3)
    yield from recognise(
        whole,
        {
            "padding is multiplied in": [3.0, 5.0],
            "the ratios are added, not multiplied": either([5.5, 0.5], [5.5, 2.5], [5.5, 7.5]),
            "the ratios are averaged, not multiplied": either(
                [5.5 / 3, 0.5], [5.5 / 3, 2.5 / 3], [5.5 / 3, 0.5 / 3]
            ),
            "the logarithms are averaged, not added": either([root, 0.5], [root, 0.5 ** (1 / 3)]),
            "a trajectory's exponential is missing": np.log([3.0, 0.5]),
        },
    )
    # Either result may be what a loss is made of.
    for result, what in ((each, "the ratio of a step"), (product, "the ratio of a trajectory")):
        total = result.sum() if isinstance(result, Tensor) else result
        by_new, by_old = gradients(total, logp, old_logp, what=what, section="sec-surrogate")
        if not close(by_old, 0 * old):
            still = close(by_new, 0 * new)
            name = "the wrong policy is held still" if still else "the old policy can move"
            yield Mistake(name, what=what, slopes=by_old[0])
    logp = leaf(np.log(new) + np.where(mask, 0.0, 1000.0))
    for what, result in zip(
        ("steps", "trajectories"), ask(logp, leaf(np.log(old)), torch.tensor(mask)), strict=True
    ):
        (slopes,) = gradients(result.sum(), logp, what=f"the ratios of the {what}")
        if not np.isfinite(slopes).all():
            yield Mistake("padding makes the gradient nan", what=what, slopes=slopes[1])
    # In float32, a product of a thousand ratios is lost on the way if many small ones, or many large ones,
    # meet first. In which order they meet is the library's choice, so several orders are tried.
    every = torch.ones((1, 1024), dtype=torch.bool)
    for group in (2, 4, 8, 16, 32, 64, 1024):
        change = np.where(np.arange(1024) % group < group // 2, -2.0, 2.0)[None]
        back = ask(leaf(change - 2.0), torch.full((1, 1024), -2.0), every)[1]
        one = as_array(back, (1,), "the second result", finite=False)
        if one[0] == 0 or not np.isfinite(one[0]):
            yield Mistake("the product runs out of numbers", got=one)
    large = torch.zeros(2, 80) + torch.tensor([[1.0], [-1.0]])
    back = ask(leaf(large - 2.0), torch.full((2, 80), -2.0), every[:, :80].expand(2, 80))[1]
    ends = as_array(back, (2,), "the second result", finite=False)
    yield Property(
        "eighty steps with the ratio e, and eighty with 1/e, give e to the power of 80 and of −80",
        close(ends / np.exp([80.0, -80.0]), [1.0, 1.0], 1e-2),
        numbers(ends),
    )
    # A step may be so rare that its ratio, or both of its probabilities, are 0 in float32.
    each, whole = ask(leaf([[-200.0, -150, -1]]), torch.tensor([[-90.0, -205, -56]]), every[:, :3])
    steps = as_array(each, (1, 3), "the first result", finite=False)[0]
    one = as_array(whole, (1,), "the second result", finite=False)[0]
    kept = Property(
        "log-probabilities as far down as −205 lose no step's ratio, and no trajectory's",
        close([*steps / np.exp(55.0), one], [0.0, 1, 1, 1], 1e-2),
        f"for steps whose ratios have the logarithms −110, 55 and 55: {numbers(steps)}, and {numbers(one)}",
    )
    yield kept
    if not kept.holds:
        return

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        shape = rng.integers(1, 6, size=2)
        old_logp = -rng.choice([0.5, 3, 20, 300]) * rng.random(shape)
        mask = np.arange(shape[1]) < rng.integers(1, shape[1] + 1, size=(shape[0], 1))
        padding = rng.choice([0.5, 30]) * rng.normal(size=shape)
        change = np.where(mask, rng.choice([0.01, 0.3, 2, 10]) * rng.normal(size=shape), padding)
        return {"logp": old_logp + change, "old_logp": old_logp, "mask": mask}

    def of_steps(p: Problem) -> list[list[float]]:
        rows = zip(p.logp, p.old_logp, p.mask, strict=True)
        return [[np.exp(n - o) if m else 1.0 for n, o, m in zip(*row, strict=True)] for row in rows]

    def of_trajectories(p: Problem) -> list[float]:
        return [float(np.prod(row)) for row in of_steps(p)]

    def both(*arguments: Any) -> Any:
        return sum(result.sum() for result in ask(*arguments))

    def of_both(p: Problem) -> float:
        return float(np.sum(of_steps(p)) + np.sum(of_trajectories(p)))

    problems = random_problems(draw)
    yield agrees(lambda *a: ask(*a)[0], of_steps, problems, what="your first result")
    yield agrees(lambda *a: ask(*a)[1], of_trajectories, problems, what="your second result")
    yield agrees(both, of_both, problems, what="the sum of all your ratios", by=("logp",), held=("old_logp",))


@CHAPTER.check("ess", section="sec-ess")
def ess(answer: Answer) -> Findings:
    ratios = np.array([[2.0, 2.0], [1.0, 1.0], [1.0, 1.0], [1.0, 0.5]])
    weights = np.array([[2.0, 4.0], [1.0, 1.0], [1.0, 1.0], [1.0, 0.5]])  # multiplied along each row

    def ask(log_ratio: np.ndarray, *, finite: bool = True) -> np.ndarray:
        back = answer(torch.tensor(log_ratio, dtype=torch.float32))
        return as_array(back, (log_ratio.shape[1],), "the result", finite=finite)

    def size(w: np.ndarray) -> np.ndarray:
        """One over the chance that two draws by weight fall on the same trajectory."""
        return np.array([1 / sum((x / sum(column)) ** 2 for x in column) for column in w.T])

    log_ratio = np.log(ratios)
    got, right, summed = ask(log_ratio), size(weights), np.cumsum(log_ratio, 1)
    first, second = weights.sum(0), (weights**2).sum(0)
    with np.errstate(all="ignore"):
        bare = summed.sum(0) ** 2 / (summed**2).sum(0)
    yield from recognise(
        got,
        {
            "each step is weighed on its own": size(ratios),
            "the ratios of the steps are added, not multiplied": size(np.cumsum(ratios, 1)),
            "summed over trajectories, not over time": size(np.exp(np.cumsum(log_ratio, 0))),
            "the logarithms themselves as weights": bare,
            "a share, not a number of trajectories": right / 4,
            "a mean where a sum belongs": either(right / 16, right * 4),
            "upside down": 1 / right,
            "a square is missing": either(first / second, first),
            "the weights do not add up to one": 1 / second,
            "the weights make no difference": either(1.0, 4.0),
            "the mean weight is taken to be 1": either(*(4 / (1 + weights.var(0, ddof=d)) for d in (0, 1))),
            "one step too few": size(weights[:, [1, 0]] * [0, 1] + [1, 0]),
            "weighed from the end, not from the start": size(np.cumprod(ratios[:, ::-1], 1)[:, ::-1]),
            "each trajectory is scaled by itself": either(
                size(np.exp(summed - summed.max(1, keepdims=True))),
                size(np.exp(summed) / np.exp(summed).sum(1, keepdims=True)),
            ),
        },
    )
    shifted = {far: ask(log_ratio + far, finite=False) for far in (200.0, -200.0)}
    wrong = {far: [not close(*x, 1e-3) for x in zip(now, got, strict=True)] for far, now in shifted.items()}
    one = all(sum(lost) == 1 for lost in wrong.values())  # the step that set the factor is right, either way
    for far, now in shifted.items():
        if close(got, right, 1e-3) and any(wrong[far]):
            if close(now, [4, 4]):
                yield Mistake("the logarithms are clamped", far=far, got=now)
            yield Mistake("one factor for all steps" if one else "it overflows", far=far, got=now)
    equal = ask(np.full((5, 2), 0.3))
    yield Property("equal weights are worth their number", close(equal, [5.0, 5.0]), numbers(equal))
    lone = ask(np.array([[200.0, 0.0], [0.0, 0.0], [0.0, 200.0], [0.0, 0.0]]), finite=False)
    yield Property(
        "of weights 1, 1, 1 and e to the power of 200 one is left", close(lone[0], 1.0), numbers(lone[0])
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        if rng.random() < 0.2:  # long, and short enough on the way for float32
            return {"log_ratio": rng.normal(size=(3, 120))}
        shape, drift = rng.integers(1, 7, size=2), rng.choice([-100, 0, 0, 100])
        spread = rng.choice([0.05, 1, 1, 50])
        return {"log_ratio": drift + spread * rng.normal(size=shape)}

    def slow(p: Problem) -> list[float]:
        found = []
        for t in range(p.log_ratio.shape[1]):
            logs = [sum(row[: t + 1]) for row in p.log_ratio]
            shares = [1 / sum(np.exp(np.minimum(other - one, 600)) for other in logs) for one in logs]
            found.append(1 / sum(share**2 for share in shares))
        return found

    yield agrees(answer, slow, random_problems(draw))


@CHAPTER.check("ratio-variance", section="sec-ratios")
def ratio_variance(answer: Answer) -> Findings:
    old = np.array([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.25, 0.5, 0.25]])
    new = np.array([[0.125, 0.375, 0.5], [0.5, 0.25, 0.25], [0.125, 0.5, 0.375]])

    def ask(old: Any, new: Any, *, finite: bool = True) -> float:
        back = answer(*(torch.as_tensor(x).double() for x in (old, new)))
        return float(as_array(back, (), "the variance", finite=finite))

    def slow(p: Problem) -> float:
        """Every trajectory, its probability and its ratio."""
        mean = square = 0.0
        for actions in itertools.product(range(p.old.shape[1]), repeat=len(p.old)):
            path = np.arange(len(p.old)), list(actions)
            chance, ratio = float(np.prod(p.old[path])), float(np.prod(p.new[path] / p.old[path]))
            mean, square = mean + chance * ratio, square + chance * ratio**2
        return square - mean**2

    one = slow(Problem(old=old[:1], new=new[:1]))
    got, many = ask(old[:1], new[:1]), ask(old, new)
    (o, *_), (n, *_) = old, new
    r, back, drift = n / o, o / n, float(divergence(o, n))
    each = np.array([o @ (n / o) ** 2 - 1 for o, n in zip(old, new, strict=True)])
    yield from recognise(
        got,
        {
            "the mean square, not the variance": one + 1,
            "the standard deviation": one**0.5,
            "the ratio is upside down": either(
                o @ back**2 - (o @ back) ** 2, o @ back**2 - 1, n @ back**2 - 1
            ),
            "averaged under the new policy": either(n @ r**2 - (n @ r) ** 2, n @ r**2 - 1),
            "every action counted alike": either(r.var(), r.var(ddof=1), (r**2).mean() - 1, (r**2).sum() - 1),
            "summed over time, not over actions": np.prod(n**2 / o) - 1,
            "the approximation for small steps": either(2 * drift, np.expm1(2 * drift), np.expm1(one)),
            "the variance of the logarithm": o @ np.log(r) ** 2 - (o @ np.log(r)) ** 2,
        },
        tolerance=1e-4,
    )
    yield from recognise(
        [got, many],
        {
            "one step stands for all": either([one, each[0]], [one, each[-1]]),
            "variances of a sum, not of a product": either([one, each.sum()], [one, each.mean()]),
            "the variances are multiplied": [one, each.prod()],
        },
        each=each,
    )
    never = ask(old[:1], [[0.0, 0.5, 0.5]], finite=False)
    yield Property("an action that is given up altogether is no obstacle", close(never, 1.0), numbers(never))

    toss = [np.tile(pair, (600, 1)) for pair in ([0.5, 0.5], [0.6, 0.4])]
    long = ask(*toss, finite=False)
    yield Property(
        "for 600 steps, each with the variance 0.04, it is 1.04 to the power of 600, less 1",
        close(long / 1.04**600, 1.0),
        numbers(long),
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        shape = rng.integers(1, 6), rng.integers(2, 5)
        old = softmax(rng.normal(size=shape))
        new = softmax(np.log(old) + rng.choice([0.0, 0.1, 1.0, 3.0]) * rng.normal(size=shape))
        if rng.random() < 0.3:
            new[rng.integers(shape[0])] = np.eye(int(shape[1]))[rng.integers(shape[1])]
        return {"old": old, "new": new}

    yield agrees(lambda o, n: ask(o, n, finite=False), slow, random_problems(draw), what="the variance")
