"""The learning rates of `results/language_methods`: four for each method, seeds 0 to 2.

What counts is the mean of gold when the budget of tokens is spent. Each method is tried at the same rates,
each about three times the one before.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.run import summed_up
from language_methods.run import STAGES, one

RATES = (1e-4, 3e-4, 1e-3, 3e-3)

if __name__ == "__main__":
    record(
        "language_settle",
        one,
        [{"method": method, "lr": lr} for method in STAGES for lr in RATES],
        seeds=range(3),
        workers=1,
        digits=4,
        note="Seeds of their own, so that language_methods is measured on seeds that chose nothing.",
    )
    summed_up("language_settle", ["method", "lr"], ["gold", "proxy", "kl", "length", "ended", "cpu"])
