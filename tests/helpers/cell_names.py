"""The names that a notebook's cell takes from earlier cells, and those that it leaves to later ones."""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType


@dataclass(frozen=True)
class Names:
    """Names that a cell reads from earlier cells (builtins too), and names that it binds, at its own level.

    A name that is read before it is bound, as in `total = total + 1`, is only brought up to date: it is not
    among those bound.
    """

    reads: frozenset[str]
    binds: frozenset[str]
    imports: frozenset[tuple[str, str]]
    """Imported names among those that it binds, each with its origin."""


@cache
def names_of(source: str) -> Names:
    """The names of a cell, from what Python makes of it."""
    code = compile(source, "cell", "exec")
    reads: set[str] = set()
    stored: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname == "STORE_NAME":
            stored.add(step.argval)
        elif step.opname == "LOAD_NAME" and step.argval not in stored:
            reads.add(step.argval)
    for function in _functions(code):
        reads |= _globals(function) - stored
    return Names(frozenset(reads), frozenset(stored - reads), frozenset(_imports(source)))


def _functions(code: CodeType) -> Iterator[CodeType]:
    return (const for const in code.co_consts if isinstance(const, CodeType))


def _globals(code: CodeType) -> set[str]:
    """The names that a function, a class or a comprehension looks up outside of itself."""
    steps = list(dis.get_instructions(code))
    own = {step.argval for step in steps if step.opname == "STORE_NAME"}
    asked = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
    found = {step.argval for step in steps if step.opname in asked} - own
    return found.union(*(_globals(inner) for inner in _functions(code)))


def _imports(source: str) -> Iterator[tuple[str, str]]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                bound = alias.asname or alias.name.split(".")[0]
                yield bound, f"{module}{alias.name}" if alias.asname or module else bound


def two_meanings(cells: list[str]) -> Iterator[tuple[int, str, list[int]]]:
    """Each read of a name that several earlier cells bind: the cell, the name, the cells that bind it."""
    bound: dict[str, list[int]] = {}
    origins: dict[str, set[str | None]] = {}
    for index, source in enumerate(cells):
        names = names_of(source)
        for name in sorted(names.reads):
            if len(bound.get(name, [])) > 1 and (None in origins[name] or len(origins[name]) > 1):
                yield index, name, bound[name]
        imported = dict(names.imports)
        for name in names.binds:
            bound.setdefault(name, []).append(index)
            origins.setdefault(name, set()).add(imported.get(name))


def from_boxes(cells: list[str], where: list[str]) -> Iterator[tuple[int, str]]:
    """Each name that a cell on the "road" reads and that only cells in a "deeper" box have bound before."""
    boxed: set[str] = set()
    road: set[str] = set()
    for index, (source, place) in enumerate(zip(cells, where, strict=True)):
        names = names_of(source)
        if place == "road":
            yield from ((index, name) for name in sorted((names.reads & boxed) - road))
        if place == "deeper":
            boxed |= names.binds
        else:
            road |= names.binds
