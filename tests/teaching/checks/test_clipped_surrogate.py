"""The checks of chapter 3's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the tables that they print.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from answers import tables
from answers.clipped_surrogate import bounds, losses, penalty, three_actions, updates
from answers.clipped_surrogate import tables as by_hand
from checks import CheckTests, Exercises

from ppobook.teaching import checks
from ppobook.teaching.checks import clipped_surrogate

EXERCISES = Exercises("03_the_clipped_surrogate")
RIGHT, WRONG, UNNAMED = tables(by_hand, losses, penalty, updates, bounds, three_actions)


class TestChecks(CheckTests):
    module = clipped_surrogate
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 3, "Build": 3, "Hunt": 3, "Reflect": 3}  # noqa: RUF012


@pytest.mark.parametrize("name", ["hunt-stale", "inside-the-box"])
def test_what_the_cell_below_could_not_use_is_refused(name: str) -> None:
    answer = EXERCISES.reference(name)
    both = checks.run(name, lambda *args, **kwargs: (answer(*args, **kwargs), torch.zeros(())))
    assert (both.kind, both.name) == ("returned", "more than the log ratios")
    array = checks.run(name, lambda *args, **kwargs: answer(*args, **kwargs).numpy())
    assert (array.kind, array.name) == ("returned", "an array")


def test_a_climb_without_a_return_is_told_so() -> None:
    verdict = checks.run("three-actions", lambda *_: None)
    assert verdict.name == "nothing came back"


# --- what the texts say of the tables that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    return EXERCISES.world("learn(", "tune(", assigned=True)


@pytest.mark.slow
def test_the_hunts_show_the_metrics_that_their_bugs_produce(world: dict[str, Any]) -> None:
    learn, steps_of = world["learn"], world["twenty_steps"]
    healthy = learn(lambda *b: steps_of(world["clipped_surrogate_loss"], *b))
    assert healthy.worst.iloc[-1] > 0.6
    assert healthy.earned.iloc[-1] == pytest.approx(0.94, abs=0.03)
    assert healthy.clip_fraction[0] > 0.5

    swapped = learn(lambda *b: steps_of(world["suspicious_loss"], *b))
    assert swapped.earned[0] > healthy.earned[0] + 0.05
    assert swapped["KL, all actions"][0] > 10 * healthy["KL, all actions"][0]
    assert swapped.clip_fraction[0] > 0.95
    assert swapped["largest ratio"].max() > 200
    assert swapped.earned.iloc[-1] == pytest.approx(0.55, abs=0.08)

    divided = learn(lambda *b: world["with_penalty"](world["suspicious_penalized_loss"], *b), updates=21)
    assert divided["KL, all actions"].between(0.003, 0.03).all()
    assert divided.clip_fraction.max() < 0.25
    assert divided.ratio_mean.sub(1).abs().max() < 0.01
    assert (divided.loss < 0).all()
    assert divided.earned.iloc[-1] < 0.12
    assert divided.earned[0] < 0.25

    twice = learn(world["and_its_log"])
    assert twice.earned.iloc[-1] == pytest.approx(0.93, abs=0.03)
    assert twice.ratio_mean.min() > 1.02
    assert twice.ratio_mean[0] == pytest.approx(1.12, abs=0.02)
    assert healthy.ratio_mean.sub(1).abs().max() < 0.02
    for one_bug in ("only the ratio is mended", "only the maximum is mended"):
        loss = WRONG["hunt-two-bugs"][one_bug]
        assert learn(lambda *b, loss=loss: steps_of(loss, *b)).earned.iloc[-1] < 0.03

    stale = learn(world["suspicious_update"])
    assert (stale.clip_fraction == 0).all()
    assert stale.approx_kl.abs().max() < 1e-6
    assert stale["largest ratio"].max() == pytest.approx(1, abs=1e-6)
    assert stale.loss.abs().max() < 1e-6
    assert stale["KL, all actions"][0] > 1
    assert stale.earned.iloc[-1] == pytest.approx(0.65, abs=0.06)
