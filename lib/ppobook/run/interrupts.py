"""Ctrl-C, SIGTERM and SIGHUP during training."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

from ppobook.run.progress import say

# Windows has no SIGHUP, the end of a terminal or of a connection.
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(KeyboardInterrupt):
    """An interruption by a signal, after a whole update; if there is a folder, the run is saved.

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

    A second Ctrl-C leaves the update; SIGTERM and SIGHUP, which are often sent twice, only ever ask. A signal
    that is ignored, as nohup has SIGHUP ignored, stays so, and a handler of one's own for SIGTERM or SIGHUP
    stays in place. With `answers`, the first signal, which is then `asked`, is answered on stderr.
    """

    def __init__(self, answers: bool = True) -> None:
        self.answers = answers
        self.asked: signal.Signals | None = None
        self.updating = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Only the main thread may set a signal's handler; elsewhere nothing changes.
        if threading.current_thread() is threading.main_thread():
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

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked is None:
            self.asked = signal.Signals(number)
            if self.answers and number == signal.SIGINT:
                say("stopping after this update; press Ctrl-C again to stop at once without it")
            elif self.answers:
                say(f"{self.asked.name}: stopping after this update")
        elif number == signal.SIGINT and self.updating:
            self.updating = False
            raise KeyboardInterrupt("stopped by Ctrl-C")
