"""The object that training returns, and reading it from a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppobook.language import parallel
from ppobook.language.serialization import build, build_tokenizer
from ppobook.language.world import World
from ppobook.run.base import BaseRun
from ppobook.run.checkpoint import Checkpoint, read_checkpoint
from ppobook.run.folder import RunFolder
from ppobook.run.machine import checked_device, float32_on_cpu

FORMAT = "ppobook.language.train 2"


@dataclass(kw_only=True, repr=False)
class Run(BaseRun):
    """The result of `train`.

    Attributes
    ----------
    model : torch module
        Trained: a language model, or after "reward" a `RewardModel`.
    tokenizer : Tokenizer
    history : DataFrame
        One row an update: update, tokens so far, the metrics of the stage, and seconds.
    config : dict
        Everything the run was asked for, defaults included.
    """

    model: Any
    tokenizer: Any

    @staticmethod
    def title(config: dict[str, Any]) -> str:
        """The name of the stage."""
        return str(config["stage"])

    def save(self, folder: str | Path) -> Path:
        """Write the run to a new folder, from which `load` and `train(resume=…)` work."""
        path: Path = parallel.first(lambda: BaseRun.save(self, folder))
        return path

    def stage_state(self, name: str) -> Any:
        """One of the stage's `state_attributes`, as the checkpoint holds it."""
        return self._checkpoint.state["stage"][name]

    @property
    def world(self) -> World | None:
        """The world that the run's data came from, if they did."""
        config = self.config["data"].get("world")
        return None if config is None else World(**config)


def load(folder: str | Path, device: str = "cpu") -> Run:
    """A run as of its last checkpoint; ValueError if that is damaged, or no run is there."""
    return load_from(RunFolder.at("folder", folder), device)


@float32_on_cpu()
def load_from(folder: RunFolder, device: str = "cpu") -> Run:
    """The run of a folder that was passed by any name."""
    checkpoint = read_checkpoint(folder, FORMAT)
    device = checked_device(device)
    with checkpoint.rebuilding():
        model = build(checkpoint.state["architecture"]["model"]).to(device)
        model.load_state_dict(checkpoint.state["stage"]["model"])
        return run_of(model, build_tokenizer(checkpoint.state["tokenizer"]), checkpoint)


def run_of(model: Any, tokenizer: Any, checkpoint: Checkpoint) -> Run:
    """The run of a checkpoint, with its model in evaluation mode."""
    model.eval().requires_grad_(True)
    for name in checkpoint.state.get("frozen", []):
        model.get_parameter(name).requires_grad_(False)
    return Run.of(checkpoint, model=model, tokenizer=tokenizer)
