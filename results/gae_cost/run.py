"""Chapter 4: what GAE costs in three forms, and the share that it has in an update of PPO on CartPole.

The forms are those of the chapter: a loop over every step of every environment, a torch loop over time that
takes all environments at once, and the library's. Milliseconds of CPU, the median of several calls.
"""

import time
from statistics import median

import numpy as np
import torch

from ppobook import train
from ppobook.experiments import record
from ppobook.ppo import PPO
from ppobook.returns import gae

SHAPES = [{"envs": 8, "steps": 128}, {"envs": 8, "steps": 2048}, {"envs": 128, "steps": 128}]


def step_by_step(rewards, values, terminated, gamma=0.99, lam=0.95):
    advantages = np.zeros_like(rewards)
    for row in range(len(rewards)):
        later = 0.0
        for t in reversed(range(rewards.shape[1])):
            going = 1.0 - terminated[row, t]
            delta = rewards[row, t] + gamma * going * values[row, t + 1] - values[row, t]
            advantages[row, t] = later = delta + gamma * lam * going * later
    return advantages


def all_rows(rewards, values, terminated, gamma=0.99, lam=0.95):
    going = 1.0 - terminated.to(rewards)
    deltas = rewards + gamma * going * values[:, 1:] - values[:, :-1]
    advantages, later = torch.zeros_like(deltas), torch.zeros_like(deltas[:, 0])
    for t in reversed(range(deltas.shape[1])):
        later = deltas[:, t] + gamma * lam * going[:, t] * later
        advantages[:, t] = later
    return advantages


class Timed(PPO):
    """PPO that notes the CPU time of its advantages and of its updates."""

    presets = {}  # noqa: RUF012

    def advantages(self, rollout):
        begun = time.process_time()
        estimated = super().advantages(rollout)
        self.spent = time.process_time() - begun
        return estimated

    def update(self, rollout):
        begun = time.process_time()
        metrics = super().update(rollout)
        return {**metrics, "share": self.spent / (time.process_time() - begun)}


def milliseconds(call, *arguments, calls=9):
    spent = []
    for _ in range(calls):
        begun = time.process_time()
        call(*arguments)
        spent.append(1000 * (time.process_time() - begun))
    return median(spent)


def one(seed: int, envs: int, steps: int) -> list[dict]:
    rng = np.random.default_rng(seed)
    rewards = rng.normal(size=(envs, steps)).astype(np.float32)
    values = rng.normal(size=(envs, steps + 1)).astype(np.float32)
    arrays = rewards, values, rng.random((envs, steps)) < 0.02
    tensors = [torch.from_numpy(x) for x in arrays]
    rows = [
        {"form": "step by step", "ms": milliseconds(step_by_step, *arrays, calls=3)},
        {"form": "torch, all rows", "ms": milliseconds(all_rows, *tensors)},
        {"form": "the library", "ms": milliseconds(gae, *tensors)},
    ]
    run = train(
        Timed,
        env="CartPole-v1",
        seed=seed,
        total_steps=3 * envs * steps,
        num_envs=envs,
        num_steps=steps,
        num_minibatches=8,
        progress=False,
    )
    share = run.history["share"].median()
    return [row | {"share": share if row["form"] == "the library" else None} for row in rows]


if __name__ == "__main__":
    record(
        "gae_cost",
        one,
        SHAPES,
        seeds=range(100, 105),
        workers=1,
        digits=3,
        note="CPU time, so that other load on the machine matters little; one thread.",
    )
