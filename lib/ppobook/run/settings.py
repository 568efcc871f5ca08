"""Settings: a dataclass whose fields have help texts and limits. Importing this module imports no torch."""

from __future__ import annotations

import inspect
import json
import os
import types
import typing
from dataclasses import dataclass, field, fields
from typing import Any, Self

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
    """A field of a `Settings` class: its default, its help text, and its limits."""
    limits = {"low": low, "high": high, "above": above}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    metadata = {"help": help, "choices": choices, "limits": limits}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def fast_by_default() -> bool:
    """Whether runs use the fast forms if they do not say: not if the environment has PPOBOOK_FAST=0."""
    word = os.environ.get("PPOBOOK_FAST") or "1"
    if word.lower() not in ("0", "1", "false", "true"):
        raise ValueError(f"the environment variable PPOBOOK_FAST must be 0, 1, false or true, got {word!r}")
    return word.lower() in ("1", "true")


@dataclass(frozen=True)
class Settings:
    """The settings of a run: `fast`, and the fields that a subclass adds."""

    # By keyword only, so that a subclass's fields come first where settings are made by position.
    fast: bool = field(
        default_factory=fast_by_default,
        kw_only=True,
        metadata={
            "help": "use the faster forms of ppobook.fast, which compute the same numbers",
            "choices": None,
            "limits": {},
        },
    )

    @classmethod
    def make(cls, name: str, given: dict[str, Any], preset: dict[str, Any]) -> Self:
        """The settings of a run: what is given, else the preset, else the defaults.

        Parameters
        ----------
        name : str
            The algorithm's name, for error messages: "ppo".
        given, preset : dict

        Raises
        ------
        ValueError, TypeError
            A name that is not a setting, or a value that the setting does not accept.
        """
        known = [f.name for f in fields(cls)]
        for one, kind in inspect.get_annotations(cls).items():
            if one not in known and "ClassVar" not in str(kind):
                raise TypeError(
                    f"{cls.__name__} must be a dataclass, as it adds {one!r}: @dataclass(frozen=True)"
                )
        for one in given:
            if one not in known:
                hint = did_you_mean(one, known) or f". It has {', '.join(known)}"
                raise ValueError(f"{name} has no setting {one!r}{hint}")
        return cls(**{one: cls.checked(one, value) for one, value in {**preset, **given}.items()})

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """A value of a setting, converted to its type; one that the setting does not accept raises."""
        # A subclass may annotate a field without `setting`: then it has no limits.
        metadata = cls.__dataclass_fields__[name].metadata
        limits, choices = metadata.get("limits", {}), metadata.get("choices")
        kind = typing.get_type_hints(cls)[name]
        if typing.get_origin(kind) in (types.UnionType, typing.Union):
            kinds = [one for one in typing.get_args(kind) if one is not types.NoneType]
            # Text from the command line or a file says "none".
            if len(kinds) < len(typing.get_args(kind)) and str(value).lower() == "none":
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
        if kind is str:
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, got {value!r}")
            return str(value)
        if typing.get_origin(kind) is tuple:
            value = value.tolist() if isinstance(value, np.ndarray) else value
            several = value if isinstance(value, list | tuple) else (value,)
            if float in typing.get_args(kind):
                return tuple(validation.number(name, one, **limits) for one in several)
            return tuple(whole(name, one, **{"low": None, **limits}) for one in several)
        return storable(name, value)


def whole(name: str, value: Any, **limits: Any) -> int:
    """An integer, also as a float without a fraction: 1e5."""
    as_int = int(value) if isinstance(value, float) and value.is_integer() else value
    return validation.count(name, as_int, **limits)


def storable(name: str, value: Any) -> Any:
    """A value as plain Python data, which a checkpoint can hold.

    Raises
    ------
    TypeError
        It contains something that is not a number, a string, True, False or None.
    """
    plain = _plain(value)
    try:
        json.dumps(plain)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must consist of numbers, strings, True, False, None, and lists and dicts of them, "
            f"got {value!r}"
        ) from None
    return plain


def _plain(value: Any) -> Any:
    """NumPy's numbers, strings and arrays as Python's own."""
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        inside = [_plain(one) for one in value]
        return tuple(inside) if isinstance(value, tuple) else inside
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
