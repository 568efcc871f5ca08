"""What an update is made of: parameters in one row, minibatches, schedules, scales that follow the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ppobook.rollouts import Rollout


@dataclass
class Batch:
    """The steps of a rollout in one row, [B, …], in any order, with what is to be learned from them."""

    observations: Tensor
    actions: Tensor
    old_logp: Tensor
    advantages: Tensor
    returns: Tensor
    old_values: Tensor

    @classmethod
    def of(cls, rollout: Rollout, advantages: Tensor, returns: Tensor, values: Tensor) -> Batch:
        """From a rollout and three tensors of shape [N, T]."""
        given = (rollout.observations, rollout.actions, rollout.logp, advantages, returns, values)
        # Rollouts are stored time first, so that this way round nothing is copied.
        return cls(*(x.transpose(0, 1).flatten(0, 1) for x in given))

    def __len__(self) -> int:
        return len(self.advantages)

    def __getitem__(self, rows: Any) -> Batch:
        return Batch(*(x[rows] for x in vars(self).values()))

    def minibatches(self, count: int, shuffle: Shuffle) -> Iterator[Batch]:
        """Every step once, in `count` parts of a random order, which differ in size by at most one."""
        if count == 1:  # in whatever order
            yield self[:]
            return
        # Gathered once for all of them: a part of a tensor in order is a view, and costs next to nothing.
        mixed = self[shuffle.order(len(self)).to(self.advantages.device)]
        size, larger = divmod(len(self), count)
        start = 0
        for i in range(count):
            stop = start + size + (i < larger)
            yield mixed[start:stop]
            start = stop


class Shuffle:
    """Random orders, from a generator that a checkpoint can hold."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def order(self, n: int) -> Tensor:
        """The numbers 0 … n − 1 in a random order."""
        return torch.randperm(n, generator=self.generator)

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
