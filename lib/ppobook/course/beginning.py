"""A new course: its folder, with a course.yml that explains itself."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from zoneinfo import available_timezones

from ppobook import validation
from ppobook.course import roster, sets
from ppobook.course.settings import FILE, read
from ppobook.run.files import atomic_write
from ppobook.teaching.tags import Exercise
from ppobook.teaching.workspace import find_source

# Exercises are chosen for so many minutes a week; the rest stands there as comments.
MINUTES = 120

_TEXT = """\
# Everything that is decided about this course. `ppobook course check` says what is wrong with it.
# Keep this folder private: the secret draws variants and the hidden problems of each check.
title: {title}
term: {{begin: {begin}, end: {end}}}
timezone: {timezone}
secret: {secret}

# Where students install the book's library from: the address of its repository, perhaps with @TAG.
# book: https://HOST/OWNER/NAME

# Each is one exercise set, of the book or of the folder exercises/, or several with commas between them.
# Choose its exercises by deleting lines and their "#"; without `exercises` all are assigned. The minutes are
# those of a reader who isn't stuck.
# More keys: `points: {{PART: 4}}` for other points than the book's, `total: 20` to have the sum checked,
# `title: Sheet 1` for what your learning platform calls the assignment, in tables of grades.
assignments:
{assignments}
# Up to `grace` nothing is lost; then so many per cent of the points for each day begun (10, not 0.1); after
# `days` nothing counts.
late: {{grace: 15 minutes, per_day: 10, days: 3}}

# `ppobook course extend STUDENT ASSIGNMENT --until "2027-03-05 23:59" --reason ill` writes these.
extensions: []

# One submission counts for all of a group: {{week-03: [[ada, bob], [eve, mel]]}}
groups: {{}}

# Goes into every pack.
ai_use: >-
  You may ask an AI to explain ideas and error messages. What you hand in is your own: you can explain every
  line of it without help.

# What one submission may use while it is graded.
grading: {{seconds: 20, cell_seconds: 60, submission_seconds: 1800, memory_mb: 2048, disk_mb: 256,
          processes: 64}}
"""


def begin(
    folder: str | Path,
    *,
    title: str = "Policy optimization",
    first: date | None = None,
    weeks: int = 14,
    chapters: Sequence[int] | None = None,
    timezone: str | None = None,
    dry_run: bool = False,
    book: Path | None = None,
) -> str:
    """Make a course's folder, and return the text of its course.yml.

    Parameters
    ----------
    folder : path
    title : str
    first : date, optional
        The first day of the term; the next Monday if left out.
    weeks : int
        The weeks of the term, over which the assignments are spread.
    chapters : sequence of int, optional
        The numbers of the chapters; all that have exercises if left out.
    timezone : str, optional
        The machine's own if left out.
    dry_run : bool
        Write nothing.
    book : path, optional
        The book's folder.

    Raises
    ------
    ValueError
        There is a course already, the folder is inside the book's, or a value is wrong.
    """
    folder = validation.path("folder", folder, "a folder for the course")
    book = book or find_source()
    if (folder / FILE).exists():
        raise ValueError(f"folder must be one without a {FILE}, got {str(folder)!r}, which has one")
    if folder.resolve().is_relative_to(book):
        raise ValueError(f"folder must be outside of the book's, which is public, got {str(folder)!r}")
    if not title.strip() or not title.isprintable():
        raise ValueError(f"title must be one line of text, got {title!r}")
    validation.count("weeks", weeks, high=60)
    zone = _own_zone() if timezone is None else timezone
    if zone not in (known := available_timezones()):
        hint = validation.did_you_mean(zone, known)
        raise ValueError(f"timezone must be such as Europe/Berlin, got {zone!r}{hint}")
    first = first or date.today() + timedelta(days=7 - date.today().weekday())
    text = _TEXT.format(
        title=_quoted(title.strip()),
        begin=first,
        end=first + timedelta(days=7 * weeks - 1),
        timezone=zone,
        secret=secrets.token_hex(32),
        assignments=_assignments(_chosen(chapters, book), first, weeks, book),
    )
    read(text, folder)
    if not dry_run:
        (folder / "exercises").mkdir(parents=True, exist_ok=True)
        if not (folder / roster.FILE).exists():
            roster.write(folder, ())
        # In a repository, lines that two people added to a log are both kept.
        atomic_write(folder / ".gitattributes", "*.jsonl merge=union\n")
        atomic_write(folder / ".gitignore", ".*.lock\n.part-*\n")
        atomic_write(folder / FILE, text)
        (folder / FILE).chmod(0o600)
    return text


def _quoted(text: str) -> str:
    """A text as YAML takes it, quoted where that is needed."""
    return text if re.fullmatch(r"[A-Za-z][\w ,.()–-]*", text) else "'" + text.replace("'", "''") + "'"


def _own_zone() -> str:
    """The time zone of this machine, or UTC."""
    named = (
        os.environ.get("TZ", "").lstrip(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    )
    return named if named in available_timezones() else "UTC"


def _chosen(chapters: Sequence[int] | None, book: Path) -> list[str]:
    """The sets of the chapters with these numbers, in reading order."""
    numbered = {}
    for file, found in sets.by_chapter(book).items():
        number = re.match(r"\d+", file.rpartition("/")[2])
        if number and found:
            numbered[int(number[0])] = [one.rpartition("/")[2] for one in found]
    for chosen in chapters or ():
        if chosen not in numbered:
            known = ", ".join(map(str, numbered))
            raise ValueError(f"chapters must be of those with exercises, {known}, got {chosen}")
    return [one for at, names in numbered.items() if not chapters or at in chapters for one in names]


def _assignments(names: Sequence[str], first: date, weeks: int, book: Path) -> str:
    lines = []
    used: dict[str, int] = {}
    for i, name in enumerate(names, 1):
        week = max(1, i * weeks // len(names))
        label = f"week-{week:02}"
        used[label] = used.get(label, 0) + 1
        label += f"-{used[label]}" if used[label] > 1 else ""
        found = sets.open_set(name, None, book)
        lines += [
            f"  - name: {label}",
            f"    set: {name}",
            f"    due: {first + timedelta(days=7 * week - 1)} 23:59",
            "    exercises:",
        ]
        minutes = 0
        for place, one in enumerate(found.exercises):
            minutes += one.minutes
            # In order, since an exercise may use what was written in one before it.
            mark = "" if place == 0 or minutes <= MINUTES else "# "
            lines.append(f"      {mark}- {one.label}  # {_facts(one)}")
        lines.append("")
    return "\n".join(lines)


def _facts(exercise: Exercise) -> str:
    points = sum(part.points or 0 for part in exercise.parts)
    return f"{exercise.kind}, {exercise.minutes} minutes, {points:g} points: {exercise.title}"
