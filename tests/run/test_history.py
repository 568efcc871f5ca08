"""The table of a run."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from ppobook.run.history import History


@pytest.mark.parametrize("columns", [("update", "loss", "seconds"), ("loss", "update")])
def test_a_history_is_the_table_that_pandas_would_make(columns):
    history, rows = History.empty(columns), []
    assert len(history) == 0
    for i in range(5):
        row = {"update": i + 1, "loss": np.float32(i / 3)}
        row |= {"late": torch.tensor(i * 0.1)} if i > 2 else {}
        returned = history.append(row)
        rows.append({"update": i + 1, "loss": float(np.float32(i / 3))})
        rows[-1] |= {"late": float(torch.tensor(i * 0.1))} if i > 2 else {}
        assert returned == rows[-1]
        assert {type(x) for x in returned.values()} == {int, float}
        history.text()  # in the middle too: its lines are kept
    expected = pd.DataFrame(rows, columns=[*columns, "late"])
    pd.testing.assert_frame_equal(history.table(), expected.astype({"update": "int64"}), check_dtype=False)
    assert history.table()["update"].dtype == np.int64
    again = History(history.tensors())
    assert again.text() == history.text()
    assert again.text().splitlines()[1].count("nan") == len(columns) - 1
    assert history.last("late") == rows[-1]["late"]
    again.append({"update": 6})
    assert math.isnan(again.last("loss"))
