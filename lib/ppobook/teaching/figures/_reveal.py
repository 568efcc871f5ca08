"""Runs of a record, drawn as far as the reader moves, to answer a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike

    Group = tuple[str, ArrayLike]


def reveal(
    panels: Mapping[str, Group | Mapping[str, Group]],
    *,
    x: Sequence[int],
    xlabel: str,
    ask: Mapping[str, Any],
    finding: str,
    alt: str,
    texts: Mapping[str, tuple[int, str]] | None = None,
    first_is_open: bool = True,
    start: int = 0,
    levels: Mapping[str, tuple[float, str]] | None = None,
) -> Figure:
    """Ask how some runs go on, and draw them as far as the reader moves. `widget().at` says how far.

    Parameters
    ----------
    panels : mapping of str to (str, array of shape (S, T)), or to a mapping of str to such pairs
        Each panel's title, the name of its color, and its curves, one row per seed; or several such groups of
        curves, each with its name.
    x : sequence of int, length T
    ask : mapping
        "asks", "options", "right" (the index of the right option) and "answer", a sentence that tells why.
    finding : str
        The title of the still picture.
    alt : str
        What the figure shows, for someone who cannot see it.
    texts : mapping of str to (int, str), optional
        What stands below: a title, from which value of `x` on it is shown, and the text.
    first_is_open : bool
        The others are hidden until there is a guess.
    start : int
        The value of `x` up to which the runs are drawn at first.
    levels : mapping of str to (float, str), optional
        For the panel with this title, a horizontal line and its name.
    """
    x = [int(value) for value in x]
    groups = {
        title: {
            name: (hue, np.asarray(rows, dtype=np.float64).round(3))
            for name, (hue, rows) in (panel if isinstance(panel, Mapping) else {"": panel}).items()
        }
        for title, panel in panels.items()
    }
    levels = levels or {}
    state: dict[str, Any] = {
        "x": x,
        "xlabel": xlabel,
        "at": x.index(start),
        "first_is_open": first_is_open,
        "panels": [
            {
                "title": title,
                "level": levels.get(title),
                "groups": [
                    {"name": name, "hue": hue, "runs": [" ".join(f"{y:g}" for y in row) for row in rows]}
                    for name, (hue, rows) in panel.items()
                ],
            }
            for title, panel in groups.items()
        ],
        "ask": dict(ask),
        "texts": [
            {"title": title, "at": x.index(since), "text": text}
            for title, (since, text) in (texts or {}).items()
        ],
    }

    def still(picture: Picture) -> None:
        axes = np.atleast_1d(picture.subplots(1, len(groups)))
        for ax, (title, panel) in zip(axes, groups.items(), strict=True):
            for name, (hue, rows) in panel.items():
                color = style.colour(hue)
                ax.plot(x, rows.T, color=color, linewidth=0.8, alpha=0.5)
                ax.plot(x, rows.mean(axis=0), color=color, linewidth=2.6, label=name or "_")
            level, words = levels.get(title, (0, ""))
            ax.axhline(level, color=style.colour("muted" if words else "faint"), linewidth=1, zorder=0)
            ax.text(x[0], level, words, va="top", color=style.colour("muted", "text"), fontsize=12)
            ax.set_title(title, fontsize=12)
            ax.set_xlabel(xlabel)
            if len(panel) > 1:
                style.label_curves(ax)
        style.finding(picture, finding)

    return Figure("reveal", state, alt=alt, height=3.25, still=still)
