"""The figure of a lagging sampler: its state is the record's."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ppobook import results
from ppobook.teaching import figures
from ppobook.teaching.figures import _lag


@pytest.fixture(scope="module")
def state():
    return figures.lag_explorer().state


@pytest.mark.parametrize(
    ("lag", "loss", "update"),
    [
        (0, "both", 40),
        (0, "not corrected", 0),
        (4, "both", 16),
        (16, "corrected", 40),
        (8, "not corrected", 32),
    ],
)
def test_state_has_the_record(state, lag, loss, update):
    runs = results("language_lag")
    runs = runs[(runs["lag"] == lag) & (runs["update"] == update)].sort_values("seed")
    runs = runs[runs["loss"] == loss] if lag else runs
    assert len(runs) == 10
    of = state["runs"][state["lags"].index(lag)][state["losses"].index(loss)]
    look = of[state["updates"].index(update)]
    for column, part in zip(state["columns"], look.split("/"), strict=True):
        kept = [float(x) for x in part.split()]
        np.testing.assert_allclose(kept, runs[column].fillna(0.0), atol=0.0051, err_msg=column)


def test_state_is_full_and_small(state):
    shape = [[len(looks) for looks in of] for of in state["runs"]]
    assert shape == [[len(state["updates"])] * len(state["losses"])] * len(state["lags"])
    assert state["lags"][state["lag"]] == 4
    assert len(json.dumps(state)) < 60_000


@pytest.mark.parametrize("lag", [0, 8])
def test_alt_has_the_numbers(lag):
    runs = results("language_lag").query("lag == @lag and update == 40")
    alt = figures.lag_explorer(lag).alt
    for gold in runs.groupby("loss")["gold"].mean():
        assert f"{gold:.2f} gold" in alt


@pytest.mark.parametrize(("lag", "losses"), [(0, 1), (4, 3)])
def test_the_still_is_what_the_caption_says(lag, losses):
    """Ten seeds, thin, and their mean, with each loss; the KL's axis is that of the square root."""
    runs = results("language_lag")
    picture = _lag._still(runs, lag)
    for ax, column in zip(picture.axes, ("gold", "kl"), strict=True):
        widths = [line.get_linewidth() for line in ax.get_lines()]
        assert (sum(w < 1 for w in widths), sum(w > 2 for w in widths)) == (10 * losses, losses)
        mean = next(line for line in ax.get_lines() if line.get_linewidth() > 2)
        expected = runs[(runs["lag"] == lag) & (runs["loss"] == "both")] if lag else runs[runs["lag"] == 0]
        np.testing.assert_allclose(mean.get_ydata(), expected.groupby("update")[column].mean())
    ax = picture.axes[1]
    low, middle, high = (ax.transData.transform((0, kl))[1] for kl in (0, 1, 4))
    assert high - low == pytest.approx(2 * (middle - low))
    # Names beside the curves would lie on one another.
    names = [text.get_text() for legend in picture.legends for text in legend.get_texts()]
    assert names == (["both", "corrected", "not corrected"] if lag else [])
    assert not any(ax.texts for ax in picture.axes)


@pytest.mark.parametrize(
    ("lag", "sentence"), [(3, "lag must be one of 0, 1, 2, 4, 8, 16, got 3"), (-1, "lag must be an integer")]
)
def test_lag_explorer_refuses(lag, sentence):
    with pytest.raises(ValueError, match=sentence):
        figures.lag_explorer(lag)
