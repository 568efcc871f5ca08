"""Right and wrong answers to the reward model's loss, its level and its unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong
from torch.nn import functional as F  # noqa: N812

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}

# --- bt-loss


def pairs(
    loss: Callable[..., Any] | None = None, slope: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """The two results, each from the difference and the votes."""

    def right_loss(d, w, n):
        return -(w * F.logsigmoid(d) + n * F.logsigmoid(-d)).sum() / (w + n).sum()

    def right_slope(d, w, n):
        return (n * torch.sigmoid(d) - w * torch.sigmoid(-d)) / (w + n).sum()

    def function(first, second, wins, losses):
        d = first - second
        return (loss or right_loss)(d, wins, losses), (slope or right_slope)(d, wins, losses)

    return function


def by_autograd(first, second, wins, losses):
    first = first.double().requires_grad_()
    d = first - second.double()
    loss = (wins * F.softplus(-d) + losses * F.softplus(d)).sum() / (wins.sum() + losses.sum())
    return loss, torch.autograd.grad(loss, first)[0]


def in_numpy(first, second, wins, losses):
    d, w, n = first.double().numpy() - second.double().numpy(), wins.numpy(), losses.numpy()
    total = w.sum() + n.sum()
    with np.errstate(over="ignore"):
        slope = -(w / (1 + np.exp(d)) - n / (1 + np.exp(-d))) / total
    return (w * np.logaddexp(0, -d) + n * np.logaddexp(0, d)).sum() / total, slope


def with_cross_entropy(first, second, wins, losses):
    total = wins + losses
    share = wins / total.clamp(min=1)
    loss = F.binary_cross_entropy_with_logits(first - second, share, weight=total, reduction="sum")
    return [loss / total.sum(), total * (torch.sigmoid(first - second) - share) / total.sum()]


def person_by_person(first, second, wins, losses):
    total, slope = 0.0, torch.zeros(len(first), dtype=torch.float64)
    people = float(wins.sum() + losses.sum())
    for i in range(len(first)):
        d = float(first[i]) - float(second[i])
        for sign, votes in ((1, wins[i]), (-1, losses[i])):
            x = sign * d
            total += float(votes) * (math.log1p(math.exp(-abs(x))) + max(-x, 0))
            slope[i] -= sign * float(votes) * (1 / (1 + math.exp(min(x, 700)))) / people
    return total / people, slope


def with_library_floor(d, w, n):
    """Torch's cross entropy of probabilities holds each logarithm at −100."""
    share = w / (w + n).clamp(min=1)
    return F.binary_cross_entropy(d.sigmoid(), share, weight=w + n, reduction="sum") / (w + n).sum()


RIGHT["bt-loss"] = [by_autograd, in_numpy, with_cross_entropy, person_by_person, pairs()]
LS = F.logsigmoid


def S(x):  # noqa: N802
    return torch.sigmoid(x)


WRONG["bt-loss"] = {
    "the sign is reversed": pairs(lambda d, w, n: (w * LS(d) + n * LS(-d)).sum() / (w + n).sum()),
    "first and second are exchanged": pairs(lambda d, w, n: -(w * LS(-d) + n * LS(d)).sum() / (w + n).sum()),
    "the choices are added up, not averaged": pairs(lambda d, w, n: -(w * LS(d) + n * LS(-d)).sum()),
    "a mean over pairs, not over choices": [
        pairs(lambda d, w, n: -(w * LS(d) + n * LS(-d)).mean()),
        pairs(lambda d, w, n: -((w * LS(d) + n * LS(-d)) / (w + n).clamp(min=1)).mean()),
    ],
    "votes for the second text are left out": [
        pairs(lambda d, w, n: -(w * LS(d)).sum() / (w + n).sum()),
        pairs(lambda d, w, n: -(w * LS(d)).sum() / w.sum()),
        pairs(lambda d, w, n: -LS(d).mean()),
    ],
    "only what the majority chose": pairs(lambda d, w, n: -LS(torch.where(w >= n, d, -d)).mean()),
    "a probability, not its logarithm": [
        pairs(lambda d, w, n: -(w * S(d) + n * S(-d)).sum() / (w + n).sum()),
        pairs(lambda d, w, n: (w * S(d) + n * S(-d)).sum() / (w + n).sum()),
    ],
    "a difference, not a log-probability": pairs(lambda d, w, n: -((w - n) * d).sum() / (w + n).sum()),
    "a squared error": [
        pairs(lambda d, w, n: (w * S(-d) ** 2 + n * S(d) ** 2).sum() / (w + n).sum()),
        pairs(lambda d, w, n: ((S(d) - w / (w + n)) ** 2).mean()),
    ],
    "the gradient's sign is reversed": pairs(slope=lambda d, w, n: (w * S(-d) - n * S(d)) / (w + n).sum()),
    "the gradient belongs to the sum": pairs(slope=lambda d, w, n: n * S(d) - w * S(-d)),
    "the gradient is averaged over pairs": pairs(slope=lambda d, w, n: (n * S(d) - w * S(-d)) / len(d)),
    "the gradient weights by certainty, not by surprise": pairs(
        slope=lambda d, w, n: (n * S(-d) - w * S(d)) / (w + n).sum()
    ),
    "the gradient leaves out votes for the second text": pairs(
        slope=lambda d, w, n: -w * S(-d) / (w + n).sum()
    ),
    "the gradient counts votes for the second text with the wrong sign": pairs(
        slope=lambda d, w, n: -(w * S(-d) + n * S(d)) / (w + n).sum()
    ),
    "the gradient ignores the votes": [
        pairs(slope=lambda d, w, n: -S(-d) / len(d)),
        pairs(slope=lambda d, w, n: -S(-d)),
    ],
    "the loss overflows": [
        pairs(lambda d, w, n: -(w * S(d).log() + n * S(-d).log()).sum() / (w + n).sum()),
        pairs(lambda d, w, n: (w * (1 + (-d).exp()).log() + n * (1 + d.exp()).log()).sum() / (w + n).sum()),
    ],
    "small probabilities have a minimum": [
        pairs(lambda d, w, n: -(w * (S(d) + 1e-8).log() + n * (S(-d) + 1e-8).log()).sum() / (w + n).sum()),
        pairs(lambda d, w, n: -(w * LS(d.clamp(-50, 50)) + n * LS(-d.clamp(-50, 50))).sum() / (w + n).sum()),
        pairs(lambda d, w, n: with_library_floor(d, w, n)),
    ],
}
UNNAMED["bt-loss"] = [
    pairs(lambda d, w, n: -(w * LS(d / 2) + n * LS(-d / 2)).sum() / (w + n).sum()),
    pairs(slope=lambda d, w, n: (n * S(d) - w * S(-d)) / (w + n).sum() * (d.abs() < 20)),
    pairs(slope=lambda d, w, n: torch.zeros_like(d)),
]

# --- centred


def levels(level: Callable[..., Any], combine: Callable[[Any, Any], Any] = lambda s, x: s - x) -> Any:
    """Scores, and for each a level from (prompt, scores, prompts, ref_scores, ref_prompts)."""

    def function(scores, prompts, ref_scores, ref_prompts):
        found = [level(p, scores, prompts, ref_scores, ref_prompts) for p in prompts]
        return combine(scores, torch.stack([torch.as_tensor(x, dtype=scores.dtype) for x in found]))

    return function


def own(p, s, q, rs, rq):
    return rs[rq == p].mean()


def by_inverse(scores, prompts, ref_scores, ref_prompts):
    names, where = torch.unique(ref_prompts, return_inverse=True)
    sums = torch.zeros(len(names), dtype=torch.float64).index_add_(0, where, ref_scores.double())
    means = sums / torch.bincount(where)
    return scores - means[torch.searchsorted(names, prompts)]


def by_matrix(scores, prompts, ref_scores, ref_prompts):
    same = (prompts[:, None] == ref_prompts[None]).double()
    return scores.double() - same @ ref_scores.double() / same.sum(1)


def with_a_dict(scores, prompts, ref_scores, ref_prompts):
    found: dict[int, list[float]] = {}
    for s, p in zip(ref_scores.tolist(), ref_prompts.tolist(), strict=True):
        found.setdefault(p, []).append(s)
    pairs = zip(scores.tolist(), prompts.tolist(), strict=True)
    return [s - sum(found[p]) / len(found[p]) for s, p in pairs]


def with_numpy(scores, prompts, ref_scores, ref_prompts):
    out = scores.numpy().astype(float)
    for p in np.unique(ref_prompts.numpy()):
        out[prompts.numpy() == p] -= ref_scores.numpy()[ref_prompts.numpy() == p].mean()
    return out


def spread(scores, prompts, ref_scores, ref_prompts, correction=0):
    up = levels(own)(scores, prompts, ref_scores, ref_prompts)
    return up / torch.stack([ref_scores[ref_prompts == p].std(correction=correction) for p in prompts])


def in_order(scores, prompts, ref_scores, ref_prompts):
    """The means in the order of the ids, and the scores in the order of their first appearance."""
    means = [ref_scores[ref_prompts == p].mean() for p in sorted(set(ref_prompts.tolist()))]
    order = {p: i for i, p in enumerate(dict.fromkeys(prompts.tolist()))}
    return scores - torch.stack([means[order[p]] for p in prompts.tolist()])


def stacked(ref_scores, ref_prompts):
    """The means in the order of the ids."""
    return torch.stack([ref_scores[ref_prompts == p].mean() for p in ref_prompts.unique()])


def halving(scores, prompts, ref_scores, ref_prompts):
    level: dict[int, float] = {}
    for s, p in zip(ref_scores.tolist(), ref_prompts.tolist(), strict=True):
        level[p] = (level[p] + s) / 2 if p in level else s
    return scores - torch.tensor([level[p] for p in prompts.tolist()])


def by_runs(scores, prompts, ref_scores, ref_prompts):
    ids, counts = ref_prompts.unique_consecutive(return_counts=True)
    runs = zip(ids.tolist(), ref_scores.split(counts.tolist()), strict=True)
    level = {p: run.mean() for p, run in runs}
    return scores - torch.stack([level[p] for p in prompts.tolist()])


RIGHT["centred"] = [by_inverse, by_matrix, with_a_dict, with_numpy]
WRONG["centred"] = {
    "the sign is reversed": levels(own, lambda s, x: x - s),
    "the level is added, not subtracted": levels(own, lambda s, x: s + x),
    "nothing is subtracted": lambda s, *rest: 1 * s,
    "one level for all prompts": [
        lambda s, q, rs, rq: s - rs.mean(),
        lambda s, q, rs, rq: s - torch.stack([rs[rq == p].mean() for p in rq.unique()]).mean(),
    ],
    "the level of the policy's own texts": [
        levels(lambda p, s, q, rs, rq: s[q == p].mean()),
        lambda s, q, rs, rq: s - s.mean(),
    ],
    "reference and own texts together": levels(
        lambda p, s, q, rs, rq: torch.cat([s[q == p], rs[rq == p]]).mean()
    ),
    "divided by the standard deviation": [spread, lambda *a: spread(*a, correction=1)],
    "the median, not the mean": levels(lambda p, s, q, rs, rq: float(np.median(rs[rq == p].numpy()))),
    "the best or the worst of the reference": [
        levels(lambda p, s, q, rs, rq: rs[rq == p].max()),
        levels(lambda p, s, q, rs, rq: rs[rq == p].min()),
    ],
    "a single text of the reference": [
        levels(lambda p, s, q, rs, rq: rs[rq == p][0]),
        levels(lambda p, s, q, rs, rq: rs[rq == p][-1]),
    ],
    "a sum, not a mean": levels(lambda p, s, q, rs, rq: rs[rq == p].sum()),
    "the level, not the scores above it": levels(own, lambda s, x: x),
    "the levels of the prompts are exchanged": in_order,
    "one prompt's level for all": [
        lambda s, q, rs, rq: s - stacked(rs, rq)[q % len(rq.unique())],
        lambda s, q, rs, rq: s - stacked(rs, rq)[q.clamp(0, len(rq.unique()) - 1)],
        lambda s, q, rs, rq: s - stacked(rs, rq)[0],
    ],
    "a running mean with the wrong weights": halving,
    "the reference's prompts are assumed to be sorted": by_runs,
}
UNNAMED["centred"] = [
    levels(lambda p, s, q, rs, rq: rs[rq == p][:3].mean()),
    levels(lambda p, s, q, rs, rq: rs[rq == p].mean() if p >= 0 else torch.zeros(())),
    levels(own, lambda s, x: (s - x).clamp(-5, 5)),
]

# --- beta-for


def search(
    prepare: Callable[[Any], Any] = lambda r: r,
    unit: Callable[[Any], float] = lambda r: float((r - r.mean(1, keepdim=True)).abs().max()),
    total: Callable[[Any], Any] = lambda kl: kl.mean(),
    kl: Callable[[Any, Any], Any] | None = None,
    target: Callable[[float], float] = lambda nats: nats,
    back: Callable[[float], float] = lambda beta: beta,
    turned: bool = False,
) -> Callable[..., Any]:
    """Halving an interval, with one part changed."""

    def own_kl(log_p, n):
        return (log_p.exp() * (log_p + math.log(n))).sum(1)

    def function(rewards, nats):
        r = prepare(rewards.double())
        scale, low, high = unit(r), -14.0, 14.0
        for _ in range(70):
            middle = (low + high) / 2
            log_p = ((r - r.amax(1, keepdim=True)) / (scale * math.exp(middle))).log_softmax(1)
            found = total((kl or own_kl)(log_p, r.shape[1]))
            low, high = (middle, high) if (found > target(nats)) != turned else (low, middle)
        return back(scale * math.exp(middle))

    return function


def by_newton(rewards, nats):
    """Of s = 1/β: the slope of the KL is s times a variance."""
    r = rewards.double().numpy()
    r = r - r.max(1, keepdims=True)
    scale = -r.min()
    low, high = 0.0, 1e7
    s = 1.0
    for _ in range(300):
        z = s * r / scale
        p = np.exp(z)
        p /= p.sum(1, keepdims=True)
        kl = (p * np.log(np.maximum(p, 1e-300) * r.shape[1])).sum(1).mean()
        low, high = (s, high) if kl < nats else (low, s)
        mean = (p * r).sum(1, keepdims=True) / scale
        slope = s * (p * (r / scale - mean) ** 2).sum(1).mean()
        step = s + (nats - kl) / slope if slope > 0 else (low + high) / 2
        s = step if low < step < high else (low + high) / 2
    return scale / s


def on_a_grid(rewards, nats):
    r = rewards.double()
    r = r - r.mean(1, keepdim=True)
    best = None
    unit = r.abs().max()
    for beta in torch.logspace(-3, 3, 6000, dtype=torch.float64) * unit:
        log_p = (r / beta).log_softmax(1)
        kl = (log_p.exp() * (log_p - math.log(1 / r.shape[1]))).sum(1).mean()
        if best is None or abs(kl - nats) < best[0]:
            best = abs(kl - nats), beta
    return best[1]


def doubling(rewards, nats):
    r = rewards.numpy().astype(np.float64)
    r = r - r.max(axis=1, keepdims=True)

    def kl(beta):
        w = np.exp(np.maximum(r / beta, -700))
        p = w / w.sum(1, keepdims=True)
        return (np.log(r.shape[1]) + (p * np.log(p)).sum(1)).mean()

    high = np.abs(r).max()
    while kl(high) > nats:
        high *= 2
    low = high
    while kl(low) < nats:
        low /= 2
    for _ in range(60):
        middle = (low + high) / 2
        if kl(middle) > nats:
            low = middle
        else:
            high = middle
    return float(middle)


def tensor_back(rewards, nats):
    return torch.tensor(search()(rewards, nats))


def one_by_one(rewards, nats):
    return sum(search()(row[None], nats) for row in rewards) / len(rewards)


def rounded(rewards, nats, steps=4):
    """The nearest price of a grid with a few steps to the doubling."""
    return 2 ** (round(steps * math.log2(search()(rewards, nats))) / steps)


RIGHT["beta-for"] = [search(), by_newton, on_a_grid, doubling, tensor_back]
WRONG["beta-for"] = {
    "β is not above zero": [lambda r, nats: -1.0, search(back=lambda b: -b)],
    "the KL has the wrong direction": search(kl=lambda lp, n: (-math.log(n) - lp).mean(1)),
    "the formula for small KLs": [
        lambda r, nats: (r.double().var(dim=1, correction=0).mean() / (2 * nats)) ** 0.5,
        lambda r, nats: (r.double().var(dim=1).mean() / (2 * nats)) ** 0.5,
    ],
    "the inverse of β": search(back=lambda b: 1 / b),
    "the search ended at an edge": [
        search(turned=True),
        search(kl=lambda lp, n: (lp.exp() * lp).sum(1)),
    ],
    "β does not follow the unit": [
        search(unit=lambda r: 1e-3),
        search(prepare=lambda r: r / r.std(dim=1, correction=0, keepdim=True) / 2),
    ],
    "a level changes β": lambda r, nats: search()(r, nats) * float(r.mean() / r.std(correction=0)),
    "the prompts are mixed": search(prepare=lambda r: r.reshape(1, -1)),
    "the prompts' distances are added up": search(total=lambda kl: kl.sum()),
    "the mean of one β per prompt": one_by_one,
    "β is close, but not within 1 %": [rounded, lambda r, nats: rounded(r, nats, 8)],
    "the distance is not used": search(target=lambda nats: 0.327814),
}
UNNAMED["beta-for"] = [
    search(total=lambda kl: kl.max()),
    search(total=lambda kl: kl.median()),
    search(kl=lambda lp, n: (lp.exp() * (lp + math.log(2))).sum(1)),
]
