"""Refuse packs with secrets: solutions, model answers, hidden lines, paths of a machine, the secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ppobook.course import masters
from ppobook.course.sets import ExerciseSet
from ppobook.course.settings import Course
from ppobook.teaching.tags import Cell, Notebook, part

_MARKERS = re.compile(r"^\s*(# solution|# hidden|<!--\s*solution\s*-->)\s*$", re.M)
_SOLUTION = re.compile(r"^[ \t]*# solution[ \t]*$", re.M)
_HIDDEN = re.compile(r"^[ \t]*# hidden[ \t]*$", re.M)
_PATHS = re.compile(r"(?<![\w.])(/(home|Users|root)/|[A-Z]:\\{1,2}Users\\)")
_PUBLIC = re.compile(r"\]\([^)]*exercises/[^)]*\)")
# Shorter lines stand in given code as well: `return table`.
LINE = 24


class LeakError(ValueError):
    """A file for students holds what they must not see."""


def refuse(text: str, course: Course, book: Path) -> None:
    """Refuse a file with the secret or a path of this machine in it.

    Raises
    ------
    LeakError
    """
    if course.secret in text:
        raise LeakError("a pack must not hold the course's secret, and this one does")
    own = (str(course.folder), str(book), str(Path.home()))
    here = next((path for path in own if len(path) > 1 and path in text), None)
    if here or (matched := _PATHS.search(text)):
        shown = here or matched[0]  # type: ignore[index]
        raise LeakError(f"a pack must not hold a path of a machine, and this one has {shown!r}")


def refuse_solutions(cells: Sequence[Cell], found: ExerciseSet) -> None:
    """Refuse cells of a set in which a solution, a model answer or a hidden line of it can be read.

    Raises
    ------
    LeakError
    """
    for cell in cells:
        if marker := _MARKERS.search(cell["source"]):
            raise LeakError(
                f"a pack must not hold the line {marker[0].strip()!r}, and a cell of this one does"
            )
        if _PUBLIC.search(cell["source"]):
            raise LeakError(
                "a pack must not link to the pages that have the solutions, and a cell of this does"
            )
    # What the set itself gives to its readers is no secret, though a solution may repeat it.
    public = [cell["source"] for cell in masters.reader(found.notebook)["cells"]]
    given = {line for source in public for line in _lines(source)}
    hunts = {
        p.name: range(one.start, one.stop)
        for one in masters.exercises({"cells": list(cells)})
        if one.kind == "Hunt"
        for p in one.parts
    }
    for name, what, text in _private(found.notebook):
        body = _plain(text)
        secret = set(_lines(text)) - given
        whole = len(body) >= LINE and not any(body in _plain(source) for source in public)
        for i, cell in enumerate(cells):
            # With another bug, a Hunt's own cells may hold lines of the book's cure; never all of it.
            lines = what != "the solution" or i not in hunts.get(name, ())
            if (whole and body in _plain(cell["source"])) or (
                lines and not secret.isdisjoint(_lines(cell["source"]))
            ):
                raise LeakError(f"a pack must not hold {what} of {name}, and this one does")


def _private(master: Notebook) -> Iterator[tuple[str, str, str]]:
    """The name of each part with something that a student must not see, what it is, and its text."""
    answers = masters.solutions(master)
    for cell in master["cells"]:
        p = part(cell)
        if p is not None and p.role == "solution":
            yield p.name, "the solution", _SOLUTION.split(cell["source"])[1]
        elif p is not None and p.role == "manual":
            yield p.name, "the model answer", answers[p.name].source
        elif p is not None and len(halves := _HIDDEN.split(cell["source"], maxsplit=1)) == 2:
            yield p.name, "hidden lines", halves[1]


def _lines(text: str) -> Iterator[str]:
    """The lines that are long enough to give something away."""
    return (_plain(line) for line in text.splitlines() if len(line.strip()) >= LINE)


def _plain(text: str) -> str:
    return " ".join(text.split())
