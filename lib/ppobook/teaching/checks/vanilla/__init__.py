"""Checks of chapter 1's exercises, vanilla policy gradient.

Each probe is small enough to be worked out by hand. Where a number must be known exactly it comes from a
definition that is slow and of no use to a reader in a hurry: finite differences, a sum over every outcome,
one number at a time. A mistake is recognised by what it does to the probe.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from .. import Chapter
from ..probes import finite_differences

CHAPTER = Chapter(
    1,
    "Vanilla policy gradient",
    {
        "sec-objective": "The objective: the expected return",
        "sec-gradient": "From an expected return to its gradient",
        "sec-bandit": "The gradient by hand, for three arms",
        "sec-reinforce": "REINFORCE against the exact gradient",
        "sec-reward-to-go": "Reward-to-go: credit only what came after",
        "sec-baseline": "The baseline: subtract what you expected",
        "sec-best-baseline": "Deeper: is the average the best number to subtract?",
        "sec-learned-value": "Value and advantage: learn what to expect",
        "sec-intervals": "Which learner is better, and how sure are we?",
        "sec-cartpole": "CartPole, with a network",
        "sec-collapse": "How training collapses",
        "sec-loss-code": "A loss with the right gradient",
    },
)


def log_probability(logits: np.ndarray, action: int) -> float:
    shifted = logits - logits.max()
    return float(shifted[action] - np.log(np.exp(shifted).sum()))


def scores(logits: np.ndarray) -> np.ndarray:
    """Row a: the slopes of log π(a) by each logit, from central differences and nothing else."""
    each = range(len(logits))
    return np.array([finite_differences(partial(log_probability, action=a), logits) for a in each])
