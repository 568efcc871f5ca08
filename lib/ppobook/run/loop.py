"""TODO."""

from __future__ import annotations

import abc
import contextlib
import errno
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn

import ppobook
from ppobook import validation
from ppobook.run.checkpoint import Checkpoint, drop_later, write_checkpoint
from ppobook.run.folder import RunFolder, locked, new_folder, refuse_unless_writable
from ppobook.run.history import History
from ppobook.run.interrupts import Interrupted, Interrupts
from ppobook.run.machine import threads
from ppobook.run.progress import bar, events

# A weight of this size is none that has been learned.
NO_WEIGHT = 1e6


class TrainingLoop(abc.ABC):
    """A run while it runs: one update after the other, saved every so often, until it is long enough.

    A trainer is a subclass, which says in the methods below what it trains. For resuming to the same bits,
    whatever one update leaves to the next must come back from what `parts` returned.

    Parameters
    ----------
    config : dict
        All that the run was asked for, in plain data: `checkpoint_every`, the entry named by `limit`, and
        what is the trainer's own.
    history : History
        Without rows, for a fresh run.

    Attributes
    ----------
    counter : str, of the class
        The column of the history that says how far a run has come.
    unit : str, of the class
        What that counts, for people.
    limit : str, of the class
        The entry of the config that says how far it is to go.
    format : int or str, of the class
        The layout of its checkpoints, as for `read_checkpoint`.
    seconds : float
        Wall-clock time spent so far.
    saved : int
        The update after which the last checkpoint was written; -1 if there is none.
    """

    counter: ClassVar[str] = "update"
    unit: ClassVar[str] = "updates"
    limit: ClassVar[str]
    format: ClassVar[int | str]

    def __init__(self, config: dict[str, Any], history: History) -> None:
        self.config = config
        self.history = history
        self.seconds = 0.0
        self.saved = -1
        # Whether an update that failed has left everything as it was before it.
        self.untouched = False

    # What a subclass writes.

    @abc.abstractmethod
    def one_update(self) -> dict[str, Any]:
        """Do an update; return its row of the history, less `update` and `seconds`."""

    @abc.abstractmethod
    def modules(self) -> list[nn.Module]:
        """What has weights that are learned."""

    @abc.abstractmethod
    def parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """For a checkpoint: what is to go into its state, beside config and history; and files by name."""

    @abc.abstractmethod
    def run(self) -> Any:
        """What the caller is given, as far as it came."""

    @abc.abstractmethod
    def label(self) -> str:
        """What is being done, in front of the bar."""

    def shown(self, row: dict[str, float]) -> dict[str, Any]:
        """What the bar shows of a row, beside the number of the update."""
        return {}

    def rates(self) -> dict[str, float]:
        """Step sizes by name: one of them is too large where weights grow beyond all bounds."""
        return {
            name: rate
            for name, rate in self.config.items()
            if f"_{name}".endswith("_lr") and isinstance(rate, int | float)
        }

    def before_checkpoint(self) -> None:  # noqa: B027 - most have nothing of the kind
        """Begin anew what a checkpoint cannot hold, where one is due.

        The run that goes on does so, and the one that is resumed there: thus the two agree.
        """

    def agreed(self, stop: bool) -> bool:
        """Whether to stop before the next update, where Ctrl-C has said so, or not, in this process.

        Several processes that train one run together must do so at the same update.
        """
        return stop

    def to_go_on(self, folder: Path) -> str:
        """How, for somebody whose run has ended early."""
        return f"go on with resume={str(folder)!r}"

    # What all of them do.

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

    def checkpoint(self) -> Checkpoint:
        """All that is needed to go on from here."""
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

    def go_on_from(self, checkpoint: Checkpoint) -> None:
        """Take over what every checkpoint has; the parts are for the subclass to put back."""
        self.history = History(checkpoint.state["history"])
        self.seconds = checkpoint.state["seconds"]
        self.saved = self.update

    def save(self, home: RunFolder | None, *, due: bool) -> None:
        """A checkpoint after the present update."""
        if due:
            self.before_checkpoint()
        self.saved = self.update
        if home is None:
            return
        try:
            write_checkpoint(home.folder, self.checkpoint())
        except OSError as error:
            remedy = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "mend that"
            raise OSError(
                f"{home} cannot be written any more ({error.strerror or error}); "
                f"earlier checkpoints are whole; {remedy} and resume from there"
            ) from None

    def go(
        self, home: RunFolder | None, interrupts: Interrupts, progress: bool | None, tensorboard: bool
    ) -> None:
        """Update until the run is as long as it was asked to be, or somebody presses Ctrl-C.

        Raises
        ------
        FloatingPointError
            The weights have grown beyond all bounds.
        Interrupted
            Ctrl-C, once.
        OSError
            The folder cannot be written.
        """
        total, every = self.config[self.limit], self.config["checkpoint_every"]
        folder = home.folder if home else None
        if home and self.position < total:
            refuse_unless_writable(home)
            drop_later(home.folder, self.update)
        started = time.perf_counter() - self.seconds
        with (
            bar(total, self.position, self.label(), f" {self.unit}", progress) as line,
            events(folder if tensorboard else None, self.counter, self.position) as log,
        ):
            if self.saved < 0:
                self.save(home, due=True)
            stopped = False
            while self.position < total and not (stopped := self.agreed(interrupts.asked)):
                try:
                    row = self._sound_update()
                except Exception as error:
                    if self.untouched:
                        if self.saved < self.update:
                            self.save(home, due=False)
                        if folder is not None:
                            error.add_note(f"update {self.update} is saved; {self.to_go_on(folder)}")
                    raise
                self.seconds = time.perf_counter() - started
                row = self.history.append({**row, "update": self.update + 1, "seconds": self.seconds})
                log(row)
                if not line.disable:
                    line.set_postfix(update=self.update, **self.shown(row), refresh=False)
                    line.update(self.position - line.n)
                if self.update % every == 0:
                    self.save(home, due=True)
            if self.saved < self.update:
                self.save(home, due=False)
        if stopped:
            kept = f"; {self.to_go_on(folder)}" if folder is not None else ", and kept nowhere but in .run"
            place = "" if self.counter == "update" else f", {self.position} {self.unit}"
            raise Interrupted(f"stopped by Ctrl-C after update {self.update}{place}{kept}", self.run())

    def _sound_update(self) -> dict[str, Any]:
        """An update after which the weights are still numbers."""
        try:
            row = self.one_update()
            if not weights_are_finite(self.modules()):
                raise FloatingPointError
        except Exception as error:
            # Weights without bounds make nearly anything stumble; then they are what to speak of.
            if not grown_beyond_bounds(self.modules()):
                raise
            now = " or ".join(f"{name} (now {rate:g})" for name, rate in self.rates().items())
            raise FloatingPointError(
                f"the weights have grown beyond all bounds, seen in update {self.update + 1}; "
                f"a smaller {now or 'step'} is wanted. Checkpoints saved before are whole"
            ) from error
        return row


TrainingT = TypeVar("TrainingT", bound=TrainingLoop)


def run_training(
    fresh: Callable[[], TrainingT],
    resumed: Callable[[RunFolder], TrainingT],
    *,
    out: str | Path | None,
    resume: str | Path | None,
    num_threads: int = 1,
    progress: bool | None = None,
    tensorboard: bool = False,
    writes: bool = True,
) -> TrainingT:
    """A run from its beginning, or from its last checkpoint, to its end.

    Parameters
    ----------
    fresh : function
        Makes the run. It is called before there is a folder, so that what it refuses leaves none.
    resumed : function of a RunFolder
        Makes it as it was at the last checkpoint there, while nobody else can train in that folder.
    out, resume : path, optional
        A new folder, or that of a run; or neither, and then nothing is kept.
    num_threads : int
        Threads of torch and NumPy.
    progress : bool, optional
        Whether to show a bar. If left out: in a terminal and in a notebook.
    tensorboard : bool
        Also write the history as TensorBoard events, into the folder.
    writes : bool
        Whether this process locks and writes the folder. Of several that train one run together, one does.

    Raises
    ------
    ValueError, TypeError, OSError
        An argument that cannot be used, with a sentence that says why; and what `TrainingLoop.go` raises.
    """
    # More threads than this and the system may refuse one in the middle, which ends the process.
    num_threads = validation.count("num_threads", num_threads, high=256)
    if progress is not None:
        progress = validation.flag("progress", progress)
    if validation.flag("tensorboard", tensorboard) and out is None and resume is None:
        raise ValueError("tensorboard=True, and out is left out; a folder is wanted to write the events to")
    home = None
    if resume is not None:
        home = RunFolder.at("resume", resume)
        if out is not None:
            raise ValueError(
                f"out={str(out)!r}: a resumed run stays in its folder; wanted: resume without out"
            )
    elif out is not None:
        home = RunFolder.at("out", out)
    with contextlib.ExitStack() as held:
        if home is not None and resume is not None:
            if writes:
                held.enter_context(locked(home))
            training = resumed(home)
        else:
            training = fresh()
            if home is not None and writes:
                new_folder(home)
                held.enter_context(locked(home))
        held.enter_context(threads(num_threads))
        training.go(home if writes else None, held.enter_context(Interrupts()), progress, tensorboard)
    return training


def weights_are_finite(modules: Iterable[nn.Module]) -> bool:
    """Whether all weights are numbers."""
    weights = [p.detach() for module in modules for p in module.parameters()]
    # A finite length has finite terms, and is found in one go. One that is not may have overflowed.
    if math.isfinite(torch.nn.utils.get_total_norm(weights).item()):
        return True
    return all(torch.isfinite(p).all() for p in weights)


@torch.no_grad()
def grown_beyond_bounds(modules: Iterable[nn.Module]) -> bool:
    """Whether the weights are no numbers any more, or so large that what they lead to soon is none."""
    return any(
        not torch.isfinite(p).all() or p.abs().max() > NO_WEIGHT
        for module in modules
        for p in module.parameters()
        if p.numel() > 0
    )
