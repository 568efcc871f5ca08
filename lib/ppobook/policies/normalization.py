"""TODO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.returns import discounted_returns


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
        self.shape = tuple(validation.count(f"shape[{i}]", size) for i, size in enumerate(shape))
        self.clip = validation.number("clip", clip, above=0)
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
        validation.not_empty("batch", x)
        validation.finite("batch", x)
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
    def forward(self, rewards: Tensor, ended: Tensor) -> Tensor:
        """Follow the returns of a rollout; give its rewards, scaled and clipped at ±`clip`, [N, T]."""
        # Backwards in time this is the sum that `discounted_returns` takes forwards: an episode's end is met
        # before the step that it closes, and what comes last is what the rollout began with.
        before = torch.cat([torch.zeros_like(ended[:, :1]), ended[:, :-1]], dim=1)
        returns = discounted_returns(
            rewards.flip(1), before.flip(1), gamma=self.gamma, last_values=self.returns
        ).flip(1)
        self.returns.copy_(torch.where(ended[:, -1], 0.0, returns[:, -1]))
        self.statistics.update(returns.reshape(-1))
        std = self.statistics.var.sqrt().to(rewards)
        # Returns that are all alike have no scale.
        return (rewards / torch.where(std > 1e-8, std, 1.0)).clamp(-self.clip, self.clip)

    def reset_episodes(self) -> None:
        """Forget the episodes under way: their environments have been reset."""
        self.returns.zero_()
