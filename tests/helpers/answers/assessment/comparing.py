"""Comparison of two algorithms at the same cost."""

from __future__ import annotations

import numpy as np
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def height(run, cost):
    return np.interp(cost, *run)


def nearest(run, cost):
    return run[1][np.argmin(abs(np.asarray(run[0]) - cost))]


def along(run, cost):
    x, y = run
    if cost <= x[-1]:
        return height(run, cost)
    return y[-1] + (y[-1] - y[-2]) / (x[-1] - x[-2]) * (cost - x[-1])


def compared(
    read=height,
    kept=lambda first, second, cost: min(first[0][-1], second[0][-1]) >= cost,
    mean=np.mean,
    half=lambda gaps, firsts, seconds, q: q * np.std(gaps, ddof=1) / np.sqrt(len(gaps)),
    sign=1.0,
):
    def function(ours, theirs, cost, quantile):
        pairs = [
            (read(first, cost), read(second, cost))
            for first, second in zip(ours, theirs, strict=True)
            if kept(first, second, cost)
        ]
        firsts, seconds = np.array(pairs).T
        gaps = sign * (firsts - seconds)
        return mean(gaps), half(gaps, firsts, seconds, quantile)

    return function


def by_hand(ours, theirs, cost, quantile):
    gaps = []
    for (x, y), (u, v) in zip(ours, theirs, strict=True):
        if x[-1] < cost or u[-1] < cost:
            continue
        i, j = max(1, int(np.searchsorted(x, cost))), max(1, int(np.searchsorted(u, cost)))
        a = y[i - 1] + (y[i] - y[i - 1]) * (cost - x[i - 1]) / (x[i] - x[i - 1])
        b = v[j - 1] + (v[j] - v[j - 1]) * (cost - u[j - 1]) / (u[j] - u[j - 1])
        gaps.append(a - b)
    m = sum(gaps) / len(gaps)
    variance = sum((g - m) ** 2 for g in gaps) / (len(gaps) - 1)
    return [m, quantile * (variance / len(gaps)) ** 0.5]


def always(first, second, cost):
    return True


def zero_where_short(ours, theirs, cost, quantile):
    gaps = [
        height(a, cost) - height(b, cost) if min(a[0][-1], b[0][-1]) >= cost else 0.0
        for a, b in zip(ours, theirs, strict=True)
    ]
    return np.mean(gaps), quantile * np.std(gaps, ddof=1) / len(gaps) ** 0.5


def apart(gaps, firsts, seconds, q):
    n = len(gaps)
    return q * np.sqrt(firsts.var(ddof=1) / n + seconds.var(ddof=1) / n)


def error(gaps):
    return np.std(gaps, ddof=1) / len(gaps) ** 0.5


RIGHT["final-compare"] = [compared(), by_hand]
WRONG["final-compare"] = {
    "the second is ahead": compared(sign=-1.0),
    "the nearest look, not the cost": compared(read=nearest),
    "the ends of the runs are compared": compared(read=lambda run, cost: run[1][-1]),
    "the share of seeds that are ahead": compared(mean=lambda gaps: np.mean(gaps > 0)),
    "the median, not the mean": compared(mean=np.median),
    "the seeds are not paired": compared(half=apart),
    "the scatter of seeds, not of their mean": [
        compared(half=lambda gaps, a, b, q: q * np.std(gaps, ddof=1)),
        compared(half=lambda gaps, a, b, q: np.std(gaps, ddof=1)),
    ],
    "divided by the number, not by one less": compared(
        half=lambda gaps, a, b, q: q * np.std(gaps) / len(gaps) ** 0.5
    ),
    "one standard error": compared(half=lambda gaps, a, b, q: error(gaps)),
    "1.96, whatever the quantile": compared(half=lambda gaps, a, b, q: 1.96 * error(gaps)),
    "the whole interval, not half of it": compared(half=lambda gaps, a, b, q: 2 * q * error(gaps)),
    "a run that ended before is carried on": compared(kept=always),
    "a run that ended before is carried on along its slope": compared(kept=always, read=along),
    "a run that ended before counts for 0": zero_where_short,
}
UNNAMED["final-compare"] = [
    compared(half=lambda gaps, a, b, q: -q * error(gaps)),
    compared(half=lambda gaps, a, b, q: 2.8 * error(gaps)),
    compared(kept=lambda first, second, cost: first[0][-1] >= cost),
]
