"""The progress of a run: on stderr, and as TensorBoard events."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from tqdm import tqdm

from ppobook.validation import counted

# Seconds between two lines where there is no bar.
BETWEEN_LINES = 15.0


class Progress:
    """The progress of a run, with rate and time left: a bar, or where nobody sees one a line now and then.

    Parameters
    ----------
    total, initial : int
        The count at the end and at the beginning.
    label, unit : str
        The name of the run, and of one that is counted, e.g. "step".
    shown : bool or None
        True: a bar. None: a bar in a terminal and in a notebook, elsewhere lines. TQDM_DISABLE=1, for stored
        notebooks, whose output must not depend on the clock, and False: nothing.
    """

    def __init__(self, total: int, initial: int, label: str, unit: str, shown: bool | None) -> None:
        self.total, self.initial, self.label, self.unit = total, initial, label, unit
        disabled = os.environ.get("TQDM_DISABLE", "").lower() not in ("", "0", "false", "no", "off")
        self.silent = disabled or shown is False
        # In a notebook stderr is not a terminal, but is shown.
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        seen = bool(shown) or getattr(sys.stderr, "isatty", bool)() or hasattr(shell, "kernel")
        self.lines = not (self.silent or seen)
        self.bar = tqdm(
            total=total,
            initial=initial,
            desc=label,
            unit=f" {unit}s",
            unit_scale=True,
            disable=self.silent or self.lines,
        )
        self.begun = self.said = time.monotonic()
        self.latest: tuple[int, Mapping[str, Any]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.said > self.begun:  # a run that was too short for a line needs no last one
            self._tell()
        self.bar.close()

    def announce(self, text: str) -> None:
        """Say a line above the bar."""
        if text and not self.silent:
            say(text)

    def show(self, count: int, metrics: Mapping[str, Any]) -> None:
        """Show the progress, and some of its metrics as text."""
        if not self.bar.disable:
            self.bar.set_postfix(metrics, refresh=False)
            self.bar.update(count - self.bar.n)
        elif self.lines:
            self.latest = count, metrics
            if time.monotonic() - self.said >= BETWEEN_LINES:
                self._tell()

    def _tell(self) -> None:
        if self.latest is None:
            return
        (count, metrics), self.latest = self.latest, None
        self.said = time.monotonic()
        rate = (count - self.initial) / max(self.said - self.begun, 1e-9)
        pace = f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
        left = tqdm.format_interval(max(0, self.total - count) / max(rate, 1e-9))
        parts = [f"{count:,} of {counted(self.total, self.unit)}"]
        parts += [f"{name} {value}" for name, value in metrics.items()]
        say(f"{self.label}: {', '.join(parts)}, {pace} {self.unit}s/s, {left} left")


def say(text: str) -> None:
    """Write a line to stderr, above the bar if there is one; safe in a signal's handler."""
    try:
        tqdm.write(text, file=sys.stderr)
    except Exception:  # the signal came while stderr was written to; or the terminal is gone
        with contextlib.suppress(OSError):
            os.write(2, f"{text}\n".encode())


@contextlib.contextmanager
def events(folder: Path | None, counter: str, position: int) -> Iterator[Callable[[dict[str, float]], None]]:
    """A function that logs a row to TensorBoard; without a folder, one that does nothing.

    Parameters
    ----------
    folder : path or None
        The run's folder.
    counter : str
        The column that is TensorBoard's step.
    position : int
        The step of the last row that is kept; later events are deleted.
    """
    if folder is None:
        yield lambda row: None
        return
    from torch.utils.tensorboard import SummaryWriter

    # After a kill there may be events that are later than the checkpoint.
    with SummaryWriter(folder / "tensorboard", purge_step=position + 1) as writer:

        def log(row: dict[str, float]) -> None:
            for name, value in row.items():
                if name != counter and value == value:
                    writer.add_scalar(name, value, int(row[counter]))

        yield log
