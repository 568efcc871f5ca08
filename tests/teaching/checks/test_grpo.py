"""The checks of chapter 8's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the numbers that they print.
"""

from __future__ import annotations

from answers import tables
from answers.grpo import groups, kl, losses, rules, updates
from checks import CheckTests, Exercises

from ppobook.teaching.checks import grpo

EXERCISES = Exercises("08_grpo")
RIGHT, WRONG, UNNAMED = tables(groups, losses, kl, rules, updates)


class TestChecks(CheckTests):
    module = grpo
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 3, "Build": 5, "Hunt": 3, "Reflect": 1}  # noqa: RUF012
