"""Settings: a dataclass whose fields have help texts and limits. Importing this module imports no torch."""

from __future__ import annotations

import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np

from ppobook import validation
from ppobook.run.naming import train_named
from ppobook.run.spellings import OTHER_VALUES, did_you_mean

# What a setting needs of others to have an effect: one of these values, or a number above this one.
Needs = Mapping[str, tuple[Any, ...] | float]


# The arguments of every `train`.
ARGUMENTS = (
    *("seed", "out", "checkpoint_every", "checkpoint_minutes", "resume"),
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
    needs: Needs | None = None,
) -> Any:
    """A field of a `Settings` class: its default, its help text, its limits, and what it needs of others.

    ``needs={"objective": ("kl", "adaptive_kl")}``: without one of these it has no effect, and giving it
    raises. ``needs={"eval_pairs": 0}``: it has an effect if eval_pairs is above 0.
    """
    given = {"low": low, "high": high, "above": above}
    limits = {name: limit for name, limit in given.items() if limit is not None}
    for one in default if isinstance(default, tuple) else (default,):
        if limits and one is not None:
            validation.number("default", one, **limits)
    if choices is not None and default is not None:
        validation.choice("default", default, choices)
    metadata = {"help": help, "choices": choices, "limits": limits, "needs": needs or {}}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def schedules(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that change during a run, by name, and where each goes: `lr` to `lr_final`, and so on."""
    return {
        name.removesuffix("_final"): final
        for name, final in config.items()
        if name.endswith("_final") and final is not None
    }


@dataclass(frozen=True)
class Settings:
    """The settings of a run: `fast`, and the fields that a subclass adds."""

    # The arguments of `train` beside the settings, and what they need of these.
    arguments: ClassVar[dict[str, Needs]] = {name: {} for name in ARGUMENTS}

    # The arguments of the other `train`, by its name; for messages.
    other_arguments: ClassVar[dict[str, Collection[str]]] = {}

    # By keyword only, so that a subclass's fields come first where settings are made by position.
    fast: bool = field(
        default=False,
        kw_only=True,
        metadata={
            "help": "train by the faster forms of ppobook.fast, which compute the same numbers",
            "choices": None,
            "limits": {},
        },
    )

    @classmethod
    def family(cls) -> Mapping[str, type[Settings]]:
        """The settings of the other algorithms, by their names."""
        return {}

    @classmethod
    def elsewhere(cls) -> dict[str, Collection[str]]:
        """Names that other algorithms know, and arguments that only the other `train` has, by where."""
        others = {other: [f.name for f in fields(kind)] for other, kind in cls.family().items()}
        return {**others, **{train_named(train): names for train, names in cls.other_arguments.items()}}

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
                hint = did_you_mean(one, [*known, *cls.arguments], elsewhere=cls.elsewhere())
                hint = hint.rstrip(".") or f". {cls.__module__}.{cls.__qualname__} has them all"
                raise ValueError(f"{name} has no setting {one!r}{hint}")
        asked = {one: cls.checked(one, value) for one, value in {**preset, **given}.items()}
        return cls(**cls._defaults() | asked)

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The defaults, checked as values that are given: a class of the user's own may have any."""
        own = [f for f in fields(cls) if f.init]
        defaults = {f.name: f.default for f in own if f.default is not MISSING}
        defaults |= {f.name: f.default_factory() for f in own if f.default_factory is not MISSING}
        for name, default in defaults.items():
            try:
                defaults[name] = cls.checked(name, default)
            except (TypeError, ValueError) as error:
                raise type(error)(f"the default of {error}, in {cls.__name__}") from None
        return defaults

    def refuse_without_effect(self, given: Mapping[str, Any], facts: Mapping[str, str] | None = None) -> None:
        """Raise if something that was given has no effect with the other settings.

        Parameters
        ----------
        given : mapping
            Settings and arguments that a user gave, by name. None asks for nothing. All settings at once are
            a run's config, which has those without effect as well.
        facts : mapping of str to str, optional
            What settings may need besides settings, in words: {"data": "a World"}.

        Raises
        ------
        ValueError
        """
        own, facts = {f.name: f for f in fields(self)}, facts or {}
        if all(name in given or getattr(self, name) is None for name in own):
            return
        for name, value in given.items():
            needs = own[name].metadata.get("needs", {}) if name in own else self.arguments.get(name, {})
            if getattr(self, name, value) is None:
                continue
            for other, wanted in needs.items():
                if other in facts:
                    assert isinstance(wanted, tuple)  # facts are words
                    if facts[other] not in wanted:
                        raise ValueError(f"{name} has no effect with {facts[other]}: it is for {wanted[0]}")
                elif other in own and not _has(now := getattr(self, other), wanted):
                    hint = (
                        f": it is for {' or '.join(map(repr, wanted))}" if isinstance(wanted, tuple) else ""
                    )
                    raise ValueError(f"{name} has no effect with {other}={now!r}{hint}")

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """A value of a setting, converted to its type; one that the setting does not accept raises."""
        # A subclass may annotate a field without `setting`: then it has no limits.
        metadata = cls.__dataclass_fields__[name].metadata
        limits, choices = metadata.get("limits", {}), metadata.get("choices")
        kind = typing.get_type_hints(cls)[name]
        if typing.get_origin(kind) in (types.UnionType, typing.Union):
            kinds = [one for one in typing.get_args(kind) if one is not types.NoneType]
            optional = len(kinds) < len(typing.get_args(kind))
            # Text from the command line or a file says "none".
            if optional and str(value).lower() in ("none", "null"):
                return None
            kind = kinds[0] if len(kinds) == 1 else Any
            if optional:
                try:
                    return cls._checked(name, value, kind, choices, limits)
                except (TypeError, ValueError) as error:
                    raise type(error)(str(error).replace(", got ", ", or None, got ", 1)) from None
        return cls._checked(name, value, kind, choices, limits)

    @classmethod
    def _checked(cls, name: str, value: Any, kind: Any, choices: Any, limits: Mapping[str, Any]) -> Any:
        if choices is not None:
            return validation.choice(name, value, choices, OTHER_VALUES)
        if kind is bool:
            return validation.flag(name, value)
        if kind is int:
            return whole(name, value, **{"low": None, **limits})
        if kind is float:
            return _number(name, value, **limits)
        if kind is str:
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, got {value!r}")
            return str(value)
        if typing.get_origin(kind) is tuple:
            value = value.tolist() if isinstance(value, np.ndarray) else value
            several = value if isinstance(value, list | tuple) else (value,)
            each = f"each entry of {name}"
            if isinstance(value, str | None) and f"{value}".strip().lower() in ("", "none", "null"):
                raise ValueError(f"{name} must be numbers, as in 1,2, or () for none, got {value!r}")
            if float in typing.get_args(kind):
                return tuple(_number(each, one, **limits) for one in several)
            return tuple(whole(each, one, **{"low": None, **limits}) for one in several)
        return storable(name, value)


def _number(name: str, value: Any, **limits: Any) -> float:
    """A number that does not become 0 or infinite beside tensors of float32."""
    number = validation.number(name, value, **limits)
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(number)
    if not np.isfinite(single) or (single == 0) != (number == 0):
        raise ValueError(f"{name} must be a number that a float32 can hold, got {validation.shown(value)}")
    return number


def _has(value: Any, wanted: tuple[Any, ...] | float) -> bool:
    """Whether a setting has what another one needs of it."""
    return value in wanted if isinstance(wanted, tuple) else value is not None and value > wanted


def whole(name: str, value: Any, **limits: Any) -> int:
    """An integer of at most 10**12, also as a float without a fraction: 1e5."""
    as_int = int(value) if isinstance(value, float) and value.is_integer() else value
    if (found := validation.count(name, as_int, **limits)) > 10**12:  # tensors' sizes end at 2**63
        raise ValueError(f"{name} must be an integer of at most 10**12, got {validation.shown(value)}")
    return found


# The arguments of `train` that are numbers, and what checks them.
NUMBERS: dict[str, Callable[[str, Any], Any]] = {
    "seed": functools.partial(validation.count, low=0),
    "total_steps": whole,
    "checkpoint_every": validation.count,
    "checkpoint_minutes": functools.partial(validation.number, above=0),
    # With more threads than this the system may refuse one in the middle, which ends the process.
    "num_threads": functools.partial(validation.count, high=256),
}


def argument(name: str, value: Any) -> Any:
    """An argument of `train` that is a number, checked."""
    return NUMBERS[name](name, value)


def settings_class_of(kind: Any) -> type[Settings]:
    """The `settings_class` of an algorithm or a stage, which a user may have written.

    Raises
    ------
    TypeError
        It is not a subclass of the settings that all of these classes have.
    ValueError
        One of its settings has the name of an argument of `train`.
    """
    found = kind.settings_class
    bases = [base for base in kind.__mro__ if "settings_class" in vars(base)]
    shared: type[Settings] = bases[-1].settings_class
    if not (isinstance(found, type) and issubclass(found, shared)):
        raise TypeError(
            f"{kind.__name__}.settings_class must be a subclass of {shared.__module__}.{shared.__name__}, "
            f"got {found!r}"
        )
    for f in fields(found):
        if f.name in found.arguments:
            raise ValueError(
                f"the settings of {found.__name__} must have other names than the arguments of train, "
                f"got {f.name!r}"
            )
    return found


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
