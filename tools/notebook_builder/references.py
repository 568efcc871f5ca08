"""References as text: what a notebook says where its cells are shown without the book's site.

JupyterLab knows neither the bibliography nor the labels of other notebooks, nor a label further down, and
shows `{cite}` and such `{ref}` as errors. So a notebook carries author, year, title and link as Markdown, and
keeps the text with its roles beside it, in the cell's metadata, for the site.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pybtex.database import parse_file

from notebook_builder.targets import BuildError
from ppobook.teaching.tags import Cell

# Where a cell keeps its text with roles.
PAGE = "page"
_ROLE = re.compile(r"\{(cite|cite:t|ref|eq|numref)\}`([^`]+)`")
_HEADING = re.compile(r"^#+ (.+)$")
_LABEL = re.compile(r"^\(([\w-]+)\)=$|^ *:?(?:label|name): *([\w-]+)$|\$\$ *\(([\w-]+)\)")
_EXERCISE = re.compile(r"^:{3,}\{exercise\} (.+)$")


def as_text(cells: list[Cell], source: Path, root: Path) -> None:
    """Put text in the place of citations and references, cell by cell."""
    places = _places(root)
    figures = {
        cell["metadata"].get("mystnb", {}).get("figure", {}).get("name"): i for i, cell in enumerate(cells)
    }

    def words(found: re.Match[str], here: int) -> str:
        kind, body = found.groups()
        if kind.startswith("cite"):
            return _citation(kind, body, root)
        title, label = m.groups() if (m := re.fullmatch(r"(.+?) *<(.+)>", body)) else ("", body)
        if label in figures:  # the option of a cell, which only the site reads
            begins = found.string[: found.start()].rstrip().endswith((".", "!", "?")) or not found.start()
            return f"{'The' if begins else 'the'} figure {'above' if figures[label] < here else 'below'}"
        if label not in places:
            raise BuildError(f"{source.name}: no section, exercise or equation is labelled {label!r}.")
        path, heading = places[label]
        if path == source and kind == "eq":
            return found[0]  # JupyterLab numbers the equations of a notebook itself
        if not title:
            title = f"the equation in “{heading}”" if kind == "eq" else f"“{heading}”"
        if path == source:  # a link, since JupyterLab resolves a role only once its target was on the screen
            return f"[{title}](#{label})"
        return (
            f"[{title}](../{'exercises' if path.parent.name == 'masters' else 'chapters'}/{path.stem}.ipynb)"
        )

    for i, cell in enumerate(cells):
        if cell["cell_type"] == "markdown":
            text = _ROLE.sub(lambda found, i=i: words(found, i), cell["source"])
            if text != cell["source"]:
                cell["metadata"][PAGE] = cell["source"]
                cell["source"] = text


def as_roles(notebook: dict[str, Any]) -> None:
    """Put the text with its roles back, for the site."""
    for cell in notebook["cells"]:
        text = cell["metadata"].pop(PAGE, None)
        if text is not None:
            cell["source"] = text


@cache
def _places(root: Path) -> Mapping[str, tuple[Path, str]]:
    """Of each label, its file and the title of its section or exercise."""
    found = {}
    for path in [*root.glob("chapters/*.md"), *root.glob("exercises/masters/*.md")]:
        for label, title in _labels(path.read_text(encoding="utf-8").splitlines()):
            found[label] = path, title
    return found


def _labels(lines: list[str]) -> Iterator[tuple[str, str]]:
    title, waiting, fenced = "", [], False
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
        if (heading := _EXERCISE.match(line)) or (not fenced and (heading := _HEADING.match(line))):
            title = heading[1]
            yield from ((label, title) for label in waiting)
            waiting = []
        for found in _LABEL.finditer(line):
            label = next(filter(None, found.groups()))
            if line.endswith(")="):
                waiting.append(label)  # of the heading that follows
            else:
                yield label, title


def _citation(kind: str, keys: str, root: Path) -> str:
    found = []
    for key in keys.split(","):
        if key.strip() not in _entries(root):
            raise BuildError(f"references.bib has no entry {key.strip()!r}.")
        authors, year, url = _entries(root)[key.strip()]
        text = f"{authors} ({year})" if kind == "cite:t" else f"{authors}, {year}"
        found.append(f"[{text}]({url})" if url else text)
    return " and ".join(found) if kind == "cite:t" else f"({'; '.join(found)})"


@cache
def _entries(root: Path) -> Mapping[str, tuple[str, str, str]]:
    """Of each key in references.bib, the authors' names, the year, and the address if there is one."""
    entries = {}
    for key, entry in parse_file(str(root / "references.bib")).entries.items():
        people = [[*p.rich_prelast_names, *p.rich_last_names] for p in entry.persons["author"]]
        names = [" ".join(map(str, names)) for names in people]
        authors = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
        doi = entry.fields.get("doi")
        entries[key] = (
            authors,
            entry.fields["year"],
            entry.fields.get("url") or (f"https://doi.org/{doi}" if doi else ""),
        )
    return entries
