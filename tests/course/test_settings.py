"""course.yml: what it says, and one sentence for each way in which it can be wrong."""

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
  - {{name: week-04, set: 04_generalized_advantage_estimation, due: 2027-03-08}}
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
    assert (second.due.hour, second.due.minute) == (23, 59)
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


def test_little_is_needed(tmp_path):
    begin = TEXT[: TEXT.index("assignments:")] + "assignments:\n"
    (tmp_path / "course.yml").write_text(begin, encoding="utf-8-sig")
    course = settings.load(tmp_path)
    assert (course.assignments, course.late.days) == ((), 0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title: Policy optimization\n", "", "title: this key must be there"),
        ("end: 2027-05-14", "end: soon", "term.end: must be a date such as 2027-03-01, got 'soon'"),
        ("Europe/Berlin", "Europe/Berln", r"timezone must be .*Did you mean 'Europe/Berlin'"),
        (SECRET, "abc", r"secret: must be 64 hexadecimal digits$"),
        ("name: week-04", "name: week-03", "assignments must have 'week-03' once, got it twice"),
        ("exercises:", "exercise:", "assignments.0.exercise: there is no such key"),
        ("2027-03-01 23:59", "01.03.2027", "assignments.0.due: must be a date and time such as"),
        ("groups: {week-03", "groups: {week-33", "must be for one of 'week-03', 'week-04', got 'week-33'"),
        ("[[ada,", "[[../ada,", "groups.week-03.0.0: must be a student's id"),
        (
            "seconds: 30",
            "second: 30",
            "grading: must have integers of at least 1 for .* got second: 30",
        ),
        ("ai_use: Say what you asked.", "late: {days: 1}", "line 1: a mapping must have 'late' once"),
        ("15 minutes", "a while", "late.grace: must be a time such as 15 minutes"),
        ("[no, 007]", "[no, ada]", "groups.week-03 must have 'ada' once"),
        ("[[ada, bob], [no, 007]]", "[[ada, bob]", "must be YAML"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, old, new, said):
    with pytest.raises(ValueError, match=said) as error:
        read(tmp_path, (old, new))
    assert str(error.value).startswith("course.yml")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "[" * 5000, "- a", "a: b\n---\nc: d"])
def test_what_is_no_course_at_all(tmp_path, text):
    (tmp_path / "course.yml").write_text(text)
    with pytest.raises(ValueError, match=r"course\.yml"):
        settings.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="`ppobook course new FOLDER` makes one"):
        settings.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "-rf", ".hidden", "NUL", "a..b", "a.", "é", "x" * 65]
)
def test_an_id_that_is_no_folder(name):
    assert not settings.is_student_id(name)


@pytest.mark.parametrize("name", ["ada", "007", "a", "ada.l@uni.example", "s1_2-3", "A+b"])
def test_an_id_that_is_one(name):
    assert settings.is_student_id(name)
