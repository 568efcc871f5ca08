"""Between PPO and GRPO on tiny sums: the critic out and nothing else, and GRPO without its two divisions.

    PPO           critic, λ = .95; advantages normalized over the batch; mean over tokens
    critic out    the group's mean in the critic's place, and nothing else: one advantage for a text
    neither       not normalized; the sum of all tokens by one constant (Dr. GRPO, Liu et al. 2025)
    GRPO          divided by the group's standard deviation, and each text by its own length

The first and the last are the runs of `results/language_verifiable`, and not repeated here; task, policies,
measures and learning rate are theirs. Adam's step does not depend on the scale of the loss, so arms differ in
what they favour, and not in how far they go at once.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_verifiable.run import curve

ARMS = {
    "critic out": {"scale": "none", "normalize_advantages": True, "reduction": "token"},
    "neither": {"scale": "none", "reduction": "constant"},
}


def one(seed: int, arm: str) -> list[dict]:
    return curve(seed, "grpo", "last", **ARMS[arm])


if __name__ == "__main__":
    record(
        "language_divisions",
        one,
        [{"arm": arm} for arm in ARMS],
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Task and learning rate are those of language_verifiable; every seed reported.",
    )
