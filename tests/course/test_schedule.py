"""Plans of a term: a course's has its assignments, dates and titles."""

from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

from small_course import write_course

from ppobook.course import schedule
from ppobook.teaching import contents, plans


def test_a_courses_plan_has_its_exercises_dates_and_titles(tmp_path: Path) -> None:
    book = contents.read_book(Path(__file__).parents[2])
    course = write_course(tmp_path, ("set: 90_doubling,", "set: 90_doubling, title: Sheet 1,"))
    plan = schedule.of_course(plans.ready(book, 6), book, course)
    assert [week.begin for week in plan.weeks][:2] == [date(2027, 2, 1), date(2027, 2, 8)]
    # Due on the Monday of week 5, so it is work for week 4; the other one is for week 5.
    labels = [[task.exercise.label for task in week.tasks] for week in plan.weeks]
    assert labels == [[], [], [], ["double", "why"], ["clipped-loss", "hunt-stale", "pessimism"], []]
    assert plan.weeks[3].due == (("Sheet 1", "2027-03-01 23:59"),)
    assert plan.weeks[4].exercise_minutes == sum(
        book.task(label).exercise.minutes for label in ("clipped-loss", "hunt-stale", "pessimism")
    )
    text = schedule.as_markdown(plan, book)
    assert "## Week 4 · 22 Feb to 28 Feb 2027 · " in text
    assert "- due: Sheet 1, 2027-03-01 23:59\n" in text
    assert "(clipped-loss, 15)" in text
    assert "past-rewards" not in text
    late = replace(course.assignments[1], due=datetime(2027, 12, 1, 12, 0, tzinfo=course.timezone))
    plan = schedule.of_course(plan, book, replace(course, assignments=(late,), groups={}))
    assert plan.left_out[-1] == "Due outside of these weeks: week-02."
