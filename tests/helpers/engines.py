"""Control and language behind one face, for the tests of what their runs have in common."""

import dataclasses
from collections.abc import Callable
from typing import Any

import small_language
import small_runs
import small_stages

import ppobook
import ppobook.language
from ppobook.language.sft import SFT
from ppobook.vanilla import Vanilla


@dataclasses.dataclass(frozen=True)
class Engine:
    name: str
    train: Callable[..., Any]
    load: Callable[..., Any]
    new: Callable[..., Any]  # a run of 7 updates
    longer: dict[str, Any]  # with which it has 11
    same_run: Callable[[Any, Any], None]
    kind: type  # the class that trains it
    method: str  # and its method that does an update
    argument: str  # what the class is passed as
    state: str  # its part of a checkpoint
    module: str  # the module that is trained
    own: type  # a class of a user's own
    diverges: Callable[..., Any]  # a run whose weights diverge

    def own_run(self, **changes):
        """A run of a class of the user's own."""
        given = {self.argument: self.own, "checkpoint_every": 2, **changes}
        return small_runs.small(**given) if self.name == "control" else small_stages.fit("own, gold", **given)

    def load_own(self, folder, kind):
        return self.load(folder, learner=kind) if self.name == "control" else self.load(folder)


def control_run(**changes):
    return small_runs.small(**{"checkpoint_every": 2, **changes})


def control_diverges(**changes):
    return control_run(optimizer="sgd", lr=1e37, epochs=20, **changes)


def language_run(**changes):
    return small_stages.fit(**{"checkpoint_every": 2, **changes})


def language_diverges(**changes):
    def far(prompts, completions):
        return [1e4 * len(text) for text in completions]

    given = {"reward": far, "lr": 1.0, "max_grad_norm": None, "updates": 400, **changes}
    return small_stages.fit("own, a function", **given)


CONTROL = Engine(
    "control",
    ppobook.train,
    ppobook.load,
    control_run,
    {"total_steps": 32 * 11},
    small_runs.same_run,
    Vanilla,
    "update",
    "algorithm",
    "learner",
    "policy",
    small_runs.Own,
    control_diverges,
)
LANGUAGE = Engine(
    "language",
    ppobook.language.train,
    ppobook.language.load,
    language_run,
    {"updates": 11},
    small_language.same_run,
    SFT,
    "step",
    "stage",
    "stage",
    "model",
    small_stages.Own,
    language_diverges,
)
ENGINES = [CONTROL, LANGUAGE]
