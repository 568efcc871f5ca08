"""Tests for the checks of every chapter; a chapter's test is a subclass of `CheckTests` with its tables.

    RIGHT["pg-loss"] = [one_way, another_way]
    WRONG["pg-loss"] = {"a reward, not a loss": lambda …, "padding is pushed too": [lambda …, lambda …]}

A check must accept the master's solution and at least two that are written differently, and call each planted
mistake by its name. Wrong answers that no mistake has a name for stand under `UNNAMED["pg-loss"]`: each must
be refused by a property. Every mistake in the data beside a check's module must have been planted.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch

from ppobook.course import masters
from ppobook.teaching import check, checks

ROOT = Path(__file__).parents[2]

Answer = Callable[..., Any]
Right = dict[str, list[Answer]]
Wrong = dict[str, dict[str, Answer | list[Answer]]]
Unnamed = dict[str, list[Answer]]


class Exercises:
    """The exercises of a chapter: their master, and what its solutions define."""

    def __init__(self, master: str, number: int | str | None = None) -> None:
        """`number` is that of the chapter which hints name; "" for a page whose hints send to several."""
        self.master = ROOT / "exercises" / "masters" / f"{master}.md"
        self.number = int(master[:2]) if number is None else number
        self.solutions = {name: s for name, s in masters.solutions(self.master).items() if s.kind == "code"}

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        return masters.read(self.master)["cells"]

    def namespace(self) -> dict[str, Any]:
        """Return the names that solutions may use: the master's imports and functions, nothing run."""
        space: dict[str, Any] = {}
        for cell in self.cells:
            if cell["cell_type"] == "code" and masters.part(cell) is None:
                tree = ast.parse(cell["source"])
                tree.body = [
                    n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom | ast.FunctionDef)
                ]
                exec(compile(tree, "a cell", "exec"), space)
        return space

    def world(self, *skipped: str, assigned: bool = False, **constants: Any) -> dict[str, Any]:
        """Everything that the master defines, its solutions too; nothing is run.

        `assigned`: what its cells assign too, but for statements with a word of `skipped` in them.
        """
        space = self.namespace()
        space.update(constants)
        for cell in self.cells if assigned else ():
            if cell["cell_type"] == "code" and masters.part(cell) is None:
                tree = ast.parse(cell["source"])
                tree.body = [n for n in tree.body if isinstance(n, ast.Assign)]
                tree.body = [n for n in tree.body if not any(word in ast.unparse(n) for word in skipped)]
                exec(compile(tree, "a cell", "exec"), space)
        for solution in self.solutions.values():
            exec(solution.source, space)
        return space

    def defined(self, name: str, space: dict[str, Any]) -> Answer:
        """The function that the solution of an exercise defines."""
        return space[re.findall(r"^def (\w+)", self.solutions[name].source, re.MULTILINE)[-1]]

    def reference(self, name: str) -> Answer:
        """The master's solution."""
        return self.defined(name, self.world())

    def blank(self, name: str, edit: Callable[[str], str] = str) -> Answer:
        """Return what a reader finds in place of the solution."""
        source = next(c["source"] for c in self.cells if f"solution:{name}" in masters.tags(c))
        space = self.namespace()
        exec(edit(masters.blank(source, name)), space)
        return self.defined(name, space)

    def assert_not_given_away(self, message: str, name: str) -> None:
        """No line of the solution, and nothing that a reader could paste, stands in a message."""
        body = self.solutions[name].source.split("\n", 1)[1]
        flat = re.sub(r"\s+", "", message)
        for line in body.splitlines():
            code = re.sub(r"\s+", "", line).removeprefix("return")
            if len(code) > 10 and '"""' not in line:
                assert code not in flat, line


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[float]]:
    """The numbers of each line that was printed."""
    lines = capsys.readouterr().out.splitlines()
    return [[float(x) for x in re.findall(r"-?\d+(?:\.\d+)?", line)] for line in lines]


def in_double(answer: Answer) -> Answer:
    """The answer, which works in float64."""

    def found(*given: Any) -> Any:
        return answer(
            *(x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in given)
        )

    return found


def each(answers: Answer | list[Answer]) -> list[Answer]:
    return answers if isinstance(answers, list) else [answers]


def _named(file: Path) -> tuple[set[str], set[str]]:
    """The mistakes that a module's code names in calls of `Mistake` and `recognise`; and all its strings."""
    found: list[ast.expr | None] = []
    mentioned = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            if node.func.id == "Mistake":
                name = node.args[0]
                found += [name.body, name.orelse] if isinstance(name, ast.IfExp) else [name]
            elif node.func.id == "recognise" and len(node.args) > 1:
                found += getattr(node.args[1], "keys", [])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            mentioned.add(node.value)
    called = {part.value for part in found if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return called, mentioned


class CheckTests:
    """The tests of a chapter's checks; a subclass gives its tables."""

    module: ClassVar[ModuleType]
    exercises: ClassVar[Exercises]
    right: ClassVar[Right]
    wrong: ClassVar[Wrong]
    unnamed: ClassVar[Unnamed] = {}
    # The chapters that hints send to, by their names.
    chapters: ClassVar[dict[str, checks.Chapter]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        fixtures = metafunc.fixturenames
        if "mistake" in fixtures:
            metafunc.parametrize(
                ("name", "mistake", "answer"),
                [
                    pytest.param(name, mistake, answer, id=f"{name}-{mistake}-{i}")
                    for name, table in self.wrong.items()
                    for mistake, answers in table.items()
                    for i, answer in enumerate(each(answers))
                ],
            )
        elif "unnamed_answer" in fixtures:
            found = [(name, a) for name, answers in self.unnamed.items() for a in answers]
            ids = [f"{name}-{i}" for name, answers in self.unnamed.items() for i in range(len(answers))]
            metafunc.parametrize(("name", "unnamed_answer"), found, ids=ids)
        elif "answer" in fixtures:
            rows = [
                (f"{name}-{i}", name, a) for name, found in self.right.items() for i, a in enumerate(found)
            ]
            metafunc.parametrize(("name", "answer"), [pytest.param(*row, id=label) for label, *row in rows])
        elif "name" in fixtures:
            metafunc.parametrize("name", sorted(self.exercises.solutions))

    # --- the tables

    def test_every_check_has_an_exercise_and_every_exercise_a_check(self) -> None:
        ours = self.module.__name__
        here = {name for name, module in checks.names().items() if f"{module}.".startswith(f"{ours}.")}
        assert here == set(self.exercises.solutions) == set(self.right) == set(self.wrong)

    def files(self) -> list[Path]:
        """The module's file, or all those of its package."""
        file = Path(self.module.__file__ or "")
        return sorted(file.parent.glob("*.py")) if file.name == "__init__.py" else [file]

    def test_every_mistake_that_a_check_can_name_was_planted(self) -> None:
        planted = {mistake for table in self.wrong.values() for mistake in table}
        common = set(checks.messages(checks.COMMON)["common"])
        for file in self.files():
            messages = checks.messages(file.with_suffix(".toml"))
            called, mentioned = _named(file)
            assert called <= planted
            for name, rows in messages.items():
                assert set(rows) <= mentioned, "in the data, and no check says it"
                assert set(rows) <= (planted if name == "shared" else set(self.wrong[name])), name
            assert called <= common.union(*messages.values()), "no message in the data"

    # --- answers

    def test_the_masters_solution_is_right_and_the_check_is_fast(self, name: str) -> None:
        reference = self.exercises.reference(name)
        first = checks.run(name, reference)
        began = time.process_time()
        verdict = checks.run(name, reference)
        assert verdict.right, verdict.message
        assert time.process_time() - began < 3.0  # a third of it on a quiet machine
        assert verdict == first

    def test_a_right_answer_is_right_however_it_is_written(self, name: str, answer: Answer) -> None:
        verdict = checks.run(name, answer)
        assert verdict.right, verdict.message

    def test_a_planted_mistake_is_called_by_its_name(self, name: str, mistake: str, answer: Answer) -> None:
        verdict = checks.run(name, answer)
        assert (verdict.kind, verdict.name) == ("mistake", mistake), verdict.message
        assert "Seen:" in verdict.message
        assert "Think:" in verdict.message
        assert f"Read: chapter {self.exercises.number}" in verdict.message
        # A sentence whose end was lost, or a number with digits that nobody wants to read.
        assert not re.search(r"[ ,]\.(\s|$)|\de-[1-9]\d", verdict.message), verdict.message
        self.exercises.assert_not_given_away(verdict.message, name)

    def test_a_mistake_without_a_name_is_refused_by_a_property(
        self, name: str, unnamed_answer: Answer
    ) -> None:
        verdict = checks.run(name, unnamed_answer)
        assert verdict.kind == "property", verdict.message
        assert verdict.message.splitlines()[0].endswith(verdict.name), verdict.message
        assert re.search(r"Seen:| — ", verdict.message), verdict.message
        self.exercises.assert_not_given_away(verdict.message, name)

    def test_no_function_of_the_checks_is_an_answer(self, name: str) -> None:
        """A slow definition that a reader could import as the answer would be one."""
        module = importlib.import_module(checks.names()[name])
        for found in list(vars(module).values()):
            if inspect.isfunction(found) and found.__module__.startswith(checks.__name__):
                assert not checks.run(name, found).right, found

    # --- what is no answer

    def test_the_blank_is_not_yet_and_not_wrong(self, name: str) -> None:
        with pytest.raises(checks.NotYet, match=f"Not yet: {name}"):
            check(name, self.exercises.blank(name))

    @pytest.mark.parametrize("value", [None, "seven", torch.zeros(7, 7, 7), float("nan"), {}], ids=str)
    def test_something_else_altogether_is_refused_in_words(self, name: str, value: Any) -> None:
        verdict = checks.run(name, lambda *args, **kwargs: value)
        assert not verdict.right
        # A clinic may be handed in before any of its cases has a name.
        nothing_yet = isinstance(value, dict) and "no case has a name" in verdict.message
        assert verdict.kind == ("not yet" if nothing_yet else "returned"), verdict.message
        assert "Traceback" not in verdict.message
        self.exercises.assert_not_given_away(verdict.message, name)

    # --- the page and the master

    def test_the_section_a_hint_sends_to_exists(self) -> None:
        source = "".join(
            path.read_text(encoding="utf-8")
            for file in self.files()
            for path in (file, file.with_suffix(".toml"))
            if path.exists()
        )
        known = [label for chapter in self.chapters.values() for label in chapter.sections]
        assert set(re.findall(r"[\"'](sec-[a-z-]+)[\"']", source)) == set(known)
        for name, chapter in self.chapters.items():
            text = (ROOT / "chapters" / f"{name}.md").read_text(encoding="utf-8")
            headings = dict(re.findall(r"^\((sec-[a-z-]+)\)=\n#+ (.+)$", text, re.MULTILINE))
            no = "no such label in the chapter"
            assert dict(chapter.sections) == {label: headings.get(label, no) for label in chapter.sections}
            assert f"# {chapter.title}\n" in text
