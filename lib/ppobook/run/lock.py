"""One process at a time trains in a folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ppobook.run.folder import RunFolder


@contextlib.contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Keep other processes from training in the folder.

    Raises
    ------
    ValueError
        Another process is training there.
    """
    # The system releases the lock however its holder ends, kill -9 included. Where there are no such locks
    # (Windows, some network drives), nothing is locked.
    try:
        import fcntl

        handle = os.open(folder.path, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"{folder} must be a folder that no other process trains in, got one in use"
                ) from None
        yield
    finally:
        os.close(handle)
