"""TODO."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import ppobook
from ppobook import validation
from ppobook.run.files import atomic_write, write_synced
from ppobook.run.folder import RunFolder, checkpoints, update_of
from ppobook.run.history import History


@dataclass
class Checkpoint:
    """A checkpoint in memory.

    Attributes
    ----------
    state : dict
        What `state.pt` holds: config, history and what else there is, all of it plain data and tensors.
    files : dict of bytes by name
        What stands beside it.
    where : str
        Where it was read, for a sentence.
    text : str, optional
        The history as CSV, where that is known already.
    """

    state: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)
    where: str = ""
    text: str | None = None

    @property
    def update(self) -> int:
        """The number of updates done."""
        return len(self.state["history"]["update"])

    def damaged(self, error: Exception) -> ValueError:
        """What to raise where it is ours by its format, and yet something in it is not."""
        return ValueError(
            f"{self.where}/state.pt lacks something, or was changed, or was written by another class or "
            f"version ({validation.reason(error)}); wanted: the file as it was written, and the class and "
            f"ppobook {self.state.get('version')} that wrote it"
        )


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Add a checkpoint to a run's folder, in one step; drop all but the last two."""
    for broken_off in list(folder.glob("checkpoint-*.part")):
        shutil.rmtree(broken_off, ignore_errors=True)
    final = folder / f"checkpoint-{checkpoint.update:06d}"
    part = folder / f"{final.name}.part"
    part.mkdir()
    state = io.BytesIO()
    torch.save(checkpoint.state, state)
    for name, content in {"state.pt": state.getvalue(), **checkpoint.files}.items():
        write_synced(part / name, content)
    os.rename(part, final)

    # For people. What reads a run reads the checkpoint, so these may lag behind it after a kill.
    atomic_write(folder / "config.json", json.dumps(checkpoint.state["config"], indent=2) + "\n")
    text = History(checkpoint.state["history"]).text() if checkpoint.text is None else checkpoint.text
    atomic_write(folder / "history.csv", text)
    for old in checkpoints(folder)[:-2]:
        shutil.rmtree(old, ignore_errors=True)


def drop_later(folder: Path, update: int) -> None:
    """Take away the checkpoints of all updates after this one: these are done a second time."""
    for later in checkpoints(folder):
        if update_of(later) > update:
            # Under its own name, half of it would be taken for the run's last checkpoint after a kill.
            part = later.with_name(later.name + ".part")
            os.rename(later, part)
            shutil.rmtree(part, ignore_errors=True)


# The layouts of checkpoints of the book's own trainers, and who writes and reads them. One in another layout
# is refused, and not guessed at.
CONTROL: int | str = 1


LANGUAGE: int | str = "language 1"


_TRAINERS = {
    CONTROL: ("ppobook.train", "`ppobook …`"),
    LANGUAGE: ("ppobook.language.train", "`ppobook language …`"),
}


def read_checkpoint(
    home: RunFolder,
    *,
    format: Any,
    needs: Iterable[str] = (),
    files: Iterable[str] = (),
    checkpoint: Path | None = None,
) -> Checkpoint:
    """A checkpoint of a run's folder: the last one, if it is not said which.

    Nothing is unpickled but numbers, strings, tensors and what holds them, so a stranger's run is safe to
    read. The files beside `state.pt` are read and not opened.

    Parameters
    ----------
    home : RunFolder
    format : int or str
        Of the trainer that asks. A checkpoint in another one is refused, and not guessed at.
    needs : names
        What its state must hold beside config, history and seconds.
    files : names
        What may stand beside `state.pt`.
    checkpoint : path, optional

    Raises
    ------
    OSError
        No folder, no checkpoint, or files that cannot be read.
    ValueError
        A checkpoint that is cut short, is none of ours, or lacks something.
    """
    folder, where = home.folder, str(home)
    try:
        whole_ones = checkpoints(folder)
    except OSError as error:
        absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        what = "is no folder" if absent else f"cannot be read ({error.strerror})"
        raise OSError(f"{where} {what}; wanted: the folder of a run, as train(out=…) writes it") from None
    if not whole_ones:
        raise FileNotFoundError(
            f"{where} holds no checkpoint; wanted: the folder of a run, as train(out=…) writes it"
        )
    last = checkpoint or whole_ones[-1]
    earlier = f" To go back to {whole_ones[-2].name}, remove {last.name}." if len(whole_ones) > 1 else ""
    where += f": {last.name}"
    try:
        content = (last / "state.pt").read_bytes()
        beside = {name: (last / name).read_bytes() for name in files if (last / name).exists()}
    except FileNotFoundError:
        raise FileNotFoundError(f"{where} has no state.pt; wanted: the whole checkpoint.{earlier}") from None
    except OSError as error:  # nothing may be wrong with it
        raise OSError(
            f"{where} cannot be read ({error.strerror}); wanted: files that this user may read"
        ) from None
    try:
        validation.whole_archive(io.BytesIO(content))
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:  # its message has advice in it that is not ours to give
        raise ValueError(
            f"{where}/state.pt is cut short or damaged, or is no checkpoint of this package; "
            f"wanted: the file as it was written.{earlier}"
        ) from None
    found = state.get("format") if isinstance(state, dict) else None
    if found != format and found in _TRAINERS and format in _TRAINERS:
        trainer, command = _TRAINERS[found]
        raise ValueError(
            f"{where} was written by {trainer}, and {command} reads it; "
            f"wanted: a run of {_TRAINERS[format][0]}"
        )
    if found != format:
        by = f" by ppobook {state['version']}" if isinstance(state, dict) and "version" in state else ""
        raise ValueError(
            f"{where} was written{by} in checkpoint format {found!r}; "
            f"wanted: format {format}, which ppobook {ppobook.__version__} reads"
        )
    lacking = {"config", "history", "seconds", *needs} - state.keys()
    if lacking:
        raise ValueError(f"{where}/state.pt has no {min(lacking)!r}; wanted: the file as it was written")
    return Checkpoint(state, beside, where)
