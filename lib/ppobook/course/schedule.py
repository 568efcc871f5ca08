"""A term's plan, week by week, with the hours that it asks of a student.

The plans of 6, 10 and 14 weeks are the book's own. In a course, its assignments take the place of the plan's
exercises: each in the week at whose end it is due.

    plan = schedule.of_course(plans.ready(book, 10), book, course, course.begin)
    print(schedule.as_text(plan, book))
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

from ppobook.course import sets
from ppobook.course.settings import Assignment, Course
from ppobook.teaching import plans
from ppobook.teaching.contents import REREADING, Book, Task
from ppobook.teaching.plans import Plan, Week, time_of


def dated(plan: Plan, begin: date) -> Plan:
    """The plan with the first day of each week, of which the first begins on `begin`."""
    weeks = (replace(week, begin=begin + timedelta(weeks=i)) for i, week in enumerate(plan.weeks))
    return replace(plan, weeks=tuple(weeks))


def of_course(plan: Plan, book: Book, course: Course, begin: date) -> Plan:
    """The plan with the dates, the exercises and the titles of a course.

    Parameters
    ----------
    plan : Plan
        One of the book's own.
    book : Book
    course : Course
    begin : date
        The first day of the first week.
    """
    found: dict[int, list[Assignment]] = {}
    for one in course.assignments:
        # What is due on the first evening of a week is work for the week before.
        found.setdefault(((one.due - timedelta(days=1)).date() - begin).days // 7, []).append(one)
    weeks = []
    for number, week in enumerate(dated(plan, begin).weeks):
        due = found.pop(number, [])
        tasks = [task for one in due for task in _tasks(course, one)]
        called = [(one.title or one.name, f"{one.due:%Y-%m-%d %H:%M}") for one in due]
        weeks.append(replace(week, tasks=tuple(tasks), due=tuple(called)))
    plan = replace(plan, weeks=tuple(weeks))
    outside = ", ".join(one.title or one.name for due in found.values() for one in due)
    more = (f"Due outside of these weeks: {outside}.",) if outside else ()
    return replace(plan, left_out=(plan.left_out[0], *plans.left_out(book, plan), *more))


def _tasks(course: Course, assignment: Assignment) -> list[Task]:
    """The exercises of an assignment."""
    found = [sets.open_set(name.strip(), course.folder) for name in assignment.set.split(",")]
    chosen = assignment.exercises
    return [Task(s.name, one) for s in found for one in s.exercises if not chosen or one.label in chosen]


# --- how it is written --------------------------------------------------------------------------------------


def _hours(hours: tuple[float, float, float]) -> str:
    low, mid, high = (time_of(60 * x) for x in hours)
    return f"{mid} at home" + (f" ({low} to {high})" if low != high else "")


def _reading(book: Book, week: Week) -> list[str]:
    """The chapters of a week, with the first and the last section where it is not the whole chapter."""
    lines = []
    for number in dict.fromkeys(section.chapter for section in week.read):
        chapter = book.chapters[number]
        part = [section for section in week.read if section.chapter == number]
        said = f"chapter {number}, {chapter.title}"
        if len(part) < len(chapter.sections):
            said += f": “{part[0].title}”"
            said += f" to “{part[-1].title}”" if len(part) > 1 else ""
        lines.append(said)
    return lines


def _exercises(week: Week) -> list[str]:
    return [f"{task.exercise.title} ({task.exercise.label}, {task.exercise.minutes})" for task in week.tasks]


def _dates(week: Week) -> str:
    if week.begin is None:
        return ""
    end = week.begin + timedelta(days=6)
    return f"{week.begin.day} {week.begin:%b} to {end.day} {end:%b %Y}"


def as_text(plan: Plan, book: Book) -> str:
    """For a terminal."""
    lines = [plan.title, plan.aim, f"{_hours(plan.hours)} in all, and the hours in class."]
    for number, week in enumerate(plan.weeks, 1):
        lines += ["", " · ".join(filter(None, (f"Week {number}", _dates(week), _hours(week.hours))))]
        lines += [f"  read      {said}" for said in _reading(book, week)]
        if week.read:
            reread = time_of(week.printed * REREADING[1])
            lines.append(f"            {time_of(week.printed)} printed, {reread} with rereading")
        lines += [f"  do        {said}" for said in _exercises(week)]
        lines += [f"  in class  {said}" for said in week.in_class]
        lines += [f"  due       {name}, {at}" for name, at in week.due]
    return "\n".join([*lines, "", "Left out", *(f"  {said}" for said in plan.left_out)]) + "\n"


def as_markdown(plan: Plan, book: Book) -> str:
    """For a course's page."""
    lines = [f"# {plan.title}", "", f"{plan.aim} {_hours(plan.hours)} in all, and the hours in class.", ""]
    lines += ["| week | read | do | in class | hours |", "|---|---|---|---|---|"]
    for number, week in enumerate(plan.weeks, 1):
        when = "<br>".join(filter(None, (str(number), _dates(week))))
        due = [f"*due: {name}, {at}*" for name, at in week.due]
        columns = (_reading(book, week), [*_exercises(week), *due], week.in_class)
        cells = ("<br>".join(column).replace("|", "\\|") for column in columns)
        low, mid, high = week.hours
        lines.append(f"| {when} | {' | '.join(cells)} | {mid:.1f} ({low:.1f} to {high:.1f}) |")
    note = (
        "The hours are those at home: the book's printed minutes, half as many again for rereading, and the "
        "exercises' own minutes. The range in brackets is for readers who reread less or more."
    )
    left = [f"- {said}" for said in plan.left_out]
    return "\n".join([*lines, "", note, "", "## Left out", "", *left]) + "\n"
