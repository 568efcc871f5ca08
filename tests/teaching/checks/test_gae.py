"""The checks of chapter 4's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the numbers that they print.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from answers import tables
from answers.gae import averages, by_hand, estimators
from checks import CheckTests, Exercises, printed

from ppobook.teaching import checks
from ppobook.teaching.checks import gae

EXERCISES = Exercises("04_generalized_advantage_estimation")
RIGHT, WRONG, UNNAMED = tables(by_hand, averages, estimators)


class TestChecks(CheckTests):
    module = gae
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 4, "Hunt": 3, "Reflect": 2}  # noqa: RUF012


def test_two_things_are_asked_for_where_one_came() -> None:
    verdict = checks.run("gae-batch", lambda r, *rest: torch.zeros_like(r)[None])
    assert (verdict.kind, verdict.name) == ("returned", "not two tensors")
    verdict = checks.run("critic-report", lambda a, v: a)
    assert (verdict.kind, verdict.name) == ("returned", "not two things")


# --- what the texts say of the numbers that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    return EXERCISES.world("best", assigned=True)


def test_the_critic_without_a_last_value_is_far_too_modest(world, capsys) -> None:
    world["learn_values"](world["suspicious_gae"])
    lines = printed(capsys)
    columns, last = lines[-1], lines[-2]  # update, explained variance, six values
    assert 0.4 < last[1] < 0.7
    assert last[2] < 0.13 < 0.75 < world["true_values"](False)[0]
    assert all(a > b for a, b in pairwise(columns))
    world["learn_values"](world["mended_gae"])
    lines = printed(capsys)
    assert max(map(abs, lines[-1])) < 0.05
    assert lines[-2][2] == pytest.approx(world["true_values"](False)[0], abs=0.04)


def test_starts_read_one_step_off_harm_the_first_place(world, capsys) -> None:
    world["by_place"](world["suspicious_starts"])
    wrong = [row[1] for row in printed(capsys)]
    assert wrong[0] == pytest.approx(-0.32, abs=0.02)
    assert wrong[1:] == sorted(wrong[1:])
    assert 0 < wrong[1] < wrong[5] < 0.05
    world["by_place"](world["mended_starts"])
    assert max(abs(row[1]) for row in printed(capsys)) < 0.01


def test_of_two_bugs_one_mended_changes_nothing_and_the_other_not_enough(world, capsys) -> None:
    def means(estimate):
        world["by_kind"](estimate)
        return [row[-1] for row in printed(capsys)]

    both = means(world["suspicious_ends"])
    first = estimators.flawed(delta_mask=lambda over, cut: over | cut)
    second = estimators.flawed(cut_value=lambda cut, f, v: v[..., 1:])
    assert both[0] < -0.6
    assert both[2] < -0.3
    assert means(first) == both
    assert both[0] + 0.2 < means(second)[0] < -0.2
    mended = means(world["mended_ends"])
    assert abs(mended[0]) < 0.03
    assert abs(mended[2]) < 0.01
    assert mended[1] > 0
