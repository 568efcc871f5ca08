"""KL divergences against sums, integrals and samples."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from ppobook.divergences import k1, k2, k3, kl_categorical, kl_gaussian

exactly = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
seeds = st.integers(0, 2**32 - 1)
leads = st.sampled_from([(), (1,), (4,), (2, 3)])


def slow_kl_categorical(logits_q, logits_p):
    """Probabilities first, by scipy, then one term an action."""
    total = 0.0
    for a in range(len(logits_q)):
        q, p = (np.exp(x[a]) / sum(np.exp(y) for y in x) for x in (logits_q, logits_p))
        total += q * np.log(q / p)
    return total


# --- categorical ----------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(seeds, leads, st.integers(1, 5), st.floats(0, 5))
def test_kl_categorical_is_the_sum(seed, lead, actions, scale):
    logits_q, logits_p = np.random.default_rng(seed).normal(scale=scale, size=(2, *lead, actions))
    found = kl_categorical(logits_q, logits_p)
    assert found.shape == lead
    for index in np.ndindex(*lead):
        exactly(found[index], slow_kl_categorical(logits_q[index], logits_p[index]))
    assert (found >= -1e-12).all()
    # Logits have no level: adding a number to all of them changes nothing.
    exactly(kl_categorical(logits_q + 700.0, logits_p - 700.0), found)
    exactly(kl_categorical(logits_q, logits_q), 0.0)


def test_impossible_actions():
    never = -np.inf
    exactly(kl_categorical(np.array([0.0, 1.0, never]), np.array([0.0, 1.0, never])), 0.0)
    # q never takes action 2 and p may: that costs -log of what p has left.
    exactly(kl_categorical(np.array([0.0, never]), np.log([0.25, 0.75])), np.log(4))
    assert kl_categorical(np.log([0.25, 0.75]), np.array([0.0, never])) == np.inf
    logits_q = torch.tensor([0.3, 1.0, never], requires_grad=True)
    logits_p = torch.tensor([0.0, 0.0, never], requires_grad=True)
    kl_categorical(logits_q, logits_p).backward()
    assert torch.isfinite(logits_q.grad).all()
    assert torch.isfinite(logits_p.grad).all()
    assert logits_q.grad[2] == logits_p.grad[2] == 0


def test_kl_categorical_gradient():
    generator = torch.Generator().manual_seed(0)
    logits_q, logits_p = torch.randn(2, 3, 4, dtype=torch.float64, generator=generator).unbind()
    assert torch.autograd.gradcheck(
        kl_categorical, (logits_q.clone().requires_grad_(), logits_p.clone().requires_grad_())
    )


# --- Gaussian -------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.floats(-2, 2), st.floats(0.3, 2), st.floats(-2, 2), st.floats(0.3, 2))
def test_kl_gaussian_is_the_integral(mean_q, std_q, mean_p, std_p):
    q, p = stats.norm(mean_q, std_q), stats.norm(mean_p, std_p)
    # For a smooth integrand that has died out at both ends the trapezoid rule is exact to rounding.
    x = np.linspace(mean_q - 12 * std_q, mean_q + 12 * std_q, 2001)
    wanted = integrate.trapezoid(q.pdf(x) * (q.logpdf(x) - p.logpdf(x)), x)
    found = kl_gaussian(*(np.array([x]) for x in (mean_q, std_q, mean_p, std_p)))
    exactly(found, [wanted])
    assert found >= 0


@settings(max_examples=100)
@given(seeds, leads, st.integers(1, 4))
def test_kl_gaussian_adds_up_over_the_last_axis(seed, lead, components):
    rng = np.random.default_rng(seed)
    mean_q, mean_p = rng.normal(size=(2, *lead, components))
    std_q, std_p = rng.uniform(0.2, 3, size=(2, *lead, components))
    found = kl_gaussian(mean_q, std_q, mean_p, std_p)
    assert found.shape == lead
    apart = [
        kl_gaussian(*(x[..., i : i + 1] for x in (mean_q, std_q, mean_p, std_p))) for i in range(components)
    ]
    exactly(found, np.sum(apart, axis=0))
    by_torch = torch.distributions.kl_divergence(
        torch.distributions.Normal(torch.tensor(mean_q), torch.tensor(std_q)),
        torch.distributions.Normal(torch.tensor(mean_p), torch.tensor(std_p)),
    ).sum(-1)
    exactly(found, by_torch.numpy())
    exactly(kl_gaussian(mean_q, std_q, mean_q, std_q), 0.0)


def test_kl_gaussian_gradient():
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(2, 3, 2, dtype=torch.float64, generator=generator)
    stds = 0.5 + torch.rand(2, 2, dtype=torch.float64, generator=generator)
    arguments = [x.clone().requires_grad_() for x in (means[0], stds[0], means[1], stds[1])]
    assert torch.autograd.gradcheck(kl_gaussian, arguments)


# --- estimators -----------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(seeds, st.integers(2, 6))
def test_k1_and_k3_are_unbiased(seed, actions):
    """Their exact mean under q, not a sample's: each outcome weighted with its probability."""
    logits_q, logits_p = np.random.default_rng(seed).normal(size=(2, actions))
    logp_q, logp_p = (x - np.log(np.exp(x).sum()) for x in (logits_q, logits_p))
    kl, q = kl_categorical(logits_q, logits_p), np.exp(logp_q)
    exactly((q * k1(logp_q, logp_p)).sum(), kl)
    exactly((q * k3(logp_q, logp_p)).sum(), kl)


def test_k3_keeps_its_digits_near_ratio_one():
    log_r = np.float32(1e-3)
    found = k3(np.zeros(1, dtype=np.float32), np.array([log_r]))
    np.testing.assert_allclose(found, 0.5e-6, rtol=1e-3)


# --- dtypes -------------------------------------------------------------------------------

PAIRS = [kl_categorical, k1, k2, k3]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [*PAIRS, kl_gaussian])
def test_numpy_and_torch_agree(function, dtype):
    rng = np.random.default_rng(0)
    arrays = [
        rng.uniform(0.5, 2, size=(3, 4)).astype(dtype) for _ in range(4 if function is kl_gaussian else 2)
    ]
    from_numpy, from_torch = function(*arrays), function(*map(torch.as_tensor, arrays))
    assert from_numpy.dtype == dtype
    assert from_torch.dtype == torch.as_tensor(from_numpy).dtype
    rtol, atol = (1e-5, 1e-6) if dtype == np.float32 else (1e-9, 1e-9)
    np.testing.assert_allclose(from_numpy, from_torch.numpy(), rtol=rtol, atol=atol)
    wide = function(*(x.astype(np.float64) for x in arrays))
    np.testing.assert_allclose(from_numpy, wide, rtol=rtol, atol=atol)
