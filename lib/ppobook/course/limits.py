"""Limits on a submission while it is graded, and the ways in which its process ends early."""

from __future__ import annotations

from dataclasses import dataclass

# By the reason, what a reader is told.
_WORDS = {
    "time": "it was still running when the time was up",
    "memory": "it needed more memory than it may have",
    "ended": "it ended the process that it ran in",
    "forged": "what its process sent back was no answer",
}


@dataclass(frozen=True)
class Limits:
    """The resources that a submission may use.

    seconds is for a check and cell_seconds for a cell; the others are for the submission as a whole, of whose
    time all cells together have one half.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - for `ppobook.course.settings`

    seconds: float = 20
    cell_seconds: float = 60
    submission_seconds: float = 1800
    memory_mb: int = 2048
    disk_mb: int = 256
    processes: int = 64


class Ended(BaseException):
    """The other process doesn't answer any more, or not in this form. No `except Exception` swallows it.

    reason is "time", "ended", "memory" or "forged"; the words are for a reader.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(_WORDS[reason])
        self.reason, self.words = reason, _WORDS[reason]
