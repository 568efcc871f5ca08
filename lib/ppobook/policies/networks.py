"""Networks of policies and value functions: an MLP, and a head on the hidden layers of another one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ppobook import validation

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


class MLP(nn.Module):
    """Fully connected layers with an activation between them and orthogonal initial weights.

    Parameters
    ----------
    sizes : sequence of int
        Of inputs, hidden layers and outputs: ``(4, 64, 64, 2)``. Two entries make a linear map.
    activation : "tanh" or "relu"
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
        first: Any = self.layers[0]
        return self.layers(as_tensor(observations, first.weight))


class SharedTrunk(nn.Module):
    """A linear head on all layers but the last of another network, whose parameters it shares.

    The gradients of both networks' losses add up in the shared layers. The head's initial weights are
    orthogonal with gain 1.
    """

    def __init__(self, network: MLP, outputs: int = 1, *, seed: int | torch.Generator = 0) -> None:
        super().__init__()
        last: Any = network.layers[-1]
        self.trunk = nn.Sequential(*list(network.layers)[:-1])
        self.head = orthogonal_linear(last.in_features, outputs, 1.0, generator_from(seed))
        self.obs_dim = network.obs_dim

    def forward(self, observations: Any) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        return self.head(self.trunk(as_tensor(observations, self.head.weight)))

    def shares(self, network: MLP) -> bool:
        """Return True if the shared layers are those of this network."""
        return all(a is b for a, b in zip(self.trunk, network.layers, strict=False))


def orthogonal_linear(
    n_in: int, n_out: int, gain: float, generator: torch.Generator | None = None
) -> nn.Linear:
    """A linear layer whose weight has orthogonal rows (or columns) of length `gain`, and bias 0."""
    # nn.Linear would initialize its weights from the global generator first.
    layer = nn.utils.skip_init(nn.Linear, n_in, n_out)
    nn.init.orthogonal_(layer.weight, gain=gain, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def generator_from(seed: int | torch.Generator) -> torch.Generator:
    """A new generator with this seed, or the generator itself."""
    if isinstance(seed, torch.Generator):
        return seed
    return torch.Generator().manual_seed(seed)


def as_tensor(observations: Any, like: Tensor) -> Tensor:
    """Observations as a tensor of the dtype and device of `like`."""
    return torch.as_tensor(observations, dtype=like.dtype, device=like.device)


def set_network(
    module: Any,
    sizes: tuple[int, Sequence[int], int],
    output_scale: float,
    *,
    activation: str = "tanh",
    normalizer: nn.Module | None = None,
    network: nn.Module | None = None,
    seed: int | torch.Generator = 0,
) -> None:
    """Give a policy or a value function its normalizer, and the network that was passed or else an MLP."""
    inputs, hidden, outputs = sizes
    module.normalizer = normalizer
    if network is None:
        network = MLP((inputs, *hidden, outputs), activation, output_scale, seed=seed)
    module.network = network


def network_outputs(module: Any, observations: Any, outputs: int) -> Tensor:
    """The outputs of a policy's or value function's network at normalized observations, [..., outputs]."""
    network, normalizer = module.network, module.normalizer
    if isinstance(network, MLP | SharedTrunk):
        return network(observations if normalizer is None else normalizer(observations))
    x = as_tensor(observations, next(network.parameters(), torch.empty(0)))
    y = network(x if normalizer is None else normalizer(x))
    expected = (*x.shape[:-1], outputs)
    if not isinstance(y, Tensor) or y.shape != expected:
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(
            f"network of {type(module).__name__} must return shape {expected} for observations of shape "
            f"{tuple(x.shape)}, got {got}"
        )
    return y


def table_rows(table: Tensor, observations: Any) -> Tensor:
    """The rows of a table [n_states, columns] for states [...]: [..., columns]."""
    # Not table[states], where -1 would be the last state.
    return nn.functional.embedding(torch.as_tensor(observations, device=table.device), table)
