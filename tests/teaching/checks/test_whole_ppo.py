"""The checks of chapter 5's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the tables that they print.
"""

from __future__ import annotations

from typing import Any

import pytest
from answers import tables
from answers.whole_ppo import batches, losses, normal, updates
from checks import CheckTests, Exercises

from ppobook.teaching.checks import whole_ppo

EXERCISES = Exercises("05_the_whole_of_ppo")
RIGHT, WRONG, UNNAMED = tables(losses, batches, normal, updates)


class TestChecks(CheckTests):
    module = whole_ppo
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 8, "Hunt": 3, "Reflect": 2}  # noqa: RUF012


# --- what the texts say of the tables that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    return EXERCISES.world(assigned=True)


@pytest.mark.slow
def test_the_hunts_show_the_metrics_that_their_bugs_produce(world: dict[str, Any]) -> None:
    settle = world["settle"]
    plain, punished = (settle(world["suspicious_loss"], coef) for coef in (0.0, 0.1))
    cured = settle(world["loss_with_bonus"], 0.1)
    assert punished.entropy[20] < plain.entropy[20] < cured.entropy[20]
    lost = "best arm below 1%"
    assert punished[lost].iloc[-1] > plain[lost].iloc[-1] > cured[lost].iloc[-1]
    assert cured.earned.iloc[-1] > punished.earned.iloc[-1] + 0.05

    suspicious = world["judge"](world["suspicious_snapshot"]).str.rstrip("%").astype(int)
    assert suspicious.iloc[0] >= 97
    assert suspicious.iloc[1:3].max() < 65
    assert world["judge"](world["snapshot"]).str.rstrip("%").astype(int).min() >= 95

    learn = world["learn"]
    sick, well = learn(world["suspicious_update"]), learn(world["update"])
    moved = learn(WRONG["hunt-epochs"]["old_logp is another pull's"][0])
    assert sick.KL.iloc[0] > 2 * well.KL.iloc[0]
    assert moved.earned.iloc[-1] < sick.earned.iloc[-1] - 0.2 < well.earned.iloc[-1] - 0.25
