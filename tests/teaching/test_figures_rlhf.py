"""The interactive figures of the chapter on RLHF, without a browser: what the library computes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from token_texts import a_token_text, token_figure

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
    np.testing.assert_allclose(state["ratios"], ratios, atol=5e-4)
    assert state["token"] == np.argmax(np.abs(np.log(ratios))), "it begins with the one that moved furthest"
    assert (state["path"], state["steps"][state["step"]], state["clip_eps"]) == (0, 8, 0.2)


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
