"""TODO."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from ppobook.language.tokens import Completions, Pairs
from ppobook.run.machine import stream

Stored = TypeVar("Stored", Completions, Pairs)


def take_rows(stored: Stored, rows: Tensor, device: str = "cpu") -> Stored:
    """Some rows of what is stored, on a device, and without columns that are padding in all of them."""
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
    """Some rows, as `take_rows` takes them; of all of them nothing is copied."""
    return completions if len(rows) == len(completions) else take_rows(completions, rows, device)


def _side_by_side(parts: list[Tensor]) -> Tensor:
    """One tensor of all rows; those of narrower parts end in zeros."""
    if parts[0].ndim == 1:
        return torch.cat(parts)
    width = max(x.shape[1] for x in parts)
    return torch.cat([F.pad(x, (0, width - x.shape[1])) for x in parts])


def train_eval_split(stored: Stored, wanted: int, seed: int) -> tuple[Stored, Stored | None]:
    """What is to be learned from, and what is held out: `wanted` rows, but at most a tenth of all.

    None is held out of fewer than ten rows. Which ones is a matter of the seed.
    """
    n, number = len(stored), min(wanted, len(stored) // 10)
    if number == 0:
        return stored, None
    generator = torch.Generator().manual_seed(stream(seed, "held out"))
    rows = torch.randperm(n, generator=generator)
    return stored.select(rows[number:]), stored.select(rows[:number])
