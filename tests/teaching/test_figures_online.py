"""The figure of a lagging sampler: its state is the record's."""

from __future__ import annotations

import numpy as np
import pytest

from ppobook import results
from ppobook.teaching import figures


@pytest.fixture(scope="module")
def state():
    return figures.lag_explorer().state


@pytest.mark.parametrize(
    ("lag", "loss", "update"),
    [(0, "both", 40), (4, "both", 16), (8, "not corrected", 32)],
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
