"""Value functions: a network, and a table for discrete states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ppobook.policies.networks import network_outputs, set_network, table_rows


class ValueFunction(nn.Module):
    """A network that estimates V(s): observations [..., obs_dim] to values [...].

    Its parameters are those of `CategoricalPolicy`, without `n_actions`; a `network` returns [..., 1].
    """

    def __init__(
        self,
        obs_dim: int,
        hidden: Sequence[int] = (64, 64),
        **networks: Any,
    ) -> None:
        super().__init__()
        self.obs_dim = obs_dim
        set_network(self, (obs_dim, hidden, 1), 1.0, **networks)

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
