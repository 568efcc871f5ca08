"""course.yml: what it says, and one sentence for each way in which it can be wrong."""

from datetime import UTC, date, datetime, timedelta

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
extensions:
  - {{student: ada, assignment: week-03, until: 2027-03-05 23:59, reason: ill}}
groups: {{week-03: [[ada, bob], [no, 007]]}}
ai_use: Say what you asked.
grading: {{seconds: 30}}
partial: {{so far: 0.5}}
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
    assert course.begin == date(2027, 2, 1)
    first, second = course.assignments
    assert first.exercises == ("clipped-loss", "hunt-stale")
    assert first.points == {"clipped-loss": 4.0}
    assert first.total == 8
    assert first.due.astimezone(UTC) == datetime(2027, 3, 1, 22, 59, tzinfo=UTC)
    assert second.exercises == ()
    assert (second.due.hour, second.due.minute) == (23, 59)
    assert course.late == settings.Late(timedelta(minutes=15), 10, 3)
    assert course.extensions[0].reason == "ill"
    # Neither a truth value nor a number, as YAML would have it.
    assert course.groups == {"week-03": (("ada", "bob"), ("no", "007"))}
    assert course.group("week-03", "bob") == ("ada", "bob")
    assert course.group("week-04", "bob") == ("bob",)
    assert course.grading.seconds == 30
    assert course.grading.cell_seconds == 60
    assert course.partial == {"so far": 0.5}
    assert course.assignment("week-04") is second
    assert SECRET not in repr(course)


def test_little_is_needed(tmp_path):
    begin = TEXT[: TEXT.index("assignments:")]
    (tmp_path / "course.yml").write_text(begin, encoding="utf-8-sig")
    course = settings.load(tmp_path)
    assert course.assignments == ()
    assert course.late.days == 0
    with pytest.raises(ValueError, match="which has none yet"):
        course.assignment("week-03")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title: Policy optimization\n", "", "course.yml: it must have the key 'title', which is missing"),
        ("end: 2027-05-14", "end: 2027-01-14", "line 2: term must end after it begins, 2027-02-01"),
        ("end: 2027-05-14", "end: soon", "line 2: term.end must be a date such as 2027-03-01, got 'soon'"),
        ("Europe/Berlin", "Europe/Berln", r"line 3: timezone must be .*Did you mean 'Europe/Berlin'"),
        (SECRET, "abc", r"line 4: secret must be 64 hexadecimal digits$"),
        ("name: week-03", "name: Week 3", r"line 6: assignments\[0\].name must be small letters"),
        ("name: week-04", "name: week-03", "assignments must have 'week-03' once, got it twice"),
        ("exercises:", "exercise:", r"line 8: .*'assignments\[0\].exercise'. Did you mean 'exercises'\?"),
        ("ex-hunt-stale", "ex-clipped-loss", "exercises must have 'clipped-loss' once"),
        ("2027-03-01 23:59", "01.03.2027", r"line 9: assignments\[0\].due must be a date and time such as"),
        ("2027-03-01 23:59", "2027-03-28 02:30", "a time that the clocks of Europe/Berlin show"),
        (
            "clipped-loss: 4}",
            "clipped-loss: -4}",
            r"line 10: assignments\[0\].points.clipped-loss must be gre",
        ),
        ("15 minutes", "a while", "line 13: late.grace must be a time such as 15 minutes"),
        ("per_day: 10", "per_day: 110", r"late.per_day must be less than or equal to 100, got '110'"),
        ("days: 3", "days: 3.5", "line 13: late.days must be a valid integer"),
        ("assignment: week-03", "assignment: week-33", "one of the assignments, got 'week-33'. Did you mean"),
        ("student: ada", "student: ../ada", r"line 15: extensions\[0\].student must be a student's id"),
        ("student: ada", "student: con", "must be a student's id"),
        ("[no, 007]", "[no, ada]", "groups.week-03 must have 'ada' once"),
        ("groups: {week-03", "groups: {week-30", "must be for one of the assignments, got 'week-30'"),
        ("seconds: 30", "seconds: 0", "line 18: grading must have integers of at least 1: seconds"),
        ("seconds: 30", "second: 30", "grading must have no key 'second'. Did you mean 'seconds'"),
        ("so far: 0.5", "so far: 1.5", r"line 19: partial.so far must be less than or equal to 1, got '1.5'"),
        ("ai_use: Say what you asked.", "late: {days: 1}", "line 17: the key 'late' must stand once"),
        ("[[ada, bob], [no, 007]]", "[[ada, bob]", "must be YAML"),
        ("[[ada, bob], [no, 007]]", "ada", "line 16: groups.week-03 must be a list, got 'ada'"),
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


def test_of_an_hour_that_comes_twice_the_second_is_meant(tmp_path):
    course = read(tmp_path, ("2027-03-01 23:59", "2027-10-31 02:30"))
    assert course.assignments[0].due.astimezone(UTC) == datetime(2027, 10, 31, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "-rf", ".hidden", "NUL", "a..b", "a.", "é", "x" * 65]
)
def test_an_id_that_is_no_folder(name):
    assert not settings.is_student_id(name)


@pytest.mark.parametrize("name", ["ada", "007", "a", "ada.l@uni.example", "s1_2-3", "A+b"])
def test_an_id_that_is_one(name):
    assert settings.is_student_id(name)
