"""Chapter 2: TRPO beside vanilla policy gradient with V(s), each with three lengths of step, on CartPole.

Batch, networks, critic and advantages (lam = 1) are the same, but TRPO normalises them. A KL grows with the
square of a step, so 1e-4 to 1 for max_kl spans what 1e-3 to 1e-1 spans for a learning rate: a factor of 100
in the step's length.
"""

from ppobook import evaluate, train
from ppobook.experiments import record

COMMON = {"num_envs": 8, "num_steps": 256, "hidden": (64, 64), "value_lr": 0.01, "value_epochs": 20}
TRPO = {"lam": 1.0, "value_minibatches": 1}
LENGTHS = [(0.1, 1.0), (0.01, 0.01), (0.001, 0.0001)]
SETTINGS = [
    setting
    for lr, max_kl in LENGTHS
    for setting in (
        {"algorithm": "trpo", "lr": None, "max_kl": max_kl},
        {"algorithm": "vanilla", "lr": lr, "max_kl": None},
    )
]


def one(seed: int, algorithm: str, lr: float | None, max_kl: float | None) -> list[dict]:
    own = {"lr": lr} if algorithm == "vanilla" else {"max_kl": max_kl, **TRPO}
    run = train(algorithm, env="CartPole-v1", seed=seed, total_steps=100_000, progress=False, **COMMON, **own)
    judged = evaluate(run.policy, "CartPole-v1", episodes=100, seed=10_000 + seed)
    history = run.history.assign(final=judged["mean"])
    return history[["update", "steps", "return_mean", "entropy", "approx_kl", "final"]].to_dict("records")


if __name__ == "__main__":
    record(
        "trust_cartpole",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="The lengths of step were fixed before any run; every seed reported. "
        "final: the mean of 100 stochastic episodes after training.",
    )
