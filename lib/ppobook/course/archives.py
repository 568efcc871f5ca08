"""Read hand-ins without unpacking them: zips, folders and clones that may be hostile.

Nothing is written under a name that somebody chose: a submission's files are read into memory, within limits,
and links, devices and names that lead out of their folder are left out, with a note.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from ppobook.course.rebuild import whole

_JUNK = re.compile(r"(__MACOSX|\.DS_Store|\._.*|\.ipynb_checkpoints|Thumbs\.db|desktop\.ini)")
# A zip's times begin here; ours and other tools' fixed ones are no times.
_EPOCH = (1980, 1, 1)
_LAST = 10**10 - 1  # seconds, in the year 2286: a clock says what it likes
_LISTED = 16 * 2**20  # bytes of the names in a clone, which a few kB on the disk can make endless
_COMMIT = 2**16


class RefusedError(ValueError):
    """An archive is damaged, or larger inside than anybody's work is."""


@dataclass(frozen=True)
class Limits:
    """Limits of one archive: files, bytes of one file and of all, and how far it may compress a file.

    ``strict``: one file that is too large refuses all of the archive; else only that file can't be read.
    """

    files: int = 2000
    file: int = 32 * 2**20
    total: int = 128 * 2**20
    ratio: int = 200
    strict: bool = True


# What a platform makes of a whole class, in which one student's file must not stop everybody's.
CLASS = Limits(files=100_000, file=64 * 2**20, total=64 * 2**30, strict=False)
STUDENT = Limits()


@dataclass(frozen=True)
class File:
    """One file of a source: its path in parts, its time if one is known, and how to read it."""

    parts: tuple[str, ...]
    time: datetime | None
    read: Callable[[], bytes]

    @property
    def name(self) -> str:
        return self.parts[-1]


@dataclass
class Source:
    """The files of a source, and what was left out of it, a sentence each with the path in front."""

    files: list[File] = field(default_factory=list)
    notes: list[tuple[tuple[str, ...], str]] = field(default_factory=list)


def _parts(name: str) -> tuple[str, ...] | None:
    """A path in parts; None for one that leads out of its folder."""
    parts = tuple(one for one in name.replace("\\", "/").split("/") if one not in ("", "."))
    outside = name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name) or ".." in parts or "\0" in name
    return None if outside or not parts else parts


def moment(seconds: float) -> datetime:
    """The time of a file or a commit, which may have been set to any number."""
    return datetime.fromtimestamp(min(max(seconds, 0), _LAST), UTC)


def is_junk(parts: tuple[str, ...]) -> bool:
    """Return whether a path belongs to an operating system or an editor."""
    return any(_JUNK.fullmatch(one) for one in parts)


# --- zips ---------------------------------------------------------------------------------------------------


@contextmanager
def _opened(content: bytes | Path) -> Iterator[zipfile.ZipFile]:
    file: BinaryIO | str = BytesIO(content) if isinstance(content, bytes) else str(content)
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except RefusedError:
        raise
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        EOFError,
        RuntimeError,
        ValueError,
        OverflowError,
    ) as error:
        raise RefusedError(f"the zip must be whole, got a damaged or encrypted one ({error})") from None
    except Exception as error:  # zlib.error, lzma.LZMAError, struct.error
        raise RefusedError(f"the zip must be whole, got a damaged one ({error})") from None


def of_zip(content: bytes | Path, zone: tzinfo, limits: Limits = STUDENT) -> Source:
    """The files of a zip.

    Raises
    ------
    RefusedError
        It is damaged or encrypted, or holds more than the limits allow.
    """
    source = Source()
    with _opened(content) as archive:
        entries = archive.infolist()
        if len(entries) > limits.files:
            raise RefusedError(f"the zip must hold at most {limits.files:,} files, got {len(entries):,}")
        total = 0
        for entry in entries:
            parts = _parts(entry.filename)
            if parts is None:
                source.notes.append(((), f"{entry.filename[:80]!r} leads out of the zip; left out"))
                continue
            if entry.is_dir() or is_junk(parts):
                continue
            if stat.S_ISLNK(entry.external_attr >> 16):
                source.notes.append((parts, f"{'/'.join(parts)} is a link; left out"))
                continue
            total += entry.file_size
            if total > limits.total:
                raise RefusedError(f"the zip must hold at most {limits.total >> 20:,} MB, got a larger one")
            if limits.strict:
                _judge(entry, limits)

            def read(entry: zipfile.ZipInfo = entry) -> bytes:
                _judge(entry, limits)
                return _member(content, entry, limits)

            source.files.append(File(parts, _entry_time(entry, zone), read))
    return source


def _judge(entry: zipfile.ZipInfo, limits: Limits) -> None:
    """Refuse a file that is too large, by what the zip says of it."""
    grows = entry.file_size / max(entry.compress_size, 1)
    if entry.file_size > limits.file:
        raise RefusedError(f"a file in the zip must have at most {limits.file >> 20:,} MB, got a larger one")
    if grows > limits.ratio and entry.file_size > 2**20:
        raise RefusedError(f"the zip must hold plain work, got a file that grows {grows:,.0f}-fold")


def _member(content: bytes | Path, entry: zipfile.ZipInfo, limits: Limits) -> bytes:
    with _opened(content) as archive, archive.open(entry) as file:
        # What an entry says of its size may be a lie.
        data = file.read(limits.file + 1)
    if len(data) > min(limits.file, entry.file_size):
        raise RefusedError("the zip must hold what it says, got a larger file")
    return data


def _entry_time(entry: zipfile.ZipInfo, zone: tzinfo) -> datetime | None:
    if entry.date_time[:3] <= _EPOCH:
        return None
    try:
        return datetime(*entry.date_time, tzinfo=zone)
    except ValueError:
        return None


# --- folders ------------------------------------------------------------------------------------------------


def of_folder(folder: Path, limits: Limits = CLASS) -> Source:
    """The files of a folder. Links are not followed."""
    source = Source()
    for path, folders, files in os.walk(folder, followlinks=False):
        here = Path(path)
        for name in sorted([*folders, *files]):
            # A name may be no text, such as one in another system's letters.
            parts = tuple(map(whole, (here / name).relative_to(folder).parts))
            mode = (here / name).lstat().st_mode
            if stat.S_ISDIR(mode) or is_junk(parts):
                continue
            if not stat.S_ISREG(mode):
                source.notes.append((parts, f"{'/'.join(parts)} is a link or no file; left out"))
                continue
            time = moment((here / name).lstat().st_mtime)

            def read(path: Path = here / name) -> bytes:
                return _regular(path, limits.file)

            source.files.append(File(parts, time, read))
        folders[:] = sorted(one for one in folders if one != ".git" and not _JUNK.fullmatch(one))
    source.files.sort(key=lambda file: file.parts)
    return source


def _regular(path: Path, most: int) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        raise RefusedError(f"{whole(path.name)} must be readable ({error.strerror})") from None
    with os.fdopen(handle, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise RefusedError(f"{whole(path.name)} must be at most {most >> 20} MB")
    return data


# --- clones -------------------------------------------------------------------------------------------------


def is_clone(folder: Path) -> bool:
    """Return whether a folder is a git clone of its own."""
    git = folder / ".git"
    return git.is_dir() and not git.is_symlink() and not folder.is_symlink()


def of_clone(folder: Path, limits: Limits = STUDENT) -> tuple[Source, datetime]:
    """The files of a clone's HEAD and the time of that commit. The work tree is not looked at.

    Raises
    ------
    RefusedError
        There is no commit, or git can't read it; or it borrows from another repository, which may be another
        student's.
    """
    _refuse_borrowing(folder / ".git")
    commit = _git(folder, "cat-file", "commit", "HEAD", most=_COMMIT)
    found = re.search(rb"^committer .*? (\d{1,12}) [+-]\d{4}$", commit, re.M)
    if found is None:
        raise RefusedError("the clone must have a commit with a time")
    time = moment(int(found[1]))
    source = Source()
    listed = _git(folder, "ls-tree", "-r", "-z", "HEAD", most=_LISTED)
    for line in listed.decode("utf-8", "replace").split("\0"):
        if not line:
            continue
        facts, _, name = line.partition("\t")
        mode, kind, object_id = facts.split()
        parts = _parts(name)
        if parts is None or kind != "blob" or mode == "120000":
            source.notes.append(((), f"{name[:80]} is a link or no file; left out"))
            continue
        if is_junk(parts):
            continue

        def read(object_id: str = object_id) -> bytes:
            return _git(folder, "cat-file", "blob", object_id, most=limits.file)

        source.files.append(File(parts, time, read))
    return source, time


def _refuse_borrowing(git: Path) -> None:
    """Refuse a repository whose commits and files may lie in another one."""
    for name in ("commondir", "objects/info/alternates"):
        if (git / name).exists():
            raise RefusedError(f"the clone must hold its own commits, got one that borrows them ({name})")
    for path, folders, files in os.walk(git, followlinks=False):
        for name in (*folders, *files):
            if (Path(path) / name).is_symlink():
                raise RefusedError("the clone must hold its own commits, got one with links in .git")


def _git(folder: Path, *words: str, most: int) -> bytes:
    """Return the output of a plumbing command of git, up to so many bytes.

    A clone's own configuration must not make git run anything.
    """
    quiet = ["-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "safe.directory=*"]
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }
    try:
        process = subprocess.Popen(
            ["git", *quiet, f"--git-dir={folder / '.git'}", *words],
            env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        raise RefusedError("git must be installed to collect from clones") from None
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    clock = threading.Timer(60.0, end)
    clock.start()
    with process:
        assert process.stdout is not None
        said = process.stdout.read(most + 1)
        if len(said) > most:
            process.kill()
    clock.cancel()
    if late.is_set():
        raise RefusedError("git must read a clone within a minute")
    if len(said) > most:
        what = "a file" if "blob" in words else "the names of all files" if "ls-tree" in words else "a commit"
        size = f"{most >> 20} MB" if most >= 2**20 else f"{most >> 10} kB"
        raise RefusedError(f"{what} in the clone must have at most {size}, got more")
    if process.returncode:
        raise RefusedError("the clone must have a commit that git can read")
    return said
