"""Chapter 3: clip, penalty and constraint at equal budgets of environment steps.

Networks, batches, advantages and the number of the critic's steps are the same for all. What a method calls
its own (the length of its leash, and one learning rate) was settled by `results/clip_settle`, six pairs each,
on other seeds of CartPole; Acrobot uses the same. "PPO-clip, autograd" is PPO-clip in its plain form, without
the closed form of the gradient, to measure what that costs.
"""

import time

from ppobook import evaluate, train
from ppobook.experiments import record
from ppobook.fast import FastPPO
from ppobook.ppo import PPO
from ppobook.trpo import TRPO

STEPS = {"CartPole-v1": 30_000, "Acrobot-v1": 40_000}
COMMON = {"num_envs": 8, "num_steps": 128, "gamma": 0.99, "lam": 0.95}
STEPPED = {"epochs": 10, "num_minibatches": 8, "value_coef": 1.0, "entropy_coef": 0.0}
SETTLED = {
    "PPO-clip": {"clip_eps": 0.2, "lr": 0.003},
    "PPO-KL, fixed": {"kl_coef": 0.3, "lr": 0.001},
    "PPO-KL, adaptive": {"kl_target": 0.03, "lr": 0.003},
    "TRPO": {"max_kl": 0.03, "value_lr": 0.003},
    "PPO-clip, autograd": {"clip_eps": 0.2, "lr": 0.003},
}
SETTINGS = [
    *({"env": "CartPole-v1", "case": case, **own} for case, own in SETTLED.items()),
    *({"env": "Acrobot-v1", "case": case, **own} for case, own in SETTLED.items() if "autograd" not in case),
]
KEPT = ["update", "steps", "return_mean", "approx_kl", "clip_fraction", "flat_fraction", "beta", "final"]
KEPT += ["cpu"]


class PlainPPO(PPO):
    """PPO as the settings say, whatever the environment."""

    presets = {}  # noqa: RUF012


class QuickPPO(FastPPO):
    """The same, with the gradient in closed form, as it was recorded."""

    presets = {}  # noqa: RUF012


class PlainTRPO(TRPO):
    """TRPO as the settings say, whatever the environment."""

    presets = {}  # noqa: RUF012


# The critic of TRPO takes as many steps as that of PPO.
CASES = {
    "PPO-clip": (QuickPPO, {"objective": "clip", "fast": True, **STEPPED}),
    "PPO-clip, autograd": (PlainPPO, {"objective": "clip", **STEPPED}),
    "PPO-KL, fixed": (PlainPPO, {"objective": "kl", **STEPPED}),
    "PPO-KL, adaptive": (PlainPPO, {"objective": "adaptive_kl", **STEPPED}),
    "TRPO": (PlainTRPO, {"value_epochs": 10, "value_minibatches": 8}),
}


def trained(seed: int, env: str, case: str, own: dict):
    """A run, and the CPU seconds that it took."""
    learner, fixed = CASES[case]
    begun = time.process_time()
    run = train(learner, env=env, seed=seed, total_steps=STEPS[env], progress=False, **COMMON, **fixed, **own)
    return run, time.process_time() - begun


def one(seed: int, env: str, case: str, **own: float) -> list[dict]:
    run, cpu = trained(seed, env, case, own)
    final = evaluate(run.policy, env, episodes=100, seed=10_000 + seed)
    history = run.history.rename(columns={"kl_coef": "beta"})
    history = history.assign(final=final["mean"], cpu=cpu)
    return history.reindex(columns=KEPT).to_dict("records")


if __name__ == "__main__":
    record(
        "clip_compare",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Each method's own two settings by clip_settle, on seeds 0 and 1; every seed reported.",
    )
