"""The state of a learner and the test for finite weights."""

import pytest
import torch
from line import Line, LineSettings
from torch import nn

from ppobook.run.metrics import weights_are_finite


def test_the_state_comes_back_from_the_disk(tmp_path):
    line = Line(LineSettings(), 0)
    for _ in range(3):
        line.step()
    torch.save(line.state_dict(), tmp_path / "state.pt")
    after = [line.step() for _ in range(3)]
    other = Line(LineSettings(), 1)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert [other.step() for _ in range(3)] == after
    assert other.seen == line.seen
    assert "nothing" not in line.state_dict()
    for name in ("model", "dice", "seen"):
        less = {one: part for one, part in line.state_dict().items() if one != name}
        with pytest.raises(KeyError, match=name):
            other.load_state_dict(less)


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
