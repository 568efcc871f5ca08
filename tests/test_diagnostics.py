"""Diagnostics against their definitions, written out with other tools."""

import statistics
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ppobook.diagnostics import effective_sample_size, explained_variance, normalize, ratios

exactly = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
numbers = st.lists(st.integers(-1000, 1000).map(lambda i: i / 16), min_size=2, max_size=12)
KINDS = [np.asarray, torch.as_tensor]


# --- normalize ------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(numbers, st.booleans(), st.sampled_from([0, 1]))
def test_normalize(xs, shift_mean, ddof):
    found = normalize(np.array(xs), ddof=ddof, shift_mean=shift_mean)
    mean, std = statistics.fmean(xs), (statistics.pstdev, statistics.stdev)[ddof](xs)
    if std == 0:
        exactly(found, 0.0 if shift_mean else xs)
    else:
        exactly(found, [(x - mean) / std + (0.0 if shift_mean else mean) for x in xs])


@settings(max_examples=100)
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


@pytest.mark.parametrize("kind", KINDS)
def test_equal_advantages_have_no_scale(kind):
    """0.1 has no exact binary form: the mean of many is off by a rounding, which must not become ±1."""
    same = np.full((7, 3), 0.1, dtype=np.float32)
    found = normalize(kind(same))
    assert found.dtype == kind(same).dtype
    np.testing.assert_array_equal(np.asarray(found), 0.0)
    np.testing.assert_array_equal(np.asarray(normalize(kind(same), shift_mean=False)), same)
    np.testing.assert_array_equal(np.asarray(normalize(kind(np.array([5.0])))), 0.0)


@pytest.mark.parametrize("shift_mean", [True, False])
def test_normalize_far_from_zero(shift_mean):
    """Float32 holds these numbers exactly, but not their sum or mean."""
    x = 1e7 + np.array([0.0, 1, 7, 2, 3])
    expected = normalize(x, shift_mean=shift_mean)
    for kind in KINDS:
        found = normalize(kind(x.astype(np.float32)), shift_mean=shift_mean)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


# --- explained variance ---------------------------------------------------------------------------------


@settings(max_examples=100)
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


@settings(max_examples=100)
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


def test_knees_and_nothing_to_say():
    """At 1 ± ε exactly a sample is inside and not flat; one with A = 0 is never flat."""
    two, half = np.log([2.0]), np.log([0.5])  # whose exponentials are exact
    for kind in KINDS:

        def fractions(log_ratio, advantage, eps, kind=kind):
            found = ratios(kind(log_ratio), kind(np.array([advantage])), eps)
            return int(found["clip_fraction"]), int(found["flat_fraction"])

        assert fractions(two, 1.0, 1.0) == fractions(half, -1.0, 0.5) == (0, 0)
        assert fractions(two, 1.0, 0.99) == fractions(half, -1.0, 0.49) == (1, 1)
        assert fractions(two, 0.0, 0.1) == fractions(half, 0.0, 0.1) == (1, 0)
        assert fractions(two, -1.0, 0.1) == fractions(half, 1.0, 0.1) == (1, 0)
