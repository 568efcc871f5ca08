"""Reward models of the tiny language world, their rewards on one scale, and what PPO makes of each.

Reward models that differ in the number of pairs, in width, or in pooling (the last token's value, as the
field has it, or the sum over tokens). All learn from pairs by the same policy, fewer pairs being the first of
more. Batches and updates are the same for all, so with 300 pairs each is seen 32 times and with 9,000 about
once. What each is by itself, its accuracy, its scale and its ladder, is in `results/language_ladder`.

Then PPO, from the same policy, with one β. Before they are put on one scale (`language_chain/shared.py`)
their rewards differ several times over, and so would what one β holds. Some still lead further away than
others, so they are compared at the same KL as well. The held-out judge is that of 3,000 pairs, of the same
width and pooling as the usual ones. PPO's critic begins with the reward model's body, as it does by default,
so it is as wide as the reward model.

PPO's settings were chosen on seeds 0 to 2; the seeds here are fresh, and all are reported. Each row is of 256
completions of the policy after so many updates.
"""

import sys
from functools import partial
from pathlib import Path

from ppobook.experiments import record, results

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import (
    FRESH,
    USUAL,
    at_kl,
    ends,
    followed,
    judge,
    learner_of,
    looked_at,
    sft,
    summed_up,
)

UPDATES, LOOKS = 40, 8
BETA, LR = 0.1, 3e-4
SETTINGS = [
    {"pooling": pooling, **USUAL, **changed}
    for changed in ({}, {"pairs": 300}, {"width": 16}, {"pairs": 9000})
    for pooling in ("last", "sum")
]


def one(seed: int, pooling: str, pairs: int, width: int) -> list[dict]:
    base, proxy = sft(seed), judge(seed, pooling, pairs=pairs, width=width)
    look = partial(looked_at, base=base, proxy=proxy, held_out=judge(seed, pooling, held_out=True), seed=seed)
    learner = learner_of("ppo", base, seed, reward=proxy, kl_coef=BETA, lr=LR)
    return followed(learner, look, looks=LOOKS, updates=UPDATES)


if __name__ == "__main__":
    name, settings = "language_reward_models", list(SETTINGS[0])
    record(
        name,
        one,
        SETTINGS,
        seeds=FRESH,
        digits=4,
        note="PPO's settings chosen on seeds 0 to 2; every seed reported.",
    )
    peaks = results(name).groupby([*settings, "seed"], sort=False)["gold"].max().reset_index(name="peak")
    summed_up(f"{name}, peak", settings, ["peak"], peaks)
    summed_up(name, settings, ["gold", "proxy", "held_out", "kl", "length", "ended"], ends(name, settings))
    matched = at_kl(results(name), [*settings, "seed"], (1, 2, 4, 8), ["gold", "proxy", "held_out"])
    summed_up(f"{name}, at the same KL", [*settings, "at_kl"], ["gold", "proxy", "held_out"], matched)
