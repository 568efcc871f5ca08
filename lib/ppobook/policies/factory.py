"""Policies and value functions that fit an environment's spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from ppobook.policies.networks import MLP, SharedTrunk, as_tensor, generator_from
from ppobook.policies.normalization import RunningNorm
from ppobook.policies.policies import CategoricalPolicy, GaussianPolicy, MultiCategoricalPolicy, TabularPolicy
from ppobook.policies.values import TabularValue, ValueFunction

_NETWORK_POLICIES = (CategoricalPolicy, MultiCategoricalPolicy, GaussianPolicy)


def policy_for(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    hidden: Sequence[int] = (64, 64),
    *,
    initial_std: float = 1.0,
    normalizer: RunningNorm | None = None,
    network: nn.Module | None = None,
    **more: Any,
) -> CategoricalPolicy | GaussianPolicy | MultiCategoricalPolicy | TabularPolicy:
    """The policy that fits the spaces of a single environment.

    ==============  ============================  ========================
    observations    actions                       policy
    ==============  ============================  ========================
    Discrete        Discrete                      `TabularPolicy`
    Box             Discrete                      `CategoricalPolicy`
    Box             MultiDiscrete, MultiBinary    `MultiCategoricalPolicy`
    Box             Box                           `GaussianPolicy`
    ==============  ============================  ========================

    `initial_std` is for a `GaussianPolicy`; a `TabularPolicy` ignores all that is for networks. ValueError
    for other spaces, boxes with more than one axis, a normalizer or a network for discrete observations.
    """
    n_states, obs_dim = _observation_size(observation_space, network or normalizer)
    given: dict[str, Any] = {"normalizer": normalizer, "network": network, **more}
    # Actions and states count from 0 in what `make_env` returns.
    match action_space:
        case spaces.Discrete(start=0, n=n) if n_states is not None:
            return TabularPolicy(n_states, int(n))
        case spaces.Discrete(start=0, n=n):
            return CategoricalPolicy(obs_dim, int(n), hidden, **given)
        case spaces.MultiBinary(shape=(n,)) if n_states is None:
            return MultiCategoricalPolicy(obs_dim, [2] * n, hidden, **given)
        case spaces.MultiDiscrete(shape=(_,), start=start, nvec=nvec) if n_states is None and not start.any():
            return MultiCategoricalPolicy(obs_dim, nvec.tolist(), hidden, **given)
        case spaces.Box(shape=(n,), low=low, high=high) if n_states is None:
            return GaussianPolicy(obs_dim, n, hidden, low, high, initial_std=initial_std, **given)
    raise ValueError(
        "action_space must be Discrete, or with a Box of observations MultiDiscrete, MultiBinary or Box with "
        f"one axis, counted from 0; got {action_space} with {observation_space}"
    )


def value_for(
    observation_space: spaces.Space[Any],
    hidden: Sequence[int] = (64, 64),
    *,
    normalizer: RunningNorm | None = None,
    network: nn.Module | None = None,
    **more: Any,
) -> ValueFunction | TabularValue:
    """The value function that fits an observation space: a table for Discrete, a network for Box."""
    n_states, obs_dim = _observation_size(observation_space, network or normalizer)
    if n_states is not None:
        return TabularValue(n_states)
    return ValueFunction(obs_dim, hidden, normalizer=normalizer, network=network, **more)


def actor_critic_for(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    hidden: Sequence[int] = (64, 64),
    *,
    shared: bool = False,
    initial_std: float = 1.0,
    seed: int | torch.Generator = 0,
    **networks: Any,
) -> tuple[Any, ValueFunction | TabularValue]:
    """A policy and a value function for an environment's spaces, separate or with shared hidden layers.

    A normalizer is the same object in both, shared or not. `shared` is without effect for tables and with
    ``hidden=()``, which have no hidden layers. The seed is for the policy first, then for the value function.
    """
    generator = generator_from(seed)
    spaces_of_one = observation_space, action_space
    policy = policy_for(*spaces_of_one, hidden, initial_std=initial_std, seed=generator, **networks)
    network = None
    if shared and not isinstance(policy, TabularPolicy):
        assert isinstance(policy.network, MLP)
        network = SharedTrunk(policy.network, seed=generator)
    return policy, value_for(observation_space, hidden, network=network, seed=generator, **networks)


def together(policy: Any, value: nn.Module, observations: Any) -> tuple[Any, Tensor]:
    """``policy.distribution(observations), value(observations)``, with a shared trunk evaluated once."""
    shared: Any = getattr(value, "network", None)
    ours = type(value) is ValueFunction and type(policy) in _NETWORK_POLICIES  # nothing is overridden
    if not (ours and isinstance(shared, SharedTrunk) and shared.shares(policy.network)):
        return policy.distribution(observations), value(observations)
    x = observations if policy.normalizer is None else policy.normalizer(observations)
    features = shared.trunk(as_tensor(x, shared.head.weight))
    return policy.distribution_of(policy.network.layers[-1](features)), shared.head(features).squeeze(-1)


def _observation_size(space: spaces.Space[Any], module: nn.Module | None) -> tuple[int | None, int]:
    """(n_states, 0) of a Discrete space; (None, obs_dim) of a Box with one axis."""
    match space:
        case spaces.Discrete(start=0, n=n) if module is None:
            return int(n), 0
        case spaces.Box(shape=(n,)):
            return None, n
    raise ValueError(
        "observation_space must be a Box with one axis, or without a network or a normalizer Discrete, "
        f"counted from 0; got {space}. gymnasium.wrappers.FlattenObservation makes vectors of observations"
    )
