"""The interactive figure of the chapter on PPO in practice, without a browser."""

from __future__ import annotations

import numpy as np
import pytest

from ppobook.evaluation import aggregate
from ppobook.experiments import results
from ppobook.teaching import figures

GAUGES = ("kl", "clip", "ev", "entropy")


@pytest.fixture(scope="module")
def state():
    return figures.measured_maps().state


def numbers(part):
    return [np.nan if entry == "-" else float(entry) for entry in part.split()]


def shown(state, which, value, lr):
    """A cell of the state: its interval, its gauges' worst values, its runs."""
    one = state["maps"][which]
    at = one["values"].index(value) * len(state["rates"]) + state["rates"].index(lr)
    interval, worst, *runs = map(numbers, one["cells"][at].split("/"))
    return interval, worst, np.array(runs)


@pytest.mark.parametrize(
    ("which", "value", "lr", "record", "cell"),
    [
        (0, "0.4", "0.01", "clip_lr", {"clip_eps": 0.4}),
        (1, "10", "0.03", "clip_lr", {"clip_eps": 0.2}),
        (2, "0.98", "0.0001", "lam", {"lam": 0.98}),
        (3, "32", "0.01", "minibatch", {"num_minibatches": 32, "epochs": 10}),
        (4, "1024", "0.03", "minibatch", {"num_minibatches": 1, "epochs": 40}),
    ],
)
def test_a_cell_has_the_runs_of_the_record(state, which, value, lr, record, cell):
    runs = results(f"practice_{record}")
    for column, wanted in {**cell, "lr": float(lr)}.items():
        runs = runs[runs[column] == wanted]
    runs = runs.sort_values(["final", "train_mean"], ascending=False)
    interval, worst, found = shown(state, which, value, lr)
    assert interval == pytest.approx(np.clip(aggregate(runs["final"].to_numpy()), 0, 500), abs=0.006)
    extremes = runs[["kl_max", "clip_max", "ev_min", "entropy_min"]].median()
    assert worst == pytest.approx(extremes.tolist(), rel=0.006)
    columns = ["final", "fell_at", *(f"{gauge}_at" for gauge in GAUGES)]
    np.testing.assert_allclose(found, runs[columns])
