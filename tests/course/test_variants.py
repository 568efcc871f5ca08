"""Variants: each can be solved, says nothing of the book's numbers or bug, and is drawn from the secret."""

import ast
from functools import cache
from pathlib import Path

import pytest
from checks import Exercises

from ppobook.course import masters
from ppobook.course.records import answers_of
from ppobook.course.variants import Variant, declared, draw
from ppobook.teaching import checks
from ppobook.teaching.tags import Cell

MASTERS = sorted((Path(__file__).parents[2] / "exercises" / "masters").glob("*.md"))
ALL = [(path, one) for path in MASTERS for variants in declared(path).values() for one in variants]
NUMBERS = [pytest.param(path, one, id=f"{one.part}-{i}") for i, (path, one) in enumerate(ALL) if not one.bug]
BUGS = [pytest.param(path, one, id=f"{one.part}-{one.bug}") for path, one in ALL if one.bug]


class Set(Exercises):
    def __init__(self, master: Path) -> None:
        self.master, self.notebook = master, masters.read(master)
        self.solutions = {n: s for n, s in masters.solutions(master).items() if s.kind == "code"}
        self.reader = masters.reader(self.notebook)


opened = cache(Set)


def run(exercises: Set, notebook: masters.Notebook, one: Variant, source: str) -> checks.Verdict:
    """The verdict on an answer, by the test cell that a student has."""
    space = exercises.namespace()
    exec(source, space)
    (test,) = (c["source"] for c in notebook["cells"] if f"test:{one.part}:" in "".join(masters.tags(c)))
    for line in test.splitlines():
        if line.startswith(("from", "import")):
            exec(line, space)
    return checks.run(one.part, eval(answers_of(test)[one.part], space))


@pytest.mark.parametrize(("master", "one"), NUMBERS)
def test_with_other_numbers_the_solution_is_right_and_the_public_one_is_wrong(master, one) -> None:
    exercises = opened(master)
    public, notebook = exercises.solutions[one.part].source, one.apply(exercises.reader)
    verdict = run(exercises, notebook, one, one.solution(public))
    assert verdict.right, verdict.message
    assert not run(exercises, notebook, one, public).right
    (blank,) = (c["source"] for c in notebook["cells"] if masters.tags(c) == [f"solution:{one.part}"])
    assert run(exercises, notebook, one, blank).kind == "not yet"
    assert any(one.note in cell["source"] for cell in notebook["cells"])


@pytest.mark.parametrize(("master", "one"), BUGS)
def test_another_bug_that_is_planted_is_a_bug(master: Path, one: Variant) -> None:
    exercises = opened(master)
    applied = one.apply(exercises.reader)
    before = {source for cell in exercises.reader["cells"] for source in functions_in(cell)}
    given = [c for c in applied["cells"] if masters.part(c) is None]
    (source,) = {source for cell in given for source in functions_in(cell)} - before
    space = exercises.world()
    exec(source, space)
    assert not checks.run(one.part, space[ast.parse(source).body[0].name]).right  # type: ignore[attr-defined]
    # The hints of the book's bug are gone, and the solution is the book's.
    exercise = next(e for e in masters.exercises(applied) if one.part in {p.name for p in e.parts})
    assert not any("{dropdown}" in c["source"] for c in applied["cells"][exercise.start : exercise.stop])
    assert one.solution("x") == "x"
    for old, new in one.text:
        assert old in new or not any(old in cell["source"] for cell in applied["cells"]), old


def functions_in(cell: Cell) -> list[str]:
    if cell["cell_type"] != "code":
        return []
    functions = [node for node in ast.parse(cell["source"]).body if isinstance(node, ast.FunctionDef)]
    return [ast.unparse(one) for one in functions]


def test_a_secret_gives_the_same_variant_twice_and_another_gives_another() -> None:
    for master in MASTERS:
        for part, variants in declared(master).items():
            assert draw("one", "week-01", part, variants) == draw("one", "week-01", part, variants)
            assert len({draw(f"secret {i}", "week-01", part, variants) for i in range(40)}) == len(variants)
