"""A small class without a book: a sheet, students, submissions, and a grader that is made up."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

from ppobook.course.records import PackPart, Sheet, Submission
from ppobook.course.roster import Student

DUE = datetime(2027, 3, 1, 22, 59, tzinfo=UTC)
SHEET = Sheet(
    assignment="week-03",
    due=DUE,
    parts=(
        PackPart("clipped-loss", "test", 4, "clipped-loss", "The clipped loss"),
        PackPart("hunt-minmax", "test", 3, "hunt-minmax", "Quick, and then gone"),
        PackPart(
            "hunt-minmax-why",
            "manual",
            3,
            "hunt-minmax",
            "Quick, and then gone",
            question="**Your diagnosis.** Which line is wrong? See {ref}`ex-clipped-loss`.",
            rubric="The last line, $-\\min(x, y) = \\max(-x, -y)$. (1 point.)\n\n"
            "It never comes back. (2 points.)",
        ),
    ),
    pack="pack-1",
    checks={"clipped-loss": "check-1", "hunt-minmax": "check-1"},
)
NAMES = {"ada": "Lovelace", "bob": "O'Neil, Jr.", "eve": "Ünal", "mel": "<b>Mel</b>", "zoe": "=Zoe"}
STUDENTS = [
    Student(student, last, student.title(), f"{student}@example.org", lms_id=str(900 + number))
    for number, (student, last) in enumerate(NAMES.items())
]

MISTAKE = [
    "Seen: the gradient reaches old_logp: [0.55, 0.45, -0.263].",
    "Think: the old policy is the anchor. Who may move it?",
    "Read: chapter 3, The clipped surrogate (PPO-clip), “PPO in fifty lines” (sec-short-ppo).",
]
COURSE = SimpleNamespace(title="Policy optimization", timezone=ZoneInfo("Europe/Berlin"))


def write(folder: Path, student: str, answer: Mapping[str, Any]) -> Path:
    """A submission of the fake grader's: what it will find."""
    path = folder / "submitted" / "week-03" / student / "answer.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"student": student, **answer}))
    return path


def hand_in(folder: Path, *students: str, late: int = 0, **answer: Any) -> Submission:
    """The submission of a student or group."""
    path = write(folder, students[0], answer)
    received = DUE + (timedelta(days=late) - timedelta(hours=1))
    return Submission(students, students[0], path, received, late, 1 - late / 10)


def grade_one(content: bytes, by: str) -> dict[str, Any]:
    """Find what the submission says: points, mistakes, or to die."""
    answer = json.loads(content)
    if answer.get("seconds"):
        time.sleep(answer["seconds"])
    if answer.get("bytes"):
        bytearray(answer["bytes"])
    if answer.get("dies"):
        os.kill(os.getpid(), 9)
    if answer.get("full_disk"):
        raise OSError("no space left")
    if answer.get("raises"):
        raise RuntimeError(answer["raises"])
    parts = {}
    for part in SHEET.parts:
        if part.role == "test":
            points = answer.get(part.name, part.points)
            right = points == part.points
            verdict = ("right", part.name, []) if right else ("mistake", "old_logp is not detached", MISTAKE)
            kind, name, said = answer.get("verdicts", {}).get(part.name, verdict)
            parts[part.name] = {"points": points, "kind": kind, "mistake": name, "said": said}
    return {
        "parts": parts,
        "manual": {"hunt-minmax-why": answer.get("text", "")},
        "errors": [],
        **{key: answer[key] for key in ("missing", "unclear") if key in answer},
    }


def grade_nothing(content: bytes = b"{}") -> dict[str, Any]:
    """Return the result of a submission that could not be graded."""
    answer = json.loads(content or b"{}")
    empty: dict[str, Any] = {part.name: 0 for part in SHEET.parts if part.role == "test"}
    empty |= {"text": answer.get("text", ""), "dies": answer.get("dies") == "always"}
    return grade_one(json.dumps(empty).encode(), "")


@contextmanager
def open_grader(log: Path | None = None) -> Iterator[Any]:
    """The fake grader, which notes in a file each submission that it graded."""

    def grade(content: bytes, by: str, reason: str) -> dict[str, Any]:
        result = grade_nothing(content) if reason else grade_one(content, by)
        if log is not None:
            with log.open("a") as file:
                file.write(f"{by}\n")
        return result

    yield grade


@contextmanager
def open_nothing() -> Iterator[Any]:
    raise RuntimeError("no sandbox")
    yield


def graded_class(folder: Path, *handed: Submission) -> None:
    """These submissions, graded in this process."""
    from ppobook.course.records import Record, digest, write_record

    for submission in handed:
        content = submission.path.read_bytes()
        result = grade_one(content, submission.by)
        facts = (submission.by, digest(content), SHEET.pack, SHEET.checks)
        write_record(folder, Record("week-03", *facts, result=result))


def scores_of(folder: Path, handed: Iterable[Submission], sheet: Sheet = SHEET) -> dict[str, Any]:
    """The scores of these submissions, as they stand on the disk."""
    from ppobook.course.gradebook import Decisions, scores
    from ppobook.course.records import read_records

    students = [one.student_id for one in STUDENTS]
    handed = list(handed)
    records = read_records(folder, "week-03", handed)
    return scores(sheet, handed, records, Decisions(folder, "week-03"), students)
