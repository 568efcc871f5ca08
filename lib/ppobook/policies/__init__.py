"""Policies and value functions: small networks, a table, and their first weights.

A policy is a network that gives numbers, and a distribution made of them, which
``policy.distribution(observations)`` returns: a `Categorical`, a `MultiCategorical` or a `Gaussian`. All
policies answer to the same few names: `distribution`, `sample`, `logp`, `entropy`, `mode`, `in_bounds`.
Observations have any leading axes, ``[..., obs_dim]`` (a table's are states, ``[...]``), and what comes back
has the same. Who wants logp, entropy and KL at the same observations asks for the distribution once, and
takes all three from it.

Random numbers come from the seed or generator that is handed in; building a network leaves torch's own
random state as it was. No check here looks at the *values* of observations except in `sample`, so that a
policy can be differentiated sample by sample under `torch.func.vmap`.
"""

from ppobook.policies.distributions import Categorical, Distribution, Gaussian, MultiCategorical
from ppobook.policies.networks import ACTIVATIONS, MLP, SharedTrunk, orthogonal_linear
from ppobook.policies.normalization import RewardScale, RunningNorm
from ppobook.policies.policies import (
    CategoricalPolicy,
    GaussianPolicy,
    MultiCategoricalPolicy,
    Policy,
    TabularPolicy,
)
from ppobook.policies.spaces import actor_critic_for, policy_for, together, value_for
from ppobook.policies.values import TabularValue, ValueFunction

__all__ = [
    "ACTIVATIONS",
    "MLP",
    "Categorical",
    "CategoricalPolicy",
    "Distribution",
    "Gaussian",
    "GaussianPolicy",
    "MultiCategorical",
    "MultiCategoricalPolicy",
    "Policy",
    "RewardScale",
    "RunningNorm",
    "SharedTrunk",
    "TabularPolicy",
    "TabularValue",
    "ValueFunction",
    "actor_critic_for",
    "orthogonal_linear",
    "policy_for",
    "together",
    "value_for",
]
