"""Distributions over actions: categorical, several categorical ones at once, Gaussian."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from ppobook import validation


class Distribution(ABC):
    """A batch of distributions over actions, one for each observation.

    `logp`, `entropy` and `kl` are differentiable in the distribution's parameters.
    """

    @abstractmethod
    def logp(self, actions: Tensor) -> Tensor:
        """Log-probability (discrete) or log-density (continuous) of the actions, shape [...]."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy in nats, shape [...]."""

    @abstractmethod
    def kl(self, other: Self) -> Tensor:
        """KL(self, other) = E_{a ~ self}[log self(a) − log other(a)] in nats, exact, shape [...]."""

    @abstractmethod
    def noise(self, generator: torch.Generator | None = None) -> Tensor:
        """The noise from which `act` makes one action for each observation."""

    @abstractmethod
    def act(self, noise: Tensor) -> Tensor:
        """Actions from this noise; no gradient."""

    @abstractmethod
    def mode(self) -> Tensor:
        """The most probable actions; no gradient."""

    @abstractmethod
    def detach(self) -> Self:
        """The same distribution with detached parameters."""

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Random actions; no gradient. Without a generator, torch's global one is used."""
        return self.act(self.noise(generator))


class Categorical(Distribution):
    """One of A discrete actions, by logits of shape [..., A]; actions are int64 of shape [...].

    π(a) = exp(z_a) / Σ_b exp(z_b)

    A logit of −∞ masks an action: its probability is 0, and it adds nothing to entropy and KL.
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    @cached_property
    def log_probs(self) -> Tensor:
        return self.logits.log_softmax(dim=-1)

    def logp(self, actions: Tensor) -> Tensor:
        return self.log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return -self._mean(self.log_probs)

    def kl(self, other: Self) -> Tensor:
        return self._mean(self.log_probs - other.log_probs)

    def _mean(self, x: Tensor) -> Tensor:
        """E_{a ~ self}[x_a], also where x is not finite for an action of probability 0."""
        probs = self.log_probs.exp()
        return (probs * torch.where(probs > 0, x, 0.0)).sum(dim=-1)

    def noise(self, generator: torch.Generator | None = None) -> Tensor:
        return _gumbel(self.logits.shape, generator, self.logits)

    def act(self, noise: Tensor) -> Tensor:
        # Gumbel-max trick: argmax(logits + Gumbel noise) is a with probability softmax(logits)_a.
        return (self.logits.detach() + noise).argmax(dim=-1)

    def mode(self) -> Tensor:
        return self.logits.argmax(dim=-1)

    def detach(self) -> Self:
        return type(self)(self.logits.detach())


class MultiCategorical(Distribution):
    """K independent categorical distributions, the k-th over nvec[k] actions.

    Their logits are concatenated, [..., Σ nvec]; actions are int64 of shape [..., K]. logp, entropy and KL
    are sums over the K components.
    """

    def __init__(self, logits: Tensor, nvec: Sequence[int]) -> None:
        self.nvec = tuple(nvec)
        self.logits = logits
        self.parts = [Categorical(part) for part in logits.split(self.nvec, dim=-1)]

    def logp(self, actions: Tensor) -> Tensor:
        shape = (*self.logits.shape[:-1], len(self.nvec))
        validation.shape("actions", actions, shape, "one of each component an observation")
        return self._sum([part.logp(actions[..., k]) for k, part in enumerate(self.parts)])

    def entropy(self) -> Tensor:
        return self._sum([part.entropy() for part in self.parts])

    def kl(self, other: Self) -> Tensor:
        return self._sum([p.kl(q) for p, q in zip(self.parts, other.parts, strict=True)])

    def noise(self, generator: torch.Generator | None = None) -> Tensor:
        return _gumbel(self.logits.shape, generator, self.logits)

    def act(self, noise: Tensor) -> Tensor:
        noises = noise.split(self.nvec, dim=-1)
        return torch.stack([part.act(z) for part, z in zip(self.parts, noises, strict=True)], dim=-1)

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], dim=-1)

    def detach(self) -> Self:
        return type(self)(self.logits.detach(), self.nvec)

    @staticmethod
    def _sum(parts: list[Tensor]) -> Tensor:
        return torch.stack(parts, dim=-1).sum(dim=-1)


class Gaussian(Distribution):
    """D independent normal components: mean [..., D], and a standard deviation that broadcasts to it.

    Actions have the shape of the mean; logp, entropy and KL are sums over the components.
    """

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        self.mean = mean
        self.std = std

    def logp(self, actions: Tensor) -> Tensor:
        z = (actions - self.mean) / self.std
        return -(0.5 * z**2 + self.std.log() + 0.5 * math.log(2 * math.pi)).sum(dim=-1)

    def entropy(self) -> Tensor:
        entropy = (0.5 * math.log(2 * math.pi * math.e) + self.std.log()).sum(dim=-1)
        return entropy.expand(self.mean.shape[:-1])  # std may be the same for all observations

    def kl(self, other: Self) -> Tensor:
        ratio, distance = self.std / other.std, (self.mean - other.mean) / other.std
        return (0.5 * (ratio**2 - 1 + distance**2) - ratio.log()).sum(dim=-1)

    def noise(self, generator: torch.Generator | None = None) -> Tensor:
        return _normal(self.mean.shape, generator, self.mean)

    def act(self, noise: Tensor) -> Tensor:
        return self.mean.detach() + self.std.detach() * noise

    def mode(self) -> Tensor:
        return self.mean.detach()

    def detach(self) -> Self:
        return type(self)(self.mean.detach(), self.std.detach())


def _gumbel(shape: Sequence[int], generator: torch.Generator | None, like: Tensor) -> Tensor:
    """Standard Gumbel noise, −log(−log u)."""
    return _uniform(shape, generator, like).log_().neg_().log_().neg_().to(like.dtype)


def _normal(shape: Sequence[int], generator: torch.Generator | None, like: Tensor) -> Tensor:
    """Standard normal noise by the inverse distribution function, in the order in which `_gumbel` draws."""
    u = _uniform(shape, generator, like)
    return torch.special.ndtri(u.clamp_(min=2.0**-54)).to(like.dtype)


def _uniform(shape: Sequence[int], generator: torch.Generator | None, like: Tensor) -> Tensor:
    # In float64 for the tails. And on the CPU torch draws these one by one, so noise for T steps at once is
    # the noise that T single steps would draw.
    return torch.rand(shape, generator=generator, dtype=torch.float64, device=like.device)
