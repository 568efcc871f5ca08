"""Chapter 1: what an action's weight is worth on CartPole, and whether advantages must be normalised."""

from ppobook import evaluate, train
from ppobook.experiments import record

COMMON = {"num_envs": 8, "num_steps": 256, "hidden": (64, 64)}
CRITIC = {"value_lr": 0.01, "value_epochs": 20}
WEIGHTS = [
    {"case": "whole return", "weight": "return", "baseline": "none"},
    {"case": "reward-to-go", "weight": "reward_to_go", "baseline": "none"},
    {"case": "minus the mean", "weight": "reward_to_go", "baseline": "mean"},
    {"case": "minus V(s)", "weight": "reward_to_go", "baseline": "value"},
]
BY_MEAN = WEIGHTS[2]
# Adam without normalising is "minus the mean" itself.
SETTINGS = [{**w, "optimizer": "adam", "lr": 0.01, "normalize_advantages": False} for w in WEIGHTS] + [
    {**BY_MEAN, "case": "Adam, normalised", "optimizer": "adam", "lr": 0.01, "normalize_advantages": True},
    {**BY_MEAN, "case": "SGD", "optimizer": "sgd", "lr": 0.1, "normalize_advantages": False},
    {**BY_MEAN, "case": "SGD, normalised", "optimizer": "sgd", "lr": 0.1, "normalize_advantages": True},
    {**BY_MEAN, "case": "SGD, normalised, lr 3", "optimizer": "sgd", "lr": 3.0, "normalize_advantages": True},
]


def one(seed: int, case: str, **settings: object) -> list[dict]:
    own = settings | (CRITIC if settings["baseline"] == "value" else {})
    run = train("vanilla", env="CartPole-v1", seed=seed, total_steps=100_000, progress=False, **COMMON, **own)
    final = evaluate(run.policy, "CartPole-v1", episodes=100, seed=10_000 + seed)
    history = run.history.assign(final=final["mean"])
    return history[["update", "steps", "return_mean", "entropy", "approx_kl", "grad_norm", "final"]].to_dict(
        "records"
    )


if __name__ == "__main__":
    record(
        "vanilla_cartpole",
        one,
        SETTINGS,
        seeds=range(100, 110),
        digits=4,
        note="Settings chosen on seeds below 10; every seed reported. "
        "final: the mean of 100 stochastic episodes after training.",
    )
