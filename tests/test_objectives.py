"""The losses against sums written out, entry by entry and case by case, and against finite differences."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_cases import REDUCTIONS, Case, agree, cases, each, eps, slow_clipped, slow_reduce, slow_value_error

from ppobook import diagnostics
from ppobook.objectives import (
    clipped_surrogate_loss,
    kl_penalized_loss,
    masked_mean,
    policy_gradient_loss,
    ppo_loss,
    surrogate_loss,
    value_loss,
)

# --- against the definitions ----------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(cases)
def test_policy_gradient_loss_is_the_sum_written_out(case):
    expected = case.mean(-case.x["logp"] * case.x["advantages"])
    agree(policy_gradient_loss(*case("logp", "advantages"), **case.how), expected)


@settings(deadline=None, max_examples=100)
@given(cases)
def test_surrogate_loss_is_the_sum_written_out(case):
    x = case.x
    entries = each(lambda p, q, a: -math.exp(p) / math.exp(q) * a, x["logp"], x["old_logp"], x["advantages"])
    agree(surrogate_loss(*case("logp", "old_logp", "advantages"), **case.how), case.mean(entries))


@settings(deadline=None, max_examples=100)
@given(cases, eps, st.one_of(st.none(), eps))
def test_clipped_surrogate_loss_is_the_sum_of_its_cases(case, clip_eps, clip_eps_high):
    low, high = 1 - clip_eps, 1 + (clip_eps if clip_eps_high is None else clip_eps_high)
    x = case.x
    entries = -each(partial(slow_clipped, low=low, high=high), x["logp"] - x["old_logp"], x["advantages"])
    found = clipped_surrogate_loss(
        *case("logp", "old_logp", "advantages"), clip_eps, clip_eps_high=clip_eps_high, **case.how
    )
    agree(found, case.mean(entries))


@settings(deadline=None, max_examples=100)
@given(cases, st.floats(0, 5))
def test_kl_penalized_loss_is_the_sum_written_out(case, beta):
    x = case.x
    entries = beta * x["kl"] - np.exp(x["logp"] - x["old_logp"]) * x["advantages"]
    agree(
        kl_penalized_loss(*case("logp", "old_logp", "advantages", "kl"), beta, **case.how), case.mean(entries)
    )


@settings(deadline=None, max_examples=100)
@given(cases, st.one_of(st.none(), eps))
def test_value_loss_is_the_sum_of_its_cases(case, clip_eps):
    x = case.x
    entries = each(partial(slow_value_error, eps=clip_eps), x["values"], x["returns"], x["old_values"])
    names = ("values", "returns") if clip_eps is None else ("values", "returns", "old_values")
    tensors = case(*names) if clip_eps is None else [*case(*names), clip_eps]
    agree(value_loss(*tensors, **case.how), case.mean(entries))


@settings(deadline=None, max_examples=100)
@given(
    case=cases,
    clip_eps=eps,
    clip_eps_high=st.one_of(st.none(), eps),
    value_coef=st.floats(0, 2),
    entropy_coef=st.floats(0, 0.1),
    value_clip_eps=st.one_of(st.none(), eps),
    beta=st.one_of(st.none(), st.floats(0, 5)),
)
def test_ppo_loss_is_its_parts_and_says_what_they_were(
    case, clip_eps, clip_eps_high, value_coef, entropy_coef, value_clip_eps, beta
):
    x = case.x
    low, high = 1 - clip_eps, 1 + (clip_eps if clip_eps_high is None else clip_eps_high)
    log_ratio = x["logp"] - x["old_logp"]
    if beta is None:
        policy = case.mean(-each(partial(slow_clipped, low=low, high=high), log_ratio, x["advantages"]))
    else:
        policy = case.mean(beta * x["kl"] - np.exp(log_ratio) * x["advantages"])
    value = case.mean(
        each(partial(slow_value_error, eps=value_clip_eps), x["values"], x["returns"], x["old_values"])
    )
    entropy = case.mean(x["entropy"])

    loss, found = ppo_loss(
        *case("logp", "old_logp", "advantages", "values", "returns", "entropy"),
        clip_eps=clip_eps,
        clip_eps_high=clip_eps_high,
        value_coef=value_coef,
        entropy_coef=entropy_coef,
        old_values=case("old_values")[0],
        value_clip_eps=value_clip_eps,
        kl=None if beta is None else case("kl")[0],
        beta=beta,
        **case.how,
    )
    agree(loss, policy + value_coef * value - entropy_coef * entropy)
    agree(found["policy_loss"], policy)
    agree(found["value_loss"], value)
    agree(found["entropy"], entropy)
    assert ("kl" in found) == (beta is not None)
    if beta is not None:
        agree(found["kl"], case.mean(x["kl"]))

    # What is said of the ratios is a plain mean over the entries that count, whatever the reduction.
    ratios = [math.exp(y) for y in case.counted(log_ratio)]
    n, signs = len(ratios), np.sign(case.counted(x["advantages"]))
    mean = math.fsum(ratios) / n
    agree(found["ratio_mean"], mean)
    agree(found["ratio_std"], math.sqrt(math.fsum((r - mean) ** 2 for r in ratios) / n))
    agree(found["approx_kl"], math.fsum(r - 1 - math.log(r) for r in ratios) / n)
    agree(found["clip_fraction"], sum(not low <= r <= high for r in ratios) / n)
    flat = sum((s > 0 and r > high) or (s < 0 and r < low) for r, s in zip(ratios, signs, strict=True))
    agree(found["flat_fraction"], 0 if beta is not None else flat / n)


@settings(deadline=None, max_examples=50)
@given(cases, eps)
def test_flat_samples_are_those_without_a_gradient(case, clip_eps):
    """Asked of autograd, one sample at a time."""
    logp, old_logp, advantages = case("logp", "old_logp", "advantages")
    logp.requires_grad_()
    clipped_surrogate_loss(logp, old_logp, advantages, clip_eps, **case.how).backward()
    silent = (logp.grad == 0) & (advantages != 0) & torch.tensor(case.mask)
    found = diagnostics.flat_fraction((logp - old_logp), advantages, clip_eps, mask=torch.tensor(case.mask))
    agree(found, silent.sum().item() / case.mask.sum())


# --- gradients ------------------------------------------------------------------------------------------

LOSSES = {
    policy_gradient_loss: ("logp", "advantages"),
    surrogate_loss: ("logp", "old_logp", "advantages"),
    clipped_surrogate_loss: ("logp", "old_logp", "advantages"),
    partial(kl_penalized_loss, beta=0.7): ("logp", "old_logp", "advantages", "kl"),
    value_loss: ("values", "returns"),
    partial(value_loss, clip_eps=0.3): ("values", "returns", "old_values"),
}
DATA = {"old_logp", "advantages", "returns", "old_values"}


def named(losses):
    return {
        "argnames": ("loss", "names"),
        "argvalues": losses.items(),
        "ids": [getattr(f, "func", f).__name__ for f in losses],
    }


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(**named(LOSSES))
def test_gradients_by_finite_differences(loss, names, reduction):
    for seed in range(4):
        case = Case(seed, (3, 4), reduction, masked=seed % 2 == 0)
        tensors = dict(zip(names, case(*names), strict=True))
        for x in tensors.values():
            x.nan_to_num_(0.1)
        weights = [name for name in names if name not in DATA]
        for name in weights:
            tensors[name].requires_grad_()

        def scalar(*xs, tensors=tensors, case=case, weights=weights):
            return loss(**tensors | dict(zip(weights, xs, strict=True)), **case.how)

        assert torch.autograd.gradcheck(scalar, tuple(tensors[name] for name in weights))
        scalar(*(tensors[name] for name in weights)).backward()
        for name in weights:
            assert (tensors[name].grad.numpy()[~case.mask] == 0).all()


@pytest.mark.parametrize("beta", [None, 0.7])
def test_gradients_of_ppo_loss_by_finite_differences(beta):
    case = Case(3, (3, 4), "sequence", masked=True)
    names = ("logp", "old_logp", "advantages", "values", "returns", "entropy", "old_values", "kl")
    x = {name: y.nan_to_num_(0.1) for name, y in zip(names, case(*names), strict=True)}
    weights = [name for name in ("logp", "values", "entropy", "kl") if name != "kl" or beta is not None]

    def scalar(*xs):
        arguments = x | dict(zip(weights, xs, strict=True))
        if beta is None:
            arguments.pop("kl")
        loss, _ = ppo_loss(
            **arguments,
            clip_eps=0.2,
            clip_eps_high=0.28,
            value_coef=0.5,
            entropy_coef=0.01,
            value_clip_eps=0.3,
            beta=beta,
            **case.how,
        )
        return loss

    assert torch.autograd.gradcheck(scalar, tuple(x[name].clone().requires_grad_() for name in weights))


@pytest.mark.parametrize(**named(LOSSES))
def test_data_is_detached(loss, names):
    case = Case(0, (5,), "token", masked=False)
    tensors = dict(zip(names, case(*names), strict=True))
    for x in tensors.values():
        x.requires_grad_()
    loss(**tensors).backward()
    for name, x in tensors.items():
        assert (x.grad is None) == (name in DATA)


def test_ppo_loss_leaves_data_alone_and_its_diagnostics_detached():
    case = Case(0, (5,), "token", masked=False)
    names = ("logp", "old_logp", "advantages", "values", "returns", "entropy", "old_values", "kl")
    x = {name: y.requires_grad_() for name, y in zip(names, case(*names), strict=True)}
    loss, found = ppo_loss(**x, clip_eps=0.2, value_coef=0.5, entropy_coef=0.01, value_clip_eps=0.1, beta=1.0)
    loss.backward()
    for name, y in x.items():
        assert (y.grad is None) == (name in DATA)
    for y in found.values():
        assert y.shape == ()
        assert not y.requires_grad
        assert y.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    """The sum of these losses is beyond the largest float16."""
    one = torch.ones((2, 2000), dtype=dtype, requires_grad=True)
    loss, parts = ppo_loss(
        one, one, 50 * one, 10 * one, 0 * one, one, clip_eps=0.2, value_coef=1, entropy_coef=0
    )
    loss.backward()
    assert loss.dtype == torch.float32
    assert {x.dtype for x in parts.values()} == {torch.float32}
    assert (loss.item(), parts["policy_loss"].item(), parts["value_loss"].item()) == (0, -50, 50)
    assert one.grad.dtype == dtype


def test_one_kl_for_all_is_a_kl_for_each():
    case = Case(1, (3, 4), "sequence", masked=True)
    tensors = case("logp", "old_logp", "advantages")
    kl = torch.tensor(0.3, dtype=torch.float64)
    one = kl_penalized_loss(*tensors, kl, 2.0, **case.how)
    agree(
        one, kl_penalized_loss(*tensors, torch.full((3, 4), 0.3, dtype=torch.float64), 2.0, **case.how).item()
    )
    agree(one, surrogate_loss(*tensors, **case.how).item() + 0.6)


# --- the policy gradient --------------------------------------------------------------------------------


def test_padding_that_is_not_a_number_does_not_reach_the_gradient():
    logp = torch.tensor([-1.0, torch.nan, -torch.inf], requires_grad=True)
    advantages = torch.tensor([2.0, torch.nan, torch.inf])
    loss = policy_gradient_loss(logp, advantages, mask=torch.tensor([1, 0, 0]))
    loss.backward()
    assert loss.item() == 2.0
    assert logp.grad.tolist() == [-2.0, 0.0, 0.0]


def test_its_gradient_is_the_policy_gradient():
    """Every action of a bandit once, weighted with its probability: minus the exact gradient of E[reward]."""
    logits = torch.tensor([0.2, -0.4, 1.0], dtype=torch.float64, requires_grad=True)
    reward = torch.tensor([3.0, -1.0, 0.5], dtype=torch.float64)
    (exact,) = torch.autograd.grad(logits.softmax(0) @ reward, logits)
    for baseline in (0.0, 10.0):
        weights = logits.softmax(0).detach() * (reward - baseline)
        loss = policy_gradient_loss(logits.log_softmax(0), weights, reduction="constant", denominator=1.0)
        (found,) = torch.autograd.grad(loss, logits)
        torch.testing.assert_close(found, -exact, rtol=1e-9, atol=1e-9)


def test_sign():
    """A step downhill makes a good action more probable, a bad one less."""
    for advantage in (1.0, -1.0):
        logits = torch.zeros(2, requires_grad=True)
        policy_gradient_loss(logits.log_softmax(0)[:1], torch.tensor([advantage])).backward()
        with torch.no_grad():
            after = (logits - 0.1 * logits.grad).softmax(0)[0]
        assert (after > 0.5) == (advantage > 0)


def test_reductions_differ_where_sequences_do():
    """Two sequences of 1 and 3 tokens, all with loss 1 and 0: by token 1/4, by sequence 1/2."""
    logp = torch.tensor([[-1.0, -9.0, -9.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[1, 0, 0], [1, 1, 1]])
    by = {
        reduction: policy_gradient_loss(
            logp, torch.ones(2, 3), mask=mask, reduction=reduction, denominator=denominator
        ).item()
        for reduction, denominator in [("token", None), ("sequence", None), ("constant", 10)]
    }
    assert by == pytest.approx({"token": 0.25, "sequence": 0.5, "constant": 0.1})


def test_old_values_without_a_clip_are_not_read():
    one, nan = torch.ones(2, 3), torch.full((2, 3), torch.nan)
    assert value_loss(one, 2 * one, nan).item() == 0.5


@pytest.mark.parametrize("reduction", ["token", "sequence", "constant"])
def test_a_masked_mean_is_the_sum_written_out(reduction):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 2, 5, generator=generator, dtype=torch.float64).requires_grad_(True)
    mask = torch.rand(3, 2, 5, generator=generator) < 0.6
    mask[..., 0] = True
    how = {"mask": mask, "reduction": reduction, "denominator": 7.0 if reduction == "constant" else None}
    dirty = torch.where(mask, x, torch.nan)
    assert masked_mean(dirty, **how).item() == pytest.approx(slow_reduce(x.detach(), mask, reduction, 7.0))
    (slope,) = torch.autograd.grad(masked_mean(x, **how), [x])
    assert (slope[~mask] == 0).all()
    assert slope.sum().item() == pytest.approx(mask.sum().item() / 7 if reduction == "constant" else 1.0)
