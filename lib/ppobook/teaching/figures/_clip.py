"""E1: the clipped surrogate of one sample, its slope, and the two ways of counting what the clip does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from ppobook.diagnostics import ratios
from ppobook.objectives import clipped_surrogate_loss, surrogate_loss
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure, annotate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

# Where the sliders run: lowest, highest, step.
_RANGES = {"ratio": (0.05, 2.5, 0.01), "advantage": (-2.0, 2.0, 0.1), "clip_eps": (0.05, 0.5, 0.01)}


class ClipSample(NamedTuple):
    """The result of `clip_sample`."""

    surrogate: float  # ρ A
    clipped: float  # clip(ρ, 1 − ε, 1 + ε) A
    objective: float  # the smaller of the two
    slope: float | None  # d objective / d ρ; None at the knee, where it is A on one side and 0 on the other
    clip_fraction: int  # 1 where ρ lies outside the clip range, |ρ − 1| > ε
    flat_fraction: int  # 1 where the clip removed the gradient: A pushes ρ further out of the clip range


def clip_sample(ratio: float, advantage: float, clip_eps: float = 0.2) -> ClipSample:
    """The clipped surrogate of a single sample, as the library's losses and diagnostics have it.

    min( ρ A, clip(ρ, 1 − ε, 1 + ε) A )
    """
    low, high = 1 - clip_eps, 1 + clip_eps
    # The ends of the clip range belong to it, and rounding must not put a ratio of 1.2 outside of 1 + 0.2.
    at_low, at_high = abs(ratio - low) < 1e-9, abs(ratio - high) < 1e-9
    inside = ratio + (1e-9 if at_low else -1e-9 if at_high else 0.0)
    knee = (at_high and advantage > 0) or (at_low and advantage < 0)

    old, a = torch.zeros(1, dtype=torch.float64), torch.tensor([advantage], dtype=torch.float64)
    logp = torch.tensor([math.log(ratio)], dtype=torch.float64)
    near = torch.tensor([math.log(inside)], dtype=torch.float64, requires_grad=True)
    (loss_slope,) = torch.autograd.grad(clipped_surrogate_loss(near, old, a, clip_eps), near)
    counted = ratios(near.detach(), a, clip_eps)
    return ClipSample(
        surrogate=-float(surrogate_loss(logp, old, a)),
        clipped=min(max(ratio, low), high) * advantage,
        objective=-float(clipped_surrogate_loss(logp, old, a, clip_eps)),
        # The derivative in log ρ is ρ times that in ρ.
        slope=None if knee else -float(loss_slope) / inside + 0.0,
        clip_fraction=int(counted["clip_fraction"]),
        flat_fraction=int(counted["flat_fraction"]),
    )


def clip_explorer(ratio: float = 1.3, advantage: float = 1.0, clip_eps: float = 0.2) -> Figure:
    """Drag ρ, A and ε: both surrogates, the smaller of the two, and its slope.

    The figure says which case the sample is, and whether it counts to clip_fraction, to flat_fraction, to
    both or to neither. In JupyterLab, `widget().sample` holds the numbers on display.

    Parameters
    ----------
    ratio, advantage, clip_eps : float from 0.05 to 2.5, from −2 to 2, from 0.05 to 0.5
        Where the sliders start.
    """
    start = {"ratio": ratio, "advantage": advantage, "clip_eps": clip_eps}
    sample = clip_sample(**start)
    size = abs(advantage) or 1.0
    low, high = 1 - clip_eps, 1 + clip_eps
    slope = "at the knee, with no single slope" if sample.slope is None else f"with slope {sample.slope:g}"
    at = f"At ρ = {ratio:g} and A = {advantage:g}".replace("-", "−")
    numbers = (
        f"ρ A = {sample.surrogate:.2f}, clip(ρ) A = {sample.clipped:.2f}, minimum {sample.objective:.2f}"
    )
    alt = f"""
        The clipped surrogate of one sample against its ratio ρ. For a good action, A = {size:g}, it rises
        with ρ, and is flat at {high * size:.2f} from ρ = {high:g} on, while ρ A goes on rising. For a bad
        action, A = −{size:g}, it is flat at −{low * size:.2f} as long as ρ is below {low:g}, and falls from
        there without end. On the other side nothing is clipped: a good action below {low:g} and a bad one
        above {high:g} keep their full slope. {at}: {numbers.replace("-", "−")}, {slope.replace("-", "−")};
        this sample {_counts(sample)}.
    """
    state = {
        **start,
        "ranges": _RANGES,
        "sample": {
            name: value if value is None else round(value, 9) for name, value in sample._asdict().items()
        },
    }
    return Figure("clip", state, alt=alt, height=3.7, still=lambda picture: _still(picture, start, size))


def _counts(sample: ClipSample) -> str:
    if sample.flat_fraction:
        return "counts to clip_fraction and to flat_fraction"
    if sample.clip_fraction:
        return "counts to clip_fraction, not to flat_fraction"
    return "counts to neither clip_fraction nor flat_fraction"


def _still(picture: Picture, start: dict[str, float], size: float) -> None:
    good, bad = picture.subplots(1, 2)
    for ax, kind, a in ((good, "good", size), (bad, "bad", -size)):
        here = start["ratio"] if (a > 0) == (start["advantage"] >= 0) else None
        _draw(ax, kind, a, start["clip_eps"], here)
    good.set_title(f"good action, A = {size:g}", fontsize=13)
    bad.set_title(f"bad action, A = −{size:g}", fontsize=13)


def _draw(ax: Axes, kind: str, a: float, eps: float, here: float | None) -> None:
    low, high = 1 - eps, 1 + eps
    r = np.array([0.05, low, high, 2.5])
    objective = [clip_sample(x, a, eps).objective for x in r]
    ax.axvspan(low, high, color=style.colour("faint"), alpha=0.45, lw=0)
    ax.plot(r, r * a, color=style.colour("muted"), lw=1.3)
    ax.plot(r, np.clip(r, low, high) * a, color=style.colour("muted"), lw=1.3)
    ax.plot(r, objective, color=style.colour(kind), lw=4.5, solid_joinstyle="round")
    bold: dict[str, Any] = {"ha": "right", "weight": "bold", "color": style.colour(kind, "text")}
    if a > 0:
        annotate(ax, "ρ A", (1.9, 1.9 * a), (-5, 4), ha="right")
        annotate(ax, "clip(ρ) A", (0.05, low * a), (2, 5))
        annotate(ax, "min", (2.5, high * a), (-2, -17), **bold)
    else:
        annotate(ax, "ρ A", (0.3, 0.3 * a), (6, 4))
        annotate(ax, "clip(ρ) A", (2.5, high * a), (-2, 6), ha="right")
        annotate(ax, "min", (1.75, 1.75 * a), (-6, -14), **bold)
    if here is not None:
        spot = min(here, 2.2), clip_sample(here, a, eps).objective
        ax.plot(*spot, "o", ms=10, color=style.colour(kind), mec=style.colour("ink"), mew=2, zorder=5)
    ax.set(xlabel="ratio ρ", xlim=(0, 2.5), ylim=(-0.2 * a, 2.6 * a) if a > 0 else (2.6 * a, -0.2 * a))
    ax.set_xticks([0, 0.5, 1, 1.5, 2, 2.5])
