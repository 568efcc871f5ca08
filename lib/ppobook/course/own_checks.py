"""Checks beside an instructor's own exercises: COURSE/exercises/NN_name_checks.py, in the book's form.

Only the grader and `course check` load them. They are never in a pack, and never in the process that runs a
student's notebook: a pack's test cell says that the exercise is checked when it is handed in.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from ppobook.course import masters
from ppobook.course.sets import ExerciseSet
from ppobook.course.sources import check_call
from ppobook.teaching import checks
from ppobook.teaching.checks import others
from ppobook.teaching.checks.findings import Either
from ppobook.teaching.tags import Cell, part


def beside(master: Path) -> Path:
    return master.with_name(f"{master.stem}_checks.py")


def known(found: ExerciseSet) -> AbstractContextManager[Mapping[str, Any]]:
    """The checks of a set's own by name, which `checks.run` knows in the block: see `others.known`."""
    file = beside(found.path)
    return others.known(file) if found.own and file.exists() else nullcontext({})


@contextmanager
def comparing(own: Collection[str], alike: dict[tuple[str, str], None]) -> Iterator[None]:
    """Note in `alike` which mistakes have equal outputs, of the own checks that are run in the block."""
    original = checks.recognise

    def recognise(seen: Any, table: Mapping[str, Any], **options: Any) -> Iterator[checks.Mistake]:
        for name, row in table.items():
            for output in row.outputs if isinstance(row, Either) else (row,):
                if not isinstance(output, bool | np.bool_):  # the check found out by other means
                    found = original(_like(seen, output), table, **options)
                    alike.update({(other.name, name): None for other in found if other.name != name})
        return original(seen, table, **options)

    with ExitStack() as stack:
        spaces = [vars(checks), *(checks._registry[name].function.__globals__ for name in own)]
        for space in {id(space): space for space in spaces}.values():
            if space.get("recognise") is original:
                stack.enter_context(mock.patch.dict(space, recognise=recognise))
        yield


def _like(seen: Any, output: Any) -> Any:
    """A row of a table of mistakes in the form of what a function gave."""
    if isinstance(seen, list):
        return [_like(one, other) for one, other in zip(seen, output, strict=False)]
    return np.asarray(output) if np.ndim(output) else np.full(np.shape(seen), output)


def refuse(found: ExerciseSet) -> None:
    """Raise a ValueError for a set of the course's own with a check that is not there or can't be loaded."""
    with known(found):
        for p in masters.parts(found.notebook):
            if found.own and p.role == "test":
                checks.seconds_of(p.name)


def handed_in_later(cells: list[Cell], own: Collection[str]) -> None:
    """In a pack's test cells of own checks, put a sentence where the call of `check` stands."""
    for cell in cells:
        p = part(cell)
        if p is None or p.role != "test" or p.name not in own:
            continue
        lines = cell["source"].splitlines()
        for node in reversed(ast.parse(cell["source"]).body):
            if check_call(node):
                said = f'print("{p.name}: this exercise is checked when you hand it in.")'
                lines[node.lineno - 1 : node.end_lineno] = [said]
        cell["source"] = "\n".join(lines)
