"""Chapter 2: TRPO on CartPole with steps longer and shorter than the paper's, and vanilla with a short one.

Batch, networks, critic and advantages (lam = 1) are those of vanilla policy gradient with V(s) in
`results/vanilla_cartpole`, but TRPO normalises the advantages. A KL grows with the square of a step: a max_kl
of 1 is a step ten times as long as one of 0.01, as a learning rate of 0.1 is beside 0.01. Vanilla's longer
and usual steps are in `results/vanilla_collapse` and `results/vanilla_cartpole`.
"""

from ppobook import evaluate, train
from ppobook.experiments import record

COMMON = {"num_envs": 8, "num_steps": 256, "hidden": (64, 64), "value_lr": 0.01, "value_epochs": 20}
TRPO = {"lam": 1.0, "value_minibatches": 1}
SETTINGS = [{"algorithm": "trpo", "lr": None, "max_kl": max_kl} for max_kl in (1.0, 0.1, 0.0001)] + [
    {"algorithm": "vanilla", "lr": 0.001, "max_kl": None}
]


def one(seed: int, algorithm: str, lr: float | None, max_kl: float | None) -> list[dict]:
    own = {"lr": lr} if algorithm == "vanilla" else {"max_kl": max_kl, **TRPO}
    run = train(algorithm, env="CartPole-v1", seed=seed, total_steps=100_000, progress=False, **COMMON, **own)
    final = evaluate(run.policy, "CartPole-v1", episodes=100, seed=10_000 + seed)
    history = run.history.assign(final=final["mean"])
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
