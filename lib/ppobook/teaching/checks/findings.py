"""Findings of checks and comparisons: mistakes by name, properties, numbers as a reader sees them.

Nothing here needs torch; what probes an answer with tensors stands in `probes`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

# Where the random problems of a check come from: 0 in a notebook, so that it finds the same twice; a
# grader takes another number, that nobody knows.
DRAWN_FROM: ContextVar[int] = ContextVar("DRAWN_FROM", default=0)


class Mistake(Exception):  # noqa: N818
    """A mistake recognised by what it does. Its message stands in the data beside the check's module.

    A check yields it, or raises it from the middle of a call. The keyword arguments are what the message
    names in braces: numbers and arrays are shown rounded, and a format of their own is obeyed ({share:.0%}).
    The headline is the mistake's name, if no other is given.
    """

    def __init__(self, name: str, *, section: str = "", headline: str = "", **values: Any) -> None:
        super().__init__(name)
        self.name, self.section, self.values = name, section, values
        self.headline = headline or name

    def message(self, row: Mapping[str, str], section: str) -> tuple[str, str, str]:
        """Return the observation, the question and the section to read, from a row of the data."""
        values = {key: _Shown(value) for key, value in self.values.items()}
        seen, think = (row[key].format_map(values) for key in ("seen", "think"))
        return seen, think, self.section or row.get("section", section)


@dataclass(frozen=True)
class Property:
    """A statement that a right answer makes true, in words; `seen` is shown where it fails."""

    words: str
    holds: bool
    seen: str = ""


class Stop(Exception):  # noqa: N818
    """Carries a verdict out of the middle of a check."""

    def __init__(self, kind: str, name: str, *paragraphs: str) -> None:
        super().__init__(name)
        self.kind, self.name, self.paragraphs = kind, name, paragraphs


Findings = Iterator[Mistake | Property]


@dataclass(frozen=True)
class Either:
    """Several outputs that mean the same mistake."""

    outputs: tuple[Any, ...]


def either(*outputs: Any) -> Either:
    return Either(outputs)


def recognise(
    seen: Any, table: Mapping[str, Any], *, tolerance: float = 1e-3, **values: Any
) -> Iterator[Mistake]:
    """The first row of the table that is what was seen.

    Parameters
    ----------
    seen : what the reader's function gave on the probe: an array, or a list of arrays for several probes
    table : a mistake's name, and what it gives on the probe, worked out beforehand (`either` of several, a
        number that all entries are equal to, a list where `seen` is one), or True or False where the check
        has found out by other means
    values : what the messages name in braces; `got` is what was seen
    """
    for name, row in table.items():
        if _is(seen, row, tolerance):
            yield Mistake(name, **{"got": seen, **values})
            return


def _is(seen: Any, output: Any, tolerance: float) -> bool:
    if isinstance(output, Either):
        return any(_is(seen, one, tolerance) for one in output.outputs)
    if isinstance(output, bool | np.bool_):
        return bool(output)
    if isinstance(seen, list):
        return len(output) == len(seen) and all(
            _is(one, other, tolerance) for one, other in zip(seen, output, strict=True)
        )
    array = np.asarray(output, dtype=np.float64)
    return close(seen, np.full(np.shape(seen), array) if array.ndim == 0 else array, tolerance)


def as_array(value: Any, shape: tuple[int, ...], what: str = "it", *, finite: bool = True) -> np.ndarray:
    """Return the result of the reader's function as a float64 array of the given shape.

    Tensors, arrays and plain numbers are taken as they come; anything else ends the check with a sentence
    that says what was wanted and what came.
    """
    wanted = "one number" if shape == () else f"numbers of shape {list(shape)}"
    if value is None:
        raise Stop("returned", "nothing came back", f"{wanted} must come back. Is there a `return`?")
    try:
        plain = value.detach().cpu().double().numpy() if hasattr(value, "detach") else value
        array = np.asarray(plain, dtype=np.float64)
    except (TypeError, ValueError):
        raise Stop("returned", "wrong type", f"{what}: wanted {wanted}, got {words(value)}.") from None
    if array.shape != shape:
        raise Stop("returned", "wrong shape", f"{what}: wanted {wanted}, got {words(value)}.")
    if finite and not np.isfinite(array).all():
        bad = array[~np.isfinite(array)][0]
        raise Stop("returned", "not finite", f"{what}: wanted finite numbers, got {bad}.")
    return array


def close(left: Any, right: Any, tolerance: float = 1e-4) -> bool:
    """Equal to within what float32 leaves of a short calculation; false for other shapes."""
    left, right = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    return left.shape == right.shape and bool(np.allclose(left, right, rtol=tolerance, atol=tolerance))


def numbers(values: Any, digits: int = 3) -> str:
    """Numbers as a reader wants to see them: rounded, without a type; of a long row, the beginning."""
    array = np.asarray(values)
    if array.ndim == 0:
        if array.dtype == bool:
            return str(bool(array))
        if array.dtype.kind in "iu":
            return str(int(array))
        number = float(array) + 0.0
        return f"{number:.{6 if 10**digits <= abs(number) < 1e6 else digits}g}"
    shown = [numbers(value, digits) for value in array[:12]]
    return "[" + ", ".join(shown + ["…"] * (len(array) > 12)) + "]"


def words(value: Any) -> str:
    """A value in a few words: its shape, its length, or itself."""
    if hasattr(value, "shape"):
        kind = "a tensor" if hasattr(value, "detach") else "an array"
        return f"{kind} of shape {list(value.shape)}" if len(value.shape) else f"{kind} with one number"
    if isinstance(value, bool | int | float | str) or value is None:
        return textwrap.shorten(repr(value), 40, placeholder="…")
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of length {len(value)}"
    return f"a {type(value).__name__}"


_TEXT, _ENTRIES = 2000, 12


class _Shown:
    """A value inside a message: text as it is, numbers rounded unless the message has a format for them.

    Of a long text or list, the beginning.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __format__(self, how: str) -> str:
        if isinstance(self.value, str):
            return format(self.value[:_TEXT], how)
        if how:
            return format(self.value, how)
        if isinstance(self.value, list):
            shown = [f"{_Shown(value)}" for value in self.value[:_ENTRIES]]
            return "[" + ", ".join(shown + ["…"] * (len(self.value) > _ENTRIES)) + "]"
        return numbers(self.value)

    def __getitem__(self, key: Any) -> _Shown:
        return _Shown(self.value[key])
