"""Probing an answer with tensors: gradients, and whether it agrees with a slow definition."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .findings import DRAWN_FROM, Mistake, Property, Stop, as_array, numbers, words


class Problem(SimpleNamespace):
    """The arguments of one call by their names and in their order, as NumPy arrays and plain numbers."""

    def __str__(self) -> str:
        return "\n".join(f"    {name} = {_plain(value)}" for name, value in vars(self).items())


def _size(problem: Problem) -> int:
    return sum(np.size(value) for value in vars(problem).values())


def _largest(problem: Problem) -> float:
    """The largest finite number among the arguments."""
    found = [
        np.abs(np.asarray(v, dtype=np.float64)) for v in vars(problem).values() if not isinstance(v, str)
    ]
    return max((float(array[np.isfinite(array)].max(initial=0.0)) for array in found), default=0.0)


def _plain(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic | list | tuple | int | float):
        return numbers(value)
    return words(value)


def random_problems(
    draw: Callable[[np.random.Generator], dict[str, Any]], count: int = 20, seed: int | None = None
) -> list[Problem]:
    """`count` problems from one generator; let some be small, because the smallest that fails is shown.

    Without a `seed` they come from that of the check: see `run`.
    """
    rng = np.random.default_rng(DRAWN_FROM.get() if seed is None else seed)
    return [Problem(**draw(rng)) for _ in range(count)]


def leaf(values: Any, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor whose gradient can be asked for."""
    return torch.tensor(np.asarray(values), dtype=dtype, requires_grad=True)


def tensor(value: Any) -> Any:
    """An argument as a reader's function gets it: an array as a tensor (float32), a number as it is."""
    if not isinstance(value, np.ndarray):
        return value
    return torch.tensor(value, dtype=torch.float32 if value.dtype.kind == "f" else None)


def gradients(value: Any, *leaves: Tensor, what: str = "your loss", section: str = "") -> list[np.ndarray]:
    """The gradients of one number by the leaves, zeros where autograd finds no way to one."""
    as_array(value, (), what)
    if not isinstance(value, Tensor):
        raise Stop("returned", "no tensor", f"{what}: autograd needs a tensor, got {words(value)}.")
    if not value.requires_grad:
        raise Mistake("cut off from autograd", section=section, what=what)
    try:
        found = torch.autograd.grad(value, leaves, allow_unused=True, retain_graph=True)
    except RuntimeError as error:
        if "inplace" not in str(error):
            raise
        raise Mistake("autograd's notes are overwritten", section=section, what=what) from None
    return [
        np.zeros(leaf.shape) if g is None else g.double().numpy()
        for leaf, g in zip(leaves, found, strict=True)
    ]


def finite_differences(
    function: Callable[[np.ndarray], Any], at: np.ndarray, step: float = 1e-5
) -> np.ndarray:
    """The slopes of a function of an array by each entry, from central differences and nothing else."""
    at = np.array(at, dtype=np.float64)
    slopes = np.zeros(at.shape)
    for where in np.ndindex(at.shape):
        ends = []
        for sign in (1, -1):
            moved = at.copy()
            moved[where] += sign * step
            ends.append(float(function(moved)))
        slopes[where] = (ends[0] - ends[1]) / (2 * step)
    return slopes


def agrees(
    answer: Callable[..., Any],
    slow: Callable[[Problem], Any],
    problems: Iterable[Problem],
    *,
    what: str = "your result",
    by: Sequence[str] = (),
    held: Sequence[str] = (),
    value: bool = True,
    arrays: bool = False,
    tolerance: float = 1e-3,
    section: str = "",
) -> Property:
    """The property that closes a check: the answer gives what a slow definition gives, on every problem.

    Parameters
    ----------
    answer : is called with a problem's arguments in their order, arrays as tensors
    slow : what it must give, from the problem, as an array; a number where gradients are compared. Or, for a
        loss that holds something still, the gradients themselves, as a dict by the arguments' names
    by : arguments whose gradients are compared too, with central differences of `slow`: the answer is a loss
    held : arguments that carry a graph and that no gradient may reach
    value : False where only the gradient is asked for
    arrays : True where the answer gets NumPy arrays as they were drawn: float64, or integers
    tolerance : relative to the largest number of what must come
    """
    problems = sorted(problems, key=_size)
    words = f"it agrees with a slow definition on {len(problems)} random problems"
    for problem in problems:
        wanted, largest = slow(problem), _largest(problem)
        moving = (*(wanted if isinstance(wanted, dict) else by), *held)
        # The answer may keep what it gets and write into it.
        given = copy.deepcopy if arrays else tensor
        arguments = {name: leaf(v) if name in moving else given(v) for name, v in vars(problem).items()}
        came = answer(*arguments.values())
        pairs = []
        if value and not isinstance(wanted, dict):
            array = np.asarray(wanted, dtype=np.float64)
            pairs.append((what, as_array(came, array.shape, what, finite=False), array))
        slopes = (
            gradients(came, *(arguments[n] for n in moving), what=what, section=section) if moving else []
        )
        for name, slope in zip(moving, slopes, strict=True):
            if name in held:
                expected = np.zeros(slope.shape)
            else:
                expected = wanted[name] if isinstance(wanted, dict) else _slopes(slow, problem, name)
            pairs.append((f"its gradient by {name}", slope, np.asarray(expected, dtype=np.float64)))
        for part, got, expected in pairs:
            if not _near(got, expected, tolerance, largest):
                seen = f"with\n{problem}\n{part}:\n    {numbers(got)}\n"
                return Property(words, False, f"{seen}by the slow definition:\n    {numbers(expected)}")
    return Property(words, True)


def _slopes(slow: Callable[[Problem], Any], problem: Problem, name: str) -> np.ndarray:
    return finite_differences(lambda x: slow(Problem(**{**vars(problem), name: x})), vars(problem)[name])


def _near(got: np.ndarray, expected: np.ndarray, tolerance: float, largest: float) -> bool:
    """Equal, as far as float32 goes where numbers as large as `largest` may have cancelled."""
    scale = float(np.abs(expected).max(initial=0.0))
    return bool(np.allclose(got, expected, rtol=tolerance, atol=tolerance * scale + 1e-6 * (1 + largest)))
