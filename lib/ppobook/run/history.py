"""TODO."""

from __future__ import annotations

import array
import csv
import fnmatch
import io
import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor


class History:
    """The table of a run, by columns: a checkpoint late in a run costs hardly more than an early one.

    Parameters
    ----------
    columns : mapping of str to tensors
        As `tensors` returned them. Whole numbers stay such. One of the columns is `update`.

    Raises
    ------
    ValueError
        The columns differ in length.
    """

    def __init__(self, columns: Mapping[str, Tensor]) -> None:
        self.columns = {
            name: array.array("d" if column.is_floating_point() else "q", column.tolist())
            for name, column in columns.items()
        }
        if len({len(column) for column in self.columns.values()}) != 1:
            raise ValueError("history: its columns differ in length")
        self.lines: list[str] = []

    @classmethod
    def empty(cls, columns: Iterable[str], counts: Iterable[str] = ("update",)) -> Self:
        """A table without rows; the columns among `counts` are for whole numbers."""
        kinds = {name: torch.int64 if name in counts else torch.float64 for name in columns}
        return cls({name: torch.empty(0, dtype=kind) for name, kind in kinds.items()})

    def __len__(self) -> int:
        return len(self.columns["update"])

    def append(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Add a row, and return it in plain numbers.

        A column that it lacks, or brings for the first time, has NaN elsewhere.
        """
        for name in [name for name in row if name not in self.columns]:
            self.columns[name] = array.array("d", [math.nan] * len(self))
            self.lines.clear()
        plain = {
            name: int(number) if self.columns[name].typecode == "q" else float(number)
            for name, number in row.items()
        }
        for name, column in self.columns.items():
            column.append(plain.get(name, math.nan))
        return plain

    def last(self, name: str) -> float:
        """The newest entry of a column."""
        return self.columns[name][-1]

    def tensors(self) -> dict[str, Tensor]:
        """The columns, for a checkpoint."""
        return {name: torch.from_numpy(np.array(column)) for name, column in self.columns.items()}

    def table(self) -> pd.DataFrame:
        """The table, for people."""
        return pd.DataFrame({name: column.numpy() for name, column in self.tensors().items()})

    def text(self) -> str:
        """The table as CSV. What was written before is kept: to format numbers takes longer than all else."""
        buffer = io.StringIO()
        table = csv.writer(buffer, lineterminator="\n")
        if not self.lines:
            table.writerow(self.columns)
        done = max(0, len(self.lines) - 1)
        table.writerows(zip(*(column[done:] for column in self.columns.values()), strict=True))
        self.lines += buffer.getvalue().splitlines(keepends=True)
        return "".join(self.lines)


def checked_metrics(by: str, measured: Any, taken: Iterable[str]) -> dict[str, Any]:
    """What an update says the history should hold of it, after its door.

    Parameters
    ----------
    by : str
        Who says it, for the sentence that refuses it: "MyPPO.update".
    measured : dict of numbers by column
    taken : patterns such as "seconds*"
        Columns that are filled elsewhere.

    Raises
    ------
    TypeError, ValueError
    """
    if not isinstance(measured, dict):
        raise TypeError(f"{by} returned {type(measured).__name__}; a dict of numbers is wanted, maybe empty")
    for name, number in measured.items():
        if any(fnmatch.fnmatchcase(str(name), pattern) for pattern in taken):
            raise ValueError(f"{by} tells {name!r}, a column that the loop fills; another name is wanted")
        try:
            float(number)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"{by} tells {name!r} of type {type(number).__name__}; one number is wanted"
            ) from None
    return measured
