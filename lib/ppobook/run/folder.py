"""TODO."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from ppobook import validation


class RunFolder(NamedTuple):
    """A run's folder, and the name of the argument that it came in."""

    name: str
    folder: Path

    @classmethod
    def at(cls, name: str, folder: str | Path) -> Self:
        """The home at a path, which must be one."""
        return cls(name, validation.path(name, folder))

    def __str__(self) -> str:
        return f"{self.name}={str(self.folder)!r}"


@contextlib.contextmanager
def locked(home: RunFolder) -> Iterator[None]:
    """Keep a second process from training in the same folder.

    Raises
    ------
    ValueError
        One is training there.
    """
    # The system lets go of such a lock however its holder ends, kill -9 included. Where there is none to be
    # had, as on Windows and some network drives, nothing is locked.
    try:
        import fcntl

        handle = os.open(home.folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{home} is being trained in already; wanted: one at a time") from None
        yield
    finally:
        os.close(handle)


def refuse_unless_writable(home: RunFolder) -> None:
    """Refuse a folder in which no file can be made."""
    try:
        probe = home.folder / "probe.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _unwritable(home, error) from None


def _unwritable(home: RunFolder, error: OSError) -> OSError:
    return OSError(f"{home} cannot be written ({error.strerror}); wanted: a folder that can")


def new_folder(home: RunFolder) -> None:
    """Make the folder, if need be; refuse one that holds something or cannot be written."""
    try:
        home.folder.mkdir(parents=True, exist_ok=True)
        # What a run leaves that was killed before its first checkpoint is nothing worth keeping.
        left = [entry for entry in home.folder.iterdir() if not entry.name.endswith(".part")]
    except OSError as error:
        raise _unwritable(home, error) from None
    refuse_unless_writable(home)
    if left:
        run = checkpoints(home.folder)
        what = f"holds a run already, up to {run[-1].name}" if run else f"holds {left[0].name!r} already"
        go_on = f"resume={str(home.folder)!r} to go on with it, or " if run and home.name == "out" else ""
        raise FileExistsError(f"{home} {what}; wanted: {go_on}a new folder")


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    found = [path for path in folder.iterdir() if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(found, key=update_of)


def update_of(checkpoint: Path) -> int:
    """The update that a checkpoint was written after."""
    return int(checkpoint.name.removeprefix("checkpoint-"))
