"""Checks of chapter 9's exercises, the DPO family.

A loss on pairs has few places for a mistake, and many of them cancel: a prompt that is counted on both
sides, a ratio and a pair that are both turned round. So the probes give each of the four numbers of a pair,
each cell of a text and each prompt a value of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import Answer, Chapter
from ..rlhf import several

CHAPTER = Chapter(
    9,
    "DPO and its variants: learning without a reward model",
    {
        "sec-dpo-optimum": "The optimum, in closed form",
        "sec-dpo-loss": "A policy is a reward model",
        "sec-dpo-beta": "What β means here, and certainty",
        "sec-dpo-gradient": "What the gradient does",
        "sec-dpo-fall": "When both likelihoods fall",
        "sec-dpo-code": "DPO in a few lines",
        "sec-dpo-log": "What the log says",
        "sec-dpo-family": "IPO, KTO, SimPO",
        "sec-dpo-length": "Sums, means, and length",
    },
)


def log_sigmoid(x: Any) -> np.ndarray:
    """log σ(x), without a large exponential."""
    return np.asarray(-np.logaddexp(0.0, -np.asarray(x, dtype=np.float64)))


def sigmoid(x: Any) -> np.ndarray:
    return np.asarray(np.exp(log_sigmoid(x)))


def unstacked(back: Any) -> Any:
    """A row of numbers as a list of them."""
    return list(back) if len(getattr(back, "shape", ())) == 1 else back


def one_of(answer: Answer, which: int, names: Sequence[str]) -> Callable[..., Any]:
    """One of several losses that the reader's function returns, with its way back."""

    def function(*arguments: Any) -> Any:
        back = unstacked(answer(*arguments))
        several(back, [()] * len(names), names)
        return back[which]

    return function
