"""Late days, grace, extensions and groups."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from small_course import write_course

from ppobook.course.lateness import days_late, deadline, extend
from ppobook.course.lateness import share as share_of
from ppobook.course.settings import Late

BERLIN = ZoneInfo("Europe/Berlin")
DUE = datetime(2027, 3, 1, 23, 59, tzinfo=BERLIN)
LATE = Late(timedelta(minutes=15), 10, 3)


def after(**delay):
    return (DUE + timedelta(**delay)).astimezone(UTC)


@pytest.mark.parametrize(
    ("delay", "days", "share"),
    [
        ({"days": -3}, 0, 1),
        ({"seconds": 59}, 0, 1),
        ({"minutes": 15, "seconds": 59}, 0, 1),  # the grace
        ({"minutes": 16}, 1, 0.9),
        ({"days": 1}, 1, 0.9),
        ({"days": 1, "seconds": 59}, 1, 0.9),
        ({"days": 1, "minutes": 1}, 2, 0.8),
        ({"days": 3}, 3, 0.7),
        ({"days": 3, "minutes": 1}, 4, 0),
        ({"days": 300}, 300, 0),
    ],
)
def test_days_and_what_they_cost(delay, days, share):
    assert days_late(after(**delay), DUE, LATE) == days
    assert share_of(days, LATE) == pytest.approx(share)


@pytest.mark.parametrize(("day", "hours"), [((2027, 3, 27), 23), ((2027, 10, 30), 25)])
def test_a_day_is_the_clocks(day, hours):
    due = datetime(*day, 23, 59, tzinfo=BERLIN)
    evening = (due.astimezone(UTC) + timedelta(hours=hours)).astimezone(BERLIN)
    assert (evening.hour, evening.minute) == (23, 59)
    assert days_late(evening, due, LATE) == 1
    assert days_late(evening.astimezone(UTC) + timedelta(minutes=1), due, LATE) == 2


def test_extensions_hold_for_the_group(tmp_path):
    course = write_course(tmp_path)
    week, other = course.assignments
    until = week.due + timedelta(days=4)
    extend(course, "mel", week.name, until + timedelta(days=9), "ill")
    extend(course, "mel", week.name, until, "well again")
    assert [deadline(course, week, who) for who in ("eve", "mel", "ada")] == [until, until, week.due]
    assert deadline(course, other, "mel") == other.due
