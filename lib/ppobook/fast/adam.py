"""Adam on one flat vector of parameters: the steps of `torch.optim.Adam`, without its bookkeeping."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim.adam import adam


class FlatAdam:
    """Adam (Kingma and Ba 2015, algorithm 1) on parameters of one dtype and device.

        m ← β₁ m + (1 − β₁) g      v ← β₂ v + (1 − β₂) g²
        θ ← θ − lr · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + eps)

    All parameters move into one vector (`flatten`), which is stepped by one call where torch steps a dozen
    small tensors: at the sizes of this book the calls cost more than the arithmetic.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, *, eps: float = 1e-8) -> None:
        parameters = list(parameters)
        self.vector = flatten(parameters)
        self.param_groups: list[dict[str, Any]] = [{"params": parameters, "lr": lr}]
        self.eps = eps
        self.m, self.v = torch.zeros_like(self.vector.data), torch.zeros_like(self.vector.data)
        self.steps = torch.zeros(())

    @torch.no_grad()
    def step(self) -> None:
        """Take one step against the gradient."""
        assert self.vector.grad is not None
        adam(
            [self.vector],
            [self.vector.grad],
            [self.m],
            [self.v],
            [],
            [self.steps],
            foreach=False,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.param_groups[0]["lr"],
            weight_decay=0.0,
            eps=self.eps,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Any]:
        groups = [{name: x for name, x in group.items() if name != "params"} for group in self.param_groups]
        return {"steps": self.steps, "m": self.m, "v": self.v, "param_groups": groups}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("steps", "m", "v"):
            getattr(self, name).copy_(state[name])
        for group, saved in zip(self.param_groups, state["param_groups"], strict=True):
            group.update(saved)


def flatten(parameters: Iterable[nn.Parameter]) -> nn.Parameter:
    """Put all parameters into one vector: they become views of it, and their gradients views of its gradient.

    All are of one dtype, on one device. The vector's `grad` is there already, full of zeros.
    """
    parameters = list(parameters)
    vector = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
    vector.grad = torch.zeros_like(vector)
    sizes = [p.numel() for p in parameters]
    parts = zip(parameters, vector.detach().split(sizes), vector.grad.split(sizes), strict=True)
    for p, part, gradient in parts:
        p.data = part.view_as(p)
        p.grad = gradient.view_as(p)
    return vector
