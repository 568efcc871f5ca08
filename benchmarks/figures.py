"""The figures of the page "How it compares", drawn from what is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from recorded import RESULTS, Recorded


def speedups(recorded: Recorded) -> list[tuple[str, float, float | None, float | None]]:
    """What the first figure shows: a label, how many times as fast ours is, its interval if it has one."""
    assert recorded.race is not None
    learned = recorded.learned()
    assert learned is not None
    chosen = [one for one in recorded.race["comparisons"] if one["race"].startswith("rate_")]
    chosen += [
        one
        for one in learned["comparisons"]
        if one["race"].startswith("reach_") and one["measure"] == "cpu_seconds"
    ]
    found = []
    for one in chosen:
        times, low, high = one["ratio"], one["low"], one["high"]
        if not times:
            continue  # 0: they did not get there, and nothing can be said of how many times
        if one["measure"] != "steps_per_second":
            times = 1 / times
            low, high = (1 / x if x else None for x in (high, low))
        found.append((f"{one['title']}, {one['contestant']}".replace(" at ", ", "), times, low, high))
    return found


def draw(source: Path = RESULTS, target: Path = RESULTS) -> None:
    """Draw the figures of what is recorded in one folder into another."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    recorded = Recorded(source)
    with plt.rc_context(style.settings()):
        if recorded.race is not None:
            _save(_draw_ratios(recorded), target / "race" / "ratios.svg")
            if sum(race["measure"] == "cost" for race in recorded.race["races"]) == 3:
                _save(_draw_cost(recorded), target / "race" / "cost.svg")
        if recorded.curves is not None:
            _save(_draw_curves(recorded), target / "race_curves" / "curves.svg")


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)


def _draw_ratios(recorded: Recorded) -> Any:
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    rows = speedups(recorded)[::-1]
    figure, ax = plt.subplots(figsize=(style.WIDTH, 0.62 * len(rows) + 1.0))
    for height, (label, times, low, high) in enumerate(rows):
        if low is not None and high is not None:
            ax.plot([low, high], [height, height], color=style.colour("ppo"), linewidth=2.2)
        ax.plot(times, height, "o", color=style.colour("ppo"), markersize=7)
        ax.annotate(
            f"{times:.2g}×",
            (max(high or times, times), height),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
        )
        ax.annotate(
            label,
            (0, height + 0.24),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            fontsize=10.5,
        )
    ax.set_xscale("log")
    seen = [x for row in rows for x in row[1:] if x is not None]
    if min(seen) < 1:
        ax.axvline(1, color=style.colour("ink"), linewidth=1)
        ax.set_xlim(left=min(seen) / 1.3)
    else:  # the edge of the figure is the line of equals
        ax.set_xlim(left=1)
    ax.set_xlim(right=max([10, *seen]) * 2.5)
    ax.set_ylim(-0.6, len(rows) - 0.2)
    ax.set_yticks([])
    ax.spines["left"].set_visible(min(seen) >= 1)
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:g}×")
    ax.set_xlabel("times as fast, in processor time")
    return figure


def _draw_cost(recorded: Recorded) -> Any:
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    table = recorded.table("race")

    def of(name: str) -> tuple[np.ndarray, pd.DataFrame]:
        mine = table[table.race == name]
        wide = mine.pivot_table(
            index="contestant", columns="measure", values="value", aggfunc="median", sort=False
        )
        sizes = wide.index.str.extract(r"(\d+)", expand=False).astype(int)
        return sizes.to_numpy(), wide

    figure, (left, right) = plt.subplots(2, 1, figsize=(style.WIDTH, 7.2))
    sizes, wide = of("cost_environments")
    per_step = 1e6 / wide["steps_per_second"].to_numpy()
    share = wide["rollout_share"].to_numpy()
    left.plot(sizes, per_step, color=style.colour("ppo"), label="whole step")
    left.plot(sizes, per_step * share, color=style.colour("vanilla"), label="rollout")
    left.plot(sizes, per_step * (1 - share), color=style.colour("muted"), label="update")
    left.set(xscale="log", yscale="log", xlabel="environments", ylabel="CPU µs a step")
    for threads, look in ((1, "solid"), (2, "dashed")):
        sizes, wide = of(f"cost_width_{threads}")
        right.plot(
            sizes,
            wide["steps_per_wall_second"],
            color=style.colour("ppo"),
            linestyle=look,
            marker="o",
            label=f"{threads} thread{'s' * (threads > 1)}",
        )
    right.set(xscale="log", yscale="log", xlabel="width of both hidden layers", ylabel="steps a second")
    for ax, ticks in ((left, [1, 4, 16, 64, 256, 1024]), (right, [64, 128, 256, 512, 1024])):
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        ax.margins(x=0.02)
        ax.set_xlim(right=ticks[-1] * 3)
        style.label_curves(ax)
    return figure


def _draw_curves(recorded: Recorded) -> Any:
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    table = recorded.table("race_curves")
    envs = list(dict.fromkeys(table["env"]))
    figure, axes = plt.subplots(len(envs), 1, figsize=(style.WIDTH, 3.4 * len(envs)), squeeze=False)
    for ax, env in zip(axes[:, 0], envs, strict=True):
        for label, colour in (("SB3", "muted"), ("ours", "ppo")):
            mine = table[(table["env"] == env) & (table["contestant"] == label)]
            for i, (_, run) in enumerate(mine.groupby("seed")):
                ax.plot(
                    run["steps"] / 1000,
                    run["return_mean"],
                    color=style.colour(colour),
                    linewidth=1.6,
                    label=label if i == 0 else None,
                )
        ax.set(title=env, xlabel="thousand environment steps", ylabel="mean return")
        ax.set_xlim(0, 560)
        style.label_curves(ax)
    return figure
