"""Chapter 6: vanilla policy gradient by the protocol of `results/clip_compare`, which has the other methods.

Networks, batches and steps are the same, and so is the effort in tuning: six pairs of its own two settings,
two seeds each. PPO-clip runs beside it once more, so that processor times can be compared.
"""

import sys
import time
from pathlib import Path

from ppobook import evaluate, train
from ppobook.experiments import record
from ppobook.vanilla import Vanilla

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from clip_compare.run import COMMON, SETTLED, STEPS
from clip_compare.run import trained as compared

PAIRS = [{"lr": lr, "value_lr": value_lr} for lr in (3e-3, 1e-2, 3e-2) for value_lr in (3e-3, 1e-2)]
SETTINGS = [{"env": env, "case": case} for env in STEPS for case in ("vanilla", "PPO-clip")]


class PlainVanilla(Vanilla):
    """Vanilla policy gradient as the settings say, whatever the environment."""

    presets = {}  # noqa: RUF012


def trained(seed: int, env: str, case: str, own: dict):
    """A run, and the CPU seconds that it took."""
    if case == "PPO-clip":
        return compared(seed, env, case, SETTLED[case])
    begun = time.process_time()
    run = train(
        PlainVanilla,
        env=env,
        seed=seed,
        total_steps=STEPS[env],
        progress=False,
        num_envs=COMMON["num_envs"],
        num_steps=COMMON["num_steps"],
        gamma=COMMON["gamma"],
        normalize_advantages=True,
        **own,
    )
    return run, time.process_time() - begun


def settle() -> dict:
    """The pair with the best mean return of training episodes, over seeds 0 and 1 of CartPole."""

    def score(own: dict) -> float:
        runs = [trained(seed, "CartPole-v1", "vanilla", own)[0] for seed in range(2)]
        return sum(run.history["return_mean"].mean() for run in runs)

    return max(PAIRS, key=score)


def one(seed: int, env: str, case: str) -> dict:
    run, cpu = trained(seed, env, case, CHOSEN)
    final = evaluate(run.policy, env, episodes=100, seed=10_000 + seed)
    history = run.history
    late = history["return_mean"][history["steps"] > STEPS[env] / 2].mean()
    return {"final": final["mean"], "late": late, "cpu": cpu, "kl_median": history["approx_kl"].median()}


# By `settle()`.
CHOSEN = {"lr": 3e-2, "value_lr": 1e-2}

if __name__ == "__main__":
    record(
        "practice_methods",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="late: the mean return of training episodes in the second half, as chapter 3 compares them.",
    )
