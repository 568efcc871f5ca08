"""DPO of SmolLM2 on pairs of its own answers: both log-probabilities, and what the policy writes.

The pairs are those from which the reward model of `results/real_rlhf` learns, and the measures are the same.
`chosen` and `rejected` are mean log-ratios of policy and original model, on held-out pairs: how much more or
less probable the two sides have become, in nats. β and learning rate were chosen on seed 0.
"""

import copy
import sys
from pathlib import Path
from typing import Any

from ppobook.experiments import record
from ppobook.language.dpo import pair_logp

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the shared part is

from real_common import ROWS, AnswersLook, followed, learner_of, own_pairs, questions

DPO = {"batch_size": 8, "lr": 1e-4, "beta": 0.1, "eval_pairs": 60, "warmup": 5, "eval_every": 1000}
UPDATES, EVERY = 60, 15


def one(seed: int) -> list[dict]:
    return curve(seed, UPDATES, EVERY)


def curve(seed: int, updates: int, every: int, **changed: object) -> list[dict]:
    """Measures of a policy along the way."""
    learner = learner_of("dpo", own_pairs(seed), seed, **{**DPO, **changed})
    base = copy.deepcopy(learner.model)
    look = AnswersLook(learner, questions(seed)[1], base)
    before = pair_logp(base, learner.held_out, ROWS)

    def look_at_both(model: Any) -> dict[str, Any]:
        chosen, rejected = (pair_logp(model, learner.held_out, ROWS) - before).mean(dim=0).tolist()
        return {"chosen": chosen, "rejected": rejected, **look(model)}

    return followed(learner, look_at_both, updates, every)


if __name__ == "__main__":
    record(
        "real_dpo",
        one,
        [{}],
        seeds=range(100, 103),
        workers=1,
        digits=4,
        note="β and learning rate were chosen on seed 0; every seed reported.",
    )
