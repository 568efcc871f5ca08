"""Records that pass between handing out, grading, the gradebook and feedback.

A *pack* is an assignment as it was handed out, with the data on its parts that grading needs. A *sheet* says
what it asks for and what it is worth by now. A *submission* is what counts of one student or group. A
*record* is the file `graded/ASSIGNMENT/STUDENT.json`: the result of grading what this student handed in, with
the digests of everything it depends on.
"""

from __future__ import annotations

import ast
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ppobook.course.sources import check_call
from ppobook.run.files import atomic_write
from ppobook.teaching.tags import Notebook
from ppobook.validation import choice


@dataclass(frozen=True)
class PackPart:
    """A part that earns points: ``role`` is "test" or "manual".

    A tested part has the ``expression`` that its check is given and, in ``partial``, the share of the points
    that some named mistakes earn; a manual one has its ``question`` and ``rubric`` in Markdown. ``exercise``
    is the label and ``title`` the title of its exercise.
    """

    name: str
    role: str
    points: float
    exercise: str = ""
    title: str = ""
    expression: str = ""
    question: str = ""
    rubric: str = ""
    partial: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pack:
    """An assignment as it was handed out; ``set`` names its exercise sets."""

    assignment: str
    notebook: Notebook
    parts: tuple[PackPart, ...]
    set: str = ""

    @property
    def tested(self) -> tuple[PackPart, ...]:
        return tuple(one for one in self.parts if one.role == "test")

    @property
    def manual(self) -> tuple[PackPart, ...]:
        return tuple(one for one in self.parts if one.role == "manual")

    @property
    def points(self) -> float:
        return sum(one.points for one in self.parts)

    @cached_property
    def digest(self) -> str:
        """A digest of all of it: grades that were given for another pack are given again."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def named(parts: Sequence[PackPart], name: str) -> PackPart:
    names = [one.name for one in parts]
    return parts[names.index(choice("the part", name, names))]


def answers_of(source: str) -> dict[str, str]:
    """Return the expressions handed to `check`, by exercise: ``check("dpo-loss", loss)`` -> ``loss``."""
    calls = filter(None, map(check_call, ast.parse(source).body))
    return {ast.literal_eval(call.args[0]): ast.unparse(call.args[1]) for call in calls}


@dataclass(frozen=True)
class Sheet:
    """The parts of an assignment; ``pack`` is the digest of what was handed out, ``title`` may be empty.

    ``checks`` has a digest of each tested part's check.
    """

    assignment: str
    due: datetime
    parts: tuple[PackPart, ...]
    pack: str = ""
    title: str = ""
    checks: Mapping[str, str] = field(default_factory=dict)

    @property
    def called(self) -> str:
        return self.title or self.assignment

    @property
    def points(self) -> float:
        return sum(part.points for part in self.parts)

    def part(self, name: str) -> PackPart:
        return named(self.parts, name)


@dataclass(frozen=True)
class Submission:
    """The submission that counts for `students`: one, or all of a group.

    ``by`` handed it in, ``path`` is the notebook's. ``received`` has a time zone, and is None where the
    platform does not say it; ``late_unknown`` if it says only that it was late: all points count until
    somebody decides. ``share`` of the points is left after ``late_days``; ``due`` considers extensions.
    """

    students: tuple[str, ...]
    by: str
    path: Path
    received: datetime | None
    late_days: int = 0
    share: float = 1.0
    late_unknown: bool = False
    due: datetime | None = None


@dataclass(frozen=True)
class Record:
    """The result of grading, as it is kept on the disk."""

    assignment: str
    by: str
    submission: str
    pack: str
    checks: Mapping[str, str]
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> Mapping[str, Mapping[str, Any]]:
        return self.result.get("parts", {})

    @property
    def missing(self) -> list[str]:
        """The manual parts whose cell was deleted."""
        return list(self.result.get("missing", ()))

    @property
    def unclear(self) -> list[str]:
        """Texts of the student that may be answers to a manual part without one."""
        return list(self.result.get("unclear", ()))

    def text(self, part: str) -> str:
        return str(self.result.get("manual", {}).get(part) or "")

    def to_read(self, part: str) -> str:
        """The text that a person reads for a manual part: the answer, or else what may be it."""
        return self.text(part) if self.text(part).strip() else "\n\n".join(self.unclear)

    def is_empty(self, part: str) -> bool:
        """Return whether nobody has to read a manual part: there is no text that may be its answer."""
        return not self.text(part).strip() and not self.unclear


def graded_file(folder: Path, assignment: str, student: str) -> Path:
    return folder / "graded" / assignment / f"{student}.json"


def write_record(folder: Path, record: Record) -> None:
    path = graded_file(folder, record.assignment, record.by)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(record), ensure_ascii=False, indent=1, allow_nan=False)
    atomic_write(path, f"{text}\n")


def read_record(folder: Path, assignment: str, student: str) -> Record | None:
    """The record of a student; None where there is none, or none that can be read."""
    try:
        return Record(**json.loads(graded_file(folder, assignment, student).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def read_records(folder: Path, assignment: str, submissions: Iterable[Submission]) -> dict[str, Record]:
    """The records of submissions, by student."""
    found = [(one, read_record(folder, assignment, one.by)) for one in submissions]
    return {student: record for one, record in found if record is not None for student in one.students}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def keyed_digest(secret: str, message: str) -> bytes:
    """Return a digest of a message that nobody can compute without the course's secret."""
    return hmac.digest(secret.encode(), message.encode(), "sha256")


def text_digest(text: str) -> str:
    """Return an identifier of a student's text that ignores white space."""
    return digest(" ".join(text.split()).encode())[:16]
