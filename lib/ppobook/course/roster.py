"""The students of a course: roster.csv, and lists as learning platforms export them.

A list may be Canvas's gradebook, Moodle's participants or grades, or any table with a column of ids. Its
import shows what changes. A student who is missing in a new list and has handed something in stays.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from ppobook import validation
from ppobook.course.settings import STUDENT_FORM, is_student_id
from ppobook.run.files import atomic_write

FILE = "roster.csv"
SUBMITTED = "submitted"


@dataclass(frozen=True)
class Student:
    """One student; ``lms_id`` is the number that a learning platform puts into the names of files."""

    student_id: str
    last_name: str = ""
    first_name: str = ""
    email: str = ""
    group: str = ""
    lms_id: str = ""

    @property
    def name(self) -> str:
        """First and last name; the id where there are none."""
        return f"{self.first_name} {self.last_name}".strip() or self.student_id


COLUMNS = tuple(field.name for field in fields(Student))

# What platforms call a column, in small letters, in some languages. Of the names for an id, the first that a
# list has is taken.
NAMES: Mapping[str, tuple[str, ...]] = {
    "student_id": (
        "student_id", "sis login id", "sis user id", "login id", "username", "user name", "benutzername",
        "anmeldename", "nom d'utilisateur", "nombre de usuario", "id number", "id-nummer", "matrikelnummer",
        "numéro d'identification", "número de id", "student id", "studentid", "student number", "login", "id",
    ),
    "last_name": ("last_name", "last name", "surname", "nachname", "nom de famille", "nom", "apellido(s)",
                  "apellidos", "family name"),
    "first_name": ("first_name", "first name", "vorname", "prénom", "nombre", "given name"),
    "email": ("email", "email address", "e-mail", "e-mail-adresse", "adresse de courriel", "courriel", "mail",
              "dirección de correo", "correo electrónico"),
    "group": ("group", "groups", "section", "gruppe", "gruppen", "groupe", "groupes", "grupo", "grupos"),
    "lms_id": ("lms_id", "id", "identifier", "user id", "userid"),
}  # fmt: skip
_FULL_NAME = ("student", "full name", "name", "vollständiger name", "nom complet", "nombre completo")
_TEST_STUDENT = re.compile(r"points possible|student, test", re.I)


def load(folder: Path) -> tuple[Student, ...]:
    """The students of a course, in the order of roster.csv; none where there is no such file yet."""
    path = folder / FILE
    return read(path) if path.exists() else ()


def read(path: Path, known: Collection[str] = ()) -> tuple[Student, ...]:
    """The students of a list, as this course's roster or a platform has them.

    Parameters
    ----------
    path : Path
    known : collection of str
        The ids of the roster: of several columns of ids, the one that has most of these is taken.

    Raises
    ------
    ValueError
        It is no list of students: the message names the line.
    """
    text = decoded(path, "the list of students")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator(text))
    rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    if not rows:
        raise ValueError(f"{path.name} must be a list of students, got an empty file")
    heading = [cell.lower().rstrip(":") for cell in rows[0][1]]
    columns = _columns(heading, [row for _, row in rows[1:]], {one.lower() for one in known})
    if "student_id" not in columns and "email" not in columns:
        got = ", ".join(rows[0][1][:8])
        raise ValueError(
            f"{path.name} must have a column of ids, such as student_id, SIS Login ID or ID number, got {got}"
        )
    students: dict[str, tuple[int, Student]] = {}
    for number, row in rows[1:]:
        student = _student(row, heading, columns)
        # Canvas has a row of points below the heading and a test student at the end.
        if _TEST_STUDENT.match(row[0]) and (heading[0] == "student" or not student.student_id):
            continue
        where = f"{path.name}, line {number}"
        if not student.student_id:
            raise ValueError(f"{where}: {student.name or 'a student'} must have an id, got none")
        if not is_student_id(student.student_id):
            raise ValueError(f"{where}: an id must have {STUDENT_FORM}, got {student.student_id!r}")
        # On some systems the names of folders don't differ by capitals alone.
        before = students.get(student.student_id.lower())
        if before:
            raise ValueError(
                f"{where}: {student.student_id!r} must stand once, and is in line {before[0]} too"
            )
        students[student.student_id.lower()] = number, student
    return tuple(student for _, student in students.values())


def decoded(path: Path, what: str) -> str:
    """The text of a table as spreadsheet programs save it: UTF-8, UTF-16, or Windows' Western encoding."""
    if not path.is_file():
        raise FileNotFoundError(f"{what} must be a CSV file, got {str(path)!r}, which is not there")
    content = path.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace")
    if content.startswith(b"PK"):
        raise ValueError(f"{path.name} must be a CSV file, got a spreadsheet; save it as CSV")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def separator(text: str) -> str:
    """Return the separator of a table's columns: a comma, a semicolon or a tab."""
    return max(",;\t", key=text.lstrip().partition("\n")[0].count)


def _columns(heading: Sequence[str], rows: Sequence[Sequence[str]], ids: Collection[str]) -> dict[str, int]:
    columns: dict[str, int] = {}

    def has(at: int) -> int:
        return sum(len(row) > at and row[at].lower() in ids for row in rows)

    for column, known in NAMES.items():
        places = [heading.index(name) for name in known if name in heading]
        at = next(iter(places), None)
        if column == "student_id" and places:
            at = max(places, key=has)  # the first of those that have the same
        # An id that already is the student's is not the platform's as well.
        if at is not None and at not in columns.values():
            columns[column] = at
    return columns


def _student(row: Sequence[str], heading: Sequence[str], columns: Mapping[str, int]) -> Student:
    values = {name: row[at] if at < len(row) else "" for name, at in columns.items()}
    full = next((i for i, name in enumerate(heading) if name in _FULL_NAME), None)
    if full is not None and not values.get("last_name") and full < len(row):
        # "Lovelace, Ada", or "Ada Lovelace".
        last, comma, first = row[full].partition(",")
        if not comma:
            first, _, last = row[full].rpartition(" ")
        values |= {"last_name": last.strip(), "first_name": first.strip()}
    if "student_id" not in columns:  # the name of the mailbox
        values["student_id"] = values["email"].partition("@")[0]
    if found := re.fullmatch(r"\D+ (\d+)", values.get("lms_id", "")):  # Moodle's "Participant 123"
        values["lms_id"] = found[1]
    return Student(**values)


# --- importing ----------------------------------------------------------------------------------------------


def merged(folder: Path, new: Sequence[Student]) -> tuple[list[Student], list[str]]:
    """A course's roster after a new list, and a line for each change.

    Data that the list lacks, such as a group, stays. So does how a name is divided, which a list with full
    names alone does not say, and so does who is missing in the list and has handed something in.
    """
    if not new:
        raise ValueError("the list must have at least one student below its heading, got none")
    before = {one.student_id: one for one in load(folder)}
    after, said = [], []
    for student in new:
        old = before.pop(student.student_id, None)
        if old is None:
            after.append(student)
            said.append(f"+ {student.student_id}  {student.name}")
            continue
        made = Student(**{name: value or getattr(old, name) for name, value in asdict(student).items()})
        if made.name == old.name:
            made = replace(made, first_name=old.first_name, last_name=old.last_name)
        after.append(made)
        pairs = ((name, getattr(old, name), getattr(made, name)) for name in COLUMNS)
        if differs := [f"{name} {had!r} → {has!r}" for name, had, has in pairs if had != has]:
            said.append(f"~ {student.student_id}  {', '.join(differs)}")
    for one in before.values():
        if any((folder / SUBMITTED).glob(f"*/{one.student_id}")):
            after.append(one)
            said.append(
                f"! {one.student_id}  {one.name}: not in the list any more, kept with their submissions"
            )
        else:
            said.append(f"- {one.student_id}  {one.name}")
    return after, said


def write(folder: Path, students: Sequence[Student]) -> None:
    """Write roster.csv in one step."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(one) for one in students)
    atomic_write(folder / FILE, text.getvalue())


def find(students: Sequence[Student], identifier: str) -> Student:
    """The student of this id."""
    for one in students:
        if one.student_id == identifier:
            return one
    hint = validation.did_you_mean(identifier, [one.student_id for one in students])
    raise ValueError(f"the student must be in {FILE}, got {identifier!r}{hint}")
