"""Answers that are one line away from another: a text with a line replaced, and made a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PRELUDE = """
import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn
from torch.distributions import Categorical
"""


def made(source: str, **more: Any) -> Callable[..., Any]:
    """The last function that a text defines."""
    space: dict[str, Any] = dict(more)
    exec(PRELUDE, space)
    known = set(space)
    exec(compile(source, "an answer", "exec"), space)
    return [found for name, found in space.items() if name not in known and callable(found)][-1]


def changes(source: str, **more: Any) -> Callable[..., Callable[..., Any]]:
    """A function of pairs (old, new): the text with each old line replaced, as a function."""

    def variant(*pairs: str) -> Callable[..., Any]:
        text = source
        for old, new in zip(pairs[::2], pairs[1::2], strict=True):
            assert old in text, old
            text = text.replace(old, new)
        return made(text, **more)

    return variant
