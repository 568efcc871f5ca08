"""course.yml: what it says, and a sentence that names the key for what is wrong."""

from datetime import UTC, datetime, timedelta

import pytest
from small_course import SECRET, write_course

from ppobook.course import settings

GROUPS = "[[eve, mel]]"


def test_all_that_a_course_says(tmp_path):
    own = (GROUPS, "[[eve, mel], [no, 007]]"), ("ai_use:", "grading: {seconds: 30}\nai_use:")
    course = write_course(tmp_path, ("hunt-stale", "ex-hunt-stale"), *own)
    first, second = course.assignments
    assert second.exercises == ("clipped-loss", "hunt-stale", "pessimism")
    assert second.points == {"clipped-loss": 4.0}
    assert first.due.astimezone(UTC) == datetime(2027, 3, 1, 22, 59, tzinfo=UTC)
    assert first.exercises == ()
    assert course.late == settings.Late(timedelta(minutes=15), 10, 3)
    # Neither a truth value nor a number, as YAML would have it.
    assert course.groups == {"week-01": (("eve", "mel"), ("no", "007"))}
    assert course.group("week-01", "mel") == ("eve", "mel")
    assert course.group("week-02", "mel") == ("mel",)
    assert (course.grading.seconds, course.grading.cell_seconds) == (30, 60)
    assert course.assignment("week-02") is second
    assert SECRET not in repr(course)
    # Of an hour that comes twice, the second is meant.
    twice = write_course(tmp_path, ("2027-03-01 23:59", "2027-10-31 02:30")).assignments[0]
    assert twice.due.astimezone(UTC) == datetime(2027, 10, 31, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title: Policy optimization\n", "", "title: Field required"),
        ("Europe/Berlin", "Europe/Berln", "No time zone found with key Europe/Berln"),
        (SECRET, "abc", "secret: String should match pattern"),
        ("name: week-02", "name: week-01", "assignments must have 'week-01' once, got it twice"),
        ("exercises:", "exercise:", "assignments.1.exercise: Unexpected keyword argument"),
        ("2027-03-01 23:59", "01.03.2027", "assignments.0.due: a time must be such as 2027-03-01 23:59"),
        ("groups: {week-01", "groups: {week-33", "groups must be one of 'week-01', 'week-02', got 'week-33'"),
        ("ai_use:", "grading: {second: 30}\nai_use:", "grading.second: Unexpected keyword argument"),
        ("15 minutes", "a while", "late.grace: Input should be a valid timedelta"),
        (GROUPS, "[[eve, mel], [eve]]", "groups.week-01 must have 'eve' once"),
        (GROUPS, "[[eve, mel]", "while parsing"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, old, new, said):
    with pytest.raises(ValueError, match=said) as error:
        write_course(tmp_path, (old, new))
    assert str(error.value).startswith("course.yml: ")
    assert "\n" not in str(error.value)


def test_a_folder_without_a_course(tmp_path):
    with pytest.raises(FileNotFoundError, match="`ppobook course new FOLDER` makes one"):
        settings.load(tmp_path)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "-rf", ".hidden", "a..b", "é", "x" * 65])
def test_an_id_that_is_no_folder(name):
    assert not settings.is_student_id(name)
