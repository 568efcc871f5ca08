"""course.yml: what it says, and a sentence that names the key for what is wrong."""

from datetime import UTC, datetime, timedelta

import pytest

from ppobook.course import settings

SECRET = "5f" * 32
TEXT = f"""\
title: Policy optimization
term: {{begin: 2027-02-01, end: 2027-05-14}}
timezone: Europe/Berlin
secret: {SECRET}
assignments:
  - name: week-03
    set: 03_the_clipped_surrogate
    exercises: [clipped-loss, ex-hunt-stale]
    due: 2027-03-01 23:59
    points: {{clipped-loss: 4}}
    total: 8
  - {{name: week-04, set: 04_generalized_advantage_estimation, due: 2027-03-08 23:59}}
late: {{grace: 15 minutes, per_day: 10, days: 3}}
groups: {{week-03: [[ada, bob], [no, 007]]}}
ai_use: Say what you asked.
grading: {{seconds: 30}}
"""


def read(tmp_path, *edits):
    text = TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    (tmp_path / "course.yml").write_text(text, encoding="utf-8")
    return settings.load(tmp_path)


def test_all_that_a_course_says(tmp_path):
    course = read(tmp_path)
    first, second = course.assignments
    assert first.exercises == ("clipped-loss", "hunt-stale")
    assert (first.points, first.total) == ({"clipped-loss": 4.0}, 8)
    assert first.due.astimezone(UTC) == datetime(2027, 3, 1, 22, 59, tzinfo=UTC)
    assert second.exercises == ()
    assert course.late == settings.Late(timedelta(minutes=15), 10, 3)
    # Neither a truth value nor a number, as YAML would have it.
    assert course.groups == {"week-03": (("ada", "bob"), ("no", "007"))}
    assert course.group("week-03", "bob") == ("ada", "bob")
    assert course.group("week-04", "bob") == ("bob",)
    assert (course.grading.seconds, course.grading.cell_seconds) == (30, 60)
    assert course.assignment("week-04") is second
    assert SECRET not in repr(course)
    # Of an hour that comes twice, the second is meant.
    twice = read(tmp_path, ("2027-03-01 23:59", "2027-10-31 02:30")).assignments[0]
    assert twice.due.astimezone(UTC) == datetime(2027, 10, 31, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title: Policy optimization\n", "", "title: Field required"),
        ("Europe/Berlin", "Europe/Berln", "No time zone found with key Europe/Berln"),
        (SECRET, "abc", "secret: String should match pattern"),
        ("name: week-04", "name: week-03", "assignments must have 'week-03' once, got it twice"),
        ("exercises:", "exercise:", "assignments.0.exercise: Unexpected keyword argument"),
        ("2027-03-01 23:59", "01.03.2027", "assignments.0.due: a time must be such as 2027-03-01 23:59"),
        ("groups: {week-03", "groups: {week-33", "groups must be one of 'week-03', 'week-04', got 'week-33'"),
        ("[[ada,", "[[../ada,", "groups.week-03.0.0: must be a student's id"),
        ("seconds: 30", "second: 30", "grading.second: Unexpected keyword argument"),
        ("15 minutes", "a while", "late.grace: Input should be a valid timedelta"),
        ("[no, 007]", "[no, ada]", "groups.week-03 must have 'ada' once"),
        ("[[ada, bob], [no, 007]]", "[[ada, bob]", "while parsing"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, old, new, said):
    with pytest.raises(ValueError, match=said) as error:
        read(tmp_path, (old, new))
    assert str(error.value).startswith("course.yml: ")
    assert "\n" not in str(error.value)


def test_a_folder_without_a_course(tmp_path):
    with pytest.raises(FileNotFoundError, match="`ppobook course new FOLDER` makes one"):
        settings.load(tmp_path)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "-rf", ".hidden", "NUL", "a..b", "é", "x" * 65])
def test_an_id_that_is_no_folder(name):
    assert not settings.is_student_id(name)
