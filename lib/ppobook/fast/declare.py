"""How a function or a class declares that it has a fast form. Only `ppobook.fast.choose` acts on it."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

# By the declaring object itself: what copies its attributes, as functools.wraps does, declares nothing.
_DECLARED: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def fast_form(name: str) -> Callable[[T], T]:
    """Decorator: declare that this function or class has the fast form `name`.

    A method that is overridden or wrapped loses the declaration of the method it replaces, and a subclass
    does not inherit the declaration of its class. So whatever somebody changes runs in its plain form, unless
    it is declared again.
    """

    def declare(declaring: T) -> T:
        _DECLARED[declaring] = name
        return declaring

    return declare


def declared(x: Any) -> str | None:
    """The fast form that a function, a method, a class or an object's class declares, or None."""
    if isinstance(x, types.MethodType):
        return _DECLARED.get(x.__func__) if isinstance(x.__func__, types.FunctionType) else None
    return _DECLARED.get(x if isinstance(x, types.FunctionType | type) else type(x))
