"""Runs side by side: one group for each algorithm, environment and settings, summed up over its seeds.

comparison = compare(["runs/ppo-0", "runs/ppo-1", "runs/trpo-0", "runs/trpo-1"])
print(comparison.table)
comparison.plot("comparison.svg")
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from ppobook import validation
from ppobook.evaluation import aggregate
from ppobook.registry import short_name
from ppobook.training import Record, read_record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What may differ within a group: where and when a run was made, and which seed it had.
_NOT_SETTINGS = ("seed", "checkpoint_every", "device")
# Points of a curve. A run with fewer updates has one for each.
_POINTS = 50
# The share of a run's steps that its result is taken over.
_LAST = 0.1
# What a picture may be written as.
PICTURES = (".svg", ".png", ".pdf")
# Colours of the palette for curves, in this order where two groups have the same algorithm.
_COLOURS = ("ppo", "vanilla", "trpo", "ppo_kl", "grpo", "dpo", "muted")


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed.

    Attributes
    ----------
    label : str
        The algorithm, and the settings in which the groups differ.
    env : str
    seeds : tuple of int
    end : int
        The steps that all runs of the group have.
    steps : array, [P]
        Where the curves are measured.
    curves : array, [S, P]
        The metric of each run: its mean over the updates around each point.
    results : array, [S]
        Of each run, the mean of the metric over the last tenth of these steps.
    """

    label: str
    algorithm: str
    env: str
    seeds: tuple[int, ...]
    end: int
    steps: np.ndarray
    curves: np.ndarray
    results: np.ndarray


@dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    Attributes
    ----------
    metric : str
    groups : tuple of Group
    table : DataFrame
        One row a group: group, env, runs, steps, the metric's mean over the runs' results, and the ends of
        its interval (NaN for a single run).
    """

    metric: str
    groups: tuple[Group, ...]
    table: pd.DataFrame

    def figure(self) -> Figure:
        """Every run thin, each group's mean thick, a band for its interval; a panel for each environment.

        Raises
        ------
        ValueError
            matplotlib is not installed.
        """
        try:
            import matplotlib as mpl
            from matplotlib.figure import Figure
        except ImportError:
            raise ValueError(
                "out needs matplotlib, which is not installed; wanted: pip install 'ppobook[plot]'"
            ) from None
        from ppobook.teaching import style

        envs = list(dict.fromkeys(group.env for group in self.groups))
        with mpl.rc_context(cast("Any", style.settings())):
            figure = Figure(figsize=(style.WIDTH, 3.6 * len(envs)), layout="constrained")
            colours = _colours(self.groups)
            for i, env in enumerate(envs, 1):
                ax = figure.add_subplot(len(envs), 1, i)
                for group in self.groups:
                    if group.env == env:
                        band = _band(group.curves)
                        style.seeds(
                            ax,
                            group.steps,
                            group.curves,
                            name=colours[group.label],
                            label=group.label,
                            interval=band,
                        )
                ax.set(title=env, xlabel="environment steps", ylabel=self.metric.replace("_", " "))
                here = sum(group.env == env for group in self.groups)
                if here <= 4:
                    style.label_curves(ax)
                else:
                    ax.legend()
        return figure

    def plot(self, path: str | Path) -> Path:
        """Draw `figure` into a file, in one step: SVG, PNG or PDF, as its name ends.

        Raises
        ------
        ValueError, OSError
            Another ending, no matplotlib, or a place that cannot be written.
        """
        path = picture("path", path)
        figure = self.figure()
        import matplotlib as mpl

        from ppobook.teaching import style

        part = path.with_name(f".{path.name}.part")
        kind = path.suffix.lower()
        try:
            # The same picture has the same bytes: no date in it.
            about: dict[str, Any] = {} if kind == ".png" else {"Creator": None}
            about |= {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(kind, {})
            with mpl.rc_context(cast("Any", style.settings())):
                figure.savefig(part, format=kind[1:], metadata=about)
            os.replace(part, path)
        except OSError as error:
            raise OSError(
                f"path={str(path)!r} cannot be written ({error.strerror}); wanted: a place that can"
            ) from None
        finally:
            part.unlink(missing_ok=True)
        return path


def picture(name: str, path: Any) -> Path:
    """The path of a picture to be drawn, after its door."""
    path = validation.path(name, path)
    if path.suffix.lower() not in PICTURES:
        raise ValueError(f"{name} is {str(path)!r}; a file ending in {', '.join(PICTURES)} is wanted")
    return path


def compare(folders: Sequence[str | Path], metric: str = "return_mean") -> Comparison:
    """Put runs side by side, seeds of the same thing together.

    Two runs are of one group if algorithm, environment and all settings agree, whatever their seeds. A result
    is the mean over the last tenth of a run, and not its best moment. The interval is a bootstrap over the
    seeds of a group (`evaluation.aggregate`), so it says how far other seeds might have led; of few seeds it
    is too narrow.

    Parameters
    ----------
    folders : sequence of paths
        Of runs, as `train(out=…)` or `Run.save` wrote them. A class of a user's own is not needed.
    metric : str
        A column of their histories.

    Raises
    ------
    ValueError, OSError
        No run, the same run or seed of a group twice, a metric that a run does not have or never measured.
    """
    if isinstance(folders, str | Path) or not folders:
        raise ValueError(f"folders is {folders!r}; at least one run's folder is wanted, in a list")
    if len({validation.path("folders", folder).resolve() for folder in folders}) < len(folders):
        raise ValueError("folders has the same run twice; each is wanted once")
    records = {Path(folder): read_record(folder, "folders") for folder in folders}
    grouped: dict[str, dict[Path, Record]] = {}
    for folder, record in records.items():
        _refuse_without(metric, folder, record)
        grouped.setdefault(repr(sorted(_settings(record).items())), {})[folder] = record
    labels = _labels([next(iter(group.values())).config for group in grouped.values()])
    groups = [_group(metric, label, group) for label, group in zip(labels, grouped.values(), strict=True)]
    return Comparison(metric, tuple(groups), pd.DataFrame([_row(metric, group) for group in groups]))


def _settings(record: Record) -> dict[str, Any]:
    return {name: value for name, value in record.config.items() if name not in _NOT_SETTINGS}


def _labels(configs: list[dict[str, Any]]) -> list[str]:
    """For each group its algorithm, and what sets it apart from others of that algorithm and environment."""
    labels = []
    for config in configs:
        rivals = [c for c in configs if (c["algorithm"], c["env"]) == (config["algorithm"], config["env"])]
        apart = [
            name
            for name in config
            if name not in _NOT_SETTINGS and any(rival.get(name) != config[name] for rival in rivals)
        ]
        said = ", ".join(f"{name} {_short(config[name])}" for name in apart)
        labels.append(f"{short_name(config['algorithm'])} {said}".strip())
    return labels


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _refuse_without(metric: str, folder: Path, record: Record) -> None:
    columns = [name for name in record.history.columns if name != "update"]
    if metric not in columns:
        hint = validation.did_you_mean(metric, columns)
        raise ValueError(
            f"metric must be a column of {str(folder)!r}, {validation.one_of(columns)}, got {metric!r}{hint}"
        )
    if record.history[metric].isna().all():
        raise ValueError(f"metric is {metric!r}, which {str(folder)!r} never measured; another one is wanted")


def _group(metric: str, label: str, records: dict[Path, Record]) -> Group:
    seeds = [record.config["seed"] for record in records.values()]
    twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if twice is not None:
        both = [str(folder) for folder, record in records.items() if record.config["seed"] == twice]
        raise ValueError(
            f"folders has {both[0]!r} and {both[1]!r}, which are the same settings with the same seed "
            f"{twice}; "
            "different seeds are wanted"
        )
    histories = [record.history for record in records.values()]
    end = min(int(history["steps"].iloc[-1]) for history in histories)
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
    """The mean of the metric between neighbouring edges; where nothing was measured, a straight line "
    "between."""
    bins = np.clip(np.searchsorted(edges, history["steps"], side="left") - 1, 0, None)
    inside = ((history["steps"] <= edges[-1]) & history[metric].notna()).to_numpy()
    means = history[metric][inside].groupby(bins[inside]).mean()
    return np.interp(np.arange(len(edges) - 1), means.index.to_numpy(float), means.to_numpy())


def _mean_between(history: pd.DataFrame, metric: str, start: float, end: float) -> float:
    """The mean over the updates in a stretch of steps; if none of them measured it, the last one that did."""
    measured = history[history[metric].notna() & (history["steps"] <= end)]
    inside = measured[measured["steps"] > start]
    return float((inside if len(inside) else measured.tail(1))[metric].mean())


def _band(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if len(curves) < 2:
        nothing = np.full(curves.shape[1], np.nan)
        return nothing, nothing
    found = aggregate(curves, interval="bootstrap", resamples=2000)
    return found.low, found.high


def _row(metric: str, group: Group) -> dict[str, Any]:
    alone = len(group.results) < 2
    low, high = (np.nan, np.nan) if alone else aggregate(group.results, interval="bootstrap")[1:]
    return {
        "group": group.label,
        "env": group.env,
        "runs": len(group.results),
        "steps": group.end,
        metric: group.results.mean(),
        "low": low,
        "high": high,
    }


def _colours(groups: Sequence[Group]) -> dict[str, str]:
    """For each label a colour: that of its algorithm, and for a second group of the same one, one that is "
    "free."""
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
