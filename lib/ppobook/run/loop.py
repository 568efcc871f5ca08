"""The loop of all training: update, record, save, stop."""

from __future__ import annotations

import abc
import errno
import time
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

import ppobook
from ppobook.run.checkpoint import Checkpoint, Format, delete_later, write_checkpoint
from ppobook.run.folder import RunFolder, refuse_unless_writable
from ppobook.run.history import History
from ppobook.run.interrupts import Interrupted, Interrupts
from ppobook.run.metrics import check_metrics
from ppobook.run.progress import Progress, events
from ppobook.run.weights import weights_are_finite, weights_diverged
from ppobook.validation import counted


class TrainingLoop(abc.ABC):
    """A run in progress: one update after the other, saved every so often, until it is long enough.

    A trainer is a subclass; the methods below say what it trains. For a resume to the same bits, everything
    that one update leaves to the next must come back from what `parts` returned.

    Parameters
    ----------
    config : dict
        Everything that the run was asked for, in plain data: `checkpoint_every`, the entry named by `limit`,
        and the trainer's own.
    history : History
        Without rows, for a new run.

    Attributes
    ----------
    counter : str, of the class
        The column of the history that measures progress.
    unit : str, of the class
        What that counts, for people: one of it.
    limit : str, of the class
        The entry of the config at which the run ends.
    format : Format, of the class
        The layout of its checkpoints.
    reserved : tuple of str, of the class
        Columns of the history that the loop fills, as patterns: an update must not return them.
    seconds : float
        Wall-clock time spent so far.
    saved : int
        The update after which the last checkpoint was written; -1 if there is none.
    """

    counter: ClassVar[str] = "update"
    unit: ClassVar[str] = "update"
    limit: ClassVar[str]
    format: ClassVar[Format]
    reserved: ClassVar[tuple[str, ...]] = ("update", "seconds*")

    def __init__(self, config: dict[str, Any], history: History) -> None:
        self.config = config
        self.history = history
        self.seconds = 0.0
        self.saved = -1
        # Whether an update that failed has left everything as it was before it.
        self.untouched = False
        self._metrics_checked = False

    # For a subclass to write.

    @abc.abstractmethod
    def one_update(self) -> dict[str, Any]:
        """Do an update; return its row of the history without `update` and `seconds`."""

    @abc.abstractmethod
    def modules(self) -> list[nn.Module]:
        """The modules that are trained."""

    @abc.abstractmethod
    def parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """For a checkpoint: its state besides config and history; and files by name."""

    @abc.abstractmethod
    def run(self) -> Any:
        """The run so far, as it is returned to the caller."""

    @abc.abstractmethod
    def title(self) -> str:
        """What is trained, in front of the progress bar."""

    def announcement(self) -> str:
        """What will run, said once at the beginning; nothing where that is what was asked for."""
        return ""

    def shown(self, row: dict[str, float]) -> dict[str, Any]:
        """What is shown of a row while training."""
        return {}

    def learning_rates(self) -> dict[str, float]:
        """Learning rates by name, for the message that weights have diverged."""
        return {
            name: rate
            for name, rate in self.config.items()
            if f"_{name}".endswith("_lr") and isinstance(rate, int | float)
        }

    def before_checkpoint(self) -> None:  # noqa: B027 - most need nothing
        """Reset what a checkpoint can't hold, where one is due.

        The run that continues does so as well as the one that is resumed there, so the two agree.
        """

    def agree(self, stop: bool) -> bool:
        """Whether to stop before the next update, if Ctrl-C has asked for it, or not, in this process.

        Several processes that train one run together must stop at the same update.
        """
        return stop

    def how_to_resume(self, folder: Path) -> str:
        """For the message of a run that ended early."""
        return f"go on with resume={str(folder)!r}"

    # The same for all.

    @property
    def update(self) -> int:
        """The number of updates done."""
        return len(self.history)

    @property
    def position(self) -> int:
        """How far the run has come, by its counter."""
        return int(self.history.last(self.counter)) if self.history else 0

    @property
    def progress(self) -> float:
        """The share done, from 0 to 1."""
        return min(1.0, self.position / self.config[self.limit])

    def metrics(self, by: str, returned: Any) -> dict[str, Any]:
        """What a learner's update returned; checked in the first update."""
        if not self._metrics_checked:
            check_metrics(by, returned, self.reserved)
            self._metrics_checked = True
        return dict(returned)

    def checkpoint(self) -> Checkpoint:
        """Everything needed to resume from here."""
        parts, files = self.parts()
        state = {
            "format": str(self.format),
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

    def save(self, folder: RunFolder | None, *, due: bool) -> None:
        """Write a checkpoint after the present update."""
        if due:
            self.before_checkpoint()
        self.saved = self.update
        if folder is None:
            return
        try:
            write_checkpoint(folder.path, self.checkpoint())
        except OSError as error:
            remedy = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
            raise OSError(
                f"{folder} must be a folder that can be written, got: {error.strerror or error}. "
                f"Earlier checkpoints are complete: {remedy} and resume"
            ) from None

    def go(
        self, folder: RunFolder | None, interrupts: Interrupts, progress: bool | None, tensorboard: bool
    ) -> None:
        """Update until the run is as long as it was asked to be, or Ctrl-C is pressed.

        Raises
        ------
        FloatingPointError
            The weights have diverged.
        Interrupted
            Ctrl-C, once.
        OSError
            The folder can't be written.
        """
        total, every = self.config[self.limit], self.config["checkpoint_every"]
        path = folder.path if folder else None
        if folder and self.position < total:
            refuse_unless_writable(folder)
            delete_later(folder.path, self.update)
        started = time.perf_counter() - self.seconds
        with (
            Progress(total, self.position, self.title(), self.unit, progress) as line,
            events(path if tensorboard else None, self.counter, self.position) as log,
        ):
            if self.position < total:
                line.announce(self.announcement())
            if self.saved < 0:
                self.save(folder, due=True)
            stopped = False
            while self.position < total and not (stopped := self.agree(interrupts.asked)):
                try:
                    row = self._finite_update()
                except Exception as error:
                    if self.untouched:
                        if self.saved < self.update:
                            self.save(folder, due=False)
                        if path is not None:
                            error.add_note(f"update {self.update} is saved; {self.how_to_resume(path)}")
                    raise
                self.seconds = time.perf_counter() - started
                row = self.history.append({**row, "update": self.update + 1, "seconds": self.seconds})
                log(row)
                line.show(self.position, self.shown(row))
                if self.update % every == 0:
                    self.save(folder, due=True)
            if self.saved < self.update:
                self.save(folder, due=False)
        if stopped:
            kept = f"; {self.how_to_resume(path)}" if path is not None else ", kept only in .run"
            place = "" if self.counter == "update" else f", {counted(self.position, self.unit)}"
            raise Interrupted(f"stopped by Ctrl-C after update {self.update}{place}{kept}", self.run())

    def _finite_update(self) -> dict[str, Any]:
        """An update after which the weights are finite."""
        try:
            row = self.one_update()
            if not weights_are_finite(self.modules()):
                raise FloatingPointError
        except Exception as error:
            # Diverged weights can make anything fail; then they are what to report.
            if not weights_diverged(self.modules()):
                raise
            now = " or ".join(f"{name} (now {rate:g})" for name, rate in self.learning_rates().items())
            raise FloatingPointError(
                f"weights must stay finite, got diverged ones in update {self.update + 1}: try a smaller "
                f"{now or 'step'}. Earlier checkpoints are complete"
            ) from error
        return row
