"""Grades as tables for Canvas, Moodle, and plain.

A number is written only where it is final: a submission that has not been graded or read to its end leaves
its cell empty. No text of a cell is a formula when the table is opened in a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ppobook.course import roster
from ppobook.course.feedback import number
from ppobook.course.gradebook import Score
from ppobook.course.roster import Student

FORMS = ("plain", "canvas", "moodle")

# What Moodle's grading worksheet calls its columns, in some languages.
_IDENTIFIER = ("identifier", "id", "identifiant", "identificador")
_GRADE = ("grade", "bewertung", "note", "calificación")
_COMMENTS = (
    *("feedback comments", "feedback als kommentar", "feedback par commentaires"),
    *("commentaires de feedback", "comentarios de retroalimentación"),
)
_WHO = frozenset(roster.NAMES["student_id"] + roster.NAMES["email"]) - {"id"}

Table = list[list[str]]


@dataclass(frozen=True)
class Column:
    """One assignment: what it is worth, and each student's score.

    ``title`` is what the platform calls it; ``late_days`` and ``comments`` are by student; ``to_grade`` are
    the students with a submission that is not graded as it stands now.
    """

    assignment: str
    title: str
    max: float
    scores: Mapping[str, Score]
    late_days: Mapping[str, str]
    comments: Mapping[str, str]
    to_grade: Collection[str] = field(default=())

    def status(self, student: str) -> str:
        score = self.scores.get(student)
        if score is not None and score.excused:
            return "excused"
        if student in self.to_grade:
            return "to grade"
        return "nothing graded" if score is None else "not marked yet" if score.waiting else "graded"


@dataclass(frozen=True)
class Grades:
    """The students and assignments of a table; ``missing`` stands where nothing was handed in.

    ``unfinished`` writes points also where some answers are not marked yet.
    """

    students: Sequence[Student]
    columns: Sequence[Column]
    missing: str = ""
    unfinished: bool = False

    def final(self, column: Column, student: str, excused: str = "") -> str:
        """The points that count, if they are final."""
        status = column.status(student)
        if status in ("excused", "nothing graded"):
            return excused if status == "excused" else self.missing
        ready = status == "graded" or (self.unfinished and student in column.scores)
        return number(column.scores[student].final) if ready else ""

    def table(self, form: str, template: Table | None = None) -> Table:
        """Return the rows of a table; of a template of Canvas or Moodle, its rows and ids are kept."""
        if form == "canvas":
            return self.canvas() if template is None else self.into_canvas(template)
        if form == "moodle":
            return self.moodle() if template is None else self.into_moodle(template)
        if form != "plain" or template is not None:
            raise ValueError(
                f"form must be one of {', '.join(FORMS)}, a template is for the last two, got {form!r}"
            )
        return self.plain()

    def plain(self) -> Table:
        names = ("points", "max", "before_late", "late_days", "status")
        head = ["student_id", "last_name", "first_name", "email", "group"]
        rows = [[*head, *(f"{column.assignment} {name}" for column in self.columns for name in names)]]
        for one in self.students:
            row, who = [str(getattr(one, key)) for key in head], one.student_id
            for column in self.columns:
                score = column.scores.get(who)
                known = score is not None and bool(score.parts)
                row += [self.final(column, who), number(column.max)]
                row += [number(score.points), column.late_days.get(who, "0")] if score and known else ["", ""]
                row.append(column.status(who))
            rows.append(row)
        return rows

    def canvas(self) -> Table:
        rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *(c.title for c in self.columns)]]
        rows.append(["    Points Possible", "", "", "", "", *(number(c.max) for c in self.columns)])
        for one in self.students:
            names = ", ".join(filter(None, (one.last_name, one.first_name)))
            points = (self.final(column, one.student_id, "EX") for column in self.columns)
            rows.append([names, one.lms_id, "", one.student_id, one.group, *points])
        return rows

    def into_canvas(self, template: Table) -> Table:
        head = template[0]
        fixed = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
        kept = [place for place, name in enumerate(head) if name in fixed]
        if not {"Student", "ID"} <= set(head):
            raise ValueError(f"template must be what Canvas exports, with columns Student and ID, got {head}")
        # Canvas adds its own number to an assignment's name: "week-03 (1234)".
        places = []
        for column in self.columns:
            named = re.compile(re.escape(column.title) + r"( \(\d+\))?")
            place = next((place for place, name in enumerate(head) if named.fullmatch(name)), None)
            if place is None:
                raise ValueError(
                    f"template must have a column “{column.title} (number)”; make the assignment in Canvas "
                    "first, then export, or say in course.yml what it is called there, as its `title`"
                )
            places.append(place)
        rows = [[head[place] for place in (*kept, *places)]]
        for line in template[1:]:
            line = [*line, *[""] * (len(head) - len(line))]
            cells = dict(zip(head, line, strict=False))
            who = self.known(cells, ("ID", "SIS User ID", "SIS Login ID", "Integration ID"))
            if who is not None:
                points = [self.final(column, who, "EX") for column in self.columns]
            elif not cells["ID"].strip():  # the rows of points possible and of posting, below the head
                points = [line[place] for place in places]
            else:
                continue
            rows.append([*(line[place] for place in kept), *points])
        return rows

    def moodle(self) -> Table:
        titles = [f"{column.title}{end}" for column in self.columns for end in ("", " feedback")]
        rows = [["ID number", "Email address", *titles]]
        for one in self.students:
            row = [one.student_id, one.email]
            for column in self.columns:
                points = self.final(column, one.student_id)
                row += [points, column.comments.get(one.student_id, "") if points else ""]
            rows.append(row)
        return rows

    def into_moodle(self, template: Table) -> Table:
        head = template[0]
        names = {name.strip().casefold(): name for name in head}
        grade, comments = (
            next((names[one] for one in them if one in names), "") for them in (_GRADE, _COMMENTS)
        )
        if not grade or not names.keys() & set(_IDENTIFIER):
            raise ValueError(
                f"template must be Moodle's grading worksheet, with columns Identifier and Grade, got {head}"
            )
        if len(self.columns) != 1:
            raise ValueError("template must be of one assignment; name it")
        (column,) = self.columns
        rows = [list(head)]
        for line in template[1:]:
            cells = dict(zip(head, line, strict=False))
            who = self.known(cells, [names[one] for one in names if one in _WHO])
            points = self.final(column, who) if who is not None else ""
            if who is not None and points:
                cells |= {grade: points, **({comments: column.comments.get(who, "")} if comments else {})}
            rows.append([cells.get(name, "") for name in head])
        return rows

    def known(self, cells: Mapping[str, str], keys: Iterable[str]) -> str | None:
        """The student of a row of a template, by a number, id or address."""
        for key in keys:
            value = cells.get(key, "").strip().casefold()
            for one in self.students:
                ids = (one.lms_id,) if key == "ID" else (one.student_id.casefold(), one.email.casefold())
                if value and value in ids:
                    return one.student_id
        return None


def written(rows: Table) -> str:
    """A table as CSV, in which no text is a formula."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([as_text(cell) for cell in row] for row in rows)
    return text.getvalue()


def as_text(cell: str) -> str:
    """A cell that a spreadsheet takes for text: with an apostrophe in front where it would be a formula."""
    cell = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]", "", cell)
    if re.fullmatch(r"-?\d+(\.\d+)?|-", cell):  # Moodle's "-" is no grade
        return cell
    # Spreadsheets skip white space, and know the wide forms of the signs as well.
    return f"'{cell}" if re.match(r"\s*[=+\-@＝＋－＠]|[\t\r\n]", cell) else cell


def read(path: Path) -> Table:
    """The rows of a CSV file, whatever its separator and encoding."""
    text = roster.decoded(path, "template")
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=roster.separator(text)) if row]
    if not rows:
        raise ValueError(f"{path} must be a CSV file, got an empty one")
    return rows
