"""Compute how many times as fast one contestant is as another, with a 95 % bootstrap interval.

Rates and step times come in pairs that ran one directly after the other, so the ratio is the geometric mean
of the pairs' ratios, and the bootstrap resamples pairs. The time until a policy has learned depends on the
seed far more than on the machine, and equal seeds mean nothing across libraries. There the ratio is that of
the medians, and each contestant's seeds are resampled separately. A run that did not get there in its budget
counts as longer than all that did.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

NEVER = 1e15  # stands for a run that did not get there: finite, so that medians and ratios stay numbers


@dataclass(frozen=True)
class Ratio:
    """A ratio and its interval. It is infinite or 0 where half of a contestant's runs did not get there."""

    ratio: float
    low: float
    high: float


def of_pairs(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """Return the geometric mean of first / second, pair by pair."""
    logs = np.log(np.asarray(first, float) / np.asarray(second, float))
    low, high = _interval((logs,), np.mean)
    return Ratio(math.exp(logs.mean()), math.exp(low), math.exp(high))


def of_medians(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """Return the ratio of two medians; a run that did not get there is `math.inf`."""
    samples = tuple(np.minimum(np.asarray(x, float), NEVER) for x in (first, second))

    def log_ratio(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.log(np.median(a, axis=axis)) - np.log(np.median(b, axis=axis))

    low, high = _interval(samples, log_ratio)
    ends = (_readable(x) for x in (float(log_ratio(*samples)), low, high))
    return Ratio(*ends)


def _readable(log_ratio: float) -> float:
    if abs(log_ratio) > math.log(NEVER) / 2:
        return math.inf if log_ratio > 0 else 0.0
    return math.exp(log_ratio)


def _interval(samples: tuple[np.ndarray, ...], statistic: object) -> tuple[float, float]:
    if min(map(len, samples)) < 2:
        return math.nan, math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy warns about samples without any spread
        found = stats.bootstrap(
            samples, statistic, method="percentile", rng=np.random.default_rng(0)
        ).confidence_interval
    return float(found.low), float(found.high)


def wide(table: pd.DataFrame, race: str, label: str) -> pd.DataFrame:
    """Return a contestant's numbers, one row per seed; times are infinite where it did not get there."""
    mine = table[(table.race == race) & (table.contestant == label)]
    found = mine.pivot(index="seed", columns="measure", values="value")
    if "reached" in found:
        late = found["reached"] == 0
        found[["cpu_seconds", "steps"]] = found[["cpu_seconds", "steps"]].mask(late, math.inf)
    return found


def times_as_fast(table: pd.DataFrame, race: str, ours: str, theirs: str) -> Ratio:
    """Compare two contestants on the seeds that both have; above 1, `ours` is faster."""
    first, second = (wide(table, race, label) for label in (ours, theirs))
    both = first.index.intersection(second.index)
    first, second = first.loc[both], second.loc[both]
    if "reached" in first:
        return of_medians(second["cpu_seconds"], first["cpu_seconds"])
    if "milliseconds" in first:
        return of_pairs(second["milliseconds"], first["milliseconds"])
    return of_pairs(first["steps_per_second"], second["steps_per_second"])
