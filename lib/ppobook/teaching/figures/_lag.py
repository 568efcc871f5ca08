"""A sampler that lags: where each of three losses ends, at staleness 0 to 16."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ppobook.experiments import results
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure, packed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

_RECORD = "language_lag"
# The losses, with the colour of each.
_LOSSES = {"both": "grpo", "corrected": "ppo_kl", "not corrected": "bad"}
_NAMES = {"both": "decoupled"}  # in the record and on the page
_TICKS = (0, 1, 5, 20, 50, 100, 200)  # of the KL
# What is shown of a run, and with how many digits it is stored.
_COLUMNS = {"gold": 2, "kl": 2, "lag_kl": 3, "clip_fraction": 3, "ended": 3}


def lag_explorer() -> Figure:
    """Move the lag: gold and KL of ten seeds along the way, with three losses, and the gauges at the end.

    The runs are recorded ones of GRPO in the tiny language world, whose reward is gold itself.
    """
    lag = 4  # of the still picture; the live figure begins without a lag
    runs = results(_RECORD).sort_values(["lag", "loss", "update", "seed"])
    lags = sorted(runs["lag"].unique().tolist())
    last = runs["update"].max()
    ends = {loss: some[some["update"] == last] for loss, some in _of(runs, lag).items()}
    named = {"both": "decoupled", "corrected": "corrected", "not corrected": "not corrected"}
    alt = f"""
        Two panels against updates, with a curve for each of three losses: gold, and the KL to the reference.
        With a lag of {lag}, after {last} updates, ten seeds have on average
        {", ".join(f"{ends[loss]['gold'].mean():.2f} gold {words}" for loss, words in named.items())}.
    """
    state = {
        "lags": lags,
        "lag": 0,
        "losses": list(_LOSSES),
        "updates": sorted(runs["update"].unique().tolist()),
        "columns": list(_COLUMNS),
        # [lag][loss][update], each a text: the numbers of ten seeds, column after column.
        "runs": [
            [
                [packed(look, _COLUMNS) for _, look in some.groupby("update")]
                for some in _of(runs, each).values()
            ]
            for each in lags
        ],
    }
    return Figure("lag", state, alt=alt, height=3.5, still=lambda picture: _still(picture, runs, lag))


def _of(runs: pd.DataFrame, lag: int) -> dict[str, pd.DataFrame]:
    """The runs of a lag by loss; without a lag all three losses are one."""
    mine = runs[runs["lag"] == lag]
    return {loss: mine[mine["loss"] == loss] if lag else mine for loss in _LOSSES}


def _still(picture: Picture, runs: pd.DataFrame, lag: int) -> None:
    axes = picture.subplots(1, 2)
    for ax, column, title in zip(axes, ("gold", "kl"), ("gold", "KL to the reference"), strict=True):
        if column == "kl":  # as in the browser, the axis is that of the square root
            ax.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0)), np.square))
        shown = _of(runs, lag)
        for loss, some in shown.items():
            color = style.colour(_LOSSES[loss])
            for _, run in some.groupby("seed"):
                ax.plot(run["update"], run[column], color=color, lw=0.8, alpha=0.3)
            path = some.groupby("update")[column].mean()
            ax.plot(path.index, path, color=color, lw=2.2, label=_NAMES.get(loss, loss))
        if column == "kl":
            highest = max(some["kl"].max() for some in shown.values())
            ax.set(ylim=(0, highest), yticks=[tick for tick in _TICKS if tick <= highest])
        ax.set(xticks=[0, 10, 20, 30, 40], title=title)
    picture.supxlabel(f"update, with a lag of {lag}", fontsize=13)
    style.finding(picture, "The decoupled loss gains most, on average")
    for ax in axes:
        style.label_curves(ax)
