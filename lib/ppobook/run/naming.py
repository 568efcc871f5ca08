"""The names of arguments in messages: as in Python, or as on the command line."""

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


def named(argument: str, value: Any) -> str:
    """An argument and its value: resume='run', or in a shell --resume run."""
    if _shell.get() and argument in ("folder", "folders"):  # a word rather than an option
        return repr(str(value))
    if _shell.get() and argument in ("out", "resume"):
        return f"--{argument} {shlex.quote(str(value))}"
    return f"{argument}={str(value)!r}"
