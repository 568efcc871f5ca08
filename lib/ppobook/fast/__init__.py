"""Faster forms of some algorithms, which ``fast=True`` chooses: they compute the same numbers.

The rest of the library does not import this package, and a test compares each form with the plain one.
"""

from ppobook.fast.actor import numpy_actor
from ppobook.fast.classic import classic_envs
from ppobook.fast.learners import FastPPO, FastTRPO
from ppobook.ppo import PPO
from ppobook.trpo import TRPO

FASTER = {PPO: FastPPO, TRPO: FastTRPO}

__all__ = ["FASTER", "FastPPO", "FastTRPO", "classic_envs", "numpy_actor"]
