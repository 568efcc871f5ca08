"""One look for every figure of the book.

A colour means one thing from the first chapter to the cheatsheet. `palette.json` says which; this module
hands it to matplotlib, and the interactive figures read the same file. The colours are those of Okabe and Ito
(2008), with a violet and a brown added for GRPO and the DPO family; a test simulates the three kinds of
colour blindness and holds any two of them apart.

    style.use()                                   # once, at the top of a notebook
    style.seeds(ax, steps, returns, name="vanilla")
    style.label_curves(ax)

matplotlib and NumPy are imported only when something is drawn: the site reads the palette without them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ppobook import _reads

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import ArrayLike, NDArray

_FILE: Final = json.loads(_reads.note(Path(__file__).with_name("palette.json")).read_text(encoding="utf-8"))

#: name -> {"light", "text", "dark", "means"}: a curve's colour on white, a darker one for letters on white,
#: the one for a dark ground, and what the colour stands for.
palette: Final[Mapping[str, Mapping[str, str]]] = _FILE["colours"]

#: The widest a figure is on the page, in inches; the letters below are sized for it, and for a phone.
WIDTH: Final = 6.4


def colour(name: str, variant: str = "light") -> str:
    """The colour that stands for `name`, as "#RRGGBB".

    Parameters
    ----------
    name : str
        An algorithm ("vanilla", "trpo", "ppo", "ppo_kl", "grpo", "dpo"), "good" or "bad" for an action whose
        advantage is positive or negative, "truth" for what is exact, or a neutral: "ink", "muted", "faint".
    variant : {"light", "text", "dark"}
        "text" is dark enough for letters on white; "dark" is for a dark ground.
    """
    return palette[name][variant]


def linestyle(policy: str) -> str:
    """Return the line style of a policy's curve: "new" is solid, "old" is dashed, "reference" is dotted."""
    return str(_FILE["lines"][policy])


def settings() -> dict[str, Any]:
    """The book's matplotlib settings, as a dictionary for `matplotlib.rc_context` or `rcParams.update`."""
    from cycler import cycler

    ink = colour("ink")
    return {
        "figure.figsize": (WIDTH, 3.6),
        "figure.facecolor": "white",
        "figure.constrained_layout.use": True,
        "savefig.facecolor": "white",
        "savefig.dpi": 150,
        "savefig.pad_inches": 0.02,
        # A phone of 390 pixels shows a figure in its whole width, and 13 points are then 11 pixels.
        "font.family": "DejaVu Sans",
        "font.size": 13,
        "axes.titlesize": 14,
        "axes.titlelocation": "left",
        "axes.titlepad": 10,
        "axes.labelsize": 13,
        "axes.labelcolor": ink,
        "axes.edgecolor": colour("muted"),
        "axes.linewidth": 0.9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.formatter.use_mathtext": True,
        "axes.prop_cycle": cycler(color=[colour(name) for name in ("ppo", "vanilla", "trpo", "muted")]),
        "grid.color": colour("faint"),
        "grid.linewidth": 0.7,
        "text.color": ink,
        "xtick.color": colour("muted"),
        "ytick.color": colour("muted"),
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "xtick.labelsize": 13,
        "ytick.labelsize": 13,
        "lines.linewidth": 2.2,
        "lines.solid_capstyle": "round",
        "legend.frameon": False,
        "legend.fontsize": 13,
        # Letters as outlines: the same picture on a machine that lacks the font. The salt makes the bytes
        # of a figure the same each time it is drawn; `use` leaves the date out for the same reason.
        "svg.fonttype": "path",
        "svg.hashsalt": "ppobook",
    }


def use() -> None:
    """Give every figure drawn from here on the book's look; in a notebook, as SVG."""
    import matplotlib as mpl

    mpl.rcParams.update(cast("Any", settings()))
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return
    if (shell := get_ipython()) is not None:
        from matplotlib.figure import Figure as Drawn
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg", metadata={"Date": None, "Creator": None})
        formatter = shell.display_formatter.formatters["image/svg+xml"]  # type: ignore[union-attr]
        draw = formatter.lookup_by_type(Drawn)
        formatter.for_type(Drawn, lambda figure: compact(draw(figure)))


def compact(svg: str) -> str:
    """Return a figure of matplotlib in about two thirds of the bytes: fewer decimals, longer lines."""
    svg = re.sub(r"(\d\d\.\d\d)\d+", r"\1", svg)
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    return re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><").replace("<g id=", "\n<g id=")


def seeds(
    ax: Axes,
    x: ArrayLike,
    curves: ArrayLike,
    *,
    name: str = "vanilla",
    label: str | None = None,
    interval: tuple[ArrayLike, ArrayLike] | None = None,
    policy: str = "new",
) -> tuple[Line2D, FillBetweenPolyCollection]:
    """Draw every seed thin, their mean thick, and a 95 % interval of that mean as a band.

    Parameters
    ----------
    x : shape (T,)
    curves : shape (S, T)
        One row a seed; NaN where a seed has no measurement.
    name : str
        Whose colour (see `colour`).
    label : str, optional
        What `label_curves` writes beside the mean.
    interval : (low, high), each of shape (T,), optional
        The band. Left out, it is Student's t interval of the mean over seeds, `mean_interval(curves)`.
    policy : {"new", "old", "reference"}
        Line style of the mean.
    """
    import numpy as np

    curves = np.asarray(curves, dtype=np.float64)
    hue = colour(name)
    mean, low, high = mean_interval(curves)
    if interval is not None:
        low, high = interval  # type: ignore[assignment]
    for row in curves:
        ax.plot(x, row, color=hue, linewidth=0.7, alpha=0.45, zorder=2)
    band = ax.fill_between(x, low, high, color=hue, alpha=0.22, linewidth=0, zorder=1)
    (line,) = ax.plot(
        x, mean, color=hue, linewidth=2.6, linestyle=linestyle(policy), label=label, gid=name, zorder=3
    )
    return line, band


def mean_interval(
    curves: ArrayLike, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean over the first axis, with Student's t interval: mean ± t · s / √n.

    Parameters
    ----------
    curves : shape (S, ...)
        NaN entries are left out. With one measurement there is no interval: low and high are NaN.
    level : float
        Between 0 and 1.

    Returns
    -------
    mean, low, high : shape (...)
    """
    import numpy as np
    from scipy import stats

    curves = np.asarray(curves, dtype=np.float64)
    present = np.isfinite(curves)
    n = present.sum(axis=0)
    filled = np.where(present, curves, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = filled.sum(axis=0) / n
        variance = (np.where(present, curves - mean, 0.0) ** 2).sum(axis=0) / (n - 1)
        half = stats.t.ppf((1 + level) / 2, np.where(n > 1, n - 1, np.nan)) * np.sqrt(variance / n)
    return mean, mean - half, mean + half


def label_curves(ax: Axes, *, gap: float = 8.0) -> None:
    """Write each labelled curve's name at its right end, in its own colour, in place of a legend.

    Call it last, when the limits of the axes are what they will be: names that would overlap are moved apart.

    `gap` is in points, between the end of a curve and its name.
    """
    import numpy as np
    from matplotlib.colors import to_hex

    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    size = float(ax.xaxis.label.get_fontsize())
    pixels_a_point = ax.figure.dpi / 72
    text_colours = {to_hex(entry["light"]): entry["text"] for entry in palette.values()}

    ends = []
    for line in ax.get_lines():
        x, y = (np.asarray(values, dtype=float) for values in line.get_data())
        finite = np.isfinite(x) & np.isfinite(y)
        if str(line.get_label()).startswith("_") or not finite.any():
            continue
        last = (x[finite][-1], y[finite][-1])
        height = ax.transData.transform(last)[1] / pixels_a_point
        ends.append((height, last, line))
    ends.sort(key=lambda end: end[0])

    heights = np.array([height for height, _, _ in ends])
    for _ in range(50):
        overlap = 1.2 * size - np.diff(heights)
        if not (overlap > 0.01).any():
            break
        push = np.where(overlap > 0, overlap, 0.0) / 2
        heights[:-1] -= push
        heights[1:] += push

    for (height, last, line), moved in zip(ends, heights, strict=True):
        hue = to_hex(line.get_color())
        ax.annotate(
            str(line.get_label()),
            xy=last,
            xytext=(gap, moved - height),
            textcoords="offset points",
            color=text_colours.get(hue, hue),
            fontsize=size,
            va="center",
            annotation_clip=False,
        )


def finding(fig: Figure, text: str) -> None:
    """Write what a figure shows above all of its panels, at the left: at most two lines of 60 characters."""
    fig.suptitle(text, x=0.01, ha="left", fontsize=14, fontweight="bold", color=colour("ink"))


def note(ax: Axes, text: str, at: tuple[float, float], beside: tuple[float, float], **options: Any) -> None:
    """Point from a few words to the place that matters.

    Parameters
    ----------
    at : the place, in data coordinates
    beside : where the words stand from there, in points
    options : of `Axes.annotate`, such as ha
    """
    arrow = {"arrowstyle": "-", "color": colour("ink"), "linewidth": 0.9, "shrinkB": 3}
    ax.annotate(text, at, beside, textcoords="offset points", fontsize=13, arrowprops=arrow, **options)
