"""Networks of policies and value functions: an MLP, and a head on the hidden layers of another one."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.fast.declare import fast_form
from ppobook.policies.normalization import RunningNorm

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


@fast_form("mlp")
class MLP(nn.Module):
    """Fully connected layers with an activation between them and orthogonal initial weights.

    Parameters
    ----------
    sizes : sequence of int
        Of inputs, hidden layers and outputs: ``(4, 64, 64, 2)``. Two entries make a linear map.
    activation : "tanh", "relu", "gelu" or "silu"
    output_scale : float
        Gain of the last layer; hidden layers have √2. With a small one, a policy's first actions hardly
        depend on the observation.
    seed : int or torch.Generator
        For the initial weights. A generator is advanced, so two networks made with it differ.

    References
    ----------
    Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks",
    for orthogonal initial weights; Andrychowicz et al. 2021, "What matters for on-policy deep actor-critic
    methods? A large-scale study", section 3.2, for the small last layer.
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
        sizes = validation.counts("sizes", sizes)
        if len(sizes) < 2:
            raise ValueError(f"sizes must have at least an input and an output size, got {sizes}")
        output_scale = validation.number("output_scale", output_scale)
        make_activation = ACTIVATIONS[validation.choice("activation", activation, ACTIVATIONS)]
        generator = generator_from(seed)
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
        return self.layers(as_vectors(observations, self.obs_dim, self.layers[0].weight))


@fast_form("shared_trunk")
class SharedTrunk(nn.Module):
    """A linear head on the hidden layers of another network, whose parameters it shares.

    The gradients of both networks' losses add up in the shared layers.

    Parameters
    ----------
    network : MLP
        All its layers but the last are shared.
    outputs : int
    seed : int or torch.Generator
        For the head's initial weights, orthogonal with gain 1.
    """

    def __init__(self, network: MLP, outputs: int = 1, *, seed: int | torch.Generator = 0) -> None:
        super().__init__()
        validation.instance("network", network, MLP)
        outputs = validation.count("outputs", outputs)
        last: Any = network.layers[-1]
        self.trunk = nn.Sequential(*list(network.layers)[:-1])
        self.head = orthogonal_linear(last.in_features, outputs, 1.0, generator_from(seed))
        self.obs_dim = network.obs_dim

    def forward(self, observations: Any) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        return self.head(self.trunk(as_vectors(observations, self.obs_dim, self.head.weight)))

    def shares(self, network: MLP) -> bool:
        """Whether the shared layers are those of this network."""
        validation.instance("network", network, MLP)
        return all(a is b for a, b in zip(self.trunk, network.layers, strict=False))


def orthogonal_linear(
    n_in: int, n_out: int, gain: float, generator: torch.Generator | None = None
) -> nn.Linear:
    """A linear layer whose weight has orthogonal rows (or columns) of length `gain`, and bias 0."""
    validation.generator(generator)
    # nn.Linear would initialize its weights from the global generator first.
    n_in, n_out = validation.count("n_in", n_in), validation.count("n_out", n_out)
    gain = validation.number("gain", gain)
    layer = nn.utils.skip_init(nn.Linear, n_in, n_out)
    nn.init.orthogonal_(layer.weight, gain=gain, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def generator_from(seed: int | torch.Generator) -> torch.Generator:
    """A new generator with this seed, or the generator itself."""
    if isinstance(seed, torch.Generator):
        return seed
    return torch.Generator().manual_seed(validation.count("seed", seed, low=0))


def as_vectors(observations: Any, obs_dim: int, like: Any) -> Tensor:
    """Observations [..., obs_dim] as a tensor of the dtype and device of `like`."""
    x = validation.to_tensor("observations", observations, dtype=like.dtype, device=like.device)
    validation.entries("observations", x, obs_dim)
    return x


def given_network(
    network: nn.Module | None,
    inputs: int,
    hidden: Sequence[int],
    outputs: int,
    activation: str,
    output_scale: float,
    seed: Any,
) -> nn.Module:
    """The network that was passed, or an MLP."""
    if network is None:
        sizes = (inputs, *validation.counts("hidden", hidden), outputs)
        return MLP(sizes, activation, output_scale, seed=seed)
    if not isinstance(network, nn.Module):
        raise TypeError(f"network must be a torch.nn.Module, got {type(network).__name__}")
    return network


def given_normalizer(normalizer: RunningNorm | None, obs_dim: int) -> RunningNorm | None:
    """The normalizer that was passed, which must fit the observations."""
    if normalizer is None:
        return None
    if not isinstance(normalizer, RunningNorm):
        raise TypeError(f"normalizer must be a RunningNorm or None, got {type(normalizer).__name__}")
    if normalizer.shape != (obs_dim,):
        raise ValueError(f"normalizer must have shape {(obs_dim,)} of observations, got {normalizer.shape}")
    return normalizer


def network_outputs(module: Any, observations: Any, outputs: int) -> Tensor:
    """The outputs of a policy's or value function's network at normalized observations, [..., outputs]."""
    network, normalizer = module.network, module.normalizer
    if isinstance(network, MLP | SharedTrunk):
        return network(observations if normalizer is None else normalizer(observations))
    # A network of the user's own, of which neither input nor output has been validated.
    like = next(network.parameters(), None)
    x = as_vectors(observations, module.obs_dim, torch.empty(0) if like is None else like)
    try:
        y = network(x if normalizer is None else normalizer(x))
    except RuntimeError as error:
        if not re.search("shape|size of|of size", str(error)):
            raise
        raise ValueError(
            f"network must take observations of shape {tuple(x.shape)}, got: {str(error).splitlines()[0]}"
        ) from error
    if not isinstance(y, Tensor):
        raise TypeError(f"network must return a tensor, got {validation.kind_of(y)}")
    if y.shape != (*x.shape[:-1], outputs):
        raise ValueError(
            f"network of {type(module).__name__} must return shape {(*x.shape[:-1], outputs)} for "
            f"observations of shape {tuple(x.shape)}, got {tuple(y.shape)}"
        )
    return y


def table_rows(table: Tensor, observations: Any) -> Tensor:
    """The rows of a table [n_states, columns] for states [...]: [..., columns]."""
    states = validation.to_tensor("observations", observations, device=table.device)
    if states.is_floating_point() or states.is_complex() or states.dtype == torch.bool:
        raise TypeError(f"observations must be integer states, got dtype {states.dtype}")
    try:
        # Not table[states], where -1 would be the last state.
        return nn.functional.embedding(states.long(), table)
    except IndexError:
        raise ValueError(
            f"observations must be states in 0, …, {len(table) - 1}, "
            f"got values from {int(states.min())} to {int(states.max())}"
        ) from None
