"""Policies and value functions: small networks, and tables for discrete states.

``policy.distribution(observations)`` returns a `Categorical`, `MultiCategorical` or `Gaussian`, made of the
outputs of a network. All policies have the same methods: `distribution`, `sample`, `logp`, `entropy`,
`mode`, `in_bounds`. Observations have any leading axes, ``[..., obs_dim]`` (``[...]`` for the states of a
table), and so have results. Where logp, entropy and KL are needed at the same observations, compute the
distribution once.

Randomness comes from the seed or generator that is passed; making a network does not change torch's global
random state. Only `sample` and `mode` look at *values*, so policies can be differentiated sample by sample
under `torch.func.vmap`.
"""

from ppobook.policies.distributions import Categorical, Distribution, Gaussian, MultiCategorical
from ppobook.policies.factory import actor_critic_for, policy_for, together, value_for
from ppobook.policies.networks import ACTIVATIONS, MLP, SharedTrunk, orthogonal_linear
from ppobook.policies.normalization import RewardScale, RunningNorm
from ppobook.policies.policies import (
    CategoricalPolicy,
    GaussianPolicy,
    MultiCategoricalPolicy,
    Policy,
    TabularPolicy,
)
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
