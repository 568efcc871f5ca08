"""The checks of chapter 3's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the tables that they print.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
import torch
from answers import tables
from answers.clipped_surrogate import bounds, losses, penalty, three_actions, updates
from answers.clipped_surrogate import tables as by_hand
from answers.clipped_surrogate.tables import DOWN, UP, table
from checks import CheckTests, Exercises

from ppobook.course import masters
from ppobook.teaching import checks
from ppobook.teaching.checks import clipped_surrogate

EXERCISES = Exercises("03_the_clipped_surrogate")
RIGHT, WRONG, UNNAMED = tables(by_hand, losses, penalty, updates, bounds, three_actions)


class TestChecks(CheckTests):
    module = clipped_surrogate
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 3, "Build": 3, "Hunt": 3, "Reflect": 3}  # noqa: RUF012


@pytest.mark.parametrize("name", ["clip-table-up", "clip-table-down"])
def test_a_table_that_is_not_filled_says_where(name: str) -> None:
    stub = f'raise NotImplementedError("not yet: {name}")'
    verdict = checks.run(name, EXERCISES.blank(name, lambda source: source.replace(stub, "return table")))
    assert (verdict.kind, verdict.name) == ("returned", "an entry is still empty")
    assert "row r = 0.5" in verdict.message


def test_a_table_is_checked_row_by_row() -> None:
    def slipped():
        rows = table(UP, 1.0)()
        return rows | {1.5: (1.5, 1.2, 1.2, 1.4, True)}

    verdict = checks.run("clip-table-up", slipped)
    assert verdict.kind == "property"
    assert "✓ r = 1.2" in verdict.message
    assert "this fails: r = 1.5\n  Seen: look again at min\n" in verdict.message
    short = checks.run("clip-table-up", lambda: {r: row for r, row in table(UP, 1.0)().items() if r != 1.1})
    assert "there is none for r = 1.1" in " ".join(short.message.split())


def test_the_page_says_how_many_exercises_there_are() -> None:
    said = {"sixteen": 16, "seventeen": 17, "eighteen": 18}
    first = re.search(r"^(\w+) exercises for", EXERCISES.cells[0]["source"], re.MULTILINE)
    assert first
    assert said[first[1].lower()] == len(masters.exercises(masters.read(EXERCISES.master)))


def test_an_unforeseen_mistake_is_told_the_property_it_breaks() -> None:
    verdict = checks.run("clipped-loss", UNNAMED["clipped-loss"][2])
    assert verdict.kind == "property"
    assert "this fails: a good action counts in full until 1 + ε" in verdict.message
    assert "Read: chapter 3" in verdict.message


def test_an_entry_of_a_table_that_is_right_is_not_called_wrong() -> None:
    rows = table(DOWN, -1.0)()
    minus = {r: (row[0], -row[1], *row[2:]) for r, row in rows.items()}
    verdict = checks.run("clip-table-down", lambda: minus)
    assert "this fails: r = 0.5\n  Seen: look again at clip(r)\n" in verdict.message


@pytest.mark.parametrize("name", ["hunt-stale", "inside-the-box"])
def test_what_the_cell_below_could_not_use_is_refused(name: str) -> None:
    answer = EXERCISES.reference(name)
    both = checks.run(name, lambda *args, **kwargs: (answer(*args, **kwargs), torch.zeros(())))
    assert (both.kind, both.name) == ("returned", "more than the log ratios")
    array = checks.run(name, lambda *args, **kwargs: answer(*args, **kwargs).numpy())
    assert (array.kind, array.name) == ("returned", "an array")


def test_a_climb_without_a_return_is_told_so() -> None:
    verdict = checks.run("three-actions", lambda *_: None)
    assert verdict.name == "nothing came back"


# --- what the texts say of the tables that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    """Everything that the master defines, its solutions too, and its constants; no table is made yet."""
    space = EXERCISES.namespace()
    for cell in EXERCISES.cells:
        if cell["cell_type"] == "code" and masters.part(cell) is None:
            tree = ast.parse(cell["source"])
            tree.body = [n for n in tree.body if isinstance(n, ast.Assign) and "learn(" not in ast.unparse(n)]
            tree.body = [n for n in tree.body if "tune(" not in ast.unparse(n)]
            exec(compile(tree, "a cell", "exec"), space)
    for solution in EXERCISES.solutions.values():
        exec(solution.source, space)
    return space


def parts(cell: str) -> tuple[float, float]:
    middle, half = cell.split(" ± ")
    return float(middle), float(half)


@pytest.mark.slow
def test_the_hunts_show_the_metrics_that_their_bugs_produce(world: dict[str, Any]) -> None:
    learn, steps_of = world["learn"], world["twenty_steps"]
    healthy = learn(lambda *b: steps_of(world["clipped_surrogate_loss"], *b))
    assert healthy.worst.iloc[-1] > 0.6
    assert healthy.earned.iloc[-1] == pytest.approx(0.94, abs=0.03)
    assert healthy.clip_fraction[0] > 0.5

    swapped = learn(lambda *b: steps_of(world["suspicious_loss"], *b))
    assert swapped.earned[0] > healthy.earned[0] + 0.05
    assert swapped["KL, all actions"][0] > 10 * healthy["KL, all actions"][0]
    assert swapped.clip_fraction[0] > 0.95
    assert swapped["largest ratio"].max() > 200
    assert swapped.earned.iloc[-1] == pytest.approx(0.55, abs=0.08)

    divided = learn(lambda *b: world["with_penalty"](world["suspicious_penalized_loss"], *b), updates=21)
    assert divided["KL, all actions"].between(0.003, 0.03).all()
    assert divided.clip_fraction.max() < 0.25
    assert divided.ratio_mean.sub(1).abs().max() < 0.01
    assert (divided.loss < 0).all()
    assert divided.earned.iloc[-1] < 0.12
    assert divided.earned[0] < 0.25

    twice = learn(world["and_its_log"])
    assert twice.earned.iloc[-1] == pytest.approx(0.93, abs=0.03)
    assert twice.ratio_mean.min() > 1.02
    assert twice.ratio_mean[0] == pytest.approx(1.12, abs=0.02)
    assert healthy.ratio_mean.sub(1).abs().max() < 0.02
    for one_bug in ("only the ratio is mended", "only the maximum is mended"):
        loss = WRONG["hunt-two-bugs"][one_bug]
        assert learn(lambda *b, loss=loss: steps_of(loss, *b)).earned.iloc[-1] < 0.03

    stale = learn(world["suspicious_update"])
    assert (stale.clip_fraction == 0).all()
    assert stale.approx_kl.abs().max() < 1e-6
    assert stale["largest ratio"].max() == pytest.approx(1, abs=1e-6)
    assert stale.loss.abs().max() < 1e-6
    assert stale["KL, all actions"][0] > 1
    assert stale.earned.iloc[-1] == pytest.approx(0.65, abs=0.06)


@pytest.mark.slow
def test_what_is_said_of_the_learning_rates(world: dict[str, Any]) -> None:
    swept = world["sweep"](world["clip_report"])
    first, five = swept["clip_fraction, 1st"], swept["clip_fraction, 1-5"]
    assert first[0.003] < 0.01
    assert first[0.03] > 0.5
    assert max(first[0.03], first[0.1], first[0.3]) - min(first[0.03], first[0.1], first[0.3]) < 0.1
    assert five[1.0] < five.max()
    kl = swept["approx_kl, 1st"]
    assert kl.is_monotonic_increasing
    assert (kl < 0.0231).tolist() == [True, True, False, False, False, False]
    wrong_side = 1 - swept["flat, 1st"][0.03:] / first[0.03:]
    assert wrong_side.between(0.25, 0.35).all()
    assert 0.12 < first[0.01] < 0.22  # a sixth
    earned, half = (swept["earned"].map(lambda cell, i=i: parts(cell)[i]) for i in (0, 1))
    same = slice(0.03, 0.3)  # their intervals overlap
    assert (earned + half)[same].min() > (earned - half)[same].max()
    assert earned[1.0] < earned[0.3] - 0.03
    assert swept["worst"][1.0] == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
def test_what_the_rubrics_say(world: dict[str, Any]) -> None:
    four = world["four_objectives"]()
    lost = four["lost"].str.rstrip("%").astype(float)
    worst, early = four["worst"].astype(float), four["earned after 10"].astype(float)
    assert lost["minimum"] == 0
    assert lost[["no clip", "maximum"]].min() >= 45
    assert 0 < lost["clip alone"] <= 6
    assert worst["minimum"] > 2 * worst.drop("minimum").max()
    assert early["clip alone"] > early["minimum"] + 0.07
    means = four["after 31"].map(lambda cell: parts(cell)[0])
    assert abs(means["clip alone"] - means["minimum"]) < 0.03
    assert four["astray"]["clip alone"] > four["astray"]["minimum"]

    shown = world["opinions"]()
    promised, second, gained = (
        shown[column].map(lambda cell: parts(cell)[0]) for column in ("promised", "second batch", "gained")
    )
    assert (promised > 3 * gained).all()
    for way in shown.index:
        assert abs(second[way] - gained[way]) < parts(shown["second batch"][way])[1] * 1.5 + 1e-3
    tenth, harm = shown["worst tenth"].astype(float), shown["harmful"].str.rstrip("%").astype(float)
    assert tenth.idxmin() == gained.idxmax() == "plain, 300 steps"
    assert harm["plain, 1 step"] == pytest.approx(30, abs=4)
    last = ["clip, 300 steps", "natural, KL 0.03", "plain until KL 0.03"]
    assert gained[last].between(0.05, 0.085).all()
    assert tenth[last].idxmax() == harm[last].idxmax() == "clip, 300 steps"
    kl = shown["KL"].astype(float)
    assert 60 < kl["plain, 300 steps"] / kl["clip, 300 steps"] < 130

    tuned = world["tune"]()
    assert tuned["KL of this update"].max() < 0.03
    assert tuned["KL from the start"].iloc[-1] == pytest.approx(4, abs=0.5)
    assert tuned["reward model"].is_monotonic_increasing
    assert tuned["people"].max() == pytest.approx(0.6, abs=0.1)
    assert tuned["people"].iloc[-1] < -1.5
    assert tuned.clip_fraction.iloc[-1] < 0.05
