"""Episodes as films of line drawings: a few lines a picture, and a ground that stands still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike

# How many pictures of an episode stand in the still one, the last one among them.
_EXPOSURES = 8


def drawn_film(
    episodes: Mapping[str, Sequence[ArrayLike]],
    *,
    ground: ArrayLike,
    alt: str,
    rate: float = 16,
    ends: Mapping[str, tuple[bool, str]] | None = None,
    goal: str = "",
) -> Figure:
    """Show episodes as line drawings, side by side, looping; still where a reader wants no motion.

    Parameters
    ----------
    episodes : mapping of str to sequence of array, shape (lines, 4)
        What each episode is called, and its pictures: lines from (x1, y1) to (x2, y2).
    ground : array, shape (lines, 4)
        Lines that stand in all pictures. They and the episodes say how large a picture is.
    alt : str
        What the film shows, for someone who cannot see it.
    rate : float above 0
        Pictures a second.
    ends : mapping of str to (bool, str), optional
        What to say of an episode when it is over: whether it ended well, and how.
    goal : str, optional
        A line above the film: what to look for, or what to ask.
    """
    below = _lines(ground)
    shown: list[dict[str, Any]] = []
    for name, pictures in episodes.items():
        drawings = [_lines(picture) for picture in pictures]
        shown.append({"name": name, "end": (ends or {}).get(name), "pictures": drawings})
    every = np.concatenate([below, *(lines for one in shown for lines in one["pictures"])])
    x, y = every[:, [0, 2]], every[:, [1, 3]]
    frame = [round(float(edge), 2) for edge in (x.min(), y.min(), x.max(), y.max())]
    state = {
        "episodes": [{**one, "pictures": [lines.tolist() for lines in one["pictures"]]} for one in shown],
        "ground": below.tolist(),
        "frame": frame,
        "rate": rate,
        "goal": goal,
    }
    left, bottom, right, top = frame
    height = (style.WIDTH * (top - bottom) / (right - left) + 0.45) * len(shown)
    return Figure(
        "film",
        state,
        alt=alt,
        height=round(96 * height) / 96,
        still=lambda picture: _still(picture, shown, below, frame),
    )


def _lines(lines: ArrayLike) -> np.ndarray:
    return np.asarray(lines, dtype=np.float64).round(2)


def _still(picture: Picture, episodes: list[dict[str, Any]], ground: np.ndarray, frame: list[float]) -> None:
    left, bottom, right, top = frame
    for ax, one in zip(np.atleast_1d(picture.subplots(len(episodes), 1)), episodes, strict=True):
        moments = np.unique(np.linspace(0, len(one["pictures"]) - 1, _EXPOSURES).round().astype(int))
        for lines, colour, strength in (
            (ground, "muted", 1.0),
            *((one["pictures"][i], "ppo", 1.0 if i == moments[-1] else 0.3) for i in moments),
        ):
            for x1, y1, x2, y2 in lines:
                ax.plot([x1, x2], [y1, y2], color=style.colour(colour), alpha=strength, lw=2)
        ax.set_title(one["name"] + (f": {one['end'][1]}" if one["end"] else ""), fontsize=13)
        ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
        ax.axis("off")
