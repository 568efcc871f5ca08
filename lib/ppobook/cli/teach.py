"""`ppobook course slides` and `ppobook course schedule`: what an instructor teaches from."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Annotated

import tyro

from ppobook import validation
from ppobook.cli.assigning import Day, Folder
from ppobook.cli.parsing import MaybeFile, command

Chapter = Annotated[str, tyro.conf.arg(metavar="CHAPTER")]
Labels = Annotated[str | None, tyro.conf.arg(metavar="LABEL,LABEL")]


@command
def schedule(
    *,
    weeks: int = 10,
    chapters: tuple[int, ...] | None = None,
    exercises: Labels = None,
    begin: Day = None,
    course: Folder = ".",
    out: MaybeFile = None,
) -> None:
    """Plan a term: what is read, done and met about in each week, and the hours it takes at home.

    Without --chapters it is one of the book's own plans, of 6, 10 or 14 weeks, and names what is left out.
    With --chapters these are dealt out as evenly as can be.

    Args:
        weeks: how many weeks
        chapters: the chapters to read, 3,4,5
        exercises: the exercises of these chapters to assign, by their labels
        begin: the first day of the first week, 2027-02-01; if left out, that of course.yml
        course: the course's folder
        out: write it to this file: .txt, .md, .csv or .ics
    """
    from ppobook.course import schedule
    from ppobook.run.files import atomic_write
    from ppobook.teaching import contents, plans
    from ppobook.teaching.workspace import find_source

    if out is not None:
        validation.choice("--out ends in", Path(out).suffix, schedule.FORMATS)
    book = contents.read_book(find_source())
    weeks = validation.count("--weeks", weeks)
    if chapters is None:
        if exercises is not None:
            raise ValueError("--exercises needs --chapters: the book's own plans have theirs")
        plan = plans.ready(book, weeks)
    else:
        labels = None if exercises is None else [label.strip() for label in exercises.split(",")]
        plan = schedule.divided(book, weeks, list(chapters), labels)
    first, due = _term(Path(course), begin)
    if first is not None:
        plan = schedule.dated(plan, first, due)
    if out is None:
        print(schedule.as_text(plan, book), end="")
        return
    atomic_write(Path(out), schedule.FORMATS[Path(out).suffix](plan, book).encode())
    print(f"{out}: {plan.title}")


def _term(folder: Path, begin: str | None) -> tuple[date | None, list[tuple[str, datetime]]]:
    """The term's first day, and the assignments of course.yml with the moments at which they are due."""
    first = None
    if begin is not None:
        try:
            first = date.fromisoformat(begin)
        except ValueError:
            raise ValueError(f"--begin must be a date, 2027-02-01, got {begin!r}") from None
    if not (folder / "course.yml").exists():
        return first, []
    from ppobook.course import settings

    course = settings.load(folder)
    return first or course.begin, [(f"{one.name} ({one.set})", one.due) for one in course.assignments]


@command
def slides(chapter: Chapter, /, *, out: MaybeFile = None) -> None:
    """Build a chapter's slides: one HTML file that needs no network, with speaker notes, or a PDF.

    In the browser: arrows move, o shows an overview, s opens the notes, f fills the screen, ? lists the keys.

    Args:
        chapter: its number or its name: 3, 03_the_clipped_surrogate
        out: the file, .html or .pdf; if left out, the chapter's name in this folder
    """
    import ppobook.course.slides as make
    from ppobook.analysis.files import new_file
    from ppobook.run.files import atomic_write
    from ppobook.teaching.workspace import find_source

    deck = make.find_deck(find_source(), chapter)
    file = Path(f"{deck.stem}.html") if out is None else new_file("out", out, (".html", ".htm", ".pdf"))
    page = make.build(deck)
    if file.suffix.lower() == ".pdf":
        make.print_pdf(page, file)
    else:
        atomic_write(file, page.encode())
    print(f"{file}: {page.count('<section>')} slides")
