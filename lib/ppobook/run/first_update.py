"""What is checked in the first update of a run: that its networks can be trained, and are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ppobook.run.progress import say
from ppobook.run.state import Stateful
from ppobook.validation import kind_of

# Steps of the batch that the networks are called with: few enough to cost nothing.
_STEPS = 256


def check_networks(learner: Any, rollout: Any) -> set[int]:
    """Check that policy and critic are deterministic functions that have a gradient.

    Returns
    -------
    set of int
        The ids of the parameters that a gradient reaches.

    Raises
    ------
    TypeError
        A network returns no tensor.
    ValueError
        No parameter that requires a gradient gets one; or the same observations give something else a second
        time, as with dropout, or in another batch, as with a mean over it.
    """
    seen, actions = (
        x.transpose(0, 1).flatten(0, 1)[:_STEPS] for x in (rollout.observations, rollout.actions)
    )
    outputs = {
        "policy": (
            "log-probabilities",
            lambda rows: learner.policy.distribution(seen[rows]).logp(actions[rows]),
        ),
        "value": ("values", lambda rows: learner.value(seen[rows])),
    }
    reached: set[int] = set()
    every, half = slice(None), slice((len(seen) + 1) // 2)
    for name, (what, output) in outputs.items():
        network = getattr(learner, name)
        if network is None:
            continue
        whose = f"{type(learner).__name__}.{name}"
        # Dropout would take its numbers from torch's global generator.
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            first, again, alone = output(every), output(every), output(half)
        for x in (first, again, alone):
            if not isinstance(x, Tensor):
                raise TypeError(f"{whose} must return {what} as a tensor, got {kind_of(x)}")
        if not torch.allclose(first, again, rtol=1e-4, atol=1e-5, equal_nan=True):
            raise ValueError(
                f"{whose} must be a deterministic function of each observation, got other {what} for the "
                "same observations a second time. Leave dropout and noise out"
            )
        if not torch.allclose(first[half], alone, rtol=1e-3, atol=1e-3, equal_nan=True):
            raise ValueError(
                f"{whose} must be a deterministic function of each observation, got other {what} for the "
                "same observations in another batch. Leave out what depends on the rest of the batch"
            )
        reached |= _reached(whose, network, what, first)
        if isinstance(inner := getattr(network, "network", None), nn.Module):
            _reached(f"{whose}.network", inner, what, first)
    return reached


def _reached(whose: str, network: nn.Module, what: str, output: Tensor) -> set[int]:
    """The parameters in which the output has a gradient; ValueError if some require one and none has it."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    if not parameters:
        return set()
    if output.requires_grad:
        gradients = torch.autograd.grad(output.sum(), parameters, retain_graph=True, allow_unused=True)
        if reached := {id(p) for p, x in zip(parameters, gradients, strict=True) if x is not None}:
            return reached
    raise ValueError(
        f"the {what} of {whose} must have a gradient in its parameters, got none: is there a detach() or "
        "no_grad() in it? What is not to be trained has requires_grad_(False)"
    )


class Untrained:
    """The parameters that no listed optimizer steps or that no gradient reaches, before the first update.

    Parameters
    ----------
    learner : Stateful
    networks : mapping of str to modules or None
        Those that are trained.
    reached : set of int, optional
        The ids of the parameters that a gradient reaches, as `check_networks` returns them.
    """

    def __init__(
        self, learner: Stateful, networks: Mapping[str, nn.Module | None], reached: set[int] | None = None
    ) -> None:
        self.kind = type(learner).__name__
        listed = {name: getattr(learner, name) for name in learner.state_attributes}
        self.optimizers = [name for name, x in listed.items() if hasattr(x, "param_groups")]
        stepped = {
            id(p) for name in self.optimizers for group in listed[name].param_groups for p in group["params"]
        }
        trainable = {
            f"{network}.{name}": p
            for network, module in networks.items()
            for name, p in (() if module is None else module.named_parameters())
            if p.requires_grad
        }
        self.unreached = {
            name: p for name, p in trainable.items() if reached is not None and id(p) not in reached
        }
        self.unstepped = {
            name: p
            for name, p in trainable.items()
            if self.optimizers and id(p) not in stepped and name not in self.unreached
        }
        self.before = self._states()

    def _states(self) -> dict[str, tuple[float, ...]]:
        """What training changes: without a gradient the numbers alone, since a step may write the same."""
        written = {name: (p.data_ptr(), p._version) for name, p in self.unstepped.items()}
        return {
            name: (*written.get(name, ()), p.detach().sum().item())
            for name, p in {**self.unreached, **self.unstepped}.items()
        }

    def tell(self) -> None:
        """Say, after the update, which of them it has left as they were: they will never be trained."""
        now = self._states()
        same = {name for name in now if now[name] == self.before[name]}
        groups = " or ".join(f"{self.kind}.{name}" for name in self.optimizers)
        for parameters, why in (
            (self.unstepped, f"in no parameter group of {groups}, and not changed in the first update"),
            (
                self.unreached,
                "without a gradient in the first update. What is not to be trained has requires_grad_(False)",
            ),
        ):
            if left := [name for name in parameters if name in same]:
                which = f"{left[0]} is" if len(left) == 1 else f"{left[0]} and {len(left) - 1} more are"
                say(f"{which} not trained: {why}")
