"""Right and wrong answers to what stale texts are weighed with."""

from __future__ import annotations

import math

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- stale-gradient


def average(
    *,
    by=lambda mu, pi: mu,
    score=lambda mu, pi: pi,
    ratio=lambda mu, pi: pi / mu,
    weigh=lambda weight, rho: weight(rho),
    base=lambda mu, pi, r, b: b,
    factor=lambda mu, w: 1.0,
    inside=True,
):
    """The average with one part changed."""

    def function(mu, pi, rewards, weight, baseline):
        found = np.zeros(len(mu))
        there = [y for y in range(len(mu)) if mu[y] > 0 or not inside]
        weights = np.array([weigh(weight, ratio(mu[y], pi[y])) for y in there])
        for y, w in zip(there, weights, strict=True):
            worth = rewards[y] - base(mu, pi, rewards, baseline)
            found += by(mu, pi)[y] * w * worth * (np.eye(len(mu))[y] - score(mu, pi))
        return factor(mu[there], weights) * found

    return function


def by_matrix(mu, pi, rewards, weight, baseline):
    safe = np.where(mu > 0, mu, 1.0)
    worth = np.where(mu > 0, mu * weight(pi / safe) * (rewards - baseline), 0.0)
    return (worth @ (np.eye(len(mu)) - pi)).tolist()


def by_autograd(mu, pi, rewards, weight, baseline):
    keep = torch.tensor(mu) > 0
    logits = torch.tensor(pi).log().requires_grad_(True)
    m, r = torch.tensor(mu)[keep], torch.tensor(rewards)[keep]
    w = torch.as_tensor(weight(torch.tensor(pi)[keep] / m))
    (m * w * (r - baseline) * logits.log_softmax(0)[keep]).sum().backward()
    return logits.grad


def in_single(mu, pi, rewards, weight, baseline):
    return torch.tensor(by_matrix(mu, pi, rewards, weight, baseline), dtype=torch.float32)


def tiny(mu, pi, rewards, weight, baseline):
    safe = mu + 1e-12
    return (mu * weight(pi / safe) * (rewards - baseline)) @ (np.eye(len(mu)) - pi)


def among_the_written(mu, pi, rewards, weight, baseline):
    """The texts that are never written are taken out first, and get a zero at the end."""
    found, there = np.zeros(len(mu)), np.flatnonzero(mu)
    for y in there:
        worth = mu[y] * weight(pi[y] / mu[y]) * (rewards[y] - baseline)
        for k in there:
            found[k] += worth * ((y == k) - pi[k])
    return found


def cut_out(mu, pi, rewards, weight, baseline, normal=False):
    found, there = np.zeros(len(mu)), mu > 0
    p = pi[there] / pi[there].sum() if normal else pi[there]
    worth = mu[there] * weight(p / mu[there]) * (rewards[there] - baseline)
    found[there] = worth - p * worth.sum()
    return found


RIGHT["stale-gradient"] = [average(), by_matrix, by_autograd, in_single, tiny]
WRONG["stale-gradient"] = {
    "the sign is turned round": average(factor=lambda mu, w: -1.0),
    "the weight is not used": average(weigh=lambda weight, rho: 1.0),
    "the ratio is used, whatever the weight": average(weigh=lambda weight, rho: rho),
    "the ratio is upside down": average(ratio=lambda mu, pi: mu / pi),
    "the texts are drawn from the policy": average(by=lambda mu, pi: pi),
    "the score is the sampler's": average(score=lambda mu, pi: mu),
    "the baseline is not subtracted": average(base=lambda mu, pi, r, b: 0.0),
    "the sampler's mean is the baseline, whatever is given": [
        average(base=lambda mu, pi, r, b: mu @ r),
        average(base=lambda mu, pi, r, b: pi @ r),
    ],
    "every text counts the same": [
        average(by=lambda mu, pi: np.ones(len(mu)) / len(mu)),
        average(by=lambda mu, pi: np.ones(len(mu))),
    ],
    "the score has lost its mean": average(score=lambda mu, pi: 0 * pi),
    "the weights are made to add up to one": average(factor=lambda mu, w: 1 / (mu * w).sum()),
    "a text that is never written keeps its logit": [among_the_written, cut_out],
    "the policy is made to add up to one over what is written": lambda *a: cut_out(*a, normal=True),
    "a text that is never written has a weight": [
        lambda mu, pi, r, weight, b: (mu * weight(pi / mu) * (r - b)) @ (np.eye(len(mu)) - pi),
        lambda mu, pi, r, weight, b: (
            pi * (r - pi @ r) if weight(3.0) == 3.0 else by_matrix(mu, pi, r, weight, b)
        ),
    ],
}
UNNAMED["stale-gradient"] = [
    average(factor=lambda mu, w: 2.0),
    lambda mu, pi, r, weight, b: by_matrix(mu, pi, r, lambda x: np.clip(weight(x), 0, 3), b),
    lambda mu, pi, r, weight, b: np.array(by_matrix(mu, pi, r, weight, b)) * (1 if len(mu) == 3 else 1.5),
]


# --- two-ratio-loss


def loss(
    *,
    weight=lambda now, begin, sampler, bound, eps, mask: (begin - sampler).exp().clamp(max=bound),
    old=lambda begin, sampler: begin,
    surrogate=None,
    mean=lambda x, mask: (x.sum(1) / mask.sum(1)).mean(),
    sign=-1.0,
    held=True,
    clean=True,
    worth=lambda a: a.detach(),
    inside=False,
):
    """The loss with one part changed."""

    def function(logp, begin, sampler, advantages, mask, eps, bound):
        if held:
            begin, sampler = begin.detach(), sampler.detach()
        if clean:
            logp, begin, sampler = (torch.where(mask, x, 0.0) for x in (logp, begin, sampler))
        a = worth(advantages)[:, None]
        w = weight(logp, begin, sampler, bound, eps, mask)
        ratio = (logp - old(begin, sampler)).exp()
        if inside:
            ratio, w = ratio * w, 1.0
        clipped = ratio.clamp(1 - eps, 1 + eps)
        found = torch.min(ratio * a, clipped * a) if surrogate is None else surrogate(ratio, clipped, a)
        return sign * mean(w * found * mask, mask)

    return function


def by_rows(logp, begin_logp, sampler_logp, advantages, mask, clip_eps, max_weight):
    rows = []
    for row, m in enumerate(mask):
        with torch.no_grad():
            b, a = begin_logp[row][m], advantages[row]
            w = torch.exp(b - sampler_logp[row][m]).minimum(torch.tensor(max_weight))
        r = torch.exp(logp[row][m] - b)
        low, high = 1 - clip_eps, 1 + clip_eps
        rows.append((w * torch.where(a > 0, r.clamp(max=high), r.clamp(min=low)) * a).mean())
    return -torch.stack(rows).mean()


def weighted_advantages(logp, begin_logp, sampler_logp, advantages, mask, clip_eps, max_weight):
    fill = logp.masked_fill(~mask, 0), *(x.detach().masked_fill(~mask, 0) for x in (begin_logp, sampler_logp))
    a = advantages.detach()[:, None] * torch.clamp(torch.exp(fill[1] - fill[2]), max=max_weight)
    ratio = torch.exp(fill[0] - fill[1])
    worst = torch.maximum(-a * ratio, -a * torch.clip(ratio, 1 - clip_eps, 1 + clip_eps))
    return torch.einsum("bt,bt->", worst, mask / mask.sum(1, keepdim=True)) / len(mask)


def in_double(*given):
    return loss()(*(x.double() if torch.is_tensor(x) and x.is_floating_point() else x for x in given))


def of_text(now, begin, sampler, bound, eps, mask):
    return (begin - sampler).sum(1, keepdim=True).exp().clamp(max=bound)


def of_mean_one(now, begin, sampler, bound, eps, mask, rows=False):
    w = (begin - sampler).exp().clamp(max=bound)
    return w / ((w * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True) if rows else w[mask].mean())


RIGHT["two-ratio-loss"] = [loss(), by_rows, weighted_advantages, in_double]
WRONG["two-ratio-loss"] = {
    "the sign is turned round": loss(sign=1.0),
    "the text's age is left out": loss(weight=lambda *_: 1.0),
    "one ratio, to the sampler": loss(weight=lambda *_: 1.0, old=lambda b, s: s),
    "the age is counted twice": loss(old=lambda b, s: s),
    "the weight is not truncated": loss(weight=lambda n, b, s, bound, eps, m: (b - s).exp()),
    "the weight is bounded from below too": [
        loss(weight=lambda n, b, s, bound, eps, m: (b - s).exp().clamp(1 / bound, bound)),
        loss(weight=lambda n, b, s, bound, eps, m: (b - s).exp().clamp(1, bound)),
    ],
    "the weight has the clip's bounds": loss(
        weight=lambda n, b, s, bound, eps, m: (b - s).exp().clamp(1 - eps, 1 + eps)
    ),
    "the weight is upside down": loss(weight=lambda n, b, s, bound, eps, m: (s - b).exp().clamp(max=bound)),
    "the weight uses the policy during the update": [
        loss(weight=lambda n, b, s, bound, eps, m: (n - s).exp().detach().clamp(max=bound)),
        loss(
            weight=lambda n, b, s, bound, eps, m: (n - s).exp().clamp(max=bound),
            surrogate=lambda r, c, a: a + 0 * r,
        ),
    ],
    "the weight is the whole text's": loss(weight=of_text),
    "nothing is clipped": loss(surrogate=lambda r, c, a: r * a),
    "the clip has no minimum": loss(surrogate=lambda r, c, a: c * a),
    "the weights are made to average one": [
        loss(weight=lambda *given: of_mean_one(*given)),
        loss(weight=lambda *given: of_mean_one(*given, rows=True)),
    ],
    "the weight is inside the clip": loss(inside=True),
    "a mean over all tokens": loss(mean=lambda x, m: x.sum() / m.sum()),
    "a mean over the padded table": loss(mean=lambda x, m: x.mean()),
    "the length is not divided by": loss(mean=lambda x, m: x.sum() / len(m)),
    "padding is read": [
        loss(clean=False),
        loss(clean=False, mean=lambda x, m: (x.where(m, torch.zeros_like(x)).sum(1) / m.sum(1)).mean()),
    ],
    "the ratio's old policy keeps its graph": loss(
        held=False, weight=lambda n, b, s, bound, eps, m: (b - s).exp().clamp(max=bound).detach()
    ),
    "the gradient goes through the weight": [
        loss(held=False),
        loss(held=False, old=lambda b, s: b.detach()),
    ],
    "the gradient goes through the advantages": loss(worth=lambda a: a),
    "cut off from autograd": lambda *given: loss()(*given).detach(),
}
UNNAMED["two-ratio-loss"] = [
    lambda lp, *rest: loss()(lp.clamp(-8.0, 0.5), *rest),
    # Where neither is cut, begin_logp's two gradients cancel.
    loss(held=False, weight=lambda n, b, s, bound, eps, m: (b - s.detach()).exp().clamp(max=bound)),
    loss(surrogate=lambda r, c, a: torch.min(r * a, c * a) + 0.1 * (r - 1).pow(2)),
    loss(weight=lambda n, b, s, bound, eps, m: (b - s).exp().clamp(max=2.0)),
    lambda *given: loss()(*given[:5], 0.2, given[6]),
]


# --- samples-left


def share(w):
    return w.sum() ** 2 / (w**2).sum() / len(w)


def left(
    *,
    ratio=lambda x: x.exp(),
    tokens=lambda x, m: x[m],
    of_tokens=share,
    texts=lambda x, m: (x * m).sum(1),
    of_texts=share,
    weigh=lambda x: (x - x.max()).exp(),
    clean=True,
):
    """The shares with one part changed."""

    def function(logp, sampler_logp, mask):
        x = logp - sampler_logp
        if clean:
            x = torch.where(mask, x, torch.zeros_like(x))
        return of_tokens(weigh(tokens(x, mask))), of_texts(weigh(texts(x, mask)))

    return function


def by_logsumexp(logp, sampler_logp, mask):
    x = torch.where(mask, logp - sampler_logp, 0.0)

    def log_share(v):
        return 2 * v.logsumexp(0) - (2 * v).logsumexp(0) - math.log(len(v))

    return torch.stack([log_share(x[mask]), log_share(x.sum(-1))]).exp()


def by_lists(logp, sampler_logp, mask):
    rows = [
        [float(p) - float(q) for p, q, m in zip(*row, strict=True) if m]
        for row in zip(logp, sampler_logp, mask, strict=True)
    ]

    def plain(v):
        w = [math.exp(x - max(v)) for x in v]
        return sum(w) ** 2 / sum(x * x for x in w) / len(w)

    return [plain([x for row in rows for x in row]), plain([sum(row) for row in rows])]


def in_numpy(logp, sampler_logp, mask):
    there = mask.numpy()
    x = np.where(there, logp.double().numpy() - sampler_logp.double().numpy(), 0.0)

    def normal(v):
        p = np.exp(v - v.max())
        p /= p.sum()
        return 1 / (p**2).sum() / p.size

    return np.array([normal(x[there]), normal(x.sum(1))])


def one_by_one(logp, sampler_logp, mask):
    x = torch.where(mask, logp - sampler_logp, 0.0)
    each = [share((row[m] - row[m].max()).exp()) for row, m in zip(x, mask, strict=True)]
    return torch.stack(each).mean(), left()(logp, sampler_logp, mask)[1]


def raw(v):
    return v.exp()


RIGHT["samples-left"] = [left(), by_logsumexp, by_lists, in_numpy]
WRONG["samples-left"] = {
    "a number of samples, not a share": left(of_tokens=lambda w: share(w) * len(w)),
    "padding is counted": left(tokens=lambda x, m: x.flatten()),
    "padding has a weight of zero and is counted": left(
        tokens=lambda x, m: x.masked_fill(~m, -math.inf).flatten()
    ),
    "the ratio is upside down": lambda p, q, m: left()(q, p, m),
    "the inverse of the share": left(of_tokens=lambda w: 1 / share(w), of_texts=lambda w: 1 / share(w)),
    "each text's share, averaged": one_by_one,
    "log-ratios are taken for ratios": left(weigh=lambda x: x),
    "the square is missing": left(weigh=raw, of_tokens=lambda w: w.sum() / (w**2).sum()),
    "the two shares are exchanged": lambda *given: left()(*given)[::-1],
    "the share of texts is a number": left(of_texts=lambda w: share(w) * len(w)),
    "a text's ratio is the mean of its tokens'": left(
        texts=lambda x, m: ((x.exp() * m).sum(1) / m.sum(1)).log()
    ),
    "a text's ratio is the sum of its tokens'": left(texts=lambda x, m: (x.exp() * m).sum(1).log()),
    "a text's ratio is the geometric mean": left(texts=lambda x, m: (x * m).sum(1) / m.sum(1)),
    "padding is added to the text's ratio": left(texts=lambda x, m: x.exp().sum(1).log()),
    "the share of texts is that of tokens": left(texts=lambda x, m: x[m]),
    "the texts' sum is divided by the tokens": [
        lambda p, q, m: (left()(p, q, m)[0], left()(p, q, m)[1] * len(m) / m.sum()),
        lambda p, q, m: (left()(p, q, m)[0], left()(p, q, m)[1] * len(m) / m.numel()),
    ],
    "the texts' log-weights are cut off": [
        left(weigh=lambda x: x.double().clamp(-20.0, 20.0).exp()),
        left(weigh=lambda x: x.double().clamp(-300.0, 300.0).exp()),
        left(weigh=lambda x: (x - x.max()).clamp(min=-20.0).exp() if len(x) < 3 else x.clamp(-50, 40).exp()),
    ],
    "padding is read": left(clean=False),
    "long texts overflow": left(weigh=raw),
    "long texts underflow": left(weigh=lambda x: x.clamp(max=40.0).exp()),
}
UNNAMED["samples-left"] = [
    lambda p, q, m: [0.99 * float(x) for x in left()(p, q, m)],
    lambda p, q, m: left()(p.clamp(min=-4.0), q, m),
]
