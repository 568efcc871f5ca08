"""What a learner saves; whether its weights are finite; its seeds."""

import pytest
import torch
from engines import ENGINES
from line import Line, LineSettings
from torch import nn

from ppobook.run.machine import stream
from ppobook.run.state import Kept, attributes, check_state, check_update
from ppobook.run.weights import weights_are_finite, weights_diverged


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
        with pytest.raises(
            ValueError, match=f"state of Line must have '{name}', one of its state_attributes"
        ):
            other.load_state_dict(less)


def test_a_state_is_gone_back_to():
    line = Line(LineSettings(), 0)
    line.step()
    kept = Kept(line.state_dict())
    after = [line.step() for _ in range(3)]
    line.nothing = 3
    line.go_back(kept.state)
    assert line.nothing is None
    assert [line.step() for _ in range(3)] == after


def test_everything_that_changes_must_be_listed():
    line = Line(LineSettings(), 0)
    line.head = line.model  # the same weights, by another name
    check_state(line)
    line.scale = nn.Linear(1, 1)
    with pytest.raises(ValueError, match=r"must list 'scale', a Linear that its checkpoints would"):
        check_state(line)
    del line.scale, line.dice
    with pytest.raises(ValueError, match=r"must list attributes that exist after __init__, got 'dice'"):
        check_state(line)


def test_what_an_update_makes_must_be_listed():
    line = Line(LineSettings(), 0)
    before = attributes(line)
    line.copied = nn.Linear(1, 1)  # made anew in each update, it leaves nothing
    check_update(line, before)
    line.lazy = torch.optim.SGD(line.model.parameters(), 0.1)
    before, line.copied = attributes(line), nn.Linear(1, 1)
    with pytest.raises(
        ValueError, match=r"state_attributes must list 'lazy', a SGD that its checkpoints would"
    ):
        check_update(line, before)
    del line.lazy
    line.nothing = torch.optim.SGD(line.model.parameters(), 0.1)
    with pytest.raises(
        ValueError, match=r"Line.__init__ must make 'nothing', .*, got a SGD made by an update"
    ):
        check_update(line, before)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
@pytest.mark.parametrize("listed", [False, True])
def test_what_an_update_makes_and_keeps_must_be_in_its_checkpoints(engine, listed):
    """An optimizer that is made when it is first needed: a run that is resumed would lose its moments."""

    def init(self, *given, **named):
        engine.own.__init__(self, *given, **named)
        self.extra = None

    def update(self, *given):
        if self.extra is None:
            self.extra = torch.optim.Adam(getattr(self, engine.module).parameters())
        return getattr(engine.own, engine.method)(self, *given)

    names = engine.own.state_attributes
    names = (*names, "extra") if listed else names
    members = {"__init__": init, "state_attributes": names, engine.method: update}
    kind = type("Mine", (engine.own,), members)
    message = "must list 'extra', a Adam that"
    if listed:
        message = "Mine.__init__ must make 'extra', one of its state_attributes, got a Adam made by an update"
    with pytest.raises(ValueError, match=message):
        engine.own_run(**{engine.argument: kind})


def test_what_is_listed_may_be_of_the_class():
    class Mine(Line):
        state_attributes = (*Line.state_attributes, "layer", "later")
        layer = property(lambda self: self.model)
        later = None

    line = Mine(LineSettings(), 0)
    check_state(line)
    before = attributes(line)
    check_update(line, before)
    line.later = torch.Generator()
    with pytest.raises(ValueError, match=r"Mine.__init__ must make 'later', .*, got a Generator made by an"):
        check_update(line, before)


def test_the_list_is_no_string():
    with pytest.raises(TypeError, match=r"Wrong.state_attributes must be a tuple of names, got 'dice'"):
        check_state(type("Wrong", (Line,), {"state_attributes": "dice"})(LineSettings(), 0))


def module(*weights):
    made = nn.Module()
    made.weight = nn.Parameter(torch.tensor(weights))
    return made


@pytest.mark.parametrize(
    ("weights", "finite", "diverged"),
    [
        ((1.0, -2.0), True, False),
        ((3e38, 3e38), True, True),  # their norm is no float32 any more
        ((1.0, float("nan")), False, True),
        ((float("-inf"),), False, True),
        ((), True, False),
    ],
)
def test_weights_are_looked_at_in_every_module(weights, finite, diverged):
    modules = [module(0.5), module(*weights)]
    assert weights_are_finite(modules) == finite
    assert weights_diverged(modules) == diverged


def test_seeds_for_different_purposes_differ():
    assert stream(0, "points") == stream(0, "points")
    purposes = [stream(seed, what) for seed in range(3) for what in ("points", "dice", "policy")]
    assert len(set(purposes)) == 9
