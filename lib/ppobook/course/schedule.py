"""A term's plan, week by week, with the hours that it asks of a student.

The minutes are the book's own: those of each section's road are counted from its text, and each exercise says
how many it takes. Readers needed between a third and two thirds more than the printed minutes, because they
read hard places twice; so a plan counts half as much again, and says the range.

    plan = plans.ready(read_book(folder), 10)      # one of the book's own
    plan = schedule.divided(book, weeks=8, chapters=[3, 4, 5])
    print(schedule.as_text(plan, book))
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta

from ppobook import validation
from ppobook.teaching import plans
from ppobook.teaching.contents import REREADING, Book, Section, Task
from ppobook.teaching.plans import Plan, Week, time_of

# What a chapter's exercises may take where no plan names them.
EXERCISE_MINUTES = 120


def divided(book: Book, weeks: int, chapters: Sequence[int], exercises: Sequence[str] | None = None) -> Plan:
    """Some chapters over some weeks, so that the fullest week is as short as it can be.

    Parameters
    ----------
    book : Book
    weeks : int
    chapters : sequence of int
    exercises : sequence of str, optional
        Their labels. If left out, those which the longest ready plan assigns, and for a chapter that it does
        not know the first two hours of its exercises.

    Raises
    ------
    ValueError
        There is no such chapter or exercise, or more weeks than sections.
    """
    for number in chapters:
        if number not in book.chapters:
            known = ", ".join(map(str, book.chapters))
            raise ValueError(f"--chapters must be among {known}, got {number}")
    sections = [section for number in dict.fromkeys(chapters) for section in book.chapters[number].sections]
    weeks = validation.count("--weeks", weeks)
    if weeks > len(sections):
        raise ValueError(f"--weeks must be at most {len(sections)}, the chapters' sections, got {weeks}")
    given = None if exercises is None else [book.task(label) for label in exercises]
    chosen = {
        number: _assigned(book, number) if given is None else [t for t in given if t.chapter == number]
        for number in chapters
    }
    loads = [_load(section, book, chosen[section.chapter]) for section in sections]
    ends = _even(loads, weeks)
    made: list[Week] = []
    met: set[int] = set()
    for begin, end in zip([0, *ends], ends, strict=False):
        read = tuple(sections[begin:end])
        numbers = dict.fromkeys(section.chapter for section in read)
        tasks = [t for number in numbers for t in _due_by(book, chosen[number], sections[:end], made)]
        made.append(Week(read, tuple(tasks), tuple(plans.activities(set(numbers) - met))))
        met |= set(numbers)
    plan = Plan(
        f"Chapters {', '.join(map(str, dict.fromkeys(chapters)))} in {_weeks(weeks)}",
        "Sections are dealt out so that the weeks are as even as they can be.",
        tuple(made),
    )
    return replace(plan, left_out=plans.left_out(book, plan))


def _weeks(number: int) -> str:
    return "one week" if number == 1 else f"{number} weeks"


def _assigned(book: Book, number: int) -> list[Task]:
    """The exercises of a chapter in the longest plan, else the first two hours of them."""
    longest = plans.data()["plan"][str(max(plans.lengths()))]["week"]
    own = [task for task in book.tasks.values() if task.chapter == number]
    named = {label for week in longest for label in week["assign"]}
    if chosen := [task for task in own if task.exercise.label in named and not _apart(task)]:
        return chosen
    total, found = 0, []
    for task in own:
        total += task.exercise.minutes
        if total > EXERCISE_MINUTES:
            break
        found.append(task)
    return found


def _apart(task: Task) -> bool:
    """Return whether it belongs to a set that is no chapter's homework."""
    return task.set in plans.data()["apart"]


def _load(section: Section, book: Book, chosen: Sequence[Task]) -> float:
    """A section's minutes at home, with its share of the chapter's exercises."""
    share = section.minutes / book.chapters[section.chapter].minutes
    return section.minutes * REREADING[1] + share * sum(task.exercise.minutes for task in chosen)


def _even(loads: Sequence[float], parts: int) -> list[int]:
    """Return where to end each part of a row so that the largest sum of a part is minimal."""
    sums = [0.0]
    for load in loads:
        sums.append(sums[-1] + load)
    # best[k][j]: the largest part of the first j in k parts, with the begin of the last.
    best = [[(0.0, 0)] + [(float("inf"), 0)] * len(loads)]
    for _ in range(parts):
        last = best[-1]
        row = [(float("inf"), 0)]
        for j in range(1, len(loads) + 1):
            row.append(min((max(last[i][0], sums[j] - sums[i]), i) for i in range(j)))
        best.append(row)
    ends = [len(loads)]
    for row in reversed(best[1:]):
        ends.append(row[ends[-1]][1])
    return ends[-2::-1]


def _due_by(
    book: Book, chosen: Sequence[Task], read: Sequence[Section], before: Sequence[Week]
) -> list[Task]:
    """The exercises of a chapter for which enough has been read, and which no earlier week has."""
    if not chosen:
        return []
    chapter = book.chapters[chosen[0].chapter]
    share = sum(s.minutes for s in read if s.chapter == chapter.number) / chapter.minutes
    total, done, found = sum(task.exercise.minutes for task in chosen), 0, []
    given = {task.exercise.label for week in before for task in week.tasks}
    for task in chosen:
        done += task.exercise.minutes
        if done <= share * total + 1e-6 and task.exercise.label not in given:
            found.append(task)
    return found


# --- dates --------------------------------------------------------------------------------------------------


def dated(plan: Plan, begin: date, due: Sequence[tuple[str, datetime]] = ()) -> Plan:
    """The plan with its weeks' first days; and, each in its week, what is handed in.

    Parameters
    ----------
    plan : Plan
    begin : date
        The first day of the first week.
    due : sequence of (str, datetime), optional
        Assignments and when they are due.
    """
    weeks = []
    for number, week in enumerate(plan.weeks):
        first = begin + timedelta(weeks=number)
        within = [(name, f"{at:%Y-%m-%d %H:%M}") for name, at in due if 0 <= (at.date() - first).days < 7]
        weeks.append(replace(week, begin=first, due=tuple(within)))
    return replace(plan, weeks=tuple(weeks))


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
        head = " · ".join(filter(None, (f"Week {number}", _dates(week), _hours(week.hours))))
        lines += ["", head]
        for said in _reading(book, week):
            lines.append(f"  read      {said}")
        if week.read:
            reread = week.printed * REREADING[1]
            lines.append(f"            {time_of(week.printed)} printed, {time_of(reread)} with rereading")
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
        "The hours are those at home: the book's printed minutes, and half as many again for rereading, and "
        "the exercises' own minutes. In brackets are readers who reread less or more."
    )
    left = [f"- {said}" for said in plan.left_out]
    return "\n".join([*lines, "", note, "", "## Left out", "", *left]) + "\n"


COLUMNS = (
    *("week", "begin", "read", "printed_minutes", "reading_minutes", "exercises", "exercise_minutes"),
    *("hours", "hours_low", "hours_high", "in_class", "due"),
)


def as_csv(plan: Plan, book: Book) -> str:
    """For a spreadsheet: a row a week."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for number, week in enumerate(plan.weeks, 1):
        low, mid, high = (round(x, 2) for x in week.hours)
        due = "; ".join(f"{name} {at}" for name, at in week.due)
        labels = " ".join(task.exercise.label for task in week.tasks)
        reading = round(week.printed), round(week.printed * REREADING[1])
        begin, read = week.begin or "", "; ".join(_reading(book, week))
        hours = week.exercise_minutes, mid, low, high
        rows.writerow([number, begin, read, *reading, labels, *hours, "; ".join(week.in_class), due])
    return text.getvalue()


def as_ics(plan: Plan, book: Book) -> str:
    """For a calendar: an entry for each week, and one for each thing that is due.

    Raises
    ------
    ValueError
        The plan has no dates.
    """
    if any(week.begin is None for week in plan.weeks):
        raise ValueError("a calendar needs dates: give --begin 2027-02-01, or a course.yml with its term")
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//ppobook//schedule//EN"]
    name = re.sub(r"\W+", "-", plan.title).lower()
    for number, week in enumerate(plan.weeks, 1):
        assert week.begin is not None
        text = [*_reading(book, week), *_exercises(week), *week.in_class, _hours(week.hours)]
        end = week.begin + timedelta(days=7)
        lines += _event(f"{name}-{number}", f"Week {number}", week.begin, end, "\n".join(text))
        for title, at in week.due:
            when = datetime.strptime(at, "%Y-%m-%d %H:%M")
            lines += _event(f"{name}-due-{title}", f"Due: {title}", when, when, "")
    return "\r\n".join(_folded(line) for line in [*lines, "END:VCALENDAR"]) + "\r\n"


def _event(uid: str, title: str, begin: date, end: date, text: str) -> list[str]:
    def stamp(kind: str, at: date) -> str:
        if isinstance(at, datetime):
            return f"{kind}:{at:%Y%m%dT%H%M%S}"
        return f"{kind};VALUE=DATE:{at:%Y%m%d}"

    escaped = re.sub(r"([\\;,])", r"\\\1", text).replace("\n", "\\n")
    made = begin if isinstance(begin, datetime) else datetime.combine(begin, time())
    return [
        "BEGIN:VEVENT",
        f"UID:{uid}@ppobook",
        # The same plan gives the same file, so a calendar that has it already changes nothing.
        f"DTSTAMP:{made:%Y%m%dT%H%M%SZ}",
        stamp("DTSTART", begin),
        stamp("DTEND", end),
        f"SUMMARY:{title}",
        *([f"DESCRIPTION:{escaped}"] if text else []),
        "END:VEVENT",
    ]


def _folded(line: str) -> str:
    """A line in pieces of at most 75 bytes, as the format asks."""
    pieces: list[str] = []
    piece = ""
    for character in line:
        if len((piece + character).encode()) > (75 if not pieces else 74):
            pieces.append(piece)
            piece = ""
        piece += character
    return "\r\n ".join([*pieces, piece])


FORMATS = {".md": as_markdown, ".csv": as_csv, ".ics": as_ics, ".txt": as_text}
