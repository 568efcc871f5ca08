"""A policy that may turn round under its step, and what one call of a function does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from ppobook.policies import Categorical

from .. import Answer, Stop


class _Watch(TorchDispatchMode):
    """A counter of tensor operations, with the size of the largest tensor that one of them made."""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.largest = 0
        self.derivatives = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        self.count += 1
        self.derivatives |= "_has_same_storage" in str(function)  # a tangent is attached: forward mode
        for made in out if isinstance(out, tuple | list) else (out,):
            if isinstance(made, Tensor):
                self.largest = max(self.largest, made.numel())
        return out


def watch_a_call(answer: Answer, *arguments: Tensor) -> dict[str, Any]:
    """One call, watched in the process where the reader's function runs."""
    watch = _Watch()

    def seen(kept: Any) -> Any:
        watch.derivatives = True
        return kept

    try:
        with saved_tensors_hooks(seen, seen), watch:
            answer(*arguments)
    except Stop as stop:  # torch.func says that it can't be watched
        watch.derivatives = any("saved tensor hooks" in text for text in stop.paragraphs)
    return {"count": watch.count, "largest": watch.largest, "derivatives": watch.derivatives}


class Policy(nn.Module):
    """Logits from a table, one row a state, and a bias; it writes down every table that it was asked with.

    `bend` says what the policy makes of a change of its parameters: it may follow it as it is, or explode, or
    turn round, so that a step that was right on paper fails when it is tried.
    """

    def __init__(self, table: Any, bias: Any = None, bend: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.tensor(np.asarray(table), dtype=torch.float32))
        if bias is not None:
            self.bias = nn.Parameter(torch.tensor(np.asarray(bias), dtype=torch.float32))
        self.start, self.bend = self.table.detach().clone(), bend
        self.seen: list[np.ndarray] = []
        self.note = self.seen.append  # a copy of the policy notes in the same place

    def forward(self, observations: Tensor) -> Tensor:
        with contextlib.suppress(RuntimeError):  # inside of torch.func's jvp it has no numbers
            self.note(self.table.detach().double().numpy().copy())
        logits = self.table if self.bend is None else self.start + self.bend(self.table - self.start)
        return observations @ logits + getattr(self, "bias", 0.0)

    def distribution(self, observations: Tensor) -> Categorical:
        return Categorical(self(observations))

    def row(self) -> np.ndarray:
        return np.concatenate([p.detach().double().numpy().ravel() for p in self.parameters()])


Policy.__name__ = "policy"  # as a message calls it: “It was called with (a policy, …)”


# What a policy can make of a change of its parameters. They have names, so that another process finds them.


def far_beyond(share: float, d: Tensor) -> Tensor:
    """Up to this share of 0.2 it follows, and above it goes much too far."""
    return torch.where(d.abs() > 0.2 * share, 1e3 * d, d)


def steeper(d: Tensor) -> Tensor:
    return d + 400 * d**3


def back_and_forth(d: Tensor) -> Tensor:
    """It stays near and turns round: the whole step loses."""
    turn = 0.2 / (1.5 * np.pi)
    return turn * torch.sin(d / turn)


def over_the_edge(d: Tensor) -> Tensor:
    """Any change at all is too much."""
    return d + 1e3 * torch.sign(d).detach()
