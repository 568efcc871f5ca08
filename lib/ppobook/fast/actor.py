"""`policy.sample` for the steps of a rollout, in NumPy.

In small environments half of a step's time goes into torch's overhead on tensors of a few numbers. A
`NumpyActor` draws the noise of all steps at once and evaluates an `MLP` on the CPU in NumPy. From the same
generator it takes the actions that `policy.sample` takes step by step (those of a Gaussian up to rounding).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ppobook.policies import MLP, CategoricalPolicy, GaussianPolicy, RunningNorm
from ppobook.rollouts import PolicyActor

# In place.
ACTIVATIONS: dict[type[nn.Module], Callable[[np.ndarray], Any]] = {
    nn.Tanh: lambda x: np.tanh(x, out=x),
    nn.ReLU: lambda x: np.maximum(x, 0, out=x),
}


class NumpyActor(ABC):
    """Samples actions for `steps` steps in `num_envs` environments.

    The weights are copied: make a new actor after an update. Weights or observations that are not finite
    show in `logp`.
    """

    @torch.no_grad()
    def __init__(self, policy: Any, steps: int, num_envs: int, generator: torch.Generator) -> None:
        self.policy = policy
        last = policy.network.layers[-1]
        blank = torch.zeros(steps, num_envs, last.out_features, dtype=last.weight.dtype)
        self.network = MLPInNumPy(policy.network, num_envs)
        self.normalizer = policy.normalizer
        if self.normalizer is not None:
            shift_and_scale = self.normalizer.shift_and_scale()
            self.shift, self.rescale = (x.numpy().astype(np.float32) for x in shift_and_scale)
        self.outputs: np.ndarray = np.empty_like(blank.numpy())  # kept for `logp`
        self.noise = self.draw_noise(blank, generator)
        self.t = 0

    @abstractmethod
    def act(self, outputs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The actions of a step, and these as `policy.in_bounds` returns them."""

    def draw_noise(self, blank: Tensor, generator: torch.Generator) -> np.ndarray:
        """Draw the noise of all steps, as `Distribution.noise` does: [steps, num_envs, outputs]."""
        noise: np.ndarray = self.policy.distribution_of(blank).noise(generator).numpy()
        return noise

    def sample(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return actions [N, ...] at these observations, and the same within the environment's bounds."""
        x, t = observations, self.t
        if self.normalizer is not None:
            clip = self.normalizer.clip
            x = (x - self.shift) * self.rescale
            np.maximum(np.minimum(x, clip, out=x), -clip, out=x)
        self.network(x, self.outputs[t])
        self.t += 1
        return self.act(self.outputs[t], self.noise[t])

    @torch.no_grad()
    def logp(self, actions: Tensor) -> Tensor:
        """Log-probabilities [steps, N] of all sampled actions [steps, N, ...], in order."""
        logp: Tensor = self.policy.distribution_of(torch.from_numpy(self.outputs)).logp(actions)
        return logp


class CategoricalActor(NumpyActor):
    def act(self, outputs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        actions = (outputs + noise).argmax(1)
        return actions, actions


class GaussianActor(NumpyActor):
    def draw_noise(self, blank: Tensor, generator: torch.Generator) -> np.ndarray:
        # action = (centre + scale · output) + std · noise: all but the output is known beforehand.
        policy = self.policy
        bounds = policy.scale, policy.centre, policy.low, policy.high
        self.scale, centre, self.low, self.high = (x.numpy() for x in bounds)
        std = self.scale * policy.log_std.detach().exp().numpy()
        noise: np.ndarray = std * super().draw_noise(blank, generator)
        return centre + noise

    def act(self, outputs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        actions = self.scale * outputs + noise
        return actions, np.minimum(np.maximum(actions, self.low), self.high)


FORMS: dict[type[Any], type[NumpyActor]] = {
    CategoricalPolicy: CategoricalActor,
    GaussianPolicy: GaussianActor,
}


def numpy_actor(policy: Any, steps: int, num_envs: int, generator: torch.Generator) -> Any:
    """Make the NumPy actor of a policy of the library with an `MLP`, and a `PolicyActor` for any other."""
    form: Any = FORMS[type(policy)] if fits(policy) else PolicyActor
    return form(policy, steps, num_envs, generator)


def fits(policy: Any) -> bool:
    """Return True for the library's own policy, network and normalizer, on the CPU."""
    if type(policy) not in FORMS or type(policy.network) is not MLP:
        return False
    layers = list(policy.network.layers)
    linear, between = layers[::2], layers[1::2]
    return (
        type(policy.normalizer) in (RunningNorm, type(None))
        and all(type(layer) is nn.Linear and layer.bias is not None for layer in linear)
        and all(type(layer) in ACTIVATIONS for layer in between)
        and linear[0].weight.device.type == "cpu"
        and linear[0].weight.dtype in (torch.float32, torch.float64)  # NumPy has no bfloat16
    )


class MLPInNumPy:
    """An `MLP` as it is now, from observations [N, obs] to outputs [N, outputs] in an array that is there."""

    def __init__(self, network: Any, num_envs: int) -> None:
        linear = network.layers[::2]
        # Transposed once for all steps: a matrix product is quicker then.
        weights = [np.ascontiguousarray(layer.weight.detach().numpy().T) for layer in linear]
        biases = [layer.bias.detach().numpy() for layer in linear]
        activations = [ACTIVATIONS[type(layer)] for layer in network.layers[1::2]]
        units = [np.empty((num_envs, len(bias)), dtype=bias.dtype) for bias in biases[:-1]]
        self.hidden = list(zip(weights, biases, units, activations, strict=False))
        self.last = weights[-1], biases[-1]

    def __call__(self, observations: np.ndarray, outputs: np.ndarray) -> None:
        x = observations.astype(outputs.dtype, copy=False)
        for weight, bias, units, activation in self.hidden:
            np.dot(x, weight, out=units)
            np.add(units, bias, out=units)
            activation(units)
            x = units
        weight, bias = self.last
        np.dot(x, weight, out=outputs)
        np.add(outputs, bias, out=outputs)
