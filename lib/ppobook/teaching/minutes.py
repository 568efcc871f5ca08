"""Estimate the minutes of a chapter's main road from its text.

Words of prose, lines of visible code, figures, tables and formulas count. What a reader may skip does not:
Deeper boxes, the box at the top, cards, exercises, further reading, claims, and folded code. The builder, the
site, `tools/minutes.py` and the schedules of a course use the same functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ppobook.teaching.tags import Cell

DEEPER = "Deeper: "
# Sections beside the road.
BESIDE = frozenset({"Cards", "Exercises", "Further reading", "Claims"})
HIDDEN = frozenset({"hide-input", "hide-cell", "remove-input", "remove-cell"})
# Minutes for each. A reader who was new to reinforcement learning took 659 minutes for an earlier edition's
# eleven roads; these weights gave 661. (A figure's caption counts as words too.)
WEIGHTS = {"words": 1 / 250, "inline": 0.03, "formulas": 1.25, "lines": 0.11, "figures": 0.5, "tables": 1.0}


@dataclass
class Counts:
    """Counts of the elements to be read."""

    words: int = 0
    inline: int = 0
    formulas: int = 0
    lines: int = 0
    figures: int = 0
    tables: int = 0

    @property
    def minutes(self) -> float:
        """The reading time by `WEIGHTS`."""
        return sum(weight * getattr(self, kind) for kind, weight in WEIGHTS.items())

    def add(self, other: Counts) -> None:
        """Count the other too."""
        for kind in WEIGHTS:
            setattr(self, kind, getattr(self, kind) + getattr(other, kind))


@dataclass
class Section:
    """A section of the second level with what is below it; the first is what stands before all others."""

    title: str
    label: str | None
    road: Counts = field(default_factory=Counts)
    deeper: Counts = field(default_factory=Counts)
    """Counts of its Deeper boxes."""


@dataclass
class Chapter:
    """A chapter's sections, and the minutes on the road up to each place where one may stop."""

    sections: list[Section]
    sittings: list[float]

    @property
    def minutes(self) -> float:
        """The whole road."""
        return sum(section.road.minutes for section in self.sections)

    @property
    def deeper(self) -> float:
        """All Deeper boxes."""
        return sum(section.deeper.minutes for section in self.sections)


def count(cells: Iterable[Cell]) -> Chapter:
    """Count a chapter, given as the cells of its source or of its notebook."""
    sections = [Section("", None)]
    sittings: list[float] = []
    off: tuple[int, str] | None = None  # the heading that led off the road
    for cell in cells:
        if cell["cell_type"] == "code":
            _place(sections[-1], off).add(_of_code(cell))
        elif cell["cell_type"] == "markdown":
            for block in _blocks(cell["source"]):
                if block.heading is not None:
                    level, title = block.heading
                    if off is not None and level <= off[0]:
                        off = None
                    if level == 2:
                        sections.append(Section(title, block.label))
                    if off is None and (title.startswith(DEEPER) or title in BESIDE):
                        off = block.heading
                for piece in block.pieces:
                    if piece is _SITTING:
                        sittings.append(sum(section.road.minutes for section in sections))
                    else:
                        _place(sections[-1], off).add(piece)
    return Chapter(sections, sittings)


def _place(section: Section, off: tuple[int, str] | None) -> Counts:
    """Return the counts for text below a heading that led off the road, or below none."""
    if off is None:
        return section.road
    return section.deeper if off[1].startswith(DEEPER) else Counts()


_SITTING = Counts()


@dataclass
class _Block:
    """A heading and what stands below it, up to the next; of the first, no heading."""

    heading: tuple[int, str] | None
    label: str | None
    pieces: list[Counts]


_HEADING = re.compile(r"(#{1,6})[ \t]+(.+?)[ \t]*#*$")
_LABEL = re.compile(r"\(([\w:.-]+)\)=[ \t]*$")
_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*(\{[\w-]+\}|[\w-]*)")
_COLONS = re.compile(r":{3,}[ \t]*(?:\{([\w-]+)\}[ \t]*(.*))?$")


def _blocks(text: str) -> list[_Block]:
    """Split a text cell at its headings, and count what is between them."""
    blocks = [_Block(None, None, [])]
    prose: list[str] = []
    label = None
    boxes: list[bool] = []  # of each colon fence around this line, whether it is the box at the top

    def flush() -> None:
        if prose:
            blocks[-1].pieces.append(_of_prose("\n".join(prose)))
            prose.clear()

    lines = iter(re.sub(r"<!--.*?-->", "", text, flags=re.S).splitlines())
    for line in lines:
        stripped = line.strip()
        if colons := _COLONS.match(stripped):
            if colons[1] is None:
                if boxes:
                    boxes.pop()
                continue
            boxes.append(colons[2].startswith("In this chapter"))
            flush()
            if colons[1] in ("figure", "image"):
                blocks[-1].pieces.append(Counts(figures=1))
            if not any(boxes) and colons[2]:
                prose.append(colons[2])
        elif any(boxes):
            continue
        elif fence := _FENCE.match(stripped):
            body = []
            for inner in lines:
                if inner.strip().startswith(fence[1]) and not inner.strip().strip(fence[1][0]):
                    break
                body.append(inner)
            flush()
            blocks[-1].pieces.append(_of_fence(fence[2].strip("{}"), body))
        elif stripped == "$$":
            for inner in lines:
                if inner.strip().startswith("$$"):
                    break
            flush()
            blocks[-1].pieces.append(Counts(formulas=1))
        elif heading := _HEADING.match(line):
            flush()
            blocks.append(_Block((len(heading[1]), heading[2]), label, []))
            prose.append(heading[2])
            label = None
        elif found := _LABEL.match(stripped):
            label = found[1]
        elif boxes and stripped == ":class: sitting":
            flush()
            blocks[-1].pieces.append(_SITTING)
        elif not (boxes and re.match(r":[\w-]+:", stripped)):
            prose.append(line)
    flush()
    return blocks


def _of_prose(text: str) -> Counts:
    """Count words and formulas."""
    tables = len(re.findall(r"^[ \t]*\|[ \t]*:?-[-:| \t]*$", text, re.M))
    formulas = len(re.findall(r"^\\begin\{(?:align|equation|gather)", text, re.M))
    formulas += len(re.findall(r"\$\$.+?\$\$", text, re.S))
    text = re.sub(r"\$\$.+?\$\$(?:[ \t]*\([\w-]+\))?", " ", text, flags=re.S)
    text, inline = re.subn(r"\{math\}`[^`]*`|(?<![\\$])\$[^$\n]+\$", " ", text)
    text = re.sub(r"\{[\w:-]+\}`([^`<]*)(?:<[^`>]*>)?`", r" \1 ", text)  # a role: its words, or its target
    text, pictures = re.subn(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\]\([^)\s]*\)", "] ", text)  # a link's words are read, its address is not
    words = sum(bool(re.search(r"\w", word)) for word in text.split())
    return Counts(words=words, inline=inline, formulas=formulas, tables=tables, figures=pictures)


def _of_fence(kind: str, body: list[str]) -> Counts:
    if kind == "math":
        return Counts(formulas=1)
    if kind in ("figure", "image"):
        return Counts(figures=1)
    if kind == "list-table":
        return Counts(tables=1)
    return Counts(lines=sum(bool(line.strip()) for line in body))


def _of_code(cell: Cell) -> Counts:
    metadata: dict[str, Any] = cell["metadata"]
    options = metadata.get("mystnb", {})
    source = cell["source"]
    drawn = "figure" in options or "image" in options or re.search(r"^(figures\.\w+|quiz)\(", source, re.M)
    seen = not HIDDEN & set(metadata.get("tags", []))
    caption = options.get("figure", {}).get("caption", "")
    found = _of_prose(caption)
    found.figures += bool(drawn)
    found.tables += not drawn and _shows_a_value(source)
    found.lines += sum(bool(line.strip()) for line in source.splitlines()) if seen else 0
    return found


def _shows_a_value(source: str) -> bool:
    """Say whether a cell ends in a value, which in this book is a table."""
    source = source.rstrip()
    last = ast.parse(source).body[-1:]
    called = re.match(r"(print|cards|check)\(", ast.unparse(last[0])) if last else None
    return bool(last) and isinstance(last[0], ast.Expr) and not called and not source.endswith(";")


# --- how minutes are put ------------------------------------------------------------------------------------


def said(minutes: float) -> str:
    """In whole minutes, of which there is at least one: "1 minute", "12 minutes"."""
    whole = max(1, round(minutes))
    return f"{whole} minute" + ("" if whole == 1 else "s")


def about(minutes: float) -> int:
    """A chapter's minutes, to the nearest five: nobody reads more evenly than that."""
    return max(5, 5 * round(minutes / 5))
