"""The checks of chapter 10's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the numbers that they print.
"""

from __future__ import annotations

from typing import Any

import pytest
from answers import tables
from answers.online import loops, pairs, stale, symptoms
from checks import CheckTests, Exercises, printed

from ppobook.teaching.checks import online

EXERCISES = Exercises("10_online_loops")
RIGHT, WRONG, UNNAMED = tables(loops, stale, pairs, symptoms)


class TestChecks(CheckTests):
    module = online
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 4, "Hunt": 2, "Reflect": 1}  # noqa: RUF012


# --- what the texts say of the numbers that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    return EXERCISES.world()


def test_the_bugs_make_texts_shorter_and_the_mended_rewards_do_not(world, capsys) -> None:
    world["talk"](world["suspicious_rewards"])
    wrong = printed(capsys)  # update, reward, tokens, KL, score
    world["talk"](world["mended_rewards"])
    right = printed(capsys)
    assert wrong[-1][1] > wrong[0][1] + 0.5
    assert wrong[-1][2] < 1.5 < wrong[0][2]
    assert wrong[-1][4] < wrong[0][4]
    assert right[-1][1] > right[0][1]
    assert right[-1][2] > right[0][2]
    assert right[-1][4] > 7
