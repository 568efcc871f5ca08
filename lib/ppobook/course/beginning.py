"""A new course: its folder, with a course.yml that explains itself."""

from __future__ import annotations

import os
import secrets
from datetime import date, timedelta
from pathlib import Path
from zoneinfo import available_timezones

from ppobook.course import roster
from ppobook.course.settings import FILE
from ppobook.run.files import atomic_write
from ppobook.teaching import plans
from ppobook.teaching.contents import read_book
from ppobook.teaching.workspace import find_source

_TEXT = """\
# Everything that is decided about this course. `ppobook course check` says what is wrong with it.
# Keep this folder private: the secret draws variants and the hidden problems of each check.
title: Policy optimization
term: {{begin: {begin}, end: {end}}}
timezone: {timezone}
secret: {secret}

# Where students install the book's library from: the address of its repository, perhaps with @TAG.
# book: https://HOST/OWNER/NAME

# Each is one exercise set, of the book or of the folder exercises/, or several with commas between them.
# Those below follow the plan that `ppobook course schedule` prints. To choose exercises, delete lines, or the
# `#` before one; without `exercises` all are assigned. The minutes are those of a reader who isn't stuck.
# More keys: `points: {{PART: 4}}` for other points than the book's, `title: Sheet 1` for what your learning
# platform calls the assignment, in tables of grades.
assignments:
{assignments}
# Up to `grace` nothing is lost; then so many per cent of the points for each day begun (10, not 0.1); after
# `days` nothing counts.
late: {{grace: 15 minutes, per_day: 10, days: 3}}

# One submission counts for all of a group: {{week-03: [[ada, bob], [eve, mel]]}}
groups: {{}}

# Goes into every pack.
ai_use: >-
  You may ask an AI to explain ideas and error messages. What you hand in is your own: you can explain every
  line of it without help.
"""


def begin(folder: str | Path, first: date | None = None, weeks: int = 14) -> None:
    """Make a course's folder. The term has so many weeks from the `first` day, or else from next Monday."""
    folder = Path(folder).expanduser()
    if (folder / FILE).exists():
        raise ValueError(f"folder must be one without a {FILE}, got {str(folder)!r}, which has one")
    if folder.resolve().is_relative_to(find_source()):
        raise ValueError(f"folder must be outside of the book's, which is public, got {str(folder)!r}")
    first = first or date.today() + timedelta(days=7 - date.today().weekday())
    text = _TEXT.format(
        begin=first,
        end=first + timedelta(days=7 * weeks - 1),
        timezone=_own_zone(),
        secret=secrets.token_hex(32),
        assignments=_assignments(first, weeks),
    )
    (folder / "exercises").mkdir(parents=True, exist_ok=True)
    if not (folder / roster.FILE).exists():
        roster.write(folder, ())
    # In a repository, lines that two people added to a log are both kept.
    atomic_write(folder / ".gitattributes", "*.jsonl merge=union\n")
    atomic_write(folder / ".gitignore", "*.lock\n.part-*\n")
    atomic_write(folder / FILE, text)
    (folder / FILE).chmod(0o600)


def _own_zone() -> str:
    """The time zone of this machine, or UTC."""
    own = os.environ.get("TZ", "").lstrip(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    return own if own in available_timezones() else "UTC"


def _assignments(first: date, weeks: int) -> str:
    """One for each week of the plan, with its exercises, and as comments those that no week of it has."""
    book, lines = read_book(find_source()), []
    plan = plans.ready(book, plans.fitting(weeks))
    planned = {task.exercise.label for week in plan.weeks for task in week.tasks}
    for number, week in enumerate(plan.weeks, 1):
        names = list(dict.fromkeys(task.set for task in week.tasks))
        due = first + timedelta(days=7 * number - 1)
        lines += [f"  - name: week-{number:02}", f"    set: {', '.join(names)}"]
        lines += [f"    due: {due} 23:59", "    exercises:"]
        for task in book.tasks.values():
            one, mine = task.exercise, task in week.tasks
            points = sum(part.points or 0 for part in one.parts)
            facts = f"{one.kind}, {one.minutes} minutes, {points:g} points: {one.title}"
            if task.set in names and (mine or one.label not in planned):
                lines.append(f"      {'' if mine else '# '}- {one.label}  # {facts}")
        lines.append("")
    return "\n".join(lines)
