"""Draw what is shown with links to the site, `_static/social.png`: the title, and the stops of road.yml.

    python tools/road_picture.py

The front page has the same road as a list of links, which tools/site_front.py makes.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import yaml

from ppobook.teaching import style

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "_static"
STOPS = yaml.safe_load((HERE / "road.yml").read_text(encoding="utf-8"))


def draw_social() -> None:
    """Write the picture that is shown with links to the site: 1200 by 630 pixels."""
    fig = plt.figure(figsize=(12, 6.3), facecolor="white", layout="none")
    ax = fig.add_axes((0.5, 0.04, 0.47, 0.92))
    ink, muted = style.colour("ink"), style.colour("muted", "text")
    ax.set(xlim=(0, 1), ylim=(len(STOPS) - 0.4, -0.6))
    ax.axis("off")
    for at, (_, _, name, colour, _, _) in enumerate(STOPS):
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
    """Draw it."""
    mpl.use("agg")
    with mpl.rc_context(style.settings()):
        draw_social()


if __name__ == "__main__":
    main()
