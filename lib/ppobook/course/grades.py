"""Grades as tables for Canvas, Moodle, Gradescope, and plain.

A number is written only where it is final: a submission that has not been graded or read to its end leaves
its cell empty. No text of a cell is a formula when the table is opened in a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ppobook.course import roster
from ppobook.course.feedback import number
from ppobook.course.gradebook import Score

FORMS = ("plain", "canvas", "moodle", "gradescope")

# What Moodle's grading worksheet calls its columns, in the languages of this course's feedback.
_MOODLE = {
    "identifier": ("identifier", "id", "identifiant", "identificador"),
    "grade": ("grade", "bewertung", "note", "calificación"),
    "comments": ("feedback comments", "feedback als kommentar", "feedback par commentaires",
                 "commentaires de feedback", "comentarios de retroalimentación"),
}  # fmt: skip
_MOST = ("maximum grade", "bestwertung", "maximale bewertung", "note maximale", "calificación máxima")
_WHO = frozenset(roster.NAMES["student_id"] + roster.NAMES["email"]) - {"id"}

Row = Mapping[str, str]
Table = list[list[str]]


@dataclass(frozen=True)
class Column:
    """One assignment: what it is worth, and each student's score; ``comments`` are for Moodle.

    ``title`` is what the platform calls it, the assignment's own name if empty; ``to_grade`` are the students
    with a submission that is not graded as it stands now.
    """

    assignment: str
    max: float
    scores: Mapping[str, Score]
    late_days: Mapping[str, int]
    comments: Mapping[str, str]
    title: str = ""
    to_grade: Collection[str] = field(default=())

    @property
    def called(self) -> str:
        """The name of the column on the platform."""
        return self.title or self.assignment

    def final(self, student: str, missing: str, *, unfinished: bool) -> str:
        """The points that count, if they are final; `missing` where nothing was handed in."""
        score = self.scores.get(student)
        if score is None:
            return "" if student in self.to_grade else missing
        if (score.waiting or student in self.to_grade) and not unfinished:
            return ""
        return number(score.final)

    def status(self, student: str) -> str:
        score = self.scores.get(student)
        if student in self.to_grade:
            return "to grade"
        return "nothing graded" if score is None else "not marked yet" if score.waiting else "graded"


def table(
    form: str,
    roster: Sequence[Row],
    columns: Sequence[Column],
    template: Table | None = None,
    *,
    zeros: bool = False,
    unfinished: bool = False,
) -> Table:
    """The grades as rows, the first of which has the columns' names.

    Parameters
    ----------
    form : {"plain", "canvas", "moodle", "gradescope"}
    roster : sequence of mappings
        With `student_id`, `last_name`, `first_name`, `email` and `group`.
    columns : sequence of Column
    template : table, optional
        What Canvas or Moodle exported: its rows and ids are kept, and the grades put in.
    zeros : bool
        Write 0, and not nothing, where nothing was handed in.
    unfinished : bool
        Write points also where some answers are not marked yet.

    Raises
    ------
    ValueError
        An unknown form, or a template that is not one of this form.
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    fill = _Fill(roster, columns, "0" if zeros else "", unfinished)
    if template is not None and form not in ("canvas", "moodle"):
        raise ValueError(f"template must be left out for {form}, which needs none")
    if form == "canvas":
        return fill.canvas(template)
    if form == "moodle":
        return fill.moodle(template)
    return fill.gradescope() if form == "gradescope" else fill.plain()


def other_points(template: Table, columns: Sequence[Column]) -> Iterator[str]:
    """Return a sentence for each column whose points possible differ from the assignment's."""
    head = template[0]
    possible = next(
        (dict(zip(head, row, strict=False)) for row in template[1:] if _is_possible(head, row)), {}
    )
    for column in columns:
        given = [
            cell
            for name, cell in possible.items()
            if re.fullmatch(re.escape(column.called) + r"( \(\d+\))?", name)
        ]
        given += [
            row[place] for row in template[1:2] for place, name in enumerate(head)
            if name.strip().casefold() in _MOST and place < len(row)
        ]  # fmt: skip
        for cell in given:
            if not re.fullmatch(r"\d+([.,]\d+)?", cell.strip()):
                continue
            most = float(cell.replace(",", "."))
            if abs(most - column.max) > 1e-9:
                yield (
                    f"{column.assignment}: the template has {most:g} points possible, what was released "
                    f"{number(column.max)}; the template's were left as they are"
                )


def _is_possible(head: Sequence[str], row: Sequence[str]) -> bool:
    return head[0] == "Student" and row[0].strip() == "Points Possible"


@dataclass(frozen=True)
class _Fill:
    roster: Sequence[Row]
    columns: Sequence[Column]
    missing: str
    unfinished: bool

    def final(self, column: Column, student: str) -> str:
        return column.final(student, self.missing, unfinished=self.unfinished)

    def plain(self) -> Table:
        head = ["student_id", "last_name", "first_name", "email", "group"]
        names = ("points", "max", "before_late", "late_days", "status")
        rows = [[*head, *(f"{column.assignment} {name}" for column in self.columns for name in names)]]
        for student in self.roster:
            row, name = [student.get(key, "") for key in head], student["student_id"]
            for column in self.columns:
                score = column.scores.get(name)
                row += [
                    self.final(column, name),
                    number(column.max),
                    number(score.points) if score else "",
                    str(column.late_days.get(name, 0)) if score else "",
                    column.status(name),
                ]
            rows.append(row)
        return rows

    def gradescope(self) -> Table:
        names = [f"{column.called}{end}" for column in self.columns for end in ("", " - Max Points")]
        rows = [["First Name", "Last Name", "SID", "Email", *names]]
        for student in self.roster:
            row = [student.get(key, "") for key in ("first_name", "last_name", "student_id", "email")]
            for column in self.columns:
                row += [self.final(column, student["student_id"]), number(column.max)]
            rows.append(row)
        return rows

    def canvas(self, template: Table | None) -> Table:
        fixed = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
        if template is None:
            rows = [[*fixed, *(column.called for column in self.columns)]]
            rows.append(["    Points Possible", "", "", "", "", *(number(c.max) for c in self.columns)])
            for student in self.roster:
                name, last = student.get("first_name", ""), student.get("last_name", "")
                names = ", ".join(filter(None, (last, name)))
                row = [names, "", student["student_id"], student.get("email", ""), student.get("group", "")]
                rows.append([*row, *(self.final(column, student["student_id"]) for column in self.columns)])
            return rows
        head = template[0] if template else []
        if not {"Student", "ID"} <= set(head):
            raise ValueError(f"template must be what Canvas exports, with columns Student and ID, got {head}")
        kept = [place for place, name in enumerate(head) if name in fixed]
        # Canvas adds its own number to an assignment's name: "week-03 (1234)".
        titles = [
            next((name for name in head if re.fullmatch(re.escape(c.called) + r"( \(\d+\))?", name)), "")
            for c in self.columns
        ]
        for column, title in zip(self.columns, titles, strict=True):
            if not title:
                raise ValueError(
                    f"template must have a column “{column.called} (number)”; make the assignment in Canvas "
                    "first, then export, or say in course.yml what it is called there, as its `title`"
                )
        rows = [[*(head[place] for place in kept), *titles]]
        for line in template[1:]:
            cells = dict(zip(head, line, strict=False))
            first = [line[place] if place < len(line) else "" for place in kept]
            if cells.get("Student", "").strip() == "Points Possible":
                given = (cells.get(title, "").strip() for title in titles)
                rows.append(
                    [*first, *(own or number(c.max) for own, c in zip(given, self.columns, strict=True))]
                )
                continue
            who = self.known(cells, ("SIS User ID", "SIS Login ID", "Integration ID"))
            if who is not None:
                points = (self.final(column, who) for column in self.columns)
                rows.append([*first, *points])
            elif not cells.get("ID", "").strip():  # "Manual Posting", below the head
                rows.append([*first, *(cells.get(title, "") for title in titles)])
        return rows

    def moodle(self, template: Table | None) -> Table:
        if template is None:
            head = [f"{c.called}{end}" for c in self.columns for end in ("", " feedback")]
            rows = [["ID number", "Email address", *head]]
            for student in self.roster:
                row = [student["student_id"], student.get("email", "")]
                for column in self.columns:
                    points = self.final(column, student["student_id"])
                    row += [points, column.comments.get(student["student_id"], "") if points else ""]
                rows.append(row)
            return rows
        head = template[0] if template else []
        named = {
            key: next((one for one in head if one.strip().casefold() in _MOODLE[key]), "") for key in _MOODLE
        }
        if not (named["identifier"] and named["grade"]):
            raise ValueError(
                f"template must be Moodle's grading worksheet, with columns Identifier and Grade, got {head}"
            )
        if len(self.columns) != 1:
            raise ValueError("template must be of one assignment; name it")
        (column,) = self.columns
        rows = [list(head)]
        for line in template[1:]:
            cells = dict(zip(head, line, strict=False))
            who = self.known(cells, [one for one in head if one.strip().casefold() in _WHO])
            points = self.final(column, who) if who is not None else ""
            if who is not None and points:
                cells[named["grade"]] = points
                if named["comments"]:
                    cells[named["comments"]] = column.comments.get(who, "")
            rows.append([cells.get(name, "") for name in head])
        return rows

    def known(self, cells: Row, keys: Iterable[str]) -> str | None:
        """The student of a row of a template, by id or address."""
        for key in keys:
            value = cells.get(key, "").strip().casefold()
            for student in self.roster:
                if value and value in (
                    student["student_id"].casefold(),
                    student.get("email", "").strip().casefold(),
                ):
                    return student["student_id"]
        return None


def written(rows: Table) -> str:
    """A table as CSV, in which no text is a formula."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([inert(cell) for cell in row] for row in rows)
    return text.getvalue()


def inert(cell: str) -> str:
    """A cell that a spreadsheet takes for text: with an apostrophe in front where it would be a formula."""
    cell = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]", "", cell)
    if re.fullmatch(r"-?\d+(\.\d+)?|-", cell):  # Moodle's "-" is no grade
        return cell
    # Spreadsheets skip white space, and know the wide forms of the signs as well.
    return f"'{cell}" if re.match(r"\s*[=+\-@＝＋－＠]|[\t\r\n]", cell) else cell


def read(path: Path) -> Table:
    """The rows of a CSV file, whatever its separator and with or without a mark of its encoding.

    Raises
    ------
    ValueError
        The file is not UTF-8, or no table.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be a CSV file in UTF-8") from None
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]
    if not rows:
        raise ValueError(f"{path} must be a CSV file, got an empty one")
    return rows


def unfinished(columns: Iterable[Column]) -> Iterator[str]:
    """Return a sentence for each assignment whose grades cannot be final yet."""
    for column in columns:
        count = sum(1 for score in column.scores.values() if score.waiting)
        if count:
            students = "student" if count == 1 else "students"
            yield f"{column.assignment}: answers of {count} {students} are not marked yet"
