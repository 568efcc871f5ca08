"""Whole sections of a page that are written from what the book holds, when the page is read.

A page says where they stand, `{outcomes}` in a fence of its own, and an extension says what they are:

    site_sections.add(app, "outcomes", write)

where `write(page, words)` returns lines of MyST, and `words` is what follows the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

from ppobook.teaching.contents import Task

log = logging.getLogger(__name__)


class UnfoundedError(ValueError):
    """A page says what is not, or no longer, so."""


class Page:
    """The page that is being written, and the book around it."""

    def __init__(self, app: Sphinx, docname: str) -> None:
        self.env, self.docname = app.env, docname
        self.root = Path(app.srcdir)
        self.chapters: dict[str, Any] = app.config.book_meta["chapters"]
        """The entries of book.yml for chapters, by the page's name."""

    def depend(self, *paths: str | Path) -> None:
        """Make the page anew when one of these files has changed."""
        for path in paths:
            self.env.note_dependency(str(self.root / path))

    def warn(self, error: UnfoundedError) -> None:
        """Say what is wrong, as a warning of the build, which makes it fail."""
        log.warning("%s", error, location=self.docname)


Writer = Callable[[Page, str], list[str]]


def add(app: Sphinx, name: str, write: Writer) -> None:
    """Have the fence of this name replaced by what the function writes."""
    fence = re.compile(rf"^```\{{{name}\}}[ \t]*(.*)\n```$", re.M)

    def replace(app: Sphinx, docname: str, source: list[str]) -> None:
        if docname.startswith("reference/"):
            page = Page(app, docname)
            source[0] = fence.sub(lambda found: "\n".join(write(page, found[1].strip())), source[0])

    app.connect("source-read", replace)


def set_of(name: str) -> str:
    """Return the name of a set of exercises, as "final assessment"; "" for a chapter's own."""
    title = name.rpartition("/")[2].partition("_")[2]
    return title.replace("_", " ") if title in ("clinic", "capstone", "final_assessment") else ""


def named(task: Task) -> str:
    """An exercise, linked by its number, with its title."""
    return f"{{ref}}`ex-{task.exercise.label}` {task.exercise.title}"
