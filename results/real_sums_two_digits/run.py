"""GRPO on sums of two-digit numbers; all else as in `results/real_sums`."""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from real_sums.run import one

if __name__ == "__main__":
    record(
        "real_sums_two_digits",
        one,
        [{"task": "two digits"}],
        seeds=range(100, 103),
        workers=1,
        digits=4,
        note="Settings of the library and of the example, fixed on seed 0; every seed reported.",
    )
