"""The checks of chapter 7's exercises, on answers as readers might write them, and the messages."""

from __future__ import annotations

import re

import pytest
from answers import tables
from answers.rlhf import clinic, preferences, reading, tokens, updates
from checks import CheckTests, Exercises

from ppobook.teaching.checks import rlhf

EXERCISES = Exercises("07_rlhf")
RIGHT, WRONG, UNNAMED = tables(reading, preferences, tokens, updates, clinic)


class TestChecks(CheckTests):
    module = rlhf
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 5, "Hunt": 2, "Reflect": 2}  # noqa: RUF012


# --- what the texts say of the numbers that they print


@pytest.mark.parametrize("mended", [False, True])
def test_the_batch_with_two_bugs_shows_both(mended: bool, capsys: pytest.CaptureFixture[str]) -> None:
    space = EXERCISES.world(END=1)
    space["ratios_of"](space["collate" if mended else "suspicious_collate"])
    drawn, masked, ended, _, *columns = map(int, re.findall(r"\d+", capsys.readouterr().out))
    assert drawn - masked == (0 if mended else ended)
    shares = [columns[k] for k in (1, 4, 7)]
    assert (shares[0] > 50) != mended
    assert shares[1:] == [0, 0]
