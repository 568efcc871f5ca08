"""Paths through the book for one reader, with what they take: paths.toml says what is read and done.

Minutes are counted as a schedule's are: the printed ones of each section, half as many again for rereading,
and the exercises' own.

    for path in paths.read(read_book(folder)):
        print(path.id, path.title, path.hours)

The ready plans of a term are paths too, with a step for each week: `paths.find(book, "term-10")`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ppobook.run.spellings import did_you_mean
from ppobook.teaching import plans
from ppobook.teaching.contents import Book, Section, Task, Work, hours


@dataclass(frozen=True)
class Step(Work):
    """A part of a path: what is read and done in it."""

    title: str = ""
    about: str = ""
    deeper: tuple[int, ...] = ()
    """Chapters whose Deeper boxes are read too."""
    deeper_minutes: float = 0.0
    other_minutes: float = 0.0
    """Minutes that are neither reading nor exercises, such as a quiz."""

    @property
    def printed(self) -> float:
        """The printed minutes of what is read."""
        return super().printed + self.deeper_minutes

    @property
    def fixed(self) -> float:
        """The minutes of exercises, and of what is neither reading nor an exercise."""
        return self.exercise_minutes + self.other_minutes


@dataclass(frozen=True)
class LearningPath:
    """A way through the book, and for whom it is."""

    id: str
    title: str
    readers: str
    steps: tuple[Step, ...]
    then: str
    """The places to go from its end."""

    @property
    def hours(self) -> tuple[float, float, float]:
        """Hours over the whole path: at least, as planned, at most."""
        return hours(self.steps)


@cache
def _data() -> list[dict[str, Any]]:
    text = Path(__file__).with_name("paths.toml").read_text(encoding="utf-8")
    data: list[dict[str, Any]] = tomllib.loads(text)["path"]
    return data


def names() -> tuple[str, ...]:
    """The names of all paths, and of the terms."""
    return (*(entry["id"] for entry in _data()), *(f"term-{weeks}" for weeks in plans.lengths()))


def read(book: Book) -> tuple[LearningPath, ...]:
    """All paths but the terms, with the sections and exercises of this book."""
    return tuple(_path(book, entry) for entry in _data())


def find(book: Book, name: str) -> LearningPath:
    """The path, or the term, of this name."""
    if name not in names():
        hint = did_you_mean(name, names())
        raise ValueError(f"path must be one of {', '.join(names())}, got {name!r}{hint}")
    if name.startswith("term-"):
        plan = plans.ready(book, int(name.removeprefix("term-")))
        weeks = (Step(week.read, week.tasks, f"Week {number}") for number, week in enumerate(plan.weeks, 1))
        return LearningPath(name, plan.title, plan.aim, tuple(weeks), "")
    return next(_path(book, entry) for entry in _data() if entry["id"] == name)


def _path(book: Book, entry: dict[str, Any]) -> LearningPath:
    steps = tuple(_step(book, step) for step in entry["step"])
    return LearningPath(entry["id"], entry["title"], entry["for"], steps, entry["then"])


def _step(book: Book, step: dict[str, Any]) -> Step:
    deeper = tuple(step.get("deeper", ()))
    return Step(
        title=step["title"],
        about=step["about"],
        read=tuple(section for words in step.get("read", ()) for section in _read(book, words)),
        tasks=tuple(task for words in step.get("do", ()) for task in _do(book, words)),
        deeper=deeper,
        deeper_minutes=sum(book.chapters[number].deeper for number in deeper),
        other_minutes=step.get("other_minutes", 0),
    )


def _read(book: Book, words: str) -> tuple[Section, ...]:
    """The sections of "3", a whole chapter, or of "sec-clip"."""
    if words.isdecimal() and int(words) in book.chapters:
        return book.chapters[int(words)].sections
    known = {s.label: s for chapter in book.chapters.values() for s in chapter.sections if s.label}
    if words not in known:
        hint = did_you_mean(words, list(known))
        raise ValueError(f"what is read must be a chapter's number or a section's label, got {words!r}{hint}")
    return (known[words],)


def _do(book: Book, words: str) -> tuple[Task, ...]:
    """The exercises of "all of 3", of "all of 06_clinic", or of "clipped-loss"."""
    if words.startswith("all of "):
        of = words.removeprefix("all of ")
        found = tuple(t for t in book.tasks.values() if of in (t.set, str(t.chapter)))
        if not found:
            raise ValueError(f"a set of exercises must be a chapter's number or its file's name, got {of!r}")
        return found
    return (book.task(words),)
