"""The loop of all training: update, record, save, stop."""

from __future__ import annotations

import abc
import contextlib
import time
from pathlib import Path
from signal import SIGINT, Signals
from typing import Any, ClassVar

from torch import nn

import ppobook
from ppobook.run.checkpoint import Checkpoint, Format, delete_later, write_checkpoint
from ppobook.run.folder import RunFolder, holds, is_full, refuse_unless_writable, unwritable
from ppobook.run.history import History
from ppobook.run.interrupts import Interrupted, Interrupts
from ppobook.run.metrics import check_metrics, detached, refuse_unless_finite
from ppobook.run.naming import in_shell, named
from ppobook.run.progress import Progress, events, say
from ppobook.run.settings import schedules
from ppobook.run.state import Kept
from ppobook.run.weights import norm_of, weights_are_finite, weights_diverged
from ppobook.validation import NotFiniteError, counted, reason


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
        self._saved_at = time.monotonic()
        # Why whole updates since `saved` are only in memory; empty if the folder can be written.
        self._unwritable = ""
        # While updates are done, the signals that are answered.
        self.interrupts = Interrupts()
        # The norm of the weights when training begins: steps that are too large change it.
        self._norm = 0.0
        # The state before the update in progress; None between two updates.
        self._kept: Kept | None = None
        self._metrics_checked = False
        self._names: list[set[str]] = []

    # For a subclass to write.

    @abc.abstractmethod
    def one_update(self) -> dict[str, Any]:
        """Do an update; return its row of the history without `update` and `seconds`."""

    @abc.abstractmethod
    def modules(self) -> list[nn.Module]:
        """The modules that are trained."""

    @abc.abstractmethod
    def state(self) -> dict[str, Any]:
        """What updates change besides the history: tensors, plain data, and containers of them."""

    @abc.abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to what `state` returned, after an update that failed in the middle."""

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
        """Learning rates by name, for the message that training has diverged."""
        return {
            name: rate
            for name, rate in self.config.items()
            if f"_{name}".endswith("_lr") and isinstance(rate, int | float)
        }

    def overflowing(self) -> str:
        """What makes numbers overflow whatever the learning rate, and a remedy; empty if nothing is known."""
        return ""

    @property
    def saves_anywhere(self) -> bool:
        """Whether a run that is resumed from any checkpoint, due or not, gives the same bits."""
        return True

    def before_checkpoint(self) -> None:  # noqa: B027 - most need nothing
        """Reset what a checkpoint can't hold, where one is due. Before the first update nothing needs it.

        The run that continues does so as well as the one that is resumed there, so the two agree.
        """

    def agree(self, signal: int) -> int:
        """The number of the signal that stops the run before the next update, or 0.

        `signal` is that of this process. Several that train one run together must stop at the same update.
        """
        return signal

    def passed_again(self) -> list[str]:
        """Entries of the config that no folder holds, such as a class of the user's own."""
        return []

    # The same for all.

    def refuse_unless_finite(self) -> None:
        """Raise ValueError if a weight is not finite before the next update."""
        for module in self.modules():
            for name, weights in module.named_parameters():
                if not weights.isfinite().all():
                    raise ValueError(
                        f"the weights of {type(module).__name__} must be finite before update "
                        f"{self.update + 1}, got {name!r} with NaN or infinity"
                    )

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
        """What a learner's update returned: its kind checked in the first update, its losses in each."""
        if not self._metrics_checked:
            check_metrics(by, returned, self.reserved)
            self._metrics_checked = True
        metrics = detached(returned)
        refuse_unless_finite(by, metrics)
        return metrics

    def how_to_resume(self, folder: Path) -> str:
        """For the message of a run that ended early."""
        again = " and ".join(f"{name} {self.config[name]!r}" for name in self.passed_again())
        return f"go on with {named('resume', folder)}" + (f", and {again} again" if again else "")

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
        before = checkpoint.config
        if self.position >= self.config[self.limit] and self.config != before:  # no update will save it
            asked = [f"{name}={x!r}" for name, x in self.config.items() if x != before[name]]
            done = counted(self.position, self.unit)
            say(f"{', '.join(asked)} changes nothing: the run has its {done} already")
            self.config = before
        scheduled = schedules(self.config)
        if self.position and scheduled and self.config[self.limit] != before[self.limit]:
            then = min(1.0, self.position / before[self.limit])
            listed = ", ".join(f"{name}_final" for name in scheduled)
            say(
                f"{listed}: schedules go by {self.limit}, so they go on at {self.progress:.0%} "
                f"of their way, where they were at {then:.0%}"
            )

    def _refuse_grown(self) -> None:
        """Raise ValueError if a module has other weights than when training began: no run could load them."""
        for module, names in zip(self.modules(), self._names, strict=True):
            if other := names ^ module.state_dict().keys():
                raise ValueError(
                    f"{type(module).__name__} must have the weights that it had before training, or its "
                    f"checkpoints could not be loaded, got another set: {min(other)!r} has come or gone"
                )

    def save(self, folder: RunFolder | None, *, due: bool) -> None:
        """Write a checkpoint after the present update."""
        if folder is not None:
            if due:
                self.before_checkpoint()
            try:
                if not folder.path.exists():
                    folder.path.mkdir(parents=True)
                    say(f"{folder} was removed: written again, with update {self.update} alone")
                self._refuse_grown()
                write_checkpoint(folder.path, self.checkpoint())
            except OSError as error:
                if holds(folder.path, self.update):  # and only history.csv or config.json is not
                    self.saved = self.update
                self._unwritable = f"{unwritable(folder, error)}; {self._what_is_saved(folder, error)}"
                raise OSError(self._unwritable) from None
        self.saved, self._saved_at = self.update, time.monotonic()

    def _what_is_saved(self, folder: RunFolder, error: OSError) -> str:
        """Which updates a folder that can't be written holds, and where the others are."""
        remedy = "make room" if is_full(error) else "make it writable"
        first, kept = 1, "nothing is saved"
        if holds(folder.path, self.saved):
            first, kept = self.saved + 1, f"update {self.saved} is saved: {remedy} and resume"
        if first > self.update:
            return kept
        others = f"updates {first} to {self.update} are" if first < self.update else f"update {first} is"
        where = "lost" if in_shell() else "kept only in .run, to write elsewhere with .run.save(folder)"
        return f"{kept}; {others} {where}"

    def go(
        self,
        folder: RunFolder | None,
        interrupts: Interrupts,
        progress: bool | None,
        tensorboard: bool,
        checkpoint_minutes: float,
    ) -> None:
        """Update until the run is as long as it was asked to be, or a signal stops it.

        Whatever ends it, whole updates are saved: the update in progress is undone. The exception has the run
        so far as its attribute `run`, also where the folder can't be written.

        Raises
        ------
        FloatingPointError
            The weights have diverged; a loss or a gradient is not finite.
        Interrupted
            Ctrl-C, SIGTERM or SIGHUP.
        OSError
            The folder can't be written.
        """
        self.interrupts = interrupts
        total = self.config[self.limit]
        path = folder.path if folder else None
        if folder and self.position < total:
            refuse_unless_writable(folder)
            delete_later(folder.path, self.update)
        started = time.perf_counter() - self.seconds
        with (
            Progress(total, self.position, self.title(), self.unit, progress) as line,
            events(path if tensorboard else None, self.counter, self.position) as log,
        ):
            try:
                self._names = [set(module.state_dict()) for module in self.modules()]
                if self.position < total:
                    line.announce(self.announcement())
                if self.saved < 0:
                    self.save(folder, due=True)
                signal, self._norm = 0, norm_of(self.modules())
                while self.position < total and not (signal := self.agree(int(interrupts.asked or 0))):
                    self._kept = None  # the one before need not stay beside it
                    self._kept = Kept(self.state())
                    with interrupts.update():
                        row = self._finite_update()
                    self.seconds = time.perf_counter() - started
                    row = self.history.append({**row, "update": self.update + 1, "seconds": self.seconds})
                    self._kept = None
                    log(row)
                    line.show(self.position, self.shown(row))
                    if self.update % self.config["checkpoint_every"] == 0:
                        self.save(folder, due=True)
                    elif self.saves_anywhere and time.monotonic() - self._saved_at >= 60 * checkpoint_minutes:
                        self.save(folder, due=False)
                if not self._is_saved(folder):
                    self.save(folder, due=False)
            except BaseException as error:
                whole = self._save_whole_updates(folder, error)
                if not (whole and isinstance(error, KeyboardInterrupt)):
                    if whole:
                        with contextlib.suppress(Exception):  # what ended the run is what to report
                            error.run = self.run()  # type: ignore[attr-defined]
                    raise
                signal = interrupts.asked or SIGINT
        if signal:
            raise self._interrupted(signal, path)

    def _is_saved(self, folder: RunFolder | None) -> bool:
        """Whether the present update is saved; its folder may have been removed since."""
        return self.saved == self.update and (folder is None or holds(folder.path, self.saved))

    def _save_whole_updates(self, folder: RunFolder | None, error: BaseException) -> bool:
        """Undo the update that failed, and save the ones before; a note on the error says what is saved.

        Returns whether nothing is lost of the updates before: if the folder can't be written, they are in
        memory.
        """
        if self._unwritable:  # as the error says
            return True
        lost = ""
        try:
            if self._kept is not None and self._kept.intact:
                self.set_state(self._kept.state)
            elif self._kept is not None:
                lost = "the next one has changed the weights, which are too large to be copied"
            if not lost and not self._is_saved(folder):
                self.save(folder, due=False)
        except Exception as failed:
            lost = reason(failed)
        if folder is not None and lost and not self._is_saved(folder):
            error.add_note(f"update {self.update} could not be saved: {lost}")
        if folder is not None and holds(folder.path, self.saved):
            # A run that has diverged would diverge again.
            go_on = not isinstance(error, FloatingPointError)
            hint = f"; {self.how_to_resume(folder.path)}" if go_on else ""
            hint += ", or begin again in the same folder" if go_on and self.saved == 0 else ""
            error.add_note(f"update {self.saved} is saved{hint}")
        return not lost or bool(self._unwritable)

    def _interrupted(self, signal: int, path: Path | None) -> Interrupted:
        by = "Ctrl-C" if signal == SIGINT else Signals(signal).name
        place = "" if self.counter == "update" else f", {counted(self.position, self.unit)}"
        kept = "; not saved: --out was not given" if in_shell() else ", kept only in .run"
        if path is not None:
            kept = f"; {self._unwritable or self.how_to_resume(path)}"
        return Interrupted(f"stopped by {by} after update {self.update}{place}{kept}", self.run(), signal)

    def _finite_update(self) -> dict[str, Any]:
        """An update after which the weights are finite.

        Raises
        ------
        FloatingPointError
            They are not, or another number was not.
        """
        try:
            row = self.one_update()
            if not weights_are_finite(self.modules()):
                raise FloatingPointError
        except Exception as error:
            # Diverged weights can make anything fail; then they are what to report.
            if weights_diverged(self.modules()):
                what = "weights must stay finite"
            elif isinstance(error, FloatingPointError | NotFiniteError):
                what = str(error).partition(":")[0]
            else:
                raise
            if overflowing := self.overflowing():
                raise FloatingPointError(f"{what}: {overflowing}") from error
            norm = norm_of(self.modules())
            if self.update == 0 and norm == self._norm:
                raise  # no step has been taken that could have been too large
            now = " or ".join(f"{name} (now {rate:g})" for name, rate in self.learning_rates().items())
            less = ", or smaller rewards or coefficients" if norm < 2 * self._norm else ""
            raise FloatingPointError(
                f"training has diverged in update {self.update + 1}: {what}; try a smaller {now or 'step'}"
                f"{less}"
            ) from error
        return row
