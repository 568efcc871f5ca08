"""The students of a course: roster.csv, and the lists that platforms export."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ppobook.course.settings import STUDENT_FORM, is_student_id
from ppobook.run.files import atomic_write
from ppobook.validation import choice

FILE = "roster.csv"
SUBMITTED = "submitted"


@dataclass(frozen=True)
class Student:
    """One student. ``lms_id`` is the number that a learning platform puts into the names of files."""

    student_id: str
    last_name: str = ""
    first_name: str = ""
    email: str = ""
    group: str = ""
    lms_id: str = ""

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip() or self.student_id


COLUMNS = tuple(field.name for field in fields(Student))

# What platforms call a column, in small letters; the first that a list has is taken.
NAMES: Mapping[str, tuple[str, ...]] = {
    "student_id": (
        *("student_id", "sis login id", "sis user id", "login id", "username", "id number", "student id"),
        *("student number", "login", "id"),
    ),
    "last_name": ("last_name", "last name", "surname", "family name"),
    "first_name": ("first_name", "first name", "given name"),
    "email": ("email", "email address", "e-mail"),
    "group": ("group", "groups", "section"),
    "lms_id": ("lms_id", "id", "identifier", "user id"),
}
_FULL_NAME = ("student", "full name", "name")
# Canvas has a row of points below the heading and a test student at the end.
_NOBODY = re.compile(r"points possible|student, test", re.I)


def load(folder: Path) -> tuple[Student, ...]:
    path = folder / FILE
    return read(path) if path.exists() else ()


def read(path: Path) -> tuple[Student, ...]:
    """The students of a list, as this course's roster or a platform has them."""
    students: dict[str, Student] = {}
    for row in table(path):
        columns: dict[str, str] = {}
        for column, known in NAMES.items():
            name = next((one for one in known if one in row), "")
            # An id that already is the student's is not the platform's as well.
            if name and name not in columns.values():
                columns[column] = name
        if _NOBODY.match(row.get("student", "")):
            continue
        student = _student(row, columns)
        if not is_student_id(student.student_id):
            raise ValueError(
                f"an id in {path.name} (student_id, SIS Login ID, ID number, …) must have {STUDENT_FORM}, "
                f"got {student.student_id!r}"
            )
        # On some systems the names of folders don't differ by capitals alone.
        if student.student_id.lower() in students:
            raise ValueError(f"{path.name} must have {student.student_id!r} once, got it twice")
        students[student.student_id.lower()] = student
    return tuple(students.values())


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, by the names of its columns in small letters."""
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:  # as a spreadsheet program saves it on Windows
        text = content.decode("cp1252", errors="replace")
    separator = max(",;\t", key=text.partition("\n")[0].count)
    rows = csv.DictReader(io.StringIO(text, newline=""), restkey="", restval="", delimiter=separator)
    rows.fieldnames = [name.strip().lower() for name in rows.fieldnames or ()]
    return [{key: str(value).strip() for key, value in row.items()} for row in rows]


def _student(row: Mapping[str, str], columns: Mapping[str, str]) -> Student:
    values = {column: row[name] for column, name in columns.items()}
    full = next((row[name] for name in _FULL_NAME if name in row), "")
    if full and not values.get("last_name"):  # "Lovelace, Ada", or "Ada Lovelace"
        last, comma, first = full.partition(",")
        if not comma:
            first, _, last = full.rpartition(" ")
        values |= {"last_name": last.strip(), "first_name": first.strip()}
    values.setdefault("student_id", values.get("email", "").partition("@")[0])
    if found := re.fullmatch(r"\D+ (\d+)", values.get("lms_id", "")):  # Moodle's "Participant 123"
        values["lms_id"] = found[1]
    return Student(**values)


def merged(folder: Path, new: Sequence[Student]) -> tuple[list[Student], list[str]]:
    """A course's roster after a new list, and a line for each change.

    Data that the list lacks, such as a group, stays, and so does who is missing in the list and has handed
    something in.
    """
    before = {one.student_id: one for one in load(folder)}
    after, said = [], []
    for student in new:
        old = before.pop(student.student_id, None)
        if old is None:
            after.append(student)
            said.append(f"+ {student.student_id}  {student.name}")
            continue
        facts = {name: value or getattr(old, name) for name, value in asdict(student).items()}
        after.append(Student(**facts))
        differs = [f"{name} {facts[name]}" for name in COLUMNS if facts[name] != getattr(old, name)]
        if differs:
            said.append(f"~ {student.student_id}  {', '.join(differs)}")
    for one in before.values():
        if any((folder / SUBMITTED).glob(f"*/{one.student_id}")):
            after.append(one)
            what = ": not in the list any more, kept with their submissions"
            said.append(f"! {one.student_id}  {one.name}{what}")
        else:
            said.append(f"- {one.student_id}  {one.name}")
    return after, said


def write(folder: Path, students: Sequence[Student]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(one) for one in students)
    atomic_write(folder / FILE, text.getvalue())


def find(students: Sequence[Student], identifier: str) -> Student:
    ids = [one.student_id for one in students]
    return students[ids.index(choice("the student", identifier, ids))]
