"""Measured maps of PPO's settings, ten seeds a cell: how each seed ended, and which gauge saw it first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ppobook.evaluation import aggregate
from ppobook.experiments import results
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from numpy.typing import NDArray

# The most that CartPole pays, and the updates of a run.
_TOP, _UPDATES = 500, 30
# What a gauge is called, and the column of its worst value.
_GAUGES = {
    "kl": ("KL > 0.05", "kl_max"),
    "clip": ("clip fraction > 0.5", "clip_max"),
    "ev": ("explained variance < −0.1", "ev_min"),
    "entropy": ("entropy < a tenth", "entropy_min"),
}
# Colour and matplotlib's marker, in the still picture.
_MARKS = {"kl": ("ppo", "o"), "clip": ("good", "s"), "ev": ("trpo", "^"), "entropy": ("vanilla", "D")}


class _Map(NamedTuple):
    title: str  # of its rows
    about: str  # what all its cells share
    base: float  # the row that all maps share
    runs: pd.DataFrame  # a row for each run; the column "row" says in which row of the map it is


def _recorded() -> dict[str, _Map]:
    """The maps. They share a row: ε = 0.2, ten epochs, λ = 0.95, four minibatches."""
    import pandas as pd

    clip, *others = (results(f"practice_{name}") for name in ("clip_lr", "epochs_lr", "lam", "minibatch"))
    shared = clip[clip["clip_eps"] == 0.2].assign(epochs=10, lam=0.95, num_minibatches=4)
    epochs, lam, parts = (pd.concat([runs, shared], ignore_index=True) for runs in others)
    parts = parts.assign(row=(1024 / parts["num_minibatches"]).round())
    ten, forty = parts["epochs"] == 10, parts["epochs"] * parts["num_minibatches"] == 40
    return {
        "clip_eps": _Map("clip range ε", "ten epochs a batch", 0.2, clip.assign(row=clip["clip_eps"])),
        "epochs": _Map("epochs", "clip range 0.2", 10, epochs.assign(row=epochs["epochs"])),
        "lam": _Map("λ", "ten epochs a batch", 0.95, lam.assign(row=lam["lam"])),
        "minibatch": _Map("minibatch size", "ten epochs a batch", 256, parts[ten]),
        "minibatch_40": _Map("minibatch size", "40 steps a batch", 256, parts[forty]),
    }


def measured_maps() -> Figure:
    """Point at a cell of a map and see its ten seeds: how each ended, when it fell, which gauge rang.

    The maps are the recorded ones of PPO on CartPole: the learning rate against the clip range, the epochs,
    λ and the size of a minibatch. A gauge rings in the first update in which it crosses its threshold; a run
    falls in the first in which its return, a mean of three updates, is below half of the best before.
    """
    name, value, lr = "clip_eps", 0.2, 0.03  # the map and the cell that are shown at first
    maps = _recorded()
    shown = maps[name]
    values, rates = sorted(shown.runs["row"].unique()), sorted(shown.runs["lr"].unique())

    cell = _cell(shown.runs[(shown.runs["row"] == value) & (shown.runs["lr"] == lr)])
    fell = cell["fell_at"].notna()
    ahead = ", ".join(
        f"{title} in {cell[f'{gauge}_at'].notna().sum()}, before the fall in {_ahead(cell, gauge)}"
        for gauge, (title, _) in _GAUGES.items()
    )
    mean, low, high = _interval(cell)
    means = shown.runs.groupby(["row", "lr"])["final"].mean()
    alt = f"""
        A map of the mean return by {shown.title} and learning rate, between {means.min():.0f} and
        {means.max():.0f}, and the ten seeds of one cell, {shown.title} {value:g} and learning rate {lr:g}.
        They end at {cell["final"].min():.0f} to {cell["final"].max():.0f}, {mean:.0f} on average ({low:.0f}
        to {high:.0f}). {fell.sum()} of them fell on the way. The gauges rang: {ahead}.
    """
    state = {
        "map": list(maps).index(name),
        "row": values.index(value),
        "column": rates.index(lr),
        "top": _TOP,
        "updates": _UPDATES,
        "rates": [f"{rate:g}" for rate in rates],
        "gauges": [{"name": gauge, "title": title} for gauge, (title, _) in _GAUGES.items()],
        "maps": [
            {
                "title": one.title,
                "about": one.about,
                "values": [f"{v:g}" for v in sorted(one.runs["row"].unique())],
                "base": sorted(one.runs["row"].unique()).index(one.base),
                "cells": [_packed(_cell(runs)) for _, runs in one.runs.groupby(["row", "lr"])],
            }
            for one in maps.values()
        ],
    }
    return Figure("maps", state, alt=alt, height=6.5, still=lambda picture: _still(picture, shown, value, lr))


def _cell(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of a cell, the best first."""
    return runs.sort_values(["final", "train_mean"], ascending=False)


def _interval(cell: pd.DataFrame) -> list[float]:
    """The mean of the final returns and its interval, which goes no further than returns can."""
    return [float(x) for x in np.clip(aggregate(cell["final"].to_numpy()), 0, _TOP)]


def _ahead(cell: pd.DataFrame, gauge: str) -> int:
    """In how many runs the gauge rang before the fall."""
    return int((cell[f"{gauge}_at"] < cell["fell_at"]).sum())


def _packed(cell: pd.DataFrame) -> str:
    """A cell in one text: mean, low and high; the gauges' worst values, medians over seeds; for each run its
    end, its fall and when each gauge rang, "-" for never.
    """
    worst = [cell[column].median() for _, column in _GAUGES.values()]
    parts = [[f"{x:.2f}" for x in _interval(cell)], [f"{x:.3g}" for x in worst]]
    when = ["fell_at", *(f"{gauge}_at" for gauge in _GAUGES)]
    for _, run in cell.iterrows():
        ends: list[Any] = ["-" if np.isnan(run[column]) else int(run[column]) for column in when]
        parts.append([f"{run['final']:g}", *map(str, ends)])
    return "/".join(" ".join(part) for part in parts)


def _still(picture: Picture, shown: _Map, value: float, lr: float) -> None:
    axes = picture.subplot_mosaic([["map", "map", "map"], ["when", "when", "ends"]], height_ratios=[1, 1.15])
    runs = shown.runs
    means = runs.groupby(["row", "lr"])["final"].mean().unstack("lr")
    rows, rates = [f"{x:g}" for x in means.index], [f"{x:g}" for x in means.columns]
    _draw_map(axes["map"], means.to_numpy(), (rows.index(f"{value:g}"), rates.index(f"{lr:g}")))
    axes["map"].set_xticks(range(len(rates)), rates)
    axes["map"].set_yticks(range(len(rows)), rows)
    axes["map"].set(xlabel="learning rate", ylabel=shown.title)
    axes["map"].set_title(f"return at the end, mean of ten seeds; {shown.about}", fontsize=13)
    _draw_seeds(axes["when"], axes["ends"], _cell(runs[(runs["row"] == value) & (runs["lr"] == lr)]))
    axes["when"].set_title(f"{shown.title} {value:g}, learning rate {lr:g}", fontsize=13)
    picture.legend(fontsize=11, ncols=5, loc="outside lower center", columnspacing=1, handletextpad=0.1)


def _draw_map(ax: Axes, means: NDArray[np.float64], at: tuple[int, int]) -> None:
    from matplotlib.patches import Rectangle

    high, wide = means.shape
    hue = style.colour("ppo")
    for (i, j), mean in np.ndenumerate(means):
        ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fc=hue, alpha=0.55 * mean / _TOP, lw=0))
        ax.text(j, i, f"{mean:.0f}", ha="center", va="center", fontsize=12)
    corner = at[1] - 0.47, at[0] - 0.46
    ax.add_patch(Rectangle(corner, 0.94, 0.92, fill=False, ec=style.colour("ink"), lw=2.5))
    ax.set(xlim=(-0.5, wide - 0.5), ylim=(-0.5, high - 0.5))
    ax.grid(visible=False)


def _draw_seeds(when: Axes, ends: Axes, cell: pd.DataFrame) -> None:
    rows = np.arange(len(cell))
    lanes = np.linspace(0.3, -0.3, len(_GAUGES))
    for lane, (gauge, (title, _)) in zip(lanes, _GAUGES.items(), strict=True):
        name, marker = _MARKS[gauge]
        label = title.split(" <")[0].split(" >")[0]
        when.plot(cell[f"{gauge}_at"], rows - lane, marker, ms=5, color=style.colour(name), label=label)
    when.plot(cell["fell_at"], rows, "|", ms=15, mew=3, color=style.colour("bad"), label="fell")
    when.hlines(rows[:-1] + 0.5, 0, _UPDATES + 1, color=style.colour("faint"), lw=1)
    when.set(xlabel="update", xlim=(0, _UPDATES + 1), ylim=(len(cell) - 0.5, -0.5))
    when.set(yticks=[], ylabel="ten seeds")
    when.grid(visible=False)
    mean, low, high = _interval(cell)
    ends.axvspan(low, high, color=style.colour("faint"))
    ends.axvline(mean, color=style.colour("ink"), lw=1.5)
    ends.plot(cell["final"], rows, "o", ms=6, color=style.colour("ppo"))
    ends.set(xlabel="return at the end", xlim=(-15, _TOP + 15), ylim=when.get_ylim(), yticks=[])
    ends.grid(visible=False, axis="y")
