"""From the master of an exercise set to what a reader opens, and back.

A master is one notebook, `exercises/masters/NN_name.md`, with statements, solutions and checks. Tags say
what a cell is:

- ``solution:NAME``, a code cell. What stands above its line ``# solution`` stays in the reader's
  notebook; the rest becomes a blank that raises a "not yet" message. The line is indented, so that the
  blank waits inside a function and never stops "Run all".
- ``test:NAME:POINTS``, a code cell that calls ``check("NAME", …)``. What stands below a line ``# hidden``
  is for the instructor only. Its metadata may have ``partial: {MISTAKE: SHARE}``, the share of the points that
  is left for a mistake that the check names.
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

from ppobook.teaching.tags import (
    EXERCISE,
    FACTS,
    LABEL,
    Cell,
    Exercise,
    Notebook,
    Part,
    exercises,
    part,
    parts,
    points,
    read,
    tags,
)

__all__ = [
    "Exercise",
    "MasterError",
    "Notebook",
    "Part",
    "Solution",
    "blank",
    "exercises",
    "fill",
    "notebook",
    "part",
    "parts",
    "problems",
    "read",
    "reader",
    "solutions",
    "tags",
    "validate",
]

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
ROLES = ("solution", "test", "manual")
# Tags that only say how a cell looks on the page.
LOOKS = (
    "hide-cell",
    "hide-input",
    "hide-output",
    "remove-cell",
    "remove-input",
    "remove-output",
    "remove-stderr",
    "remove-stdout",
    "scroll-output",
    "full-width",
    "margin",
)
NBVAL = ("nbval-check-output", "nbval-ignore-output")

ANSWER_HERE = "*Your answer: double-click this line and write here.*"

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MARKER = re.compile(r"^([ \t]*)# solution[ \t]*$", re.M)
_HIDDEN = re.compile(r"^[ \t]*# hidden[ \t]*$", re.M)
_MODEL_ANSWER = re.compile(r"^[ \t]*<!--\s*solution\s*-->[ \t]*$", re.M)
_HEADING = re.compile(r"^#{1,6} .+|^:::\{exercise\}.*", re.M)
_FACTS_FORM = "*Build · difficulty 2 of 5 · 10 minutes · outcome: OUTCOME*"


class MasterError(ValueError):
    """A master breaks the rules; the message has one sentence for each place where it does."""


@dataclass(frozen=True)
class Solution:
    """A part that the reader's notebook hides: ``kind`` is "code" or "text", ``source`` what to show.

    A code solution is the whole cell, less its marker line. A text solution is the model answer or rubric.
    ``cell_id`` is the id of the cell in the reader's notebook that it answers.
    """

    name: str
    kind: str
    source: str
    cell_id: str


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
        named = [tag for tag in tags(cell) if tag.split(":")[0] in ROLES]
        where = f"cell {index + 1}" + (f" ({', '.join(named)})" if named else "")
        said += [f"{where}: {sentence}" for sentence in (*_tag_problems(cell), *_source_problems(cell))]
    return [*said, *_name_problems(parts(master)), *_exercise_problems(master, outcomes)]


def validate(master: Notebook, outcomes: Collection[str] | None = None) -> None:
    """Refuse a master that breaks the rules.

    Raises
    ------
    MasterError
        With one sentence for each rule broken, naming the cell that breaks it.
    """
    said = problems(master, outcomes)
    if said:
        raise MasterError("\n".join(said))


def _tag_problems(cell: Cell) -> Iterator[str]:
    roles = [tag.split(":")[0] for tag in tags(cell) if tag.split(":")[0] in ROLES]
    if len(roles) > 1:
        yield "it has more than one role; a cell is a solution, a test or a manual part, not two of them."
    for tag in tags(cell):
        role, *rest = tag.split(":")
        if role not in ROLES:
            if tag not in (*LOOKS, *NBVAL):
                yield (
                    f"the tag {tag!r} is unknown; a role is solution:NAME, test:NAME:POINTS or "
                    f"manual:NAME:POINTS, and the other tags are {', '.join((*NBVAL, *LOOKS))}."
                )
            continue
        form = "solution:NAME" if role == "solution" else f"{role}:NAME:POINTS"
        if len(rest) != form.count(":"):
            yield f"the tag {tag} is malformed; it has the form {form}."
            continue
        if not _NAME.fullmatch(rest[0]):
            yield f"{rest[0]!r} is no name; use small letters, digits and single hyphens."
        if role != "solution" and points(rest[1]) is None:
            yield f"its points are {rest[1]!r}, which is not a number; write for instance {role}:{rest[0]}:2."


def _source_problems(cell: Cell) -> Iterator[str]:
    partial = cell["metadata"].get("partial", {})
    if not isinstance(partial, dict) or not all(
        isinstance(share, int | float) and 0 <= share <= 1 for share in partial.values()
    ):
        yield f"its partial must have a share from 0 to 1 for each mistake, got {partial!r}."
    source, code = cell["source"], cell["cell_type"] == "code"
    roles = {tag.split(":")[0] for tag in tags(cell)}
    for marker, pattern, role, belongs in (
        ("# solution", _MARKER, "solution", code),
        ("# hidden", _HIDDEN, "test", code),
        ("<!-- solution -->", _MODEL_ANSWER, "manual", not code),
    ):
        if role in roles and not belongs:
            needs, has = ("code", "text") if role != "manual" else ("text", "code")
            yield f"a {role} cell holds {needs}, and this one holds {has}."
        elif belongs and role not in roles and pattern.search(source):
            yield f"it has a line '{marker}' without the tag {role}:…, so readers would see what is below it."
    p = part(cell)
    if p is None or (p.role == "manual") == code:
        return
    if p.role == "manual":
        halves = _MODEL_ANSWER.split(source)
        if len(halves) != 2 or not halves[1].strip():
            yield "it needs one line '<!-- solution -->', with a model answer or a rubric below it."
        elif heading := _HEADING.search(halves[1]):
            yield (
                f"the line {heading[0]!r} below its model answer would vanish from the reader's notebook; "
                "end the cell above it, by '+++'."
            )
        return
    try:
        ast.parse(source)
    except SyntaxError as error:
        yield f"it is no Python: {error.msg}, in its line {error.lineno}."
        return
    yield from _solution_problems(source) if p.role == "solution" else _test_problems(source, p.name)


def _solution_problems(source: str) -> Iterator[str]:
    markers = list(_MARKER.finditer(source))
    if len(markers) != 1:
        yield f"it has {len(markers)} lines '# solution' and needs one; what stands above it is the reader's."
        return
    line = source[: markers[0].start()].count("\n") + 1
    tree = ast.parse(source)
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno < line <= (node.end_lineno or 0)
    ]
    if not functions:
        last = max((node.end_lineno or 0 for node in tree.body), default=0)
        if line > last and markers[0][1]:
            yield "there is no solution below its line '# solution'."
        else:
            yield "its line '# solution' is not inside a function, so the blank would stop 'Run all'."
        return
    # The innermost function is the one that begins last.
    end = max(functions, key=lambda node: node.lineno).end_lineno
    if any(getattr(node, "lineno", 0) > (end or 0) for node in ast.walk(tree)):
        yield (
            "what follows the function with the line '# solution' would vanish from the reader's notebook; "
            "put it above, or into a cell of its own."
        )
    try:
        ast.parse(blank(source, "name"))
    except SyntaxError as error:
        yield f"what the reader would get is no Python: {error.msg}."


def _test_problems(source: str, name: str) -> Iterator[str]:
    try:
        tree = ast.parse(_visible(source))
    except SyntaxError as error:
        yield f"what stands above its line '# hidden' is no Python: {error.msg}."
        return
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "check"]
    if not any(ast.unparse(argument) == repr(name) for call in calls for argument in call.args[:1]):
        yield f"it has to call check('{name}', …), above the line '# hidden' if there is one."


def _name_problems(tagged: list[Part]) -> Iterator[str]:
    seen: dict[tuple[str, str], int] = {}
    for p in tagged:
        # A solution and a model answer are both what the reader leaves open, so they share their names.
        key = ("test" if p.role == "test" else "open", p.name)
        where = f"cell {p.index + 1} ({p.role}:{p.name})"
        if key in seen:
            yield f"{where}: the name {p.name} was already used in cell {seen[key] + 1}; choose another."
        seen.setdefault(key, p.index)
    solved = {p.name: p.index for p in tagged if p.role == "solution"}
    tested = {p.name for p in tagged if p.role == "test"}
    for p in tagged:
        where = f"cell {p.index + 1} ({p.role}:{p.name})"
        if p.role == "test" and p.name not in solved:
            yield f"{where}: there is no solution:{p.name}, so nothing shows that the test can be passed."
        elif p.role == "test" and solved[p.name] > p.index:
            yield f"{where}: the test stands before its solution; put it after."
        elif p.role == "solution" and p.name not in tested:
            yield f"{where}: there is no test:{p.name}:POINTS, so no reader learns whether they are right."


def _exercise_problems(master: Notebook, outcomes: Collection[str] | None) -> Iterator[str]:
    found = exercises(master)
    labels: dict[str, int] = {}
    for exercise in found:
        source = master["cells"][exercise.start]["source"]
        where = f"cell {exercise.start + 1} (exercise {exercise.label or 'without a label'})"
        label, facts = LABEL.search(source), FACTS.search(source)
        if not label or not label[1].startswith("ex-") or not _NAME.fullmatch(exercise.label):
            yield f"{where}: it needs a line ':label: ex-NAME' below ':::{{exercise}} TITLE'."
        elif exercise.label in labels:
            yield f"{where}: its label was already used in cell {labels[exercise.label] + 1}."
        labels.setdefault(exercise.label, exercise.start)
        if len(EXERCISE.findall(source)) > 1:
            yield f"{where}: it begins more than one exercise; separate them by '+++'."
        if not exercise.parts:
            yield f"{where}: none of its cells is tagged solution, test or manual, so there is nothing to do."
        if not facts:
            yield f"{where}: it lacks its line '{_FACTS_FORM}'."
            continue
        if exercise.kind not in KINDS:
            yield f"{where}: its kind is {exercise.kind!r}; the kinds are {', '.join(KINDS)}."
        if not 1 <= exercise.difficulty <= 5:
            yield f"{where}: its difficulty must be an integer from 1 to 5, got {facts[2]!r}."
        if exercise.minutes < 1:
            yield f"{where}: its minutes must be an integer of at least 1, got {facts[3]!r}."
        if outcomes is not None and exercise.outcome not in outcomes:
            yield (
                f"{where}: its outcome {exercise.outcome!r} is not one of the chapter's in book.yml, "
                f"which are {', '.join(outcomes)}."
            )
    inside = {p.index for exercise in found for p in exercise.parts}
    for p in parts(master):
        if p.index not in inside:
            yield (
                f"cell {p.index + 1} ({p.role}:{p.name}): it belongs to no exercise; begin one above it, "
                "by a text cell with ':::{exercise} TITLE'."
            )


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
        raise MasterError(f"solution:{name} has no line '# solution'.")
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
    """Return the parts that the reader's notebook leaves open, by name: code without markers, model answers.

    Parameters
    ----------
    master : path or notebook
        The master's `.ipynb` (its cells have the ids of the reader's cells) or `.md`.
    """
    notebook = master if isinstance(master, dict) else read(master)
    result = {}
    for p in parts(notebook):
        cell = notebook["cells"][p.index]
        if p.role == "solution":
            source = re.sub(_MARKER.pattern + r"\n?", "", cell["source"], count=1, flags=re.M)
            result[p.name] = Solution(p.name, "code", source, cell.get("id", ""))
        elif p.role == "manual":
            source = _MODEL_ANSWER.split(cell["source"], maxsplit=1)[1].strip()
            result[p.name] = Solution(p.name, "text", source, cell.get("id", ""))
    return result


def fill(notebook: Notebook, answers: Mapping[str, Solution | str]) -> Notebook:
    """A reader's notebook with answers put where the blanks are; the outputs of these cells are cleared.

    Parameters
    ----------
    notebook : reader's notebook
    answers : mapping from NAME to a Solution, or to the source of the whole cell
        Names without an answer keep their blank.

    Raises
    ------
    ValueError
        An answer has a name that the notebook does not ask for.
    """
    filled = copy.deepcopy(dict(notebook))
    open_parts = {p.name: p for p in parts(filled) if p.role in ("solution", "manual")}
    for name, answer in answers.items():
        if name not in open_parts:
            asked = ", ".join(open_parts) or "nothing"
            raise ValueError(f"answers must have names that the notebook asks for, {asked}, got {name!r}")
        cell = filled["cells"][open_parts[name].index]
        cell["source"] = answer.source if isinstance(answer, Solution) else answer
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return filled
