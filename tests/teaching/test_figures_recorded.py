"""Interactive figures whose numbers are those of a record or of a given update, without a browser."""

from __future__ import annotations

import json

import numpy as np
import pytest
from token_texts import a_token_text, token_figure

from ppobook.evaluation import aggregate
from ppobook.experiments import results, results_folder
from ppobook.teaching import figures

# E2


def numbers(text):
    return [float(x) for x in text.split()]


def test_state_of_e2_is_what_was_given():
    figure = token_figure()
    given = a_token_text(0)
    state = figure.state
    first = state["texts"][0]
    assert first["words"] == given["words"]
    np.testing.assert_allclose(numbers(first["old"]), given["old_logp"], atol=5e-5)
    np.testing.assert_allclose(numbers(first["advantages"]), given["advantages"], atol=5e-5)
    for path, rows in zip(given["new_logp"], first["new"], strict=True):
        np.testing.assert_allclose([numbers(row) for row in rows], path, atol=5e-5)
    ratios = np.exp(given["new_logp"][0, -1] - given["old_logp"])
    np.testing.assert_allclose(state["ratios"], 1, atol=5e-4)
    assert state["token"] == np.argmax(np.abs(np.log(ratios))), (
        "it begins with the one that will move furthest"
    )
    assert (state["path"], state["steps"][state["step"]], state["clip_eps"]) == (0, 0, 0.2)


# E9


@pytest.fixture(scope="module")
def state():
    return figures.beta_explorer().state


@pytest.mark.parametrize(("pooling", "beta", "update"), [("last", 0.3, 0), ("sum", 0.03, 60)])
def test_state_of_e9_has_the_record(state, pooling, beta, update):
    runs = results("language_overoptimisation")
    runs = runs[(runs["pooling"] == pooling) & (runs["kl_coef"] == beta) & (runs["update"] == update)]
    runs = runs.sort_values("seed")
    assert len(runs) == 10
    of = state["poolings"][["last", "sum"].index(pooling)]
    look = of["runs"][state["betas"].index(f"{beta:g}")][state["updates"].index(update)]
    for column, part in zip(state["columns"], look.split("/"), strict=True):
        np.testing.assert_allclose(numbers(part), runs[column], atol=0.051, err_msg=column)


def test_the_texts_are_those_of_the_record(state):
    path = results_folder() / "language_overoptimisation" / "texts.json"
    kept = json.loads(path.read_text(encoding="utf-8"))
    for i, pooling in enumerate(("last", "sum")):
        for texts, beta in zip(state["poolings"][i]["texts"], [*state["betas"], None], strict=True):
            of = pooling, None if beta is None else float(beta)
            mine = [entry for entry in kept if (entry["pooling"], entry["kl_coef"]) == of]
            for text, entry in zip(texts, mine, strict=True):
                assert text["text"].endswith("… (no end)") is not entry["text"].endswith("<eos>")
                assert entry["text"].startswith(text["text"].removesuffix(" … (no end)"))
                seen = (text["prompt"], text["gold"], text["proxy"])
                assert seen == (entry["prompt"], entry["gold"], entry["proxy"])


# The maps of the chapter on practice

GAUGES = ("kl", "clip", "ev", "entropy")


@pytest.fixture(scope="module")
def maps():
    return figures.measured_maps().state


def entries(part):
    return [np.nan if entry == "-" else float(entry) for entry in part.split()]


def shown(maps, which, value, lr):
    """A cell of the state: its interval, its gauges' worst values, its runs."""
    one = maps["maps"][which]
    at = one["values"].index(value) * len(maps["rates"]) + maps["rates"].index(lr)
    interval, worst, *runs = map(entries, one["cells"][at].split("/"))
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
def test_a_cell_has_the_runs_of_the_record(maps, which, value, lr, record, cell):
    runs = results(f"practice_{record}")
    for column, wanted in {**cell, "lr": float(lr)}.items():
        runs = runs[runs[column] == wanted]
    runs = runs.sort_values(["final", "train_mean"], ascending=False)
    interval, worst, found = shown(maps, which, value, lr)
    assert interval == pytest.approx(np.clip(aggregate(runs["final"].to_numpy()), 0, 500), abs=0.006)
    extremes = runs[["kl_max", "clip_max", "ev_min", "entropy_min"]].median()
    assert worst == pytest.approx(extremes.tolist(), rel=0.006)
    columns = ["final", "fell_at", *(f"{gauge}_at" for gauge in GAUGES)]
    np.testing.assert_allclose(found, runs[columns])


# The lag of the chapter on online loops


@pytest.fixture(scope="module")
def lags():
    return figures.lag_explorer().state


@pytest.mark.parametrize(
    ("lag", "loss", "update"),
    [(0, "both", 40), (4, "both", 16), (8, "not corrected", 32)],
)
def test_the_figure_of_a_lagging_sampler(lags, lag, loss, update):
    runs = results("language_lag")
    runs = runs[(runs["lag"] == lag) & (runs["update"] == update)].sort_values("seed")
    runs = runs[runs["loss"] == loss] if lag else runs
    assert len(runs) == 10
    of = lags["runs"][lags["lags"].index(lag)][lags["losses"].index(loss)]
    look = of[lags["updates"].index(update)]
    for column, part in zip(lags["columns"], look.split("/"), strict=True):
        kept = [float(x) for x in part.split()]
        np.testing.assert_allclose(kept, runs[column].fillna(0.0), atol=0.0051, err_msg=column)
