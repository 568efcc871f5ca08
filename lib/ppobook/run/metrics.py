"""Metrics of an update: their means, and the refusal of numbers that are not finite."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from ppobook import validation

# Metrics that are finite, or training is at its end: with an infinite norm, gradient clipping would leave no
# step.
FINITE = ("loss", "policy_loss", "value_loss", "grad_norm")
TOO_LARGE = "rewards or coefficients may be too large"


def detached(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics without their gradients: torch warns where a tensor that has one becomes a number."""
    return {name: x.detach() if isinstance(x, Tensor) else x for name, x in metrics.items()}


def finite(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of an update, detached.

    Raises
    ------
    FloatingPointError
        A loss or the norm of a gradient is not finite.
    """
    metrics = detached(metrics)
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


def refuse_reserved(by: str, names: Iterable[Any], reserved: Iterable[str]) -> None:
    """Raise ValueError for the name of a column that the loop fills."""
    for name in names:
        if any(fnmatch.fnmatchcase(str(name), pattern) for pattern in reserved):
            raise ValueError(f"{by} must not return a column that the loop fills, got {name!r}")


def _refuse_unnamed(by: str, name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{by} must return numbers by names, which are strings, got {name!r}")


def validate_loss(by: str, returned: Any, reserved: Iterable[str] = ()) -> None:
    """Raise unless `loss` returned a finite scalar with a gradient, and a dict of numbers."""
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict)):
        raise TypeError(f"{by} must return a pair (loss, dict), got {validation.kind_of(returned)}")
    loss, metrics = returned
    validation.scalar_loss(f"the loss returned by {by}", loss)
    if not math.isfinite(loss.item()):
        raise FloatingPointError(f"the loss returned by {by} must be finite, got {loss.item()}: {TOO_LARGE}")
    refuse_reserved(by, metrics, reserved)
    for name, x in detached(metrics).items():
        _refuse_unnamed(by, name)
        try:
            float(x)
        except (TypeError, ValueError, RuntimeError):
            got = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else repr(x)
            raise TypeError(f"{name!r} returned by {by} must be a number, got {got}") from None


def validate_advantages(
    by: str,
    returned: Any,
    names: Sequence[str],
    shape: tuple[int, ...],
    axes: str,
    where: Tensor | None = None,
) -> None:
    """Raise unless a method returned tensors of this shape, a tuple if there are several, finite `where`."""
    if len(names) == 1:
        returned = (returned,)
    elif not isinstance(returned, tuple) or len(returned) != len(names):
        got = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise TypeError(f"{by} must return a tuple ({', '.join(names)}), got {got}")
    for name, x in zip(names, returned, strict=True):
        name = f"{name} returned by {by}"
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} must be a torch tensor, got {type(x).__name__}")
        validation.shape(name, x, shape, axes)
        validation.finite(name, x, where=where)


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
