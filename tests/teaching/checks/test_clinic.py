"""The check of chapter 6's clinic, on answers as readers might give them."""

from __future__ import annotations

from answers import clinic as answers
from checks import ROOT, CheckTests, Exercises

from ppobook.course import masters
from ppobook.teaching.checks import clinic


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
