"""Bad input of the losses on preferences."""

import math

import pytest
import torch
from preference_cases import PAIRS

from ppobook.preferences import bradley_terry_loss, dpo_loss, ipo_loss, kto_loss, simpo_loss

ONE = torch.ones(3)
ARGUMENTS = {
    bradley_terry_loss: {"chosen_rewards": ONE, "rejected_rewards": ONE, "margin": ONE},
    dpo_loss: dict.fromkeys(PAIRS, ONE),
    ipo_loss: dict.fromkeys(PAIRS, ONE),
    simpo_loss: {"chosen_logp": ONE, "rejected_logp": ONE}
    | dict.fromkeys(["chosen_lengths", "rejected_lengths"], torch.tensor([1, 2, 3])),
    kto_loss: {"logp": ONE, "ref_logp": ONE, "desirable": torch.tensor([True, False, True]), "kl": 0.1},
}


TENSORS = [(loss, name) for loss, given in ARGUMENTS.items() for name, x in given.items() if x is ONE]


@pytest.mark.parametrize(("loss", "name"), TENSORS, ids=lambda x: getattr(x, "__name__", x))
def test_each_tensor(loss, name):
    given = ARGUMENTS[loss]
    first = next(iter(given))
    loss(**given)
    bad = [
        (torch.tensor([0.0, x, 0.0]), ValueError, f"{name} must be finite, got {x} at index 1")
        for x in (torch.nan, torch.inf, -torch.inf)
    ]
    bad.append((ONE.long(), TypeError, f"{name} must be a tensor of a floating dtype, got torch.int64"))
    if (loss, name) != (bradley_terry_loss, "margin"):
        bad += [(x, TypeError, f"{name} must be a torch tensor, got") for x in (ONE.numpy(), [1.0, 1.0, 1.0])]
    if name != first:
        message = rf"{name} must have shape \(3,\), the shape of {first}, got"
        bad += [(x, ValueError, message) for x in (torch.ones(2), torch.ones(3, 1), torch.tensor(1.0))]
    for x, error, message in bad:
        with pytest.raises(error, match=message):
            loss(**given | {name: x})


@pytest.mark.parametrize("loss", ARGUMENTS, ids=lambda f: f.__name__)
def test_completions_have_one_axis(loss):
    """The usual mistake is to pass a log-probability a token."""
    given, first = ARGUMENTS[loss], next(iter(ARGUMENTS[loss]))
    for shape, message in [
        (
            (3, 24),
            rf"{first} must have one axis, \((pairs|completions),\), one number a completion, got",
        ),
        ((), rf"{first} must have one axis, .* got shape \(\)"),
        ((0,), rf"{first} must have at least one entry, got shape \(0,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            loss(**{name: torch.ones(shape) if x is ONE else x for name, x in given.items()})


margins, simpo, kto = bradley_terry_loss, simpo_loss, kto_loss
BAD = [
    (loss, {"beta": x}, error, f"beta must be a (finite )?number above 0, got {x!r}")
    for loss in (dpo_loss, ipo_loss, simpo_loss, kto_loss)
    for x, error in zip([0, -0.1, math.nan, math.inf, "0.1"], [ValueError] * 4 + [TypeError], strict=True)
] + [
    (margins, {"margin": math.nan}, ValueError, "margin must be a finite number, got nan"),
    (margins, {"margin": "1"}, TypeError, "margin must be a finite number, got '1'"),
    (margins, {"margin": ONE.numpy()}, TypeError, "margin must be a finite number, got array"),
    (
        dpo_loss,
        {"label_smoothing": 0.6},
        ValueError,
        r"label_smoothing must be a number in \[0, 0.5\], got",
    ),
    (dpo_loss, {"label_smoothing": -0.1}, ValueError, r"label_smoothing must be .* \[0, 0.5\], got -0.1"),
    (dpo_loss, {"label_smoothing": None}, TypeError, r"label_smoothing must be .* \[0, 0.5\], got None"),
    (simpo, {"gamma": -1}, ValueError, "gamma must be a number of at least 0, got -1"),
    (simpo, {"chosen_lengths": torch.tensor([1, 0, 2])}, ValueError, "chosen_lengths must be integers of at"),
    (simpo, {"rejected_lengths": torch.tensor([1.5, 1, 2])}, ValueError, "must be .*, got 1.5 at index 0"),
    (simpo, {"rejected_lengths": ONE * torch.nan}, ValueError, "must be integers .*, got nan at index 0"),
    (simpo, {"rejected_lengths": ONE * torch.inf}, ValueError, "must be integers .*, got inf at index 0"),
    (simpo, {"chosen_lengths": ONE.bool()}, TypeError, "must be a tensor of integers, got torch.bool"),
    (simpo, {"chosen_lengths": [1, 2, 3]}, TypeError, "chosen_lengths must be a torch tensor, got list"),
    (
        simpo,
        {"chosen_lengths": torch.ones(2)},
        ValueError,
        r"chosen_lengths must have shape \(3,\), .*got",
    ),
    (kto, {"desirable": torch.ones(2)}, ValueError, r"desirable must have shape \(3,\), .*, got \(2,\)"),
    (kto, {"desirable": 2 * ONE}, ValueError, "desirable must be bool or 0/1, got 2 at index 0"),
    (kto, {"desirable": ONE.numpy()}, TypeError, "desirable must be a torch tensor, as logp is, got a NumPy"),
    (kto, {"kl": math.nan}, ValueError, "kl must be a finite number, got nan"),
    (kto, {"kl": None}, TypeError, "kl must be a finite number, got None"),
    (kto, {"kl": torch.tensor([0.0, torch.nan])}, ValueError, "kl must be finite, got nan at index 1"),
    (kto, {"kl": torch.ones(0)}, ValueError, r"kl must have at least one entry, got shape \(0,\)"),
    (kto, {"kl": torch.tensor(1)}, TypeError, "kl must be a tensor of a floating dtype, got torch.int64"),
    (kto, {"desirable_weight": -1}, ValueError, "desirable_weight must be a number of at least 0, got -1"),
    (kto, {"undesirable_weight": None}, TypeError, "undesirable_weight must be a number of at least 0"),
]


@pytest.mark.parametrize(("loss", "change", "error", "message"), BAD)
def test_bad_values_and_types(loss, change, error, message):
    with pytest.raises(error, match=message):
        loss(**ARGUMENTS[loss] | change)
