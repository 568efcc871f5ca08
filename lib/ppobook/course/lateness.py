"""Compute lateness and its cost: pure functions of times.

The minute that a due time names belongs to it: due 23:59, handed in at 23:59:40, is in time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

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
    members = course.group(assignment.name, student)
    longer = [
        one.until for one in course.extensions if one.assignment == assignment.name and one.student in members
    ]
    return max([assignment.due, *longer])


def lateness(time: datetime, due: datetime, late: Late) -> Lateness:
    """Compute the lateness of a submission. Days are the course clock's, so a clock change costs nobody.

    Parameters
    ----------
    time : datetime
        When it was handed in, in any time zone.
    due : datetime
        In the course's time zone.
    late : Late
    """
    # Two times of one zone would be compared by their clocks, which in autumn show an hour twice.
    if time.timestamp() < (due.timestamp() + (MINUTE + late.grace).total_seconds()):
        return Lateness(0, 1.0)
    local = time.astimezone(due.tzinfo).replace(tzinfo=None)
    days = max(1, math.ceil((local - due.replace(tzinfo=None) - MINUTE + timedelta.resolution) / DAY))
    if days > late.days:
        return Lateness(days, 0.0)
    return Lateness(days, max(0.0, 1 - late.per_day / 100 * days))


def over(course: Course, assignment: Assignment, now: datetime) -> bool:
    """Return whether no later hand-in can count, with late days and extensions considered."""
    longer = [one.until for one in course.extensions if one.assignment == assignment.name]
    return lateness(now, max([assignment.due, *longer]), course.late).days > course.late.days


def counts(times: Sequence[datetime], due: datetime, late: Late) -> int | None:
    """Choose the submission that counts: the last of those with the fewest late days.

    So the latest in time counts, and who hands in once more when it is too late loses nothing.

    Returns
    -------
    int or None
        Its index; None where there are none.
    """
    if not times:
        return None
    judged = [lateness(time, due, late).days for time in times]
    # Beyond the policy nothing counts, however late; then the last is as good as any.
    days = [min(one, late.days + 1) for one in judged]
    return max(range(len(times)), key=lambda i: (-days[i], times[i], i))
