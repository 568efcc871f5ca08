"""Arguments of an update that writes into its logits: a wrapper of it, and an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Moving:
    """The reader's function with its first argument given: the logits, which it is meant to write into.

    `Answer` refuses a function that changes its arguments; of the others that is still true.
    """

    def __init__(self, function: Callable[..., Any], logits: Tensor) -> None:
        self._function, self._logits = function, logits
        self.__code__ = getattr(function, "__code__", None)  # so that an exception is shown with its line

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(self._logits, *args, **kwargs)


class GradientDescent:
    """Gradient descent, with what a reader asks of an optimizer. Torch's own takes seconds to be loaded."""

    __travels__ = True  # made anew where the reader's function runs; what became of it comes back

    def __init__(self, parameter: Tensor, rate: float) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": [parameter], "lr": rate}]
        self.defaults: dict[str, Any] = {"lr": rate}
        self.state: dict[Any, Any] = {}
        self.felt: list[float | None] = []  # the largest gradient at each step; None where there was none

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.param_groups[0]["params"][0].grad = None

    def state_dict(self) -> dict[str, Any]:
        group = {key: value for key, value in self.param_groups[0].items() if key != "params"}
        return {"state": {}, "param_groups": [group | {"params": [0]}]}

    def load_state_dict(self, kept: dict[str, Any]) -> None:
        group = {key: value for key, value in kept["param_groups"][0].items() if key != "params"}
        self.param_groups[0].update(group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        parameter, rate = self.param_groups[0]["params"][0], self.param_groups[0]["lr"]
        self.felt.append(None if parameter.grad is None else float(parameter.grad.abs().max()))
        if parameter.grad is not None:
            with torch.no_grad():
                parameter -= rate * parameter.grad
        return loss


GradientDescent.__name__ = "gradient-descent optimizer"  # as messages call it


class Watched(GradientDescent):
    """Gradient descent that writes down the gradient by the logits that each step has."""

    def __init__(self, parameter: Tensor, rate: float) -> None:
        super().__init__(parameter, rate)
        self.gradients: list[np.ndarray] = []

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = super().step(closure)
        gradient = self.param_groups[0]["params"][0].grad
        self.gradients.append(np.zeros(0) if gradient is None else gradient.double().numpy().copy())
        return loss


Watched.__name__ = GradientDescent.__name__
