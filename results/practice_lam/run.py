"""Chapter 6: the same map, λ by learning rate; its row of λ = 0.95 is `practice_clip_lr`."""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from practice_clip_lr.run import LRS, one

SETTINGS = [{"lam": lam, "lr": lr} for lam in (0.0, 0.5, 0.8, 0.98, 1.0) for lr in LRS]


if __name__ == "__main__":
    record(
        "practice_lam",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=3,
        note="The clip range is 0.2, ten epochs a batch; every seed reported.",
    )
