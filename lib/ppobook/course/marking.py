"""Marking by a person: the questions of a course, the answers to one of them in a row, and their points.

Answers are anonymous: each has a key in place of its student, and they stand in the keys' order. Equal
answers form one entry and get the same points; the submission of a group is one answer. What is saved names
the state that was seen, so that of two tabs the later one learns what the earlier one saved, and overwrites
nothing unseen.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppobook.course import trail
from ppobook.course.gradebook import Book, Score
from ppobook.course.records import Record, Sheet, Submission, read_records, text_digest
from ppobook.course.safe_text import rendered, statement

LONGEST_COMMENT = 5000


class Conflict(Exception):  # noqa: N818
    """The saved entry was changed elsewhere meanwhile; `entry` is what stands there now."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        super().__init__("changed elsewhere")
        self.entry = entry


@dataclass(frozen=True)
class _Answer:
    """One submission's answer to one question."""

    key: str
    submission: Submission
    text: str
    points: float | None
    comment: str
    marked: bool
    earlier: float | None

    @property
    def seen(self) -> str:
        """An identifier of the state that was seen."""
        state = json.dumps([self.points, self.comment, text_digest(self.text)])
        return hashlib.sha256(state.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Marking:
    """The questions of some assignments, to be marked.

    Attributes
    ----------
    folder : Path
        The course's folder.
    secret : str
        What the keys are made with.
    work : mapping from assignment to (Sheet, submissions)
    names : mapping from student to str, optional
        If given, answers are shown with these.
    """

    folder: Path
    secret: str
    work: Mapping[str, tuple[Sheet, Sequence[Submission]]]
    names: Mapping[str, str] = field(default_factory=dict)

    def questions(self) -> list[dict[str, Any]]:
        """Every question: what it is called, how many answers it has, and how many are marked."""
        found = []
        for assignment, (sheet, _) in self.work.items():
            records, scores = self._state(assignment)
            for part in sheet.parts:
                if part.role == "manual":
                    answers = self._answers(assignment, part.name, records, scores)
                    found.append(
                        {
                            "assignment": assignment,
                            "part": part.name,
                            "title": part.title or part.name,
                            "max": part.max,
                            "answers": len(answers),
                            "marked": sum(answer.marked for answer in answers),
                        }
                    )
        return found

    def question(self, assignment: str, part: str, *, grouped: bool = True) -> dict[str, Any]:
        """One question with its rubric and all answers to it; equal ones in one entry, if `grouped`."""
        sheet, submissions = self._sheet(assignment)
        asked = sheet.part(part)
        records, scores = self._state(assignment)
        answers = self._answers(assignment, part, records, scores)
        groups: dict[Any, list[_Answer]] = {}
        for answer in answers:
            alike = (text_digest(answer.text), answer.points, answer.comment) if grouped else answer.key
            groups.setdefault(alike, []).append(answer)
        graded = [s for s in submissions if s.by in records]
        return {
            "assignment": assignment,
            "part": part,
            "title": asked.title or part,
            "max": asked.max,
            "question": statement(asked.question),
            "rubric": statement(asked.rubric),
            "entries": [self._entry(group) for group in groups.values()],
            "empty": len(graded) - len(answers),
        }

    def mark(
        self,
        assignment: str,
        part: str,
        seen: Mapping[str, str],
        points: float | None,
        comment: str,
    ) -> dict[str, Any]:
        """Save the points and the comment of one entry, and return it as it stands now.

        Parameters
        ----------
        assignment, part : str
        seen : mapping
            The keys of the entry's answers, each with the state that was seen.
        points : float or None
        comment : str

        Raises
        ------
        Conflict
            One of these answers is no longer in the state that was seen.
        ValueError
            The points or the comment can't be saved.
        """
        sheet, _ = self._sheet(assignment)
        most = sheet.part(part).max
        if points is not None and not (
            isinstance(points, int | float)
            and not isinstance(points, bool)
            and math.isfinite(points)
            and 0 <= points <= most
        ):
            raise ValueError(f"points must be from 0 to {most:g}, got {points!r}")
        if not isinstance(comment, str) or len(comment) > LONGEST_COMMENT:
            raise ValueError(f"comment must be a text of at most {LONGEST_COMMENT} characters")
        with trail.locked(self.folder / ".marking.lock"):
            answers = self._chosen(assignment, part, seen)
            if any(answer.seen != seen[answer.key] for answer in answers):
                raise Conflict(self._entry(answers))
            given = None if points is None else round(float(points), 2)
            with Book(self.folder) as book:
                for answer in answers:
                    for student in answer.submission.students:
                        # The trail first: what a person decided is not lost with the gradebook.
                        trail.note(
                            self.folder,
                            "mark",
                            assignment=assignment,
                            student=student,
                            part=part,
                            points=given,
                            before=answer.points,
                            comment=comment,
                            text=text_digest(answer.text),
                        )
                        share = answer.submission.share
                        book.mark(assignment, student, part, given, comment, share=share)
            return self._entry(self._chosen(assignment, part, seen))

    # --- inside -----------------------------------------------------------------------------------------

    def _sheet(self, assignment: str) -> tuple[Sheet, Sequence[Submission]]:
        if assignment not in self.work:
            raise ValueError(f"assignment must be one of {', '.join(self.work)}, got {assignment!r}")
        return self.work[assignment]

    def _state(self, assignment: str) -> tuple[dict[str, Record], dict[str, Score]]:
        students = [submission.by for submission in self.work[assignment][1]]
        with Book(self.folder) as book:
            scores = book.scores(assignment)
        records = read_records(self.folder, assignment, students)
        return {s: r for s, r in records.items() if not r.failed and s in scores}, scores

    def _answers(
        self, assignment: str, part: str, records: Mapping[str, Record], scores: Mapping[str, Score]
    ) -> list[_Answer]:
        """The answers that somebody wrote, in the order of their keys."""
        earlier = self._earlier(assignment, part)
        found = []
        for submission in self.work[assignment][1]:
            record, score = records.get(submission.by), scores.get(submission.by)
            if record is None or score is None or part not in score.parts or not record.text(part).strip():
                continue
            now = score.parts[part]
            found.append(
                _Answer(
                    self._key(assignment, submission.by),
                    submission,
                    record.text(part),
                    now.manual,
                    now.comment,
                    not now.waiting,
                    earlier.get(submission.by) if now.waiting else None,
                )
            )
        return sorted(found, key=lambda answer: answer.key)

    def _earlier(self, assignment: str, part: str) -> dict[str, float]:
        """The points that an earlier text of each student got."""
        return {
            str(entry["student"]): entry["points"]
            for entry in trail.read(self.folder)
            if entry.get("what") == "mark"
            and (entry.get("assignment"), entry.get("part")) == (assignment, part)
            and entry.get("points") is not None
        }

    def _chosen(self, assignment: str, part: str, keys: Mapping[str, str]) -> list[_Answer]:
        answers = self._answers(assignment, part, *self._state(assignment))
        chosen = [answer for answer in answers if answer.key in keys]
        if not chosen or len(chosen) != len(keys):
            raise ValueError("the answers must be there, got some that are gone; load the page again")
        return chosen

    def _entry(self, answers: Sequence[_Answer]) -> dict[str, Any]:
        first = answers[0]
        return {
            "seen": {answer.key: answer.seen for answer in answers},
            "html": rendered(first.text),
            "points": first.points,
            "comment": first.comment,
            "marked": all(answer.marked for answer in answers),
            "count": len(answers),
            "earlier": first.earlier,
            "names": [
                self.names[student]
                for answer in answers
                for student in answer.submission.students
                if student in self.names
            ],
        }

    def _key(self, assignment: str, student: str) -> str:
        message = f"marking/{assignment}/{student}".encode()
        return hmac.new(self.secret.encode(), message, hashlib.sha256).hexdigest()[:12]
