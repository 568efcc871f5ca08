"""Compute lateness and its cost, and give students more time.

The minute that a due time names belongs to it: due 23:59, handed in at 23:59:40, is in time.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from ppobook.course import roster, trail
from ppobook.course.settings import FILE, Assignment, Course, Extension, Late, read
from ppobook.run.files import atomic_write

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Lateness:
    """Lateness: the days begun after the due time, and the share of the points that still counts."""

    days: int
    share: float


def deadline(course: Course, assignment: Assignment, student: str) -> datetime:
    """Return when a student's submission is due: with an extension of their own, or of one in their group."""
    members = course.group(assignment.name, student)
    longer = [
        one.until for one in course.extensions if one.assignment == assignment.name and one.student in members
    ]
    return max([assignment.due, *longer])


def lateness(time: datetime, due: datetime, late: Late) -> Lateness:
    """Compute the lateness of a submission. Days are those of the clock of `due`: its changes cost nobody."""
    # Two times of one zone would be compared by their clocks, which in autumn show an hour twice.
    if time.timestamp() < (due.timestamp() + (MINUTE + late.grace).total_seconds()):
        return Lateness(0, 1.0)
    local = time.astimezone(due.tzinfo).replace(tzinfo=None)
    days = max(1, math.ceil((local - due.replace(tzinfo=None) - MINUTE + timedelta.resolution) / DAY))
    if days > late.days:
        return Lateness(days, 0.0)
    return Lateness(days, round(max(0.0, 1 - late.per_day / 100 * days), 8))


def over(course: Course, assignment: Assignment, now: datetime) -> bool:
    """Return whether no later hand-in can count, with late days and extensions considered."""
    longer = [one.until for one in course.extensions if one.assignment == assignment.name]
    return lateness(now, max([assignment.due, *longer]), course.late).days > course.late.days


def extend(course: Course, student: str, assignment: str, until: datetime, reason: str) -> str:
    """Give a student more time: a line in course.yml, which is returned, and one in the trail.

    A list of extensions that is written in another way has to be edited by hand.
    """
    roster.find(roster.load(course.folder), student)
    due = deadline(course, course.assignment(assignment), student)
    if until <= due:
        raise ValueError(f"until must be after {due:%Y-%m-%d %H:%M}, got {until:%Y-%m-%d %H:%M}")
    reason = trail.reason(reason)
    begin = f"{{student: {json.dumps(student)}, assignment: {assignment}, "
    line = f"{begin}until: {until:%Y-%m-%d %H:%M}, reason: {json.dumps(reason, ensure_ascii=False)}}}"
    path = course.folder / FILE
    # The same list with this line first, and without an earlier line of the command for the same two.
    text = path.read_text(encoding="utf-8-sig")
    lines = [one for one in text.rstrip("\n").split("\n") if not one.lstrip().startswith(f"- {begin}")]
    at = next((i for i, one in enumerate(lines) if one.startswith("extensions:")), len(lines))
    lines += ["extensions:"] * (at == len(lines))
    listed = re.match(r"( *)-", lines[at + 1]) if at + 1 < len(lines) else None
    lines[at] = re.sub(r": *\[\]", ":", lines[at])
    lines.insert(at + 1, f"{listed[1] if listed else '  '}- {line}")
    changed = "\n".join([*lines, ""])
    try:
        written = Extension(student, assignment, until, reason) in read(changed, course.folder).extensions
    except ValueError:
        written = False
    if not written:
        raise ValueError(f"{FILE}: write it by hand, below `extensions:`, as  - {line}")
    atomic_write(path, changed)
    facts = {"student": student, "assignment": assignment, "until": until.isoformat(), "reason": reason}
    trail.note(course.folder, "extension", **facts, before=due.isoformat())
    return line
