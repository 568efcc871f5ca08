"""Ctrl-C during training."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training. The update in progress was finished and, if there is a folder, saved.

    Attributes
    ----------
    run : Run
        The run so far.
    """

    def __init__(self, message: str, run: Any) -> None:
        super().__init__(message)
        self.run = run


class Interrupts:
    """A context in which Ctrl-C waits for the update in progress; a second Ctrl-C does not wait.

    Attributes
    ----------
    asked : bool
        Whether Ctrl-C was pressed inside the `with` block.
    """

    asked = False

    def __enter__(self) -> Self:
        # Only the main thread may set a signal's handler; elsewhere nothing changes.
        self.mine = threading.current_thread() is threading.main_thread()
        if self.mine:
            self.before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        if self.mine:
            signal.signal(signal.SIGINT, self.before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
