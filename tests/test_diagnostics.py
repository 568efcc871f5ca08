"""Diagnostics against their definitions, written out with other tools."""

import math
import statistics
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ppobook.diagnostics import (
    clip_fraction,
    effective_sample_size,
    explained_variance,
    flat_fraction,
    normalize,
    ratios,
)

exactly = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
numbers = st.lists(st.integers(-1000, 1000).map(lambda i: i / 16), min_size=2, max_size=12)
KINDS = [np.asarray, torch.as_tensor]


# --- normalize ------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(numbers, st.booleans(), st.sampled_from([0, 1]))
def test_normalize(xs, shift_mean, ddof):
    found = normalize(np.array(xs), ddof=ddof, shift_mean=shift_mean)
    mean, std = statistics.fmean(xs), (statistics.pstdev, statistics.stdev)[ddof](xs)
    if std == 0:
        exactly(found, 0.0 if shift_mean else xs)
    else:
        exactly(found, [(x - mean) / std + (0.0 if shift_mean else mean) for x in xs])


@settings(deadline=None, max_examples=100)
@given(numbers, st.booleans(), st.sampled_from([0, 1]), st.integers(0, 2**32 - 1))
def test_normalize_with_a_mask_is_normalize_of_what_counts(xs, shift_mean, ddof, seed):
    rng = np.random.default_rng(seed)
    keep = np.insert(rng.random(len(xs)), 0, 0.0) < 0.7
    x = np.array([3.5, *xs])
    keep[-1] = True
    padded = np.where(keep, x, np.nan)
    found = normalize(padded, keep.astype(int), ddof=ddof, shift_mean=shift_mean)
    exactly(found[keep], normalize(x[keep], ddof=ddof, shift_mean=shift_mean))
    np.testing.assert_array_equal(found[~keep], 0.0)
    from_torch = normalize(torch.tensor(padded), torch.tensor(keep), ddof=ddof, shift_mean=shift_mean)
    exactly(from_torch.numpy(), found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_equal_advantages_have_no_scale(kind, dtype):
    """0.1 has no exact binary form: the mean of many is off by a rounding, which must not become ±1."""
    same = np.full((7, 3), 0.1, dtype=dtype)
    found = normalize(kind(same))
    assert found.dtype == kind(same).dtype
    np.testing.assert_array_equal(np.asarray(found), 0.0)
    np.testing.assert_array_equal(np.asarray(normalize(kind(same), shift_mean=False)), same)
    np.testing.assert_array_equal(np.asarray(normalize(kind(np.array([5.0])))), 0.0)


# --- explained variance ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(numbers, st.integers(0, 2**32 - 1))
def test_explained_variance(ys, seed):
    values = np.random.default_rng(seed).normal(size=len(ys))
    found = explained_variance(values, np.array(ys))
    if len(set(ys)) == 1:
        assert np.isnan(found)
    else:
        left = statistics.pvariance([y - v for y, v in zip(ys, values.tolist(), strict=True)])
        exactly(found, 1 - left / statistics.pvariance(ys))
        exactly(explained_variance(torch.tensor(values), torch.tensor(ys)), found)


# --- effective sample size ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(numbers, st.floats(-500, 500))
def test_effective_sample_size(xs, level):
    log_ratio = np.array(xs) / 16
    weights = [np.exp(x) for x in log_ratio]
    expected = sum(weights) ** 2 / sum(w * w for w in weights)
    exactly(effective_sample_size(log_ratio), expected)
    assert 1 - 1e-12 <= expected <= len(xs) * (1 + 1e-12)
    np.testing.assert_allclose(effective_sample_size(log_ratio + level), expected, rtol=1e-9)
    exactly(effective_sample_size(torch.tensor(log_ratio)), expected)


# --- ratios ---------------------------------------------------------------------------------------------


def slow_ratios(log_ratio, advantages, low, high):
    """One sample after another, with the tools of the standard library."""
    rs = [math.exp(x) for x in log_ratio]
    outside = [not low <= r <= high for r in rs]
    flat = [r > high if a > 0 else a < 0 and r < low for r, a in zip(rs, advantages, strict=True)]
    return {
        "clip_fraction": statistics.fmean(outside),
        "flat_fraction": statistics.fmean(flat),
        "approx_kl": statistics.fmean(r - 1 - math.log(r) for r in rs),
        "ratio_mean": statistics.fmean(rs),
        "ratio_std": statistics.pstdev(rs),
    }


@settings(deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([(1,), (7,), (3, 4), (2, 3, 4)]),
    scale=st.sampled_from([0.0, 0.05, 0.3, 2.0]),
    clip_eps=st.floats(0.01, 1.5),
    clip_eps_high=st.one_of(st.none(), st.floats(0.01, 1.5)),
    masked=st.booleans(),
)
def test_ratios(seed, shape, scale, clip_eps, clip_eps_high, masked):
    rng = np.random.default_rng(seed)
    log_ratio, advantages = rng.normal(scale=scale, size=shape), rng.normal(size=shape)
    advantages = np.where(rng.random(shape) < 0.2, 0.0, advantages)
    mask = rng.random(shape) < (0.6 if masked else 1.1)
    mask.flat[0] = True
    expected = slow_ratios(
        log_ratio[mask],
        advantages[mask],
        1 - clip_eps,
        1 + (clip_eps if clip_eps_high is None else clip_eps_high),
    )
    padded = [np.where(mask, x, np.nan) for x in (log_ratio, advantages)]
    for kind in KINDS:
        arrays = [kind(x) for x in padded]
        how = {"clip_eps_high": clip_eps_high, "mask": kind(mask) if masked else None}
        found = ratios(*arrays, clip_eps, **how)
        assert list(found) == list(expected)
        for name, x in found.items():
            np.testing.assert_allclose(float(x), expected[name], rtol=1e-9, atol=1e-9)
        exactly(float(clip_fraction(arrays[0], clip_eps, **how)), expected["clip_fraction"])
        exactly(float(flat_fraction(*arrays, clip_eps, **how)), expected["flat_fraction"])
        assert expected["flat_fraction"] <= expected["clip_fraction"]
