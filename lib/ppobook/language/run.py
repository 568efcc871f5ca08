"""TODO."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ppobook.fast import choose
from ppobook.language import parallel
from ppobook.language.describing import build, build_tokenizer
from ppobook.language.world import World
from ppobook.run.checkpoint import LANGUAGE, Checkpoint, read_checkpoint, write_checkpoint
from ppobook.run.folder import RunFolder, checkpoints, new_folder
from ppobook.run.history import History
from ppobook.run.machine import checked_device


@dataclass(repr=False)
class Run:
    """What training gives back.

    Attributes
    ----------
    model : torch module
        Trained: a language model, or after "reward" a `RewardModel`.
    tokenizer : Tokenizer
    history : DataFrame
        One row an update: update, tokens so far, what the stage measures, and seconds.
    config : dict
        Everything the run was asked for, defaults included.
    """

    model: Any
    tokenizer: Any
    history: pd.DataFrame
    config: dict[str, Any]
    _checkpoint: Checkpoint

    def __repr__(self) -> str:
        return f"Run({self.config['stage']}, {len(self.history)} updates, {type(self.model).__name__})"

    def save(self, folder: str | Path) -> Path:
        """Write the run to a new folder, from which `load` and `train(resume=…)` work.

        Raises
        ------
        OSError
            The folder holds something already, or cannot be written.
        """
        home = RunFolder.at("folder", folder)

        def write() -> None:
            new_folder(home)
            write_checkpoint(home.folder, self._checkpoint)

        parallel.first(write)
        return home.folder

    def stage_state(self, name: str) -> Any:
        """What the run's stage remembered under this name (`Stage.state_attributes`), as its checkpoint has it."""
        return self._checkpoint.state["stage"][name]

    @property
    def world(self) -> World | None:
        """The world that the run's data came from, if they did."""
        config = self.config["data"].get("world")
        return None if config is None else World(**config)


def load(folder: str | Path, device: str = "cpu") -> Run:
    """A run as its last checkpoint has it.

    Raises
    ------
    ValueError, OSError
        No run there, or a checkpoint that is cut short, from another version, or not ours to read.
    """
    return _load(RunFolder.at("folder", folder), device)


def _load(home: RunFolder, device: str) -> Run:
    checkpoint = _read(home)
    device = checked_device(device)
    try:
        model = build(checkpoint.state["architecture"]["model"]).to(device)
        model.load_state_dict(checkpoint.state["stage"]["model"])
        choose.language_model(model, checkpoint.state["config"].get("fast"))
        return _run_of(model, build_tokenizer(checkpoint.state["tokenizer"]), checkpoint)
    except (KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise checkpoint.damaged(error) from None


def _run_of(model: Any, tokenizer: Any, checkpoint: Checkpoint) -> Run:
    state = checkpoint.state
    model.eval().requires_grad_(False)
    return Run(model, tokenizer, History(state["history"]).table(), dict(state["config"]), checkpoint)


def _read(home: RunFolder) -> Checkpoint:
    return read_checkpoint(home, format=LANGUAGE, needs=("stage", "architecture", "tokenizer"))


def is_run(folder: str | Path) -> bool:
    """Whether a path is the folder of a run."""
    path = Path(folder)
    return path.is_dir() and bool(checkpoints(path))
