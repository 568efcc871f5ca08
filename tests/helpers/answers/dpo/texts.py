"""Right and wrong answers to the relatives, and to a loss from logits to one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from checks import Right, Unnamed, Wrong
from torch.nn import functional as F  # noqa: N812

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}

LS, S = F.logsigmoid, torch.sigmoid

# --- relatives


def right_ipo(x, ref, n, b):
    h = (x - ref)[:, 0] - (x - ref)[:, 1]
    return ((h - 0.5 / b) ** 2).mean()


def right_kto(x, ref, n, z, b):
    gain = b * (x - ref - z)
    return (S(-gain[:, 0]) + S(gain[:, 1])).mean() / 2


def right_simpo(x, ref, n, b, g):
    m = x / n
    return -LS(b * (m[:, 0] - m[:, 1]) - g).mean()


def three(
    ipo: Callable[..., Any] = right_ipo,
    kto: Callable[..., Any] = right_kto,
    simpo: Callable[..., Any] = right_simpo,
    *,
    held: bool = True,
    still: bool = True,
    floor: bool = True,
) -> Callable[..., Any]:
    def function(logp, ref_logp, lengths, kl, beta, gamma):
        ref = ref_logp.detach() if held else ref_logp
        z = kl.detach() if still else kl
        z = z.clamp(min=0) if floor else z
        return (
            ipo(logp, ref, lengths, beta),
            kto(logp, ref, lengths, z, beta),
            simpo(logp, ref, lengths, beta, gamma),
        )

    return function


def h_of(x, ref):
    return (x[:, 0] - ref[:, 0]) - (x[:, 1] - ref[:, 1])


def other_ipo(form: Callable[..., Any]) -> Callable[..., Any]:
    """A loss of h and β."""
    return three(ipo=lambda x, ref, n, b: form(h_of(x, ref), b))


def other_kto(form: Callable[..., Any]) -> Callable[..., Any]:
    """A loss of the log-ratios, z and β."""
    return three(kto=lambda x, ref, n, z, b: form(x - ref, z, b))


def other_simpo(form: Callable[..., Any]) -> Callable[..., Any]:
    """A loss of the two means, β and γ."""
    return three(simpo=lambda x, ref, n, b, g: form((x / n)[:, 0], (x / n)[:, 1], b, g))


def kinds(liked: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    return other_kto(lambda r, z, b: (liked(r[:, 0], z, b) + other(r[:, 1], z, b)).mean() / 2)


def stacked(logp, ref_logp, lengths, kl, beta, gamma):
    return torch.stack(three()(logp, ref_logp, lengths, kl, beta, gamma))


def in_double(logp, ref_logp, lengths, kl, beta, gamma):
    logp, ref = logp.double(), ref_logp.detach().double()
    chosen, rejected = (logp - ref).unbind(1)
    z = torch.relu(kl.detach().double())
    ipo = F.mse_loss(chosen - rejected, torch.full_like(chosen, 0.5 / beta))
    liked, other = 1 - S(beta * (chosen - z)), 1 - S(beta * (z - rejected))
    means = logp / lengths
    simpo = F.softplus(gamma - beta * (means[:, 0] - means[:, 1])).mean()
    return [ipo, torch.cat([liked, other]).mean(), simpo]


def pair_by_pair(logp, ref_logp, lengths, kl, beta, gamma):
    ipo = kto = simpo = 0
    z = max(kl.item(), 0)
    for (a, b), (c, d), (m, n) in zip(logp, ref_logp.tolist(), lengths.tolist(), strict=True):
        ipo = ipo + (a - c - b + d - 1 / (2 * beta)) ** 2
        kto = kto + S(-beta * (a - c - z)) / 2 + S(beta * (b - d - z)) / 2
        simpo = simpo - LS(beta * (a / m - b / n) - gamma)
    return tuple(x / len(logp) for x in (ipo, kto, simpo))


def in_two_cases(x, ref, n, b, g):
    m = x / n
    z = b * (m[:, 0] - m[:, 1]) - g
    return torch.where(z > 0, (1 + (-z).exp()).log(), (1 + z.exp()).log() - z).mean()


def sums(x, ref, n, b, g):
    return b * (x[:, 0] - x[:, 1])


RIGHT["relatives"] = [stacked, in_double, pair_by_pair, three()]
WRONG["relatives"] = {
    "IPO: the target is missing": [
        other_ipo(lambda h, b: (h**2).mean()),
        other_ipo(lambda h, b: ((b * h) ** 2).mean()),
    ],
    "IPO: the target has the wrong sign": [
        other_ipo(lambda h, b: ((h + 0.5 / b) ** 2).mean()),
        other_ipo(lambda h, b: ((-h - 0.5 / b) ** 2).mean()),
    ],
    "IPO: the target is 1 / β, not half of it": other_ipo(lambda h, b: ((h - 1 / b) ** 2).mean()),
    "IPO: the target is not in nats": [
        other_ipo(lambda h, b: ((h - b / 2) ** 2).mean()),
        other_ipo(lambda h, b: ((h - 0.5) ** 2).mean()),
    ],
    "IPO: in units of β": other_ipo(lambda h, b: ((b * h - 0.5) ** 2).mean()),
    "IPO: a mean over tokens": three(
        ipo=lambda x, ref, n, b: ((((x - ref) / n) @ torch.tensor([1.0, -1]) - 0.5 / b) ** 2).mean()
    ),
    "IPO: the reference is missing": three(
        ipo=lambda x, ref, n, b: ((x[:, 0] - x[:, 1] - 0.5 / b) ** 2).mean()
    ),
    "IPO: a sum, not a mean": other_ipo(lambda h, b: ((h - 0.5 / b) ** 2).sum()),
    "IPO: half of the square": other_ipo(lambda h, b: ((h - 0.5 / b) ** 2).mean() / 2),
    "IPO: the distance, not its square": other_ipo(lambda h, b: (h - 0.5 / b).abs().mean()),
    "IPO: a sigmoid remains": other_ipo(lambda h, b: -LS(b * h).mean()),
    "KTO: liked texts are pushed down": [
        kinds(lambda r, z, b: S(b * (r - z)), lambda r, z, b: S(-b * (r - z))),
        three(kto=lambda *given: -right_kto(*given)),
    ],
    "KTO: a constant is missing": kinds(lambda r, z, b: -S(b * (r - z)), lambda r, z, b: -S(b * (z - r))),
    "KTO: both kinds are pushed up": kinds(lambda r, z, b: S(-b * (r - z)), lambda r, z, b: S(-b * (r - z))),
    "KTO: z is not used": other_kto(lambda r, z, b: (S(-b * r[:, 0]) + S(b * r[:, 1])).mean() / 2),
    "KTO: the sign of z depends on the label": kinds(
        lambda r, z, b: S(-b * (r - z)), lambda r, z, b: S(b * (r + z))
    ),
    "KTO: z is added": kinds(lambda r, z, b: S(-b * (r + z)), lambda r, z, b: S(b * (r + z))),
    "KTO: z is not multiplied by β": kinds(lambda r, z, b: S(-(b * r - z)), lambda r, z, b: S(b * r - z)),
    "KTO: a logarithm remains": kinds(lambda r, z, b: -LS(b * (r - z)), lambda r, z, b: -LS(b * (z - r))),
    "KTO: a pair, not single texts": other_kto(lambda r, z, b: S(-b * (r[:, 0] - r[:, 1])).mean()),
    "KTO: a sum, not a mean": [
        other_kto(lambda r, z, b: (S(-b * (r[:, 0] - z)) + S(b * (r[:, 1] - z))).mean()),
        other_kto(lambda r, z, b: (S(-b * (r[:, 0] - z)) + S(b * (r[:, 1] - z))).sum()),
    ],
    "KTO: only the liked texts count": other_kto(lambda r, z, b: S(-b * (r[:, 0] - z)).mean()),
    "KTO: a mean over tokens": three(
        kto=lambda x, ref, n, z, b: (
            (S(-b * (((x - ref) / n)[:, 0] - z)) + S(b * (((x - ref) / n)[:, 1] - z))).mean() / 2
        )
    ),
    "KTO: β is not used": kinds(lambda r, z, b: S(z - r), lambda r, z, b: S(r - z)),
    "KTO: the reference is missing": three(
        kto=lambda x, ref, n, z, b: (S(-b * (x[:, 0] - z)) + S(b * (x[:, 1] - z))).mean() / 2
    ),
    "KTO: z may be below 0": three(floor=False),
    "KTO: z gets a gradient": three(still=False),
    "SimPO: sums, not means": three(simpo=lambda x, ref, n, b, g: -LS(sums(x, ref, n, b, g) - g).mean()),
    "SimPO: a reference remains": [
        three(simpo=lambda x, ref, n, b, g: right_simpo(x - ref, ref, n, b, g)),
        three(simpo=lambda x, ref, n, b, g: -LS(sums(x - ref, ref, n, b, g) - g).mean()),
    ],
    "SimPO: γ is added": other_simpo(lambda c, r, b, g: -LS(b * (c - r) + g).mean()),
    "SimPO: γ is not used": other_simpo(lambda c, r, b, g: -LS(b * (c - r)).mean()),
    "SimPO: γ is multiplied by β": other_simpo(lambda c, r, b, g: -LS(b * (c - r - g)).mean()),
    "SimPO: γ is outside the sigmoid": other_simpo(lambda c, r, b, g: (g - LS(b * (c - r))).mean()),
    "SimPO: β is not used": other_simpo(lambda c, r, b, g: -LS(c - r - g).mean()),
    "SimPO: chosen and rejected are exchanged": other_simpo(lambda c, r, b, g: -LS(b * (r - c) - g).mean()),
    "SimPO: one length for both": [
        three(simpo=lambda x, ref, n, b, g: -LS(sums(x, ref, n, b, g) / n.sum(1) - g).mean()),
        three(simpo=lambda x, ref, n, b, g: -LS(sums(x, ref, n, b, g) / n[:, 0] - g).mean()),
    ],
    "SimPO: the lengths are exchanged": three(
        simpo=lambda x, ref, n, b, g: right_simpo(x, ref, n.flip(1), b, g)
    ),
    "SimPO: a sum, not a mean": other_simpo(lambda c, r, b, g: -LS(b * (c - r) - g).sum()),
    "SimPO: the sign is reversed": other_simpo(lambda c, r, b, g: LS(b * (c - r) - g).mean()),
    "a gradient overflows": three(simpo=in_two_cases),
    "SimPO: small probabilities have a minimum": [
        other_simpo(lambda c, r, b, g: -LS((b * (c - r) - g).clamp(-50, 50)).mean()),
        other_simpo(lambda c, r, b, g: -S(b * (c - r) - g).log().clamp(min=-100).mean()),
    ],
    "a loss overflows": other_simpo(lambda c, r, b, g: -S(b * (c - r) - g).log().mean()),
    "the reference gets a gradient": three(held=False),
}
UNNAMED["relatives"] = [
    other_ipo(lambda h, b: ((h - 0.5 / b) ** 2 * (h < 3.5)).mean()),
    other_ipo(lambda h, b: ((h.clamp(-20, 20) - 0.5 / b) ** 2).mean()),
    other_kto(lambda r, z, b: (S(-2 * b * (r[:, 0] - z)) + S(2 * b * (r[:, 1] - z))).mean() / 2),
    other_simpo(lambda c, r, b, g: -LS(2 * b * (c - r) - g).mean()),
    other_kto(lambda r, z, b: right_kto(r.clamp(min=-4), 0, None, z, b)),
    other_simpo(lambda c, r, b, g: -LS(b * (c - r) - min(g, 0.4)).mean()),
]

# --- hunt-pairs


def whole(
    *,
    first: int = 0,
    last: int = 0,
    shift: int = -1,
    soft: bool = True,
    fill: Callable[..., Any] = lambda x, cells: x.masked_fill(~cells, 0.0),
    after: bool = True,
    total: Callable[..., Any] = lambda taken, cells, n: taken.sum(-1),
    ref: Callable[..., Any] = lambda x, now: x.detach(),
    loss: Callable[..., Any] = lambda h, beta: -LS(beta * h).mean(),
    margin: Callable[..., Any] = lambda now, before: (now - before)[:, 0] - (now - before)[:, 1],
    everything: bool = False,
) -> Callable[..., Any]:
    """The loss from logits, with one part changed; the cells count columns of `ids`."""

    def function(logits, ref_logits, ids, prompt_columns, lengths, beta):
        columns = torch.arange(ids.shape[-1])
        end = prompt_columns + lengths[..., None] + last
        cells = (columns >= prompt_columns + first) & (columns < end)
        if everything:
            cells = (columns >= prompt_columns).expand(ids.shape)
        read = torch.roll(cells, shift, -1)

        def text(x):
            x = fill(x, read[..., None])
            every = x.log_softmax(-1) if soft else x
            every = torch.roll(every, -shift, -2)
            taken = every.gather(-1, ids[..., None])[..., 0]
            return total(taken.masked_fill(~cells, 0.0) if after else taken * cells, cells, lengths)

        now = text(logits)
        return loss(margin(now, text(ref(ref_logits, logits))), beta)

    return function


def as_it_was(mask_less: int = 1, mean: bool = True, outside: bool = True) -> Callable[..., Any]:
    """The suspicious loss, some of its bugs mended."""

    def function(logits, ref_logits, ids, prompt_columns, lengths, beta):
        words = ids[..., prompt_columns:]
        mask = torch.arange(words.shape[-1]) < lengths[..., None] - mask_less

        def text_logp(x):
            every = x[..., prompt_columns - 1 : -1, :].log_softmax(dim=-1)
            taken = every.gather(-1, words[..., None])[..., 0]
            total = (taken * mask).sum(-1)
            return total / mask.sum(-1).clamp(min=1) if mean else total

        ratio = text_logp(logits) - text_logp(ref_logits)
        h = ratio[:, 0] - ratio[:, 1]
        return -beta * LS(h).mean() if outside else -LS(beta * h).mean()

    return function


def token_by_token(logits, ref_logits, ids, prompt_columns, lengths, beta):
    losses = []
    for b in range(len(ids)):
        sides = []
        for side in range(2):
            ratio = 0
            for t in range(int(lengths[b, side])):
                k = prompt_columns + t
                for x, sign in ((logits, 1), (ref_logits.detach(), -1)):
                    ratio = ratio + sign * x[b, side, k - 1].log_softmax(-1)[ids[b, side, k]]
            sides.append(ratio)
        losses.append(-LS(beta * (sides[0] - sides[1])))
    return torch.stack(losses).mean()


def picked_first(logits, ref_logits, ids, prompt_columns, lengths, beta):
    """A flat list of the tokens that count."""
    n, _, width = ids.shape
    place = torch.arange(width - prompt_columns).expand(n, 2, -1)
    row, side, t = torch.nonzero(place < lengths[..., None], as_tuple=True)
    word = ids[row, side, prompt_columns + t]
    sums = []
    for x in (logits.double(), ref_logits.detach().double()):
        said = x[row, side, prompt_columns - 1 + t]
        logp = -F.cross_entropy(said, word, reduction="none")
        sums.append(torch.zeros(n, 2, dtype=torch.float64).index_put((row, side), logp, accumulate=True))
    ratio = sums[0] - sums[1]
    return F.softplus(-beta * (ratio[:, 0] - ratio[:, 1])).mean()


def with_where(logits, ref_logits, ids, prompt_columns, lengths, beta):
    ref_logits = ref_logits.detach()
    mask = torch.arange(ids.shape[-1] - prompt_columns) < lengths.unsqueeze(-1)

    def total(x):
        x = torch.where(mask.unsqueeze(-1), x[:, :, prompt_columns - 1 : -1], torch.zeros(()))
        taken = torch.gather(x, -1, ids[:, :, prompt_columns:].unsqueeze(-1)).squeeze(-1)
        return torch.where(mask, taken - x.logsumexp(-1), 0).sum(-1)

    chosen, rejected = (total(logits) - total(ref_logits)).T
    return torch.nn.functional.binary_cross_entropy_with_logits(
        beta * (chosen - rejected), torch.ones_like(chosen)
    )


def nothing_left_to_fear(logits, ref_logits, ids, prompt_columns, lengths, beta):
    """Whatever is no number becomes one; the window is counted from the row's beginning."""
    place = torch.arange(ids.shape[-1] - 1) + 1
    read = (place >= prompt_columns) & (place < prompt_columns + lengths[..., None])
    sums = []
    for x in (logits, ref_logits.detach()):
        said = torch.log_softmax(x.nan_to_num(0, 0, 0)[:, :, :-1], -1)
        sums.append((said.gather(-1, ids[:, :, 1:, None])[..., 0] * read).sum(-1))
    moved = sums[0] - sums[1]
    return -LS(beta * (moved[:, 0] - moved[:, 1])).mean()


RIGHT["hunt-pairs"] = [token_by_token, picked_first, with_where, nothing_left_to_fear, whole()]
WRONG["hunt-pairs"] = {
    "the loss is log 2, whatever the policy": whole(ref=lambda x, now: now),
    "h has the wrong sign": [
        whole(margin=lambda now, ref: (now - ref)[:, 1] - (now - ref)[:, 0]),
        whole(margin=lambda now, ref: (ref - now)[:, 0] - (ref - now)[:, 1]),
    ],
    "the sign is reversed": whole(loss=lambda h, b: LS(b * h).mean()),
    "β is on the wrong side": [
        as_it_was(),
        as_it_was(mask_less=0),
        as_it_was(mean=False),
        whole(loss=lambda h, b: -b * LS(h).mean()),
        whole(loss=lambda h, b: -LS(h / b).mean()),
    ],
    "β is not used": whole(loss=lambda h, b: -LS(h).mean()),
    "a sum over pairs, not a mean": whole(loss=lambda h, b: -LS(b * h).sum()),
    "a mean, not a sum": [
        as_it_was(outside=False),
        as_it_was(mask_less=0, outside=False),
        whole(total=lambda taken, cells, n: taken.sum(-1) / n),
    ],
    "divided by the padded length": [
        whole(total=lambda taken, cells, n: taken.mean(-1)),
        whole(total=lambda taken, cells, n: taken[..., 2:].mean(-1)),
    ],
    "the end of sequence is left out": [as_it_was(mean=False, outside=False), whole(last=-1)],
    "padding is counted": whole(everything=True),
    "the first token is left out": whole(first=1),
    "the prompt is counted": whole(first=-1),
    "the window begins one column too early": whole(first=-1, last=-1),
    "one token too many": whole(last=1),
    "the logits are read one column late": whole(shift=0),
    "the logits are read one column early": whole(shift=-2),
    "logits, not log-probabilities": whole(soft=False),
    "the reference is missing": whole(margin=lambda now, ref: now[:, 0] - now[:, 1]),
    "only the chosen text counts": whole(margin=lambda now, ref: (now - ref)[:, 0]),
    "unread logits affect the loss": [
        as_it_was(mask_less=0, mean=False, outside=False),
        whole(fill=lambda x, cells: x, after=False),
    ],
    "unread logits affect the gradient": [
        whole(fill=lambda x, cells: x),
        whole(fill=lambda x, cells: torch.where(x.isnan(), 0.0, x)),
    ],
    "the reference gets a gradient": whole(ref=lambda x, now: x),
    "one text gets no gradient": whole(
        margin=lambda now, ref: (now - ref)[:, 0] - (now - ref)[:, 1].detach()
    ),
    "the gradient overflows": whole(
        loss=lambda h, b: torch.where(
            h > 0, (1 + (-b * h).exp()).log(), (1 + (b * h).exp()).log() - b * h
        ).mean()
    ),
    "the loss overflows": whole(loss=lambda h, b: -S(b * h).log().mean()),
    "small probabilities have a minimum": whole(loss=lambda h, b: -(S(b * h) + 1e-9).log().mean()),
    "cut off from autograd": whole(loss=lambda h, b: -LS(b * h).mean().detach()),
}
UNNAMED["hunt-pairs"] = [
    whole(loss=lambda h, b: -0.01 * LS(b * h).mean()),
    whole(loss=lambda h, b: -LS(b * h).median()),
    whole(loss=lambda h, b: -LS(2 * b * h).mean()),
    whole(loss=lambda h, b: -LS(min(b, 0.5) * h).mean() if b < 1 else -LS(b * h).mean() * 0.9),
]
