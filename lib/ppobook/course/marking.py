"""Marking by a person: the questions of a course, the answers to one of them in a row, and their points.

Answers are anonymous: each has a key in place of its student, and they stand in the keys' order. Equal
answers form one entry and get the same points; the submission of a group is one answer. What is saved names
the marks that were seen, so that of two tabs or markers the later one overwrites nothing unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppobook.course import trail
from ppobook.course.gradebook import Decisions, PartScore, Score, decide, scores
from ppobook.course.records import (
    Record,
    Sheet,
    Submission,
    digest,
    keyed_digest,
    read_records,
    text_digest,
)
from ppobook.course.safe_text import rendered, statement


class Conflict(Exception):  # noqa: N818
    """The saved entry was changed elsewhere meanwhile; `entry` is what stands there now."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.entry = entry


@dataclass(frozen=True)
class _Answer:
    """One submission's answer to one question."""

    key: str
    submission: Submission
    record: Record
    part: str
    score: PartScore

    @property
    def text(self) -> str:
        return self.record.to_read(self.part)

    @property
    def seen(self) -> str:
        state = [text_digest(self.text), self.score.reason, *(one.id for one in self.score.marks)]
        return digest("\n".join(state).encode())[:16]


@dataclass(frozen=True)
class Marking:
    """The questions of some assignments, to be marked."""

    folder: Path
    secret: str
    work: Mapping[str, tuple[Sheet, Sequence[Submission]]]

    def questions(self) -> list[dict[str, Any]]:
        """Every question: what it is called, how many answers it has, and how many are marked."""
        return [
            {
                "assignment": assignment,
                "part": part.name,
                "answers": len(answers := self._answers(assignment, part.name)),
                "marked": sum(not answer.score.waiting for answer in answers),
            }
            for assignment, (sheet, _) in self.work.items()
            for part in sheet.parts
            if part.role == "manual"
        ]

    def question(self, assignment: str, part: str) -> dict[str, Any]:
        """One question with its rubric and all answers to it; equal ones in one entry."""
        asked = self.work[assignment][0].part(part)
        answers = self._answers(assignment, part)
        graded = list(self._scored(assignment))
        groups: dict[Any, list[_Answer]] = {}
        for one in answers:
            alike = text_digest(one.text), one.score.points, one.score.comment, one.score.waiting
            groups.setdefault(alike, []).append(one)
        return {
            "assignment": assignment,
            "part": part,
            "title": asked.title or part,
            "max": asked.points,
            "question": statement(asked.question),
            "rubric": statement(asked.rubric),
            "entries": [self._entry(group) for group in groups.values()],
            "empty": len(graded) - len(answers),
            "deleted": sum(part in record.missing for _, record, _ in graded),
        }

    def mark(
        self, assignment: str, part: str, seen: Mapping[str, str], points: float | None, comment: str
    ) -> dict[str, Any]:
        """Save the points and the comment of one entry, and return it as it stands now.

        `seen` has the keys of the entry's answers, each with the state that was seen; where one of these is
        another by now, it raises a Conflict.
        """
        most = self.work[assignment][0].part(part).points
        if points is not None and not (type(points) in (int, float) and 0 <= points <= most):
            raise ValueError(f"points must be from 0 to {most:g}, got {points!r}")
        with trail.locked(self.folder / ".marking.lock"):
            answers = self._chosen(assignment, part, seen)
            if any(one.seen != seen[one.key] for one in answers):
                raise Conflict(self._entry(answers))
            if any(one.score.reason for one in answers):
                raise ValueError(
                    "the points were corrected by `ppobook course correct`, which --undo takes back"
                )
            given = None if points is None else round(float(points), 2)
            facts: dict[str, Any] = {"points": given, "max": most, "comment": comment}
            decisions = Decisions(self.folder, assignment)
            for one in answers:
                for student in one.submission.students:
                    facts["text"] = text_digest(one.text)
                    facts["replaces"] = [other.id for other in decisions.marks(student, part, one.text)]
                    decide(self.folder, assignment, "mark", student, part, **facts)
            return self._entry(self._chosen(assignment, part, seen))

    # --- inside -----------------------------------------------------------------------------------------

    def _scored(self, assignment: str) -> Iterator[tuple[Submission, Record, Score]]:
        """Each graded submission, with its record and its score."""
        sheet, submissions = self.work[assignment]
        records = read_records(self.folder, assignment, [one.by for one in submissions])
        known = scores(sheet, submissions, records, Decisions(self.folder, assignment))
        yield from ((one, records[one.by], known[one.by]) for one in submissions if one.by in known)

    def _answers(self, assignment: str, part: str) -> list[_Answer]:
        """The answers that somebody wrote, in the order of their keys."""
        found = [
            _Answer(self._key(assignment, one.by), one, record, part, score.parts[part])
            for one, record, score in self._scored(assignment)
            if not record.is_empty(part)
        ]
        return sorted(found, key=lambda answer: answer.key)

    def _chosen(self, assignment: str, part: str, keys: Mapping[str, str]) -> list[_Answer]:
        chosen = [answer for answer in self._answers(assignment, part) if answer.key in keys]
        if len(chosen) != len(keys):
            raise ValueError("the answers must be there, got some that are gone; load the page again")
        return chosen

    def _entry(self, answers: Sequence[_Answer]) -> dict[str, Any]:
        first, score = answers[0], answers[0].score
        return {
            "seen": {one.key: one.seen for one in answers},
            "html": rendered(first.text),
            "points": score.manual,
            "comment": score.comment,
            "marked": not any(one.score.waiting for one in answers),
            "count": len(answers),
            "displaced": not first.record.text(first.part).strip(),
            "corrected": score.reason,
            "disagree": [{"who": one.who, "points": one.points} for one in score.marks if score.conflict],
        }

    def _key(self, assignment: str, student: str) -> str:
        return keyed_digest(self.secret, f"marking/{assignment}/{student}").hex()[:12]
