"""What a policy earns, and what may be concluded from a few seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from ppobook import validation
from ppobook.envs import make_env
from ppobook.policies import Policy
from ppobook.rollouts import Collector

# Environments stepped side by side: enough to make the network's share small, few enough to be made quickly.
_SIDE_BY_SIDE = 25
# An episode longer than this is taken for one that never ends.
_ENDLESS = 20_000
# Steps that a policy's quick form draws its noise for at once.
_BLOCK = 128
# Numbers that a bootstrap holds at a time.
_AT_ONCE = 2_000_000


@torch.no_grad()
def evaluate(
    policy: Policy, env: str | VectorEnv, episodes: int = 100, seed: int = 0, deterministic: bool = False
) -> dict[str, Any]:
    """Play whole episodes with a policy, and say what they earned.

    How many episodes each environment plays is fixed beforehand. Taking the first `episodes` that finish
    anywhere would prefer short ones, and where length and return go together, as in CartPole, the mean would
    be wrong.

    Parameters
    ----------
    policy : Policy
    env : str, or a vector environment
        An id, as for `ppobook.envs.make_env`; or what that returned, which is reset and left in mid-episode.
    episodes : int
    seed : int
        For environments and actions: the same arguments give the same episodes.
    deterministic : bool
        Take the most probable action instead of drawing one. This flatters a policy that is judged by what it
        does while learning, and asks something else of one whose best is to be random.

    Returns
    -------
    dict
        mean, std, min, max of the undiscounted returns (std with divisor `episodes`); returns and lengths,
        arrays of shape (episodes,), ordered by environment.

    Raises
    ------
    ValueError
        An unknown environment, a count below 1, an episode that does not end within 20000 steps, a reward or
        observation that is not finite.
    """
    episodes = validation.count("episodes", episodes)
    seed = validation.count("seed", seed, low=0)
    made = isinstance(env, str)
    if not isinstance(env, str | VectorEnv):
        raise TypeError(f"env is {env!r}; the id of an environment, or what make_env returned, is wanted")
    envs = make_env(env, min(episodes, _SIDE_BY_SIDE), seed) if isinstance(env, str) else env
    try:
        collector = Collector(envs, policy, seed=seed)
        # As even as it gets: the first few environments play one more.
        wanted = episodes // envs.num_envs + (np.arange(envs.num_envs) < episodes % envs.num_envs)
        played: list[list[tuple[float, int]]] = [[] for _ in wanted]
        unfinished = wanted > 0
        act = policy.mode if deterministic else _sampling(policy, collector)
        while unfinished.any():
            *_, ended = collector.step(act(collector.observations))
            for i, total, length, _ in ended:
                if unfinished[i]:
                    played[i].append((total, length))
                    unfinished[i] = len(played[i]) < wanted[i]
            if collector.lengths[unfinished].max(initial=0) > _ENDLESS:
                raise ValueError(
                    f"env: an episode has gone on for {_ENDLESS} steps; one "
                    "that ends is wanted (make_env(..., max_episode_steps=...) sets a limit)"
                )
    finally:
        if made:
            envs.close()
    returns, lengths = (
        np.array(column) for column in zip(*(e for done in played for e in done), strict=True)
    )
    return {
        "mean": float(returns.mean()),
        "std": float(returns.std()),
        "min": float(returns.min()),
        "max": float(returns.max()),
        "returns": returns,
        "lengths": lengths,
    }


def _sampling(policy: Any, collector: Collector) -> Callable[[Tensor], Tensor]:
    """The policy's draws at what the environments show; in the quick form, where it has one."""
    quick: Any = getattr(policy, "actor", lambda *_: None)(
        _BLOCK, collector.envs.num_envs, collector.generator
    )
    if quick is None:
        return lambda seen: policy.sample(seen, collector.generator)[0]
    t = 0

    def act(seen: Tensor) -> Tensor:
        nonlocal quick, t
        if t == _BLOCK:  # the noise is used up
            quick, t = policy.actor(_BLOCK, collector.envs.num_envs, collector.generator), 0
        drawn, _ = quick(t, seen.cpu().numpy())
        t += 1
        return torch.from_numpy(drawn).to(seen.device)

    return act


class Estimate(NamedTuple):
    """A number for all seeds together, and its interval: floats, or arrays shaped as one seed's values."""

    estimate: Any
    low: Any
    high: Any


def aggregate(
    values: Any,
    *,
    statistic: str = "mean",
    interval: str | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Estimate:
    """Sum up seeds: their mean, or the mean of their middle half, with an interval.

    The interval says how far another set of seeds might have led; not how far a single run may lie off.

    Parameters
    ----------
    values : array, shape (S, ...)
        One row a seed.
    statistic : "mean" or "iqm"
        The interquartile mean leaves out the lowest and the highest quarter (rounded down to whole seeds),
        and so does not follow a single lucky or failed run.
    interval : "t" or "bootstrap", optional
        "t", for the mean only: mean ± t s / √S, right for numbers that are normally distributed, at any S.
        "bootstrap": percentiles of the statistic over seeds drawn again, with replacement. It never leaves
        the range of the values, which suits returns with a ceiling; but it is too narrow for few seeds: with
        five, a 95 % interval covers a normal mean about 84 times in 100. Left out: "t" for the mean, else
        "bootstrap".
    level : float strictly between 0 and 1
    resamples, seed : int
        For the bootstrap. The same seed gives the same interval.

    Returns
    -------
    Estimate
        estimate, low, high.

    Raises
    ------
    ValueError
        Fewer than two seeds, a value that is not finite, an unknown statistic or interval, "t" with "iqm".

    References
    ----------
    Efron and Tibshirani 1993, "An introduction to the bootstrap", chapter 13; Agarwal et al. 2021, "Deep
    reinforcement learning at the edge of the statistical precipice", section 4.3, for the interquartile mean.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim == 0 or len(table) < 2:
        raise ValueError(f"values has shape {table.shape}; at least two seeds are wanted, one a row")
    validation.finite("values", table)
    validation.choice("statistic", statistic, ("mean", "iqm"))
    if interval is None:
        interval = "t" if statistic == "mean" else "bootstrap"
    validation.choice("interval", interval, ("t", "bootstrap"))
    if interval == "t" and statistic != "mean":
        raise ValueError(
            f"interval is 't' and statistic {statistic!r}; 'bootstrap' is wanted, t is for the mean"
        )
    level = validation.number("level", level, above=0, high=1)
    if level == 1:
        raise ValueError("level is 1; a number strictly between 0 and 1 is wanted")

    from scipy import stats  # half a second, that nobody should pay who only wants to play

    def summary(x: np.ndarray, axis: int = 0) -> Any:
        return stats.trim_mean(x, 0.25, axis=axis) if statistic == "iqm" else np.mean(x, axis=axis)

    estimate = summary(table)
    if interval == "t":
        half = stats.t.ppf((1 + level) / 2, len(table) - 1) * stats.sem(table)
        low, high = estimate - half, estimate + half
    else:
        found = stats.bootstrap(
            (table,),
            summary,
            axis=0,
            method="percentile",
            confidence_level=level,
            n_resamples=validation.count("resamples", resamples),
            # So many at a time that a long curve does not need `resamples` copies of itself at once.
            batch=max(1, _AT_ONCE // table.size),
            rng=np.random.default_rng(validation.count("seed", seed, low=0)),
        )
        low, high = found.confidence_interval
    if table.ndim == 1:
        return Estimate(float(estimate), float(low), float(high))
    return Estimate(estimate, low, high)
