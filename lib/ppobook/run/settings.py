"""Settings: a dataclass whose fields know what they may be. Importing this module imports no torch."""

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


def setting(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] | None = None,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> Any:
    """A field of a `Settings` class: its default, a sentence for people, and what it may be."""
    limits = {"low": low, "high": high, "above": above}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    metadata = {"help": help, "choices": choices, "limits": limits}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def fast_by_default() -> bool:
    """Whether runs use the fast forms if they do not say: not if the environment has PPOBOOK_FAST=0."""
    word = os.environ.get("PPOBOOK_FAST", "1")
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
        """The settings of a run: what was given, else what is preset for its kind, else the defaults.

        Parameters
        ----------
        name : str
            What these are the settings of, for the sentence that refuses one: "ppo".
        given, preset : dict

        Raises
        ------
        ValueError, TypeError
            A name that is no setting, or a value that the setting does not take.
        """
        known = {f.name: f for f in fields(cls)}
        written = inspect.get_annotations(cls).items()
        forgotten = [one for one, kind in written if one not in known and "ClassVar" not in str(kind)]
        if forgotten:
            raise TypeError(
                f"{cls.__name__} adds {forgotten[0]!r} and is no dataclass; "
                "@dataclass(frozen=True) is wanted above the class"
            )
        for one in given:
            if one not in known:
                listed = validation.one_of(list(known), show=len(known))
                hint = validation.did_you_mean(one, known)
                raise ValueError(
                    f"{one}={given[one]!r}: {name} has no such setting; it must be {listed}{hint}"
                )
        return cls(**{one: cls.checked(one, value) for one, value in {**preset, **given}.items()})

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """A setting's value in its type, after its door."""
        # A subclass may annotate a field without `setting`: then it has no limits, and its type counts.
        metadata = cls.__dataclass_fields__[name].metadata
        limits, choices = metadata.get("limits", {}), metadata.get("choices")
        wanted = typing.get_type_hints(cls)[name]
        if typing.get_origin(wanted) in (types.UnionType, typing.Union):
            kinds = [kind for kind in typing.get_args(wanted) if kind is not types.NoneType]
            # The command line and a file have no other word for None.
            if len(kinds) < len(typing.get_args(wanted)) and str(value).lower() == "none":
                return None
            wanted = kinds[0] if len(kinds) == 1 else Any
        if choices is not None:
            return validation.choice(name, value, choices)
        if wanted is bool:
            return validation.flag(name, value)
        if wanted is int:
            return whole(name, value, **limits)
        if wanted is float:
            return validation.number(name, value, **limits)
        if wanted is str:
            if not isinstance(value, str):
                raise TypeError(f"{name} is {value!r}; a string is wanted")
            return str(value)
        if typing.get_origin(wanted) is tuple:
            value = value.tolist() if isinstance(value, np.ndarray) else value
            several = value if isinstance(value, list | tuple) else (value,)
            read = validation.number if float in typing.get_args(wanted) else whole
            return tuple(read(name, one, **limits) for one in several)
        return storable(name, value)


def whole(name: str, value: Any, **limits: Any) -> int:
    """A count. 1e5 is how people write a hundred thousand."""
    as_int = int(value) if isinstance(value, float) and value.is_integer() else value
    return validation.count(name, as_int, **limits)


def storable(name: str, value: Any) -> Any:
    """A value in plain data: a checkpoint must hold it.

    Raises
    ------
    TypeError
        Something in it is neither a number, a string, True, False nor None.
    """
    plain = _plain(value)
    try:
        json.dumps(plain)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} is {value!r}, which no checkpoint can hold; numbers, strings, True, False, None, and "
            "lists and dicts of them are wanted"
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
