"""The checks of the final assessment, on answers as students might write them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from answers import tables
from answers.assessment import comparing, debugging, explaining, implementing, tuning
from checks import ROOT, CheckTests, Exercises

from ppobook.course import masters
from ppobook.teaching import checks
from ppobook.teaching.checks import assessment


class Tasks(Exercises):
    """The assessment is no chapter of its own: its hints send to five of them."""

    def __init__(self) -> None:
        self.master = ROOT / "exercises" / "masters" / "10_final_assessment.md"
        self.number = ""  # type: ignore[assignment]
        self.solutions = {n: s for n, s in masters.solutions(self.master).items() if s.kind == "code"}


TASKS = ("implement", "explain", "tune", "debug", "compare")
EXERCISES = Tasks()
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
    kinds = {"Build": 2, "Prove": 1, "Hunt": 1, "Reflect": 1}  # noqa: RUF012

    def chapters(self) -> list[tuple[checks.Chapter, str]]:
        folder = ROOT / "chapters"
        return [(one, (folder / f"{name}.md").read_text(encoding="utf-8")) for name, one in CHAPTERS.items()]

    def test_each_kind_and_difficulty_is_there_and_the_order_climbs(self) -> None:
        found = masters.exercises(masters.read(self.exercises.master))
        assert [e.label for e in found] == [f"final-{task}" for task in TASKS]
        levels = [e.difficulty for e in found]
        assert levels == sorted(levels)
        assert sum(e.minutes for e in found) == 210  # "three hours and a half"


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
