"""The check of the clinic, and what it says about each name and case."""

from __future__ import annotations

import re

import pytest
from answers import clinic as answers
from checks import ROOT, CheckTests, Exercises

from ppobook.course import masters
from ppobook.teaching import checks
from ppobook.teaching.checks import clinic
from ppobook.teaching.checks.clinic import diagnoses


class Wards(Exercises):
    """The clinic belongs to chapter 6, and is a page of its own."""

    def __init__(self) -> None:
        super().__init__("06_ppo_in_practice")
        self.master = ROOT / "exercises" / "masters" / "06_clinic.md"
        self.solutions = {n: s for n, s in masters.solutions(self.master).items() if s.kind == "code"}


class TestChecks(CheckTests):
    module = clinic
    exercises = Wards()
    right, wrong, unnamed = answers.RIGHT, answers.WRONG, answers.UNNAMED
    kinds = {"Hunt": 1, "Reflect": 1}  # noqa: RUF012
    test_a_mistake_without_a_name_is_refused_by_a_property = None  # every wrong diagnosis has a name

    def test_each_kind_and_difficulty_is_there_and_the_order_climbs(self) -> None:
        found = masters.exercises(masters.read(self.exercises.master))
        assert [(e.kind, e.difficulty) for e in found] == [("Hunt", 3), ("Reflect", 4)]
        assert sum(e.minutes for e in found) <= 40


def test_the_page_has_the_list_of_names() -> None:
    page = TestChecks.exercises.master.read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(.+)` \| (.+) \|$", page, re.MULTILINE)) == diagnoses.FAULTS
    assert set(diagnoses.EXPECTED) == set(diagnoses.FAULTS)


@pytest.mark.parametrize("case", diagnoses.CASES)
def test_every_other_name_is_contradicted_by_a_number_and_the_right_one_is_not(case: str) -> None:
    gauges = diagnoses.gauges()
    for name, limits in diagnoses.EXPECTED.items():
        broken = any(limit.broken(gauges[case], gauges["healthy"]) for limit in limits)
        assert broken == (name != answers.CURED[case]), name


def test_no_name_fits_a_healthy_run() -> None:
    healthy = diagnoses.gauges()["healthy"]
    for name, limits in diagnoses.EXPECTED.items():
        assert any(limit.broken(healthy, healthy) for limit in limits), name


@pytest.mark.parametrize("name", diagnoses.FAULTS)
@pytest.mark.parametrize("case", diagnoses.CASES)
def test_each_case_and_name(case: str, name: str) -> None:
    verdict = checks.run("clinic", answers.but(**{case: name}))
    assert verdict.right == (answers.CURED[case] == name)
    if not verdict.right:
        assert verdict.name == diagnoses.FAULTS[name]
        assert f"{case}✗" in verdict.message
        assert f"In case {case}" in verdict.message
        assert verdict.message.startswith(f"✗ Not right: case {case} is not “{diagnoses.FAULTS[name]}”\n")


def test_a_part_of_the_cases_is_judged() -> None:
    verdict = checks.run("clinic", lambda: {"A": "lr-high", "C": "broadcast"})
    assert "A✓ B– C✗ D–" in verdict.message
    assert "grad_norm in the first update is 0.114; in the healthy runs it is 16.4" in " ".join(
        verdict.message.split()
    )


@pytest.mark.parametrize("part", answers.SO_FAR)
def test_a_part_of_the_cases_may_be_left_out_and_is_not_called_wrong(part: str) -> None:
    verdict = checks.run("clinic", answers.SO_FAR[part])
    assert (verdict.kind, verdict.name) == ("so far", part)
    assert verdict.message.startswith(f"✓ Right so far: {part}\n  A✓")
    assert "Not right" not in verdict.message
    assert f"✓ A: {diagnoses.FAULTS[answers.CURED['A']]}" in verdict.message
    with pytest.raises(checks.NotYet, match="Right so far"):
        checks.check("clinic", answers.SO_FAR[part])


def test_no_case_yet_is_no_mistake() -> None:
    verdict = checks.run("clinic", dict)
    assert (verdict.kind, verdict.name) == ("not yet", "no case has a name")


@pytest.mark.parametrize("given", [{"K": "lr-high"}, {"A": "measles"}, {"A": None}, {1: 2}, {"AB": "lr-low"}])
def test_what_is_not_on_the_list_is_refused_in_words(given: object) -> None:
    verdict = checks.run("clinic", lambda: given)
    assert verdict.kind == "returned"
