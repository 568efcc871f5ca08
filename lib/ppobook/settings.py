"""Settings, and those of the control algorithms with their defaults. Importing this module imports no torch.

`Settings` is a dataclass whose fields, each a `setting`, have help texts and limits.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np

from ppobook import validation
from ppobook.run.spellings import did_you_mean


def setting(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] | None = None,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> Any:
    """A field of a `Settings` class: its default, its help text and its limits."""
    given = {"low": low, "high": high, "above": above}
    limits = {name: limit for name, limit in given.items() if limit is not None}
    metadata = {"help": help, "choices": choices, "limits": limits}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def schedules(config: Mapping[str, Any]) -> dict[str, Any]:
    """The final values of the settings that change during a run, by name: that of `lr` is `lr_final`."""
    return {
        name.removesuffix("_final"): final
        for name, final in config.items()
        if name.endswith("_final") and final is not None
    }


@dataclass(frozen=True)
class Settings:
    """The settings of a run: the fields that a subclass adds."""

    # The arguments of `train` beside the settings.
    arguments: ClassVar[tuple[str, ...]] = (
        *("seed", "out", "checkpoint_every", "resume"),
        *("device", "num_threads", "progress", "tensorboard"),
    )

    def __init_subclass__(cls) -> None:
        """Let a subclass state a new default alone, `lr: float = 3e-3`: help text and limits stay."""
        for f in fields(cls):  # those of the class that it is made from
            if f.name in vars(cls) and not isinstance(vars(cls)[f.name], Field):
                setattr(cls, f.name, field(default=vars(cls)[f.name], metadata=f.metadata))

    @classmethod
    def make(cls, name: str, given: dict[str, Any], preset: dict[str, Any]) -> Self:
        """The settings of a run: the given ones, else the preset's, else the defaults.

        `name` is the algorithm's, for error messages. Raises ValueError or TypeError for a name that is not a
        setting, or a value that the setting does not accept.
        """
        known = [f.name for f in fields(cls)]
        for one in given:
            if one not in known:
                hint = did_you_mean(one, [*known, *cls.arguments])
                hint = hint or f". {cls.__module__}.{cls.__qualname__} has them all"
                raise ValueError(f"{name} has no setting {one!r}{hint}")
        return cls(**{one: cls.checked(one, value) for one, value in {**preset, **given}.items()})

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """A value of a setting, converted to its type; ValueError or TypeError if it does not accept it."""
        # A subclass may annotate a field without `setting`: then it has no limits.
        metadata = cls.__dataclass_fields__[name].metadata
        limits, choices = metadata.get("limits", {}), metadata.get("choices")
        kind = typing.get_type_hints(cls)[name]
        if typing.get_origin(kind) in (types.UnionType, typing.Union):
            kinds = [one for one in typing.get_args(kind) if one is not types.NoneType]
            # Text from the command line or a file says "none".
            if len(kinds) < len(typing.get_args(kind)) and str(value).lower() in ("none", "null"):
                return None
            kind = kinds[0] if len(kinds) == 1 else Any

        def number(kind: type, name: str, value: Any) -> int | float:
            if kind is float:
                return validation.number(name, value, **limits)
            return validation.whole(name, value, **{"low": None, **limits})

        if choices is not None:
            return validation.choice(name, value, choices)
        if kind is bool:
            return validation.flag(name, value)
        if kind in (int, float):
            return number(kind, name, value)
        if typing.get_origin(kind) is tuple:
            several = value if isinstance(value, list | tuple | np.ndarray) else (value,)
            return tuple(number(typing.get_args(kind)[0], f"each entry of {name}", x) for x in several)
        if kind is str and not isinstance(value, str):
            raise TypeError(f"{name} must be a string, got {value!r}")
        return storable(name, value)


def storable(name: str, value: Any) -> Any:
    """The value, which must be plain data that a checkpoint can hold; TypeError if it is not."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must consist of numbers, strings, True, False, None, and lists and dicts of them, "
            f"got {value!r}"
        ) from None
    return value


# ---------------------------------------------------------------------- the control algorithms


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
    max_kl: float = setting(0.01, "δ_KL: upper bound on the mean KL divergence of a step, in nats", above=0)
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
