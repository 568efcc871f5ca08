"""The losses on preferences against sums written out in fifty digits, their gradients and limits."""

import math
from decimal import Decimal, localcontext
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ppobook.preferences import bradley_terry_loss, dpo_loss, ipo_loss, kto_loss, simpo_loss

# --- the definitions, in fifty digits, which neither overflow nor round -----------------------------------

f64 = partial(torch.tensor, dtype=torch.float64)


def exactly(slow):
    """Called with floats, computed in fifty digits, returned as floats."""

    def called(*args, **kwargs):
        with localcontext() as context:
            context.prec = 50
            found = slow(*args, **kwargs)
            return {k: float(x) for k, x in found.items()} if isinstance(found, dict) else float(found)

    return called


def sigma(x):
    return 1 / (1 + (-x).exp())


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers) if numbers else Decimal("nan")


def sides(chosen_rewards, rejected_rewards, chosen, rejected):
    margins = [w - v for w, v in zip(chosen_rewards, rejected_rewards, strict=True)]
    return {
        "chosen_reward": mean(chosen_rewards),
        "rejected_reward": mean(rejected_rewards),
        "margin": mean(margins),
        "accuracy": Decimal(sum(2 if m > 0 else 1 if m == 0 else 0 for m in margins)) / (2 * len(margins)),
        "chosen_logp": mean(chosen),
        "rejected_logp": mean(rejected),
    }


@exactly
def slow_bradley_terry(chosen, rejected, margins):
    """The choice as it is drawn: e^r of the one against e^r of both."""
    losses = []
    for w, v, m in zip(*(map(Decimal, x) for x in (chosen, rejected, margins)), strict=True):
        one, other = (w - m).exp(), v.exp()
        losses.append(-(one / (one + other)).ln())
    return mean(losses)


@exactly
def slow_dpo(chosen, rejected, ref_chosen, ref_rejected, beta, smoothing):
    beta, smoothing = Decimal(beta), Decimal(smoothing)
    rewards = [], []
    losses = []
    for w, v, rw, rv in zip(
        *(map(Decimal, x) for x in (chosen, rejected, ref_chosen, ref_rejected)), strict=True
    ):
        one, other = ((w - rw) * beta).exp(), ((v - rv) * beta).exp()  # (π / π_ref)^β
        right, wrong = one / (one + other), other / (one + other)
        losses.append(-(1 - smoothing) * right.ln() - smoothing * wrong.ln())
        rewards[0].append(beta * (w - rw))
        rewards[1].append(beta * (v - rv))
    found = sides(*rewards, [Decimal(x) for x in chosen], [Decimal(x) for x in rejected])
    return found | {"loss": mean(losses)}


@exactly
def slow_ipo(chosen, rejected, ref_chosen, ref_rejected, beta):
    beta = Decimal(beta)
    w, v, rw, rv = ([Decimal(x) for x in xs] for xs in (chosen, rejected, ref_chosen, ref_rejected))
    # The square of equation 17, multiplied out: h² − h / β + 1 / (4 β²).
    h = [a - c - (b - d) for a, b, c, d in zip(w, v, rw, rv, strict=True)]
    found = sides(
        [beta * (a - c) for a, c in zip(w, rw, strict=True)],
        [beta * (b - d) for b, d in zip(v, rv, strict=True)],
        w,
        v,
    )
    return found | {"loss": mean(x * x - x / beta + 1 / (4 * beta * beta) for x in h)}


@exactly
def slow_simpo(chosen, rejected, chosen_lengths, rejected_lengths, beta, gamma):
    beta, gamma = Decimal(beta), Decimal(gamma)
    w = [beta * Decimal(x) / int(n) for x, n in zip(chosen, chosen_lengths, strict=True)]
    v = [beta * Decimal(x) / int(n) for x, n in zip(rejected, rejected_lengths, strict=True)]
    losses = [-sigma(a - b - gamma).ln() for a, b in zip(w, v, strict=True)]
    found = sides(w, v, [Decimal(x) for x in chosen], [Decimal(x) for x in rejected])
    return found | {"loss": mean(losses)}


@exactly
def slow_kto(logp, ref_logp, desirable, kl, beta, weights):
    beta, (good_weight, bad_weight) = Decimal(beta), map(Decimal, weights)
    z = max(Decimal(0), mean(map(Decimal, kl)))
    losses, right = [], 0
    rewards, logps = {True: [], False: []}, {True: [], False: []}
    for p, q, liked in zip(logp, ref_logp, desirable, strict=True):
        ratio = Decimal(p) - Decimal(q)
        if liked:
            losses.append(good_weight * (1 - sigma(beta * (ratio - z))))
        else:
            losses.append(bad_weight * (1 - sigma(beta * (z - ratio))))
        right += 1 if ratio == z else 2 * ((ratio > z) == liked)
        rewards[liked].append(beta * ratio)
        logps[liked].append(Decimal(p))
    return {
        "loss": mean(losses),
        "chosen_reward": mean(rewards[True]),
        "rejected_reward": mean(rewards[False]),
        "margin": mean(rewards[True]) - mean(rewards[False]),
        "accuracy": Decimal(right) / (2 * len(losses)),
        "chosen_logp": mean(logps[True]),
        "rejected_logp": mean(logps[False]),
        "kl": z,
    }


def agree(found, expected, rtol=1e-9, atol=1e-9):
    """A loss, or a loss with its diagnostics, against numbers of the same names."""
    if isinstance(found, tuple):
        loss, diagnostics = found
        assert "loss" not in diagnostics
        found = diagnostics | {"loss": loss}
        assert set(found) == set(expected)
        for name in found:
            agree(found[name], expected[name], rtol, atol)
        return
    assert found.shape == ()
    np.testing.assert_allclose(found.item(), expected, rtol=rtol, atol=atol)


seeds = st.integers(0, 2**32 - 1)
numbers = st.integers(1, 7)
scales = st.sampled_from([0.0, 0.1, 3.0, 300.0])
betas = st.floats(0.01, 5)


def pairs(seed, n, scale):
    """Log-probabilities of n pairs under a policy, and under a reference that is `scale` away."""
    rng = np.random.default_rng(seed)
    reference = -rng.exponential(30.0, size=(2, n))
    policy = reference + scale * rng.normal(size=(2, n))
    return [*policy.tolist(), *reference.tolist()]


# --- against the definitions ----------------------------------------------------------------------------


@settings(max_examples=100)
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


@settings(max_examples=100)
@given(seeds, numbers, scales, betas, st.one_of(st.just(0.0), st.floats(0, 0.5)))
def test_dpo_is_the_sum_written_out(seed, n, scale, beta, smoothing):
    four = pairs(seed, n, scale)
    found = dpo_loss(*map(f64, four), beta, label_smoothing=smoothing)
    agree(found, slow_dpo(*four, beta, smoothing))


@settings(max_examples=100)
@given(seeds, numbers, scales, betas)
def test_ipo_is_the_sum_written_out(seed, n, scale, beta):
    four = pairs(seed, n, scale)
    agree(ipo_loss(*map(f64, four), beta), slow_ipo(*four, beta))


@settings(max_examples=100)
@given(seeds, numbers, betas, st.floats(0, 3), st.sampled_from([torch.int64, torch.int32, torch.float64]))
def test_simpo_is_the_sum_written_out(seed, n, beta, gamma, dtype):
    chosen, rejected, *_ = pairs(seed, n, 3.0)
    lengths = np.random.default_rng(seed).integers(1, 30, size=(2, n)).tolist()
    found = simpo_loss(
        f64(chosen), f64(rejected), *(torch.tensor(x, dtype=dtype) for x in lengths), beta, gamma
    )
    agree(found, slow_simpo(chosen, rejected, *lengths, beta, gamma))


@settings(max_examples=100)
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
