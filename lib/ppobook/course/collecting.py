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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from ppobook import validation
from ppobook.course import handed_in, lateness, packs, roster
from ppobook.course.handed_in import Asked, HandedIn
from ppobook.course.records import Submission
from ppobook.course.roster import SUBMITTED, Student
from ppobook.course.settings import Assignment, Course
from ppobook.run.files import write_synced
from ppobook.run.progress import Progress

RECEIPT = "receipt.json"
UNKNOWN = "_unknown"
_STAMP = "%Y-%m-%dT%H-%M-%SZ"


@dataclass(frozen=True)
class Kept:
    """A submission that is kept. ``path`` is its notebook's; None where it has none."""

    student: str
    folder: Path
    path: Path | None
    time: datetime
    receipt: Mapping[str, Any]


@dataclass
class Collected:
    """The result of a collection: new hand-ins, the number kept already, oddities, and who is missing."""

    new: list[tuple[str, HandedIn, int]] = field(default_factory=list)
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
        Whose the source is, one file, whatever it is called. A file that was collected before keeps its time.
    times : mapping, optional
        By student, when they handed in, where the source does not know it.
    dry_run : bool
        Keep nothing.
    progress : bool, optional
        As in `ppobook.run.progress.Progress`.

    Raises
    ------
    ValueError
        There is no such assignment, nobody in the roster, nothing in the source, or nothing but notebooks of
        another assignment.
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
        came = _collected_time(source)
        times = {student: came} | dict(times or {}) if came else times
    asked = _asked(course, name)
    base = course.folder / SUBMITTED / name
    for left in base.glob("*/.part-*") if not dry_run else ():
        shutil.rmtree(left, ignore_errors=True)
    pending, left_out = handed_in.read(source, course, assignment, students, student)
    if not pending:
        raise ValueError(f"source must hold submissions, got {str(source)!r} with no file in it")
    for one in pending:  # the first that may be this assignment's ends it
        found = handed_in.opened(one, course, assignment, students).notebooks
        others = [asked.other(content) for _, content in found]
        if None in others or not others:
            break
    else:
        raise ValueError(f"source must hold notebooks of {name}, got those of {others[0]}")
    result = Collected(notes=left_out)
    with Progress(len(pending), 0, f"collecting {name}", "submission", progress) as bar:
        for count, one in enumerate(pending, 1):
            made = handed_in.opened(one, course, assignment, students)
            _keep(made, result, course, assignment, asked, times or {}, dry_run)
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
    mine = ids.pop(name)
    return Asked(f"{name}.ipynb", mine, blank, ids if mine else {})


def _collected_time(file: Path) -> datetime | None:
    """Return when a file came, if it lies beside a receipt, as all collected files do; else None."""
    try:
        receipt = json.loads((file.parent / RECEIPT).read_text(encoding="utf-8"))
        return datetime.fromisoformat(receipt["time"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(
    made: HandedIn,
    result: Collected,
    course: Course,
    assignment: Assignment,
    asked: Asked,
    times: Mapping[str, datetime],
    dry_run: bool,
) -> None:
    if made.student is not None and made.student in times:
        made.time, made.time_from = times[made.student], "given"
    chosen = handed_in.pick(made, asked)
    if chosen is None:
        result.empty.append(made)
    if made.student is None:
        result.unknown.append(made)
    who = made.student or f"{UNKNOWN}/{_safe(made.label)}"
    parent = course.folder / SUBMITTED / assignment.name / who
    content = [made.notebooks[chosen][1]] if chosen is not None else [(made.original or ("", b""))[1]]
    if chosen is None:
        content += [data for _, data in made.notebooks]
    digest = hashlib.sha256(b"".join(content)).hexdigest()
    if _is_kept(made, digest, _receipts(parent)):
        result.again += 1
        return
    due = lateness.deadline(course, assignment, made.student or "")
    late = lateness.lateness(made.time, due, course.late)
    if made.student:
        result.new.append((made.student, made, late.days))
    if dry_run:
        return
    receipt = {
        "assignment": assignment.name,
        "student": made.student,
        "label": made.label,
        "source": made.kind,
        "name": made.name,
        "time": made.time.astimezone(course.timezone).isoformat(timespec="seconds"),
        "time_from": made.time_from,
        "late_days": late.days,
        "notebook": f"{assignment.name}.ipynb" if chosen is not None else None,
        "original": made.original[0] if made.original else None,
        "sha256": digest,
        "notes": made.notes,
        "collected": datetime.now(course.timezone).isoformat(timespec="seconds"),
    }
    files = {RECEIPT: (json.dumps(receipt, indent=1, ensure_ascii=False) + "\n").encode()}
    for i, (_, data) in enumerate(made.notebooks):
        files[f"{assignment.name}.ipynb" if i == chosen else f"other-{i + 1}.ipynb"] = data
    if made.original:
        suffix = PurePosixPath(made.original[0]).suffix.lower()
        files[f"original{suffix if re.fullmatch(r'[.][a-z0-9]{1,8}', suffix) else ''}"] = made.original[1]
    _write(parent, made.time, files)


def _write(parent: Path, time: datetime, files: Mapping[str, bytes]) -> None:
    """Write a submission's folder, which appears in one step."""
    parent.mkdir(parents=True, exist_ok=True)
    part = parent / f".part-{os.getpid()}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for name, content in files.items():
        write_synced(part / name, content)
    stamp = time.astimezone(UTC).strftime(_STAMP)
    for number in range(1, 1000):
        folder = parent / (stamp if number == 1 else f"{stamp}-{number}")
        if not folder.exists():
            part.rename(folder)
            return
    raise FileExistsError(f"{parent} has a thousand submissions of one second")


def _is_kept(made: HandedIn, digest: str, receipts: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a submission was collected before.

    A copy may have another time, so the last one's bytes are enough; earlier bytes, handed in once more, are
    a new submission, unless their time or their name on Canvas is that of before.
    """
    if receipts and receipts[-1]["sha256"] == digest:
        return True
    return any(
        one["sha256"] == digest
        and (
            datetime.fromisoformat(one["time"]) == made.time.replace(microsecond=0)
            or (made.kind == "canvas" == one["source"] and one["name"] == made.name)
        )
        for one in receipts
    )


def _receipts(parent: Path) -> list[dict[str, Any]]:
    """The receipts of a student, the last submission last."""
    found = []
    for path in parent.glob(f"*/{RECEIPT}"):
        if path.parent.name.startswith("."):
            continue
        try:
            receipt = json.loads(path.read_text(encoding="utf-8"))
            found.append((datetime.fromisoformat(receipt["time"]), path.parent.name, receipt))
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} must be a receipt, got a damaged file") from None
    return [receipt | {"stamp": stamp} for _, stamp, receipt in sorted(found, key=lambda one: one[:2])]


def _safe(label: str) -> str:
    """A label as a folder's name."""
    return re.sub(r"[^A-Za-z0-9@+-]+", "_", label)[:60].strip("_") or "nameless"


# --- what counts --------------------------------------------------------------------------------------------


def kept(course: Course, name: str, student: str) -> list[Kept]:
    """All that a student handed in for an assignment, oldest first."""
    parent = course.folder / SUBMITTED / name / student
    result = []
    for receipt in _receipts(parent):
        folder = parent / receipt["stamp"]
        path = folder / receipt["notebook"] if receipt["notebook"] else None
        result.append(Kept(student, folder, path, datetime.fromisoformat(receipt["time"]), receipt))
    return result


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
        handed = [one for member in members for one in kept(course, name, member) if one.path]
        due = lateness.deadline(course, assignment, student)
        which = lateness.counts([one.time for one in handed], due, course.late)
        if which is None:
            continue
        one = handed[which]
        late = lateness.lateness(one.time, due, course.late)
        together = tuple(member for member in members if member in students)
        assert one.path is not None
        share = round(late.share, 8)
        result.append(Submission(together, one.student, one.path, one.time, late.days, share, due=due))
    return result


def read_times(path: Path, course: Course) -> dict[str, datetime]:
    """Read when students handed in from a CSV with the columns student_id and time (2027-03-01 22:10).

    Raises
    ------
    ValueError
        A line is wrong; the message names it.
    """
    times = {}
    students = roster.load(course.folder)
    text = roster.decoded(path, "times")
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=roster.separator(text))
    if not {"student_id", "time"} <= set(reader.fieldnames or ()):
        raise ValueError(f"{path.name} must have the columns student_id and time")
    for row in reader:
        where = f"{path.name}, line {reader.line_num}"
        try:
            time = datetime.fromisoformat((row["time"] or "").strip())
        except ValueError:
            raise ValueError(f"{where}: time must be such as 2027-03-01 22:10, got {row['time']!r}") from None
        try:
            student = roster.find(students, (row["student_id"] or "").strip()).student_id
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        times[student] = time if time.tzinfo else time.replace(tzinfo=course.timezone)
    return times
