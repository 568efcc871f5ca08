"""Returns of a policy, and confidence intervals over seeds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import nn

from ppobook import validation
from ppobook.envs import EnvLike, env_maker, env_seeds, make_env
from ppobook.policies import Policy
from ppobook.rollouts import Collector
from ppobook.run.machine import float32_on_cpu

# Episodes that are played side by side, and rows of every batch that the policy is given.
_ROWS = 25
# An episode longer than this is taken for one that never ends.
_MOST_STEPS = 20_000
TO_LIMIT_THEM = (
    "max_episode_steps in env_kwargs sets a limit for an id, gymnasium.wrappers.TimeLimit for an environment "
    "of your own; or register it by gym.register, with max_episode_steps"
)
# Entries of the resamples that a bootstrap holds at a time.
_BOOTSTRAP_ENTRIES = 2_000_000


@torch.no_grad()
@float32_on_cpu()
def evaluate(
    policy: Policy,
    env: EnvLike | VectorEnv,
    episodes: int = 100,
    seed: int = 0,
    deterministic: bool = False,
    *,
    env_kwargs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns of a policy in whole episodes, with dropout off and batch normalization fixed.

    Episode i of a seed is the same however many episodes are played, and in however many environments (unless
    an environment keeps something over its resets). All episodes that are begun count: the first ones to end
    would be too short on average, and biased.

    Parameters
    ----------
    policy : Policy
    env : str, gymnasium.Env, function, or a vector environment
        As for `ppobook.envs.make_env`; or what that returned, which is reset first. Not an environment in
        which a run is training: its episode would end without the run noticing.
    episodes : int
    seed : int
        For environments and actions: the same arguments give the same episodes.
    deterministic : bool
        Take the most probable action instead of sampling. The result is not that of the policy being trained,
        and may be far from it where the optimal policy is random.
    env_kwargs : dict, optional
        Keyword arguments of an environment that is given by its id: ``run.config["env_kwargs"]``.

    Returns
    -------
    dict
        mean, std, min, max of the undiscounted returns (std with divisor `episodes`); returns and lengths,
        arrays of shape (episodes,).

    Raises
    ------
    ValueError
        An unknown environment, an episode of more than 20000 steps, a number that is not finite.
    """
    episodes = validation.count("episodes", episodes)
    seed = validation.count("seed", seed, low=0)
    with evaluation_mode(policy), _opened(env, min(episodes, _ROWS), env_kwargs or {}) as envs:
        collector = Collector(envs, policy, seed=seed)
        seeds = env_seeds(seed, episodes)
        played: list[tuple[float, int]] = []
        while (first := len(played)) < episodes:
            n = min(envs.num_envs, _ROWS - first % _ROWS, episodes - first)
            if first:  # the collector began the first episodes, by the same seeds
                collector.reset([*seeds[first : first + n], *[None] * (envs.num_envs - n)])
            noise = np.random.SeedSequence(seed, spawn_key=(first // _ROWS,)).generate_state(1, np.uint64)
            collector.generator.manual_seed(int(noise[0]))
            played += _play(collector, first % _ROWS, n, deterministic)
    returns, lengths = (np.array(column) for column in zip(*played, strict=True))
    return {
        "mean": float(returns.mean()),
        "std": float(returns.std()),
        "min": float(returns.min()),
        "max": float(returns.max()),
        "returns": returns,
        "lengths": lengths,
    }


@contextlib.contextmanager
def evaluation_mode(net: Any) -> Iterator[None]:
    """Put a network into evaluation mode, and each of its modules back into its own mode afterwards."""
    modules = list(net.modules()) if isinstance(net, nn.Module) else []
    modes = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


@contextlib.contextmanager
def _opened(env: EnvLike | VectorEnv, num_envs: int, env_kwargs: dict[str, Any]) -> Iterator[VectorEnv]:
    """A vector environment, closed at the end unless it is the user's."""
    if isinstance(env, VectorEnv):
        yield env
        return
    maker = env_maker(env, env_kwargs)
    # An environment that no id stands for plays itself: not every one can be copied.
    itself = isinstance(env, gym.Env) and maker.own is not None
    envs = make_env(maker, 1 if itself else num_envs, infos=False, reset=False)
    try:
        yield envs
    finally:
        if not itself:
            envs.close()


def _play(collector: Collector, first: int, n: int, deterministic: bool) -> list[tuple[float, int]]:
    """Return and length of the episodes that the first n environments begin now.

    Environment j is in row first + j of the policy's batch. Batches always have _ROWS rows, so that neither
    the noise of an episode nor the rounding of its logits depends on what else is played: other rows hold any
    observation.
    """
    num_envs = collector.envs.num_envs
    policy, generator = collector.policy, collector.generator
    rows = torch.from_numpy((first + np.arange(num_envs)) % _ROWS).to(collector.device)
    seen = collector.observations[torch.arange(_ROWS) % n]
    played: dict[int, tuple[float, int]] = {}
    for _ in range(_MOST_STEPS):
        seen[first : first + n] = collector.observations[:n]
        actions = policy.mode(seen) if deterministic else policy.sample(seen, generator)[0]
        *_, ended = collector.step(actions[rows])
        for i, total, length, _ in ended:
            if i < n:
                played.setdefault(i, (total, length))  # afterwards the environment idles in further episodes
        if len(played) == n:
            return [played[i] for i in range(n)]
    raise ValueError(
        f"env must have episodes that end, got one of more than {_MOST_STEPS} steps. {TO_LIMIT_THEM}"
    )


class Estimate(NamedTuple):
    """A statistic over seeds and its confidence interval: floats, or arrays shaped as a seed's values."""

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
    """The mean or interquartile mean over seeds, with a confidence interval.

    The interval is for the statistic over another set of seeds, not for a single run.

    Parameters
    ----------
    values : array, shape (S, ...)
        One row per seed.
    statistic : "mean" or "iqm"
        The interquartile mean leaves out the lowest and the highest quarter (rounded down to whole seeds),
        and is robust to a single failed run.
    interval : "t" or "bootstrap", optional
        "t", for the mean only: mean ± t s / √S, exact for normally distributed values at any S.
        "bootstrap": percentiles of the statistic over seeds resampled with replacement. It is too narrow for
        few seeds: with five, a 95 % interval covers the mean of a normal distribution about 84 times in 100.
        By default "t" for the mean, else "bootstrap".
    level : float between 0 and 1
    resamples, seed : int
        For the bootstrap. The same seed gives the same interval.

    Returns
    -------
    Estimate
        estimate, low, high.

    References
    ----------
    Efron and Tibshirani 1993, "An introduction to the bootstrap", chapter 13; Agarwal et al. 2021, "Deep
    reinforcement learning at the edge of the statistical precipice", section 4.3, for the interquartile mean.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim == 0 or len(table) < 2:
        raise ValueError(f"values must have at least two seeds, one per row, got shape {table.shape}")
    validation.choice("statistic", statistic, ("mean", "iqm"))
    interval = interval or ("t" if statistic == "mean" else "bootstrap")
    validation.choice("interval", interval, ("t", "bootstrap") if statistic == "mean" else ("bootstrap",))

    from scipy import stats  # takes half a second, which `evaluate` does not need

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
            n_resamples=resamples,
            # Batches, or a long curve would be held `resamples` times at once.
            batch=max(1, _BOOTSTRAP_ENTRIES // table.size),
            rng=np.random.default_rng(seed),
        )
        low, high = found.confidence_interval
    if table.ndim == 1:
        return Estimate(float(estimate), float(low), float(high))
    return Estimate(estimate, low, high)
