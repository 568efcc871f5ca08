"""Settings: a dataclass whose fields have help texts and limits. Importing this module imports no torch."""

from __future__ import annotations

import functools
import json
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np

from ppobook import validation
from ppobook.run.spellings import did_you_mean

# The arguments of every `train`.
ARGUMENTS = (
    *("seed", "out", "checkpoint_every", "resume"),
    *("device", "num_threads", "progress", "tensorboard"),
)


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
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS

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
        if choices is not None:
            return validation.choice(name, value, choices)
        if kind is bool:
            return validation.flag(name, value)
        if kind is int:
            return whole(name, value, **{"low": None, **limits})
        if kind is float:
            return validation.number(name, value, **limits)
        if typing.get_origin(kind) is tuple:
            several = value if isinstance(value, list | tuple | np.ndarray) else (value,)
            if float in typing.get_args(kind):
                return tuple(validation.number(f"each entry of {name}", x, **limits) for x in several)
            return tuple(whole(f"each entry of {name}", x, **{"low": None, **limits}) for x in several)
        if kind is str and not isinstance(value, str):
            raise TypeError(f"{name} must be a string, got {value!r}")
        return storable(name, value)


def whole(name: str, value: Any, **limits: Any) -> int:
    """An integer, also if it is given as a float without a fraction: 1e5."""
    as_int = int(value) if isinstance(value, float) and value.is_integer() else value
    return validation.count(name, as_int, **limits)


# The arguments of `train` that are numbers, and the functions that check them.
NUMBERS: dict[str, Callable[[str, Any], Any]] = {
    "seed": functools.partial(validation.count, low=0),
    "total_steps": whole,
    "checkpoint_every": validation.count,
    "num_threads": validation.count,
}


def argument(name: str, value: Any) -> Any:
    """An argument of `train` that is a number, checked."""
    return NUMBERS[name](name, value)


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
