"""Running normalization of observations, and scaling of rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ppobook.returns import discounted_returns


class RunningNorm(nn.Module):
    """Normalize by the running mean and variance of all data passed to `update`.

        x ↦ clip((x − mean) / √(var + 10⁻⁸), −clip, clip)

    The statistics change in `update` only, which a trainer calls between its updates, so that the policy
    that took an action and the one compared with it see the same observations. They are buffers, saved with
    the policy. Before the first `update`, mean is 0 and var is 1.

    Parameters
    ----------
    shape : tuple of int
        Of one observation; ``()`` for scalars.
    clip : float above 0

    References
    ----------
    Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances",
    equations 2.1: how `update` merges the mean and variance of a batch with those of all batches before.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, shape: Sequence[int], clip: float = 10.0) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.clip = clip
        # In float64, so that the last of millions of steps still count.
        self.register_buffer("mean", torch.zeros(self.shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(self.shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def update(self, batch: Any) -> None:
        """Add a batch, [..., *shape]. The result does not depend on how data are split into batches."""
        x = torch.as_tensor(batch, dtype=self.mean.dtype, device=self.mean.device).reshape(-1, *self.shape)
        mean, var, n = x.mean(dim=0), x.var(dim=0, correction=0), len(x)
        total = self.count + n
        shift = mean - self.mean
        # The initial mean and variance have count 0, so they do not enter.
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
        """Return what `forward` subtracts, and the factor by which it then multiplies."""
        return self.mean, (self.var + 1e-8).rsqrt()


class RewardScale(nn.Module):
    """Divide rewards by the running standard deviation of the discounted sum of past rewards,

        F_t = r_t + γ F_{t−1}, which begins with 0 in each episode.

    Rewards are scaled and not shifted: a shift would change which episodes are worth prolonging.

    References
    ----------
    Engstrom et al. 2020, "Implementation matters in deep RL: a case study on PPO and TRPO", section 3.
    """

    def __init__(self, num_envs: int, gamma: float, clip: float = 10.0) -> None:
        super().__init__()
        self.gamma = gamma
        self.clip = clip
        self.statistics = RunningNorm(())
        self.register_buffer("returns", torch.zeros(num_envs))
        self.returns: Tensor

    @torch.no_grad()
    def forward(self, rewards: Tensor, ended: Tensor) -> Tensor:
        """Update the statistics with a rollout; return its rewards, scaled and clipped to ±`clip`, [N, T]."""
        # F_t is a discounted return with time reversed: `before` marks the first step of an episode, and the
        # value that bootstraps is the return that the rollout began with.
        before = torch.cat([torch.zeros_like(ended[:, :1]), ended[:, :-1]], dim=1)
        returns = discounted_returns(
            rewards.flip(1), before.flip(1), gamma=self.gamma, last_values=self.returns
        ).flip(1)
        self.returns.copy_(torch.where(ended[:, -1], 0.0, returns[:, -1]))
        self.statistics.update(returns.reshape(-1))
        std = self.statistics.var.sqrt().to(rewards)
        # Constant returns have no scale.
        return (rewards / torch.where(std > 1e-8, std, 1.0)).clamp(-self.clip, self.clip)

    def reset_episodes(self) -> None:
        """Forget the unfinished episodes: the environments have been reset."""
        self.returns.zero_()
