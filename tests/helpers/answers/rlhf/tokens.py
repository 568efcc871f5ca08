"""Right and wrong answers to the log-probabilities of tokens, and to the reward of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong
from torch.nn import functional as F  # noqa: N812

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}

# --- token-logp


def scored(
    *,
    columns: Callable[[Any, int], Any] = lambda x, p: x[:, p - 1 : -1],
    fill: bool = True,
    every: Callable[[Any, float], Any] = lambda z, t: (z / t).log_softmax(-1),
    pick: Callable[[Any, Any], Any] = lambda lp, w: lp.gather(-1, w[..., None])[..., 0],
    cells: Callable[[Any], Any] = lambda mask: mask,
    ids: Callable[[Any, Any], Any] = lambda w, mask: w.masked_fill(~mask, 0),
) -> Callable[..., Any]:
    """Log-probabilities with one part changed."""

    def function(logits, inputs, prompt_columns, mask, temperature):
        ahead = columns(logits, prompt_columns)
        if fill:
            ahead = ahead.masked_fill(~mask[..., None], 0.0)
        words = ids(inputs[:, prompt_columns:], mask)
        found = pick(every(ahead, temperature), words)
        return torch.where(cells(mask), found, torch.zeros_like(found))

    return function


def with_nll(logits, inputs, prompt_columns, mask, temperature):
    words = torch.where(mask, inputs[:, prompt_columns:], -100)
    ahead = torch.where(mask[..., None], logits[:, prompt_columns - 1 : -1], torch.zeros(())) / temperature
    return -F.cross_entropy(ahead.transpose(1, 2), words, ignore_index=-100, reduction="none")


def cell_by_cell(logits, inputs, prompt_columns, mask, temperature):
    rows = []
    for b in range(len(mask)):
        cells = []
        for t in range(mask.shape[1]):
            if mask[b, t]:
                z = logits[b, prompt_columns + t - 1].double() / temperature
                cells.append(z[inputs[b, prompt_columns + t]] - torch.logsumexp(z, 0))
            else:
                cells.append(torch.zeros((), dtype=torch.float64))
        rows.append(torch.stack(cells))
    out = torch.stack(rows)
    return out + 0 * logits[mask.any(1).nonzero()[:1, 0], prompt_columns - 1].nan_to_num(0, 0, 0).sum()


def on_a_flat_list(logits, inputs, prompt_columns, mask, temperature):
    ahead = (logits[:, prompt_columns - 1 : -1][mask] / temperature).double()
    words = inputs[:, prompt_columns:][mask]
    logp = ahead[torch.arange(len(words)), words] - ahead.logsumexp(-1)
    return torch.zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, logp)


def shifted_whole(logits, inputs, prompt_columns, mask, temperature):
    """The usual shift over the whole row, and the prompt dropped at the end."""
    whole = torch.cat([torch.zeros(len(mask), prompt_columns, dtype=torch.bool), mask], 1)[:, 1:]
    z = logits[:, :-1].masked_fill(~whole[..., None], 0.0) / temperature
    words = inputs[:, 1:].masked_fill(~whole, 0)
    logp = torch.log_softmax(z, -1).gather(2, words.unsqueeze(2)).squeeze(2) * whole
    return logp[:, prompt_columns - 1 :]


def with_one_hot(logits, inputs, prompt_columns, mask, temperature):
    z = logits[:, prompt_columns - 1 : -1].masked_fill(~mask[..., None], 0.0) / temperature
    hot = F.one_hot(inputs[:, prompt_columns:].masked_fill(~mask, 0), logits.shape[-1])
    return ((z * hot).sum(-1) - z.logsumexp(-1)) * mask


def late(x, p):
    return x[:, p:]


def early(x, p):
    return torch.cat([x[:, :1], x], 1)[:, p - 1 : -2]


def drop_last(mask):
    return mask & torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1)


def whole_row(logits, inputs, prompt_columns, mask, temperature):
    return F.log_softmax(logits[:, :-1] / temperature, -1).gather(2, inputs[:, 1:, None])[..., 0]


def unfilled(logits, inputs, prompt_columns, mask, temperature):
    every = (logits[:, prompt_columns - 1 : -1] / temperature).log_softmax(-1)
    return every.gather(-1, inputs[:, prompt_columns:].masked_fill(~mask, 0)[..., None])[..., 0]


def times_the_mask(logits, inputs, prompt_columns, mask, temperature):
    return unfilled(logits, inputs, prompt_columns, mask, temperature) * mask


def filled_too_late(logits, inputs, prompt_columns, mask, temperature):
    return unfilled(logits, inputs, prompt_columns, mask, temperature).masked_fill(~mask, 0.0)


def in_place(logits, inputs, prompt_columns, mask, temperature):
    if not logits.requires_grad:
        logits.div_(2).mul_(1.5)
    return scored()(logits, inputs, prompt_columns, mask, temperature)


def filled_first(logits, inputs, prompt_columns, mask, temperature):
    """Holes filled in the whole row, then the softmax of all columns, then the shift."""
    read = torch.ones(logits.shape[:2], dtype=torch.bool)
    read[:, prompt_columns - 1 : -1] = mask
    whole = (torch.where(read[..., None], logits, 0.0) / temperature).log_softmax(-1)
    words = torch.where(mask, inputs[:, prompt_columns:], 0)
    found = torch.take_along_dim(whole[:, prompt_columns - 1 : -1], words[..., None], -1).squeeze(-1)
    return torch.where(mask, found, 0.0)


RIGHT["token-logp"] = [
    filled_first,
    with_nll,
    cell_by_cell,
    on_a_flat_list,
    shifted_whole,
    with_one_hot,
    scored(),
]
WRONG["token-logp"] = {
    "the prompt is scored too": whole_row,
    "the logits are read one column late": scored(columns=late),
    "the logits are read one column early": scored(columns=early),
    "the columns of the prompt are read": scored(columns=lambda x, p: x[:, : x.shape[1] - p]),
    "logits, not log-probabilities": scored(every=lambda z, t: z / t),
    "a probability, not its logarithm": scored(every=lambda z, t: (z / t).softmax(-1)),
    "the sign is reversed": scored(every=lambda z, t: -(z / t).log_softmax(-1)),
    "normalized along the wrong axis": [
        scored(every=lambda z, t: (z / t).log_softmax(1), fill=False),
        scored(every=lambda z, t: (z / t).log_softmax(0), fill=False),
    ],
    "the most probable word, not the sampled one": scored(pick=lambda lp, w: lp.max(-1).values),
    "the mask is inverted": scored(cells=lambda mask: ~mask, fill=False, ids=lambda w, mask: w),
    "the last token is left out": [
        scored(cells=drop_last),
        scored(cells=lambda mask: mask & (torch.arange(mask.shape[1]) < mask.shape[1] - 1)),
    ],
    "the first token is left out": scored(cells=lambda m: m & (torch.arange(m.shape[1]) > 0)),
    "padding has a log-probability": [
        lambda *a: scored()(*a).masked_fill(~a[3], -torch.inf),
        scored(cells=torch.ones_like),
        scored(cells=torch.ones_like, fill=False),
    ],
    "the temperature is not used": scored(every=lambda z, t: z.log_softmax(-1)),
    "multiplied by the temperature, not divided": scored(every=lambda z, t: (z * t).log_softmax(-1)),
    "the temperature comes after the softmax": scored(every=lambda z, t: z.log_softmax(-1) / t),
    "the temperature scales the result, too": [
        scored(every=lambda z, t: (z / t).log_softmax(-1) / t),
        scored(every=lambda z, t: (z / t).log_softmax(-1) * t),
    ],
    "the softmax underflows": [
        scored(every=lambda z, t: (z / t).softmax(-1).log()),
        scored(every=lambda z, t: z / t - (z / t).exp().sum(-1, keepdim=True).log()),
    ],
    "small probabilities have a minimum": [
        scored(every=lambda z, t: ((z / t).softmax(-1) + 1e-8).log()),
        scored(every=lambda z, t: (z / t).log_softmax(-1).clamp(min=-100)),
    ],
    "an id in the padding is looked up": [
        scored(ids=lambda w, mask: w),
        scored(ids=lambda w, mask: w.clamp(min=0)),
    ],
    "padding gets through": times_the_mask,
    "padding gets into the gradient": [scored(fill=False), filled_too_late],
    "cut off from autograd": lambda *a: scored()(*a).detach(),
    "an argument is overwritten": in_place,
}
UNNAMED["token-logp"] = [
    scored(every=lambda z, t: (z / t).clamp(min=-60).log_softmax(-1)),
    scored(every=lambda z, t: (z / max(t, 1)).log_softmax(-1)),
    scored(every=lambda z, t: (z / t).log_softmax(-1).clamp(min=-310)),
    lambda *a: scored()(*a).cumsum(1),
    scored(cells=lambda mask: mask & mask[0]),
]

# --- token-rewards


def priced(
    *,
    ratio: Callable[[Any, Any], Any] = lambda o, r: o - r,
    price: Callable[[Any, Any, float, Any], Any] = lambda x, m, beta, o: -beta * x,
    place: Callable[[Any, Any], Any] | None = None,
    kl: Callable[[Any, Any, float, Any], Any] = lambda x, m, beta, s: x.sum(1),
    fill: bool = True,
) -> Callable[..., Any]:
    """Rewards and log-ratios with one part changed; `place` puts the score."""

    def function(old, ref, mask, score, beta):
        raw = ratio(old, ref)
        x = torch.where(mask, raw, 0.0) if fill else raw
        paid = (place or at_last)(mask, score)
        return price(x, mask, beta, old) + paid, kl(x, mask, beta, score)

    return function


def at_last(mask, score):
    out = torch.zeros(mask.shape, dtype=score.dtype)
    for b, n in enumerate(mask.sum(1).tolist()):
        if n:
            out[b, n - 1] = score[b]
    return out


def at(column: Callable[[Any], Any], empty: bool = False) -> Callable[[Any, Any], Any]:
    """The score in a column that is made from the lengths."""

    def place(mask, score):
        out = torch.zeros(mask.shape, dtype=score.dtype)
        for b, n in enumerate(mask.sum(1).tolist()):
            k = column(n) if n or empty else None
            if k is not None and k < mask.shape[1]:
                out[b, k] = score[b]
        return out

    return place


def scattered(old, ref, mask, score, beta):
    kl = (old - ref).masked_fill(~mask, 0.0)
    rewards = (-beta * kl).scatter_add(
        1, (mask.sum(1, keepdim=True) - 1).clamp(min=0), (score * mask.any(1))[:, None]
    )
    return rewards, kl.sum(1)


def with_numpy(old, ref, mask, score, beta):
    o, r, m, s = (x.numpy() for x in (old, ref, mask, score))
    out, total = np.zeros(m.shape), np.zeros(len(m))
    for b in range(len(m)):
        where = np.flatnonzero(m[b])
        out[b, where] = -beta * (o[b, where].astype(float) - r[b, where])
        total[b] = (o[b, where].astype(float) - r[b, where]).sum()
        if len(where):
            out[b, where[-1]] += s[b]
    return [out, total]


def with_an_edge(old, ref, mask, score, beta):
    """The last token is where the mask goes from true to false."""
    after = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1)
    o, r = old.double().masked_fill(~mask, 0), ref.double().masked_fill(~mask, 0)
    return (mask & ~after) * score[:, None] - beta * (o - r), (o - r).sum(-1)


def overwritten(old, ref, mask, score, beta):
    kl = torch.where(mask, old - ref, 0.0)
    rewards = -beta * kl
    for b, n in enumerate(mask.sum(1).tolist()):
        if n:
            rewards[b, n - 1] = score[b]
    return rewards, kl.sum(1)


def by_where(old, ref, mask, score, beta):
    kl = torch.where(mask, old - ref, 0.0)
    last = mask & (torch.arange(mask.shape[1]) == mask.sum(1, keepdim=True) - 1)
    return torch.where(last, score[:, None], -beta * kl), kl.sum(1)


RIGHT["token-rewards"] = [priced(), scattered, with_numpy, with_an_edge]
WRONG["token-rewards"] = {
    "an empty text gets a score": [
        priced(place=at(lambda n: n - 1, empty=True)),
        lambda o, r, m, s, beta: priced(place=lambda m, s: at_last(m | (torch.arange(m.shape[1]) == 0), s))(
            o, r, m, s, beta
        ),
    ],
    "the score is in the last column, not at the last token": [
        priced(place=at(lambda n: -1)),
        priced(place=at(lambda n: -1, empty=True)),  # r[:, -1] += score
    ],
    "the score is one column behind the text": priced(place=at(lambda n: n)),
    "the score is one token before the end": priced(place=at(lambda n: max(n - 2, 0))),
    "every token gets the score": priced(place=lambda m, s: m * s[:, None]),
    "the score is shared among the tokens": priced(
        place=lambda m, s: m * (s / m.sum(1).clamp(min=1))[:, None]
    ),
    "the score is at the first token": priced(place=at(lambda n: 0)),
    "the score has the wrong sign": priced(place=lambda m, s: -at_last(m, s)),
    "the scores are normalized": [
        priced(place=lambda m, s: at_last(m, s - s.mean())),
        priced(place=lambda m, s: at_last(m, (s - s.mean()) / s.std())),
        priced(place=lambda m, s: at_last(m, s / s.std(correction=0))),
    ],
    "the score of another text": [
        priced(place=lambda m, s: at_last(m, s.flip(0))),
        priced(place=lambda m, s: at_last(m, s[0].expand(len(s)))),
    ],
    "every text gets the mean score": priced(place=lambda m, s: at_last(m, s.mean().expand(len(s)))),
    "the score is multiplied by beta": lambda o, r, m, s, beta: priced()(o, r, m, beta * s, beta),
    "the score is missing": priced(place=lambda m, s: 0 * m * s[:, None]),
    "the two policies are exchanged": priced(ratio=lambda o, r: r - o),
    "distance is rewarded": priced(price=lambda x, m, beta, o: beta * x),
    "padding has a penalty": [
        lambda o, r, m, s, beta: (at_last(m, s) - beta * (o - r), ((o - r) * m).sum(1)),
        lambda o, r, m, s, beta: (at_last(m, s) - beta * (o - r), (o - r).sum(1)),
    ],
    "the penalty is not multiplied by beta": priced(price=lambda x, m, beta, o: -x * (beta > 0)),
    "divided by beta": priced(price=lambda x, m, beta, o: -x / beta if beta else 0 * x),
    "one of the two policies is not used": [
        priced(ratio=lambda o, r: o),
        priced(ratio=lambda o, r: -r),
    ],
    "a square, not the log-ratio": [
        priced(price=lambda x, m, beta, o: -beta * 0.5 * x**2),
        priced(price=lambda x, m, beta, o: -beta * x**2),
    ],
    "k3, not the log-ratio": priced(price=lambda x, m, beta, o: -beta * ((-x).exp() - 1 + x)),
    "the absolute log-ratio": priced(price=lambda x, m, beta, o: -beta * x.abs()),
    "negative log-ratios are dropped": priced(price=lambda x, m, beta, o: -beta * x.clamp(min=0)),
    "the score replaces the penalty of the last token": [overwritten, by_where],
    "a ratio of probabilities, not its logarithm": [
        priced(price=lambda x, m, beta, o: -beta * (x.exp() - 1) * m),
        priced(price=lambda x, m, beta, o: -beta * x.exp() * m),
    ],
    "weighted by the probability once more": priced(price=lambda x, m, beta, o: -beta * o.exp() * x),
    "the penalty of the whole text is at its last token": priced(
        price=lambda x, m, beta, o: at_last(m, -beta * x.sum(1))
    ),
    "every token pays for the whole text": priced(
        price=lambda x, m, beta, o: -beta * x.sum(1, keepdim=True) * m
    ),
    "every token pays the mean": priced(
        price=lambda x, m, beta, o: -beta * (x.sum(1) / m.sum(1).clamp(min=1))[:, None] * m
    ),
    "the penalty is missing": priced(price=lambda x, m, beta, o: 0 * x),
    "the log-ratio of a text has the wrong sign": priced(kl=lambda x, m, beta, s: -x.sum(1)),
    "a mean over tokens, not a sum": [
        priced(kl=lambda x, m, beta, s: x.mean(1)),
        priced(kl=lambda x, m, beta, s: x.sum(1) / m.sum(1)),
        priced(kl=lambda x, m, beta, s: x.sum(1) / m.sum(1).clamp(min=1)),
    ],
    "the log-ratio of a text is multiplied by beta": [
        priced(kl=lambda x, m, beta, s: beta * x.sum(1)),
        priced(kl=lambda x, m, beta, s: -beta * x.sum(1)),
    ],
    "the log-ratios of padding are in the sum": lambda o, r, m, s, beta: (
        priced()(o, r, m, s, beta)[0],
        (o - r).sum(1),
    ),
    "k3, not the log-ratio of the text": [
        priced(kl=lambda x, m, beta, s: ((-x).exp() - 1 + x).sum(1)),
        priced(kl=lambda x, m, beta, s: (-x.sum(1)).exp() - 1 + x.sum(1)),
    ],
    "only the last token's log-ratio": priced(
        kl=lambda x, m, beta, s: x.gather(1, (m.sum(1, keepdim=True) - 1).clamp(min=0))[:, 0]
    ),
    "negative log-ratios are changed": [
        priced(kl=lambda x, m, beta, s: x.clamp(min=0).sum(1)),
        priced(kl=lambda x, m, beta, s: x.abs().sum(1)),
    ],
    "the score is in the log-ratio": priced(kl=lambda x, m, beta, s: x.sum(1) + s),
    "padding gets through": [
        priced(
            ratio=lambda o, r: o - r,
            fill=False,
            price=lambda x, m, beta, o: -beta * x * m,
            kl=lambda x, m, beta, s: (x * m).sum(1),
        ),
        lambda o, r, m, s, beta: (priced()(o, r, m, s, beta)[0], ((o - r) * m).sum(1)),
    ],
    "an argument is overwritten": lambda o, r, m, s, beta: (
        o.sub_(r).masked_fill_(~m, 0).mul_(-beta).add_(at_last(m, s)),
        (o - r).sum(1),
    ),
}
UNNAMED["token-rewards"] = [
    priced(place=lambda m, s: at_last(m, s / 2)),
    priced(place=lambda m, s: at_last(m, s.clamp(max=15))),
    priced(ratio=lambda o, r: (o - r).clamp(-20, 20)),
    priced(kl=lambda x, m, beta, s: x.sum(1).clamp(min=0)),
    priced(price=lambda x, m, beta, o: -beta * x.clamp(-2, 2)),
    priced(place=lambda m, s: at_last(m, s.clamp(min=0))),
]
