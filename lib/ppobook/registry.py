"""TODO."""

from __future__ import annotations

import importlib
import re
from typing import Any

from ppobook import validation
from ppobook.learner import Learner

# These are at hand here too, for whoever has a run in hand.
from ppobook.run.interrupts import Interrupted as Interrupted
from ppobook.run.machine import threads as threads

# Found by name when asked for: this room may not import the trainers, which are built on it.
ALGORITHMS = {
    "vanilla": "ppobook.vanilla:Vanilla",
    "trpo": "ppobook.trpo:TRPO",
    "ppo": "ppobook.ppo:PPO",
}


def learner_class(algorithm: Any) -> type[Learner]:
    """The learner of this name; a subclass of `Learner` stands for itself."""
    if isinstance(algorithm, type) and issubclass(algorithm, Learner):
        return algorithm
    if isinstance(algorithm, type):
        raise TypeError(f"algorithm is the class {algorithm.__name__}; a subclass of Learner is wanted")
    module, _, name = ALGORITHMS[validation.choice("algorithm", algorithm, ALGORITHMS)].partition(":")
    found: type[Learner] = getattr(importlib.import_module(module), name)
    return found


def learner_name(kind: type[Learner]) -> str:
    """What a run's config calls a learner: "ppo", or "my_module:MyPPO" for a user's own."""
    place = f"{kind.__module__}:{kind.__qualname__}"
    short = {where: name for name, where in ALGORITHMS.items()}
    return short.get(place, place)


def short_name(algorithm: str) -> str:
    """For people: "ppo", and "MyPPO" for "my_module:MyPPO"."""
    return re.split(r"[:.]", algorithm)[-1]


def _learner_of_run(config: dict[str, Any], learner: Any) -> type[Learner]:
    """The class that a run was trained by. One of the user's own is never imported, only taken."""
    named = config["algorithm"]
    if learner is None:
        if isinstance(named, str) and ":" in named:
            short = short_name(named)
            raise ValueError(
                f"the run was trained by {named!r}, a class that is not ppobook's; wanted: the class itself, "
                f"as in load(folder, learner={short}) or train({short}, resume=folder); on the command line "
                f"my_module:{short}"
            )
        return learner_class(named)
    if not isinstance(learner, type):
        raise TypeError(f"learner is {learner!r}; the class itself is wanted, and not its name")
    kind = learner_class(learner)
    if learner_name(kind) != named and not (":" in named and kind.__name__ == short_name(named)):
        raise ValueError(
            f"learner is {learner_name(kind)!r}, and the run was trained by {named!r}, which is wanted"
        )
    return kind
