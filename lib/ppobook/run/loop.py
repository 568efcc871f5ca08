"""The loop of all training: update, log, save, stop; and how a run begins or is resumed."""

from __future__ import annotations

import abc
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, Signals
from typing import Any, ClassVar, TypeVar

from torch import nn

import ppobook
from ppobook import validation
from ppobook.run.checkpoint import Checkpoint, write_checkpoint
from ppobook.run.folder import RunFolder, locked, make_new
from ppobook.run.history import History
from ppobook.run.interrupts import Interrupted, Interrupts
from ppobook.run.machine import threads
from ppobook.run.metrics import weights_are_finite
from ppobook.run.progress import Progress, events

# A checkpoint is also written when the last one is older than this.
MOST_SECONDS = 300.0

LoopT = TypeVar("LoopT", bound="TrainingLoop")


class TrainingLoop(abc.ABC):
    """A run in progress: one update after the other, saved every so often, until it is long enough.

    A trainer is a subclass; the abstract methods say what it trains. For a resume to the same bits,
    everything that one update leaves to the next must come back from what `parts` returned.

    Attributes
    ----------
    counter : str, of the class
        The column of the history that measures progress.
    unit : str, of the class
        The name of one that is counted, for people.
    limit : str, of the class
        The entry of the config at which the run ends.
    format : str, of the class
        The function that writes its checkpoints, and the version of their layout.
    """

    counter: ClassVar[str] = "update"
    unit: ClassVar[str] = "update"
    limit: ClassVar[str]
    format: ClassVar[str]

    def __init__(self, config: dict[str, Any], history: History) -> None:
        self.config = config
        self.history = history
        self.seconds = 0.0
        self.saved = -1
        self.saved_at = time.monotonic()

    @abc.abstractmethod
    def one_update(self) -> dict[str, Any]:
        """Do an update; return its row of the history without `update` and `seconds`."""

    @abc.abstractmethod
    def modules(self) -> list[nn.Module]:
        """The modules that are trained."""

    @abc.abstractmethod
    def parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The state besides config and history, and files by name, for a checkpoint."""

    @abc.abstractmethod
    def run(self) -> Any:
        """The run so far, as it is returned to the caller."""

    @abc.abstractmethod
    def title(self) -> str:
        """The algorithm and its task, in front of the progress bar."""

    def announcement(self) -> str:
        """A line about the run, said once at the beginning."""
        return ""

    def shown(self, row: dict[str, float]) -> dict[str, Any]:
        """The part of a row that is shown while training."""
        return {}

    def agree(self, signal: int) -> int:
        """The number of the signal that stops the run before the next update, or 0.

        `signal` is that of this process. Several that train one run together must stop at the same update.
        """
        return signal

    @property
    def update(self) -> int:
        """The number of updates done."""
        return len(self.history)

    @property
    def position(self) -> int:
        """The progress of the run, by its counter."""
        return int(self.history.last(self.counter)) if self.history else 0

    @property
    def progress(self) -> float:
        """The share done, from 0 to 1."""
        return min(1.0, self.position / self.config[self.limit])

    def checkpoint(self) -> Checkpoint:
        """Everything needed to resume from here."""
        parts, files = self.parts()
        state = {
            "format": self.format,
            "version": ppobook.__version__,
            "config": self.config,
            **parts,
            "history": self.history.tensors(),
            "seconds": self.seconds,
        }
        return Checkpoint(state, files, text=self.history.text())

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore history and time; the parts are for the subclass to restore."""
        self.history = History(checkpoint.state["history"])
        self.seconds = checkpoint.state["seconds"]
        self.saved = self.update
        total, done = self.config[self.limit], self.position
        if total < done and total != checkpoint.config[self.limit]:
            raise ValueError(f"{self.limit} must be at least {done}, as many as are done, got {total}")

    def save(self, folder: RunFolder | None) -> None:
        """Write a checkpoint after the present update."""
        if folder is not None:
            write_checkpoint(folder.path, self.checkpoint())
        self.saved, self.saved_at = self.update, time.monotonic()

    def go(
        self,
        folder: RunFolder | None,
        interrupts: Interrupts,
        progress: bool | None,
        tensorboard: bool,
    ) -> None:
        """Update until the run is as long as it was asked to be, or a signal stops it.

        An error, or a second Ctrl-C, loses the updates since the last checkpoint; a note on it says so.

        Raises
        ------
        FloatingPointError
            The weights have diverged; a loss or a gradient is not finite.
        Interrupted
            Ctrl-C, SIGTERM or SIGHUP.
        """
        total, signal = self.config[self.limit], 0
        started = time.perf_counter() - self.seconds
        with (
            Progress(total, self.position, self.title(), self.unit, progress) as line,
            events(folder.path if folder and tensorboard else None, self.counter, self.position) as log,
        ):
            if self.position < total:
                line.announce(self.announcement())
            try:
                if self.saved < 0:
                    self.save(folder)
                while self.position < total and not (signal := self.agree(int(interrupts.asked or 0))):
                    with interrupts.update():
                        row = self._finite_update()
                    self.seconds = time.perf_counter() - started
                    row = self.history.append({**row, "update": self.update + 1, "seconds": self.seconds})
                    log(row)
                    line.show(self.position, self.shown(row))
                    late = time.monotonic() - self.saved_at >= MOST_SECONDS
                    if late or self.update % self.config["checkpoint_every"] == 0:
                        self.save(folder)
                if self.saved < self.update:
                    self.save(folder)
            except BaseException as error:
                if folder is not None and self.saved >= 0:
                    error.add_note(f"update {self.saved} is saved; {_go_on(folder)}")
                raise
        if signal:
            by = "Ctrl-C" if signal == SIGINT else Signals(signal).name
            place = "" if self.counter == "update" else f", {validation.counted(self.position, self.unit)}"
            rest = _go_on(folder) if folder is not None else "not saved, for no folder was given"
            said = f"stopped by {by} after update {self.update}{place}; {rest}"
            raise Interrupted(said, self.run(), signal)

    def _finite_update(self) -> dict[str, Any]:
        """Do an update after which all numbers are finite; raise FloatingPointError if they are not."""
        diverged = f"training has diverged in update {self.update + 1}"
        try:
            row = self.one_update()
        except Exception as error:  # weights that are not finite can make anything fail
            if isinstance(error, FloatingPointError | validation.NotFiniteError):
                raise FloatingPointError(f"{diverged}: {error}; try a smaller learning rate") from error
            if weights_are_finite(self.modules()):
                raise
        else:
            if weights_are_finite(self.modules()):
                return row
        raise FloatingPointError(f"{diverged}: weights must stay finite; try a smaller learning rate")


def _go_on(folder: RunFolder) -> str:
    return f"go on with resume={str(folder.path)!r}"


def run_training(
    new: Callable[[], LoopT],
    resumed: Callable[[RunFolder], LoopT],
    *,
    out: str | Path | None,
    resume: str | Path | None,
    num_threads: int = 1,
    progress: bool | None = None,
    tensorboard: bool = False,
    writes: bool = True,
) -> LoopT:
    """Train a new run, or resume one.

    Parameters
    ----------
    new : function
        Makes a new loop. It is called before the folder is created, so an error leaves none behind.
    resumed : function of a RunFolder
        Makes the loop as it was at the last checkpoint. The folder is locked meanwhile.
    writes : bool
        If true, this process locks and writes the folder. Of several that train one run together, one does.
    others
        As for `ppobook.train`.
    """
    num_threads = validation.count("num_threads", num_threads)
    if tensorboard and out is None and resume is None:
        raise ValueError("out must be a folder for the events of tensorboard=True, got None")
    if out is not None and resume is not None:
        raise ValueError(f"out must be left out with resume, whose folder the run stays in, got {out!r}")
    folder: RunFolder | None = None
    with contextlib.ExitStack() as held:
        if resume is not None:
            folder = RunFolder.at("resume", resume).absolute()
            if writes and folder.path.is_dir():
                held.enter_context(locked(folder))
            loop = resumed(folder)
        else:
            if out is not None:
                folder = RunFolder.at("out", out).absolute()
            loop = new()
            if folder is not None and writes:
                make_new(folder)
                held.enter_context(locked(folder))
        held.enter_context(threads(num_threads))
        interrupts = held.enter_context(Interrupts(answers=writes))
        loop.go(folder if writes else None, interrupts, progress, tensorboard)
    return loop
