"""The object that training returns and `load` reads."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pandas as pd

from ppobook.run.checkpoint import Checkpoint, write_checkpoint
from ppobook.run.folder import RunFolder, make_new
from ppobook.run.history import History
from ppobook.validation import counted


@dataclass(kw_only=True, repr=False)
class BaseRun:
    """A run: its history, its config, and what a subclass adds.

    Attributes
    ----------
    history : DataFrame
        One row an update.
    config : dict
        Everything the run was asked for, defaults included.
    """

    history: pd.DataFrame
    config: dict[str, Any]
    _checkpoint: Checkpoint

    @classmethod
    def of(cls, checkpoint: Checkpoint, **own: Any) -> Self:
        """The run of a checkpoint, with the attributes that the subclass adds."""
        history = History(checkpoint.state["history"]).table()
        return cls(history=history, config=copy.deepcopy(checkpoint.config), _checkpoint=checkpoint, **own)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title(self.config)}, {counted(len(self.history), 'update')})"

    @staticmethod
    def title(config: dict[str, Any]) -> str:
        """The algorithm and its task, in a few words."""
        raise NotImplementedError

    def save(self, folder: str | Path) -> Path:
        """Write the run to a new folder, from which `load` and `train(resume=…)` work.

        It is written as training left it, without changes made since to `history`, `config` or networks.
        """
        target = RunFolder.at("folder", folder)
        make_new(target)
        write_checkpoint(target.path, self._checkpoint)
        return target.path
