"""TODO."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tqdm import tqdm


def bar(total: int, initial: int, label: str, unit: str, progress: bool | None) -> tqdm:
    """A bar with rate and time left.

    Parameters
    ----------
    total, initial : int
        How far it goes, and where it begins.
    label, unit : str
        What is being done, and counted: " steps".
    progress : bool or None
        Whether it is shown. None: in a terminal and in a notebook.
    """
    if progress is None:
        # In a notebook stderr is no terminal, and yet somebody looks at it.
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        progress = sys.stderr.isatty() or hasattr(shell, "kernel")
    return tqdm(
        total=total,
        initial=initial,
        desc=label,
        unit=unit,
        unit_scale=True,
        # TQDM_DISABLE=1 is for stored runs, whose output must not depend on the clock.
        disable=not progress or bool(int(os.environ.get("TQDM_DISABLE") or 0)),
    )


@contextlib.contextmanager
def events(folder: Path | None, counter: str, position: int) -> Iterator[Callable[[dict[str, float]], None]]:
    """A function that logs a row to TensorBoard, or one that does nothing.

    Parameters
    ----------
    folder : path or None
        The run's; None for nothing.
    counter : str
        The column that numbers the rows.
    position : int
        The number of the last row that is kept.

    Raises
    ------
    ValueError
        TensorBoard is not installed.
    """
    if folder is None:
        yield lambda row: None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(
            "tensorboard=True, and TensorBoard is not installed; wanted: pip install 'ppobook[tensorboard]'"
        ) from None
    # After a kill there may be events of updates that the checkpoint does not have: those are purged.
    with SummaryWriter(folder / "tensorboard", purge_step=position + 1) as writer:

        def log(row: dict[str, float]) -> None:
            for name, value in row.items():
                if name != counter and value == value:
                    writer.add_scalar(name, value, int(row[counter]))

        yield log
