"""Bad input of the losses: which errors are raised, and by all losses alike."""

import math

import pytest
import torch

from ppobook.objectives import (
    cispo_loss,
    clipped_surrogate_loss,
    kl_penalized_loss,
    masked_mean,
    policy_gradient_loss,
    ppo_loss,
    sequence_surrogate_loss,
    surrogate_loss,
    value_loss,
)

ONE, ROW = torch.ones(2, 3), torch.ones(2)
RATIO = {"logp": ONE, "old_logp": ONE, "advantages": ONE}
GOOD = {
    policy_gradient_loss: {"logp": ONE, "advantages": ONE},
    masked_mean: {"x": ONE},
    surrogate_loss: RATIO,
    clipped_surrogate_loss: RATIO,
    kl_penalized_loss: RATIO | {"kl": ONE, "beta": 1.0},
    sequence_surrogate_loss: RATIO | {"advantages": ROW, "clip_eps": 0.2},
    cispo_loss: RATIO | {"clip_eps_high": 0.2},
    value_loss: {"values": ONE, "returns": ONE, "old_values": ONE, "clip_eps": 0.2},
    ppo_loss: RATIO
    | {"values": ONE, "returns": ONE, "entropy": ONE, "old_values": ONE, "kl": ONE, "beta": 1.0}
    | {"clip_eps": 0.2, "value_coef": 0.5, "entropy_coef": 0.01, "value_clip_eps": 0.2},
}
TENSORS = [
    (loss, name) for loss, good in GOOD.items() for name, x in good.items() if isinstance(x, torch.Tensor)
]


def scalar(found):
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize(("loss", "name"), TENSORS, ids=lambda x: getattr(x, "__name__", x))
def test_each_tensor(loss, name):
    good = GOOD[loss]
    first, x = next(iter(good)), good[name]
    index = (1, 2)[: x.ndim]
    for bad in (torch.nan, torch.inf, -torch.inf):
        holding = x.clone()
        holding[index] = bad
        place = r"\(1, 2\)" if x is ONE else "1"
        with pytest.raises(ValueError, match=rf"{name} must be finite, got {bad} at index {place}"):
            loss(**good | {name: holding})
        # Where the mask is 0 it is not read.
        mask = torch.ones(2, 3)
        mask[index] = 0
        if x is ONE and loss is not sequence_surrogate_loss:
            assert torch.isfinite(scalar(loss(**good | {name: holding}, mask=mask)))
    with pytest.raises(TypeError, match=f"{name} must be a torch tensor, got ndarray"):
        loss(**good | {name: x.numpy()})
    with pytest.raises(TypeError, match=f"{name} must be a tensor of a floating dtype, got torch.int64"):
        loss(**good | {name: x.long()})
    if name != first:
        with pytest.raises(ValueError, match=rf"{name} must have shape \(2,.*\), .* {first}, got \(5,\)"):
            loss(**good | {name: torch.ones(5)})


EMPTY_ROW = torch.tensor([[1, 1, 1], [0, 0, 0]])
MASK_AND_REDUCTION = [
    ({"mask": torch.zeros(2, 3)}, ValueError, "mask must have at least one entry that is not 0, got 0"),
    ({"mask": 0.5 * ONE}, ValueError, r"mask must be bool or 0/1, got 0.5 at index \(0, 0\)"),
    ({"mask": 2 * ONE}, ValueError, r"mask must be bool or 0/1, got 2 at index \(0, 0\)"),
    ({"mask": torch.ones(3)}, ValueError, r"mask must have shape \(2, 3\), the shape of \w+, got \(3,\)"),
    ({"mask": ONE.numpy()}, TypeError, "mask must be a torch tensor, as .* is, got a NumPy array"),
    (
        {"reduction": "mean"},
        ValueError,
        "reduction must be one of 'token', 'sequence', 'constant', got 'mean'",
    ),
    ({"reduction": "tokens"}, ValueError, "reduction must be .* got 'tokens'. Did you mean 'token'?"),
    ({"reduction": None}, ValueError, "reduction must be .* got None"),
    ({"reduction": "constant"}, ValueError, "denominator must be given with reduction='constant', got None"),
    ({"reduction": "constant", "denominator": 0}, ValueError, "denominator must be a number above 0, got 0"),
    ({"reduction": "constant", "denominator": "8"}, TypeError, "denominator must be a number .*, got '8'"),
    ({"denominator": 6, "reduction": "token"}, ValueError, "denominator must be None with .*, got 6"),
    ({"mask": EMPTY_ROW, "reduction": "sequence"}, ValueError, "mask must have a token in each row .* row 1"),
]


@pytest.mark.parametrize("loss", GOOD, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("change", "error", "message"), MASK_AND_REDUCTION)
def test_mask_and_reduction(loss, change, error, message):
    with pytest.raises(error, match=message):
        loss(**GOOD[loss] | change)


SCALARS = dict.fromkeys(["logp", "old_logp", "advantages"], torch.tensor(1.0))
ONE_NUMBER = dict.fromkeys(["logp", "advantages"], torch.tensor(1.0))
ONE_NUMBER |= {"mask": torch.tensor(True), "reduction": "sequence"}
gradient, clipped, penalized = policy_gradient_loss, clipped_surrogate_loss, kl_penalized_loss
sequence, cispo, value, ppo = sequence_surrogate_loss, cispo_loss, value_loss, ppo_loss
BAD = [
    (
        gradient,
        {"logp": ONE[:0], "advantages": ONE[:0]},
        ValueError,
        r"logp must have at least .*\(0, 3\)",
    ),
    (
        gradient,
        ONE_NUMBER,
        ValueError,
        "mask must be an array whose last axis is the tokens .*, got a sing",
    ),
    (clipped, {"clip_eps": 0}, ValueError, "clip_eps must be a number above 0, got 0"),
    (clipped, {"clip_eps": "0.2"}, TypeError, "clip_eps must be a number above 0, got '0.2'"),
    (clipped, {"clip_eps_high": -0.1}, ValueError, "clip_eps_high must be a number above 0, got -0.1"),
    (penalized, {"beta": -1}, ValueError, "beta must be a number of at least 0, got -1"),
    (penalized, {"beta": None}, TypeError, "beta must be a number of at least 0, got None"),
    (penalized, {"kl": 0.1}, TypeError, "kl must be a torch tensor, got float"),
    (sequence, {"advantages": ONE}, ValueError, r"advantages must have shape \(2,\), one number a sequence"),
    (sequence, SCALARS, ValueError, "logp must be an array whose last axis is the tok"),
    (sequence, {"logp": ONE[:, :0], "old_logp": ONE[:, :0]}, ValueError, r"logp must have .* \(2, 0\)"),
    (sequence, {"mask": EMPTY_ROW}, ValueError, "mask must have a token in each row .* got none in row 1"),
    (sequence, {"clip_eps": 0}, ValueError, "clip_eps must be a number above 0, got 0"),
    (sequence, {"clip_eps": None}, TypeError, "clip_eps must be a number above 0, got None"),
    (sequence, {"clip_eps_high": -1}, ValueError, "clip_eps_high must be a number above 0, got -1"),
    (cispo, {"advantages": ROW}, ValueError, r"advantages must have shape \(2, 3\), .*, got \(2,\)"),
    (cispo, {"clip_eps_high": 0}, ValueError, "clip_eps_high must be a number above 0, got 0"),
    (cispo, {"clip_eps_high": None}, TypeError, "clip_eps_high must be a number above 0, got None"),
    (cispo, {"clip_eps_low": -0.2}, ValueError, "clip_eps_low must be a number above 0, got -0.2"),
    (cispo, {"clip_eps_low": math.nan}, ValueError, "clip_eps_low must be a number above 0, got nan"),
    (value, {"old_values": None}, ValueError, "old_values must be given with clip_eps=0.2, got None"),
    (value, {"clip_eps": 0}, ValueError, "clip_eps must be a number above 0, got 0"),
    (ppo, {"clip_eps": None}, TypeError, "clip_eps must be a number above 0, got None"),
    (ppo, {"value_coef": -0.5}, ValueError, "value_coef must be a number of at least 0, got -0.5"),
    (ppo, {"entropy_coef": -0.01}, ValueError, "entropy_coef must be a number of at least 0, got -0.01"),
    (ppo, {"entropy_coef": math.nan}, ValueError, "entropy_coef must be a number of at least 0, got nan"),
    (ppo, {"old_values": None}, ValueError, "old_values must be given with value_clip_eps=0.2, got None"),
    (ppo, {"value_clip_eps": -1}, ValueError, "value_clip_eps must be a number above 0, got -1"),
    (ppo, {"kl": None}, ValueError, "kl and beta must both be given, or neither, got beta only"),
    (ppo, {"beta": None}, ValueError, "kl and beta must both be given, or neither, got kl only"),
]


@pytest.mark.parametrize(("loss", "change", "error", "message"), BAD)
def test_bad_values_and_types(loss, change, error, message):
    with pytest.raises(error, match=message):
        loss(**GOOD[loss] | change)
