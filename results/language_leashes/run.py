"""Without its clip: how far one update of PPO goes, with a price on the KL to the reference all the same.

The clip's anchor is the policy that sampled the batch, the KL's is the policy after SFT. What the KL holds,
over many updates, is in `results/language_overoptimisation`, whose runs all have the clip. Here the clip is
cut, and β is 0.3: eight epochs of two minibatches on a batch, so that the policy can go far in one update,
and four updates. Rewards have standard deviation 1 on the policy after SFT, by reward models that read the
last token (`language_chain/shared.py`).

`approx_kl` is the mean of KL(π_old, π_θ) a token, over all gradient steps of an update and then over updates;
`ratio_std` the standard deviation of the ratios, likewise; `kl_update` is what one update moved in the end:
KL(π_θ after it, π_old) of whole texts, exact in each state, over 256 completions, the mean over updates, and
`kl_update_max` the largest. `kl` and the rest are those of the last policy.

The number of epochs was chosen on seed 0; the seeds here are fresh, and all are reported.
"""

import copy
import sys
from pathlib import Path

import numpy as np

from ppobook.experiments import record
from ppobook.language import World, evaluate

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, judge, learner_of, looked_at, sft, summed_up

LR, UPDATES, EPOCHS, BETA = 3e-4, 4, 8, 0.3
NO_CLIP = 1e6
SETTINGS = [
    {"clip_eps": clip_eps, "kl_coef": BETA, "epochs": EPOCHS, "updates": UPDATES}
    for clip_eps in (0.2, NO_CLIP)
]


def one(seed: int, clip_eps: float, kl_coef: float, epochs: int, updates: int) -> dict:
    base, proxy, held_out = sft(seed), judge(seed, "last"), judge(seed, "last", held_out=True)
    how = {"clip_eps": clip_eps, "kl_coef": kl_coef, "lr": LR, "epochs": epochs}
    learner = learner_of("ppo", base, seed, reward=proxy, **how)
    within, moved = [], []
    for number in range(updates):
        before = copy.deepcopy(learner.model)
        learner.set_lr(number)
        metrics = learner.step(number)
        within.append([metrics["approx_kl"], metrics["ratio_std"]])
        after = evaluate(learner.model, World(), reference=before, n=256, seed=20_000 + seed)
        moved.append(after.numbers["kl_reference"])
    approx_kl, ratio_std = np.mean(within, axis=0)
    return {
        "approx_kl": approx_kl,
        "ratio_std": ratio_std,
        "kl_update": np.mean(moved),
        "kl_update_max": np.max(moved),
        **looked_at(learner.model, base, proxy, held_out, seed),
    }


if __name__ == "__main__":
    record(
        "language_leashes",
        one,
        SETTINGS,
        seeds=FRESH,
        digits=4,
        note="The number of epochs chosen on seed 0; every seed reported.",
    )
    columns = ["approx_kl", "ratio_std", "kl_update", "kl_update_max", "kl", "proxy", "held_out", "gold"]
    summed_up("language_leashes", list(SETTINGS[0]), [*columns, "length", "ended"])
