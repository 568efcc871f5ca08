"""The checks of chapter 4's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the numbers that they print.
"""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from answers import tables
from answers.gae import averages, by_hand, estimators
from checks import CheckTests, Exercises

from ppobook.course import masters
from ppobook.teaching import checks
from ppobook.teaching.checks import gae

EXERCISES = Exercises("04_generalized_advantage_estimation")
RIGHT, WRONG, UNNAMED = tables(by_hand, averages, estimators)


class TestChecks(CheckTests):
    module = gae
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 4, "Hunt": 3, "Reflect": 2}  # noqa: RUF012


def test_a_table_that_is_not_filled_says_where() -> None:
    stub = 'raise NotImplementedError("not yet: gae-table")'
    answer = "return followed, deltas, advantages"
    verdict = checks.run("gae-table", EXERCISES.blank("gae-table", lambda s: s.replace(stub, answer)))
    assert (verdict.kind, verdict.name) == ("returned", "an entry is still empty")
    assert "“what followed”" in verdict.message


def test_a_table_is_checked_step_by_step() -> None:
    verdict = checks.run("gae-table", UNNAMED["gae-table"][1])
    assert verdict.kind == "property"
    assert "✓ step 0" in verdict.message
    assert "this fails: step 1\n  Seen: look again at delta\n" in verdict.message


def test_the_page_says_how_many_exercises_there_are() -> None:
    assert EXERCISES.cells[0]["source"].find("Thirteen exercises for") > 0
    assert len(masters.exercises(masters.read(EXERCISES.master))) == 13


@pytest.mark.parametrize(
    ("name", "answer", "said", "unsaid"),
    [
        (
            "hunt-two-ends",
            WRONG["hunt-two-ends"]["a terminal state is given a future"][0],
            "step 2 ",
            "step 5",
        ),
        (
            "hunt-starts",
            WRONG["hunt-starts"]["the mask is shifted"][-1],
            "reward of 1 at step 3 gives [0, 0, 0.4, 1, 0, 0, 0]",
            "step 5 gives",
        ),
        (
            "hunt-last-value",
            WRONG["hunt-last-value"]["the mean is subtracted"][-1],
            "1.75], [-0.71",
            "any: [0",
        ),
        ("critic-report", WRONG["critic-report"]["a correlation"][0], "(sec-gae-problem)", "sec-gae-lambda"),
    ],
)
def test_a_message_quotes_what_is_wrong_and_nothing_else(
    name: str, answer: Any, said: str, unsaid: str
) -> None:
    verdict = checks.run(name, answer)
    assert verdict.kind == "mistake"
    message = " ".join(verdict.message.split())
    assert said in message
    assert unsaid not in message


def test_nothing_is_said_of_tensors_where_all_is_numpy() -> None:
    for answer in (lambda n, lam: np.ones(n + 1), lambda n, lam: None):
        verdict = checks.run("lambda-weights", answer)
        assert verdict.kind == "returned"
        assert "tensor" not in verdict.message
    verdict = checks.run("gae-loop", WRONG["gae-loop"]["an argument is overwritten"])
    assert "tensor" not in verdict.message


def test_two_things_are_asked_for_where_one_came() -> None:
    verdict = checks.run("gae-batch", lambda r, *rest: torch.zeros_like(r)[None])
    assert (verdict.kind, verdict.name) == ("returned", "not two tensors")
    verdict = checks.run("critic-report", lambda a, v: a)
    assert (verdict.kind, verdict.name) == ("returned", "not two things")


# --- what the texts say of the numbers that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    """Everything that the master defines, its solutions too, and its constants; nothing is run."""
    space = EXERCISES.namespace()
    for cell in EXERCISES.cells:
        if cell["cell_type"] == "code" and masters.part(cell) is None:
            tree = ast.parse(cell["source"])
            tree.body = [n for n in tree.body if isinstance(n, ast.Assign) and "best" not in ast.unparse(n)]
            exec(compile(tree, "a cell", "exec"), space)
    for solution in EXERCISES.solutions.values():
        exec(solution.source, space)
    return space


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[float]]:
    """The numbers of each line."""
    found = []
    for line in capsys.readouterr().out.splitlines():
        parts = line.replace("[", " ").replace("]", " ").replace(",", " ").replace(":", " ").split()
        found.append([float(p) for p in parts if p.strip("-").replace(".", "").isdigit()])
    return found


def test_the_critic_without_a_last_value_is_far_too_modest(world, capsys) -> None:
    world["learn_values"](world["suspicious_gae"])
    lines = printed(capsys)
    columns, last = lines[-1], lines[-2]  # update, explained variance, six values
    assert 0.4 < last[1] < 0.7
    assert last[2] < 0.13 < 0.75 < world["true_values"](False)[0]
    assert all(a > b for a, b in pairwise(columns))
    world["learn_values"](world["mended_gae"])
    lines = printed(capsys)
    assert max(map(abs, lines[-1])) < 0.05
    assert lines[-2][2] == pytest.approx(world["true_values"](False)[0], abs=0.04)


def test_starts_read_one_step_off_harm_the_first_place(world, capsys) -> None:
    world["by_place"](world["suspicious_starts"])
    wrong = [row[1] for row in printed(capsys)]
    assert wrong[0] == pytest.approx(-0.32, abs=0.02)
    assert wrong[1:] == sorted(wrong[1:])
    assert 0 < wrong[1] < wrong[5] < 0.05
    world["by_place"](world["mended_starts"])
    assert max(abs(row[1]) for row in printed(capsys)) < 0.01


def test_of_two_bugs_one_mended_changes_nothing_and_the_other_not_enough(world, capsys) -> None:
    def means(estimate):
        world["by_kind"](estimate)
        return [row[-1] for row in printed(capsys)]

    both = means(world["suspicious_ends"])
    first = estimators.flawed(delta_mask=lambda over, cut: over | cut)
    second = estimators.flawed(cut_value=lambda cut, f, v: v[..., 1:])
    assert both[0] < -0.6
    assert both[2] < -0.3
    assert means(first) == both
    assert both[0] + 0.2 < means(second)[0] < -0.2
    mended = means(world["mended_ends"])
    assert abs(mended[0]) < 0.03
    assert abs(mended[2]) < 0.01
    assert mended[1] > 0


def test_the_best_lambda_falls_with_a_better_critic_and_rises_with_data(world) -> None:
    best, table = {}, world["compared"]
    for name, t in table.items():
        for m in (10, 1000):
            error = t["bias"] ** 2 + t["std"] ** 2 / m
            best[name, m] = t["λ"][error.idxmin()]
        assert best[name, 10] <= best[name, 1000]
    for m in (10, 1000):
        new, half, good = (best[name, m] for name in table)
        assert new >= half >= good
    assert table["new"]["std"][0] == 0
    assert table["new"]["bias"][0] == pytest.approx(-0.167, abs=1e-3)
    for t in table.values():
        assert t["std"].is_monotonic_increasing
        assert t["bias"].abs().is_monotonic_decreasing
        assert t["bias"].iloc[-1] == pytest.approx(0, abs=1e-9)


def test_the_best_policy_turns_round_where_the_text_says(world) -> None:
    first = {}
    for gamma in (0.5, 0.7, 0.8, 0.99):
        first[gamma] = bool(world["corridor"](gamma).optimal_policy()[3, 1])
    assert first == {0.5: False, 0.7: False, 0.8: True, 0.99: True}
    assert 0.7 < 0.3**0.25 < 0.8
