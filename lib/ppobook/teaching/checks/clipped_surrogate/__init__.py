"""Checks of chapter 3's exercises, the clipped surrogate.

Most probes are one sample: a ratio, an advantage, and what the reader's function makes of them. The ratios
are those of the tables that the reader fills by hand, so each number in a message can be checked with a
pencil.
"""

from __future__ import annotations

import numpy as np

from .. import Chapter

CHAPTER = Chapter(
    3,
    "The clipped surrogate",
    {
        "sec-clip": "A surrogate that stops promising",
        "sec-four-cases": "Four cases",
        "sec-knee": "The knee, and two words for what is clipped",
        "sec-lower-bound": "Never above the plain surrogate, for either sign",
        "sec-ratio-one": "Ratio 1, and the first step",
        "sec-short-ppo": "PPO, short",
        "sec-eps-kl": "From ε to a KL, and what it takes",
        "sec-box": "Real training leaves the box",
        "sec-three-actions": "Three actions, step by step",
        "sec-ppo-kl": "A price instead of a clip",
        "sec-diagnostics": "Reading an update",
    },
)


def probabilities(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
