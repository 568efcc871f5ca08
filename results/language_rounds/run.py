"""Between offline and online: DPO whose pairs are written again in rounds.

`results/language_dpo` has both ends: pairs by the policy after SFT, and pairs by the policy of each step.
Here are two steps of the stairs between them: the pairs are by a copy of the policy that is renewed every
`period` updates. All else is as there: 120 gradient steps on 32 pairs, each seen once, people's choices with
a noise of 0.5, the same β and learning rate, fixed there on seeds 0 and 1. Nothing was tuned here; the seeds
are fresh, and all are reported.

Rows are of 256 fresh completions of the policy after so many updates.
"""

import copy
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ppobook.experiments import record
from ppobook.language import Completions, World, evaluate
from ppobook.language.data import Prompts
from ppobook.language.online import OnlineDPO
from ppobook.language.run import Run

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, ends, followed, learner_of, sft, summed_up

UPDATES, LOOKS, PAIRS = 120, 4, 32
SETTINGS = [{"period": period, "beta": 0.1, "lr": 1e-3} for period in (15, 60)]


class Rounds(OnlineDPO):
    """Online DPO whose sampler is a copy of the policy, renewed every `period` updates."""

    period = 1

    def step(self, number: int) -> dict[str, Any]:
        if number % self.period == 0:
            self.sampler = copy.deepcopy(self.model).requires_grad_(False)
        return super().step(number)

    def sample(self, prompts: Prompts) -> Completions:
        return self.generate(self.sampler, prompts, self.settings.temperature)


def one(seed: int, period: int, beta: float, lr: float) -> list[dict]:
    base = sft(seed)
    how = {"reward": "gold", "noise": 0.5, "batch_size": 2 * PAIRS, "beta": beta, "lr": lr}
    learner = learner_of(Rounds, base, seed, **how)
    learner.period = period
    rows = followed(learner, partial(looked, base=base, seed=seed), looks=LOOKS, updates=UPDATES)
    return [{name: x for name, x in row.items() if name not in ("tokens", "cpu")} for row in rows]


def looked(policy: torch.nn.Module, base: Run, seed: int, n: int = 256) -> dict[str, float]:
    """Measure n fresh completions of a policy, the same number for each prompt."""
    numbers = evaluate(policy, World(), reference=base, n=n, seed=10_000 + seed).numbers
    return {
        "kl": numbers["kl_reference"],
        **{name: numbers[name] for name in ("gold", "length", "ended", "distinct_2")},
    }


if __name__ == "__main__":
    name, settings = "language_rounds", list(SETTINGS[0])
    record(
        name,
        one,
        SETTINGS,
        seeds=FRESH,
        workers=1,
        digits=4,
        note="β and the learning rate are those of language_dpo; nothing tuned; every seed reported.",
    )
    summed_up(name, settings, ["gold", "kl", "length", "ended", "distinct_2"], ends(name, settings))
