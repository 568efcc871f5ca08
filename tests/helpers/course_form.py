"""Answers in a course's form, for the tests of variants: the other way round from `book_form`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import answers

from ppobook.course.variants import Declaration, Form, Variant, units, variant


def course_form(function: Callable[..., Any], form: Form) -> Callable[..., Any]:
    """A function in the book's form, put into the course's: what a student with this answer would hand in."""

    def in_the_course(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip((*form.order, *form.optional), args, strict=False)) | kwargs
        for name, unit in form.arguments.items():
            if name in given:
                given[name] = units.to_book(unit, given[name])
        passed = [given.pop(name) for name in form.parameters]
        # Where the check left none out, all go by position: an answer may have names of its own.
        later = [given.pop(name) for name in form.optional if name in given and name not in kwargs]
        return _in_course(function(*passed, *later, **given), form)

    return in_the_course


def _in_course(value: Any, form: Form) -> Any:
    try:
        if "result" in form.results:
            value = units.to_course(form.results["result"], value)
        if form.outputs and isinstance(value, tuple | list) and len(value) == len(form.outputs):
            came = dict(zip(form.outputs, value, strict=True))
            came |= {n: units.to_course(u, came[n]) for n, u in form.results.items() if n in came}
            value = type(value)(came[name] for name in form.returned)
    except (TypeError, ValueError, AttributeError, ArithmeticError, IndexError, RuntimeError):
        pass  # a wrong answer, of a kind that has no unit
    return units.translate(value, dict(form.keys))


def covering(declaration: Declaration) -> Iterator[Variant]:
    """A few variants in which every option of every choice stands once, with different orders."""
    counts = declaration.counts
    for step in range(max(map(len, declaration.choices), default=1)):
        number, unit = 0, 1
        for place, count in enumerate(counts):
            number += unit * ((step * 7919 + 3 * place) % count if place < 3 else step % count)
            unit *= count
        yield variant(declaration, number)


def wrong_answers() -> dict[str, dict[str, Callable[..., Any]]]:
    """Return, for every part, the first answer with each mistake that its check knows by name."""
    found: dict[str, dict[str, Callable[..., Any]]] = {}
    for module in pkgutil.walk_packages(answers.__path__, "answers."):
        for part, table in getattr(importlib.import_module(module.name), "WRONG", {}).items():
            found[part] = {name: one[0] if isinstance(one, list) else one for name, one in table.items()}
    return found
