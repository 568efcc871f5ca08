"""The page of myths; conf.py loads this file as an extension.

`{myths}` shows reference/myths.yml: the sentences, who says them, what was measured, the verdicts. The
numbers are read by site_myth_numbers.py when the page is made. One that no longer bears its verdict out is a
warning, and so an error of the build.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from sphinx.application import Sphinx

import site_myth_numbers as numbers
import site_sections
from ppobook.teaching.contents import number_of
from site_sections import Page, UnfoundedError

DATA = "reference/myths.yml"


def read(root: Path) -> dict[str, dict[str, Any]]:
    """Return the myths by name."""
    found: dict[str, dict[str, Any]] = yaml.safe_load((root / DATA).read_text(encoding="utf-8"))
    return found


def measured(myth: dict[str, Any], name: str, of: numbers.Evidence) -> str:
    """Return what was measured, with its numbers.

    Raises
    ------
    UnfoundedError
        The numbers are not there, or speak against the verdict.
    """
    values = {
        key: re.sub(r"(?<!\w)-(?=\d)", "−", value) for key, value in numbers.of_myth(name, myth, of).items()
    }
    # Braces also belong to roles, as in {math}`x`.
    return re.sub(r"\{(\w+)\}(?!`)", lambda found: values[found[1]], myth["measured"])


def source_of(of: numbers.Evidence) -> str:
    """Return where the numbers come from, with seeds and date, and how to get them again."""
    said = []
    for name in dict.fromkeys(of.experiments):
        facts = json.loads((of.root / "results" / name / "facts.json").read_text(encoding="utf-8"))
        when = f"{len(facts['seeds'])} seeds, {facts['date']}"
        said.append(f"`results/{name}`, {when}; again with `ppobook record {name}`")
    for chapter in dict.fromkeys(of.chapters):
        said.append(
            f"the cells of chapter {number_of(chapter)}; again with `make notebooks NAME={chapter[:2]}`"
        )
    return f"*Read from {'; and from '.join(said)}.*"


def write(page: Page, _words: str) -> list[str]:
    """`{myths}`: a table of all, and a section for each."""
    page.depend(DATA)
    table = ["| The sentence | Verdict |", "| :--- | :--- |"]
    lines: list[str] = []
    for name, myth in read(page.root).items():
        of = numbers.Evidence(page.root)
        try:
            text = measured(myth, name, of)
        except UnfoundedError as error:
            page.warn(error)
            continue
        for experiment in of.experiments:
            page.depend(f"results/{experiment}/table.csv", f"results/{experiment}/facts.json")
        page.depend(*(f"chapters/{chapter}.ipynb" for chapter in of.chapters))
        table.append(f"| [{myth['heading']}](#myth-{name}) | {myth['verdict']} |")
        lines += section_of(name, myth, text, source_of(of))
    return [*table, "", *lines]


def section_of(name: str, myth: dict[str, Any], text: str, source: str) -> list[str]:
    """A myth's lines."""
    verdict = myth["verdict"].lower()
    return [
        *(f"(myth-{name})=", f"## “{myth['heading']}”: {verdict}", ""),
        *(f"**The sentence.** {myth['sentence'].strip()}", ""),
        *(f"**Who says it.** {myth['who'].strip()}", ""),
        *(f"**Verdict: {verdict}.** {myth['because'].strip()}", ""),
        *(f"**Measured.** {text.strip()} {source}", ""),
        *(f"**In the book.** {{ref}}`{myth['section']}`", ""),
    ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    site_sections.add(app, "myths", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
