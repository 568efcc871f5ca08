"""The reader's desk: which exercises are right, which mistakes were met, what is next, and what is left.

    from ppobook.teaching.desk import desk
    desk()
    desk(path="fifteen-hours")     # from now on, what is left and what is next are those of this path

shows it in a notebook of the folder of copies, with links; `ppobook progress` prints the same. It is worked
out from what `ppobook.teaching.progress` keeps there, and from the book: `ppobook.teaching.contents` for its
chapters, exercises and minutes, `ppobook.teaching.paths` for the paths.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from urllib.parse import quote

from ppobook.teaching import contents, paths, progress, workspace
from ppobook.teaching.contents import REREADING, Book, Chapter, Task
from ppobook.teaching.paths import LearningPath, Step
from ppobook.teaching.progress import Finding, Kept

MISTAKES = 8  # as many are shown, the most frequent ones
NO_PATH = "off"


@dataclass(frozen=True)
class Row:
    """The desk's entry for a chapter; `reading` is 0 where it counts as read."""

    title: str
    notebook: str
    right: int
    tasks: int
    exercises: float
    reading: float


@dataclass(frozen=True)
class Met:
    """A mistake, how often it was met, and in which exercises."""

    times: int
    words: str
    checks: tuple[str, ...]


@dataclass(frozen=True)
class Desk:
    """The desk's contents. A notebook shows them as tables, `print` as text."""

    rows: tuple[Row, ...]
    mistakes: tuple[Met, ...]
    next: tuple[tuple[Task, str], ...]  # exercises, each with the reason why it is named
    read: tuple[Chapter, str] | None  # the next reading of the path, in words
    best: dict[str, float]
    broken: int
    file: str  # where all this is kept; "" where it is not
    up: str = ".."  # the way from the notebook that shows it to the folder of copies
    off: str = ""  # the environment variable because of which checks are not recorded
    path: LearningPath | None = None
    lost: str = ""  # why the path that was chosen can't be followed

    @property
    def minutes(self) -> float:
        """All that is left, in minutes as printed."""
        return sum(row.exercises + row.reading for row in self.rows)

    @property
    def planned(self) -> float:
        """All that is left, in minutes as a path plans it: with rereading."""
        return sum(row.exercises + REREADING[1] * row.reading for row in self.rows)

    @property
    def others(self) -> float:
        """Minutes of the path in what no check reads: proofs, essays, a quiz."""
        steps = self.path.steps if self.path else ()
        unread = sum(t.exercise.minutes for step in steps for t in step.tasks if not t.checks)
        return unread + sum(step.other_minutes for step in steps)

    def _path(self) -> str:
        return f"{self.path.title} ({self.path.id})" if self.path else ""

    def _left(self) -> tuple[str, str]:
        """Return the remaining time as printed, and the path's plan of it."""
        if self.path is None:
            return f"Left: {span(self.minutes)}", ""
        more = f", which the path plans as {span(self.planned)}, with half as much reading again"
        if self.others:
            more += f"; besides, {span(self.others)} in exercises and quizzes that no check reads"
        return f"Left: {span(self.minutes)} as printed", more

    def __str__(self) -> str:
        wide = max((len(row.title) for row in self.rows), default=0)
        lines = [f"Path: {self._path()}", ""] if self.path else []
        lines += [f"{'chapter':<{wide}}  {'checks right':>12}  {'exercises left':>14}  {'to read':>10}"]
        for row in self.rows:
            right, exercises, reading = _cells(row)
            lines.append(f"{row.title:<{wide}}  {right:>12}  {exercises:>14}  {reading:>10}")
        lines += ["", f"{''.join(self._left())}."]
        if self.mistakes:
            lines += ["", "Mistakes you met:"]
            lines += [f"{one.times:4} × {one.words} ({', '.join(one.checks)})" for one in self.mistakes]
        nothing = "" if self.next else " nothing is left; every exercise with a check is right."
        lines += ["", f"Next:{nothing}"]
        if self.read:
            chapter, what = self.read
            lines.append(f"  read chapter {_titled(chapter)}: {what}, in {chapter.file}")
        for task, why in self.next:
            one = task.exercise
            lines.append(f"  {one.label}: {one.title}, {span(one.minutes)}, in {task.file} ({why})")
        if self.best:
            lines += ["", f"Best in the drill: {_bests(self.best)}."]
        return "\n".join([*lines, "", *self._notes()])

    def _notes(self) -> Iterator[str]:
        if not self.file:
            yield "Nothing is kept here, only in the copies that `make lab` or `ppobook work` makes."
            return
        if self.broken:
            lines = "1 line" if self.broken == 1 else f"{self.broken} lines"
            yield f"{lines} of {self.file} can't be read; the others are shown."
        yield f"Kept in {self.file} on this machine alone; `ppobook progress --clear` forgets it."
        if self.lost:
            yield f"The path that was chosen can't be followed: {self.lost}"
        name, does = (
            (NO_PATH, "leaves the path") if self.path else ("NAME", "follows a path through the book")
        )
        names = "" if self.path else f": {', '.join(paths.names())}"
        yield f'`ppobook progress --path {name}`, or `desk(path="{name}")` in a notebook, {does}{names}.'
        if self.off:
            yield f"Nothing is recorded now, because the environment variable {self.off} is set."

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        def link(file: str, words: str) -> str:
            return f'<a href="{escape(quote(f"{self.up}/{file}"))}">{escape(words)}</a>'

        body = [
            "<tr>"
            + f'<th scope="row" style="text-align:left">{link(row.notebook, row.title)}</th>'
            + "".join(f"<td>{escape(text)}</td>" for text in _cells(row))
            + "</tr>"
            for row in self.rows
        ]
        head = '<th scope="col" style="text-align:left">chapter</th>' + "".join(
            f'<th scope="col">{text}</th>' for text in ("checks right", "exercises left", "to read")
        )
        parts = [f"<p><strong>Path</strong>: {escape(self._path())}</p>"] if self.path else []
        parts.append(
            f"<p><strong>Next</strong>{'' if self.next else ': every exercise with a check is right.'}</p>"
        )
        items = [
            f"<li>{link(task.file, task.exercise.title)}, {span(task.exercise.minutes)} ({escape(why)})</li>"
            for task, why in self.next
        ]
        if self.read:
            chapter, what = self.read
            items.insert(0, f"<li>read chapter {link(chapter.file, _titled(chapter))}: {escape(what)}</li>")
        if items:
            parts.append(f"<ul>{''.join(items)}</ul>")
        left, more = self._left()
        parts.append(f"<p><strong>{left}</strong>{more}</p>")
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>")
        if self.mistakes:
            items = [
                f"<li>{one.times} × {escape(one.words)} ({escape(', '.join(one.checks))})</li>"
                for one in self.mistakes
            ]
            parts.append(f"<p><strong>Mistakes you met</strong></p><ul>{''.join(items)}</ul>")
        if self.best:
            parts.append(f"<p><strong>Best in the drill</strong>: {escape(_bests(self.best))}</p>")
        for note in self._notes():
            parts.append("<p>" + re.sub("`(.+?)`", r"<code>\1</code>", escape(note)) + "</p>")
        return "\n".join(parts)


def desk(
    folder: str | Path | None = None, source: str | Path | None = None, *, path: str | None = None
) -> Desk:
    """Summarize the record of the reader's work in the folder of copies.

    Parameters
    ----------
    folder, source : path, optional
        The folder of copies, and the book's. If left out, the one around the notebook that asks; where there
        is none, the desk is that of a new reader.
    path : str, optional
        The learning path to follow from now on, one of `paths.names()`, or "off"; the folder remembers it.
        If left out, the one that it remembers.
    """
    book, here = contents.read_book(workspace.find_source(source)), Path.cwd()
    way = None if path in (None, NO_PATH) else paths.find(book, str(path))
    try:
        work = find_folder(folder)
    except FileNotFoundError:
        if folder is not None:
            raise
        return lay_out(book, Kept(), "", path=way)
    kept, lost = progress.read(work), ""
    chosen = "" if path == NO_PATH else path
    if path is None and kept.path:
        try:
            way = paths.find(book, kept.path)
        except ValueError as error:  # the book has changed
            lost = str(error)
    elif chosen is not None and chosen != kept.path and not progress.off():
        progress.record(work, path=chosen)
    up = Path(os.path.relpath(work, here)).as_posix() if workspace.around(here) == work else "."
    file = f"{work.resolve().name}/{progress.FILE}"
    return replace(lay_out(book, kept, file, up, way), lost=lost)


def find_folder(folder: str | Path | None = None) -> Path:
    """The folder of copies: the one given, or the one that we stand in, or `work` below us."""
    given = Path("work") if folder is None else Path(folder).expanduser()
    work = workspace.around(Path.cwd()) if folder is None else None
    if work := work or workspace.around(given if (given / workspace.MEMORY).is_file() else given.resolve()):
        return work
    raise FileNotFoundError(
        f"folder must be a folder of your copies, got {str(given)!r}, which is none; "
        "`ppobook work` makes one, and `ppobook progress --folder` looks into one of another name"
    )


def lay_out(book: Book, kept: Kept, file: str, up: str = "..", path: LearningPath | None = None) -> Desk:
    """The desk of a reader of the book, or of a path through it.

    An exercise that was right once stays right. A chapter counts as read when a check of it was run; one
    without checks, or without any on the path, also when a check of a later chapter was, or when every
    exercise is right.
    """
    right = {one.check for one in kept.findings if one.kind == "right"}
    met = {one.check for one in kept.findings}
    checked = [task for task in book.tasks.values() if task.checks]
    steps = {task.exercise.label: step.title for step in path.steps for task in step.tasks} if path else {}
    tasks = [task for step in path.steps for task in step.tasks if task.checks] if path else checked
    readings = list(_readings(book, path)) if path else []
    done = bool(tasks) and all(right.issuperset(task.checks) for task in tasks)
    rows: list[Row] = []
    later = False
    for chapter in reversed(book.chapters.values()):
        here = [task for task in checked if task.chapter == chapter.number]
        own = [task for task in here if task in tasks]
        open_tasks = [task for task in own if not right.issuperset(task.checks)]
        begun = not met.isdisjoint(name for task in here for name in task.checks)
        read = begun or (not own and (later or done))
        later = later or begun
        length = chapter.minutes
        if path is not None:
            length = sum(minutes for _, one, minutes, _ in readings if one.number == chapter.number)
        row = Row(
            title=_titled(chapter),
            notebook=chapter.file,
            right=len(own) - len(open_tasks),
            tasks=len(own),
            exercises=sum(task.exercise.minutes for task in open_tasks),
            reading=0.0 if read else length,
        )
        if path is None or own or length:
            rows.insert(0, row)
    following = tuple(_next(tasks, kept.findings, right, steps))
    order = [step.title for step in path.steps] if path else []
    # The unread text before the next exercises, or the rest of it at the end.
    last = max((order.index(steps[task.exercise.label]) for task, _ in following if path), default=len(order))
    unread = {row.notebook for row in rows if row.reading}
    reading = (
        (chapter, said)
        for step, chapter, _, said in readings
        if chapter.file in unread and order.index(step.title) <= last
    )
    return Desk(
        rows=tuple(rows),
        mistakes=tuple(mistakes(kept.findings))[:MISTAKES],
        next=following,
        read=next(reading, None),
        best=progress.best(kept),
        broken=kept.broken,
        file=file,
        up=up,
        off=progress.off(),
        path=path,
    )


def _readings(book: Book, path: LearningPath) -> Iterator[tuple[Step, Chapter, float, str]]:
    """A path's readings, a chapter at a time: step, chapter, minutes, and what is read."""
    for step in path.steps:
        for number in dict.fromkeys([*(section.chapter for section in step.read), *step.deeper]):
            chapter = book.chapters[number]
            part = [section for section in step.read if section.chapter == number]
            minutes = sum(section.minutes for section in part)
            minutes += chapter.deeper if number in step.deeper else 0
            whole = len(part) == len(chapter.sections)
            said = "" if whole else "; ".join(f"“{section.title}”" for section in part)
            yield step, chapter, minutes, f"{said or 'all of it'}, {span(minutes)} ({step.title})"


def mistakes(findings: Iterable[Finding]) -> list[Met]:
    """The mistakes, the most frequent first. A check that says the same twice in a row counts once."""
    last: dict[str, Finding] = {}
    times: Counter[str] = Counter()
    checks: dict[str, dict[str, None]] = {}
    for one in findings:
        before, last[one.check] = last.get(one.check), one
        again = before is not None and (before.kind, before.what) == (one.kind, one.what)
        if one.kind in ("right", "so far") or again:
            continue
        words = {"property": f"this fails: {one.what}", "raised": f"stopped with {one.what}"}
        said = words.get(one.kind, one.what)
        times[said] += 1
        checks.setdefault(said, {})[one.check] = None
    return [Met(number, said, tuple(checks[said])) for said, number in times.most_common()]


def _next(
    tasks: Sequence[Task], findings: Sequence[Finding], right: set[str], steps: dict[str, str]
) -> Iterator[tuple[Task, str]]:
    """The two that were tried last of those not right, and the first new exercise after the last tried."""
    order = list(dict.fromkeys(one.check for one in reversed(findings)))
    at = {name: position for position, task in enumerate(tasks) for name in task.checks}
    tried = list(dict.fromkeys(at[name] for name in order if name in at))
    begun = [position for position in tried if not right.issuperset(tasks[position].checks)]
    for position in begun[:2]:
        yield tasks[position], "begun"
    start = tried[0] if tried else 0
    turned = [*range(start, len(tasks)), *range(start)]
    new = (i for i in turned if i not in tried and not right.issuperset(tasks[i].checks))
    for position in [*new][:1]:
        step = steps.get(tasks[position].exercise.label)
        yield tasks[position], "next on the path" + (f": {step}" if step else "")


# --- in words -----------------------------------------------------------------------------------------------


def span(duration: float) -> str:
    """85 as "1 h 25 min"."""
    whole = round(duration)
    return f"{whole // 60} h {whole % 60:02d} min" if whole >= 60 else f"{whole} min"


def clock(seconds: float) -> str:
    """83.2 as "1:23"."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _titled(chapter: Chapter) -> str:
    return f"{chapter.number} {chapter.title}"


def _cells(row: Row) -> tuple[str, str, str]:
    right = f"{row.right} of {row.tasks}" if row.tasks else "–"
    return right, span(row.exercises) if row.exercises else "–", span(row.reading) if row.reading else "–"


def _bests(best: dict[str, float]) -> str:
    return ", ".join(f"{name} {clock(seconds)}" for name, seconds in best.items())
