"""`ppobook course slides` and `ppobook course schedule`: what an instructor teaches from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from ppobook import validation
from ppobook.cli.assigning import Day, Folder
from ppobook.cli.parsing import MaybeFile, command

Chapter = Annotated[str, tyro.conf.arg(metavar="CHAPTER")]


@command
def schedule(*, weeks: int = 10, begin: Day = None, course: Folder = ".", out: MaybeFile = None) -> None:
    """Plan a term of 6, 10 or 14 weeks: what to read, do and discuss in each, and the hours it takes at home.

    In a course's folder the plan has its assignments, with their dates and titles.

    Args:
        weeks: how many weeks, 6, 10 or 14
        begin: the first day of the first week, 2027-02-01; if left out, that of course.yml
        course: the course's folder
        out: write it to this Markdown file
    """
    from ppobook.analysis.files import new_file
    from ppobook.course import schedule, settings
    from ppobook.run.files import atomic_write
    from ppobook.teaching import contents, plans
    from ppobook.teaching.workspace import find_source

    validation.choice("--weeks", str(weeks), map(str, plans.lengths()))
    first = None if begin is None else settings.day(begin, "--begin")
    book = contents.read_book(find_source())
    plan = plans.ready(book, weeks)
    if (Path(course) / settings.FILE).exists():
        opened = settings.load(course)
        plan = schedule.of_course(plan, book, opened, first or opened.begin)
    elif first is not None:
        plan = schedule.dated(plan, first)
    if out is None:
        print(schedule.as_text(plan, book), end="")
        return
    atomic_write(new_file("--out", out, (".md",)), schedule.as_markdown(plan, book).encode())
    print(f"{out}: {plan.title}")


@command
def slides(chapter: Chapter, /, *, out: MaybeFile = None) -> None:
    """Make slides of a chapter: one HTML file that needs nothing else, with the sections' text as notes.

    In the browser: arrows to move, o for an overview, n for the notes, f for the full screen, p to print.

    Args:
        chapter: its number or its name: 3, 03_the_clipped_surrogate
        out: the file; if left out, the chapter's name in this folder
    """
    import ppobook.course.slides as make
    from ppobook.analysis.files import new_file
    from ppobook.run.files import atomic_write
    from ppobook.teaching.workspace import find_source

    path = make.chapter_at(find_source(), chapter)
    file = Path(f"{path.stem}.html") if out is None else new_file("out", out, (".html", ".htm"))
    deck = make.read_deck(path)
    atomic_write(file, make.as_html(deck).encode())
    print(f"{file}: {len(deck.slides)} slides")
