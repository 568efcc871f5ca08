"""Read hand-ins without unpacking them: zips, folders and clones that may be hostile.

Nothing is written under a name that a student chose, so a name that leads out of its folder does no harm.
Files are read into memory, within limits. Links and devices in a folder are left out, with a note.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from io import BytesIO
from pathlib import Path

from ppobook.course.rebuild import whole

MOST_FILES = 100_000
LARGEST = 32 * 2**20  # bytes of one file
_JUNK = re.compile(r"(__MACOSX|\.DS_Store|\._.*|\.ipynb_checkpoints|Thumbs\.db|desktop\.ini|\.git)")
_LAST = 10**10 - 1  # seconds: a clock can be set to any year


class RefusedError(ValueError):
    """A file or an archive can't be read: it is damaged, or too large inside."""


@dataclass(frozen=True)
class File:
    """One file of a source: its path in parts, its time if one is known, and how to read it."""

    parts: tuple[str, ...]
    time: datetime | None
    read: Callable[[], bytes]

    @property
    def name(self) -> str:
        return self.parts[-1]


def _is_junk(parts: tuple[str, ...]) -> bool:
    return any(map(_JUNK.fullmatch, parts))


def moment(seconds: float) -> datetime:
    """The time of a file or a commit, which may have been set to any number."""
    return datetime.fromtimestamp(min(max(seconds, 0), _LAST), UTC)


def _within(data: bytes, name: str) -> bytes:
    if len(data) > LARGEST:
        raise RefusedError(f"{whole(name)[:80]} must have at most {LARGEST >> 20} MB")
    return data


def of_zip(content: bytes | Path, zone: tzinfo) -> list[File]:
    """The files of a zip, whose times are read in `zone`; RefusedError if it is damaged or too large."""

    def read(entry: zipfile.ZipInfo) -> bytes:
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # Python decompresses other methods without a limit.
            raise RefusedError(f"{whole(entry.filename)[:80]} must be stored or deflated in the zip")
        try:
            with archive.open(entry) as file:
                return _within(file.read(LARGEST + 1), entry.filename)
        except Exception as error:  # BadZipFile, RuntimeError, zlib.error, lzma.LZMAError, struct.error, …
            raise RefusedError(f"the zip must be whole and not encrypted: {error}") from None

    try:
        archive = zipfile.ZipFile(BytesIO(content) if isinstance(content, bytes) else content)
    except Exception as error:
        raise RefusedError(f"the zip must be whole and not encrypted: {error}") from None
    entries, files = archive.infolist(), []
    if len(entries) > MOST_FILES:
        raise RefusedError(f"the zip must hold at most {MOST_FILES:,} files, got {len(entries):,}")
    for entry in entries:
        parts, time = tuple(one for one in re.split(r"[/\\]", entry.filename) if one not in ("", ".")), None
        with suppress(ValueError):
            time = datetime(*entry.date_time, tzinfo=zone)
        if parts and not entry.is_dir() and not _is_junk(parts):
            # 1980 is what tools write that know no time.
            files.append(File(parts, time if time and time.year > 1980 else None, partial(read, entry)))
    return files


def of_folder(folder: Path) -> tuple[list[File], list[str]]:
    """The files of a folder, and what was left out, since links are not followed."""
    files, notes = [], []
    for path in sorted(folder.rglob("*")):  # not into links
        parts = tuple(map(whole, path.relative_to(folder).parts))
        facts = path.lstat()
        if _is_junk(parts) or stat.S_ISDIR(facts.st_mode):
            continue
        if stat.S_ISREG(facts.st_mode):
            files.append(File(parts, moment(facts.st_mtime), partial(of_file, path)))
        else:
            notes.append(f"{'/'.join(parts)} is a link or no file; left out")
    return files, notes


def of_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return _within(file.read(LARGEST + 1), path.name)
    except OSError as error:
        raise RefusedError(f"{whole(path.name)} must be readable ({error.strerror})") from None


def committed(clone: Path) -> datetime | None:
    """The time of a git clone's last commit; None where there is none, or the folder is no clone.

    A clone's own configuration must not make git run anything.
    """
    git = clone / ".git"
    if git.is_symlink() or clone.is_symlink() or not git.is_dir():
        return None
    line = ["git", "-c", "safe.directory=*", f"--git-dir={git.resolve()}"]
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_ALLOC_LIMIT": "256m",  # some megabytes hold a commit of gigabytes
    }
    line += ["rev-list", "--max-count=1", "--timestamp", "HEAD"]
    with suppress(subprocess.TimeoutExpired, ValueError, IndexError):
        said = subprocess.run(line, env=environ, capture_output=True, timeout=60, check=False).stdout
        return moment(int(said.split()[0]))
    return None
