"""The learning rate of PPO on tiny sums: the three rates that GRPO was tried with, on seeds that settle.

`results/language_critic` takes the one with the largest mean share of right completions at the end.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_verifiable.run import UPDATES, curve

SETTINGS = [{"lr": lr} for lr in (3e-4, 1e-3, 3e-3)]


def one(seed: int, lr: float) -> dict:
    return curve(seed, "ppo", "last", every=UPDATES, lr=lr)[-1]


if __name__ == "__main__":
    record(
        "language_critic_rates",
        one,
        SETTINGS,
        seeds=range(3),
        workers=1,
        digits=4,
        note="Seeds of their own, so that language_critic is measured on seeds that chose nothing.",
    )
