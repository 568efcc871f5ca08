"""Checks that are not the book's: those beside an instructor's own exercises.

A file of such checks has the form of the book's, see `ppobook.teaching.checks`. `run` knows them for the
length of a block:

    with known(Path("exercises/20_medians_checks.py")) as found:
        run("median-advantages", function)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from . import _Entry, _registry, names


@contextmanager
def known(file: Path) -> Iterator[Mapping[str, _Entry]]:
    """The checks of a file by name, which `run` knows until the block is left.

    Raises
    ------
    ValueError
        The file can't be loaded, or a check of it has the name of one of the book's.
    """
    module = f"{__name__}.{file.stem}"
    try:
        found, where = _loaded(module, file), names()
        for name in found:
            if name in where:
                raise ValueError(
                    f"{_called(file)}: name must be one that no check of the book has, got {name!r}"
                )
        where.update(dict.fromkeys(found, module))
        _registry.update(found)
        try:
            yield found
        finally:
            for name in found:
                del where[name], _registry[name]
    finally:
        sys.modules.pop(module, None)


def _loaded(module: str, file: Path) -> dict[str, _Entry]:
    """Return what the file registers when run as a module of this name, without keeping a compiled copy."""
    made = ModuleType(module)
    made.__file__ = str(file)
    sys.modules[module] = made  # for `Chapter.check`, which looks for the messages beside it
    book = dict(_registry)
    _registry.clear()  # so that a name is compared with the book's by `known`, loaded yet or not
    try:
        exec(compile(file.read_bytes(), str(file), "exec"), vars(made))
    except Exception as error:
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ValueError(f"{_called(file)}{_line(error, file)}: {what}") from None
    finally:
        new = dict(_registry)
        own = {name: entry for name, entry in new.items() if entry.function.__module__ == module}
        _registry.clear()
        _registry.update(book | {name: entry for name, entry in new.items() if name not in own})
    return own


def _called(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"


def _line(error: Exception, file: Path) -> str:
    """In which line of the file an exception was raised, in words."""
    number, at = getattr(error, "lineno", None), error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == str(file):
            number = at.tb_lineno
        at = at.tb_next
    return f", line {number}" if number else ""
