"""A run from its beginning, or from its last checkpoint, to its end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from ppobook import validation
from ppobook.run.folder import RunFolder, files_without_update, make_new, remove
from ppobook.run.interrupts import Interrupts
from ppobook.run.lock import locked
from ppobook.run.loop import TrainingLoop
from ppobook.run.machine import threads
from ppobook.run.progress import say
from ppobook.run.settings import argument

LoopT = TypeVar("LoopT", bound=TrainingLoop)


def run_training(
    new: Callable[[], LoopT],
    resumed: Callable[[RunFolder], LoopT],
    *,
    out: str | Path | None,
    resume: str | Path | None,
    num_threads: int = 1,
    progress: bool | None = None,
    tensorboard: bool = False,
    checkpoint_minutes: float = 5.0,
    writes: bool = True,
) -> LoopT:
    """Train a new run, or resume one.

    Parameters
    ----------
    new : function
        Makes a new loop. It is called before the folder is created, so an error leaves none behind.
    resumed : function of a RunFolder
        Makes the loop as it was at the last checkpoint. The folder is locked meanwhile.
    out, resume : path, optional
        A new folder, or that of a run. With neither, nothing is kept. A run that ended before its first
        update was done does not make a folder less new: it is replaced, which is said.
    num_threads : int
        Threads of torch and NumPy.
    progress : bool, optional
        See `ppobook.run.progress.Progress`.
    tensorboard : bool
        Also write the history as TensorBoard events into the folder.
    checkpoint_minutes : float
        A checkpoint is also written when the last one is older than this.
    writes : bool
        Whether this process locks and writes the folder. Of several that train one run together, one does.

    Raises
    ------
    ValueError, TypeError, OSError
        An argument that can't be used; and what `TrainingLoop.go` raises.
    """
    num_threads = argument("num_threads", num_threads)
    checkpoint_minutes = argument("checkpoint_minutes", checkpoint_minutes)
    if progress is not None:
        progress = validation.flag("progress", progress)
    if validation.flag("tensorboard", tensorboard) and out is None and resume is None:
        raise ValueError("out must be a folder for the events of tensorboard=True, got None")
    folder = None
    if resume is not None:
        folder = RunFolder.at("resume", resume).absolute()
        if out is not None:
            raise ValueError(f"out must be left out with resume, whose folder the run stays in, got {out!r}")
    elif out is not None:
        folder = RunFolder.at("out", out).absolute()
    with contextlib.ExitStack() as held:
        # The caller may be in no_grad or inference_mode, as the step of an environment is.
        held.enter_context(torch.inference_mode(False))
        held.enter_context(torch.enable_grad())
        if folder is not None and resume is not None:
            if writes:
                held.enter_context(locked(folder))
            loop = resumed(folder)
        else:
            loop = new()
        loop.refuse_unless_finite()
        if folder is not None and resume is None and writes:
            if untrained := files_without_update(folder.path):
                with locked(folder):
                    remove(untrained)
                say(f"{folder} held a run without an update: the new run takes its place")
            make_new(folder)
            held.enter_context(locked(folder))
        held.enter_context(threads(num_threads))
        interrupts = held.enter_context(Interrupts(answers=writes))
        loop.go(folder if writes else None, interrupts, progress, tensorboard, checkpoint_minutes)
    return loop
