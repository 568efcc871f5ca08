"""Episodes within rollouts: values to bootstrap from, and batches of whole episodes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ppobook.returns import discounted_returns
from ppobook.rollouts import Collector, Rollout

# `collect_episodes` takes a longer episode for one that never ends.
_MOST_STEPS = 100_000


@torch.no_grad()
def critic_values(value: nn.Module, rollout: Rollout) -> tuple[Tensor, Tensor, Tensor]:
    """The critic's values of a rollout, and those that it bootstraps from.

    Returns
    -------
    values : [N, T]
        V of the observation in which each action was taken.
    last_values : [N]
        V of the observation after the last step, to bootstrap unfinished episodes.
    final_values : [N, T]
        V of the last observation of an episode at the step where it was truncated; NaN elsewhere.
    """
    values = value(rollout.observations)
    if values.shape != rollout.rewards.shape:
        raise ValueError(
            f"values of the critic must have shape {tuple(rollout.rewards.shape)} for observations of shape "
            f"{tuple(rollout.observations.shape)}, got {tuple(values.shape)}. "
            ".squeeze(-1) removes a last axis of 1"
        )
    final_values = torch.full_like(rollout.rewards, torch.nan)
    truncated = rollout.truncated & ~rollout.terminated
    if truncated.any():
        final_values[truncated] = value(rollout.final_observations)
    return values, value(rollout.last_observations), final_values


def collect_episodes(collector: Collector, at_least: int) -> Rollout:
    """Whole episodes: from a reset, `at_least` steps in each environment, and until its episode has ended.

    Environments that are done are stepped on while others are not. Those steps are in the rollout too;
    `whole_episodes` marks the steps that belong to the batch.

    Raises
    ------
    ValueError
        An episode does not end.
    KeyboardInterrupt
        SIGTERM or SIGHUP in a training run.
    """
    collector.reset()
    parts = [collector.collect(at_least)]
    waiting = ~_ended(parts[0])[:, -1]
    steps, more = at_least, max(8, at_least // 16)
    while waiting.any():
        parts.append(collector.collect(more))
        waiting = waiting & ~_ended(parts[-1]).any(1)
        steps += more
        if steps > at_least + _MOST_STEPS:
            raise ValueError(
                f"env must have episodes that end, got one of more than {_MOST_STEPS} steps. "
                'With baseline="value" whole episodes are not needed'
            )
    return Rollout.join(parts)


def whole_episodes(rollout: Rollout, at_least: int) -> Tensor:
    """The steps of a rollout from `collect_episodes` that belong to its batch, [N, T] bool.

    In each environment: all up to the first end of an episode at step `at_least` or later. So whether an
    episode belongs to the batch is decided before it begins, which makes the sum over episodes unbiased
    (Wald's identity). The episodes that have ended after a fixed number of steps are too short on average.
    """
    ended = _ended(rollout).clone()
    ended[:, : at_least - 1] = False
    over_before = ended.cumsum(1) - ended.int()
    return over_before == 0


def episode_starts(rollout: Rollout) -> Tensor:
    """The index of the first step of each step's episode in this rollout, [N, T] int64."""
    first = torch.zeros_like(rollout.terminated, dtype=torch.int64)
    first[:, 1:] = torch.where(
        _ended(rollout)[:, :-1], torch.arange(1, first.shape[1], device=first.device), 0
    )
    return first.cummax(1).values


def _ended(rollout: Rollout) -> Tensor:
    return rollout.terminated | rollout.truncated


def episode_totals(rollout: Rollout, used: Tensor | None) -> tuple[np.ndarray, np.ndarray]:
    """Returns and lengths of the episodes that ended in this batch; `used` as in `Learner.used`."""
    if used is None:
        return np.asarray(rollout.episode_returns, float), np.asarray(rollout.episode_lengths, float)
    first = used & (episode_starts(rollout) == torch.arange(used.shape[1], device=used.device))
    played = rollout.rewards.double(), rollout.terminated, rollout.truncated
    length = discounted_returns(torch.ones_like(played[0]), *played[1:], gamma=1.0)
    return discounted_returns(*played, gamma=1.0)[first].cpu().numpy(), length[first].cpu().numpy()


def mean(x: Tensor, mask: Tensor | None) -> Tensor:
    """The mean of x, over the entries of the mask if there is one."""
    return x.mean() if mask is None else torch.where(mask, x, 0.0).sum() / mask.sum()
