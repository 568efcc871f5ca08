"""`ppobook course check`: what will fail in the term, said before it begins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ppobook.course import own_checks, packs, roster, sandbox
from ppobook.course.pack import Pack
from ppobook.course.sets import ExerciseSet, open_all
from ppobook.course.settings import Assignment, Course
from ppobook.validation import counted

if TYPE_CHECKING:
    from ppobook.course.grading import PartResult

# With how many students' numbers the checks of own exercises are tried.
TRIED = 2


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``level`` is "fails", "note" or "ok"."""

    level: str
    said: str


def check(course: Course, *, now: datetime | None = None) -> Iterator[Finding]:
    """Look at everything, and say what fails, what to know and what is well.

    The checks of the course's own exercises are tried: each has to accept the master's solution, and not the
    pack as students get it.

    Parameters
    ----------
    course : Course
    now : datetime, optional
        The time that dates are compared with.
    """
    yield from _machine(course)
    yield from _dates(course, now or datetime.now(UTC))
    yield from _students(course)
    own, public = [], []
    for assignment in course.assignments:
        handout = _handout(course, assignment)
        if isinstance(handout, Finding):
            yield handout
            continue
        yield from _assignment(course, assignment, handout)
        found = open_all(assignment.set, course.folder)
        if any(one.own for one in found):
            own.append(handout)
        public += [assignment.name] * any(not one.own for one in found)
    if own and sandbox.available() is None:
        yield from _own(course, own)
    if not course.assignments:
        yield Finding("fails", "assignments must be at least one, got none")
    if public:
        yield Finding(
            "note",
            f"the solutions of the book's exercises are public ({', '.join(public)}), and variants don't "
            "hide them: for points that count, talk to students or write exercises of your own",
        )


def _machine(course: Course) -> Iterator[Finding]:
    if why := sandbox.available():
        yield Finding("fails", f"grading needs a sandbox: {why}")
    else:
        yield Finding("ok", "bubblewrap works, so submissions can be graded without a network and apart")
    if why := sandbox.readable(course.folder):
        yield Finding("fails", f"{why}; move it")


def _dates(course: Course, now: datetime) -> Iterator[Finding]:
    if course.term.end < now.astimezone(course.timezone).date():
        yield Finding("fails", f"term.end must not be in the past, got {course.term.end}")
    for one in course.assignments:
        if not course.term.begin <= one.due.date() <= course.term.end:
            yield Finding(
                "fails",
                f"{one.name}: due must be in the term, {course.term.begin} to {course.term.end}, "
                f"got {one.due.date()}",
            )


def _students(course: Course) -> Iterator[Finding]:
    try:
        students = roster.load(course.folder)
    except ValueError as error:
        yield Finding("fails", str(error))
        return
    if not students:
        yield Finding(
            "fails", f"{roster.FILE} must hold the students, got none; `ppobook course roster FILE`"
        )
        return
    yield Finding("ok", f"{counted(len(students), 'student')} in {roster.FILE}")
    ids = {one.student_id for one in students}
    for name, groups in course.groups.items():
        for student in {one for group in groups for one in group} - ids:
            yield Finding("fails", f"groups.{name}: {student!r} must be in {roster.FILE}, and is not")


def _handout(course: Course, assignment: Assignment) -> Pack | Finding:
    """The pack of an assignment, or why there can be none."""
    try:
        handout = packs.make(course, assignment)
        packs.zipped(course, handout)
        packs.released(course, assignment.name)
    except ValueError as error:
        return Finding("fails", str(error).removeprefix("assignment "))
    return handout


def _assignment(course: Course, assignment: Assignment, handout: Pack) -> Iterator[Finding]:
    parts = counted(len(handout.parts), "part")
    yield Finding("ok", f"{assignment.name}: {assignment.set}, {parts}, {handout.points:g} points")
    if assignment.total is not None and abs(assignment.total - handout.points) > 1e-9:
        yield Finding(
            "fails",
            f"{assignment.name}: the points must add up to total, {assignment.total:g}, and add up to "
            f"{handout.points:g}",
        )
    before = packs.released(course, assignment.name)
    if before is not None and before.digest != handout.digest:
        yield Finding(
            "note", f"{assignment.name}: it was released, and course.yml or the book has changed since"
        )


def _own(course: Course, handouts: list[Pack]) -> Iterator[Finding]:
    """Check that checks of own exercises accept the solution, refuse the blank and tell mistakes apart."""
    for handout in handouts:
        found = [one for one in open_all(handout.set, course.folder) if one.own]
        tested = [one.name for one in handout.tested]
        wrong = list(_tried(course, handout, found)) if tested else []
        yield from wrong
        if tested and not wrong:
            said = f"{counted(len(tested), 'check')} tried; the solutions of {_files(found)} are right"
            yield Finding("ok", f"{handout.assignment}: {said}")


def _tried(course: Course, handout: Pack, found: list[ExerciseSet]) -> Iterator[Finding]:
    """Return the problems found when the solution is handed in, and when nothing is."""
    from ppobook.course.grading import grade_submission, part_seeds

    reference = json.dumps(packs.solved(course, handout)).encode()
    alike: dict[tuple[str, str], None] = {}

    def graded(content: bytes, who: str) -> dict[str, PartResult]:
        seed = part_seeds(course.secret, who, content)
        with ExitStack() as stack:
            own = [name for one in found for name in stack.enter_context(own_checks.known(one))]
            stack.enter_context(own_checks.comparing(own, alike))
            return grade_submission(handout, content, seed=seed, limits=course.grading).parts

    refused: dict[str, str] = {}
    for number in range(TRIED):
        for name, one in graded(reference, f"a student, number {number}").items():
            if one.kind != "right":
                refused.setdefault(name, " ".join(one.message.split()))
    for name, said in refused.items():
        yield Finding(
            "fails",
            f"{handout.assignment}: the check of {name} must accept the solution in exercises/"
            f"{_files(found)}, and said: {said}",
        )
    for pair in alike:
        yield Finding(
            "fails",
            f"{handout.assignment}: mistakes must have different outputs in the checks of exercises/"
            f"{_files(found)}, got the same for {pair[0]!r} and {pair[1]!r}",
        )
    for name, one in graded(json.dumps(handout.notebook).encode(), "nobody").items():
        if one.kind == "right":
            yield Finding(
                "fails", f"{handout.assignment}: the check of {name} must refuse the blank, and accepts it"
            )


def _files(found: list[ExerciseSet]) -> str:
    return " and ".join(one.path.name for one in found)
