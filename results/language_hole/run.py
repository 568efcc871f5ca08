"""GRPO on tiny sums by a rule with a hole: a completion is paid if the sum is anywhere in it.

All else is as in `results/language_verifiable`, whose rule is that the last number counts (`right` here too).
Forty updates are enough to see where it leads; nothing was tuned for it, and every seed is reported.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_verifiable.run import curve

SETTINGS = [{"rule": "one"}]


def one(seed: int, rule: str) -> list[dict]:
    return curve(seed, "grpo", rule, updates=40, every=10)


if __name__ == "__main__":
    record(
        "language_hole",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Settings are those of language_verifiable, fixed on seeds 0 to 2; every seed reported.",
    )
