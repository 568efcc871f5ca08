"""Checks of the metrics that a user's `update` or `step` returns."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Any


def check_metrics(by: str, metrics: Any, reserved: Iterable[str]) -> None:
    """Check what an update returned. The loop does so in the first update only.

    Parameters
    ----------
    by : str
        What returned them, for messages: "MyPPO.update".
    metrics : dict of numbers by column
    reserved : patterns such as "seconds*"
        Columns that the loop fills.

    Raises
    ------
    TypeError, ValueError
    """
    if not isinstance(metrics, dict):
        raise TypeError(f"{by} must return a dict of numbers, got {type(metrics).__name__}")
    for name, number in metrics.items():
        if any(fnmatch.fnmatchcase(str(name), pattern) for pattern in reserved):
            raise ValueError(f"{by} must not return a column that the loop fills, got {name!r}")
        try:
            float(number)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"{by} must return one number for {name!r}, got {type(number).__name__}"
            ) from None
