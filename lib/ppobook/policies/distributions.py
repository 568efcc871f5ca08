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

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor


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
