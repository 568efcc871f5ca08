"""The reading list; conf.py loads this file as an extension.

`{reading}` shows what each chapter recommends under "Further reading", in its own words.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import site_sections
from notebook_builder import references
from ppobook.teaching import tags
from ppobook.teaching.contents import number_of
from site_sections import Page

_SECTION = re.compile(r"^##+ Further reading[ \t]*\n(.*?)(?=^#|^\(|\Z)", re.M | re.S)


def recommended(notebook: Path) -> str:
    """Return what is under "Further reading" in a chapter, with its citations as roles, or ""."""
    content = tags.read(notebook)
    references.as_roles(content)
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown" and (found := _SECTION.search(cell["source"])):
            return found[1].strip()
    return ""


def write(page: Page, _words: str) -> list[str]:
    """`{reading}`: a section a chapter."""
    lines: list[str] = []
    for docname, chapter in page.chapters.items():
        notebook = page.root / f"{docname}.ipynb"
        page.depend(notebook)
        if said := recommended(notebook):
            lines += [f"## {number_of(docname)} · {chapter['title']}", ""]
            lines += [f"[The chapter](/{docname}.ipynb)", "", *said.splitlines(), ""]
    return lines


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    site_sections.add(app, "reading", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
