"""TODO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ppobook.envs import MOST_ENVS

# These are at hand here too, for whoever has a run in hand.
from ppobook.run.interrupts import Interrupted as Interrupted
from ppobook.run.machine import threads as threads
from ppobook.run.settings import Settings, setting, storable


@dataclass(frozen=True)
class ControlSettings(Settings):
    """The settings that every algorithm has."""

    num_envs: int = setting(8, "environments stepped side by side", low=1, high=MOST_ENVS)
    num_steps: int = setting(128, "steps that each environment takes before an update", low=1, high=1_000_000)
    gamma: float = setting(0.99, "discount of rewards that come a step later", low=0, high=1)
    hidden: tuple[int, ...] = setting(
        (64, 64), "widths of the hidden layers, of policy and critic alike", low=1, high=8192
    )
    env_kwargs: dict[str, Any] = setting({}, "keyword arguments of the environment")  # noqa: RUF009

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """A setting's value in its type, after its door."""
        return _keywords(name, value) if name == "env_kwargs" else super().checked(name, value)


def _keywords(name: str, value: Any) -> dict[str, Any]:
    """Keyword arguments of an environment, in plain data: a checkpoint must hold them."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"{name} is {value!r}; a dict of keyword arguments is wanted")
    taken = sorted({"env_id", "num_envs", "seed", "id", "disable_env_checker"} & value.keys())
    if taken:
        raise ValueError(
            f"{name} holds {taken[0]!r}, which training sets itself; arguments of the environment are wanted"
        )
    plain: dict[str, Any] = storable(name, value)
    return plain


@dataclass(frozen=True)
class ActorCriticSettings(ControlSettings):
    """The settings that both have."""

    lam: float = setting(0.95, "λ of GAE: 0 trusts the critic, 1 the rewards", low=0, high=1)
    normalize_observations: bool = setting(False, "shift and scale what the networks see, as seen so far")
    normalize_rewards: bool = setting(False, "divide rewards by the deviation of the return, as seen so far")
    activation: str = setting("tanh", "of the networks", choices=("tanh", "relu", "gelu", "silu"))
    initial_std: float = setting(1.0, "first deviation of actions in a box, in half widths of it", above=0)


@dataclass(frozen=True)
class VanillaSettings(ControlSettings):
    """The settings of vanilla policy gradient, and their defaults."""

    weight: str = setting(
        "reward_to_go",
        "what followed an action: its whole episode, or what came after",
        choices=("return", "reward_to_go"),
    )
    baseline: str = setting(
        "value",
        "what was expected: nothing, the batch's mean, or a learned V(s)",
        choices=("none", "mean", "value"),
    )
    optimizer: str = setting("adam", "of policy and critic", choices=("adam", "sgd"))
    lr: float = setting(3e-3, "learning rate of the policy", above=0, high=1e37)
    epochs: int = setting(1, "gradient steps on one batch; only the first is on the policy's own data", low=1)
    entropy_coef: float = setting(0.0, "weight of an entropy bonus", low=0)
    normalize_advantages: bool = setting(
        False, "shift and scale the weights of a batch to mean 0, deviation 1"
    )
    value_lr: float = setting(3e-3, "learning rate of the critic", above=0, high=1e37)
    value_epochs: int = setting(20, "gradient steps of the critic on one batch", low=1)


@dataclass(frozen=True)
class TRPOSettings(ActorCriticSettings):
    """The settings of TRPO, and their defaults."""

    num_steps: int = setting(256, "steps that each environment takes before an update", low=1, high=1_000_000)
    max_kl: float = setting(0.01, "δ: the mean KL that a step may have, in nats", above=0)
    fisher_share: float = setting(
        1.0, "share of the batch that the Fisher matrix is a mean over", above=0, high=1
    )
    cg_iterations: int = setting(10, "products F v that the direction may cost", low=1)
    cg_damping: float = setting(0.1, "added to the diagonal of F", low=0)
    line_search_steps: int = setting(10, "lengths of a step to try before giving up", low=1)
    backtrack: float = setting(0.8, "α: each of them as a share of the one before", above=0, high=0.99)
    normalize_advantages: bool = setting(
        True, "shift and scale the advantages of a batch to mean 0, deviation 1"
    )
    value_lr: float = setting(1e-3, "learning rate of the critic", above=0, high=1e37)
    value_epochs: int = setting(10, "passes of the critic over one batch", low=1)
    value_minibatches: int = setting(16, "parts of a batch, each good for one of its gradient steps", low=1)


@dataclass(frozen=True)
class PPOSettings(ActorCriticSettings):
    """The settings of PPO, and their defaults.

    A setting with a `_final` goes from the one to the other in a straight line over `total_steps`.
    """

    num_steps: int = setting(
        2048, "steps that each environment takes before an update", low=1, high=1_000_000
    )
    epochs: int = setting(10, "passes over one batch", low=1)
    num_minibatches: int = setting(32, "parts of a batch, each good for one gradient step", low=1)
    objective: str = setting(
        "clip",
        "what keeps a step small: the clip, or a KL penalty, fixed or adapted to kl_coef_target",
        choices=("clip", "kl", "adaptive_kl"),
    )
    clip_eps: float = setting(0.2, "ε: how far the ratio may gain from 1", above=0)
    clip_eps_high: float | None = setting(None, "an ε of its own for ratios above 1", above=0)
    clip_eps_final: float | None = setting(None, "ε at the end", above=0)
    kl_coef: float = setting(1.0, "β of the KL penalty; where it is adapted, the first one", low=0)
    kl_coef_target: float = setting(0.01, "the KL of an update that β is adapted to, in nats", above=0)
    target_kl: float | None = setting(
        None, "no further epoch once the mean KL of one is above this, in nats", above=0
    )
    lr: float = setting(3e-4, "learning rate of Adam", above=0, high=1e37)
    lr_final: float | None = setting(None, "learning rate at the end", low=0, high=1e37)
    adam_eps: float = setting(1e-5, "what Adam adds to the deviation that it divides by", above=0)
    max_grad_norm: float | None = setting(0.5, "a longer gradient is shortened to this", above=0)
    value_coef: float = setting(0.5, "weight of the critic's half squared error", low=0)
    value_clip_eps: float | None = setting(None, "how far V may gain from its old value", above=0)
    entropy_coef: float = setting(0.01, "weight of the entropy bonus", low=0)
    entropy_coef_final: float | None = setting(None, "weight of the entropy bonus at the end", low=0)
    normalize_advantages: str = setting(
        "minibatch",
        "what advantages are shifted and scaled over, to mean 0 and deviation 1",
        choices=("minibatch", "batch", "none"),
    )
    shared_trunk: bool = setting(False, "one network for policy and critic, but for the last layer")
