"""Draw the road of the front page, `_static/road*.svg`, and what is shown with links to it, `social.png`.

    python tools/road_picture.py

Each stop is a method; its formula is in the ink of the page, and what is new in it in the method's colour.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea

from ppobook.teaching import style

OUT = Path(__file__).resolve().parents[1] / "_static"

# Chapter, name, colour, the formula in pieces, and what is new. A piece that begins with "+" is new.
TABLE = r"""
1 ; REINFORCE ; vanilla ; +$\nabla\log\pi(a|s)$ & +$\;G$ ; push each action by the return that followed
1 ; Baseline ; vanilla ; $\nabla\log\pi(a|s)\;$ & $(G$ & +$-\,V(s)$ & $)$ ; subtract the expected return
2 ; TRPO ; trpo ; +$\rho$ & $\,A$ & +$,\;\;\mathrm{KL}\leq\delta_{\mathrm{KL}}$ ; reuse a batch, within a limit on the KL
3 ; PPO ; ppo ; +$\min($ & $\rho\,A$ & +$,\;\mathrm{clip}(\rho)\,A)$ ; many small steps per batch, and a clip
4 ; GAE ; ppo ; $A=$ & +$\sum(\gamma\lambda)^{l}\,\delta_{t+l}$ ; rewards first, then the critic, mixed by λ
5 ; The whole of PPO ; ppo ; $-L^{\mathrm{clip}}$ & +$+\,c_v L^V-\,c_e H$ ; one loss: policy, critic, entropy
7 ; RLHF ; ppo ; +$R_\phi-\beta\,\log(\pi/\pi_{\mathrm{ref}})$ ; a learned reward, and a KL penalty
8 ; GRPO ; grpo ; $A=($ & $R-$ & +$\mathrm{mean}$ & $)/$ & +$\mathrm{std}$ ; the mean of a group replaces the critic
9 ; DPO ; dpo ; +$-\log\sigma(\beta\,\Delta\log(\pi/\pi_{\mathrm{ref}}))$ ; a loss on pairs, without a reward model
"""  # noqa: E501
STOPS = [line.split(" ; ") for line in TABLE.strip().splitlines()]


def letters(name: str, ground: str) -> str:
    """The colour of a method's letters on this ground."""
    return style.palette[name]["text" if ground == "light" else "dark"]


def draw_road(ax: Axes, ground: str) -> None:
    """The stops from top to bottom: dot, name and chapter; formula; what is new."""
    ink, muted = style.palette["ink"][ground], letters("muted", ground)
    count = len(STOPS)
    ax.set(xlim=(0, 1), ylim=(count - 0.35, -0.55))
    ax.axis("off")
    for at, (chapter, name, colour, pieces, new) in enumerate(STOPS):
        hue = style.palette[colour][ground]
        if at + 1 < count:
            ax.plot([0.045, 0.045], [at, at + 1], color=hue, linewidth=5, solid_capstyle="butt", zorder=1)
        ax.plot(0.045, at, "o", color=hue, markersize=24, zorder=2)
        ax.plot(0.045, at, "o", color=style.palette["paper"][ground], markersize=18, zorder=3)
        number = {"ha": "center", "va": "center_baseline", "fontsize": 13, "fontweight": "bold", "zorder": 4}
        ax.text(0.045, at, chapter, color=letters(colour, ground), **number)
        heading = {"color": letters(colour, ground), "fontweight": "bold", "fontsize": 15}
        ax.text(0.11, at - 0.06, name, va="bottom", **heading)
        ax.text(0.11, at + 0.06, new, color=muted if ground == "light" else ink, fontsize=13, va="top")
        parts = []
        for piece in pieces.split(" & "):
            hues = {"color": letters(colour, ground) if piece.startswith("+") else ink}
            parts.append(TextArea(piece.removeprefix("+"), textprops={"fontsize": 15.5, **hues}))
        row = HPacker(children=parts, align="baseline", pad=0, sep=1)
        where = {"frameon": False, "box_alignment": (1, 0), "pad": 0, "xycoords": "data"}
        ax.add_artist(AnnotationBbox(row, (1, at - 0.04), **where))


def draw(ground: str) -> None:
    """Write the road for a light or a dark page."""
    fig, ax = plt.subplots(figsize=(6.4, 6.9), facecolor="none")
    draw_road(ax, ground)
    name = "road.svg" if ground == "light" else "road-dark.svg"
    fig.savefig(OUT / name, facecolor="none", metadata={"Date": None, "Creator": None})


def draw_social() -> None:
    """Write the picture that is shown with links to the site: 1200 by 630 pixels."""
    fig = plt.figure(figsize=(12, 6.3), facecolor="white", layout="none")
    ax = fig.add_axes((0.5, 0.04, 0.47, 0.92))
    ink, muted = style.colour("ink"), style.colour("muted", "text")
    ax.set(xlim=(0, 1), ylim=(len(STOPS) - 0.4, -0.6))
    ax.axis("off")
    for at, (_, name, colour, _, _) in enumerate(STOPS):
        hue = style.colour(colour)
        if at + 1 < len(STOPS):
            ax.plot([0.1, 0.1], [at, at + 1], color=hue, linewidth=8, solid_capstyle="butt")
        ax.plot(0.1, at, "o", color=hue, markersize=24, zorder=2)
        heading = {"color": style.colour(colour, "text"), "fontweight": "bold", "fontsize": 23}
        ax.text(0.2, at, name, va="center", **heading)
    fig.text(0.06, 0.64, "Steps You\nCan Trust", color=ink, fontsize=48, fontweight="bold", va="center")
    fig.text(0.06, 0.36, "Policy optimization\nfrom REINFORCE to RLHF", color=ink, fontsize=24, va="center")
    fig.text(0.06, 0.16, "A book to read, to run and to teach from", color=muted, fontsize=17, va="center")
    fig.savefig(OUT / "social.png", dpi=100, metadata={"Software": None})


def main() -> None:
    """Draw all three."""
    mpl.use("svg")
    with mpl.rc_context(style.settings()):
        for ground in ("light", "dark"):
            draw(ground)
        mpl.use("agg")
        draw_social()


if __name__ == "__main__":
    main()
