"""Marking by a person: the questions of a course, the answers to one of them in a row, and their points.

Answers are anonymous: each has a key in place of its student, and they stand in the keys' order. Equal
answers form one entry and get the same points; the submission of a group is one answer. What is saved names
the marks that were seen and replaces no others, so two tabs or markers may disagree: see `Decisions`.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ppobook.course.gradebook import Decisions, PartScore, Score, decide, scores
from ppobook.course.records import Record, Sheet, Submission, keyed_digest, read_records, text_digest
from ppobook.course.safe_text import rendered, statement


@dataclass(frozen=True)
class _Answer:
    """One submission's answer to one question."""

    key: str
    submission: Submission
    record: Record
    text: str
    scores: Sequence[PartScore]

    @property
    def score(self) -> PartScore:
        return self.scores[0]

    @property
    def seen(self) -> list[str]:
        """The marks that stand, of all members of a group."""
        return [mark.id for score in self.scores for mark in score.marks]


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
        self, assignment: str, part: str, seen: Mapping[str, list[str]], points: float | None, comment: str
    ) -> dict[str, Any]:
        """Save the points and the comment of one entry, and return it as it stands now.

        `seen` has the keys of the entry's answers, each with the marks that were seen, which are replaced.
        """
        most = self.work[assignment][0].part(part).points
        if points is not None and not (type(points) in (int, float) and 0 <= points <= most):
            raise ValueError(f"points must be from 0 to {most:g}, got {points!r}")
        answers = self._chosen(assignment, part, seen)
        if any(one.score.reason for one in answers):
            raise ValueError("the points were corrected by `ppobook course correct`, which --undo takes back")
        given = None if points is None else round(float(points), 2)
        facts: dict[str, Any] = {"points": given, "max": most, "comment": comment}
        for one in answers:
            facts |= {"text": text_digest(one.text), "replaces": seen[one.key]}
            for student in one.submission.students:
                decide(self.folder, assignment, "mark", student, part, **facts)
        return self._entry(self._chosen(assignment, part, seen))

    # --- inside -----------------------------------------------------------------------------------------

    def _scored(self, assignment: str) -> Iterator[tuple[Submission, Record, list[Score]]]:
        """Each graded submission, with its record and the scores of its students."""
        sheet, submissions = self.work[assignment]
        records = read_records(self.folder, assignment, submissions)
        known = scores(sheet, submissions, records, Decisions(self.folder, assignment))
        for one in submissions:
            if one.by in known:
                mine = [known[student] for student in one.students if student in known]
                yield one, records[one.by], mine

    def _answers(self, assignment: str, part: str) -> list[_Answer]:
        """The answers that somebody wrote, in the order of their keys."""
        found = [
            _Answer(self._key(assignment, one.by, text), one, record, text, [s.parts[part] for s in mine])
            for one, record, mine in self._scored(assignment)
            if not record.is_empty(part) and (text := record.to_read(part))
        ]
        return sorted(found, key=lambda answer: answer.key)

    def _chosen(self, assignment: str, part: str, keys: Collection[str]) -> list[_Answer]:
        chosen = [answer for answer in self._answers(assignment, part) if answer.key in keys]
        if len(chosen) != len(keys):
            raise ValueError("the answers must be those you saw, got others by now; load the page again")
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
            "displaced": first.text == "\n\n".join(first.record.unclear),
            "corrected": score.reason,
            "disagree": [{"who": one.who, "points": one.points} for one in score.marks if score.conflict],
        }

    def _key(self, assignment: str, student: str, text: str) -> str:
        said = f"marking/{assignment}/{student}/{text_digest(text)}"
        return keyed_digest(self.secret, said).hex()[:12]


# --- the page, served to this machine only ------------------------------------------------------------------

PAGE = Path(__file__).with_name("marking_page")
FILES = {"": "index.html", "page.js": "page.js", "page.css": "page.css"}
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
LARGEST = 200_000  # bytes of a request
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class MarkingServer(ThreadingHTTPServer):
    """Serves the page on a free port of 127.0.0.1; `address` is where, with its token.

    The token is a part of every path, so no page of another site that guesses the port learns anything.
    """

    daemon_threads = True

    def __init__(self, marking: Marking) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.marking = marking
        self.token = secrets.token_urlsafe(24)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: MarkingServer
    timeout = 60

    def do_GET(self) -> None:
        self._answer_request("GET")

    def do_POST(self) -> None:
        self._answer_request("POST")

    def _answer_request(self, method: str) -> None:
        token, _, path = urlsplit(self.path).path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._send({"error": "there is no such page"}, 404)
        elif method == "GET" and path in FILES:
            file = PAGE / FILES[path]
            self._answer(200, f"{TYPES[file.suffix]}; charset=utf-8", file.read_bytes())
        else:
            try:
                self._send(self._value(method, path))
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                self._send({"error": str(error)}, 400)

    def _value(self, method: str, path: str) -> Any:
        marking = self.server.marking
        if (method, path) == ("GET", "api/questions"):
            return {"questions": marking.questions()}
        if (method, path) == ("GET", "api/question"):
            return marking.question(**dict(parse_qsl(urlsplit(self.path).query)))
        if (method, path) == ("POST", "api/mark"):
            self.close_connection = True  # what was sent beyond the limit is not read
            return marking.mark(
                **json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), LARGEST)))
            )
        raise ValueError("there is no such page")

    def _send(self, value: Any, status: int = 200) -> None:
        self._answer(status, "application/json", json.dumps(value, ensure_ascii=False).encode())

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Log no request, for its address holds the token."""
