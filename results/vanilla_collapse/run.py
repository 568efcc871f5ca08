"""Chapter 1: how vanilla policy gradient collapses, by SGD and by Adam.

CartPole, in which each step pays 1, 10 or 100. The pole is as hard to balance in all three; only the unit of
the reward differs. Settings were chosen on seeds below 10.
"""

import gymnasium as gym
from gymnasium.wrappers import TransformReward

from ppobook import evaluate, train
from ppobook.experiments import record


def paid_cartpole(pay: float) -> gym.Env:
    return TransformReward(gym.make("CartPole-v1").unwrapped, lambda reward: pay * reward)


gym.register("PaidCartPole-v0", entry_point=paid_cartpole, max_episode_steps=500)

COMMON = {"num_envs": 8, "num_steps": 256}
CRITIC = {"value_lr": 0.01}
SGD = {"optimizer": "sgd", "lr": 0.1, "epochs": 1, "baseline": "mean"}
ADAM = {"optimizer": "adam", "lr": 0.01, "epochs": 1, "baseline": "mean"}
SETTINGS = [
    *({"case": "SGD", "pay": pay, **SGD} for pay in (1, 10, 100)),
    *({"case": "Adam", "pay": pay, **ADAM} for pay in (1, 10, 100)),
    {"case": "Adam, long steps", "pay": 1, **ADAM, "lr": 0.1},
    {"case": "Adam, many steps a batch", "pay": 1, **ADAM, "epochs": 20},
    {"case": "V(s), long steps", "pay": 1, **ADAM, "lr": 0.1, "baseline": "value"},
    {"case": "V(s), many steps a batch", "pay": 1, **ADAM, "epochs": 20, "baseline": "value"},
]


def one(seed: int, case: str, pay: float, **settings: object) -> list[dict]:
    own = settings | (CRITIC if settings["baseline"] == "value" else {})
    run = train(
        "vanilla",
        env="PaidCartPole-v0",
        env_kwargs={"pay": pay},
        seed=seed,
        total_steps=100_000,
        progress=False,
        **COMMON,
        **own,
    )
    final = evaluate(run.policy, "CartPole-v1", episodes=100, seed=10_000 + seed)
    history = run.history.assign(return_mean=run.history["return_mean"] / pay, final=final["mean"])
    return history[["update", "steps", "return_mean", "entropy", "approx_kl", "grad_norm", "final"]].to_dict(
        "records"
    )


if __name__ == "__main__":
    record(
        "vanilla_collapse",
        one,
        SETTINGS,
        seeds=range(100, 110),
        digits=4,
        note="Settings chosen on seeds below 10; every seed reported. "
        "return_mean and final are in steps, whatever a step pays.",
    )
