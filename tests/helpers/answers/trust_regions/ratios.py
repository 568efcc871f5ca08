"""Answers to the exercises on ratios and how many trajectories are left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- per-step-ratio


def by_where(logp, old_logp, mask):
    change = torch.where(mask, logp - old_logp.detach(), 0.0)
    return change.exp(), change.sum(1).exp()


def trajectory_by_trajectory(logp, old_logp, mask):
    steps, whole = torch.ones_like(logp), []
    for i in range(len(logp)):
        inside = mask[i]
        change = logp[i, inside] - old_logp.data[i, inside]
        steps = steps.index_put((torch.tensor(i), torch.nonzero(inside)[:, 0]), change.exp())
        whole.append(change.sum().exp())
    return [steps, torch.stack(whole)]


def a_product_in_double(logp, old_logp, mask):
    steps = torch.where(mask, logp - old_logp.detach(), 0.0).double().exp()
    return steps, steps.prod(1)


def ratios(
    *,
    step: Callable[..., Any] = lambda new, old: (new - old).exp(),
    whole: Callable[..., Any] = lambda logs, mask: (logs * mask).sum(1).exp(),
    masked: bool = True,
) -> Callable[..., Any]:
    def function(logp, old_logp, mask):
        old_logp = old_logp.detach()
        new, old = (torch.where(mask, x, -1.0) for x in (logp, old_logp)) if masked else (logp, old_logp)
        steps = step(new, old)
        steps = torch.where(mask, steps, 1.0) if masked else steps
        return steps, whole(logp - old_logp, mask)

    return function


def not_detached(logp, old_logp, mask):
    change = (logp - old_logp) * mask
    return change.exp(), change.sum(1).exp()


def ones_written_into_it(logp, old_logp, mask):
    steps = (logp - old_logp.detach()).exp()
    steps[~mask] = 1.0
    return steps, by_where(logp, old_logp, mask)[1]


RIGHT["per-step-ratio"] = [
    by_where,
    trajectory_by_trajectory,
]
WRONG["per-step-ratio"] = {
    "the logarithms are divided": ratios(step=lambda new, old: new / old),
    "a step's exponential is missing": ratios(step=lambda new, old: new - old),
    "a trajectory's exponential is missing": ratios(whole=lambda logs, mask: (logs * mask).sum(1)),
    "the ratio is upside down": ratios(step=lambda new, old: (old - new).exp()),
    "a difference of probabilities, not a ratio": ratios(step=lambda new, old: new.exp() - old.exp()),
    "padding gets a ratio of its own": [
        lambda new, old, mask: by_where(new, old, mask[:1].expand_as(mask)),
        ratios(masked=False),
        lambda new, old, mask: ((new - old).exp() * mask, ((new - old) * mask).sum(1).exp()),
    ],
    "padding is multiplied in": ratios(whole=lambda logs, mask: logs.sum(1).exp()),
    "the ratios are added, not multiplied": [
        ratios(whole=lambda logs, mask: (logs.exp() * mask).sum(1)),
        ratios(whole=lambda logs, mask: (logs * mask).exp().sum(1)),
    ],
    "the ratios are averaged, not multiplied": ratios(
        whole=lambda logs, mask: (logs.exp() * mask).sum(1) / mask.sum(1)
    ),
    "the logarithms are averaged, not added": ratios(
        whole=lambda logs, mask: ((logs * mask).sum(1) / mask.sum(1)).exp()
    ),
    "the product runs out of numbers": [
        ratios(whole=lambda logs, mask: (logs * mask).exp().prod(1)),
        a_product_in_double,
    ],
    "cut off from autograd": [
        lambda new, old, mask: tuple(x.detach() for x in by_where(new, old, mask)),
        lambda new, old, mask: (by_where(new, old, mask)[0], by_where(new, old, mask)[1].detach()),
    ],
    "the old policy can move": [
        not_detached,
        lambda new, old, mask: (by_where(new, old, mask)[0], ((new - old) * mask).sum(1).exp()),
    ],
    "the mask is turned round": lambda new, old, mask: by_where(new, old, ~mask),
    "the wrong policy is held still": lambda new, old, mask: (
        ((new.detach() - old) * mask).exp(),
        ((new.detach() - old) * mask).sum(1).exp(),
    ),
    "autograd's notes are overwritten": ones_written_into_it,
    "padding makes the gradient nan": [
        lambda new, old, mask: (
            torch.where(mask, (new - old.detach()).exp(), 1.0),
            by_where(new, old, mask)[1],
        ),
        lambda new, old, mask: (
            by_where(new, old, mask)[0],
            torch.where(mask, (new - old.detach()).exp(), 1.0).log().sum(1).exp(),
        ),
        lambda new, old, mask: (
            torch.where(mask, new.exp() / old.detach().exp(), 1.0),
            by_where(new, old, mask)[1],
        ),
    ],
}
UNNAMED["per-step-ratio"] = [
    lambda new, old, mask: (by_where(new, old, mask)[0], by_where(new, old, mask)[1].clamp(max=100.0)),
    lambda new, old, mask: tuple(x.clamp(0.1, 10.0) for x in by_where(new, old, mask)),
    lambda new, old, mask: (
        by_where(new, old, mask)[0],
        by_where(new, old, mask)[0].cumprod(1)[:, :3][:, -1],
    ),
    ratios(whole=lambda logs, mask: (logs * mask).sum(1).clamp(-20, 20).exp()),
    ratios(whole=lambda logs, mask: logs[:, 0].exp()),
    lambda new, old, mask: tuple(
        x.detach() + y - y.detach() for x, y in zip(by_where(new, old, mask), (new, new.sum(1)), strict=True)
    ),
    lambda new, old, mask: by_where(new.clamp(min=-10), old.clamp(min=-10), mask),
    ratios(step=lambda new, old: new.exp() / old.exp()),
    ratios(step=lambda new, old: (new - old).clamp(-20, 20).exp()),
    ratios(whole=lambda logs, mask: (logs * mask).clamp(-20, 20).sum(1).exp()),
    ratios(whole=lambda logs, mask: (logs * mask).sum(1).clamp(-60, 60).exp()),
    ratios(whole=lambda logs, mask: (logs * mask).exp().log().sum(1).exp()),
]


# --- ess


def sizes(
    *,
    weights: Callable[..., Any] = lambda logs: logs.cumsum(1),
    size: Callable[..., Any] = lambda w: w.sum(0) ** 2 / (w**2).sum(0),
    safe: bool = True,
) -> Callable[..., Any]:
    def function(log_ratio):
        logs = weights(log_ratio)
        return size((logs - logs.max(0).values if safe else logs).exp())

    return function


def shares(logs: Any) -> Any:
    return logs.softmax(0)


def from_the_variance(log_ratio):
    share = shares(log_ratio.double().cumsum(1)).numpy()
    n = len(share)
    return n / (1 + share.var(0) * n**2)


def one_step_after_the_other(log_ratio):
    found = []
    for t in range(1, log_ratio.shape[1] + 1):
        w = torch.stack([row[:t].sum() for row in log_ratio])
        w = (w - w.max()).exp()
        found.append(float(w.sum() ** 2 / (w @ w)))
    return np.array(found)


RIGHT["ess"] = [
    sizes(),
    lambda logs: 1 / (shares(logs.cumsum(1)) ** 2).sum(0),
    lambda logs: (2 * logs.cumsum(1).logsumexp(0) - (2 * logs.cumsum(1)).logsumexp(0)).exp(),
    from_the_variance,
    one_step_after_the_other,
]
WRONG["ess"] = {
    "each step is weighed on its own": sizes(weights=lambda logs: logs),
    "the ratios of the steps are added, not multiplied": lambda logs: sizes(weights=lambda x: x)(
        logs.exp().cumsum(1).log()
    ),
    "summed over trajectories, not over time": sizes(weights=lambda logs: logs.cumsum(0)),
    "the logarithms themselves as weights": lambda logs: (
        logs.cumsum(1).sum(0) ** 2 / (logs.cumsum(1) ** 2).sum(0)
    ),
    "a share, not a number of trajectories": sizes(size=lambda w: w.mean(0) ** 2 / (w**2).mean(0)),
    "a mean where a sum belongs": [
        sizes(size=lambda w: w.mean(0) ** 2 / (w**2).sum(0)),
        sizes(size=lambda w: w.sum(0) ** 2 / (w**2).mean(0)),
    ],
    "upside down": sizes(size=lambda w: (w**2).sum(0) / w.sum(0) ** 2),
    "a square is missing": [
        sizes(size=lambda w: w.sum(0) / (w**2).sum(0), safe=False),
        sizes(size=lambda w: w.sum(0) ** 2 / w.sum(0), safe=False),
    ],
    "the weights do not add up to one": sizes(size=lambda w: 1 / (w**2).sum(0), safe=False),
    "the weights make no difference": [
        lambda logs: 1 / shares(logs.cumsum(1)).sum(0),
        lambda logs: len(logs) / shares(logs.cumsum(1)).sum(0),
    ],
    "the logarithms are clamped": [
        sizes(weights=lambda logs: logs.cumsum(1).clamp(-20, 20), safe=False),
        sizes(weights=lambda logs: logs.clamp(-20, 20).cumsum(1)),
    ],
    "one factor for all steps": [
        lambda logs: sizes(weights=lambda x: x.cumsum(1) - x.cumsum(1).max(), safe=False)(logs),
        lambda logs: sizes(weights=lambda x: x.cumsum(1) - x.sum(1).max(), safe=False)(logs),
    ],
    "the mean weight is taken to be 1": sizes(
        size=lambda w: len(w) / (1 + w.var(0, correction=0)), safe=False
    ),
    "it overflows": [
        sizes(safe=False),
        lambda logs: sizes(weights=lambda x: x.cumsum(1).clamp(max=60), safe=False)(logs),
        lambda logs: sizes(weights=lambda x: x - x.max(0).values.cummax(0).values, safe=False)(
            logs.cumsum(1)
        ),
    ],
    "one step too few": sizes(weights=lambda logs: logs.cumsum(1) - logs),
    "weighed from the end, not from the start": sizes(weights=lambda logs: logs.flip(1).cumsum(1).flip(1)),
    "each trajectory is scaled by itself": lambda logs: sizes(
        weights=lambda x: x - x.max(1, keepdim=True).values
    )(logs.cumsum(1)),
}
UNNAMED["ess"] = [
    sizes(weights=lambda logs: logs.cumsum(1) - logs.cumsum(1).mean(0), safe=False),
    lambda logs: 1 / (logs.cumsum(1).softmax(1) ** 2).sum(0),
    lambda logs: 1 / shares(logs.cumsum(1)).max(0).values,
    lambda logs: (-(shares(logs.cumsum(1)) * logs.cumsum(1).log_softmax(0)).sum(0)).exp(),
    lambda logs: sizes()(logs).round(),
    lambda logs: sizes()(logs[:, :2].repeat(1, 3)[:, : logs.shape[1]]),
    lambda logs: 1 / ((shares(logs.cumsum(1)) ** 2).sum(0) + 1e-2),
    lambda logs: sizes()(logs[:4]) * len(logs) / len(logs[:4]),
    lambda logs: sizes()(torch.where(torch.arange(logs.shape[1]) < 50, logs, 0.0)),
]


# --- ratio-variance


def by_moments(old, new):
    old, new = old.numpy(), new.numpy()
    moment = 1.0
    for o, n in zip(old, new, strict=True):
        r = n / o
        moment *= 1 + o @ (r - 1) ** 2
    return moment - 1


def per_step(old: Any, new: Any) -> Any:
    return (new**2 / old).sum(1) - 1


RIGHT["ratio-variance"] = [
    lambda old, new: (new**2 / old).sum(1).prod() - 1,
    lambda old, new: float(((old * (new / old) ** 2).sum(1).log().sum()).expm1()),
    by_moments,
]
WRONG["ratio-variance"] = {
    "the mean square, not the variance": lambda o, n: (1 + per_step(o, n)).prod(),
    "the standard deviation": lambda o, n: ((1 + per_step(o, n)).prod() - 1).sqrt(),
    "the ratio is upside down": [
        lambda o, n: (o**2 / n.clamp(min=1e-9)).sum(1).prod() - 1,
        lambda o, n: (o * (o / n.clamp(min=1e-9)) ** 2).sum(1).prod() - 1,
    ],
    "averaged under the new policy": lambda o, n: (n**3 / o**2).sum(1).prod() - 1,
    "every action counted alike": [
        lambda o, n: ((n / o) ** 2).mean(1).prod() - 1,
        lambda o, n: (n / o).var(1).sum(),
        lambda o, n: ((n / o) ** 2).sum(1).prod() - 1,
    ],
    "one step stands for all": lambda o, n: per_step(o, n)[0],
    "variances of a sum, not of a product": lambda o, n: per_step(o, n).sum(),
    "the variances are multiplied": lambda o, n: per_step(o, n).prod(),
    "summed over time, not over actions": lambda o, n: (n**2 / o).sum(0).prod() - 1,
    "the approximation for small steps": [
        lambda o, n: torch.expm1(2 * (o * (o / n).log()).sum()),
        lambda o, n: torch.expm1(per_step(o, n).sum()),
    ],
    "the variance of the logarithm": lambda o, n: (
        (o * (n / o).log() ** 2).sum(1) - (o * (n / o).log()).sum(1) ** 2
    ).sum(),
}
UNNAMED["ratio-variance"] = [
    lambda o, n: (n**2 / o).sum(1)[:3].prod() - 1,
    lambda o, n: ((n**2 / o).sum(1).prod() - 1).clamp(max=100),
    lambda o, n: (n**2 / (o + 1e-2)).sum(1).prod() - 1,
    lambda o, n: (n[:, :3] ** 2 / o[:, :3]).sum(1).prod() - 1,
    lambda o, n: (n.clamp(min=0.05) ** 2 / o).sum(1).prod() - 1,
    lambda o, n: (o * (n / o - 1).abs()).sum(1).sum(),
    lambda o, n: per_step(o, n).sum() + per_step(o, n).prod(),
    lambda o, n: (1 + per_step(o, n)[:100]).prod() - 1,
    lambda o, n: ((1 + per_step(o, n)).prod() - 1).clamp(max=1e4),
]
