"""Right and wrong answers to GAE along texts, and to the clipped loss on tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}

# --- text-gae


def last_of(mask):
    return mask & (torch.arange(mask.shape[1]) == mask.sum(1, keepdim=True) - 1)


def along(
    *,
    fill: bool = True,
    here: Callable[[Any], Any] = lambda v: v[:, :-1],
    after: Callable[[Any], Any] = lambda v: v[:, 1:],
    follows: Callable[[Any, Any], Any] = lambda last, ended: ~(last & ended[:, None]),
    gamma: float = 1.0,
    ahead: Callable[[float], float] = lambda lam: 1.0,
    back: Callable[[float], float] = lambda lam: lam,
    own: Callable[[float], float] = lambda lam: 1.0,
    subtract: bool = True,
    targets: Callable[[Any, Any, Any, Any], Any] = lambda a, v, m, values: a + v,
    finish: Callable[[Any, Any], Any] = lambda a, mask: a,
    shorter: Callable[[Any], Any] = lambda mask: mask,
) -> Callable[..., Any]:
    """GAE along texts with one part changed."""

    def function(rewards, values, mask, ended, lam):
        cells = shorter(mask)
        zero = torch.zeros_like(rewards)
        r, v, following = rewards, here(values), after(values)
        if fill:
            r, v = torch.where(cells, r, zero), torch.where(cells, v, zero)
            following = torch.where(cells, following, zero)
        following = torch.where(follows(last_of(cells), ended), following, zero)
        delta = r + gamma * ahead(lam) * following - (v if subtract else 0 * v)
        advantages, carried = zero.clone(), zero[:, 0]
        for t in reversed(range(delta.shape[1])):
            carried = own(lam) * delta[:, t] + gamma * back(lam) * carried
            advantages[:, t] = carried
        advantages = finish(advantages, mask)
        value = torch.where(mask, values[:, :-1], zero)
        return advantages, targets(advantages, value, mask, values)

    return function


def by_the_library(rewards, values, mask, ended, lam):
    from ppobook.returns import gae

    last = last_of(mask)
    rewards, held = rewards.masked_fill(~mask, 0), values[:, :-1].masked_fill(~mask, 0)
    lengths = mask.sum(1)
    final = values.gather(1, lengths[:, None])
    final = torch.where(((~ended) & (lengths > 0))[:, None], final, torch.zeros(()))
    values = torch.cat([held, torch.zeros_like(held[:, :1])], 1)
    advantages, targets = gae(
        rewards,
        values,
        last & ended[:, None],
        last & ~ended[:, None],
        final.expand_as(rewards),
        gamma=1.0,
        lam=lam,
    )
    return advantages * mask, targets * mask


def row_by_row(rewards, values, mask, ended, lam):
    r, v = rewards.double().numpy(), values.double().numpy()
    advantages, targets = np.zeros(r.shape), np.zeros(r.shape)
    for b, n in enumerate(mask.sum(1).tolist()):
        carried = 0.0
        for t in range(n - 1, -1, -1):
            following = 0.0 if t == n - 1 and ended[b] else v[b, t + 1]
            carried = r[b, t] + following - v[b, t] + lam * carried
            advantages[b, t], targets[b, t] = carried, carried + v[b, t]
    return advantages, targets


def with_matrix(rewards, values, mask, ended, lam):
    """Powers of λ in a triangle, times the TD errors."""
    width = mask.shape[1]
    last = last_of(mask)
    r = rewards.double().masked_fill(~mask, 0)
    v = values[:, :-1].double().masked_fill(~mask, 0)
    following = values[:, 1:].double().masked_fill(~mask | (last & ended[:, None]), 0)
    k = torch.arange(width)
    power = (k[None] - k[:, None]).clamp(min=0)
    triangle = torch.where(k[None] >= k[:, None], torch.tensor(lam, dtype=torch.float64) ** power, 0.0)
    advantages = torch.where(mask, (r + following - v) @ triangle.T, 0.0)
    return [advantages, advantages + v]


def targets_first_principles(rewards, values, mask, ended, lam):
    """TD(λ) targets backwards; the advantages are what is left."""
    clean = torch.where(mask, values[:, :-1], torch.zeros(()))
    targets = torch.zeros_like(rewards)
    for b in range(len(mask)):
        n = int(mask[b].sum())
        if not n:
            continue
        ahead = torch.zeros(()) if ended[b] else values[b, n]
        target = ahead
        for t in reversed(range(n)):
            target = rewards[b, t] + (1 - lam) * ahead + lam * target
            targets[b, t], ahead = target, values[b, t]
    return targets - clean, targets


def forwards(rewards, values, mask, ended, lam):
    delta = along(back=lambda lam: 0.0)(rewards, values, mask, ended, lam)[0]
    out, carried = torch.zeros_like(delta), torch.zeros_like(delta[:, 0])
    for t in range(delta.shape[1]):
        carried = delta[:, t] + lam * carried
        out[:, t] = carried * mask[:, t]
    return out, out + torch.where(mask, values[:, :-1], 0.0)


def normal(a, mask):
    some = a[mask]
    return torch.where(mask, (a - some.mean()) / (some.std(correction=0) + 1e-8), 0.0)


def last_column(rewards, values, mask, ended, lam):
    """The last column's value stands for what follows every truncated text."""
    values = values.clone()
    for b, n in enumerate(mask.sum(1).tolist()):
        if not ended[b]:
            values[b, n] = values[b, -1]
    return along()(rewards, values, mask, ended, lam)


def exchanged(values):
    return values[:, 1:]


def mixed(rewards, values, mask, ended, lam):
    found, targets = along()(rewards, values, mask, ended, lam)
    return found + 0.1 * mask * found.sum(0), targets


def by_products(rewards, values, mask, ended, lam):
    follows = mask & ~(last_of(mask) & ended[:, None])
    delta = rewards * mask + values[:, 1:] * follows - values[:, :-1] * mask
    advantages, carried = torch.zeros_like(delta), torch.zeros_like(delta[:, 0])
    for t in reversed(range(delta.shape[1])):
        carried = delta[:, t] + lam * carried
        advantages[:, t] = carried
    return advantages, advantages + values[:, :-1] * mask


def one_early(rewards, values, mask, ended, lam):
    """Bootstrap a truncated text with the value of its last token's own state, one token early."""
    values = values.clone()
    for b, n in enumerate(mask.sum(1).tolist()):
        if n and not ended[b]:
            values[b, n] = values[b, n - 1]
    return along()(rewards, values, mask, ended, lam)


def to_go(rewards, mask):
    return torch.where(mask, rewards, 0.0).flip(1).cumsum(1).flip(1) * mask


RIGHT["text-gae"] = [
    lambda *a: torch.stack(along()(*a)),
    by_the_library,
    row_by_row,
    with_matrix,
    targets_first_principles,
    along(),
]
WRONG["text-gae"] = {
    "the advantages are already normalized": along(finish=normal),
    "an empty text has an advantage": lambda r, v, m, e, lam: along()(
        r, v, m | (torch.arange(m.shape[1]) == 0) & ~m.any(1, keepdim=True), e, lam
    ),
    "the mean is subtracted": [
        along(finish=lambda a, m: torch.where(m, a - a[m].mean(), 0.0)),
        along(finish=lambda a, m: a - m * (a.sum(1) / m.sum(1).clamp(min=1))[:, None]),
    ],
    "texts are mixed": mixed,
    "the recursion runs forward": forwards,
    "the sign is reversed": along(finish=lambda a, m: -a),
    "V(s_t) and V(s_t+1) are exchanged": along(
        here=exchanged, after=lambda v: v[:, :-1], follows=lambda last, ended: last | ~last
    ),
    "the value of the state is not subtracted": along(subtract=False),
    "the values are read one step off": lambda r, v, m, e, lam: along()(
        r, torch.cat([v[:, :1], v[:, :-1]], 1), m, e, lam
    ),
    "the last token is left out": along(shorter=lambda m: m & ~last_of(m)),
    "the TD error is scaled": along(own=lambda lam: lam),
    "lam is not used": along(back=lambda lam: 1.0),
    "only the TD error": along(back=lambda lam: 0.0),
    "a discount is used": [along(gamma=0.99), along(gamma=0.95)],
    "no TD error looks ahead": along(ahead=lambda lam: 0.0),
    "lam is in delta": along(ahead=lambda lam: lam),
    "a text that ended is given a future": [
        along(follows=lambda last, ended: last | ~last),
        along(follows=lambda last, ended: ~last | ended[:, None]),
    ],
    "the value before the last token, not after it": one_early,
    "the targets ignore lam": [
        lambda r, v, m, e, lam: (along()(r, v, m, e, lam)[0], along()(r, v, m, e, 1.0)[1]),
        lambda r, v, m, e, lam: (along()(r, v, m, e, lam)[0], to_go(r, m)),
    ],
    "a truncation counts as an end": along(follows=lambda last, ended: ~last),
    "the last column's value, not the value after the last token": last_column,
    "a text of full length counts as ended": lambda r, v, m, e, lam: along()(
        r, v, m, e | (m.sum(1) == m.shape[1]), lam
    ),
    "a short text counts as ended": lambda r, v, m, e, lam: along()(
        r, v, m, e | (m.sum(1) < m.shape[1]), lam
    ),
    "the value after the end is scaled": along(
        after=lambda v: torch.cat([v[:, 1:-1], 0.5 * v[:, -1:]], 1),
    ),
    "padding has advantages": [
        along(finish=lambda a, m: a - a.sum() * (~m & m.any(1, keepdim=True))),
        along(finish=lambda a, m: a + 1.0 * (~m & m.any(1, keepdim=True))),
    ],
    "padding is carried back into the text": along(fill=False, finish=lambda a, m: torch.where(m, a, 0.0)),
    "the targets are the advantages again": along(targets=lambda a, v, m, values: 1 * a),
    "the values are added one step off": along(
        targets=lambda a, v, m, values: torch.where(m, a + values[:, 1:], 0.0)
    ),
    "the values are the targets": along(targets=lambda a, v, m, values: v),
    "the targets come first": lambda *arguments: along()(*arguments)[::-1],
    "padding has targets": [
        along(targets=lambda a, v, m, values: a + torch.ones_like(v)),
        along(targets=lambda a, v, m, values: a + v + 3.0 * ~m),
    ],
    "the values are subtracted again": along(targets=lambda a, v, m, values: a - v),
    "padding gets through": [
        by_products,
        along(targets=lambda a, v, m, values: (a + values[:, :-1]) * m),
    ],
}
UNNAMED["text-gae"] = [
    along(targets=lambda a, v, m, values: a + v.clamp(min=0)),
    along(back=lambda lam: min(lam, 0.9)),
    along(finish=lambda a, m: a.clamp(-5, 5)),
    along(back=lambda lam: lam if lam < 1 else 0.99),
]

# --- token-loss


def clipped(
    *,
    ratio: Callable[[Any, Any], Any] = lambda lp, old: (lp - old).exp(),
    advantage: Callable[[Any], Any] = lambda a: a,
    combine: Callable[[Any, Any], Any] = torch.minimum,
    total: Callable[[Any], Any] = lambda x: -x.sum() / max(len(x), 1),
    eps: Callable[[float], float] = lambda eps: eps,
    held: bool = True,
) -> Callable[..., Any]:
    """The loss on the cells of the mask, with one part changed."""

    def function(logp, old_logp, advantages, mask, e):
        if held:
            old_logp, advantages = old_logp.detach(), advantages.detach()
        r, a, c = ratio(logp[mask], old_logp[mask]), advantage(advantages[mask]), eps(e)
        return total(combine(r * a, r.clamp(1 - c, 1 + c) * a))

    return function


def rectangular(
    total: Callable[[Any, Any], Any],
    change: Callable[[Any, Any], Any] = lambda r, mask: r,
    fill: bool = True,
) -> Callable[..., Any]:
    """The loss on the whole rectangle; the holes are filled before the exponential, or not."""

    def function(logp, old_logp, advantages, mask, eps):
        old_logp, a = old_logp.detach(), advantages.detach()
        x = logp - old_logp
        if fill:
            x, a = torch.where(mask, x, 0.0), torch.where(mask, a, 0.0)
        r = change(x.exp(), mask)
        return total(-torch.minimum(r * a, r.clamp(1 - eps, 1 + eps) * a), mask)

    return function


def masked_mean(x, mask):
    return (x * mask).sum() / mask.sum().clamp(min=1)


def with_relu(logp, old_logp, advantages, mask, eps):
    """A max of losses, by relu, in float64."""
    a = advantages.detach().double()[mask]
    r = (logp.double()[mask] - old_logp.detach().double()[mask]).exp()
    plain, held = -a * r, -a * torch.clamp(r, 1 - eps, 1 + eps)
    return (plain + torch.relu(held - plain)).sum() / mask.sum().clamp(min=1)


def with_where(logp, old_logp, advantages, mask, eps):
    zero = torch.zeros(())
    a = torch.where(mask, advantages, zero).detach()
    r = torch.exp(torch.where(mask, logp, zero) - torch.where(mask, old_logp, zero).detach())
    stop = ((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < 1 - eps))
    bound = torch.where(a > 0, 1 + eps, 1 - eps)
    surrogate = a * torch.where(stop, bound, r)
    return -(surrogate * mask).sum() / mask.sum().clamp(min=1)


def token_by_token(logp, old_logp, advantages, mask, eps):
    found = 0.0 * logp[mask].sum()
    for b, t in mask.nonzero().tolist():
        a = advantages[b, t].item()
        r = (logp[b, t] - old_logp[b, t].item()).exp()
        found = found - torch.min(r * a, r.clamp(1 - eps, 1 + eps) * a)
    return found / max(int(mask.sum()), 1)


def one_ratio(logp, old_logp, advantages, mask, eps, mean=False):
    x = torch.where(mask, logp - old_logp.detach(), 0.0).sum(1, keepdim=True)
    x = x / mask.sum(1, keepdim=True).clamp(min=1) if mean else x
    r, a = x.exp(), torch.where(mask, advantages.detach(), 0.0)
    return masked_mean(-torch.minimum(r * a, r.clamp(1 - eps, 1 + eps) * a), mask)


def turned(logp, old_logp, advantages, mask, eps):
    return clipped()(logp, old_logp, advantages, ~mask, eps)


def one_sided(hold: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def function(logp, old_logp, advantages, mask, eps):
        a, r = advantages.detach()[mask], (logp[mask] - old_logp.detach()[mask]).exp()
        bound = torch.tensor(1 + eps if hold is torch.minimum else 1 - eps)
        return -torch.minimum(r * a, hold(r, bound) * a).sum() / max(len(a), 1)

    return function


def by_rows(x, mask):
    return ((x * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()


def wrong_slope(logp, *rest):
    value = clipped()(logp, *rest)
    return 2 * value.detach() - value


def zero_of_padding(logp, old_logp, advantages, mask, eps):
    """An empty mask is a case of its own, and its zero is made of what stands in the padding."""
    return clipped()(logp, old_logp, advantages, mask, eps) if mask.any() else (logp * 0).sum()


def with_a_floor(logp, old_logp, advantages, mask, eps):
    """The same, with a zero that is right for nan."""
    if mask.any():
        return clipped()(logp, old_logp, advantages, mask, eps)
    return 0.0 * torch.where(logp.isnan(), 0.0, logp).sum()


def log_clipped(logp, old_logp, advantages, mask, eps):
    x, a = logp[mask] - old_logp.detach()[mask], advantages.detach()[mask]
    return -torch.min(x.exp() * a, x.clamp(-eps, eps).exp() * a).sum() / max(len(a), 1)


RIGHT["token-loss"] = [clipped(), rectangular(masked_mean), with_relu, with_where, token_by_token]
WRONG["token-loss"] = {
    "a mean over all cells, padding too": [
        rectangular(lambda x, m: (x * m).mean()),
        rectangular(lambda x, m: x.mean(), fill=False),
    ],
    "padding is in the sum": rectangular(lambda x, m: x.sum() / m.sum(), fill=False),
    "each text counts the same": rectangular(by_rows),
    "a sum, not a mean": [
        rectangular(lambda x, m: (x * m).sum()),
        rectangular(lambda x, m: (x * m).sum() / len(m)),
    ],
    "the sign is reversed": clipped(total=lambda x: x.sum() / max(len(x), 1)),
    "the mask is inverted": turned,
    "the larger of the two, not the smaller": clipped(combine=torch.maximum),
    "nothing is clipped": clipped(combine=lambda a, b: a),
    "only the clipped term": clipped(combine=lambda a, b: b),
    "the clip has only one side": [one_sided(torch.minimum), one_sided(torch.maximum)],
    "the ratio is upside down": clipped(ratio=lambda lp, old: (old - lp).exp()),
    "one ratio for the whole text": [one_ratio, lambda *a: one_ratio(*a, mean=True)],
    "the quotient of the logarithms": [
        clipped(ratio=lambda lp, old: lp / old),
        clipped(ratio=lambda lp, old: old / lp),
    ],
    "the logarithm of the ratio, not the ratio": clipped(ratio=lambda lp, old: lp - old),
    "the probability, not the ratio": clipped(ratio=lambda lp, old: lp.exp()),
    "the log-probability, not the ratio": clipped(ratio=lambda lp, old: lp, combine=lambda a, b: a),
    "the advantages are normalized once more": [
        clipped(advantage=lambda a: a - a.mean()),
        clipped(advantage=lambda a: a / (a.std(correction=0) + 1e-8)),
        clipped(advantage=lambda a: (a - a.mean()) / (a.std(correction=0) + 1e-8)),
    ],
    "eps is not used": clipped(eps=lambda e: 0.2),
    "the gradient reaches the old policy": lambda lp, old, a, m, e: clipped(held=False)(
        lp, old, a.detach(), m, e
    ),
    "the gradient reaches the advantages": lambda lp, old, a, m, e: clipped(held=False)(
        lp, old.detach(), a, m, e
    ),
    "the gradient has the wrong sign": wrong_slope,
    "padding gets through": rectangular(masked_mean, fill=False),
    "padding gets into the gradient": [
        rectangular(lambda x, m: torch.where(m, x, 0.0).sum() / m.sum().clamp(min=1), fill=False),
        rectangular(lambda x, m: masked_mean(x.nan_to_num(), m), fill=False, change=lambda r, m: r * m),
    ],
    "the mean of nothing": [
        clipped(total=lambda x: -x.mean()),
        rectangular(lambda x, m: (x * m).sum() / m.sum()),
    ],
    "an empty mask cuts the gradient off": lambda *a: clipped()(*a) if a[3].any() else torch.tensor(0.0),
    "an empty mask lets padding through": [zero_of_padding, with_a_floor],
    "the logarithm of the ratio is clipped": log_clipped,
    "cut off from autograd": lambda lp, *rest: clipped()(lp.detach(), *rest),
}
UNNAMED["token-loss"] = [
    clipped(advantage=lambda a: a.clamp(-5, 5)),
    clipped(ratio=lambda lp, old: (lp - old).clamp(-1, 1).exp()),
    clipped(ratio=lambda lp, old: (lp - old).clamp(-5, 5).exp()),
    clipped(advantage=lambda a: a * (a.abs() < 15)),
]
