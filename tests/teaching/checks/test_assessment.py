"""The checks of the final assessment, on answers as students might write them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from answers import tables
from answers.assessment import comparing, debugging, explaining, implementing, tuning
from checks import CheckTests, Exercises

from ppobook.teaching.checks import assessment

EXERCISES = Exercises("10_final_assessment", "")
RIGHT, WRONG, UNNAMED = tables(implementing, explaining, tuning, debugging, comparing)
CHAPTERS = {
    "03_the_clipped_surrogate": assessment.CLIPPED,
    "04_generalized_advantage_estimation": assessment.GAE,
    "05_the_whole_of_ppo": assessment.WHOLE,
    "06_ppo_in_practice": assessment.PRACTICE,
    "08_grpo": assessment.GRPO,
}


class TestChecks(CheckTests):
    module = assessment
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    chapters = CHAPTERS


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    return EXERCISES.world()


def test_the_grid_is_learned(world, capsys) -> None:
    world["learn_the_grid"](world["ppo_update"])
    returns = [float(x) for x in re.findall(r"return (\S+)", capsys.readouterr().out)]
    assert returns[-1] > 0.3 > -0.5 > returns[0]


def test_the_bugs_make_values_that_cannot_be_and_the_mended_targets_do_not(world) -> None:
    ill, well = (world["walk"](world[f"{name}_targets"]) for name in ("suspicious", "mended"))
    assert ill["least value"].iloc[-1] < -0.9
    assert well["least value"].min() >= 0
    assert well["largest value"].max() <= 1
    assert well["least value"].is_monotonic_increasing
