"""Chapter 3: what an update's diagnostics say as the learning rate rises, on CartPole with the clip."""

from ppobook import evaluate, train
from ppobook.experiments import record

COMMON = {
    "num_envs": 8,
    "num_steps": 128,
    "epochs": 10,
    "num_minibatches": 8,
    "clip_eps": 0.2,
    "clip_eps_final": None,
    "lr_final": None,
    "gamma": 0.99,
    "lam": 0.95,
    "value_coef": 1.0,
    "entropy_coef": 0.0,
}
SETTINGS = [{"lr": lr} for lr in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)]
KEPT = ["update", "steps", "return_mean", "entropy", "clip_fraction", "flat_fraction", "ratio_mean"]
KEPT += ["ratio_std", "minibatch_kl", "approx_kl", "final"]


def one(seed: int, lr: float) -> list[dict]:
    run = train("ppo", env="CartPole-v1", seed=seed, total_steps=30_000, lr=lr, progress=False, **COMMON)
    final = evaluate(run.policy, "CartPole-v1", episodes=100, seed=10_000 + seed)
    return run.history.assign(final=final["mean"])[KEPT].to_dict("records")


if __name__ == "__main__":
    record(
        "clip_lr",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Everything but the learning rate is as in clip_compare; every seed reported.",
    )
