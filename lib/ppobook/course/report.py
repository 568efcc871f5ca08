"""Summarize a class's results: parts and mistakes, with numbers; no names unless asked for."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

from ppobook.course.feedback import number
from ppobook.course.gradebook import Score
from ppobook.course.records import PackPart, Record, Sheet
from ppobook.course.safe_text import line
from ppobook.course.work import State

# What stands above these notes: they are no verdicts.
_LOOKS = "Perhaps worth a look, or a talk about the code; it says nothing for sure and costs no points:"
_UNKNOWN = "handed in late, nobody knows how late, so all points count until you decide"
_WRONG = "What went wrong, the most frequent first:"
_SAID = {"mistake": "{}", "raised": "raised {}", "property": "fails: {}", "returned": "can't be read: {}"}

_Mine = Mapping[str, tuple[Record, Score]]
_Rows = dict[str, list[str]]


def report(state: State, students: int, *, names: bool = False) -> str:
    """A report on an assignment in a class of so many students. A group's submission is counted once."""
    sheet, scores = state.sheet, state.scores
    graded = [one.by for one in state.submissions if one.by in scores and scores[one.by].parts]
    mine = {by: (state.records[by], scores[by]) for by in graded}
    decide = displaced({by: record for by, (record, _) in mine.items()})
    if late := [who for one in state.submissions if one.late_unknown for who in one.students]:
        decide[_UNKNOWN] = late
    if state.unreadable:
        decide["handed in without a notebook that can be read"] = [*state.unreadable]
    wrong = _mistakes(sheet, mine)
    looks: _Rows = {}
    for by, (record, _) in mine.items():
        for said in record.result.get("looks") or ():
            looks.setdefault(str(said), []).append(by)
    lines = [f"{sheet.assignment}: {_summary(state, mine, students)}", ""]
    lines += _table(sheet, mine)
    for heading, rows in (("To decide:", decide), (_WRONG, wrong), (_LOOKS, looks)):
        lines += ["", heading] if rows else []
        for said, who in sorted(rows.items(), key=lambda row: (-len(row[1]), row[0])):
            lines.append(f"  {len(who):>3} × {said}" + (f" ({', '.join(who)})" if names else ""))
    return "\n".join(line(one, 2000) for one in lines).rstrip()


def displaced(records: Mapping[str, Record]) -> _Rows:
    """Return the oddities of manual answers that a person has to know of, each with the students."""
    found: _Rows = {}
    for student, record in records.items():
        for part in record.missing:
            found.setdefault(f"{part}: the cell for the answer was deleted", []).append(student)
        if record.unclear:
            found.setdefault("text that may be an answer, but is not in its place", []).append(student)
    return found


def _table(sheet: Sheet, mine: _Mine) -> Iterator[str]:
    """A line for each part: how many answers, how many of them with all points, the mean."""
    rows = [("part", "answers", "all points", "mean")]
    for part in sheet.parts:
        found = [score.parts[part.name] for _, score in mine.values()]
        marked = [one.points for one in found if not one.waiting]
        waiting = len(found) - len(marked)
        answered = sum(_written(record, part) for record, _ in mine.values())
        full = mean = "–"
        if answered > waiting:  # those who left it blank are no mean of the others
            full = f"{100 * sum(one >= part.points for one in marked) / len(marked):.0f} %"
            mean = number(statistics.fmean(marked))
        full += f", {waiting} to mark" if waiting else ""
        rows.append((part.name, str(answered), full, f"{mean} / {number(part.points)}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        yield "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])])


def _written(record: Record, part: PackPart) -> bool:
    if part.role == "manual":
        return not record.is_empty(part.name)
    return record.parts.get(part.name, {}).get("kind") not in (None, "not yet", "missing", "unreadable")


def _mistakes(sheet: Sheet, mine: _Mine) -> _Rows:
    """The mistakes, each with who made it."""
    found: _Rows = {}
    for part in sheet.parts:
        for student, (record, _) in mine.items():
            verdict = record.parts.get(part.name, {})
            kind, name = str(verdict.get("kind") or "right"), str(verdict.get("mistake") or "")
            if kind == "right":
                continue
            said = f"{part.name}: {_SAID.get(kind, kind).format(name)}"
            if kind == "mistake" and name in part.partial:
                said += f", worth {number(100 * part.partial[name])} % of the points"
            found.setdefault(said, []).append(student)
    return found


def _summary(state: State, mine: _Mine, students: int) -> str:
    graded = [state.scores[who] for one in state.submissions if one.by in mine for who in one.students]
    said = [f"{len(graded)} of {students} students graded"]
    if graded and not any(score.waiting for score in graded):
        mean = number(statistics.fmean(score.final for score in graded))
        said.append(f"mean {mean} of {number(state.sheet.points)} points")
    said.append(f"{sum(len(s.students) for s in state.submissions if s.late_days or s.late_unknown)} late")
    return ", ".join(said)
