"""Chapter 6: the same map, epochs by learning rate; its row of ten epochs is `practice_clip_lr`."""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from practice_clip_lr.run import LRS, one

SETTINGS = [{"epochs": epochs, "lr": lr} for epochs in (1, 2, 5, 30) for lr in LRS]


if __name__ == "__main__":
    record(
        "practice_epochs_lr",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=3,
        note="The clip range is 0.2; every seed reported.",
    )
