"""From the master of an exercise set to what a reader opens, and back.

A master is one notebook, `exercises/masters/NN_name.md`, with statements, solutions and checks. Tags say
what a cell is:

- ``solution:NAME``, a code cell. What stands above its line ``# solution`` stays in the reader's
  notebook; the rest becomes a blank that raises a "not yet" message. The line is indented, so that the
  blank waits inside a function and never stops "Run all".
- ``test:NAME:POINTS``, a code cell that calls ``check("NAME", …)``. What stands below a line ``# hidden``
  is for the instructor only. Its metadata may have ``partial: {MISTAKE: SHARE}``, the share of the points
  that is left for a mistake that the check names.
- ``manual:NAME:POINTS``, a text cell that a person reads. What stands below ``<!-- solution -->`` is the
  model answer or the rubric.

The vocabulary is `ppobook.teaching.tags`. Notebooks are plain dictionaries.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ppobook.teaching.tags import Cell, Notebook
from ppobook.teaching.tags import exercises as exercises
from ppobook.teaching.tags import part as part
from ppobook.teaching.tags import parts as parts
from ppobook.teaching.tags import read as read
from ppobook.teaching.tags import tags as tags

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

NBVAL = ("nbval-check-output", "nbval-ignore-output")

ANSWER_HERE = "*Your answer: double-click this line and write here.*"

MARKER = re.compile(r"^([ \t]*)# solution[ \t]*$", re.M)
HIDDEN = re.compile(r"^[ \t]*# hidden[ \t]*$", re.M)
MODEL_ANSWER = re.compile(r"^[ \t]*<!--\s*solution\s*-->[ \t]*$", re.M)


@dataclass(frozen=True)
class Solution:
    """A part that the reader's notebook hides: "code", a whole cell, or "text", a model answer or rubric."""

    kind: str
    source: str


# --- ids ----------------------------------------------------------------------------------------------------


def notebook(cells: list[Cell]) -> Notebook:
    """A notebook of these cells, which get their ids.

    jupytext draws ids at random. A part of an exercise is called by its name, so that a reader's answer can
    be found again after the text around it has changed; any other cell by a hash of what it says.
    """
    used: dict[str, int] = {}
    for cell in cells:
        found = part(cell)
        said = "\0".join((cell["cell_type"], cell["source"])).encode()
        stem = f"{found.role}-{found.name}" if found else hashlib.sha256(said).hexdigest()[:12]
        used[stem] = used.get(stem, 0) + 1
        cell["id"] = stem if used[stem] == 1 else f"{stem}-{used[stem]}"
        if "hide-input" in tags(cell):
            # The tag speaks to the site; this is what JupyterLab listens to.
            cell["metadata"]["jupyter"] = {"source_hidden": True}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": dict(METADATA), "cells": cells}


# --- from the master to the reader, and back ----------------------------------------------------------------


def blank(source: str, name: str) -> str:
    """A solution cell as the reader sees it: what stands above ``# solution``, then a "not yet"."""
    marker = MARKER.search(source)
    if marker is None:
        raise ValueError(f"solution:{name} must have a line '# solution', and has none")
    return f'{source[: marker.start()]}{marker[1]}raise NotImplementedError("not yet: {name}")'


def reader(master: Notebook) -> Notebook:
    """The notebook that a reader opens: blanks for solutions, nothing hidden, no outputs.

    Tags stay, so that a part can be found again; a test cell is also tagged ``raises-exception``, with which
    JupyterLab's "Run all" goes on past a check that says "not yet".
    """
    notebook = copy.deepcopy(dict(master))
    for cell in notebook["cells"]:
        p = part(cell)
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
        kept = [tag for tag in tags(cell) if tag not in NBVAL]
        cell["metadata"].pop("partial", None)
        if p is not None and p.role == "solution":
            cell["source"] = blank(cell["source"], p.name)
        elif p is not None and p.role == "test":
            cell["source"] = visible(cell["source"])
            kept.append("raises-exception")
        elif p is not None:
            cell["source"] = MODEL_ANSWER.split(cell["source"])[0].rstrip() or ANSWER_HERE
        if kept:
            cell["metadata"]["tags"] = kept
        else:
            cell["metadata"].pop("tags", None)
    return notebook


def visible(source: str) -> str:
    return HIDDEN.split(source, maxsplit=1)[0].rstrip()


def solutions(master: str | Path | Notebook) -> dict[str, Solution]:
    """The parts that the reader's notebook leaves open, by name: code without markers, model answers."""
    notebook = master if isinstance(master, dict) else read(master)
    result = {}
    for p in parts(notebook):
        cell = notebook["cells"][p.index]
        if p.role == "solution":
            source = re.sub(MARKER.pattern + r"\n?", "", cell["source"], count=1, flags=re.M)
            result[p.name] = Solution("code", source)
        elif p.role == "manual":
            _, *answer = MODEL_ANSWER.split(cell["source"], maxsplit=1)
            if not answer:
                raise ValueError(f"manual:{p.name} must have a line '<!-- solution -->', and has none")
            result[p.name] = Solution("text", answer[0].strip())
    return result


def fill(notebook: Notebook, answers: Mapping[str, Solution | str]) -> Notebook:
    """A reader's notebook with answers, by name, in the place of blanks, whose outputs are cleared."""
    filled = copy.deepcopy(dict(notebook))
    open_parts = {p.name: p for p in parts(filled) if p.role in ("solution", "manual")}
    for name, answer in answers.items():
        cell = filled["cells"][open_parts[name].index]
        cell["source"] = answer.source if isinstance(answer, Solution) else answer
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return filled
