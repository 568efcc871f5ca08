"""A notebook before it is executed: its text, the ids of its cells, and the box below a chapter's title."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import minutes
from notebook_builder.targets import BuildError, Target
from ppobook.course import masters, references
from ppobook.teaching.tags import Notebook

DEEPER = "The Deeper boxes are for a second reading: about {} minutes more."


def draft(target: Target) -> Notebook:
    """The notebook as its text says, without outputs."""
    cells = masters.read(target.source)["cells"]
    if target.kind == "chapter":
        if not cells or not cells[0]["source"].lstrip().startswith("# "):
            raise BuildError(f"{target.source.name}: its first cell has to be its title, '# TITLE'.")
        box = opening_box(target, minutes.count(cells))
        cells.insert(1, {"cell_type": "markdown", "metadata": {}, "source": box})
    notebook = masters.notebook(cells)
    if target.kind in ("master", "reader"):
        try:
            masters.validate(notebook, outcomes=_outcomes(target))
        except masters.MasterError as error:
            relative = target.source.relative_to(target.root)
            raise BuildError("\n".join(f"{relative}: {line}" for line in str(error).splitlines())) from None
        if target.kind == "reader":
            notebook = masters.reader(notebook)
    try:
        references.as_text(notebook["cells"], target.source, target.root)
    except references.UnknownReferenceError as error:
        raise BuildError(str(error)) from None
    return notebook


def _book(root: Path) -> dict[str, Any]:
    path = root / "book.yml"
    try:
        book = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BuildError("book.yml is missing; it says what each chapter promises.") from None
    except yaml.YAMLError as error:
        raise BuildError(f"book.yml can't be read: {error}") from None
    return book or {}


def promises(target: Target) -> dict[str, Any] | None:
    """Return book.yml's title, minutes, needs and outcomes of the target's chapter, or None."""
    name = f"chapters/{target.source.stem}"
    facts = _book(target.root).get("meta", {}).get("chapters", {}).get(name)
    if facts is None:
        return None
    missing = [key for key in ("title", "minutes", "needs", "outcomes") if key not in facts]
    if missing:
        raise BuildError(f"book.yml: {name} lacks {' and '.join(missing)}.")
    if set(facts["minutes"]) != {"compute"}:
        raise BuildError(
            f"book.yml: the minutes of {name} are {{compute: …}}; those to read are counted from its text."
        )
    for outcome in facts["outcomes"]:
        # YAML silently splits an unquoted text at a comma inside braces.
        if set(outcome) != {"id", "text"}:
            has = ", ".join(map(str, outcome))
            raise BuildError(
                f"book.yml: an outcome of {name} is {{id: …, text: …}}, and one has {has}; "
                "a text with a comma needs quotes."
            )
    return facts


def _outcomes(target: Target) -> list[str] | None:
    facts = promises(target)
    return None if facts is None else [outcome["id"] for outcome in facts["outcomes"]]


def opening_box(target: Target, chapter: minutes.Chapter) -> str:
    """The box below a chapter's title, from book.yml and what was counted, readable without directives."""
    facts = promises(target)
    if facts is None:
        raise BuildError(
            f"book.yml has no entry chapters/{target.source.stem} under meta: chapters:; "
            "give it a title, minutes, needs and outcomes."
        )
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
