"""The symptoms that a Hunt with another bug states, compared with its own cells' output."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest
import torch

from ppobook.course import masters, sets
from ppobook.course.variants import Variant, declared

mpl.use("Agg")


@dataclass
class Shown:
    """Return the output of a Hunt's cells, before its solution and after it."""

    text: str = ""
    tables: list[pd.DataFrame] = field(default_factory=list)
    space: dict[str, Any] = field(default_factory=dict)

    def numbers(self, pattern: str) -> list[float]:
        """The numbers that a pattern finds in what was printed, in order."""
        return [float(x.replace("−", "-")) for x in re.findall(pattern, self.text)]

    def rows(self) -> list[list[float]]:
        """The numbers of each printed line that begins with one."""
        lines = [re.sub(r"\|", " ", line).split() for line in self.text.splitlines()]
        return [[float(x) for x in line] for line in lines if line and line[0].isdigit()]


def replay(name: str, part: str, form: Variant) -> tuple[Shown, Shown]:
    """Run a Hunt's cells with this bug planted: what they show with the bug, and with the solution."""
    found = sets.open_set(name)
    exercise = next(one for one in found.exercises if part in {p.name for p in one.parts})
    cells = [found.notebook["cells"][i] for i in sets.choose(found, [exercise])]
    notebook = form.apply(masters.reader({**found.notebook, "cells": cells}))
    space: dict[str, Any] = {}
    shown, mended = Shown(space=space), Shown(space=space)
    now = shown
    for cell in notebook["cells"]:
        p = masters.part(cell)
        if cell["cell_type"] != "code":
            continue
        source = cell["source"]
        if "def suspicious_targets" in source:
            space["source of the bug"] = source
        if p is not None and p.role == "solution":
            source, now = masters.solutions(found.notebook)[p.name].source, mended
        _run(source, now)
    return shown, mended


def _run(source: str, shown: Shown) -> None:
    """Run a cell, less its check, and keep what it prints and displays."""
    body = [node for node in ast.parse(source).body if not ast.unparse(node).startswith("check(")]
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(ast.Module(body, []), "cell", "exec"), shown.space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), shown.space)
            if isinstance(value, pd.DataFrame | pd.Series):
                shown.tables.append(pd.DataFrame(value))
    shown.text += said.getvalue()


Claim = Callable[[Shown, Shown], None]
CLAIMS: dict[tuple[str, str], Claim] = {}


def claim(part: str, bug: str) -> Callable[[Claim], Claim]:
    def keep(function: Claim) -> Claim:
        CLAIMS[part, bug] = function
        return function

    return keep


# --- chapter 1 ----------------------------------------------------------------------------------------------


@claim("hunt-broadcast", "the sign")
def _(shown: Shown, mended: Shown) -> None:
    reward, norm = shown.numbers(r"mean reward +(\S+)"), shown.numbers(r"gradient norm +(\S+)")
    assert reward[0] == pytest.approx(1 / 3, abs=0.05)
    assert max(map(abs, reward[1:])) < 0.05
    assert min(norm) > 0.01


@claim("hunt-broadcast", "two means")
def _(shown: Shown, mended: Shown) -> None:
    # As the book's bug: the gradient vanishes, from the first update on, and each arm stays as likely.
    assert max(shown.numbers(r"gradient norm +(\S+)")) == 0
    assert all(abs(reward - 1 / 3) < 0.05 for reward in shown.numbers(r"mean reward +(\S+)"))


@claim("hunt-perfect-baseline", "the return of the next step")
def _(shown: Shown, mended: Shown) -> None:
    earned, explained = ([row[i] for row in shown.rows()] for i in (3, 4))
    assert min(explained) > 0.5
    assert 0 < max(earned) - earned[0] < 0.1
    assert earned[-1] == pytest.approx(earned[0], abs=0.02)
    assert mended.rows()[0][2] < explained[0] / 4


@claim("hunt-perfect-baseline", "the mean return of the action")
def _(shown: Shown, mended: Shown) -> None:
    earned, explained = ([row[i] for row in shown.rows()] for i in (3, 4))
    assert explained[0] < 1 / 7
    assert explained[-1] > 1 / 3
    assert (round(earned[0], 2), round(earned[-1], 2)) == (0.50, 0.42)
    assert mended.rows()[0][2] > explained[0]


@claim("hunt-flattering-critic", "a value term without a gradient")
def _(shown: Shown, mended: Shown) -> None:
    returns, values = shown.numbers(r"mean return +(\S+)"), shown.numbers(r"mean value +(\S+)")
    assert returns[0] == pytest.approx(0.3, abs=0.05)
    assert returns[-1] > 0.9
    assert max(values) < 0.5
    assert 0 < values[0] - values[-1] < 0.2


@claim("hunt-flattering-critic", "a target of the other sign")
def _(shown: Shown, mended: Shown) -> None:
    assert shown.numbers(r"mean return +(\S+)")[-1] > 0.9
    assert -1 < shown.numbers(r"mean value +(\S+)")[-1] < -0.9


# --- chapter 2 ----------------------------------------------------------------------------------------------


def _searches(shown: Shown) -> tuple[list[list[float]], list[dict[Any, int]]]:
    """The returns of each seed after 0, 10, 20, 30 and 40 updates, and the tries that were accepted."""
    lines = re.findall(r"J (.*)\n +accepted at try (.*); failed: (\d+)", shown.text)
    tries = [ast.literal_eval(f"{{{counts}, 'failed': {failed}}}") for _, counts, failed in lines]
    return [[float(x) for x in returns.split()] for returns, *_ in lines], tries


@claim("hunt-line-search", "one condition is enough")
def _(shown: Shown, mended: Shown) -> None:
    returns, tries = _searches(shown)
    assert all(one["failed"] == 0 and one[1] >= 38 for one in tries)
    assert sum(row[1] for row in returns) / len(returns) > 0.4
    assert all(row[-1] < row[1] - 0.2 for row in returns)


@claim("hunt-line-search", "the shortest step first")
def _(shown: Shown, mended: Shown) -> None:
    returns, tries = _searches(shown)
    assert all(one["failed"] == 0 and one[1] == 40 for one in tries)
    assert all(row[-1] == pytest.approx(0.1, abs=0.05) for row in returns)
    assert all(row[1] > 0.35 for row in _searches(mended)[0])


@claim("hunt-fisher", "a sum over the batch")
def _(shown: Shown, mended: Shown) -> None:
    assert inspect.signature(shown.space["train_natural"]).parameters["batch"].default == 256
    assert max(shown.numbers(r"KL (\S+)")) == 0
    assert shown.numbers(r"mean reward +(\S+)")[-1] < mended.numbers(r"mean reward +(\S+)")[-1] - 0.2


@claim("hunt-fisher", "the damping is 1")
def _(shown: Shown, mended: Shown) -> None:
    assert all(0.0008 < kl < 0.0028 for kl in shown.numbers(r"KL (\S+)"))
    assert min(shown.numbers(r"cosine with g (\S+)")) > 0.98


# --- chapter 3 ----------------------------------------------------------------------------------------------


@claim("hunt-division", "the penalty is a bonus")
def _(shown: Shown, mended: Shown) -> None:
    table = shown.tables[-1]
    assert table["KL, all actions"].iloc[0] > 1
    assert table["clip_fraction"].iloc[0] > 0.99
    assert table["KL, all actions"].iloc[1:].max() < 0.05
    assert table["earned"].iloc[-1] == pytest.approx(0.56, abs=0.02)
    assert table["worst"].iloc[-1] < 0.01
    assert shown.space["ARMS"] == 4


@claim("hunt-division", "the ratio upside down")
def _(shown: Shown, mended: Shown) -> None:
    table = shown.tables[-1]
    assert (table["loss"] < 0).all()
    assert table["loss"].is_monotonic_decreasing
    assert table["earned"].is_monotonic_decreasing
    assert table["earned"].iloc[-1] == pytest.approx(0.01, abs=0.01)
    assert 0.07 < table["KL, all actions"].iloc[0] < 0.15


def _no_ratio_moves(shown: Shown, mended: Shown) -> None:
    table = shown.tables[-1]
    assert (table["clip_fraction"] == 0).all()
    assert (table["ratio_mean"] == 1).all()


CLAIMS["hunt-stale", "stored in each epoch"] = CLAIMS["hunt-stale", "the same data"] = _no_ratio_moves


# --- chapter 4 ----------------------------------------------------------------------------------------------


def _places(shown: Shown) -> tuple[list[float], list[list[float]]]:
    """The value of place 0 in the rows of the log, and the mean advantages, column by column."""
    columns = [[float(x) for x in line.split()] for line in re.findall(r"column: \[(.*?)\]", shown.text)]
    return shown.numbers(r"table \[ *(\S+)"), columns


@claim("hunt-last-value", "the last value is carried back")
def _(shown: Shown, mended: Shown) -> None:
    assert shown.numbers(r"without an end: \[(\S+)") == [0.78]
    (_, later, latest), columns = _places(shown)
    assert later == pytest.approx(11, abs=1)
    assert latest > 4000
    assert all(row == sorted(row) for row in columns[1:])


@claim("hunt-last-value", "a value that is not discounted")
def _(shown: Shown, mended: Shown) -> None:
    assert shown.numbers(r"without an end: \[(\S+)") == [0.78]
    (_, later, latest), columns = _places(shown)
    assert later == pytest.approx(3.4, abs=0.2)
    assert latest == pytest.approx(15, abs=0.5)
    assert min(map(min, columns)) > 0
    explained = shown.numbers(r"explained variance (\S+),")
    assert explained[0] < explained[1] == pytest.approx(explained[2], abs=0.1)


# --- chapter 5 ----------------------------------------------------------------------------------------------


@claim("hunt-entropy", "a bonus without a gradient")
def _(shown: Shown, mended: Shown) -> None:
    without, with_bonus = (one.to_numpy() for _, one in shown.tables[-1].groupby(level=0))
    with_gradient = mended.tables[-1].to_numpy()
    assert abs(without - with_bonus).max() < 0.05 < abs(without - with_gradient).max()


@claim("hunt-entropy", "a sum over the batch")
def _(shown: Shown, mended: Shown) -> None:
    last = shown.tables[-1].iloc[-1]
    assert round(last["entropy"], 2) == 1.39  # ln 4
    assert last["earned"] == pytest.approx(shown.tables[-1].iloc[0]["earned"], abs=0.01)
    pulls = torch.zeros(400, dtype=torch.long)  # of fifty learners, eight each
    loss = shown.space["suspicious_loss"](torch.zeros(400, 4), pulls, torch.zeros(400), 1.0)
    assert -float(loss) > 200  # nats


def _carts(shown: Shown) -> list[float]:
    return [float(str(one).rstrip("%")) for one in shown.tables[-1].iloc[:, 0]]


@claim("hunt-statistics", "nothing is copied")
def _(shown: Shown, mended: Shown) -> None:
    assert min(_carts(shown)[:3]) > 95
    assert _carts(shown)[3] < 60


@claim("hunt-statistics", "divided by the variance")
def _(shown: Shown, mended: Shown) -> None:
    training, _, near, later = _carts(shown)
    assert near > 95
    assert training == pytest.approx(75, abs=2)
    assert later == pytest.approx(50, abs=2)


@claim("hunt-epochs", "advantages by place")
def _(shown: Shown, mended: Shown) -> None:
    table = shown.tables[-1]
    assert (table["KL"] > 0.01).all()
    assert (table["earned"] < 0.28).all()
    assert table["worst"].iloc[-1] < 0.03


@claim("hunt-epochs", "old log-probabilities by place")
def _(shown: Shown, mended: Shown) -> None:
    table = shown.tables[-1]
    assert (table["KL"] > 0.08).all()
    assert table["outside the range"].mean() == pytest.approx(2 / 3, abs=0.1)
    assert table["earned"].iloc[1:].mean() == pytest.approx(0.35, abs=0.03)
    assert mended.tables[-1]["earned"].iloc[-1] > 0.8


# --- chapter 6 ----------------------------------------------------------------------------------------------


def _report(shown: Shown, mended: Shown) -> None:
    """The row does not hold the mean, and promises too much; it would, were the row the learner's."""
    (held,), (mean,) = shown.numbers(r"(\d+)% of the"), shown.numbers(r"mean (\d+)")
    assert held < 50
    assert mean > 215
    assert mended.numbers(r"(\d+)% of the")[-1] > 85


CLAIMS["hunt-report", "the luckier half of the seeds"] = _report
CLAIMS["hunt-report", "the best checkpoint of each episode"] = _report


def _seeds(shown: Shown, mended: Shown) -> None:
    assert shown.numbers(r"(\d+) different seeds")[0] < 160 == mended.numbers(r"(\d+) different seeds")[-1]


CLAIMS["hunt-seeds", "ten times the seed"] = CLAIMS["hunt-seeds", "exclusive or"] = _seeds


# --- the final assessment -----------------------------------------------------------------------------------


def _left(shown: Shown, *repairs: tuple[str, str]) -> pd.DataFrame:
    """The log with some of the three bugs mended, by edits of the function's own lines."""
    source = shown.space["source of the bug"]
    for old, new in repairs:
        assert old in source
        source = source.replace(old, new)
    space = dict(shown.space)
    exec(source, space)
    return space["walk"](space["suspicious_targets"])


UNIT = (
    "    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)\n"
    "    return advantages, advantages + values",
    "    return (advantages - advantages.mean()) / (advantages.std() + 1e-8), advantages + values",
)
LAST = ("else 0.0\n        goes", "else last_value\n        goes")


@claim("final-debug", "a finished episode has a future")
def _(shown: Shown, mended: Shown) -> None:
    three, two, one = _left(shown), _left(shown, UNIT), _left(shown, UNIT, LAST)
    assert three["least value"].iloc[-1] < 0
    for log in (two, one):
        assert log["largest value"].iloc[-1] > 1.2
        assert log["largest value"].is_monotonic_increasing
    assert two["largest value"].iloc[-1] < one["largest value"].iloc[-1] - 0.3


@claim("final-debug", "the flags are read one step late")
def _(shown: Shown, mended: Shown) -> None:
    three, two, one = _left(shown), _left(shown, UNIT), _left(shown, UNIT, LAST)
    assert three["least value"].min() < -0.2
    for log in (two, one):
        assert log["first place"].iloc[-1] < 0.05
        assert log["largest value"].iloc[-1] > 0.8
    assert abs(two - one)["first place"].max() < 0.05


# --- all of them --------------------------------------------------------------------------------------------


@cache
def planted() -> dict[tuple[str, str], tuple[str, Variant]]:
    """Each bug that a variant plants, with the set that it is in."""
    return {
        (part, one.bug): (name, one)
        for name, path in sets.names().items()
        for part, variants in declared(path).items()
        for one in variants
        if one.bug
    }


def test_each_planted_bug_has_its_symptoms_replayed() -> None:
    assert set(CLAIMS) == set(planted())


@pytest.mark.parametrize(("part", "bug"), CLAIMS, ids=[" ".join(key) for key in CLAIMS])
def test_a_planted_bug_shows_what_is_said_of_it(part: str, bug: str) -> None:
    name, one = planted()[part, bug]
    shown, mended = replay(name, part, one)
    CLAIMS[part, bug](shown, mended)
