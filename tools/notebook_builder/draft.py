"""A notebook before it is executed: its text, the ids of its cells, and the box below a chapter's title."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from notebook_builder import references, rules
from notebook_builder.targets import BuildError, Target
from ppobook.course import masters
from ppobook.teaching import minutes
from ppobook.teaching.tags import Cell, Notebook

# A heading, with its label.
_HEADING = re.compile(r"^(?<!\)=\n)(?=(?:\([\w-]+\)=\n)?#{2,3} )", re.M)
# What is left of a folded section: its heading, and the line in italics below.
_TITLE = r"(?:\([\w-]+\)=\n)?#{2,3} (?:Deeper: .*|Claims|Cards)"
_FOLDED = re.compile(_TITLE + r"\n*(?:\*[^*\n]+\*\n*)?(?!\S)")
DEEPER = "The Deeper boxes are for a second reading: about {} minutes more."


def draft(target: Target) -> Notebook:
    """The notebook as its text says, without outputs."""
    cells = masters.read(target.source)["cells"]
    if target.kind == "chapter":
        box = opening_box(target, minutes.count(cells))
        cells = list(_in_sections(cells))
        cells.insert(1, {"cell_type": "markdown", "metadata": {}, "source": box})
    notebook = masters.notebook(cells)
    if target.kind in ("master", "reader"):
        facts = promises(target)
        outcomes = [outcome["id"] for outcome in facts["outcomes"]] if facts else None
        if said := rules.problems(notebook, outcomes=outcomes):
            relative = target.source.relative_to(target.root)
            raise BuildError("\n".join(f"{relative}: {line}" for line in said))
        if target.kind == "reader":
            notebook = masters.reader(notebook)
    try:
        references.as_text(notebook["cells"], target.source, target.root)
    except references.UnknownReferenceError as error:
        raise BuildError(str(error)) from None
    return notebook


def _in_sections(cells: list[Cell]) -> Iterator[Cell]:
    """The cells, a text cell for each section; sections that a first reading leaves out are folded."""
    for cell in cells:
        if cell["cell_type"] != "markdown":
            yield cell
            continue
        for text in filter(str.strip, _HEADING.split(cell["source"])):
            folded = _FOLDED.match(text)
            if folded:
                yield _text(folded[0], {"jp-MarkdownHeadingCollapsed": True})
                text = text[folded.end() :]
            if text.strip():
                yield _text(text, dict(cell["metadata"]))


def _text(source: str, metadata: dict[str, Any]) -> Cell:
    return {"cell_type": "markdown", "metadata": metadata, "source": source.strip()}


def promises(target: Target) -> dict[str, Any] | None:
    """Return book.yml's title, minutes, needs and outcomes of the target's chapter, or None."""
    name = f"chapters/{target.source.stem}"
    book = yaml.safe_load((target.root / "book.yml").read_text(encoding="utf-8"))
    facts: dict[str, Any] | None = book["meta"]["chapters"].get(name)
    for outcome in facts["outcomes"] if facts else ():
        # YAML silently splits an unquoted text at a comma inside braces.
        if set(outcome) != {"id", "text"}:
            raise BuildError(f"book.yml: a text of {name} with a comma needs quotes, got {outcome}")
    return facts


def opening_box(target: Target, chapter: minutes.Chapter) -> str:
    """The box below a chapter's title, from book.yml and what was counted, readable without directives."""
    facts = promises(target)
    if facts is None:
        raise BuildError(f"book.yml has no entry chapters/{target.source.stem} under meta: chapters:")
    return "\n".join(
        [
            ":::{admonition} In this chapter",
            "**Afterwards you can**",
            "",
            *[f"- {outcome['text']}" for outcome in facts["outcomes"]],
            "",
            "**You need first**",
            "",
            *[f"- {need}" for need in facts["needs"]],
            "",
            f"**It takes** about {minutes.about(chapter.minutes)} minutes to read, and up to "
            f"{_minutes(facts['minutes']['compute'])} to compute.",
            *([DEEPER.format(minutes.about(chapter.deeper))] if chapter.deeper else []),
            ":::",
        ]
    )


def _minutes(number: float) -> str:
    return f"{number:g} minute" + ("" if number == 1 else "s")
