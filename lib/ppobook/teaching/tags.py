"""The tags of an exercise's cells, and what they say: which cell is which part of which exercise.

- ``solution:NAME``, a code cell: what a reader fills in, or, in the master, the solution.
- ``test:NAME:POINTS``, a code cell that checks it.
- ``manual:NAME:POINTS``, a text cell that a person reads.

An exercise begins with a text cell that holds an ``{exercise}`` directive labelled ``ex-LABEL`` and the line
``*Build · difficulty 2 of 5 · 10 minutes · outcome: OUTCOME*``. It ends where the next one begins, or at a
text cell that begins with a heading of the first or second level.

Notebooks are plain dictionaries in the notebook format, version 4.5, with each source as one string. Nothing
but the standard library is needed to work with them; only a `.md` needs jupytext to be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]
Cell = dict[str, Any]

EXERCISE = re.compile(r"^:{3,}\{exercise\}[ \t]*(.*)$", re.M)
LABEL = re.compile(r"^:label:[ \t]*(\S+)[ \t]*$", re.M)
FACTS = re.compile(r"^\*(\w+) · difficulty (\S+) of 5 · (\S+) minutes? · outcome: (\S+)\*$", re.M)


@dataclass(frozen=True)
class Part:
    """One tagged cell: its role, its name, its points (None for a solution) and where it stands.

    ``partial`` has the share of the points that is left for some mistakes that a test cell's check names. It
    is read from the cell's metadata.
    """

    role: str
    name: str
    points: float | None
    index: int
    partial: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Exercise:
    """One exercise: what its first cell says of it, and the cells ``start:stop`` that belong to it."""

    label: str
    title: str
    kind: str
    difficulty: int
    minutes: int
    outcome: str
    start: int
    stop: int
    parts: tuple[Part, ...] = field(default=())


def is_figure(cell: Cell) -> bool:
    """Return whether a cell shows a figure with a caption."""
    return "figure" in cell["metadata"].get("mystnb", {})


def figure_number(stem: str, count: int) -> str:
    """Return the number that the site gives a figure: the chapter's, from its file's name, and its own."""
    return f"Figure {int(stem[:2])}.{count}"


def read(path: str | Path) -> Notebook:
    """Read a notebook from its `.ipynb`, or a source from its `.md` (which needs jupytext)."""
    path = Path(path)
    if path.suffix == ".ipynb":
        try:
            notebook = json.loads(path.read_text(encoding="utf-8"))
            cells = notebook["cells"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"path must be a valid notebook, got {path.name!r}: {error}") from None
        for cell in cells:
            cell["source"] = _text(cell["source"])
        return notebook
    if path.suffix == ".md":
        import jupytext

        notebook = json.loads(json.dumps(jupytext.read(path, fmt="md:myst")))
        # MyST separates cells by "+++"; one at the very end, or two in a row, is no cell.
        notebook["cells"] = [c for c in notebook["cells"] if c["cell_type"] == "code" or c["source"].strip()]
        return notebook
    raise ValueError(f"path must end in .md or .ipynb, got {path.name!r}")


def _text(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def tags(cell: Mapping[str, Any]) -> list[str]:
    """The tags of a cell."""
    return [str(tag) for tag in cell.get("metadata", {}).get("tags", [])]


def part(cell: Mapping[str, Any], index: int = -1) -> Part | None:
    """Return the part that a cell's tag names; None for a cell without such a tag or with a malformed one."""
    for tag in tags(cell):
        role, *rest = tag.split(":")
        if role == "solution" and len(rest) == 1:
            return Part(role, rest[0], None, index)
        if role in ("test", "manual") and len(rest) == 2 and points(rest[1]) is not None:
            partial = cell.get("metadata", {}).get("partial", {})
            return Part(role, rest[0], points(rest[1]), index, partial)
    return None


def points(text: str) -> float | None:
    """The points that a tag gives, 2 or 0.5; None where that is not a number."""
    # float() would also take "nan", "1e3" and "1_0".
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def parts(notebook: Notebook) -> list[Part]:
    """The tagged cells of a master or of a reader's notebook, in order."""
    found = (part(cell, index) for index, cell in enumerate(notebook["cells"]))
    return [p for p in found if p is not None]


def exercises(notebook: Notebook) -> list[Exercise]:
    """The exercises of a master or of a reader's notebook, in order."""
    cells = notebook["cells"]
    starts = [i for i, cell in enumerate(cells) if _begins_exercise(cell)]
    headings = [i for i, cell in enumerate(cells) if _begins_section(cell)]
    tagged = parts(notebook)
    result = []
    for start in starts:
        stop = min((i for i in starts + headings if i > start), default=len(cells))
        source = cells[start]["source"]
        title, label, facts = EXERCISE.search(source), LABEL.search(source), FACTS.search(source)
        kind, difficulty, minutes, outcome = facts.groups() if facts else ("", "", "", "")
        result.append(
            Exercise(
                label=label[1].removeprefix("ex-") if label else "",
                title=title[1].strip() if title else "",
                kind=kind,
                difficulty=int(difficulty) if difficulty.isdecimal() else 0,
                minutes=int(minutes) if minutes.isdecimal() else 0,
                outcome=outcome,
                start=start,
                stop=stop,
                parts=tuple(p for p in tagged if start <= p.index < stop),
            )
        )
    return result


def _begins_exercise(cell: Cell) -> bool:
    return cell["cell_type"] == "markdown" and bool(EXERCISE.search(cell["source"]))


def _begins_section(cell: Cell) -> bool:
    """Return whether a text cell begins with a heading of level 1 or 2, perhaps below its label."""
    return cell["cell_type"] == "markdown" and bool(
        re.match(r"(\([\w-]+\)=\n)?##? ", cell["source"].lstrip("\n"))
    )
