"""Right and wrong answers about three actions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

from .losses import by_cases

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def softmax(logits):
    weights = np.exp(logits - np.max(logits))
    return weights / weights.sum()


def tilted(old_logits, advantages):
    weights = np.exp(old_logits - old_logits.max()) * np.exp(advantages)
    return weights / weights.sum()


def climbed(old_logits, advantages):
    old, logits = softmax(old_logits), np.array(old_logits, dtype=float)
    for _ in range(3000):
        new = softmax(logits)
        slope = new * (advantages - np.log(new / old))
        logits = logits + 0.5 * (slope - new * slope.sum())
    return softmax(logits)


def in_a_tensor(old_logits, advantages):
    return torch.softmax(torch.tensor(old_logits + advantages), dim=0)


def reverse(old_logits, advantages):
    old = softmax(old_logits)
    low, high = advantages.max() + 1e-9, advantages.max() + 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (old / (middle - advantages)).sum() > 1 else (low, middle)
    return old / (low - advantages)


RIGHT["three-actions-target"] = [tilted, climbed, in_a_tensor]
WRONG["three-actions-target"] = {
    "the KL in the other direction": reverse,
    "not probabilities": [lambda z, a: z + a, lambda z, a: np.exp(a)],
    "the price of distance is left out": lambda z, a: np.eye(len(a))[np.argmax(a)],
    "the old policy does not come in": lambda z, a: softmax(a),
    "the bad action is preferred": lambda z, a: softmax(z - a),
    "the price of distance is not 1": [lambda z, a: softmax(z + a / 2), lambda z, a: softmax(z + 2 * a)],
    "the advantages do not come in": lambda z, a: softmax(z),
    "the advantages are lost at logits of zero": lambda z, a: softmax(z * a),
    "the old probabilities stand where their logarithms belong": lambda z, a: softmax(softmax(z) + a),
    "one gradient step, not the optimum": lambda z, a: softmax(z + softmax(z) * (a - softmax(z) @ a)),
}


def flat_by_case(r, a, eps):
    return ((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < 1 - eps))


def knee_is_flat(r, a, eps):
    return ((a > 0) & (r >= 1 + eps)) | ((a < 0) & (r <= 1 - eps))


def ends(low, high):
    return lambda r, a, eps: ((a > 0) & (r > high(eps))) | ((a < 0) & (r < low(eps)))


def slope_of(
    *,
    weight: Callable[..., Any] = lambda old, new: old,
    flat: Callable[..., Any] = lambda r, a, eps: ((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < 1 - eps)),
    by_ratio: Callable[..., Any] = lambda r: r,
    through_softmax: bool = True,
    sign: float = 1.0,
) -> Callable[..., Any]:
    def function(logits, old_logits, advantages, eps):
        old, new = softmax(old_logits), softmax(logits)
        r = new / old
        pushes = weight(old, new) * by_ratio(r) * advantages * ~flat(r, advantages, eps)
        return sign * (pushes - new * pushes.sum() * through_softmax)

    return function


def with_autograd(logits, old_logits, advantages, eps):
    z = torch.tensor(logits, requires_grad=True)
    old, a = torch.tensor(softmax(old_logits)), torch.tensor(advantages)
    gain = (old * by_cases(z.softmax(0) / old, a, eps)).sum()
    return torch.autograd.grad(gain, z)[0]


def entry_by_entry(logits, old_logits, advantages, eps):
    old, new, out = softmax(old_logits), softmax(logits), np.zeros(len(logits))
    for a in range(len(logits)):
        r, worth = new[a] / old[a], advantages[a]
        if (worth > 0 and r > 1 + eps) or (worth < 0 and r < 1 - eps):
            continue
        for k in range(len(logits)):
            out[k] += old[a] * worth * r * ((a == k) - new[k])
    return out


RIGHT["three-actions-slope"] = [slope_of(), with_autograd, entry_by_entry]
WRONG["three-actions-slope"] = {
    "downhill": slope_of(sign=-1.0),
    "a sum over the actions, not an expectation": [
        slope_of(weight=lambda old, new: np.ones(len(old))),
        slope_of(sign=3.0),
    ],
    "a mean over the actions, on top of the expectation": slope_of(sign=1 / 3),
    "the gradient by the probabilities, not by the logits": lambda z, old, a, eps: np.where(
        flat_by_case(softmax(z) / softmax(old), a, eps), 0.0, a
    ),
    "flat on the wrong side": slope_of(flat=lambda r, a, eps: flat_by_case(r, -a, eps)),
    "eps is not used": slope_of(flat=lambda r, a, eps: flat_by_case(r, a, 0.2)),
    "one sample, not the expectation": lambda z, old, a, eps: slope_of(
        weight=lambda old, new: np.eye(len(old))[0]
    )(z, old, a, eps),
    "the softmax is forgotten": slope_of(through_softmax=False),
    "the expectation is taken under the new policy": slope_of(weight=lambda old, new: new),
    "the ratio is left out of the slope": slope_of(by_ratio=lambda r: 1.0),
    "nothing is clipped": slope_of(flat=lambda r, a, eps: r < 0),
    "flat is not the same as outside the clip range": slope_of(flat=lambda r, a, eps: abs(r - 1) > eps),
    "the knee itself is called flat": slope_of(flat=knee_is_flat),
}
UNNAMED["three-actions-slope"] = [
    lambda z, old, a, eps: slope_of(
        weight=lambda *_: softmax(old), by_ratio=lambda r: softmax(z) / softmax(old)
    )(z, 0 * old, a, eps),
    slope_of(flat=lambda r, a, eps: (r - 1) * a > eps),
    slope_of(flat=ends(lambda eps: 1 - eps, np.exp)),
    slope_of(flat=ends(lambda eps: np.exp(-eps), lambda eps: 1 + eps)),
    slope_of(flat=ends(lambda eps: 1 / (1 + eps), lambda eps: 1 + eps)),
    slope_of(flat=ends(lambda eps: 1 - eps, lambda eps: 1 / (1 - eps))),
    lambda z, old, a, eps: slope_of()(z, old, a, eps) * (softmax(z).max() < 0.99),
    lambda z, old, a, eps: slope_of(
        weight=lambda *_: np.exp(old), by_ratio=lambda r: np.exp(z) / np.exp(old)
    )(z, old, a, eps),
    lambda z, old, a, eps: slope_of()(z, old, np.clip(a, -5, 5), eps),
    lambda z, old, a, eps: slope_of()(z, old, a, max(eps, 0.2)) if eps else slope_of()(z, old, a, eps),
]


def climber(
    *,
    slope: Callable[..., Any] = slope_of(),  # noqa: B008
    anchor_moves: bool = False,
    stop: Callable[..., bool] = lambda s, r: not s.any(),
    show: Callable[..., Any] = lambda new, old: new / old,
    end: Callable[[Any], Any] = np.array,
    back: Callable[[Any], Any] = lambda r: r,
    extra: int = 0,
) -> Callable[..., Any]:
    def function(old_logits, advantages, step, most=20_000, eps=0.2):
        old, logits = softmax(old_logits), np.array(old_logits, dtype=float)
        anchor, path = old_logits, [show(softmax(logits), old)]
        for _ in range(most + extra):
            s = slope(logits, anchor, advantages, eps)
            if stop(s, softmax(logits) / old):
                break
            logits = logits + step * s
            logits = np.log(back(softmax(logits) / old) * old)
            anchor = logits if anchor_moves else anchor
            path.append(show(softmax(logits), old))
        return end(path)

    return function


def a_while_loop(old_logits, advantages, step, most=20_000, eps=0.2):
    z, old = torch.tensor(old_logits), torch.tensor(softmax(old_logits))
    a, path = torch.tensor(advantages), [torch.ones(len(advantages), dtype=torch.float64)]
    while len(path) <= most:
        leaf = z.clone().requires_grad_()
        gain = (old * by_cases(leaf.softmax(0) / old, a, eps)).sum()
        (slope,) = torch.autograd.grad(gain, leaf)
        if not slope.any():
            break
        z = z + step * slope
        path.append(z.softmax(0) / old)
    return torch.stack(path)


RIGHT["three-actions"] = [climber(), climber(end=list), a_while_loop]
WRONG["three-actions"] = {
    "probabilities, not ratios": climber(show=lambda new, old: new),
    "the ratio is upside down": climber(show=lambda new, old: old / new),
    "it stops before its first step": climber(stop=lambda s, r: not s.all()),
    "it goes on when nothing pushes": climber(stop=lambda s, r: False),
    "it does not begin at the old policy": lambda old_logits, a, step, most=20_000, eps=0.2: (
        climber()(0 * old_logits, a, step, most) / 3 / softmax(old_logits)
    ),
    "logarithms, not ratios": climber(show=lambda new, old: np.log(new / old) - np.log(new / old).mean()),
    "the start is missing": climber(end=lambda path: np.array(path[1:])),
    "downhill": climber(slope=slope_of(sign=-1.0)),
    "no action ever falls silent": [
        climber(anchor_moves=True),
        climber(slope=slope_of(flat=lambda r, a, eps: r < 0)),
    ],
    "it stops when the first action falls silent": climber(stop=lambda s, r: bool((r > 1.2).any())),
    "the policy is put back into the clip range": climber(end=lambda path: np.clip(np.array(path), 0.8, 1.2)),
    "most is not the number of steps": [
        climber(extra=-1),
        lambda old_logits, a, step, most=20_000, eps=0.2: climber()(old_logits, a, step, min(most, 500), eps),
    ],
    "one entry of the slope decides when it stops": climber(stop=lambda s, r: s[0] == 0),
    "eps is not used": [
        climber(slope=lambda z, old, a, eps: slope_of()(z, old, a, 0.2)),
        lambda old_logits, a, step, most=20_000, eps=0.2: climber()(old_logits, a, step, most),
    ],
    "it stops while something still pushes a little": [
        climber(stop=lambda s, r: abs(s).max() < 1e-12),
        climber(stop=lambda s, r: np.allclose(s, 0)),
    ],
}
UNNAMED["three-actions"] = [
    climber(slope=slope_of(flat=lambda r, a, eps: abs(r - 1) > eps)),
    climber(slope=slope_of(through_softmax=False)),
    climber(slope=lambda z, old, a, eps: slope_of()(z, old, np.clip(a, -2, 2), eps)),
    climber(end=lambda path: np.round(path, 3)),
    climber(slope=slope_of(flat=knee_is_flat)),
    lambda z, a, step, most=1000, eps=0.2: climber()(z, a, step, most, eps),
    # Ratios to the step before; logits kept inside the clip range.
    climber(end=lambda path: np.array([path[0], *(x / y for x, y in itertools.pairwise(path))])),
    climber(back=lambda r: np.clip(r, 0.83, 1.2)),
    lambda old_logits, a, step, most=20_000, eps=0.2: climber()(old_logits, a, min(step, 10), most, eps),
]
UNNAMED["three-actions-target"] = [
    lambda z, a: softmax(z + np.clip(a, -2, 2)),
    lambda z, a: np.exp(z + a) / np.exp(z + a).sum(),
    lambda z, a: softmax(z + a - (a.mean() > 1) * np.arange(len(a))),
    lambda z, a: tilted(np.clip(z, -2, 2), a),
    lambda z, a: 0.999 * softmax(z + a) + 0.001 / len(a),
]
