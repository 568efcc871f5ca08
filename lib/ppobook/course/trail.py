"""The trail of a course, `log.jsonl`: who changed what, when and why. A line is never rewritten.

Extensions, regrades and releases stand here; marks and corrections stand in `marks/`, in the same form.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILE = "log.jsonl"


def note(folder: Path, what: str, *, file: str = FILE, **facts: Any) -> dict[str, Any]:
    """Append one line to the trail, or to another file of this form, flushed to the disk, and return it.

    Parameters
    ----------
    folder : Path
        The course's folder.
    what : str
        "extension", "regrade", …
    file : str
        The file's path in the folder.
    **facts
        What JSON can hold: student, assignment, part, points, reason, …
    """
    time = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"time": time, "who": _who(), "what": what, **facts}
    path = folder / file
    with locked(folder / f".{FILE}.lock"):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = os.fstat(handle).st_size
            # A line that was interrupted has no end; the next one must not continue it.
            os.lseek(handle, max(size - 1, 0), os.SEEK_SET)
            torn = size > 0 and os.read(handle, 1) != b"\n"
            text = json.dumps(entry, ensure_ascii=False)
            os.write(handle, f"{chr(10) if torn else ''}{text}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
    return entry


def reason(text: str) -> str:
    """Why somebody decided something, as it is noted: without blanks around it.

    Raises
    ------
    ValueError
        It is empty.
    """
    text = text.strip()
    if not text:
        raise ValueError("reason must be a sentence, got nothing")
    return text


def read(folder: Path, file: str = FILE) -> list[dict[str, Any]]:
    """All lines of the trail, or of another file of this form; a line that was interrupted is left out."""
    path = folder / file
    if not path.exists():
        return []
    entries = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


@contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a lock that the system releases however its holder ends, kill -9 included.

    Parameters
    ----------
    path : Path
        The lock's file; made if it is not there.
    busy : str, optional
        What to say if another process holds it. If left out, wait until it is free.

    Raises
    ------
    ValueError
        Another process holds the lock, and `busy` was given.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise ValueError(busy) from None
        yield
    finally:
        os.close(handle)


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "unknown"
