"""A submission put back into the form of its pack, so that only what a student may change has changed.

The pack's cells come as they were handed out: statements, given code, tests. From the submission come the
solution cells, the answers in text, and cells of the student's own, in their places. A cell that was deleted,
doubled, renamed or moved, and whatever was written into the metadata, makes no difference to what is tested.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ppobook.course.pictures import inlined
from ppobook.course.sources import plain
from ppobook.teaching.tags import Cell, Notebook, part

__all__ = ["Rebuilt", "RunCell", "Unreadable", "rebuild", "sources"]

_HALVES = re.compile("[\ud800-\udfff]")
LARGEST = 20 * 2**20  # bytes of a notebook
MOST_CELLS = 2000
MOST_CODE = 2**20  # characters of code: all of it is read as Python, more than once


class Unreadable(ValueError):  # noqa: N818
    """A hand-in is no notebook; the message says why."""


@dataclass(frozen=True)
class RunCell:
    """A code cell that is run: whose it is ("pack", "solution", "own"), its part's name, and its source.

    tests is the name of the part that the cell tests, or "". place says to a reader which cell it is.
    """

    kind: str
    source: str
    name: str = ""
    tests: str = ""
    place: str = ""


@dataclass
class Rebuilt:
    """The code that is run and read of a submission, and its oddities, a sentence each."""

    cells: list[RunCell] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    unchanged: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


@dataclass
class _Own:
    """A cell of the submission."""

    index: int
    id: str
    kind: str
    source: str
    role: str
    name: str
    anchor: int = -1  # the pack's cell that it stands for, or stands behind


def whole(text: str) -> str:
    """A text that a file can hold: of half a character, such as half an emoji, the sign for one is left."""
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", text)


def rebuild(notebook: Notebook, submission: bytes) -> Rebuilt:
    """Select the code of a submission to run and to read.

    Parameters
    ----------
    notebook : the pack's
    submission : the bytes of the .ipynb that was handed in

    Raises
    ------
    Unreadable
        It is no notebook.
    """
    result = Rebuilt()
    cells = _cells(submission, result.notes)
    chosen = _match(notebook["cells"], cells, result.notes)
    taken = {own.index for own in chosen.values()}
    anchor = -1
    behind: dict[int, list[_Own]] = {}
    # A copy of such a cell says nothing.
    handed_out = {plain(cell["source"], cell["cell_type"] == "code") for cell in notebook["cells"]}
    stands_for = {own.index: index for index, own in chosen.items()}
    for own in cells:
        if own.index in taken:
            anchor = stands_for[own.index]
        elif own.source.strip() and plain(own.source, own.kind == "code") not in handed_out:
            behind.setdefault(anchor, []).append(own)
    for own in behind.get(-1, []):
        _add_own(result, own)
    for index, cell in enumerate(notebook["cells"]):
        _add(result, cell, chosen.get(index))
        said = result.texts.keys() & {p.name for p in [part(cell)] if p and p.role == "manual"}
        for own in behind.get(index, []):
            if own.kind == "code":
                _add_own(result, own)
            else:
                for name in said:
                    result.texts[name] += f"\n\n{own.source}"
    return result


def _add(result: Rebuilt, cell: Cell, own: _Own | None) -> None:
    """A cell of the pack, with what stands in its place in the submission."""
    p = part(cell)
    given, source = cell["source"], None if own is None else own.source
    code = cell["cell_type"] == "code"
    changed = source is not None and plain(source, code) != plain(given, code)
    if p is not None and p.role in ("solution", "manual") and not changed:
        result.unchanged.add(p.name)
    if cell["cell_type"] != "code":
        if p is not None and p.role == "manual":
            result.texts[p.name] = source if changed and source is not None else ""
        return
    if p is not None and p.role == "solution":
        place = f"the cell of {p.name}"
        result.cells.append(RunCell("solution", given if source is None else source, p.name, place=place))
        return
    tests = p.name if p is not None and p.role == "test" else ""
    result.cells.append(RunCell("pack", given, tests=tests, place="a cell of the pack"))
    if changed and own is not None and own.kind == "code":
        result.notes.append(f"Cell {own.index + 1} is one of the pack's and was edited; both forms were run.")
        _add_own(result, own)


def _add_own(result: Rebuilt, own: _Own) -> None:
    if own.kind == "code":
        result.cells.append(RunCell("own", own.source, place=f"cell {own.index + 1}"))


def _match(given: list[Cell], cells: list[_Own], notes: list[str]) -> dict[int, _Own]:
    """For each cell of the pack the submission's that stands for it, by id, by tag, by what it defines."""
    by_id: dict[str, list[_Own]] = {}
    by_name: dict[tuple[str, str], list[_Own]] = {}
    for own in cells:
        by_id.setdefault(own.id, []).append(own)
        by_name.setdefault((own.role, own.name), []).append(own)
    twice = [own_id for own_id, count in Counter(own.id for own in cells).items() if own_id and count > 1]
    if twice:
        notes.append(f"{len(twice)} cell ids stand in it more than once.")
    chosen: dict[int, _Own] = {}
    taken: set[int] = set()

    def take(index: int, found: list[_Own], how: str = "") -> bool:
        source = given[index]["source"].strip()
        free = [own for own in found if own.index not in taken and own.source.strip()]
        if not free:
            return False
        # Of several, one that was worked on.
        own = next((o for o in free if o.source.strip() != source), free[0])
        chosen[index] = own
        taken.add(own.index)
        if how:
            notes.append(f"Cell {own.index + 1} stands for {_called(given[index])}: {how}.")
        return True

    for index, cell in enumerate(given):
        if cell.get("id"):
            take(index, by_id.get(cell["id"], []))
    for index, cell in enumerate(given):
        p = part(cell)
        if index not in chosen and p is not None:
            take(index, by_name.get((p.role, p.name), []), "it has its tag, not its id")
    for index, cell in enumerate(given):
        if index in chosen:
            continue
        same = [own for own in cells if own.source.strip() == cell["source"].strip()]
        p = part(cell)
        if take(index, same) or p is None:
            continue
        if p.role == "solution":
            names = _defined(cell["source"])
            other = [own for own in cells if own.kind == "code" and names & _defined(own.source)]
            if take(index, other, "it defines what was asked for"):
                continue
        if p.role != "test":
            notes.append(f"{_called(cell).capitalize()} is not there.")
    return chosen


def _called(cell: Cell) -> str:
    p = part(cell)
    return f"the {p.role} cell of {p.name}" if p is not None else "a cell of the pack"


def _defined(source: str) -> set[str]:
    """The functions that a cell defines; none where it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def sources(submission: bytes) -> list[str]:
    """The sources of a notebook's cells.

    Raises
    ------
    Unreadable
        It is no notebook.
    """
    return [one.source for one in _cells(submission, [])]


def _cells(submission: bytes, notes: list[str]) -> list[_Own]:
    content = _read(submission, notes)
    version = content.get("nbformat")
    if version != 4:
        notes.append(
            f"It says that it is of version {str(version)[:20]} of the notebook format; the pack is of 4."
        )
    cells = content.get("cells")
    if cells is None and isinstance(content.get("worksheets"), list):  # version 3
        cells = [
            c
            for sheet in content["worksheets"]
            for c in (sheet.get("cells") if isinstance(sheet, Mapping) else None) or []
        ]
    if not isinstance(cells, list):
        raise Unreadable("The file has no cells, so it is no notebook.")
    if len(cells) > MOST_CELLS:
        raise Unreadable(f"The notebook has {len(cells)} cells; at most {MOST_CELLS} are read.")
    found = []
    code = 0
    for index, cell in enumerate(cells):
        if not isinstance(cell, Mapping):
            notes.append(f"Cell {index + 1} is none.")
            continue
        source = cell.get("source", cell.get("input", ""))
        if isinstance(source, list):
            source = "".join(line for line in source if isinstance(line, str))
        if not isinstance(source, str):
            source = ""
        if cell.get("cell_type") == "markdown":
            source = inlined(source, cell.get("attachments"))
        p = part(_plain(cell))
        kind = "code" if cell.get("cell_type") == "code" else "text"
        own_id = cell.get("id")
        code += len(source) * (kind == "code")
        if code > MOST_CODE:
            raise Unreadable(f"The notebook has more than {MOST_CODE >> 20} MB of code, which is not read.")
        found.append(
            _Own(
                index,
                own_id if isinstance(own_id, str) else "",
                kind,
                source,
                p.role if p is not None else "",
                p.name if p is not None else "",
            )
        )
    return found


def _plain(cell: Mapping[str, Any]) -> dict[str, Any]:
    """The cell with tags that are a list of strings, whatever was made of them."""
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, Mapping) else None
    return {"metadata": {"tags": [t for t in tags if isinstance(t, str)] if isinstance(tags, list) else []}}


def _read(submission: bytes, notes: list[str]) -> Mapping[str, Any]:
    if len(submission) > LARGEST:
        raise Unreadable(
            f"The file has {len(submission) / 2**20:.0f} MB; at most {LARGEST // 2**20} are read."
        )
    if not submission.strip():
        raise Unreadable("The file is empty.")
    try:
        text = submission.decode(json.detect_encoding(submission))
    except UnicodeDecodeError:
        text = submission.decode("cp1252", errors="replace")
        notes.append("The file is not UTF-8; letters that aren't English may have been lost.")
    try:
        content = json.loads(text.removeprefix("\ufeff"))
        if "\\ud" in text.lower():
            content = json.loads(whole(json.dumps(content, ensure_ascii=False)))
    except RecursionError:
        raise Unreadable("The file is nested too deeply for a notebook.") from None
    except ValueError as error:
        raise Unreadable(f"The file is no notebook, or was truncated: {error}.") from None
    if not isinstance(content, Mapping):
        raise Unreadable("The file is JSON and no notebook.")
    return content
