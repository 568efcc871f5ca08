"""Variants of exercises: other numbers, or another planted bug, drawn from a course's secret.

They stop nobody who adapts a public solution. They make the answers of two courses differ, and give a Hunt a
bug that the book's pages do not discuss. The file `NN_name.variants.toml` beside a master lists them:

    [[clip-table-up]]                    # the name of a part
    k = [2, 3, 4]                        # other numbers: a variant for each, {k} in the texts below
    note = "In this course A = +{k}."    # stands above the part, and below what its check says
    text = [["$A = +1$", "$A = +{k}$"]]  # old and new text of the exercise's cells, its test included
    solution = [["(1.5, ", "(⟨1.5⟩, "]]  # old and new text of the master's solution; ⟨1.5⟩ is 1.5 times k

    [[hunt-division]]
    bug = "the penalty is a bonus"       # another planted bug: the hints of the book's are left out
    text = [["- beta * kl", "+ beta * kl"]]
    rubric = "..."                       # for what a person marks, in place of the master's

A check knows the book's numbers alone, so the test of a part with other numbers hands it `in_book_numbers`.
"""

from __future__ import annotations

import copy
import functools
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppobook import _reads
from ppobook.course.records import keyed_digest
from ppobook.teaching.tags import Notebook, exercises, part, tags

_HINT = re.compile(r"^:::+\{dropdown\}.*?^:::+[ \t]*$\n*", re.M | re.S)
_MULTIPLE = re.compile(r"⟨([^⟩]+)⟩")


@dataclass(frozen=True)
class Variant:
    """One variant of a part: old and new ``text`` of the exercise's cells, ``changes`` of the solution.

    ``note`` is a sentence on the numbers, for the statement and for what the check says; ``bug`` is planted,
    and ``rubric`` speaks of it.
    """

    part: str
    text: tuple[tuple[str, str], ...]
    changes: tuple[tuple[str, str], ...] = ()
    note: str = ""
    bug: str = ""
    rubric: str = ""

    def apply(self, notebook: Notebook) -> Notebook:
        """Return a reader's notebook with this variant in it."""
        changed = copy.deepcopy(dict(notebook))
        cells = changed["cells"]
        own = {"solution": self.part, "test": self.part}
        mine = [c for c in cells if (p := part(c)) is None or p.name == own.get(p.role, p.name)]
        for old, _ in self.text:
            if not any(old in cell["source"] for cell in mine):
                raise ValueError(f"the variant of {self.part} changes {old!r}, which must be in its exercise")
        for cell in mine:
            cell["source"] = _replaced(cell["source"], self.text)
        where = next(i for i, c in enumerate(cells) if "solution:" + self.part in tags(c))
        if self.bug:
            around = next(one for one in exercises(changed) if one.start <= where < one.stop)
            for cell in cells[around.start : where]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = _HINT.sub("", cell["source"]).rstrip()
        if self.note:
            cell = {"cell_type": "markdown", "id": f"variant-{self.part}", "metadata": {}}
            cells.insert(where, cell | {"source": f"**Note.** {self.note}"})
        return changed

    def solution(self, source: str) -> str:
        return _replaced(source, self.changes)


def draw(secret: str, assignment: str, part: str, variants: Sequence[Variant]) -> Variant:
    """Draw the variant of a part in an assignment of the course that has this secret, the same each time."""
    drawn = int.from_bytes(keyed_digest(secret, f"{assignment}/{part}"))
    return variants[drawn % len(variants)]


def declared(master: Path) -> dict[str, tuple[Variant, ...]]:
    """Read the variants of each part of a master; none without a file beside it."""
    path = master.with_name(f"{master.stem}.variants.toml")
    if not path.exists():
        return {}
    tables = tomllib.loads(_reads.note(path).read_text(encoding="utf-8"))
    return {name: tuple(one for row in rows for one in _variants(name, row)) for name, rows in tables.items()}


def _variants(name: str, row: Mapping[str, Any]) -> Iterator[Variant]:
    for k in row.get("k", [None]):

        def pairs(key: str, k: float | None = k) -> tuple[tuple[str, str], ...]:
            return tuple((old, _with(k, new)) for old, new in row.get(key, ()))

        note, rubric = _with(k, row.get("note", "")), row.get("rubric", "").strip()
        yield Variant(name, pairs("text"), pairs("solution"), note, row.get("bug", ""), rubric)


def _with(k: float | None, text: str) -> str:
    if k is None:
        return text
    return _MULTIPLE.sub(lambda found: f"{float(found[1]) * k:g}", text.replace("{k}", f"{k:g}"))


def _replaced(source: str, pairs: Collection[tuple[str, str]]) -> str:
    """Make all changes at once, the longest first: one may be of words that stand in another's."""
    new = dict(pairs)
    olds = sorted(map(re.escape, new), key=len, reverse=True)
    return re.sub("|".join(olds), lambda found: new[found[0]], source) if olds else source


def in_book_numbers(
    function: Callable[..., Any], k: float, *, rows: Collection[int] = (), entries: Collection[int] = ()
) -> Callable[..., Any]:
    """Return a function whose results are a student's divided by k, for a check of the book's numbers.

    Parameters
    ----------
    function : the student's
    k : how many times as large the course's numbers are
    rows : places in each row of the table that comes back, counted from the row's end; of a key (r, A), A is
        divided as well
    entries : places in the tuple that comes back
    """

    @functools.wraps(function)
    def answer(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if entries:
            return _at(found, k, entries)
        if isinstance(found, dict):
            return {_key(key, k): _at(row, k, rows) for key, row in found.items()}
        return [_at(row, k, rows) for row in found]

    return answer


def _key(key: Any, k: float) -> Any:
    return (*key[:-1], key[-1] / k) if isinstance(key, tuple) else key


def _at(row: Any, k: float, places: Collection[int]) -> Any:
    """A row with the entries at these places divided; what is no row stays for the check to refuse."""
    if isinstance(row, str | None) or not hasattr(row, "__len__"):
        return row
    chosen = {place % len(row) for place in places if -len(row) <= place < len(row)}
    return [_divided(entry, k) if i in chosen else entry for i, entry in enumerate(row)]


def _divided(value: Any, k: float) -> Any:
    if isinstance(value, list | tuple):
        return [_divided(one, k) for one in value]
    return value / k if hasattr(value, "__truediv__") else value  # a blank that was not filled in
