"""`ppobook course grade`: every submission that counts, graded once, whatever happens on the way.

The truth about grading is the records, `graded/ASSIGNMENT/STUDENT.json`, each written in one step. A record
names what it depends on: the submission, the pack, the check of each part. One that still holds is not made
again, and scores are computed from the records; so a process that is killed at any moment loses at most the
submissions that it was grading.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ppobook.course import trail
from ppobook.course.processes import OpenGrader, graded
from ppobook.course.records import (
    Record,
    Sheet,
    Submission,
    digest,
    read_records,
    write_record,
)
from ppobook.run.progress import Progress


@dataclass(frozen=True)
class Summary:
    """The result of one run.

    Attributes
    ----------
    graded, kept : numbers of submissions
    nothing : by who handed in, why a submission could not be graded and has no points
    failed : the same, where it was not the submission's fault and nothing was recorded
    cpu : seconds that all of it took, start-up included
    """

    graded: int
    kept: int
    nothing: Mapping[str, str]
    failed: Mapping[str, str]
    cpu: float


def grade(
    folder: Path,
    sheet: Sheet,
    submissions: Sequence[Submission],
    open_grader: OpenGrader,
    *,
    processes: int = 2,
    part: str | None = None,
    again: bool = False,
    seconds: float = 3600.0,
    shown: bool | None = None,
) -> Summary:
    """Grade what has to be graded.

    Parameters
    ----------
    folder : Path
        The course's.
    sheet : Sheet
    submissions : sequence of Submission
        Those that count, one for each student or group.
    open_grader : callable
        Called in each process: a context manager that yields the function which grades one submission. It is
        sent to the processes, so it has to be a function of a module, or a partial of one.
    processes : int
    part : str, optional
        Grade this part only, of all that is graded; the others keep what they have.
    again : bool
        Grade what is graded already.
    seconds : float
        A process that takes longer for one submission is ended, and the submission gets nothing.
    shown : bool, optional
        Whether progress is shown, see `Progress`.

    Raises
    ------
    ValueError
        Another process grades this assignment, or the part is unknown.
    """
    if part is not None:
        sheet.part(part)
    name, began = sheet.assignment, time.process_time()
    place = folder / "graded" / name
    place.mkdir(parents=True, exist_ok=True)
    busy = f"{name} must be graded by one process at a time, got one that is grading it now"
    with trail.locked(place / ".lock", busy):
        todo, kept = due(folder, sheet, submissions, part=part, again=again)
        nothing: dict[str, str] = {}
        failed: dict[str, str] = {}
        cpu, count = 0.0, 0
        with Progress(len(todo), 0, name, "submission", shown) as progress:
            asked = [one for one, _ in todo]
            for submission, result, error in graded(asked, open_grader, processes, seconds):
                for record in _records(folder, sheet, submission, result, error, part):
                    write_record(folder, record)
                if error:
                    (nothing if result else failed)[submission.by] = error
                cpu, count = cpu + result.get("cpu", 0.0), count + 1
                progress.show(count, {"failed": len(failed)} if failed else {})
    cpu += time.process_time() - began
    return Summary(count - len(failed), kept, nothing, failed, cpu)


def due(
    folder: Path,
    sheet: Sheet,
    submissions: Sequence[Submission],
    *,
    part: str | None = None,
    again: bool = False,
) -> tuple[list[tuple[Submission, str]], int]:
    """The submissions that have to be graded, each with the reason, and the number of those that needn't."""
    students = [student for submission in submissions for student in submission.students]
    records = read_records(folder, sheet.assignment, students)
    todo = []
    for submission in submissions:
        why = _reason(sheet, submission, [records.get(student) for student in submission.students], part)
        if part is not None:  # what isn't graded yet is left to `grade`
            why = "" if why else "asked for"
        if why or again:
            todo.append((submission, why or "again"))
    return todo, len(submissions) - len(todo)


def _reason(sheet: Sheet, submission: Submission, mine: Sequence[Record | None], part: str | None) -> str:
    """Why a submission has to be graded; empty if its records hold."""
    content = digest(submission.path.read_bytes())
    for record in mine:
        if record is None:
            return "new"
        if record.failed:
            return "failed before"
        if record.submission != content or record.by != submission.by:
            return "another submission"
        if record.pack != sheet.pack:
            return "another pack"
        if part is None and any(record.checks.get(name) != sheet.checks[name] for name in sheet.checks):
            return "another check"
    return ""


def _records(
    folder: Path,
    sheet: Sheet,
    submission: Submission,
    result: Mapping[str, Any],
    error: str,
    part: str | None,
) -> Iterator[Record]:
    content = digest(submission.path.read_bytes())
    old = read_records(folder, sheet.assignment, submission.students)
    for student in submission.students:
        before = old.get(student)
        holds = before is not None and not before.failed and before.submission == content
        if error and holds:  # what was found earlier is better than nothing
            continue
        if part is not None and before is not None:
            fresh = {name: one for name, one in result.get("parts", {}).items() if name == part}
            results = {**before.result, "parts": {**before.parts, **fresh}}
            checks = {**before.checks, part: sheet.checks[part]}
            yield replace(before, result=results, checks=checks)
            continue
        yield Record(
            assignment=sheet.assignment,
            student=student,
            by=submission.by,
            submission=content,
            pack=sheet.pack,
            checks=dict(sheet.checks),
            failed="" if result else error,
            result=result,
        )
