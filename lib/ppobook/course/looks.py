"""Notes on a submission for the instructor, and similar answers: what was seen, never a deduction.

Only cells that differ from what the student was handed are read, whatever their formatting. The notes are
easy to avoid and may name somebody who found the short way; a talk about the code says more.
"""

from __future__ import annotations

import ast
import io
import itertools
import keyword
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ppobook.course.rebuild import RunCell, Unreadable, rebuild
from ppobook.course.records import Pack
from ppobook.course.safe_text import plain as escaped
from ppobook.course.sources import lines, parsed, plain
from ppobook.teaching.tags import Notebook

_CALLED = {"exec", "eval", "compile", "__import__"}
_DECODING = {"a85decode", "b32decode", "b64decode", "b85decode", "decompress", "fromhex", "unhexlify"}
# A model answer with less than this of its own has hardly another form.
_LINES, _CHARACTERS = 3, 80
_MOST = 50
_OTHER = "other cells"


class Looks:
    """Finds notes on the cells of submissions that are the student's own, each with its place.

    `model` has the sources of the solutions that anybody can read, `handed_out` all notebooks that students
    were handed for the assignment.
    """

    def __init__(self, pack: Pack, model: Collection[str], handed_out: Collection[Notebook]) -> None:
        self.pack = pack
        code = [cell for notebook in handed_out for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.same = {plain(cell["source"]) for cell in code}
        trees = [tree for cell in code if (tree := parsed(cell["source"])) is not None]
        self.modules = {module for tree in trees for module in _imports(tree)} | {"ppobook.teaching"}
        self.lines = {line for tree in trees for line in lines(tree)}
        answers = [self._own(tree) for source in model if (tree := parsed(source)) is not None]
        self.answers = [one for one in answers if len(one) >= _LINES and len("".join(one)) >= _CHARACTERS]

    def _own(self, tree: ast.Module) -> list[str]:
        return [line for line in lines(tree) if line not in self.lines]

    def of(self, submission: bytes) -> list[str]:
        try:
            cells = rebuild(self.pack.notebook, submission).cells
            own = (cell for cell in cells if cell.kind != "pack" and plain(cell.source) not in self.same)
            found = [f"{cell.place}: {said}" for cell in own for said in self.notes(cell)]
        except Unreadable:
            return []
        except Exception as error:  # a note must not cost points
            return [f"its cells could not be looked at ({type(error).__name__})"]
        return list(dict.fromkeys(found))[:_MOST]

    def notes(self, cell: RunCell) -> Iterator[str]:
        tree = parsed(cell.source)
        if tree is None:
            return
        for node in ast.walk(tree):
            name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
            if isinstance(node, ast.Name) and name in _CALLED:
                yield f"uses `{name}`"
            if name in _DECODING:
                yield f"decodes something (`{name}`)"
        for module in _imports(tree):
            if module.startswith("ppobook.") and module not in self.modules:
                yield f"imports `{module}`, which the pack does not"
        theirs = self._own(tree)
        for ours in self.answers:
            if any(theirs[i : i + len(ours)] == ours for i in range(len(theirs))):
                yield f"has the {len(ours)} lines of the book's solution"


def _imports(tree: ast.AST) -> Iterator[str]:
    """The modules that a tree imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


# --- similar answers ----------------------------------------------------------------------------------------

# Two answers are compared by the runs of tokens that they share. Names, comments and layout make no
# difference, and what was handed out does not count, so a Hunt whose function was mended in one line is
# compared by that line. Each cell that was not in the pack is compared by itself. Short answers are left out:
# they are often alike because there is one way to write them.
Run = tuple[str, ...]

RUN = 5  # tokens that are compared at once
SHORTEST = 25  # runs of its own that an answer must have to be compared
ALIKE = 0.8  # the share of runs in common from which two answers are listed
LONGEST = 20_000  # characters of an answer


@dataclass(frozen=True)
class Alike:
    """Equal answers to one part, or two of which this share of their runs is common."""

    part: str
    share: float
    students: tuple[str, ...]
    sources: tuple[str, ...]


def similar(pack: Pack, submissions: Mapping[str, bytes]) -> list[Alike]:
    """Return the answers that are equal, and pairs that are nearly so, part by part, the most alike first.

    Of equal answers only the first stands in such pairs. Code in other cells is compared with every part.
    `submissions` has by student or group the bytes of the notebook that counts.
    """
    code = [cell["source"] for cell in pack.notebook["cells"] if cell["cell_type"] == "code"]
    given = {run for source in code for run in _runs(source)}
    parts = [*(one.name for one in pack.tested), ""]
    equal: dict[frozenset[Run], dict[str, RunCell]] = {}
    for student, content in submissions.items():
        with suppress(Unreadable):
            cells = [cell for cell in rebuild(pack.notebook, content).cells if cell.kind != "pack"]
            own = [cell for cell in cells if cell.name in parts and len(cell.source) <= LONGEST]
            for cell in sorted(own, key=lambda one: not one.name)[:_MOST]:
                equal.setdefault(frozenset(_runs(cell.source) - given), {}).setdefault(student, cell)
    long = {runs: who for runs, who in equal.items() if len(runs) >= SHORTEST}
    found = [(1.0, who) for who in long.values() if len(who) > 1]
    first = [(runs, *next(iter(who.items()))) for runs, who in long.items()]
    for (one, student, cell), (other, whose, second) in itertools.combinations(first, 2):
        share = len(one & other) / len(one | other)
        one_part = cell.name == second.name or not (cell.name and second.name)
        if share >= ALIKE and student != whose and one_part:
            found.append((share, {student: cell, whose: second}))
    rows = [(max(cell.name for cell in who.values()), share, who) for share, who in found]
    rows.sort(key=lambda row: (parts.index(row[0]), -row[1], *row[2]))
    return [Alike(part or _OTHER, x, (*who,), tuple(c.source for c in who.values())) for part, x, who in rows]


def _runs(source: str) -> set[Run]:
    """Return the runs of tokens of a source, in which all names but attributes and keywords are one.

    Values that are written out are left out: whoever fills a table by hand writes the same numbers.
    """
    tree = parsed(source)
    tokens = [] if tree is None else list(_tokens("\n".join(lines(tree))))
    return set(zip(*(tokens[i:] for i in range(RUN)), strict=False))


def _tokens(source: str) -> Iterator[str]:
    before = ""
    with suppress(tokenize.TokenError):  # a string over several lines of which some were left out
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            name = token.type == tokenize.NAME and not keyword.iskeyword(token.string) and before != "."
            if token.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                yield "name" if name else token.string
            before = token.string


def page(title: str, found: Sequence[Alike]) -> str:
    """One HTML page with the answers side by side."""
    rows = ""
    for one in found:
        rows += f"<h2>{escaped(one.part)}: {one.share:.0%} in common</h2><table><tr>"
        for student, source in zip(one.students, one.sources, strict=True):
            rows += f"<td><b>{escaped(student)}</b><pre>{escaped(source)}</pre></td>"
        rows += "</tr></table>"
    style = "body{font-family:sans-serif}td{vertical-align:top;padding-right:2em}pre{white-space:pre-wrap}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escaped(title)}</title>'
        f"<style>{style}</style></head>\n<body><h1>{escaped(title)}</h1>\n{rows}</body></html>\n"
    )
