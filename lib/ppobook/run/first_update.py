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


def check_networks(learner: Any, rollout: Any) -> None:
    """Check that policy and critic are deterministic functions that have a gradient.

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
        _refuse_without_gradient(whose, network, what, first)
        if isinstance(inner := getattr(network, "network", None), nn.Module):
            _refuse_without_gradient(f"{whose}.network", inner, what, first)


def _refuse_without_gradient(whose: str, network: nn.Module, what: str, output: Tensor) -> None:
    """Raise ValueError if the output has no gradient in any parameter that requires one."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    if not parameters:
        return
    if output.requires_grad:
        gradients = torch.autograd.grad(output.sum(), parameters, retain_graph=True, allow_unused=True)
        if any(gradient is not None for gradient in gradients):
            return
    raise ValueError(
        f"the {what} of {whose} must have a gradient in its parameters, got none: is there a detach() or "
        "no_grad() in it? What is not to be trained has requires_grad_(False)"
    )


class Unstepped:
    """The parameters that no listed optimizer steps, before the first update.

    Parameters
    ----------
    learner : Stateful
    networks : mapping of str to modules or None
        Those that are trained.
    """

    def __init__(self, learner: Stateful, networks: Mapping[str, nn.Module | None]) -> None:
        self.kind = type(learner).__name__
        listed = {name: getattr(learner, name) for name in learner.state_attributes}
        self.optimizers = [name for name, x in listed.items() if hasattr(x, "param_groups")]
        stepped = {
            id(p) for name in self.optimizers for group in listed[name].param_groups for p in group["params"]
        }
        self.parameters = {
            f"{network}.{name}": p
            for network, module in networks.items()
            for name, p in (module.named_parameters() if module is not None and self.optimizers else ())
            if p.requires_grad and id(p) not in stepped
        }
        self.before = self._states()

    def _states(self) -> dict[str, tuple[float, ...]]:
        """What writing to a parameter changes."""
        return {
            name: (p.data_ptr(), p._version, p.detach().sum().item()) for name, p in self.parameters.items()
        }

    def tell(self) -> None:
        """Say, after the update, which of them it has left as they were: they will never be trained."""
        now = self._states()
        same = [name for name in now if now[name] == self.before[name]]
        if same:
            which = f"{same[0]} is" if len(same) == 1 else f"{same[0]} and {len(same) - 1} more are"
            groups = " or ".join(f"{self.kind}.{name}" for name in self.optimizers)
            say(
                f"{which} not trained: in no parameter group of {groups}, and not changed in the first update"
            )
