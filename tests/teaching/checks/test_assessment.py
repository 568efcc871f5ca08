"""The checks of the final assessment, on answers as students might write them, and what its page says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from answers import tables
from answers.assessment import comparing, debugging, explaining, implementing, tuning
from checks import ROOT, CheckTests, Exercises

from ppobook.course import masters
from ppobook.experiments import results
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


# --- what the page says


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    return EXERCISES.world()


def test_an_empty_place_is_said() -> None:
    stub = 'raise NotImplementedError("not yet: final-by-hand")'
    names = "slopes, clip_fraction, flat_fraction, plain, clipped"
    blank = EXERCISES.blank("final-by-hand", lambda s: s.replace(stub, f"return {names}"))
    verdict = checks.run("final-by-hand", blank)
    assert (verdict.kind, verdict.name) == ("returned", "an entry is still empty")


def test_the_points_of_a_rubric_add_up() -> None:
    given = {p.name: p.points for p in masters.parts(masters.read(EXERCISES.master)) if p.role == "manual"}
    rubrics = {name: s.source for name, s in masters.solutions(EXERCISES.master).items() if s.kind == "text"}
    named = {name: sum(map(int, re.findall(r"\((\d) points?\b", text))) for name, text in rubrics.items()}
    # "One point each, two at most", and "1 if it would decide".
    assert named["final-explain"] + 2 == given["final-explain"]
    assert named["final-compare-essay"] + 1 == given["final-compare-essay"]
    assert given["final-tune-advice"] == 4 * 1.5
    assert given["final-debug-why"] == 3


def test_the_grid_is_learned(world, capsys) -> None:
    world["learn_the_grid"](world["ppo_update"])
    returns = [float(x) for x in re.findall(r"return (\S+)", capsys.readouterr().out)]
    assert returns[-1] > 0.3 > -0.5 > returns[0]


def test_what_the_model_answer_says_of_the_four_settings(world) -> None:
    table = world["four_settings"]()
    kl, early = table.loc["kl_max"], table.loc["kl_early"]
    assert kl["A"] > 1.5
    assert table.loc["kl_last", "A"] == pytest.approx(0.5, abs=0.05)
    assert table.loc["entropy_last", "A"] < 0.35 * table.loc["entropy_early", "A"]
    assert kl["B"] < 2e-4
    assert table.loc["clip_last", "B"] == 0
    assert early["C"] == pytest.approx(0.01, abs=0.004)
    assert kl["C"] < 0.1
    assert table.loc["ev_early", "C"] == pytest.approx(1 / 3, abs=0.03)
    assert kl["D"] > 1
    assert table.loc["clip_early", "D"] == pytest.approx(0.2, abs=0.03)
    runs = results("practice_epochs_lr").query("epochs == 30 and lr == 0.001")
    assert runs["final"].mean() == pytest.approx(491, abs=1)


def test_the_bugs_make_values_that_cannot_be_and_the_mended_targets_do_not(world) -> None:
    ill, well = (world["walk"](world[f"{name}_targets"]) for name in ("suspicious", "mended"))
    assert ill["least value"].iloc[-1] < -0.9
    assert well["least value"].min() >= 0
    assert well["largest value"].max() <= 1
    assert well["least value"].is_monotonic_increasing


def test_what_the_model_answer_says_of_the_sums(world, capsys) -> None:
    world["the_sums"](world["lead"])
    rows = [tuple(map(float, x)) for x in re.findall(r"(\+\d\.\d+) ± (\d\.\d+)", capsys.readouterr().out)]
    means, halves = np.array(rows).T
    assert (means > halves).all()
    assert 0.085 < means[:6].min() < means[:6].max() < 0.175
    assert 0.045 <= means[6:].min() < means[6:].max() < 0.145
