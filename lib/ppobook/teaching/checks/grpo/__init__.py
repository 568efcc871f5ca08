"""Checks of chapter 8's exercises, GRPO.

Rewards, ratios and lengths are chosen so that one number tells one mistake: groups whose standard deviations
differ, completions of two and of four tokens in five columns, ratios inside the clip and outside.
"""

from __future__ import annotations

import numpy as np

from .. import Chapter

CHAPTER = Chapter(
    8,
    "GRPO: learning without a critic",
    {
        "sec-grpo-group": "The group is the critic",
        "sec-grpo-divisions": "Two divisions",
        "sec-grpo-kl": "The KL in the loss",
        "sec-grpo-code": "GRPO in four steps",
        "sec-grpo-verifiable": "A reward that is a rule",
    },
)


def probabilities(logits: np.ndarray) -> np.ndarray:
    """softmax over the last axis."""
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(-1, keepdims=True))
