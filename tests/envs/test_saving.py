"""Environments in checkpoints: rollouts continue to the same bits."""

import io

import pytest
import torch
from clocks import same

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


def test_environments_that_cannot_be_saved_say_so():
    """They are pickled without an error, and without their state."""
    collector = Collector(make_env("rollouts/Forgetful-v0", 2, 0), CategoricalPolicy(3, 3), seed=0)
    assert not collector.saves_environments
    assert collector.state_dict()["environments"] is None
