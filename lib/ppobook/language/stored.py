"""Rows of stored completions and pairs."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from ppobook.language.tokens import Completions, Pairs
from ppobook.run.machine import stream

Stored = TypeVar("Stored", Completions, Pairs)


def take_rows(stored: Stored, rows: Tensor, device: str = "cpu") -> Stored:
    """Some rows, on a device, without the columns that are padding in all of them."""
    if isinstance(stored, Pairs):
        return Pairs(take_rows(stored.chosen, rows, device), take_rows(stored.rejected, rows, device))
    some = stored.select(rows)
    first = some.prompt_mask.shape[1] - int(some.prompt_mask.sum(dim=1).max())
    length = int(some.lengths.max())
    return Completions(
        some.prompts[:, first:].to(device),
        some.prompt_mask[:, first:].to(device),
        some.tokens[:, :length].to(device),
        some.mask[:, :length].to(device),
        some.logp[:, :length].to(device),
        some.ended.to(device),
    )


def part_of(completions: Completions, rows: Tensor, device: str = "cpu") -> Completions:
    """`take_rows`, but all rows are returned as they are, without a copy."""
    return completions if len(rows) == len(completions) else take_rows(completions, rows, device)


def join_rows(parts: list[Tensor]) -> Tensor:
    """Parts joined along the rows; narrower ones are padded with zeros."""
    if parts[0].ndim == 1:
        return torch.cat(parts)
    width = max(x.shape[1] for x in parts)
    return torch.cat([F.pad(x, (0, width - x.shape[1])) for x in parts])


def train_eval_split(stored: Stored, wanted: int, seed: int) -> tuple[Stored, Stored | None]:
    """Split into rows for training and held-out rows: `wanted`, but at most a tenth of all.

    Of fewer than ten rows none is held out. Which ones are depends on the seed.
    """
    n, number = len(stored), min(wanted, len(stored) // 10)
    if number == 0:
        return stored, None
    generator = torch.Generator().manual_seed(stream(seed, "held out"))
    rows = torch.randperm(n, generator=generator)
    return stored.select(rows[number:]), stored.select(rows[:number])
