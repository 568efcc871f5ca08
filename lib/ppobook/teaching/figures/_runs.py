"""Recorded runs with a question: what does a setting do? A button for each setting, a curve for each seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike


def recorded_runs(
    settings: Mapping[str, tuple[ArrayLike, str, str]],
    x: ArrayLike,
    *,
    ask: Mapping[str, Any],
    labels: tuple[str, str],
    limits: tuple[float, float],
    ticks: tuple[Sequence[float], Sequence[float]],
    alt: str,
    level: tuple[float, str] | None = None,
) -> Figure:
    """Ask what a setting does before the runs with it are seen; the first setting is drawn at once.

    Parameters
    ----------
    settings : mapping of str to (curves, color, sentence)
        For each setting: one curve per seed, shape (S, T), without NaN; a name of the palette; and what
        happened, in one sentence.
    x : shape (T,)
    ask : mapping
        "asks", "options", "right" (the index of the right option) and "answer" (a sentence), "todo" (what to
        do after guessing), and "decides", the index of the setting that shows the answer.
    labels, ticks : for x and for y
    limits : of y
    alt : str
        What the figure shows, for someone who cannot see it.
    level : (y, text), optional
        A horizontal line and its name.
    """
    drawn = {name: np.asarray(curves, dtype=np.float64) for name, (curves, _, _) in settings.items()}
    decimals = 0 if limits[1] - limits[0] > 50 else 3
    state = {
        "settings": [
            {
                "name": name,
                # In one text: a notebook would give each number of a list a line of its own.
                "curves": "/".join(" ".join(f"{y:.{decimals}f}" for y in row) for row in drawn[name]),
                "hue": hue,
                "says": says,
            }
            for name, (_, hue, says) in settings.items()
        ],
        "setting": 0,
        "x": np.asarray(x, dtype=np.float64).round(3).tolist(),
        "ask": dict(ask),
        "x_label": labels[0],
        "y_label": labels[1],
        "limits": list(limits),
        "x_ticks": list(ticks[0]),
        "y_ticks": list(ticks[1]),
        "level": level,
    }

    def still(picture: Picture) -> None:
        axes = picture.subplots(1, len(drawn), sharex=True, sharey=True)
        for ax, (name, (_, hue, _)) in zip(axes, settings.items(), strict=True):
            ax.plot(x, drawn[name].T, color=style.colour(hue), lw=0.8, antialiased=False)
            if level:
                ax.axhline(level[0], color=style.colour("ink"), lw=1, ls=":")
            ax.set_title(name, fontsize=12)
            ax.set(ylim=limits, xticks=ticks[0], yticks=ticks[1])
        picture.supxlabel(labels[0], fontsize=13)
        axes[0].set_ylabel(labels[1])

    return Figure("runs", state, alt=alt, height=2.75, still=still)
