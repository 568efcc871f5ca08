"""Environments in checkpoints: rollouts continue to the same bits."""

import io

import gymnasium as gym
import pytest
import torch
from clocks import clocks, same

from ppobook.envs import make_env
from ppobook.policies import CategoricalPolicy, policy_for
from ppobook.rollouts import Collector


def fresh(env_id, seed, n=3, **settings):
    envs = make_env(env_id, n, seed, max_episode_steps=20, **settings)
    policy = policy_for(envs.single_observation_space, envs.single_action_space)
    return Collector(envs, policy, seed=seed)


@pytest.mark.parametrize(
    "env_id",
    [
        "CartPole-v1",
        "Pendulum-v1",
        "Blackjack-v1",
        "FrozenLake-v1",
        "ppobook/Chain-v0",
        "ppobook/Gridworld-v0",
        "rollouts/Clock-v0",
    ],
)
def test_a_saved_state_continues_to_the_same_bits(env_id):
    collector = fresh(env_id, 0)
    collector.collect(33)
    assert collector.saves_environments
    file = io.BytesIO()
    torch.save(collector.state_dict(), file)
    unbroken = [collector.collect(50) for _ in range(2)]

    file.seek(0)
    resumed = fresh(env_id, 99)
    resumed.collect(7)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for rollout in unbroken:
        same(resumed.collect(50), rollout)


@pytest.mark.parametrize(
    "wrapper",
    [
        lambda env: gym.wrappers.FrameStackObservation(env, 3),
        lambda env: gym.wrappers.DelayObservation(env, 2),
        lambda env: gym.wrappers.StickyAction(env, 0.5),
        gym.wrappers.RecordEpisodeStatistics,
    ],
    ids=["stack", "delay", "sticky", "statistics"],
)
def test_the_state_of_wrappers_is_saved_with_the_environment(wrapper):
    def fresh(seed):
        envs = make_env(lambda: wrapper(gym.make("CartPole-v1")), 2, seed)
        policy = policy_for(envs.single_observation_space, envs.single_action_space)
        return Collector(envs, policy, seed=seed)

    collector, resumed = fresh(0), fresh(1)
    collector.collect(13)
    state = collector.state_dict()
    unbroken = collector.collect(40)
    resumed.load_state_dict(state)
    same(resumed.collect(40), unbroken)


@pytest.mark.parametrize("wrapper", [gym.wrappers.NormalizeObservation, gym.wrappers.NormalizeReward])
def test_running_statistics_of_wrappers_are_refused(wrapper):
    envs = make_env(lambda: gym.wrappers.TimeLimit(wrapper(gym.make("CartPole-v1")), 20), 2, 0)
    if wrapper is gym.wrappers.NormalizeReward:  # Gymnasium itself refuses the other one here
        envs = gym.wrappers.vector.NormalizeReward(make_env("CartPole-v1", 2, 0))
    with pytest.raises(ValueError, match=f"set normalize_observations=True or .*of {wrapper.__name__}"):
        Collector(envs, CategoricalPolicy(4, 2), seed=0)


def unpicklable(collector):
    collector.envs.envs[0].unwrapped.handle = lambda: None
    return collector


def forgetful():
    return Collector(make_env("rollouts/Forgetful-v0", 2, 0), CategoricalPolicy(3, 3), seed=0)


def wrapped():
    envs = gym.wrappers.vector.TransformReward(make_env("CartPole-v1", 2, 0), lambda r: r)
    return Collector(envs, CategoricalPolicy(4, 2), seed=0)


@pytest.mark.parametrize(
    "make", [lambda: unpicklable(clocks()), forgetful, wrapped], ids=["lambda", "ezpickle", "wrapped"]
)
def test_environments_that_cannot_be_saved_say_so(make):
    collector = make()
    assert not collector.saves_environments
    assert collector.state_dict()["environments"] is None
