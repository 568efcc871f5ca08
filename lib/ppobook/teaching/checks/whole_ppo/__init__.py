"""Checks of chapter 5's exercises, the whole of PPO.

Most probes are one sample, or a few numbers that can be checked with a pencil; a loss of three parts is asked
for each part alone, by its coefficients.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import Chapter, Stop, words

CHAPTER = Chapter(
    5,
    "The whole of PPO",
    {
        "sec-ppo-three-parts": "A loss in three parts",
        "sec-ppo-value-loss": "The value loss, and clipping it",
        "sec-ppo-entropy": "The entropy bonus",
        "sec-ppo-loop": "The loop",
        "sec-ppo-normalize": "Observations and rewards on one scale",
        "sec-ppo-continuous": "Continuous actions and their bounds",
        "sec-ppo-tanh": "Deeper: squashing with a tanh, and its log-determinant",
        "sec-ppo-defaults": "The usual defaults",
    },
)


def parts(back: Any, names: tuple[str, ...]) -> list[Any]:
    """Return the results, as many as there are names."""
    wanted = f"{len(names)} things must come back: {', '.join(names)}"
    if back is None:
        raise Stop("returned", "nothing came back", f"{wanted}. Is there a `return`?")
    if not isinstance(back, tuple | list) or len(back) != len(names):
        if isinstance(back, torch.Tensor) and back.ndim and len(back) == len(names):
            return list(back)
        raise Stop("returned", "not as many things as were asked for", f"{wanted}; it is {words(back)}.")
    return list(back)
