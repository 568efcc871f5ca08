"""An assignment as it stands: what was handed out, what counts, what is graded, what the gradebook holds.

Here the course's files meet grading and the gradebook; the modules below this one know nothing of course.yml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import ppobook
from ppobook.course import collecting, gradebook, own_checks, packs, roster, run, trail
from ppobook.course.feedback import Setting
from ppobook.course.gradebook import Book, Rescaled, Score
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
        """The students with a result that is in the book, each with the submission that counts."""
        for submission in self.submissions:
            for student in submission.students:
                record = self.records.get(student)
                # Points of another pack may be on another scale; they are nothing until it is graded again.
                if (
                    record is not None
                    and not record.failed
                    and record.pack == self.sheet.pack
                    and student in self.scores
                ):
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
        SheetPart(one.name, one.role, one.points, one.exercise, one.title, one.question, one.rubric)
        for one in handout.parts
    )
    return Sheet(name, Path(handout.file).stem, assignment.due, parts, handout.digest)


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


def enrol(course: Course, book: Book) -> None:
    """Bring the roster into the gradebook."""
    book.enrol([asdict(student) for student in roster.load(course.folder)])


def released_anew(course: Course, name: str) -> list[Rescaled]:
    """Bring an assignment that was released anew into the gradebook: the marks and appeals on a new scale."""
    if not (course.folder / gradebook.FILE).exists():
        return []
    with Book(course.folder) as book:
        return book.declare(sheet(course, name))


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
    """An assignment as it stands; the gradebook is brought up to date first."""
    work, counting = job(course, name), collecting.counting(course, name)
    with Book(course.folder) as book:
        enrol(course, book)
        book.declare(work.sheet)
        run.settle(work, book, counting)
        scores = book.scores(name)
    students = [student for one in counting for student in one.students]
    return State(work, counting, read_records(course.folder, name, students), scores)


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
    return Setting(course.title, course.language, course.timezone, course.site, pages)


def appeal(course: Course, student: str, name: str, part: str, points: float, reason: str) -> list[str]:
    """Set the points of a part after an appeal, for a student and the group that handed in with them.

    It is written into the trail and into the part's comment, and no regrade changes it.

    Returns
    -------
    list of str
        For whom the points were set; empty where an equal appeal was granted already.
    """
    found = state(course, name)
    asked = found.sheet.part(part)
    who = roster.find(roster.load(course.folder), student).student_id
    if not 0 <= points <= asked.max:
        raise ValueError(f"points must be from 0 to {asked.max:g}, got {points:g}")
    reason = trail.reason(reason)
    submission = next((one for graded, one in found.graded() if graded == who), None)
    if submission is None:
        raise ValueError(f"student {who} must have a graded submission for {name}, got none")
    changed = []
    with Book(course.folder) as book:
        for member in submission.students:
            score = found.scores[member].parts[part]
            said = f"Appeal: {points:g} points. {reason}"
            if score.manual == points and said in score.comment:
                continue
            facts = {"assignment": name, "student": member, "part": part, "points": points}
            trail.note(course.folder, "appeal", **facts, before=score.points, reason=reason)
            comment = f"{score.comment}\n\n{said}".strip()
            book.mark(name, member, part, points, comment, share=submission.share)
            changed.append(member)
    return changed
