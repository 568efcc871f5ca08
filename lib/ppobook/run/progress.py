"""The progress bar and TensorBoard events."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tqdm import tqdm


def bar(total: int, initial: int, label: str, unit: str, progress: bool | None) -> tqdm:
    """A progress bar with rate and time left.

    Parameters
    ----------
    total, initial : int
        The count at the end and at the beginning.
    label, unit : str
        What is done and what is counted, e.g. " steps".
    progress : bool or None
        Whether to show it. None: in a terminal and in a notebook.
    """
    if progress is None:
        # In a notebook stderr is not a terminal, but is shown.
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        progress = sys.stderr.isatty() or hasattr(shell, "kernel")
    return tqdm(
        total=total,
        initial=initial,
        desc=label,
        unit=unit,
        unit_scale=True,
        # TQDM_DISABLE=1 is for stored notebooks, whose output must not depend on the clock.
        disable=not progress or bool(int(os.environ.get("TQDM_DISABLE") or 0)),
    )


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
            "tensorboard must be False where TensorBoard is not installed, got True. "
            "pip install 'ppobook[tensorboard]' installs it"
        ) from None
    # After a kill there may be events that are later than the checkpoint.
    with SummaryWriter(folder / "tensorboard", purge_step=position + 1) as writer:

        def log(row: dict[str, float]) -> None:
            for name, value in row.items():
                if name != counter and value == value:
                    writer.add_scalar(name, value, int(row[counter]))

        yield log
