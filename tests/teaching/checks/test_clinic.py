"""The check of chapter 6's clinic, on answers as readers might give them."""

from __future__ import annotations

from answers import clinic as answers
from checks import CheckTests, Exercises

from ppobook.teaching.checks import clinic


class TestChecks(CheckTests):
    module = clinic
    exercises = Exercises("06_clinic")
    right, wrong, unnamed = answers.RIGHT, answers.WRONG, answers.UNNAMED
    chapters = {"06_ppo_in_practice": clinic.CHAPTER}  # noqa: RUF012
    test_a_mistake_without_a_name_is_refused_by_a_property = None  # every wrong diagnosis has a name
