"""Checks of the metrics that an `update` or a `step` returns."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable
from typing import Any

# Metrics that are finite, or training is at its end: with an infinite norm, gradient clipping would leave no
# step.
FINITE = ("loss", "policy_loss", "value_loss", "grad_norm")


def refuse_unless_finite(by: str, metrics: dict[str, Any]) -> None:
    """Raise FloatingPointError for a loss or a norm of a gradient that is not finite."""
    for name in FINITE:
        if name in metrics and not math.isfinite(metrics[name]):
            raise FloatingPointError(
                f"{name} returned by {by} must be finite, got {float(metrics[name])}: rewards or "
                "coefficients may be too large"
            )


def refuse_reserved(by: str, names: Iterable[Any], reserved: Iterable[str]) -> None:
    """Raise ValueError for the name of a column that the loop fills."""
    for name in names:
        if any(fnmatch.fnmatchcase(str(name), pattern) for pattern in reserved):
            raise ValueError(f"{by} must not return a column that the loop fills, got {name!r}")


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
    refuse_reserved(by, metrics, reserved)
    for name, number in metrics.items():
        try:
            float(number)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"{by} must return one number for {name!r}, got {type(number).__name__}"
            ) from None
