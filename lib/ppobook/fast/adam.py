"""Adam without the bookkeeping of `torch.optim.Adam`: the same kernels, the same steps to the bit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim.adam import adam
from torch.optim.optimizer import Optimizer


class Adam(Optimizer):
    """Adam.

        m ← β₁ m + (1 − β₁) g      v ← β₂ v + (1 − β₂) g²
        θ ← θ − lr · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + eps)

    With ``flat=True`` all parameters move into one vector (`flatten`), which is clipped and stepped at once
    where torch steps a dozen small tensors; the steps are those of ``torch.optim.Adam(parameters)``. Without
    it they are those of ``torch.optim.Adam(parameters, fused=True)``, whose class imports torch's compiler
    when it is first used, which takes longer than a short run. The constructor of ``torch.optim.Optimizer``
    does so too and is not called: this is one for the schedulers of ``torch.optim.lr_scheduler``, without
    hooks.

    Parameters
    ----------
    parameters : iterable of parameters
        Of any dtypes and devices; of one dtype on one device if flat. One that comes twice counts once.
    lr : float
    eps : float
    flat : bool

    Attributes
    ----------
    param_groups : list of one dict
        "params", as they were given, and "lr".
    parameters : list of parameters
        What is stepped: if flat, the one vector.

    References
    ----------
    Kingma and Ba 2015, "Adam: a method for stochastic optimization", algorithm 1.
    """

    betas = 0.9, 0.999

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, *, eps: float = 1e-8, flat: bool = False
    ) -> None:
        parameters = list(dict.fromkeys(parameters))
        self.defaults = {"lr": lr}
        self.eps = eps
        self.flat = flat
        self.parameters = [flatten(parameters)] if flat else parameters
        # If flat: the given parameters, and the part of the vector's gradient that each one's is a view of.
        self.views = [(p, p.grad) for p in parameters] if flat else []
        self.param_groups: list[dict[str, Any]] = [{"params": parameters, "lr": lr}]
        self.m = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        self.v = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        # As tensors, since the kernels count in place; the fused one wants them beside the parameters.
        self.steps = [torch.zeros((), device=p.device if not flat else "cpu") for p in self.parameters]

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def zero_grad(self) -> None:  # type: ignore[override]
        """Reset the gradients: to None, or if flat to zeros, in place."""
        for p in self.parameters:
            p.grad = p.grad.zero_() if self.flat and p.grad is not None else None
        for p, gradient in self.views:
            p.grad = gradient  # a module's own zero_grad() would have cut the tie

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """One step against the gradient. A parameter without one, or a frozen one, stays as it is."""
        kept = self._frozen()
        moved = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        p, m, v, steps = ([x[i] for i in moved] for x in (self.parameters, self.m, self.v, self.steps))
        adam(
            p,
            [one.grad for one in p if one.grad is not None],
            m,
            v,
            [],
            steps,
            foreach=False,
            fused=not self.flat,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=self.param_groups[0]["lr"],
            weight_decay=0.0,
            eps=self.eps,
            maximize=False,
        )
        for part, before in kept:
            part.copy_(before)

    def _frozen(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The parts of the vectors that belong to parameters frozen since, and what they hold.

        Their gradient is 0, but m would still move them.
        """
        if all(p.requires_grad for p, _ in self.views):
            return []
        sizes = [p.numel() for p, _ in self.views]
        parts = [
            zip(self.views, x.detach().split(sizes), strict=True)
            for x in (*self.parameters, *self.m, *self.v)
        ]
        return [(part, part.clone()) for x in parts for (p, _), part in x if not p.requires_grad]

    def state_dict(self) -> dict[str, Any]:
        groups = [{name: x for name, x in group.items() if name != "params"} for group in self.param_groups]
        return {**self._moments(), "param_groups": groups}

    def _moments(self) -> dict[str, list[torch.Tensor]]:
        return {"steps": self.steps, "m": self.m, "v": self.v}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`, of a flat optimizer or not. Old ones of a flat optimizer hold one tensor or
        int in place of a list, and none holds learning rates.

        Raises
        ------
        RuntimeError
            The state is of other parameters.
        """
        for name, mine in self._moments().items():
            saved = state[name] if isinstance(state[name], list) else [torch.as_tensor(state[name])]
            if name == "steps" and 1 in (len(mine), len(saved)):
                saved = [max(saved)] * len(mine)
            elif 1 in (len(mine), len(saved)) and sum(map(torch.numel, mine)) == sum(map(torch.numel, saved)):
                parts = torch.cat([x.reshape(-1) for x in saved]).split([x.numel() for x in mine])
                saved = [part.view_as(x) for part, x in zip(parts, mine, strict=True)]
            if [x.shape for x in mine] != [x.shape for x in saved]:
                raise RuntimeError(
                    f"{name} must be the state of these parameters, got that of other parameters"
                )
            for x, its in zip(mine, saved, strict=True):
                x.copy_(its)
        for group, saved_group in zip(self.param_groups, state.get("param_groups", []), strict=False):
            group.update(saved_group)


def flatten(parameters: Iterable[nn.Parameter]) -> nn.Parameter:
    """All parameters in one vector: they become views of it, and their gradients views of its gradient.

    It makes no difference which of the two is read or written. One vector is clipped and stepped in one call
    where a dozen small tensors take a dozen; at the sizes of this book the calls cost more than the
    arithmetic.

    Parameters
    ----------
    parameters : of one dtype, on one device
        One that comes twice is in the vector once.

    Returns
    -------
    parameter, shape (number of weights,)
        Its `grad` is there already, full of zeros.
    """
    parameters = list(dict.fromkeys(parameters))
    vector = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
    vector.grad = torch.zeros_like(vector)
    sizes = [p.numel() for p in parameters]
    parts = zip(parameters, vector.detach().split(sizes), vector.grad.split(sizes), strict=True)
    for p, part, gradient in parts:
        p.data = part.view_as(p)
        p.grad = gradient.view_as(p)
    return vector
