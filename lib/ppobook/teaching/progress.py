"""Record the findings of a reader's checks, in the reader's own folder and nowhere else.

`check` hands each verdict to `record`, the drill each time on its clock, and the desk the learning path that
was chosen. They become lines of `.progress.jsonl` in the folder of copies that `ppobook work` made, and
`ppobook.teaching.desk` reads them.

Recorded is only what a person does in a notebook of that folder: there has to be a kernel of Jupyter, its
folder or one above has to be the folder of copies, and no variable of `OFF` is set. The builder of the
notebooks sets the first of them, a continuous integration the second, and pytest, which nbval runs in, the
others; all of these hand them on to the kernels that they start. A grader judges answers in a process of its
own without a kernel.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppobook.teaching.workspace import around

FILE = ".progress.jsonl"
OFF = ("PPOBOOK_BUILD", "CI", "PYTEST_VERSION", "PYTEST_CURRENT_TEST")
_NO = ("0", "false", "no", "off")
_LATEST = 1e11  # seconds: some thousand years
_LONGEST = 200  # characters of what a verdict names
_FAR = 2**30  # bytes: where the lock on Windows lies
_refused: set[Path] = set()  # files of which it was said that they can't be written to


class ProgressError(OSError):
    """The folder's record can't be read or removed: a notebook shows the message without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@dataclass(frozen=True)
class Finding:
    """A verdict on an exercise: when, which check, and the kind and the name that the verdict has."""

    at: float
    check: str
    kind: str
    what: str


@dataclass(frozen=True)
class Time:
    """A time on the drill's clock: when, which of its formulas, and how long it took."""

    at: float
    drill: str
    seconds: float


@dataclass(frozen=True)
class Choice:
    """The learning path that was chosen, by its name; "" for none."""

    at: float
    path: str


@dataclass(frozen=True)
class Kept:
    """The record of a folder, in the order of recording, and the number of lines that can't be read."""

    findings: tuple[Finding, ...] = ()
    times: tuple[Time, ...] = ()
    broken: int = 0
    path: str = ""
    """The learning path that was chosen last."""


def place() -> Path | None:
    """The folder to record in; None where nothing is recorded."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if off() or getattr(shell, "kernel", None) is None:
        return None
    # An answer may have gone to another folder, and a kernel knows where it began.
    return around(Path.cwd()) or around(Path(getattr(shell, "starting_dir", ".")))


def off() -> str:
    """The variable of the environment because of which nothing is recorded; "" where there is none."""
    if _set("PPOBOOK_PROGRESS") in _NO:
        return "PPOBOOK_PROGRESS"
    return next((name for name in OFF if _set(name) not in ("", *_NO)), "")


def _set(name: str) -> str:
    return os.environ.get(name, "").strip().lower()


def record(folder: Path, **entry: Any) -> None:
    """Add a line to what the folder keeps.

    A line is written by one call at the end of the file, on Windows under a lock, so that two kernels can
    record at once. It begins with the line break: after a line that was cut off, by a full disk for one, it
    stands by itself. Where nothing can be written, a sentence says so, once.
    """
    entry = {key: value[:_LONGEST] if isinstance(value, str) else value for key, value in entry.items()}
    line = "\n" + json.dumps({"at": round(time.time()), **entry})
    # Without O_NONBLOCK a pipe of this name would wait for its reader, and with it the check.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
    try:
        file = os.open(folder / FILE, flags | getattr(os, "O_BINARY", 0), 0o644)
        try:
            with _alone(file):
                os.write(file, line.encode())
        finally:
            os.close(file)
    except OSError as error:
        if folder / FILE not in _refused:
            _refused.add(folder / FILE)
            print(f"(Not recorded: {folder / FILE} must be a file that can be written to, {error.strerror}.)")


@contextmanager
def _alone(file: int) -> Iterator[None]:
    """On Windows, keep other processes from adding a line meanwhile.

    There, to write at the end is to look for the end and then to write, and two could find the same one. What
    is locked is a byte far behind the end: nobody could read a line whose bytes are locked.
    """
    if sys.platform != "win32":
        yield
        return
    import msvcrt

    locked = False
    with suppress(OSError):  # some network drives have no locks
        os.lseek(file, _FAR, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_LOCK, 1)
        locked = True
    try:
        yield
    finally:
        if locked:
            os.lseek(file, _FAR, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_UNLCK, 1)


def read(folder: Path) -> Kept:
    """Read the record of the folder; a line that is no record is left out and counted.

    Raises
    ------
    ProgressError
        There is something that can't be read.
    """
    try:
        # A pipe of this name would wait for its writer.
        if (folder / FILE).exists() and not (folder / FILE).is_file():
            raise ProgressError(f"{folder / FILE} must be a file that can be read, and is no file")
        lines = (folder / FILE).read_bytes().splitlines()
    except FileNotFoundError:
        return Kept()
    except ProgressError:
        raise
    except OSError as error:
        raise ProgressError(f"{folder / FILE} must be a file that can be read ({error.strerror})") from None
    found = [_parsed(line) for line in lines if line.strip()]
    return Kept(
        findings=tuple(one for one in found if isinstance(one, Finding)),
        times=tuple(one for one in found if isinstance(one, Time)),
        broken=found.count(None),
        path=next((one.path for one in reversed(found) if isinstance(one, Choice)), ""),
    )


def _parsed(line: bytes) -> Finding | Time | Choice | None:
    try:
        entry = json.loads(line)
        if entry.keys() == {"at", "check", "kind", "what"}:
            words = (entry[key] for key in ("check", "kind", "what"))
            return Finding(_number(entry["at"]), *map(_text, words))
        if entry.keys() == {"at", "drill", "seconds"}:
            return Time(_number(entry["at"]), _text(entry["drill"]), _number(entry["seconds"]))
        if entry.keys() == {"at", "path"}:
            return Choice(_number(entry["at"]), _text(entry["path"]))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        pass
    return None


def _number(value: Any) -> float:
    if isinstance(value, bool) or not 0 <= value < _LATEST:
        raise ValueError
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return "".join(character if character.isprintable() else " " for character in value)


def clear(folder: Path) -> bool:
    """Forget everything that the folder keeps; returns whether there was something.

    Raises
    ------
    ProgressError
        It can't be removed.
    """
    try:
        (folder / FILE).unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ProgressError(
            f"{folder / FILE} must be a file that can be removed ({error.strerror})"
        ) from None
    return True


def best(kept: Kept) -> dict[str, float]:
    """The shortest time of each formula of the drill, in seconds."""
    found: dict[str, float] = {}
    for one in kept.times:
        found[one.drill] = min(one.seconds, found.get(one.drill, math.inf))
    return found
