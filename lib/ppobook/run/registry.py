"""Names of the classes that can be trained."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from ppobook import validation

T = TypeVar("T")


class Registry(dict[str, type[T]], Generic[T]):
    """The classes of the library by name, and the rule for classes of the user's own.

    A run's config holds the name: "ppo", or "my_module:MyPPO" for a user's class, which is never imported by
    the name in a run, since a stranger's run could name anything: whoever reads the run passes the class.

    `argument` is the name of the argument that the class is passed as, `base` the class that all of them
    extend.
    """

    def __init__(self, argument: str, base: type[T], classes: Mapping[str, type[T]]) -> None:
        super().__init__(classes)
        self.argument = argument
        self.base = base

    def find(self, given: Any) -> type[T]:
        """The class of a name; a subclass of `base` is returned as it is."""
        if isinstance(given, type) and issubclass(given, self.base):
            return given
        return self[validation.choice(self.argument, given, self)]

    def name_of(self, kind: type[T]) -> str:
        """The name of a class in a run's config."""
        names = {known: name for name, known in self.items()}
        return names.get(kind, f"{kind.__module__}:{kind.__qualname__}")

    def of_run(self, config: Mapping[str, Any], given: Any = None, argument: str | None = None) -> type[T]:
        """The class that a run was trained by; ValueError for another, or a user's that was not passed.

        `given` is what the user passed, as the argument named `argument`. Its module may be another now.
        """
        argument, named = argument or self.argument, config[self.argument]
        own = ":" in named
        if given is None and not own:
            return self.find(named)
        if given is None:
            raise ValueError(
                f"{argument} must be the class that the run was trained by, {named!r}, got None: pass "
                f"{argument}={short_name(named)}"
            )
        kind = self.find(given)
        if self.name_of(kind) != named and not (own and kind.__name__ == short_name(named)):
            raise ValueError(
                f"{argument} must be {named!r}, which the run was trained by, got {self.name_of(kind)!r}"
            )
        return kind


def short_name(name: str) -> str:
    """The name for people: "ppo", and "MyPPO" for "my_module:MyPPO"."""
    return re.split(r"[:.]", name)[-1]
