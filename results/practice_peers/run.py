"""Chapter 6: this library's PPO and Stable-Baselines3's, at the same settings, judged by the same protocol.

Needs stable-baselines3, which the book does not. Both train on as many steps with as many environments; then
each plays the same hundred episodes, one in each of a hundred environments, with actions drawn.
"""

import time
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch

from ppobook import train
from ppobook.experiments import record

STEPS = {"CartPole-v1": 30_720}
ENVS, STEPS_EACH, MINIBATCHES = 16, 64, 4
SETTINGS = [{"env": env, "library": library} for env in STEPS for library in ("ours", "SB3")]


def ours(env: str, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    run = train(
        "ppo",
        env=env,
        seed=seed,
        total_steps=STEPS[env],
        num_envs=ENVS,
        num_steps=STEPS_EACH,
        epochs=10,
        num_minibatches=MINIBATCHES,
        lr=0.003,
        lr_final=None,
        gamma=0.99,
        lam=0.95,
        clip_eps=0.2,
        clip_eps_final=None,
        value_coef=1.0,
        entropy_coef=0.0,
        max_grad_norm=0.5,
        adam_eps=1e-5,
        normalize_advantages="minibatch",
        normalize_rewards=False,
        hidden=(64, 64),
        activation="tanh",
        progress=False,
    )
    generator = torch.Generator().manual_seed(seed)

    def act(observations: np.ndarray) -> np.ndarray:
        return run.policy.sample(torch.as_tensor(observations), generator)[0].numpy()

    return act


def sb3(env: str, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    model = PPO(
        "MlpPolicy",
        make_vec_env(env, n_envs=ENVS, seed=seed),
        seed=seed,
        n_steps=STEPS_EACH,
        n_epochs=10,
        batch_size=ENVS * STEPS_EACH // MINIBATCHES,
        learning_rate=0.003,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        vf_coef=0.5,
        ent_coef=0.0,
        max_grad_norm=0.5,
        normalize_advantage=True,
        policy_kwargs={"net_arch": [64, 64], "activation_fn": torch.nn.Tanh},
        device="cpu",
    )
    model.learn(STEPS[env])
    return lambda observations: model.predict(observations, deterministic=False)[0]


def judge(act: Callable[[np.ndarray], np.ndarray], env: str, seed: int, episodes: int = 100) -> float:
    """The mean return of whole episodes, one from each of as many environments."""
    envs = [gym.make(env) for _ in range(episodes)]
    seen = np.array([one.reset(seed=seed + i)[0] for i, one in enumerate(envs)], np.float32)
    returns, going = np.zeros(episodes), np.arange(episodes)
    while len(going):
        ended = []
        for i, action in zip(going, act(seen[going]), strict=True):
            seen[i], reward, terminated, truncated, _ = envs[i].step(action)
            returns[i] += reward
            ended.append(terminated or truncated)
        going = going[~np.array(ended)]
    return float(returns.mean())


def one(seed: int, env: str, library: str) -> dict:
    begun = time.process_time()
    act = {"ours": ours, "SB3": sb3}[library](env, seed)
    cpu = time.process_time() - begun
    return {"final": judge(act, env, 10_000 + 1000 * seed), "cpu": cpu}


if __name__ == "__main__":
    record(
        "practice_peers",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Settings as in practice_clip_lr, mapped name by name; stable-baselines3 2.9.2; every seed.",
    )
