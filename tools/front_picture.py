"""Draw the pictures of the front page: one gradient, two ways to choose the step.

    python tools/front_picture.py

The world is a walk through two corridors, one after the other; the exit of the second pays 1. Each is the
short corridor of Sutton and Barto (2018, example 13.1): three places that look alike, and in the middle one
left is right. Who can't tell them apart does best by going right a little more often than left. So the policy
is two numbers, the logit of "right" in each corridor, and the picture is a map over these two. Every height
and every gradient on it is exact, computed from the tables of the world; nothing is sampled.

On the left, plain gradient steps of one size. On the right, the same gradient and the same step size, but a
step is shortened where it would change the policy by more than a small KL divergence, and halved until it
no longer makes things worse. The dashed rings show how far each policy lets the next one go.

`_static/front*.svg` stand on the PDF's cover, and on the front page where scripts are off.
`_templates/hill.svg` is the map that a reader plays with, before `_static/hill.js` draws other paths on it.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from contourpy import contour_generator
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from ppobook.divergences import kl_categorical
from ppobook.envs import TabularMDP
from ppobook.teaching import style

STEP_SIZE = 240.0
LIMIT = 0.05  # nats of KL, averaged over the places that the old policy visits
STEPS = 10
START = np.array([-3.2, -1.8])
EDGE = 6.8
FIRST_SIZE = 40.0  # the step size that the map to play with begins with
WEST, EAST, SOUTH, NORTH, PIXELS = -6.4, 7.6, -4.0, 5.3, 35  # its edges, and how many pixels are a unit
ALT = (
    "A map of a hill seen from above. The higher a place on it, the more that policy earns. A path of ten "
    "steps begins at the foot of the hill, and the sentence after the map says where it leads."
)
OUT = Path(__file__).resolve().parents[1] / "_static"


def corridors() -> TabularMDP:
    """Places 0, 1, 2, then 3, 4, 5, then the exit. Actions: left, right."""
    moves = np.zeros((7, 2, 7))
    for first in (0, 3):
        for place, (left, right) in enumerate([(0, 1), (2, 0), (1, 3)]):
            moves[first + place, 0, first + left] = 1
            moves[first + place, 1, first + right] = 1
    pays = np.zeros((7, 2, 7))
    pays[5, 1, 6] = 1
    return TabularMDP(moves, pays, gamma=0.85, start=np.eye(7)[0], terminal=np.arange(7) == 6)


WORLD = corridors()
# Which of the two numbers decides in each place; at the exit nobody decides.
LOOKS_LIKE = np.array([0, 0, 0, 1, 1, 1, 0])


def logits(theta: np.ndarray) -> np.ndarray:
    """The table of logits that the two numbers stand for."""
    return np.stack([np.zeros(7), theta[LOOKS_LIKE]], axis=1)


def probs(theta: np.ndarray) -> np.ndarray:
    """The policy."""
    weights = np.exp(logits(theta))
    return weights / weights.sum(axis=1, keepdims=True)


def height(theta: np.ndarray) -> float:
    """J, the expected discounted return."""
    return WORLD.objective(probs(theta))


def gradient(theta: np.ndarray) -> np.ndarray:
    """Compute the gradient of J with respect to the two numbers, summed over places that share a number."""
    table = WORLD.policy_gradient(logits(theta))[:, 1]
    return np.array([table[LOOKS_LIKE == 0].sum(), table[LOOKS_LIKE == 1].sum()])


def change(old: np.ndarray, new: np.ndarray) -> float:
    """KL(old, new), averaged over the places that the old policy visits."""
    visits = WORLD.state_occupancy(probs(old))
    return float(visits @ kl_categorical(logits(old), logits(new)) / visits.sum())


def farthest(theta: np.ndarray, step: np.ndarray) -> float:
    """The largest share of a step, up to 1, that keeps the change within the limit."""
    low, high = 0.0, 1.0
    if change(theta, theta + step) <= LIMIT:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if change(theta, theta + middle * step) <= LIMIT else (low, middle)
    return low


def plain_path(size: float = STEP_SIZE) -> np.ndarray:
    """Steps of one size."""
    path = [START]
    for _ in range(STEPS):
        path.append(path[-1] + size * gradient(path[-1]))
    return np.array(path)


def limited_path(size: float = STEP_SIZE) -> np.ndarray:
    """The same, each step no longer than the limit lets it be."""
    path = [START]
    for _ in range(STEPS):
        theta = path[-1]
        step = size * gradient(theta)
        step = farthest(theta, step) * step
        while height(theta + step) < height(theta):
            step = step / 2
        path.append(theta + step)
    return np.array(path)


def ring(theta: np.ndarray) -> np.ndarray:
    """Return where the change from theta is just the limit, all the way round."""
    angles = np.linspace(0, 2 * np.pi, 73)
    rays = 20 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.array([theta + farthest(theta, ray) * ray for ray in rays])


def draw_land(ax: Axes, ground: str) -> np.ndarray:
    """The map of J; returns where its summit is."""
    axis = np.linspace(-EDGE, EDGE, 81)
    land = np.array([[height(np.array([x, y])) for x in axis] for y in axis])
    levels = np.linspace(0.04, 1, 9) * land.max()
    ramp = ["#eceff2", "#a4aeb9"] if ground == "light" else ["#1f252c", "#5f6b78"]
    paper = style.palette["paper"][ground]
    hues = LinearSegmentedColormap.from_list("land", ramp)
    ax.contourf(axis, axis, land, levels=levels, cmap=hues, extend="max")
    ax.contour(axis, axis, land, levels=levels, colors=paper, linewidths=0.8)
    ax.set(xlim=(-5.2, EDGE), ylim=(-4.6, 5.6), xticks=[], yticks=[], aspect="equal", facecolor=paper)
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set(visible=True, color=style.palette["faint"][ground])
    row, column = np.unravel_index(land.argmax(), land.shape)
    return np.array([axis[column], axis[row]])


def draw_path(ax: Axes, path: np.ndarray, name: str, ground: str) -> None:
    """Steps as a line with a dot for each policy; the first one is hollow."""
    hue, paper = style.palette[name][ground], style.palette["paper"][ground]
    ax.plot(*path.T, color=paper, linewidth=5, zorder=3)
    ax.plot(*path.T, color=hue, linewidth=2.8, zorder=4)
    ax.plot(*path[1:].T, "o", color=hue, markersize=7.5, markeredgecolor=paper, zorder=5)
    ax.plot(*path[0], "o", color=paper, markersize=8.5, markeredgecolor=hue, markeredgewidth=2.4, zorder=5)


def draw(ground: str, plain: np.ndarray, limited: np.ndarray) -> None:
    """Write the picture for a light or a dark page."""
    ink = style.palette["ink"][ground]
    fig, axes = plt.subplots(1, 2, figsize=(6.4, 3.2), facecolor="none")
    titles = ("One step size", "Steps you can trust")
    for ax, path, name, title in zip(axes, (plain, limited), ("vanilla", "trpo"), titles, strict=True):
        top = draw_land(ax, ground)
        if name == "trpo":
            for theta in path[2:6]:
                hue = style.palette[name][ground]
                ax.plot(*ring(theta).T, style.linestyle("old"), color=hue, linewidth=1.3)
        draw_path(ax, path, name, ground)
        ax.plot(*top, "+", color=ink, markersize=12, markeredgewidth=2.2, zorder=6)
        letters = style.palette[name]["text" if ground == "light" else "dark"]
        ax.set_title(title, color=letters, fontweight="bold", fontsize=15)
    words = {"textcoords": "offset points", "fontsize": 13.5, "color": ink, "zorder": 7}
    axes[0].annotate("start", START, (0, -21), ha="center", **words)
    axes[0].annotate("stuck on the flat", plain[-1], (6, 14), ha="right", **words)
    axes[1].annotate("start", START, (0, -21), ha="center", **words)
    axes[1].annotate("top", top, (13, 11), ha="left", **words)
    name = "front.svg" if ground == "light" else "front-dark.svg"
    fig.savefig(OUT / name, facecolor="none", metadata={"Date": None, "Creator": None})


def trace(points: np.ndarray) -> str:
    """A path of the map to play with, as SVG writes it."""
    x, y = PIXELS * (points[:, 0] - WEST), PIXELS * (NORTH - points[:, 1])
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def hill() -> str:
    """The map to play with. Its colours are those of the page, by the classes of `_static/front.css`."""
    xs, ys = np.linspace(WEST, EAST, 71), np.linspace(SOUTH, NORTH, 48)
    land = np.array([[height(np.array([x, y])) for x in xs] for y in ys])
    contours = contour_generator(xs, ys, land, fill_type="OuterCode")
    levels = []
    for level in np.linspace(0.04, 1, 9)[:-1] * land.max():
        outlines, _ = contours.filled(level, 1.0)
        levels.append(f'<path d="{"".join(trace(outline) + "Z" for outline in outlines)}"/>')
    at = np.unravel_index(land.argmax(), land.shape)
    summit = xs[at[1]], ys[at[0]]
    (left, top), (first, low) = ((PIXELS * (x - WEST), PIXELS * (NORTH - y)) for x, y in (summit, START))
    way = trace(plain_path(FIRST_SIZE))
    marker = 'markerUnits="userSpaceOnUse" markerWidth="18" markerHeight="18" viewBox="-9 -9 18 18"'
    size = f"{PIXELS * (EAST - WEST):.0f} {PIXELS * (NORTH - SOUTH):.0f}"
    return f"""<svg viewBox="0 0 {size}" role="img" aria-label="{ALT}">
<defs>
<marker id="hill-dot" {marker}><circle r="4.5"/></marker>
<marker id="hill-end" {marker}><circle r="7"/></marker>
</defs>
<g class="land">
{chr(10).join(levels)}
</g>
<path class="rings"/><path class="ghost"/><path class="halo" d="{way}"/>
<path class="way" d="{way}" marker-mid="url(#hill-dot)" marker-end="url(#hill-end)"/>
<circle class="first" cx="{first:.1f}" cy="{low:.1f}" r="6"/><circle class="ball" r="9"/>
<path class="top" d="M{left - 9:.1f} {top:.1f}h18m-9 -9v18"/>
<text x="{first:.0f}" y="{low + 24:.0f}" text-anchor="middle">start</text>
<text x="{left + 14:.0f}" y="{top - 12:.0f}">top</text>
<text class="stuck" text-anchor="middle"></text>
</svg>
"""


def main() -> None:
    """Draw them, and say where the two paths end."""
    mpl.use("svg")
    plain, limited = plain_path(), limited_path()
    for title, path in (("one step size", plain), ("limited", limited)):
        print(f"{title}: J = {height(path[-1]):.4f} after {STEPS} steps")
    for ground in ("light", "dark"):
        with mpl.rc_context(style.settings()):
            draw(ground, plain, limited)
    (OUT.parent / "_templates" / "hill.svg").write_text(hill(), encoding="utf-8")


if __name__ == "__main__":
    main()
