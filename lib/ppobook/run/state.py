"""TODO."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ppobook.run.settings import storable


class Stateful:
    """Something that learns, and says which of its attributes change while it does.

    Attributes
    ----------
    state_attributes : tuple of str, of the class
        Attributes that a checkpoint must hold: modules, optimizers and whatever else has `state_dict` and
        `load_state_dict`, random generators of torch and NumPy, tensors, numbers, strings, and lists and
        dicts of them. One that is None is left out.
    device : str
        Where its tensors are put.
    """

    state_attributes: ClassVar[tuple[str, ...]] = ()
    device: str

    def state_dict(self) -> dict[str, Any]:
        """All that has been learned so far, for a checkpoint."""
        return {
            name: _remembered(name, getattr(self, name))
            for name in self.state_attributes
            if getattr(self, name) is not None
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to what `state_dict` returned.

        Raises
        ------
        ValueError
            It lacks something that is remembered.
        """
        for name in self.state_attributes:
            if name not in state and getattr(self, name) is not None:
                raise ValueError(
                    f"the state of {type(self).__name__} lacks {name!r}, one of its state_attributes; "
                    "wanted: all that state_dict returned"
                )
        self.put_back(state)

    def beside_weights(self) -> dict[str, Any]:
        """What changes with every draw, modules and optimizers aside."""
        parts = {name: getattr(self, name) for name in self.state_attributes}
        weights = nn.Module | torch.optim.Optimizer | Tensor | None
        return {name: _remembered(name, x) for name, x in parts.items() if not isinstance(x, weights)}

    def put_back(self, state: dict[str, Any]) -> None:
        """Some or all of what `state_dict` returned."""
        for name, part in state.items():
            mine = getattr(self, name)
            if hasattr(mine, "load_state_dict"):
                mine.load_state_dict(part)
            elif isinstance(mine, torch.Generator):
                mine.set_state(part)
            elif isinstance(mine, np.random.Generator):
                mine.bit_generator.state = part
            else:
                setattr(self, name, part.to(self.device) if isinstance(part, Tensor) else part)


def _remembered(name: str, x: Any) -> Any:
    """What a checkpoint holds of an attribute."""
    if _has_state(x):
        return x.state_dict()
    if isinstance(x, torch.Generator):
        return x.get_state()
    if isinstance(x, np.random.Generator):
        return x.bit_generator.state
    return x.detach().clone() if isinstance(x, Tensor) else storable(name, x)


def _has_state(x: Any) -> bool:
    return hasattr(x, "state_dict") and hasattr(x, "load_state_dict")


def refuse_to_forget(learner: Stateful) -> None:
    """Refuse a learner with a part that changes and that its checkpoints would lack.

    A plain number or tensor can't be told from a constant, and is let pass.

    Raises
    ------
    ValueError
        `state_attributes` lists what is not there; or a module, an optimizer, a generator is not listed.
    """
    absent = [name for name in learner.state_attributes if not hasattr(learner, name)]
    if absent:
        raise ValueError(
            f"{type(learner).__name__}.state_attributes lists {absent[0]!r}, which it does not have after __init__; "
            "an attribute is wanted (super().__init__ makes those of the class it extends)"
        )
    kept = [getattr(learner, name) for name in learner.state_attributes]
    known = {
        id(x)
        for part in kept
        if isinstance(part, nn.Module)
        for x in part.state_dict(keep_vars=True).values()
    }
    for name, part in vars(learner).items():
        if name in learner.state_attributes:
            continue
        if isinstance(part, nn.Module):
            lost = any(id(x) not in known for x in part.state_dict(keep_vars=True).values())
        else:
            lost = isinstance(part, torch.Generator | np.random.Generator) or _has_state(part)
        if lost:
            kind = type(learner).__name__
            raise ValueError(
                f"{kind} has {name}, a {type(part).__name__}, which its checkpoints would lack; "
                f'state_attributes = (…, "{name}") is wanted in {kind}'
            )
