"""`ppobook compare`."""

from __future__ import annotations

from typing import Annotated

import tyro

from ppobook.cli.options import MaybeFile, command


@command
def compare(
    folders: Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN …")],
    /,
    *,
    metric: str = "return_mean",
    out: MaybeFile = None,
) -> None:
    """Compare runs, grouped by algorithm, environment and settings.

    A group is the mean of its seeds over the last tenth of the steps that all of them have, with a 95 %
    bootstrap interval. With few seeds the interval is too narrow; with one there is none. A run that stopped
    early is left out, unless its whole group did, which is said.

    Args:
        folders: the runs
        metric: a column of the histories
        out: also draw the curves, in a .svg, .png or .pdf to write or replace
    """
    import warnings

    from ppobook.analysis.compare import PICTURES, compare
    from ppobook.analysis.files import new_file

    if out is not None:
        new_file("out", out, PICTURES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are printed below
        found = compare(folders, metric)
    print(found.table.to_string(index=False, na_rep="-", float_format=lambda x: f"{x:.4g}"))
    for note in found.notes:
        print(note)
    if out is not None:
        print(f"drawn in {found.plot(out)}")
