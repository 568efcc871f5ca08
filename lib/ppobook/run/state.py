"""What a learner saves: its attributes that change during training; and a state to go back to."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

import ppobook
from ppobook.run.rates import given_rates, load_optimizer
from ppobook.run.settings import storable

# Tensors of a state are copied before every update if they have at most this many bytes: that takes a few
# milliseconds, where an update of networks of this size takes hundreds.
MOST_COPIED = 64 * 2**20


class Stateful:
    """An object that learns and lists which of its attributes change while it does.

    Attributes
    ----------
    state_attributes : tuple of str, of the class
        The attributes that a checkpoint holds: modules, optimizers and other objects with `state_dict` and
        `load_state_dict`, random generators of torch and NumPy, tensors, numbers, strings, and lists and
        dicts of them. An attribute that is None is left out.
    stepped_by : dict, of the class
        Of each optimizer that is stepped without a closure, the name of the method that does it.
    device : str
        Where its tensors are put.
    """

    state_attributes: ClassVar[tuple[str, ...]] = ()
    stepped_by: ClassVar[dict[str, str]] = {}
    device: str

    def state_dict(self) -> dict[str, Any]:
        """The state attributes, for a checkpoint."""
        return {
            name: _saved(name, getattr(self, name))
            for name in self.state_attributes
            if getattr(self, name) is not None
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises
        ------
        ValueError
            A state attribute is missing.
        """
        for name in self.state_attributes:
            if name not in state and getattr(self, name) is not None:
                raise ValueError(
                    f"the state of {type(self).__name__} must have {name!r}, one of its state_attributes, "
                    f"got {', '.join(map(repr, state)) or 'nothing'}"
                )
        self.restore(state)

    def go_back(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned earlier, from this object."""
        for name in self.state_attributes:
            if name not in state:
                setattr(self, name, None)
        self.restore(state)

    def restore(self, state: dict[str, Any]) -> None:
        """Restore some or all of what `state_dict` returned."""
        for name, part in state.items():
            mine = getattr(self, name)
            if hasattr(mine, "load_state_dict"):
                load_optimizer(mine, part)
            elif isinstance(mine, torch.Generator):
                mine.set_state(part)
            elif isinstance(mine, np.random.Generator):
                mine.bit_generator.state = part
            else:
                setattr(self, name, part.to(self.device) if isinstance(part, Tensor) else part)


def _saved(name: str, x: Any) -> Any:
    """What a checkpoint holds of an attribute."""
    if _has_state(x):
        given_rates(x)  # before a schedule changes them
        return x.state_dict()
    if isinstance(x, torch.Generator):
        return x.get_state()
    if isinstance(x, np.random.Generator):
        return x.bit_generator.state
    return x.detach().clone() if isinstance(x, Tensor) else storable(name, x)


class Kept:
    """A state as it is now, to go back to.

    Parameters
    ----------
    state : dict
        Tensors, plain data, and containers of them. If the tensors are large they are not copied.

    Attributes
    ----------
    state : dict
        As it was, if it is `intact`.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        tensors = list(_tensors(state))
        copied = sum(x.nbytes for x in tensors) <= MOST_COPIED
        self.state = _copy(state, copied)
        # PyTorch counts how often a tensor has been written to.
        self.versions = [] if copied else [(x, x._version) for x in tensors]

    @property
    def intact(self) -> bool:
        """Whether the state can be gone back to: no tensor that was not copied has been written to."""
        return all(x._version == version for x, version in self.versions)


def _tensors(x: Any) -> Iterator[Tensor]:
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, dict | list | tuple):
        for one in x.values() if isinstance(x, dict) else x:
            yield from _tensors(one)


def _copy(x: Any, tensors: bool) -> Any:
    if isinstance(x, Tensor):
        return x.detach().clone() if tensors else x
    if isinstance(x, dict):
        return {name: _copy(one, tensors) for name, one in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(_copy(one, tensors) for one in x)
    return copy.deepcopy(x)


def _has_state(x: Any) -> bool:
    return hasattr(x, "state_dict") and hasattr(x, "load_state_dict")


def check_state(learner: Stateful) -> None:
    """Check that everything that changes in a learner is in its checkpoints, as far as this can be seen.

    A plain number or tensor may be a constant, and is let pass.

    Raises
    ------
    ValueError
        `state_attributes` lists an attribute that does not exist; or a module, an optimizer or a generator
        is not listed.
    TypeError
        A listed attribute is nothing that a checkpoint can hold; or an optimizer needs a closure, and the
        library's own method steps it.
    """
    kind = type(learner).__name__
    if isinstance(learner.state_attributes, str):
        raise TypeError(f"{kind}.state_attributes must be a tuple of names, got {learner.state_attributes!r}")
    absent = [name for name in learner.state_attributes if not hasattr(learner, name)]
    if absent:
        raise ValueError(
            f"{kind}.state_attributes must list attributes that exist after __init__, got {absent[0]!r}. "
            "super().__init__ makes those of the class it extends"
        )
    _refuse_unlisted(learner, vars(learner))
    for name, method in learner.stepped_by.items():
        if not getattr(learner, method).__module__.startswith(f"{ppobook.__name__}."):
            continue
        optimizer = getattr(learner, name)
        unset = optimizer is None and name != "optimizer"
        if isinstance(optimizer, type) or not (unset or hasattr(optimizer, "step")):
            got = getattr(optimizer, "__name__", repr(optimizer))
            raise TypeError(
                f"{kind}.{name} must be an optimizer, got {got}. Override {method} if it needs none"
            )
        if _needs_closure(optimizer):
            raise TypeError(
                f"{kind}.{name} must be an optimizer with a step() that needs no closure, got "
                f"{type(optimizer).__name__}. Override {method} to step it otherwise"
            )
    learner.state_dict()


def _needs_closure(optimizer: Any) -> bool:
    """Whether `step` of this optimizer of torch, or None, can't be called without arguments."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        return False
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is closure.empty


def attributes(learner: Stateful) -> dict[str, Any]:
    """The attributes of a learner, and what the names in `state_attributes` are where the class has them."""
    return {name: getattr(learner, name) for name in learner.state_attributes} | vars(learner)


def check_update(learner: Stateful, before: Mapping[str, Any]) -> None:
    """Check an update of a learner: what it leaves to the next update must be in a checkpoint.

    An object that is made anew in each update leaves nothing.

    Parameters
    ----------
    learner : Stateful
    before : mapping
        Its `attributes` before the update.

    Raises
    ------
    ValueError
        A module, an optimizer or a generator that was made in an earlier update is not listed; or it is
        listed but was made in this update, so that a resumed learner has none to load its state into.
    """
    for name in learner.state_attributes:
        part = getattr(learner, name)
        if before[name] is None and _changes(part):
            raise ValueError(
                f"{type(learner).__name__}.__init__ must make {name!r}, one of its state_attributes, got a "
                f"{type(part).__name__} made by an update: a resumed run would have none to load"
            )
    _refuse_unlisted(learner, {name: x for name, x in vars(learner).items() if before.get(name) is x})


def _refuse_unlisted(learner: Stateful, attributes: Mapping[str, Any]) -> None:
    """Raise ValueError for a module, an optimizer or a generator that checkpoints would lack."""
    unlisted = {
        name: x for name, x in attributes.items() if name not in learner.state_attributes and _changes(x)
    }
    if not unlisted:
        return
    modules = [getattr(learner, name) for name in learner.state_attributes]
    known = {id(x) for part in modules if isinstance(part, nn.Module) for x in _weights(part)}
    for name, part in unlisted.items():
        if not isinstance(part, nn.Module) or any(id(x) not in known for x in _weights(part)):
            raise ValueError(
                f"{type(learner).__name__}.state_attributes must list {name!r}, a {type(part).__name__} that "
                f"its checkpoints would lack, got {learner.state_attributes}"
            )


def _changes(x: Any) -> bool:
    """Whether x is of a kind that changes during training and has a state: no number or tensor."""
    return isinstance(x, torch.Generator | np.random.Generator) or _has_state(x)


def _weights(module: nn.Module) -> Iterable[Tensor]:
    weights: Iterable[Tensor] = module.state_dict(keep_vars=True).values()
    return weights
