"""Equal and nearly equal code answers of a class, listed side by side, without a verdict.

Two answers are compared by the runs of tokens that they share. Names, comments and layout make no difference,
and what was handed out does not count, so a Hunt whose function was mended in one line is compared by that
line. Short answers are left out: they are often alike because there is one way to write them.
"""

from __future__ import annotations

import io
import itertools
import keyword
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ppobook.course.rebuild import Unreadable, rebuild
from ppobook.course.records import Pack
from ppobook.course.safe_text import plain
from ppobook.course.sources import lines, parsed

Run = tuple[str, ...]

RUN = 5  # tokens that are compared at once
SHORTEST = 25  # runs of its own that an answer must have to be compared
ALIKE = 0.8  # the share of runs in common from which two answers are listed
LONGEST = 20_000  # characters of an answer


@dataclass(frozen=True)
class Alike:
    """Two answers to one part, and the share of their runs that they have in common."""

    part: str
    share: float
    students: tuple[str, ...]
    sources: tuple[str, ...]


def similar(pack: Pack, submissions: Mapping[str, bytes]) -> list[Alike]:
    """Return the answers that are equal or nearly so, part by part, the most alike first.

    `submissions` has by student or group the bytes of the notebook that counts.
    """
    answers: dict[str, dict[str, str]] = {one.name: {} for one in pack.tested}
    for student, content in submissions.items():
        try:
            cells = rebuild(pack.notebook, content).cells
        except Unreadable:
            continue
        for cell in cells:
            if cell.kind == "solution" and cell.name in answers and len(cell.source) <= LONGEST:
                answers[cell.name][student] = cell.source
    code = [cell["source"] for cell in pack.notebook["cells"] if cell["cell_type"] == "code"]
    given = {run for source in code for run in _runs(source)}
    return [one for part, sources in answers.items() for one in _alike(part, sources, given)]


def _alike(part: str, sources: Mapping[str, str], given: set[Run]) -> list[Alike]:
    runs = {student: _runs(source) - given for student, source in sources.items()}
    long = [student for student in runs if len(runs[student]) >= SHORTEST]
    found: list[Alike] = []
    for who in itertools.combinations(long, 2):
        one, other = (runs[student] for student in who)
        share = len(one & other) / len(one | other)
        if share >= ALIKE:
            found.append(Alike(part, share, who, tuple(sources[student] for student in who)))
    return sorted(found, key=lambda pair: (-pair.share, pair.students))


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
    rows = []
    for one in found:
        cells = "".join(
            f"<td><b>{plain(student)}</b><pre>{plain(source)}</pre></td>"
            for student, source in zip(one.students, one.sources, strict=True)
        )
        rows.append(f"<h2>{plain(one.part)}: {one.share:.0%} in common</h2><table><tr>{cells}</tr></table>")
    style = "body{font-family:sans-serif}td{vertical-align:top;padding-right:2em}pre{white-space:pre-wrap}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{plain(title)}</title>'
        f"<style>{style}</style></head>\n<body><h1>{plain(title)}</h1>\n{''.join(rows)}</body></html>\n"
    )
