"""Best of n on the tiny language world: gold, proxy and a held-out judge against its exact KL.

The policy after SFT samples 512 completions of each of the 16 prompts, and the best of n of them is kept: by
a reward model that reads the last token, by one that sums over tokens, and by gold itself. What that gives is
the mean over all ways to draw n of the 512 (`ppobook.language.best_of_n_curve`). `proxy` is the reward model
chosen by, and `held_out` one of the same recipe that has learned from other pairs
(`language_chain/shared.py`); where gold chooses, they are those that read the last token. Rewards are in
standard deviations, as in `results/language_overoptimisation`, which this is to be put beside. Nothing is
tuned; the seeds are those of that record, and all of them are reported.
"""

import sys
from pathlib import Path

from ppobook.experiments import record
from ppobook.language import World, best_of_n_curve, evaluate

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, judge, points_of, rewards_of, sft, summed_up

DRAWS = 512
NS = [2**k for k in range(9)]
SETTINGS = [{"chosen_by": "last"}, {"chosen_by": "sum"}, {"chosen_by": "gold"}]


def one(seed: int, chosen_by: str) -> list[dict]:
    world = World()
    prompts = len(world.prompts)
    # Prompts are taken in turn: the k-th draw of each stands in a row of its own.
    found = evaluate(sft(seed), world, n=DRAWS * prompts, seed=10_000 + seed).completions
    pooling = "last" if chosen_by == "gold" else chosen_by
    measured = {
        "proxy": rewards_of(judge(seed, pooling), found),
        "held_out": rewards_of(judge(seed, pooling, held_out=True), found),
        "gold": world.gold(found),
        **points_of(world, found),
        "kind_words": world.gold_parts(found)["kind"],
        "length": found.lengths,
        "ended": found.ended,
    }
    known = {name: x.float().view(DRAWS, prompts).T.numpy() for name, x in measured.items()}
    table = best_of_n_curve(known["gold" if chosen_by == "gold" else "proxy"], NS, known)
    return table.drop(columns="score").to_dict("records")


if __name__ == "__main__":
    record(
        "language_best_of_n",
        one,
        SETTINGS,
        seeds=FRESH,
        digits=4,
        note="Nothing tuned; every seed reported.",
    )
    columns = ["kl", "proxy", "held_out", "gold", "kind_words", "length", "ended"]
    summed_up("language_best_of_n", ["chosen_by", "n"], columns)
