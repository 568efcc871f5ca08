"""Policies: a network or a table, and the distribution over actions that is made of its outputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.policies.distributions import Categorical, Gaussian, MultiCategorical
from ppobook.policies.networks import network_outputs, set_network, table_rows
from ppobook.policies.normalization import RunningNorm


class Policy(nn.Module, ABC):
    """A policy over actions. All but the first two methods follow from these.

    Rollouts, trainers and evaluation take a policy of any class with `distribution`, `sample`, `logp`,
    `entropy`, `mode` and `in_bounds`.
    """

    # Declared, but not set: a class attribute would hide the module of this name.
    normalizer: RunningNorm | None

    @abstractmethod
    def outputs(self, observations: Any) -> Tensor:
        """The outputs of the network, [..., outputs]."""

    @abstractmethod
    def distribution_of(self, outputs: Tensor) -> Any:
        """The distribution with these outputs as parameters."""

    def distribution(self, observations: Any) -> Any:
        """The distribution over actions at each observation: a `Distribution`."""
        return self.distribution_of(self.outputs(observations))

    @torch.no_grad()
    def sample(self, observations: Any, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Random actions, and their log-probabilities (or -densities) [...]; both detached.

        Without a generator, torch's global one is used.

        Raises
        ------
        ValueError
            Outputs of the network from which no action can be drawn: NaN, ∞, or −∞ for all actions.
        """
        distribution = self.distribution(observations)
        actions = distribution.sample(generator)
        return actions, _finite(distribution.logp(actions))

    def logp(self, observations: Any, actions: Any) -> Tensor:
        """Log-probability (or -density) of each action, shape [...]."""
        distribution = self.distribution(observations)
        return distribution.logp(torch.as_tensor(actions, device=next(self.parameters()).device))

    def entropy(self, observations: Any) -> Tensor:
        """Entropy in nats, shape [...]."""
        return self.distribution(observations).entropy()

    @torch.no_grad()
    def mode(self, observations: Any) -> Tensor:
        """The most probable action.

        Raises
        ------
        ValueError
            As for `sample`.
        """
        distribution = self.distribution(observations)
        actions = distribution.mode()
        _finite(distribution.logp(actions))
        return actions

    def in_bounds(self, actions: Tensor) -> Tensor:
        """The actions themselves: discrete actions are never out of bounds."""
        return actions


def _finite(logp: Tensor) -> Tensor:
    """The log-probabilities of actions that were chosen; they are NaN where the network's outputs were."""
    if not math.isfinite(logp.sum()):
        raise validation.NotFiniteError("outputs of the policy must be finite, got NaN or infinity")
    return logp


class _Discrete(Policy):
    """A policy over discrete actions, by their logits."""

    n_actions: int

    @abstractmethod
    def logits(self, observations: Any) -> Tensor:
        """Unnormalised log-probabilities, shape [..., n_actions]."""

    def outputs(self, observations: Any) -> Tensor:
        return self.logits(observations)

    def distribution_of(self, outputs: Tensor) -> Any:
        return Categorical(outputs)

    def forward(self, observations: Any) -> Tensor:
        """The logits: what `torch.func.functional_call` evaluates."""
        return self.logits(observations)

    def probs(self, observations: Any) -> Any:
        """Probabilities of the actions, shape [..., n_actions]."""
        return self.logits(observations).softmax(dim=-1)


class CategoricalPolicy(_Discrete):
    """Discrete actions whose logits are the outputs of a network.

    Parameters
    ----------
    obs_dim, n_actions : int
    hidden : sequence of int
        Sizes of the hidden layers; ``()`` makes the logits linear in the observation.
    activation, seed : optional
        As for `MLP`. The last layer's gain is 0.01, so the initial policy is almost uniform.
    normalizer : RunningNorm, optional
        Applied to observations first.
    network : module, optional
        In place of the MLP: [..., obs_dim] to [..., n_actions], with any leading axes. `hidden`, `activation`
        and `seed` are ignored then. An output of −∞ masks an action at this observation.
    """

    def __init__(
        self,
        obs_dim: int,
        n_actions: int,
        hidden: Sequence[int] = (64, 64),
        **networks: Any,
    ) -> None:
        super().__init__()
        self.obs_dim = obs_dim
        self.n_actions = n_actions
        set_network(self, (obs_dim, hidden, n_actions), 0.01, **networks)

    def logits(self, observations: Any) -> Tensor:
        """Unnormalised log-probabilities, shape [..., n_actions]."""
        return network_outputs(self, observations, self.n_actions)


class TabularPolicy(_Discrete):
    """Discrete actions whose logits are the rows of a table, one row per state.

    Observations are states, integers in 0, …, n_states − 1. The initial table is 0: the uniform policy.
    """

    def __init__(self, n_states: int, n_actions: int) -> None:
        super().__init__()
        self.n_states = n_states
        self.n_actions = n_actions
        self.normalizer = None
        self.table = nn.Parameter(torch.zeros(n_states, n_actions))

    def logits(self, observations: Any) -> Tensor:
        """The rows of the table, shape [..., n_actions]."""
        return table_rows(self.table, observations)


class MultiCategoricalPolicy(_Discrete):
    """K discrete actions at once, the k-th of nvec[k], independent given the observation.

    Actions are int64 of shape [..., K].

    Parameters
    ----------
    obs_dim : int
    nvec : sequence of int
        The number of values of each of the K components.
    hidden, activation, normalizer, network, seed
        As for `CategoricalPolicy`; a `network` returns [..., Σ nvec].
    """

    def __init__(
        self,
        obs_dim: int,
        nvec: Sequence[int],
        hidden: Sequence[int] = (64, 64),
        **networks: Any,
    ) -> None:
        super().__init__()
        self.obs_dim = obs_dim
        self.nvec = tuple(nvec)
        set_network(self, (obs_dim, hidden, sum(self.nvec)), 0.01, **networks)

    def logits(self, observations: Any) -> Tensor:
        """Unnormalised log-probabilities of all components, concatenated: [..., Σ nvec]."""
        return network_outputs(self, observations, sum(self.nvec))

    def distribution_of(self, outputs: Tensor) -> MultiCategorical:
        return MultiCategorical(outputs, self.nvec)

    def probs(self, observations: Any) -> tuple[Tensor, ...]:
        """Probabilities of each of the K components, shapes [..., nvec[k]]."""
        return tuple(part.softmax(dim=-1) for part in self.logits(observations).split(self.nvec, dim=-1))


class GaussianPolicy(Policy):
    """Independent normal actions with means from a network.

    The standard deviation does not depend on the observation: `log_std` is one parameter per action.

    **Bounds.** Where `low` and `high` are both finite, outputs of the network are in units of the box: −1 is
    `low`, +1 is `high`, and a standard deviation of 1 is half the width. The distribution is an ordinary
    Gaussian, not truncated: `sample` may return actions outside the box, and `logp` and `entropy` are exact
    for them. The environment gets ``in_bounds(actions)``, the nearest point of the box. Store the sampled
    actions and step with those in bounds: for the policy, the clipping is a part of the environment.

    Parameters
    ----------
    obs_dim, act_dim : int
    hidden : sequence of int
    low, high : float or array of shape (act_dim,), optional
        Bounds of the action box; infinite ones are allowed. Left out: unbounded.
    initial_std : float of at least 1e-6
        In half widths of the box where there is one, else in units of the actions.
    activation, seed
        As for `MLP`. The last layer's gain is 0.01, so the initial means are near the middle of the box.
    normalizer, network
        As for `CategoricalPolicy`; a `network` returns the means, [..., act_dim], in units of the box.
    """

    log_std: nn.Parameter
    low: Tensor
    high: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        hidden: Sequence[int] = (64, 64),
        low: Any = None,
        high: Any = None,
        *,
        initial_std: float = 1.0,
        **networks: Any,
    ) -> None:
        super().__init__()
        self.obs_dim = obs_dim
        self.act_dim = act_dim
        initial_std = validation.number("initial_std", initial_std, low=1e-6)
        set_network(self, (obs_dim, hidden, act_dim), 0.01, **networks)
        self.log_std = nn.Parameter(torch.full((act_dim,), math.log(initial_std)))
        low = np.full(act_dim, -np.inf if low is None else low, np.float64)
        high = np.full(act_dim, np.inf if high is None else high, np.float64)
        boxed = high - low < np.finfo(np.float32).max  # bounds that large are none
        below, above = np.where(boxed, low, -1.0), np.where(boxed, high, 1.0)
        centre, scale = (above + below) / 2, (above - below) / 2
        for name, x in {"low": low, "high": high, "centre": centre, "scale": scale}.items():
            self.register_buffer(name, torch.as_tensor(x, dtype=self.log_std.dtype))

    def outputs(self, observations: Any) -> Tensor:
        """The means in units of the box, shape [..., act_dim]."""
        return network_outputs(self, observations, self.act_dim)

    def distribution_of(self, outputs: Tensor) -> Gaussian:
        return Gaussian(self.centre + self.scale * outputs, self.scale * self.log_std.exp())

    def mean_std(self, observations: Any) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the actions, both of shape [..., act_dim], in the actions' units."""
        distribution = self.distribution(observations)
        return distribution.mean, distribution.std.expand_as(distribution.mean)

    def forward(self, observations: Any) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation: what `torch.func.functional_call` evaluates."""
        return self.mean_std(observations)

    def in_bounds(self, actions: Tensor) -> Tensor:
        """The nearest actions in the box."""
        return torch.minimum(torch.maximum(actions, self.low), self.high)
