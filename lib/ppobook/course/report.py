"""Summarize a class's results: parts and mistakes, with numbers; no names unless asked for."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ppobook.course.feedback import number, paragraphs
from ppobook.course.gradebook import Score
from ppobook.course.records import Record, Sheet, SheetPart, Submission
from ppobook.course.safe_text import line, plain

# What stands above these notes: they are no verdicts.
_LOOKS = "Perhaps worth a look, or a talk about the code; it says nothing for sure and costs no points:"


@dataclass(frozen=True)
class Mistake:
    """One mistake that was made in a part: how often, by whom, and what its message asks."""

    part: str
    kind: str
    name: str
    students: tuple[str, ...]
    think: str = ""

    @property
    def count(self) -> int:
        return len(self.students)


@dataclass(frozen=True)
class PartReport:
    """One part: what was written, the share that earned all points, the mean, and the kinds of verdicts.

    ``full`` and ``mean`` are of all who are marked, those who wrote nothing too; ``solved`` is a number.
    """

    name: str
    title: str
    role: str
    max: float
    answered: int
    full: float
    mean: float
    waiting: int
    kinds: Mapping[str, int] = field(default_factory=dict)
    solved: int = 0


@dataclass(frozen=True)
class Report:
    """The summary of a class's results on an assignment.

    Attributes
    ----------
    assignment : str
    graded : int
        Students whose submission is graded.
    students : int
        Students of the course.
    mean : float or None
        Of the points, after what is taken off for late days, of those who are marked to the end.
    max : float
    late : int
        Students who handed in late.
    hours : float or None
        The median of the hours before the due date, of submissions whose time is known.
    seconds : float or None
        The median of the seconds that one submission took to grade.
    parts : tuple of PartReport
    mistakes : tuple of Mistake
        The most frequent first.
    looks : mapping from str to tuple of str
        What may be worth a look, and in whose submissions: see `ppobook.course.looks`.
    """

    assignment: str
    graded: int
    students: int
    mean: float | None
    max: float
    late: int
    hours: float | None
    seconds: float | None
    parts: tuple[PartReport, ...]
    mistakes: tuple[Mistake, ...]
    looks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def unsolved(self) -> tuple[str, ...]:
        """The parts that somebody answered and nobody solved."""
        return tuple(part.name for part in self.parts if part.answered > part.waiting and not part.full)


def report(
    sheet: Sheet,
    submissions: Sequence[Submission],
    records: Mapping[str, Record],
    scores: Mapping[str, Score],
    students: int,
    varied: Collection[str] = (),
) -> Report:
    """Count what a class made of an assignment.

    Parameters
    ----------
    sheet : Sheet
    submissions : sequence of Submission
    records, scores : mappings from student
    students : int
        How many there are in the course.
    varied : collection of str
        The parts that were handed out in another form than the book's, of which the messages speak.
    """
    graded = {student: record for student, record in records.items() if student in scores}
    # A group's one submission is one answer, whoever of the group it is read from.
    answers = {(record.by, record.submission): student for student, record in sorted(graded.items())}
    parts, mistakes = [], []
    for part in sheet.parts:
        mine = [scores[s].parts[part.name] for s in answers.values() if part.name in scores[s].parts]
        marked = [score for score in mine if not score.waiting]
        kinds = Counter(
            str(graded[s].parts[part.name].get("kind", ""))
            for s in answers.values()
            if part.name in graded[s].parts
        )
        parts.append(
            PartReport(
                part.name,
                part.title,
                part.role,
                part.max,
                sum(_written(graded[s], part) for s in answers.values() if part.name in scores[s].parts),
                statistics.fmean(score.points >= score.max for score in marked) if marked else 0.0,
                statistics.fmean(score.points for score in marked) if marked else 0.0,
                len(mine) - len(marked),
                dict(kinds.most_common()),
                sum(score.points >= score.max for score in marked),
            )
        )
        known = {s: graded[s] for s in answers.values()}
        mistakes += _mistakes(part.name, known, "In the book's numbers: " * (part.name in varied))
    due = [(sheet.due - s.received).total_seconds() / 3600 for s in submissions if s.timed]
    final = [scores[s].final for s in graded if not scores[s].waiting]
    looks: dict[str, list[str]] = {}
    for student in answers.values():
        for said in graded[student].result.get("looks") or ():
            looks.setdefault(str(said), []).append(student)
    cpu = [float(graded[s].result.get("cpu") or 0) for s in answers.values()]
    return Report(
        assignment=sheet.assignment,
        graded=len(graded),
        students=students,
        mean=statistics.fmean(final) if final else None,
        max=sheet.max,
        late=sum(len(s.students) for s in submissions if s.late_days),
        hours=statistics.median(due) if due else None,
        seconds=statistics.median(cpu) if cpu else None,
        parts=tuple(parts),
        mistakes=tuple(sorted(mistakes, key=lambda m: (-m.count, m.part, m.name))),
        looks={
            said: tuple(who) for said, who in sorted(looks.items(), key=lambda one: (-len(one[1]), one[0]))
        },
    )


def _written(record: Record, part: SheetPart) -> bool:
    """Return whether something was written for a part."""
    if part.role == "manual":
        return bool(record.text(part.name).strip())
    return record.parts.get(part.name, {}).get("kind") not in (None, "not yet", "missing", "unreadable")


def _mistakes(part: str, records: Mapping[str, Record], form: str) -> list[Mistake]:
    found: dict[tuple[str, str], list[str]] = {}
    think: dict[tuple[str, str], str] = {}
    for student, record in records.items():
        verdict = record.parts.get(part)
        if verdict is None or verdict.get("kind") in (None, "right"):
            continue
        kind = str(verdict["kind"])
        # Of "not yet" and "slow" the kind says all; their name is that of the exercise.
        name = (
            str(verdict.get("mistake") or "") if kind in ("mistake", "property", "raised", "returned") else ""
        )
        found.setdefault((kind, name), []).append(student)
        said = [p.text for p in paragraphs(str(verdict.get("message") or "")) if p.head == "Think"]
        think.setdefault((kind, name), f"{form}{said[0]}" if said else "")
    return [
        Mistake(part, kind, name or kind, tuple(students), think[kind, name])
        for (kind, name), students in found.items()
    ]


# --- forms --------------------------------------------------------------------------------------------------


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def text(found: Report, *, names: bool = False) -> str:
    """The report for a terminal."""
    lines = [f"{found.assignment}: {_summary(found)}", ""]
    rows = [["part", "answers", "all points", "mean"]]
    for part in found.parts:
        rows.append([part.name, str(part.answered), _full(part), f"{number(part.mean)} / {number(part.max)}"])
    lines += [*_aligned(rows), ""]
    if found.unsolved:
        lines += [f"Nobody solved {', '.join(found.unsolved)}.", ""]
    if found.mistakes:
        lines.append("What went wrong, the most frequent first:")
        for mistake in found.mistakes:
            who = f" ({', '.join(mistake.students)})" if names else ""
            lines.append(f"  {mistake.count:>3} × {mistake.part}: {_what(mistake)}{who}")
            if mistake.think:
                lines.append(f"        {mistake.think}")
    if found.looks:
        lines += ["", _LOOKS]
        for said, students in found.looks.items():
            who = f" ({', '.join(students)})" if names else ""
            lines.append(f"  {len(students):>3} × {said}{who}")
    return "\n".join(line(one, 2000) for one in lines).rstrip()


def table(found: Report, *, names: bool = False) -> list[list[str]]:
    """The report as rows for a CSV file: one for each part, one for each mistake."""
    rows = [["assignment", "part", "row", "what", "count", "share", "mean", "max", *(["students"] * names)]]
    for part in found.parts:
        share = f"{part.full:.3f}"
        row = [found.assignment, part.name, "part", "all points", str(part.solved)]
        rows.append([*row, share, number(part.mean), number(part.max), *([""] * names)])
    answered = {part.name: part.answered for part in found.parts}
    for mistake in found.mistakes:
        share = f"{mistake.count / max(1, answered[mistake.part]):.3f}"
        row = [found.assignment, mistake.part, mistake.kind, mistake.name, str(mistake.count), share, "", ""]
        rows.append([*row, *([" ".join(mistake.students)] * names)])
    return rows


def html(reports: Sequence[Report], *, names: bool = False) -> str:
    """Reports as one page that needs nothing else."""
    style = Path(__file__).with_name("feedback.css").read_text(encoding="utf-8")
    body = "\n".join(line for one in reports for line in _section(one, names))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Report</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n</main>\n</body>\n</html>\n"
    )


def _section(found: Report, names: bool) -> Iterator[str]:
    yield f"<h1>{plain(found.assignment)}</h1>\n<p>{plain(_summary(found))}</p>"
    if found.unsolved:
        yield f'<p class="note">Nobody solved {plain(", ".join(found.unsolved))}.</p>'
    head = "".join(f'<th scope="col">{word}</th>' for word in ("Part", "Answers", "All points", "Mean"))
    yield f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>"
    for part in found.parts:
        cells = (str(part.answered), _full(part), f"{number(part.mean)} / {number(part.max)}")
        row = "".join(f"<td>{plain(cell)}</td>" for cell in cells)
        yield f'<tr><th scope="row">{plain(part.name)}</th>{row}</tr>'
    yield "</tbody>\n</table>\n<h2>What went wrong</h2>"
    for mistake in found.mistakes:
        count = f'<span class="points">{mistake.count} ×</span>'
        yield f'<section class="none"><h3>{plain(mistake.part)} {count}</h3>'
        yield f"<p>{plain(_what(mistake))}</p>"
        yield from (f"<p>{plain(line)}</p>" for line in [mistake.think] if line)
        if names:
            yield f"<p>{plain(', '.join(mistake.students))}</p>"
        yield "</section>"
    if not found.mistakes:
        yield "<p>Nothing.</p>"
    if found.looks:
        yield f"<h2>To look at</h2>\n<p>{plain(_LOOKS)}</p>\n<ul>"
        for said, students in found.looks.items():
            who = f" ({', '.join(students)})" if names else ""
            yield f"<li>{len(students)} × {plain(said)}{plain(who)}</li>"
        yield "</ul>"


def _summary(found: Report) -> str:
    parts = [f"{found.graded} of {found.students} students graded"]
    if found.mean is not None:
        whose = " of those marked to the end" if any(part.waiting for part in found.parts) else ""
        parts.append(f"mean {number(found.mean)} of {number(found.max)} points{whose}")
    parts.append(f"{found.late} late")
    if found.hours is not None:
        when = "before" if found.hours >= 0 else "after"
        parts.append(f"handed in {abs(found.hours):.1f} h {when} the due date (median)")
    if found.seconds:
        parts.append(f"{found.seconds:.1f} CPU s to grade one (median)")
    return ", ".join(parts)


def _full(part: PartReport) -> str:
    shown = percent(part.full) if part.answered > part.waiting else "–"
    return f"{shown}, {part.waiting} to mark" if part.waiting else shown


def _what(mistake: Mistake) -> str:
    said = {"raised": "raised {}", "property": "fails: {}", "returned": "can't be read: {}"}
    return said.get(mistake.kind, "{}").format(mistake.name)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
