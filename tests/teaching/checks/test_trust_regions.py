"""The checks of chapter 2's exercises, on answers as readers might write them, and the messages."""

from __future__ import annotations

import pytest
from answers import tables
from answers.trust_regions import curvature, gains, ratios, steps
from checks import CheckTests, Exercises

from ppobook.teaching import checks
from ppobook.teaching.checks import trust_regions

RIGHT, WRONG, UNNAMED = tables(ratios, gains, curvature, steps)


class TestChecks(CheckTests):
    module = trust_regions
    exercises = Exercises("02_trust_regions")
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 3, "Hunt": 2, "Reflect": 1}  # noqa: RUF012


@pytest.mark.parametrize(("name", "of"), [("per-step-ratio", "ratios"), ("trust-step", "the gain")])
def test_a_forgotten_return_is_asked_about(name: str, of: str) -> None:
    verdict = checks.run(name, lambda *args: None)
    assert verdict.name == "nothing came back"
    assert of in verdict.message
    assert "`return`" in verdict.message
