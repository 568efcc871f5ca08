"""Compare runs: one group for each algorithm, environment and settings, aggregated over seeds.

comparison = compare(["runs/ppo-0", "runs/ppo-1", "runs/trpo-0", "runs/trpo-1"])
print(comparison.table)
comparison.plot("comparison.svg")
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from ppobook import validation
from ppobook.analysis.files import new_file
from ppobook.evaluation import aggregate
from ppobook.run.files import atomic_write
from ppobook.run.registry import short_name
from ppobook.settings import schedules
from ppobook.training import Record, read_record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Entries of config.json that may differ within a group; without a schedule, total_steps too.
_NOT_SETTINGS = ("seed", "checkpoint_every", "device")
# Points of a curve, at most one an update.
_POINTS = 50
# A run's result is the mean over this last share of its steps.
_LAST = 0.1
# Formats of a figure.
PICTURES = (".svg", ".png", ".pdf")
# Colours of curves, in this order where two groups have the same algorithm.
_COLOURS = ("ppo", "vanilla", "trpo", "ppo_kl", "grpo", "dpo", "muted")


@dataclass(frozen=True)
class Group:
    """Runs whose results differ by the seed alone."""

    label: str  # the algorithm, and the settings in which the groups differ
    algorithm: str
    env: str
    seeds: tuple[int, ...]
    end: int  # the environment steps that all runs of the group have
    steps: np.ndarray  # [P], at which the curves are evaluated
    curves: np.ndarray  # [S, P], the metric of each run: its mean over the updates around each point
    results: np.ndarray  # [S], of each run the mean of the metric over the last tenth of these steps


@dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    The table has one row a group: group, env, runs, steps, the metric's mean over the runs' results, and the
    ends of its interval (NaN for a single run).
    """

    metric: str
    groups: tuple[Group, ...]
    table: pd.DataFrame
    notes: tuple[str, ...] = ()  # runs that are left out, and groups compared at less than their length

    def figure(self) -> Figure:
        """Every run thin, each group's mean thick, a band for its interval; a panel for each environment."""
        import matplotlib as mpl
        from matplotlib.figure import Figure

        from ppobook.teaching import style

        envs = list(dict.fromkeys(group.env for group in self.groups))
        with mpl.rc_context(cast("Any", style.settings())):
            figure = Figure(figsize=(style.WIDTH, 3.6 * len(envs)), layout="constrained")
            colours = _colours(self.groups)
            for i, env in enumerate(envs, 1):
                ax = figure.add_subplot(len(envs), 1, i)
                for group in self.groups:
                    if group.env == env:
                        hue, band = colours[group.label], _band(group.curves)
                        style.seeds(ax, group.steps, group.curves, name=hue, label=group.label, interval=band)
                ax.set(title=env, xlabel="environment steps", ylabel=self.metric.replace("_", " "))
                here = sum(group.env == env for group in self.groups)
                if here <= 4:
                    style.label_curves(ax)
                else:
                    ax.legend()
        return figure

    def plot(self, out: str | Path) -> Path:
        """Write `figure` to a file, or replace it: SVG, PNG or PDF, by its extension."""
        out = new_file("out", out, PICTURES)
        figure = self.figure()
        import matplotlib as mpl

        from ppobook.teaching import style

        # No date: the same figure has the same bytes.
        dates: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        content = io.BytesIO()
        with mpl.rc_context(cast("Any", style.settings())):
            figure.savefig(content, format=out.suffix[1:].lower(), metadata=dates.get(out.suffix.lower()))
        atomic_write(out, content.getvalue())
        return out


def compare(folders: Sequence[str | Path], metric: str = "return_mean") -> Comparison:
    """Compare runs, aggregated over seeds.

    Two runs belong to one group if algorithm, environment and all settings agree; the seed, the device and
    checkpoint_every may differ, and total_steps, where no schedule goes by it. A run's result is the mean
    over its last tenth, not its best update. The interval is a bootstrap over the seeds of a group
    (`evaluation.aggregate`); with few seeds it is too narrow.

    All runs of a group are compared at the same length, that of the shortest. A run that stopped before its
    total_steps is left out if it is shorter than those that did not. So is a run without a value of the
    metric, for instance without a finished episode. Both are reported as a warning, and in the notes.

    Parameters
    ----------
    folders : sequence of paths
        Folders written by `train(out=…)` or `Run.save`. A user's own learner class need not be importable.
    metric : str
        A column of their histories.
    """
    records = {Path(folder): read_record(folder, "folders") for folder in folders}
    grouped: dict[str, dict[Path, Record]] = {}
    for folder, record in records.items():
        columns = [name for name in record.history.columns if name != "update"]
        validation.choice(f"metric in {str(folder)!r}", metric, columns)
        grouped.setdefault(repr(sorted(_settings(record.config).items())), {})[folder] = record
    found = [_comparable(metric, group) for group in grouped.values()]
    notes = [note for _, _, left_out in found for note in left_out]
    groups = []
    labels = _labels([next(iter(kept.values())).config for kept, _, _ in found if kept])
    for label, (kept, end, _) in zip(labels, (one for one in found if one[0]), strict=True):
        groups.append(_group(metric, label, kept, end))
        lengths = {folder: record.history["steps"].iloc[-1] for folder, record in kept.items()}
        if max(lengths.values()) > end:
            shortest = min(kept, key=lengths.__getitem__)
            notes.append(f"{label}: runs are compared at {end:,} steps, where {str(shortest)!r} ends")
    if not groups:
        raise ValueError(f"metric must have values, got {metric!r}, which is empty in {str(folders[0])!r}")
    for note in notes:
        warnings.warn(note, stacklevel=2)
    rows = []
    for group in groups:
        low, high = (end.item() for end in _band(group.results[:, None]))
        row = {"group": group.label, "env": group.env, "runs": len(group.results), "steps": group.end}
        rows.append(row | {metric: group.results.mean(), "low": low, "high": high})
    table = pd.DataFrame(rows)
    return Comparison(metric, tuple(groups), table, tuple(notes))


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that a run's results depend on."""
    free = _NOT_SETTINGS if schedules(config) else (*_NOT_SETTINGS, "total_steps")
    return {name: value for name, value in config.items() if name not in free}


def _comparable(metric: str, records: dict[Path, Record]) -> tuple[dict[Path, Record], int, list[str]]:
    """The runs of a group that can be averaged, the steps that they share, and which are left out and why."""
    measured = {
        folder: record.history["steps"][record.history[metric].notna()] for folder, record in records.items()
    }
    lengths = {f: int(record.history["steps"].iloc[-1]) for f, record in records.items() if len(measured[f])}
    asked = {folder: records[folder].config.get("total_steps", 0) for folder in lengths}
    end = min([n for f, n in lengths.items() if n >= asked[f]] or lengths.values(), default=0)
    left_out = {}
    for folder in records:
        if folder not in lengths:
            left_out[folder] = f"it has no value of {metric}"
        elif lengths[folder] < end:
            left_out[folder] = f"it stopped after {lengths[folder]:,} of {asked[folder]:,} steps"
        elif measured[folder].iloc[0] > end:
            left_out[folder] = f"it has no value of {metric} in the first {end:,} steps"
    notes = [f"left out {str(folder)!r}: {why}" for folder, why in left_out.items()]
    kept = {folder: record for folder, record in records.items() if folder not in left_out}
    return kept, end, notes


def _labels(configs: list[dict[str, Any]]) -> list[str]:
    """Each group's algorithm, with the settings that differ within that algorithm and environment."""
    labels = []
    for config in configs:
        others = [c for c in configs if (c["algorithm"], c["env"]) == (config["algorithm"], config["env"])]
        apart = [
            name
            for name, value in _settings(config).items()
            if any(_settings(other).get(name) != value for other in others)
        ]
        values = (f"{x:g}" if isinstance(x := config[name], float) else str(x) for name in apart)
        said = ", ".join(map(" ".join, zip(apart, values, strict=True)))
        labels.append(f"{short_name(config['algorithm'])} {said}".strip())
    return labels


def _group(metric: str, label: str, records: dict[Path, Record], end: int) -> Group:
    seeds = [record.config["seed"] for record in records.values()]
    twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if twice is not None:
        both = [str(folder) for folder, record in records.items() if record.config["seed"] == twice]
        raise ValueError(
            f"folders must differ in their seeds within a group, got seed {twice} twice: "
            f"{both[0]!r} and {both[1]!r}"
        )
    histories = [record.history for record in records.values()]
    points = min(_POINTS, *(int((history["steps"] <= end).sum()) for history in histories))
    edges = np.linspace(0, end, points + 1)
    curves = np.stack([_binned(history, metric, edges) for history in histories])
    results = [_mean_between(history, metric, (1 - _LAST) * end, end) for history in histories]
    config = next(iter(records.values())).config
    return Group(
        label,
        short_name(config["algorithm"]),
        config["env"],
        tuple(seeds),
        end,
        (edges[:-1] + edges[1:]) / 2,
        curves,
        np.array(results),
    )


def _binned(history: pd.DataFrame, metric: str, edges: np.ndarray) -> np.ndarray:
    """The mean of the metric between neighbouring edges; interpolated linearly where nothing was measured."""
    bins = np.clip(np.searchsorted(edges, history["steps"], side="left") - 1, 0, None)
    inside = ((history["steps"] <= edges[-1]) & history[metric].notna()).to_numpy()
    means = history[metric][inside].groupby(bins[inside]).mean()
    return np.interp(np.arange(len(edges) - 1), means.index.to_numpy(float), means.to_numpy())


def _mean_between(history: pd.DataFrame, metric: str, start: float, end: float) -> float:
    """The mean over the updates in an interval of steps; if none of them has a value, the last value."""
    measured = history[history[metric].notna() & (history["steps"] <= end)]
    inside = measured[measured["steps"] > start]
    return float((inside if len(inside) else measured.tail(1))[metric].mean())


def _band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the interval over seeds, the first axis; NaN for a single one."""
    if len(values) < 2:
        return (np.full(values.shape[1], np.nan),) * 2
    found = aggregate(values, interval="bootstrap")
    return found.low, found.high


def _colours(groups: Sequence[Group]) -> dict[str, str]:
    """A colour for each label: that of its algorithm, or an unused one for further groups of an algorithm."""
    labels = list(dict.fromkeys(group.label for group in groups))
    own = {group.label: group.algorithm for group in groups if group.algorithm in _COLOURS}
    taken: dict[str, str] = {}
    for label in labels:
        if own.get(label) and own[label] not in taken.values():
            taken[label] = own[label]
    free = [colour for colour in _COLOURS if colour not in taken.values()] or ["muted"]
    for label in labels:
        if label not in taken:
            taken[label] = free.pop(0) if len(free) > 1 else free[0]
    return taken
