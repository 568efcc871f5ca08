"""Packs: the chosen exercises of one or more sets, as a notebook that a student opens in Jupyter, zipped.

A pack is made from the masters, as the reader's notebook of the book is: no solution, nothing hidden, no
outputs. It holds each set's introduction, the chosen exercises and the given cells that these use. References
say in words where in the book something stands, because the site's pages of the exercises have the solutions.
What is private (rubrics, expressions) is in the manifest, `release/ASSIGNMENT.json`, beside the zip. The same
course gives the same bytes.
"""

from __future__ import annotations

import copy
import io
import json
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from ppobook.course import masters, own_checks, sets, trail, variants
from ppobook.course.handing_in import front_cell, how_to_hand_in, install_cell, requirements
from ppobook.course.records import Pack, PackPart, answers_of
from ppobook.course.sets import ExerciseSet, choose
from ppobook.course.settings import Assignment, Course
from ppobook.course.variants import Variant
from ppobook.run.files import atomic_write
from ppobook.teaching import checks
from ppobook.teaching.contents import number_of
from ppobook.teaching.tags import Cell, Exercise, Notebook, part, tags
from ppobook.teaching.workspace import find_source
from ppobook.validation import choice

RELEASE = "release"
EARLIER = "release/earlier"

_LINK = re.compile(r"\[([^\]]+)\]\((?:#([\w-]+)|\.\./(\w+)/([^)]*))\)")
_LABEL = re.compile(r"^\(([\w-]+)\)=$|^ *:?(?:label|name): *([\w-]+)$|\$\$ *\(([\w-]+)\)", re.M)
# What an introduction says of the solutions on the site, or of exercises that a pack may lack.
_UNTRUE = re.compile(r"\b(solutions?|model answers?)\b|\]\(#ex-", re.I)


# --- what was handed out ------------------------------------------------------------------------------------


def released(course: Course, name: str) -> Pack | None:
    """The pack of an assignment as it was handed out; None where it was not released."""
    path = course.folder / RELEASE / f"{name}.json"
    return _read(path) if path.exists() else None


def handed_out(course: Course, name: str) -> Pack:
    pack = released(course, course.assignment(name).name)
    if pack is None:
        raise ValueError(f"assignment {name} must be released first: ppobook course release {name}")
    return pack


def earlier(course: Course, name: str) -> list[Notebook]:
    return [_read(path).notebook for path in sorted((course.folder / EARLIER).glob(f"{name}.*.json"))]


def _read(path: Path) -> Pack:
    facts = json.loads(path.read_text(encoding="utf-8"))
    return Pack(**{**facts, "parts": tuple(PackPart(**one) for one in facts["parts"])})


def drawn(course: Course, pack: Pack) -> dict[str, Variant]:
    found = sets.open_all(pack.set, course.folder)
    return {name: form for one in found for name, form in _drawn(course, pack.assignment, one, pack.notebook)}


def _drawn(
    course: Course, name: str, found: ExerciseSet, notebook: Notebook
) -> Iterator[tuple[str, Variant]]:
    declared = variants.declared(found.path)
    for one in masters.parts(notebook):
        if one.name in declared:
            yield one.name, variants.draw(course.secret, name, one.name, declared[one.name])


def solved(course: Course, pack: Pack) -> Notebook:
    """Return a pack's notebook with model answers, and solutions in the variants that were handed out."""
    forms = drawn(course, pack)
    answers = {one.name: one.rubric for one in pack.manual}
    asked = {p.name for p in masters.parts(pack.notebook) if p.role == "solution"}
    for found in sets.open_all(pack.set, course.folder):
        for name, one in masters.solutions(found.notebook).items():
            if name in asked:
                answers[name] = forms[name].solution(one.source) if name in forms else one.source
    return masters.fill(pack.notebook, answers)


# --- making -------------------------------------------------------------------------------------------------


def make(course: Course, assignment: Assignment) -> Pack:
    """The pack of an assignment. It refuses what could not be graded."""
    found = sets.open_all(assignment.set, course.folder)
    cells: list[Cell] = []
    parts: list[PackPart] = []
    with ExitStack() as stack:
        for one, chosen in zip(found, sets.chosen(found, assignment.exercises), strict=True):
            own_checks.refuse(one)
            cells_of = one.notebook["cells"]
            kept = [copy.deepcopy(cells_of[i]) for i in choose(one, chosen)]
            master = {**one.notebook, "cells": kept}
            reader, rubrics = _of_set(course, assignment, one, master, chosen)
            parts += _parts(reader, master, rubrics, assignment)
            own_checks.handed_in_later(reader, stack.enter_context(own_checks.known(one)))
            cells += reader
        for name, shares in {**{one.name: one.partial for one in parts}, **assignment.partial}.items():
            for mistake in shares:
                choice(f"partial: a mistake in {name}", mistake, checks.mistakes(name))
    worth = {one.name: one.points for one in parts}
    if len(worth) < len(parts):
        raise ValueError("each part must be in it once, got one that two of its sets have")
    for what, given in (("points", assignment.points), ("partial", assignment.partial)):
        for name in given:
            choice(f"{what} of {assignment.name}", name, worth)
    rows = [
        (one, sum(worth[p.name] for p in one.parts if p.points is not None))
        for one in masters.exercises({"cells": cells})
    ]
    origin = " and ".join(
        "your instructor" if one.own else f"chapter {number_of(one.name)} of the book" for one in found
    )
    # Ids anew, since a given cell may stand in two sets.
    notebook = masters.notebook([front_cell(course, assignment, origin, rows), install_cell(course), *cells])
    for cell in notebook["cells"]:
        _mark(cell, worth)
    return Pack(assignment.name, notebook, tuple(parts), assignment.set)


def _of_set(
    course: Course, assignment: Assignment, found: ExerciseSet, master: Notebook, chosen: Sequence[Exercise]
) -> tuple[list[Cell], dict[str, str]]:
    """The cells of one set as students get them, and the model answers and rubrics by part."""
    notebook = masters.reader(master)
    forms = dict(_drawn(course, assignment.name, found, notebook))
    for form in forms.values():
        notebook = form.apply(notebook)
    cells = notebook["cells"]
    if not found.own:
        _shorten(cells)
    text = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    held = {"".join(label) for label in _LABEL.findall(text)}
    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = _in_words(cell["source"], held)
    # Of a cell that held nothing but hints on the book's bug, nothing is left.
    cells = [cell for cell in cells if cell["source"].strip() or part(cell)]
    return cells, {name: _in_words(text, ()) for name, text in _rubrics(master, forms).items()}


def _rubrics(master: Notebook, forms: Mapping[str, Variant]) -> dict[str, str]:
    """Model answers and rubrics by part; where another bug was planted, about that one."""
    found = {name: one.source for name, one in masters.solutions(master).items() if one.kind == "text"}
    for exercise in masters.exercises(master):
        names = dict.fromkeys(p.name for p in exercise.parts)
        for form in (forms[name] for name in names if name in forms and forms[name].bug):
            said = f"**In this course another bug is planted: {form.bug}.** What follows is about the book's."
            found |= {name: form.rubric or f"{said}\n\n{found[name]}" for name in names if name in found}
    return found


def _parts(
    cells: list[Cell], master: Notebook, rubrics: Mapping[str, str], assignment: Assignment
) -> Iterator[PackPart]:
    """The parts, with the questions as students read them and the expressions that checks are given."""
    partial = {p.name: p.partial for p in masters.parts(master) if p.role == "test"}
    for exercise in masters.exercises({"cells": cells}):
        said: list[str] = []
        for cell in cells[exercise.start : exercise.stop]:
            p = part(cell)
            if p is None and cell["cell_type"] == "markdown":
                said.append(cell["source"])
            if p is None or p.points is None:
                continue
            points = assignment.points.get(p.name, p.points)
            facts = (p.name, p.role, points, exercise.label, exercise.title)
            if p.role == "test":
                called = answers_of(cell["source"])
                if p.name not in called:
                    raise ValueError(f"the test of {p.name} must call check({p.name!r}, …) with one argument")
                yield PackPart(*facts, expression=called[p.name], partial=partial[p.name])
            else:
                yield PackPart(*facts, question="\n\n".join(said), rubric=rubrics[p.name])


def _shorten(cells: list[Cell]) -> None:
    """Leave out of the introduction the paragraphs that are not true of a pack."""
    for cell in cells:
        if masters.exercises({"cells": [cell]}):
            return
        if cell["cell_type"] != "markdown":
            continue
        kept = [one for one in cell["source"].split("\n\n") if one.strip() and not _UNTRUE.search(one)]
        cell["source"] = "\n\n".join(kept)


def _in_words(text: str, held: Collection[str]) -> str:
    """A text with words in the place of links to what is elsewhere in the book."""

    def words(found: re.Match[str]) -> str:
        title, label, folder, name = found.groups()
        if label in held:
            return found[0]
        chapter = folder == "chapters" and title.startswith("“")
        return f"{title} (chapter {number_of(name)} of the book)" if chapter else title

    return _LINK.sub(words, text)


def _mark(cell: Cell, worth: Mapping[str, float]) -> None:
    """Say in a cell's metadata which part it is and what it is worth, and keep Jupyter from deleting it."""
    p, kept = part(cell), tags(cell)
    if p is not None and p.points is not None:
        points = f"{p.role}:{p.name}:{worth[p.name]:g}"
        kept = [points, *(tag for tag in kept if tag.split(":")[0] not in ("test", "manual"))]
    facts = {key: cell["metadata"][key] for key in ("jupyter",) if key in cell["metadata"]}
    cell["metadata"] = {**facts, **({"tags": kept} if kept else {}), "deletable": False}
    if cell["cell_type"] == "markdown" and p is None:
        cell["metadata"]["editable"] = False


# --- releasing ----------------------------------------------------------------------------------------------


def zipped(course: Course, pack: Pack) -> bytes:
    """The zip that students get; its times are fixed and nothing is compressed, so its bytes are the same."""
    assignment = course.assignment(pack.assignment)
    files = {
        f"{pack.assignment}.ipynb": _json(pack.notebook),
        "HOW_TO_HAND_IN.md": how_to_hand_in(course, assignment),
    }
    if course.book:
        files["requirements.txt"] = requirements(course)
        files["constraints.txt"] = (find_source() / "constraints.txt").read_text(encoding="utf-8")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(f"{pack.assignment}/{name}", (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, text.encode())
    return content.getvalue()


def release(course: Course, name: str, *, replace: bool = False) -> tuple[Pack, str]:
    """Write an assignment's zip and its manifest into the course's folder.

    With `replace` it is released again where what was handed out differs; the manifest before is kept in
    `release/earlier`. What comes back is the pack and "new", "unchanged" or "changed".
    """
    pack = make(course, course.assignment(name))
    content = zipped(course, pack)
    folder = course.folder / RELEASE
    path, manifest = folder / f"{name}.zip", folder / f"{name}.json"
    before = released(course, name)
    same = before is not None and before.digest == pack.digest
    state = "new" if before is None else "unchanged" if same else "changed"
    if state == "changed" and not replace:
        raise ValueError(
            f"assignment {name}: it must be as it was released, for students may have it, and course.yml or "
            "the book has changed since; --replace releases it anew"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if before is not None and not same:
        earlier = course.folder / EARLIER
        earlier.mkdir(exist_ok=True)
        atomic_write(earlier / f"{name}.{before.digest[:12]}.json", manifest.read_text("utf-8"))
    # The manifest last: what it says was handed out is there.
    atomic_write(path, content)
    if not same:
        atomic_write(manifest, _json(asdict(pack)))
        trail.note(course.folder, "release", assignment=name, pack=pack.digest)
    return pack, state


def _json(content: object) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
