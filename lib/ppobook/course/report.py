"""Summarize a class's results: parts and mistakes, with numbers; no names unless asked for."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ppobook.course.feedback import number, paragraphs
from ppobook.course.gradebook import Score
from ppobook.course.records import Record, Sheet, SheetPart, Submission
from ppobook.course.safe_text import line

# What stands above these notes: they are no verdicts.
_LOOKS = "Perhaps worth a look, or a talk about the code; it says nothing for sure and costs no points:"
_UNKNOWN = "handed in late, nobody knows how late, so all points count until you decide"


@dataclass(frozen=True)
class Mistake:
    """One mistake in a part: who made it, what its message asks, and the share of points that it leaves."""

    part: str
    kind: str
    name: str
    students: tuple[str, ...]
    think: str = ""
    share: float | None = None


@dataclass(frozen=True)
class PartReport:
    """One part: how many answers and how many with all points, the share of these, the mean, the unmarked."""

    name: str
    max: float
    answered: int
    solved: int
    full: float
    mean: float
    waiting: int


@dataclass(frozen=True)
class Report:
    """The summary of a class's results on an assignment; of its mistakes the most frequent are first.

    ``looks`` has what may be worth a look, and in whose submissions (see `ppobook.course.looks`), ``decide``
    what the instructor has to decide or look for: late hand-ins without a time, answers out of place.
    """

    assignment: str
    summary: str
    parts: tuple[PartReport, ...]
    mistakes: tuple[Mistake, ...]
    looks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    decide: Mapping[str, Sequence[str]] = field(default_factory=dict)


def report(
    sheet: Sheet,
    submissions: Sequence[Submission],
    records: Mapping[str, Record],
    scores: Mapping[str, Score],
    students: int,
    varied: Collection[str] = (),
) -> Report:
    """Count what a class of so many students made of an assignment. A group's submission is counted once.

    `varied` are the parts that were handed out in another form than the book's, of which the messages speak.
    """
    graded = [one for one in submissions if one.by in records and one.by in scores and scores[one.by].parts]
    mine = {one.by: (records[one.by], scores[one.by]) for one in graded}
    looks: dict[str, list[str]] = {}
    for by, (record, _) in mine.items():
        for said in record.result.get("looks") or ():
            looks.setdefault(str(said), []).append(by)
    decide = displaced({by: record for by, (record, _) in mine.items()})
    if late := [who for one in submissions if one.late_unknown for who in one.students]:
        decide[_UNKNOWN] = late
    mistakes = [one for part in sheet.parts for one in _mistakes(part, mine, part.name in varied)]
    return Report(
        assignment=sheet.assignment,
        summary=_summary(sheet, submissions, mine, scores, students),
        parts=tuple(_part(part, mine) for part in sheet.parts),
        mistakes=tuple(sorted(mistakes, key=lambda m: (-len(m.students), m.part, m.name))),
        looks=dict(sorted(looks.items(), key=lambda one: (-len(one[1]), one[0]))),
        decide=decide,
    )


def displaced(records: Mapping[str, Record]) -> dict[str, list[str]]:
    """Return the oddities of manual answers that a person has to know of, each with the students."""
    found: dict[str, list[str]] = {}
    for student, record in records.items():
        for part in record.missing:
            found.setdefault(f"{part}: the cell for the answer was deleted", []).append(student)
        if record.unclear:
            found.setdefault("text that may be an answer, but is not in its place", []).append(student)
    return found


_Mine = Mapping[str, tuple[Record, Score]]


def _part(part: SheetPart, mine: _Mine) -> PartReport:
    marked = [score.parts[part.name] for _, score in mine.values() if not score.parts[part.name].waiting]
    answered = sum(_written(record, part) for record, _ in mine.values())
    solved = sum(one.points >= one.max for one in marked)
    mean = statistics.fmean(one.points for one in marked) if marked else 0.0
    share = solved / len(marked) if marked else 0.0
    return PartReport(part.name, part.max, answered, solved, share, mean, len(mine) - len(marked))


def _written(record: Record, part: SheetPart) -> bool:
    """Return whether something was written for a part."""
    if part.role == "manual":
        return not record.is_empty(part.name)
    return record.parts.get(part.name, {}).get("kind") not in (None, "not yet", "missing", "unreadable")


def _mistakes(part: SheetPart, mine: _Mine, varied: bool) -> Iterator[Mistake]:
    found: dict[tuple[str, str], list[str]] = {}
    think: dict[tuple[str, str], str] = {}
    for student, (record, _) in mine.items():
        verdict = record.parts.get(part.name)
        if verdict is None or verdict.get("kind") in (None, "right"):
            continue
        kind = str(verdict["kind"])
        # Of "not yet" and "slow" the kind says all; their name is that of the exercise.
        named = kind in ("mistake", "property", "raised", "returned")
        key = kind, str(verdict.get("mistake") or "") if named else ""
        found.setdefault(key, []).append(student)
        said = [text for head, text in paragraphs(str(verdict.get("message") or "")) if head == "Think"]
        think.setdefault(key, f"{'In the book’s numbers: ' * varied}{said[0]}" if said else "")
    for (kind, name), students in found.items():
        share = part.partial.get(name) if kind == "mistake" else None
        yield Mistake(part.name, kind, name or kind, tuple(students), think[kind, name], share)


def _summary(
    sheet: Sheet, submissions: Sequence[Submission], mine: _Mine, scores: Mapping[str, Score], students: int
) -> str:
    graded = [scores[who] for one in submissions if one.by in mine for who in one.students]
    said = [f"{len(graded)} of {students} students graded"]
    final = [score.final for score in graded if not score.waiting]
    if final:
        whose = " of those marked to the end" if len(final) < len(graded) else ""
        said.append(f"mean {number(statistics.fmean(final))} of {number(sheet.max)} points{whose}")
    said.append(f"{sum(len(s.students) for s in submissions if s.late_days or s.late_unknown)} late")
    due = [((s.due or sheet.due) - s.received).total_seconds() / 3600 for s in submissions if s.received]
    if due:
        hours = statistics.median(due)
        when = "before" if hours >= 0 else "after"
        said.append(f"handed in {abs(hours):.1f} h {when} the due date (median)")
    seconds = [float(record.result.get("cpu") or 0) for record, _ in mine.values()]
    if any(seconds):
        said.append(f"{statistics.median(seconds):.1f} CPU s to grade one (median)")
    return ", ".join(said)


def text(found: Report, *, names: bool = False) -> str:
    """The report for a terminal."""
    lines = [f"{found.assignment}: {found.summary}", ""]
    rows = [["part", "answers", "all points", "mean"]]
    for part in found.parts:
        full = f"{100 * part.full:.0f} %" if part.answered > part.waiting else "–"
        full += f", {part.waiting} to mark" if part.waiting else ""
        rows.append([part.name, str(part.answered), full, f"{number(part.mean)} / {number(part.max)}"])
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines += ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]

    def listed(heading: str, of: Mapping[str, Sequence[str]]) -> None:
        if of:
            lines.extend(["", heading])
        for said, students in of.items():
            who = f" ({', '.join(students)})" if names else ""
            lines.append(f"  {len(students):>3} × {said}{who}")

    listed("To decide:", found.decide)
    if found.mistakes:
        lines += ["", "What went wrong, the most frequent first:"]
    for one in found.mistakes:
        who = f" ({', '.join(one.students)})" if names else ""
        worth = f", worth {number(100 * one.share)} % of the points" if one.share is not None else ""
        lines.append(f"  {len(one.students):>3} × {one.part}: {_what(one)}{worth}{who}")
        if one.think:
            lines.append(f"        {one.think}")
    listed(_LOOKS, found.looks)
    return "\n".join(line(one, 2000) for one in lines).rstrip()


def _what(mistake: Mistake) -> str:
    said = {"raised": "raised {}", "property": "fails: {}", "returned": "can't be read: {}"}
    return said.get(mistake.kind, "{}").format(mistake.name)
