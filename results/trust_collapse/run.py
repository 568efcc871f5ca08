"""Chapter 2: TRPO on the CartPole of `results/vanilla_collapse`, in which each step pays 1, 10 or 100.

The same seeds and batches as there, and the critic of its learners with V(s); with lam = 1 their advantages
too, but normalised. max_kl is the paper's.
"""

import gymnasium as gym
from gymnasium.wrappers import TransformReward

from ppobook import evaluate, train
from ppobook.experiments import record


def paid_cartpole(pay: float) -> gym.Env:
    return TransformReward(gym.make("CartPole-v1").unwrapped, lambda reward: pay * reward)


gym.register("PaidCartPole-v0", entry_point=paid_cartpole, max_episode_steps=500)

COMMON = {"num_envs": 8, "num_steps": 256, "lam": 1.0}
CRITIC = {"value_lr": 0.01, "value_epochs": 20, "value_minibatches": 1}
SETTINGS = [{"case": "TRPO", "pay": pay, "max_kl": 0.01} for pay in (1, 10, 100)]


def one(seed: int, case: str, pay: float, **settings: object) -> list[dict]:
    run = train(
        "trpo",
        env="PaidCartPole-v0",
        env_kwargs={"pay": pay},
        seed=seed,
        total_steps=100_000,
        progress=False,
        **COMMON,
        **CRITIC,
        **settings,
    )
    final = evaluate(run.policy, "CartPole-v1", episodes=100, seed=10_000 + seed)
    history = run.history.assign(return_mean=run.history["return_mean"] / pay, final=final["mean"])
    columns = ["update", "steps", "return_mean", "entropy", "approx_kl", "step_kl", "accepted"]
    return history[[*columns, "line_search_steps", "explained_variance", "final"]].to_dict("records")


if __name__ == "__main__":
    record(
        "trust_collapse",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="max_kl is the paper's; nothing was tuned. Every seed reported. "
        "return_mean and final are in steps, whatever a step pays.",
    )
