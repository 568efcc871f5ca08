"""Slides of a chapter, from its executed notebook: one idea each, in one HTML file that needs nothing else.

    deck = read_deck(Path("chapters/03_the_clipped_surrogate.ipynb"))
    Path("slides.html").write_text(as_html(deck))

A section gives its heading with its first sentence and those in bold, then its displayed equations, figures,
tables, short results and the code that a formula is named in. Deeper boxes are left out. What a section says
besides stands in the speaker's notes, word by word. Long slides are divided here; what is still a little too
large for a slide, the page's script makes smaller.
"""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ppobook.course.slide_text import Text
from ppobook.teaching import tags
from ppobook.teaching.contents import number_of
from ppobook.teaching.minutes import BESIDE, DEEPER, HIDDEN
from ppobook.teaching.tags import Cell

# What a slide of text holds, in characters and in points, and one of printed lines.
CHARACTERS = 560
POINTS = 5
LINES = 16
# How long the first two sentences of a section may be, to stand there both.
BEGINNING = 300
# How long an item of a list may be, to stand there with more than its first sentence.
ITEM = 120
# Of what is printed, fewer lines stand below a figure, or in the notes.
FEW = 3
ROWS = 9
FIGURE = "application/vnd.ppobook.figure+json"


@dataclass
class Slide:
    """One slide: its title, what is on it (HTML), of which kind it is, and the speaker's notes (HTML)."""

    title: str
    body: str
    kind: str
    notes: list[str] = field(default_factory=list)


@dataclass
class Deck:
    """The slides of a chapter."""

    title: str
    number: int
    slides: list[Slide]


def chapter_at(book: Path, name: str) -> Path:
    """The executed notebook of a chapter, by its number or its name.

    Raises
    ------
    ValueError
        There is none.
    """
    known = sorted((book / "chapters").glob("*.ipynb"))
    stem = Path(name).stem
    for path in known:
        if stem == path.stem or (stem.isdecimal() and int(stem) == number_of(path.name)):
            return path
    numbers = ", ".join(str(number_of(path.name)) for path in known)
    raise ValueError(f"CHAPTER must be one of {numbers}, or a chapter's name, got {name!r}")


def read_deck(path: Path) -> Deck:
    """Make the slides of an executed chapter."""
    notebook = tags.read(path)
    cells = [_as_written(cell) for cell in notebook["cells"]]
    return _Maker(path, cells).deck()


def _as_written(cell: Cell) -> Cell:
    """A cell with its references as they were written, where the notebook keeps them aside."""
    return {**cell, "source": cell["metadata"].get("page", cell["source"])}


class _Maker:
    """Goes through a chapter block by block and collects slides."""

    def __init__(self, path: Path, cells: list[Cell]) -> None:
        self.path, self.cells = path, cells
        self.number = number_of(path.name)
        others = {
            number_of(other.name): "\n\n".join(
                _as_written(cell)["source"] for cell in tags.read(other)["cells"]
            )
            for other in path.parent.glob("*.ipynb")
        }
        self.text = Text(self.number, cells, others)
        self.slides: list[Slide] = []
        self.heading, self.lead = "", ""
        self.off: int | None = None  # the level of the heading that led off the road
        self.points: list[str] = []
        self.first = False  # whether the section's first sentence is still to come

    def deck(self) -> Deck:
        title = self.text.plain(self._title())
        for cell in self.cells:
            if cell["cell_type"] == "markdown":
                for block in self.text.blocks(cell["source"]):
                    self._block(block.kind, block.source)
            elif self.off is None:
                self._code(cell)
        self._flush()
        self._outcomes()
        return Deck(title, self.number, list(_with_something(self.slides)))

    def _title(self) -> str:
        return next(
            block.source.lstrip("# ").strip()
            for block in self.text.blocks(self.cells[0]["source"])
            if block.kind == "heading"
        )

    def _outcomes(self) -> None:
        """Make the slide of outcomes from book.yml, behind the chapter's title and its first words."""
        book = yaml.safe_load((self.path.parents[1] / "book.yml").read_text(encoding="utf-8"))
        promised = book["meta"]["chapters"].get(f"chapters/{self.path.stem}", {}).get("outcomes", [])
        points = [self.text.html(outcome["text"].rstrip(".")) for outcome in promised]
        beginning = itertools.takewhile(lambda slide: slide.kind in ("title", "points"), self.slides)
        at = len(list(beginning))
        self.slides[at:at] = [
            Slide("After this chapter you can", _bullets(group), "outcomes") for group in _groups(points)
        ]

    # --- text -----------------------------------------------------------------------------------------------

    def _block(self, kind: str, source: str) -> None:
        if kind == "heading":
            self._begin(source)
            return
        if self.off is not None or kind in ("target", "sitting", "overview"):
            return
        rendered = self.text.render(source)
        if kind == "paragraph":
            self._paragraph(source, rendered)
        elif kind == "list":
            self._items(source, rendered)
        elif kind == "math":
            self._shown(rendered, "equation", rendered, self.lead)
        elif kind == "table":
            for part in _table_parts(rendered):
                self._shown(part, "table", "")
            self._note(rendered)
        elif kind == "code" and source.count("\n") <= LINES + 1:
            self._shown(rendered, "code", rendered, self.lead)
        else:
            self._note(rendered)

    def _begin(self, source: str) -> None:
        level = len(source) - len(source.lstrip("#"))
        title = source.strip("# \n")
        if self.off is not None and level > self.off:
            return
        self._flush()
        self.off = level if title.startswith(DEEPER) or title in BESIDE else None
        if self.off is None:
            self.heading, self.lead, self.first = self.text.html(title), "", True
            kind = "title" if level == 1 else "section"
            self.slides.append(Slide(self.heading, "", kind))

    def _paragraph(self, source: str, rendered: str) -> None:
        sentences = self.text.sentences(source)
        self.lead = self.text.html(sentences[-1]) if sentences else ""
        strong = [s for s in sentences if self.text.is_strong(s)]
        chosen = strong
        if self.first:
            two = len(self.text.plain(" ".join(sentences[:2]))) < BEGINNING
            begins = " ".join(sentences[: 1 + two])
            chosen = [begins, *(s for s in strong if s not in sentences[: 1 + two])]
        self.first = False
        self.points += [self.text.html(sentence) for sentence in chosen]
        self._note(rendered)

    def _items(self, source: str, rendered: str) -> None:
        items = self.text.items(source)
        if self.text.plain(self.heading).startswith("Summary"):
            self.points += [self.text.html(item) for item in items]
        else:
            self.points += [self.text.html(self._short(item)) for item in items]
        self._note(rendered)

    def _short(self, item: str) -> str:
        """The first sentences of a list's item, at least one."""
        sentences = self.text.sentences(item)
        kept = sentences[:1]
        for sentence in sentences[1:]:
            if len(self.text.plain(" ".join([*kept, sentence]))) > ITEM:
                break
            kept.append(sentence)
        return " ".join(kept)

    # --- code and its outputs -------------------------------------------------------------------------------

    def _code(self, cell: Cell) -> None:
        seen = not HIDDEN & set(tags.tags(cell))
        source = cell["source"].rstrip("\n")
        if seen and self.text.implements(source):
            for part in _code_parts(source):
                self._shown(f"<pre><code>{html.escape(part)}</code></pre>", "code", "")
        if "remove-cell" in tags.tags(cell):
            return
        options = cell["metadata"].get("mystnb", {})
        caption = self.text.html(options.get("figure", {}).get("caption", ""))
        alt = options.get("image", {}).get("alt", "")
        outputs = cell.get("outputs", [])
        for text in _printed(outputs, FEW + 1, LINES):
            self._shown(text, "printed", "")
        below = "".join(_printed(outputs, 1, FEW))
        for output in outputs:
            self._output(output.get("data", {}), caption, alt, below)
        if below and not any("data" in output for output in outputs):
            self._note(below)

    def _output(self, data: dict[str, Any], caption: str, alt: str, below: str) -> None:
        """A slide for something that a cell shows."""
        if FIGURE in data:
            alt = str(data[FIGURE].get("alt", alt))
        picture = _picture(data, alt)
        if picture:
            self._shown(f"<figure>{picture}{below}<figcaption>{caption}</figcaption></figure>", "figure", "")
        elif "text/html" in data and FIGURE not in data:
            for part in _table_parts(_joined(data["text/html"])):
                self._shown(part, "table", "")
        elif FIGURE in data:
            say = "An interactive figure: show it on the page of the book."
            said = f"<p class='live'>{say}</p><p>{caption}</p>"
            self._shown(said, "live", f"<p>{html.escape(alt)}</p>")

    # --- slides ---------------------------------------------------------------------------------------------

    def _note(self, rendered: str) -> None:
        if self.slides:
            self.slides[-1].notes.append(rendered)

    def _flush(self) -> None:
        """Put the points that were collected on the section's slide, and if they are many on further ones."""
        points, self.points = self.points, []
        if not points or not self.slides:
            return
        own = next(slide for slide in reversed(self.slides) if slide.kind in ("title", "section", "points"))
        groups = list(_groups(points))
        if own.body or own.kind == "points":
            at = len(self.slides)
        else:
            own.body, at = _bullets(groups.pop(0)), self.slides.index(own) + 1
        for group in groups:
            self.slides.insert(at, Slide(own.title, _bullets(group), "points"))
            at += 1

    def _shown(self, body: str, kind: str, note: str, lead: str = "") -> None:
        """A slide for one thing that is shown, below the heading of its section."""
        self._flush()
        lead = f"<p class='lead'>{lead}</p>" if 20 < len(self.text.plain(lead)) < 220 else ""
        self.slides.append(Slide(self.heading, lead + body, kind, [note] if note else []))


def _with_something(slides: list[Slide]) -> Iterator[Slide]:
    """The slides less those with a heading only; their notes go to the next."""
    kept: list[str] = []
    for slide in slides:
        if slide.body or slide.kind == "title":
            slide.notes[:0] = kept
            kept = []
            yield slide
        else:
            kept += slide.notes


def _groups(points: list[str]) -> Iterator[list[str]]:
    """Points by slides: neither too many nor too long."""
    group: list[str] = []
    size = 0
    for point in points:
        length = len(re.sub(r"<annotation.*?</annotation>|<[^>]+>", "", point, flags=re.S))
        if group and (size + length > CHARACTERS or len(group) == POINTS):
            yield group
            group, size = [], 0
        group.append(point)
        size += length
    if group:
        yield group


def _bullets(points: list[str]) -> str:
    if len(points) == 1:
        return f"<p class='one'>{points[0]}</p>"
    return "<ul>" + "".join(f"<li>{point}</li>" for point in points) + "</ul>"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _printed(outputs: list[dict[str, Any]], least: int, most: int) -> list[str]:
    """Return the printed output, where it has so many lines."""
    texts = [_joined(o["text"]).rstrip() for o in outputs if o["output_type"] == "stream"]
    return [f"<pre>{html.escape(text)}</pre>" for text in texts if least <= text.count("\n") + 1 <= most]


def _picture(data: dict[str, Any], alt: str) -> str:
    """An <img> with the picture in it; empty where there is none."""
    import base64

    if "image/svg+xml" in data:
        encoded = base64.b64encode(_joined(data["image/svg+xml"]).encode()).decode()
        return f'<img src="data:image/svg+xml;base64,{encoded}" alt="{html.escape(alt)}">'
    if "image/png" in data:
        encoded = _joined(data["image/png"]).replace("\n", "")
        return f'<img src="data:image/png;base64,{encoded}" alt="{html.escape(alt)}">'
    return ""


def _code_parts(source: str) -> Iterator[str]:
    """Code in parts for a slide each: at empty lines where there are some, and of like length."""
    part = ""
    for block in re.split(r"\n{2,}(?=\S)", source):
        both = f"{part}\n\n{block}" if part else block
        if part and both.count("\n") >= LINES:
            yield from _evenly(part)
            part = block
        else:
            part = both
    yield from _evenly(part)


def _evenly(block: str) -> Iterator[str]:
    lines = block.splitlines()
    size = math.ceil(len(lines) / math.ceil(len(lines) / LINES))
    for begin in range(0, len(lines), size):
        yield "\n".join(lines[begin : begin + size])


def _table_parts(rendered: str) -> Iterator[str]:
    """A table, in parts of some rows with the head on each; nothing where there is no table."""
    found = re.search(r"<table.*?</table>", re.sub(r"<style.*?</style>", "", rendered, flags=re.S), re.S)
    if not found:
        return
    head = re.search(r"<thead.*?</thead>", found[0], re.S)
    body = re.sub(r"<thead.*?</thead>", "", found[0], flags=re.S)
    rows = re.findall(r"<tr.*?</tr>", body, re.S)
    lengths = []
    for row in rows:
        # A row with long cells takes as much room as several.
        cells = [len(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<t[dh].*?</t[dh]>", row, re.S)]
        lengths.append(max(1, round(max(cells, default=0) / 60)))
    # Parts of like size, so that no row stands alone: each row is in the part that its middle falls into.
    total, done = sum(lengths), 0
    parts: dict[int, list[str]] = {}
    for row, length in zip(rows, lengths, strict=True):
        share = (done + length / 2) / total * math.ceil(total / ROWS)
        parts.setdefault(int(share), []).append(row)
        done += length
    for part in parts.values():
        yield f"<table>{head[0] if head else ''}<tbody>{''.join(part)}</tbody></table>"


def as_html(deck: Deck) -> str:
    """The deck as one page, with its style and its script in it."""
    folder = Path(__file__).parent
    style, script = ((folder / f"slides.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    parts = []
    for number, slide in enumerate(deck.slides, 1):
        head = f"<h{1 if slide.kind == 'title' else 2}>{slide.title}</h{1 if slide.kind == 'title' else 2}>"
        notes = f"<aside class='notes'>{''.join(slide.notes)}</aside>" if slide.notes else ""
        foot = f"<footer>{deck.number} · {html.escape(deck.title)} · {number} of {len(deck.slides)}</footer>"
        inside = f"<div class='inside'>{head}<div class='body'>{slide.body}</div></div>"
        name = f"slide {number} of {len(deck.slides)}"
        opening = f"<section class='slide {slide.kind}' id='s{number}' aria-label='{name}'>"
        parts.append(f"{opening}{inside}{foot}</section>{notes}")
    title = html.escape(f"{deck.number} · {deck.title}")
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{title}</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<style>{style}</style></head>\n<body><main>{chr(10).join(parts)}</main>"
        f"<p class='keys'>arrows: move · o: overview · n: notes · f: full screen</p>"
        f"<script>{script}</script></body></html>\n"
    )
