"""Value functions: a network, and a table for discrete states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ppobook.policies.networks import given_network, network_outputs, table_rows
from ppobook.policies.normalization import RunningNorm


class ValueFunction(nn.Module):
    """A network that estimates V(s): observations [..., obs_dim] to values [...].

    Parameters
    ----------
    obs_dim, hidden, activation, normalizer, network, seed
        As for `CategoricalPolicy`; a `network` returns [..., 1].
    """

    def __init__(
        self,
        obs_dim: int,
        hidden: Sequence[int] = (64, 64),
        *,
        activation: str = "tanh",
        normalizer: RunningNorm | None = None,
        network: nn.Module | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.obs_dim = obs_dim
        self.normalizer = normalizer
        self.network = given_network(network, obs_dim, hidden, 1, activation, 1.0, seed)

    def forward(self, observations: Any) -> Tensor:
        """V of each observation, shape [...]."""
        return network_outputs(self, observations, 1).squeeze(-1)


class TabularValue(nn.Module):
    """A table of values, initially 0: states [...] to values [...]."""

    def __init__(self, n_states: int) -> None:
        super().__init__()
        self.n_states = n_states
        self.table = nn.Parameter(torch.zeros(n_states))

    def forward(self, observations: Any) -> Tensor:
        """V of each state, shape [...]."""
        return table_rows(self.table.unsqueeze(-1), observations).squeeze(-1)
