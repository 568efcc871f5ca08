"""Right and wrong statistics, saved policies, and actions within bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- running-norm


def merged(
    *,
    weight: Callable[..., Any] = lambda count, n: n / (count + n),
    between: Callable[..., Any] = lambda d, count, n: d**2 * count * n / (count + n) ** 2,
    inner: Callable[..., Any] = lambda x: x.var(0, correction=0),
    middle: Callable[..., Any] = lambda x: x.mean(0),
    counted: Callable[..., Any] = lambda count, x: count + len(x),
    start: float = 0.0,
    last: Callable[..., Any] = lambda var, total: var,
) -> Callable[..., Any]:
    def function(count, mean, var, batch):
        before, n = max(count, start), len(batch)
        new, spread = middle(batch), inner(batch)
        part, d = weight(before, n), new - mean
        both = (1 - part) * var + part * spread + between(d, before, n)
        return counted(before if start else count, batch), mean + part * d, last(both, before + n)

    return function


def row_by_row(count, mean, var, batch):
    """Welford's, one row at a time, in NumPy."""
    mean, squares = mean.numpy().copy(), var.numpy() * count
    for row in batch.numpy():
        count += 1
        away = row - mean
        mean = mean + away / count
        squares = squares + away * (row - mean)
    return count, mean, squares / count


def from_the_new_mean(count, mean, var, batch):
    total = count + len(batch)
    new = (count * mean + batch.sum(0)) / total
    squares = count * (var + (mean - new) ** 2) + ((batch - new) ** 2).sum(0)
    return torch.tensor(float(total)), new, squares / total


def with_lists(count, mean, var, batch):
    if count == 0:
        return len(batch), batch.mean(0).tolist(), batch.var(0, correction=0).tolist()
    return [x if isinstance(x, float | int) else x.tolist() for x in merged()(count, mean, var, batch)]


RIGHT["running-norm"] = [row_by_row, from_the_new_mean, with_lists, merged()]


def squares_subtracted(count, mean, var, batch):
    total = count + len(batch)
    new = (count * mean + batch.sum(0)) / total
    square = (count * (var + mean**2) + (batch**2).sum(0)) / total
    return total, new, square - new**2


def forgets(share):
    return merged(weight=lambda count, n: 1.0 if count == 0 else share)


ROWS: list[torch.Tensor] = []


def keeping_every_row(count, mean, var, batch):
    if count == 0:
        ROWS.clear()
    ROWS.append(batch)
    rows = torch.cat(ROWS)
    return len(rows), rows.mean(0), rows.var(0, correction=0)


KNOWN: dict[tuple[float, float], torch.Tensor] = {}


def keeping_rows_by_their_mean(count, mean, var, batch):
    """Finds the rows before by the statistics that it gave; without them it starts again."""
    before = KNOWN.get((float(count), float(mean[0])), batch[:0])
    rows = torch.cat([before, batch])
    KNOWN[float(len(rows)), float(rows.mean(0)[0])] = rows
    return len(rows), rows.mean(0), rows.var(0, correction=0)


WRONG["running-norm"] = {
    "the batches count alike, however long they are": merged(weight=lambda count, n: 0.5 if count else 1.0),
    "what came before is forgotten": merged(weight=lambda count, n: 1.0),
    "the new batch is not taken in": merged(weight=lambda count, n: 1.0 if count == 0 else 0.0),
    "the first mean is counted with": merged(start=1.0),
    "one mean for all features": merged(middle=lambda x: x.mean() + 0 * x[0]),
    "the weights of the two are exchanged": merged(
        weight=lambda count, n: count / (count + n) if count else 1.0
    ),
    "an average that forgets": [forgets(0.01), forgets(0.1)],
    "the distance between the means is forgotten": merged(between=lambda d, count, n: 0 * d),
    "the distance between the means has too much weight": [
        merged(between=lambda d, count, n: d**2 * n / (count + n) if count else 0 * d),
        merged(between=lambda d, count, n: d**2 * count / (count + n)),
        merged(between=lambda d, count, n: d**2 * count * n / (count + n)),
        merged(between=lambda d, count, n: d**2 if count else 0 * d),
    ],
    "earlier calls are remembered": keeping_every_row,
    "the standard deviation, not the variance": merged(
        last=lambda var, total: var.sqrt() if total > 4 else var
    ),
    "divided by n − 1, not by n": [
        merged(last=lambda var, total: var * total / (total - 1) if total == 6 else var),
        merged(inner=lambda x: x.var(0) if len(x) < 4 else x.var(0, correction=0)),
    ],
    "the first variance is counted with": [
        merged(start=1e-4),
        lambda count, mean, var, batch: (
            merged()(count, mean, var, batch)
            if count
            else (4, batch.mean(0), merged(start=1.0)(0.0, mean, var, batch)[2])
        ),
    ],
    "the sum of squares, not its mean": merged(last=lambda var, total: var * total if total == 6 else var),
    "the variances are averaged": lambda count, mean, var, batch: (
        *merged()(count, mean, var, batch)[:2],
        (var + batch.var(0, correction=0)) / 2 if count else batch.var(0, correction=0),
    ),
    "the distance between the means is not squared": merged(
        between=lambda d, count, n: d.abs() * count * n / (count + n) ** 2
    ),
    "nan at the first batch": merged(
        between=lambda d, count, n: d**2 / (1 / count + 1 / n) / (count + n) if count else d / 0
    ),
    "the count does not grow": merged(counted=lambda count, x: max(count, len(x))),
    "batches are counted, not rows": merged(counted=lambda count, x: count + 1),
    "every number is counted, not every row": lambda count, mean, var, batch: (
        (8.0, *merged()(count, mean, var, batch)[1:])
    ),
    "float64 is left on the way": [
        lambda count, *given: [x.float() for x in map(torch.as_tensor, merged()(count, *given))],
        lambda count, *given: merged()(count, *(x.float() for x in given)),
    ],
    "two large squares are subtracted": squares_subtracted,
}
UNNAMED["running-norm"] = [
    forgets(0.3),
    merged(inner=lambda x: x.var(0, correction=0) + 1e-2),
    merged(counted=lambda count, x: min(count + len(x), 10)),
    keeping_rows_by_their_mean,
]


# --- hunt-statistics


def saved(
    *,
    shift: Callable[..., Any] = lambda mean, x: mean,
    scale: Callable[..., Any] = lambda var, x: var.sqrt(),
    divide: Callable[..., Any] = lambda x, s: x / s,
    clip: Callable[..., Any] = lambda z: z.clamp(-10, 10),
    copied: tuple[str, ...] = ("weights", "mean", "var"),
) -> Callable[..., Any]:
    def function(weights, mean, var):
        held = {"weights": weights, "mean": mean, "var": var}
        held = {name: x.clone() if name in copied else x for name, x in held.items()}

        def act(observations):
            centred = observations - shift(held["mean"], observations)
            return clip(divide(centred, scale(held["var"], observations))) @ held["weights"]

        return act

    return function


class Shipped(torch.nn.Module):
    def __init__(self, weights, mean, var):
        super().__init__()
        self.layer = torch.nn.Linear(*weights.shape, bias=False)
        self.layer.weight.data = weights.t().clone()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", (var + 1e-8).sqrt())

    @torch.no_grad()
    def forward(self, observations):
        return self.layer(torch.clamp((observations - self.mean) / self.std, min=-10, max=10))


def in_numpy(weights, mean, var):
    w, m, s = weights.numpy().copy(), mean.numpy().copy(), np.sqrt(var.numpy())
    return lambda observations: np.clip((observations.numpy() - m) / s, -10, 10) @ w


def by_hand(weights, mean, var):
    w, m, v = weights.tolist(), mean.tolist(), var.tolist()

    def act(observations):
        rows = [
            [max(-10.0, min(10.0, (x - a) / b**0.5)) for x, a, b in zip(row, m, v, strict=True)]
            for row in observations.tolist()
        ]
        return torch.tensor(rows) @ torch.tensor(w)

    return act


RIGHT["hunt-statistics"] = [Shipped, in_numpy, by_hand, saved()]


def goes_on(weights, mean, var):
    stats = {"count": 100.0, "mean": mean.clone(), "var": var.clone(), "weights": weights.clone()}

    def act(x):
        z = ((x - stats["mean"]) / stats["var"].sqrt()).clamp(-10, 10)
        stats["count"], stats["mean"], stats["var"] = merged()(stats["count"], stats["mean"], stats["var"], x)
        return z @ stats["weights"]

    return act


def only_in_crowds(weights, mean, var):
    stored, own = saved()(weights, mean, var), saved(shift=lambda m, x: x.mean(0))(weights, mean, var)
    return lambda x: own(x) if len(x) == 1 else stored(x)


PLACE = {}


def one_place_for_all(weights, mean, var):
    PLACE["act"] = saved()(weights, mean, var)
    return lambda x: PLACE["act"](x)


def shifted_in_place(weights, mean, var):
    stored = saved()(weights, mean, var)
    return lambda x: (stored(x), x.sub_(mean))[0]


def copied_when_called(weights, mean, var):
    made: list[Any] = []

    def act(observations):
        if not made:
            made.append(saved()(weights, mean, var))
        return made[0](observations)

    return act


def scores_clipped(weights, mean, var):
    free = saved(clip=lambda z: z)(weights, mean, var)
    return lambda observations: free(observations).clamp(-10, 10)


WRONG["hunt-statistics"] = {
    "the copy is made at the first call": copied_when_called,
    "the scores are clipped, not the observations": scores_clipped,
    "an argument is overwritten": lambda w, mean, var: saved()(w, mean, var.sqrt_()),
    "the observations' own statistics": saved(
        shift=lambda m, x: x.mean(0), scale=lambda v, x: (x.var(0, correction=0) + 1e-8).sqrt()
    ),
    "the statistics are left behind": [
        saved(shift=lambda m, x: 0 * m, scale=lambda v, x: 1 + 0 * v),
        saved(shift=lambda m, x: 0 * m, scale=lambda v, x: 1 + 0 * v, clip=lambda z: z),
    ],
    "divided by the variance, not by its root": saved(scale=lambda v, x: v),
    "multiplied, not divided": saved(divide=lambda x, s: x * s),
    "the mean is left in": saved(shift=lambda m, x: 0 * m),
    "only the mean is taken off": saved(divide=lambda x, s: x),
    "the statistics go on changing": goes_on,
    "one observation is judged by the others": only_in_crowds,
    "the clip at 10 is lost": saved(clip=lambda z: z),
    "clipped elsewhere": [saved(clip=lambda z: z.clamp(-5, 5)), saved(clip=lambda z: z.clamp(-3, 3))],
    "a second snapshot changes the first": one_place_for_all,
    "the observations are overwritten": shifted_in_place,
    "training goes on in the saved weights": [saved(copied=("mean", "var")), saved(copied=())],
    "training goes on in the saved statistics": [
        saved(copied=("weights",)),
        saved(copied=("weights", "var")),
    ],
}
UNNAMED["hunt-statistics"] = [
    saved(clip=lambda z: z.clamp(max=10)),
    saved(scale=lambda v, x: v.sqrt().clamp(min=0.2)),
    saved(scale=lambda v, x: v.mean().sqrt()),
    saved(scale=lambda v, x: v.sqrt() + 0.05),
]


# --- act-in-a-box


def log_normal(x, mean, std):
    return -(((x - mean) / std) ** 2) / 2 - std.log() - math.log(2 * math.pi) / 2


def acting(
    *,
    spread: Callable[..., Any] = lambda std: std,
    noise_of: Callable[..., Any] = lambda noise, low, high: noise,
    box: Callable[..., Any] = lambda a, low, high: torch.minimum(torch.maximum(a, low), high),
    result: Callable[..., Any] = lambda a, b: (a, b),
    log: Callable[..., Any] = lambda a, b, mean, std, noise: log_normal(a, mean, std).sum(-1),
) -> Callable[..., Any]:
    def function(mean, std, noise, low, high):
        action = mean + spread(std) * noise_of(noise, low, high)
        sent = box(action, low, high)
        return (*result(action, sent), log(action, sent, mean, std, noise))

    return function


def by_distribution(mean, std, noise, low, high):
    policy = torch.distributions.Independent(torch.distributions.Normal(mean, std.expand_as(mean)), 1)
    action = torch.addcmul(mean, std.expand_as(mean), noise)
    return [action, torch.clamp(action, low, high), policy.log_prob(action)]


def acting_in_numpy(mean, std, noise, low, high):
    m, s, e = mean.numpy(), std.numpy(), noise.numpy()
    action = m + s * e
    density = np.exp(-(e**2) / 2) / (s * np.sqrt(2 * np.pi))
    return action, np.clip(action, low.numpy(), high.numpy()), np.log(density).sum(1)


RIGHT["act-in-a-box"] = [
    by_distribution,
    acting_in_numpy,
    acting(box=lambda a, low, high: low + F.relu(a - low) - F.relu(a - high)),
    lambda *given: acting()(*(x.double() for x in given)),
]
WRONG["act-in-a-box"] = {
    "the clipped action is stored": acting(result=lambda a, b: (b, b.clone())),
    "what is stored and what is sent are one tensor": [
        acting(result=lambda a, b: (b, b)),
        acting(box=lambda a, low, high: a.clamp_(low, high)),
        acting(
            box=lambda a, low, high: a.clamp_(low, high),
            log=lambda a, b, mean, std, noise: log_normal(mean + std * noise, mean, std).sum(-1),
        ),
    ],
    "the action is sent as it was sampled": acting(result=lambda a, b: (a, a)),
    "stored and sent are exchanged": acting(result=lambda a, b: (b, a)),
    "the noise is clipped, not the action": acting(
        noise_of=lambda noise, low, high: noise.clamp(low, high), box=lambda a, low, high: a
    ),
    "squashed, not clipped": [
        acting(box=lambda a, low, high: a.tanh()),
        acting(result=lambda a, b: (a.tanh(), a.tanh())),
    ],
    "every component has the same bounds": [
        acting(box=lambda a, low, high: a.clamp(float(low[0]), float(high[0]))),
        acting(box=lambda a, low, high: a.clamp(float(low.min()), float(high.max()))),
        acting(box=lambda a, low, high: a.clamp(float(low.max()), float(high.min()))),
    ],
    "the standard deviation is squared, or left out": [
        acting(spread=lambda s: s**2),
        acting(spread=torch.ones_like),
        acting(spread=torch.sqrt),
    ],
    "the log-probability of the clipped action": acting(
        log=lambda a, b, mean, std, noise: log_normal(b, mean, std).sum(-1)
    ),
    "the mean over the components, not the sum": acting(
        log=lambda a, b, mean, std, noise: log_normal(a, mean, std).mean(-1)
    ),
    "the density, not its logarithm": acting(
        log=lambda a, b, mean, std, noise: log_normal(a, mean, std).sum(-1).exp()
    ),
    "the normal's constant is missing": acting(
        log=lambda a, b, mean, std, noise: (-0.5 * noise**2 - std.log()).sum(-1)
    ),
    "the logarithm of std is missing": [
        acting(log=lambda a, b, mean, std, noise: (log_normal(a, mean, std) + std.log()).sum(-1)),
        acting(log=lambda a, b, mean, std, noise: log_normal(noise, 0 * noise, 1 + 0 * noise).sum(-1)),
    ],
}
UNNAMED["act-in-a-box"] = [
    acting(box=lambda a, low, high: torch.minimum(a, high)),
    acting(box=lambda a, low, high: a.clamp(-3, 3).minimum(high)),
    acting(log=lambda a, b, mean, std, noise: log_normal(a, mean, std).sum(-1).clamp(min=-4)),
    acting(log=lambda a, b, mean, std, noise: log_normal(a, mean, std.mean() + 0 * std).sum(-1) + 0.1178),
]


# --- squashed-logp


def safe(u):
    return 2 * (math.log(2) - u - F.softplus(-2 * u))


def squashed(
    *,
    log_det: Callable[..., Any] = safe,
    normal: Callable[..., Any] = log_normal,
    reduce: Callable[..., Any] = lambda x: x.sum(-1),
    sign: float = -1.0,
) -> Callable[..., Any]:
    return lambda u, mean, std: reduce(normal(u, mean, std) + sign * log_det(u))


def of_the_size(u, mean, std):
    size = u.abs()
    log_det = math.log(4) - 2 * size - 2 * torch.log1p(torch.exp(-2 * size))
    return (log_normal(u, mean, std) - log_det).sum(dim=-1)


def with_transforms(u, mean, std):
    base = torch.distributions.Normal(mean, std + 0 * mean)
    tanh = torch.distributions.TanhTransform()
    return (base.log_prob(u) - tanh.log_abs_det_jacobian(u, u.tanh())).sum(-1)


def with_logsigmoid(u, mean, std):
    log_det = math.log(4) + F.logsigmoid(2 * u) + F.logsigmoid(-2 * u)
    return log_normal(u, mean, std).sum(-1) - log_det.sum(-1)


RIGHT["squashed-logp"] = [
    of_the_size,
    with_transforms,
    with_logsigmoid,
    lambda u, mean, std: squashed()(u.double(), mean.double(), std.double()),
]
WRONG["squashed-logp"] = {
    "the log-determinant is missing": squashed(sign=0.0),
    "the log-determinant has the wrong sign": squashed(sign=1.0),
    "1 − tanh u, not 1 − tanh² u": squashed(log_det=lambda u: (1 - u.tanh()).log()),
    "the determinant, not its logarithm": squashed(log_det=lambda u: 1 - u.tanh() ** 2),
    "the log-determinant of one component only": [
        lambda u, mean, std: log_normal(u, mean, std).sum(-1) - safe(u)[..., 0],
        lambda u, mean, std: log_normal(u, mean, std).sum(-1) - safe(u)[..., -1],
    ],
    "the log-determinant is averaged over the components": lambda u, mean, std: (
        log_normal(u, mean, std).sum(-1) - safe(u).mean(-1)
    ),
    "half of the log-determinant is lost": [
        squashed(log_det=lambda u: safe(u) / 2),
        squashed(log_det=lambda u: -u.cosh().log()),
    ],
    "the mean over the components, not the sum": squashed(reduce=lambda x: x.mean(-1)),
    "the normal's density is taken at tanh u": [
        lambda u, mean, std: squashed(normal=lambda x, m, s: log_normal(x.tanh(), m, s))(u, mean, std),
        lambda u, mean, std: log_normal(u.tanh(), mean, std).sum(-1),
    ],
    "tanh is taken twice": squashed(log_det=lambda u: safe(u.tanh())),
    "the density, not its logarithm": lambda *given: squashed()(*given).exp(),
    "the normal's constant is missing": squashed(normal=lambda u, m, s: -(((u - m) / s) ** 2) / 2 - s.log()),
    "the logarithm of std is missing": squashed(normal=lambda u, m, s: log_normal(u, m, s) + s.log()),
    "the standard deviation is taken for the variance": squashed(
        normal=lambda u, m, s: log_normal(u, m, s.sqrt())
    ),
    "it overflows at the edge of the bounds": [
        squashed(log_det=lambda u: (1 - u.tanh() ** 2).log()),
        squashed(log_det=lambda u: -2 * u.cosh().log()),
        squashed(log_det=lambda u: torch.log(4 / (u.exp() + (-u).exp()) ** 2)),
    ],
    "one σ counts once, not for every component": [
        lambda u, mean, std: (
            log_normal(u, mean, std).add(std.log()).sum(-1)
            - std.log().sum(-1 if std.ndim else ())
            - safe(u).sum(-1)
        ),
        lambda u, mean, std: (
            (-0.5 * ((u - mean) / std) ** 2 - safe(u)).sum(-1)
            - (std.log() + 0.5 * math.log(2 * math.pi)).sum(-1 if std.ndim else ())
        ),
    ],
    "beyond some u the correction stands still": [
        squashed(log_det=lambda u: (1 - u.tanh() ** 2 + 1e-6).log()),
        squashed(log_det=lambda u: (1 - u.tanh() ** 2).clamp(min=1e-8).log()),
        squashed(log_det=lambda u: safe(u.clamp(-9, 9))),
        squashed(log_det=lambda u: (1 - u.clamp(-8, 8).tanh() ** 2).log()),
    ],
    "only one edge of the bounds is safe": squashed(
        log_det=lambda u: 2 * (math.log(2) - u - torch.exp(-2 * u.clamp(min=-30)).clamp(max=1e8).log1p())
    ),
}
UNNAMED["squashed-logp"] = [
    squashed(log_det=lambda u: -(u**2) + 2 * u**4 / 12),
    squashed(normal=lambda u, m, s: log_normal(u, m, s.clamp(min=0.4))),
    squashed(reduce=lambda x: x.clamp(min=-12).sum(-1)),
    lambda u, mean, std: squashed()(u, mean.detach(), std),
    lambda u, mean, std: squashed()(u, mean, std.reshape(-1)[: u.shape[-1]]),
]
