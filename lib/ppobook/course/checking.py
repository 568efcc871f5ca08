"""`ppobook course check`: what will fail in the term, said before it begins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ppobook.course import own_checks, packs, roster, sandbox, schedule
from ppobook.course.records import Pack
from ppobook.course.sets import ExerciseSet, open_all
from ppobook.course.settings import Course
from ppobook.teaching.tags import Notebook
from ppobook.validation import counted

if TYPE_CHECKING:
    from ppobook.course.grading import PartResult

# With how many students' numbers the checks of own exercises are tried.
TRIED = 2


def check(course: Course, *, now: datetime | None = None) -> Iterator[tuple[str, str]]:
    """Look at everything, and say what fails ("fails"), what to know ("note") and what is well ("ok").

    The checks of the course's own exercises are tried: each has to accept the master's solution, and not the
    pack as students get it. Dates are compared with `now`.
    """
    yield from _machine(course)
    yield from _dates(course, now or datetime.now(UTC))
    yield from _students(course)
    for assignment in course.assignments:
        try:
            handout = packs.make(course, assignment)
        except ValueError as error:
            yield "fails", f"{assignment.name}: {error}"
            continue
        name, parts = assignment.name, counted(len(handout.parts), "part")
        yield "ok", f"{name}: {assignment.set}, {parts}, {handout.points:g} points"
        before = packs.released(course, name)
        if before is not None and before.digest != handout.digest:
            yield "note", f"{name}: it was released, and course.yml or the book has changed since"
        own = [one for one in open_all(assignment.set, course.folder) if one.own]
        if own and handout.tested and sandbox.available() is None:
            yield from _own(course, handout, own)


def _machine(course: Course) -> Iterator[tuple[str, str]]:
    if why := sandbox.available():
        yield "fails", f"grading needs a sandbox: {why}"
    else:
        yield "ok", "bubblewrap works, so submissions can be graded without a network and apart"
    if why := sandbox.readable(course.folder):
        yield "fails", f"{why}; move it"


def _dates(course: Course, now: datetime) -> Iterator[tuple[str, str]]:
    term = course.term
    yield from (("note", said) for said in schedule.early(course))
    for one in course.assignments:
        if not term.begin <= one.due.date() <= term.end:
            said = f"due must be in the term, {term.begin} to {term.end}, got {one.due.date()}"
            yield "fails", f"{one.name}: {said}"
        elif one.due < now and packs.released(course, one.name) is None:
            yield "note", f"{one.name}: it is not released, and was due on {one.due.date()}"


def _students(course: Course) -> Iterator[tuple[str, str]]:
    students = {one.student_id for one in roster.load(course.folder)}
    said = f"{counted(len(students), 'student')} in {roster.FILE}"
    yield "ok" if students else "fails", said
    for name, groups in course.groups.items():
        for student in {one for group in groups for one in group} - students:
            yield "fails", f"groups.{name}: {student!r} must be in {roster.FILE}, and is not"


def _own(course: Course, handout: Pack, found: list[ExerciseSet]) -> Iterator[tuple[str, str]]:
    """Check that checks of own exercises accept the solution, refuse the blank and tell mistakes apart."""
    from ppobook.course.grading import grade_submission, part_seeds

    files = " and ".join(one.path.name for one in found)
    alike: dict[tuple[str, str], None] = {}

    def graded(notebook: Notebook, who: str) -> dict[str, PartResult]:
        content = json.dumps(notebook).encode()
        seed = part_seeds(course.secret, who, content)
        with ExitStack() as stack:
            own = [name for one in found for name in stack.enter_context(own_checks.known(one))]
            stack.enter_context(own_checks.comparing(own, alike))
            return grade_submission(handout, content, seed=seed, limits=course.grading).parts

    solved = packs.solved(course, handout)
    wrong: dict[str, str] = {}
    for number in range(TRIED):
        for name, one in graded(solved, f"a student, number {number}").items():
            if one.kind != "right":
                why = " ".join([one.mistake, *one.said])
                said = f"accept the solution in exercises/{files}, and said: {' '.join(why.split())}"
                wrong.setdefault(name, f"the check of {name} must {said}")
    said = f"mistakes must have different outputs in the checks of exercises/{files}, got the same for"
    all_wrong = [*wrong.values(), *(f"{said} {one!r} and {other!r}" for one, other in alike)]
    for name, one in graded(handout.notebook, "nobody").items():
        if one.kind == "right":
            all_wrong.append(f"the check of {name} must refuse the blank, and accepts it")
    yield from (("fails", f"{handout.assignment}: {said}") for said in all_wrong)
    if not all_wrong:
        said = f"{counted(len(handout.tested), 'check')} tried; the solutions of {files} are right"
        yield "ok", f"{handout.assignment}: {said}"
