"""Collecting submissions, and which of them counts.

Each one is kept in `submitted/ASSIGNMENT/STUDENT/STAMP/`, as ASSIGNMENT.ipynb with a receipt.json; what
nobody of the roster seems to have handed in is kept below `_unknown`. A submission appears in one step, and
collecting the same source twice keeps nothing twice.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from ppobook import validation
from ppobook.course import handed_in, lateness, packs, roster, trail
from ppobook.course.handed_in import Asked, HandedIn
from ppobook.course.records import Submission
from ppobook.course.roster import SUBMITTED, Student
from ppobook.course.settings import Assignment, Course
from ppobook.run.files import atomic_write, write_synced
from ppobook.run.progress import Progress

RECEIPT = "receipt.json"
UNKNOWN = "_unknown"
_STAMP = "%Y-%m-%dT%H-%M-%SZ"


@dataclass(frozen=True)
class Kept:
    """A submission that is kept. ``path`` is its notebook's, None where it has none.

    ``time`` is None where the platform does not say it; ``late`` is what the platform says.
    """

    student: str
    folder: Path
    path: Path | None
    time: datetime | None
    late: bool
    receipt: Mapping[str, Any]

    @property
    def collected(self) -> datetime:
        """When it was collected, so it was handed in before."""
        return datetime.fromisoformat(self.receipt["collected"])


@dataclass
class Collected:
    """The result of a collection.

    ``new`` hand-ins have a line that says how late they are. So have ``updated`` ones, which were kept
    already and have a time now.
    """

    new: list[tuple[str, HandedIn, str]] = field(default_factory=list)
    updated: list[tuple[str, str]] = field(default_factory=list)
    again: int = 0
    unknown: list[HandedIn] = field(default_factory=list)
    empty: list[HandedIn] = field(default_factory=list)
    missing: list[Student] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def collect(
    course: Course,
    name: str,
    source: str | Path,
    *,
    student: str | None = None,
    times: Mapping[str, datetime] | None = None,
    dry_run: bool = False,
    progress: bool | None = None,
) -> Collected:
    """Keep every submission of a source.

    Parameters
    ----------
    course : Course
    name : str
        The assignment.
    source : path
        A folder of zips, notebooks, folders or clones; the zip of Moodle or Canvas; or one student's file.
    student : str, optional
        Whose the source is, one file, whatever it is called. A file below `submitted` keeps its time.
    times : mapping, optional
        By student, when they handed in. It corrects what is kept already.
    dry_run : bool
        Keep nothing.
    progress : bool, optional
        As in `ppobook.run.progress.Progress`.
    """
    assignment = course.assignment(name)
    source = validation.path("source", source, "a folder or a zip")
    students = roster.load(course.folder)
    if not students:
        raise ValueError(
            f"{roster.FILE} must hold the students first, got none; `ppobook course roster FILE` imports them"
        )
    if student is not None:
        roster.find(students, student)
    base = course.folder / SUBMITTED / name
    for left in base.glob("*/.part-*") if not dry_run else ():
        shutil.rmtree(left, ignore_errors=True)
    result, asked = Collected(), _asked(course, name)
    found, result.notes = handed_in.read(source, course, name, students, student)
    if not found:
        raise ValueError(f"source must hold submissions, got {str(source)!r} with no file in it")
    for one in found:  # the first that may be this assignment's ends it
        others = [asked.other(content) for _, content in handed_in.opened(one, course).notebooks]
        if None in others or not others:
            break
    else:
        raise ValueError(f"source must hold notebooks of {name}, got those of {others[0]}")
    released = [
        datetime.fromisoformat(one["time"])
        for one in trail.read(course.folder)
        if one.get("what") == "release" and one.get("assignment") == name
    ]
    first = min(released, default=None)
    keeper = _Keeper(course, assignment, asked, times or {}, result, dry_run, first)
    with Progress(len(found), 0, f"collecting {name}", "submission", progress) as bar:
        for count, one in enumerate(found, 1):
            made = handed_in.opened(one, course)
            if student is not None:
                _as_collected(made, course, source)
            keeper.keep(made)
            bar.show(count, {})
    have = {path.name for path in base.glob("*") if path.is_dir()} | {who for who, *_ in result.new}
    result.missing = [one for one in students if not have.intersection(course.group(name, one.student_id))]
    return result


def _asked(course: Course, name: str) -> Asked:
    """Return the cell ids that tell this assignment's notebooks from those of the other released ones."""
    ids: dict[str, frozenset[str]] = {}
    blank: frozenset[str] = frozenset()
    for other in course.assignments:
        handout = packs.released(course, other.name)
        cells = handout.notebook["cells"] if handout else []
        ids[other.name] = frozenset(one["id"] for one in cells if one["metadata"]["nbgrader"]["solution"])
        if other.name == name:
            blank = frozenset(one["source"].strip() for one in cells)
    return Asked(name, ids, blank)


def _as_collected(made: HandedIn, course: Course, file: Path) -> None:
    """Take the time of a file that was collected before. Beside any other file a receipt says nothing."""
    if file.resolve().is_relative_to((course.folder / SUBMITTED).resolve()):
        receipt = _receipt(file.parent / RECEIPT)
        made.time, made.late, made.time_from = receipt.time, receipt.late, receipt.receipt["time_from"]


@dataclass(frozen=True)
class _Keeper:
    """Keeps the submissions of one source."""

    course: Course
    assignment: Assignment
    asked: Asked
    times: Mapping[str, datetime]
    result: Collected
    dry_run: bool
    released: datetime | None

    def keep(self, made: HandedIn) -> None:
        """Keep one submission, unless it is kept already."""
        name, result = self.assignment.name, self.result
        if made.student is not None and made.student in self.times:
            made.time, made.late, made.time_from = self.times[made.student], False, "given"
            made.notes = [one for one in made.notes if "--times" not in one]
        elif made.time is not None and self.released is not None and made.time < self.released:
            came, out = self.local(made.time), self.local(self.released)
            made.notes.append(f"its time is {came}, before the assignment was released, {out}")
        chosen = handed_in.pick(made, self.asked)
        if chosen is None:
            result.empty.append(made)
        if made.student is None:
            result.unknown.append(made)
        parent = self.course.folder / SUBMITTED / name / (made.student or f"{UNKNOWN}/{_safe(made.label)}")
        content = [data for i, (_, data) in enumerate(made.notebooks) if chosen in (None, i)]
        content += [made.original[1]] if chosen is None and made.original else []
        digest = hashlib.sha256(b"".join(content)).hexdigest()
        if before := _before(made, digest, _kept(parent)):
            self.update(before, made)
            return
        if made.student:
            result.new.append((made.student, made, self.lateness(made.student, made)))
        if self.dry_run:
            return
        receipt = {
            "assignment": name,
            "student": made.student,
            "label": made.label,
            "source": made.kind,
            "name": "/".join(made.files[0].parts) if made.files else made.label,
            "time": self.local(made.time),
            "time_from": made.time_from if made.time else "",
            "late": made.late,
            "notebook": f"{name}.ipynb" if chosen is not None else None,
            "original": made.original[0] if made.original else None,
            "sha256": digest,
            "notes": made.notes,
            "collected": self.local(datetime.now(UTC)),
        }
        files = {RECEIPT: _as_json(receipt)}
        for i, (_, data) in enumerate(made.notebooks):
            files[f"{name}.ipynb" if i == chosen else f"other-{i + 1}.ipynb"] = data
        if made.original:
            suffix = PurePosixPath(made.original[0]).suffix.lower()
            files[f"original{suffix if re.fullmatch(r'[.][a-z0-9]{1,8}', suffix) else ''}"] = made.original[1]
        _write(parent, made.time, files)

    def update(self, before: Kept, made: HandedIn) -> None:
        """Give a submission that is kept already the time that is given now."""
        time = self.local(made.time)
        if made.time_from != "given" or made.student is None or before.receipt["time"] == time:
            self.result.again += 1
            return
        self.result.updated.append((made.student, self.lateness(made.student, made)))
        if not self.dry_run:
            notes = [one for one in before.receipt["notes"] if "--times" not in one]
            facts = {"time": time, "time_from": "given", "late": False, "notes": notes}
            atomic_write(before.folder / RECEIPT, _as_json({**before.receipt, **facts}))

    def local(self, time: datetime | None) -> str | None:
        return time.astimezone(self.course.timezone).isoformat(timespec="seconds") if time else None

    def lateness(self, student: str, made: HandedIn) -> str:
        """When it came and how late that is, for a reader."""
        due = lateness.deadline(self.course, self.assignment, student)
        if made.time is None:
            return "late, time unknown" if made.late else "in time"
        days = lateness.lateness(made.time, due, self.course.late).days
        shown = f"{made.time.astimezone(self.course.timezone):%Y-%m-%d %H:%M}"
        return f"{shown}, {validation.counted(days, 'day')} late" if days else shown


def _as_json(receipt: Mapping[str, Any]) -> bytes:
    return (json.dumps(receipt, indent=1, ensure_ascii=False) + "\n").encode()


def _write(parent: Path, time: datetime | None, files: Mapping[str, bytes]) -> None:
    """Write a submission's folder, which appears in one step."""
    part = parent / f".part-{os.getpid()}"
    part.mkdir(parents=True)
    for name, content in files.items():
        write_synced(part / name, content)
    stamp = time.astimezone(UTC).strftime(_STAMP) if time else "time-unknown"
    number = 1
    while (folder := parent / (stamp if number == 1 else f"{stamp}-{number}")).exists():
        number += 1
    part.rename(folder)


def _before(made: HandedIn, digest: str, kept: list[Kept]) -> Kept | None:
    """The submission, if it was collected before.

    A copy may have another time, so the last one's bytes are enough; earlier bytes, handed in once more, are
    a new submission, unless their time is that of before or unknown.
    """
    same = [one for one in kept if one.receipt["sha256"] == digest]
    if same and (same[-1] is kept[-1] or made.time is None):
        return same[-1]
    return next((one for one in same if made.time and one.time == made.time.replace(microsecond=0)), None)


def _receipt(path: Path) -> Kept:
    try:
        receipt = json.loads(path.read_text(encoding="utf-8"))
        notebook = path.parent / receipt["notebook"] if receipt["notebook"] else None
        time = datetime.fromisoformat(receipt["time"]) if receipt["time"] else None
        return Kept(receipt["student"] or "", path.parent, notebook, time, receipt["late"], receipt)
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{path} must be a receipt, got a damaged file") from None


def _kept(parent: Path) -> list[Kept]:
    """The submissions of a student, the last one last."""
    found = [_receipt(path) for path in parent.glob(f"[!.]*/{RECEIPT}")]
    return sorted(found, key=lambda one: (one.time or one.collected, one.folder.name))


def _safe(label: str) -> str:
    """A label as a folder's name."""
    return re.sub(r"[^A-Za-z0-9@+-]+", "_", label)[:60].strip("_") or "nameless"


# --- what counts --------------------------------------------------------------------------------------------


def kept(course: Course, name: str, student: str) -> list[Kept]:
    """All that a student handed in for an assignment, oldest first."""
    return _kept(course.folder / SUBMITTED / name / student)


def counting(course: Course, name: str) -> list[Submission]:
    """The submissions that count for an assignment: of each student or group, the latest in time.

    Late days are those of course.yml as it is now, so an extension that is given later counts.
    """
    assignment = course.assignment(name)
    students = [one.student_id for one in roster.load(course.folder)]
    result: list[Submission] = []
    seen: set[str] = set()
    for student in students:
        if student in seen:
            continue
        members = course.group(name, student)
        seen.update(members)
        due = lateness.deadline(course, assignment, student)
        together = tuple(member for member in members if member in students)
        handed = [
            _judged(course, one, due, together)
            for member in members
            for one in kept(course, name, member)
            if one.path
        ]
        if handed:
            # Of two of one time, the last that was collected.
            result.append(max(reversed(handed), key=lambda one: one[0])[1])
    return result


def _judged(
    course: Course, one: Kept, due: datetime, students: tuple[str, ...]
) -> tuple[tuple[float, datetime], Submission]:
    """A submission with its lateness, and what puts it in order: the fewest late days, then the latest time.

    So who hands in once more when it is too late loses nothing. Where the platform says only that something
    is late, all of its points count, and the instructor decides; what came in time is taken before it.
    """
    assert one.path is not None
    known = lateness.Lateness(0, 1.0) if one.time is None else lateness.lateness(one.time, due, course.late)
    unknown = one.late and one.time is None
    # Beyond the policy nothing counts, however late; then the last is as good as any.
    rank = 0.5 if unknown else min(known.days, course.late.days + 1)
    at = one.time or (one.collected if one.late else min(one.collected, due))
    made = Submission(students, one.student, one.path, one.time, known.days, known.share, unknown, due)
    return (-rank, at), made


def read_times(path: Path, course: Course) -> dict[str, datetime]:
    """Read when students handed in from a CSV with the columns student_id and time (2027-03-01 22:10)."""
    times = {}
    students = roster.load(course.folder)
    text = roster.decoded(path, "times")
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=roster.separator(text))
    if not {"student_id", "time"} <= set(reader.fieldnames or ()):
        raise ValueError(f"{path.name} must have the columns student_id and time")
    for row in reader:
        try:
            student = roster.find(students, (row["student_id"] or "").strip()).student_id
            time = datetime.fromisoformat((row["time"] or "").strip())
        except ValueError as error:
            raise ValueError(f"{path.name}, line {reader.line_num}: {error}") from None
        times[student] = time if time.tzinfo else time.replace(tzinfo=course.timezone)
    return times
