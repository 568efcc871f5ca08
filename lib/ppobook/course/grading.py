"""One submission: rebuilt, run in a sandbox, and judged from outside of it.

    with Server() as server:
        result = grade_submission(pack, path.read_bytes(), server=server, seed=part_seeds(secret, "ada"))
        result.points, result.parts["clipped-loss"].kind

The student's cells are run in order. At each test cell of the pack the book's check looks at what the
cell hands over, in this process, with problems drawn from a number that nobody knows. A cell or a
function that ends its process, or never ends, loses what it was asked for and nothing else: the notebook
is run again without it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ppobook.teaching import checks
from ppobook.teaching.checks import Verdict

from .limits import Ended
from .needed import needed
from .pack import Pack, PackPart
from .rebuild import Rebuilt, RunCell, Unreadable, rebuild, whole
from .remote import MESSAGE, NAME, Grader
from .sandbox import Limits, Sandbox, Server
from .unprotected import Unprotected

__all__ = ["CellError", "PartResult", "Result", "grade_submission", "part_seeds"]

RESTARTS = 6  # how often a notebook is run again because its process ended
_MESSAGE = 10_000  # characters of what is said of a part
_GRACE = 3.0  # seconds that a cell has to end after its clock has rung

# What is said where a check couldn't come to a verdict, by the reason.
_ENDED = {
    "time": ("slow", "it was still running when the time was up"),
    "memory": ("ended", "it needed more memory than it may have"),
    "ended": ("ended", "it ended the process that it ran in"),
    "forged": ("ended", "it wrote to the grader's channel by itself"),
    "much": ("ended", "it sent back more than it may"),
}
_NOTEBOOK = "the notebook's cells took longer than they may together"
_WHOLE = "the submission as a whole took longer than it may"


@dataclass(frozen=True)
class PartResult:
    """The verdict on one part.

    kind and mistake are those of the check; or kind is "missing" (there is nothing to check),
    "unreadable" (the notebook is none) or "ended" (the process didn't live to answer).
    """

    points: float
    max: float
    kind: str
    mistake: str
    message: str
    seconds: float


@dataclass(frozen=True)
class CellError:
    """An error that a cell of the submission raised."""

    place: str
    type: str
    message: str


@dataclass
class Result:
    """The result of grading one submission."""

    assignment: str
    parts: dict[str, PartResult] = field(default_factory=dict)
    manual: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    errors: list[CellError] = field(default_factory=list)
    cpu: float = 0.0
    peak_mb: float = 0.0

    @property
    def points(self) -> float:
        """Sum the points of the parts that were tested."""
        return sum(part.points for part in self.parts.values())

    def as_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Result:
        content = json.loads(text)
        content["parts"] = {name: PartResult(**part) for name, part in content["parts"].items()}
        content["errors"] = [CellError(**error) for error in content["errors"]]
        return cls(**content)


def part_seeds(secret: str, student: str, submission: bytes) -> Callable[[str], int]:
    """The number from which a part's random problems are drawn.

    It is another for each student, part and submission: what one submission finds out about its problems is
    worth nothing to the next. The same bytes get the same problems.
    """
    content = hashlib.sha256(submission).hexdigest()

    def seed(part: str) -> int:
        what = f"probes/{student}/{content}/{part}".encode()
        return int.from_bytes(hmac.new(secret.encode(), what, hashlib.sha256).digest()[:8], "big") | 1

    return seed


def grade_submission(
    pack: Pack,
    submission: bytes,
    *,
    server: Server | Unprotected,
    seed: Callable[[str], int] = lambda part: 0,
    limits: Limits | None = None,
    partial: Mapping[str, float] | None = None,
) -> Result:
    """Grade one submission.

    Parameters
    ----------
    pack : what was handed out
    submission : the bytes of the notebook that was handed in
    server : Server or Unprotected
        Where the student's code runs.
    seed : function
        Gives, by a part's name, the number that its random problems are drawn from: see `part_seeds`.
    limits : Limits, optional
    partial : mapping, optional
        The share of the points that a verdict of some kind earns, such as ``{"so far": 0.5}``.
    """
    result = Result(pack.assignment)
    try:
        rebuilt = rebuild(pack.notebook, submission)
    except Unreadable as error:
        result.notes.append(str(error))
        for part in pack.tested:
            result.parts[part.name] = PartResult(0.0, part.points, "unreadable", "", str(error), 0.0)
        result.manual = {part.name: {"text": "", "max": part.points} for part in pack.manual}
        return result
    result.notes += rebuilt.notes
    result.missing, result.unclear = rebuilt.missing, rebuilt.unclear
    result.manual = {
        part.name: {"text": rebuilt.texts.get(part.name, ""), "max": part.points} for part in pack.manual
    }
    _Run(pack, rebuilt, server, seed, limits or Limits(), partial or {}, result).all()
    result.parts = {part.name: result.parts[part.name] for part in pack.tested}
    return result


class _Run:
    """A notebook that is run, with its parts being judged on the way."""

    def __init__(
        self,
        pack: Pack,
        rebuilt: Rebuilt,
        server: Server | Unprotected,
        seed: Callable[[str], int],
        limits: Limits,
        partial: Mapping[str, float],
        result: Result,
    ) -> None:
        self.tested = {part.name: part for part in pack.tested}
        asked = [part.expression for part in pack.tested]
        self.cells, self.server, self.seed = needed(rebuilt.cells, asked), server, seed
        self.limits, self.partial, self.result = limits, partial, result
        self.left_out: set[int] = set()
        self.failed: set[int] = set()
        # Cells that raised something in this run; they're suspected first where the process ends later on.
        self.raised: set[int] = set()
        self.suspected: set[int] = set()
        self.trial: int | str | None = None  # what is tried once more without them
        self.for_cells = limits.notebook_seconds
        self.until = time.monotonic() + limits.submission_seconds

    def all(self) -> None:
        name, words = "it was not reached", "The submission's process ended again and again"
        for _ in range(RESTARTS + 1):
            # The student's process is sent the generators' states, which must be nobody else's.
            with checks.fixed_seeds(0), self.server.start(self.limits) as sandbox:
                done = self._once(Grader(sandbox))
            self._account(sandbox)
            if done:
                break
            if said := self._over():
                name, words = said, said.capitalize()
                break
        for part in self.tested.values():
            if part.name not in self.result.parts:
                self._put(part, Verdict("ended", name, f"{words}, so this part was not reached."), 0.0)

    def _over(self) -> str:
        """Return which total time is up, or ""."""
        if time.monotonic() >= self.until:
            return _WHOLE
        return _NOTEBOOK if self.for_cells <= 0 else ""

    def _account(self, sandbox: Sandbox) -> None:
        used = sandbox.close()
        self.result.cpu += used.cpu
        self.result.peak_mb = max(self.result.peak_mb, used.peak_mb)

    def _once(self, grader: Grader) -> bool:
        """Run the cells, and grade what isn't graded; whether the process lived to the end."""
        self.raised = set()
        for index, cell in enumerate(self.cells):
            if index not in self.left_out and cell.source.strip() and not self._cell(grader, index, cell):
                return False
            part = self.tested.get(cell.tests)
            if (
                part is not None
                and part.name not in self.result.parts
                and not self._judge(grader, part, last=False)
            ):
                return False
        return all(
            self._judge(grader, part, last=True)
            for part in self.tested.values()
            if part.name not in self.result.parts
        )

    def _cell(self, grader: Grader, index: int, cell: RunCell) -> bool:
        if said := self._over():
            self._note(f"{said.capitalize()}; the rest was not run.")
            return said == _NOTEBOOK  # there is still time to judge what has been defined
        began, seconds = time.monotonic(), min(self.limits.cell_seconds, self.for_cells)
        grader.deadline = min(began + seconds + _GRACE, self.until)
        try:
            error = grader.cell(cell.source, seconds)
        except Ended as ended:
            if self._to_blame(index, ended):
                self.left_out.add(index)
                self._error(index, cell, "Ended", f"{ended.words}; the rest was run without this cell")
            return False
        finally:
            self.for_cells -= time.monotonic() - began
        if error is not None and cell.kind != "pack":
            self.raised.add(index)
            self._error(index, cell, error["type"][:NAME], error["message"][:MESSAGE])
        return True

    def _note(self, said: str) -> None:
        if said not in self.result.notes:
            self.result.notes.append(said)

    def _error(self, index: int, cell: RunCell, kind: str, message: str) -> None:
        if index not in self.failed:
            self.failed.add(index)
            self.result.errors.append(CellError(cell.place, whole(kind.removeprefix("_")), whole(message)))

    def _judge(self, grader: Grader, part: PackPart, *, last: bool) -> bool:
        """Grade a part; whether the process lives."""
        began = time.monotonic()
        if self._over() == _WHOLE:
            self._note(f"{_WHOLE.capitalize()}; the rest was not run.")
            return False
        grader.deadline = min(began + checks.seconds_of(part.name, self.limits.seconds), self.until)
        try:
            try:
                answer = grader.name(part.expression)
            except Exception as error:
                if last:
                    self._put(part, _missing(part, error), time.monotonic() - began)
                return True
            self._put(part, self._verdict(part, answer), time.monotonic() - began)
            return grader.ended is None  # unless the check's own clock rang
        except Ended as ended:
            if self._to_blame(part.name, ended):
                kind, name = _ENDED[ended.reason]
                self._put(part, Verdict(kind, name, f"✗ Not right: {name}."), time.monotonic() - began)
        return False

    def _to_blame(self, what: int | str, ended: Ended) -> bool:
        """Return whether a cell or a part ended the process itself, rather than leftovers of a failed cell.

        So it's tried once more without such cells. Where that ends the same way, they're innocent.
        """
        if self.trial == what:
            self.left_out -= self.suspected
            self.trial = None
            return True
        if ended.reason == "time" or not self.raised - self.left_out:
            return True
        self.suspected = self.raised - self.left_out
        self.left_out |= self.suspected
        self.trial = what
        return False

    def _verdict(self, part: PackPart, answer: Any) -> Verdict:
        try:
            return checks.run(part.name, answer, self.seed(part.name))
        except checks.UnknownCheck as error:
            return Verdict("returned", "no function", f"✗ Not right: {error}")
        except Exception as error:
            words = f"the check cannot read what came back ({type(error).__name__})"
            return Verdict("returned", words, f"✗ Not right: {words}.")

    def _put(self, part: PackPart, verdict: Verdict, seconds: float) -> None:
        share = 1.0 if verdict.right else float(self.partial.get(verdict.kind, 0.0))
        self.result.parts[part.name] = PartResult(
            part.points * share,
            part.points,
            verdict.kind,
            whole(verdict.name[:_MESSAGE]),
            whole(verdict.message[:_MESSAGE]),
            round(seconds, 3),
        )


def _missing(part: PackPart, error: Exception) -> Verdict:
    what = f"{type(error).__name__}: {error}"
    hint = "Was its cell deleted, or does it stop with an error?"
    words = f"✗ There is no {part.expression} to check.\n  {what}\n  {hint}"
    return Verdict("missing", f"{part.expression} is not there", words)
