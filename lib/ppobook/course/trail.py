"""The trail of a course, `log.jsonl`: who changed what, when and why. A line is never rewritten.

Extensions, regrades and releases stand here; marks and corrections stand in `marks/`, in the same form.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILE = "log.jsonl"


def note(folder: Path, what: str, *, file: str = FILE, **facts: Any) -> None:
    """Append one line to the trail, or to another `file` of this form, flushed to the disk.

    `what` is "extension", "regrade", …, the facts are what JSON can hold: student, part, points, reason, ….
    """
    time = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"time": time, "who": getpass.getuser(), "what": what, **facts}
    path = folder / file
    # A line that was interrupted has no end; the next one must not continue it.
    torn = path.exists() and not path.read_bytes().endswith(b"\n")
    line = f"{chr(10) if torn else ''}{json.dumps(entry, ensure_ascii=False)}\n"
    with path.open("ab", buffering=0) as log:  # in one write, so that lines of two processes don't mix
        log.write(line.encode())
        os.fsync(log.fileno())


def read(folder: Path, file: str = FILE) -> list[dict[str, Any]]:
    """All lines of the trail, or of another file of this form; a line that was interrupted is left out."""
    path = folder / file
    entries = []
    # Not by `splitlines`, for which some characters of a comment end a line.
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else ():
        with suppress(ValueError):
            entries.append(json.loads(line))
    return [entry for entry in entries if isinstance(entry, dict) and "what" in entry]


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock that the system releases however its holder ends, kill -9 included.

    If another process holds it, raise a ValueError that says `busy`.
    """
    import fcntl  # which Windows lacks

    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(busy) from None
        yield
    finally:
        os.close(handle)
