"""Returns and advantages against definitions that are summed out, step by step and episode by episode."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ppobook.returns import discounted_returns, gae, n_step_advantages

# --- the definitions, slowly ----------------------------------------------------------------------------


def along_time(slow, *arrays):
    """Apply a function of [T] arrays to each row of arrays of shape [..., T]."""
    lead = arrays[0].shape[:-1]
    rows = [slow(*(x[index] for x in arrays)) for index in np.ndindex(*lead)]
    return np.array(rows, dtype=np.float64).reshape(*lead, -1)


def end_of(t, terminated, truncated):
    """The last step of the episode, or of the rollout, that step t is in."""
    return next((k for k in range(t, len(terminated)) if terminated[k] or truncated[k]), len(terminated) - 1)


def value_after(k, terminated, truncated, values, final_values):
    """V of what step k leads to."""
    if terminated[k]:
        return 0.0
    return final_values[k] if truncated[k] else values[k + 1]


def slow_n_step(rewards, values, terminated, truncated, final_values, n, gamma):
    """r_t + … + γ^(m-1) r_(t+m-1) + γ^m V − V(s_t), with m = n or as many steps as there are."""
    result = []
    for t in range(len(rewards)):
        m = min(n, end_of(t, terminated, truncated) - t + 1)
        total = sum(gamma**k * rewards[t + k] for k in range(m))
        total += gamma**m * value_after(t + m - 1, terminated, truncated, values, final_values)
        result.append(total - values[t])
    return result


def slow_gae(rewards, values, terminated, truncated, final_values, gamma, lam):
    """The (1 - λ) λ^(n-1) average of the n-step advantages, whose last one takes all the weight left."""
    steps = len(rewards)
    by_n = [
        slow_n_step(rewards, values, terminated, truncated, final_values, n, gamma)
        for n in range(1, steps + 1)
    ]
    result = []
    for t in range(steps):
        left = end_of(t, terminated, truncated) - t + 1
        weights = [(1 - lam) * lam ** (n - 1) for n in range(1, left)] + [lam ** (left - 1)]
        result.append(sum(w * by_n[n][t] for n, w in enumerate(weights)))
    return result


def slow_returns(rewards, terminated, truncated, bootstrap, gamma):
    """Sum to the end of the episode, with a bootstrap there; its entries are read at ends only."""
    result = []
    for t in range(len(rewards)):
        end = end_of(t, terminated, truncated)
        total = sum(gamma ** (k - t) * rewards[k] for k in range(t, end + 1))
        result.append(total + (0.0 if terminated[end] else gamma ** (end - t + 1) * bootstrap[end]))
    return result


def rollout(seed, lead=(3,), steps=9, ends=0.2, dtype=np.float64):
    """A random rollout; final_values is NaN wherever it must not be read."""
    rng = np.random.default_rng(seed)
    shape = (*lead, steps)
    terminated, truncated = rng.random((2, *shape)) < ends
    final_values = np.where(truncated & ~terminated, rng.normal(size=shape), np.nan)
    return {
        "rewards": rng.normal(size=shape).astype(dtype),
        "values": rng.normal(size=(*lead, steps + 1)).astype(dtype),
        "terminated": terminated,
        "truncated": truncated,
        "final_values": final_values.astype(dtype),
    }


def tensors(arrays):
    return {name: torch.as_tensor(x) for name, x in arrays.items()}


rollouts = st.builds(
    rollout,
    seed=st.integers(0, 2**32 - 1),
    lead=st.sampled_from([(), (1,), (3,), (2, 3)]),
    steps=st.integers(0, 12),
    ends=st.sampled_from([0.0, 0.1, 0.4, 1.0]),
)
unit = st.one_of(st.sampled_from([0.0, 0.95, 1.0]), st.floats(0, 1))
exactly = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)


# --- against the definitions ----------------------------------------------------------------------------


@settings(max_examples=200)
@given(rollouts, unit, unit)
def test_gae_is_the_weighted_average_of_n_step_advantages(data, gamma, lam):
    advantages, returns = gae(**data, gamma=gamma, lam=lam)
    exactly(advantages, along_time(partial(slow_gae, gamma=gamma, lam=lam), *data.values()))
    exactly(returns, advantages + data["values"][..., :-1])


@settings(max_examples=200)
@given(rollouts, unit, st.integers(1, 15))
def test_n_step_advantages(data, gamma, n):
    advantages = n_step_advantages(**data, n=n, gamma=gamma)
    exactly(advantages, along_time(partial(slow_n_step, n=n, gamma=gamma), *data.values()))


@settings(max_examples=200)
@given(rollouts, unit, st.booleans(), st.booleans())
def test_discounted_returns(data, gamma, with_last, with_final):
    rewards, terminated, truncated = (data[name] for name in ("rewards", "terminated", "truncated"))
    last = data["values"][..., -1] if with_last else None
    final = data["final_values"] if with_final else None
    bootstrap = np.zeros_like(rewards) if final is None else np.nan_to_num(final)
    if with_last and rewards.shape[-1]:
        ended = (terminated | truncated)[..., -1]
        bootstrap[..., -1] = np.where(ended, bootstrap[..., -1], last)
    found = discounted_returns(
        rewards, terminated, truncated, gamma=gamma, last_values=last, final_values=final
    )
    exactly(found, along_time(partial(slow_returns, gamma=gamma), rewards, terminated, truncated, bootstrap))


def test_by_hand():
    """Three steps, γ = 1/2: numbers that one can work out on paper."""
    np.testing.assert_array_equal(discounted_returns(np.array([1.0, 2.0, 4.0]), gamma=0.5), [3.0, 4.0, 4.0])
    two_episodes = discounted_returns(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 0]), gamma=0.5)
    np.testing.assert_array_equal(two_episodes, [2.0, 2.0, 4.0])
    advantages, returns = gae(
        np.array([1.0, 1.0]), np.array([0.0, 2.0, 8.0]), np.array([False, False]), gamma=0.5, lam=0.5
    )
    np.testing.assert_array_equal(advantages, [2.75, 3.0])  # δ = (2, 3), and 2 + 3/4
    np.testing.assert_array_equal(returns, [2.75, 5.0])


# --- limits and properties ------------------------------------------------------------------------------


def test_terminated_wins_over_truncated():
    both = np.array([True, False])
    data = {"rewards": np.array([1.0, 1.0]), "values": np.array([5.0, 6.0, 7.0]), "terminated": both}
    alone = gae(**data)
    # A step that is both needs no final value, and does not read one.
    np.testing.assert_array_equal(gae(**data, truncated=both), alone)
    np.testing.assert_array_equal(gae(**data, truncated=both, final_values=np.array([9.0, np.nan])), alone)


def test_last_values_are_not_read_where_the_episode_ended():
    rewards, ended = np.ones((2, 2)), np.array([[0, 1], [0, 0]])
    found = discounted_returns(rewards, ended, gamma=1, last_values=np.array([np.nan, 5.0]))
    np.testing.assert_array_equal(found, [[2, 1], [7, 6]])


# --- kinds, dtypes, devices -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_and_torch_agree_to_the_bit(dtype):
    data = rollout(0, (2, 3), 40, dtype=dtype)
    one_step = {name: data[name] for name in ("rewards", "terminated", "truncated", "final_values")}
    for function, arguments in [
        (gae, data),
        (partial(n_step_advantages, n=3), data),
        (partial(discounted_returns, gamma=0.9), one_step),
    ]:
        from_numpy, from_torch = function(**arguments), function(**tensors(arguments))
        if function is not gae:
            from_numpy, from_torch = [from_numpy], [from_torch]
        for a, b in zip(from_numpy, from_torch, strict=True):
            assert isinstance(a, np.ndarray)
            assert a.dtype == dtype
            assert isinstance(b, torch.Tensor)
            assert b.dtype == torch.as_tensor(a).dtype
            np.testing.assert_array_equal(a, b.numpy())


def single_is_double(data, gamma, lam):
    wide = {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in data.items()}
    single, double = (gae(**x, gamma=gamma, lam=lam) for x in (data, wide))
    for a, b in zip(single, double, strict=True):
        assert a.dtype == np.float32
        assert b.dtype == np.float64
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_float32_over_a_long_rollout():
    data = rollout(1, (8,), 2048, ends=0.002, dtype=np.float32)
    for gamma, lam in [(0.99, 0.95), (0.99, 1.0), (0.9999, 1.0), (1.0, 1.0)]:
        single_is_double(data, gamma, lam)
    ones = np.ones((2, 2048), dtype=np.float32)
    np.testing.assert_allclose(discounted_returns(ones, gamma=1.0)[:, 0], 2048.0, rtol=1e-6)


def test_results_are_detached():
    rewards, values = torch.ones(3, requires_grad=True), torch.ones(4, requires_grad=True)
    never = torch.zeros(3)
    for x in (
        *gae(rewards, values, never),
        n_step_advantages(rewards, values, never, n=2),
        discounted_returns(rewards, gamma=1.0, last_values=values[0]),
    ):
        assert not x.requires_grad
