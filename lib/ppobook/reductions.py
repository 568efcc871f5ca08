"""Which entries of a loss count, and how they are averaged: `mask`, `reduction` and `denominator`."""

from __future__ import annotations

import functools
from typing import Literal, get_args

import torch
from torch import Tensor

from ppobook import validation

Reduction = Literal["token", "sequence", "constant"]
REDUCTIONS = get_args(Reduction)

# What was measured when the rollout was made: data, into which no gradient goes.
_DATA = {"old_logp", "advantages", "returns", "old_values"}


def checked(mask: Tensor | None, **tensors: Tensor) -> tuple[Tensor | None, list[Tensor]]:
    """As `aligned`; the tensors must also be finite where they count."""
    keep, entries = aligned(mask, tensors)
    for name, x in zip(tensors, entries, strict=True):
        validation.finite(name, x)
    return keep, entries


def aligned(mask: Tensor | None, tensors: dict[str, Tensor]) -> tuple[Tensor | None, list[Tensor]]:
    """The mask as booleans, and the tensors, 0 where masked out, `promoted`.

    All must have the shape of the first. Those that are data, not outputs of a network, are detached.
    """
    for name, x in tensors.items():
        validation.tensor(name, x)
    validation.one_library(**tensors, mask=mask)
    first_name, first = next(iter(tensors.items()))
    validation.not_empty(first_name, first)
    for name, x in tensors.items():
        validation.shape(name, x, first.shape, f"the shape of {first_name}")
    entries = [x.detach() if name in _DATA else x for name, x in tensors.items()]
    keep = None
    if mask is not None:
        keep = validation.flags("mask", mask, first.shape, f"the shape of {first_name}")
        keep = torch.as_tensor(keep, device=first.device)
        if not keep.any():
            raise ValueError("mask must have at least one entry that is not 0, got 0 everywhere")
        # Zeroed before any arithmetic: a NaN in the padding would otherwise reach the gradient as 0 · NaN.
        entries = [torch.where(keep, x, 0.0) for x in entries]
    return keep, promoted(*entries)


def promoted(*tensors: Tensor) -> list[Tensor]:
    """The tensors in one dtype, the one that torch promotes all of theirs to."""
    dtype = functools.reduce(torch.promote_types, (x.dtype for x in tensors))
    return [x if x.dtype == dtype else x.to(dtype) for x in tensors]


def reduce(losses: Tensor, keep: Tensor | None, reduction: Reduction, denominator: float | None) -> Tensor:
    """The mean of the losses, one an entry; those that are masked out must be 0 already."""
    validation.choice("reduction", reduction, REDUCTIONS)
    if reduction == "constant":
        if denominator is None:
            raise ValueError("denominator must be given with reduction='constant', got None")
        return (_sum(losses) / validation.number("denominator", denominator, above=0)).to(losses.dtype)
    if denominator is not None:
        raise ValueError(f"denominator must be None with reduction={reduction!r}, got {denominator!r}")
    if keep is None:
        # Without a mask all sequences are equally long, and the two means are one.
        return losses.mean()
    if reduction == "token":
        return (_sum(losses) / keep.sum()).to(losses.dtype)
    validation.last_axis("mask", keep, "the tokens of a sequence")
    tokens = keep.sum(dim=-1)
    if (tokens == 0).any():
        raise ValueError(
            f"mask must have a token in each row with reduction='sequence', "
            f"got none in row {validation.place(tokens == 0)}"
        )
    return (_sum(losses, dim=-1) / tokens).mean().to(losses.dtype)


def _sum(x: Tensor, dim: int | None = None) -> Tensor:
    """The sum, in at least float32: in float16, that of some thousand entries would be infinite."""
    return x.sum(dim=dim, dtype=torch.float32 if x.dtype.itemsize < 4 else x.dtype)
