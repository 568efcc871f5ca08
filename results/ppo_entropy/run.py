"""Chapter 5: a corridor with a small prize beside the start and a large one at the far end.

The policy is a table. What differs is the weight of the entropy bonus, whether it falls to 0 over the run,
and whether advantages are normalized.
"""

from ppobook import evaluate, train
from ppobook.experiments import record

WORLD = {"length": 11, "start": 1, "slip": 0.0, "left_reward": 0.5, "right_reward": 1.0}
COMMON = {
    "num_envs": 8,
    "num_steps": 64,
    "num_minibatches": 4,
    "epochs": 4,
    "lr": 0.1,
    "gamma": 0.97,
    "lam": 0.95,
    "value_coef": 1.0,
}
SETTINGS = [
    {"advantages": advantages, "coef": coef, "decays": decays}
    for advantages, coef, decays in (
        ("minibatch", 0.0, False),
        ("minibatch", 0.01, False),
        ("minibatch", 0.3, True),
        ("minibatch", 1.0, False),
        ("minibatch", 1.0, True),
        ("none", 0.0, False),
        ("none", 0.1, True),
    )
]


def one(seed: int, advantages: str, coef: float, decays: bool) -> list[dict]:
    run = train(
        "ppo",
        env="ppobook/Chain-v0",
        env_kwargs=WORLD,
        seed=seed,
        total_steps=16_000,
        progress=False,
        normalize_advantages=advantages,
        entropy_coef=coef,
        entropy_coef_final=0.0 if decays else None,
        **COMMON,
    )
    final = evaluate(run.policy, "ppobook/Chain-v0", episodes=200, seed=10_000 + seed, env_kwargs=WORLD)
    history = run.history.assign(final=final["mean"])
    return history[["update", "steps", "return_mean", "entropy", "final"]].to_dict("records")


if __name__ == "__main__":
    record(
        "ppo_entropy",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="World and settings fixed on seeds 0 to 3; every seed reported.",
    )
