"""Evaluation has no bias for short episodes; intervals against SciPy, and their coverage."""

import itertools
import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from ppobook import train
from ppobook.envs import chain, env_seeds, make_env
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


class Endless(ShortOrLong):
    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}


class Drawing(gym.Env):
    """Draws a number when it is made, one at its first reset, which it keeps, one at every reset and step.

    The first comes before any seed: the promise is that it does not disturb the others.
    """

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (3,)), spaces.Discrete(2)
    level = None
    resets = ()

    def __init__(self):
        self.np_random.normal()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets = (*self.resets, seed)
        self.level = self.np_random.normal() if self.level is None else self.level
        self.start, self.t = self.np_random.normal(), 0
        return self._seen(), {}

    def step(self, action):
        self.t += 1
        return self._seen(), float(self.level + self.start + self.np_random.normal()), self.t == 4, False, {}

    def _seen(self):
        return np.array([self.level, self.start, self.t], np.float32)


def test_a_seed_decides_all_that_an_environment_draws_from_its_first_reset_on():
    def history(seed):
        settings = {"num_envs": 3, "num_steps": 16, "total_steps": 192, "progress": False}
        return train("vanilla", env=Drawing, seed=seed, **settings).history["return_mean"].tolist()

    assert history(0) == history(0) != history(1)
    policy = CategoricalPolicy(3, 2)
    found = [evaluate(policy, Drawing, 30, seed)["returns"].tolist() for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    env = Drawing()
    evaluate(policy, env, 1, 5)
    assert env.resets == (env_seeds(5, 1)[0], None)  # the second begins where the episode ends


gym.register("test_evaluation/ShortOrLong-v0", ShortOrLong)
gym.register("test_evaluation/Endless-v0", Endless)


def test_dropout_is_off_and_batch_normalization_is_fixed_and_modes_come_back():
    layers = torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)
    policy = CategoricalPolicy(4, 2, network=torch.nn.Sequential(*layers))
    layers[1].eval()
    modes = [module.training for module in policy.modules()]
    before = {name: x.clone() for name, x in policy.state_dict().items()}
    once = evaluate(policy, "CartPole-v1", episodes=5)["returns"]
    assert [module.training for module in policy.modules()] == modes
    assert all(torch.equal(before[name], x) for name, x in policy.state_dict().items())
    np.testing.assert_array_equal(once, evaluate(policy.eval(), "CartPole-v1", episodes=5)["returns"])


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


def test_aggregate_is_seeded_and_keeps_the_shape_of_a_seeds_values():
    values = np.random.default_rng(0).normal(size=(6, 3, 2))
    first, again, other = (aggregate(values, interval="bootstrap", resamples=200, seed=s) for s in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.shape == (3, 2)
    assert (first.low != other.low).any()
    # Each number is treated as if it came alone.
    alone = aggregate(values[:, 1, 1], interval="bootstrap", resamples=200, seed=0)
    assert alone == (first.estimate[1, 1], first.low[1, 1], first.high[1, 1])
    assert all(isinstance(x, float) for x in alone)
    assert aggregate([1, 2, 3]).estimate == 2
