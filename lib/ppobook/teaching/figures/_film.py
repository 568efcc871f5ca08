"""Games of CartPole as a film: the cart and the pole at the game's own speed, over and over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike

# The game as Gymnasium has it: pushes a second, where it ends, the pole's length. The still picture takes two
# exposures a second.
_RATE = 50
_RAIL = 2.4
_POLE = 1.0
_EXPOSURES = 25


def film(games: Mapping[str, ArrayLike], *, limit: int = 500, ask: Mapping[str, Any] | None = None) -> Figure:
    """Show games of CartPole side by side, looping. It stands still where a reader wants no motion.

    Parameters
    ----------
    games : mapping of str to array, shape (T + 1, 4)
        What each player is called, and the observations of one of its games from the first to the last:
        the cart's position and speed, the pole's angle (in radians, to the right) and angular speed.
    limit : int
        Pushes after which a game ends although the pole stands.
    ask : mapping, optional
        A question above the film: "asks", "options", "right" (the index of the right option), and "answer".
    """
    shown = [_game(name, observations, limit) for name, observations in games.items()]
    ends = " ".join(f"{game['name']}: {game['end']} {game['pushes']}." for game in shown)
    alt = f"""
        A film of {len(shown)} game{"s" * (len(shown) > 1)} of CartPole, each a cart on a rail with a pole
        hinged on top. {ends}
    """
    state = {"games": shown, "rate": _RATE, "rail": _RAIL, "pole": _POLE, "ask": dict(ask) if ask else None}
    return Figure(
        "film", state, alt=alt, height=1.75 * len(games), still=lambda picture: _still(picture, shown)
    )


def _game(name: str, observations: ArrayLike, limit: int) -> dict[str, Any]:
    seen = np.asarray(observations, dtype=np.float64)
    pushes = len(seen) - 1
    end = "the pole still stands at push"
    if pushes < limit:
        end = "the cart leaves the rail at push" if abs(seen[-1, 0]) > _RAIL else "the pole falls at push"
    return {
        "name": name,
        "pushes": pushes,
        "end": end,
        "x": [round(float(x), 3) for x in seen[:, 0]],
        "angle": [round(float(angle), 3) for angle in seen[:, 2]],
    }


def _still(picture: Picture, games: list[dict[str, Any]]) -> None:
    for ax, game in zip(np.atleast_1d(picture.subplots(len(games), 1)), games, strict=True):
        moments = [*range(0, game["pushes"], _EXPOSURES), game["pushes"]]
        for moment in moments:
            _draw_cart(ax, game["x"][moment], game["angle"][moment], last=moment == game["pushes"])
        ax.plot([-_RAIL, _RAIL], [0, 0], color=style.colour("muted"), lw=1.2, zorder=0)
        ax.set_title(f"{game['name']}: {game['end']} {game['pushes']}", fontsize=13)
        ax.set(xlim=(-2.9, 2.9), ylim=(-0.12, 1.3), aspect="equal")
        ax.axis("off")


def _draw_cart(ax: Axes, x: float, angle: float, *, last: bool) -> None:
    shade: dict[str, Any] = {"alpha": 1.0 if last else 0.16, "solid_capstyle": "butt"}
    tip = x + _POLE * math.sin(angle), 0.16 + _POLE * math.cos(angle)
    ax.plot([x - 0.25, x + 0.25], [0.08, 0.08], color=style.colour("ink"), lw=8, **shade)
    ax.plot([x, tip[0]], [0.16, tip[1]], color=style.colour("vanilla"), lw=4, **shade)
