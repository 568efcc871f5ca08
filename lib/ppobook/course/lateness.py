"""Compute lateness and its cost, and give students more time.

The minute that a due time names belongs to it: due 23:59, handed in at 23:59:40, is in time.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from ppobook.course import roster, trail
from ppobook.course.settings import Assignment, Course, Late

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def deadline(course: Course, assignment: Assignment, student: str) -> datetime:
    """Return when a student's submission is due: with an extension of their own, or of one in their group."""
    given, members = extensions(course, assignment), course.group(assignment.name, student)
    return max([assignment.due, *(given[member] for member in members if member in given)])


def days_late(time: datetime, due: datetime, late: Late) -> int:
    """Count the days begun after the due time by the clock of `due`, whose changes cost nobody."""
    # Two times of one zone would be compared by their clocks, which in autumn show an hour twice.
    if time.timestamp() < (due.timestamp() + (MINUTE + late.grace).total_seconds()):
        return 0
    local = time.astimezone(due.tzinfo).replace(tzinfo=None)
    return max(1, math.ceil((local - due.replace(tzinfo=None) - MINUTE + timedelta.resolution) / DAY))


def share(days: int, late: Late) -> float:
    """Return the share of the points that still counts after so many days."""
    return round(max(0.0, 1 - late.per_day / 100 * days), 8) if days <= late.days else 0.0


def over(course: Course, assignment: Assignment, now: datetime) -> bool:
    """Return whether no later hand-in can count, with late days and extensions considered."""
    last = max([assignment.due, *extensions(course, assignment).values()])
    return days_late(now, last, course.late) > course.late.days


def extend(course: Course, student: str, assignment: str, until: datetime, reason: str) -> None:
    """Give a student more time: a line in the trail, of which the last one counts."""
    roster.find(roster.load(course.folder), student)
    given = course.assignment(assignment)
    if until < given.due:
        raise ValueError(
            f"until must be the due time, {given.due:%Y-%m-%d %H:%M}, or later, got {until:%Y-%m-%d %H:%M}"
        )
    facts = {"student": student, "assignment": given.name}
    trail.note(course.folder, "extension", **facts, until=until.isoformat(), reason=reason)


def extensions(course: Course, assignment: Assignment) -> dict[str, datetime]:
    return {
        one["student"]: datetime.fromisoformat(one["until"]).astimezone(course.timezone)
        for one in trail.read(course.folder)
        if one["what"] == "extension" and one["assignment"] == assignment.name
    }
