"""Names of the classes that can be trained."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from ppobook import validation

T = TypeVar("T")


class Registry(Mapping[str, str], Generic[T]):
    """The classes of the library by name, and the rule for classes of the user's own.

    A run's config holds the name: "ppo", or "my_module:MyPPO" for a user's class. A class of the library is
    imported when it is asked for. A user's class is never imported by the name in a run, since a stranger's
    run could name anything: whoever reads the run passes the class.

    Parameters
    ----------
    argument : str
        What the class is passed as: "algorithm".
    base : type
        The class that all of them extend.
    places : mapping of str to str
        Name to "module:Class".
    settings_of : mapping of str to tuple, optional
        Names that are asked for and are settings of a class: "kto" to ("dpo", "loss").
    train : str
        The function that these classes are passed to: "ppobook.train".
    other : str, optional
        "module:NAME" of the registry whose classes are passed to another `train`, for messages.
    """

    def __init__(
        self,
        argument: str,
        base: type[T],
        places: Mapping[str, str],
        settings_of: Mapping[str, tuple[str, str]] | None = None,
        *,
        train: str = "train",
        other: str | None = None,
    ) -> None:
        self.argument = argument
        self.base = base
        self.places = dict(places)
        self.settings_of = settings_of or {}
        self.train = train
        self.other = other

    def __getitem__(self, name: str) -> str:
        return self.places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def find(self, given: Any) -> type[T]:
        """The class of a name; a subclass of `base` is returned as it is.

        Raises
        ------
        ValueError, TypeError
            Neither.
        """
        if isinstance(given, type) and issubclass(given, self.base):
            return given
        if isinstance(given, type):
            raise TypeError(
                f"{self.argument} must be a subclass of {self.base.__name__}, got the class {given.__name__}"
                f"{self._elsewhere(given)}"
            )
        if isinstance(given, str) and given not in self.places and given in self.settings_of:
            of, setting = self.settings_of[given]
            raise ValueError(
                f"{self.argument} must be {validation.one_of(list(self.places))}, got {given!r}, "
                f"a {setting} of {of!r}: {setting}={given!r}"
            )
        if isinstance(given, str) and given not in self.places and (hint := self._elsewhere(given)):
            raise ValueError(
                f"{self.argument} must be {validation.one_of(list(self.places))}, got {given!r}{hint}"
            )
        if isinstance(given, self.base):
            kind = type(given).__name__
            raise TypeError(f"{self.argument} must be a class, got an object of it: pass {kind} itself")
        found: type[T] = _imported(self.places[validation.choice(self.argument, given, self.places)])
        return found

    def _elsewhere(self, given: str | type) -> str:
        """The end of a message about a name or a class of the other registry; empty if it is not there."""
        if self.other is None:
            return ""
        other: Registry[Any] = _imported(self.other)
        known = given in {*other.places, *other.settings_of} if isinstance(given, str) else False
        known = known or (isinstance(given, type) and issubclass(given, other.base))
        return f": it is for {other.train}" if known else ""

    def name_of(self, kind: type[T]) -> str:
        """What a run's config calls a class."""
        place = f"{kind.__module__}:{kind.__qualname__}"
        return {place: name for name, place in self.places.items()}.get(place, place)

    def of_run(self, config: Mapping[str, Any], given: Any = None, argument: str | None = None) -> type[T]:
        """The class that a run was trained by.

        Parameters
        ----------
        config : mapping
            The run's.
        given : str or type, optional
            What the user passed. A user's class must be passed; it may have moved to another module.
        argument : str, optional
            What it was passed as.

        Raises
        ------
        ValueError, TypeError
            Another class, or a user's class that was not passed.
        """
        argument, named = argument or self.argument, config[self.argument]
        own = isinstance(named, str) and ":" in named
        if given is None and not own:
            return self.find(named)
        if given is None:
            short = short_name(named)
            raise ValueError(
                f"{argument} must be the class that the run was trained by, {named!r}, got None: pass "
                f"{argument}={short}, or my_module:{short} on the command line"
            )
        kind = self.find(given)
        if self.name_of(kind) != named and not (own and kind.__name__ == short_name(named)):
            raise ValueError(
                f"{argument} must be {named!r}, which the run was trained by, got {self.name_of(kind)!r}"
            )
        return kind


def _imported(place: str) -> Any:
    """What "module:NAME" names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def short_name(name: str) -> str:
    """For people: "ppo", and "MyPPO" for "my_module:MyPPO"."""
    return re.split(r"[:.]", name)[-1]
