"""The main road through a chapter, on the site; conf.py loads this file as an extension.

- A section whose title begins with "Deeper: " is folded: one sees its title and the line below, which open
  it. It stays a section, with its anchor and its line in the table of contents. (For links, search and
  printers _static/book.js opens it. In formats without scripts it is open.)
- Each section says below its title how many minutes its road takes; a place to stop says how many have passed
  since the last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from notebook_builder import references
from ppobook.teaching import minutes, tags

log = logging.getLogger(__name__)


# --- minutes ------------------------------------------------------------------------------------------------


def chapter_at(path: Path) -> minutes.Chapter:
    """The chapter that a notebook holds, counted with its references as they are written in its source."""
    notebook = tags.read(path)
    references.as_roles(notebook)
    return minutes.count(notebook["cells"])


def show_minutes(app: Sphinx, doctree: nodes.document) -> None:
    """Put its minutes below the title of each section of a chapter, and into each place to stop."""
    docname = app.env.docname
    if docname not in app.config.book_meta.get("chapters", {}):
        return
    chapter = chapter_at(Path(app.env.doc2path(docname)))
    page = next(doctree.findall(nodes.section))
    parts = [part for part in page.children if isinstance(part, nodes.section)]
    stops = [box for box in doctree.findall(nodes.admonition) if "sitting" in box["classes"]]
    if len(parts) != len(chapter.sections) - 1 or len(stops) != len(chapter.sittings):
        log.warning("its sections or places to stop are not those that were counted", location=docname)
        return
    for part, section in zip(parts, chapter.sections[1:], strict=True):
        if section.road.minutes > 0:
            said = minutes.said(section.road.minutes)
            part.insert(1, nodes.paragraph("", said, classes=["minutes"]))
    for box, before, now in zip(stops, [0.0, *chapter.sittings], chapter.sittings, strict=False):
        said = f" · {minutes.said(now - before)} since the {'last' if before else 'start'}"
        box[0] += nodes.inline("", said, classes=["minutes"])


# --- Deeper boxes -------------------------------------------------------------------------------------------


class FoldDeeper(SphinxPostTransform):
    """Fold the sections whose title begins with "Deeper: "."""

    default_priority = 900  # after all that looks for what is in a section
    builders = ("html", "dirhtml")

    def run(self, **_: Any) -> None:
        """Put what is in the section between the ends of a `details` element."""
        for section in self.document.findall(nodes.section):
            if section[0].astext().startswith(minutes.DEEPER):
                fold(section)


def fold(section: nodes.section) -> None:
    """Make a `details` element of a section, with its title and the line in italics in the summary."""
    title, *rest = section.children
    summary: list[nodes.Node] = [title]
    if rest and is_about(rest[0]):
        summary.append(nodes.inline("", "", *rest.pop(0).children, classes=["about"]))
    section.children = [
        html('<details class="deeper"><summary>'),
        *summary,
        html('</summary><div class="inside">'),
        *rest,
        html("</div></details>"),
    ]
    for child in section.children:
        child.parent = section


def is_about(node: nodes.Node) -> bool:
    """Return whether this is a paragraph in italics."""
    return isinstance(node, nodes.paragraph) and all(isinstance(part, nodes.emphasis) for part in node)


def html(text: str) -> nodes.raw:
    """A piece of HTML."""
    return nodes.raw("", text, format="html")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_post_transform(FoldDeeper)
    app.connect("doctree-read", show_minutes)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
