"""Chapter 3: the settings of clip_compare, settled with equal effort: six pairs a method, two seeds each.

What counts is the mean return of the training episodes, over the whole of the budget. All is settled on
CartPole; clip_compare carries it to Acrobot as it is.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from clip_compare.run import trained

LRS = (1e-3, 3e-3)
GRIDS = {
    "PPO-clip": [{"clip_eps": x, "lr": lr} for x in (0.1, 0.2, 0.3) for lr in LRS],
    "PPO-KL, fixed": [{"kl_coef": x, "lr": lr} for x in (0.3, 1.0, 3.0) for lr in LRS],
    "PPO-KL, adaptive": [{"kl_target": x, "lr": lr} for x in (0.003, 0.01, 0.03) for lr in LRS],
    "TRPO": [{"max_kl": x, "value_lr": lr} for x in (0.01, 0.03, 0.1) for lr in LRS],
}
SETTINGS = [{"env": "CartPole-v1", "case": case, **own} for case, grid in GRIDS.items() for own in grid]


def one(seed: int, env: str, case: str, **own: float) -> dict:
    run, cpu = trained(seed, env, case, own)
    kl = run.history["approx_kl"].median()
    return {"return_mean": run.history["return_mean"].mean(), "approx_kl": kl, "cpu": cpu}


if __name__ == "__main__":
    record(
        "clip_settle",
        one,
        SETTINGS,
        seeds=range(2),
        workers=1,
        digits=4,
        note="Seeds of their own, so that clip_compare is measured on seeds that chose nothing.",
    )
