"""A chapter as its source has it: code cells, and sentences with the marks behind them.

A mark is a comment behind a sentence, which no reader sees:

    The interval of the difference, −15 to 216, still holds zero. <!-- claim: min_gap -->

It names what stands behind the sentence: names of the chapter's code, or expressions of them, with semicolons
between. `results("NAME")` and `facts("NAME")` read a table of another chapter, and a line of a cell, such as
`figures.maps()`, stands for what it showed. An expression of one row or number is better than a whole table,
in which a small number may stand by chance. `set 10, 0.2` at its end names numbers of the sentence that are
not compared: what was chosen, as a number of seeds, or follows from others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

MARK = re.compile(r"<!--\s*claim:\s*(.*?)\s*-->", re.S)
# Sections that repeat what the chapter has said, or ask.
BESIDE = frozenset({"Cards", "Exercises", "Further reading", "Claims"})


@dataclass(frozen=True)
class Section:
    """The section in which a sentence stands."""

    title: str
    label: str | None
    """Its own, or that of the section around it."""


@dataclass(frozen=True)
class Mark:
    """The content of a mark: expressions of the chapter's names, and numbers that are not compared."""

    expressions: tuple[str, ...]
    chosen: tuple[float, ...]


@dataclass(frozen=True)
class Sentence:
    """A sentence of a chapter, without its mark."""

    text: str
    line: int
    section: Section
    mark: Mark | None


@dataclass(frozen=True)
class Source:
    """The sentences and the code cells of a chapter, in order."""

    sentences: tuple[Sentence, ...]
    cells: tuple[str, ...]
    stray: int
    """The number of marks that belong to no sentence, or are misspelt."""


def read(path: Path) -> Source:
    """Read a chapter's `.md`."""
    sentences: list[Sentence] = []
    cells: list[str] = []
    source = path.read_text(encoding="utf-8")
    owned = 0
    for kind, line, section, text in _blocks(source):
        if kind == "code":
            cells.append(text)
        elif section.title not in BESIDE:
            found = [Sentence(said, line, section, mark) for said, mark in split(text)]
            sentences += [sentence for sentence in found if sentence.text]
            owned += len(MARK.findall(text)) if all(sentence.text for sentence in found) else 0
    return Source(tuple(sentences), tuple(cells), len(re.findall(r"<!--\s*claims?\b", source, re.I)) - owned)


def _blocks(text: str) -> Iterator[tuple[str, int, Section, str]]:
    """The code cells and the paragraphs of a source, each with its line and its section."""
    lines = enumerate(text.splitlines(), 1)
    section, label, above = Section("", None), None, ""
    nearest: str | None = None
    paragraph: list[str] = []
    start = 0
    if text.startswith("---\n"):
        next(lines)
        _until(lines, "---")
    for number, line in lines:
        bare = line.strip()
        new = not bare or bare[:2] in ("- ", "* ") or bool(re.match(r"\d+\. ", bare))
        apart = bare.startswith(("```", ":::", "$$", "|", "#", "+++", "(sec", "!["))
        if (new or apart) and paragraph:
            yield "text", start, section, " ".join(paragraph)
            paragraph = []
        if bare.startswith("```"):
            body = _until(lines, "```")
            if bare.startswith("```{code-cell}"):
                yield "code", number, section, _without_options(body)
        elif bare.startswith("$$") and bare.count("$$") == 1:
            _until(lines, "$$")
        elif found := re.match(r"\((\S+)\)=$", bare):
            label = found[1]
        elif found := re.match(r"(#+) (.+)$", bare):
            title = found[2].strip()
            above = title if len(found[1]) == 2 else above
            beside = above in BESIDE
            nearest = label or (None if len(found[1]) == 2 else nearest)
            section, label = Section(above if beside else title, nearest), None
        elif bare and not apart and not re.match(r":[\w-]+:", bare):
            start = start if paragraph else number
            paragraph.append(re.sub(r"^(?:[-*]|\d+\.) ", "", bare))
    if paragraph:
        yield "text", start, section, " ".join(paragraph)


def _until(lines: Iterator[tuple[int, str]], end: str) -> list[str]:
    body = []
    for _, line in lines:
        if line.strip().startswith(end):
            break
        body.append(line)
    return body


def _without_options(body: list[str]) -> str:
    if body and body[0].strip() == "---":
        body = body[body.index("---", 1) + 1 :]
    while body and re.match(r":[\w-]+:", body[0]):
        body = body[1:]
    return "\n".join(body)


# --- sentences ----------------------------------------------------------------------------------------------

_HIDDEN = re.compile(r"\{[\w:-]+\}`[^`]*`|`[^`]*`|\$[^$]+\$|\]\([^)]*\)")
_END = re.compile(r"[.!?][)”\"*_]*((?:\s*\x00\d+\x00)*)(?=\s+[\"“(*_{`\[A-ZÀ-Ý]|\s*$)")
_SHORT = re.compile(r"(?:\b(?:e\.g|i\.e|vs|cf|etc|Fig|eq)|\b[A-Z])\.$")


def split(paragraph: str) -> list[tuple[str, Mark | None]]:
    """The sentences of a paragraph, each with the mark that stands behind it."""
    marks = MARK.findall(paragraph)
    counter = iter(range(len(marks)))
    text = MARK.sub(lambda _: f"\0{next(counter)}\0", paragraph)
    # Dots and capitals within roles, code and formulas end no sentence.
    masked = _HIDDEN.sub(lambda found: "x" * len(found[0]), text)
    found, start = [], 0
    for end in _END.finditer(masked):
        if _SHORT.search(masked[: end.start() + 1]):
            continue
        found.append(text[start : end.end()])
        start = end.end()
    found.append(text[start:])
    return [_read(piece, marks) for piece in found if piece.strip()]


def _read(piece: str, marks: list[str]) -> tuple[str, Mark | None]:
    own = [mark(marks[int(k)]) for k in re.findall(r"\0(\d+)\0", piece)]
    text = " ".join(re.sub(r"\0\d+\0", "", piece).split())
    if not own:
        return text, None
    fields = zip(*map(astuple, own), strict=True)
    return text, Mark(*(tuple(x for part in parts for x in part) for parts in fields))


def mark(text: str) -> Mark:
    """Return what a mark says."""
    parts = [part.strip() for part in text.split(";")]
    chosen = parts.pop()[4:].split(",") if parts[-1].startswith("set ") else []
    return Mark(tuple(part for part in parts if part), tuple(map(float, chosen)))
