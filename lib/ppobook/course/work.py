"""An assignment as it stands: what was handed out, what counts, what is graded, and the scores.

Here the course's files meet grading and the scores; the modules below this one know nothing of course.yml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ppobook
from ppobook.course import collecting, gradebook, own_checks, packs, roster, trail
from ppobook.course.feedback import Setting, words
from ppobook.course.gradebook import Decisions, Score, decide, scores
from ppobook.course.records import Job, Record, Sheet, SheetPart, Submission, digest, read_records
from ppobook.course.sets import open_all
from ppobook.course.settings import Course
from ppobook.teaching import checks
from ppobook.teaching.workspace import find_source


@dataclass(frozen=True)
class State:
    """An assignment as it stands.

    Attributes
    ----------
    job : Job
    submissions : list of Submission
        Those that count.
    records : mapping from student to Record
    scores : mapping from student to Score
    """

    job: Job
    submissions: list[Submission]
    records: Mapping[str, Record]
    scores: Mapping[str, Score]

    @property
    def sheet(self) -> Sheet:
        return self.job.sheet

    def graded(self) -> Iterator[tuple[str, Submission]]:
        """The students with a score of their submission, each with the submission that counts."""
        for submission in self.submissions:
            for student in submission.students:
                if student in self.scores and self.scores[student].parts:
                    yield student, submission


def sheet(course: Course, name: str) -> Sheet:
    """Return the parts of an assignment, as it was handed out.

    Raises
    ------
    ValueError
        There is no such assignment, or it was not released.
    """
    assignment, handout = course.assignment(name), packs.released(course, name)
    if handout is None:
        raise ValueError(f"assignment {name} must be released first: ppobook course release {name}")
    parts = tuple(
        SheetPart(
            *(one.name, one.role, one.points, one.exercise, one.title, one.question, one.rubric),
            partial={**one.partial, **assignment.partial.get(one.name, {})},
        )
        for one in handout.parts
    )
    made = Sheet(name, Path(handout.file).stem, assignment.due, parts, handout.digest, assignment.title)
    for part in assignment.partial:
        made.part(part)
    return made


def job(course: Course, name: str) -> Job:
    """Return the data that grading of an assignment depends on."""
    made, handout = sheet(course, name), packs.released(course, name)
    assert handout is not None
    tested = [part.name for part in made.parts if part.role == "test"]
    files = [course.folder / "exercises" / f"{one.strip()}.md" for one in handout.set.split(",")]
    own = [own_checks.beside(file) for file in files]
    return Job(course.folder, made, {one: check_digest(one, own) for one in tested}, ppobook.__version__)


def check_digest(name: str, own: Sequence[Path]) -> str:
    """Return an identifier of a check: the digest of its files, the book's or the course's own."""
    module, files = checks.names().get(name), own
    folder = Path(checks.__file__).parent
    if module is not None:
        # Not by importing its package, and with it torch: most commands need no more of a check than this.
        file = folder.joinpath(*module.removeprefix(f"{checks.__name__}.").split("."))
        files = [file / "__init__.py" if file.is_dir() else file.with_suffix(".py")]
    shared = [folder / "__init__.py", folder / "findings.py", folder / "probes.py", folder / "common.toml"]
    shared += sorted((folder / "beside").glob("*.py"))
    mine = [one for file in files for one in (file, file.with_suffix(".toml"), file.with_name("__init__.py"))]
    return digest(b"\0".join(path.read_bytes() for path in (*shared, *mine) if path.exists()))[:16]


def ready(course: Course, name: str) -> None:
    """Refuse an assignment whose checks can't be run.

    Raises
    ------
    ValueError
        A check beside the course's own exercises is wrong.
    """
    handout = packs.released(course, name)
    assert handout is not None
    for one in open_all(handout.set, course.folder):
        own_checks.refuse(one)


def other_points(course: Course, name: str) -> list[str]:
    """Return the points of parts by course.yml and the book that differ from those handed out.

    Returns
    -------
    list of str
        A line a part, "pg-loss 1, not 2"; none where nothing differs or the pack cannot be made.
    """
    handout = packs.released(course, name)
    assert handout is not None
    try:
        now = {one.name: one.points for one in packs.make(course, course.assignment(name)).parts}
    except ValueError:
        return []
    before = {one.name: one.points for one in handout.parts}
    said = [f"{part} {points:g}, not {before[part]:g}" for part, points in now.items()
            if part in before and before[part] != points]  # fmt: skip
    said += [f"{part} {points:g}, and was not in it" for part, points in now.items() if part not in before]
    return said + [f"{part} is not in it any more" for part in before if part not in now]


def varied(course: Course, name: str) -> frozenset[str]:
    """The parts of an assignment that were handed out with other numbers than the book's."""
    handout = packs.released(course, name)
    assert handout is not None
    try:
        return frozenset(name for name, one in packs.drawn(course, handout).items() if one.note)
    except (OSError, ValueError):  # without the book's folder
        return frozenset()


def state(course: Course, name: str) -> State:
    """Return an assignment as it stands."""
    work, counting = job(course, name), collecting.counting(course, name)
    everyone = [one.student_id for one in roster.load(course.folder)]
    records = read_records(course.folder, name, everyone)
    found = scores(work.sheet, counting, records, Decisions(course.folder, name), everyone)
    return State(work, counting, records, found)


def released(course: Course, names: tuple[str, ...] = ()) -> list[str]:
    """These assignments, or all that were released.

    Raises
    ------
    ValueError
        There is no such assignment.
    """
    if names:
        return [course.assignment(name).name for name in names]
    found = [one.name for one in course.assignments if packs.released(course, one.name) is not None]
    if not found:
        raise ValueError("an assignment must be released first, got none: ppobook course release ASSIGNMENT")
    return found


def setting(course: Course) -> Setting:
    """Return the data that all feedback pages of a course share."""
    try:
        chapters = sorted((find_source() / "chapters").glob("[0-9]*.md"))
    except FileNotFoundError:  # installed without the book
        chapters = []
    pages = {}
    for path in chapters:
        if number := re.match(r"\d+", path.stem):
            pages[int(number[0])] = f"chapters/{path.stem}.html"
    return Setting(course.title, words(course.folder), course.timezone, course.site, pages)


def pages(course: Course, name: str, graded: Iterable[tuple[str, Submission]]) -> dict[str, Path]:
    """Return the feedback pages by the labels under which the platform knows what was handed in."""
    found = {}
    for student, _ in graded:
        for one in collecting.kept(course, name, student):
            found[str(one.receipt["label"])] = course.folder / "feedback" / student / f"{name}.html"
    return found


def correct(
    course: Course, name: str, part: str, student: str, what: str, points: float | None, reason: str
) -> list[str]:
    """Correct points by hand: of one student, with the group that handed in with them, or of everyone.

    It is written into `marks/` with its reason, which the students read, and no regrade changes it.

    Parameters
    ----------
    course : Course
    name : str
        The assignment.
    part : str
        Empty for the whole assignment, from which a student can be excused.
    student : str
        Empty for everyone.
    what : {"points", "full", "excused", "undo"}
    points : float or None
        For "points".
    reason : str

    Returns
    -------
    list of str
        For whom it counts.
    """
    made, reason = sheet(course, name), trail.reason(reason)
    if not part and (what not in ("excused", "undo") or not student):
        raise ValueError(f"a part of {name} must be given; only --student STUDENT --excused does without")
    most = made.part(part).max if part else 0.0
    if points is not None and not 0 <= points <= most:
        raise ValueError(f"points must be from 0 to {most:g}, got {points:g}")
    who: tuple[str, ...] = (gradebook.EVERYONE,)
    if student:
        one = roster.find(roster.load(course.folder), student).student_id
        together = [s.students for s in collecting.counting(course, name) if one in s.students]
        who = together[0] if together and part else (one,)
    for member in who:
        decide(course.folder, name, what, member, part, points=points, max=most, comment=reason)
    return list(who)
