"""The losses against sums written out, entry by entry and case by case, and against finite differences."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_cases import REDUCTIONS, Case, agree, cases, each, eps, slow_clipped, slow_reduce, slow_value_error

from ppobook.objectives import (
    cispo_loss,
    clipped_surrogate_loss,
    kl_penalized_loss,
    masked_mean,
    policy_gradient_loss,
    ppo_loss,
    surrogate_loss,
    value_loss,
)

# --- against the definitions ----------------------------------------------------------------------------


@settings(max_examples=100)
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


ALL = LOSSES | {partial(cispo_loss, clip_eps_high=0.3): ("logp", "old_logp", "advantages")}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(**named(ALL))
def test_a_loss_of_many_is_the_mean_of_losses_of_one(loss, names, reduction):
    for seed in range(4):
        case = Case(seed, (2, 3, 4), reduction, masked=seed % 2 == 0)
        entries = np.zeros(case.mask.shape)
        for index in np.argwhere(case.mask):
            entries[tuple(index)] = loss(*(x[tuple(index)].reshape(1) for x in case(*names)))
        agree(loss(*case(*names), **case.how), case.mean(entries))


@pytest.mark.parametrize(**named(LOSSES))
def test_data_is_detached(loss, names):
    case = Case(0, (5,), "token", masked=False)
    tensors = dict(zip(names, case(*names), strict=True))
    for x in tensors.values():
        x.requires_grad_()
    loss(**tensors).backward()
    for name, x in tensors.items():
        assert (x.grad is None) == (name in DATA)


# --- the policy gradient --------------------------------------------------------------------------------


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
