"""The rules that a master of the book keeps: see `ppobook.course.masters` for its form."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from ppobook.course import masters
from ppobook.course.masters import HIDDEN, MARKER, MODEL_ANSWER, visible
from ppobook.teaching.tags import EXERCISE, LABEL, Cell, Notebook, Part, exercises, part, parts, tags

KINDS = ("Prove", "Build", "Hunt", "Reflect")
_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
_ROLE = re.compile(rf"solution:{_NAME}|(test|manual):{_NAME}:\d+(\.\d+)?")
_MARKERS = {
    "solution": ("# solution", MARKER, "code"),
    "test": ("# hidden", HIDDEN, "code"),
    "manual": ("<!-- solution -->", MODEL_ANSWER, "markdown"),
}
_HEADING = re.compile(r"^#{1,6} .+|^:::\{exercise\}.*", re.M)
_FACTS_FORM = "*Build · difficulty 2 of 5 · 10 minutes · outcome: OUTCOME*"


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
        halves = MODEL_ANSWER.split(source)
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
    tree, markers = ast.parse(source), list(MARKER.finditer(source))
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
    ast.parse(masters.blank(source, "name"))


def _test_problems(source: str, name: str) -> Iterator[str]:
    calls = [n for n in ast.walk(ast.parse(visible(source))) if isinstance(n, ast.Call)]
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
