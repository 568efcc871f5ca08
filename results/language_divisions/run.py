"""GRPO's two divisions, taken out one at a time, on tiny sums.

Advantages are divided by their group's standard deviation (`scale` group) or not; and the loss of a
completion by its own length (`reduction` sequence) or all by one constant. With neither it is Dr. GRPO (Liu
et al. 2025). Task, policies, measures and learning rate are those of `results/language_verifiable`, whose
GRPO divides by both and is not repeated here. Adam's step does not depend on the loss's scale, so the arms differ
in what they favour, and not in how far they go at once.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_verifiable.run import curve

ARMS = (("none", "constant"), ("group", "constant"), ("none", "sequence"))


def one(seed: int, scale: str, reduction: str) -> list[dict]:
    return curve(seed, "grpo", "last", scale=scale, reduction=reduction)


if __name__ == "__main__":
    record(
        "language_divisions",
        one,
        [{"scale": s, "reduction": r} for s, r in ARMS],
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="The learning rate is that of language_verifiable; every seed reported.",
    )
