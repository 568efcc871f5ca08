"""Rollouts of random observations and rewards, for learners without an environment."""

import numpy as np
import torch
from gymnasium import spaces

from ppobook.rollouts import Rollout

BOX = spaces.Box(-np.inf, np.inf, (3,))
ACTIONS = {
    "discrete": spaces.Discrete(4),
    "box": spaces.Box(-2.0, 2.0, (2,)),
    "unbounded": spaces.Box(-np.inf, np.inf, (1,)),
    "several": spaces.MultiDiscrete([2, 3]),
}


def played(made, seed=0, n=4, t=16):
    """A rollout of random observations and rewards, with actions of the learner's own policy."""
    generator = torch.Generator().manual_seed(seed)
    observations = torch.randn(n, t, 3, generator=generator)
    actions, logp = made.policy.sample(observations, generator)
    terminated, truncated = torch.rand(2, n, t, generator=generator) < 0.1
    return Rollout(
        observations=observations,
        actions=actions,
        rewards=torch.randn(n, t, generator=generator),
        terminated=terminated,
        truncated=truncated,
        logp=logp,
        final_observations=torch.randn(int((truncated & ~terminated).sum()), 3, generator=generator),
        last_observations=torch.randn(n, 3, generator=generator),
        episode_returns=np.zeros(0),
        episode_lengths=np.zeros(0),
    )
