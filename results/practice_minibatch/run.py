"""Chapter 6: the same map, minibatches by learning rate, in two ways.

A batch has 1024 steps. At ten epochs, smaller minibatches make more gradient steps of it. With the epochs
chosen so that it is always 40 steps, only the size differs. `practice_clip_lr` has what both share, four
minibatches in ten epochs.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from practice_clip_lr.run import LRS, one

TEN_EPOCHS = [(32, 10), (16, 10), (1, 10)]  # minibatches, epochs
FORTY_STEPS = [(40, 1), (8, 5), (1, 40)]
SETTINGS = [
    {"num_minibatches": count, "epochs": epochs, "lr": lr}
    for count, epochs in TEN_EPOCHS + FORTY_STEPS
    for lr in LRS
]


if __name__ == "__main__":
    record(
        "practice_minibatch",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=3,
        note="The clip range is 0.2; every seed reported.",
    )
