"""Checks of chapter 2's exercises, trust regions and TRPO.

Each probe is small enough to be worked out by hand. Where a number must be known exactly it comes from a
definition that is slow and of no use to a reader in a hurry: a sum over every trajectory, finite differences,
a world whose tables are made up, a matrix written out. A mistake is recognised by what it does to the probe.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Chapter, Stop

CHAPTER = Chapter(
    2,
    "Trust regions and TRPO",
    {
        "sec-ratios": "Importance ratios: correcting for the old actions",
        "sec-ess": "Effective sample size: how many samples are left?",
        "sec-difference": "The performance-difference lemma",
        "sec-surrogate": "The surrogate, and what it leaves out",
        "sec-bound": "The bound: a guarantee that allows only tiny steps",
        "sec-mean-kl": "TRPO's problem: the best step within a mean KL",
        "sec-natural-gradient": "The natural gradient",
        "sec-line-search": "The line search: try the step before taking it",
        "sec-trpo": "The whole of TRPO",
    },
)


def two(value: Any, expected: str) -> tuple[Any, Any]:
    """The two results of the reader's function."""
    if value is None:
        raise Stop("returned", "nothing came back", f"It is to return {expected}. Is there a `return`?")
    if not isinstance(value, tuple | list) or len(value) != 2:
        results = isinstance(value, tuple | list)
        came = f"{len(value)} results" if results else f"one thing, a {type(value).__name__}"
        raise Stop("returned", "not two results", f"It is to return {expected}; what came back is {came}.")
    return value[0], value[1]


def softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def divergence(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """KL(q, p) of each row."""
    return (q * np.log(q / p)).sum(-1)


def score_table(logits: np.ndarray) -> np.ndarray:
    """Row a: the slopes of log π(a) by each logit, from central differences and nothing else."""
    bumped = logits - logits.max() + np.array([[1e-5], [-1e-5]])[:, :, None] * np.eye(len(logits))
    up, down = bumped - np.log(np.exp(bumped).sum(-1, keepdims=True))
    return (up - down).T / 2e-5


def lowest(F: np.ndarray, b: np.ndarray, products: int) -> np.ndarray:  # noqa: N803
    """The lowest point of ½ xᵀFx − bᵀx in the span of b, F b, F² b, …, one of them for each product."""
    basis, fresh = np.zeros((len(b), 0)), b
    for _ in range(products):
        size = np.linalg.norm(fresh)
        fresh = fresh - basis @ (basis.T @ fresh)
        fresh = fresh - basis @ (basis.T @ fresh)  # once more, against rounding
        if np.linalg.norm(fresh) <= 1e-9 * size:
            break
        fresh = fresh / np.linalg.norm(fresh)
        basis, fresh = np.column_stack([basis, fresh]), F @ fresh
    return basis @ np.linalg.solve(basis.T @ F @ basis, basis.T @ b)
