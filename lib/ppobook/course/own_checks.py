"""Checks beside an instructor's own exercises: COURSE/exercises/NN_name_checks.py, in the book's form.

Only the grader and `course check` load them. They are never in a pack, and never in the process that runs a
student's notebook: a pack's test cell says that the exercise is checked when it is handed in.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from ppobook.course import masters
from ppobook.course.sets import ExerciseSet
from ppobook.run.spellings import did_you_mean
from ppobook.teaching import checks
from ppobook.teaching.checks import others
from ppobook.teaching.checks.findings import Either
from ppobook.teaching.tags import Cell, part


def beside(master: Path) -> Path:
    """The file of checks that belongs to a master, whether it is there or not."""
    return master.with_name(f"{master.stem}_checks.py")


def known(found: ExerciseSet) -> AbstractContextManager[Mapping[str, Any]]:
    """The checks of a set's own by name, which `checks.run` knows until the block is left.

    Raises
    ------
    ValueError
        The file can't be loaded, or a check of it has the name of one of the book's.
    """
    file = beside(found.path)
    return others.known(file) if found.own and file.exists() else nullcontext({})


@contextmanager
def comparing(own: Collection[str], alike: dict[tuple[str, str], None]) -> Iterator[None]:
    """Note in `alike` which mistakes have equal outputs, of the own checks that are run in the block."""
    original = checks.recognise

    def recognise(seen: Any, table: Mapping[str, Any], **options: Any) -> Iterator[checks.Mistake]:
        for (one, left), (other, right) in itertools.combinations(table.items(), 2):
            pairs = itertools.product(_outputs(left), _outputs(right))
            if any(_equal(*pair, options.get("tolerance", 1e-3)) for pair in pairs):
                alike[one, other] = None
        return original(seen, table, **options)

    with ExitStack() as stack:
        spaces = [vars(checks), *(checks._registry[name].function.__globals__ for name in own)]
        for space in {id(space): space for space in spaces}.values():
            if space.get("recognise") is original:
                stack.enter_context(mock.patch.dict(space, recognise=recognise))
        yield


def _outputs(row: Any) -> tuple[Any, ...]:
    """The outputs that a row of a table of mistakes names; none where the check found out by other means."""
    return row.outputs if isinstance(row, Either) else () if isinstance(row, bool | np.bool_) else (row,)


def _equal(left: Any, right: Any, tolerance: float) -> bool:
    """Return whether two rows are one to `recognise`, by which a number stands for an array full of it."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            _equal(a, b, tolerance) for a, b in zip(left, right, strict=True)
        )
    try:
        wide = np.broadcast_arrays(np.asarray(left, np.float64), np.asarray(right, np.float64))
    except (TypeError, ValueError):
        return False
    shapes = np.shape(left) == np.shape(right) or () in (np.shape(left), np.shape(right))
    return shapes and checks.close(wide[0], wide[1], tolerance)


def refuse(found: ExerciseSet) -> None:
    """Refuse a set of the course's own that could not be graded as it stands.

    Raises
    ------
    ValueError
        The file of checks can't be loaded, or a test names a check that there is not.
    """
    if not found.own:
        return
    file = beside(found.path)
    name_of = f"exercises/{file.name}"
    with known(found) as own:
        there = checks.names()
        for p in masters.parts(found.notebook):
            if p.role == "test" and p.name not in there:
                raise ValueError(
                    f"exercises/{found.path.name}: there must be a check named {p.name!r} in {name_of}, "
                    f"which has {', '.join(own) or 'none'}{did_you_mean(p.name, list(there))}"
                )


def handed_in_later(cells: list[Cell], own: Collection[str]) -> None:
    """In a pack's test cells of own checks, put a sentence where the call of `check` stands."""
    for cell in cells:
        p = part(cell)
        if p is None or p.role != "test" or p.name not in own:
            continue
        lines = cell["source"].splitlines()
        for node in reversed(ast.parse(cell["source"]).body):
            call = node.value if isinstance(node, ast.Expr) else None
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "check":
                said = f'print("{p.name}: this exercise is checked when you hand it in.")'
                lines[node.lineno - 1 : node.end_lineno] = [said]
        cell["source"] = "\n".join(lines)
