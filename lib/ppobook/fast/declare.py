"""How a function or a class declares that it has a fast form. Only `ppobook.fast.choose` acts on it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def fast_form(name: str) -> Callable[[T], T]:
    """Decorator: declare that this function or class has the fast form `name`.

    A method that is overridden loses the declaration of the method it replaces, and a subclass does not
    inherit the declaration of its class. So whatever somebody changes runs in its plain form, unless it is
    declared again.
    """

    def declare(declaring: T) -> T:
        declaring.fast_form = name  # type: ignore[attr-defined]
        return declaring

    return declare


def declared(x: Any) -> str | None:
    """The fast form that a function, a method, a class or an object's own class declares; None if none."""
    if isinstance(x, types.FunctionType | types.MethodType):
        return getattr(x, "fast_form", None)
    return vars(x if isinstance(x, type) else type(x)).get("fast_form")
