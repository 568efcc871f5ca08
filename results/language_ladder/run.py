"""The reward model's ladder on the tiny language world: each seed's reward for more and more kind words.

Gold likes up to three kind words in a text and dislikes further ones. Reward models have seen few texts with
more than three. What reward does each one of `results/language_chain` give to texts which follow grammar and
prompt, and have 0 to 6 (`ppobook.language.ladder`)? `accuracy` is its accuracy on the 500 pairs of the
evaluation split, labels as noisy as those learned from, at the end of training. Nothing is tuned; every seed
is reported.
"""

import sys
from pathlib import Path

from ppobook.experiments import record
from ppobook.language import World, ladder

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.run import FRESH, begun, summed_up


def one(seed: int, reward_model: str) -> list[dict]:
    run = begun(seed)[1]
    accuracy = run.history["eval_accuracy"].dropna().iloc[-1]
    rungs = ladder(run.model, World())[["kind", "gold", "proxy", "proxy_std"]]
    return rungs.assign(accuracy=accuracy).to_dict("records")


if __name__ == "__main__":
    record(
        "language_ladder",
        one,
        [{"reward_model": "defaults"}],
        seeds=FRESH,
        workers=1,
        digits=4,
        note="Nothing tuned; every seed reported.",
    )
    summed_up("language_ladder", ["kind"], ["gold", "proxy", "accuracy"])
