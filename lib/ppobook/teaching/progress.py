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
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ppobook.teaching.workspace import around

FILE = ".progress.jsonl"
OFF = ("PPOBOOK_BUILD", "CI", "PYTEST_VERSION", "PYTEST_CURRENT_TEST")
_NO = ("0", "false", "no", "off")
_LONGEST = 200  # characters of what a verdict names


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
    reader = shell()
    if reader is None:
        return None
    # An answer may have gone to another folder, and a kernel knows where it began.
    return around(Path.cwd()) or around(Path(getattr(reader, "starting_dir", ".")))


def shell() -> Any:
    """IPython's shell in the kernel of a reader; None elsewhere, and where a variable of `OFF` is set."""
    found = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return None if off() or getattr(found, "kernel", None) is None else found


def off() -> str:
    """The variable of the environment because of which nothing is recorded; "" where there is none."""
    if _set("PPOBOOK_PROGRESS") in _NO:
        return "PPOBOOK_PROGRESS"
    return next((name for name in OFF if _set(name) not in ("", *_NO)), "")


def _set(name: str) -> str:
    return os.environ.get(name, "").strip().lower()


def record(folder: Path, **entry: Any) -> None:
    """Add a line to what the folder keeps, in one call at the end of the file, so that two kernels can.

    It begins with the line break: after a line that was cut off, by a full disk for one, it stands by itself.
    """
    entry = {key: value[:_LONGEST] if isinstance(value, str) else value for key, value in entry.items()}
    line = "\n" + json.dumps({"at": round(time.time()), **entry})
    with (folder / FILE).open("ab", buffering=0) as file:
        file.write(line.encode())


def read(folder: Path) -> Kept:
    """Read the record of the folder; a line that is no record is left out and counted."""
    try:
        lines = (folder / FILE).read_bytes().splitlines()
    except FileNotFoundError:
        return Kept()
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
        values: dict[str, Any] = {
            key: float(value) if key in ("at", "seconds") else str(value) for key, value in entry.items()
        }
        for kind in (Finding, Time, Choice):
            if {field.name for field in fields(kind)} == values.keys():
                return kind(**values)
    except (ValueError, TypeError, AttributeError):
        pass
    return None


def clear(folder: Path) -> bool:
    """Forget everything that the folder keeps; returns whether there was something."""
    kept = (folder / FILE).exists()
    (folder / FILE).unlink(missing_ok=True)
    return kept


def best(kept: Kept) -> dict[str, float]:
    """The shortest time of each formula of the drill, in seconds."""
    found: dict[str, float] = {}
    for one in kept.times:
        found[one.drill] = min(one.seconds, found.get(one.drill, math.inf))
    return found
