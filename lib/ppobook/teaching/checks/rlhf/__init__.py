"""Checks of chapter 7's exercises, from people's preferences: RLHF.

On tokens the mistakes are mostly in indices: which column, which cells of the mask, which end of a row. So
probes are rows of different lengths with numbers that differ from cell to cell, and then the same with nan in
all cells that nothing should read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from .. import Chapter, Stop, as_array, words

CHAPTER = Chapter(
    7,
    "RLHF: learning from people's preferences",
    {
        "sec-rlhf-episode": "A sentence is an episode",
        "sec-rlhf-batch": "Everything from chapters 1 to 5, in a batch of tokens",
        "sec-rlhf-bradley-terry": "Bradley and Terry, and the loss",
        "sec-rlhf-identifiable": "What choices can tell, and what they cannot",
        "sec-rlhf-objective": "The objective: reward minus a KL penalty",
        "sec-rlhf-beta": "What β means",
        "sec-rlhf-leashes": "Two limits: the clip and the KL penalty",
        "sec-rlhf-ppo": "PPO on tokens",
        "sec-rlhf-masks": "What is masked, what ends, what is cut",
    },
)


def several(
    back: Any, shapes: Sequence[tuple[int, ...]], names: Sequence[str], *, finite: bool = False
) -> list[np.ndarray]:
    """The things that came back, as arrays of these shapes."""
    listed = " and ".join([", ".join(names[:-1]), names[-1]])
    if back is None:
        raise Stop("returned", "nothing came back", f"{listed} must come back. Is there a `return`?")
    listed_or_stacked = isinstance(back, tuple | list) or len(getattr(back, "shape", ())) > 1
    if not listed_or_stacked or len(back) != len(shapes):
        raise Stop("returned", f"not {len(shapes)} things", f"{listed} must come back; got {words(back)}.")
    triples = zip(back, shapes, names, strict=True)
    return [as_array(one, shape, name, finite=finite) for one, shape, name in triples]


def part(
    answer: Callable[..., Any],
    which: int,
    names: Sequence[str],
    shapes: Callable[..., Sequence[tuple[int, ...]]],
) -> Callable[..., np.ndarray]:
    """One of several things that the reader's function returns, as a function of the same arguments."""

    def function(*arguments: Any) -> np.ndarray:
        return several(answer(*arguments), shapes(*arguments), names)[which]

    return function


def masks(rng: np.random.Generator, shape: tuple[int, int], *, empty: bool = True) -> np.ndarray:
    """Texts of different lengths, padded on the right; some of the rows may be padding only."""
    lengths = rng.integers(0 if empty else 1, shape[1] + 1, size=shape[0])
    return np.asarray(np.arange(shape[1]) < lengths[:, None])


def litter(rng: np.random.Generator, values: np.ndarray, read: np.ndarray) -> np.ndarray:
    """The values, with something else wherever nothing should read them: nan, infinities, or numbers."""
    choices: list[list[float]] = [[np.nan, np.nan], [np.inf, -np.inf], [-np.inf, np.nan], [30.0, -40.0]]
    anything = np.array(choices[rng.integers(len(choices))])
    return np.where(read, values, anything[rng.integers(2, size=values.shape)])


def alike(left: Tensor | np.ndarray, right: Tensor | np.ndarray) -> bool:
    """Equal, nan being equal to nan."""
    return bool(np.array_equal(np.asarray(left), np.asarray(right), equal_nan=True))
