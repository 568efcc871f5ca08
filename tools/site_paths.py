"""The page of learning paths; conf.py loads this file as an extension.

`{paths}` shows those of the library, ppobook.teaching.paths, with their hours, sections and exercises;
`{terms}` shows the ready plans of a course, ppobook.teaching.plans.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

import site_sections
from ppobook.teaching import contents, minutes, paths, plans
from ppobook.teaching.contents import number_of
from site_sections import Page, named, set_of


def book_of(page: Page) -> contents.Book:
    """The book, whose changes change the page."""
    page.depend("book.yml", *(page.root / "chapters").glob("*.ipynb"))
    page.depend(*(page.root / "exercises").glob("*.ipynb"))
    page.depend(*(page.root / "lib" / "ppobook" / "teaching").glob("*.toml"))
    return contents.read_book(page.root)


def write_paths(page: Page, _words: str) -> list[str]:
    """`{paths}`: a table of all, and a section for each."""
    book = book_of(page)
    pages = {number_of(name): f"/{name}.ipynb" for name in page.chapters}
    found = paths.read(book)
    lines = ["| Path | Hours |", "| :--- | :--- |"]
    lines += [f"| [{path.title}](#path-{path.id}) | {in_hours(path.hours)} |" for path in found]
    for path in found:
        lines += ["", f"(path-{path.id})=", f"## {path.title}", "", path.readers, ""]
        lines += [f"**{in_hours(path.hours)}** as planned. {counted(path, book)}", ""]
        lines += [f"[Your desk](/desk/desk.ipynb) follows it after `ppobook progress --path {path.id}`.", ""]
        for step in path.steps:
            lines += lines_of(step, book, pages)
        lines += [path.then, ""]
    return lines


def counted(path: paths.LearningPath, book: contents.Book) -> str:
    """Return what a path's hours are made of, in one sentence."""
    tasks = [task for step in path.steps for task in step.tasks]
    road = sum(section.minutes for step in path.steps for section in step.read)
    deeper = sum(step.deeper_minutes for step in path.steps)
    others = sum(step.other_minutes for step in path.steps)
    read = f"{clock(road)} of main road" + (f" and {clock(deeper)} of Deeper boxes" if deeper else "")
    took = clock(sum(task.exercise.minutes for task in tasks))
    done = f"{took} in {share(len(tasks), len(book.tasks))} exercises"
    done = f"{done}, and {others:.0f} minutes for the rest" if others else f"and {done}"
    return f"Counted are {read} as printed, half as much again for rereading, {done}."


def share(part: int, whole: int) -> str:
    """Return how many of the book's."""
    return f"all {whole}" if part == whole else f"{part} of the book's {whole}"


def lines_of(step: paths.Step, book: contents.Book, pages: dict[int, str]) -> list[str]:
    """A step of a path: its hours, and a checklist of what is read and done."""
    lines = [f"**{step.title}** · {clock(60 * step.hours[1])}. {step.about}", ""]
    for number in dict.fromkeys(section.chapter for section in step.read):
        chapter, part = book.chapters[number], [s for s in step.read if s.chapter == number]
        left = [section for section in chapter.sections if section.label and section not in part]
        few = len(left) < min(4, len(part))
        links = " · ".join(f"{{ref}}`{section.label}`" for section in (left if few else part))
        what = (f"all but {links}" if left else "all of it") if few else links
        boxes = ", with its Deeper boxes" if number in step.deeper else ""
        took = sum(section.minutes for section in part) + (chapter.deeper if boxes else 0)
        said = f"{what}{boxes} ({minutes.said(took)} as printed)"
        lines.append(f"- [ ] [Chapter {number}]({pages[number]}): {said}")
    sets = dict.fromkeys(task.set for task in step.tasks)
    for name in sets:
        own = [task for task in step.tasks if task.set == name]
        every = len(own) == sum(task.set == name for task in book.tasks.values())
        took = sum(task.exercise.minutes for task in own)
        what = f"all {len(own)}" if every else " · ".join(map(named, own))
        lines.append(f"- [ ] [{title_of(name)}](/exercises/{name}.ipynb): {what} ({minutes.said(took)})")
    return [*lines, ""]


def title_of(name: str) -> str:
    """Return what a set of exercises is called here."""
    return f"The {special}" if (special := set_of(name)) else f"Exercises {number_of(name)}"


def write_terms(page: Page, _words: str) -> list[str]:
    """`{terms}`: the ready plans of a course, a row each, and each week by week."""
    book = book_of(page)
    lines = ["| Weeks | What it is | Hours at home | Exercises |", "| :--- | :--- | :--- | :--- |"]
    for weeks in plans.lengths():
        plan = plans.ready(book, weeks)
        count = sum(len(week.tasks) for week in plan.weeks)
        said = f"*{plan.title}.* {plan.aim} Left out: {plan.left_out[0]}"
        lines.append(f"| {weeks} | {said} | {in_hours(plan.hours)} | {count} |")
    longest, whole = paths.find(book, f"term-{plans.lengths()[-1]}"), paths.find(book, "whole-book")
    lines += ["", apart(longest, whole), ""]
    for weeks in plans.lengths():
        lines += [f":::{{dropdown}} The {weeks} weeks, one by one", "| Week | Read | Exercises | At home |"]
        lines.append("| ---: | :--- | :--- | :--- |")
        for number, week in enumerate(plans.ready(book, weeks).weeks, 1):
            read, do = "; ".join(plans.reading(book, week)), "; ".join(map(named, week.tasks))
            lines.append(f"| {number} | {read} | {do} | {plans.time_of(60 * week.hours[1])} |")
        lines += [":::", ""]
    return lines


def apart(term: paths.LearningPath, whole: paths.LearningPath) -> str:
    """Why the whole book takes longer than a term that reads all chapters."""
    labels = {task.exercise.label for step in term.steps for task in step.tasks}
    tasks = [task for step in whole.steps for task in step.tasks]
    left = [task.exercise.minutes for task in tasks if task.exercise.label not in labels]
    deeper = sum(step.deeper_minutes for step in whole.steps)
    return (
        f"*{term.title}* takes {term.hours[1]:.0f} hours where [the whole book](#path-{whole.id}) takes "
        f"{whole.hours[1]:.0f}: it leaves out the Deeper boxes, {clock(deeper)} as printed, and "
        f"{len(left)} of the {len(tasks)} exercises, {clock(sum(left))} by their own minutes."
    )


def in_hours(hours: tuple[float, float, float]) -> str:
    """Rounded to whole hours: "15 (14 to 16) hours"."""
    low, mid, high = (f"{x:.0f}" for x in hours)
    return f"{mid} hours" if low == high else f"{mid} hours ({low} to {high})"


def clock(amount: float) -> str:
    """Round to the nearest five minutes: "3 h 55", "40 min"."""
    whole = max(5, 5 * round(amount / 5))
    return f"{whole // 60} h {whole % 60:02d}" if whole >= 60 else f"{whole} min"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    site_sections.add(app, "paths", write_paths)
    site_sections.add(app, "terms", write_terms)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
