"""The checks of chapter 5's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the tables that they print.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
from answers import tables
from answers.whole_ppo import batches, losses, normal, updates
from checks import CheckTests, Exercises

from ppobook.course import masters
from ppobook.teaching.checks import whole_ppo

EXERCISES = Exercises("05_the_whole_of_ppo")
RIGHT, WRONG, UNNAMED = tables(losses, batches, normal, updates)


class TestChecks(CheckTests):
    module = whole_ppo
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 8, "Hunt": 3, "Reflect": 2}  # noqa: RUF012


def test_the_page_says_how_many_exercises_there_are() -> None:
    said = {"fifteen": 15, "sixteen": 16, "seventeen": 17}
    first = re.search(r"^(\w+) exercises for", EXERCISES.cells[0]["source"], re.MULTILINE)
    assert first
    assert said[first[1].lower()] == len(masters.exercises(masters.read(EXERCISES.master)))


# --- what the texts say of the tables that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    """Everything that the master defines, its solutions too, and its constants; no table is made yet."""
    space = EXERCISES.namespace()
    for cell in EXERCISES.cells:
        if cell["cell_type"] == "code" and masters.part(cell) is None:
            tree = ast.parse(cell["source"])
            tree.body = [n for n in tree.body if isinstance(n, ast.Assign)]
            exec(compile(tree, "a cell", "exec"), space)
    for solution in EXERCISES.solutions.values():
        exec(solution.source, space)
    return space


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


def test_what_the_texts_say_of_their_smaller_tables(world: dict[str, Any]) -> None:
    ways = world["two_ways"]()
    good, others = ways["the good step"], ways["typical size of the others"]
    assert good["over the batch"] == pytest.approx(15, abs=1)
    assert good["over minibatches of 8"] <= 7**0.5
    assert others["over minibatches of 8"] > 2 * others["over the batch"]
    small, large = (world["in_the_trunk"](scale) for scale in (1, 100))
    assert small["policy"] == large["policy"]
    assert large["critic"] > 50 * small["critic"]
    assert large["policy, after the limit"] < 0.02 * small["policy, after the limit"]
    assert float(world["first_ratios"](1.0)[1]) == pytest.approx(0.27, abs=0.02)
