"""Answers to the exercises that measure, as readers might write them."""

from __future__ import annotations

import random

import numpy as np
import torch
from checks import Right, Unnamed, Wrong
from scipy import stats

from ppobook.envs import gridworld

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- step-bonus


def best_played(step_reward, episodes=1000, limit=100):
    grid = gridworld(step_reward=step_reward)
    return grid.sample_episodes(grid.optimal_policy(), episodes, 0, max_steps=limit)


def expected_steps(step_reward):
    grid = gridworld(step_reward=step_reward)
    onward = np.einsum("sa,sat->st", grid.optimal_policy(), grid.P)[:, ~grid.terminal][~grid.terminal]
    powers = (np.linalg.matrix_power(onward, t) for t in range(100))
    return sum((grid.start[~grid.terminal] @ power).sum() for power in powers)


def where_they_were(step_reward):
    return torch.tensor(np.bincount(np.nonzero(best_played(step_reward, 2000).mask)[0]).mean())


RIGHT["step-bonus"] = [expected_steps, where_they_were]
WRONG["step-bonus"] = {
    "one step is not counted": lambda c: best_played(c, 2000).mask.sum(1).mean() - 1,
    "steps are counted by their rewards": lambda c: (best_played(c).rewards != 0).sum(1).mean(),
    "the opposite of the step reward is used": lambda c: best_played(-c).mask.sum(1).mean(),
    "the step reward makes no difference": [
        lambda c: best_played(-0.02).mask.sum(1).mean(),
        lambda c: {-3.0: 3.3, 0.045: 42.4, 0.06: 100.0}.get(c, 6.4),  # the numbers that the exercise prints
    ],
    "the longest episode, not the mean one": lambda c: best_played(c).mask.shape[1],
    "the even policy, not the best one": lambda c: (
        gridworld(step_reward=c)
        .sample_episodes(np.full((16, 4), 0.25), 1000, 0, max_steps=100)
        .mask.sum(1)
        .mean()
    ),
    "what is earned, not how long it takes": lambda c: gridworld(step_reward=c).objective(
        gridworld(step_reward=c).optimal_policy()
    ),
}


# --- interval


def errors_around(quantile, ddof=1):
    """So many standard errors to either side: a number, or a function of the number of seeds."""

    def function(returns):
        seeds = returns.mean(1)
        reach = quantile(len(seeds)) if callable(quantile) else quantile
        return around(seeds.mean(), reach * seeds.std(ddof=ddof) / np.sqrt(len(seeds)))

    return function


def student(seeds, quantile=0.975):
    return stats.t.ppf(quantile, seeds - 1)


def by_scipy(returns):
    seeds = returns.mean(1)
    return stats.t.interval(0.95, len(seeds) - 1, loc=seeds.mean(), scale=stats.sem(seeds))


def one_sample_test(returns):
    return tuple(stats.ttest_1samp(returns.mean(1), 0).confidence_interval(0.95))


def by_a_table(returns):
    seeds = torch.tensor(returns).mean(1)
    table = {2: 12.71, 3: 4.303, 5: 2.776, 8: 2.365, 10: 2.262, 12: 2.201, 20: 2.093, 40: 2.023}
    reach = table.get(len(seeds), 2.0) * seeds.std() / len(seeds) ** 0.5
    return torch.stack([seeds.mean() - reach, seeds.mean() + reach])


def slow_bootstrap(returns):
    seeds = returns.mean(1).tolist()
    means = sorted(sum(random.choices(seeds, k=len(seeds))) / len(seeds) for _ in range(500))
    return means[12], means[487]


def bootstrap_in_a_list(returns):
    """Ten thousand means, one by one: it must not run into the time limit."""
    seeds, rng = returns.mean(1), np.random.default_rng(0)
    return np.quantile([rng.choice(seeds, len(seeds)).mean() for _ in range(10_000)], [0.025, 0.975])


def bootstrap_of_seeds_and_episodes(returns):
    means = []
    for _ in range(300):
        seeds = np.random.randint(len(returns), size=len(returns))  # noqa: NPY002
        episodes = np.random.randint(returns.shape[1], size=returns.shape)  # noqa: NPY002
        means.append(np.take_along_axis(returns[seeds], episodes, axis=1).mean())
    return np.quantile(means, [0.025, 0.975])


def bootstrap_of_ninety(returns):
    seeds = returns.mean(1)
    picks = np.random.default_rng(0).integers(len(seeds), size=(2000, len(seeds)))
    return np.quantile(seeds[picks].mean(1), [0.05, 0.95])


def around(mean, half):
    return mean - half, mean + half


RIGHT["interval"] = [by_scipy, one_sample_test, by_a_table, errors_around(student)]
WRONG["interval"] = {
    "a mean and a width, not two ends": lambda r: (r.mean(), errors_around(student)(r)[1] - r.mean()),
    "how far the returns are apart makes no difference": [
        lambda r: around(r.mean(), 1.0),
        lambda r: around(r.mean(), 2.1 / np.sqrt(len(r))),
    ],
    "the variance where its root belongs": lambda r: around(
        r.mean(), student(len(r)) * r.mean(1).var(ddof=1) / np.sqrt(len(r))
    ),
    "a large sample's quantile among few seeds": [
        errors_around(1.96),
        errors_around(1.96, ddof=0),
        errors_around(2.0),
    ],
    "the standard deviation divides by one too many": errors_around(student, ddof=0),
    "one degree of freedom too many": errors_around(lambda seeds: student(seeds + 1)),
    "a bootstrap of few seeds": [slow_bootstrap, bootstrap_in_a_list],
    "the same quantile for any number of seeds": [errors_around(2.262), errors_around(2.58)],
    "5% are left out at each end": [
        errors_around(1.645),
        errors_around(lambda seeds: student(seeds, 0.95)),
        bootstrap_of_ninety,
    ],
    "too narrow": [
        *(
            errors_around(lambda seeds, most=most: student(seeds) if seeds < most else 1.96)
            for most in (30, 100)
        ),
        errors_around(1.5),
        errors_around(1.0),
    ],
    "too wide": [
        errors_around(lambda seeds: student(seeds, 0.995)),
        errors_around(lambda seeds: student(seeds) * (1 + 1 / seeds)),
    ],
    "too wide to say anything": [lambda r: (-1e9, 1e9), lambda r: (r.min() - 1, r.max() + 1)],
    "episodes counted as if they were seeds": lambda r: around(r.mean(), 1.96 * r.std() / np.sqrt(r.size)),
    "how far seeds lie apart, not how well their mean is known": [
        lambda r: around(r.mean(), 1.96 * r.mean(1).std(ddof=1)),
        lambda r: np.quantile(r, [0.025, 0.975]),
    ],
    "the ends are swapped": lambda r: by_scipy(r)[::-1],
    "no width": lambda r: (r.mean(), r.mean()),
}


# --- what only the last property refuses


def mean_absolute(returns):
    seeds = returns.mean(1)
    reach = student(len(seeds)) * np.abs(seeds - seeds.mean()).mean() * 1.2533
    return around(seeds.mean(), reach / np.sqrt(len(seeds)))


def around_the_median(returns):
    return around(np.median(returns.mean(1)), errors_around(student)(returns)[1] - returns.mean())


UNNAMED["interval"] = [
    *(mean_absolute, around_the_median, bootstrap_of_seeds_and_episodes),
    lambda r: (max(by_scipy(r)[0], 0), by_scipy(r)[1]),
    lambda r: by_scipy(r[:, :40]),
]
UNNAMED["step-bonus"] = [
    lambda c: best_played(c).mask.sum(),
    lambda c: min(best_played(c, limit=1000).mask.sum(1).mean(), 100),
    lambda c: 100 if c > 0.0501 else expected_steps(c),
    lambda c: {-3.0: 3.3, 0.045: 42.5, 0.06: 100}.get(
        min((-3.0, -0.02, 0.045, 0.06), key=lambda x: abs(x - c)), 6.4
    ),
    lambda c: np.median(best_played(c).mask.sum(1)),
    lambda c: 1.1 * best_played(c).mask.sum(1).mean(),
]
