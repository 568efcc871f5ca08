"""The progress of a run: on stderr, and as TensorBoard events."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from tqdm.auto import tqdm


class Progress:
    """The progress of a run on stderr, with rate and time left.

    `shown` is True for a bar, and None for a bar in a terminal and in a notebook, elsewhere a line every 15
    seconds. With False, and with TQDM_DISABLE=1, for stored notebooks, whose output must not depend on the
    clock, there is nothing.
    """

    def __init__(self, total: int, initial: int, label: str, unit: str, shown: bool | None) -> None:
        disabled = os.environ.get("TQDM_DISABLE", "").lower() not in ("", "0", "false", "no", "off")
        seen = bool(shown) or getattr(sys.stderr, "isatty", bool)() or _in_notebook()
        self.bar = tqdm(
            total=total,
            initial=initial,
            desc=label,
            unit=f" {unit}s",
            unit_scale=True,
            disable=disabled or shown is False,
            mininterval=0.1 if seen else 15.0,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def announce(self, text: str) -> None:
        """Say a line above the bar."""
        if text and not self.bar.disable:
            say(text)

    def show(self, count: int, metrics: Mapping[str, Any]) -> None:
        """Show the progress, and some of its metrics as text."""
        if not self.bar.disable:
            self.bar.set_postfix(metrics, refresh=False)
            self.bar.update(count - self.bar.n)


def _in_notebook() -> bool:
    return hasattr(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), "kernel")


def say(text: str) -> None:
    """Write a line above the bar if there is one; safe in a signal's handler.

    It goes to stderr. A notebook would show that on red, so there it goes to stdout.
    """
    try:
        tqdm.write(text, file=sys.stdout if _in_notebook() else sys.stderr)
    except Exception:  # the signal came while stderr was written to; or the terminal is gone
        with contextlib.suppress(OSError):
            os.write(2, f"{text}\n".encode())


@contextlib.contextmanager
def events(folder: Path | None, counter: str, position: int) -> Iterator[Callable[[dict[str, float]], None]]:
    """A function that logs a row to TensorBoard; without a folder, one that does nothing.

    `counter` is the column of TensorBoard's step; events after step `position` are deleted.
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
