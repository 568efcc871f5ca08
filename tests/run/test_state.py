"""The state of a learner and the test for finite weights."""

import pytest
import torch
from torch import nn

from ppobook.run.metrics import weights_are_finite


def module(*weights):
    made = nn.Module()
    made.weight = nn.Parameter(torch.tensor(weights))
    return made


@pytest.mark.parametrize(
    ("weights", "finite"),
    [
        ((1.0, -2.0), True),
        ((3e38, 3e38), True),  # their norm is no float32 any more
        ((1.0, float("nan")), False),
        ((float("-inf"),), False),
        ((), True),
    ],
)
def test_weights_are_looked_at_in_every_module(weights, finite):
    modules = [module(0.5), module(*weights)]
    assert weights_are_finite(modules) == finite
