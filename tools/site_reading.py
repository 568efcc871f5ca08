"""The reading list; conf.py loads this file as an extension.

`{reading} first` and `{reading} after` show the works of reference/reading.yml with a sentence on why;
`{reading} chapters` shows what each chapter recommends under "Further reading", in its own words.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from pybtex.database import parse_file
from pybtex.richtext import Text
from sphinx.application import Sphinx

import site_sections
from ppobook.course import references
from ppobook.teaching import tags
from ppobook.teaching.contents import number_of
from site_sections import Page

DATA = "reference/reading.yml"
BIBLIOGRAPHY = "references.bib"
_SECTION = re.compile(r"^##+ Further reading[ \t]*\n(.*?)(?=^#|^\(|\Z)", re.M | re.S)


def recommended(notebook: Path) -> str:
    """Return what is under "Further reading" in a chapter, with its citations as roles, or ""."""
    content = tags.read(notebook)
    references.as_roles(content)
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown" and (found := _SECTION.search(cell["source"])):
            return found[1].strip()
    return ""


def write(page: Page, which: str) -> list[str]:
    """`{reading} first` and `{reading} after` are lists, `{reading} chapters` a section a chapter."""
    if which != "chapters":
        page.depend(DATA)
        lists = yaml.safe_load((page.root / DATA).read_text(encoding="utf-8"))
        page.depend(BIBLIOGRAPHY)
        works = parse_file(page.root / BIBLIOGRAPHY).entries

        def title(key: str) -> str:
            return str(Text.from_latex(works[key].fields["title"]))

        return [
            f"- {{cite:t}}`{entry['key']}`, *{title(entry['key'])}*: {entry['why']}" for entry in lists[which]
        ]
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
