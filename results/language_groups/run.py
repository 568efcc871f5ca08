"""GRPO on tiny sums with groups of 1 to 16: 64 completions an update, of 64 prompts to 4.

A group of one has no mean of its own, and is compared with the whole batch: a policy gradient without a
critic and without groups. PPO has 64 prompts an update too (`results/language_critic`). The rate of each size
is the one of three with most right at the end, on seeds 0 to 2 (`results/language_groups_rates`).
"""

import sys
from pathlib import Path

from ppobook.experiments import record, results

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_groups_rates.run import SIZES, by_size


def chosen(size: int) -> float:
    """The rate with the largest mean of right at the end, of those tried with groups of a size."""
    tried = results("language_groups_rates")
    return float(tried[tried["group_size"] == size].groupby("lr")["right"].mean().idxmax())


SETTINGS = [{"group_size": size, "lr": chosen(size)} for size in SIZES]


def one(seed: int, group_size: int, lr: float) -> list[dict]:
    return by_size(seed, group_size, lr)


if __name__ == "__main__":
    record(
        "language_groups",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Rates were chosen by language_groups_rates, on seeds 0 to 2; every seed reported.",
    )
