"""`ppobook course grade`: every submission that counts, graded once, whatever happens on the way.

The truth about grading is the records, `graded/ASSIGNMENT/STUDENT.json`, each written in one step. A record
names what it depends on: the submission, the pack, the check of each part. One that still holds is not made
again, and scores are computed from the records; so a process that is killed at any moment loses at most the
submissions that it was grading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ppobook.course import trail
from ppobook.course.processes import OpenGrader, graded
from ppobook.course.records import Record, Sheet, Submission, digest, read_record, write_record
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
                if result:
                    write_record(folder, _record(folder, sheet, submission, result, error, part))
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

    def holds(submission: Submission) -> bool:
        record = read_record(folder, sheet.assignment, submission.by)
        return (
            record is not None
            and record.submission == digest(submission.path.read_bytes())
            and record.pack == sheet.pack
            and (part is not None or record.checks == sheet.checks)
        )

    # What isn't graded yet is left to `grade`.
    return [one for one in submissions if again or holds(one) == (part is not None)]


def _record(
    folder: Path,
    sheet: Sheet,
    submission: Submission,
    result: Mapping[str, Any],
    error: str,
    part: str | None,
) -> Record:
    content = digest(submission.path.read_bytes())
    before = read_record(folder, sheet.assignment, submission.by)
    if before is not None and error and before.submission == content:
        return before  # what was found earlier is better than nothing
    if before is not None and part is not None:
        parts = {**before.parts, part: result["parts"][part]}
        checks = {**before.checks, part: sheet.checks[part]}
        return replace(before, result={**before.result, "parts": parts}, checks=checks)
    return Record(sheet.assignment, submission.by, content, sheet.pack, dict(sheet.checks), result)
