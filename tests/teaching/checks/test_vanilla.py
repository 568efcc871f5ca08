"""The checks of chapter 1's exercises, on answers as readers might write them, and the messages."""

from __future__ import annotations

import torch
from answers import tables
from answers.vanilla import baselines, losses, measuring, reinforce, returns, softmax
from checks import CheckTests, Exercises

from ppobook.teaching import checks
from ppobook.teaching.checks import vanilla

RIGHT, WRONG, UNNAMED = tables(softmax, losses, returns, baselines, measuring, reinforce)


class TestChecks(CheckTests):
    module = vanilla
    exercises = Exercises("01_vanilla_policy_gradient")
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
