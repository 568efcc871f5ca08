"""Chapter 3: one epoch, given what ten have: about as many gradient steps, or a higher learning rate.

Every pair of parts and learning rate runs on two groups of seeds. The chapter picks on seeds 0 to 3, by the
mean return of the training episodes over the whole budget, and reports seeds 100 to 109. Of a batch of 1024
steps, 64 parts make 64 gradient steps of 16 samples each, where clip_epochs has 80 of 128 in ten epochs.
"""

import sys
from pathlib import Path

from ppobook import evaluate, train
from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from clip_epochs.run import COMMON, EPS, Plain

SETTINGS = [
    {"case": case, "num_minibatches": parts, "lr": lr}
    for case in ("clip", "no clip")
    for parts in (8, 64)
    for lr in (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
]


def one(seed: int, case: str, num_minibatches: int, lr: float) -> dict:
    own = {"num_minibatches": num_minibatches, "lr": lr, "epochs": 1}
    run = train(
        Plain,
        env="CartPole-v1",
        seed=seed,
        total_steps=30_000,
        clip_eps=1e6 if case == "no clip" else EPS,
        progress=False,
        **COMMON | own,
    )
    final = evaluate(run.policy, "CartPole-v1", episodes=100, seed=10_000 + seed)
    kl = run.history["approx_kl"]
    return {
        "return_mean": run.history["return_mean"].mean(),
        "clip_fraction": run.history["clip_fraction"].mean(),
        "kl_half": kl.median(),
        "kl_most": kl.max(),
        "final": final["mean"],
    }


if __name__ == "__main__":
    record(
        "clip_one_epoch",
        one,
        SETTINGS,
        seeds=[*range(4), *range(100, 110)],
        workers=1,
        digits=4,
        note="All else is as in clip_epochs; picked on seeds 0 to 3, evaluated on the others; all reported.",
    )
