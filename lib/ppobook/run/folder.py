"""The folder of a run, the checkpoints in it, and its lock."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from ppobook import validation


class RunFolder(NamedTuple):
    """The folder of a run, and the argument that it was passed as, for messages."""

    argument: str
    path: Path

    @classmethod
    def at(cls, argument: str, path: str | Path) -> Self:
        """The folder at a path, which is checked to be one."""
        return cls(argument, validation.path(argument, path))

    def absolute(self) -> Self:
        """The same folder, wherever the working directory moves to."""
        return self._replace(path=self.path.absolute())

    def __str__(self) -> str:
        return f"{self.argument}={str(self.path)!r}"


def checkpoints(path: Path) -> list[Path]:
    """The complete checkpoints in a folder, oldest first."""
    found = [entry for entry in path.iterdir() if re.fullmatch(r"checkpoint-\d+", entry.name)]
    return sorted(found, key=update_of)


def update_of(checkpoint: Path) -> int:
    """The update after which a checkpoint was written."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def is_run(path: str | Path) -> bool:
    """Return True if a path is the folder of a run."""
    path = Path(path)
    return path.is_dir() and bool(checkpoints(path))


def make_new(folder: RunFolder) -> None:
    """Create the folder; OSError if it holds something already, or can't be written."""
    folder.path.mkdir(parents=True, exist_ok=True)
    # A run that was killed before its first checkpoint leaves nothing worth keeping.
    entries = [entry for entry in folder.path.iterdir() if not entry.name.endswith(".part")]
    if entries:
        run = checkpoints(folder.path)
        what = f"one that holds a run up to {run[-1].name}" if run else f"one that holds {entries[0].name!r}"
        goes_on = run and folder.argument == "out"
        hint = f". Pass resume={str(folder.path)!r} to continue it" if goes_on else ""
        raise FileExistsError(f"{folder} must be a new folder, got {what}{hint}")


@contextlib.contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Keep other processes from training in the folder; ValueError if one does.

    The system releases the lock however its holder ends, kill -9 included. Windows has no such locks.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder.path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{folder} must be a folder that no other process trains in, got one in use"
            ) from None
        yield
    finally:
        os.close(handle)
