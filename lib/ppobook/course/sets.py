"""Exercise sets: the book's, and those in the `exercises` folder of a course.

A set is a master, `exercises/masters/NN_name.md` in the book, `exercises/NN_name.md` in a course. Its
exercises are called by their labels. Nothing here knows a chapter by its name: a new master is there once its
file is.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ppobook import validation
from ppobook.course import masters
from ppobook.course.sources import names as names_of
from ppobook.teaching.tags import EXERCISE, Cell, Exercise, Notebook, part
from ppobook.teaching.workspace import find_source

_HEADING = re.compile(r"^(?:\([\w-]+\)=\n)?##? ", re.M)


@dataclass(frozen=True)
class ExerciseSet:
    """A set: its name, its text, whether it is the course's own, and its master with ids."""

    name: str
    path: Path
    own: bool
    notebook: Notebook

    @functools.cached_property
    def exercises(self) -> tuple[Exercise, ...]:
        return tuple(masters.exercises(self.notebook))


def chosen(sets: Sequence[ExerciseSet], labels: Sequence[str]) -> list[tuple[Exercise, ...]]:
    """The exercises with these labels, set by set; all of them where there are no labels."""
    known = [one.label for found in sets for one in found.exercises]
    for label in labels:
        validation.choice("exercises", label, known)
    return [tuple(one for one in found.exercises if not labels or one.label in labels) for found in sets]


def names(course: Path | None = None) -> dict[str, Path]:
    """The sets that there are and their texts: the book's, then the course's own."""
    folders = [find_source() / "exercises" / "masters", *([course / "exercises"] if course else [])]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.md"))}


def open_set(name: str, course: Path | None = None) -> ExerciseSet:
    found = names(course)
    path = found[validation.choice("set", name, found)]
    own = path.parent != find_source() / "exercises" / "masters"
    # The book's as a notebook, in which references are text already.
    read = path if own else path.with_suffix(".ipynb")
    return _read(name, path, own, read, read.stat().st_mtime_ns)


def open_all(names: str, course: Path | None = None) -> tuple[ExerciseSet, ...]:
    """The sets of an assignment, whose names are separated by commas: see `open_set`."""
    return tuple(open_set(name.strip(), course) for name in names.split(","))


@functools.lru_cache(maxsize=64)
def _read(name: str, path: Path, own: bool, read: Path, _changed: int) -> ExerciseSet:
    notebook = masters.notebook(list(_apart(masters.read(read)["cells"])))
    for cell in masters.reader(notebook)["cells"] if own else ():
        for line in (masters.MARKER, masters.HIDDEN, masters.MODEL_ANSWER):
            if shown := line.search(cell["source"]):
                said = f"a cell with the line {shown[0].strip()!r} must have its tag"
                raise ValueError(f"exercises/{path.name}: {said}, or students would see what is below it")
    return ExerciseSet(name, path, own, notebook)


def _apart(cells: Iterable[Cell]) -> Iterator[Cell]:
    """The cells, of which none ends one exercise and begins the next: a pack may have only one of them."""
    for cell in cells:
        begins = EXERCISE.search(cell["source"]) if cell["cell_type"] == "markdown" else None
        headings = list(_HEADING.finditer(cell["source"], 0, begins.start())) if begins else []
        if not headings or not cell["source"][: headings[-1].start()].strip():
            yield cell
            continue
        at = headings[-1].start()
        yield {**cell, "metadata": dict(cell["metadata"]), "source": cell["source"][:at].rstrip()}
        yield {**cell, "source": cell["source"][at:]}


# --- the cells that some exercises need ---------------------------------------------------------------------


def choose(exercise_set: ExerciseSet, chosen: Sequence[Exercise]) -> list[int]:
    """The cells, by index: the introduction, the chosen exercises, and given cells elsewhere that these need.

    It refuses a choice in which an exercise uses what is written in one that is not chosen.
    """
    cells = exercise_set.notebook["cells"]
    owner = {i: one for one in exercise_set.exercises for i in range(one.start, one.stop)}
    first = min(owner, default=len(cells))
    labels = {one.label for one in chosen}
    if len(labels) == len(exercise_set.exercises):
        return list(range(len(cells)))
    kept = {i for i in range(len(cells)) if i < first or (i in owner and owner[i].label in labels)}
    sections = _sections(cells, owner, first)
    code = (i for i, cell in enumerate(cells) if cell["cell_type"] == "code")
    found = {i: known for i in code if (known := names_of(cells[i]["source"]))}
    # Each with the exercise for whose sake it is looked at.
    waiting = [(i, owner[i].label if i in owner else "the introduction") for i in sorted(kept)]
    while waiting:
        i, sake = waiting.pop()
        for name in sorted(found[i].used - found[i].defined) if i in found else ():
            made = next((j for j in range(i - 1, -1, -1) if j in found and name in found[j].defined), None)
            if made is None or made in kept:
                continue
            other = owner.get(made)
            if other is not None and part(cells[made]) is not None:
                why = f"for {sake!r} uses {name}, which is written there"
                raise ValueError(f"exercises must hold {other.label!r} as well, {why}")
            # Alone out of another exercise; with its text where it stands in a section between exercises.
            run = [made] if other else next(r for r in sections if made in r)
            waiting += [(j, sake) for j in run if j not in kept]
            kept.update(run)
    return sorted(kept)


def _sections(cells: Sequence[Cell], owner: dict[int, Exercise], first: int) -> list[list[int]]:
    """The runs of cells between exercises that belong to none."""
    free = enumerate(i for i in range(first, len(cells)) if i not in owner)
    return [[i for _, i in run] for _, run in itertools.groupby(free, lambda pair: pair[1] - pair[0])]
