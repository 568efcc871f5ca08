"""Chapter 6: a map of PPO on CartPole, clip range by learning rate; what each gauge showed, and when.

All else is fixed. The thresholds are those of `ppobook doctor`, chosen before any of these runs.
"""

import numpy as np
import pandas as pd

from ppobook import evaluate, train
from ppobook.experiments import record

COMMON = {
    "num_envs": 16,
    "num_steps": 64,
    "num_minibatches": 4,
    "epochs": 10,
    "clip_eps": 0.2,
    "clip_eps_final": None,
    "lr_final": None,
    "gamma": 0.99,
    "lam": 0.95,
    "value_coef": 1.0,
    "entropy_coef": 0.0,
}
LRS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
SETTINGS = [{"clip_eps": eps, "lr": lr} for eps in (0.05, 0.1, 0.2, 0.4, 0.8) for lr in LRS]
GAUGES = {"kl": "approx_kl", "clip": "clip_fraction", "ev": "explained_variance", "entropy": "entropy"}
EARLY = 5  # updates, of 30: what a user could read after a sixth of the run


def first(where: pd.Series) -> float:
    """The first update (from 1) in which it is so; nan if it never is."""
    return float(np.argmax(where)) + 1 if where.any() else np.nan


def summary(history: pd.DataFrame) -> dict:
    """One row for a run: how its return went, and what its gauges showed."""
    gauge = {name: history[column].reset_index(drop=True) for name, column in GAUGES.items()}
    smooth = history["return_mean"].ffill().rolling(3, min_periods=1).mean().reset_index(drop=True)
    later = np.arange(len(history)) >= len(history) // 4  # a new critic may be wrong
    crossed = {
        "kl": gauge["kl"] > 0.05,
        "clip": gauge["clip"] > 0.5,
        "ev": (gauge["ev"] < -0.1) & later,
        "entropy": gauge["entropy"] < 0.1 * np.log(2),
    }
    row = {"train_mean": history["return_mean"].mean(), "best": smooth.max()}
    row["fell_at"] = first(smooth < smooth.cummax() / 2)
    row |= {f"{name}_at": first(where) for name, where in crossed.items()}
    row |= {f"{name}_early": x[:EARLY].mean() for name, x in gauge.items()}
    row |= {f"{name}_last": x[-EARLY:].mean() for name, x in gauge.items()}
    row |= {"kl_max": gauge["kl"].max(), "clip_max": gauge["clip"].max()}
    return row | {"ev_min": gauge["ev"][later].min(), "entropy_min": gauge["entropy"].min()}


def one(seed: int, **own: float) -> dict:
    run = train("ppo", env="CartPole-v1", seed=seed, total_steps=30_000, progress=False, **{**COMMON, **own})
    final = evaluate(run.policy, "CartPole-v1", episodes=100, seed=10_000 + seed)
    return {"final": final["mean"], **summary(run.history)}


if __name__ == "__main__":
    record(
        "practice_clip_lr",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=2,
        digits=3,
        note="Ten epochs a batch; every seed reported.",
    )
