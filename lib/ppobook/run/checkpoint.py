"""Checkpoints: written in one step, read without running code that is in them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ppobook import validation
from ppobook.run.files import atomic_write, write_synced
from ppobook.run.folder import RunFolder, checkpoints
from ppobook.run.history import History


@dataclass
class Checkpoint:
    """A checkpoint in memory.

    Attributes
    ----------
    state : dict
        The content of `state.pt`: config, history and the rest, all of it plain data and tensors.
    files : dict of bytes by name
        The files beside it.
    where : str
        The place where it was read, for messages.
    text : str, optional
        The history as CSV, if it is known already.
    """

    state: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)
    where: str = ""
    text: str | None = None

    @property
    def update(self) -> int:
        """The number of updates done."""
        return len(self.state["history"]["update"])

    @property
    def config(self) -> dict[str, Any]:
        """Everything that the run was asked for."""
        config: dict[str, Any] = self.state["config"]
        return config

    @contextlib.contextmanager
    def rebuilding(self) -> Iterator[None]:
        """Raise every error of the block, of any kind, as a ValueError that names the checkpoint."""
        try:
            yield
        except ValueError as error:
            raise ValueError(f"{self.where}: {error}") from None
        except Exception as error:
            raise ValueError(
                f"{self.where}/state.pt must be as it was written, by this class and ppobook "
                f"{self.state.get('version')}, got: {validation.reason(error)}"
            ) from None


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Add a checkpoint to a run's folder in one step; delete all but the last two."""
    for interrupted in list(folder.glob("checkpoint-*.part")):
        shutil.rmtree(interrupted, ignore_errors=True)
    final = folder / f"checkpoint-{checkpoint.update:06d}"
    part = folder / f"{final.name}.part"
    state = io.BytesIO()
    torch.save(checkpoint.state, state)
    part.mkdir()
    for name, content in {"state.pt": state.getvalue(), **checkpoint.files}.items():
        write_synced(part / name, content)
    os.rename(part, final)

    # For people. A run is read from its checkpoint, so these may be one behind after a kill.
    atomic_write(folder / "config.json", json.dumps(checkpoint.config, indent=2) + "\n", sync=False)
    text = History(checkpoint.state["history"]).text() if checkpoint.text is None else checkpoint.text
    atomic_write(folder / "history.csv", text, sync=False)
    for previous in checkpoints(folder)[:-2]:
        shutil.rmtree(previous, ignore_errors=True)


def read_checkpoint(folder: RunFolder, format: str) -> Checkpoint:
    """The last checkpoint of a run.

    `format` is that of the trainer, such as "ppobook.train 2"; a checkpoint in another one is refused.
    Only numbers, strings, tensors and containers of them are unpickled, so a run from a stranger is safe to
    read. The files beside `state.pt` are read as bytes and not opened.

    Raises
    ------
    OSError
        No folder, no checkpoint, or files that can't be read.
    ValueError
        A checkpoint that is damaged or in another format.
    """
    if not folder.path.is_dir() or not (complete := checkpoints(folder.path)):
        what = "a folder without a checkpoint" if folder.path.is_dir() else "no folder"
        raise FileNotFoundError(f"{folder} must be the folder of a run, got {what}")
    last = complete[-1]
    hint = f". To go back to {complete[-2].name}, remove {last.name}" if len(complete) > 1 else ""
    where = f"{folder}: {last.name}"
    content = (last / "state.pt").read_bytes()
    beside = {file.name: file.read_bytes() for file in last.iterdir() if file.name != "state.pt"}
    try:
        validation.whole_archive(io.BytesIO(content))
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:  # torch's message gives advice that would be wrong here
        raise ValueError(
            f"{where}/state.pt must be a checkpoint of ppobook, got a truncated or damaged file{hint}"
        ) from None
    found = state.get("format") if isinstance(state, dict) else None
    if found != format:
        raise ValueError(f"{where} must be written by {format.split()[0]}, as {format!r}, got {found!r}")
    return Checkpoint(state, beside, where)
