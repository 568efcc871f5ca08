"""Packs: the chosen exercises of a set, as a notebook that a student opens in JupyterLab, zipped.

A pack is made from the master, as the reader's notebook of the book is: no solution, nothing hidden, no
outputs. It holds the set's introduction, the chosen exercises and the given cells that these use. References
say in words where in the book something stands, for the site's pages of the exercises have the solutions.
Each cell carries nbgrader's metadata, so that nbgrader's own tools can read a pack. What is private (rubrics,
expressions) is in the manifest, `release/ASSIGNMENT.json`, beside the zip. The same course gives the same
bytes.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ppobook.course import masters, own_checks, references, refusals, trail, variants
from ppobook.course.choosing import choose
from ppobook.course.handing_in import front_cell, how_to_hand_in
from ppobook.course.pack import Adapter, ManualPart, Pack, TestedPart, answers_of
from ppobook.course.requirements import environment, requirements
from ppobook.course.sets import ExerciseSet, open_set
from ppobook.course.settings import Assignment, Course
from ppobook.course.variants import Variant
from ppobook.run.files import atomic_write
from ppobook.run.spellings import did_you_mean
from ppobook.teaching.tags import Cell, Exercise, Notebook, part, tags

FORMAT = 1
RELEASE = "release"

_LINK = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*“\[(])")
# What an introduction says of the solutions on the site, or of exercises that a pack may lack.
_PUBLIC = re.compile(r"\b(solutions?|model answers?)\b", re.I)
_OTHER = re.compile(r"\{ref\}`[^`]*?(ex-[\w-]+)>?`")


@dataclass(frozen=True)
class HandoutPart:
    """A part that earns points: ``role`` is "test" or "manual".

    A tested part has the ``expression`` that its check is given, a manual one its ``question`` and
    ``rubric`` in Markdown. ``exercise`` is the label, ``title`` what the exercise is called.
    """

    name: str
    role: str
    points: float
    exercise: str
    title: str
    expression: str = ""
    question: str = ""
    rubric: str = ""


@dataclass(frozen=True)
class Handout:
    """The pack that was handed out for an assignment, with the data that its grading needs."""

    assignment: str
    set: str
    file: str
    notebook: Notebook
    parts: tuple[HandoutPart, ...]

    @property
    def points(self) -> float:
        """The points of all parts."""
        return sum(one.points for one in self.parts)

    @cached_property
    def digest(self) -> str:
        """A digest of all of it: grades that were given for another pack are given again."""
        return hashlib.sha256(json.dumps(self.facts(), sort_keys=True).encode()).hexdigest()

    def part(self, name: str) -> HandoutPart:
        """The part of this name."""
        for one in self.parts:
            if one.name == name:
                return one
        known = [one.name for one in self.parts]
        raise ValueError(
            f"the part must be one of {', '.join(known)}, got {name!r}{did_you_mean(name, known)}"
        )

    def pack(self, adapters: Mapping[str, Adapter] | None = None) -> Pack:
        """Return the data that the grader needs.

        Parameters
        ----------
        adapters : mapping, optional
            By the name of a part, what turns a variant's function into the form that the book's check calls.
        """
        tested, manual = [], []
        for one in self.parts:
            if one.role == "test":
                adapter = (adapters or {}).get(one.name)
                tested.append(TestedPart(one.name, one.points, one.expression, adapter=adapter))
            else:
                manual.append(ManualPart(one.name, one.points, one.rubric))
        return Pack(self.assignment, self.notebook, tuple(tested), tuple(manual))

    def facts(self) -> dict[str, Any]:
        """The pack as JSON holds it."""
        facts = {name: getattr(self, name) for name in ("assignment", "set", "file", "notebook")}
        return {"format": FORMAT, **facts, "parts": [asdict(one) for one in self.parts]}


def released(course: Course, name: str) -> Handout | None:
    """The pack of an assignment as it was handed out; None where it was not released.

    Raises
    ------
    ValueError
        The manifest is damaged.
    """
    path = course.folder / RELEASE / f"{name}.json"
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise ValueError(f"{path} must be the manifest of a release, got a damaged file") from None
    if not isinstance(facts, dict) or facts.pop("format", None) != FORMAT:
        raise ValueError(f"{path} must be the manifest of a release by this version")
    return Handout(**{**facts, "parts": tuple(HandoutPart(**one) for one in facts["parts"])})


# --- making -------------------------------------------------------------------------------------------------


def make(course: Course, assignment: Assignment, book: Path | None = None) -> Handout:
    """The pack of an assignment.

    Raises
    ------
    ValueError
        The set or an exercise does not exist, a chosen exercise needs another one, points are given for an
        unknown part, a check beside a set of the course's own is wrong, or the notebook would hold what a
        student must not see.
    """
    try:
        return _make(course, assignment, book)
    except (ValueError, OSError) as error:
        raise ValueError(f"assignment {assignment.name}: {error}") from None


def _make(course: Course, assignment: Assignment, book: Path | None) -> Handout:
    found = open_set(assignment.set, course.folder, book)
    own_checks.refuse(found)
    chosen = found.chosen(assignment.exercises)
    choice = choose(found, chosen)
    if choice.missing:
        label, name, other = choice.missing[0]
        raise ValueError(
            f"exercises must hold {other!r} as well, for {label or 'the introduction'!r} uses {name}, which "
            "is written there"
        )
    full = found.notebook["cells"]
    master: Notebook = {**found.notebook, "cells": [copy.deepcopy(full[i]) for i in choice.cells]}
    notebook = masters.reader(master)
    notebook["metadata"] = copy.deepcopy(masters.METADATA)
    own_forms = drawn(course, assignment.name, found, [p.name for p in masters.parts(notebook)])
    for form in own_forms.values():
        notebook = form.apply(notebook)
    if len(chosen) < len(found.exercises) or not found.own:
        _shorten(notebook["cells"], {one.label for one in chosen})
    answers = [_markdown(text, name) for name, text in _rubrics(master, own_forms).items()]
    _as_text(notebook["cells"], answers, found)
    parts = _parts(master, notebook, {cell["id"]: cell["source"] for cell in answers}, assignment)
    worth = {one.name: one.points for one in parts}
    with own_checks.known(found) as own:
        own_checks.handed_in_later(notebook["cells"], own)
    notebook["cells"] = [
        front_cell(course, assignment, _from(found), _rows(masters.exercises(notebook), worth)),
        *notebook["cells"],
    ]
    for cell in notebook["cells"]:
        _for_nbgrader(cell, worth)
    handout = Handout(assignment.name, found.name, f"{assignment.name}.ipynb", notebook, parts)
    refusals.refuse(json.dumps(notebook, ensure_ascii=False), course, found)
    refusals.refuse_solutions(notebook, found)
    return handout


def _rubrics(master: Notebook, forms: Mapping[str, Variant]) -> dict[str, str]:
    """Model answers and rubrics by part; where a private variant planted another bug, about that one."""
    found = {name: one.source for name, one in masters.solutions(master).items() if one.kind == "text"}
    for exercise in masters.exercises(master):
        names = list(dict.fromkeys(p.name for p in exercise.parts))
        options = [option for name in names if name in forms for option in forms[name].options]
        for option in (one for one in options if one.bug):
            for name in (one for one in names if one in found):
                said = f"**In this course another bug is planted: {option.bug}.**"
                found[name] = option.rubric or f"{said} What follows is about the book's.\n\n{found[name]}"
    return found


def forms(course: Course, handout: Handout, book: Path | None = None) -> dict[str, Variant]:
    """The private variants of the tested parts that were handed out, by part."""
    names = [one.name for one in handout.parts if one.role == "test"]
    found = open_set(handout.set, course.folder, book)
    return drawn(course, handout.assignment, found, names)


def drawn(course: Course, assignment: str, found: ExerciseSet, parts: Collection[str]) -> dict[str, Variant]:
    """The private variants of an assignment's parts, by part; those for practice have none."""
    if not variants.beside(found.path).exists():
        return {}
    declared = variants.declared(found.path)
    return {
        name: variants.draw(course.secret, assignment, name, declared[name])
        for name in dict.fromkeys(parts)
        if name in declared and not declared[name].practice
    }


def _parts(
    master: Notebook, notebook: Notebook, rubrics: Mapping[str, str], assignment: Assignment
) -> tuple[HandoutPart, ...]:
    """The parts, with the questions as students read them and the expressions of the master."""
    called = {p.name: master["cells"][p.index]["source"] for p in masters.parts(master) if p.role == "test"}
    made = []
    for exercise in masters.exercises(notebook):
        said: list[str] = []
        for cell in notebook["cells"][exercise.start : exercise.stop]:
            p = part(cell)
            if p is None and cell["cell_type"] == "markdown":
                said.append(cell["source"])
            if p is None or p.points is None:
                continue
            points = assignment.points.get(p.name, p.points)
            facts = (p.name, p.role, points, exercise.label, exercise.title)
            if p.role == "test":
                made.append(HandoutPart(*facts, expression=_expression(called[p.name], p.name)))
            else:
                made.append(HandoutPart(*facts, question="\n\n".join(said), rubric=rubrics[p.name]))
    known = [one.name for one in made]
    for name in assignment.points:
        if name not in known:
            raise ValueError(
                f"points must be given for {', '.join(known)}, got {name!r}{did_you_mean(name, known)}"
            )
    return tuple(made)


def _expression(source: str, name: str) -> str:
    """Return the arguments of the check's call besides the part's name."""
    answers = answers_of(source)
    if name not in answers:
        raise ValueError(f"the test of {name} must call check({name!r}, …) with one more argument")
    return answers[name]


def _from(found: ExerciseSet) -> str:
    """Describe the source of the exercises, in words."""
    if found.own:
        return ""
    number = re.match(r"\d+", found.name)
    return f"chapter {int(number[0])} of the book" if number else f"the book's “{found.title}”"


def _rows(exercises: list[Exercise], worth: Mapping[str, float]) -> list[tuple[Exercise, float]]:
    return [(one, sum(worth[p.name] for p in one.parts if p.points is not None)) for one in exercises]


def _shorten(cells: list[Cell], labels: set[str]) -> None:
    """Leave out of the introduction what is not true of a pack: other exercises, solutions on the site."""
    for cell in cells:
        if masters.exercises({"cells": [cell]}):
            return
        if cell["cell_type"] != "markdown":
            continue
        kept = []
        for paragraph in re.split(r"\n{2,}", cell["source"]):
            if any(label.removeprefix("ex-") not in labels for label in _OTHER.findall(paragraph)):
                continue
            sentences = [one for one in _SENTENCE.split(paragraph) if not _PUBLIC.search(one)]
            kept.append(" ".join(sentences) if _PUBLIC.search(paragraph) else paragraph)
        cell["source"] = "\n\n".join(one for one in kept if one.strip())


def _markdown(source: str, name: str) -> Cell:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def _as_text(cells: list[Cell], answers: list[Cell], found: ExerciseSet) -> None:
    """References as text: links inside the pack, words for all that is elsewhere in the book."""
    text = [line for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"].splitlines()]
    held = {label for label, _ in references.labels(text)}

    def elsewhere(path: Path, title: str) -> str:
        number = re.match(r"\d+", path.stem)
        if path.parent.name == "chapters":
            return f"{title} (chapter {int(number[0])} of the book)" if number else f"{title} (in the book)"
        return f"{title} (another exercise)"

    references.as_text(cells, found.path, found.book, held=held, elsewhere=elsewhere)
    references.as_text(answers, found.path, found.book, held=(), elsewhere=elsewhere)
    for cell in (*cells, *answers):
        cell["metadata"].pop(references.PAGE, None)
        if cell["cell_type"] == "markdown":
            cell["source"] = _LINK.sub(r"\1", cell["source"])


def _for_nbgrader(cell: Cell, worth: Mapping[str, float]) -> None:
    """nbgrader's metadata: what a student fills in, what is graded, and what is locked."""
    p = part(cell)
    role = p.role if p else ""
    facts = {
        "schema_version": 3,
        "grade_id": cell["id"],
        "grade": role in ("test", "manual"),
        "solution": role in ("solution", "manual"),
        "locked": role not in ("solution", "manual"),
        "task": False,
    }
    kept = {key: cell["metadata"][key] for key in ("jupyter",) if key in cell["metadata"]}
    looks = [tag for tag in tags(cell) if not tag.startswith("test:")]
    if p is not None and p.points is not None:
        facts["points"] = worth[p.name]
        looks = [
            f"{role}:{p.name}:{worth[p.name]:g}",
            *(tag for tag in looks if not tag.startswith("manual:")),
        ]
    cell["metadata"] = {**kept, **({"tags": looks} if looks else {}), "deletable": False, "nbgrader": facts}
    if cell["cell_type"] == "markdown" and role != "manual":
        cell["metadata"]["editable"] = False


# --- releasing ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Release:
    """A released pack: its zip, and "new", "unchanged" or "changed" beside what was there."""

    pack: Handout
    path: Path
    state: str


def zipped(course: Course, pack: Handout, book: Path | None = None) -> bytes:
    """The zip that students get; its times are fixed and nothing is compressed, so its bytes are the same."""
    assignment = course.assignment(pack.assignment)
    found = open_set(pack.set, course.folder, book)
    files = {
        pack.file: json.dumps(pack.notebook, indent=1, ensure_ascii=False) + "\n",
        "HOW_TO_HAND_IN.md": how_to_hand_in(course, assignment, pack.file, pack.points),
        "requirements.txt": requirements(course, found.book),
        "environment.yml": environment(course, found.book),
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, text in files.items():
            refusals.refuse(text, course, found)
            entry = zipfile.ZipInfo(f"{pack.assignment}/{name}", (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, text.encode())
    return content.getvalue()


def release(
    course: Course, name: str, *, replace: bool = False, dry_run: bool = False, book: Path | None = None
) -> Release:
    """Write an assignment's zip and its manifest into the course's folder.

    Parameters
    ----------
    course : Course
    name : str
        The assignment.
    replace : bool
        Release it anew where what was handed out differs.
    dry_run : bool
        Write nothing.
    book : path, optional
        The book's folder.

    Raises
    ------
    ValueError
        The pack can't be made, or differs from what was handed out and `replace` was not given.
    """
    pack = make(course, course.assignment(name), book)
    content = zipped(course, pack, book)
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
    if not dry_run:
        folder.mkdir(parents=True, exist_ok=True)
        # The manifest last: what it says was handed out is there.
        if not path.exists() or path.read_bytes() != content:
            atomic_write(path, content)
        if not same:
            atomic_write(manifest, json.dumps(pack.facts(), indent=1, ensure_ascii=False) + "\n")
            trail.note(course.folder, "release", assignment=name, pack=pack.digest)
    return Release(pack, path, state)
