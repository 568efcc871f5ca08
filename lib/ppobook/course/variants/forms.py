"""Forms: how a function of the course differs from the book's, and how each is called in the other's place.

`Form` says in which order the arguments and the results come, and in which units. `book_form` puts a function
of the course into the book's form: the checks call that. It converts with operations of torch and NumPy, so a
gradient finds its way through it, and it works on functions that live in another process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import units

__all__ = ["Form", "book_form"]


@dataclass(frozen=True)
class Form:
    """A conversion of arguments and results between a function of the course and the book's.

    Parameters
    ----------
    parameters : names of the arguments without a default, in the book's order
    optional : names of those with a default, which always come last
    order : `parameters` in the course's order
    arguments : units of arguments, by name
    outputs : names of several results, in the book's order; empty where one thing comes back
    returned : `outputs` in the course's order
    results : units of results by name; "result" is all that comes back
    keys : the course's keys of a dictionary that comes back, by the book's
    """

    parameters: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    results: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if sorted(self.order) != sorted(self.parameters):
            raise ValueError(f"order must hold {', '.join(self.parameters)}, got {', '.join(self.order)}.")
        if sorted(self.returned) != sorted(self.outputs):
            raise ValueError(f"returned must hold {', '.join(self.outputs)}, got {', '.join(self.returned)}.")

    def result_of(self, value: Any) -> Any:
        """Convert the result of a function of the course to the book's form."""
        if self.keys:
            value = units.translate(value, {course: book for book, course in self.keys.items()})
        if self.outputs and len(several := _unpacked(value)) == len(self.outputs):
            came = dict(zip(self.returned, several, strict=True))
            entries = (
                units.to_book(self.results[name], came[name]) if name in self.results else came[name]
                for name in self.outputs
            )
            value = list(entries) if isinstance(value, list) else tuple(entries)
        if "result" in self.results:
            value = units.to_book(self.results["result"], value)
        return value


class _InBookForm:
    """A function of the course, called as the book's would be."""

    def __init__(self, function: Callable[..., Any], form: Form) -> None:
        self._form = form
        self.__wrapped__ = function  # so that a check finds the student's own lines
        self.__name__ = getattr(function, "__name__", "function")
        self.__code__ = getattr(function, "__code__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        form = self._form
        needed = len(form.parameters)
        names = [*form.parameters, *form.optional]
        if len(args) < needed and any(name in kwargs for name in form.parameters[len(args) :]):
            missing = form.parameters[len(args) :]
            args = (*args, *(kwargs.pop(name) for name in missing))
        given = {name: self._course(name, value) for name, value in zip(names, args, strict=False)}
        later = {name: self._course(name, value) for name, value in kwargs.items()}
        before = {name: _copied(given[name]) for name in form.arguments if name in given}
        result = self.__wrapped__(
            *(given[name] for name in form.order),
            *(given[name] for name in names[needed : len(args)]),
            **later,
        )
        for name, old in before.items():
            self._write_back(args[names.index(name)], given[name], old, form.arguments[name])
        return form.result_of(result)

    def _course(self, name: str, value: Any) -> Any:
        return units.to_course(self._form.arguments[name], value) if name in self._form.arguments else value

    @staticmethod
    def _write_back(original: Any, now: Any, before: Any, unit: str) -> None:
        """Copy changes that the function made in place from its converted argument to the original."""
        if before is None or bool(((now == before) | ((now != now) & (before != before))).all()):
            return
        original[...] = units.to_book(unit, now)


def _unpacked(value: Any) -> list[Any]:
    """The results that a check would unpack: an array that stayed one would keep the book's order."""
    try:
        return list(value)
    except TypeError:
        return []


def _copied(value: Any) -> Any:
    """A copy of what may be changed in place; None for all else, and where a gradient runs through it."""
    if getattr(value, "requires_grad", False):
        return None
    if hasattr(value, "detach"):
        return value.detach().clone()
    return value.copy() if isinstance(value, np.ndarray) else None


def book_form(
    function: Callable[..., Any],
    parameters: str = "",
    *,
    optional: str = "",
    order: str = "",
    outputs: str = "",
    returned: str = "",
    arguments: Mapping[str, str] | None = None,
    results: Mapping[str, str] | None = None,
    keys: Mapping[str, str] | None = None,
) -> Callable[..., Any]:
    """A function of a course in the form that the book's check calls; names are separated by spaces.

    A cell of a pack calls this. The words are those of `Form`; an order that is left out is the book's.
    """
    names: Sequence[str] = parameters.split()
    form = Form(
        parameters=tuple(names),
        optional=tuple(optional.split()),
        order=tuple((order or parameters).split()),
        arguments=arguments or {},
        outputs=tuple(outputs.split()),
        returned=tuple((returned or outputs).split()),
        results=results or {},
        keys=keys or {},
    )
    return _InBookForm(function, form)
