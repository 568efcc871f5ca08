"""The part of a checkpoint that an object which learns writes and reads."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor


class Stateful:
    """An object that learns and lists which of its attributes change while it does.

    Attributes
    ----------
    state_attributes : tuple of str, of the class
        The attributes that a checkpoint holds: modules, optimizers and other objects with `state_dict` and
        `load_state_dict`, random generators of torch and NumPy, tensors, numbers, strings, and lists and
        dicts of them. An attribute that is None is left out.
    device : str
        Where its tensors are put.
    """

    state_attributes: ClassVar[tuple[str, ...]] = ()
    device: str

    def state_dict(self) -> dict[str, Any]:
        """Return the state attributes, for a checkpoint."""
        parts = {name: getattr(self, name) for name in self.state_attributes}
        return {name: _saved(part) for name, part in parts.items() if part is not None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for name in self.state_attributes:
            mine = getattr(self, name)
            if mine is None and name not in state:
                continue
            part = state[name]
            if hasattr(mine, "load_state_dict"):
                mine.load_state_dict(part)
            elif isinstance(mine, torch.Generator):
                mine.set_state(part)
            elif isinstance(mine, np.random.Generator):
                mine.bit_generator.state = part
            else:
                setattr(self, name, part.to(self.device) if isinstance(part, Tensor) else part)


def _saved(x: Any) -> Any:
    """The value of an attribute as a checkpoint holds it."""
    if hasattr(x, "state_dict"):
        return x.state_dict()
    if isinstance(x, torch.Generator):
        return x.get_state()
    if isinstance(x, np.random.Generator):
        return x.bit_generator.state
    return x.detach().clone() if isinstance(x, Tensor) else x
