"""Equal and nearly equal code answers of a class, listed side by side, without a verdict.

Two answers are compared by the runs of tokens that they share. Names, numbers' formats, comments and layout make no
difference, and neither does what was handed out, so that a Hunt whose function was mended in one line is compared by
that line. Short answers are often alike because there is one way to write them.
"""

from __future__ import annotations

import ast
import io
import itertools
import keyword
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ppobook.course.pack import Pack
from ppobook.course.rebuild import Unreadable, rebuild
from ppobook.course.safe_text import plain
from ppobook.course.sources import parsed

__all__ = ["Pair", "page", "similar"]

RUN = 5  # tokens that are compared at once
SHORTEST = 25  # runs of its own that an answer must have to be compared
ALIKE = 0.8  # the share of runs in common from which a pair is listed
LONGEST = 20_000  # characters of an answer


@dataclass(frozen=True)
class Pair:
    """Two students' answers to one part; ``share`` is what they have in common, 1 where they are equal."""

    part: str
    share: float
    students: tuple[str, str]
    sources: tuple[str, str]


def similar(pack: Pack, submissions: Mapping[str, bytes]) -> list[Pair]:
    """Return the pairs of answers that are equal or nearly so, part by part, the most alike first.

    Parameters
    ----------
    pack : the assignment
    submissions : by student, or by group, the bytes of the notebook that counts
    """
    answers: dict[str, dict[str, str]] = {}
    for student, content in submissions.items():
        try:
            cells = rebuild(pack.notebook, content).cells
        except Unreadable:
            continue
        for cell in cells:
            if cell.kind == "solution" and len(cell.source) <= LONGEST:
                answers.setdefault(cell.name, {})[student] = cell.source
    given = {
        run for cell in pack.notebook["cells"] if cell["cell_type"] == "code" for run in _runs(cell["source"])
    }
    found = []
    for part, sources in answers.items():
        runs = {student: _runs(source) - given for student, source in sources.items()}
        compared = [student for student in sources if len(runs[student]) >= SHORTEST]
        for one, other in itertools.combinations(compared, 2):
            share = len(runs[one] & runs[other]) / len(runs[one] | runs[other])
            if share >= ALIKE:
                found.append(Pair(part, share, (one, other), (sources[one], sources[other])))
    parts = list(answers)
    return sorted(found, key=lambda pair: (parts.index(pair.part), -pair.share, pair.students))


def _runs(source: str) -> set[tuple[str, ...]]:
    """Return the runs of tokens of a source, in which all names but those of attributes and keywords are one."""
    tree = parsed(source)
    if tree is None:
        return set()
    tokens = list(_tokens(ast.unparse(tree)))
    return set(zip(*(tokens[i:] for i in range(RUN)), strict=False))


def _tokens(source: str) -> Iterator[str]:
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = token.type == tokenize.NAME and not keyword.iskeyword(token.string) and before != "."
        if token.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            yield "name" if name else token.string
        before = token.string


def page(title: str, pairs: Sequence[Pair]) -> str:
    """One HTML page with the pairs side by side."""
    rows = []
    for pair in pairs:
        cells = "".join(
            f"<td><b>{plain(student)}</b><pre>{plain(source)}</pre></td>"
            for student, source in zip(pair.students, pair.sources, strict=True)
        )
        rows.append(f"<h2>{plain(pair.part)}: {pair.share:.0%} in common</h2><table><tr>{cells}</tr></table>")
    style = "body{font-family:sans-serif}td{vertical-align:top;padding-right:2em}pre{white-space:pre-wrap}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{plain(title)}</title>'
        f"<style>{style}</style></head>\n<body><h1>{plain(title)}</h1>\n"
        + "\n".join(rows)
        + "\n</body></html>\n"
    )
