"""Ctrl-C, SIGTERM and SIGHUP during training."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

from ppobook.run.progress import say

# Windows has no SIGHUP, the end of a terminal or of a connection.
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(KeyboardInterrupt):
    """Training was stopped by a signal. Whole updates are kept and, if there is a folder, saved.

    Attributes
    ----------
    run : Run
        The run so far.
    signal : signal.Signals
        SIGINT, which is Ctrl-C, SIGTERM or SIGHUP.
    """

    def __init__(self, message: str, run: Any, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.run = run
        self.signal = signal.Signals(number)


class Interrupts:
    """A context in which Ctrl-C, SIGTERM and SIGHUP wait for the update in progress.

    A second Ctrl-C leaves it; SIGTERM and SIGHUP, which are often sent twice, only ever ask, and a loop that
    may take long leaves it by `leave_if_urgent`. A signal that is ignored, as nohup has SIGHUP ignored, stays
    so, and a handler of one's own for SIGTERM or SIGHUP stays in place.

    Parameters
    ----------
    answers : bool
        Whether the first signal is answered on stderr.

    Attributes
    ----------
    asked : signal.Signals or None
        The first of these signals inside the `with` block.
    """

    def __init__(self, answers: bool = True) -> None:
        self.answers = answers
        self.asked: signal.Signals | None = None
        self.updating = False
        self.urgent = False  # SIGTERM or SIGHUP has come
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Only the main thread may set a signal's handler; elsewhere nothing changes.
        if threading.current_thread() is threading.main_thread():
            self.process = os.getpid()
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if handler is signal.SIG_DFL or (number == signal.SIGINT and callable(handler)):
                    self.before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def update(self) -> Iterator[None]:
        """A block that a second Ctrl-C leaves, by a KeyboardInterrupt. Elsewhere none is raised."""
        self.updating = True
        try:
            yield
        finally:
            self.updating = False

    def leave_if_urgent(self) -> None:
        """Leave the update in progress by a KeyboardInterrupt if SIGTERM or SIGHUP has come."""
        if self.urgent:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self.process:  # an environment's own process: the signal does there what it did
            self.__exit__()
            os.kill(os.getpid(), number)
            return
        self.urgent |= number != signal.SIGINT
        if self.asked is None:
            self.asked = signal.Signals(number)
            if self.answers and number == signal.SIGINT:
                say("stopping after this update; press Ctrl-C again to stop at once without it")
            elif self.answers:
                say(f"{self.asked.name}: stopping after this update")
        elif number == signal.SIGINT and self.updating:
            self.updating = False
            raise KeyboardInterrupt
