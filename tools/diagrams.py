"""Draw the book's diagrams, `_static/diagrams/*.svg`: eleven drawings that share one alphabet.

    python tools/diagrams.py

A policy is always a blue circle, a critic a pink hexagon, a reward model a yellow badge, an environment a
gray grid, and a batch a stack of sheets. A dashed circle is a policy that samples, or did so earlier, and a
dotted one is the reference model. A computed number stands in a gray box. A gray arrow hands something on,
and a blue arrow trains what it points to. Green marks what becomes more probable, and vermilion what becomes
less so. Each icon has its name below or beside it, in ink; only the titles of columns and panels are bold.

A drawing is 64 units wide, a unit is a tenth of an inch, and y points upward. Drawings are made on white. On
a dark page, the style sheet inverts their lightness, as it does for all figures. The alternative texts are
in the chapters, and a test compares the words.
"""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Ellipse, FancyArrowPatch, FancyBboxPatch, Polygon

from ppobook.teaching import style

OUT = Path(__file__).resolve().parents[1] / "_static" / "diagrams"
WIDTH: Final = 64
#: Letters in points: 11 pixels on a phone, which shows a drawing at six tenths of its size.
SMALLEST: Final = 14.5
#: Radius of an icon, and of one in a crowd.
LARGE: Final = 4.4
SMALL: Final = 3.5

Point = tuple[float, float]

#: Each role's shape, color, outline and letter.
ROLES: Final = {
    "policy": ("circle", "ppo", "-", r"$\pi$"),
    "sampler": ("circle", "ppo", "--", r"$\mu$"),
    "reference": ("circle", "muted", ":", r"$\pi_{\mathrm{ref}}$"),
    "critic": ("hexagon", "trpo", "-", r"$V$"),
    "reward model": ("badge", "mark", "-", r"$R$"),
    "environment": ("grid", "muted", "-", ""),
    "batch": ("sheets", "ink", "-", ""),
}
HEAD: Final = {"arrowstyle": "-|>,head_length=0.42,head_width=0.25", "mutation_scale": 21}
#: Fill of each color: the share of it that is mixed into white.
STRENGTH: Final = {"ppo": 0.2, "trpo": 0.3, "mark": 0.75, "muted": 0.12, "ink": 0.0}


def tint(hue: str, share: float) -> tuple[float, ...]:
    """A color mixed into white."""
    return tuple(1 - share * (1 - part) for part in to_rgb(style.colour(hue)))


class Drawing:
    """A canvas with the alphabet; `said` keeps the labels."""

    def __init__(self, height: float) -> None:
        self.fig = Figure(figsize=(WIDTH / 10, height / 10), facecolor="white", layout="none")
        self.ax = self.fig.add_axes((0, 0, 1, 1))
        self.ax.set(xlim=(0, WIDTH), ylim=(0, height))
        self.ax.axis("off")
        self.said: list[str] = []

    def label(self, x: float, y: float, text: str, hue: str = "ink", size: float = 15, **more: Any) -> None:
        """Write a label, centered unless `ha` says otherwise."""
        self.said.append(text)
        settings = {"ha": "center", "va": "center_baseline", "fontsize": size, "zorder": 6} | more
        self.ax.text(x, y, text, color=style.colour(hue, "text"), **settings)

    def arrow(self, start: Point, end: Point, hue: str = "ink", bend: float = 0, **more: Any) -> None:
        """An arrow, bent to its left for a negative `bend`."""
        path = {"connectionstyle": f"arc3,rad={bend}", "shrinkA": 0, "shrinkB": 0, "capstyle": "butt"}
        settings = {"color": style.colour(hue), "linewidth": 2.4, "zorder": 4, **HEAD, **path} | more
        self.ax.add_patch(FancyArrowPatch(start, end, **settings))

    def box(self, x: float, y: float, width: float, height: float, hue: str = "faint", **more: Any) -> None:
        """A box with round corners, around its middle."""
        corner = (x - width / 2, y - height / 2)
        settings = {"facecolor": "white", "edgecolor": style.colour(hue), "linewidth": 2, "zorder": 2} | more
        shape = "round,pad=0,rounding_size=0.9"
        self.ax.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, **settings))

    def line(self, points: list[Point], hue: str = "muted", **more: Any) -> None:
        """A line through points."""
        settings = {"color": style.colour(hue), "linewidth": 2, "zorder": 3} | more
        self.ax.plot(*zip(*points, strict=True), **settings)

    def icon(
        self, role: str, x: float, y: float, r: float = LARGE, name: str = "", letter: str | None = None
    ) -> None:
        """The sign of a role, with its name below it."""
        shape, hue, line, usual = ROLES[role]
        fill = "white" if line != "-" else tint(hue, STRENGTH[hue])
        look = {
            "facecolor": fill,
            "edgecolor": style.colour(hue, "text"),
            "linewidth": 2.6,
            "linestyle": line,
        }
        at = np.array([x, y])
        if shape == "circle":
            self.ax.add_patch(Circle((x, y), r, zorder=5, **look))
        elif shape == "hexagon":
            around = np.arange(6) * np.pi / 3
            self.ax.add_patch(Polygon(at + 1.1 * r * corners(around), joinstyle="round", zorder=5, **look))
        elif shape == "badge":
            around = np.arange(24) * np.pi / 12
            reach = np.where(np.arange(24) % 2, 0.92, 1.12)[:, None] * r
            self.ax.add_patch(Polygon(at + reach * corners(around), joinstyle="round", zorder=5, **look))
        elif shape == "grid":
            self._grid(x, y, r, look)
        else:
            self._sheets(x, y, r, look)
        self.label(x, y, usual if letter is None else letter, hue, size=max(4.6 * r, SMALLEST), va="center")
        if name:
            self.label(x, y - r - 2.9, name)

    def number(self, x: float, y: float, text: str, wide: float = 6, tall: float = 5) -> None:
        """A computed number, such as a loss."""
        self.box(x, y, wide, tall, "ink", facecolor=tint("muted", STRENGTH["muted"]))
        self.label(x, y, text, size=18 if text.startswith("$") else 15)

    def _grid(self, x: float, y: float, r: float, look: dict[str, Any]) -> None:
        self.box(x, y, 2 * r, 2 * r, **look, hue="muted")
        for at in (-r / 3, r / 3):
            self.line([(x + at, y - r), (x + at, y + r)], linewidth=1.4)
            self.line([(x - r, y + at), (x + r, y + at)], linewidth=1.4)
        self.dot(x + 2 * r / 3, y + 2 * r / 3, r / 6, "mark")

    def _sheets(self, x: float, y: float, r: float, look: dict[str, Any]) -> None:
        for behind in (2, 1, 0):
            shift = 0.2 * r * (behind - 1)
            self.box(x + shift, y + shift, 1.5 * r, 1.8 * r, "ink", **look | {"linewidth": 2})
        for at, width in ((0.45, 0.9), (0, 0.9), (-0.45, 0.5)):
            left, level = x - 0.65 * r, y + at * r - 0.2 * r
            self.line([(left, level), (left + width * r, level)], linewidth=2)

    def text(self, x: float, y: float, hue: str = "ink", wide: float = 6, tall: float = 7) -> None:
        """A single sheet: a prompt or an answer."""
        self.box(x, y, wide, tall, hue)
        for at in np.arange(1.6, tall - 1, 1.8):
            level, last = y + tall / 2 - at, at + 1.8 >= tall - 1
            self.line([(x - wide / 2 + 1, level), (x + wide * (0.1 if last else 0.5) - 1, level)])

    def dot(self, x: float, y: float, r: float, hue: str) -> None:
        """A dot, as for a reward (yellow) or an action."""
        look = {"facecolor": style.colour(hue), "edgecolor": style.colour(hue, "text"), "linewidth": 1.4}
        self.ax.add_patch(Circle((x, y), r, zorder=5, **look))

    def bar(self, left: float, right: float, y: float, hue: str, tall: float = 2.4) -> None:
        """A bar that lies on its side."""
        self.line([(left, y), (right, y)], hue, linewidth=7.2 * tall, solid_capstyle="butt")

    def mark(self, x: float, y: float, good: bool) -> None:
        """A tick or a cross."""
        tick, cross = [[(-1.2, 0), (-0.3, -1), (1.4, 1.3)]], [[(-1, 1), (1, -1)], [(-1, -1), (1, 1)]]
        for stroke in tick if good else cross:
            points = [(x + right, y + up) for right, up in stroke]
            self.line(points, "good" if good else "bad", linewidth=3.6, zorder=6)


def corners(angles: np.ndarray) -> np.ndarray:
    """Points on the unit circle."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


# --- the diagrams -------------------------------------------------------------------------------------------


def agent_environment() -> Drawing:
    """Chapter 0: the loop."""
    d = Drawing(23)
    d.icon("policy", 11, 13.6, name="agent")
    d.label(11, 2.8, "with its policy")
    d.icon("environment", 53, 13.6, name="environment")
    d.arrow((15.6, 16.8), (47.4, 16.8), bend=-0.2)
    d.label(31.5, 17.2, "action")
    d.arrow((47.4, 10.4), (15.8, 10.4), bend=-0.2)
    d.label(25.5, 10.2, "state")
    d.dot(31.5, 10.3, 0.9, "mark")
    d.label(38, 10.2, "reward")
    return d


def policy_gradient() -> Drawing:
    """Chapter 1: a batch of episodes and its policy gradient."""
    d = Drawing(36)
    d.icon("policy", 8, 19, name="policy")
    d.arrow((13.4, 19), (20.2, 19))
    d.label(16.6, 21.6, "plays")
    d.label(31, 33.6, "batch of episodes", weight="bold")
    d.label(50, 33.6, "return", weight="bold")
    for row, gain in enumerate((7, -4, 3, -6)):
        y, hue = 28 - 6.2 * row, "good" if gain > 0 else "bad"
        d.box(31, y, 20, 4.6, "ink")
        for step in range(5):
            d.dot(24 + 3.5 * step, y, 1.1, hue)
        d.bar(50, 50 + gain, y, hue)
        d.arrow((60.5, y - 2.1 * np.sign(gain)), (60.5, y + 2.3 * np.sign(gain)), hue, linewidth=3.4)
    d.line([(50, 6.4), (50, 31)], "ink")
    d.line([(60.5, 5.2), (60.5, 2), (8, 2)], "ppo", linewidth=2.4)
    d.arrow((8, 2), (8, 9.6), "ppo")
    d.label(34, 3.9, "policy gradient: actions up or down", "ppo")
    return d


def actor_critic() -> Drawing:
    """Chapter 1: the critic expects, the return tells, and the difference teaches."""
    d = Drawing(33)
    d.icon("environment", 6.5, 17.5, name="state")
    d.arrow((11.8, 19.7), (18.4, 24.1))
    d.arrow((11.8, 15.3), (18.4, 10.9))
    d.icon("policy", 24, 26.7, name="actor")
    d.icon("critic", 24, 9.2, name="critic")
    d.arrow((29.6, 26.7), (41, 26.7))
    d.label(35, 29, "acts")
    d.arrow((30, 9.2), (41, 9.2))
    d.label(35.2, 11.5, "expects")
    d.bar(43, 62, 26.7, "ink", 3)
    d.label(43, 30.6, "return", ha="left")
    d.bar(43, 54, 9.2, "trpo", 3)
    d.label(43, 5.4, "value", ha="left")
    d.line([(54, 11.6), (54, 24.2)], linestyle=":")
    d.line([(62, 20.2), (62, 24.2)], linestyle=":")
    d.bar(54, 62, 17.5, "good", 3)
    d.label(53, 17.5, "advantage", "good", ha="right")
    d.arrow((40, 19.2), (29.4, 23.6), "good", linewidth=3.4)
    return d


def trust_region() -> Drawing:
    """Chapter 2: the longest step that the batch can vouch for."""
    d = Drawing(34)
    x, y = 21.5, 17
    for share in (1, 0.78, 0.56, 0.34):
        ring = Ellipse((x, y), 40 * share, 32 * share, facecolor=tint("trpo", 0.46 - 0.36 * share))
        d.ax.add_patch(ring)
    look = {"fill": False, "edgecolor": style.colour("trpo", "text"), "linewidth": 2.6}
    d.ax.add_patch(Ellipse((x, y), 40, 32, **look))
    d.label(x, 28.6, "trust region", "trpo")
    d.label(x, 25.2, r"KL $\leq\,\delta_{\mathrm{KL}}$", "trpo")
    d.icon("sampler", x, y, SMALL, "old policy", r"$\pi_{\mathrm{old}}$")
    d.icon("batch", x - 11.6, y, SMALL, "batch")
    d.arrow((25.6, 17.5), (36.6, 18.7), "ppo", linewidth=3.4)
    d.icon("policy", 40.8, 19.2, SMALL)
    d.label(43.4, 13.6, "new policy", ha="left")
    d.arrow((45.2, 19.8), (54.4, 20.9), "muted", linestyle=":", arrowstyle="-")
    ghost = {"fill": False, "edgecolor": style.colour("muted"), "linewidth": 2, "linestyle": ":"}
    d.ax.add_patch(Circle((58.4, 21.4), SMALL, **ghost))
    d.label(58.4, 27, "too far", "muted")
    return d


def clip_gate() -> Drawing:
    """Chapter 3: which samples still push, by the sign of the advantage and the ratio."""
    d = Drawing(38)
    low, middle, high = 24, 37.5, 51
    d.box(middle, 20.4, high - low, 28, facecolor=tint("muted", STRENGTH["muted"]), zorder=1)
    d.label(middle, 36.2, "clip range")
    d.label(middle, 32, "old policy", "muted", size=SMALLEST)
    for y, hue, name, way in ((25, "good", "good action", 1), (12, "bad", "bad action", -1)):
        d.label(1.5, y + 1.7, name.split()[0], hue, ha="left")
        d.label(1.5, y - 1.7, name.split()[1], hue, ha="left")
        d.icon("sampler", middle, y, SMALL, letter=r"$\pi_{\mathrm{old}}$")
        gate, free = (high, low) if way > 0 else (low, high)
        for start in (free - 10.6 * way, free + 1.4 * way, middle + 4.6 * way):
            d.arrow((start, y), (start + 7.4 * way, y), hue, linewidth=3.4)
        d.line([(gate, y - 4), (gate, y + 4)], "ink", linewidth=5)
        d.line([(gate + 1.6 * way, y), (gate + 11.6 * way, y)], linestyle=":", linewidth=2.4)
        d.label(gate + 6.7 * way, y + 2.6, "no gradient", "muted", size=SMALLEST)
    for x, text in ((low, r"$1-\varepsilon$"), (middle, "1"), (high, r"$1+\varepsilon$")):
        d.label(x, 3.6, text)
    d.label(1.5, 3.6, "ratio", ha="left")
    return d


def backward_sweep() -> Drawing:
    """Chapter 4: TD errors, added up from the end."""
    d = Drawing(38)
    apart = 12.6
    for at in range(5):
        x = 3.8 + apart * at
        middle = x + apart / 2
        d.icon("environment", x, 33, 2.7)
        d.icon("critic", x, 25.4, 2.6)
        if at:
            d.arrow((x + 2.8, 7.4), (x - 2.8, 7.4))
            d.label(x, 10, r"$\gamma\lambda$")
        if at == 4:
            break
        d.arrow((x + 3.4, 33), (x + apart - 3.4, 33))
        d.dot(middle - 0.3, 35.6, 1, "mark")
        thin = {"linewidth": 1.8, "linestyle": ":"}
        d.line([(middle, 31.4), (middle, 20.6)], **thin)
        d.line([(x + 2.5, 23.6), (middle - 2, 20.6)], **thin)
        d.line([(x + apart - 2.5, 23.6), (middle + 2, 20.6)], **thin)
        d.number(middle, 17.8, rf"$\delta_{at}$")
        d.arrow((middle, 15), (middle, 10.4))
        d.number(middle, 7.4, rf"$\hat A_{at}$", tall=5.6)
    d.label(58.6, 7.4, "0", size=18)
    d.label(57.8, 33, "state", ha="left")
    d.label(57.8, 25.4, "critic", ha="left")
    d.label(52.2, 17.8, "TD errors", ha="left")
    d.label(28, 1.8, "advantages, from the end back")
    return d


def ppo_data_flow() -> Drawing:
    """Chapter 5: rollout, advantages, minibatches, and back."""
    d = Drawing(46)
    d.icon("policy", 8, 33)
    d.label(13.2, 35.4, "policy", ha="left")
    for behind in (1.8, 0.9):
        d.box(7 + behind, 11 + behind, 7.2, 7.2, "muted", facecolor=tint("muted", STRENGTH["muted"]))
    d.icon("environment", 7, 11, SMALL)
    d.label(8, 4.6, "environments")
    d.arrow((6.2, 27.4), (6.2, 17.4))
    d.arrow((9.8, 17.4), (9.8, 27.4))
    d.arrow((13.4, 22), (21, 22))
    d.label(16.6, 24.3, "steps")
    d.icon("batch", 26.6, 22, name="batch")
    d.icon("critic", 26.6, 35)
    d.label(32.2, 37.4, "critic", ha="left")
    d.arrow((26.6, 30.4), (26.6, 27.4))
    d.label(28.4, 29, "advantages", ha="left")
    d.arrow((32, 22), (38, 22))
    for row in range(4):
        d.text(42.8, 24.8 - 5.2 * row, "ink", 7, 4.4)
    d.label(42.8, 4.2, "minibatches")
    d.arrow((47.4, 22), (51.6, 22))
    d.number(57.6, 22, "loss", 10.4, 6)
    d.line([(57.6, 18.4), (57.6, 12)], "ink", linewidth=2.4)
    d.arrow((57.6, 12), (47.4, 12))
    d.label(52.8, 9.6, "epochs", ha="left")
    d.line([(57.6, 25.6), (57.6, 42.6), (8, 42.6)], "ppo", linewidth=2.4)
    d.arrow((8, 42.6), (8, 38), "ppo")
    d.arrow((26.6, 42.6), (26.6, 39.6), "ppo")
    d.label(45, 44.4, "gradient steps", "ppo")
    return d


def rlhf_pipeline() -> Drawing:
    """Chapter 7: imitate, compare, improve."""
    d = Drawing(51)
    d.label(2, 48.4, "1  imitate", ha="left", weight="bold")
    d.icon("batch", 6, 38, name="texts")
    d.arrow((11.2, 38), (15.4, 38), "ppo")
    d.icon("reference", 20.4, 38)
    d.label(20.4, 44.8, "reference")
    d.label(35, 48.4, "2  compare", ha="left", weight="bold")
    d.text(37.6, 38, "good", 5, 7)
    d.mark(37.6, 43.6, True)
    d.text(44.2, 38, "bad", 5, 7)
    d.mark(44.2, 43.6, False)
    d.label(40.9, 30.7, "choices")
    d.arrow((47.8, 38), (51.6, 38), "ppo")
    d.icon("reward model", 56.8, 38)
    d.label(56.4, 44.8, "reward model")
    d.label(2, 24.6, "3  improve", ha="left", weight="bold")
    d.line([(20.4, 33), (20.4, 19.6)], linewidth=3, linestyle=":")
    d.label(22, 26.8, "stay close", "muted", ha="left")
    d.icon("policy", 20.4, 14.4)
    d.label(14.4, 14.4, "policy", ha="right")
    d.arrow((25.8, 14.4), (52.4, 14.4))
    d.label(39, 16.6, "writes")
    d.text(56.8, 14.4, "ink", 6.4, 7.4)
    d.arrow((56.8, 32.6), (56.8, 19.2))
    d.label(55.4, 25.8, "scores", ha="right")
    d.line([(56.8, 9.8), (56.8, 2.4), (20.4, 2.4)], "ppo", linewidth=2.4)
    d.arrow((20.4, 2.4), (20.4, 9), "ppo")
    d.label(38.8, 4.6, r"PPO: reward $-\;\beta\,$KL", "ppo")
    return d


def grpo_group() -> Drawing:
    """Chapter 8: a group of answers, and its mean."""
    d = Drawing(34)
    d.text(5, 17, "ink", 6, 7.4)
    d.label(5, 10.2, "prompt")
    d.arrow((9, 17), (12.2, 17))
    d.icon("policy", 17.4, 17, name="policy")
    d.label(34.4, 32, "group", weight="bold")
    d.label(47, 32, "reward", weight="bold")
    mean = 49
    for row, reward in enumerate((13, 3, 11, 5)):
        y = 25.8 - 6.6 * row
        hue = "good" if 41 + reward > mean else "bad"
        d.arrow((22.6, 17 + (y - 17) * 0.24), (30, y))
        d.text(34.4, y, "ink", 7.2, 5)
        d.bar(41, 41 + reward, y, "faint", 3)
        d.bar(min(mean, 41 + reward), max(mean, 41 + reward), y, hue, 3)
        way = 1 if hue == "good" else -1
        d.arrow((60, y - 2.2 * way), (60, y + 2.4 * way), hue, linewidth=3.4)
    d.line([(mean, 3.2), (mean, 29)], "grpo", linewidth=3.4, zorder=5)
    d.label(mean, 1.5, "mean", "grpo")
    return d


def dpo_pair() -> Drawing:
    """Chapter 9: two texts, each compared with the reference."""
    d = Drawing(36)
    for y, hue, name, way in ((26.4, "good", "chosen", 1), (12, "bad", "rejected", -1)):
        d.text(6, y, hue, 7, 7.4)
        d.mark(12.4, y, way > 0)
        d.label(6, y - 5.9, name)
        d.line([(18, y), (62, y)], "faint", linewidth=3)
        d.icon("reference", 40, y, SMALL)
        d.arrow((40 + 4.2 * way, y), (40 + 10.4 * way, y), hue, linewidth=3.4)
        d.icon("policy", 40 + 14.4 * way, y, SMALL)
    d.label(40, 33, "reference")
    d.label(54.4, 33, "policy")
    d.arrow((24, 2), (58, 2))
    d.label(41, 4, "more probable")
    return d


def four_loops() -> Drawing:
    """Chapter 10: who writes, who scores, and what is trained."""
    d = Drawing(76)
    d.line([(32, 1), (32, 75)], "faint")
    d.line([(1, 38), (63, 38)], "faint")
    for x, y, title, new in (
        (1.5, 39, "PPO", "reward model fixed"),
        (34, 39, "iterative PPO", "reward model retrained"),
        (1.5, 1, "online DPO", "new pairs each update"),
        (34, 1, "lagging sampler", "texts from an old copy"),
    ):
        d.label(x, y + 34, title, ha="left", weight="bold")
        d.label(x, y + 30.6, new, "muted", ha="left", size=SMALLEST)
        lagging, pairs = title == "lagging sampler", title == "online DPO"
        left, right, above, below = x + 4.6, x + 20, y + 20.4, y + 7.6
        middle = (above + below) / 2
        policy = below if lagging else middle
        d.icon("policy", left, policy, SMALL, "policy")
        if lagging:
            d.icon("sampler", left, above, SMALL)
            d.label(left, above + 5.9, "sampler")
            d.arrow((left, below + 4.2), (left, above - 4.2), "muted")
        d.arrow((left + 4.2, above if lagging else middle + 1.6), (right - (6.4 if pairs else 4.2), above))
        if pairs:
            d.text(right - 3.2, above, "good", 5, 6)
            d.text(right + 3.2, above, "bad", 5, 6)
        else:
            d.icon("batch", right, above, SMALL)
        d.label(right, above + 5.9, "pair" if pairs else "texts")
        if title == "iterative PPO":
            d.arrow((right + 4, above), (right + 4.4, below), "ppo", bend=-0.6)
        d.icon("reward model", right, below, SMALL)
        d.label(right, below - 6.4, "reward model")
        d.arrow((right, above - 4.2), (right, below + 4.2))
        d.arrow((right - 4.4, below), (left + 4.2, below if lagging else middle - 1.6), "ppo")
    return d


DIAGRAMS: Final = (
    agent_environment,
    policy_gradient,
    actor_critic,
    trust_region,
    clip_gate,
    backward_sweep,
    ppo_data_flow,
    rlhf_pipeline,
    grpo_group,
    dpo_pair,
    four_loops,
)


def svg(draw: Callable[[], Drawing]) -> str:
    """Return a diagram as the text of its file, the same each time."""
    text = StringIO()
    with mpl.rc_context(style.settings()):
        draw().fig.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def main() -> None:
    """Draw all."""
    OUT.mkdir(exist_ok=True)
    for draw in DIAGRAMS:
        (OUT / f"{draw.__name__}.svg").write_text(svg(draw), encoding="utf-8")


if __name__ == "__main__":
    main()
