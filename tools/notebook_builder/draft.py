"""A notebook before it is executed: its text, the ids of its cells, and the box below a chapter's title."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import minutes
from notebook_builder import references
from notebook_builder.digests import digest
from notebook_builder.targets import BuildError, Target
from ppobook.course import masters
from ppobook.teaching.tags import Cell, Notebook

# What the kernel says of itself holds its Python's version, which would differ from machine to machine.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}


DEEPER = "The Deeper boxes are for a second reading: about {} minutes more."


def draft(target: Target) -> Notebook:
    """The notebook as its text says, without outputs."""
    cells = masters.read(target.source)["cells"]
    if target.kind == "chapter":
        if not cells or not cells[0]["source"].lstrip().startswith("# "):
            raise BuildError(f"{target.source.name}: its first cell has to be its title, '# TITLE'.")
        box = opening_box(target, minutes.count(cells))
        cells.insert(1, {"cell_type": "markdown", "metadata": {}, "source": box})
    _fold_code(cells)
    notebook: Notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": dict(METADATA), "cells": cells}
    _give_ids(cells)
    if target.kind != "chapter":
        try:
            masters.validate(notebook, outcomes=_outcomes(target))
        except masters.MasterError as error:
            relative = target.source.relative_to(target.root)
            raise BuildError("\n".join(f"{relative}: {line}" for line in str(error).splitlines())) from None
        if target.kind == "reader":
            notebook = masters.reader(notebook)
    references.as_text(notebook["cells"], target.source, target.root)
    return notebook


def _fold_code(cells: list[Cell]) -> None:
    # The tag speaks to the site; this is what JupyterLab listens to.
    for cell in cells:
        if "hide-input" in masters.tags(cell):
            cell["metadata"]["jupyter"] = {"source_hidden": True}


def _give_ids(cells: list[Cell]) -> None:
    # jupytext draws ids at random. A part of an exercise is called by its name, so that a reader's answer can
    # be found again after the text around it has changed; any other cell by a hash of what it says.
    used: dict[str, int] = {}
    for cell in cells:
        part = masters.part(cell)
        stem = f"{part.role}-{part.name}" if part else digest(cell["cell_type"], cell["source"])[:12]
        used[stem] = used.get(stem, 0) + 1
        cell["id"] = stem if used[stem] == 1 else f"{stem}-{used[stem]}"


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
    """What book.yml says of the target's chapter: title, minutes, needs, outcomes. None if it is silent."""
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
