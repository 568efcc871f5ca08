"""Policies and value functions that fit an environment's spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from ppobook import validation
from ppobook.fast.declare import declared
from ppobook.policies.networks import MLP, SharedTrunk, as_vectors, generator_from
from ppobook.policies.normalization import RunningNorm
from ppobook.policies.policies import CategoricalPolicy, GaussianPolicy, MultiCategoricalPolicy, TabularPolicy
from ppobook.policies.values import TabularValue, ValueFunction

_ONE_HOT = "gymnasium.wrappers.FlattenObservation makes one-hot vectors of states"


def policy_for(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    hidden: Sequence[int] = (64, 64),
    *,
    activation: str = "tanh",
    initial_std: float = 1.0,
    normalizer: RunningNorm | None = None,
    network: nn.Module | None = None,
    seed: int | torch.Generator = 0,
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

    Parameters
    ----------
    observation_space, action_space : Gymnasium spaces
    hidden, activation, normalizer, network, seed
        As for `CategoricalPolicy`. A `TabularPolicy` ignores them.
    initial_std : float of at least 1e-6
        As for `GaussianPolicy`; ignored for discrete actions.

    Raises
    ------
    ValueError
        Other spaces, boxes with more than one axis, a normalizer or a network for discrete observations.
    """
    initial_std = validation.number("initial_std", initial_std, low=1e-6)
    n_states, obs_dim = _observation_size(observation_space)
    if n_states is not None:
        _refuse_for_a_table(observation_space, normalizer=normalizer, network=network)
    given: dict[str, Any] = {
        "activation": activation,
        "normalizer": normalizer,
        "network": network,
        "seed": seed,
    }
    if isinstance(action_space, spaces.Discrete):
        _from_zero("action_space", action_space)
        n_actions = int(action_space.n)
        if n_states is not None:
            return TabularPolicy(n_states, n_actions)
        return CategoricalPolicy(obs_dim, n_actions, hidden, **given)
    nvec = _nvec(action_space)
    if nvec is None and not (isinstance(action_space, spaces.Box) and len(action_space.shape) == 1):
        raise ValueError(
            "action_space must be Discrete, or a MultiDiscrete, MultiBinary or Box space with one axis, "
            f"got {action_space}"
        )
    if n_states is not None:
        raise ValueError(
            f"observation_space must be a Box where action_space is {action_space}, got {observation_space}. "
            f"{_ONE_HOT}"
        )
    if nvec is not None:
        return MultiCategoricalPolicy(obs_dim, nvec, hidden, **given)
    assert isinstance(action_space, spaces.Box)
    low, high = action_space.low, action_space.high
    if not (low < high).all():
        raise ValueError(f"action_space must have each low below its high, got {action_space}")
    return GaussianPolicy(obs_dim, action_space.shape[0], hidden, low, high, initial_std=initial_std, **given)


def value_for(
    observation_space: spaces.Space[Any],
    hidden: Sequence[int] = (64, 64),
    *,
    activation: str = "tanh",
    normalizer: RunningNorm | None = None,
    network: nn.Module | None = None,
    seed: int | torch.Generator = 0,
) -> ValueFunction | TabularValue:
    """The value function that fits an observation space: a table for Discrete, a network for Box."""
    n_states, obs_dim = _observation_size(observation_space)
    if n_states is not None:
        _refuse_for_a_table(observation_space, normalizer=normalizer, network=network)
        return TabularValue(n_states)
    return ValueFunction(
        obs_dim, hidden, activation=activation, normalizer=normalizer, network=network, seed=seed
    )


def actor_critic_for(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    hidden: Sequence[int] = (64, 64),
    *,
    shared: bool = False,
    activation: str = "tanh",
    initial_std: float = 1.0,
    normalizer: RunningNorm | None = None,
    seed: int | torch.Generator = 0,
) -> tuple[Any, ValueFunction | TabularValue]:
    """A policy and a value function for an environment's spaces, separate or with shared hidden layers.

    With ``shared=True`` the value function is a linear head on the policy's hidden layers (`SharedTrunk`).
    Pass each shared parameter to an optimizer once, as
    ``list(dict.fromkeys([*policy.parameters(), *value.parameters()]))`` does. `together` evaluates both in
    one pass. A normalizer is the same object in both, shared or not.

    Parameters
    ----------
    shared : bool
        Without effect for tables and with ``hidden=()``, which have no hidden layers.
    seed : int or torch.Generator
        For the policy first, then for the value function.

    Returns
    -------
    policy, value : modules
    """
    shared = validation.flag("shared", shared)
    generator = generator_from(seed)
    policy = policy_for(
        observation_space,
        action_space,
        hidden,
        activation=activation,
        initial_std=initial_std,
        normalizer=normalizer,
        seed=generator,
    )
    network = None
    if shared and not isinstance(policy, TabularPolicy):
        assert isinstance(policy.network, MLP)
        network = SharedTrunk(policy.network, seed=generator)
    value = value_for(
        observation_space,
        hidden,
        activation=activation,
        normalizer=normalizer,
        network=network,
        seed=generator,
    )
    return policy, value


def together(policy: Any, value: nn.Module, observations: Any) -> tuple[Any, Tensor]:
    """``policy.distribution(observations), value(observations)``, with a shared trunk evaluated once."""
    if not _one_trunk(policy, value):
        if not callable(getattr(policy, "distribution", None)):
            raise TypeError(f"policy must be a policy, got {validation.kind_of(policy)}")
        validation.instance("value", value, nn.Module)
        return policy.distribution(observations), value(observations)
    x = observations if policy.normalizer is None else policy.normalizer(observations)
    shared: Any = value.network
    features = shared.trunk(as_vectors(x, shared.obs_dim, shared.head.weight))
    return policy.distribution_of(policy.network.layers[-1](features)), shared.head(features).squeeze(-1)


def _one_trunk(policy: Any, value: Any) -> bool:
    """Whether both are as `actor_critic_for` makes them with ``shared=True``, with no method overridden."""
    parts = policy, value, getattr(policy, "network", None), getattr(value, "network", None)
    kinds = [declared(part) for part in parts]
    return (
        kinds[0] in ("categorical", "multi_categorical", "gaussian")
        and kinds[1:] == ["value", "mlp", "shared_trunk"]
        and value.network.shares(policy.network)
        and policy.normalizer is value.normalizer
    )


def _nvec(space: spaces.Space[Any]) -> list[int] | None:
    """The numbers of values of the components of a MultiDiscrete or MultiBinary space with one axis."""
    if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        return [2] * space.shape[0]
    if not isinstance(space, spaces.MultiDiscrete) or len(space.shape) != 1:
        return None
    if space.start.any():
        raise ValueError(f"action_space must count from 0, got {space}")
    return [int(n) for n in space.nvec]


def _refuse_for_a_table(space: spaces.Space[Any], **given: Any) -> None:
    for name, x in given.items():
        if x is not None:
            raise ValueError(
                f"observation_space must be a Box where {name} is passed, got {space}. {_ONE_HOT}"
            )


def _observation_size(space: spaces.Space[Any]) -> tuple[int | None, int]:
    """(n_states, 0) of a Discrete space; (None, obs_dim) of a Box with one axis."""
    if isinstance(space, spaces.Discrete):
        _from_zero("observation_space", space)
        return int(space.n), 0
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return None, space.shape[0]
    hint = ". gymnasium.wrappers.FlattenObservation makes one" if isinstance(space, spaces.Box) else ""
    raise ValueError(f"observation_space must be Discrete or a Box with one axis, got {space}{hint}")


def _from_zero(name: str, space: spaces.Discrete) -> None:
    if int(space.start) != 0:
        raise ValueError(f"{name} must count from 0, got {space}")
