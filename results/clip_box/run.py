"""Chapter 3: where the ratios are when an update is over, in real training with the clip.

Batch, epochs, minibatches, learning rate, discount and λ are those of Schulman et al. 2017, table 3, and ε is
the best of its table 1. What that table does not list stands below; nothing was tuned. A row is one update
and one group of its samples: all of them, or those of one sign of the advantage whose action the old policy
gave a probability in one of four ranges.
"""

import numpy as np
import torch

from ppobook import evaluate, train
from ppobook.experiments import record
from ppobook.ppo import PPO

EPS = 0.2
COMMON = {
    "num_envs": 8,
    "num_steps": 256,
    "epochs": 10,
    "num_minibatches": 32,
    "lr": 3e-4,
    "clip_eps": EPS,
    "gamma": 0.99,
    "lam": 0.95,
    "value_coef": 1.0,
    "entropy_coef": 0.0,
    # Over the batch, so that a sample has one sign in all epochs.
    "normalize_advantages": "batch",
}
SETTINGS = [{"env": "CartPole-v1"}, {"env": "Acrobot-v1"}]
# Above 1 / (1 + ε) no ratio can exceed 1 + ε: no probability is above 1.
EDGES = [0.1, 0.5, 1 / (1 + EPS)]
LIKELY = ["below 0.1", "0.1 to 0.5", "0.5 to 0.83", "above 0.83"]
# The largest KL(old, new) of a state all of whose ratios are in the box.
MOST_INSIDE = -0.5 * np.log(1 - EPS**2)


class Watched(PPO):
    """PPO that notes where the ratios of a batch are when its update is over."""

    presets = {}  # noqa: RUF012
    rows: list[dict]

    def update(self, rollout):
        with torch.no_grad():
            self.before = self.policy.distribution(rollout.observations.transpose(0, 1).flatten(0, 1))
        return super().update(rollout)

    def after_update(self, batch):
        metrics = super().after_update(batch)
        with torch.no_grad():
            now = self.policy.distribution(batch.observations)
        ratio = (now.logp(batch.actions) - batch.old_logp).exp().double().numpy()
        of_all_actions = (now.log_probs - self.before.log_probs).exp().double().numpy()
        kl = self.before.kl(now).double().numpy()
        good = batch.advantages.numpy() > 0
        likely = np.digitize(batch.old_logp.exp().numpy(), EDGES)
        update = 1 if not self.rows else self.rows[-1]["update"] + 1
        states = {
            "approx_kl": metrics["approx_kl"],
            "kl_mean": kl.mean(),
            "kl_most": kl.max(),
            "states_above": (kl > MOST_INSIDE).mean(),
            "states_inside": (abs(of_all_actions - 1) <= EPS).all(axis=1).mean(),
        }
        self.rows.append({"update": update, "sign": "all", "likely": "all", **counted(ratio), **states})
        for sign, name in ((True, "good"), (False, "bad")):
            for i, how_likely in enumerate(LIKELY):
                group = (good == sign) & (likely == i)
                if group.any():
                    row = {"update": update, "sign": name, "likely": how_likely}
                    self.rows.append(row | counted(ratio[group]))
        return metrics


def counted(ratio):
    """Count the samples and those on either side of the box, and return the two most extreme ratios."""
    return {
        "n": len(ratio),
        "above": int((ratio > 1 + EPS).sum()),
        "below": int((ratio < 1 - EPS).sum()),
        "least": ratio.min(),
        "most": ratio.max(),
    }


def one(seed: int, env: str) -> list[dict]:
    Watched.rows = []
    run = train(Watched, env=env, seed=seed, total_steps=50_000, progress=False, **COMMON)
    final = evaluate(run.policy, env, episodes=100, seed=10_000 + seed)["mean"]
    returns = run.history["return_mean"]
    for row in Watched.rows:
        if row["sign"] == "all":
            row |= {"return_mean": returns[row["update"] - 1], "final": final}
    return Watched.rows


if __name__ == "__main__":
    record(
        "clip_box",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Batch, epochs, minibatch, step size, γ, λ of Schulman et al. 2017, table 3; ε of its table 1. "
        "Every seed reported.",
    )
