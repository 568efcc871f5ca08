"""The drill, with a clock and dice of the test's own."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from ppobook.course import masters
from ppobook.teaching import checks, drill, progress
from ppobook.teaching.drill import Drill
from ppobook.teaching.workspace import MEMORY

ROOT = Path(__file__).parents[2]
FORMULAS = drill.formulas()


@pytest.fixture(scope="module")
def solutions():
    """The source of each formula's exercise, solved."""
    wanted, found = {formula.check for formula in FORMULAS}, {}
    for path in sorted((ROOT / "exercises" / "masters").glob("*.md")):
        if any(f"solution:{name}]" in path.read_text(encoding="utf-8") for name in wanted):
            found |= {name: one.source for name, one in masters.solutions(path).items() if name in wanted}
    return found


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A reader's folder, in which the drill keeps its times."""
    (tmp_path / MEMORY).write_text("{}\n")
    monkeypatch.setattr(progress, "place", lambda: tmp_path)
    return tmp_path


class Clock:
    def __init__(self):
        self.time = 1000.0

    def __call__(self):
        return self.time


def begin(seed=0):
    space, clock = {"np": np, "torch": torch, "F": F}, Clock()
    return Drill(space, now=clock, dice=random.Random(seed)), space, clock


def asked(said):
    """The formula that was asked for, by what was printed."""
    return next(formula for formula in FORMULAS if f"of 6: {formula.title}." in said)


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: formula.name)
def test_each_check_passes_the_solution_and_refuses_the_blank(formula, solutions):
    given = drill.blank(formula.check)
    space = {"np": np, "torch": torch, "F": F}
    exec(solutions[formula.check], space)
    assert checks.run(formula.check, space[given.function]).right
    exec(f'{given.head}\n    raise NotImplementedError("not yet: {formula.check}")', space)
    assert checks.run(formula.check, space[given.function]).kind == "not yet"
    exec(f"{given.head}\n    return None", space)
    assert not checks.run(formula.check, space[given.function]).right


def test_a_whole_round(work, solutions, capsys):
    one, space, clock = begin()
    seen = []
    for number in range(1, 7):
        one.next()
        said = capsys.readouterr().out
        assert said.startswith(f"{number} of 6: ")
        formula = asked(said)
        seen.append(formula.name)
        assert drill.blank(formula.check).head.splitlines()[0] in said
        assert "your best" not in said.lower()
        exec(solutions[formula.check], space)
        clock.time += 60 + number
        one.check()
        said = capsys.readouterr().out
        assert "✓ Right" in said
        assert f"{formula.title}: 1:0{number}." in said
        assert ("The round took 6:21" in said) == (number == 6)
    assert sorted(seen) == sorted(formula.name for formula in FORMULAS)
    assert seen != [formula.name for formula in FORMULAS], "the order is drawn"
    assert progress.best(progress.read(work)) == {name: 60 + n for n, name in enumerate(seen, 1)}


def test_the_clock_runs_on_until_the_answer_is_right(work, solutions, capsys):
    one, space, clock = begin()
    one.next()
    formula = asked(capsys.readouterr().out)
    given = drill.blank(formula.check)
    clock.time += 30
    one.check()
    assert f"Not yet: there is no function {given.function}" in capsys.readouterr().out
    exec(f"{given.head}\n    return 1 / 0", space)
    one.check()
    said = capsys.readouterr().out
    assert "ZeroDivisionError" in said
    assert "0:30 so far" in said
    exec(solutions[formula.check], space)
    clock.time += 70
    one.check()
    assert "1:40." in capsys.readouterr().out
    one.check()
    assert "Nothing is asked for" in capsys.readouterr().out
    assert progress.best(progress.read(work)) == {formula.name: 100}


def test_the_best_is_kept_for_the_next_kernel_and_an_old_answer_does_not_count(work, solutions, capsys):
    for seconds, kept, words in ((90, 90, "1:30."), (80, 80, "was 1:30."), (85, 80, "was 1:20.")):
        one, space, clock = begin()
        for source in solutions.values():
            exec(source, space)
        one.next()
        formula = asked(capsys.readouterr().out)
        assert drill.blank(formula.check).function not in space
        exec(solutions[formula.check], space)
        clock.time += seconds
        one.check()
        assert words in capsys.readouterr().out
        assert progress.best(progress.read(work)) == {formula.name: kept}
    assert "1:20" in repr(Drill({}))
    assert repr(Drill({})).count("–") == 5
