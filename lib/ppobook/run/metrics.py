"""Metrics of an update: their means, and the refusal of numbers that are not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

# Metrics that are finite, or training is at its end: with an infinite norm, gradient clipping would leave no
# step.
FINITE = ("loss", "policy_loss", "value_loss", "grad_norm")
TOO_LARGE = "rewards or coefficients may be too large"


def finite(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of an update, detached; FloatingPointError if a loss or a gradient's norm is not finite."""
    # torch warns where a tensor that has a gradient becomes a number.
    metrics = {name: x.detach() if isinstance(x, Tensor) else x for name, x in metrics.items()}
    for name in FINITE:
        if name in metrics and not math.isfinite(metrics[name]):
            raise FloatingPointError(f"{name} must be finite, got {float(metrics[name])}: {TOO_LARGE}")
    return metrics


def weights_are_finite(modules: Iterable[nn.Module]) -> bool:
    """Return True if all weights are finite."""
    weights = [p.detach() for module in modules for p in module.parameters()]
    # A finite norm has finite terms, and is computed in one go. An infinite one may have overflowed.
    norm = torch.nn.utils.get_total_norm(weights)
    return math.isfinite(float(norm)) or all(bool(p.isfinite().all()) for p in weights)


def means(steps: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Average each metric over the gradient steps that have it: numbers, or scalar tensors."""
    columns: dict[str, list[Any]] = {}
    for step in steps:
        for name, x in step.items():
            columns.setdefault(name, []).append(x)
    return {
        name: torch.stack(x).detach().double().mean().item() if isinstance(x[0], Tensor) else fmean(x)
        for name, x in columns.items()
    }
