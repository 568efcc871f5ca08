"""The checks of chapter 6's exercises, on answers as readers might write them, and the messages."""

from __future__ import annotations

from answers import tables
from answers.practice import reports, running
from checks import CheckTests, Exercises

from ppobook.teaching.checks import practice

RIGHT, WRONG, UNNAMED = tables(running, reports)


class TestChecks(CheckTests):
    module = practice
    exercises = Exercises("06_ppo_in_practice")
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 4, "Hunt": 2, "Reflect": 2}  # noqa: RUF012
