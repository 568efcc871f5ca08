"""The history of a run: one row an update."""

from __future__ import annotations

import array
import csv
import io
import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor


class History:
    """The table of a run, stored by columns, so that a late checkpoint costs hardly more than an early one.

    Columns are as `tensors` returns them; one of them is `update`. Integers stay integers.
    """

    def __init__(self, columns: Mapping[str, Tensor]) -> None:
        self.columns = {
            name: array.array("d" if column.is_floating_point() else "q", column.tolist())
            for name, column in columns.items()
        }
        self.lines: list[str] = []

    @classmethod
    def empty(cls, columns: Iterable[str], counts: Iterable[str] = ("update",)) -> Self:
        """A table without rows; the columns in `counts` hold integers."""
        kinds = {name: torch.int64 if name in counts else torch.float64 for name in columns}
        return cls({name: torch.empty(0, dtype=kind) for name, kind in kinds.items()})

    def __len__(self) -> int:
        return len(self.columns["update"])

    def append(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Add a row, and return it as Python numbers.

        Missing entries, and the earlier rows of a new column, are NaN.
        """
        counts = {name for name, column in self.columns.items() if column.typecode == "q"}
        plain = {name: int(x) if name in counts else float(x) for name, x in row.items()}
        for name in [name for name in plain if name not in self.columns]:
            self.columns[name] = array.array("d", [math.nan] * len(self))
            self.lines.clear()
        for name, column in self.columns.items():
            column.append(plain.get(name, math.nan))
        return plain

    def last(self, name: str) -> float:
        """The last entry of a column."""
        return self.columns[name][-1]

    def tensors(self) -> dict[str, Tensor]:
        """The columns as tensors, for a checkpoint."""
        return {name: torch.from_numpy(np.array(column)) for name, column in self.columns.items()}

    def table(self) -> pd.DataFrame:
        """The table as a DataFrame."""
        return pd.DataFrame({name: column.numpy() for name, column in self.tensors().items()})

    def text(self) -> str:
        """The table as CSV. Lines are kept: formatting numbers takes most of the time."""
        buffer = io.StringIO()
        table = csv.writer(buffer, lineterminator="\n")
        if not self.lines:
            table.writerow(self.columns)
        done = max(0, len(self.lines) - 1)
        table.writerows(zip(*(column[done:] for column in self.columns.values()), strict=True))
        self.lines += buffer.getvalue().splitlines(keepends=True)
        return "".join(self.lines)
