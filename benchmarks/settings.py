"""The settings of the races, and their sources."""

from __future__ import annotations

from dataclasses import dataclass
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

# The same settings in three spellings. SB3 weighs the whole squared error of the critic where we and CleanRL
# weigh half of it, and its clip falls to 0, which ours may only come near to.
# Where nothing else is said, SB3, CleanRL and the papers agree.
_COMMON = {"gamma": 0.99, "lam": 0.95, "lr": 3e-4, "clip_eps": 0.2, "max_grad_norm": 0.5, "entropy_coef": 0.0}
EQUAL_ZOO = _COMMON | {
    "num_envs": 8,
    "num_steps": 32,
    "num_minibatches": 1,
    "epochs": 20,
    "gamma": 0.98,
    "lam": 0.8,
    "lr": 1e-3,
    "lr_final": 0.0,
    "clip_eps_final": 1e-6,
    "value_coef": 1.0,
}
EQUAL_SB3 = _COMMON | {
    "num_envs": 1,
    "num_steps": 2048,
    "num_minibatches": 32,
    "epochs": 10,
    "value_coef": 1.0,
}
EQUAL_CLEANRL = _COMMON | {
    "num_envs": 4,
    "num_steps": 128,
    "num_minibatches": 4,
    "epochs": 4,
    "lr": 2.5e-4,
    "lr_final": 0.0,
    "value_clip_eps": 0.2,
    "entropy_coef": 0.01,
    "value_coef": 0.5,
}
EQUAL_LUNAR_LANDER = _COMMON | {
    "num_envs": 16,
    "num_steps": 1024,
    "num_minibatches": 256,
    "epochs": 4,
    "gamma": 0.999,
    "lam": 0.98,
    "entropy_coef": 0.01,
    "value_coef": 1.0,
}
EQUAL_HOPPER = _COMMON | {
    "num_envs": 1,
    "num_steps": 512,
    "num_minibatches": 16,
    "epochs": 5,
    "gamma": 0.999,
    "lam": 0.99,
    "lr": 9.80828e-05,
    "entropy_coef": 0.00229519,
    "max_grad_norm": 0.7,
    "value_coef": 2 * 0.835671,
    "hidden": [256, 256],
    "activation": "relu",
    "normalize_observations": True,
    "normalize_rewards": True,
}
# sb3-contrib's defaults in our spelling; its critic takes minibatches of 128, ten times through the batch.
EQUAL_TRPO = {
    "num_envs": 1,
    "num_steps": 2048,
    "gamma": 0.99,
    "lam": 0.95,
    "max_kl": 0.01,
    "cg_iterations": 15,
    "cg_damping": 0.1,
    "line_search_steps": 10,
    "backtrack": 0.8,
    "value_lr": 1e-3,
    "value_epochs": 10,
    "value_minibatches": 16,
}


# ------------------------------------------------------------------ language models, against TRL


@dataclass(frozen=True)
class Equal:
    """A setting with one value on both sides: its meaning, our name, TRL's name, the value."""

    what: str
    ours: str
    trl: str
    value: Any


_LR = Equal("learning rate, constant, of Adam without decay", "lr", "learning_rate", 1e-5)
_CLIPPED = Equal("gradients are clipped to this norm", "max_grad_norm", "max_grad_norm", 1.0)
_GROUPS = Equal("completions of each prompt", "group_size", "num_generations", 8)
_ONCE = Equal("passes over a batch", "epochs", "num_iterations", 1)
_TEMPERATURE = Equal("temperature", "temperature", "temperature", 1.0)

# Where both sides have a name for it. What only one of them has a name for is below.
EQUAL: dict[str, list[Equal]] = {
    "grpo": [
        _LR,
        _CLIPPED,
        _GROUPS,
        _ONCE,
        Equal("clip of the ratio", "clip_eps", "epsilon", 0.2),
        Equal("weight of the KL to the reference, in the loss, k3", "kl_coef", "beta", 0.04),
        _TEMPERATURE,
    ],
    "rloo": [
        _LR,
        _CLIPPED,
        _GROUPS,
        _ONCE,
        Equal("weight of the KL to the reference, in the reward", "kl_coef", "beta", 0.04),
        _TEMPERATURE,
    ],
    "ppo": [
        _LR,
        Equal("passes over a batch", "epochs", "num_ppo_epochs", 4),
        Equal("minibatches", "num_minibatches", "num_mini_batches", 1),
        Equal("clip of the ratio", "clip_eps", "cliprange", 0.2),
        Equal("clip of the value", "value_clip_eps", "cliprange_value", 0.2),
        Equal("weight of half the critic's squared error", "value_coef", "vf_coef", 0.1),
        Equal("weight of the KL to the reference, in the reward", "kl_coef", "kl_coef", 0.05),
        Equal("estimate of the KL", "kl_estimator", "kl_estimator", "k1"),
        Equal("gamma", "gamma", "gamma", 1.0),
        Equal("lambda", "lam", "lam", 0.95),
        _TEMPERATURE,
    ],
    "dpo": [_LR, _CLIPPED, Equal("beta", "beta", "beta", 0.1)],
    "sft": [_LR, _CLIPPED],
}

# The same things where one side has them as another setting, or always.
_SAMPLING = {"batch_size": 64, "max_new_tokens": 24, "warmup": 0}
OURS: dict[str, dict[str, Any]] = {
    "grpo": {**_SAMPLING, "num_minibatches": 1, "reduction": "sequence"},
    "rloo": {**_SAMPLING, "variant": "rloo", "num_minibatches": 1},
    "ppo": {**_SAMPLING, "max_grad_norm": None},  # TRL's PPO clips no gradient
    "dpo": {"batch_size": 64, "warmup": 0, "eval_pairs": 0},
    "sft": {"batch_size": 64, "warmup": 0, "eval_examples": 0},
}
TRL: dict[str, dict[str, Any]] = {
    "grpo": {"weight_decay": 0.0, "steps_per_generation": 1, "loss_type": "grpo"},
    "rloo": {"weight_decay": 0.0, "steps_per_generation": 1},
    "ppo": {
        "weight_decay": 0.0,
        "stop_token": None,
        "local_rollout_forward_batch_size": 64,
        "num_sample_generations": 0,
    },
    "dpo": {"weight_decay": 0.0, "precompute_ref_log_probs": True, "max_length": 28},
    "sft": {"weight_decay": 0.0, "completion_only_loss": True, "packing": False, "max_length": 28},
}

# One default of GRPO differs: TRL multiplies the KL's estimate by the ratio (use_bias_correction_kl=True),
# but ours does not (kl_weighted=False).


def ours_settings(algorithm: str) -> dict[str, Any]:
    return OURS[algorithm] | {one.ours: one.value for one in EQUAL[algorithm]}


def trl_settings(algorithm: str) -> dict[str, Any]:
    return (
        TRL[algorithm]
        | {one.trl: one.value for one in EQUAL[algorithm]}
        | {"per_device_train_batch_size": 64}
    )


LORA = {"r": 16, "alpha": 32}  # on all linear layers, our default


def real_settings(algorithm: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ours and TRL's for a real model with LoRA; a batch of DPO has 16 pairs, all others 32 completions."""
    if algorithm == "generate":
        return {"lora": LORA}, {}
    rows = 16 if algorithm == "dpo" else 32
    ours = {**ours_settings(algorithm), "lora": LORA, "batch_size": rows, "lr": 2e-4}
    theirs = {**trl_settings(algorithm), "per_device_train_batch_size": rows, "learning_rate": 2e-4}
    if "max_new_tokens" in ours:
        ours["max_new_tokens"] = 16
    else:
        theirs["max_length"] = 128
    if algorithm == "ppo":
        theirs["local_rollout_forward_batch_size"] = rows
    return ours, theirs
