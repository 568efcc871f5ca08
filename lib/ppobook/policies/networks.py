"""TODO."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.policies.normalization import RunningNorm

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


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
        sizes = [validation.count(f"sizes[{i}]", size) for i, size in enumerate(sizes)]
        if len(sizes) < 2:
            raise ValueError(f"sizes is {tuple(sizes)}; at least an input and an output size are wanted")
        make_activation = ACTIVATIONS[validation.choice("activation", activation, ACTIVATIONS)]
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
    return torch.Generator().manual_seed(validation.count("seed", seed, low=0))


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
