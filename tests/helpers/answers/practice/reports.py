"""Answers to the exercises on what may be said of a few seeds."""

from __future__ import annotations

import itertools
import math

import numpy as np
from checks import Right, Unnamed, Wrong
from scipy import integrate, stats

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- performance-profile


def profile(above=lambda x, t: x > t, of=lambda x: x.mean(0)):
    return lambda returns, thresholds: of(above(returns[:, None], thresholds[None]))


def by_sorting(returns, thresholds):
    ordered = np.sort(returns)
    return 1 - np.searchsorted(ordered, thresholds, side="right") / len(ordered)


def in_place(returns, thresholds):
    shares = np.zeros_like(thresholds)
    for i, threshold in enumerate(thresholds):
        shares[i] = (returns > threshold).mean()
    return shares


RIGHT["performance-profile"] = [
    profile(),
    by_sorting,
    lambda returns, thresholds: [float(sum(x > t for x in returns)) / len(returns) for t in thresholds],
    lambda returns, thresholds: np.array([np.count_nonzero(returns > t) for t in thresholds]) / returns.size,
]
WRONG["performance-profile"] = {
    "a return at the threshold counts": profile(lambda x, t: x >= t),
    "the seeds below are counted": [profile(lambda x, t: x < t), profile(lambda x, t: x <= t)],
    "a number of seeds, not a share": [
        profile(of=lambda x: x.sum(0)),
        profile(lambda x, t: x >= t, lambda x: x.sum(0)),
    ],
    "the thresholds are sorted": lambda returns, thresholds: profile()(returns, np.sort(thresholds)),
    "a return for each threshold": lambda r, t: (
        (r[: len(t)] > t[: len(r)]).astype(float) if len(r) == len(t) else r[:1] * 0 + np.zeros(len(t))
    ),
    "a tie counts half": profile(lambda x, t: (x > t) + 0.5 * (x == t)),
    "equal returns count once": lambda returns, thresholds: profile()(np.unique(returns), thresholds),
    "shares are cut to integers": in_place,
}
UNNAMED["performance-profile"] = [
    lambda r, t: profile()(r, t) * 4 / 4 if len(r) > 1 else np.ones(len(t)),
    lambda r, t: (r[:, None] > t[None]).sum(0) / 4,
    lambda r, t: profile()(r.astype(int), t.astype(int)),
]


# --- improvement


def better(tie=0.5, by=lambda points: points.mean(), sign=1):
    def function(ours, theirs):
        gap = sign * (ours[:, None] - theirs[None])
        return by(np.where(gap > 0, 1.0, np.where(gap == 0, tie, 0.0)))

    return function


def by_ranks(ours, theirs):
    ranks = stats.rankdata([*ours, *theirs])[: len(ours)]
    return (ranks.sum() - len(ours) * (len(ours) + 1) / 2) / (len(ours) * len(theirs))


def halves_in_place(ours, theirs):
    """The points of each of ours, in integers where the returns are."""
    points = np.zeros_like(ours)
    for i, x in enumerate(ours):
        points[i] = (x > theirs).mean() + (x == theirs).mean() / 2
    return points.mean()


def without_ties(ours, theirs):
    gap = ours[:, None] - theirs[None]
    return (gap > 0).sum() / (gap != 0).sum() if (gap != 0).any() else 0.5


def in_pairs(ours, theirs):
    if len(ours) != len(theirs):
        return better()(ours, theirs)
    return np.where(ours > theirs, 1, np.where(ours == theirs, 0.5, 0)).mean()


RIGHT["improvement"] = [
    better(),
    by_ranks,
    lambda ours, theirs: (
        sum((x > y) + 0.5 * (x == y) for x in ours for y in theirs) / len(ours) / len(theirs)
    ),
    lambda ours, theirs: (1 + np.sign(ours[:, None] - theirs).mean()) / 2,
]
WRONG["improvement"] = {
    "a tie is a win": better(tie=1.0),
    "a tie counts for nothing": better(tie=0.0),
    "ties are left out": without_ties,
    "the wrong one wins": better(sign=-1),
    "seeds are compared in pairs": in_pairs,
    "a number of wins, not a share": [better(by=np.sum), better(tie=0.0, by=np.sum)],
    "only the means are compared": [
        lambda ours, theirs: float(ours.mean() > theirs.mean()),
        lambda ours, theirs: 0.5 + 0.5 * np.sign(ours.mean() - theirs.mean()),
    ],
}
UNNAMED["improvement"] = [
    lambda ours, theirs: better()(ours, theirs) if set(ours) != set(theirs) else 1.0,
    lambda ours, theirs: better()(ours[:4], theirs[:3]),
    halves_in_place,
    lambda ours, theirs: better()(ours.round(), theirs.round()),
]


# --- hunt-report


def report(
    choose=lambda levels: levels[:, -1],
    error=lambda x, episodes: x.std(ddof=1) / np.sqrt(len(x)),
    factor=1.96,
):
    def function(returns):
        last = choose(returns.mean(2))
        return last.mean(), factor * error(last, returns)

    return function


def by_statistics(returns):
    last = np.mean(returns[:, -1, :], axis=-1)
    return [np.mean(last), 1.96 * stats.sem(last)]


def of_episodes(returns, ddof=0):
    last = returns[:, -1].ravel()
    return last.mean(), 1.96 * last.std(ddof=ddof) / np.sqrt(last.size)


def honest(choose):
    """The mean of what was chosen, with the interval of the last checkpoints."""
    return lambda returns: (report(choose)(returns)[0], report()(returns)[1])


def tried(levels):
    return levels[:, levels.mean(0).argmax()]


def twice_varied(ddof):
    def function(returns):
        last = returns[:, -1]
        inside = last.var(1, ddof=ddof).mean() / last.size if last.shape[1] > 1 else 0.0
        return last.mean(), 1.96 * np.sqrt(last.mean(1).var(ddof=1) / len(last) + inside)

    return function


RIGHT["hunt-report"] = [
    report(),
    by_statistics,
    lambda r: (r[:, -1].mean(), 1.96 * np.sqrt(np.var(r[:, -1].mean(1)) / (len(r) - 1))),
]
WRONG["hunt-report"] = {
    "each seed brings its best checkpoint": [report(lambda x: x.max(1)), honest(lambda x: x.max(1))],
    "the checkpoint that is best for all seeds": [report(tried), honest(tried)],
    "all checkpoints are averaged": report(lambda x: x.mean(1)),
    "the first checkpoint": report(lambda x: x[:, 0]),
    "the best episode of the last checkpoint": lambda r: (r[:, -1].max(1).mean(), report()(r)[1]),
    "episodes are taken for seeds": [of_episodes, lambda r: of_episodes(r, ddof=1)],
    "the scatter of seeds, not of their mean": [
        report(error=lambda x, _: x.std(ddof=1)),
        report(error=lambda x, _: x.std(ddof=1), factor=1),
    ],
    "divided by the number, not by one less": report(error=lambda x, _: x.std() / np.sqrt(len(x))),
    "one standard error, not 1.96": report(factor=1.0),
    "the whole interval, not half of it": report(factor=2 * 1.96),
    "divided by the number of episodes": report(error=lambda x, r: x.std(ddof=1) / np.sqrt(r[:, -1].size)),
    "the interval is of the checkpoints that were chosen": lambda r: (
        report()(r)[0],
        report(lambda x: x.max(1))(r)[1],
    ),
    "the interval is over episodes": lambda r: (
        r[:, -1].mean(),
        1.96 * r[:, -1].mean(0).std(ddof=1) / np.sqrt(r.shape[2]),
    ),
    "the scatter of episodes is added once more": [twice_varied(0), twice_varied(1)],
}
UNNAMED["hunt-report"] = [
    lambda r: (r[:, -1].mean(), 1.96 * r[:, -1].std(1, ddof=1).mean() if r.shape[2] > 1 else 0.0),
    report(lambda x: x[:, min(2, x.shape[1] - 1)]),
    report(factor=2.776),
]


# --- permutation


def permuted(
    differ=lambda a, b: abs(np.mean(a) - np.mean(b)), extreme=lambda x, seen: x >= seen - 1e-9, by=np.mean
):
    def function(a, b):
        pooled, seen = np.concatenate([a, b]), differ(a, b)
        found = []
        for taken in itertools.combinations(range(len(pooled)), len(a)):
            mask = np.isin(np.arange(len(pooled)), taken)
            found.append(extreme(differ(pooled[mask], pooled[~mask]), seen))
        return by(found)

    return function


def by_scipy(a, b):
    def statistic(x, y, axis):
        return np.abs(x.mean(axis) - y.mean(axis))

    if len(a) == 1 and len(b) == 1:
        return 1.0
    if min(len(a), len(b)) < 2:
        return permuted()(a, b)
    found = stats.permutation_test(
        (a, b), statistic, vectorized=True, alternative="greater", n_resamples=np.inf
    )
    return found.pvalue


def by_bits(a, b):
    pooled, total = [*a, *b], sum(a) + sum(b)
    seen, hits, count = abs(np.mean(a) - np.mean(b)), 0, 0
    for bits in range(2 ** len(pooled)):
        if bits.bit_count() == len(a):
            first = sum(x for i, x in enumerate(pooled) if bits >> i & 1)
            count += 1
            hits += abs(first / len(a) - (total - first) / len(b)) > seen - 1e-7
    return hits / count


def signed(a, b):
    return np.mean(a) - np.mean(b)


def by_value(a, b):
    pooled, seen = [*a, *b], abs(np.mean(a) - np.mean(b))
    found = []
    for taken in itertools.combinations(pooled, len(a)):
        rest = [x for x in pooled if x not in taken] or [np.mean(taken)]
        found.append(abs(np.mean(taken) - np.mean(rest)) >= seen - 1e-9)
    return np.mean(found)


def total_less(a, b, slack=0.0):
    pooled, seen, total = np.concatenate([a, b]), abs(a.mean() - b.mean()), a.sum() + b.sum()
    parts = [sum(taken) for taken in itertools.combinations(pooled, len(a))]
    return np.mean([abs(part / len(a) - (total - part) / len(b)) >= seen - slack for part in parts])


RIGHT["permutation"] = [
    permuted(),
    by_bits,
    by_scipy,
    permuted(extreme=lambda x, seen: x > seen or math.isclose(x, seen, abs_tol=1e-12)),
    lambda a, b: permuted(lambda x, y: abs(np.mean(x) - np.mean(y)).round(9), lambda x, seen: x >= seen)(
        a, b
    ),
    lambda a, b: total_less(a, b, 1e-8),
]
WRONG["permutation"] = {
    "one side only": permuted(signed),
    "the other side only": permuted(signed, lambda x, seen: x <= seen + 1e-9),
    "the experiment itself is left out": [
        permuted(extreme=lambda x, seen: x > seen + 1e-9),
        lambda a, b: permuted()(a, b) - 1 / math.comb(len(a) + len(b), len(a)),
    ],
    "the sums are compared": permuted(lambda a, b: abs(np.sum(a) - np.sum(b))),
    "the less extreme are counted": permuted(extreme=lambda x, seen: x < seen - 1e-9),
    "a number of splits, not a share": permuted(by=np.sum),
    "equal results are taken for one": by_value,
    "a rounding decides": [
        total_less,
        permuted(extreme=lambda x, seen: x >= seen),
        permuted(lambda a, b: abs(sum(a) / len(a) - sum(b) / len(b)), lambda x, seen: x >= seen),
        permuted(lambda a, b: abs(math.fsum(a) / len(a) - math.fsum(b) / len(b)), lambda x, seen: x >= seen),
    ],
}
UNNAMED["permutation"] = [
    lambda a, b: stats.ttest_ind(a, b).pvalue if len(a) > 1 < len(b) and np.ptp([*a, *b]) else 1.0,
    permuted(lambda a, b: abs(np.median(a) - np.median(b))),
    permuted(extreme=lambda x, seen: x >= seen - 1e-3),
]


# --- winners-curse


def curse(of=lambda k: k, scale=lambda s: s):
    def function(settings, error):
        k = of(settings)
        if k < 2:
            return 0.0
        best = integrate.quad(lambda x: x * k * stats.norm.pdf(x) * stats.norm.cdf(x) ** (k - 1), -9, 9)[0]
        return scale(error) * best

    return function


def by_sampling(settings, error):
    rng = np.random.default_rng(0)
    return error * rng.normal(size=(100_000, settings)).max(1).mean()


def by_tails(settings, error):
    x = np.linspace(0, 8, 4001)
    p = stats.norm.cdf(x)
    return error * np.trapezoid(1 - p**settings - (1 - p) ** settings, x)


def inside(bound):
    """The integral over a range that is too short for many settings."""

    def function(settings, error):
        x = np.linspace(-bound, bound, 4001)
        density = settings * stats.norm.pdf(x) * stats.norm.cdf(x) ** (settings - 1)
        return error * np.trapezoid(x * density, x)

    return function


def quantile(at):
    return lambda settings, error: error * stats.norm.ppf(at(settings)) if settings > 1 else 0.0


RIGHT["winners-curse"] = [curse(), by_sampling, by_tails, inside(6)]
WRONG["winners-curse"] = {
    "a bound, not the mean": [
        lambda k, s: s * math.sqrt(2 * math.log(k)),
        lambda k, s: s * math.sqrt(math.log(k)),
    ],
    "the standard error is left out": curse(scale=lambda s: 1.0),
    "the variance in place of its root": curse(scale=lambda s: s**2),
    "the mean of all settings": lambda k, s: 0.0,
    "divided by the root of their number": lambda k, s: curse()(k, s) / math.sqrt(k),
    "one setting too few": curse(of=lambda k: k - 1),
    "one setting too many": curse(of=lambda k: k + 1),
    "the largest size, whatever its sign": lambda k, s: (
        s * np.abs(np.random.default_rng(0).normal(size=(100_000, k))).max(1).mean()
        if k == 2
        else curse()(k, s)
    ),
    "one quantile, not the mean": [
        quantile(lambda k: 0.5 ** (1 / k)),
        quantile(lambda k: k / (k + 1)),
        quantile(lambda k: 1 - 1 / k),
        quantile(lambda k: (k - 0.375) / (k + 0.25)),
        quantile(lambda k: (k - np.pi / 8) / (k - np.pi / 4 + 1)),
    ],
}
UNNAMED["winners-curse"] = [
    lambda k, s: s * stats.norm.ppf(1 - 1 / (k + 1)) * 0.5642 / 0.4307,
    lambda k, s: s * {1: 0, 2: 0.5642, 10: 1.5388}.get(k, 2.0),
    inside(3),
    lambda k, s: curse()(k, s) * (1 if k in (2, 10) else 1.02),
]
