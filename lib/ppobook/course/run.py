"""`ppobook course grade`: every submission that counts, graded once, whatever happens on the way.

The truth about grading is the records, `graded/ASSIGNMENT/STUDENT.json`, each written in one step. A record
names what it depends on: the submission, the pack, the check of each part. One that still holds is not made
again, and scores are computed from the records; so a process that is killed at any moment loses at most the
submissions that it was grading.
"""

from __future__ import annotations

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
    """The result of one run: numbers of submissions, and by who handed in what went wrong.

    ``nothing`` could not be graded and have no points; ``failed`` are not the submission's fault, and nothing
    was recorded of them.
    """

    graded: int
    kept: int
    nothing: Mapping[str, str]
    failed: Mapping[str, str]


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
    """Grade what has to be graded of the submissions that count, one for each student or group.

    `open_grader` is called in each process: a context manager that yields the function which grades one
    submission. It is sent to the processes, so it has to be a function of a module, or a partial of one. With
    a `part` only that is graded, of all that is graded already; with `again`, everything. A process that
    takes longer than `seconds` for one submission is ended, and the submission gets nothing.
    """
    if part is not None:
        sheet.part(part)
    name = sheet.assignment
    place = folder / "graded" / name
    place.mkdir(parents=True, exist_ok=True)
    busy = f"{name} must be graded by one process at a time, got one that is grading it now"
    with trail.locked(place / ".lock", busy):
        todo = due(folder, sheet, submissions, part=part, again=again)
        nothing: dict[str, str] = {}
        failed: dict[str, str] = {}
        count = 0
        with Progress(len(todo), 0, name, "submission", shown) as progress:
            for submission, result, error in graded(todo, open_grader, processes, seconds):
                for record in _records(folder, sheet, submission, result, error, part) if result else ():
                    write_record(folder, record)
                if error:
                    (nothing if result else failed)[submission.by] = error
                count += 1
                progress.show(count, {"failed": len(failed)} if failed else {})
    return Summary(count - len(failed), len(submissions) - len(todo), nothing, failed)


def due(
    folder: Path,
    sheet: Sheet,
    submissions: Sequence[Submission],
    *,
    part: str | None = None,
    again: bool = False,
) -> list[Submission]:
    """The submissions that have to be graded; with a `part`, those of which it can be graded again."""
    students = [student for submission in submissions for student in submission.students]
    records = read_records(folder, sheet.assignment, students)

    def holds(submission: Submission) -> bool:
        mine = [records.get(student) for student in submission.students]
        content = digest(submission.path.read_bytes())
        return all(
            record is not None
            and (record.submission, record.by, record.pack) == (content, submission.by, sheet.pack)
            and (part is not None or record.checks == sheet.checks)
            for record in mine
        )

    # What isn't graded yet is left to `grade`.
    return [one for one in submissions if again or holds(one) == (part is not None)]


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
        if error and before is not None and before.submission == content:
            continue  # what was found earlier is better than nothing
        if part is not None and before is not None:
            parts = {**before.parts, part: result["parts"][part]}
            checks = {**before.checks, part: sheet.checks[part]}
            yield replace(before, result={**before.result, "parts": parts}, checks=checks)
            continue
        yield Record(
            sheet.assignment, student, submission.by, content, sheet.pack, dict(sheet.checks), result
        )
