"""Checks of the exercises that measure: the length of an episode, and a mean over seeds."""

from __future__ import annotations

import numpy as np
from scipy import stats
from torch import Tensor

from ppobook.envs import TabularMDP, gridworld

from .. import Answer, Findings, Property, Stop, as_array, close, either, numbers, recognise
from . import CHAPTER


def _steps(world: TabularMDP, probs: np.ndarray, limit: int = 100) -> tuple[float, float]:
    """Mean and standard deviation of the steps until an episode ends or is truncated: nobody is sampled."""
    after = np.einsum("sa,sat->st", probs, world.P)
    there = world.start * ~world.terminal
    running = []
    for _ in range(limit):
        running.append(there.sum())
        there = (there @ after) * ~world.terminal
    chances = -np.diff([*running, 0.0])  # that an episode takes 1, 2, … steps
    lengths = np.arange(1, limit + 1)
    mean = chances @ lengths
    return float(mean), float(np.sqrt(max(chances @ (lengths - mean) ** 2, 0.0)))


@CHAPTER.check("step-bonus", section="sec-objective")
def step_bonus(answer: Answer) -> Findings:
    pays = (-0.6, -0.3, 0.0, 0.052, 0.055)
    worlds = [gridworld(step_reward=pay) for pay in pays]
    exact, scatter = np.array([_steps(world, world.optimal_policy()) for world in worlds]).T
    got = np.array([float(as_array(answer(pay), (), "the number of steps")) for pay in pays])
    even, _ = _steps(worlds[1], np.full((16, 4), 0.25))
    yield from recognise(
        got,
        {
            "the even policy, not the best one": bool((np.abs(got - even) < 1.5).all()),
            "the step reward makes no difference": close(got, np.full(5, got[0]), 1e-2),
            "the opposite of the step reward is used": got[0] > 90 and got[4] < 10,
            "what is earned, not how long it takes": close(
                got, [world.objective(world.optimal_policy()) for world in worlds], 0.05
            ),
            "the longest episode, not the mean one": 1.4 * exact[1] < got[1] <= 100
            and close(got, got.round()),
            "steps are counted by their rewards": abs(got[2] - 1) < 0.1 and abs(got[1] - exact[1]) < 0.5,
            "one step is not counted": bool((np.abs(got - exact + 1) < 0.3 + 0.1 * scatter).all()),
        },
    )
    allowed = 4 * scatter / np.sqrt(1000) + 1e-3  # what the means of 1000 episodes may differ by
    yield Property(
        "it takes as many steps as the best policy does on average",
        bool((np.abs(got - exact) < allowed).all()),
        f"for step rewards of {numbers(pays)} you get {numbers(got)} steps, where 1000 episodes give "
        f"{numbers(exact)} within {numbers(allowed, 2)}",
    )


def _draw(
    rng: np.random.Generator, seeds: int, scale: float = 1.0, centre: float = 100.0, episodes: int = 40
) -> np.ndarray:
    """Seeds differ by `scale`, episodes of one seed by twice as much."""
    return centre + scale * (rng.normal(size=(seeds, 1)) + 2 * rng.normal(size=(seeds, episodes)))


@CHAPTER.check("interval", section="sec-intervals")
def interval(answer: Answer) -> Findings:
    rng = np.random.default_rng(1)

    def ask(returns: np.ndarray) -> tuple[float, float]:
        back = answer(returns)
        if not isinstance(back, tuple | list | np.ndarray | Tensor) or len(back) != 2:
            raise Stop("returned", "not an interval", "two numbers (low, high) must come back.")
        low, high = (float(as_array(end, (), "an end of your interval")) for end in back)
        return low, high

    def error(returns: np.ndarray) -> float:
        each = returns.mean(1)
        return float(each.std(ddof=1) / np.sqrt(len(each)))

    counts = np.array([5, 12, 40])
    tables = [_draw(rng, seeds) for seeds in counts]
    ends = [ask(table) for table in tables]
    low, high = ends[0]
    width = high - low
    said = {"low": low, "high": high, "width": width}
    least, most = tables[0].min(), tables[0].max()
    yield from recognise(
        np.array(ends[0]),
        {
            "a mean and a width, not two ends": close(low, tables[0].mean()) and high < low,
            "the ends are swapped": low > high,
            "no width": low == high,
            "too wide to say anything": low < least and high > most,
        },
        least=least,
        most=most,
        **said,
    )
    again = ask(np.repeat(tables[0], 4, axis=1))
    wider = ask(100 + 10 * (tables[0] - 100))
    grown = (wider[1] - wider[0]) / width
    # Half the width in standard errors of the mean over seeds, for 5, 12 and 40 seeds.
    halves = np.array([(b - a) / 2 for a, b in ends])
    errors = np.array([half / error(table) for half, table in zip(halves, tables, strict=True)])
    student, ninety = (stats.t.ppf(quantile, counts - 1) for quantile in (0.975, 0.95))
    biased = np.sqrt((counts - 1) / counts)
    yield from recognise(
        errors,
        {
            "episodes counted as if they were seeds": again[1] - again[0] < 0.75 * width,
            "how far the returns are apart makes no difference": 0.5 < grown < 2,
            "the variance where its root belongs": 50 < grown < 200,
            "how far seeds lie apart, not how well their mean is known": halves[2] > 0.7 * halves[0],
            "5% are left out at each end": either(
                ninety, np.full(3, 1.645), 1.645 * biased, errors[0] < 1.75 and 1.5 < errors[2] < 1.75
            ),
            "a large sample's quantile among few seeds": either(
                np.full(3, 1.96), 1.96 * biased, np.full(3, 2.0), 2 * biased
            ),
            "the standard deviation divides by one too many": student * biased,
            "one degree of freedom too many": stats.t.ppf(0.975, counts),
            "a bootstrap of few seeds": 1.4 < errors[0] < 1.93 and 1.75 < errors[2] < 2.05,
            "the same quantile for any number of seeds": np.ptp(errors) < 0.02 and errors[0] > 2.02,
        },
        tolerance=5e-3,
        other=again[1] - again[0],
        grown=grown,
        ratio=halves[2] / halves[0],
        few=errors[0],
        many=errors[2],
        wanted=student[0],
        **said,
    )
    experiments = [
        (seeds, _draw(rng, seeds, *how))
        for seeds in (2, 3, 5, 8, 20, 40, 100)
        for how in ((0.01, 0.0, 7), (1.0, 100.0, 40), (50.0, -300.0, 90))
    ]
    middles, sizes = [], []
    for seeds, table in experiments:
        a, b = ask(table)
        middles.append(((a + b) / 2 - table.mean()) / error(table))
        sizes.append((b - a) / 2 / error(table) / stats.t.ppf(0.975, seeds - 1))
    off = int(np.argmax(np.abs(np.log(np.maximum(sizes, 1e-9)))))
    missed = 2 * stats.t.sf(sizes[off] * stats.t.ppf(0.975, experiments[off][0] - 1), experiments[off][0] - 1)
    yield from recognise(
        sizes[off],
        {
            "too narrow": 0 < min(sizes) < 0.99 and max(sizes) < 1.01,
            "too wide": max(sizes) > 1.01 and min(sizes) > 0.99,
        },
        seeds=experiments[off][0],
        held=1 - missed,
    )
    yield Property(
        "the mean over seeds lies in its middle",
        float(np.abs(middles).max()) < 0.05,
        f"in one table it lies {numbers(np.abs(middles).max())} standard errors off",
    )
    yield Property(
        "with 2, 3, 5, 8, 20, 40 and 100 seeds, however far apart, it is as wide as 95% asks for",
        0.99 < min(sizes) <= max(sizes) < 1.01,
        f"with {experiments[off][0]} seeds it is {sizes[off]:.2f} times as wide as it should be",
    )
