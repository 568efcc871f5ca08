"""Writing files so that no reader ever sees half of one. Importing this module imports nothing heavy."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and flush it to the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def atomic_write(path: str | Path, content: bytes | str, *, sync: bool = True) -> None:
    """Write or replace a file in one step: an interruption leaves the old file intact, with who may read it.

    With `sync` it is flushed to the disk first, against a loss of power. A string is encoded as UTF-8.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    content = content.encode() if isinstance(content, str) else content
    try:
        if sync:
            write_synced(part, content)
        else:
            part.write_bytes(content)
        if path.exists():
            part.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
