"""The batch of an update, and its minibatches in random order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ppobook.rollouts import Rollout


@dataclass
class Batch:
    """B steps with their advantages and returns; each tensor is [B, …] and has no gradient."""

    observations: Tensor
    actions: Tensor
    old_logp: Tensor
    advantages: Tensor
    returns: Tensor
    old_values: Tensor

    @classmethod
    def of(cls, rollout: Rollout, advantages: Tensor, returns: Tensor, values: Tensor) -> Batch:
        """Flatten a rollout, with advantages, returns and values of shape [N, T]."""
        given = (rollout.observations, rollout.actions, rollout.logp, advantages, returns, values)
        # Rollouts are stored time first, so that this copies nothing.
        return cls(*(x.detach().transpose(0, 1).flatten(0, 1) for x in given))

    def __len__(self) -> int:
        return len(self.advantages)

    def __getitem__(self, rows: Any) -> Batch:
        return Batch(*(x[rows] for x in vars(self).values()))

    def minibatches(self, count: int, shuffle: Shuffle) -> Iterator[Batch]:
        """Yield every step once, in `count` parts of a random order that differ in size by at most one."""
        if count == 1:  # the order makes no difference
            yield self[:]
            return
        if 2 * count > len(self):  # the normalized advantage of one step is 0
            raise ValueError(f"num_minibatches must be at most {len(self) // 2}, half the steps, got {count}")
        # Permuted once for all of them: a slice of a tensor is a view.
        permuted = self[shuffle.order(len(self)).to(self.advantages.device)]
        size, larger = divmod(len(self), count)
        start = 0
        for i in range(count):
            stop = start + size + (i < larger)
            yield permuted[start:stop]
            start = stop


class Shuffle:
    """Random permutations from a generator that a checkpoint can hold."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def order(self, n: int) -> Tensor:
        """Return a random permutation of 0 … n − 1."""
        return torch.randperm(n, generator=self.generator)

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
