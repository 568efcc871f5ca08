"""TODO."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


def flatten(*modules: nn.Module) -> nn.Parameter:
    """All parameters of some modules as one vector, which they go on living in.

    The modules' parameters become views of the vector, and their gradients views of its gradient, so it makes
    no difference which of the two is read or written. (Only `grad = None` cuts the tie, and with it
    ``module.zero_grad()``; `in_row` tells.) One vector is stepped, measured and clipped in one
    call, where a dozen small tensors take a dozen; at the sizes of this book the calls are what costs time.
    A parameter that several modules share is in it once.

    Parameters
    ----------
    modules : on one device, with parameters of one dtype

    Returns
    -------
    parameter, shape (number of weights,)
        For an optimizer. Its `grad` is there already, full of zeros.
    """
    parameters = list({id(p): p for module in modules for p in module.parameters()}.values())
    row = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
    row.grad = torch.zeros_like(row)
    sizes = [p.numel() for p in parameters]
    for p, part, gradient in zip(parameters, row.detach().split(sizes), row.grad.split(sizes), strict=True):
        p.data = part.view_as(p)
        p.grad = gradient.view_as(p)
    return row


def in_row(row: nn.Parameter, *modules: nn.Module) -> bool:
    """Whether the modules' gradients still are where `flatten` has put them."""
    assert row.grad is not None
    begin = row.grad.data_ptr()
    end = begin + row.grad.numel() * row.grad.element_size()
    gradients = [p.grad for module in modules for p in module.parameters()]
    return all(g is not None and begin <= g.data_ptr() < end for g in gradients)


def clip_gradient(row: nn.Parameter, max_norm: float | None) -> float:
    """Shorten the gradient of a parameter to `max_norm`, if it is longer; returns the length it had.

    Raises
    ------
    FloatingPointError
        The length is no finite number.
    """
    assert row.grad is not None
    norm = torch.linalg.vector_norm(row.grad).item()
    if not math.isfinite(norm):
        raise FloatingPointError(
            f"the gradient has length {norm}: rewards, or what was made of them, are too large for a "
            "float32; smaller rewards are wanted, or normalize_rewards=True"
        )
    if max_norm is not None and norm > max_norm:
        row.grad.mul_(max_norm / norm)
    return norm


class Adam:
    """Adam on the vector that `flatten` makes: `torch.optim.Adam` in six calls.

        m ← β₁ m + (1 − β₁) g      v ← β₂ v + (1 − β₂) g²
        θ ← θ − lr · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + eps)

    torch's own is made for any list of parameters and any hook, and on a single small vector spends most of
    its time on finding that out. A test holds that the steps are the same.

    References
    ----------
    Kingma and Ba 2015, "Adam: a method for stochastic optimization", algorithm 1.
    """

    betas = 0.9, 0.999

    def __init__(self, row: nn.Parameter, lr: float, eps: float = 1e-8) -> None:
        self.row = row
        self.lr = lr
        self.eps = eps
        self.steps = 0
        self.m = torch.zeros_like(row, requires_grad=False)
        self.v = torch.zeros_like(row, requires_grad=False)

    def zero_grad(self) -> None:
        """Begin a new gradient. It stays in the memory that the modules' gradients are views of."""
        assert self.row.grad is not None
        self.row.grad.zero_()

    @torch.no_grad()
    def step(self) -> None:
        """One step against the gradient."""
        gradient = self.row.grad
        assert gradient is not None
        self.steps += 1
        first, second = self.betas
        self.m.lerp_(gradient, 1 - first)
        self.v.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        scale = (self.v.sqrt() / math.sqrt(1 - second**self.steps)).add_(self.eps)
        self.row.addcdiv_(self.m, scale, value=-self.lr / (1 - first**self.steps))

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "m": self.m, "v": self.v}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]
        self.m.copy_(state["m"])
        self.v.copy_(state["v"])
