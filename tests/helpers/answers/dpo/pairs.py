"""Right and wrong answers to one pair by hand, the loss from four numbers, and where a pair rests."""

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

LS, S = F.logsigmoid, torch.sigmoid

# --- pair-by-hand


def sigma(x):
    return 1 / (1 + math.exp(-x))


def hand(**changed: Any) -> Callable[[], Any]:
    numbers = {"ratios": [1.7, -0.9], "h": 2.6, "chance": 0.786, "loss": 0.241, "weight": 0.107}
    return lambda: tuple((numbers | changed).values())


RIGHT["pair-by-hand"] = [
    hand(),
    hand(chance=sigma(1.3), loss=-math.log(sigma(1.3)), weight=0.5 * sigma(-1.3)),
    lambda: [np.array([1.7, -0.9]), np.float64(2.6), torch.tensor(0.7858), 0.2413, torch.tensor([0.1071])[0]],
]
WRONG["pair-by-hand"] = {
    "policy and reference are exchanged": hand(ratios=[-1.7, 0.9]),
    "chosen and rejected are exchanged": hand(ratios=[-0.9, 1.7]),
    "the prompt is counted": hand(ratios=[2.0, -0.6]),
    "the end of sequence is left out": hand(ratios=[1.0, -1.1]),
    "padding is counted": hand(ratios=[-0.3, -0.9]),
    "a mean, not a sum": [hand(ratios=[0.425, -0.18]), hand(ratios=[0.34, -0.18])],
    "the reference is not subtracted": hand(ratios=[-2.4, -4.7]),
    "a ratio, not its logarithm": hand(ratios=[math.exp(1.7), math.exp(-0.9)]),
    "h has the wrong sign": hand(h=-2.6),
    "the ratios are added, not subtracted": hand(h=0.8),
    "h has β in it": hand(h=1.3),
    "the probability is without β": hand(chance=sigma(2.6)),
    "the probability of the rejected text": hand(chance=0.214),
    "β divides": hand(chance=sigma(5.2)),
    "the loss has the wrong sign": hand(loss=-0.241),
    "the loss belongs to the other choice": hand(loss=1.541),
    "β is in front of the loss": [hand(loss=0.1206), hand(loss=0.0358)],
    "the loss is without β": hand(loss=0.0716),
    "the weight is without β": hand(weight=0.214),
    "the weight is certainty, not surprise": [hand(weight=0.393), hand(weight=0.786)],
    "the weight belongs to the first step": hand(weight=0.25),
}
UNNAMED["pair-by-hand"] = [hand(ratios=[1.6, -0.9]), hand(chance=0.9), hand(weight=0.3)]

# --- dpo-loss


def four(
    loss: Callable[..., Any] = lambda z, eps: -((1 - eps) * LS(z) + eps * LS(-z)).mean(),
    margin: Callable[..., Any] = lambda c, r, rc, rr, beta: beta * ((c - rc) - (r - rr)),
    held: bool = True,
) -> Callable[..., Any]:
    """The loss from βh, and βh from the four numbers."""

    def function(chosen, rejected, ref_chosen, ref_rejected, beta, label_smoothing):
        if held:
            ref_chosen, ref_rejected = ref_chosen.detach(), ref_rejected.detach()
        return loss(margin(chosen, rejected, ref_chosen, ref_rejected, beta), label_smoothing)

    return function


def by_entropy(chosen, rejected, ref_chosen, ref_rejected, beta, label_smoothing):
    with torch.no_grad():
        level = ref_chosen - ref_rejected
    z = beta * (chosen - rejected - level)
    return F.binary_cross_entropy_with_logits(z, torch.full_like(z, 1 - label_smoothing))


def by_softplus(chosen, rejected, ref_chosen, ref_rejected, beta, label_smoothing):
    z = (chosen.double() - ref_chosen.double().detach()) - (rejected - ref_rejected.detach())
    z = z * beta
    return (F.softplus(-z) + label_smoothing * z).mean()


def by_classes(chosen, rejected, ref_chosen, ref_rejected, beta, label_smoothing):
    """Two classes, the softmax of the implicit rewards."""
    rewards = beta * torch.stack([chosen - ref_chosen.detach(), rejected - ref_rejected.detach()], 1)
    chance = rewards.log_softmax(1)
    return -((1 - label_smoothing) * chance[:, 0] + label_smoothing * chance[:, 1]).mean()


def one_by_one(chosen, rejected, ref_chosen, ref_rejected, beta, label_smoothing):
    total = 0
    for a, b, c, d in zip(chosen, rejected, ref_chosen.tolist(), ref_rejected.tolist(), strict=True):
        z = beta * ((a - c) - (b - d))
        total = total - (1 - label_smoothing) * LS(z) - label_smoothing * LS(-z)
    return total / len(chosen)


def with_a_corner(z, eps):
    """No large exponential, and the slopes of both pieces at 0 are 1 and 0."""

    def surprise(x):
        return (-x).clamp(min=0) + torch.log1p(torch.exp(-x.abs()))

    return ((1 - eps) * surprise(z) + eps * surprise(-z)).mean()


def two_cases(z, eps):
    """Each value from the formula that is safe for it, and both formulas on the way back."""

    def chance(x):
        return torch.where(x > 0, -(1 + (-x).exp()).log(), x - (1 + x.exp()).log())

    return -((1 - eps) * chance(z) + eps * chance(-z)).mean()


RIGHT["dpo-loss"] = [by_entropy, by_softplus, by_classes, one_by_one]
WRONG["dpo-loss"] = {
    "the sign is reversed": four(lambda z, e: ((1 - e) * LS(z) + e * LS(-z)).mean()),
    "h has the wrong sign": [
        four(margin=lambda c, r, rc, rr, b: b * ((r - rr) - (c - rc))),
        four(margin=lambda c, r, rc, rr, b: b * ((rc - c) - (rr - r))),
    ],
    "a sum, not a mean": four(lambda z, e: -((1 - e) * LS(z) + e * LS(-z)).sum()),
    "β is on the wrong side": [
        lambda c, r, rc, rr, b, e: -b * LS((c - rc) - (r - rr)).mean(),
        four(margin=lambda c, r, rc, rr, b: ((c - rc) - (r - rr)) / b),
        lambda c, r, rc, rr, b, e: -LS((c - rc) - (r - rr)).mean() / b,
    ],
    "β is not used": four(margin=lambda c, r, rc, rr, b: (c - rc) - (r - rr)),
    "the reference is missing": four(margin=lambda c, r, rc, rr, b: b * (c - r)),
    "the log-ratios mix the two texts": [
        four(margin=lambda c, r, rc, rr, b: b * ((c - rr) - (r - rc))),
        four(margin=lambda c, r, rc, rr, b: b * (c - r - (rr - rc))),
        four(margin=lambda c, r, rc, rr, b: b * (c - rc - rr)),
    ],
    "a probability, not its logarithm": [four(lambda z, e: -S(z).mean()), four(lambda z, e: S(-z).mean())],
    "the margins are averaged first": four(lambda z, e: -LS(z.mean())),
    "each text has its own sigmoid": lambda c, r, rc, rr, b, e: (
        -(LS(b * (c - rc)) + LS(-b * (r - rr))).mean()
    ),
    "only the chosen text counts": [
        lambda c, r, rc, rr, b, e: -LS(b * (c - rc)).mean(),
        lambda c, r, rc, rr, b, e: -(c - rc).mean(),
        lambda c, r, rc, rr, b, e: -c.mean(),
    ],
    "a hinge, not a logarithm": four(lambda z, e: (1 - z).clamp(min=0).mean()),
    "the margin itself": four(lambda z, e: -z.mean()),
    "a logarithm with another base": four(lambda z, e: -LS(z).mean() / math.log(2)),
    "label smoothing is not used": four(lambda z, e: -LS(z).mean()),
    "the smoothed weights are exchanged": lambda c, r, rc, rr, b, e: (
        four()(c, r, rc, rr, b, 1 - e) if e else four()(c, r, rc, rr, b, e)
    ),
    "the loss is scaled, not smoothed": [
        four(lambda z, e: -(1 - e) * LS(z).mean()),
        four(lambda z, e: -(1 - 2 * e) * LS(z).mean()),
    ],
    "the second case is subtracted": [
        four(lambda z, e: (-(1 - e) * LS(z) + e * LS(-z)).mean()),
        four(lambda z, e: (-(1 - e) * LS(z) + e * LS(-z)).mean() / (1 - 2 * e)),
    ],
    "half of the smoothing": four(lambda z, e: -((1 - e / 2) * LS(z) + e / 2 * LS(-z)).mean()),
    "the weights do not add up to 1": four(lambda z, e: -(LS(z) + e * LS(-z)).mean()),
    "the margin is smoothed, not the label": four(lambda z, e: -LS((1 - 2 * e) * z).mean()),
    "the loss overflows": [
        four(lambda z, e: -((1 - e) * S(z).log() + e * S(-z).log()).mean()),
        four(lambda z, e: ((1 - e) * (1 + (-z).exp()).log() + e * (1 + z.exp()).log()).mean()),
    ],
    "small probabilities have a minimum": [
        four(lambda z, e: -((1 - e) * (S(z) + 1e-10).log() + e * (S(-z) + 1e-10).log()).mean()),
        four(lambda z, e: -((1 - e) * LS(z.clamp(-50, 50)) + e * LS(-z.clamp(-50, 50))).mean()),
    ],
    "the gradient overflows": four(two_cases),
    "the reference gets a gradient": four(held=False),
    "one text gets no gradient": four(margin=lambda c, r, rc, rr, b: b * ((c - rc) - (r.detach() - rr))),
    "the slope is wrong at h = 0": four(with_a_corner),
    "the weight is detached": four(
        lambda z, e: -((1 - e) * LS(z) + e * LS(-z)).mean().detach() - (z - z.detach()).mean() / 2
    ),
    "cut off from autograd": four(lambda z, e: -((1 - e) * LS(z) + e * LS(-z)).mean().detach()),
    "an argument is overwritten": lambda c, r, rc, rr, b, e: four()(c, r, rc.mul_(1.5), rr, b, e),
}
UNNAMED["dpo-loss"] = [
    four(lambda z, e: -((1 - e) * LS(z) + e * LS(-z)).median()),
    four(margin=lambda c, r, rc, rr, b: min(b, 1.0) * ((c - rc) - (r - rr))),
    four(margin=lambda c, r, rc, rr, b: 2 * b * ((c - rc) - (r - rr))),
]

# --- pair-rest


def smoothed(share, eps):
    return share * (1 - eps) + (1 - share) * eps


def at_rest(
    push: Callable[..., Any] = lambda h, p, q, b: b * (q - S(b * h)),
    rest: Callable[..., Any] = lambda h, p, q, b: torch.logit(q) / b,
    share: Callable[..., Any] = smoothed,
    both: bool = True,
) -> Callable[..., Any]:
    """The two results, each from h, the share, the smoothed share and β."""

    def function(h, p, beta, label_smoothing):
        q = share(p, label_smoothing)
        return push(h, p, q if both else p, beta), rest(h, p, q, beta)

    return function


def by_autograd(h, share, beta, label_smoothing):
    h = h.double().requires_grad_()
    q = smoothed(share.double(), label_smoothing)
    loss = -(q * LS(beta * h) + (1 - q) * LS(-beta * h)).sum()
    return -torch.autograd.grad(loss, h)[0], (q.log() - (1 - q).log()) / beta


def in_numpy(h, share, beta, label_smoothing):
    h, share = h.double().numpy(), share.double().numpy()
    q = share + label_smoothing - 2 * share * label_smoothing
    with np.errstate(over="ignore", divide="ignore"):
        return beta * (q - 1 / (1 + np.exp(-beta * h))), np.log(q / (1 - q)) / beta


def in_lists(h, share, beta, label_smoothing):
    pushes, rests = [], []
    for x, p in zip(h.tolist(), share.tolist(), strict=True):
        q = p * (1 - label_smoothing) + (1 - p) * label_smoothing
        pushes.append(beta * (q - 0.5 * (1 + math.tanh(beta * x / 2))))
        rests.append(math.inf if q == 1 else -math.inf if q == 0 else math.log(q / (1 - q)) / beta)
    return [pushes, rests]


def stacked(h, share, beta, label_smoothing):
    q = (1 - label_smoothing) * share + label_smoothing * (1 - share)
    push = beta * q * S(-beta * h) - beta * (1 - q) * S(beta * h)
    return torch.stack([push, (torch.log(q) - torch.log1p(-q)) / beta])


RIGHT["pair-rest"] = [by_autograd, in_numpy, in_lists, stacked]
WRONG["pair-rest"] = {
    "the sign is reversed": at_rest(lambda h, p, q, b: b * (S(b * h) - q)),
    "the push is without β": at_rest(lambda h, p, q, b: q - S(b * h)),
    "every choice counts for the first text": [
        at_rest(lambda h, p, q, b: b * S(-b * h)),
        at_rest(lambda h, p, q, b: S(-b * h)),
    ],
    "votes for the second text push the wrong way": [
        at_rest(lambda h, p, q, b: b * (q * S(-b * h) + (1 - q) * S(b * h))),
        at_rest(lambda h, p, q, b: b * q * S(-b * h)),
    ],
    "the push weights by certainty, not by surprise": [
        at_rest(lambda h, p, q, b: b * (q * S(b * h) - (1 - q) * S(-b * h))),
        at_rest(lambda h, p, q, b: b * S(b * h)),
    ],
    "the push belongs to IPO": at_rest(lambda h, p, q, b: 2 * (q - 0.5 - b * h)),
    "the argument of σ is without β": at_rest(lambda h, p, q, b: b * (q - S(h))),
    "rest and push have opposite signs": at_rest(rest=lambda h, p, q, b: torch.logit(1 - q) / b),
    "the rest is without β": at_rest(rest=lambda h, p, q, b: torch.logit(q)),
    "β multiplies the rest": at_rest(rest=lambda h, p, q, b: torch.logit(q) * b),
    "log p, not its odds": at_rest(rest=lambda h, p, q, b: q.log() / b),
    "a probability, not its log-odds": [
        at_rest(rest=lambda h, p, q, b: (q - 0.5) / b),
        at_rest(rest=lambda h, p, q, b: q / b),
        at_rest(rest=lambda h, p, q, b: q / (1 - q) / b),
    ],
    "the rest depends on where h is": at_rest(rest=lambda h, p, q, b: torch.logit(q) / b - h),
    "a logarithm with another base": at_rest(rest=lambda h, p, q, b: (q / (1 - q)).log2() / b),
    "the majority decides": at_rest(rest=lambda h, p, q, b: (q - 0.5).sign() * 20 / b),
    "label smoothing is not used": at_rest(share=lambda p, e: p),
    "smoothing moves the share to 0, not to one half": at_rest(share=lambda p, e: p * (1 - e)),
    "the rest is scaled": lambda h, p, b, e: (
        at_rest()(h, p, b, e)[0],
        torch.logit(p) / b * (1 - 2 * e),
    ),
    "half of the smoothing": at_rest(share=lambda p, e: p * (1 - e) + e / 2),
    "the push is not smoothed": at_rest(both=False),
    "certain choices come to rest": [
        at_rest(rest=lambda h, p, q, b: torch.logit(q, eps=1e-6) / b),
        at_rest(rest=lambda h, p, q, b: torch.logit(q.clamp(1e-4, 1 - 1e-4)) / b),
    ],
    "certain choices do not push": at_rest(
        lambda h, p, q, b: torch.where((q == 0) | (q == 1), torch.zeros_like(h), b * (q - S(b * h)))
    ),
    "certain choices give nan": at_rest(
        rest=lambda h, p, q, b: torch.where((q == 0) | (q == 1), torch.nan, torch.logit(q)) / b
    ),
    "the push overflows": at_rest(lambda h, p, q, b: b * (q - (b * h).exp() / (1 + (b * h).exp()))),
}
UNNAMED["pair-rest"] = [
    at_rest(rest=lambda h, p, q, b: torch.logit(q).abs() * (1 - 2 * (p < 0.4)) / b),
    at_rest(lambda h, p, q, b: b * (q - S((b * h).clamp(-2, 2)))),
]
