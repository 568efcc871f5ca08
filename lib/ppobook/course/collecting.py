"""Collecting submissions, and which of them counts.

Each one is kept in `submitted/ASSIGNMENT/STUDENT/STAMP/`, as ASSIGNMENT.ipynb with a receipt.json; what
nobody of the roster seems to have handed in is kept below `_unknown`. A submission appears in one step, and
collecting the same source twice keeps nothing twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from ppobook import validation
from ppobook.course import handed_in, lateness, packs, roster, trail
from ppobook.course.handed_in import HandedIn
from ppobook.course.records import Submission
from ppobook.course.roster import SUBMITTED
from ppobook.course.settings import Assignment, Course
from ppobook.run.files import atomic_write, write_synced

RECEIPT = "receipt.json"
UNKNOWN = "_unknown"
_STAMP = "%Y-%m-%dT%H-%M-%SZ"


@dataclass(frozen=True)
class Kept:
    """A submission that is kept in a folder, with its receipt."""

    folder: Path
    receipt: Mapping[str, Any]

    @property
    def path(self) -> Path | None:
        name = self.receipt["notebook"]
        return self.folder / name if name else None

    @property
    def time(self) -> datetime | None:
        """When it came; None where the platform does not say it."""
        time = self.receipt["time"]
        return datetime.fromisoformat(time) if time else None

    @property
    def collected(self) -> datetime:
        """When it was collected, so it was handed in before."""
        return datetime.fromisoformat(self.receipt["collected"])


@dataclass
class Collected:
    """The result of a collection: what to say of each hand-in, how many are new, and who is missing."""

    said: list[str] = field(default_factory=list)
    new: int = 0
    again: int = 0
    missing: list[str] = field(default_factory=list)


def collect(
    course: Course,
    name: str,
    source: str | Path,
    *,
    student: str | None = None,
    times: Mapping[str, datetime] | None = None,
) -> Collected:
    """Keep every submission of a source for an assignment of this name.

    A source is a folder of zips, notebooks, folders or clones; the zip of Moodle or Canvas; or, with a
    `student`, that student's one file, whatever it is called: one below `submitted` keeps its time and label.
    `times` are by student, and correct what is kept already.
    """
    assignment = course.assignment(name)
    source = Path(source).expanduser()
    students = roster.load(course.folder)
    if student is not None:
        roster.find(students, student)
    base = course.folder / SUBMITTED / name
    for left in base.glob("*/.part-*"):  # by a collection that was interrupted
        shutil.rmtree(left, ignore_errors=True)
    found, notes = handed_in.read(source, course, name, students, student)
    handed_out = {one.name: pack for one in course.assignments if (pack := packs.released(course, one.name))}
    released = _released(course, name)
    known = [one for folder in base.glob("[!_.]*") for one in _kept(folder)]
    whose = {(one.receipt["label"], one.receipt["sha256"]): one.receipt["student"] for one in known}
    result = Collected()
    for made in found:
        handed_in.open_files(made, course)
        if student is not None and source.resolve().is_relative_to((course.folder / SUBMITTED).resolve()):
            # Beside any other file a receipt says nothing.
            receipt = _receipt(source.parent / RECEIPT)
            made.time, made.late = receipt.time, receipt.receipt["late"]
            made.label = receipt.receipt["label"]
        chosen = handed_in.pick(made, name, handed_out)
        digest = _digest(made, chosen)
        # What was assigned by hand stays with its student.
        made.student = made.student or whose.get((made.label, digest))
        given = (times or {}).get(made.student or "")
        if given is not None:
            made.time, made.late = given, False
        if made.time is not None and released is not None and made.time < released:
            came, out = _local(course, made.time), _local(course, released)
            made.notes.append(f"its time is {came}, before the assignment was released, {out}")
        if made.time is not None and made.time > datetime.now(UTC):
            made.notes.append(f"its time is in the future, {_local(course, made.time)}")
        _keep(course, assignment, made, chosen, digest, given, result)
    result.said += [f"! {note}" for note in notes]
    have = {path.name for path in base.glob("*") if path.is_dir()}
    ids = [one.student_id for one in students]
    result.missing = [one for one in ids if not have.intersection(course.group(name, one))]
    return result


def _released(course: Course, name: str) -> datetime | None:
    entries = (one for one in trail.read(course.folder) if one["what"] == "release")
    times = [datetime.fromisoformat(one["time"]) for one in entries if one.get("assignment") == name]
    return min(times, default=None)


def _digest(made: HandedIn, chosen: int | None) -> str:
    content = [data for i, (_, data, _) in enumerate(made.notebooks) if chosen in (None, i)]
    content += [made.original[1]] if chosen is None and made.original else []
    return hashlib.sha256(b"".join(content)).hexdigest()


def _keep(
    course: Course,
    assignment: Assignment,
    made: HandedIn,
    chosen: int | None,
    digest: str,
    given: datetime | None,
    result: Collected,
) -> None:
    name, student, time = assignment.name, made.student, _local(course, made.time)
    parent = course.folder / SUBMITTED / name / (student or f"{UNKNOWN}/{_safe(made.label)}")
    # What was kept without a notebook may be one by now, under another name.
    before = _before(made, digest, [one for one in _kept(parent) if one.path or chosen is None])
    again = before is not None and (given is None or before.receipt["time"] == time)
    result.again += again
    if student and not again:
        result.new += before is None
        result.said.append(f"{'~' if before else '+'} {student}  {_when(course, assignment, student, made)}")
        result.said += [f"    {note}" for note in made.notes]
    if chosen is None:
        why = f"no notebook of {name} that can be read, so nothing to grade; what came is kept"
        result.said.append(f"! {made.label}: {why}")
    if student is None:
        where = f"nobody in the roster, or not one alone; kept in submitted/{name}/{UNKNOWN}"
        result.said.append(f"? {made.label}: {where}")
    if before is not None:
        if not again:
            trail.note(course.folder, "time", assignment=name, student=student, handed_in=time)
            facts = {**before.receipt, "time": time, "late": False}
            atomic_write(before.folder / RECEIPT, _as_json(facts))
        return
    receipt = {
        "student": student,
        "label": made.label,
        "time": time,
        "late": made.late,
        "notebook": f"{name}.ipynb" if chosen is not None else None,
        "sha256": digest,
        "notes": made.notes,
        "collected": datetime.now(course.timezone).isoformat(),
    }
    files = {RECEIPT: _as_json(receipt)}
    for i, (_, data, _) in enumerate(made.notebooks):
        files[f"{name}.ipynb" if i == chosen else f"other-{i + 1}.ipynb"] = data
    if made.original:
        suffix = PurePosixPath(made.original[0]).suffix.lower()
        files[f"original{suffix if re.fullmatch(r'[.][a-z0-9]{1,8}', suffix) else ''}"] = made.original[1]
    _write(parent, made.time, files)


def _local(course: Course, time: datetime | None) -> str | None:
    return time.astimezone(course.timezone).isoformat(timespec="seconds") if time else None


def _when(course: Course, assignment: Assignment, student: str, made: HandedIn) -> str:
    if made.time is None:
        return f"{'late, ' * made.late}time unknown"
    due = lateness.deadline(course, assignment, student)
    days = lateness.days_late(made.time, due, course.late)
    shown = f"{made.time.astimezone(course.timezone):%Y-%m-%d %H:%M}"
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
    return Kept(path.parent, json.loads(path.read_text(encoding="utf-8")))


def _kept(parent: Path) -> list[Kept]:
    return _in_order([_receipt(path) for path in parent.glob(f"[!.]*/{RECEIPT}")])


def _in_order(found: list[Kept]) -> list[Kept]:
    """Sort by time, or, where the time of one is unknown, all by when they were collected."""
    timed = all(one.time for one in found)
    return sorted(found, key=lambda one: ((timed and one.time) or one.collected, one.folder.name))


def _safe(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9@+-]+", "_", label)[:60].strip("_") or "nameless"


# --- what counts --------------------------------------------------------------------------------------------


def kept(course: Course, name: str, student: str) -> list[Kept]:
    """All that a student handed in for an assignment, oldest first."""
    return _kept(course.folder / SUBMITTED / name / student)


def counting(course: Course, name: str) -> list[Submission]:
    """The submissions that count for an assignment: of each student or group, the latest in time.

    Late days are computed anew each time, so an extension that is given later counts.
    """
    assignment = course.assignment(name)
    students = [one.student_id for one in roster.load(course.folder)]
    result: list[Submission] = []
    for members in dict.fromkeys(course.group(name, student) for student in students):
        due = lateness.deadline(course, assignment, members[0])
        together = tuple(member for member in members if member in students)
        handed = [one for member in members for one in kept(course, name, member) if one.path]
        if handed:
            best = min(reversed(_in_order(handed)), key=lambda one: _days(course, one, due))
            result.append(_submission(course, best, due, together))
    return result


def without_notebook(course: Course, name: str, counting: Sequence[Submission]) -> list[str]:
    """The students who handed something in, but none of the submissions that count."""
    counted = {student for one in counting for student in one.students}
    students = [one.student_id for one in roster.load(course.folder)]
    return [one for one in students if one not in counted and kept(course, name, one)]


def _days(course: Course, one: Kept, due: datetime) -> float:
    """The late days, of which the fewest count; the last of several such submissions counts.

    So who hands in once more when it is too late loses nothing. What the platform calls late without saying
    how late comes after what came in time. Beyond the policy nothing counts, so the last is as good as any.
    """
    if one.time is None:
        return 0.5 * one.receipt["late"]
    return min(lateness.days_late(one.time, due, course.late), course.late.days + 1)


def _submission(course: Course, one: Kept, due: datetime, students: tuple[str, ...]) -> Submission:
    """A submission that counts. All points of one that is late by a time unknown count for now."""
    assert one.path is not None
    days = lateness.days_late(one.time or due, due, course.late)
    unknown = one.receipt["late"] and one.time is None
    by, share = one.receipt["student"], lateness.share(days, course.late)
    return Submission(students, by, one.path, one.time, days, share, unknown, due)


def read_times(path: Path, course: Course) -> dict[str, datetime]:
    """Read when students handed in from a CSV with the columns student_id and time (2027-03-01 22:10)."""
    students = roster.load(course.folder)
    times = {}
    for number, row in enumerate(roster.table(path), 2):
        try:
            time = datetime.fromisoformat(row.get("time", ""))
            student = roster.find(students, row.get("student_id", "")).student_id
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number}: {error}") from None
        times[student] = time if time.tzinfo else time.replace(tzinfo=course.timezone)
    return times
