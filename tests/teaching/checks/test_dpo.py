"""The checks of chapter 9's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the numbers that they print.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from answers import tables
from answers.dpo import exact, pairs, texts
from checks import CheckTests, Exercises, in_double, printed

from ppobook.teaching import checks
from ppobook.teaching.checks import dpo

EXERCISES = Exercises("09_dpo")
RIGHT, WRONG, UNNAMED = tables(pairs, exact, texts)


class TestChecks(CheckTests):
    module = dpo
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 4, "Build": 4, "Hunt": 1, "Reflect": 1}  # noqa: RUF012


@pytest.mark.parametrize("name", sorted({*RIGHT} - {"pair-by-hand"}))
def test_float64_is_as_good(name: str) -> None:
    assert checks.run(name, in_double(EXERCISES.reference(name))).right


def test_plain_lists_are_as_good() -> None:
    answer = EXERCISES.reference("best-policy")
    assert checks.run("best-policy", lambda *given: [x.tolist() for x in answer(*given)]).right


# --- what the texts say of the numbers that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    return EXERCISES.world(END=0, KIND=1, PLAIN=2, RUDE=3, ASK=4, LIMIT=8)


def test_three_gauges_show_three_bugs(world, capsys) -> None:
    world["gauges"](world["suspicious_loss"])
    first, counted, *pushes = printed(capsys)
    assert first[-1] == pytest.approx(0.5 * math.log(2), abs=1e-3)
    assert counted[0] - counted[1] == 2000  # a token of each text
    assert pushes[0][1] > 1.8 * pushes[1][1] > 3 * pushes[2][1]
    world["gauges"](world["pair_loss"])
    first, counted, *pushes = printed(capsys)
    assert first[-1] == pytest.approx(math.log(2), abs=1e-3)
    assert counted[0] == counted[1]
    assert np.ptp([push[1] for push in pushes]) < 1e-6


def test_with_the_bugs_the_loss_falls_and_gold_rises(world, capsys) -> None:
    world["learn"](world["suspicious_loss"])
    rows = printed(capsys)  # step, loss, gold, KL, cut off
    assert [row[1] for row in rows] == sorted((row[1] for row in rows), reverse=True)
    assert rows[-1][2] > rows[0][2] + 1
    world["learn"](world["pair_loss"])
    mended = printed(capsys)
    assert mended[-1][4] < 0.05 < 0.1 < rows[-1][4]
    assert mended[-1][2] < rows[-1][2]
    worth = [end[2] - 0.5 * end[3] for end in (mended[-1], rows[-1])]
    assert worth == pytest.approx([0.3, 0.0], abs=0.15)
