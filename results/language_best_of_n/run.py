"""Best of n on the tiny language world: gold and proxy against its exact KL.

The policy after SFT samples 512 completions of each of the 16 prompts, and the best of n of them is kept, by
the reward model and by gold itself. What that gives is the mean over all ways to draw n of the 512
(`ppobook.language.best_of_n_curve`). Nothing is tuned; the seeds are those of `results/language_chain`, and
all of them are reported.
"""

import sys
from pathlib import Path

from ppobook.experiments import record
from ppobook.language import World, best_of_n_curve, evaluate

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.run import FRESH, begun, summed_up

DRAWS = 512
NS = [2**k for k in range(9)]


def one(seed: int, chosen_by: str) -> list[dict]:
    base, reward_model = begun(seed)
    world = World()
    prompts = len(world.prompts)
    # Prompts are taken in turn: the k-th draw of each stands in a row of its own.
    found = evaluate(base, world, reward_model=reward_model, n=DRAWS * prompts, seed=10_000 + seed)
    known = {
        name: x.view(DRAWS, prompts).T.numpy() for name, x in (("proxy", found.reward), ("gold", found.gold))
    }
    table = best_of_n_curve(known[chosen_by], NS, known)
    return table[["n", "kl", "kl_bound", "proxy", "gold"]].to_dict("records")


if __name__ == "__main__":
    record(
        "language_best_of_n",
        one,
        [{"chosen_by": "proxy"}, {"chosen_by": "gold"}],
        seeds=FRESH,
        workers=1,
        digits=4,
        note="Nothing tuned; every seed reported.",
    )
    summed_up("language_best_of_n", ["chosen_by", "n"], ["kl", "proxy", "gold"])
