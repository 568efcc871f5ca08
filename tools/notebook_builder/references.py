"""References as text: what a notebook says where its cells are shown without the book's site.

JupyterLab knows neither the bibliography nor the labels of other notebooks, nor a label further down, and
shows `{cite}` and such `{ref}` as errors. So a notebook carries author, year, title and link as Markdown, and
keeps the text with its roles beside it, in the cell's metadata, for the site.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ppobook.teaching import tags
from ppobook.teaching.tags import Cell

# Where a cell keeps its text with roles.
PAGE = "page"
_ROLE = re.compile(r"\{(cite|cite:t|ref|eq|numref)\}`([^`]+)`")
_HEADING = re.compile(r"^#+ (.+)$")
_LABEL = re.compile(r"^\(([\w-]+)\)=$|^ *:?(?:label|name): *([\w-]+)$|\$\$ *\(([\w-]+)\)")
_EXERCISE = re.compile(r"^:{3,}\{exercise\} (.+)$")


class UnknownReferenceError(ValueError):
    """A text refers to something that is not there."""


def as_text(
    cells: list[Cell],
    source: Path,
    root: Path,
    *,
    held: Collection[str] | None = None,
    elsewhere: Callable[[Path, str], str] | None = None,
) -> None:
    """Put text in the place of citations and references, cell by cell.

    Parameters
    ----------
    cells : list of cells
    source : path
        The text that they come from.
    root : path
        The book's folder.
    held : collection of str, optional
        The labels that the notebook holds; all of its source if left out.
    elsewhere : callable, optional
        What a reference to another notebook becomes, from the path of its text and the title. If left out, a
        link between folders of the book.

    Raises
    ------
    UnknownReferenceError
        There is no such label, or no such entry in the bibliography.
    """
    places = {**_places(root), **_places_in(source)}
    elsewhere = elsewhere or _link
    drawn = [cell["metadata"]["mystnb"]["figure"] for cell in cells if tags.is_figure(cell)]
    figures = {figure["name"]: tags.figure_number(source.stem, i) for i, figure in enumerate(drawn, 1)}

    def words(found: re.Match[str]) -> str:
        kind, body = found.groups()
        if kind.startswith("cite"):
            return _citation(kind, body, root)
        title, label = m.groups() if (m := re.fullmatch(r"(.+?) *<(.+)>", body)) else ("", body)
        if label in figures:  # the option of a cell, which only the site reads
            return figures[label]
        if label not in places:
            raise UnknownReferenceError(
                f"{source.name}: no section, exercise or equation is labelled {label!r}."
            )
        path, heading = places[label]
        inside = path == source if held is None else label in held
        if inside and kind == "eq":
            return found[0]  # JupyterLab numbers the equations of a notebook itself
        if not title:
            title = f"the equation in “{heading}”" if kind == "eq" else f"“{heading}”"
        if inside:  # a link, since JupyterLab resolves a role only once its target was on the screen
            return f"[{title}](#{label})"
        return elsewhere(path, title)

    for cell in cells:
        if cell["cell_type"] == "markdown":
            text = _ROLE.sub(words, cell["source"])
            if text != cell["source"]:
                cell["metadata"][PAGE] = cell["source"]
                cell["source"] = text


def as_roles(notebook: dict[str, Any]) -> None:
    """Put the text with its roles back, for the site."""
    for cell in notebook["cells"]:
        text = cell["metadata"].pop(PAGE, None)
        if text is not None:
            cell["source"] = text


def _link(path: Path, title: str) -> str:
    return f"[{title}](../{'exercises' if path.parent.name == 'masters' else 'chapters'}/{path.stem}.ipynb)"


@functools.cache
def _places(root: Path) -> Mapping[str, tuple[Path, str]]:
    """Map each label to its file and the title of its section or exercise."""
    found: dict[str, tuple[Path, str]] = {}
    for path in [*root.glob("chapters/*.md"), *root.glob("exercises/masters/*.md")]:
        found.update(_places_in(path))
    return found


def _places_in(path: Path) -> Mapping[str, tuple[Path, str]]:
    return {label: (path, title) for label, title in labels(path.read_text(encoding="utf-8").splitlines())}


def labels(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each label in the lines of a text, with the title of its section or exercise."""
    waiting: list[str] = []
    title, fenced = "", False
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
            raise UnknownReferenceError(f"references.bib has no entry {key.strip()!r}.")
        authors, year, url = _entries(root)[key.strip()]
        text = f"{authors} ({year})" if kind == "cite:t" else f"{authors}, {year}"
        found.append(f"[{text}]({url})" if url else text)
    return " and ".join(found) if kind == "cite:t" else f"({'; '.join(found)})"


@functools.cache
def _entries(root: Path) -> Mapping[str, tuple[str, str, str]]:
    """Map each key in references.bib to the authors' names, the year, and the address if there is one."""
    from pybtex.database import parse_file

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
