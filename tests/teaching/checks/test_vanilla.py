"""The checks of chapter 1's exercises, on answers as readers might write them, and the messages."""

from __future__ import annotations

import torch
from answers import tables
from answers.vanilla import baselines, losses, measuring, reinforce, returns, softmax
from checks import CheckTests, Exercises

from ppobook.envs import gridworld
from ppobook.teaching import checks
from ppobook.teaching.checks import vanilla

EXERCISES = Exercises("01_vanilla_policy_gradient")
RIGHT, WRONG, UNNAMED = tables(softmax, losses, returns, baselines, measuring, reinforce)


class TestChecks(CheckTests):
    module = vanilla
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 3, "Hunt": 2, "Reflect": 1}  # noqa: RUF012


def test_an_unforeseen_mistake_is_told_the_property_it_breaks() -> None:
    verdict = checks.run("leave-one-out", lambda g: g - g.median())
    assert verdict.kind == "property"
    assert verdict.message.startswith("✗ Not right; this fails: returns 1 and 5 become −4 and 4\n  Seen: ")
    assert "Read: chapter 1" in verdict.message


def test_the_covariance_is_not_told_to_who_has_not_found_it() -> None:
    verdict = checks.run("score-mean", lambda z: torch.eye(len(z)) - 1 / len(z))
    assert verdict.kind == "property"
    assert "0.109" not in verdict.message


# --- what the texts say of the numbers that they print


def test_two_intervals_that_look_right_do_not_hold_what_they_promise() -> None:
    space = EXERCISES.namespace()
    held = {name: space["coverage"](space[name], 5) for name in ("of_all_returns", "bootstrap")}
    assert 0.40 < held["of_all_returns"] < 0.5
    assert 0.15 < 1 - held["bootstrap"] < 0.18  # one time in six
    reference = EXERCISES.reference("interval")
    assert 0.935 < space["coverage"](reference, 5) < 0.965


def test_waiting_has_become_almost_free_at_the_bonus_of_the_long_detours() -> None:
    costs = []
    for pay in (-0.02, 0.045):
        world = gridworld(step_reward=pay)
        costs.append((1 - world.gamma) * world.objective(world.optimal_policy()) - pay)
    assert [round(cost, 3) for cost in costs] == [0.047, 0.002]
