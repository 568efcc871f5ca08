"""Checks of the exercises: right, which mistake it is, or which property fails; never the answer.

A check is a generator over the reader's function. It calls the function on small probes, numbers that one
could work out by hand, and yields what it finds: a `Mistake` it recognises by what the mistake *does*, mostly
by a table of wrong outputs (`recognise`), or a `Property` that holds or does not. The last one (`agrees`)
compares the answer with a slow definition on random problems. A check neither contains nor imports a
solution. The messages stand in a file beside the check's module, FILE.toml beside FILE.py.

    from ppobook.teaching import check
    check("reward-to-go", reward_to_go)

says "✓ Right" with the properties that were tested, or raises `NotRight` with a message: what was seen, what
to think about, and which section to read. A notebook shows either as a card. The checks of a chapter stand
in a module or a package beside this file and are loaded when one of them is first asked for; this file needs
no torch.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import inspect
import linecache
import os
import random
import re
import signal
import sys
import textwrap
import threading
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ppobook import _reads

from .findings import (
    DRAWN_FROM,
    Findings,
    Mistake,
    Property,
    Stop,
    as_array,
    close,
    either,
    numbers,
    recognise,
    words,
)

__all__ = [
    "Answer",
    "Chapter",
    "Findings",
    "Mistake",
    "NotRight",
    "NotYet",
    "Property",
    "Stop",
    "UnknownCheck",
    "Verdict",
    "as_array",
    "check",
    "close",
    "either",
    "names",
    "numbers",
    "recognise",
    "run",
    "words",
]

SECONDS = 20.0  # what a check takes at most; a right answer needs less than one


@dataclass(frozen=True)
class Verdict:
    """The finding of a check.

    kind is "right", "mistake", "property", "not yet", "so far" (right, and not all of it is there), "raised"
    (the reader's function raised an exception), "returned" (what came back has the wrong type or shape) or
    "slow". name is the mistake's name or the
    failed property's words, for a program to read; message is for the reader.
    """

    kind: str
    name: str
    message: str

    @property
    def right(self) -> bool:
        return self.kind == "right"


class _Told(Exception):  # noqa: N818
    """An exception that is written for a reader: a notebook shows its message and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class NotRight(_Told, AssertionError):  # noqa: N818
    """The answer is not right; the message says why."""


class NotYet(NotRight):
    """The blank has not been filled in, or not all of it."""


class UnknownCheck(_Told, ValueError):  # noqa: N818
    """Error for an unknown check, or for an answer that is not a function."""


class TooSlow(BaseException):
    """Raised by the clock. Not an Exception, so that a reader's `except Exception` does not swallow it."""


class Answer:
    """The reader's function, watched: what it raises, and whether it changes its arguments.

    It gets copies, so that one that writes into its arguments spoils no other call.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = tuple(map(_own, args)), {key: _own(value) for key, value in kwargs.items()}
        given = (*args, *kwargs.values())
        before = [_copy(value) for value in given]
        leaves = [getattr(value, "requires_grad", False) for value in given]
        call = ", ".join([*map(words, args), *(f"{key}={words(value)}" for key, value in kwargs.items())])
        try:
            result = self._function(*args, **kwargs)
        except NotImplementedError as error:
            if str(error).startswith("not yet"):
                raise Stop("not yet", self._name) from error
            raise self._raised(error, call) from error
        except (Stop, Mistake):
            raise
        except (Exception, SystemExit) as error:
            raise self._raised(error, call) from error
        for position, (leaf, old, new) in enumerate(zip(leaves, before, given, strict=True), start=1):
            if leaf and not new.requires_grad:
                raise Mistake("an argument is detached in place", position=position)
            if old is not None and not _same(old, new):
                raise Mistake("an argument is overwritten", position=position)
        return result

    def beside(self, companion: Callable[..., Any], *args: Any) -> Any:
        """Return `companion(answer, *args)`, computed in the process where the reader's function runs.

        For what can be seen there only, such as which optimizers take steps. In a notebook that is this
        process; when a submission is graded it is another one.
        """
        far = getattr(self._function, "beside", None)
        return companion(self, *args) if far is None else far(self._name, companion, *args)

    def _raised(self, error: BaseException, call: str) -> Stop:
        found = line_of(error, self._function)
        where = f"It happened in line {found[0]} of your cell:\n    {found[1]}" if found else ""
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        lines = what.splitlines()
        if len(lines) > 10:  # a tensor, row by row
            what = "\n".join([*lines[:5], f"    … ({len(lines) - 6} more lines) …", lines[-1]])
        return Stop(
            "raised", type(error).__name__, f"{what}\n{where}".strip(), f"It was called with ({call})."
        )


def line_of(error: BaseException, function: Callable[..., Any]) -> tuple[int, str] | None:
    """The line of the function's file (in a notebook, of the cell) in which an exception was raised."""
    if hasattr(error, "in_cell"):  # noted where the function ran
        return error.in_cell
    own = file_of(function)
    mine = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    if not mine:
        return None
    number = mine[-1].lineno or 0
    return number, (mine[-1].line or linecache.getline(mine[-1].filename, number)).strip()


def file_of(function: Callable[..., Any]) -> str | None:
    """The file (in a notebook, the cell) of a function, a partial, a bound method or a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__") and not hasattr(function, "__func__"):
        function = type(function).__call__
    return getattr(getattr(function, "__code__", None), "co_filename", None)


@dataclass(frozen=True)
class _Entry:
    """A check, and the messages of its mistakes: `seen`, `think` and perhaps `section`."""

    function: Callable[[Answer], Findings]
    section: str
    chapter: Chapter
    messages: Mapping[str, Mapping[str, str]]
    seconds: float | None = None


def messages(file: Path) -> dict[str, dict[str, dict[str, str]]]:
    """A file of messages: exercise, mistake, then `seen`, `think` and, if not the check's own, `section`.

    Under "shared" stands what several checks of the module say.
    """
    if not file.exists():
        return {}
    return tomllib.loads(_reads.note(file).read_text(encoding="utf-8"))


# The messages of mistakes that many exercises know; a module's own file may say it better.
COMMON = Path(__file__).with_name("common.toml")


@dataclass(frozen=True)
class Chapter:
    """The chapter that a module's checks belong to: its number, its title, and the headings of its sections.

    `sections` maps a label of the chapter to the heading below it, so that a hint can be followed on a page,
    in JupyterLab and in print alike. A test holds the headings to those of the chapter. A label that is none
    of the chapter's own is looked up in the chapters of `also`.
    """

    number: int
    title: str
    sections: Mapping[str, str]
    also: tuple[Chapter, ...] = ()

    def check(
        self, name: str, *, section: str, seconds: float | None = None
    ) -> Callable[[Callable[[Answer], Findings]], Any]:
        """Register a check under `name`; `section` is where a reader is sent when a property fails.

        `seconds` is what it takes at most, for a check that trains; if left out, `SECONDS`.
        """

        def register(function: Callable[[Answer], Findings]) -> Callable[[Answer], Findings]:
            if name in _registry:
                raise ValueError(f"name: {name!r} is registered twice; each exercise has one check")
            file = Path(sys.modules[function.__module__].__file__ or "")
            own = messages(file.with_suffix(".toml"))
            rows = messages(COMMON)["common"] | own.get("shared", {}) | own.get(name, {})
            _registry[name] = _Entry(function, section, self, rows, seconds)
            return function

        return register

    def where(self, section: str) -> str:
        its = next(chapter for chapter in (self, *self.also) if section in chapter.sections)
        return f"chapter {its.number}, {its.title}, “{its.sections[section]}” ({section})"


_registry: dict[str, _Entry] = {}


@functools.cache
def names() -> dict[str, str]:
    """Every check's name, with the module that holds it.

    Read from the files' text and not by importing them: a check of one chapter must not load the others,
    or the stored outputs of its notebook would depend on them all.
    """
    found = {}
    here = Path(__file__).parent
    for file in sorted(here.rglob("*.py")):
        for name in re.findall(
            r'^@CHAPTER\.check\("([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE
        ):
            parts = file.relative_to(here).with_suffix("").parts
            found[name] = ".".join((__name__, *(part for part in parts if part != "__init__")))
    return found


def check(name: str, answer: Callable[..., Any]) -> None:
    """Check the reader's function for the exercise `name`; say that it is right, or what is not.

    In a notebook of the reader's own copies the verdict is recorded there, see `ppobook.teaching.progress`.

    Parameters
    ----------
    name : the exercise's name, such as "reward-to-go"
    answer : the function itself, not what it returns

    Raises
    ------
    NotYet
        The blank still stands, or what is there is right and more is asked for.
    NotRight
        The answer is not right; the message names the mistake or the property that fails.
    UnknownCheck
        No exercise has that name, or `answer` is not a function.
    """
    verdict = run(name, answer)
    shown = _tell(name, verdict)
    if verdict.kind in ("not yet", "so far"):
        raise NotYet(verdict.message)
    if not verdict.right:
        raise NotRight(verdict.message)
    if not shown:
        print(verdict.message)


def _tell(name: str, verdict: Verdict) -> bool:
    """Show the verdict in a reader's notebook, and record it for the desk; return whether it is shown."""
    if "ipykernel" not in sys.modules or "PPOBOOK_BUILD" in os.environ:
        return False
    with suppress(Exception):  # a check never fails because it cannot be recorded
        progress = importlib.import_module("ppobook.teaching.progress")
        if verdict.kind != "not yet" and (folder := progress.place()):
            progress.record(folder, check=name, kind=verdict.kind, what=verdict.name)
    return bool(importlib.import_module("ppobook.teaching.lab").show(verdict.message, NotRight))


def run(name: str, answer: Callable[..., Any], seed: int = 0, seconds: float | None = None) -> Verdict:
    """Return the finding of `check` as a `Verdict`: prints nothing, and a wrong answer raises nothing.

    The random problems are drawn from `seed`. With 0 they are those of the notebook; a grader takes another
    number, so that nobody has seen them before. `seconds` is for a check without a time limit of its own.

    The global random generators (Python's, NumPy's, torch's) are seeded for the length of the check, so
    that it finds the same twice, and stand afterwards where they stood before. The reader's function can
    look at them; what they are seeded with doesn't tell from what the problems are drawn.
    """
    entry = _entry(name)
    if not callable(answer):
        raise UnknownCheck(
            f"check({name!r}, …) needs your function itself, and got {words(answer)}: "
            "write the function's name, without calling it."
        )
    seconds = seconds_of(name, seconds)
    held: list[Property] = []
    mistake: Mistake | None = None
    try:
        with fixed_seeds(seed), _time_limit(seconds):
            try:
                for finding in entry.function(Answer(name, answer)):
                    if isinstance(finding, Mistake):
                        mistake = finding
                        break
                    held.append(finding)
            except Mistake as raised:
                mistake = raised
            # Within the time, because what a message shows may take long to write.
            return _judged(name, entry, mistake, held)
    except Stop as stop:
        return _verdict(stop.kind, stop.name, *stop.paragraphs)
    except TooSlow:
        return _verdict("slow", f"still running after {seconds:.0f} seconds")
    except Exception as error:
        # What came back passed for a number and was none, in a way that no check foresaw.
        return _verdict(
            "returned",
            "the check cannot read what came back",
            f"{type(error).__name__}: {error}".rstrip(": "),
        )


def _judged(name: str, entry: _Entry, mistake: Mistake | None, held: list[Property]) -> Verdict:
    """The verdict where the check came to its end."""
    if mistake is not None:
        seen, think, section = mistake.message(entry.messages[mistake.name], entry.section)
        read = f"Read: {entry.chapter.where(section)}."
        found = _verdict("mistake", mistake.headline, f"Seen: {seen}", f"Think: {think}", read)
        return replace(found, name=mistake.name)
    failed = [finding for finding in held if not finding.holds]
    if failed:
        shown = next((finding for finding in failed if finding.seen), failed[0])
        lines = [f"Seen: {shown.seen}"] if shown.words == failed[0].words and shown.seen else []
        fails = {finding.words for finding in failed}  # of findings with the same words one is enough
        for said in dict.fromkeys(finding.words for finding in held):
            if said != failed[0].words:
                seen = f" — {shown.seen}" if said == shown.words else ""
                lines.append(f"{'✗' if said in fails else '✓'} {said}{seen}")
        return _verdict("property", failed[0].words, *lines, f"Read: {entry.chapter.where(entry.section)}.")
    return _verdict("right", name, *(f"✓ {said}" for said in dict.fromkeys(f.words for f in held)))


def seconds_of(name: str, otherwise: float | None = None) -> float:
    """Return the time limit of a check: its own, else `otherwise`, else the usual one."""
    return _entry(name).seconds or otherwise or SECONDS


def mistakes(name: str) -> list[str]:
    """Return the mistakes that a check has messages for, among them those that many checks know."""
    return list(_entry(name).messages)


def _entry(name: str) -> _Entry:
    where = names()
    if name not in where:
        close = difflib.get_close_matches(str(name), where, n=3, cutoff=0.4)
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"There are {', '.join(where)}."
        raise UnknownCheck(f"There is no check named {name!r}. {hint}")
    importlib.import_module(where[name])
    return _registry[name]


_HEADLINES = {
    "right": "✓ Right: {}",
    "mistake": "✗ Not right: {}",
    "property": "✗ Not right; this fails: {}",
    "not yet": "Not yet: {}",
    "so far": "✓ Right so far: {}",
    "raised": "✗ Your function stopped with an exception",
    "returned": "✗ Not right: {}",
    "slow": "✗ Not right: {}",
}
_LONGEST = 10_000  # characters of a paragraph
_NOT_YET = "Fill in the blank, run its cell, then run this one again."


def _verdict(kind: str, name: str, *paragraphs: str) -> Verdict:
    if kind == "not yet":
        paragraphs = (_NOT_YET,)
    if kind == "slow":
        paragraphs = (
            "A right answer takes less than a second. Is there a loop that never ends, or one over single "
            "numbers where a tensor operation would do?",
        )
    lines = [_HEADLINES[kind].format(name)]
    for paragraph in paragraphs:
        for line in paragraph[:_LONGEST].splitlines():
            hang = " " * (len(line) - len(line.lstrip()) + 4)
            lines += textwrap.wrap(
                line, 92, initial_indent="  ", subsequent_indent=hang, break_on_hyphens=False
            )
    return Verdict(kind, name, "\n".join(lines))


def _own(value: Any) -> Any:
    """An argument for one call: a copy, or a leaf itself, whose gradient the check asks for.

    One number is Python's own, as it is in a notebook.
    """
    if isinstance(value, np.generic):
        return value.item()
    copied = None if getattr(value, "requires_grad", False) else _copy(value)
    return value if copied is None else copied


def _copy(value: Any) -> Any:
    if hasattr(value, "detach"):
        return value.detach().clone()
    return value.copy() if isinstance(value, np.ndarray) else None


def _same(old: Any, new: Any) -> bool:
    return old.shape == new.shape and bool(((old == new) | ((old != old) & (new != new))).all())


@contextmanager
def fixed_seeds(seed: int) -> Iterator[None]:
    """Draw random problems from `seed`, and seed the global generators with a number that doesn't tell it.

    With 0, which is no secret, they're seeded with 0.
    """
    number = seed and int.from_bytes(hashlib.sha256(f"global/{seed}".encode()).digest()[:8], "big")
    torch = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state(), torch.get_rng_state() if torch else None  # noqa: NPY002
    random.seed(number)
    np.random.seed(number % 2**32)  # noqa: NPY002
    if torch:
        torch.manual_seed(number % 2**63)
    drawn_from = DRAWN_FROM.set(seed)
    try:
        yield
    finally:
        DRAWN_FROM.reset(drawn_from)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        if torch:
            torch.set_rng_state(states[2])


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Stop a reader's endless loop. Without SIGALRM (Windows, threads) only the kernel's stop button does."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: Any) -> None:
        raise TooSlow

    handler = signal.signal(signal.SIGALRM, ring)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
