"""TODO."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ppobook.returns import discounted_returns
from ppobook.rollouts import Collector, Rollout

# These are at hand here too, for whoever has a run in hand.
from ppobook.run.interrupts import Interrupted as Interrupted
from ppobook.run.machine import threads as threads

# Without a critic a batch holds whole episodes. A world that shows no end for so long has none.
_ENDLESS = 100_000


@torch.no_grad()
def critic_values(value: nn.Module, rollout: Rollout) -> tuple[Tensor, Tensor, Tensor]:
    """What the critic expects at every place where a rollout can go on or stop.

    Returns
    -------
    values : [N, T]
        V of the observation that each action was taken in.
    last_values : [N]
        V of what each environment shows after the last step: an unfinished episode goes on from there.
    final_values : [N, T]
        V of the observation at which an episode was truncated; NaN at all other steps.
    """
    values = value(rollout.observations)
    if values.shape != rollout.rewards.shape:
        raise ValueError(
            f"the critic gave values of shape {tuple(values.shape)} for observations of shape "
            f"{tuple(rollout.observations.shape)}; {tuple(rollout.rewards.shape)} is wanted, one number an "
            "observation (.squeeze(-1) takes away a last axis of 1)"
        )
    final_values = torch.full_like(rollout.rewards, torch.nan)
    cut = rollout.truncated & ~rollout.terminated
    if cut.any():
        final_values[cut] = value(rollout.final_observations)
    return values, value(rollout.last_observations), final_values


def collect_episodes(collector: Collector, at_least: int) -> Rollout:
    """Whole episodes: from a reset, `at_least` steps in each environment, and on until all have ended.

    An environment that has ended goes on stepping while others are waited for. Those steps are in the
    rollout, and cost what steps cost; `whole_episodes` says which ones count.

    Raises
    ------
    ValueError
        An environment shows no end.
    """
    collector.reset()
    parts = [collector.collect(at_least)]
    waiting = ~_ended(parts[0])[:, -1]
    while waiting.any():
        parts.append(collector.collect(max(1, at_least // 16)))
        waiting = waiting & ~_ended(parts[-1]).any(1)
        if sum(part.rewards.shape[1] for part in parts) > at_least + _ENDLESS:
            raise ValueError(
                f"an episode has gone on for {_ENDLESS} steps; without a critic whole episodes are needed; "
                'wanted: baseline="value", or an environment with a time limit'
            )
    return Rollout.join(parts)


def whole_episodes(rollout: Rollout, at_least: int) -> Tensor:
    """The steps of a rollout from `collect_episodes` that belong to its batch, [N, T] bool.

    In each environment: everything up to the first end of an episode at step `at_least` or later. Whether
    another episode belongs to the batch is so decided before it begins, and never by how it turns out; that
    is what makes the sum over a batch's episodes right on average (Wald's identity). To keep just the
    episodes that happen to be over after a fixed number of steps would prefer short ones.
    """
    ended = _ended(rollout).clone()
    ended[:, : at_least - 1] = False
    over_before = ended.cumsum(1) - ended.int()
    return over_before == 0


def episode_starts(rollout: Rollout) -> Tensor:
    """For each step the index of the first step of its episode in this rollout, [N, T] int64."""
    first = torch.zeros_like(rollout.terminated, dtype=torch.int64)
    first[:, 1:] = torch.where(
        _ended(rollout)[:, :-1], torch.arange(1, first.shape[1], device=first.device), 0
    )
    return first.cummax(1).values


def _ended(rollout: Rollout) -> Tensor:
    return rollout.terminated | rollout.truncated


def _episodes(rollout: Rollout, used: Tensor | None) -> tuple[np.ndarray, np.ndarray]:
    """Returns and lengths of the episodes that ended in this batch."""
    if used is None:
        return np.asarray(rollout.episode_returns, float), np.asarray(rollout.episode_lengths, float)
    first = used & (episode_starts(rollout) == torch.arange(used.shape[1], device=used.device))
    played = rollout.rewards.double(), rollout.terminated, rollout.truncated
    length = discounted_returns(torch.ones_like(played[0]), *played[1:], gamma=1.0)
    return discounted_returns(*played, gamma=1.0)[first].cpu().numpy(), length[first].cpu().numpy()


def mean(x: Tensor, mask: Tensor | None) -> Tensor:
    """The mean of the entries that count."""
    return x.mean() if mask is None else torch.where(mask, x, 0.0).sum() / mask.sum()
