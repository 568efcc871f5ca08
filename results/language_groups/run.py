"""GRPO on tiny sums with groups of 1 to 16: 64 completions an update, of 64 prompts to 4.

A group of one has no mean of its own, and is compared with the whole batch: a policy gradient without a
critic and without groups. PPO has 64 prompts an update too (`results/language_critic`). The rate of each size
is the one of three with most right at the end, on seeds 0 to 2 (`results/language_groups_rates`).

A control has groups of 8 and is compared with the whole batch all the same, so that it differs from groups of
one in its number of prompts only. It has both rates that were chosen for some size.
"""

import sys
from pathlib import Path

from ppobook.experiments import record, results

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_groups_rates.run import ALONE, SIZES
from language_verifiable.run import curve


def chosen(size: int) -> float:
    """The rate with the largest mean of right at the end, of those tried with groups of a size."""
    tried = results("language_groups_rates")
    return float(tried[tried["group_size"] == size].groupby("lr")["right"].mean().idxmax())


SETTINGS = [
    {"group_size": size, "lr": chosen(size), "baseline": "batch" if size == 1 else "group"} for size in SIZES
]
SETTINGS += [{"group_size": 8, "lr": lr, "baseline": "batch"} for lr in (3e-4, 1e-3)]


def one(seed: int, group_size: int, lr: float, baseline: str) -> list[dict]:
    lines = ALONE if baseline == "batch" else {}
    return curve(seed, "grpo", "last", group_size=group_size, lr=lr, **lines)


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
