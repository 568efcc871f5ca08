"""TODO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from ppobook import validation
from ppobook.policies.networks import MLP, SharedTrunk, _generator, _vectors
from ppobook.policies.normalization import RunningNorm
from ppobook.policies.policies import CategoricalPolicy, GaussianPolicy, MultiCategoricalPolicy, TabularPolicy
from ppobook.policies.values import TabularValue, ValueFunction


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
    """The policy that fits an environment's spaces (of one environment, not of a vector of them).

    Discrete observations give a `TabularPolicy`, a box of numbers a network. Discrete actions give a
    categorical distribution, several discrete ones at once (MultiDiscrete, MultiBinary) one for each, a box
    a Gaussian with the box's bounds.

    Parameters
    ----------
    observation_space, action_space : Gymnasium spaces
    hidden, activation, normalizer, network, seed
        As for `CategoricalPolicy`. A table reads none of them.
    initial_std : float above 0
        As for `GaussianPolicy`. Discrete policies do not read it.

    Raises
    ------
    ValueError
        Spaces of another kind, boxes that are not flat, a normalizer or a network for a table.
    """
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
    nvec = _choices(action_space)
    if nvec is None and not (isinstance(action_space, spaces.Box) and len(action_space.shape) == 1):
        raise ValueError(
            f"action_space is {action_space}; a Discrete, MultiDiscrete or MultiBinary space or a Box, with "
            "one axis, is wanted"
        )
    if n_states is not None:
        raise ValueError(
            f"observation_space is {observation_space} and action_space {action_space}; "
            f"with such actions, a box of observations is wanted "
            f"(gymnasium.wrappers.FlattenObservation turns a state into a one-hot vector)"
        )
    if nvec is not None:
        return MultiCategoricalPolicy(obs_dim, nvec, hidden, **given)
    assert isinstance(action_space, spaces.Box)
    low, high = action_space.low, action_space.high
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
    """The value function that fits an observation space: a table for discrete states, else a network."""
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
    """A policy and a value function for an environment's spaces, apart or on one trunk.

    With ``shared=True`` the value function is a linear head on the policy's hidden layers (`SharedTrunk`):
    those parameters are the same objects in both, so an optimizer must be given each once, as
    ``list(dict.fromkeys([*policy.parameters(), *value.parameters()]))`` does; and `together` evaluates both
    in one pass. The normalizer, if there is one, is the same object in both either way.

    Parameters
    ----------
    shared : bool
        A table has no hidden layers to share, and nothing comes of it there; nor with ``hidden=()``.
    seed : int or torch.Generator
        Drawn from for the policy first, then for the value function.

    Returns
    -------
    policy, value : modules
    """
    shared = validation.flag("shared", shared)
    generator = _generator(seed)
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
    """``policy.distribution(observations), value(observations)``, a shared trunk being evaluated once.

    For a policy and a value function that share nothing this is two passes, as written above; and so it is
    for classes from elsewhere, subclasses say, which may do something of their own on the way.
    """
    head: Any = getattr(value, "network", None)
    network: Any = getattr(policy, "network", None)
    ours = all(type(part).__module__ == __name__ for part in (policy, value, head, network))
    shared = isinstance(head, SharedTrunk) and isinstance(network, MLP) and head.shares(network)
    if not (ours and shared and policy.normalizer is getattr(value, "normalizer", None)):
        return policy.distribution(observations), value(observations)
    x = observations if policy.normalizer is None else policy.normalizer(observations)
    features = head.trunk(_vectors(x, network.obs_dim, head.head.weight))
    return policy.distribution_of(network.layers[-1](features)), head.head(features).squeeze(-1)


def _choices(space: spaces.Space[Any]) -> list[int] | None:
    """The sizes of several choices made at once; None for other spaces."""
    if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        return [2] * space.shape[0]
    if not isinstance(space, spaces.MultiDiscrete) or len(space.shape) != 1:
        return None
    if space.start.any():
        raise ValueError(f"action_space is {space}; a MultiDiscrete space that counts from 0 is wanted")
    return [int(n) for n in space.nvec]


def _refuse_for_a_table(space: spaces.Space[Any], **given: Any) -> None:
    for name, x in given.items():
        if x is not None:
            raise ValueError(
                f"{name} is given and observation_space is {space}; a box of observations is wanted with it "
                "(gymnasium.wrappers.FlattenObservation turns a state into a one-hot vector)"
            )


def _observation_size(space: spaces.Space[Any]) -> tuple[int | None, int]:
    """(number of states, 0) of a discrete space; (None, number of entries) of a flat box."""
    if isinstance(space, spaces.Discrete):
        _from_zero("observation_space", space)
        return int(space.n), 0
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return None, space.shape[0]
    hint = " (gymnasium.wrappers.FlattenObservation makes one)" if isinstance(space, spaces.Box) else ""
    raise ValueError(f"observation_space is {space}; a Discrete space or a Box with one axis is wanted{hint}")


def _from_zero(name: str, space: spaces.Discrete) -> None:
    if int(space.start) != 0:
        raise ValueError(f"{name} is {space}; a Discrete space that counts from 0 is wanted")
