"""Masked averages of the entries of a loss: `mask`, `reduction` and `denominator`."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from ppobook import validation

Reduction = Literal["token", "sequence", "constant"]
REDUCTIONS = get_args(Reduction)

# Measured when the rollout was made: data, into which no gradient goes.
_DATA = {"old_logp", "advantages", "returns", "old_values"}


def masked(mask: Tensor | None, **tensors: Tensor) -> tuple[Tensor | None, list[Tensor]]:
    """The mask as booleans, and the tensors in at least float32: 0 where masked out, data detached.

    All must have the shape of the first.
    """
    first_name, first = next(iter(tensors.items()))
    entries = []
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} must be a torch tensor, got {type(x).__name__}")
        validation.shape(name, x, first.shape, "the shape of " + first_name)
        x = x.detach() if name in _DATA else x
        entries.append(x.float() if x.dtype.itemsize < 4 else x)
    if mask is None:
        return None, entries
    validation.shape("mask", mask, first.shape, "the shape of " + first_name)
    keep = mask != 0
    # Zeroed before any arithmetic: a NaN in the padding would otherwise reach the gradient as 0 · NaN.
    return keep, [torch.where(keep, x, 0.0) for x in entries]


def reduce(losses: Tensor, keep: Tensor | None, reduction: Reduction, denominator: float | None) -> Tensor:
    """The mean of the losses, one an entry; those that are masked out must be 0 already."""
    if reduction == "constant" and denominator is not None:
        return losses.sum() / denominator
    if reduction == "constant" or denominator is not None:
        raise ValueError(
            "denominator must be given with reduction='constant' and with no other, "
            f"got {denominator!r} with {reduction!r}"
        )
    if reduction not in REDUCTIONS:
        validation.choice("reduction", reduction, REDUCTIONS)
    if keep is None:  # all sequences are equally long, and the two means are one
        return losses.mean()
    if reduction == "token":
        return losses.sum() / keep.sum()
    return (losses.sum(dim=-1) / keep.sum(dim=-1)).mean()
