"""Adam over any list of parameters, with no more to it than training here needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim.adam import adam


class Adam:
    """Adam, by the one kernel a call that torch has for lists of tensors.

        m ← β₁ m + (1 − β₁) g      v ← β₂ v + (1 − β₂) g²
        θ ← θ − lr · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + eps)

    The arithmetic is `torch.optim.Adam(fused=True)`'s, and AdamW's without decay; a test holds that the steps
    are the same. The class of torch imports its compiler when it is first used, which takes longer than a
    short run does. A parameter without a gradient stays as it is.

    Parameters
    ----------
    parameters : iterable of parameters
        Of any dtypes, on any devices. One that comes twice counts once.
    lr : float

    Attributes
    ----------
    param_groups : list of one dict
        "params" and "lr", as an optimizer of torch has them.

    References
    ----------
    Kingma and Ba 2015, "Adam: a method for stochastic optimization", algorithm 1.
    """

    betas = 0.9, 0.999
    eps = 1e-8

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        self.parameters = list(dict.fromkeys(parameters))
        self.param_groups: list[dict[str, Any]] = [{"params": self.parameters, "lr": lr}]
        self.m = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        self.v = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        # The kernel wants them as tensors, beside the parameters.
        self.steps = [torch.zeros((), device=p.device) for p in self.parameters]

    def zero_grad(self) -> None:
        """Begin a new gradient."""
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One step against the gradient."""
        moved = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        p, m, v, steps = ([x[i] for i in moved] for x in (self.parameters, self.m, self.v, self.steps))
        adam(
            p,
            [one.grad for one in p if one.grad is not None],
            m,
            v,
            [],
            steps,
            fused=True,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=self.param_groups[0]["lr"],
            weight_decay=0.0,
            eps=self.eps,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "m": self.m, "v": self.v}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, mine in self.state_dict().items():
            if [x.shape for x in mine] != [x.shape for x in state[name]]:
                raise RuntimeError(f"the optimizer's {name} are of other parameters")
            for x, theirs in zip(mine, state[name], strict=True):
                x.copy_(theirs)
