"""Checks of chapter 3's exercises, the clipped surrogate.

Most probes are one sample: a ratio, an advantage, and what the reader's function makes of them. The ratios
are those of the tables that the reader fills by hand, so each number in a message can be checked with a
pencil.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Chapter

CHAPTER = Chapter(
    3,
    "The clipped surrogate (PPO-clip)",
    {
        "sec-clip": "The clipped surrogate",
        "sec-four-cases": "Four cases: good or bad, up or down",
        "sec-knee": "Two meanings of “clipped”",
        "sec-lower-bound": "The clipped surrogate is never above the plain one",
        "sec-ratio-one": "At ratio 1 it is plain policy gradient",
        "sec-short-ppo": "PPO in fifty lines",
        "sec-eps-kl": "What ε says about the KL",
        "sec-box": "In training, ratios leave the clip range",
        "sec-three-actions": "Three actions, step by step",
        "sec-ppo-kl": "PPO with a KL penalty",
        "sec-diagnostics": "What to log, and how to read it",
    },
)


def near_the_ends(rng: np.random.Generator, eps: float, size: Any) -> np.ndarray:
    """Ratios just inside and just outside the clip range, where e^±ε or 1/(1 ± ε) are other ends."""
    ends, away = 1 + rng.choice([-eps, eps], size), rng.uniform(-1, 1, size)
    # Never so near that the two sides of a difference, or a rounding, lie on both sides of the end.
    away = np.where(np.abs(away) < 0.03, np.copysign(0.03, away), away)
    return np.asarray(ends * (1 + away * eps**2 / 2))


def probabilities(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
