"""The checks of chapter 7's exercises, on answers as readers might write them, and the messages."""

from __future__ import annotations

import re

import pytest
from answers import tables
from answers.rlhf import clinic as cured
from answers.rlhf import preferences, reading, tokens, updates
from checks import CheckTests, Exercises

from ppobook.course import masters
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


@pytest.mark.parametrize("given", [{"K": "lr-high"}, {"A": "measles"}, {"A": None}, {1: 2}, {"AB": "shift"}])
def test_what_is_not_on_the_list_is_refused_in_words(given: object) -> None:
    assert checks.run("token-clinic", lambda: given).kind == "returned"
