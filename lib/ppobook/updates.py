"""What an update is made of: parameters in one row, minibatches, schedules, scales that follow the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ppobook.networks import RunningNorm
from ppobook.returns import discounted_returns
from ppobook.rollouts import Rollout


def flatten(*modules: nn.Module) -> nn.Parameter:
    """All parameters of some modules as one vector, which they go on living in.

    The modules' parameters become views of the vector, and their gradients views of its gradient, so it makes
    no difference which of the two is read or written. (Only `grad = None` cuts the tie, and with it
    ``module.zero_grad()``; `in_row` tells.) One vector is stepped, measured and clipped in one
    call, where a dozen small tensors take a dozen; at the sizes of this book the calls are what costs time.
    A parameter that several modules share is in it once.

    Parameters
    ----------
    modules : on one device, with parameters of one dtype

    Returns
    -------
    parameter, shape (number of weights,)
        For an optimizer. Its `grad` is there already, full of zeros.
    """
    parameters = list({id(p): p for module in modules for p in module.parameters()}.values())
    row = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
    row.grad = torch.zeros_like(row)
    sizes = [p.numel() for p in parameters]
    for p, part, gradient in zip(parameters, row.detach().split(sizes), row.grad.split(sizes), strict=True):
        p.data = part.view_as(p)
        p.grad = gradient.view_as(p)
    return row


def in_row(row: nn.Parameter, *modules: nn.Module) -> bool:
    """Whether the modules' gradients still are where `flatten` has put them."""
    assert row.grad is not None
    begin = row.grad.data_ptr()
    end = begin + row.grad.numel() * row.grad.element_size()
    gradients = [p.grad for module in modules for p in module.parameters()]
    return all(g is not None and begin <= g.data_ptr() < end for g in gradients)


def clip_gradient(row: nn.Parameter, max_norm: float | None) -> float:
    """Shorten the gradient of a parameter to `max_norm`, if it is longer; returns the length it had.

    Raises
    ------
    FloatingPointError
        The length is no finite number.
    """
    assert row.grad is not None
    norm = torch.linalg.vector_norm(row.grad).item()
    if not math.isfinite(norm):
        raise FloatingPointError(
            f"the gradient has length {norm}: rewards, or what was made of them, are too large for a "
            "float32; smaller rewards are wanted, or normalize_rewards=True"
        )
    if max_norm is not None and norm > max_norm:
        row.grad.mul_(max_norm / norm)
    return norm


class Adam:
    """Adam on the vector that `flatten` makes: `torch.optim.Adam` in six calls.

        m ← β₁ m + (1 − β₁) g      v ← β₂ v + (1 − β₂) g²
        θ ← θ − lr · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + eps)

    torch's own is made for any list of parameters and any hook, and on a single small vector spends most of
    its time on finding that out. A test holds that the steps are the same.

    References
    ----------
    Kingma and Ba 2015, "Adam: a method for stochastic optimization", algorithm 1.
    """

    betas = 0.9, 0.999

    def __init__(self, row: nn.Parameter, lr: float, eps: float = 1e-8) -> None:
        self.row = row
        self.lr = lr
        self.eps = eps
        self.steps = 0
        self.m = torch.zeros_like(row, requires_grad=False)
        self.v = torch.zeros_like(row, requires_grad=False)

    def zero_grad(self) -> None:
        """Begin a new gradient. It stays in the memory that the modules' gradients are views of."""
        assert self.row.grad is not None
        self.row.grad.zero_()

    @torch.no_grad()
    def step(self) -> None:
        """One step against the gradient."""
        gradient = self.row.grad
        assert gradient is not None
        self.steps += 1
        first, second = self.betas
        self.m.lerp_(gradient, 1 - first)
        self.v.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        scale = (self.v.sqrt() / math.sqrt(1 - second**self.steps)).add_(self.eps)
        self.row.addcdiv_(self.m, scale, value=-self.lr / (1 - first**self.steps))

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "m": self.m, "v": self.v}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]
        self.m.copy_(state["m"])
        self.v.copy_(state["v"])


@dataclass
class Batch:
    """The steps of a rollout in one row, [B, …], in any order, with what is to be learned from them."""

    observations: Tensor
    actions: Tensor
    old_logp: Tensor
    advantages: Tensor
    returns: Tensor
    old_values: Tensor

    @classmethod
    def of(cls, rollout: Rollout, advantages: Tensor, returns: Tensor, values: Tensor) -> Batch:
        """From a rollout and three tensors of shape [N, T]."""
        given = (rollout.observations, rollout.actions, rollout.logp, advantages, returns, values)
        # Rollouts are stored time first, so that this way round nothing is copied.
        return cls(*(x.transpose(0, 1).flatten(0, 1) for x in given))

    def __len__(self) -> int:
        return len(self.advantages)

    def __getitem__(self, rows: Any) -> Batch:
        return Batch(*(x[rows] for x in vars(self).values()))

    def minibatches(self, count: int, shuffle: Shuffle) -> Iterator[Batch]:
        """Every step once, in `count` parts of a random order, which differ in size by at most one."""
        if count == 1:  # in whatever order
            yield self[:]
            return
        # Gathered once for all of them: a part of a tensor in order is a view, and costs next to nothing.
        mixed = self[shuffle.order(len(self)).to(self.advantages.device)]
        size, larger = divmod(len(self), count)
        start = 0
        for i in range(count):
            stop = start + size + (i < larger)
            yield mixed[start:stop]
            start = stop


class Shuffle:
    """Random orders, from a generator that a checkpoint can hold."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def order(self, n: int) -> Tensor:
        """The numbers 0 … n − 1 in a random order."""
        return torch.randperm(n, generator=self.generator)

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])


class AdaptiveCoefficient:
    """The weight β of a KL penalty: fixed, or halved and doubled so that the KL stays near a target.

        KL < target / 1.5:  β ← β / 2            KL > 1.5 target:  β ← 2 β

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms", section 4.
    """

    def __init__(self, value: float, target: float | None) -> None:
        self.value = value
        self.target = target

    def update(self, kl: float) -> None:
        """Follow the KL that an update has led to."""
        if self.target is None:
            return
        if kl < self.target / 1.5:
            self.value /= 2
        elif kl > self.target * 1.5:
            self.value *= 2
        # A policy that has stopped moving, or a batch of one state, must not take β out of a float's range.
        self.value = min(max(self.value, 1e-10), 1e10)

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


class RewardScale(nn.Module):
    """Rewards divided by the deviation of the discounted return, as seen so far.

    A critic learns returns near 1 faster than returns near 1000, and the right learning rate depends less on
    the environment. Rewards are scaled and not shifted: a shift would change which episodes are worth
    prolonging. What is followed is the return so far, G_t = r_t + γ G_{t−1}, through every rollout; it starts
    anew when an episode ends, however it ends.

    References
    ----------
    Engstrom et al. 2020, "Implementation matters in deep RL: a case study on PPO and TRPO", section 3, which
    found this in the published code and measured what it does.
    """

    def __init__(self, num_envs: int, gamma: float, clip: float = 10.0) -> None:
        super().__init__()
        self.gamma = gamma
        self.clip = clip
        self.statistics = RunningNorm(())
        self.register_buffer("returns", torch.zeros(num_envs))
        self.returns: Tensor

    @torch.no_grad()
    def forward(self, rollout: Rollout) -> Tensor:
        """Follow the returns of a rollout; give its rewards, scaled and cut at ±`clip`, [N, T]."""
        ended = rollout.terminated | rollout.truncated
        # Backwards in time this is the sum that `discounted_returns` takes forwards: an episode's end is met
        # before the step that it closes, and what comes last is what the rollout began with.
        before = torch.cat([torch.zeros_like(ended[:, :1]), ended[:, :-1]], dim=1)
        returns = discounted_returns(
            rollout.rewards.flip(1), before.flip(1), gamma=self.gamma, last_values=self.returns
        ).flip(1)
        self.returns.copy_(torch.where(ended[:, -1], 0.0, returns[:, -1]))
        self.statistics.update(returns.reshape(-1))
        std = self.statistics.var.sqrt().to(rollout.rewards)
        # Returns that are all alike have no scale.
        return (rollout.rewards / torch.where(std > 1e-8, std, 1.0)).clamp(-self.clip, self.clip)

    def begin_afresh(self) -> None:
        """Forget the episodes under way: their environments have been reset."""
        self.returns.zero_()
