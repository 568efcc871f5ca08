"""Scores: what grading found, what people decided, and what is taken off for late days.

Nothing is kept twice. A score is computed from the records in `graded/` and the decisions in `marks/`.

A decision is a line of `marks/ASSIGNMENT/PART.jsonl` that is never rewritten. It is a mark, given on the page
for marking, or a correction, made by a command; a correction counts more than a mark. A mark names the marks
that its author saw and replaced. So the files of two markers merge, by git or in a shared folder, in any
order of their lines. Two marks that did not see each other both stand, and where they differ, that is a
conflict until somebody marks again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ppobook.course import trail
from ppobook.course.records import PackPart, Record, Sheet, Submission, text_digest

FOLDER = "marks"
EVERYONE = "*"
WHOLE = "_whole"  # the file of corrections of a whole assignment


@dataclass(frozen=True)
class Decision:
    """One decision of a person about one student's part.

    ``what`` is "mark", or of a correction "points", "full", "excused" or "undo"; ``max`` is what the part was
    worth, so that points keep their share where that changes; ``text`` is the digest of the text that was
    marked; ``replaces`` are the ids of the marks that it takes the place of.
    """

    id: str
    time: str
    who: str
    what: str
    student: str
    part: str
    points: float | None = None
    max: float = 0.0
    comment: str = ""
    text: str = ""
    replaces: Sequence[str] = ()


def decide(folder: Path, assignment: str, what: str, student: str, part: str, **facts: Any) -> None:
    """Write one decision, flushed to the disk."""
    (folder / FOLDER / assignment).mkdir(parents=True, exist_ok=True)
    file = f"{FOLDER}/{assignment}/{part or WHOLE}.jsonl"
    trail.note(folder, what, file=file, id=secrets.token_hex(6), student=student, part=part, **facts)


class Decisions:
    """The decisions of people about an assignment, read from all files in its folder.

    A line that is no decision, such as git's marks of a conflict, is left out.
    """

    def __init__(self, folder: Path, assignment: str) -> None:
        found: dict[str, Decision] = {}
        for path in sorted((folder / FOLDER / assignment).glob("*.jsonl")):
            for entry in trail.read(path.parent, path.name):
                with suppress(TypeError):
                    one = Decision(**entry)
                    found[one.id] = one
        self.all_marks: dict[tuple[str, str], list[Decision]] = {}
        # The last of each, in the order of their times.
        self.corrections: dict[tuple[str, str], Decision] = {}
        for one in sorted(found.values(), key=lambda one: one.time):
            key = one.student, one.part
            if one.what == "mark":
                self.all_marks.setdefault(key, []).append(one)
            else:
                self.corrections.pop(key, None)
                if one.what != "undo":
                    self.corrections[key] = one

    def correction(self, student: str, part: str) -> Decision | None:
        """The correction that counts: the later of the student's own and everyone's."""
        found = [one for key, one in self.corrections.items() if key in ((student, part), (EVERYONE, part))]
        return found[-1] if found else None

    def marks(self, student: str, part: str, text: str) -> list[Decision]:
        """The marks of a text that stand: one, or several where markers did not see each other."""
        made = self.all_marks.get((student, part), [])
        replaced = {other for one in made for other in one.replaces}
        return [one for one in made if one.id not in replaced and one.text == text_digest(text)]


@dataclass(frozen=True)
class PartScore:
    """One part of one student.

    ``auto`` are the grader's points, None where a person has to mark; ``manual`` are a person's. ``reason``
    is that of a correction, ``marks`` are the marks that stand, of which several may disagree.
    """

    max: float
    auto: float | None
    manual: float | None = None
    comment: str = ""
    reason: str = ""
    excused: bool = False
    marks: tuple[Decision, ...] = ()

    @property
    def points(self) -> float:
        """The points that count: a person's, else the grader's, else none."""
        return self.manual if self.manual is not None else self.auto or 0.0

    @property
    def comments(self) -> list[str]:
        return [one for one in (self.reason, self.comment) if one]

    @property
    def conflict(self) -> bool:
        return self.manual is None and len({one.points for one in self.marks}) > 1

    @property
    def waiting(self) -> bool:
        """True while a person has to mark it, or to settle a conflict."""
        return not self.excused and (self.conflict or (self.auto is None and self.manual is None))


@dataclass(frozen=True)
class Score:
    """One student's submission of one assignment; ``excused`` is why the whole assignment does not count."""

    student: str
    parts: Mapping[str, PartScore]
    share: float = 1.0
    excused: str = ""

    @cached_property
    def max(self) -> float:
        return sum(part.max for part in self.parts.values())

    @cached_property
    def points(self) -> float:
        """The points before what is taken off for being late. What counts is scaled up to the maximum."""
        counted = [part for part in self.parts.values() if not part.excused]
        most = sum(part.max for part in counted)
        return sum(part.points for part in counted) * (self.max / most if most else 0.0)

    @property
    def penalty(self) -> float:
        return self.points * (1 - self.share)

    @property
    def final(self) -> float:
        return self.points - self.penalty

    @property
    def waiting(self) -> tuple[str, ...]:
        """The parts that nobody has marked yet."""
        return tuple(name for name, part in self.parts.items() if part.waiting)


def scores(
    sheet: Sheet,
    submissions: Iterable[Submission],
    records: Mapping[str, Record],
    decisions: Decisions,
    students: Sequence[str] = (),
) -> dict[str, Score]:
    """Compute the score of each student whose submission is graded for this pack, or who is excused.

    Any of the `students` may be excused without a submission.
    """
    excused = {who: one.comment for who in students if (one := decisions.correction(who, ""))}
    found = {who: Score(who, {}, excused=why) for who, why in excused.items()}
    for submission in submissions:
        for student in submission.students:
            record = records.get(student)
            # Points of another pack may be on another scale; they are nothing until it is graded again.
            if record is not None and record.pack == sheet.pack:
                parts = {part.name: _score(part, student, record, decisions) for part in sheet.parts}
                found[student] = Score(student, parts, submission.share, excused.get(student, ""))
    return found


def _score(part: PackPart, student: str, record: Record, decisions: Decisions) -> PartScore:
    auto = _auto(part, record)
    said = decisions.correction(student, part.name)
    if said is not None and said.what == "excused":
        return PartScore(part.points, auto, reason=said.comment, excused=True)
    marks = decisions.marks(student, part.name, record.to_read(part.name))
    comment = "\n\n".join(dict.fromkeys(one.comment for one in marks if one.comment))
    if said is not None:
        points = part.points if said.what == "full" else _scaled(said, part)
        return PartScore(part.points, auto, points, comment, said.comment, marks=tuple(marks))
    given = {one.points for one in marks}
    manual = _scaled(marks[0], part) if len(given) == 1 else None
    return PartScore(part.points, auto, manual, comment, marks=tuple(marks))


def _auto(part: PackPart, record: Record) -> float | None:
    if part.role == "manual":
        return 0.0 if record.is_empty(part.name) else None
    verdict = record.parts.get(part.name, {})
    if verdict.get("kind") == "mistake" and verdict.get("mistake") in part.partial:
        return round(part.partial[verdict["mistake"]] * part.points, 2)
    return float(verdict.get("points", 0.0))


def _scaled(one: Decision, part: PackPart) -> float | None:
    if one.points is None:
        return None
    return one.points if one.max in (0, part.points) else round(one.points / one.max * part.points, 2)
