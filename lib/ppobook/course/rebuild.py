"""A submission put back into the form of its pack, so that only what a student may change has changed.

The pack's cells come as they were handed out: statements, given code, tests. From the submission come the
solution cells, the answers in text, and cells of the student's own, in their places. A cell that was deleted,
doubled, renamed or moved, and whatever was written into the metadata, makes no difference to what is tested.
A cell that lost its id and its tag is found by its place between the pack's cells.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial

from ppobook.course.pictures import inlined
from ppobook.course.sources import plain
from ppobook.teaching.tags import Cell, Notebook, Part, part

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
    """The code that is run and the texts that are read of a submission.

    ``texts`` are by manual part, ``missing`` the manual parts whose cell was deleted. ``unclear`` are texts
    that may be the answer to a manual part without a text, each with the number of its cell.
    """

    cells: list[RunCell] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


@dataclass
class _Own:
    """A cell of the submission. ``after`` and ``before`` are the pack's cells that it stands between."""

    index: int
    id: str
    is_code: bool
    source: str
    part: Part | None
    plain: Callable[[bool], str]  # its digest as code or as text
    after: int = -1
    before: int = -1

    @property
    def place(self) -> str:
        return f"cell {self.index + 1}"


def whole(text: str) -> str:
    """A text that a file can hold: of half a character, such as half an emoji, the sign for one is left."""
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", text)


def rebuild(notebook: Notebook, submission: bytes, earlier: Sequence[Notebook] = ()) -> Rebuilt:
    """Select the code to run and the texts to read of a submission, the bytes of an .ipynb.

    Texts are read by the pack that the student worked in, which may be one of the `earlier`: what stood there
    and is dropped now is nobody's answer. It raises Unreadable for what is no notebook.
    """
    own = _cells(submission)
    result = _rebuilt(notebook["cells"], own)
    sources = {one.plain(one.is_code) for one in own}
    worked_in = max((notebook, *earlier), key=lambda one: len(sources & _sources(one["cells"])))
    if worked_in is not notebook:
        read = _rebuilt(worked_in["cells"], own)
        result.missing = [name for name in read.missing if name in result.texts]
        result.texts = {name: read.texts.get(name, text) for name, text in result.texts.items()}
        result.unclear = [] if all(result.texts.values()) else read.unclear
    return result


def _sources(cells: list[Cell]) -> set[str]:
    return {plain(cell["source"], cell["cell_type"] == "code") for cell in cells}


def _rebuilt(given: list[Cell], own: list[_Own]) -> Rebuilt:
    result = Rebuilt()
    chosen = _match(given, own)
    free = _free(given, own, chosen)
    for _, run in itertools.groupby(free, lambda one: (one.after, one.before)):
        _match_by_place(given, [*run], chosen)
    free = _free(given, own, chosen)
    texts = [one for one in free if not one.is_code]
    held = {one.id for one in own} | {one.part.name for one in own if one.part is not None}
    result.cells += [_own_cell(one) for one in free if one.is_code and one.after < 0]
    for index, cell in enumerate(given):
        _add(result, cell, chosen.get(index))
        result.cells += [_own_cell(one) for one in free if one.is_code and one.after == index]
        p = part(cell)
        if p is not None and p.role == "manual":
            if index not in chosen:
                if not held & {cell.get("id"), p.name}:  # else it was emptied
                    result.missing.append(p.name)
                continue
            # Text right behind an answer belongs to it; so does text right before one that was left blank.
            behind = [one for one in texts if one.after == index]
            ahead = [one for one in texts if one.before == index and not result.texts[p.name]]
            said = [*(one.source for one in ahead), result.texts[p.name], *(one.source for one in behind)]
            result.texts[p.name] = "\n\n".join(filter(None, said))
            texts = [one for one in texts if one not in ahead and one not in behind]
    if not all(result.texts.values()):
        edited = [
            one
            for index, one in chosen.items()
            if part(given[index]) is None and not one.is_code and not _same(one, given[index])
        ]
        both = sorted([*edited, *texts], key=lambda one: one.index)
        result.unclear = [f"{one.place.capitalize()}:\n\n{one.source}" for one in both]
    return result


def _add(result: Rebuilt, cell: Cell, own: _Own | None) -> None:
    """A cell of the pack, with what stands in its place in the submission."""
    p, given = part(cell), cell["source"]
    source = given if own is None or _same(own, cell) else own.source
    if p is not None and p.role == "manual":
        result.texts[p.name] = source if source != given else ""
    elif p is not None and p.role == "solution":
        if own is not None:  # else a blank would take the place of a function in another cell
            result.cells.append(RunCell("solution", source, p.name, place=f"the cell of {p.name}"))
    elif cell["cell_type"] == "code":
        tests = p.name if p is not None and p.role == "test" else ""
        result.cells.append(RunCell("pack", given, tests=tests, place="a cell of the pack"))
        if own is not None and own.is_code and source != given:  # both forms are run
            result.cells.append(_own_cell(own))


def _own_cell(own: _Own) -> RunCell:
    return RunCell("own", own.source, place=own.place)


def _same(own: _Own, given: Cell) -> bool:
    is_code = given["cell_type"] == "code"
    return own.plain(is_code) == plain(given["source"], is_code)


def _match(given: list[Cell], own: list[_Own]) -> dict[int, _Own]:
    """For each cell of the pack the submission's that stands for it: by id, tag or source."""
    chosen: dict[int, _Own] = {}
    taken: set[int] = set()
    parts = [part(cell) for cell in given]
    kinds = [None if p is None else (p.role, p.name) for p in parts]
    ways: list[Callable[[int, _Own], bool]] = [
        lambda i, one: one.id != "" and one.id == given[i].get("id"),
        lambda i, one: one.part is not None and kinds[i] == (one.part.role, one.part.name),
        lambda i, one: _same(one, given[i]),
    ]
    for is_it, (index, cell) in itertools.product(ways, enumerate(given)):
        if index not in chosen:
            found = [
                one for one in own if one.index not in taken and one.source.strip() and is_it(index, one)
            ]
            if found:
                # Of several, one that was worked on.
                chosen[index] = next((one for one in found if not _same(one, cell)), found[0])
                taken.add(chosen[index].index)
    return chosen


def _free(given: list[Cell], own: list[_Own], chosen: Mapping[int, _Own]) -> list[_Own]:
    """The cells that stand for none of the pack's, with the pack's cells that they stand between."""
    stands_for = {one.index: index for index, one in chosen.items()}
    # A copy of such a cell says nothing.
    handed_out = _sources(given)
    found: list[_Own] = []
    after, waiting = -1, list[_Own]()
    for one in own:
        if one.index in stands_for:
            after = stands_for[one.index]
            for other in waiting:
                other.before = after
            waiting = []
        elif one.source.strip() and one.plain(one.is_code) not in handed_out:
            one.after, one.before = after, len(given)
            found.append(one)
            waiting.append(one)
    return found


def _match_by_place(given: list[Cell], run: list[_Own], chosen: dict[int, _Own]) -> None:
    """Let cells that stand where a cell of the pack is missing stand for it, where there is no doubt."""
    after, before = run[0].after, run[0].before
    missing = range(after + 1, min(before if before > after else after + 2, len(given)))
    code = [one for one in run if one.is_code]
    texts = [one for one in run if not one.is_code]
    for role, found in (("solution", code), ("manual", texts or code)):
        slots = [
            index
            for index in missing
            if index not in chosen and (p := part(given[index])) is not None and p.role == role
        ]
        # Of several texts for one answer the first stands for it, and the others are right behind it.
        if found and (len(slots) == len(found) or (len(slots) == 1 and role == "manual")):
            chosen.update(zip(slots, found, strict=False))


def sources(submission: bytes) -> list[str]:
    return [one.source for one in _cells(submission)]


def _cells(submission: bytes) -> list[_Own]:
    try:
        cells = list(json.loads(submission)["cells"]) if len(submission) <= LARGEST else []
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise Unreadable(f"The file is no notebook, or was truncated: {error}.") from None
    found: list[_Own] = []
    for index, cell in enumerate(cells[: MOST_CELLS + 1]):
        with suppress(AttributeError, KeyError, TypeError):  # what is no cell is left out
            source = whole("".join(cell["source"])).replace("\r\n", "\n")
            if cell["cell_type"] == "markdown":
                source = inlined(source, cell.get("attachments"))
            is_code = cell["cell_type"] == "code"
            digest, name = cache(partial(plain, source)), str(cell.get("id") or "")
            found.append(_Own(index, name, is_code, source, part(cell), digest))
    code = sum(len(one.source) for one in found if one.is_code)
    if len(submission) > LARGEST or len(cells) > MOST_CELLS or code > MOST_CODE:
        most = f"{LARGEST >> 20} MB, {MOST_CELLS} cells and {MOST_CODE >> 20} MB of code"
        raise Unreadable(f"The notebook must have at most {most}, and has more.")
    return found
