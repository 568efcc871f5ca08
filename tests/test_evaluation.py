"""Evaluation has no bias for short episodes; intervals against SciPy, and their coverage."""

import itertools
import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from ppobook.envs import chain, make_env
from ppobook.evaluation import aggregate, evaluate
from ppobook.policies import CategoricalPolicy, GaussianPolicy, TabularPolicy
from ppobook.rollouts import Collector


class ShortOrLong(gym.Env):
    """An episode takes 1 step or 41, whichever the coin says, and each step pays 1: 21 on average."""

    def __init__(self):
        self.observation_space, self.action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 41 if self.np_random.random() < 0.5 else 1
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(1, np.float32), 1.0, self.left == 0, False, {}


gym.register("test_evaluation/ShortOrLong-v0", ShortOrLong)


def test_long_episodes_get_their_share():
    policy, episodes = CategoricalPolicy(1, 2), 400
    found = evaluate(policy, "test_evaluation/ShortOrLong-v0", episodes)
    error = 20 / np.sqrt(episodes)
    assert len(found["returns"]) == len(found["lengths"]) == episodes
    assert found["mean"] == pytest.approx(21, abs=4 * error)
    np.testing.assert_array_equal(found["returns"], found["lengths"])

    # The trap: side by side, and the first that end. Nearly all of them are short.
    collector = Collector(make_env("test_evaluation/ShortOrLong-v0", episodes, 0), policy, seed=0)
    assert collector.collect(45).episode_returns[:episodes].mean() < 5


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize(
    ("env", "policy"),
    [
        ("CartPole-v1", CategoricalPolicy(4, 2, (8,), seed=1)),
        ("Pendulum-v1", GaussianPolicy(3, 1, (8,), low=-2.0, high=2.0)),
        ("ppobook/Chain-v0", TabularPolicy(7, 2)),
    ],
    ids=["discrete", "continuous", "states"],
)
def test_an_episode_is_the_same_whatever_is_played_beside_it(env, policy, deterministic):
    """To the bit, whatever the number of episodes and of environments."""

    def play(episodes, num_envs):
        envs = make_env(env, num_envs, max_episode_steps=40)
        found = evaluate(policy, envs, episodes, 3, deterministic)
        return np.stack([found["returns"], found["lengths"]])

    at_once = play(30, 25)
    assert len(set(at_once.sum(0))) > 1
    for episodes, num_envs in [(30, 30), (27, 1), (2, 3)]:
        np.testing.assert_array_equal(play(episodes, num_envs), at_once[:, :episodes])


def test_returns_in_a_known_world_are_its_objective():
    mdp = chain(gamma=1.0)
    policy = TabularPolicy(7, 2)
    with torch.no_grad():
        policy.table[:] = torch.tensor([0.0, 0.5])
    exact = mdp.objective(policy.table.softmax(-1).detach().numpy())
    found = evaluate(policy, "ppobook/Chain-v0", episodes=1000)
    assert found["mean"] == pytest.approx(exact, abs=4 * found["std"] / np.sqrt(1000))

    best = mdp.objective(np.tile([0.0, 1.0], (7, 1)))
    greedy = evaluate(policy, "ppobook/Chain-v0", episodes=1000, deterministic=True)
    assert greedy["mean"] == pytest.approx(best, abs=4 * greedy["std"] / np.sqrt(1000) + 1e-3)
    assert best > exact + 0.1


# ------------------------------------------------------------------------------------------------ over seeds


def test_t_interval_by_hand():
    """Three seeds: t is 4.3027 at two degrees of freedom."""
    found = aggregate([1.0, 2.0, 6.0])
    assert found.estimate == 3
    half = 4.302652729749464 * math.sqrt(7 / 3)
    assert (found.low, found.high) == pytest.approx((3 - half, 3 + half), rel=1e-12)
    found = aggregate([1.0, 2.0, 6.0], level=0.5)
    assert found.high - found.estimate == pytest.approx(0.816496580927726 * math.sqrt(7 / 3), rel=1e-12)


def test_bootstrap_against_every_resample():
    """Three seeds have 27 resamples, so the percentiles can be counted."""
    values = np.array([0.0, 1.0, 5.0])
    means = sorted(np.mean(drawn) for drawn in itertools.product(values, repeat=3))
    found = aggregate(values, interval="bootstrap", level=0.8, resamples=20_000)
    assert found.low == pytest.approx(means[2], abs=1e-9)
    assert found.high == pytest.approx(means[23], abs=1e-9)
