"""Compute lateness and its cost, and give students more time.

The minute that a due time names belongs to it: due 23:59, handed in at 23:59:40, is in time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from ppobook.course import roster, trail
from ppobook.course.settings import Assignment, Course, Late

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Lateness:
    """Lateness: the days begun after the due time, and the share of the points that still counts."""

    days: int
    share: float


def deadline(course: Course, assignment: Assignment, student: str) -> datetime:
    """Return when a student's submission is due: with an extension of their own, or of one in their group."""
    given, members = extensions(course, assignment), course.group(assignment.name, student)
    return max([assignment.due, *(given[member] for member in members if member in given)])


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
    last = max([assignment.due, *extensions(course, assignment).values()])
    return lateness(now, last, course.late).days > course.late.days


def extend(course: Course, student: str, assignment: str, until: datetime, reason: str) -> None:
    """Give a student more time: a line in the trail, of which the last one counts."""
    roster.find(roster.load(course.folder), student)
    facts = {"student": student, "assignment": course.assignment(assignment).name}
    trail.note(course.folder, "extension", **facts, until=until.isoformat(), reason=reason)


def extensions(course: Course, assignment: Assignment) -> dict[str, datetime]:
    return {
        one["student"]: datetime.fromisoformat(one["until"]).astimezone(course.timezone)
        for one in trail.read(course.folder)
        if one["what"] == "extension" and one["assignment"] == assignment.name
    }
