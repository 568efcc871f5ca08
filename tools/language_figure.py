"""The figure of the page "What happens on the tiny world", gold and proxy against KL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

POOLINGS = {"last": "last token", "sum": "sum"}  # what a reward model reads
# A mean curve that ends at a smaller KL has its label below.
NEAR = 2.0


def draw(curves: pd.DataFrame, best: pd.DataFrame, target: Path) -> None:
    """Draw gold and proxy against KL, of PPO's runs and of best of n, into a file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    panels = [(name, pooling) for name in ("gold", "proxy") for pooling in POOLINGS]
    with plt.rc_context(style.settings()):
        drawn, axes = plt.subplots(4, 1, figsize=(style.WIDTH, 12.0), sharex=True)
        for ax, (name, pooling) in zip(axes, panels, strict=True):
            mine = curves[curves["pooling"] == pooling]
            for _, run in mine.groupby(["kl_coef", "seed"]):
                ax.plot(run["kl"].clip(lower=0), run[name], color=style.colour("ppo"), lw=0.6, alpha=0.3)
            for beta, runs in mine.groupby("kl_coef"):
                mean = runs.groupby("update")[["kl", name]].mean()
                ax.plot(mean["kl"], mean[name], color=style.colour("ppo"))
                _label(ax, f"β {beta:g}", mean.iloc[-1], style.colour("ppo", "text"))
            drawing = best[best["chosen_by"] == pooling].groupby("n")[["kl", name]].mean()
            ax.plot(drawing["kl"], drawing[name], color=style.colour("truth"), marker=".")
            _label(ax, "best of n", drawing.iloc[-1], style.colour("truth", "text"), up=12)
            ax.set(title=f"{name}, reward of the {POOLINGS[pooling]}", ylabel=name)
        for one, other in ((0, 1), (2, 3)):
            low, high = zip(*(axes[k].get_ylim() for k in (one, other)), strict=True)
            for k in (one, other):
                axes[k].set_ylim(min(low), max(high) + 0.5)
        top = curves["kl"].max()
        axes[-1].set_xscale("function", functions=(np.sqrt, np.square))
        axes[-1].set_xticks([k * k for k in range(0, int(top**0.5) + 1, 1 if top < 130 else 2)])
        axes[-1].set(xlabel="KL to the reference, nats", xlim=(0, 1.1 * top))
        drawn.savefig(target, metadata={"Date": None, "Creator": None})
        plt.close(drawn)


def _label(ax: Any, text: str, end: pd.Series, colour: str, up: float = 0) -> None:
    """Return what a curve is, where it ends; below its end where that is near the others."""
    beside = (6, up) if up or end.iloc[0] > NEAR else (4, -14)
    ax.annotate(
        text,
        tuple(end),
        xytext=beside,
        textcoords="offset points",
        color=colour,
        va="center",
        fontsize=11,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8},
    )
