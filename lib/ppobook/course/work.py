"""An assignment as it stands: what was handed out, what counts, what is graded, and the scores.

Here the course's files meet grading and the scores; the modules below this one know nothing of course.yml.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ppobook.course import collecting, gradebook, own_checks, packs, roster
from ppobook.course.gradebook import Decisions, Score, decide, scores
from ppobook.course.handed_in import of_platform
from ppobook.course.records import Record, Sheet, Submission, digest, read_records
from ppobook.course.settings import Course
from ppobook.teaching import checks
from ppobook.validation import choice


@dataclass(frozen=True)
class State:
    """An assignment as it stands: the submissions that count, and the records and scores by student.

    ``unreadable`` are the students who handed something in, but no notebook that can be read.
    """

    sheet: Sheet
    submissions: list[Submission]
    records: Mapping[str, Record]
    scores: Mapping[str, Score]
    unreadable: Sequence[str] = ()

    def graded(self) -> Iterator[tuple[str, Submission]]:
        """The students with a score of their submission, each with the submission that counts."""
        for submission in self.submissions:
            for student in submission.students:
                if student in self.scores and self.scores[student].parts:
                    yield student, submission


def sheet(course: Course, name: str) -> Sheet:
    assignment, pack = course.assignment(name), packs.handed_out(course, name)
    partial = assignment.partial
    parts = tuple(replace(one, partial={**one.partial, **partial.get(one.name, {})}) for one in pack.parts)
    for part in partial:
        choice(f"partial of {name}", part, [one.name for one in parts])
    names = [one.strip() for one in pack.set.split(",")]
    own = [own_checks.beside(course.folder / "exercises" / f"{one}.md") for one in names]
    tested = {one.name: check_digest(one.name, own) for one in pack.tested}
    return Sheet(name, assignment.due, parts, pack.digest, assignment.title, tested)


def check_digest(name: str, own: Sequence[Path]) -> str:
    """Return an identifier of a check: the digest of its files, the book's or the course's own."""
    module, folder = checks.names().get(name), Path(checks.__file__).parent
    # Not by importing its package, and with it torch: most commands need no more of a check than this.
    mine = [*own, *(one.with_suffix(".toml") for one in own)]
    if module is not None:
        chapter = folder / module.removeprefix(f"{checks.__name__}.").split(".")[0]
        mine = [*chapter.rglob("*.py"), *chapter.rglob("*.toml")]
    shared = [folder / "common.toml", *folder.glob("*.py"), *folder.glob("beside/*.py")]
    files = [*sorted(shared), *sorted(mine)]
    return digest(b"\0".join(path.read_bytes() for path in files if path.exists()))[:16]


def changed(course: Course, name: str) -> bool:
    """Return whether course.yml and the book now give another pack than was handed out."""
    try:
        return packs.make(course, course.assignment(name)).digest != packs.handed_out(course, name).digest
    except ValueError:  # it can't be made any more
        return True


def state(course: Course, name: str) -> State:
    work, counting = sheet(course, name), collecting.counting(course, name)
    everyone = [one.student_id for one in roster.load(course.folder)]
    records = read_records(course.folder, name, counting)
    found = scores(work, counting, records, Decisions(course.folder, name), everyone)
    return State(work, counting, records, found, collecting.without_notebook(course, name, counting))


def released(course: Course, names: tuple[str, ...] = ()) -> list[str]:
    """These assignments, or all that were released."""
    if names:
        return [course.assignment(name).name for name in names]
    found = [one.name for one in course.assignments if packs.released(course, one.name) is not None]
    if not found:
        raise ValueError("an assignment must be released first, got none: ppobook course release ASSIGNMENT")
    return found


def pages(course: Course, name: str, graded: Iterable[tuple[str, Submission]]) -> dict[str, Path]:
    """Return the feedback pages by the labels under which the platform knows what was handed in.

    A label that is no student's own may be a group's, whose number Moodle would take for a participant's; it
    has no page.
    """
    found, students = {}, roster.load(course.folder)
    for student, _ in graded:
        for label in (str(one.receipt["label"]) for one in collecting.kept(course, name, student)):
            person, _, number = label.rpartition("_")
            if of_platform(person, number, students, True) == student:
                found[label] = course.folder / "feedback" / student / f"{name}.html"
    return found


def correct(
    course: Course, name: str, part: str, student: str, what: str, points: float | None, reason: str
) -> list[str]:
    """Correct points by hand: of one student, with the group that handed in with them, or of everyone.

    It is written into `marks/` with its reason, which the students read, and no regrade changes it.
    `what` is points, full, excused or undo. An empty `part` is the whole assignment, from which a student can
    be excused; an empty `student` is everyone. What comes back are those for whom it counts.
    """
    if not part and (what not in ("excused", "undo") or not student):
        raise ValueError(f"a part of {name} must be given; only --student STUDENT --excused does without")
    most = sheet(course, name).part(part).points if part else 0.0
    if points is not None and not 0 <= points <= most:
        raise ValueError(f"points must be from 0 to {most:g}, got {points:g}")
    who: tuple[str, ...] = (student or gradebook.EVERYONE,)
    if student:
        roster.find(roster.load(course.folder), student)
        if part:
            found = (one.students for one in collecting.counting(course, name) if student in one.students)
            who = tuple(next(found, ()))
            if not who:
                raise ValueError(
                    f"student must have handed in a notebook of {name}, got {student!r}, who has not"
                )
    if what == "undo":
        corrected = gradebook.Decisions(course.folder, name).corrections
        if not any((member, part) in corrected for member in who):
            where = f"{part or name} for {student or 'everyone'}"
            raise ValueError(f"undo must follow a correction of {where}, got none")
    for member in who:
        decide(course.folder, name, what, member, part, points=points, max=most, comment=reason)
    return list(who)
