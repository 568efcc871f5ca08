"""The settings of the control algorithms and their defaults. Importing this module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ppobook.run.settings import Settings, setting


@dataclass(frozen=True)
class ControlSettings(Settings):
    """The settings that every algorithm has."""

    arguments = (*Settings.arguments, "algorithm", "env", "total_steps")

    num_envs: int = setting(8, "environments stepped side by side", low=1, high=10_000)
    num_steps: int = setting(128, "steps that each environment takes in one update", low=1, high=1_000_000)
    gamma: float = setting(0.99, "discount γ", low=0, high=1)
    hidden: tuple[int, ...] = setting(
        (64, 64),
        "widths of the hidden layers, in the policy and in the critic; (): none",
        low=1,
        high=8192,
    )
    env_kwargs: dict[str, Any] = setting({}, "keyword arguments for the environment")  # noqa: RUF009
    fast: bool = setting(False, "train by the faster form in ppobook.fast, which computes the same numbers")


@dataclass(frozen=True)
class ActorCriticSettings(ControlSettings):
    """The settings that TRPO and PPO share."""

    lam: float = setting(0.95, "λ of GAE: 0 is the one-step TD error, 1 the whole return", low=0, high=1)
    normalize_observations: bool = setting(
        False, "normalize observations by their running mean and standard deviation"
    )
    normalize_rewards: bool = setting(
        False, "divide rewards by the running standard deviation of the discounted return"
    )
    activation: str = setting("tanh", "activation of the hidden layers", choices=("tanh", "relu"))
    initial_std: float = setting(
        1.0,
        "initial standard deviation of continuous actions, as a share of half their range",
        low=1e-6,
    )


@dataclass(frozen=True)
class VanillaSettings(ControlSettings):
    """The settings of vanilla policy gradient, and their defaults."""

    weight: str = setting(
        "reward_to_go",
        "what multiplies the score: the return of the whole episode, or the rewards from the step on",
        choices=("return", "reward_to_go"),
    )
    baseline: str = setting(
        "value",
        "what is subtracted from it: nothing, the mean of the batch, or a learned V(s)",
        choices=("none", "mean", "value"),
    )
    optimizer: str = setting("adam", "optimizer of policy and critic", choices=("adam", "sgd"))
    lr: float = setting(3e-3, "learning rate of the policy", above=0, high=1e37)
    epochs: int = setting(1, "gradient steps on one batch; only the first one is on-policy", low=1)
    entropy_coef: float = setting(0.0, "weight of the entropy bonus", low=0)
    normalize_advantages: bool = setting(
        False, "normalize the weights of a batch to mean 0 and standard deviation 1"
    )
    value_lr: float = setting(3e-3, "learning rate of the critic", above=0, high=1e37)
    value_epochs: int = setting(20, "gradient steps of the critic on one batch", low=1)


@dataclass(frozen=True)
class TRPOSettings(ActorCriticSettings):
    """The settings of TRPO, and their defaults."""

    num_steps: int = setting(256, "steps that each environment takes in one update", low=1, high=1_000_000)
    max_kl: float = setting(0.01, "δ: upper bound on the mean KL divergence of a step, in nats", above=0)
    fisher_share: float = setting(
        1.0, "share of the batch that the Fisher matrix is averaged over", above=0, high=1
    )
    cg_iterations: int = setting(10, "iterations of conjugate gradient: products F v", low=1)
    cg_damping: float = setting(0.1, "damping: added to the diagonal of F", low=0)
    line_search_steps: int = setting(10, "step lengths that the line search tries", low=1)
    backtrack: float = setting(0.8, "α: factor from one step length to the next", above=0, high=0.99)
    normalize_advantages: bool = setting(
        True, "normalize the advantages of a batch to mean 0 and standard deviation 1"
    )
    value_lr: float = setting(1e-3, "learning rate of the critic", above=0, high=1e37)
    value_epochs: int = setting(10, "epochs of the critic on one batch", low=1)
    value_minibatches: int = setting(16, "minibatches of an epoch of the critic", low=1)


@dataclass(frozen=True)
class PPOSettings(ActorCriticSettings):
    """The settings of PPO, and their defaults.

    A setting with a `_final` goes from the one to the other in a straight line over `total_steps`.
    """

    num_steps: int = setting(2048, "steps that each environment takes in one update", low=1, high=1_000_000)
    epochs: int = setting(10, "epochs on one batch", low=1)
    num_minibatches: int = setting(32, "minibatches of an epoch", low=1)
    objective: str = setting(
        "clip",
        "surrogate objective: clipped ratio, fixed KL penalty, or KL penalty adapted to kl_target",
        choices=("clip", "kl", "adaptive_kl"),
    )
    clip_eps: float = setting(0.2, "ε: the ratio is clipped to [1 − ε, 1 + ε]", above=0)
    clip_eps_high: float | None = setting(None, "ε of the upper bound; none: clip_eps", above=0)
    clip_eps_final: float | None = setting(None, "ε at total_steps; none: constant", above=0)
    kl_coef: float = setting(1.0, "β of the KL penalty; with adaptive_kl, its initial value", low=0)
    kl_target: float = setting(0.01, "KL divergence of an update that β is adapted to, in nats", above=0)
    max_kl: float | None = setting(
        None,
        "stop an update after an epoch with a mean KL above this, in nats; none: never",
        above=0,
    )
    lr: float = setting(3e-4, "learning rate of Adam", above=0, high=1e37)
    lr_final: float | None = setting(None, "learning rate at total_steps; none: constant", low=0, high=1e37)
    adam_eps: float = setting(1e-5, "ε of Adam", above=0)
    max_grad_norm: float | None = setting(0.5, "gradient clipping: maximum norm; none: no clipping", above=0)
    value_coef: float = setting(0.5, "weight of the value loss, ½ (V − return)²", low=0)
    value_clip_eps: float | None = setting(
        None,
        "value clipping: how far V may move from its old value; none: no clipping",
        above=0,
    )
    entropy_coef: float = setting(0.01, "weight of the entropy bonus", low=0)
    entropy_coef_final: float | None = setting(
        None, "weight of the entropy bonus at total_steps; none: constant", low=0
    )
    normalize_advantages: str = setting(
        "minibatch",
        "normalize advantages to mean 0 and standard deviation 1 over each minibatch, the batch, or not",
        choices=("minibatch", "batch", "none"),
    )
    shared_trunk: bool = setting(False, "policy and critic share all layers but the last")


SETTINGS: dict[str, type[ControlSettings]] = {
    "vanilla": VanillaSettings,
    "trpo": TRPOSettings,
    "ppo": PPOSettings,
}
