"""Policies and value functions: small networks, a table, and their first weights.

A policy is a network that gives numbers, and a distribution made of them, which
``policy.distribution(observations)`` returns: a `Categorical`, a `MultiCategorical` or a `Gaussian`. All
policies answer to the same few names: `distribution`, `sample`, `logp`, `entropy`, `mode`, `in_bounds`.
Observations have any leading axes, ``[..., obs_dim]`` (a table's are states, ``[...]``), and what comes back
has the same. Who wants logp, entropy and KL at the same observations asks for the distribution once, and
takes all three from it.

Random numbers come from the seed or generator that is handed in; building a network leaves torch's own
random state as it was. No check here looks at the *values* of observations except in `sample`, so that a
policy can be differentiated sample by sample under `torch.func.vmap`.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from ppobook import _doors

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}

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


# ------------------------------------------------------------------------------------------ distributions


class Distribution(ABC):
    """Over the actions at each of many observations. Nothing is checked here: policies have the doors.

    Where gradients are wanted they flow through `logp`, `entropy` and `kl` into what the distribution was
    made of.
    """

    @abstractmethod
    def logp(self, actions: Tensor) -> Tensor:
        """Log-probability (discrete) or log-density (continuous) of the actions, shape [...]."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy in nats, shape [...]."""

    @abstractmethod
    def kl(self, other: Self) -> Tensor:
        """KL(self, other) in nats, exact, shape [...]; the average is over actions of self."""

    @abstractmethod
    def noise(self, generator: torch.Generator | None = None) -> Tensor:
        """What `act` wants: noise for one draw at each observation."""

    @abstractmethod
    def act(self, noise: Tensor) -> Tensor:
        """The actions that this noise leads to; no gradient."""

    @abstractmethod
    def mode(self) -> Tensor:
        """The most probable actions; no gradient."""

    @abstractmethod
    def detach(self) -> Self:
        """The same distribution, through which no gradient flows."""

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Actions drawn at random; no gradient. Without a generator, torch's global one is used."""
        return self.act(self.noise(generator))


class Categorical(Distribution):
    """One of A choices, given by logits of shape [..., A]; actions are int64 of shape [...].

    π(a) = exp(z_a) / Σ_b exp(z_b)
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self.log_probs = logits.log_softmax(dim=-1)

    def logp(self, actions: Tensor) -> Tensor:
        return _pick(self.log_probs, actions)

    def entropy(self) -> Tensor:
        return -(self.log_probs.exp() * self.log_probs).sum(dim=-1)

    def kl(self, other: Self) -> Tensor:
        return (self.log_probs.exp() * (self.log_probs - other.log_probs)).sum(dim=-1)

    @torch.no_grad()
    def noise(self, generator: torch.Generator | None = None) -> Tensor:
        return _gumbel(self.logits.shape, generator, self.logits)

    @torch.no_grad()
    def act(self, noise: Tensor) -> Tensor:
        # Gumbel's trick: the largest of logits plus Gumbel noise is action a with probability
        # softmax(logits)_a.
        return (self.logits + noise).argmax(dim=-1)

    @torch.no_grad()
    def mode(self) -> Tensor:
        return self.logits.argmax(dim=-1)

    def detach(self) -> Self:
        return type(self)(self.logits.detach())


class MultiCategorical(Distribution):
    """K choices made at once and independently, the k-th among nvec[k].

    The logits of all of them stand side by side, [..., Σ nvec]; actions are int64 of shape [..., K]. logp,
    entropy and KL are sums over the K choices.
    """

    def __init__(self, logits: Tensor, nvec: Sequence[int]) -> None:
        self.logits = logits
        self.nvec = tuple(nvec)
        self.parts = [Categorical(part) for part in logits.split(self.nvec, dim=-1)]

    def logp(self, actions: Tensor) -> Tensor:
        return self._sum([part.logp(actions[..., k]) for k, part in enumerate(self.parts)])

    def entropy(self) -> Tensor:
        return self._sum([part.entropy() for part in self.parts])

    def kl(self, other: Self) -> Tensor:
        return self._sum([mine.kl(its) for mine, its in zip(self.parts, other.parts, strict=True)])

    @torch.no_grad()
    def noise(self, generator: torch.Generator | None = None) -> Tensor:
        return _gumbel(self.logits.shape, generator, self.logits)

    def act(self, noise: Tensor) -> Tensor:
        each = zip(self.parts, noise.split(self.nvec, dim=-1), strict=True)
        return torch.stack([part.act(its_noise) for part, its_noise in each], dim=-1)

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], dim=-1)

    def detach(self) -> Self:
        return type(self)(self.logits.detach(), self.nvec)

    @staticmethod
    def _sum(parts: list[Tensor]) -> Tensor:
        return torch.stack(parts, dim=-1).sum(dim=-1)


class Gaussian(Distribution):
    """Independent normal components: mean [..., D] and a deviation that broadcasts to it.

    Actions have the shape of the mean; logp, entropy and KL are sums over the components.
    """

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        self.mean = mean
        self.std = std

    def logp(self, actions: Tensor) -> Tensor:
        z = (actions - self.mean) / self.std
        return -(0.5 * z**2 + self.std.log() + 0.5 * math.log(2 * math.pi)).sum(dim=-1)

    def entropy(self) -> Tensor:
        # A deviation that is the same for all observations has its logarithm taken once.
        return (
            (0.5 * math.log(2 * math.pi * math.e) + self.std.log()).sum(dim=-1).expand(self.mean.shape[:-1])
        )

    def kl(self, other: Self) -> Tensor:
        ratio, distance = self.std / other.std, (self.mean - other.mean) / other.std
        return (0.5 * (ratio**2 - 1 + distance**2) - ratio.log()).sum(dim=-1)

    @torch.no_grad()
    def noise(self, generator: torch.Generator | None = None) -> Tensor:
        return _normal(self.mean.shape, generator, self.mean)

    @torch.no_grad()
    def act(self, noise: Tensor) -> Tensor:
        return self.mean + self.std * noise

    def mode(self) -> Tensor:
        return self.mean.detach()

    def detach(self) -> Self:
        return type(self)(self.mean.detach(), self.std.detach())


# ----------------------------------------------------------------------------------------------- networks


class MLP(nn.Module):
    """Fully connected layers with an activation between them, started orthogonally.

    Parameters
    ----------
    sizes : sequence of int
        Inputs, hidden layers, outputs: ``(4, 64, 64, 2)``. Two entries make a linear map.
    activation : "tanh", "relu", "gelu" or "silu"
    output_scale : float
        Gain of the last layer; hidden layers have √2. A small one for a policy makes its first actions
        almost independent of the observation, so that no early accident decides.
    seed : int or torch.Generator
        For the first weights. A generator is drawn from, so two networks made with it differ.

    References
    ----------
    Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks",
    for the orthogonal start; Andrychowicz et al. 2021, "What matters for on-policy deep actor-critic methods?
    A large-scale study", section 3.2, for the small last layer.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: str = "tanh",
        output_scale: float = 1.0,
        *,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        sizes = [_doors.count(f"sizes[{i}]", size) for i, size in enumerate(sizes)]
        if len(sizes) < 2:
            raise ValueError(f"sizes is {tuple(sizes)}; at least an input and an output size are wanted")
        make_activation = ACTIVATIONS[_doors.choice("activation", activation, ACTIVATIONS)]
        generator = _generator(seed)
        modules: list[nn.Module] = []
        for i, (n_in, n_out) in enumerate(itertools.pairwise(sizes)):
            last = i == len(sizes) - 2
            modules.append(orthogonal_linear(n_in, n_out, output_scale if last else math.sqrt(2), generator))
            if not last:
                modules.append(make_activation())
        self.layers = nn.Sequential(*modules)
        self.obs_dim = sizes[0]

    def forward(self, observations: Any) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        return self.layers(_vectors(observations, self.obs_dim, self.layers[0].weight))


class SharedTrunk(nn.Module):
    """A linear head on another network's hidden layers: the parameters of these are the same objects.

    What one of the two learns moves both. The gradients of both losses add up in the hidden layers, so their
    weights decide whom these serve.

    Parameters
    ----------
    network : MLP
        Whose layers, all but the last, are shared.
    outputs : int
    seed : int or torch.Generator
        For the head's first weights, orthogonal with gain 1.
    """

    def __init__(self, network: MLP, outputs: int = 1, *, seed: int | torch.Generator = 0) -> None:
        super().__init__()
        last: Any = network.layers[-1]
        self.trunk = nn.Sequential(*list(network.layers)[:-1])
        self.head = orthogonal_linear(last.in_features, outputs, 1.0, _generator(seed))
        self.obs_dim = network.obs_dim

    def forward(self, observations: Any) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        return self.head(self.trunk(_vectors(observations, self.obs_dim, self.head.weight)))

    def shares(self, network: MLP) -> bool:
        """Whether this stands on the hidden layers of that network."""
        return all(a is b for a, b in zip(self.trunk, network.layers, strict=False))


class RunningNorm(nn.Module):
    """Shift and scale to mean 0 and deviation 1, by the mean and deviation of all that was shown so far.

        x ↦ (x − mean) / √(var + 10⁻⁸), cut off at ± clip

    Nothing is learned in `forward`: the numbers change in `update` only, which a trainer calls between its
    own updates, so that the policy that took an action and the one that is compared with it see the same.
    They are buffers, so they are saved with the policy that they stand in. Before the first `update`, x goes
    through as it is, cut off.

    Parameters
    ----------
    shape : tuple of int
        Of one observation; ``()`` for single numbers.
    clip : float above 0

    References
    ----------
    Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances",
    equations 2.1: how `update` joins the mean and variance of a batch to those of all batches before.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, shape: Sequence[int], clip: float = 10.0) -> None:
        super().__init__()
        self.shape = tuple(_doors.count(f"shape[{i}]", size) for i, size in enumerate(shape))
        self.clip = _doors.number("clip", clip, above=0)
        # In float64: a sum over millions of steps must not lose the last ones.
        self.register_buffer("mean", torch.zeros(self.shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(self.shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def update(self, batch: Any) -> None:
        """Take in a batch, [..., *shape]. All entries count alike, in whatever batches they come.

        Raises
        ------
        ValueError
            Another shape, an empty batch, a number that is not finite.
        """
        x = torch.as_tensor(batch, device=self.mean.device).to(self.mean.dtype)
        if x.ndim < len(self.shape) or tuple(x.shape[x.ndim - len(self.shape) :]) != self.shape:
            raise ValueError(f"batch has shape {tuple(x.shape)}; last axes of {self.shape} are wanted")
        _doors.not_empty("batch", x)
        _doors.finite("batch", x)
        x = x.reshape(-1, *self.shape)
        mean, var, n = x.mean(dim=0), x.var(dim=0, correction=0), len(x)
        total = self.count + n
        shift = mean - self.mean
        # With a count of 0 what stands here is the identity's mean and variance, and weighs nothing.
        self.var.copy_((self.count * self.var + n * var + shift**2 * self.count * n / total) / total)
        self.mean.add_(shift * n / total)
        self.count.copy_(total)

    def forward(self, observations: Any) -> Tensor:
        """[..., *shape] to the same shape; floats keep their dtype."""
        x = torch.as_tensor(observations, device=self.mean.device)
        x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
        shift, scale = self.shift_and_scale()
        return ((x - shift.to(x.dtype)) * scale.to(x.dtype)).clamp(-self.clip, self.clip)

    def shift_and_scale(self) -> tuple[Tensor, Tensor]:
        """What `forward` subtracts, and what it then multiplies with."""
        return self.mean, (self.var + 1e-8).rsqrt()


# ----------------------------------------------------------------------------------------------- policies


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
        _doors.finite(self._drawn_from, parameters)
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
        _doors.shape("actions", actions, distribution.logits.shape[:-1], "one action an observation")
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
        self.obs_dim = _doors.count("obs_dim", obs_dim)
        self.n_actions = _doors.count("n_actions", n_actions)
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
        self.n_states = _doors.count("n_states", n_states)
        self.n_actions = _doors.count("n_actions", n_actions)
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
        self.obs_dim = _doors.count("obs_dim", obs_dim)
        self.nvec = tuple(_doors.count(f"nvec[{k}]", n) for k, n in enumerate(nvec))
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
        _doors.shape("actions", actions, wanted, f"{len(self.nvec)} choices an observation")
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
        self.obs_dim = _doors.count("obs_dim", obs_dim)
        self.act_dim = _doors.count("act_dim", act_dim)
        initial_std = _doors.number("initial_std", initial_std, above=0)
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
        _doors.shape("actions", actions, mean.shape, "one vector an observation")
        return actions


# ------------------------------------------------------------------------------------------------- values


class ValueFunction(nn.Module):
    """A network that estimates V(s): observations [..., obs_dim] to values [...].

    Parameters
    ----------
    obs_dim, hidden, activation, normalizer, network, seed
        As for `CategoricalPolicy`; a `network` gives [..., 1].
    """

    def __init__(
        self,
        obs_dim: int,
        hidden: Sequence[int] = (64, 64),
        *,
        activation: str = "tanh",
        normalizer: RunningNorm | None = None,
        network: nn.Module | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.obs_dim = _doors.count("obs_dim", obs_dim)
        self.normalizer = _normalizer(normalizer, self.obs_dim)
        self.network = _network(network, (obs_dim, *hidden, 1), activation, 1.0, seed)

    def forward(self, observations: Any) -> Tensor:
        """V of each observation, shape [...]."""
        return _through(self, observations, 1).squeeze(-1)


class TabularValue(nn.Module):
    """A table of values, one a state: states [...] to values [...]. It starts at 0."""

    def __init__(self, n_states: int) -> None:
        super().__init__()
        self.n_states = _doors.count("n_states", n_states)
        self.table = nn.Parameter(torch.zeros(n_states))

    def forward(self, observations: Any) -> Tensor:
        """V of each state, shape [...]."""
        return _rows(self.table.unsqueeze(-1), observations).squeeze(-1)


def policy_for(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    hidden: Sequence[int] = (64, 64),
    *,
    activation: str = "tanh",
    initial_std: float = 1.0,
    normalizer: RunningNorm | None = None,
    network: nn.Module | None = None,
    seed: int | torch.Generator = 0,
) -> CategoricalPolicy | GaussianPolicy | MultiCategoricalPolicy | TabularPolicy:
    """The policy that fits an environment's spaces (of one environment, not of a vector of them).

    Discrete observations give a `TabularPolicy`, a box of numbers a network. Discrete actions give a
    categorical distribution, several discrete ones at once (MultiDiscrete, MultiBinary) one for each, a box
    a Gaussian with the box's bounds.

    Parameters
    ----------
    observation_space, action_space : Gymnasium spaces
    hidden, activation, normalizer, network, seed
        As for `CategoricalPolicy`. A table reads none of them.
    initial_std : float above 0
        As for `GaussianPolicy`. Discrete policies do not read it.

    Raises
    ------
    ValueError
        Spaces of another kind, boxes that are not flat, a normalizer or a network for a table.
    """
    n_states, obs_dim = _observation_size(observation_space)
    if n_states is not None:
        _refuse_for_a_table(observation_space, normalizer=normalizer, network=network)
    given: dict[str, Any] = {
        "activation": activation,
        "normalizer": normalizer,
        "network": network,
        "seed": seed,
    }
    if isinstance(action_space, spaces.Discrete):
        _from_zero("action_space", action_space)
        n_actions = int(action_space.n)
        if n_states is not None:
            return TabularPolicy(n_states, n_actions)
        return CategoricalPolicy(obs_dim, n_actions, hidden, **given)
    nvec = _choices(action_space)
    if nvec is None and not (isinstance(action_space, spaces.Box) and len(action_space.shape) == 1):
        raise ValueError(
            f"action_space is {action_space}; a Discrete, MultiDiscrete or MultiBinary space or a Box, with "
            "one axis, is wanted"
        )
    if n_states is not None:
        raise ValueError(
            f"observation_space is {observation_space} and action_space {action_space}; "
            f"with such actions, a box of observations is wanted "
            f"(gymnasium.wrappers.FlattenObservation turns a state into a one-hot vector)"
        )
    if nvec is not None:
        return MultiCategoricalPolicy(obs_dim, nvec, hidden, **given)
    assert isinstance(action_space, spaces.Box)
    low, high = action_space.low, action_space.high
    return GaussianPolicy(obs_dim, action_space.shape[0], hidden, low, high, initial_std=initial_std, **given)


def value_for(
    observation_space: spaces.Space[Any],
    hidden: Sequence[int] = (64, 64),
    *,
    activation: str = "tanh",
    normalizer: RunningNorm | None = None,
    network: nn.Module | None = None,
    seed: int | torch.Generator = 0,
) -> ValueFunction | TabularValue:
    """The value function that fits an observation space: a table for discrete states, else a network."""
    n_states, obs_dim = _observation_size(observation_space)
    if n_states is not None:
        _refuse_for_a_table(observation_space, normalizer=normalizer, network=network)
        return TabularValue(n_states)
    return ValueFunction(
        obs_dim, hidden, activation=activation, normalizer=normalizer, network=network, seed=seed
    )


def actor_critic_for(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    hidden: Sequence[int] = (64, 64),
    *,
    shared: bool = False,
    activation: str = "tanh",
    initial_std: float = 1.0,
    normalizer: RunningNorm | None = None,
    seed: int | torch.Generator = 0,
) -> tuple[Any, ValueFunction | TabularValue]:
    """A policy and a value function for an environment's spaces, apart or on one trunk.

    With ``shared=True`` the value function is a linear head on the policy's hidden layers (`SharedTrunk`):
    those parameters are the same objects in both, so an optimizer must be given each once, as
    ``list(dict.fromkeys([*policy.parameters(), *value.parameters()]))`` does; and `together` evaluates both
    in one pass. The normalizer, if there is one, is the same object in both either way.

    Parameters
    ----------
    shared : bool
        A table has no hidden layers to share, and nothing comes of it there; nor with ``hidden=()``.
    seed : int or torch.Generator
        Drawn from for the policy first, then for the value function.

    Returns
    -------
    policy, value : modules
    """
    shared = _doors.flag("shared", shared)
    generator = _generator(seed)
    policy = policy_for(
        observation_space,
        action_space,
        hidden,
        activation=activation,
        initial_std=initial_std,
        normalizer=normalizer,
        seed=generator,
    )
    network = None
    if shared and not isinstance(policy, TabularPolicy):
        assert isinstance(policy.network, MLP)
        network = SharedTrunk(policy.network, seed=generator)
    value = value_for(
        observation_space,
        hidden,
        activation=activation,
        normalizer=normalizer,
        network=network,
        seed=generator,
    )
    return policy, value


def together(policy: Any, value: nn.Module, observations: Any) -> tuple[Any, Tensor]:
    """``policy.distribution(observations), value(observations)``, a shared trunk being evaluated once.

    For a policy and a value function that share nothing this is two passes, as written above; and so it is
    for classes from elsewhere, subclasses say, which may do something of their own on the way.
    """
    head: Any = getattr(value, "network", None)
    network: Any = getattr(policy, "network", None)
    ours = all(type(part).__module__ == __name__ for part in (policy, value, head, network))
    shared = isinstance(head, SharedTrunk) and isinstance(network, MLP) and head.shares(network)
    if not (ours and shared and policy.normalizer is getattr(value, "normalizer", None)):
        return policy.distribution(observations), value(observations)
    x = observations if policy.normalizer is None else policy.normalizer(observations)
    features = head.trunk(_vectors(x, network.obs_dim, head.head.weight))
    return policy.distribution_of(network.layers[-1](features)), head.head(features).squeeze(-1)


def orthogonal_linear(
    n_in: int, n_out: int, gain: float, generator: torch.Generator | None = None
) -> nn.Linear:
    """A linear layer whose weight has orthogonal rows (or columns) of length `gain`, and whose bias is 0."""
    # nn.Linear fills its weights from the global generator, only for us to overwrite them: skip that.
    layer = nn.utils.skip_init(nn.Linear, n_in, n_out)
    nn.init.orthogonal_(layer.weight, gain=gain, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def _generator(seed: int | torch.Generator) -> torch.Generator:
    if isinstance(seed, torch.Generator):
        return seed
    return torch.Generator().manual_seed(_doors.count("seed", seed, low=0))


def _pick(logp: Tensor, actions: Tensor) -> Tensor:
    """logp at the actions taken: [..., A] and [...] to [...]."""
    try:
        return logp.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    except (IndexError, RuntimeError) as error:
        if "out of bounds" not in str(error):
            raise
        raise ValueError(
            f"actions holds numbers from {int(actions.min())} to {int(actions.max())}; "
            f"0 to {logp.shape[-1] - 1} are wanted"
        ) from None


def _gumbel(shape: Sequence[int], generator: torch.Generator | None, like: Tensor) -> Tensor:
    """Standard Gumbel noise, −log(−log u)."""
    # From float64, whose tails are long enough. And on the CPU torch draws these one after the other, so that
    # a rollout's noise drawn at once is the noise that its steps would have drawn one by one.
    u = torch.rand(shape, generator=generator, dtype=torch.float64, device=like.device)
    return u.log_().neg_().log_().neg_().to(like.dtype)


def _normal(shape: Sequence[int], generator: torch.Generator | None, like: Tensor) -> Tensor:
    """Standard normal noise, by the inverse of its distribution function; drawn as `_gumbel` draws."""
    u = torch.rand(shape, generator=generator, dtype=torch.float64, device=like.device)
    return torch.special.ndtri(u.clamp_(min=2.0**-54)).to(like.dtype)


def _vectors(observations: Any, obs_dim: int, like: Any) -> Tensor:
    """Observations as a tensor beside the weights, [..., obs_dim]."""
    x = torch.as_tensor(observations, dtype=like.dtype, device=like.device)
    if x.ndim == 0 or x.shape[-1] != obs_dim:
        raise ValueError(
            f"observations has shape {tuple(x.shape)}; a last axis of {obs_dim} numbers is wanted"
        )
    return x


def _network(
    network: nn.Module | None, sizes: Sequence[int], activation: str, output_scale: float, seed: Any
) -> nn.Module:
    """The reader's own network, or an MLP."""
    if network is None:
        return MLP(sizes, activation, output_scale, seed=seed)
    if not isinstance(network, nn.Module):
        raise TypeError(f"network is of type {type(network).__name__}; a torch.nn.Module is wanted")
    return network


def _normalizer(normalizer: RunningNorm | None, obs_dim: int) -> RunningNorm | None:
    if normalizer is None:
        return None
    if not isinstance(normalizer, RunningNorm):
        raise TypeError(f"normalizer is of type {type(normalizer).__name__}; a RunningNorm or None is wanted")
    if normalizer.shape != (obs_dim,):
        raise ValueError(
            f"normalizer has shape {normalizer.shape}; {(obs_dim,)} is wanted, as observations have"
        )
    return normalizer


def _through(module: Any, observations: Any, outputs: int) -> Tensor:
    """Observations through a policy's or value function's normalizer and network."""
    network, normalizer = module.network, module.normalizer
    if isinstance(network, MLP | SharedTrunk):  # which look at what they are given themselves
        return network(observations if normalizer is None else normalizer(observations))
    like = next(network.parameters(), None)
    x = _vectors(observations, module.obs_dim, torch.empty(0) if like is None else like)
    found = network(x if normalizer is None else normalizer(x))
    if tuple(found.shape) != (*x.shape[:-1], outputs):
        raise ValueError(
            f"network gave an output of shape {tuple(found.shape)} for observations of shape "
            f"{tuple(x.shape)}; {(*x.shape[:-1], outputs)} is wanted"
        )
    return found


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


def _choices(space: spaces.Space[Any]) -> list[int] | None:
    """The sizes of several choices made at once; None for other spaces."""
    if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        return [2] * space.shape[0]
    if not isinstance(space, spaces.MultiDiscrete) or len(space.shape) != 1:
        return None
    if space.start.any():
        raise ValueError(f"action_space is {space}; a MultiDiscrete space that counts from 0 is wanted")
    return [int(n) for n in space.nvec]


def _refuse_for_a_table(space: spaces.Space[Any], **given: Any) -> None:
    for name, x in given.items():
        if x is not None:
            raise ValueError(
                f"{name} is given and observation_space is {space}; a box of observations is wanted with it "
                "(gymnasium.wrappers.FlattenObservation turns a state into a one-hot vector)"
            )


def _rows(table: Tensor, observations: Any) -> Tensor:
    """The table's rows for these states: [...] to [..., columns]."""
    states = torch.as_tensor(observations, device=table.device)
    if states.is_floating_point() or states.is_complex() or states.dtype == torch.bool:
        raise TypeError(f"observations has dtype {states.dtype}; a table wants states, which are integers")
    try:
        # Not table[states]: that would take state -1 for the last one.
        return nn.functional.embedding(states.long(), table)
    except IndexError:
        raise ValueError(
            f"observations holds states from {int(states.min())} to {int(states.max())}; "
            f"0 to {len(table) - 1} are wanted"
        ) from None


def _observation_size(space: spaces.Space[Any]) -> tuple[int | None, int]:
    """(number of states, 0) of a discrete space; (None, number of entries) of a flat box."""
    if isinstance(space, spaces.Discrete):
        _from_zero("observation_space", space)
        return int(space.n), 0
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return None, space.shape[0]
    hint = " (gymnasium.wrappers.FlattenObservation makes one)" if isinstance(space, spaces.Box) else ""
    raise ValueError(f"observation_space is {space}; a Discrete space or a Box with one axis is wanted{hint}")


def _from_zero(name: str, space: spaces.Discrete) -> None:
    if int(space.start) != 0:
        raise ValueError(f"{name} is {space}; a Discrete space that counts from 0 is wanted")


def _bound(name: str, x: Any, act_dim: int) -> np.ndarray:
    bound = np.asarray(x, dtype=np.float64)
    if bound.shape not in ((), (act_dim,)) or np.isnan(bound).any():
        raise ValueError(f"{name} is {x}; a number, or {act_dim} of them (one an action), is wanted")
    return np.broadcast_to(bound, (act_dim,)).copy()
