"""Chapter 3: CPU seconds of the runs of clip_compare on CartPole.

All cases of a seed run one after the other in one process, so that other load on the machine affects all of
them alike.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from clip_compare.run import SETTLED, trained


def one(seed: int, env: str) -> list[dict]:
    rows = []
    for case, own in SETTLED.items():
        run, cpu = trained(seed, env, case, own)
        rows.append({"case": case, "steps": run.history["steps"].iloc[-1], "cpu": cpu})
    return rows


if __name__ == "__main__":
    record(
        "clip_cost",
        one,
        [{"env": "CartPole-v1"}],
        seeds=range(100, 105),
        workers=1,
        digits=4,
        note="Training only, without the evaluation afterwards; one thread.",
    )
