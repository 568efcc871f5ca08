"""The losses on preferences against sums written out in fifty digits, their gradients and limits."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from preference_cases import (
    agree,
    betas,
    f64,
    numbers,
    pairs,
    scales,
    seeds,
    slow_bradley_terry,
    slow_dpo,
    slow_ipo,
    slow_kto,
    slow_simpo,
)

from ppobook.preferences import bradley_terry_loss, dpo_loss, ipo_loss, kto_loss, simpo_loss

# --- against the definitions ----------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(seeds, numbers, scales, st.sampled_from(["number", "tensor"]))
def test_bradley_terry_is_the_probability_of_the_choices(seed, n, scale, kind):
    rng = np.random.default_rng(seed)
    chosen, rejected, margins = (scale * rng.normal(size=(3, n))).tolist()
    if kind == "number":
        margin, margins = 0.7, [0.7] * n
    else:
        margin = f64(margins)
    expected = slow_bradley_terry(chosen, rejected, margins)
    agree(bradley_terry_loss(f64(chosen), f64(rejected), margin), expected)


@settings(deadline=None, max_examples=100)
@given(seeds, numbers, scales, betas, st.one_of(st.just(0.0), st.floats(0, 0.5)))
def test_dpo_is_the_sum_written_out(seed, n, scale, beta, smoothing):
    four = pairs(seed, n, scale)
    found = dpo_loss(*map(f64, four), beta, label_smoothing=smoothing)
    agree(found, slow_dpo(*four, beta, smoothing))


@settings(deadline=None, max_examples=100)
@given(seeds, numbers, scales, betas)
def test_ipo_is_the_sum_written_out(seed, n, scale, beta):
    four = pairs(seed, n, scale)
    agree(ipo_loss(*map(f64, four), beta), slow_ipo(*four, beta))


@settings(deadline=None, max_examples=100)
@given(seeds, numbers, betas, st.floats(0, 3), st.sampled_from([torch.int64, torch.int32, torch.float64]))
def test_simpo_is_the_sum_written_out(seed, n, beta, gamma, dtype):
    chosen, rejected, *_ = pairs(seed, n, 3.0)
    lengths = np.random.default_rng(seed).integers(1, 30, size=(2, n)).tolist()
    found = simpo_loss(
        f64(chosen), f64(rejected), *(torch.tensor(x, dtype=dtype) for x in lengths), beta, gamma
    )
    agree(found, slow_simpo(chosen, rejected, *lengths, beta, gamma))


@settings(deadline=None, max_examples=100)
@given(seeds, numbers, scales, betas, st.floats(0, 3), st.floats(0, 3), st.booleans())
def test_kto_is_the_sum_written_out(seed, n, scale, beta, good_weight, bad_weight, averaged):
    rng = np.random.default_rng(seed)
    logp, _, ref_logp, _ = pairs(seed, n, scale)
    desirable = (rng.random(n) < 0.5).tolist()
    kl = [float(rng.normal(scale=scale))] if averaged else rng.normal(scale=scale, size=n + 1).tolist()
    found = kto_loss(
        f64(logp),
        f64(ref_logp),
        torch.tensor(desirable),
        kl[0] if averaged else f64(kl),
        beta,
        desirable_weight=good_weight,
        undesirable_weight=bad_weight,
    )
    agree(found, slow_kto(logp, ref_logp, desirable, kl, beta, (good_weight, bad_weight)))


# --- margins that would overflow ------------------------------------------------------------------------


def test_a_tiny_loss_keeps_its_digits():
    """1 − σ(30) would have two of them left in float64, and none in float32."""
    for dtype in (torch.float32, torch.float64):
        at, zero = torch.tensor([30.0], dtype=dtype), torch.zeros(1, dtype=dtype)
        yes = torch.ones(1, dtype=torch.bool)
        for loss in (dpo_loss(at, zero, zero, zero, 1.0)[0], kto_loss(at, zero, yes, 0.0, 1.0)[0]):
            np.testing.assert_allclose(loss.item(), math.exp(-30), rtol=1e-5)


# --- gradients ------------------------------------------------------------------------------------------


def four_of(seed, n=5, scale=2.0):
    return [f64(x) for x in pairs(seed, n, scale)]


def gradients(loss, *tensors):
    loss = loss[0] if isinstance(loss, tuple) else loss
    return torch.autograd.grad(loss, tensors)


LIKED = torch.tensor([1, 0, 1, 0, 0])
LENGTHS = torch.tensor([3, 1, 9, 4, 2])
LOSSES = {
    "bradley_terry": lambda w, v, rw, rv: bradley_terry_loss(w, v, 0.3),
    "dpo": lambda *x: dpo_loss(*x, 0.3)[0],
    "dpo smoothed": lambda *x: dpo_loss(*x, 0.3, label_smoothing=0.2)[0],
    "ipo": lambda *x: ipo_loss(*x, 0.3)[0],
    "simpo": lambda w, v, rw, rv: simpo_loss(w, v, LENGTHS, LENGTHS.flip(0), 1.5, 0.4)[0],
    "kto": lambda w, v, rw, rv: kto_loss(w, rw, LIKED, v - rv, 0.3)[0],
}
each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


@each_loss
def test_gradients_by_finite_differences(loss):
    w, v, rw, rv = four_of(5)
    w.requires_grad_()
    if loss is LOSSES["kto"]:  # which has v - rv for its kl, and no gradient there
        assert torch.autograd.gradcheck(lambda w: loss(w, v, rw, rv), [w])
    else:
        assert torch.autograd.gradcheck(lambda w, v: loss(w, v, rw, rv), [w, v.requires_grad_()])


@each_loss
def test_no_gradient_goes_into_the_reference_or_kl(loss):
    four = [x.requires_grad_() for x in four_of(6)]
    loss(*four).backward()
    assert four[0].grad is not None
    assert four[2].grad is None
    assert four[3].grad is None
    assert (four[1].grad is None) == (loss is LOSSES["kto"])


# --- what they are for ----------------------------------------------------------------------------------


def test_a_batch_of_one_kind_has_no_numbers_for_the_other():
    p, _, q, _ = four_of(11)
    for kind, here, gone in [(1, "chosen", "rejected"), (0, "rejected", "chosen")]:
        loss, found = kto_loss(p, q, torch.full((5,), kind), 0.1)
        assert torch.isfinite(loss)
        for name in (f"{gone}_reward", f"{gone}_logp", "margin"):
            assert found[name].isnan()
        for name in (f"{here}_reward", f"{here}_logp", "accuracy", "kl"):
            assert found[name].isfinite()
