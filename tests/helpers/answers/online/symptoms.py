"""Diagnoses of six logs, and rewards that make texts shorter."""

from __future__ import annotations

import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}

CURED = {
    "A": "price-high",
    "B": "stale-loose",
    "C": "length-paid",
    "D": "model-renewed",
    "E": "stale-held",
    "F": "over-optimised",
}


def but(**names):
    """The right names, with some changed; None leaves a case out."""
    given = {case: name for case, name in {**CURED, **names}.items() if name is not None}
    return lambda: given


RIGHT["loop-clinic"] = [
    but(),
    lambda: dict(reversed(CURED.items())),
    lambda: {case.lower(): f" {name.title()} " for case, name in CURED.items()},
]
WRONG["loop-clinic"] = {
    "a single ratio to a stale sampler: the clip holds the policy back": [
        but(B="stale-held"),
        but(A="stale-held"),
    ],
    "a stale sampler without a correction: nothing shows the age": [
        but(E="stale-loose"),
        but(F="stale-loose"),
    ],
    "over-optimization: the reward model is maximized far from its data": [
        but(B="over-optimised"),
        but(C="over-optimised"),
    ],
    "the reward model rewards length": but(F="length-paid"),
    "the KL penalty is so large that the policy cannot move": but(E="price-high"),
    "the reward model was replaced during the run": but(B="model-renewed"),
    "the policy has collapsed: all completions of a prompt are the same": but(D="collapse"),
    "every additional token is penalized": but(D="token-tax"),
    "the sampler does not know the id of the end-of-sequence token": but(C="no-end"),
}
SO_FAR = {"5 of 6": but(F=None), "1 of 6": lambda: {"A": "price-high"}}


# --- hunt-shorter


def rewards(
    *,
    price=lambda p, q, m: p - q,
    score=lambda s, n: s,
    where=None,
    spread=False,
    clean=True,
    mask_out=True,
    sign=-1.0,
):
    """The rewards with one part changed."""

    def function(scores, logp, ref_logp, mask, kl_coef):
        if clean:
            logp, ref_logp = (torch.where(mask, x, torch.zeros_like(x)) for x in (logp, ref_logp))
        n = mask.sum(1)
        found = sign * kl_coef * price(logp, ref_logp, mask)
        if mask_out:
            found = torch.where(mask, found, torch.zeros_like(found))
        if spread:
            return found + mask * score(scores, n)[:, None]
        last = n - 1 if where is None else where(mask)
        found[torch.arange(len(scores)), last] += score(scores, n)
        return found

    return function


def by_cells(scores, logp, ref_logp, mask, kl_coef):
    found = [[0.0] * mask.shape[1] for _ in mask]
    for b, row in enumerate(mask.tolist()):
        for t, there in enumerate(row):
            if there:
                found[b][t] = kl_coef * (ref_logp[b, t].item() - logp[b, t].item())
        found[b][sum(row) - 1] += scores[b].item()
    return found


def by_scatter(scores, logp, ref_logp, mask, kl_coef):
    last = mask & ~torch.nn.functional.pad(mask[:, 1:], (0, 1))
    kl = (logp - ref_logp).masked_fill(~mask, 0.0)
    return last * scores[:, None] - kl_coef * kl


def in_numpy(scores, logp, ref_logp, mask, kl_coef):
    s, p, q, m = (x.numpy().astype("float64") for x in (scores, logp, ref_logp, mask))
    found = 0 * m
    found[m > 0] = -kl_coef * (p - q)[m > 0]
    for b in range(len(s)):
        found[b, int(m[b].sum()) - 1] += s[b]
    return found


def in_double(scores, logp, ref_logp, mask, kl_coef):
    return rewards()(scores.double(), logp.double(), ref_logp.double(), mask, kl_coef)


def suspicious(scores, logp, ref_logp, mask, kl_coef):
    found = kl_coef * ref_logp.masked_fill(~mask, 0.0)
    found[torch.arange(len(scores)), mask.sum(dim=1) - 1] += scores / mask.sum(dim=1)
    return found


def total(x, m):
    return (x * m).sum(1, keepdim=True)


def at_last(m):
    return m & (m.cumsum(1) == m.sum(1, keepdim=True))


def overwritten(scores, logp, ref_logp, mask, kl_coef):
    found = torch.where(mask, -kl_coef * (logp - ref_logp), 0.0)
    found[torch.arange(len(scores)), mask.sum(1) - 1] = scores
    return found


RIGHT["hunt-shorter"] = [rewards(), by_cells, by_scatter, in_numpy, in_double]
WRONG["hunt-shorter"] = {
    "both bugs are still there": suspicious,
    "the penalty contains only the reference": [
        rewards(price=lambda p, q, m: -q),
        rewards(price=lambda p, q, m: q),
    ],
    "the penalty does not contain the reference": [
        rewards(price=lambda p, q, m: p),
        rewards(price=lambda p, q, m: -p),
    ],
    "the score is divided by the length": rewards(score=lambda s, n: s / n),
    "distance is rewarded": rewards(sign=1.0),
    "there is no KL penalty": rewards(price=lambda p, q, m: 0 * p),
    "the penalty is an absolute value": rewards(price=lambda p, q, m: (p - q).abs()),
    "only positive log-ratios are penalized": rewards(price=lambda p, q, m: (p - q).clamp(min=0)),
    "k3 in the reward": rewards(price=lambda p, q, m: (q - p).exp() - 1 - (q - p)),
    "the score replaces the penalty of the last token": overwritten,
    "a square in the reward": [
        rewards(price=lambda p, q, m: (p - q) ** 2 / 2),
        rewards(price=lambda p, q, m: (p - q) ** 2),
    ],
    "the penalty is a mean over the completion": [
        rewards(price=lambda p, q, m: (p - q) / m.sum(1, keepdim=True)),
        rewards(price=lambda p, q, m: total(p - q, m) / m.sum(1, keepdim=True) * at_last(m)),
        rewards(price=lambda p, q, m: total(p - q, m) / m.sum(1, keepdim=True) * m),
    ],
    "the whole penalty is at the end": rewards(price=lambda p, q, m: total(p - q, m) * at_last(m)),
    "the score is in the last column": rewards(where=lambda m: torch.full((len(m),), m.shape[1] - 1)),
    "every token gets the score": rewards(spread=True),
    "the score is spread over the tokens": rewards(spread=True, score=lambda s, n: s / n),
    "the scores are centered": [
        rewards(score=lambda s, n: s - s.mean()),
        rewards(score=lambda s, n: (s - s.mean()) / s.std()),
        rewards(score=lambda s, n: (s - s.mean()) / s.std(correction=0)),
    ],
    "padding is read": lambda s, p, q, m, c: (
        rewards()(s, p, q, m, c) + 0 * torch.where(torch.isnan(p).any(1, keepdim=True), torch.nan, 0.0)
    ),
    "padding has a reward": rewards(clean=False, mask_out=False),
}
UNNAMED["hunt-shorter"] = [
    lambda s, p, q, m, c: rewards()(s / 2, p, q, m, c),
    rewards(price=lambda p, q, m: (p - q).clamp(-10, 10)),
    lambda s, p, q, m, c: rewards()(s, p, q, m, 0.5),
    lambda s, p, q, m, c: rewards()(s.clamp(max=6.0), p, q, m, c),
    rewards(price=lambda p, q, m: torch.where(p == q, 0.02, p - q)),
]
