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

The vocabulary (what a tag says, where an exercise begins) is `ppobook.teaching.tags`; here are the rules that
a master keeps, and the ways from a master to a reader's notebook and back. Notebooks are plain dictionaries.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ppobook.teaching.tags import EXERCISE, LABEL, Cell, Notebook, Part
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

KINDS = ("Prove", "Build", "Hunt", "Reflect")
NBVAL = ("nbval-check-output", "nbval-ignore-output")

ANSWER_HERE = "*Your answer: double-click this line and write here.*"

_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
_ROLE = re.compile(rf"solution:{_NAME}|(test|manual):{_NAME}:\d+(\.\d+)?")
_MARKER = re.compile(r"^([ \t]*)# solution[ \t]*$", re.M)
_HIDDEN = re.compile(r"^[ \t]*# hidden[ \t]*$", re.M)
_MODEL_ANSWER = re.compile(r"^[ \t]*<!--\s*solution\s*-->[ \t]*$", re.M)
_MARKERS = {
    "solution": ("# solution", _MARKER, "code"),
    "test": ("# hidden", _HIDDEN, "code"),
    "manual": ("<!-- solution -->", _MODEL_ANSWER, "markdown"),
}
_HEADING = re.compile(r"^#{1,6} .+|^:::\{exercise\}.*", re.M)
_FACTS_FORM = "*Build · difficulty 2 of 5 · 10 minutes · outcome: OUTCOME*"


@dataclass(frozen=True)
class Solution:
    """A part that the reader's notebook hides: ``kind`` is "code" or "text", ``source`` what to show.

    A code solution is the whole cell, less its marker line. A text solution is the model answer or rubric.
    """

    name: str
    kind: str
    source: str


# --- rules --------------------------------------------------------------------------------------------------


def problems(master: Notebook, outcomes: Collection[str] | None = None) -> list[str]:
    """List the violations of the rules in a master, a sentence each; empty where all is well.

    Parameters
    ----------
    master : notebook
    outcomes : collection of str, optional
        The outcome ids of the chapter, from book.yml; each exercise has to name one of them.
    """
    said = []
    for index, cell in enumerate(master["cells"]):
        roles = ", ".join(tag for tag in tags(cell) if tag.split(":")[0] in _MARKERS)
        where = f"cell {index + 1}" + (f" ({roles})" if roles else "")
        said += [f"{where}: {sentence}" for sentence in (*_tag_problems(cell), *_source_problems(cell))]
    return [*said, *_name_problems(parts(master)), *_exercise_problems(master, outcomes)]


def _tag_problems(cell: Cell) -> Iterator[str]:
    roles = [tag for tag in tags(cell) if tag.split(":")[0] in _MARKERS]
    if len(roles) > 1 or not all(map(_ROLE.fullmatch, roles)):
        yield (
            "it must have one tag solution:NAME, test:NAME:POINTS or manual:NAME:POINTS, with small letters, "
            f"digits and single hyphens, got {', '.join(roles)}."
        )
    partial = cell["metadata"].get("partial", {})
    if not isinstance(partial, dict) or not all(
        isinstance(share, int | float) and 0 <= share <= 1 for share in partial.values()
    ):
        yield f"its partial must have a share from 0 to 1 for each mistake, got {partial!r}."


def _source_problems(cell: Cell) -> Iterator[str]:
    source, p = cell["source"], part(cell)
    for role, (marker, pattern, kind) in _MARKERS.items():
        if kind == cell["cell_type"] and (p is None or p.role != role) and pattern.search(source):
            yield f"it has a line '{marker}' without the tag {role}:…, so readers would see what is below it."
    if p is None:
        return
    if cell["cell_type"] != _MARKERS[p.role][2]:
        yield f"a {p.role} cell must be of the kind {_MARKERS[p.role][2]}, got {cell['cell_type']}."
    elif p.role == "manual":
        halves = _MODEL_ANSWER.split(source)
        if len(halves) != 2 or not halves[1].strip():
            yield "it needs one line '<!-- solution -->', with a model answer or a rubric below it."
        elif heading := _HEADING.search(halves[1]):
            yield f"{heading[0]!r} below its model answer must stand in a cell of its own, after '+++'."
    else:
        try:
            yield from _solution_problems(source) if p.role == "solution" else _test_problems(source, p.name)
        except SyntaxError as error:
            yield f"it is no Python, or the reader's half of it is not: {error.msg}, line {error.lineno}."


def _solution_problems(source: str) -> Iterator[str]:
    tree, markers = ast.parse(source), list(_MARKER.finditer(source))
    line = source[: markers[0].start()].count("\n") + 1 if len(markers) == 1 else 0
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno < line < (node.end_lineno or 0)
    ]
    if not functions:
        yield f"it must have one line '# solution', inside a function, got {len(markers)}."
        return
    # The innermost function is the one that begins last.
    end = max(functions, key=lambda node: node.lineno).end_lineno or 0
    if any(getattr(node, "lineno", 0) > end for node in ast.walk(tree)):
        yield "nothing must follow the function with the line '# solution': readers would not see it."
    ast.parse(blank(source, "name"))


def _test_problems(source: str, name: str) -> Iterator[str]:
    calls = [n for n in ast.walk(ast.parse(_visible(source))) if isinstance(n, ast.Call)]
    said = [ast.unparse(n.args[0]) for n in calls if ast.unparse(n.func) == "check" and n.args]
    if repr(name) not in said:
        yield f"it has to call check('{name}', …), above the line '# hidden' if there is one."


def _name_problems(tagged: list[Part]) -> Iterator[str]:
    tests = [p.name for p in tagged if p.role == "test"]
    # A solution and a model answer are both what the reader leaves open, so they share their names.
    opened = [p.name for p in tagged if p.role != "test"]
    for p in tagged:
        where = f"cell {p.index + 1} ({p.role}:{p.name})"
        if (tests if p.role == "test" else opened).count(p.name) > 1:
            yield f"{where}: the name {p.name} must be used once."
        elif p.role != "manual" and not (p.name in tests and p.name in opened):
            yield f"{where}: a solution:{p.name} and a test:{p.name}:POINTS belong together, got one of them."


def _exercise_problems(master: Notebook, outcomes: Collection[str] | None) -> Iterator[str]:
    found = exercises(master)
    labels = [exercise.label for exercise in found]
    for exercise in found:
        source = master["cells"][exercise.start]["source"]
        where = f"cell {exercise.start + 1} (exercise {exercise.label or 'without a label'})"
        label = LABEL.search(source)
        if not label or not label[1].startswith("ex-") or labels.count(exercise.label) > 1:
            yield f"{where}: it needs a line ':label: ex-NAME' of its own below ':::{{exercise}} TITLE'."
        if len(EXERCISE.findall(source)) > 1 or not exercise.parts:
            yield f"{where}: its cell must begin one exercise, with a solution, test or manual part in it."
        facts = exercise.kind in KINDS and 1 <= exercise.difficulty <= 5 and exercise.minutes >= 1
        if not facts or (outcomes is not None and exercise.outcome not in outcomes):
            those = f", with an outcome of book.yml ({', '.join(outcomes)})" if outcomes else ""
            yield f"{where}: it needs a line '{_FACTS_FORM}', of a kind {', '.join(KINDS)}{those}."
    inside = {p.index for exercise in found for p in exercise.parts}
    for p in parts(master):
        if p.index not in inside:
            yield f"cell {p.index + 1} ({p.role}:{p.name}): it must belong to an exercise, begun above it."


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
    marker = _MARKER.search(source)
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
            cell["source"] = _visible(cell["source"])
            kept.append("raises-exception")
        elif p is not None:
            cell["source"] = _MODEL_ANSWER.split(cell["source"])[0].rstrip() or ANSWER_HERE
        if kept:
            cell["metadata"]["tags"] = kept
        else:
            cell["metadata"].pop("tags", None)
    return notebook


def _visible(source: str) -> str:
    return _HIDDEN.split(source, maxsplit=1)[0].rstrip()


def solutions(master: str | Path | Notebook) -> dict[str, Solution]:
    """The parts that the reader's notebook leaves open, by name: code without markers, model answers."""
    notebook = master if isinstance(master, dict) else read(master)
    result = {}
    for p in parts(notebook):
        cell = notebook["cells"][p.index]
        if p.role == "solution":
            source = re.sub(_MARKER.pattern + r"\n?", "", cell["source"], count=1, flags=re.M)
            result[p.name] = Solution(p.name, "code", source)
        elif p.role == "manual":
            source = _MODEL_ANSWER.split(cell["source"], maxsplit=1)[1].strip()
            result[p.name] = Solution(p.name, "text", source)
    return result


def fill(notebook: Notebook, answers: Mapping[str, Solution | str]) -> Notebook:
    """A reader's notebook with answers put where the blanks are; the outputs of these cells are cleared.

    Parameters
    ----------
    notebook : reader's notebook
    answers : mapping from NAME to a Solution, or to the source of the whole cell
        Names without an answer keep their blank.
    """
    filled = copy.deepcopy(dict(notebook))
    open_parts = {p.name: p for p in parts(filled) if p.role in ("solution", "manual")}
    for name, answer in answers.items():
        cell = filled["cells"][open_parts[name].index]
        cell["source"] = answer.source if isinstance(answer, Solution) else answer
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return filled
