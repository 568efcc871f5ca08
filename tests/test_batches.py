"""What an update is made of: each part against the plain way to do the same."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ppobook.adaptive_kl import AdaptiveCoefficient
from ppobook.batches import Batch, Shuffle
from ppobook.fast.flat import Adam, clip_gradient, flatten
from ppobook.policies import RewardScale
from ppobook.rollouts import Rollout


def two_networks(seed: int = 0) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)), nn.Linear(3, 1)


def rollout_of(rewards, terminated, truncated) -> Rollout:
    """A rollout whose observations tell where they were made: environment and step."""
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


# ------------------------------------------------------------------------------------------------ flatten


def test_flatten_changes_no_weight_and_keeps_them_tied_to_the_row():
    a, b = two_networks()
    before = [p.detach().clone() for p in (*a.parameters(), *b.parameters())]
    row = flatten(a, b)
    after = [*a.parameters(), *b.parameters()]
    assert all(torch.equal(x, y) for x, y in zip(before, after, strict=True))
    assert row.numel() == sum(p.numel() for p in before)
    with torch.no_grad():
        row += 1
    assert all(torch.equal(x + 1, y) for x, y in zip(before, after, strict=True))
    a.load_state_dict({name: torch.zeros_like(x) for name, x in a.state_dict().items()})
    assert (row[: sum(p.numel() for p in a.parameters())] == 0).all()


def test_gradients_arrive_in_the_row():
    a, b = two_networks()
    plain = copy.deepcopy(a), copy.deepcopy(b)
    row = flatten(a, b)
    x = torch.randn(7, 3)
    for f, g in ((a, b), plain):
        (f(x).square().sum() + g(x).sum()).backward()
    expected = torch.cat([p.grad.reshape(-1) for part in plain for p in part.parameters()])
    torch.testing.assert_close(row.grad, expected)


@pytest.mark.parametrize("eps", [1e-8, 1e-5])
def test_a_row_is_stepped_as_torch_steps_its_parts(eps):
    a, b = two_networks()
    plain = copy.deepcopy(a), copy.deepcopy(b)
    row = flatten(a, b)
    one = Adam(row, lr=0.1, eps=eps)
    many = torch.optim.Adam([p for part in plain for p in part.parameters()], lr=0.1, eps=eps)
    x = torch.randn(7, 3)
    for _ in range(20):
        for optimize, f, g in ((one, a, b), (many, *plain)):
            optimize.zero_grad()
            (f(x).square().mean() + g(x).square().mean()).backward()
            optimize.step()
    expected = torch.cat([p.detach().reshape(-1) for part in plain for p in part.parameters()])
    torch.testing.assert_close(row.detach(), expected)


def test_adam_goes_on_after_a_checkpoint_as_if_nothing_had_been():
    row, other = (nn.Parameter(torch.ones(3)) for _ in range(2))
    row.grad, other.grad = torch.zeros(3), torch.zeros(3)
    one = Adam(row, lr=0.1)
    gradients = torch.randn(6, 3)
    for gradient in gradients[:3]:
        row.grad.copy_(gradient)
        one.step()
    two = Adam(other, lr=0.1)
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    with torch.no_grad():
        other.copy_(row)
    for gradient in gradients[3:]:
        for parameter, optimizer in ((row, one), (other, two)):
            parameter.grad.copy_(gradient)
            optimizer.step()
    assert torch.equal(row, other)


def test_a_shared_parameter_is_in_the_row_once():
    a, _ = two_networks()
    b = nn.Sequential(a[0], nn.Linear(5, 1))
    row = flatten(a, b)
    assert row.numel() == sum(p.numel() for p in a.parameters()) + 6
    assert a[0].weight is b[0].weight


def test_a_copy_of_a_flattened_network_stands_alone():
    a, b = two_networks()
    row = flatten(a, b)
    other = copy.deepcopy(a)
    with torch.no_grad():
        row.zero_()
    assert (other[0].weight != 0).all()


@given(scale=st.floats(1e-3, 1e3), max_norm=st.floats(1e-2, 1e2))
@settings(max_examples=200, deadline=None)
def test_clipping_is_what_torch_does(scale, max_norm):
    a, b = two_networks()
    row = flatten(a, b)
    row.grad.copy_(torch.randn_like(row) * scale)
    other = nn.Parameter(row.detach().clone())
    other.grad = row.grad.clone()
    wanted = torch.nn.utils.clip_grad_norm_([other], max_norm)
    assert clip_gradient(row, max_norm) == pytest.approx(wanted.item(), rel=1e-5)
    torch.testing.assert_close(row.grad, other.grad, rtol=1e-3, atol=1e-6)  # torch adds 1e-6 to the length


def test_without_a_limit_the_gradient_is_only_measured():
    row = flatten(nn.Linear(2, 1))
    row.grad.copy_(torch.tensor([3.0, 4.0, 12.0]))
    assert clip_gradient(row, None) == pytest.approx(13)
    assert row.grad.tolist() == [3, 4, 12]


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
@settings(max_examples=200, deadline=None)
def test_minibatches_are_every_step_once(n, t, data):
    count = data.draw(st.integers(1, n * t))
    parts = list(batch_of(n, t).minibatches(count, Shuffle(3)))
    sizes = [len(part) for part in parts]
    assert len(parts) == count
    assert max(sizes) - min(sizes) <= 1
    assert sorted(torch.cat([part.actions for part in parts]).tolist()) == list(range(n * t))


def test_orders_differ_and_go_on_after_a_checkpoint():
    shuffle = Shuffle(0)
    first = shuffle.order(50)
    state = shuffle.state_dict()
    second = shuffle.order(50)
    assert not torch.equal(first, second)
    resumed = Shuffle(1)
    resumed.load_state_dict(state)
    assert torch.equal(resumed.order(50), second)


# ------------------------------------------------------------------------------------------- coefficients


def test_beta_is_halved_and_doubled_outside_of_its_band_only():
    beta = AdaptiveCoefficient(1.0, 0.01)
    for kl, wanted in ((0.01, 1), (0.0149, 1), (0.0067, 1), (0.016, 2), (0.5, 4), (0.006, 2), (0.0, 1)):
        beta.update(kl)
        assert beta.value == wanted
    fixed = AdaptiveCoefficient(1.0, None)
    fixed.update(100.0)
    assert fixed.value == 1


def test_beta_stays_a_number():
    beta = AdaptiveCoefficient(1.0, 0.01)
    for _ in range(2000):
        beta.update(0.0)
    assert beta.value > 0
    for _ in range(4000):
        beta.update(1.0)
    assert np.isfinite(beta.value)


@given(seed=st.integers(0, 10_000), gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]))
@settings(max_examples=200, deadline=None)
def test_rewards_are_divided_by_the_deviation_of_the_return_so_far(seed, gamma):
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
        scaled = scale(rollout_of(rewards, terminated, truncated))
        std = np.std(kept)
        wanted = (rewards / (std if std > 1e-8 else 1)).clip(-10, 10)
        np.testing.assert_allclose(scaled, wanted, rtol=2e-4, atol=2e-4)


def test_the_scale_of_rewards_goes_on_after_a_checkpoint():
    none = torch.zeros(2, 3, dtype=torch.bool)
    rollouts = [rollout_of(torch.randn(2, 3), none, none) for _ in range(2)]
    scale = RewardScale(2, 0.9)
    scale(rollouts[0])
    resumed = RewardScale(2, 0.9)
    resumed.load_state_dict(scale.state_dict())
    assert torch.equal(scale(rollouts[1]), resumed(rollouts[1]))
