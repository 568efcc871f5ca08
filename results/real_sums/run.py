"""GRPO teaches SmolLM2 to add, rewarded by a program that reads the last number of an answer.

Three tasks, from easy to hard for this model: sums of one-digit numbers; sums of two-digit numbers
(`results/real_sums_two_digits`); and reasoning-gym's `chain_sum`, sums and differences of two or three
one-digit numbers (`results/real_sums_chain`). All settings are those of `examples/to_a_real_model.py`, but
for the length of answers and the number of updates.

Each row is of 20 held-out sums: one greedy answer and four samples of each. The first and the last row of a
run also say what training did to answers to other questions (`real_common.Elsewhere`).
"""

import sys
from pathlib import Path
from typing import Any

from ppobook.experiments import record
from ppobook.language.sums import answer_is_right, chat_sums

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the shared part is

from real_common import SumsLook, chain_sums, followed, learner_of

TASKS = {"one digit": (16, 20), "two digits": (24, 40), "chain_sum": (24, 40)}  # tokens, updates
GRPO = {"batch_size": 32, "group_size": 8, "lr": 2e-4}


def one(seed: int, task: str) -> list[dict]:
    tokens, updates = TASKS[task]
    return curve(seed, task, "grpo", tokens, updates, **GRPO)


def curve(
    seed: int, task: str, method: Any, tokens: int, updates: int, every: int | None = None, **settings: Any
) -> list[dict]:
    """Measures of a policy along the way."""
    digits = 2 if task == "two digits" else 1
    data, held_out = chain_sums(seed) if task == "chain_sum" else chat_sums(digits, seed=seed)
    learner = learner_of(method, data, seed, answer_is_right, max_new_tokens=tokens, **settings)
    return followed(learner, SumsLook(learner, held_out, tokens), updates, every or updates // 4)


if __name__ == "__main__":
    record(
        "real_sums",
        one,
        [{"task": "one digit"}],
        seeds=range(100, 105),
        workers=1,
        digits=4,
        note="Settings of the library and of the example, fixed on seed 0; every seed reported.",
    )
