"""Everything that a course keeps about one student: written into one zip, or erased.

A file is a student's if it, or a folder that it lies in, is called by their id. Of tables, logs and
course.yml the lines that name them are theirs.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ppobook.course import collecting, roster, settings, trail
from ppobook.course.settings import Course
from ppobook.run.files import atomic_write

# Here are the solutions and the packs, which are about no student.
_APART = ("exercises", "release")
_IDS = frozenset(roster.NAMES["student_id"] + roster.NAMES["email"])


@dataclass(frozen=True)
class Data:
    """Everything about one student: whole files, and of others the text without and with their lines."""

    files: tuple[Path, ...]
    divided: dict[Path, tuple[str, str]]


def find(course: Course, student: str) -> Data:
    """Find all that is kept about a student, who may have left the roster.

    Raises
    ------
    ValueError
        Nothing is kept about such a student.
    """
    email = next((one.email for one in roster.load(course.folder) if one.student_id == student), "")
    folder, files, divided = course.folder, [], {}
    kept = {path.parent: _json(path) for path in folder.glob(f"{roster.SUBMITTED}/**/{collecting.RECEIPT}")}
    same = {one.get("sha256") for one in kept.values() if one.get("student") == student}
    # What was given to them by hand lies below `_unknown` as well.
    by_hand = [path for path, one in kept.items() if one.get("student") is None and one.get("sha256") in same]
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if not path.is_file() or path.is_symlink() or parts[0] in _APART or ".git" in parts:
            continue
        if student in (*parts[:-1], path.stem) or path.parent in by_hand:
            files.append(path)
        elif path.suffix in _DIVIDE:
            text = path.read_bytes().decode("utf-8-sig", errors="surrogateescape")
            without, own = _DIVIDE[path.suffix](text, student, email)
            if own:
                divided[path] = without, own
    if not files and not divided:
        raise ValueError(f"student must be one of whom something is kept, got {student!r}")
    return Data(tuple(files), divided)


def export(course: Course, student: str, file: Path) -> list[str]:
    """Write all that is kept about a student into a zip, and return the names in it."""
    found = find(course, student)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in found.files:
            archive.write(path, path.relative_to(course.folder))
        for path, (_, own) in found.divided.items():
            archive.writestr(str(path.relative_to(course.folder)), own.encode(errors="surrogateescape"))
        return archive.namelist()


def erase(course: Course, student: str, *, dry_run: bool = False) -> list[str]:
    """Erase all that is kept about a student, and return the names of what was changed.

    Raises
    ------
    ValueError
        Nothing is kept about such a student, or course.yml has to be edited by hand first.
    """
    found = find(course, student)
    yml = course.folder / settings.FILE
    if yml in found.divided:
        others = tuple(one for one in course.extensions if one.student != student)
        try:
            left = settings.read(found.divided[yml][0], course.folder)
        except ValueError:
            left = course
        if left != replace(course, extensions=others):
            raise ValueError(
                f"{settings.FILE} must not name {student}: take them out by hand first; what they handed in "
                "for a group can be given to another member by `ppobook course collect … --student`"
            )
    if not dry_run:
        for path, (without, _) in found.divided.items():
            atomic_write(path, without.encode(errors="surrogateescape"))
        # A zip for a learning platform has everybody's pages, and can be made anew.
        for path in (*found.files, *(course.folder / "feedback").glob("*.zip")):
            path.unlink()
        for parent in sorted({path.parent for path in found.files}, reverse=True):
            while parent != course.folder and not any(parent.iterdir()):
                parent.rmdir()
                parent = parent.parent
        trail.note(course.folder, "erasure", files=len(found.files) + len(found.divided))
    return [str(path.relative_to(course.folder)) for path in (*found.divided, *found.files)]


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def _table(text: str, student: str, email: str) -> tuple[str, str]:
    """A table without a student's rows, and these with the heading."""
    rows = list(csv.reader(io.StringIO(text, newline="")))
    places = [at for at, name in enumerate(rows[0] if rows else ()) if name.strip().lower() in _IDS]
    own = [
        row for row in rows[1:] if {student, email or student} & {row[at] for at in places if at < len(row)}
    ]
    end = "\r\n" if "\r\n" in text else "\n"

    def written(some: list[list[str]]) -> str:
        made = io.StringIO()
        csv.writer(made, lineterminator=end).writerows(some)
        return made.getvalue()

    return written([row for row in rows if row not in own]), written(rows[:1] + own) if own else ""


def _log(text: str, student: str, email: str) -> tuple[str, str]:
    """A log without the lines that name a student, and these."""
    lines = text.splitlines(keepends=True)
    own = [line for line in lines if re.search(rf'"{re.escape(student)}"', line)]
    return "".join(line for line in lines if line not in own), "".join(own)


def _settings(text: str, student: str, email: str) -> tuple[str, str]:
    """The text of course.yml without the lines that name a student, and these."""
    lines = text.splitlines(keepends=True)
    name = re.compile(rf"(?<![\w.@+-]){re.escape(student)}(?![\w.@+-])")
    own = [line for line in lines if name.search(line.partition("#")[0])]
    return "".join(line for line in lines if line not in own), "".join(own)


_DIVIDE = {".csv": _table, ".jsonl": _log, ".yml": _settings}
