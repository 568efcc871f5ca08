"""The gradebook: nbgrader's database, `gradebook.db`, which its formgrader and `nbgrader export` read too.

Only this module opens it. A part of an assignment is a grade cell ("code" if it is tested, "markdown" if a
person reads it) and a solution cell, which carries the comment. Grading sets automatic points only, people
set manual ones, and these win: so a mark or an appeal survives every regrade.

Several processes may use one gradebook at the same time (grading, the marking page): each change is made
under a lock, on what the database holds at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from alembic.script import ScriptDirectory
from nbgrader import api
from sqlalchemy import create_engine, text

from ppobook.course.records import Sheet
from ppobook.course.trail import locked, note

FILE = "gradebook.db"


@dataclass(frozen=True)
class PartScore:
    """One part of one student: ``manual`` is a person's points, ``auto`` those of the grader."""

    max: float
    auto: float | None
    manual: float | None
    comment: str
    waiting: bool

    @property
    def points(self) -> float:
        """The points that count: a person's, else the grader's, else none."""
        return self.manual if self.manual is not None else self.auto or 0.0


@dataclass(frozen=True)
class Rescaled:
    """A person's points for a part that is worth more or less than it was."""

    student: str
    assignment: str
    part: str
    before: float
    before_max: float
    points: float
    max: float


@dataclass(frozen=True)
class Score:
    """One student's submission of one assignment."""

    student: str
    received: datetime | None
    parts: Mapping[str, PartScore]
    penalty: float

    @property
    def points(self) -> float:
        """The points before what is taken off for being late."""
        return sum(part.points for part in self.parts.values())

    @property
    def max(self) -> float:
        return sum(part.max for part in self.parts.values())

    @property
    def final(self) -> float:
        """The points that count."""
        return max(0.0, self.points - self.penalty)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The parts that nobody has marked yet."""
        return tuple(name for name, part in self.parts.items() if part.waiting)


class Book:
    """A course's gradebook, open. Use it in a `with` block.

    Parameters
    ----------
    folder : Path
        The course's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, folder / f".{FILE}.lock"
        path = (folder / FILE).resolve()
        with locked(self._lock):  # two processes must not make the tables at the same time
            if not path.exists():
                _make(path)
            self._api = api.Gradebook(f"sqlite:///{path}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._api.close()
        self._api.engine.dispose()

    @contextmanager
    def _change(self) -> Iterator[Any]:
        """The database's session, for one change: all of it is kept, or nothing."""
        db = self._api.db
        with locked(self._lock):
            db.rollback()  # forget what another process may have changed since
            try:
                yield db
                db.commit()
            except BaseException:
                db.rollback()
                raise

    # --- what there is ----------------------------------------------------------------------------------

    def enrol(self, students: Iterable[Mapping[str, str]]) -> None:
        """Add students, or correct their names.

        Parameters
        ----------
        students : iterable of mappings
            With `student_id`, and perhaps `last_name`, `first_name`, `email`.
        """
        with self._change() as db:
            known = {student.id: student for student in db.query(api.Student)}
            for row in students:
                student = known.get(row["student_id"])
                if student is None:
                    student = api.Student(id=row["student_id"])
                    db.add(student)
                for key in ("last_name", "first_name", "email"):
                    setattr(student, key, row.get(key) or None)

    def declare(self, sheet: Sheet) -> list[Rescaled]:
        """Add an assignment with its notebook and parts, or bring them up to date with the sheet.

        A part that is no longer on the sheet goes, with its points; what people decided stays in the trail.
        Where a part is worth more or less than before, a person's points keep their share of it, and the
        trail says so.

        Returns
        -------
        list of Rescaled
            A person's points that are others now.
        """
        changed: list[Rescaled] = []
        with self._change() as db:
            assignment = self._assignment(sheet.assignment)
            if assignment is None:
                assignment = api.Assignment(name=sheet.assignment, course_id=self._api.course_id)
                db.add(assignment)
            assignment.duedate = _utc(sheet.due)
            notebook = next((n for n in assignment.notebooks if n.name == sheet.notebook), None)
            if notebook is None:
                notebook = api.Notebook(name=sheet.notebook, assignment=assignment)
                db.add(notebook)
            cells = {cell.name: cell for cell in notebook.grade_cells}
            comments = {cell.name: cell for cell in notebook.solution_cells}
            for part in sheet.parts:
                cell = cells.pop(part.name, None)
                kind = "code" if part.role == "test" else "markdown"
                if cell is None:
                    cell = api.GradeCell(
                        name=part.name, notebook=notebook, max_score=part.max, cell_type=kind
                    )
                    db.add(cell)
                if cell.max_score != part.max:
                    changed += self._rescale(db, sheet.assignment, cell, part.max)
                cell.max_score, cell.cell_type = part.max, kind
                if comments.pop(part.name, None) is None:
                    db.add(api.SolutionCell(name=part.name, notebook=notebook))
            for gone in (*cells.values(), *comments.values()):
                for kind in (api.Grade, api.Comment):
                    db.query(kind).filter(kind.cell_id == gone.id).delete()
                db.delete(gone)
        for one in changed:
            note(self._folder, "rescaled", **asdict(one))
        return changed

    @staticmethod
    def _rescale(db: Any, assignment: str, cell: Any, most: float) -> list[Rescaled]:
        """Give a person's points for a cell the share of the new maximum that they had of the old one."""
        changed = []
        for grade in db.query(api.Grade).filter(api.Grade.cell_id == cell.id):
            before = grade.manual_score
            if before is not None:
                share = before / cell.max_score if cell.max_score else 0.0
                grade.manual_score = round(share * most, 2)
                facts = (grade.notebook.assignment.student_id, assignment, cell.name)
                changed.append(Rescaled(*facts, before, cell.max_score, grade.manual_score, most))
        return changed

    def assignments(self) -> list[str]:
        """The names of all assignments, by due date."""
        with locked(self._lock):
            self._api.db.rollback()
            return [assignment.name for assignment in self._api.assignments]

    # --- points -----------------------------------------------------------------------------------------

    def record(
        self,
        assignment: str,
        student: str,
        *,
        received: datetime | None,
        auto: Mapping[str, float | None],
        stale: Iterable[str] = (),
        share: float = 1.0,
    ) -> None:
        """Set what grading found, and what is taken off; doing it twice changes nothing.

        Parameters
        ----------
        assignment, student : str
        received : datetime or None
        auto : mapping from part to points
            None where a person has to mark.
        stale : iterable of str
            Parts whose marks were given to another text; they have to be marked again.
        share : float
            The share of the points that still counts after late days.
        """
        with self._change() as db:
            submission = self._submission(assignment, student, make=True)
            submission.timestamp = _utc(received) if received else None
            stale = set(stale)
            for grade in self._grades(db, submission).values():
                if grade.cell.name in stale:
                    grade.manual_score = None
                if grade.cell.name in auto:
                    grade.auto_score = auto[grade.cell.name]
                grade.needs_manual_grade = grade.auto_score is None and grade.manual_score is None
            self._settle(db, submission, share)

    def late(self, assignment: str, student: str, share: float) -> None:
        """Set the share of the points that still counts after late days."""
        with self._change() as db:
            self._settle(db, self._submission(assignment, student), share)

    def mark(
        self,
        assignment: str,
        student: str,
        part: str,
        points: float | None,
        comment: str | None = None,
        *,
        share: float = 1.0,
    ) -> None:
        """Set a person's points for a part, None to take them back, and, unless None, the comment."""
        with self._change() as db:
            submission = self._submission(assignment, student)
            grades = self._grades(db, submission)
            if part not in grades:
                raise ValueError(f"the part must be one of {', '.join(grades)}, got {part!r}")
            grade = grades[part]
            grade.manual_score = points
            grade.needs_manual_grade = grade.auto_score is None and points is None
            if comment is not None:
                self._comments(db, submission)[part].manual_comment = comment or None
            self._settle(db, submission, share)

    def scores(self, assignment: str) -> dict[str, Score]:
        """All submissions of an assignment that are in the book, by student."""
        with locked(self._lock):
            db = self._api.db
            db.rollback()
            name = api.BaseCell.name
            rows = (
                db.query(
                    api.Student.id,
                    api.SubmittedAssignment.timestamp,
                    name,
                    api.GradeCell.max_score,
                    api.Grade,
                )
                .select_from(api.Grade)
                .join(api.GradeCell, api.GradeCell.id == api.Grade.cell_id)
                .join(api.SubmittedNotebook, api.SubmittedNotebook.id == api.Grade.notebook_id)
                .join(
                    api.SubmittedAssignment,
                    api.SubmittedAssignment.id == api.SubmittedNotebook.assignment_id,
                )
                .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
                .join(api.Student, api.Student.id == api.SubmittedAssignment.student_id)
                .filter(api.Assignment.name == assignment)
                .all()
            )
            comments = self._all_comments(db, assignment)
            penalties = self._penalties(db, assignment)
            order = self._order(assignment)
        parts: dict[str, dict[str, PartScore]] = {}
        received: dict[str, datetime | None] = {}
        for student, timestamp, part, most, grade in rows:
            received[student] = timestamp.replace(tzinfo=UTC) if timestamp else None
            parts.setdefault(student, {})[part] = PartScore(
                max=most,
                auto=grade.auto_score,
                manual=grade.manual_score,
                comment=comments.get((student, part)) or "",
                waiting=bool(grade.needs_manual_grade),
            )
        return {
            student: Score(
                student,
                received[student],
                dict(sorted(found.items(), key=lambda item: order.get(item[0], len(order)))),
                penalties.get(student) or 0.0,
            )
            for student, found in sorted(parts.items())
        }

    # --- inside -----------------------------------------------------------------------------------------

    def _assignment(self, name: str) -> Any:
        return self._api.db.query(api.Assignment).filter(api.Assignment.name == name).one_or_none()

    def _submission(self, assignment: str, student: str, *, make: bool = False) -> Any:
        db = self._api.db
        found = (
            db.query(api.SubmittedAssignment)
            .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
            .filter(api.Assignment.name == assignment, api.SubmittedAssignment.student_id == student)
            .one_or_none()
        )
        if found is not None:
            return found
        if not make:
            raise ValueError(f"{student!r} must have a graded submission for {assignment!r}, got none")
        owner = self._assignment(assignment)
        if owner is None:
            raise ValueError(f"the assignment must be in the gradebook, got {assignment!r}")
        if db.get(api.Student, student) is None:
            raise ValueError(f"the student must be in the roster, got {student!r}")
        found = api.SubmittedAssignment(assignment=owner, student_id=student)
        db.add(found)
        for notebook in owner.notebooks:
            db.add(api.SubmittedNotebook(notebook=notebook, assignment=found))
        db.flush()
        return found

    def _grades(self, db: Any, submission: Any) -> dict[str, Any]:
        """The grades of a submission by part; those of new parts are made."""
        return self._by_part(db, submission, api.Grade, "grades", "grade_cells")

    def _comments(self, db: Any, submission: Any) -> dict[str, Any]:
        """The comments on a submission by part; those of new parts are made."""
        return self._by_part(db, submission, api.Comment, "comments", "solution_cells")

    @staticmethod
    def _by_part(db: Any, submission: Any, kind: Any, kept: str, cells: str) -> dict[str, Any]:
        found = {}
        for notebook in submission.notebooks:
            have = {one.cell_id: one for one in getattr(notebook, kept)}
            for cell in getattr(notebook.notebook, cells):
                if cell.id not in have:
                    have[cell.id] = kind(cell=cell, notebook=notebook)
                    db.add(have[cell.id])
                found[cell.name] = have[cell.id]
        return found

    def _settle(self, db: Any, submission: Any, share: float) -> None:
        """Set the deduction in points; it follows the points whenever these change."""
        self._comments(db, submission)
        db.flush()
        for notebook in submission.notebooks:
            points = sum(
                grade.manual_score if grade.manual_score is not None else grade.auto_score or 0.0
                for grade in notebook.grades
            )
            notebook.late_submission_penalty = round(points * (1 - share), 6)

    @staticmethod
    def _all_comments(db: Any, assignment: str) -> dict[tuple[str, str], str]:
        rows = (
            db.query(api.SubmittedAssignment.student_id, api.BaseCell.name, api.Comment.manual_comment)
            .select_from(api.Comment)
            .join(api.BaseCell, api.BaseCell.id == api.Comment.cell_id)
            .join(api.SubmittedNotebook, api.SubmittedNotebook.id == api.Comment.notebook_id)
            .join(api.SubmittedAssignment, api.SubmittedAssignment.id == api.SubmittedNotebook.assignment_id)
            .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
            .filter(api.Assignment.name == assignment)
        )
        return {(student, part): comment for student, part, comment in rows if comment}

    @staticmethod
    def _penalties(db: Any, assignment: str) -> dict[str, float]:
        rows = (
            db.query(api.SubmittedAssignment.student_id, api.SubmittedNotebook.late_submission_penalty)
            .select_from(api.SubmittedNotebook)
            .join(api.SubmittedAssignment, api.SubmittedAssignment.id == api.SubmittedNotebook.assignment_id)
            .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
            .filter(api.Assignment.name == assignment)
        )
        found: dict[str, float] = {}
        for student, penalty in rows:
            found[student] = found.get(student, 0.0) + (penalty or 0.0)
        return found

    def _order(self, assignment: str) -> dict[str, int]:
        """The parts' places on the sheet: cells are read in the order in which they were made."""
        owner = self._assignment(assignment)
        names = [cell.name for notebook in owner.notebooks for cell in notebook.grade_cells] if owner else []
        return {name: place for place, name in enumerate(names)}


def _make(path: Path) -> None:
    """An empty gradebook, in one step.

    nbgrader would make one too, but to learn its version it runs a program, `alembic`, which is not on the
    path where an environment is used without being activated.
    """
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    engine = create_engine(f"sqlite:///{part}")
    api.Base.metadata.create_all(bind=engine)
    version = ScriptDirectory(str(Path(api.__file__).with_name("alembic"))).get_current_head()
    with engine.begin() as db:
        db.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        db.execute(text("INSERT INTO alembic_version (version_num) VALUES (:version)"), {"version": version})
    engine.dispose()
    part.chmod(0o600)
    part.replace(path)


def _utc(time: datetime) -> datetime:
    """The database's form: UTC, without saying so."""
    return time.astimezone(UTC).replace(tzinfo=None)
