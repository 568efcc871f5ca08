"""The losses on preferences against sums written out in fifty digits, their gradients and limits."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from preference_cases import (
    SIDES,
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("margin", [-1e4, -1e3, -100.0, 0.0, 100.0, 1e3, 1e4])
def test_margins_of_any_size(margin, dtype):
    """With β = 1 and a reference of zeros, the margin is the chosen log-probability."""
    at, zero = torch.tensor([margin], dtype=dtype, requires_grad=True), torch.zeros(1, dtype=dtype)
    one = torch.ones(1, dtype=torch.int64)
    half = 0.5
    for name, loss, expected, slope in [
        ("bradley_terry", bradley_terry_loss(at, zero), max(-margin, 0), -(margin < 0)),
        ("dpo", dpo_loss(at, zero, zero, zero, 1.0)[0], max(-margin, 0), -(margin < 0)),
        (
            "dpo smoothed",
            dpo_loss(at, zero, zero, zero, 1.0, label_smoothing=0.2)[0],
            0.8 * max(-margin, 0) + 0.2 * max(margin, 0),
            -0.8 if margin < 0 else 0.2,
        ),
        ("ipo", ipo_loss(at, zero, zero, zero, 1.0)[0], (margin - half) ** 2, 2 * (margin - half)),
        ("simpo", simpo_loss(at, zero, one, one, 1.0, 0.0)[0], max(-margin, 0), -(margin < 0)),
        ("kto, liked", kto_loss(at, zero, one, 0.0, 1.0)[0], margin < 0, 0),
        ("kto, not liked", kto_loss(at, zero, 1 - one, 0.0, 1.0)[0], margin > 0, 0),
    ]:
        (gradient,) = torch.autograd.grad(loss, at)
        if margin == 0 and name != "ipo":
            # Half of each: log 2 or ½, and a slope halfway.
            expected = half if name.startswith("kto") else math.log(2)
            slope = {"dpo smoothed": -0.3, "kto, liked": -0.25, "kto, not liked": 0.25}.get(name, -half)
        np.testing.assert_allclose(loss.item(), expected, rtol=1e-6, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(gradient.item(), slope, rtol=1e-6, atol=1e-9, err_msg=name)


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


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


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


def test_no_gradient_goes_into_a_margin():
    w, v, m, _ = (x.requires_grad_() for x in four_of(7))
    bradley_terry_loss(w, v, m).backward()
    assert m.grad is None


def test_a_step_downhill_helps():
    """Chosen up, rejected down; the liked up, the disliked down."""
    for name, loss in LOSSES.items():
        w, v, rw, rv = torch.zeros(4, 5, dtype=torch.float64).requires_grad_()
        gradient = torch.autograd.grad(loss(w, v, rw, rv), [w, v], allow_unused=True)
        if name == "kto":
            assert ((gradient[0] < 0) == LIKED.bool()).all()
            assert (gradient[0] != 0).all()
        elif name != "simpo":
            assert (gradient[0] < 0).all()
            assert (gradient[1] > 0).all()
    w, v = (torch.full((5,), -9.0, dtype=torch.float64, requires_grad=True) for _ in range(2))
    up, down = gradients(simpo_loss(w, v, LENGTHS, LENGTHS), w, v)
    assert (up < 0).all()
    assert (down > 0).all()


# --- what they are for ----------------------------------------------------------------------------------


def test_a_policy_that_is_its_reference():
    w, v, *_ = four_of(8)
    loss, found = dpo_loss(w, v, w, v, 0.7)
    assert loss.item() == pytest.approx(math.log(2), rel=1e-12)
    assert dpo_loss(w, v, w, v, label_smoothing=0.3)[0].item() == pytest.approx(math.log(2), rel=1e-12)
    assert found["accuracy"].item() == 0.5
    assert found["margin"].item() == found["chosen_reward"].item() == found["rejected_reward"].item() == 0
    loss, found = ipo_loss(w, v, w, v, 0.7)
    assert loss.item() == pytest.approx(1 / (4 * 0.49), rel=1e-12)
    assert found["accuracy"].item() == 0.5
    loss, found = kto_loss(w, w, LIKED, 0.0, desirable_weight=2.0, undesirable_weight=1.0)
    assert loss.item() == pytest.approx((2 * 2.0 + 3 * 1.0) / 5 / 2, rel=1e-12)
    assert found["accuracy"].item() == 0.5


def test_equal_rewards_say_nothing():
    assert bradley_terry_loss(torch.ones(3), torch.ones(3)).item() == pytest.approx(math.log(2))


def test_accuracy_counts_a_tie_half():
    zero = torch.zeros(4)
    _, found = dpo_loss(torch.tensor([1.0, 0.0, -1.0, 2.0]), zero, zero, zero)
    assert found["accuracy"].item() == 2.5 / 4


@pytest.mark.parametrize("beta", [0.05, 1.0, 3.0])
def test_ipo_comes_to_rest_at_half_a_reward(beta):
    zero = torch.zeros(1, dtype=torch.float64)
    at = f64([1 / (2 * beta)], requires_grad=True)
    loss, found = ipo_loss(at, zero, zero, zero, beta)
    assert loss.item() == 0
    (gradient,) = gradients(loss, at)
    assert gradient.item() == 0
    assert found["margin"].item() == pytest.approx(0.5)
    for beside in (-0.1, 0.1):
        assert ipo_loss(at + beside, zero, zero, zero, beta)[0].item() == pytest.approx(0.01)


@pytest.mark.parametrize("share", [0.5, 0.6, 0.9])
def test_ipo_on_labels_that_differ_comes_to_rest_where_the_docstring_says(share):
    """A pair labelled one way ten times the share, the other way the rest."""
    beta, ways = 0.3, 10
    h = f64((share - 0.5) / beta, requires_grad=True)
    zero = torch.zeros(ways, dtype=torch.float64)
    sign = f64([1.0] * round(share * ways) + [-1.0] * round((1 - share) * ways))
    loss, _ = ipo_loss(sign * h, zero, zero, zero, beta)
    (gradient,) = torch.autograd.grad(loss, h)
    assert gradient.item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("smoothing", [0.01, 0.2, 0.5])
def test_smoothed_dpo_comes_to_rest_at_the_odds_of_the_labels(smoothing):
    beta = 0.3
    zero = torch.zeros(1, dtype=torch.float64)
    at = f64([math.log((1 - smoothing) / smoothing) / beta], requires_grad=True)
    loss, _ = dpo_loss(at, zero, zero, zero, beta, label_smoothing=smoothing)
    (gradient,) = gradients(loss, at)
    assert gradient.item() == pytest.approx(0, abs=1e-12)
    for beside in (-1.0, 1.0):
        assert dpo_loss(at + beside, zero, zero, zero, beta, label_smoothing=smoothing)[0] > loss


def test_unsmoothed_dpo_never_comes_to_rest():
    zero = torch.zeros(1, dtype=torch.float64)
    at = f64([1.0, 10.0, 100.0, 500.0], requires_grad=True)
    (gradient,) = gradients(dpo_loss(at, *[zero.expand(4)] * 3, 1.0), at)
    assert (gradient < 0).all()


def test_dpo_on_all_preferences_is_rest_at_the_closed_form_optimum():
    """Four completions, every pair with the probability that it goes either way: π ∝ π_ref exp(r / β)."""
    beta = 0.4
    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(4, dtype=torch.float64, generator=generator).log_softmax(0)
    rewards = torch.randn(4, dtype=torch.float64, generator=generator)

    def loss(logits):
        logp, total = logits.log_softmax(0), 0.0
        for i in range(4):
            for j in range(i + 1, 4):
                better, worse = (i, j) if rewards[i] > rewards[j] else (j, i)
                flipped = torch.sigmoid(rewards[worse] - rewards[better]).item()
                pair = (logp[better], logp[worse], reference[better], reference[worse])
                total += dpo_loss(*(x.reshape(1) for x in pair), beta, label_smoothing=flipped)[0]
        return total

    best = (reference + rewards / beta).log_softmax(0).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(best), best)
    same(gradient, torch.zeros(4, dtype=torch.float64))
    for _ in range(10):
        step = 0.1 * torch.randn(4, dtype=torch.float64, generator=generator)
        assert loss(best + step) > loss(best)


def test_dpo_is_bradley_terry_on_the_implicit_rewards():
    w, v, rw, rv = four_of(9)
    loss, found = dpo_loss(w, v, rw, rv, 0.3)
    same(loss, bradley_terry_loss(0.3 * (w - rw), 0.3 * (v - rv)))
    # SimPO is that too, with rewards of its own and γ as the margin.
    n, m = LENGTHS, LENGTHS.flip(0)
    same(simpo_loss(w, v, n, m, 1.5, 0.4)[0], bradley_terry_loss(1.5 * w / n, 1.5 * v / m, 0.4))
    assert found["margin"].item() == pytest.approx(
        found["chosen_reward"].item() - found["rejected_reward"].item()
    )


def test_the_two_sides_of_kto():
    """A text above the point of reference costs little if it was liked, and much if it was not."""
    zero = torch.zeros(1, dtype=torch.float64)
    for ratio in (-3.0, 0.0, 0.4, 5.0):
        liked, disliked = (
            kto_loss(f64([ratio]), zero, torch.tensor([side]), 0.4, 0.7)[0].item() for side in (True, False)
        )
        assert liked + disliked == pytest.approx(1)
        assert (liked < disliked) == (ratio > 0.4)
    # Each has its own weight.
    both = dict(desirable_weight=3.0, undesirable_weight=5.0)
    assert kto_loss(f64([0.4]), zero, torch.tensor([True]), 0.4, **both)[0].item() == pytest.approx(1.5)
    assert kto_loss(f64([0.4]), zero, torch.tensor([False]), 0.4, **both)[0].item() == pytest.approx(2.5)


def test_the_point_of_reference_is_a_mean_that_is_no_less_than_0():
    p, _, q, _ = four_of(10)
    for kl, z in [
        (f64([1.0, -3.0, 4.0]), 2 / 3),
        (f64([1.0, -3.0]), 0.0),
        (f64(-2.0), 0.0),
        (-2, 0.0),
        (3, 3.0),
    ]:
        loss, found = kto_loss(p, q, LIKED, kl)
        assert found["kl"].item() == pytest.approx(z)
        same(loss, kto_loss(p, q, LIKED, z)[0])


def test_a_batch_of_one_kind_has_no_numbers_for_the_other():
    p, _, q, _ = four_of(11)
    for kind, here, gone in [(1, "chosen", "rejected"), (0, "rejected", "chosen")]:
        loss, found = kto_loss(p, q, torch.full((5,), kind), 0.1)
        assert torch.isfinite(loss)
        for name in (f"{gone}_reward", f"{gone}_logp", "margin"):
            assert found[name].isnan()
        for name in (f"{here}_reward", f"{here}_logp", "accuracy", "kl"):
            assert found[name].isfinite()


def test_ipo_of_means_is_what_trl_has():
    """TRL: each side's log-ratio of sums, divided by the number of its completion's tokens."""
    w, v, rw, rv = four_of(12)
    n, m = LENGTHS, LENGTHS.flip(0)
    loss, found = ipo_loss(w / n, v / m, rw / n, rv / m, 0.3)
    same(loss, (((w - rw) / n - (v - rv) / m - 1 / 0.6) ** 2).mean())
    same(found["chosen_reward"], (0.3 * (w - rw) / n).mean())


def test_kto_takes_the_labels_in_every_spelling():
    p, _, q, _ = four_of(13)
    first = kto_loss(p, q, LIKED, 0.1)[0]
    for spelling in (LIKED.bool(), LIKED.double()):
        assert kto_loss(p, q, spelling, 0.1)[0] == first


# --- what changes nothing -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(seeds, st.floats(-50, 50), st.floats(-50, 50))
def test_constants_that_cancel(seed, one, other):
    w, v, rw, rv = four_of(seed)

    def unchanged(before, after):
        torch.testing.assert_close(after, before, rtol=1e-8, atol=1e-8)

    unchanged(bradley_terry_loss(w, v), bradley_terry_loss(w + one, v + one))
    for loss in (dpo_loss, ipo_loss):
        before = loss(w, v, rw, rv, 0.3)[0]
        # One number for both completions of a pair, under either model ...
        unchanged(before, loss(w + one, v + one, rw + other, rv + other, 0.3)[0])
        # ... or one for both models, whatever the completion.
        unchanged(before, loss(w + one, v + other, rw + one, rv + other, 0.3)[0])
    unchanged(kto_loss(w, rw, LIKED, 0.1)[0], kto_loss(w + one, rw + one, LIKED, 0.1)[0])


def test_the_order_of_the_pairs_does_not_matter_and_two_halves_average():
    """But for KTO's z, which is of the whole batch: here it is given."""
    liked, lengths = torch.tensor([1, 0, 1, 1, 0, 0]), torch.tensor([3, 1, 9, 4, 2, 24])
    w, v, rw, rv = four_of(14, n=6)
    for loss, arguments in [
        (bradley_terry_loss, (w, v, rw)),
        (lambda *x: dpo_loss(*x)[0], (w, v, rw, rv)),
        (lambda *x: ipo_loss(*x)[0], (w, v, rw, rv)),
        (lambda *x: simpo_loss(*x)[0], (w, v, lengths, lengths.flip(0))),
        (lambda *x: kto_loss(*x, 0.3)[0], (w, rw, liked)),
    ]:
        order = torch.tensor([3, 1, 5, 0, 2, 4])
        same(loss(*(x[order] for x in arguments)), loss(*arguments))
        halves = loss(*(x[:3] for x in arguments)), loss(*(x[3:] for x in arguments))
        same((halves[0] + halves[1]) / 2, loss(*arguments))


def test_only_lengths_tell_simpo_how_long():
    """Twice the sum over twice the tokens is the same completion to it."""
    w, v, *_ = four_of(15)
    same(simpo_loss(2 * w, v, 2 * LENGTHS, LENGTHS)[0], simpo_loss(w, v, LENGTHS, LENGTHS)[0])


def test_diagnostics_are_detached_scalars_in_the_dtype_of_the_loss():
    four = [x.requires_grad_() for x in four_of(16)]
    for loss, found in (
        dpo_loss(*four),
        ipo_loss(*four),
        simpo_loss(*four[:2], LENGTHS, LENGTHS),
        kto_loss(*four[:2], LIKED, four[2]),
    ):
        assert set(found) - {"kl"} == SIDES
        assert loss.requires_grad
        for x in found.values():
            assert x.shape == ()
            assert x.dtype == torch.float64
            assert not x.requires_grad


@each_loss
def test_half_precision_is_computed_in_float32(loss):
    half = [x.bfloat16() for x in four_of(9)]
    found = loss(*half)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, loss(*(x.float() for x in half)))
