"""The checks of chapter 7's exercises, on answers as readers might write them, and the messages."""

from __future__ import annotations

import re

import pytest
from answers import tables
from answers.rlhf import clinic as cured
from answers.rlhf import preferences, reading, tokens, updates
from checks import CheckTests, Exercises

from ppobook.course import masters
from ppobook.experiments import results
from ppobook.teaching import checks
from ppobook.teaching.checks import rlhf
from ppobook.teaching.checks.rlhf import clinic

EXERCISES = Exercises("07_rlhf")
RIGHT, WRONG, UNNAMED = tables(reading, preferences, tokens, updates, cured)


class TestChecks(CheckTests):
    module = rlhf
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 5, "Hunt": 2, "Reflect": 2}  # noqa: RUF012


def test_the_page_says_how_many_exercises_there_are() -> None:
    assert EXERCISES.cells[0]["source"].find("Twelve exercises for") > 0
    assert len(masters.exercises(masters.read(EXERCISES.master))) == 12


def test_a_table_that_is_not_filled_says_where() -> None:
    stub = 'raise NotImplementedError("not yet: token-table")'
    answer = "return logits_at, mask, reward_at, ended"
    verdict = checks.run("token-table", EXERCISES.blank("token-table", lambda s: s.replace(stub, answer)))
    assert (verdict.kind, verdict.name) == ("returned", "an entry is still empty")
    assert "“logits_at”" in verdict.message


# --- the clinic


def test_the_page_has_the_list_of_names() -> None:
    page = EXERCISES.master.read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", page, re.MULTILINE)) == clinic.FAULTS
    assert set(clinic.EXPECTED) == set(clinic.FAULTS)


def test_every_number_of_the_check_can_be_worked_out_from_the_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    space = EXERCISES.namespace()
    cell = next(c["source"] for c in EXERCISES.cells if "def sheet(case)" in c["source"])
    exec(cell, space)
    for case, read in clinic.sheets().items():
        shown = space["sheet"](case)
        assert shown.equals(read[list(shown.columns)])
    reward = space["sheet"]("E")["reward"]
    assert clinic.gauges()["E"]["fall"] == pytest.approx(reward.max() - reward.iloc[-1], abs=1e-4)
    assert "last row is 1.48; in the healthy runs it is" in " ".join(
        checks.run("token-clinic", cured.but(E="no-price")).message.split()
    )


@pytest.mark.parametrize("case", clinic.CASES)
def test_every_other_name_is_contradicted_by_a_number_and_the_right_one_is_not(case: str) -> None:
    gauges = clinic.gauges()
    for name, limits in clinic.EXPECTED.items():
        assert any(limit.broken(gauges[case]) for limit in limits) == (name != cured.CURED[case]), name


def test_no_name_fits_a_healthy_run() -> None:
    healthy = clinic.gauges()["healthy"]
    for name, limits in clinic.EXPECTED.items():
        assert any(limit.broken(healthy) for limit in limits), name


@pytest.mark.parametrize("name", clinic.FAULTS)
@pytest.mark.parametrize("case", clinic.CASES)
def test_each_case_and_name(case: str, name: str) -> None:
    verdict = checks.run("token-clinic", cured.but(**{case: name}))
    assert verdict.right == (cured.CURED[case] == name)
    if not verdict.right:
        assert verdict.name == clinic.FAULTS[name]
        assert f"{case}✗" in verdict.message
        assert f"In case {case}" in verdict.message
        assert verdict.message.startswith(f"✗ Not right: case {case} is not “{clinic.FAULTS[name]}”\n")


@pytest.mark.parametrize("part", cured.SO_FAR)
def test_a_part_of_the_cases_may_be_left_out_and_is_not_called_wrong(part: str) -> None:
    verdict = checks.run("token-clinic", cured.SO_FAR[part])
    assert (verdict.kind, verdict.name) == ("so far", part)
    assert verdict.message.startswith(f"✓ Right so far: {part}\n  A✓")
    assert "Not right" not in verdict.message
    assert f"✓ A: {clinic.FAULTS[cured.CURED['A']]}" in verdict.message
    with pytest.raises(checks.NotYet, match="Right so far"):
        checks.check("token-clinic", cured.SO_FAR[part])


def test_no_case_yet_is_no_mistake() -> None:
    verdict = checks.run("token-clinic", dict)
    assert (verdict.kind, verdict.name) == ("not yet", "no case has a name")


@pytest.mark.parametrize("given", [{"K": "lr-high"}, {"A": "measles"}, {"A": None}, {1: 2}, {"AB": "shift"}])
def test_what_is_not_on_the_list_is_refused_in_words(given: object) -> None:
    assert checks.run("token-clinic", lambda: given).kind == "returned"


# --- what the texts say of the numbers that they print


def test_what_the_answer_says_of_the_eight_cases() -> None:
    runs = results("language_clinic").groupby(["case", "update"]).median(numeric_only=True)
    first, last = runs.xs(1, level="update"), runs.xs(30, level="update")
    gap, extra = runs["entropy"] - runs["surprise"], runs["cells"] - runs["length"]
    assert first.loc["A", "ended"] == 0
    assert first.loc["A", "length"] == 24
    assert last.loc["A", "reward"] > last.loc["healthy", "reward"] + 1
    assert extra["B"].tolist() == pytest.approx([3] * 30, abs=0.02)
    assert extra["F"].tolist() == pytest.approx((-runs.loc["F", "ended"]).tolist(), abs=0.04)
    assert first.loc["C", ["off", "kl_reference"]].tolist() == pytest.approx([0.14, 0.53], abs=0.01)
    assert [gap["C", 1], gap["H", 1]] == pytest.approx([0.24, 0.16], abs=0.005)
    assert first.loc["D", "off"] == pytest.approx(0.93, abs=0.01)
    assert runs.loc[("E", 10), "kl_reference"] == pytest.approx(24, abs=0.5)
    assert runs.loc["E", "reward"].max() > last.loc["E", "reward"] + 1
    rows = runs.loc["G", "reward"].loc[[2, 3, 5, 10, 15, 20, 25, 30]]
    assert rows.is_monotonic_increasing
    shown = [1, 2, 3, 5, 10, 15, 20, 25, 30]
    assert (runs.loc["H", "reward"].loc[shown] > runs.loc["healthy", "reward"].loc[shown]).all()
    assert (last["reward"] > first["reward"])[list(clinic.CASES)].sum() == 7
    for case in "EG":
        assert gap[case].abs().mean() < 0.05
        assert extra[case].abs().max() < 0.02
        assert runs.loc[case, "off"].max() < 1e-3


@pytest.mark.parametrize("mended", [False, True])
def test_the_batch_with_two_bugs_shows_both(mended: bool, capsys: pytest.CaptureFixture[str]) -> None:
    space = EXERCISES.world(END=1)
    space["ratios_of"](space["collate" if mended else "suspicious_collate"])
    drawn, masked, ended, _, *columns = map(int, re.findall(r"\d+", capsys.readouterr().out))
    assert drawn - masked == (0 if mended else ended)
    shares = [columns[k] for k in (1, 4, 7)]
    assert (shares[0] > 50) != mended
    assert shares[1:] == [0, 0]
