"""A term's plan, week by week, with the hours that it asks of a student.

The plans of 6, 10 and 14 weeks are the book's own. In a course, its assignments take the place of the plan's
exercises: each in the week at whose end it is due.

    plan = schedule.of_course(plans.ready(book, 10), book, course)
    print(schedule.as_markdown(plan, book))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from ppobook.course import sets
from ppobook.course.settings import Assignment, Course
from ppobook.teaching import plans
from ppobook.teaching.contents import Book, Task, read_book
from ppobook.teaching.plans import Plan, Week, time_of
from ppobook.teaching.workspace import find_source


def length(course: Course) -> int:
    """The weeks of the plan for a course's term."""
    return plans.fitting(((course.term.end - course.term.begin).days + 1) // 7)


def _week(course: Course, assignment: Assignment) -> int:
    # What is due on the first evening of a week is work for the week before.
    return ((assignment.due - timedelta(days=1)).date() - course.term.begin).days // 7


def early(course: Course) -> Iterator[str]:
    """Sets that are due before their chapter is read."""
    weeks = enumerate(plans.ready(read_book(find_source()), length(course)).weeks)
    first = {f"{section.chapter:02}": number for number, week in [*weeks][::-1] for section in week.read}
    for one in course.assignments:
        for name in map(str.strip, one.set.split(",")):
            if _week(course, one) < (begins := first.get(name[:2], 0)):
                yield f"{one.name}: it is due before the chapter of {name} is read, in week {begins + 1}"


def of_course(plan: Plan, book: Book, course: Course) -> Plan:
    """The plan with the dates, the exercises and the titles of a course."""
    found: dict[int, list[Assignment]] = {}
    for one in course.assignments:
        found.setdefault(_week(course, one), []).append(one)
    weeks = []
    for number, week in enumerate(plan.weeks):
        due = found.pop(number, [])
        tasks = tuple(task for one in due for task in _tasks(course, one))
        called = tuple((one.title or one.name, f"{one.due:%Y-%m-%d %H:%M}") for one in due)
        begin = course.term.begin + timedelta(weeks=number)
        weeks.append(replace(week, begin=begin, tasks=tasks, due=called))
    plan = replace(plan, weeks=tuple(weeks))
    outside = ", ".join(one.title or one.name for due in found.values() for one in due)
    more = (f"Due outside of these weeks: {outside}.",) if outside else ()
    return replace(plan, left_out=(plan.left_out[0], *plans.left_out(book, plan), *more))


def _tasks(course: Course, assignment: Assignment) -> list[Task]:
    found = sets.open_all(assignment.set, course.folder)
    chosen = assignment.exercises
    return [Task(s.name, one) for s in found for one in s.exercises if not chosen or one.label in chosen]


def _hours(hours: tuple[float, float, float]) -> str:
    low, mid, high = (time_of(60 * x) for x in hours)
    return f"{mid} at home" + (f" ({low} to {high})" if low != high else "")


def _dates(week: Week) -> str:
    if week.begin is None:
        return ""
    end = week.begin + timedelta(days=6)
    return f"{week.begin.day} {week.begin:%b} to {end.day} {end:%b %Y}"


def as_markdown(plan: Plan, book: Book) -> str:
    """A plan for a terminal, and for a course's page."""
    lines = [f"# {plan.title}", "", f"{plan.aim} {_hours(plan.hours)} in all, and the hours in class."]
    for number, week in enumerate(plan.weeks, 1):
        heading = " · ".join(filter(None, (f"Week {number}", _dates(week), _hours(week.hours))))
        tasks = [f"{one.exercise.title} ({one.exercise.label}, {one.exercise.minutes})" for one in week.tasks]
        due = [f"{name}, {at}" for name, at in week.due]
        rows = {"read": plans.reading(book, week), "do": tasks, "in class": week.in_class, "due": due}
        lines += ["", f"## {heading}", ""]
        lines += [f"- {what}: {said}" for what, row in rows.items() for said in row]
    note = (
        "The hours are those at home: the book's printed minutes, half as many again for rereading, and the "
        "exercises' own minutes. The range in brackets is for readers who reread less or more."
    )
    return "\n".join([*lines, "", note, "", "## Left out", "", *(f"- {said}" for said in plan.left_out), ""])
