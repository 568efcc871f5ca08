"""GSPO's loss and CISPO's, against sums written out: their gradients and their limits."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_cases import REDUCTIONS, Case, agree, cases, eps, slow_clipped

from ppobook.objectives import (
    cispo_loss,
    sequence_surrogate_loss,
)

reduced = pytest.mark.parametrize("reduction", REDUCTIONS)
BOTH = {"cispo": cispo_loss, "gspo": sequence_surrogate_loss}
either = pytest.mark.parametrize("loss", BOTH.values(), ids=BOTH.keys())


def slow_sequence(case, low, high):
    """Each token's entry: minus what its sequence gains, by the likelihoods of whole sequences."""
    x, entries = case.x, np.zeros_like(case.x["logp"])
    for row in np.ndindex(entries.shape[:-1]):
        keep = case.mask[row]
        new, old = (math.prod(map(math.exp, x[name][row][keep].tolist())) for name in ("logp", "old_logp"))
        per_token = (new / old) ** (1 / keep.sum())
        entries[row] = -slow_clipped(math.log(per_token), x["advantages"][row][0], low, high)
    return entries


def sequences(case):
    """logp, old_logp [..., T] and advantages [...]."""
    logp, old_logp = case("logp", "old_logp")
    return logp, old_logp, torch.tensor(case.x["advantages"][..., 0])


def spread(advantages, logp):
    return advantages.unsqueeze(-1).expand(logp.shape)


def gradient(loss, at):
    (found,) = torch.autograd.grad(loss, at)
    return found


# --- against the definitions ----------------------------------------------------------------------------


@settings(max_examples=100)
@given(cases, eps, st.one_of(st.none(), eps))
def test_gspo_is_the_sum_written_out(case, clip_eps, clip_eps_high):
    low, high = 1 - clip_eps, 1 + (clip_eps if clip_eps_high is None else clip_eps_high)
    found = sequence_surrogate_loss(*sequences(case), clip_eps, clip_eps_high, **case.how)
    agree(found, case.mean(slow_sequence(case, low, high)))


# --- gradients ------------------------------------------------------------------------------------------


@reduced
def test_the_gradient_of_gspo_by_finite_differences(reduction):
    for seed in range(4):
        case = Case(seed, (3, 4), reduction, masked=seed % 2 == 0)
        logp, old_logp, advantages = (x.nan_to_num_(0.1) for x in sequences(case))
        logp.requires_grad_()

        def scalar(x, old_logp=old_logp, advantages=advantages, case=case):
            return sequence_surrogate_loss(x, old_logp, advantages, 0.2, 0.3, **case.how)

        assert torch.autograd.gradcheck(scalar, logp)
        assert (gradient(scalar(logp), logp).numpy()[~case.mask] == 0).all()


def test_cispo_has_no_lower_bound_unless_given():
    logp = torch.tensor([math.log(0.01)], requires_grad=True)
    old_logp, advantages = torch.zeros(1), -torch.ones(1)
    assert gradient(cispo_loss(logp, old_logp, advantages, 0.2), logp).item() == pytest.approx(0.01)
    assert gradient(cispo_loss(logp, old_logp, advantages, 0.2, 0.4), logp).item() == pytest.approx(0.6)
    assert gradient(cispo_loss(logp, old_logp, advantages, 0.2, 1.0), logp).item() == pytest.approx(0.01)


@either
def test_no_gradient_goes_into_data(loss):
    case = Case(0, (3, 4), "sequence", masked=False)
    logp, old_logp, advantages = (x.requires_grad_() for x in sequences(case))
    if loss is cispo_loss:
        advantages = spread(advantages.detach(), logp).clone().requires_grad_()
    loss(logp, old_logp, advantages, 0.2).backward()
    assert logp.grad is not None
    assert old_logp.grad is None
    assert advantages.grad is None


# --- limits and invariances -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize("reduction", ["token", "constant"])
def test_a_sequence_without_a_token_is_not_read(reduction):
    logp = torch.tensor([[-1.0, -2.0], [math.nan, math.nan]], requires_grad=True)
    advantages = torch.tensor([1.0, math.nan])
    how = {"reduction": reduction, "denominator": 2.0 if reduction == "constant" else None}
    found = sequence_surrogate_loss(logp, logp, advantages, 0.2, mask=torch.tensor([[1, 1], [0, 0]]), **how)
    assert found.item() == -1.0
    with torch.autograd.detect_anomaly(check_nan=True):
        assert gradient(found, logp).tolist() == [[-0.5, -0.5], [0.0, 0.0]]
