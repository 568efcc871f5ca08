"""TODO."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.policies.distributions import (
    Categorical,
    Distribution,
    Gaussian,
    MultiCategorical,
    _gumbel,
    _normal,
)
from ppobook.policies.networks import MLP, _network, _normalizer, _rows, _through
from ppobook.policies.normalization import RunningNorm

# What stands in, on the spot, for an activation's module in a rollout on the CPU. (NumPy has no error
# function for gelu.)
_IN_NUMPY: dict[type[nn.Module], Callable[[np.ndarray], Any]] = {
    nn.Tanh: lambda x: np.tanh(x, out=x),
    nn.ReLU: lambda x: np.maximum(x, 0, out=x),
    nn.SiLU: lambda x: np.divide(x, 1 + np.exp(-x), out=x),
}


# The parts of an `Actor`: observations to a network's outputs, which are filled in; and step and outputs to
# the actions as they were drawn, and as the environments may be given them.
Evaluate = Callable[[np.ndarray, np.ndarray], None]


Act = Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]]


class Policy(Protocol):
    """What rollouts, trainers and evaluation ask of a policy."""

    def distribution(self, observations: Any) -> Distribution:
        """The distribution that the actions are drawn from."""

    def sample(self, observations: Any, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Actions, and the log-probability of each; neither carries a gradient."""

    def logp(self, observations: Any, actions: Any) -> Tensor:
        """Log-probability (discrete) or log-density (continuous) of the actions, shape [...]."""

    def entropy(self, observations: Any) -> Tensor:
        """Entropy in nats, shape [...]."""

    def mode(self, observations: Any) -> Tensor:
        """The most probable action."""

    def in_bounds(self, actions: Tensor) -> Tensor:
        """The actions as the environment may be given them."""


class _Policy(nn.Module, ABC):
    """What all policies of this file share: the doors, and everything that follows from the distribution."""

    # A value here would hide the module of this name: torch looks for its own only where nothing is found.
    normalizer: RunningNorm | None

    @abstractmethod
    def outputs(self, observations: Any) -> Tensor:
        """The numbers that the distribution is made of, [..., outputs], as the network gives them."""

    @abstractmethod
    def distribution_of(self, outputs: Tensor) -> Any:
        """The distribution that these numbers stand for."""

    @abstractmethod
    def _refuse_unless_actions(self, actions: Any, distribution: Any) -> Tensor:
        """The actions as a tensor; refused in another shape or dtype than the distribution's."""

    _drawn_from: str  # what `sample` calls the numbers that must be finite

    def distribution(self, observations: Any) -> Any:
        """The distribution of the actions at each observation; see `Distribution` for what it answers to."""
        return self.distribution_of(self.outputs(observations))

    @torch.no_grad()
    def sample(self, observations: Any, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Actions drawn from the policy, and their log-probabilities (or -densities) [...], both detached.

        Without a generator, torch's global one is used.

        Raises
        ------
        ValueError
            Weights or observations that lead to numbers that are not finite.
        """
        distribution = self.distribution(observations)
        parameters = distribution.mean if isinstance(distribution, Gaussian) else distribution.logits
        validation.finite(self._drawn_from, parameters)
        actions = distribution.sample(generator)
        return actions, distribution.logp(actions)

    def logp(self, observations: Any, actions: Any) -> Tensor:
        """Log-probability (or -density) of each action, shape [...].

        Raises
        ------
        ValueError, TypeError
            Actions that do not fit the observations' leading axes, or are none of the policy's.
        """
        distribution = self.distribution(observations)
        return distribution.logp(self._refuse_unless_actions(actions, distribution))

    def entropy(self, observations: Any) -> Tensor:
        """Entropy in nats, shape [...]."""
        return self.distribution(observations).entropy()

    @torch.no_grad()
    def mode(self, observations: Any) -> Tensor:
        """The most probable action."""
        return self.distribution(observations).mode()

    def in_bounds(self, actions: Tensor) -> Tensor:
        """The actions themselves: every choice is one the environment has."""
        return actions

    @torch.no_grad()
    def actor(self, steps: int, num_envs: int, generator: torch.Generator | None = None) -> Actor | None:
        """The quick form of `sample` for a rollout; None for a class from elsewhere, a subclass say.

        Whatever such a class does in its own way, its `sample` knows, and this form would not.
        """
        if type(self).__module__ != __name__:
            return None
        noise = self._noise((steps, num_envs), generator, next(self.parameters())).cpu().numpy()
        return Actor(self, self._numpy_outputs(num_envs), self._numpy_act(noise), np.empty_like(noise))

    def _numpy_outputs(self, num_envs: int) -> Evaluate:
        """`outputs`, from array to array."""
        layers = _numpy_layers(getattr(self, "network", None), num_envs)
        if layers is None:

            def asked(observations: np.ndarray, outputs: np.ndarray) -> None:
                with torch.no_grad():
                    outputs[:] = self.outputs(observations).cpu().numpy()

            return asked
        if self.normalizer is None:
            return layers
        clip = self.normalizer.clip
        shift, scale = (x.numpy().astype(np.float32) for x in self.normalizer.shift_and_scale())

        def normalized(observations: np.ndarray, outputs: np.ndarray) -> None:
            x = observations - shift
            x *= scale
            np.minimum(x, clip, out=x)
            layers(np.maximum(x, -clip, out=x), outputs)

        return normalized

    @abstractmethod
    def _noise(self, shape: tuple[int, int], generator: torch.Generator | None, like: Tensor) -> Tensor:
        """What `Distribution.noise` draws at so many observations, [*shape, outputs]."""

    @abstractmethod
    def _numpy_act(self, noise: np.ndarray) -> Act:
        """What `Distribution.act` makes of outputs and noise, in NumPy."""


class Actor:
    """The quick form of `sample` for a rollout: call it with t = 0, 1, … and what [N] environments show.

    Half of what a step of a small environment costs would otherwise go into torch's overhead on tensors of a
    few numbers. So all noise of the rollout is drawn at once, and an `MLP` on the CPU is evaluated in NumPy;
    other networks are asked as they are. From the same generator come the actions that `sample` would take
    step by step (those of a Gaussian up to rounding). The numbers that the actions were drawn from are kept,
    and give all log-probabilities at the end.

    Nothing is looked at on the way. Weights that are not finite give actions that are none, and
    log-probabilities that are not finite either. While an actor is in use, its policy must not learn.
    """

    def __init__(self, policy: _Policy, evaluate: Evaluate, act: Act, outputs: np.ndarray) -> None:
        self._policy = policy
        self._evaluate = evaluate
        self._act = act
        self._outputs = outputs  # [T, N, outputs], filled in step by step

    def __call__(self, t: int, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The actions of step t, [N, ...]: as they were drawn, and as the environments may be given them."""
        outputs = self._outputs[t]
        self._evaluate(observations, outputs)
        return self._act(t, outputs)

    @torch.no_grad()
    def logp(self, actions: Tensor) -> Tensor:
        """Log-probabilities [T, N] of the actions that were drawn, [T, N, ...]."""
        outputs = torch.from_numpy(self._outputs).to(actions.device)
        return self._policy.distribution_of(outputs).logp(actions)


class _Discrete(_Policy):
    """What policies over n_actions choices share, given their logits."""

    n_actions: int
    _drawn_from = "logits(observations)"

    @abstractmethod
    def logits(self, observations: Any) -> Tensor:
        """Unnormalised log-probabilities, shape [..., n_actions]."""

    def outputs(self, observations: Any) -> Tensor:
        return self.logits(observations)

    def distribution_of(self, outputs: Tensor) -> Categorical:
        return Categorical(outputs)

    def forward(self, observations: Any) -> Tensor:
        """The logits: what `torch.func.functional_call` evaluates."""
        return self.logits(observations)

    def probs(self, observations: Any) -> Tensor:
        """Probabilities of the actions, shape [..., n_actions]."""
        return self.logits(observations).softmax(dim=-1)

    def _noise(self, shape: tuple[int, int], generator: torch.Generator | None, like: Tensor) -> Tensor:
        return _gumbel((*shape, self.n_actions), generator, like)

    def _numpy_act(self, noise: np.ndarray) -> Act:
        def act(t: int, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            actions = (outputs + noise[t]).argmax(1)
            return actions, actions

        return act

    def _refuse_unless_actions(self, actions: Any, distribution: Categorical) -> Tensor:
        actions = _whole_numbers(actions, distribution.logits)
        validation.shape("actions", actions, distribution.logits.shape[:-1], "one action an observation")
        return actions


class CategoricalPolicy(_Discrete):
    """A network that gives each of n_actions choices a logit.

    Parameters
    ----------
    obs_dim, n_actions : int
    hidden : sequence of int
        Sizes of the hidden layers; ``()`` makes the logits linear in the observation.
    activation, seed
        As for `MLP`. The last layer's gain is 0.01, so the policy starts almost uniform.
    normalizer : RunningNorm, optional
        What observations go through first.
    network : module, optional
        In place of the MLP: [..., obs_dim] to [..., n_actions], with any leading axes. `hidden`, `activation`
        and `seed` are then not read.
    """

    def __init__(
        self,
        obs_dim: int,
        n_actions: int,
        hidden: Sequence[int] = (64, 64),
        *,
        activation: str = "tanh",
        normalizer: RunningNorm | None = None,
        network: nn.Module | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.obs_dim = validation.count("obs_dim", obs_dim)
        self.n_actions = validation.count("n_actions", n_actions)
        self.normalizer = _normalizer(normalizer, self.obs_dim)
        self.network = _network(network, (obs_dim, *hidden, n_actions), activation, 0.01, seed)

    def logits(self, observations: Any) -> Tensor:
        """Unnormalised log-probabilities, shape [..., n_actions]."""
        return _through(self, observations, self.n_actions)


class TabularPolicy(_Discrete):
    """A softmax over a table of logits, one row a state: the policy of the small problems.

    Observations are states, integers in 0 … n_states − 1. The table starts at 0, which is the uniform policy.
    """

    def __init__(self, n_states: int, n_actions: int) -> None:
        super().__init__()
        self.n_states = validation.count("n_states", n_states)
        self.n_actions = validation.count("n_actions", n_actions)
        self.normalizer = None
        self.table = nn.Parameter(torch.zeros(n_states, n_actions))

    def logits(self, observations: Any) -> Tensor:
        """The rows of the table, shape [..., n_actions]."""
        return _rows(self.table, observations)

    def _numpy_outputs(self, num_envs: int) -> Evaluate:
        if self.table.device.type != "cpu":
            return super()._numpy_outputs(num_envs)
        table, n_states = self.table.detach().numpy(), self.n_states

        def looked_up(states: np.ndarray, outputs: np.ndarray) -> None:
            if states.min() < 0 or states.max() >= n_states:
                self.logits(states)  # which refuses them, with a sentence
            table.take(states, axis=0, out=outputs, mode="clip")

        return looked_up


class MultiCategoricalPolicy(_Policy):
    """A network that gives logits for K choices that are made at once, the k-th among nvec[k].

    Given the observation the choices are independent. Actions are int64 of shape [..., K].

    Parameters
    ----------
    obs_dim : int
    nvec : sequence of int
        How many there are to choose from, for each of the K choices.
    hidden, activation, normalizer, network, seed
        As for `CategoricalPolicy`; a `network` gives [..., Σ nvec].
    """

    _drawn_from = "logits(observations)"

    def __init__(
        self,
        obs_dim: int,
        nvec: Sequence[int],
        hidden: Sequence[int] = (64, 64),
        *,
        activation: str = "tanh",
        normalizer: RunningNorm | None = None,
        network: nn.Module | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.obs_dim = validation.count("obs_dim", obs_dim)
        self.nvec = tuple(validation.count(f"nvec[{k}]", n) for k, n in enumerate(nvec))
        if not self.nvec:
            raise ValueError("nvec is empty; the sizes of one choice or more are wanted")
        self.normalizer = _normalizer(normalizer, self.obs_dim)
        self.network = _network(network, (obs_dim, *hidden, sum(self.nvec)), activation, 0.01, seed)

    def logits(self, observations: Any) -> Tensor:
        """Unnormalised log-probabilities of all choices side by side, shape [..., Σ nvec]."""
        return _through(self, observations, sum(self.nvec))

    def outputs(self, observations: Any) -> Tensor:
        return self.logits(observations)

    def distribution_of(self, outputs: Tensor) -> MultiCategorical:
        return MultiCategorical(outputs, self.nvec)

    def forward(self, observations: Any) -> Tensor:
        """The logits: what `torch.func.functional_call` evaluates."""
        return self.logits(observations)

    def probs(self, observations: Any) -> tuple[Tensor, ...]:
        """Probabilities for each of the K choices, shapes [..., nvec[k]]."""
        return tuple(part.softmax(dim=-1) for part in self.logits(observations).split(self.nvec, dim=-1))

    def _noise(self, shape: tuple[int, int], generator: torch.Generator | None, like: Tensor) -> Tensor:
        return _gumbel((*shape, sum(self.nvec)), generator, like)

    def _numpy_act(self, noise: np.ndarray) -> Act:
        ends = np.cumsum(self.nvec).tolist()
        columns = [slice(end - n, end) for n, end in zip(self.nvec, ends, strict=True)]

        def act(t: int, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            noisy = outputs + noise[t]
            actions = np.stack([noisy[:, column].argmax(1) for column in columns], axis=1)
            return actions, actions

        return act

    def _refuse_unless_actions(self, actions: Any, distribution: MultiCategorical) -> Tensor:
        actions = _whole_numbers(actions, distribution.logits)
        wanted = (*distribution.logits.shape[:-1], len(self.nvec))
        validation.shape("actions", actions, wanted, f"{len(self.nvec)} choices an observation")
        return actions


class GaussianPolicy(_Policy):
    """Independent normal actions; the mean comes from a network, the deviation is learned for itself.

    The deviation does not depend on the observation (`log_std` is one parameter an action).

    **Bounds.** Where `low` and `high` are both finite, the network speaks in units of the box: an output of
    −1 is `low`, +1 is `high`, and a deviation of 1 is half the width. The distribution itself is an ordinary
    Gaussian, not cut off, and `sample` returns what was drawn, which may lie outside. `logp` and `entropy`
    are of that Gaussian, so ratios and gradients are exact; the environment is given ``in_bounds(actions)``,
    the nearest point of the box. Store what was drawn, step with what is in bounds: for the policy, the
    clipping is a part of the environment.

    Parameters
    ----------
    obs_dim, act_dim : int
    hidden : sequence of int
    low, high : float or array of shape (act_dim,), optional
        Bounds of the action box; infinite ones are allowed. Left out: unbounded.
    initial_std : float above 0
        In half widths of the box where there is one, else in the units of the actions.
    activation, seed
        As for `MLP`. The last layer's gain is 0.01, so the first means are near the middle of the box.
    normalizer, network
        As for `CategoricalPolicy`; a `network` gives the means, [..., act_dim], in units of the box.
    """

    log_std: nn.Parameter
    low: Tensor
    high: Tensor
    centre: Tensor
    scale: Tensor
    _drawn_from = "the mean for these observations"

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        hidden: Sequence[int] = (64, 64),
        low: Any = None,
        high: Any = None,
        *,
        initial_std: float = 1.0,
        activation: str = "tanh",
        normalizer: RunningNorm | None = None,
        network: nn.Module | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.obs_dim = validation.count("obs_dim", obs_dim)
        self.act_dim = validation.count("act_dim", act_dim)
        initial_std = validation.number("initial_std", initial_std, above=0)
        self.normalizer = _normalizer(normalizer, self.obs_dim)
        self.network = _network(network, (obs_dim, *hidden, act_dim), activation, 0.01, seed)
        self.log_std = nn.Parameter(torch.full((act_dim,), math.log(initial_std)))
        low = _bound("low", -np.inf if low is None else low, act_dim)
        high = _bound("high", np.inf if high is None else high, act_dim)
        if not (low < high).all():
            raise ValueError(
                f"low is {low.tolist()} and high is {high.tolist()}; each low must be below its high"
            )
        boxed = np.isfinite(low) & np.isfinite(high)
        # Halved before they are added: bounds near the largest float must not overflow.
        centre = np.where(boxed, np.where(boxed, low, 0) / 2 + np.where(boxed, high, 0) / 2, 0.0)
        scale = np.where(boxed, np.where(boxed, high, 2) / 2 - np.where(boxed, low, 0) / 2, 1.0)
        for name, x in {"low": low, "high": high, "centre": centre, "scale": scale}.items():
            self.register_buffer(name, torch.as_tensor(x, dtype=self.log_std.dtype))

    def outputs(self, observations: Any) -> Tensor:
        """The means in units of the box, shape [..., act_dim]."""
        return _through(self, observations, self.act_dim)

    def distribution_of(self, outputs: Tensor) -> Gaussian:
        return Gaussian(self.centre + self.scale * outputs, self.scale * self.log_std.exp())

    def mean_std(self, observations: Any) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the actions, both of shape [..., act_dim], in the actions' units."""
        distribution = self.distribution(observations)
        return distribution.mean, distribution.std.expand_as(distribution.mean)

    def forward(self, observations: Any) -> tuple[Tensor, Tensor]:
        """Mean and deviation: what `torch.func.functional_call` evaluates."""
        return self.mean_std(observations)

    def in_bounds(self, actions: Tensor) -> Tensor:
        """The nearest actions inside the box, for the environment."""
        return torch.minimum(torch.maximum(actions, self.low), self.high)

    def _noise(self, shape: tuple[int, int], generator: torch.Generator | None, like: Tensor) -> Tensor:
        return _normal((*shape, self.act_dim), generator, like)

    def _numpy_act(self, noise: np.ndarray) -> Act:
        scale, centre, low, high = (x.cpu().numpy() for x in (self.scale, self.centre, self.low, self.high))
        # Where the actions would be drawn if the network said 0.
        around = centre + scale * self.log_std.detach().exp().cpu().numpy() * noise

        def act(t: int, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            actions = scale * outputs + around[t]
            return actions, np.minimum(np.maximum(actions, low), high)

        return act

    def _refuse_unless_actions(self, actions: Any, distribution: Gaussian) -> Tensor:
        mean = distribution.mean
        actions = torch.as_tensor(actions, dtype=mean.dtype, device=mean.device)
        validation.shape("actions", actions, mean.shape, "one vector an observation")
        return actions


def _numpy_layers(network: Any, num_envs: int) -> Evaluate | None:
    """An MLP on the CPU in NumPy, from [num_envs, inputs] to [num_envs, outputs]; None for all else."""
    if type(network) is not MLP or network.layers[0].weight.device.type != "cpu":
        return None
    layers: list[Any] = list(network.layers)
    linear, between = layers[::2], layers[1::2]
    if any(type(layer) is not nn.Linear or layer.bias is None for layer in linear):
        return None
    if any(type(layer) not in _IN_NUMPY for layer in between):
        return None
    # Transposed once for all steps of a rollout, which BLAS rewards.
    weights = [np.ascontiguousarray(layer.weight.detach().numpy().T) for layer in linear]
    biases = [layer.bias.detach().numpy() for layer in linear]
    activations = [_IN_NUMPY[type(layer)] for layer in between]
    filled = [np.empty((num_envs, len(bias)), dtype=bias.dtype) for bias in biases[:-1]]
    hidden = list(zip(weights, biases, filled, activations, strict=False))

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


def _whole_numbers(actions: Any, like: Tensor) -> Tensor:
    actions = torch.as_tensor(actions, device=like.device)
    if actions.is_floating_point() or actions.is_complex() or actions.dtype == torch.bool:
        raise TypeError(f"actions has dtype {actions.dtype}; integers are wanted")
    return actions.long()


def _bound(name: str, x: Any, act_dim: int) -> np.ndarray:
    bound = np.asarray(x, dtype=np.float64)
    if bound.shape not in ((), (act_dim,)) or np.isnan(bound).any():
        raise ValueError(f"{name} is {x}; a number, or {act_dim} of them (one an action), is wanted")
    return np.broadcast_to(bound, (act_dim,)).copy()
