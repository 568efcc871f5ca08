"""One submission: rebuilt, run in a sandbox, and judged from outside of it.

    result = grade_submission(pack, path.read_bytes(), seed=part_seeds(secret, "ada", path.read_bytes()))
    result.points, result.parts["clipped-loss"].kind

The student's cells are run in order. At each test cell of the pack the book's check looks at what the cell
hands over, in this process, with problems drawn from a number that nobody knows. A cell or a function that
ends its process, or never ends, loses what it was asked for and nothing else: the notebook is run again
without it.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ppobook.teaching import checks
from ppobook.teaching.checks import Verdict
from ppobook.teaching.tags import Notebook

from .calls import MESSAGE, NAME, Grader
from .needed import needed
from .pictures import renewed
from .rebuild import Rebuilt, RunCell, Unreadable, rebuild, whole
from .records import Pack, PackPart, digest, keyed_digest
from .sandbox import Ended, Limits, Sandbox

RESTARTS = 6  # how often a notebook is run again because its process ended
_MESSAGE = 10_000  # characters of a paragraph that is said of a part
_GRACE = 3.0  # seconds that a cell has to end after its clock has rung

_CELLS = "the notebook's cells took more than half of the submission's time, so this one was not run"


@dataclass(frozen=True)
class PartResult:
    """The verdict on one part.

    kind and mistake are those of the check; or kind is "missing" (there is nothing to check),
    "unreadable" (the notebook is none) or "ended" (the process didn't live to answer). ``said`` are the
    paragraphs of the check, or a reason.
    """

    points: float
    kind: str
    mistake: str
    said: tuple[str, ...] = ()


@dataclass
class Result:
    """The result of grading one submission; an error of a cell has its place, its type and its message."""

    parts: dict[str, PartResult] = field(default_factory=dict)
    manual: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    errors: list[dict[str, str]] = field(default_factory=list)


def part_seeds(secret: str, student: str, submission: bytes) -> Callable[[str], int]:
    """The number from which a part's random problems are drawn.

    It is another for each student, part and submission: what one submission finds out about its problems is
    worth nothing to the next. The same bytes get the same problems.
    """
    content = digest(submission)

    def seed(part: str) -> int:
        return int.from_bytes(keyed_digest(secret, f"probes/{student}/{content}/{part}")[:8], "big") | 1

    return seed


def grade_submission(
    pack: Pack,
    submission: bytes,
    *,
    seed: Callable[[str], int] = lambda part: 0,
    limits: Limits | None = None,
    only: str | None = None,
    earlier: Sequence[Notebook] = (),
) -> Result:
    """Grade the bytes of a notebook that was handed in.

    `seed` gives, by a part's name, the number that its random problems are drawn from: see `part_seeds`.
    `only` is the one part that is judged. `earlier` are the packs that were handed out before.
    """
    try:
        rebuilt = rebuild(pack.notebook, submission, earlier)
    except Unreadable as error:
        return ungraded(pack, "unreadable", str(error))
    result = _result(pack, rebuilt)
    tested = [part for part in pack.tested if only in (None, part.name)]
    _Run(tested, rebuilt, seed, limits or Limits(), result).all()
    result.parts = {part.name: result.parts[part.name] for part in tested}
    return result


def ungraded(
    pack: Pack, kind: str, reason: str, submission: bytes | None = None, earlier: Sequence[Notebook] = ()
) -> Result:
    """The result of a submission that can't be graded: nothing for each part, and the reason.

    Its answers in words are in it, where `submission` is given and can be read.
    """
    result = _result(pack, Rebuilt())
    if submission is not None:
        with contextlib.suppress(Exception):  # the reason is known already
            result = _result(pack, rebuild(pack.notebook, submission, earlier))
    result.parts = {p.name: PartResult(0.0, kind, "", (whole(reason),)) for p in pack.tested}
    return result


def _result(pack: Pack, rebuilt: Rebuilt) -> Result:
    names = [p.name for p in pack.manual]
    texts = renewed([*(rebuilt.texts.get(name, "") for name in names), *rebuilt.unclear])
    manual = dict(zip(names, texts, strict=False))
    return Result(manual=manual, missing=rebuilt.missing, unclear=texts[len(names) :])


class _Run:
    """A notebook that is run, with its parts being judged on the way."""

    def __init__(
        self,
        tested: list[PackPart],
        rebuilt: Rebuilt,
        seed: Callable[[str], int],
        limits: Limits,
        result: Result,
    ) -> None:
        self.tested = {part.name: part for part in tested}
        self.cells, self.seed = needed(rebuilt.cells, [part.expression for part in tested]), seed
        self.limits, self.result = limits, result
        self.left_out: set[int] = set()
        self.failed: set[int] = set()
        self.slow: set[int] = set()  # cells that ran out of time: what they started may still run
        self.cells_until = time.monotonic() + limits.submission_seconds / 2
        self.until = time.monotonic() + limits.submission_seconds

    def all(self) -> None:
        why = "its process ended again and again"
        for _ in range(RESTARTS + 1):
            # The student's process is sent seeds that are drawn, which must be nobody else's.
            with checks.fixed_seeds(0), Sandbox(self.limits) as sandbox:
                done = self._once(Grader(sandbox))
            if done:
                break
            if time.monotonic() >= self.until:
                why = "the submission as a whole took longer than it may"
                break
        for part in self.tested.values():
            if part.name not in self.result.parts:
                self._put(part, "ended", why)

    def _once(self, grader: Grader) -> bool:
        """Run the cells, and grade what isn't graded; whether the process lived to the end."""
        for index, cell in enumerate(self.cells):
            if index not in self.left_out and cell.source.strip() and not self._cell(grader, index, cell):
                return False
            if (part := self._open(cell.tests)) and not self._judge(grader, part, last=False):
                return False
        return all(self._judge(grader, part, last=True) for name in self.tested if (part := self._open(name)))

    def _open(self, name: str) -> PackPart | None:
        return None if name in self.result.parts else self.tested.get(name)

    def _cell(self, grader: Grader, index: int, cell: RunCell) -> bool:
        now = time.monotonic()
        if now >= self.cells_until:  # there is still time to judge what has been defined
            self._error(index, cell, "TooSlow", _CELLS)
            return now < self.until
        seconds = min(self.limits.cell_seconds, self.cells_until - now)
        grader.sandbox.deadline = now + seconds + _GRACE
        try:
            error = grader.cell(cell.source, seconds)
        except Ended as ended:
            if not self._leftovers(ended):
                self.left_out.add(index)
                self._error(index, cell, "Ended", f"{ended.words}; the rest was run without this cell")
            return False
        if error is not None and error["type"] == "_TooSlow":
            self.slow.add(index)
        if error is not None:
            self._error(index, cell, error["type"][:NAME], error["message"][:MESSAGE])
        return True

    def _leftovers(self, ended: Ended) -> bool:
        """Return whether what a slow cell left running may have ended the process; it is then left out."""
        suspects = self.slow - self.left_out if ended.reason != "time" else set()
        self.left_out |= suspects
        return bool(suspects)

    def _error(self, index: int, cell: RunCell, kind: str, message: str) -> None:
        if index not in self.failed and cell.kind != "pack":
            self.failed.add(index)
            said = {"type": whole(kind.removeprefix("_")), "message": whole(message)}
            self.result.errors.append({"place": cell.place, **said})

    def _judge(self, grader: Grader, part: PackPart, *, last: bool) -> bool:
        """Grade a part; whether the process lives."""
        began = time.monotonic()
        if began >= self.until:
            return False
        seconds = checks.seconds_of(part.name, self.limits.seconds)
        grader.sandbox.deadline = min(began + seconds, self.until)
        try:
            try:
                answer = grader.name(part.expression)
            except Exception as error:
                if last:
                    said = f"{type(error).__name__}: {error}"
                    self._put(part, "missing", f"{part.expression} is not there", said)
                return True
            try:
                verdict = checks.run(part.name, answer, self.seed(part.name), seconds)
            except Exception as error:
                words = f"the check cannot read what came back ({type(error).__name__}: {error})"
                verdict = Verdict("returned", words, "")
            self._put(part, verdict.kind, verdict.name, *_paragraphs(verdict.message))
        except Ended as ended:
            if not self._leftovers(ended):
                self._put(part, "slow" if ended.reason == "time" else "ended", ended.words)
        return grader.ended is None

    def _put(self, part: PackPart, kind: str, *said: str) -> None:
        name, *paragraphs = (whole(text[:_MESSAGE]) for text in said)
        points = part.points if kind == "right" else 0.0
        self.result.parts[part.name] = PartResult(points, kind, name, tuple(paragraphs))


def _paragraphs(message: str) -> list[str]:
    """The paragraphs below the first line of a check's message, each in one line as before it was wrapped."""
    joined: list[str] = []
    for line in message.splitlines()[1:]:
        if re.match(r"  \S", line) or not joined:
            joined.append(line.strip())
        else:
            joined[-1] += f" {line.strip()}"
    return joined
