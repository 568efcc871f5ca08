"""The checks of chapter 2's exercises, on answers as readers might write them, and the messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        (
            "per-step-ratio",
            ratios.ratios(whole=lambda logs, mask: (logs * mask).sum(1).clamp(-20, 20).exp()),
            "eighty steps with the ratio e, and eighty with 1/e, give e to the power of 80 and of −80",
        ),
        (
            "ess",
            lambda logs: 1 / (logs.cumsum(1).softmax(1) ** 2).sum(0),
            "equal weights are worth their number",
        ),
        ("natural-step", curvature.stepper(extra=1), "one iteration gives the plain gradient's direction"),
        ("trust-step", steps.trpo(tries=10), "where only the thirtieth try is near enough, it is taken"),
        (
            "hunt-line-search",
            steps.with_its_own(shrink=0.5),
            "it agrees with a slow definition on 20 random problems",
        ),
    ],
)
def test_what_has_no_name_is_told_the_property_it_breaks(
    name: str, answer: Callable[..., Any], words: str
) -> None:
    verdict = checks.run(name, answer)
    assert (verdict.kind, verdict.name) == ("property", words), verdict.message


@pytest.mark.parametrize(("name", "of"), [("per-step-ratio", "ratios"), ("trust-step", "the gain")])
def test_a_forgotten_return_is_asked_about(name: str, of: str) -> None:
    verdict = checks.run(name, lambda *args: None)
    assert verdict.name == "nothing came back"
    assert of in verdict.message
    assert "`return`" in verdict.message
