"""Late days, grace, extensions and groups."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from small_course import write_course

from ppobook.course import trail
from ppobook.course.lateness import Lateness, deadline, extend, lateness
from ppobook.course.settings import Assignment, Course, Extension, Late, Term, load

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
    assert lateness(after(**delay), DUE, LATE) == Lateness(days, pytest.approx(share))


def test_no_policy_means_nothing_late_counts():
    assert lateness(after(minutes=2), DUE, Late()) == Lateness(1, 0)
    assert lateness(after(days=9), DUE, Late(per_day=50, days=10)).share == 0


@pytest.mark.parametrize(("day", "hours"), [((2027, 3, 27), 23), ((2027, 10, 30), 25)])
def test_a_day_is_the_clocks(day, hours):
    due = datetime(*day, 23, 59, tzinfo=BERLIN)
    evening = (due.astimezone(UTC) + timedelta(hours=hours)).astimezone(BERLIN)
    assert (evening.hour, evening.minute) == (23, 59)
    assert lateness(evening, due, LATE).days == 1
    assert lateness(evening.astimezone(UTC) + timedelta(minutes=1), due, LATE).days == 2


def test_an_hour_that_comes_twice_is_no_hour_less():
    due = datetime(2027, 10, 31, 2, 10, tzinfo=BERLIN, fold=1)  # the second 2:10
    first = datetime(2027, 10, 31, 2, 50, tzinfo=BERLIN, fold=0)  # twenty minutes before it
    assert lateness(first, due, LATE).days == 0
    assert lateness(first + timedelta(days=1), due, LATE).days == 2


def test_extensions_hold_for_the_group():
    until = DUE + timedelta(days=4)
    week = Assignment("week", "set", DUE)
    course = Course(
        Path(), "t", Term(date(2027, 2, 1), date(2027, 5, 1)), BERLIN, "0" * 64,
        (week, replace(week, name="other")),
        extensions=(Extension("ada", "week", until), Extension("eve", "week", DUE - timedelta(days=1))),
        groups={"week": (("ada", "bob"),)},
    )  # fmt: skip
    assert deadline(course, week, "ada") == deadline(course, week, "bob") == until
    assert deadline(course, week, "mel") == DUE
    assert deadline(course, week, "eve") == DUE  # no extension takes time away
    assert deadline(course, course.assignments[1], "ada") == DUE


@pytest.mark.parametrize(
    "had",
    [
        "extensions: []  # more time\n",
        "extensions:\n  - {student: bob, assignment: week-02, until: 2027-04-01 12:00}\n",
        "extensions:\n- student: bob\n  assignment: week-02\n  until: 2027-04-01 12:00\n",
        "",
    ],
)
def test_an_extension_is_a_line_in_course_yml_whose_comments_stay(tmp_path, had):
    listed = "extensions:\n  - {student: ada, assignment: week-01, until: 2027-03-05 23:59, reason: ill}\n"
    course = write_course(tmp_path, (listed, had), ("title:", "# A comment.\ntitle:"))
    for day, reason in ((5, "ill"), (9, 'still "ill": 1')):
        until = datetime(2027, 3, day, 12, 0, tzinfo=BERLIN)
        extend(course, "bob", "week-01", until, reason)
        course = load(tmp_path)
    assert [(one.until.day, one.reason) for one in course.extensions if one.assignment == "week-01"] == [
        (9, 'still "ill": 1')
    ]
    assert len(course.extensions) == (2 if "bob" in had else 1)
    assert "# A comment." in (tmp_path / "course.yml").read_text()
    assert [one["reason"] for one in trail.read(tmp_path)] == ["ill", 'still "ill": 1']
    with pytest.raises(ValueError, match="until must be after 2027-03-09 12:00"):
        extend(course, "bob", "week-01", DUE, "again")


def test_a_list_that_has_to_be_edited_by_hand_is_left_alone(tmp_path):
    listed = "extensions:\n  - {student: ada, assignment: week-01, until: 2027-03-05 23:59, reason: ill}\n"
    had = "extensions: [{student: ada, assignment: week-01, until: 2027-03-05 23:59}]\n"
    course = write_course(tmp_path, (listed, had))
    with pytest.raises(
        ValueError, match=r"course.yml: write it by hand, below `extensions:`, as  - \{student"
    ):
        extend(course, "bob", "week-01", DUE + timedelta(days=1), "ill")
    assert had in (tmp_path / "course.yml").read_text()
