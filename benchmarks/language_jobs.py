"""What is raced against TRL: one step of each algorithm, and the settings that make the work equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Job = dict[str, Any]

SEEDS = range(100, 105)
QUICK_SEEDS = range(100, 102)
LARGE_SEEDS = range(100, 103)

SMALL, LARGE = (2, 64), (4, 256)  # layers and width

GPT2 = "ours, the same GPT-2"
DECODER = "ours, our decoder"

# Ours may take so much of TRL's time: what is aimed at, and the worst that is good enough.
GOALS = {"grpo": (1 / 3, 0.45), "ppo": (1 / 3, 0.45), "dpo": (1 / 3, 1.0), "sft": (1 / 3, 1.0)}

TITLES = {"grpo": "GRPO", "ppo": "PPO", "dpo": "DPO", "sft": "SFT", "rloo": "RLOO", "generate": "generation"}


@dataclass(frozen=True)
class Equal:
    """A setting that has one value on both sides: what it is, ours, TRL's, and the value."""

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

# Not the same on both sides: settings that were left at a default, ours and theirs.
UNEQUAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "grpo": ({"kl_weighted": False}, {"use_bias_correction_kl": True}),  # the KL's estimate times the ratio
}


def ours_settings(algorithm: str) -> dict[str, Any]:
    return OURS[algorithm] | {one.ours: one.value for one in EQUAL[algorithm]}


def trl_settings(algorithm: str) -> dict[str, Any]:
    return TRL[algorithm] | {one.trl: one.value for one in EQUAL[algorithm]}


@dataclass(frozen=True)
class Race:
    """One row of the table: an algorithm at a size, ours twice and theirs."""

    algorithm: str
    size: tuple[int, int]
    seeds: Sequence[int]
    warm_up: int
    steps: int
    goal: tuple[float, float] | None = field(default=None)

    @property
    def name(self) -> str:
        return "{}_{}x{}".format(self.algorithm, *self.size)

    @property
    def title(self) -> str:
        return f"{TITLES[self.algorithm]}, {self.size[0]} layers of width {self.size[1]}"

    def jobs(self, seed: int) -> list[Job]:
        """One job for each contestant, ours first; they run back to back."""
        alike = {
            "algorithm": self.algorithm,
            "layers": self.size[0],
            "width": self.size[1],
            "warm_up": self.warm_up,
            "steps": self.steps,
            "seed": seed,
        }
        if self.algorithm == "generate":
            made = [(GPT2, "gpt2"), (DECODER, "decoder"), ("transformers", "transformers")]
            worker = {"peer": "ours", "worker": "language_generation"}
            return [{"label": label, **worker, "model": model, **alike} for label, model in made]
        stage = "grpo" if self.algorithm == "rloo" else self.algorithm
        mine = {"peer": "ours", "worker": "language_ours", "stage": stage, **alike}
        mine["settings"] = ours_settings(self.algorithm)
        peer = "trl_ppo" if self.algorithm == "ppo" else "trl"
        theirs = {"peer": peer, "worker": "language_trl", **alike, "settings": trl_settings(self.algorithm)}
        return [
            {"label": GPT2, "model": "gpt2", **mine},
            {"label": DECODER, "model": "decoder", **mine},
            {"label": "TRL", **theirs},
        ]


def bench() -> list[Race]:
    """`make bench-language`: five seeds of the small model, three of the larger one."""
    return [
        *(_race(name, SMALL, SEEDS, 12) for name in ("grpo", "ppo", "dpo", "sft", "rloo", "generate")),
        *(_race(name, LARGE, LARGE_SEEDS, 3) for name in ("grpo", "ppo", "dpo", "sft", "generate")),
    ]


def quick() -> list[Race]:
    """Two seeds, and the small model only."""
    return [_race(name, SMALL, QUICK_SEEDS, 8) for name in ("grpo", "ppo", "dpo", "sft", "generate")]


def _race(algorithm: str, size: tuple[int, int], seeds: Sequence[int], steps: int) -> Race:
    # In PPO's step there are four times the passes of the others.
    few = algorithm == "ppo"
    return Race(algorithm, size, seeds, 2, max(3, steps // 2) if few else steps, GOALS.get(algorithm))
