"""Two learning rates: ten recorded runs of each, and the question what comes after the first updates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ppobook.experiments import results
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from numpy.typing import NDArray

# The name of a learning rate, its case in the record, and its colour in the still picture.
_SIDES = {"0.003": ("healthy", "ppo"), "0.03": ("learning rate ten times", "bad")}
# The most that CartPole pays, the return of a good policy, and the update at which the reader guesses.
_TOP, _GOOD, _FIRST = 500, 475, 8


def two_rates() -> Figure:
    """Guess how ten runs go on that lead after eight updates, and play the rest.

    The runs are recorded ones of PPO on CartPole: learning rates 0.003 and 0.03, with all else equal. An
    update in which no episode ended shows the return of the update before.
    """
    runs = results("practice_gauges")
    curves, arrived = {}, {}
    for name, (case, _) in _SIDES.items():
        mine = runs[runs["case"] == case]
        table = mine.pivot(index="seed", columns="update", values="return_mean").ffill(axis=1)
        curves[name] = table.to_numpy()
        arrived[name] = int((mine.groupby("seed")["final"].first() >= _GOOD).sum())
    early, late = ({name: x[:, at].mean() for name, x in curves.items()} for at in (_FIRST - 1, -1))
    alt = f"""
        Return against updates for learning rates 0.003 and 0.03, ten runs of each. After {_FIRST} updates the
        means are {early["0.003"]:.0f} and {early["0.03"]:.0f}; after {curves["0.03"].shape[1]} they are
        {late["0.003"]:.0f} and {late["0.03"]:.0f}. {arrived["0.003"]} and {arrived["0.03"]} of ten trained
        policies earn {_GOOD} or more.
    """
    state = {
        "update": _FIRST,
        "first": _FIRST,
        "top": _TOP,
        "good": _GOOD,
        "sides": [
            {"name": name, "arrived": arrived[name], "runs": [" ".join(f"{x:.0f}" for x in run) for run in x]}
            for name, x in curves.items()
        ],
    }
    return Figure("rates", state, alt=alt, height=2.75, still=lambda picture: _still(picture, curves))


def _still(picture: Picture, curves: dict[str, NDArray[np.float64]]) -> None:
    ax = picture.subplots()
    for name, (_, hue) in _SIDES.items():
        updates = np.arange(1, curves[name].shape[1] + 1)
        ax.plot(updates, curves[name].mean(axis=0), color=style.colour(hue), label=name)
    ax.set(xlabel="update", ylabel="return", ylim=(0, 1.04 * _TOP))
    style.label_curves(ax)
    style.finding(picture, "The larger learning rate leads, then trails")
