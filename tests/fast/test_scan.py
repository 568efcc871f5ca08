"""The scan over chunks of time against the plain loop of `ppobook.returns.gae`."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ppobook import returns
from ppobook.fast import scan

unit = st.one_of(st.sampled_from([0.0, 0.95, 1.0]), st.floats(0, 1))


def rollout(seed, lead, steps, ends, dtype=torch.float64):
    """A random rollout as the collector stores it: views [..., T] of memory with time first."""
    generator = torch.Generator().manual_seed(seed)

    def stored(steps):
        return torch.randn(steps, *lead, generator=generator, dtype=dtype).movedim(0, -1)

    ended = torch.rand(2, steps, *lead, generator=generator) < ends
    terminated, truncated = ended.movedim(1, -1)
    final_values = torch.where(truncated & ~terminated, stored(steps), torch.nan)
    return stored(steps), stored(steps + 1), terminated, truncated, final_values


@settings(deadline=None, max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    lead=st.sampled_from([(), (0,), (1,), (3,), (2, 3), (300,)]),
    steps=st.one_of(st.integers(0, 12), st.sampled_from([63, 64, 130, 257])),
    ends=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    gamma=unit,
    lam=unit,
)
def test_the_scan_is_the_plain_loop(seed, lead, steps, ends, gamma, lam):
    """Sizes on both sides of where the chunks begin."""
    data = rollout(seed, lead, steps, ends)
    for arguments in (data, [x.contiguous() for x in data]):
        plain = returns.gae(*arguments, gamma=gamma, lam=lam)
        for a, b in zip(plain, scan.gae(*arguments, gamma=gamma, lam=lam), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
            assert a.is_contiguous() == b.is_contiguous()


@settings(deadline=None, max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.one_of(st.integers(1, 20), st.integers(1, 300)),
    rollouts=st.integers(0, 5),
    factor=unit,
    ends=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
)
def test_chunks_are_the_steps(seed, steps, rollouts, factor, ends):
    rng = np.random.default_rng(seed)
    income = rng.normal(size=(steps, rollouts))
    carry = np.where(rng.random(income.shape) < ends, 0.0, factor)
    step_by_step = scan.sum_step_by_step(income.copy(), carry.copy())
    in_chunks = scan.sum_in_chunks(income.copy(), carry.copy())
    assert in_chunks.shape == step_by_step.shape == (steps, rollouts)
    np.testing.assert_allclose(in_chunks, step_by_step, rtol=1e-9, atol=1e-9)
    # Both are the solution of (1 − carry · shift) x = income.
    for m in range(rollouts if steps <= 60 else 0):
        solved = np.linalg.solve(np.eye(steps) - np.diag(carry[:-1, m], 1), income[:, m])
        np.testing.assert_allclose(solved, in_chunks[:, m], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("lead", "steps", "ends"), [((512,), 128, 0.01), ((8,), 2048, 0.002)])
@pytest.mark.parametrize("lam", [0.0, 0.95, 1.0])
def test_float32(lead, steps, ends, lam):
    """Many short rollouts, the one size that is summed in float32, and long ones."""
    data = rollout(1, lead, steps, ends, torch.float32)
    plain = returns.gae(*data, gamma=0.99, lam=lam)
    for a, b in zip(plain, scan.gae(*data, gamma=0.99, lam=lam), strict=True):
        assert b.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_without_truncations():
    rewards, values, terminated, _, _ = rollout(4, (3,), 70, 0.1)
    for a, b in zip(
        returns.gae(rewards, values, terminated), scan.gae(rewards, values, terminated), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_truncations_need_final_values():
    with pytest.raises(ValueError, match="final_values must be given, as truncated is set at index"):
        scan.gae(*rollout(4, (3,), 70, 0.1)[:4])


def test_half_precision_and_gradients():
    data = [x.bfloat16() if x.is_floating_point() else x for x in rollout(2, (3,), 9, 0.2)]
    data[1].requires_grad_()
    for a, b in zip(returns.gae(*data), scan.gae(*data, gamma=0.99, lam=0.95), strict=True):
        assert b.dtype == torch.bfloat16
        assert not b.requires_grad
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("which", [0, 1])
def test_numbers_that_are_not_finite_are_found(which, bad):
    data = rollout(6, (2,), 5, 0.4)
    for index in np.ndindex(*data[which].shape):
        changed = [x.clone() for x in data]
        changed[which][index] = bad
        with pytest.raises(ValueError, match="must be finite, got"):
            scan.gae(*changed, gamma=0.99, lam=0.95)


def test_arguments_are_left_as_they_were():
    data = rollout(3, (2,), 100, 0.1, torch.float64)
    before = [x.clone() for x in data]
    advantages, targets = scan.gae(*data, gamma=0.0, lam=0.9)
    for a, b in zip(data, before, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    for x in (*data, targets):
        assert x.data_ptr() != advantages.data_ptr()
