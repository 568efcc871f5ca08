"""Environments: any of Gymnasium as a seeded vector environment, and small worlds that are known exactly.

The values, gradients, state occupancies and optimal policies of a chain and a gridworld are computed by
linear algebra (`TabularMDP`). Both are registered with Gymnasium, as ``ppobook/Chain-v0`` and
``ppobook/Gridworld-v0``. So are five probes, on which a learner is debugged (`ppobook.envs.probes`).
"""

from ppobook.envs.catalogue import list_envs
from ppobook.envs.making import EnvLike, EnvMaker, env_maker, has_id
from ppobook.envs.probes import PROBES, Probe, climb
from ppobook.envs.tabular import Episodes, TabularMDP
from ppobook.envs.vector import MOST_ENVS, SameStepVectorEnv, env_seeds, make_env
from ppobook.envs.worlds import TabularEnv, chain, chain_env, gridworld, gridworld_env

__all__ = [
    "MOST_ENVS",
    "PROBES",
    "EnvLike",
    "EnvMaker",
    "Episodes",
    "Probe",
    "SameStepVectorEnv",
    "TabularEnv",
    "TabularMDP",
    "chain",
    "chain_env",
    "climb",
    "env_maker",
    "env_seeds",
    "gridworld",
    "gridworld_env",
    "has_id",
    "list_envs",
    "make_env",
]
