"""Chapter 2: what an update costs, part by part, in milliseconds of processor time, on CartPole.

Batch, networks and the number of the critic's gradient steps are the same for both. The clock stands around
the library's own functions, which run as they are.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from ppobook import trpo, vanilla
from ppobook.envs import make_env
from ppobook.experiments import record
from ppobook.rollouts import Collector
from ppobook.run.machine import threads

BATCH = {"num_envs": 8, "num_steps": 256}
CRITIC = {"value_epochs": 20, "value_lr": 0.01}
LEARNERS = {
    "vanilla": lambda spaces: vanilla.Vanilla(
        *spaces, vanilla.Vanilla.settings_class(**BATCH, **CRITIC, lr=0.01)
    ),
    "trpo": lambda spaces: trpo.TRPO(
        *spaces, trpo.TRPO.settings_class(**BATCH, **CRITIC, lam=1.0, value_minibatches=1)
    ),
}


def one(seed: int, algorithm: str, updates: int) -> list[dict]:
    spent: dict[str, float] = defaultdict(float)

    def timed(part: str | Callable, fn: Callable) -> Callable:
        def call(*args: Any, **kwargs: Any) -> Any:
            begin = time.process_time()
            result = fn(*args, **kwargs)
            spent[part if isinstance(part, str) else part(*args)] += time.process_time() - begin
            return result

        return call

    envs = make_env("CartPole-v1", BATCH["num_envs"], seed=seed)
    learner = LEARNERS[algorithm]((envs.single_observation_space, envs.single_action_space))
    collector = Collector(envs, learner.policy, seed=seed)
    if algorithm == "trpo":
        watched = [
            (learner, "improve", "policy step"),
            (trpo, "fisher_matrix", "slope of the KL"),
            (trpo, "conjugate_gradient", "conjugate gradient"),
            (trpo, "line_search", "line search"),
            (learner, "fit", "critic"),
        ]
    else:

        def whose(optimizer: Any, loss: Any) -> str:
            return "policy step" if optimizer is learner.policy_optimizer else "critic"

        watched = [
            (learner.policy, "logp", "policy step"),
            (vanilla, "gradient_step", whose),
            (learner.value, "forward", "critic"),
        ]
    with threads(1), ExitStack() as stack:
        for where, name, part in [(collector, "collect", "playing"), (learner, "update", "update"), *watched]:
            stack.enter_context(patch.object(where, name, timed(part, getattr(where, name))))
        for number in range(updates + 1):
            learner.update(collector.collect(BATCH["num_steps"]))
            if number == 0:  # the first call of everything is slower
                spent.clear()
    return [{"part": part, "milliseconds": 1000 * total / updates} for part, total in spent.items()]


if __name__ == "__main__":
    record(
        "trust_cost",
        one,
        [{"algorithm": name, "updates": 40} for name in LEARNERS],
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Processor time for each update of 2048 steps, one process at a time, one thread.",
    )
