"""How often should DPO's pairs be sampled again? Offline, in rounds, and online, at equal pairs and steps.

DPO on pairs of completions that a reward model ranks. They are by a copy of the policy that is renewed every
`period` updates: after each one (online DPO), four times, or never but at the beginning (DPO on a fixed set).
Everything else is the same: 32 pairs an update, each used in one gradient step, β, the learning rate, the
policy after SFT to begin with and as the reference, and the reward model, which reads the last token
(`language_chain/shared.py`).

Labels are `hard`: the completion with the larger reward is always chosen; or `drawn`: with the probability
that the reward model gives it, as people's are. With hard labels no β has a finite optimum.

β and the learning rate were chosen on seeds 0 to 2; the seeds here are fresh, and all are reported.
"""

import copy
import sys
from functools import partial
from pathlib import Path
from typing import Any

from ppobook.experiments import record, results
from ppobook.language import Completions
from ppobook.language.data import Prompts
from ppobook.language.online import OnlineDPO

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, at_kl, ends, followed, judge, learner_of, looked_at, sft, summed_up

POOLING = "last"
UPDATES, LOOKS = 60, 6
BETA, LR = 0.1, 1e-3
SETTINGS = [
    {"period": period, "labels": labels, "beta": BETA, "lr": LR}
    for period, labels in ((1, "hard"), (15, "hard"), (60, "hard"), (1, "drawn"))
]


class Rounds(OnlineDPO):
    """Online DPO whose sampler is a copy of the policy, renewed every `period` updates."""

    period = 1

    def step(self, number: int) -> dict[str, Any]:
        if number % self.period == 0:
            self.sampler = copy.deepcopy(self.model).requires_grad_(False)
        return super().step(number)

    def sample(self, prompts: Prompts) -> Completions:
        return self.generate(self.sampler, prompts, self.settings.temperature)


def one(seed: int, period: int, labels: str, beta: float, lr: float) -> list[dict]:
    base, proxy = sft(seed), judge(seed, POOLING)
    noise = 0.0 if labels == "hard" else 1 / proxy.scale  # as log-odds, rewards are `scale` times larger
    learner = learner_of(Rounds, base, seed, reward=proxy, beta=beta, lr=lr, noise=noise)
    learner.period = period
    look = partial(looked_at, base=base, proxy=proxy, held_out=judge(seed, POOLING, held_out=True), seed=seed)
    return followed(learner, look, looks=LOOKS, updates=UPDATES)


if __name__ == "__main__":
    name, settings = "language_rounds", list(SETTINGS[0])
    record(
        name,
        one,
        SETTINGS,
        seeds=FRESH,
        workers=1,
        digits=4,
        note="β and the learning rate chosen on seeds 0 to 2; every seed reported.",
    )
    columns = ["gold", "proxy", "held_out", "kl", "length", "ended", "entropy"]
    summed_up(name, settings, columns, ends(name, settings))
    matched = at_kl(results(name), [*settings, "seed"], (1, 2, 4, 8), ["gold", "proxy"])
    summed_up(f"{name}, at the same KL", [*settings, "at_kl"], ["gold", "proxy"], matched)
