"""`ppobook record`."""

from __future__ import annotations

from typing import Annotated

import tyro

from ppobook.cli.options import MaybeFolder, command


@command
def record(
    name: Annotated[str, tyro.conf.arg(metavar="NAME")],
    /,
    *,
    workers: int | None = None,
    ray: str | None = None,
    folder: MaybeFolder = None,
) -> None:
    """Run an experiment: every setting with every seed, and one table of the results.

    A run that was stopped goes on where it was. Without an option it is as the experiment's script says.

    Args:
        name: an experiment of the book, or the path of a script of your own that calls
            ppobook.experiments.record
        workers: processes on this machine; 0 runs everything in one
        ray: run on a Ray cluster instead, at this address: auto, or HOST:PORT
        folder: where the experiment's folder is written; without it, results/
    """
    from ppobook.experiments.scripts import run_script

    given = {"workers": workers, "ray": ray, "folder": folder}
    for path in run_script(name, **{one: x for one, x in given.items() if x is not None}):
        print(f"written to {path}")
