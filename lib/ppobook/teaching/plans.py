"""The ready plans of a term: what is read and done in each week, and what is left out. plans.toml has them.

Readers needed between a third and two thirds more than the printed minutes, because they read hard places
twice; so a plan counts half as much again, and says the range.

    plan = plans.ready(read_book(folder), 10)
    plan.hours
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from ppobook.teaching.contents import Book, Section, Work, hours

# Sections that look back. A plan need not say that it leaves them out.
CLOSING = ("Summary", "What changed")


@dataclass(frozen=True)
class Week(Work):
    """Reading, exercises and class meetings of a week."""

    in_class: tuple[str, ...] = ()
    begin: date | None = None
    due: tuple[tuple[str, str], ...] = ()
    """The hand-in: a name, and its due time."""


@dataclass(frozen=True)
class Plan:
    """A term, and what it leaves out."""

    title: str
    aim: str
    weeks: tuple[Week, ...]
    left_out: tuple[str, ...] = field(default=())

    @property
    def hours(self) -> tuple[float, float, float]:
        """Hours at home over the whole term: at least, as planned, at most."""
        return hours(self.weeks)


@cache
def data() -> dict[str, Any]:
    """Read plans.toml."""
    text = Path(__file__).with_name("plans.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)
    return found


def lengths() -> tuple[int, ...]:
    """The lengths, in weeks, of the ready plans."""
    return tuple(sorted(map(int, data()["plan"])))


def fitting(weeks: int) -> int:
    """The length of the ready plan for a term of so many weeks: the longest that fits, or the shortest."""
    return max((one for one in lengths() if one <= weeks), default=min(lengths()))


def ready(book: Book, weeks: int) -> Plan:
    """The ready plan of that many weeks."""
    if weeks not in lengths():
        *first, last = lengths()
        known = f"{', '.join(map(str, first))} or {last}"
        raise ValueError(f"--weeks must be {known} without --chapters, got {weeks}")
    found = data()["plan"][str(weeks)]
    made: list[Week] = []
    met: set[int] = set()
    for entry in found["week"]:
        sections = [section for words in entry["read"] for section in _sections(book, words)]
        in_class = [entry["class"]] if "class" in entry else []
        in_class += activities({section.chapter for section in sections} - met)
        met |= {section.chapter for section in sections}
        tasks = tuple(book.task(label) for label in entry["assign"])
        made.append(Week(tuple(sections), tasks, tuple(in_class)))
    plan = Plan(found["title"], found["aim"], tuple(made))
    return replace(plan, left_out=(found["leaves"], *left_out(book, plan)))


def _sections(book: Book, words: str) -> list[Section]:
    """Return the sections that words like "2 from sec-a until sec-b" name."""
    number, *rest = words.split()
    sections = list(book.chapters[int(number)].sections)
    labels = [section.label for section in sections]
    bounds = dict(zip(rest[::2], rest[1::2], strict=True))
    begin = labels.index(bounds["from"]) if "from" in bounds else 0
    end = labels.index(bounds["until"]) if "until" in bounds else len(sections)
    return sections[begin:end]


def activities(chapters: Iterable[int]) -> list[str]:
    """Return the class activities for these chapters."""
    known = data()["activities"]
    return [known[str(number)] for number in sorted(chapters) if str(number) in known]


def left_out(book: Book, plan: Plan) -> tuple[str, ...]:
    """List the parts of the book that a plan does not read or do, a sentence each."""
    read = {section for week in plan.weeks for section in week.read}
    done = {task.exercise.label for week in plan.weeks for task in week.tasks}
    said = []
    whole = [c for c in book.chapters.values() if not read & set(c.sections)]
    if whole:
        said.append("Not read: " + "; ".join(f"chapter {c.number}, {c.title}" for c in whole) + ".")
    for chapter in book.chapters.values():
        missing = [s for s in chapter.sections if s not in read and not s.title.startswith(CLOSING)]
        if missing and chapter not in whole:
            titles = "; ".join(f"“{section.title}”" for section in missing)
            said.append(f"Of chapter {chapter.number}: {titles}.")
    deeper = sum(c.deeper for c in book.chapters.values() if c not in whole)
    said.append(f"The Deeper boxes of the chapters that are read: {time_of(deeper)} as printed.")
    rest = [task.exercise.minutes for label, task in book.tasks.items() if label not in done]
    said.append(
        f"{len(rest)} of the book's {len(book.tasks)} exercises, {time_of(sum(rest))} by their own minutes."
    )
    return tuple(said)


def reading(book: Book, week: Week) -> list[str]:
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


def time_of(amount: float) -> str:
    """85 as "1 h 25"."""
    whole = round(amount)
    return f"{whole // 60} h {whole % 60:02d}" if whole >= 60 else f"{whole} minutes"
