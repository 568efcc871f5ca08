"""Runs of a record: one measure is open, the others appear after a guess, as the reader moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike


def reveal(
    panels: Mapping[str, tuple[str, ArrayLike]],
    *,
    x: Sequence[int],
    xlabel: str,
    question: str,
    options: Sequence[str],
    right: int,
    answer: str,
    finding: str,
    alt: str,
    texts: Mapping[str, tuple[int, str]] | None = None,
) -> Figure:
    """Ask how a second measure of the same runs goes, and draw it as far as the reader moves.

    Parameters
    ----------
    panels : mapping of str to (str, array of shape (S, T))
        Each measure's title, the name of its color, and its curves, one row per seed. The first is open.
    x : sequence of int, length T
    question, options, right, answer
        What the reader guesses, what they choose from, which choice is right, and a sentence that tells why.
    finding : str
        The title of the still picture.
    alt : str
        What the figure shows, for someone who cannot see it.
    texts : mapping of str to (int, str), optional
        What stands below: a title, from which value of `x` on it is shown, and the text.
    """
    x = [int(value) for value in x]
    curves = {title: np.asarray(rows, dtype=np.float64).round(3) for title, (_, rows) in panels.items()}
    state: dict[str, Any] = {
        "x": x,
        "xlabel": xlabel,
        "at": 0,
        "panels": [
            {"title": title, "hue": hue, "runs": [" ".join(f"{y:.3f}" for y in row) for row in curves[title]]}
            for title, (hue, _) in panels.items()
        ],
        "question": {"words": question, "options": list(options), "right": right, "answer": answer},
        "texts": [
            {"title": title, "at": x.index(since), "text": text}
            for title, (since, text) in (texts or {}).items()
        ],
    }
    hues = {title: hue for title, (hue, _) in panels.items()}
    return Figure(
        "reveal",
        state,
        alt=alt,
        height=3.25,
        still=lambda picture: _still(picture, curves, hues, x, xlabel, finding),
    )


def _still(
    picture: Picture,
    curves: Mapping[str, np.ndarray],
    hues: Mapping[str, str],
    x: Sequence[int],
    xlabel: str,
    finding: str,
) -> None:
    for ax, (title, rows) in zip(picture.subplots(1, len(curves)), curves.items(), strict=True):
        hue = style.colour(hues[title])
        ax.plot(x, rows.T, color=hue, linewidth=0.8, alpha=0.5)
        ax.plot(x, rows.mean(axis=0), color=hue, linewidth=2.6)
        ax.axhline(0, color=style.colour("faint"), linewidth=1, zorder=0)
        ax.set_title(title, fontsize=12)
        ax.set_xlabel(xlabel)
    style.finding(picture, finding)
