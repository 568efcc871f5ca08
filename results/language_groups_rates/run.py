"""The learning rate of GRPO on tiny sums for each size of a group, on seeds that settle.

Each update has 64 completions, four gradient steps on them and no KL, as in `results/language_verifiable`.
The rates are the three that PPO was tried with (`results/language_critic_rates`). `results/language_groups`
takes, of each size, the one with the largest mean share of right completions at the end.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_verifiable.run import UPDATES, curve

SIZES = (1, 2, 4, 8, 16)
SETTINGS = [{"group_size": size, "lr": lr} for size in SIZES for lr in (3e-4, 1e-3, 3e-3)]
#: A group of one has nothing to be compared with but the batch: GRPO's other lines stay.
ALONE = {"baseline": "batch", "scale": "none", "normalize_advantages": True}


def by_size(seed: int, group_size: int, lr: float, **how: int) -> list[dict]:
    """Measures of GRPO with groups of a size, and 64 / size prompts an update."""
    alone = ALONE if group_size == 1 else {}
    return curve(seed, "grpo", "last", group_size=group_size, lr=lr, **alone, **how)


def one(seed: int, group_size: int, lr: float) -> dict:
    return by_size(seed, group_size, lr, every=UPDATES)[-1]


if __name__ == "__main__":
    record(
        "language_groups_rates",
        one,
        SETTINGS,
        seeds=range(3),
        workers=1,
        digits=4,
        note="Seeds of their own, so that language_groups is measured on seeds that chose nothing.",
    )
