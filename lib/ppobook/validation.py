"""Checks of arguments, for the public functions, the command line and files that are read.

Every error names the argument, what it must be and what was passed, as in "gamma must be a number in [0, 1],
got 2". Nothing is checked inside loops. Importing this module does not import torch: whoever passes a tensor
has imported it already.
"""

from __future__ import annotations

import difflib
import math
import numbers
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch


class NotFiniteError(ValueError):
    """A number is NaN or infinite that must be finite."""


# NumPy in, NumPy out; torch in, torch out.
ArrayT = TypeVar("ArrayT", np.ndarray, "torch.Tensor")


def is_tensor(x: Any) -> bool:
    """Return True if x is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def one_library(**arrays: Any) -> Any:
    """The module, numpy or torch, that the first array belongs to; arrays beside tensors raise TypeError."""
    first = next(iter(arrays))
    if not is_tensor(arrays[first]):
        return np
    for name, x in arrays.items():
        if not is_tensor(x):
            raise TypeError(f"{name} must be a torch tensor, as {first} is, got {type(x).__name__}")
    return sys.modules["torch"]


def shape(name: str, x: Any, expected: Sequence[int], why: str) -> None:
    """Check that x has the expected shape; `why` says what that shape is: "the shape of values"."""
    if x.shape != expected and tuple(x.shape) != tuple(expected):
        raise ValueError(f"{name} must have shape {tuple(expected)}, {why}, got {tuple(x.shape)}")


def finite(name: str, x: Any) -> None:
    """Check that x holds no NaN and no infinity."""
    # A finite sum has finite terms, and is quick to take. One that is not may have overflowed: then look at
    # each entry.
    if math.isfinite(x.sum()):
        return
    bad = ~one_library(x=x).isfinite(x)
    if bad.any():
        raise NotFiniteError(f"{name} must be finite, got {_number(x[_first(bad)])} at index {place(bad)}")


def positive(name: str, x: Any) -> None:
    """Check that no entry of x is 0 or below."""
    bad = x <= 0
    if bad.any():
        raise ValueError(f"{name} must be above 0, got {_number(x[_first(bad)])} at index {place(bad)}")


def flags(name: str, x: Any, expected: Sequence[int], why: str) -> Any:
    """x, which must hold bool or 0/1 and have the expected shape, as booleans."""
    x = x if is_tensor(x) else np.asarray(x)
    shape(name, x, expected, why)
    if x.dtype == one_library(x=x).bool:
        return x
    bad = (x != 0) & (x != 1)
    if bad.any():
        raise ValueError(f"{name} must be bool or 0/1, got {_number(x[_first(bad)])} at index {place(bad)}")
    return x != 0


def number(name: str, x: Any, *, low: float = -np.inf, high: float = np.inf, above: float = -np.inf) -> float:
    """x, which must be a finite real number with low <= x <= high and x > above, as a float."""
    if not isinstance(x, numbers.Real) or isinstance(x, bool):
        raise TypeError(f"{name} must be {_range(low, high, above)}, got {x!r}")
    value = float(x)
    if not math.isfinite(value) or not low <= value <= high or not value > above:
        raise ValueError(f"{name} must be {_range(low, high, above)}, got {x}")
    return value


def count(name: str, x: Any, *, low: int | None = 1, high: int | None = None) -> int:
    """x, which must be an integer with low <= x <= high, as an int."""
    expected = f"an integer of at least {low}" if high is None else f"an integer in [{low}, {high}]"
    expected = "an integer" if low is None else expected
    if not isinstance(x, numbers.Integral) or isinstance(x, bool):
        raise TypeError(f"{name} must be {expected}, got {x!r}")
    integer = int(x)
    if (low is not None and integer < low) or (high is not None and integer > high):
        raise ValueError(f"{name} must be {expected}, got {x}")
    return integer


def whole(name: str, x: Any, *, low: int | None = 1, high: int | None = None) -> int:
    """As `count`; also a float without a fraction: 1e5."""
    return count(name, int(x) if isinstance(x, float) and x.is_integer() else x, low=low, high=high)


def flag(name: str, x: Any) -> bool:
    """x, which must be a bool. (Any non-empty string, "no" too, would be true.)"""
    if not isinstance(x, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {x!r}")
    return bool(x)


def path(name: str, x: Any, what: str = "a folder") -> Path:
    """x, which must be a non-empty path, as a Path. (The empty path would be the working directory.)

    A leading ~ is the home folder, as in a shell: one in a YAML file or after --out= is left to the program.
    """
    given = os.fspath(x) if isinstance(x, os.PathLike) else x
    if not isinstance(given, str):
        raise TypeError(f"{name} must be the path of {what}, got {x!r}")
    if not given.strip() or "\0" in given:
        raise ValueError(f"{name} must be the path of {what}, got {given!r}")
    return Path(os.path.expanduser(given))


def reason(error: BaseException) -> str:
    """Type and message of another library's error, in one line: "KeyError: 'wheel'"."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def counted(count: int, noun: str) -> str:
    """A number of things: "1 update", "16,384 steps"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def choice(name: str, x: Any, known: Iterable[str]) -> str:
    """x, which must be one of the known names. The error suggests close matches."""
    known = list(known)
    if isinstance(x, str) and x in known:
        return str(x)
    raise ValueError(f"{name} must be {one_of(known)}, got {x!r}{did_you_mean(x, known)}")


def one_of(known: Sequence[str], *, show: int = 12) -> str:
    """The known names in a message, at most `show` of them: "one of 'ppo', 'trpo'"."""
    return f"one of {', '.join(map(repr, known[:show]))}" + (", …" if len(known) > show else "")


def did_you_mean(x: Any, known: Iterable[str], shown: str = "{!r}") -> str:
    """The end of a message about an unknown name, ". Did you mean 'ppo'?"; empty if no known one is close."""
    lowered = {name.lower(): name for name in known}
    close = [lowered[c] for c in difflib.get_close_matches(str(x).lower(), lowered, n=2)]
    return f". Did you mean {' or '.join(map(shown.format, close))}?" if close else ""


def whole_archive(file: Any) -> None:
    """Check that a file, or the path of one, is as torch.save wrote it: torch.load checks no checksums."""
    import zipfile

    with zipfile.ZipFile(file) as archive:
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f"{damaged} is damaged: its checksum does not fit")


def place(bad: Any) -> str:
    """The index of the first True of an array, as text: "3" or "(0, 3)"."""
    index = _first(bad)
    return str(index[0]) if len(index) == 1 else str(index)


def _first(bad: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in (bad.nonzero()[0] if is_tensor(bad) else np.argwhere(bad)[0]))


def _number(x: Any) -> str:
    return f"{float(x.detach() if is_tensor(x) else x):g}"


def _range(low: float, high: float, above: float) -> str:
    if above > -np.inf:
        return f"a number above {above:g}" + (f" and at most {high:g}" if high < np.inf else "")
    if low > -np.inf and high < np.inf:
        return f"a number in [{low:g}, {high:g}]"
    if low > -np.inf:
        return f"a number of at least {low:g}"
    return f"a number of at most {high:g}" if high < np.inf else "a finite number"
