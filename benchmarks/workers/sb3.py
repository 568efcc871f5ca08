"""Stable-Baselines3's PPO and sb3-contrib's TRPO, as a user of RL-Zoo runs them.

A job's settings are those of the library's constructor, in RL-Zoo's spelling: "lin_0.001" falls linearly to
0, `normalize` wraps the environments in VecNormalize (observations and rewards), and `n_envs` of them are
stepped one after the other, which is the library's default and its fastest on one core.
"""

from __future__ import annotations

import contextlib
from typing import Any

import common
import numpy as np
import torch
from sb3_contrib import TRPO
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

ALGORITHMS = {"ppo": PPO, "trpo": TRPO}
ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}


def environments(job: dict[str, Any]) -> VecEnv:
    s = job["settings"]
    envs = make_vec_env(job["env"], n_envs=s.get("n_envs", 1), seed=job["seed"])
    return VecNormalize(envs, gamma=s.get("gamma", 0.99)) if s.get("normalize") else envs


def arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """RL-Zoo's settings as arguments of the constructor."""
    made = {name: value for name, value in settings.items() if name not in ("n_envs", "normalize")}
    for name, value in made.items():
        if isinstance(value, str) and value.startswith("lin_"):
            made[name] = linear(float(value.removeprefix("lin_")))
    if "policy_kwargs" in made:
        made["policy_kwargs"] = dict(made["policy_kwargs"])
        activation = made["policy_kwargs"].get("activation_fn")
        if activation is not None:
            made["policy_kwargs"]["activation_fn"] = ACTIVATIONS[activation]
    return made


def linear(start: float) -> Any:
    return lambda remaining: remaining * start


def actor(model: Any) -> common.Act:
    """The policy as it is now, drawing its actions, for the environments that evaluate it."""
    envs, calls = model.get_env(), 0

    def act(observations: np.ndarray) -> np.ndarray:
        nonlocal calls
        if isinstance(envs, VecNormalize):
            observations = envs.normalize_obs(observations)
        if model.use_sde and calls % max(model.sde_sample_freq, 1) == 0:
            model.policy.reset_noise(len(observations))
        calls += 1
        return model.policy.predict(observations, deterministic=False)[0]

    return act


def run(job: dict[str, Any]) -> dict[str, Any]:
    if not job.get("cold"):
        warm_up(job)
    watch = common.Watch(job)
    kind = ALGORITHMS[job["algorithm"]]

    class Watched(kind):  # type: ignore[misc, valid-type]
        def train(self) -> None:
            super().train()
            watch.after_update(self.num_timesteps, actor(self))

    watch.clock.start()
    envs = environments(job)
    model = Watched("MlpPolicy", envs, seed=job["seed"], device="cpu", **arguments(job["settings"]))
    with contextlib.suppress(common.Enough):
        model.learn(job["total_steps"])
    watch.clock.stop()
    return watch.result()


def warm_up(job: dict[str, Any]) -> None:
    """A few steps beforehand, so that what is imported on first use is not on the clock."""
    few = {**job["settings"], "n_steps": 64}
    if job["algorithm"] == "ppo":
        few |= {"batch_size": 64, "n_epochs": 1}
    small = {**job, "settings": few}
    model = ALGORITHMS[job["algorithm"]]("MlpPolicy", environments(small), device="cpu", **arguments(few))
    model.learn(64)


if __name__ == "__main__":
    common.main(run)
