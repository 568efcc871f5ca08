"""Grades as tables for Canvas, Moodle, and plain.

A number is written only where it is final: a submission that has not been graded or read to its end leaves
its cell empty. No text of a cell is a formula when the table is opened in a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ppobook import validation
from ppobook.course.feedback import number
from ppobook.course.gradebook import Score
from ppobook.course.records import Sheet
from ppobook.course.roster import Student

Table = list[list[str]]


@dataclass(frozen=True)
class Column:
    """One assignment, and each student's score.

    ``late_days`` are by student; ``to_grade`` are the students with a submission that is not graded as it
    stands now.
    """

    sheet: Sheet
    scores: Mapping[str, Score]
    late_days: Mapping[str, str] = field(default_factory=dict)
    to_grade: Collection[str] = ()

    def status(self, student: str) -> str:
        score = self.scores.get(student)
        if score is not None and score.excused:
            return "excused"
        if student in self.to_grade:
            return "to grade"
        return "nothing graded" if score is None else "not marked yet" if score.waiting else "graded"

    def final(self, student: str, excused: str = "") -> str:
        status = self.status(student)
        return number(self.scores[student].final) if status == "graded" else excused * (status == "excused")

    def comments(self, student: str) -> str:
        parts = self.scores[student].parts if student in self.scores else {}
        return "\n".join(f"{name}: {said}" for name, part in parts.items() for said in part.comments)


def table(form: str, students: Sequence[Student], columns: Sequence[Column]) -> Table:
    return _FORMS[validation.choice("form", form, _FORMS)](students, columns)


def _plain(students: Sequence[Student], columns: Sequence[Column]) -> Table:
    names = ("points", "max", "before_late", "late_days", "status")
    head = ["student_id", "last_name", "first_name", "email", "group"]
    rows = [[*head, *(f"{column.sheet.assignment} {name}" for column in columns for name in names)]]
    for one in students:
        row, who = [str(getattr(one, key)) for key in head], one.student_id
        for column in columns:
            score = column.scores.get(who)
            row += [column.final(who), number(column.sheet.points)]
            known = score is not None and score.parts
            row += [number(score.points), column.late_days.get(who, "0")] if score and known else ["", ""]
            row.append(column.status(who))
        rows.append(row)
    return rows


def _canvas(students: Sequence[Student], columns: Sequence[Column]) -> Table:
    rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *(c.sheet.called for c in columns)]]
    rows.append(["    Points Possible", "", "", "", "", *(number(c.sheet.points) for c in columns)])
    for one in students:
        names = ", ".join(filter(None, (one.last_name, one.first_name)))
        points = (column.final(one.student_id, "EX") for column in columns)
        rows.append([names, one.lms_id, "", one.student_id, one.group, *points])
    return rows


def _moodle(students: Sequence[Student], columns: Sequence[Column]) -> Table:
    titles = [f"{column.sheet.called}{end}" for column in columns for end in ("", " feedback")]
    rows = [["ID number", "Email address", *titles]]
    for one in students:
        row = [one.student_id, one.email]
        for column in columns:
            points = column.final(one.student_id)
            row += [points, column.comments(one.student_id) if points else ""]
        rows.append(row)
    return rows


_FORMS = {"plain": _plain, "canvas": _canvas, "moodle": _moodle}


def written(rows: Table) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([as_text(cell) for cell in row] for row in rows)
    return text.getvalue()


def as_text(cell: str) -> str:
    """A cell that a spreadsheet takes for text: with an apostrophe in front where it would be a formula."""
    cell = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]", "", cell)
    if re.fullmatch(r"-?\d+(\.\d+)?", cell):
        return cell
    # Spreadsheets skip white space, and know the wide forms of the signs as well.
    return f"'{cell}" if re.match(r"\s*[=+\-@＝＋－＠]|[\t\r\n]", cell) else cell
