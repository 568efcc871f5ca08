"""The checks of chapter 1's exercises, on answers as readers might write them, and the messages."""

from __future__ import annotations

from answers import tables
from answers.vanilla import baselines, losses, measuring, reinforce, returns, softmax
from checks import CheckTests, Exercises

from ppobook.teaching.checks import vanilla

EXERCISES = Exercises("01_vanilla_policy_gradient")
RIGHT, WRONG, UNNAMED = tables(softmax, losses, returns, baselines, measuring, reinforce)


class TestChecks(CheckTests):
    module = vanilla
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 3, "Hunt": 2, "Reflect": 1}  # noqa: RUF012


# --- what the texts say of the numbers that they print


def test_two_intervals_that_look_right_do_not_hold_what_they_promise() -> None:
    space = EXERCISES.namespace()
    held = {name: space["coverage"](space[name], 5) for name in ("of_all_returns", "bootstrap")}
    assert 0.40 < held["of_all_returns"] < 0.5
    assert 0.15 < 1 - held["bootstrap"] < 0.18  # one time in six
    reference = EXERCISES.reference("interval")
    assert 0.935 < space["coverage"](reference, 5) < 0.965
