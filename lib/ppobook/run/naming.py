"""How messages name an argument: as in Python, or as on the command line."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

_shell = ContextVar("shell", default=False)


@contextlib.contextmanager
def as_options() -> Iterator[None]:
    """A block whose messages are read in a shell."""
    before = _shell.set(True)
    try:
        yield
    finally:
        _shell.reset(before)


def in_shell() -> bool:
    """Whether messages are read in a shell."""
    return _shell.get()


def train_named(function: str) -> str:
    """A `train` of the library: ppobook.language.train, or in a shell ppobook language."""
    commands = {"ppobook.train": "ppobook train", "ppobook.language.train": "ppobook language"}
    return commands[function] if in_shell() else function


def named(argument: str, value: Any) -> str:
    """An argument and its value: resume='run', or in a shell --resume run."""
    if in_shell() and argument in ("folder", "folders"):  # a word, and no option
        return repr(str(value))
    if in_shell() and argument in ("out", "resume"):
        return f"--{argument} {shlex.quote(str(value))}"
    return f"{argument}={str(value)!r}"
