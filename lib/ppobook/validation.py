"""The doors of the library: every argument is looked at once, where it comes in.

A check that refuses says which argument it was, what came and what was wanted. Importing this module
imports no torch: a tensor can only reach us from someone who has imported torch already.
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

# NumPy in, NumPy out; torch in, torch out.
ArrayT = TypeVar("ArrayT", np.ndarray, "torch.Tensor")


def is_tensor(x: Any) -> bool:
    """Whether x is a torch tensor, found out without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def one_library(**arrays: Any) -> Any:
    """The module, numpy or torch, that all of the arrays belong to.

    None and plain Python numbers and sequences go with either; an array beside a tensor is refused, since
    one of the two would have to change its kind, its device or its gradient unasked.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return np
    tensors = {name: x for name, x in arrays.items() if isinstance(x, torch.Tensor)}
    if not tensors:
        return np
    first, tensor = next(iter(tensors.items()))
    if len(tensors) == len(arrays) == 1:
        return torch
    for name, x in arrays.items():
        if isinstance(x, np.ndarray):
            raise TypeError(
                f"{name} is a NumPy array and {first} is a torch tensor; they must be of one kind "
                f"(torch.as_tensor turns an array into a tensor)"
            )
    for name, x in tensors.items():
        if x.device != tensor.device:
            raise ValueError(
                f"{name} is on {x.device} and {first} on {tensor.device}; they must be on one device"
            )
    return torch


def present(**arrays: Any) -> None:
    """Refuse None where an array is needed."""
    for name, x in arrays.items():
        if x is None:
            raise TypeError(f"{name} is None; an array or a tensor is wanted")


def floats(**arrays: Any) -> list[Any]:
    """The arrays in one floating dtype, in the order they came; None stays None.

    The widest floating dtype among them wins. Integers and booleans have no say unless they are alone, so
    that integer rewards do not turn float32 values into float64.
    """
    library = one_library(**arrays)
    device = next((x.device for x in arrays.values() if is_tensor(x)), None)
    given: dict[str, Any] = {}
    for name, x in arrays.items():
        if x is None:
            continue
        try:
            if not is_tensor(x):
                x = np.asarray(x) if library is np else library.as_tensor(x, device=device)
            given[name] = x
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"{name} cannot be read as an array of numbers: {error}") from None
        if library is np and given[name].dtype.kind not in "fiub":
            raise TypeError(f"{name} has dtype {given[name].dtype}; real numbers are wanted")
        if library is not np and given[name].is_complex():
            raise TypeError(f"{name} has dtype {given[name].dtype}; real numbers are wanted")

    # A plain Python number or list takes the dtype of the arrays it stands beside.
    typed = [x for name, x in given.items() if hasattr(arrays[name], "dtype")] or list(given.values())
    if library is np:
        found = [x.dtype for x in typed if x.dtype.kind == "f"]
        dtype: Any = np.result_type(*found) if found else np.dtype(np.float64)
        return [None if x is None else given[name].astype(dtype, copy=False) for name, x in arrays.items()]
    dtype = None
    for x in typed:
        if x.is_floating_point():
            dtype = x.dtype if dtype is None else library.promote_types(dtype, x.dtype)
    dtype = dtype or library.get_default_dtype()
    return [None if x is None else given[name].to(dtype) for name, x in arrays.items()]


def tensor(name: str, x: Any) -> torch.Tensor:
    """x, which must be a floating torch tensor."""
    if not is_tensor(x):
        raise TypeError(f"{name} is of type {type(x).__name__}; a torch tensor is wanted")
    if not x.is_floating_point():
        raise TypeError(f"{name} has dtype {x.dtype}; a floating dtype is wanted")
    return x


def shape(name: str, x: Any, wanted: Sequence[int], why: str) -> None:
    """Refuse an x of another shape than wanted; `why` ends the sentence."""
    if x.shape != wanted and tuple(x.shape) != tuple(wanted):
        raise ValueError(f"{name} has shape {tuple(x.shape)}; {tuple(wanted)} is wanted, {why}")


def broadcasts(name: str, x: Any, wanted: Sequence[int], why: str) -> None:
    """Refuse an x that cannot be broadcast to the wanted shape, or only by enlarging that."""
    try:
        fits = np.broadcast_shapes(tuple(x.shape), tuple(wanted)) == tuple(wanted)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}; one that broadcasts to {tuple(wanted)} is wanted, {why}"
        )


def last_axis(name: str, x: Any, what: str) -> None:
    """Refuse a scalar where an array with a last axis of `what` is wanted."""
    if x.ndim == 0:
        raise ValueError(f"{name} is a single number; an array whose last axis is {what} is wanted")


def not_empty(name: str, x: Any) -> None:
    """Refuse an array without entries."""
    if 0 in x.shape:
        raise ValueError(f"{name} is empty (shape {tuple(x.shape)}); at least one entry is wanted")


def finite(name: str, x: Any, *, where: Any = None) -> None:
    """Refuse NaN and infinities in x; with `where`, only in the entries that are read."""
    library = one_library(x=x)
    # A finite sum has finite terms, and is all that the inner loop of a training has time for. A sum that
    # is not may have overflowed: then look at each entry.
    if library is not np and where is None and math.isfinite(x.detach().sum().item()):
        return
    bad = ~library.isfinite(x)
    if where is not None:
        bad = bad & where
    if bad.any():
        raise ValueError(
            f"{name} is {_number(x[_first(bad)])} at index {place(bad)}; finite numbers are wanted"
        )


def positive(name: str, x: Any) -> None:
    """Refuse an array with an entry that is not a finite number above 0."""
    finite(name, x)
    bad = x <= 0
    if bad.any():
        raise ValueError(
            f"{name} is {_number(x[_first(bad)])} at index {place(bad)}; numbers above 0 are wanted"
        )


def flags(name: str, x: Any, wanted: Sequence[int], why: str) -> Any:
    """x as booleans of the wanted shape; whatever is neither bool nor 0 or 1 is refused."""
    x = x if is_tensor(x) else np.asarray(x)
    shape(name, x, wanted, why)
    library = one_library(x=x)
    if x.dtype == (np.dtype(bool) if library is np else library.bool):
        return x
    if library is np and x.dtype.kind not in "fiu":
        raise TypeError(f"{name} has dtype {x.dtype}; bool or 0/1 is wanted")
    bad = (x != 0) & (x != 1)
    if bad.any():
        raise ValueError(f"{name} is {_number(x[_first(bad)])} at index {place(bad)}; bool or 0/1 is wanted")
    return x != 0


def number(name: str, x: Any, *, low: float = -np.inf, high: float = np.inf, above: float = -np.inf) -> float:
    """x as a float, which must be a real number, low <= x <= high, and x > above."""
    if not isinstance(x, numbers.Real) or isinstance(x, bool):
        raise TypeError(f"{name} is {x!r}; a number {_range(low, high, above)} is wanted")
    value = float(x)
    if not math.isfinite(value) or not low <= value <= high or not value > above:
        raise ValueError(f"{name} is {x}; a number {_range(low, high, above)} is wanted")
    return value


def count(name: str, x: Any, *, low: int = 1, high: int | None = None) -> int:
    """x as an int, which must be a whole number, low <= x <= high."""
    wanted = f"a whole number of at least {low}{'' if high is None else f' and at most {high}'} is wanted"
    if not isinstance(x, numbers.Integral) or isinstance(x, bool):
        raise TypeError(f"{name} is {x!r}; {wanted}")
    whole = int(x)
    if whole < low or (high is not None and whole > high):
        raise ValueError(f"{name} is {x}; {wanted}")
    return whole


def flag(name: str, x: Any) -> bool:
    """x as a bool, which it must be: of the words "yes" and "no", Python takes both for True."""
    if not isinstance(x, bool | np.bool_):
        raise TypeError(f"{name} is {x!r}; True or False is wanted")
    return bool(x)


def path(name: str, x: Any) -> Path:
    """x as a path; an empty one, which Python takes for the folder we stand in, is refused."""
    given = os.fspath(x) if isinstance(x, os.PathLike) else x
    if not isinstance(given, str):
        raise TypeError(f"{name} is {x!r}; the path of a folder is wanted")
    if not given.strip() or "\0" in given:
        raise ValueError(f"{name} is {given!r}; the path of a folder is wanted")
    return Path(given)


def reason(error: BaseException) -> str:
    """What an error of somebody else's says, in one line: "KeyError: 'wheel'"."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def choice(name: str, x: Any, known: Iterable[str]) -> str:
    """x, which must be one of the known names; a near miss is told what it is near to."""
    known = list(known)
    if isinstance(x, str) and x in known:
        return str(x)
    raise ValueError(f"{name} is {x!r}; {nearest(x, known)}")


def nearest(x: Any, known: Sequence[str], *, show: int = 12) -> str:
    """The end of a sentence that refuses a name: what is close to it, and what there is."""
    lowered = {name.lower(): name for name in known}
    close = [lowered[c] for c in difflib.get_close_matches(str(x).lower(), lowered, n=3, cutoff=0.6)]
    listed = ", ".join(map(repr, known[:show])) + (", …" if len(known) > show else "")
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"{hint}one of {listed} is wanted"


def whole_archive(file: Any) -> None:
    """Refuse what torch.save wrote and something has changed since. torch reads it without a word.

    Parameters
    ----------
    file : path, or a binary file

    Raises
    ------
    ValueError, zipfile.BadZipFile
        An entry does not have the sum that was written beside it; it is no archive.
    """
    import zipfile

    with zipfile.ZipFile(file) as archive:
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f"{damaged} is not what was written")


def place(bad: Any) -> str:
    """Where the first True of an array stands, as a reader would index it."""
    index = _first(bad)
    return str(index[0]) if len(index) == 1 else str(index)


def _first(bad: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in (bad.nonzero()[0] if is_tensor(bad) else np.argwhere(bad)[0]))


def _number(x: Any) -> str:
    return f"{float(x.detach() if is_tensor(x) else x):g}"


def _range(low: float, high: float, above: float) -> str:
    if above > -np.inf:
        return f"above {above:g}" + (f" and at most {high:g}" if high < np.inf else "")
    if low > -np.inf and high < np.inf:
        return f"in [{low:g}, {high:g}]"
    if low > -np.inf:
        return f"of at least {low:g}"
    return f"of at most {high:g}" if high < np.inf else "that is finite"
