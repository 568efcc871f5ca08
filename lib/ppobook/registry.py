"""The algorithms of the library by name. They are built on this room, so they are imported when asked for."""

from __future__ import annotations

from typing import Any

from ppobook.learner import Learner
from ppobook.run.registry import Registry

ALGORITHMS: Registry[Learner] = Registry(
    "algorithm",
    Learner,
    {
        "vanilla": "ppobook.vanilla:Vanilla",
        "trpo": "ppobook.trpo:TRPO",
        "ppo": "ppobook.ppo:PPO",
    },
)


def learner_class(algorithm: Any) -> type[Learner]:
    """The class of an algorithm, "ppo"; a subclass of `Learner` is returned as it is."""
    return ALGORITHMS.find(algorithm)
