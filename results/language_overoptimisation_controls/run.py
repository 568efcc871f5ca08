"""Two controls of over-optimisation on the tiny language world, both without a KL penalty.

*Slow*: a third of the learning rate, twice the updates. In `results/language_overoptimisation` gold at the
same KL differs with β. Is that the penalty, or that without one a policy gets there in fewer and larger
steps? Gao, Schulman and Hilton 2023 find that a penalty acts like stopping early, at another size.

*Ends*: 1 standard deviation of the reward is taken off a completion that has no end of sequence, TRL's
missing_eos_penalty. Are missing ends what the reward model is wrong about? This with the reward of the sum
alone: of the policies trained on the last token's, nine of ten go on ending their texts.

All else is as there, seeds too, and every one is reported; the two settings were fixed before they ran.
"""

import sys
from pathlib import Path

from ppobook.experiments import record, results

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, at_kl, ends, summed_up
from language_overoptimisation.run import LR, POOLINGS, UPDATES, curve

CONTROLS = {
    "slow": {"lr": LR / 3, "updates": 2 * UPDATES},
    "ends": {"lr": LR, "updates": UPDATES, "truncation": "penalty", "missing_eos_penalty": 1.0},
}
SETTINGS = [
    *({"pooling": pooling, "control": "slow"} for pooling in POOLINGS),
    {"pooling": "sum", "control": "ends"},
]


def one(seed: int, pooling: str, control: str) -> list[dict]:
    return curve(seed, pooling, 0.0, keep=False, **CONTROLS[control])


if __name__ == "__main__":
    name, settings = "language_overoptimisation_controls", list(SETTINGS[0])
    record(
        name,
        one,
        SETTINGS,
        seeds=FRESH,
        digits=4,
        note="Nothing tuned: both controls were fixed before they ran; every seed reported.",
    )
    columns = ["kl", "proxy", "held_out", "gold", "kind_words", "errors", "length", "ended", "entropy"]
    summed_up(name, settings, [*columns, "distinct_2"], ends(name, settings))
    matched = at_kl(results(name), [*settings, "seed"], (1, 2, 4, 8, 16), ["gold", "proxy", "update"])
    summed_up(f"{name}, at the same KL", [*settings, "at_kl"], ["gold", "proxy", "update"], matched)
