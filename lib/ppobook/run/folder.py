"""The folder of a run, and the checkpoints in it."""

from __future__ import annotations

import difflib
import errno
import re
import shutil
from pathlib import Path
from typing import NamedTuple, Self

from ppobook import validation
from ppobook.run.naming import named


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
        return named(self.argument, self.path)


def checkpoints(path: Path) -> list[Path]:
    """The complete checkpoints in a folder, oldest first."""
    found = [entry for entry in path.iterdir() if re.fullmatch(r"checkpoint-\d+", entry.name)]
    return sorted(found, key=update_of)


def update_of(checkpoint: Path) -> int:
    """The update after which a checkpoint was written."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def holds(path: Path, update: int) -> bool:
    """Whether a folder holds the checkpoint that was written after an update."""
    try:
        return any(update_of(one) == update for one in checkpoints(path))
    except OSError:  # the folder is gone
        return False


def is_run(path: str | Path) -> bool:
    """Whether a path is the folder of a run."""
    path = Path(path)
    return path.is_dir() and bool(checkpoints(path))


def folders_like(path: str | Path) -> str:
    """The end of a message about a path: the folders of runs and models beside it that are spelled alike."""
    path = Path(path)
    try:
        near = [
            entry.name
            for entry in path.parent.iterdir()
            if is_run(entry) or (entry / "config.json").is_file()
        ]
    except OSError:
        return ""
    alike = [str(path.parent / name) for name in difflib.get_close_matches(path.name, near, n=2)]
    return f". Did you mean {' or '.join(map(repr, alike))}?" if alike else ""


def refuse_unless_writable(folder: RunFolder) -> None:
    """Raise OSError if no file can be created in the folder."""
    try:
        probe = folder.path / "probe.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unwritable(folder, error) from None


def files_without_update(path: Path) -> list[Path]:
    """All that a run without an update has written; nothing where the folder holds anything else."""
    try:
        if not is_run(path) or update_of(checkpoints(path)[-1]):
            return []
    except OSError:  # no folder can have this name, which `make_new` says
        return []
    known = ("checkpoint-000000", "config.json", "history.csv", "events.out.tfevents.*", "*.part")
    entries = list(path.iterdir())
    return entries if all(any(entry.match(name) for name in known) for entry in entries) else []


def remove(entries: list[Path]) -> None:
    """Delete files and folders."""
    for entry in entries:
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def make_new(folder: RunFolder) -> None:
    """Create the folder.

    Raises
    ------
    OSError
        It holds something already, or can't be written.
    """
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        # A run that was killed before its first checkpoint leaves nothing worth keeping.
        entries = [entry for entry in folder.path.iterdir() if not entry.name.endswith(".part")]
    except OSError as error:
        raise unwritable(folder, error) from None
    refuse_unless_writable(folder)
    if entries:
        run = checkpoints(folder.path)
        what = f"one that holds a run up to {run[-1].name}" if run else f"one that holds {entries[0].name!r}"
        hint = (
            f". Pass {named('resume', folder.path)} to continue it"
            if run and folder.argument == "out"
            else ""
        )
        raise FileExistsError(f"{folder} must be a new folder, got {what}{hint}")


def unwritable(folder: RunFolder, error: OSError) -> OSError:
    """The error that nothing more can be written into a folder."""
    must = "be on a disk with room left" if is_full(error) else "be a folder that can be written"
    # What is replaced is named second; a part of it, before it is whole, has a name of its own.
    file = Path(str(error.filename2 or error.filename or folder.path))
    what = "" if file == folder.path or file.suffix == ".part" else f"{file.name}: "
    return OSError(f"{folder} must {must}, got: {what}{error.strerror or error}")


def is_full(error: OSError) -> bool:
    """Whether what failed is that the disk, or one's share of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
