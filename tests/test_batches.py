"""Batches, minibatches and scaled rewards, each against a slow definition."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ppobook.batches import Batch, Shuffle
from ppobook.policies import RewardScale
from ppobook.rollouts import Rollout


def rollout_of(rewards, terminated, truncated) -> Rollout:
    """A rollout whose observations are their place: environment and step."""
    rewards = torch.as_tensor(rewards, dtype=torch.float32)
    n, t = rewards.shape
    place = torch.stack(torch.meshgrid(torch.arange(n), torch.arange(t), indexing="ij"), -1).float()
    return Rollout(
        observations=place,
        actions=torch.arange(n * t).reshape(n, t),
        rewards=rewards,
        terminated=torch.as_tensor(terminated),
        truncated=torch.as_tensor(truncated),
        logp=torch.randn(n, t),
        final_observations=torch.zeros(0, 2),
        last_observations=torch.zeros(n, 2),
        episode_returns=np.zeros(0),
        episode_lengths=np.zeros(0, int),
    )


# ------------------------------------------------------------------------------------------------ batches


def batch_of(n: int, t: int) -> Batch:
    flags = torch.zeros(n, t, dtype=torch.bool)
    rollout = rollout_of(torch.zeros(n, t), flags, flags)
    number = torch.arange(n * t).reshape(n, t).float()
    return Batch.of(rollout, number, number + 0.25, number + 0.5)


def test_a_batch_keeps_the_numbers_of_a_step_together():
    batch = batch_of(3, 4)
    assert len(batch) == 12
    number = batch.observations[:, 0] * 4 + batch.observations[:, 1]
    assert sorted(number.tolist()) == list(range(12))
    for part in (batch, batch[torch.tensor([5, 2])], batch[3:7]):
        number = part.observations[:, 0] * 4 + part.observations[:, 1]
        assert torch.equal(part.actions.float(), number)
        assert torch.equal(part.advantages, number)
        assert torch.equal(part.returns, number + 0.25)
        assert torch.equal(part.old_values, number + 0.5)


@given(n=st.integers(1, 4), t=st.integers(1, 9), data=st.data())
@settings(max_examples=200)
def test_minibatches_are_every_step_once(n, t, data):
    count = data.draw(st.integers(1, max(1, n * t // 2)))
    parts = list(batch_of(n, t).minibatches(count, Shuffle(3)))
    sizes = [len(part) for part in parts]
    assert len(parts) == count
    assert max(sizes) - min(sizes) <= 1
    assert sorted(torch.cat([part.actions for part in parts]).tolist()) == list(range(n * t))


def test_a_minibatch_of_one_step_is_refused():
    """Its normalized advantage would be 0, and the policy would stay as it is."""
    with pytest.raises(ValueError, match="num_minibatches must be at most 4, half the steps, got 5"):
        next(batch_of(3, 3).minibatches(5, Shuffle(0)))


def test_orders_differ_and_go_on_after_a_checkpoint():
    shuffle = Shuffle(0)
    first = shuffle.order(50)
    state = shuffle.state_dict()
    second = shuffle.order(50)
    assert not torch.equal(first, second)
    resumed = Shuffle(1)
    resumed.load_state_dict(state)
    assert torch.equal(resumed.order(50), second)


# ---------------------------------------------------------------------------------------------- reward scale


@given(seed=st.integers(0, 10_000), gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]))
@settings(max_examples=200)
def test_rewards_are_divided_by_the_standard_deviation_of_the_return_so_far(seed, gamma):
    """The slow way: one running return an environment, step by step, all of them kept."""
    rng = np.random.default_rng(seed)
    n, t = int(rng.integers(1, 4)), int(rng.integers(1, 9))
    scale = RewardScale(n, gamma)
    running, kept = np.zeros(n), []
    for _ in range(3):
        rewards = rng.normal(size=(n, t)) * 5
        terminated, truncated = rng.random((2, n, t)) < 0.2
        for step in range(t):
            running = gamma * running + rewards[:, step]
            kept.extend(running)
            running[terminated[:, step] | truncated[:, step]] = 0
        rollout = rollout_of(rewards, terminated, truncated)
        scaled = scale(rollout.rewards, rollout.terminated | rollout.truncated)
        std = np.std(kept)
        wanted = (rewards / (std if std > 1e-8 else 1)).clip(-10, 10)
        np.testing.assert_allclose(scaled, wanted, rtol=2e-4, atol=2e-4)


def test_a_batch_has_no_gradient():
    flags = torch.zeros(2, 3, dtype=torch.bool)
    x = torch.ones(2, 3, requires_grad=True)
    batch = Batch.of(rollout_of(torch.zeros(2, 3), flags, flags), x, 2 * x, 3 * x)
    assert not any(part.requires_grad for part in vars(batch).values())
