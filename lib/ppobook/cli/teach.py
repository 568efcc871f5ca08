"""`ppobook course slides` and `ppobook course schedule`: what an instructor teaches from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from ppobook import validation
from ppobook.cli.assigning import Folder
from ppobook.cli.parsing import MaybeFile, command

Chapter = Annotated[str, tyro.conf.arg(metavar="CHAPTER")]


@command
def schedule(*, weeks: int | None = None, course: Folder = ".", out: MaybeFile = None) -> None:
    """Plan a term of 6, 10 or 14 weeks: what to read, do and discuss in each, and the hours it takes at home.

    In a course's folder the plan has its assignments, with their dates and titles.

    Args:
        weeks: how many weeks, 6, 10 or 14; if left out, those that fit into the course's term, else 10
        course: the course's folder
        out: write it to this Markdown file
    """
    from ppobook.analysis.files import new_file
    from ppobook.course import schedule, settings
    from ppobook.run.files import atomic_write
    from ppobook.teaching import contents, plans
    from ppobook.teaching.workspace import find_source

    opened = settings.load(course) if (Path(course) / settings.FILE).exists() else None
    weeks = weeks or (schedule.length(opened) if opened else 10)
    validation.choice("--weeks", str(weeks), map(str, plans.lengths()))
    book = contents.read_book(find_source())
    plan = plans.ready(book, weeks)
    if opened:
        plan = schedule.of_course(plan, book, opened)
    text = schedule.as_markdown(plan, book)
    if out is None:
        print(text, end="")
        return
    atomic_write(new_file("--out", out, (".md",)), text.encode())
    print(f"{out}: {plan.title}")


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
