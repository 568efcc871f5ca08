"""The contents of the book, in the order of book.yml: chapters, their sections and exercises, with minutes.

    book = read_book(folder)
    book.chapters[3].minutes, book.task("clipped-loss").exercise.minutes

The minutes of a section's road are counted from its text, and each exercise says how many it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from ppobook.run.spellings import did_you_mean
from ppobook.teaching import minutes, tags

# Minutes at the desk for each printed minute: the fastest reader, the plan's, the slowest.
REREADING = (4 / 3, 3 / 2, 5 / 3)


@dataclass(frozen=True)
class Section:
    """A section of a chapter that is on its road, and its printed minutes."""

    chapter: int
    title: str
    label: str | None
    minutes: float


@dataclass(frozen=True)
class Chapter:
    """A chapter: its file, its sections, and the printed minutes of its Deeper boxes."""

    number: int
    title: str
    file: str
    sections: tuple[Section, ...]
    deeper: float

    @property
    def minutes(self) -> float:
        """The whole road."""
        return sum(section.minutes for section in self.sections)


@dataclass(frozen=True)
class Task:
    """An exercise, and the set that it stands in."""

    set: str
    exercise: tags.Exercise

    @property
    def chapter(self) -> int:
        """The chapter that its set belongs to."""
        return number_of(self.set)

    @property
    def file(self) -> str:
        """The notebook that it stands in, from the book's folder."""
        return f"exercises/{self.set}.ipynb"

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of its checks; none for one that a person reads."""
        return tuple(part.name for part in self.exercise.parts if part.role == "test")


@dataclass(frozen=True)
class Work:
    """The reading and the exercises of a part of a plan, and their minutes."""

    read: tuple[Section, ...] = ()
    tasks: tuple[Task, ...] = ()

    @property
    def printed(self) -> float:
        """The printed minutes of what is read."""
        return sum(section.minutes for section in self.read)

    @property
    def exercise_minutes(self) -> int:
        """The sum of the exercises' own estimates."""
        return sum(task.exercise.minutes for task in self.tasks)

    @property
    def fixed(self) -> float:
        """The minutes that no reader needs more or less of."""
        return self.exercise_minutes

    @property
    def hours(self) -> tuple[float, float, float]:
        """Hours at home: at least, as planned, at most."""
        low, mid, high = ((self.printed * times + self.fixed) / 60 for times in REREADING)
        return low, mid, high


def hours(parts: Sequence[Work]) -> tuple[float, float, float]:
    """Hours over all parts: at least, as planned, at most."""
    low, mid, high = (sum(part.hours[i] for part in parts) for i in range(3))
    return low, mid, high


@dataclass(frozen=True)
class Book:
    """Chapters by number, exercises by label."""

    chapters: dict[int, Chapter]
    tasks: dict[str, Task]

    def task(self, label: str) -> Task:
        """The exercise with this label."""
        if label not in self.tasks:
            hint = did_you_mean(label, list(self.tasks))
            raise ValueError(f"an exercise must be one of the book's, by its label, got {label!r}{hint}")
        return self.tasks[label]


def read_book(folder: Path) -> Book:
    """Count a book's chapters and list its exercises, in the order of book.yml."""
    book = yaml.safe_load((folder / "book.yml").read_text(encoding="utf-8"))
    chapters, tasks = {}, {}
    for part in book["parts"]:
        for entry in part["chapters"]:
            path = folder / f"{entry['file']}.ipynb"
            if not entry["file"].startswith("chapters/") or not path.exists():
                continue
            number = number_of(entry["file"])
            title = book["meta"]["chapters"][entry["file"]]["title"]
            chapters[number] = _chapter(number, title, f"{entry['file']}.ipynb", path)
            for inside in entry.get("sections", []):
                at = folder / f"{inside['file']}.ipynb"
                for exercise in tags.exercises(tags.read(at)) if at.exists() else ():
                    tasks[exercise.label] = Task(at.stem, exercise)
    return Book(chapters, tasks)


def number_of(name: str) -> int:
    """The number that the file of a chapter or of a set of exercises begins with: 3 of chapters/03_name."""
    number = name.rpartition("/")[2].partition("_")[0]
    if not number.isdecimal():
        raise ValueError(f"a file must begin with a chapter's number, as 03_name, got {name!r}")
    return int(number)


def _chapter(number: int, title: str, file: str, path: Path) -> Chapter:
    counted = minutes.count(tags.read(path)["cells"])
    # What stands before the first section is read with it.
    extra, sections = counted.sections[0].road.minutes, []
    for part in counted.sections[1:]:
        if part.road.minutes > 0:
            sections.append(Section(number, part.title, part.label, part.road.minutes + extra))
            extra = 0.0
    return Chapter(number, title, file, tuple(sections), counted.deeper)
