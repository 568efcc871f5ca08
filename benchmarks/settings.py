"""The settings that the race is run at, and where they come from."""

from __future__ import annotations

from typing import Any

# RL-Zoo's tuned settings for Stable-Baselines3: hyperparams/ppo.yml and hyperparams/trpo.yml of
# https://github.com/DLR-RM/rl-baselines3-zoo at this commit. What a file leaves out is the library's default.
ZOO_COMMIT = "22e3ff2450fd92033f7f032915e1f64894a09584"

ZOO_PPO: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "n_envs": 8,
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": "lin_0.001",
        "clip_range": "lin_0.2",
    },
    "Acrobot-v1": {
        "normalize": True,
        "n_envs": 16,
        "n_steps": 256,
        "gae_lambda": 0.94,
        "gamma": 0.99,
        "n_epochs": 4,
        "ent_coef": 0.0,
    },
    "Pendulum-v1": {
        "n_envs": 4,
        "n_steps": 1024,
        "gae_lambda": 0.95,
        "gamma": 0.9,
        "n_epochs": 10,
        "ent_coef": 0.0,
        "learning_rate": 1e-3,
        "clip_range": 0.2,
        "use_sde": True,
        "sde_sample_freq": 4,
    },
    "LunarLander-v3": {
        "n_envs": 16,
        "n_steps": 1024,
        "batch_size": 64,
        "gae_lambda": 0.98,
        "gamma": 0.999,
        "n_epochs": 4,
        "ent_coef": 0.01,
    },
    # The file has them for Hopper-v4, which Hopper-v5 has taken the place of.
    "Hopper-v5": {
        "normalize": True,
        "n_envs": 1,
        "batch_size": 32,
        "n_steps": 512,
        "gamma": 0.999,
        "learning_rate": 9.80828e-05,
        "ent_coef": 0.00229519,
        "clip_range": 0.2,
        "n_epochs": 5,
        "gae_lambda": 0.99,
        "max_grad_norm": 0.7,
        "vf_coef": 0.835671,
        "policy_kwargs": {
            "log_std_init": -2,
            "ortho_init": False,
            "activation_fn": "relu",
            "net_arch": {"pi": [256, 256], "vf": [256, 256]},
        },
    },
}
# How far RL-Zoo trains: the schedules above end there.
ZOO_PPO_STEPS = {
    "CartPole-v1": 100_000,
    "Acrobot-v1": 1_000_000,
    "Pendulum-v1": 100_000,
    "LunarLander-v3": 1_000_000,
    "Hopper-v5": 1_000_000,
}

ZOO_TRPO: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "n_envs": 2,
        "n_steps": 512,
        "batch_size": 512,
        "cg_damping": 1e-3,
        "gae_lambda": 0.98,
        "gamma": 0.99,
        "learning_rate": 1e-3,
        "n_critic_updates": 20,
    },
    "Acrobot-v1": {"normalize": True, "n_envs": 2, "n_steps": 1024},
    "Pendulum-v1": {
        "n_envs": 2,
        "n_steps": 1024,
        "gamma": 0.9,
        "n_critic_updates": 15,
        "use_sde": True,
        "sde_sample_freq": 4,
    },
}

# Peers without a package: files of a public repository at a commit, with their checksums. They are fetched
# once, not kept here. CleanRL: MIT licence. PureJaxRL: Apache licence 2.0.
PEER_FILES: dict[str, dict[str, Any]] = {
    "cleanrl": {
        "name": "CleanRL",
        "repository": "vwxyzjn/cleanrl",
        "commit": "fe8d8a03c41a7ef5b523e2e354bd01c363e786bb",
        "files": {"cleanrl/ppo.py": "d8dfbb7ac0b21e747b77d6e6673e566db4d6cdacc83bcebcd19cf87ad0e459ae"},
    },
    "purejaxrl": {
        "name": "PureJaxRL",
        "repository": "luchris429/purejaxrl",
        "commit": "31756b197773a52db763fdbe6d635e4b46522a73",
        "files": {
            "purejaxrl/ppo.py": "6650c9f8943ed67e8d287d0dd1536e49d8f603e04550cdc506727e46b34024fd",
            "purejaxrl/wrappers.py": "b2dafeafdf83755336d2455955b868bf1d7cb02eeddd81c1591714886651900f",
        },
    },
}
