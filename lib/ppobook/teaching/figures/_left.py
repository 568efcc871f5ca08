"""A reward model that is left behind: how often it is right about the texts of a policy that moves on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppobook.experiments import results
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure, packed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

_RECORD = "language_refresh"
# What is shown of a run, and with how many digits it is stored.
_COLUMNS = {"order": 3, "gold": 2}
_TITLES = {"order": "pairs ranked right", "gold": "gold"}


def left_behind() -> Figure:
    """Train a policy against a reward model that stays the same, and see whether it is still right.

    The runs are recorded ones of PPO in the tiny language world, without a KL penalty. `widget().at` is the
    number of the measurement up to which the curves are drawn.
    """
    runs = results(_RECORD)
    runs = runs[runs["judge"] == "frozen"].sort_values(["update", "seed"])
    mean = runs.groupby("update")[list(_COLUMNS)].mean()
    first, last = mean.index[0], mean.index[-1]
    alt = f"""
        Two panels against updates, {first} to {last}, ten runs each. Left, the share of pairs that the reward
        model ranks as gold does: on average, it falls from {mean["order"][first]:.2f} to
        {mean["order"][last]:.2f}, the level of a coin. Right, gold: on average, it rises a little, from
        {mean["gold"][first]:.1f} to {mean["gold"].max():.1f} at update {mean["gold"].idxmax()}, and falls to
        {mean["gold"][last]:.1f}.
    """
    state = {
        "updates": mean.index.tolist(),
        "columns": list(_COLUMNS),
        # A text for each measurement: the numbers of ten seeds, column after column.
        "looks": [packed(look, _COLUMNS) for _, look in runs.groupby("update")],
        "at": 0,
    }
    return Figure("left", state, alt=alt, height=3.4, still=lambda picture: _still(picture, runs))


def _still(picture: Picture, runs: pd.DataFrame) -> None:
    for ax, column in zip(picture.subplots(1, 2), _COLUMNS, strict=True):
        table = runs.pivot(index="seed", columns="update", values=column)
        style.seeds(ax, table.columns, table.to_numpy(), name="ppo")
        ax.set_title(_TITLES[column])
        if column == "order":
            ax.axhline(0.5, color=style.colour("muted"), linewidth=1, zorder=0)
            ax.text(0, 0.48, "a coin", va="top", color=style.colour("muted", "text"), fontsize=12)
    picture.supxlabel("update", fontsize=13)
    style.finding(picture, "As the policy moves, its reward model loses its way")
