"""Chapter 6: settings found in a fixed order, and by random search with as many runs, on Acrobot.

The order was found on CartPole's maps; no run on Acrobot had a part in it. A replicate tunes with two seeds
of its own, then trains its choice on ten seeds that chose nothing.
"""

import itertools
import sys
from pathlib import Path

import numpy as np

from ppobook import evaluate, train
from ppobook.experiments import record
from ppobook.ppo import PPO

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from practice_clip_lr.run import COMMON

ENV, STEPS = "Acrobot-v1", 30_000
DEFAULTS = {"lr": 3e-4, "epochs": 10, "clip_eps": 0.2}
GRID = {"lr": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2), "epochs": (3, 10, 30), "clip_eps": (0.1, 0.2, 0.4)}
BUDGET = 9  # settings, two runs each


class PlainPPO(PPO):
    """PPO as the settings say, whatever the environment."""

    presets = {}  # noqa: RUF012


def trained(seed: int, own: dict):
    settings = {**COMMON, **own}
    return train(PlainPPO, env=ENV, seed=seed, total_steps=STEPS, progress=False, **settings)


class Search:
    """Settings that were tried, with the mean return of their training episodes over the whole run."""

    def __init__(self, replicate: int) -> None:
        self.seeds = (2 * replicate, 2 * replicate + 1)
        self.tried: list[dict] = []

    def score(self, own: dict) -> float:
        histories = [trained(seed, own).history for seed in self.seeds]
        score = float(np.mean([history["return_mean"].mean() for history in histories]))
        kl_max = max(history["approx_kl"].max() for history in histories)
        self.tried.append({**own, "score": score, "kl_max": kl_max})
        return score

    def best(self) -> dict:
        best = max(self.tried, key=lambda row: row["score"])
        return {name: best[name] for name in DEFAULTS}


def in_order(search: Search) -> None:
    """The learning rate up until it gets worse; then epochs; then the clip range."""
    last = -np.inf
    for lr in GRID["lr"]:
        score = search.score({**DEFAULTS, "lr": lr})
        if score < last or search.tried[-1]["kl_max"] > 1:
            break
        last = score
    for name in ("epochs", "clip_eps"):
        base = search.best()
        for value in GRID[name]:
            if value != base[name]:
                search.score({**base, name: value})


def at_random(search: Search) -> None:
    """Draw as many settings as the budget has from the grid, without repetition."""
    rng = np.random.default_rng(search.seeds[0])
    grid = list(itertools.product(*GRID.values()))
    for i in rng.choice(len(grid), BUDGET, replace=False):
        search.score(dict(zip(GRID, grid[i], strict=True)))


def untuned(search: Search) -> None:
    search.tried.append({**DEFAULTS, "score": np.nan, "kl_max": np.nan})


METHODS = {"in order": in_order, "at random": at_random, "defaults": untuned}
SETTINGS = [{"method": method} for method in METHODS]


def one(seed: int, method: str) -> list[dict]:
    search = Search(seed)
    METHODS[method](search)
    choice = search.best()
    rows = [{"part": "tuning", **row} for row in search.tried]
    if method == "defaults" and seed > 0:  # one replicate is enough where nothing is chosen
        return rows
    for fresh in range(100, 110):
        run = trained(fresh, choice)
        final = evaluate(run.policy, ENV, episodes=100, seed=10_000 + fresh)["mean"]
        score = run.history["return_mean"].mean()
        rows.append({"part": "final", **choice, "score": score, "fresh_seed": fresh, "final": final})
    return rows


if __name__ == "__main__":
    record(
        "practice_tuning",
        one,
        SETTINGS,
        seeds=range(1),
        workers=1,
        digits=4,
        note="seed is the replicate; fresh_seed the seed of a final run, the same ten for all.",
    )
