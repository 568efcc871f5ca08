"""The reader's desk: which exercises are right, which mistakes were met, what is next, and what is left.

    from ppobook.teaching.desk import desk
    desk()

shows it in a notebook of the folder of copies, with links; `ppobook progress` prints the same. It is worked
out from what `ppobook.teaching.progress` keeps there, and from the book: book.yml for the order, exercises
for their parts and minutes, the text of the chapters for the minutes to read.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

import yaml

from ppobook import validation
from ppobook.teaching import minutes, progress, tags, workspace
from ppobook.teaching.progress import Finding, Kept

MISTAKES = 8  # as many are shown, the most frequent ones


@dataclass(frozen=True)
class Task:
    """An exercise that has checks: `notebook` is its file, from the book's folder."""

    label: str
    title: str
    notebook: str
    minutes: int
    checks: tuple[str, ...]


@dataclass(frozen=True)
class Room:
    """A chapter: the minutes that it takes to read, and its exercises with checks."""

    title: str
    notebook: str
    minutes: float
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Row:
    """What the desk says of a chapter; `reading` is 0 where it counts as read."""

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
    """What lies on the desk. A notebook shows it as tables, `print` as text."""

    rows: tuple[Row, ...]
    mistakes: tuple[Met, ...]
    next: tuple[tuple[Task, str], ...]
    """Exercises, each with the reason why it is named."""
    best: dict[str, float]
    broken: int
    file: str
    """Where all this is kept; "" where it is not."""
    up: str = ".."
    """The way from the notebook that shows it to the folder of copies."""
    off: str = ""
    """The environment variable because of which checks are not recorded; "" where there is none."""

    @property
    def minutes(self) -> float:
        """All that is left, in minutes."""
        return sum(row.exercises + row.reading for row in self.rows)

    def __str__(self) -> str:
        wide = max((len(row.title) for row in self.rows), default=0)
        lines = [f"{'chapter':<{wide}}  {'right':>8}  {'exercises left':>14}  {'to read':>10}"]
        for row in self.rows:
            right, exercises, reading = _cells(row)
            lines.append(f"{row.title:<{wide}}  {right:>8}  {exercises:>14}  {reading:>10}")
        lines += ["", f"Left: {span(self.minutes)}."]
        if self.mistakes:
            lines += ["", "Mistakes you met:"]
            lines += [f"{one.times:4} × {one.words} ({', '.join(one.checks)})" for one in self.mistakes]
        lines += [
            "",
            "Next:" if self.next else "Next: nothing is left; every exercise with a check is right.",
        ]
        lines += [
            f"  {task.label}: {task.title}, {span(task.minutes)}, in {task.notebook} ({why})"
            for task, why in self.next
        ]
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
            f'<th scope="col">{text}</th>' for text in ("right", "exercises left", "to read")
        )
        parts = [
            f"<p><strong>Next</strong>{'' if self.next else ': every exercise with a check is right.'}</p>"
        ]
        if self.next:
            items = (
                f"<li>{link(task.notebook, task.title)}, {span(task.minutes)} ({why})</li>"
                for task, why in self.next
            )
            parts.append(f"<ul>{''.join(items)}</ul>")
        parts.append(f"<p><strong>Left: {span(self.minutes)}</strong></p>")
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>")
        if self.mistakes:
            items = (
                f"<li>{one.times} × {escape(one.words)} ({escape(', '.join(one.checks))})</li>"
                for one in self.mistakes
            )
            parts.append(f"<p><strong>Mistakes you met</strong></p><ul>{''.join(items)}</ul>")
        if self.best:
            parts.append(f"<p><strong>Best in the drill</strong>: {escape(_bests(self.best))}</p>")
        for note in self._notes():
            parts.append("<p>" + re.sub("`(.+?)`", r"<code>\1</code>", escape(note)) + "</p>")
        return "\n".join(parts)


def desk(folder: str | Path | None = None, source: str | Path | None = None) -> Desk:
    """What the folder of copies knows of its reader's work.

    Parameters
    ----------
    folder : path, optional
        The folder of copies; if left out, the one around the notebook that asks. Where there is none, the
        desk is that of a new reader.
    source : path, optional
        The book's folder; found by itself in a checkout.

    Raises
    ------
    FileNotFoundError
        `folder` is no folder of copies, or there is no book.
    OSError
        What the folder keeps can't be read.
    """
    book, here = rooms(workspace.find_source(source)), Path.cwd()
    try:
        work = find_folder(folder)
    except FileNotFoundError:
        if folder is not None or (here / progress.FILE).exists() or (here.parent / progress.FILE).exists():
            raise
        return lay_out(book, Kept(), "")
    up = Path(os.path.relpath(work, here)).as_posix() if workspace.around(here) == work else "."
    file = f"{work.resolve().name}/{progress.FILE}"
    return lay_out(book, progress.read(work), file, up)


def find_folder(folder: str | Path | None = None) -> Path:
    """The folder of copies: the one given, or the one that we stand in, or `work` below us.

    Raises
    ------
    FileNotFoundError
        There is none.
    """
    given = Path("work") if folder is None else validation.path("folder", folder, "a folder of your copies")
    work = workspace.around(Path.cwd()) if folder is None else None
    if work := work or workspace.around(given if (given / workspace.MEMORY).is_file() else given.resolve()):
        return work
    kept = (place for place in (given, Path(), Path("..")) if (place / progress.FILE).exists())
    if lost := next(kept, None):
        raise FileNotFoundError(
            f"folder must be a folder of your copies, got {str(lost.resolve())!r}, whose "
            f"{workspace.MEMORY} is gone; `ppobook work --folder` makes it again, and keeps your work"
        )
    raise FileNotFoundError(
        f"folder must be a folder of your copies, got {str(given)!r}, which is none; "
        "`ppobook work` makes one, and `ppobook progress --folder` looks into one of another name"
    )


# --- from the book ------------------------------------------------------------------------------------------


def rooms(book: Path) -> tuple[Room, ...]:
    """The chapters of the book in reading order, with those of their exercises that have checks."""
    spine = yaml.safe_load((book / "book.yml").read_text(encoding="utf-8"))
    titles = spine.get("meta", {}).get("chapters", {})
    found = []
    for entry in (chapter for part in spine.get("parts", []) for chapter in part.get("chapters", [])):
        name = entry.get("file", "")
        if name not in titles or not (book / f"{name}.ipynb").is_file():
            continue
        number = Path(name).name.partition("_")[0]
        cells = tags.read(book / f"{name}.ipynb")["cells"]
        files = [f"{section['file']}.ipynb" for section in entry.get("sections", []) if "file" in section]
        tasks = [task for file in files if (book / file).is_file() for task in _tasks(book, file)]
        title = f"{int(number)} {titles[name]['title']}" if number.isdecimal() else titles[name]["title"]
        found.append(Room(title, f"{name}.ipynb", minutes.count(cells).minutes, tuple(tasks)))
    return tuple(found)


def _tasks(book: Path, file: str) -> Iterator[Task]:
    for exercise in tags.exercises(tags.read(book / file)):
        checks = tuple(part.name for part in exercise.parts if part.role == "test")
        if checks:
            yield Task(exercise.label, exercise.title, file, exercise.minutes, checks)


# --- from what was recorded ---------------------------------------------------------------------------------


def lay_out(rooms: Sequence[Room], kept: Kept, file: str, up: str = "..") -> Desk:
    """The desk of a reader of these chapters.

    An exercise that was right once stays right. A chapter counts as read when a check of it was run; one
    without checks, when any was.
    """
    right = {one.check for one in kept.findings if one.kind == "right"}
    met = {one.check for one in kept.findings}
    rows = []
    for room in rooms:
        open_tasks = [task for task in room.tasks if not right.issuperset(task.checks)]
        read = bool(met & {name for task in room.tasks for name in task.checks} if room.tasks else met)
        rows.append(
            Row(
                title=room.title,
                notebook=room.notebook,
                right=len(room.tasks) - len(open_tasks),
                tasks=len(room.tasks),
                exercises=sum(task.minutes for task in open_tasks),
                reading=0.0 if read else room.minutes,
            )
        )
    return Desk(
        rows=tuple(rows),
        mistakes=tuple(mistakes(kept.findings))[:MISTAKES],
        next=tuple(_next([task for room in rooms for task in room.tasks], kept.findings, right)),
        best=progress.best(kept),
        broken=kept.broken,
        file=file,
        up=up,
        off=progress.off(),
    )


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


def _next(tasks: Sequence[Task], findings: Sequence[Finding], right: set[str]) -> Iterator[tuple[Task, str]]:
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
        yield tasks[position], "next on the path"


# --- in words -----------------------------------------------------------------------------------------------


def span(duration: float) -> str:
    """85 as "1 h 25 min"."""
    whole = round(duration)
    return f"{whole // 60} h {whole % 60:02d} min" if whole >= 60 else f"{whole} min"


def clock(seconds: float) -> str:
    """83.2 as "1:23"."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _cells(row: Row) -> tuple[str, str, str]:
    right = f"{row.right} of {row.tasks}" if row.tasks else "–"
    return right, span(row.exercises) if row.exercises else "–", span(row.reading) if row.reading else "–"


def _bests(best: dict[str, float]) -> str:
    return ", ".join(f"{name} {clock(seconds)}" for name, seconds in best.items())
