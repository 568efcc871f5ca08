"""`policy.sample` for the steps of a rollout, in NumPy.

In small environments half of a step's time goes into torch's overhead on tensors of a few numbers. A
`NumpyActor` draws the noise of all steps at once and evaluates an `MLP` on the CPU in NumPy; other networks
run in torch. From the same generator it takes the actions that `policy.sample` takes step by step (those of
a Gaussian up to rounding).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ppobook.policies import (
    MLP,
    CategoricalPolicy,
    GaussianPolicy,
    MultiCategoricalPolicy,
    RunningNorm,
    TabularPolicy,
)
from ppobook.rollouts import PolicyActor

# From observations [N, *obs] to the policy's outputs [N, outputs], which are written to the second array.
Evaluate = Callable[[np.ndarray, np.ndarray], None]

# In place. (NumPy has no error function, which GELU needs.)
ACTIVATIONS: dict[type[nn.Module], Callable[[np.ndarray], Any]] = {
    nn.Tanh: lambda x: np.tanh(x, out=x),
    nn.ReLU: lambda x: np.maximum(x, 0, out=x),
    nn.SiLU: lambda x: np.divide(x, 1 + np.exp(-x), out=x),
}


class NumpyActor(ABC):
    """Samples actions for `steps` steps in `num_envs` environments.

    The weights are copied: make a new actor after an update. Weights or observations that are not finite
    show in `logp`.
    """

    @torch.no_grad()
    def __init__(self, policy: Any, steps: int, num_envs: int, generator: torch.Generator) -> None:
        self.policy = policy
        parameter = next(policy.parameters())
        shape = steps, num_envs, self.width(policy)
        blank = torch.zeros(shape, dtype=parameter.dtype, device=parameter.device)
        self._evaluate = self.evaluator(policy, num_envs)
        self.outputs: np.ndarray = np.empty_like(blank.cpu().numpy())  # kept for `logp`
        self.noise = self.draw_noise(blank, generator)
        self.t = 0

    @staticmethod
    @abstractmethod
    def width(policy: Any) -> int:
        """Number of outputs of the policy's network."""

    @abstractmethod
    def act(self, outputs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The actions of a step, and these as `policy.in_bounds` returns them."""

    @staticmethod
    def evaluator(policy: Any, num_envs: int) -> Evaluate:
        """`policy.outputs`, from array to array."""
        return network_in_numpy(policy, num_envs) or outputs_in_torch(policy)

    def draw_noise(self, blank: Tensor, generator: torch.Generator) -> np.ndarray:
        """Draw the noise of all steps, as `Distribution.noise` does: [steps, num_envs, outputs]."""
        noise: Tensor = self.policy.distribution_of(blank).noise(generator)
        return noise.cpu().numpy()

    def sample(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return actions [N, ...] at these observations, and the same within the environment's bounds."""
        outputs = self.outputs[self.t]
        self._evaluate(observations, outputs)
        self.t += 1
        return self.act(outputs, self.noise[self.t - 1])

    @torch.no_grad()
    def logp(self, actions: Tensor) -> Tensor:
        """Log-probabilities [steps, N] of all sampled actions [steps, N, ...], in order."""
        outputs = torch.from_numpy(self.outputs).to(actions.device)
        logp: Tensor = self.policy.distribution_of(outputs).logp(actions)
        return logp


class CategoricalActor(NumpyActor):
    @staticmethod
    def width(policy: Any) -> int:
        return int(policy.n_actions)

    def act(self, outputs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        actions = (outputs + noise).argmax(1)
        return actions, actions


class TabularActor(CategoricalActor):
    @staticmethod
    def evaluator(policy: Any, num_envs: int) -> Evaluate:
        if policy.table.device.type != "cpu":
            return outputs_in_torch(policy)
        table = policy.table.detach().numpy()

        def look_up(states: np.ndarray, outputs: np.ndarray) -> None:
            outputs[:] = table[states]

        return look_up


class MultiCategoricalActor(NumpyActor):
    @staticmethod
    def width(policy: Any) -> int:
        return sum(policy.nvec)

    def act(self, outputs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = np.split(outputs + noise, np.cumsum(self.policy.nvec)[:-1], axis=1)
        actions = np.stack([part.argmax(1) for part in parts], axis=1)
        return actions, actions


class GaussianActor(NumpyActor):
    @staticmethod
    def width(policy: Any) -> int:
        return int(policy.act_dim)

    def draw_noise(self, blank: Tensor, generator: torch.Generator) -> np.ndarray:
        # action = (centre + scale · output) + std · noise: all but the output is known beforehand.
        policy = self.policy
        self.scale, centre, self.low, self.high = (
            x.cpu().numpy() for x in (policy.scale, policy.centre, policy.low, policy.high)
        )
        std = self.scale * policy.log_std.detach().exp().cpu().numpy()
        noise: np.ndarray = std * super().draw_noise(blank, generator)
        return centre + noise

    def act(self, outputs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        actions = self.scale * outputs + noise
        return actions, np.minimum(np.maximum(actions, self.low), self.high)


FORMS: dict[type[Any], type[NumpyActor]] = {
    CategoricalPolicy: CategoricalActor,
    TabularPolicy: TabularActor,
    MultiCategoricalPolicy: MultiCategoricalActor,
    GaussianPolicy: GaussianActor,
}


def numpy_actor(policy: Any, steps: int, num_envs: int, generator: torch.Generator) -> Any:
    """Make the NumPy actor of one of the library's policies, and a `PolicyActor` for any other."""
    form: Any = FORMS.get(type(policy), PolicyActor)
    dtypes = {p.dtype for p in policy.parameters()} if form is not PolicyActor else set()
    if dtypes not in ({torch.float32}, {torch.float64}):  # NumPy has no bfloat16
        form = PolicyActor
    return form(policy, steps, num_envs, generator)


def outputs_in_torch(policy: Any) -> Evaluate:
    """`policy.outputs` itself."""

    def evaluate(observations: np.ndarray, outputs: np.ndarray) -> None:
        with torch.no_grad():
            outputs[:] = policy.outputs(observations).cpu().numpy()

    return evaluate


def network_in_numpy(policy: Any, num_envs: int) -> Evaluate | None:
    """Normalizer and MLP of a policy on the CPU; None if either is of another kind."""
    layers = mlp_in_numpy(policy.network, num_envs)
    normalizer = policy.normalizer
    if layers is None or normalizer is None:
        return layers
    if type(normalizer) is not RunningNorm:
        return None
    clip = normalizer.clip
    shift, scale = (x.numpy().astype(np.float32) for x in normalizer.shift_and_scale())

    def evaluate(observations: np.ndarray, outputs: np.ndarray) -> None:
        x = observations - shift
        x *= scale
        np.minimum(x, clip, out=x)
        layers(np.maximum(x, -clip, out=x), outputs)

    return evaluate


def mlp_in_numpy(network: Any, num_envs: int) -> Evaluate | None:
    """An MLP on the CPU; None for other networks, and for layers that have been replaced."""
    if type(network) is not MLP or network.layers[0].weight.device.type != "cpu":
        return None
    linear, between = list(network.layers)[::2], list(network.layers)[1::2]
    kinds = {type(layer) for layer in linear}
    if kinds != {nn.Linear} or any(layer.bias is None for layer in linear):
        return None
    if any(type(layer) not in ACTIVATIONS for layer in between):
        return None
    # Transposed once for all steps: a matrix product is quicker then.
    weights = [np.ascontiguousarray(layer.weight.detach().numpy().T) for layer in linear]
    biases = [layer.bias.detach().numpy() for layer in linear]
    activations = [ACTIVATIONS[type(layer)] for layer in between]
    buffers = [np.empty((num_envs, len(bias)), dtype=bias.dtype) for bias in biases[:-1]]
    hidden = list(zip(weights, biases, buffers, activations, strict=False))

    def evaluate(observations: np.ndarray, outputs: np.ndarray) -> None:
        x = observations.astype(outputs.dtype, copy=False)
        for weight, bias, units, activation in hidden:
            np.dot(x, weight, out=units)
            np.add(units, bias, out=units)
            activation(units)
            x = units
        np.dot(x, weights[-1], out=outputs)
        np.add(outputs, biases[-1], out=outputs)

    return evaluate
