"""Right and wrong clipped losses, and their gauges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from checks import Right, Unnamed, Wrong

from ppobook.objectives import clipped_surrogate_loss

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def flat_where(ratio, advantages, eps):
    return ((advantages > 0) & (ratio > 1 + eps)) | ((advantages < 0) & (ratio < 1 - eps))


def mean_of_what_pushes(logp, old_logp, advantages, eps):
    r = (logp - old_logp).exp()
    return -(r * advantages)[~flat_where(r, advantages, eps)].mean()


def in_torch(
    *,
    ratio: Callable[..., Any] = lambda new, old: (new - old).exp(),
    term: Callable[..., Any] = lambda r, a, eps: torch.minimum(r * a, r.clamp(1 - eps, 1 + eps) * a),
    reduce: Callable[..., Any] = torch.mean,
    sign: float = -1.0,
    keep_old: bool = False,
    keep_worth: bool = False,
    cut: bool = False,
) -> Callable[..., Any]:
    def function(logp, old_logp, advantages, eps=0.2):
        old = old_logp if keep_old else old_logp.detach()
        worth = advantages if keep_worth else advantages.detach()
        r = ratio(logp.detach() if cut else logp, old)
        return sign * reduce(term(r, worth, eps))

    return function


def by_cases(r, a, eps):
    return torch.where(a > 0, r.clamp(max=1 + eps), r.clamp(min=1 - eps)) * a


def by_mask(r, a, eps):
    flat = ((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < 1 - eps))
    return r * a * ~flat + (1 + eps * a.sign()) * a * flat


RIGHT["clipped-loss"] = [
    in_torch(term=by_cases),
    in_torch(term=by_mask),
    lambda new, old, a, eps=0.2: in_torch()(new.double(), old.double(), a.double(), eps),
    in_torch(term=lambda r, a, eps: torch.max(-r * a, -r.clip(1 - eps, 1 + eps) * a), sign=1.0),
    # The gap is what the plain surrogate promises too much.
    in_torch(term=lambda r, a, eps: r * a - F.relu((r - r.clamp(1 - eps, 1 + eps)) * a)),
]
WRONG["clipped-loss"] = {
    "min and max swapped": [
        in_torch(term=lambda r, a, eps: torch.maximum(r * a, r.clamp(1 - eps, 1 + eps) * a)),
        in_torch(term=lambda r, a, eps: torch.min(-r * a, -r.clamp(1 - eps, 1 + eps) * a), sign=1.0),
    ],
    "the clip without the minimum": in_torch(term=lambda r, a, eps: r.clamp(1 - eps, 1 + eps) * a),
    "nothing is clipped": in_torch(term=lambda r, a, eps: r * a),
    "the minimum is taken of the ratios": in_torch(
        term=lambda r, a, eps: torch.minimum(r, r.clamp(1 - eps, 1 + eps)) * a
    ),
    "the clip is put on the product": in_torch(
        term=lambda r, a, eps: torch.minimum(r * a, (r * a).clamp(1 - eps, 1 + eps))
    ),
    "the clip is put on the advantage": in_torch(
        term=lambda r, a, eps: torch.minimum(r * a, r * a.clamp(1 - eps, 1 + eps))
    ),
    "clipped on one side only": in_torch(
        term=lambda r, a, eps: torch.minimum(r * a, r.clamp(max=1 + eps) * a)
    ),
    "eps is not used": in_torch(term=lambda r, a, eps: by_cases(r, a, 0.2)),
    "ratio by division": in_torch(ratio=lambda new, old: new / old),
    "the ratio is upside down": in_torch(ratio=lambda new, old: (old - new).exp()),
    "the logarithm of the ratio, not the ratio": in_torch(ratio=lambda new, old: new - old),
    "a reward, not a loss": in_torch(sign=1.0),
    "a sum, not a mean": in_torch(reduce=torch.sum),
    "old_logp is not detached": in_torch(keep_old=True),
    "the advantages are not detached": in_torch(keep_worth=True),
    "cut off from autograd": in_torch(cut=True),
    "no gradient reaches logp": lambda logp, old, a, eps=0.2: (
        in_torch()(logp.detach(), old, a, eps) + 0 * logp.sum()
    ),
    "an argument is detached in place": lambda logp, old, a, eps=0.2: in_torch(keep_old=True)(
        logp, old.detach_(), a, eps
    ),
    "the clip is put on the logarithm": in_torch(
        term=lambda r, a, eps: torch.minimum(r * a, r.log().clamp(-eps, eps).exp() * a)
    ),
    "flat is taken for worth nothing": in_torch(
        term=lambda r, a, eps: r * a * ~(((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < 1 - eps)))
    ),
    "the ratio is always 1": lambda logp, old, a, eps=0.2: in_torch()(logp, logp.detach(), a, eps),
    "the advantages are centred inside the loss": [
        lambda logp, old, a, eps=0.2: in_torch()(logp, old, a - a.mean(), eps),
        lambda logp, old, a, eps=0.2: in_torch()(logp, old, (a - a.mean()) / a.std(correction=0), eps),
    ],
}
WRONG["clipped-loss"] |= {
    "the clip range is around 0, not around 1": [
        in_torch(term=lambda r, a, eps: torch.minimum(r * a, r.clamp(-eps, eps) * a)),
        in_torch(term=lambda r, a, eps: torch.minimum(r * a, (r - 1).clamp(-eps, eps) * a)),
    ],
    "the two ends of the clip range are exchanged": in_torch(
        term=lambda r, a, eps: torch.minimum(r * a, r.clamp(1 + eps, 1 - eps) * a)
    ),
    "the mean leaves out what is flat": lambda logp, old, a, eps=0.2: mean_of_what_pushes(
        logp, old.detach(), a.detach(), eps
    ),
}
WRONG["hunt-two-bugs"] = dict(WRONG["clipped-loss"])
WRONG["clipped-loss"] |= {
    "not averaged over all entries": [in_torch(reduce=lambda x: x), in_torch(reduce=lambda x: x.mean(1))],
    "a sum, not a mean": [in_torch(reduce=torch.sum), in_torch(reduce=lambda x: x.sum(0).mean())],
    "the sign of the advantage is lost": lambda logp, old, a, eps=0.2: in_torch()(logp, old, a.abs(), eps),
    "the size of the advantage makes no difference": [
        lambda logp, old, a, eps=0.2: in_torch()(logp, old, a.sign(), eps),
        lambda logp, old, a, eps=0.2: in_torch()(logp, old, a.clamp(-1, 1), eps),
    ],
}
UNNAMED["clipped-loss"] = [
    in_torch(ratio=lambda new, old: new.exp() / old.exp()),
    in_torch(term=lambda r, a, eps: torch.minimum(r * a, r.detach().clamp(1 - eps, 1 + eps) * a)),
    in_torch(term=lambda r, a, eps: by_cases(r, a, eps) - 0.1 * r + 0.1),
    in_torch(term=lambda r, a, eps: by_cases(r, a, eps).detach() + r * a - (r * a).detach()),
    in_torch(ratio=lambda new, old: (new - old).clamp(-1, 1).exp()),
    in_torch(ratio=lambda new, old: 1 + (new - old)),
    in_torch(term=lambda r, a, eps: torch.minimum(r * a, r.clamp(1 - eps, 1 / (1 - eps)) * a)),
    in_torch(reduce=lambda x: x.mean(1).median()),
    in_torch(reduce=lambda x: x.sum() / (x != 0).sum()),
    lambda logp, old, a, eps=0.2: in_torch()(logp, old, a.clamp(-10, 10), eps),
    lambda logp, old, a, eps=0.2: in_torch()(logp, old, a, min(eps, 0.4)),
    in_torch(ratio=lambda new, old: (new - old).clamp(-20, 20).exp()),
    in_torch(reduce=lambda x: x.mean() - x.mean().detach()),
]


# --- hunt-two-bugs: the ratio is upside down, and the larger product stands where the smaller one belongs

# Of the hunt's batch no probability is too small for a float.
RIGHT["hunt-two-bugs"] = [*RIGHT["clipped-loss"], in_torch(ratio=lambda new, old: new.exp() / old.exp())]


def upside_down(new, old):
    return (old - new).exp()


def larger(r, a, eps):
    return torch.maximum(r * a, r.clamp(1 - eps, 1 + eps) * a)


WRONG["hunt-two-bugs"] |= {
    "both bugs are still there": [
        in_torch(ratio=upside_down, term=larger, sign=1.0),
        in_torch(ratio=lambda new, old: 1 / (new - old).exp(), term=larger, sign=1.0),
    ],
    "only the ratio is mended": in_torch(term=larger, sign=1.0),
    "only the maximum is mended": in_torch(ratio=upside_down),
    "the ratio is upside down": in_torch(ratio=upside_down, term=lambda r, a, eps: r * a),
}
UNNAMED["hunt-two-bugs"] = [
    *UNNAMED["clipped-loss"][1:],
    lambda logp, old, a, eps=0.1: in_torch()(logp, old, a, eps),
]


# --- clip-diagnostics


def gauges(**other: Callable[..., Any]) -> Callable[..., Any]:
    """The report, with some of its entries computed as `other` says, from r, A and ε."""
    right_ones: dict[str, Callable[..., Any]] = {
        "clip_fraction": lambda r, a, eps: ((r < 1 - eps) | (r > 1 + eps)).float().mean(),
        "flat_fraction": lambda r, a, eps: flat_where(r, a, eps).float().mean(),
        "approx_kl": lambda r, a, eps: (r - 1 - r.log()).mean(),
        "ratio_mean": lambda r, a, eps: r.mean(),
        "ratio_std": lambda r, a, eps: r.std(correction=0),
    }
    loss = other.pop("loss", in_torch())

    def function(logp, old_logp, advantages, eps=0.2):
        r = (logp - old_logp).detach().exp()
        parts = {**right_ones, **other}
        report = {key: part(r, advantages, eps) for key, part in parts.items()}
        return {"loss": loss(logp, old_logp, advantages, eps), **report}

    return function


def in_plain_numbers(logp, old_logp, advantages, eps=0.2):
    change = (logp.detach() - old_logp.detach()).double().flatten().numpy()
    r, a = np.exp(change), advantages.detach().flatten().numpy()
    ratio = (logp - old_logp.detach()).exp()
    return {
        "loss": -by_cases(ratio, advantages.detach(), eps).mean(),
        "clip_fraction": np.mean(abs(r - 1) > eps),
        "flat_fraction": np.mean((r - 1) * np.sign(a) > eps),
        "approx_kl": np.mean(np.expm1(change) - change),
        "ratio_mean": float(r.mean()),
        "ratio_std": r.var() ** 0.5,
    }


def with_more_than_was_asked(logp, old_logp, advantages, eps=0.2):
    return gauges()(logp, old_logp, advantages, eps) | {"entropy": None}


def with_graphs(logp, old_logp, advantages, eps=0.2):
    r = (logp - old_logp).exp()
    return {**gauges()(logp, old_logp, advantages, eps), "ratio_mean": r.mean()}


RIGHT["clip-diagnostics"] = [
    gauges(),
    gauges(loss=clipped_surrogate_loss),
    in_plain_numbers,
    with_more_than_was_asked,
]
WRONG["clip-diagnostics"] = {
    "a count, not a share": gauges(clip_fraction=lambda r, a, eps: ((r - 1).abs() > eps).sum()),
    "clip_fraction counts one side only": [
        gauges(clip_fraction=lambda r, a, eps: (r > 1 + eps).float().mean()),
        gauges(clip_fraction=lambda r, a, eps: (r < 1 - eps).float().mean()),
    ],
    "clip_fraction counts the flat samples": gauges(
        clip_fraction=lambda r, a, eps: flat_where(r, a, eps).float().mean()
    ),
    "clip_fraction counts those inside": gauges(
        clip_fraction=lambda r, a, eps: ((r - 1).abs() < eps).float().mean()
    ),
    "in percent, not a share": [
        gauges(clip_fraction=lambda r, a, eps: 100 * ((r - 1).abs() > eps).float().mean()),
        gauges(flat_fraction=lambda r, a, eps: 100 * flat_where(r, a, eps).float().mean()),
    ],
    "approx_kl is a sum, not a mean": gauges(approx_kl=lambda r, a, eps: (r - 1 - r.log()).sum()),
    "eps is not used in a gauge": [
        gauges(clip_fraction=lambda r, a, eps: ((r - 1).abs() > 0.2).float().mean()),
        gauges(flat_fraction=lambda r, a, eps: flat_where(r, a, 0.2).float().mean()),
    ],
    "the logarithm is compared with the clip range, not the ratio": [
        gauges(clip_fraction=lambda r, a, eps: (r.log().abs() > eps).float().mean()),
        gauges(flat_fraction=lambda r, a, eps: (r.log() * a.sign() > eps).float().mean()),
    ],
    "flat_fraction is a share of those outside": gauges(
        flat_fraction=lambda r, a, eps: flat_where(r, a, eps).sum() / ((r - 1).abs() > eps).sum().clamp(min=1)
    ),
    "the logarithm of the mean, not the mean of the logarithms": gauges(
        approx_kl=lambda r, a, eps: r.mean() - 1 - r.mean().log()
    ),
    "the variance, not the standard deviation": [
        gauges(ratio_std=lambda r, a, eps: r.var()),
        gauges(ratio_std=lambda r, a, eps: r.var(correction=0)),
    ],
    "the mean of the logarithms": [
        gauges(ratio_mean=lambda r, a, eps: r.log().mean().exp()),
        gauges(ratio_mean=lambda r, a, eps: r.log().mean()),
    ],
    "flat_fraction counts all that are outside": gauges(
        flat_fraction=lambda r, a, eps: ((r - 1).abs() > eps).float().mean()
    ),
    "flat_fraction counts the wrong side": gauges(
        flat_fraction=lambda r, a, eps: flat_where(r, -a, eps).float().mean()
    ),
    "flat_fraction counts good actions only": gauges(
        flat_fraction=lambda r, a, eps: ((a > 0) & (r > 1 + eps)).float().mean()
    ),
    "flat_fraction counts bad actions only": gauges(
        flat_fraction=lambda r, a, eps: ((a < 0) & (r < 1 - eps)).float().mean()
    ),
    "flat_fraction counts samples without an advantage": gauges(
        flat_fraction=lambda r, a, eps: (
            (((a >= 0) & (r > 1 + eps)) | ((a <= 0) & (r < 1 - eps))).float().mean()
        )
    ),
    "approx_kl has the wrong sign": gauges(approx_kl=lambda r, a, eps: (r.log() - (r - 1)).mean()),
    "r − 1 without the logarithm": gauges(approx_kl=lambda r, a, eps: (r - 1).mean()),
    "log r alone": [
        gauges(approx_kl=lambda r, a, eps: r.log().mean()),
        gauges(approx_kl=lambda r, a, eps: -r.log().mean()),
    ],
    "the KL in the other direction": gauges(approx_kl=lambda r, a, eps: (r * r.log() - (r - 1)).mean()),
    "the ratio of the approx_kl is upside down": gauges(
        approx_kl=lambda r, a, eps: (1 / r - 1 + r.log()).mean()
    ),
    "half the squared logarithm": gauges(approx_kl=lambda r, a, eps: 0.5 * (r.log() ** 2).mean()),
    "the standard deviation is divided by one less than n": gauges(ratio_std=lambda r, a, eps: r.std()),
    "the two fractions are exchanged": gauges(
        clip_fraction=lambda r, a, eps: flat_where(r, a, eps).float().mean(),
        flat_fraction=lambda r, a, eps: ((r - 1).abs() > eps).float().mean(),
    ),
    "min and max swapped": gauges(
        loss=in_torch(term=lambda r, a, eps: torch.maximum(r * a, r.clamp(1 - eps, 1 + eps) * a))
    ),
    "old_logp is not detached": gauges(loss=in_torch(keep_old=True)),
    "cut off from autograd": gauges(loss=in_torch(cut=True)),
    "a reward, not a loss": gauges(loss=in_torch(sign=1.0)),
    "a gauge is still on the graph": with_graphs,
}
UNNAMED["clip-diagnostics"] = [
    lambda logp, old, a, eps=0.1: gauges()(logp, old, a, eps),
    gauges(clip_fraction=lambda r, a, eps: ((r >= 1 + eps) | (r <= 1 - eps)).float().mean()),
    gauges(flat_fraction=lambda r, a, eps: flat_where(r * (1 + 1e-6 * a.sign()), a, eps).float().mean()),
    gauges(flat_fraction=lambda r, a, eps: (r.clamp(1 - eps, 1 + eps) * a <= r * a).float().mean()),
    gauges(
        flat_fraction=lambda r, a, eps: flat_where(torch.where(a > 0, 1 + r.log(), r), a, eps).float().mean()
    ),
    gauges(clip_fraction=lambda r, a, eps: ((1 / r - 1).abs() > eps).float().mean()),
    gauges(approx_kl=lambda r, a, eps: r.log().clamp(-20, 20).expm1().mean() - r.log().clamp(-20, 20).mean()),
    gauges(ratio_std=lambda r, a, eps: (r - 1).abs().mean()),
    gauges(clip_fraction=lambda r, a, eps: (((r - 1).abs() > eps) & (a != 0)).float().mean()),
    gauges(ratio_std=lambda r, a, eps: ((r - 1) ** 2).mean().sqrt()),
    gauges(ratio_mean=lambda r, a, eps: r.median()),
    gauges(flat_fraction=lambda r, a, eps: ((r - 1) * a > eps).float().mean()),
    gauges(approx_kl=lambda r, a, eps: (r - 1 - r.log()).clamp(max=0.5).mean()),
    gauges(clip_fraction=lambda r, a, eps: ((r < 1 - eps) | (r > 1 / (1 - eps))).float().mean()),
]
