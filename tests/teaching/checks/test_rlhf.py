"""The checks of chapter 7's exercises, on answers as readers might write them, and the messages."""

from __future__ import annotations

from answers import tables
from answers.rlhf import preferences, reading, tokens, updates
from checks import CheckTests, Exercises

from ppobook.course import masters
from ppobook.teaching import checks
from ppobook.teaching.checks import rlhf

EXERCISES = Exercises("07_rlhf")
RIGHT, WRONG, UNNAMED = tables(reading, preferences, tokens, updates)


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
