"""Right and wrong penalised losses, and rules for their weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def with_price(
    *,
    ratio: Callable[..., Any] = lambda new, old: (new - old).exp(),
    price: Callable[..., Any] = lambda kl, beta: beta * kl,
    reduce: Callable[..., Any] = torch.mean,
    sign: float = -1.0,
    keep_old: bool = False,
    keep_worth: bool = False,
) -> Callable[..., Any]:
    def function(logp, old_logp, advantages, kl, beta):
        old = old_logp if keep_old else old_logp.detach()
        worth = advantages if keep_worth else advantages.detach()
        return sign * reduce(ratio(logp, old) * worth - price(kl, beta))

    return function


RIGHT["hunt-division"] = [
    with_price(ratio=lambda new, old: new.exp() / old.exp()),
    with_price(ratio=lambda new, old: 1 + (new - old).expm1()),
    lambda logp, old, a, kl, beta: beta * kl.mean() - ((logp - old.detach()).exp() * a.detach()).mean(),
]
UNNAMED["hunt-division"] = [
    with_price(ratio=lambda new, old: 1 + new - old),
    with_price(price=lambda kl, beta: beta * kl.abs().sqrt() * 0.1**0.5),
    with_price(price=lambda kl, beta: beta * kl.clamp(max=0.5)),
    with_price(price=lambda kl, beta: min(beta, 3.0) * kl),
    with_price(price=lambda kl, beta: beta * kl.max()),
    with_price(reduce=lambda x: x.sum(0).mean()),
    with_price(ratio=lambda new, old: (new - old).clamp(-10, 10).exp()),
    with_price(ratio=lambda new, old: (new - old).expm1()),
    with_price(price=lambda kl, beta: kl / beta),
    lambda logp, old, a, kl, beta: beta * with_price(price=lambda kl, _: kl)(logp, old, a, kl, beta),
    with_price(ratio=lambda new, old: (new - old).clamp(max=1.2).exp()),
]
WRONG["hunt-division"] = {
    "the ratio is still a division": with_price(ratio=lambda new, old: new / old),
    "the ratio is upside down": with_price(ratio=lambda new, old: (old - new).exp()),
    "the logarithm of the ratio, not the ratio": with_price(ratio=lambda new, old: new - old),
    "the KL that was given does not come in": lambda logp, old, a, kl, beta: with_price()(
        logp, old, a, old - logp, beta
    ),
    "the advantages are centred inside the loss": [
        lambda logp, old, a, kl, beta: with_price()(logp, old, a - a.mean(), kl, beta),
        lambda logp, old, a, kl, beta: with_price()(
            logp, old, (a - a.mean()) / (a.std(correction=0) + 1e-8), kl, beta
        ),
    ],
    "a clip has come in": with_price(ratio=lambda new, old: (new - old).exp().clamp(0.8, 1.2)),
    "the penalty is a bonus": with_price(price=lambda kl, beta: -beta * kl),
    "the penalty is gone": with_price(price=lambda kl, beta: 0 * kl),
    "beta is not used": [with_price(price=lambda kl, beta: kl), with_price(price=lambda kl, beta: 3.0 * kl)],
    "a sum, not a mean": [with_price(reduce=torch.sum), with_price(price=lambda kl, beta: beta * kl.sum())],
    "no gradient reaches logp": with_price(ratio=lambda new, old: (new - old).detach().exp()),
    "the penalty is multiplied with the advantage": lambda logp, old, a, kl, beta: (
        -(((logp - old.detach()).exp() - beta * kl) * a.detach()).mean()
    ),
    "a reward, not a loss": with_price(sign=1.0),
    "old_logp is not detached": with_price(keep_old=True),
    "the advantages are not detached": with_price(keep_worth=True),
    "the KL is detached": with_price(price=lambda kl, beta: beta * kl.detach()),
}


def rule(
    *, up: float = 2.0, down: float = 0.5, above: float = 1.5, below: float = 1 / 1.5, held: bool = True
) -> Callable[..., Any]:
    def function(beta, kl, target, lowest=1e-4, highest=1e4):
        if kl > above * target:
            beta = beta * up
        elif kl < below * target:
            beta = beta * down
        return min(max(beta, lowest), highest) if held else beta

    return function


def by_powers(beta, kl, target, lowest=1e-4, highest=1e4):
    return np.clip(beta * 2.0 ** (int(kl > 1.5 * target) - int(1.5 * kl < target)), lowest, highest)


def as_a_tensor(beta, kl, target, lowest=1e-4, highest=1e4):
    return torch.tensor(rule(held=False)(beta, kl, target), dtype=torch.float64).clamp(lowest, highest)


def held_where_it_moves(beta, kl, target, lowest=1e-4, highest=1e4):
    if kl < target / 1.5:
        return max(beta / 2, lowest)
    return min(2 * beta, highest) if kl > 1.5 * target else beta


def by_addition(beta, kl, target, lowest=1e-4, highest=1e4):
    change = 0.5 if kl > 1.5 * target else -0.5 if kl < target / 1.5 else 0.0
    return min(max(beta + change, lowest), highest)


def target_of_its_own(beta, kl, target, lowest=1e-4, highest=1e4):
    return rule()(beta, kl, 0.03, lowest, highest)


def by_logarithms(beta, kl, target, lowest=1e-4, highest=1e4):
    far = np.log(kl / target) if kl else -np.inf
    return min(max(beta * 2.0 ** (np.sign(far) * (abs(far) > np.log(1.5))), lowest), highest)


def by_bools(beta, kl, target, lowest=1e-4, highest=1e4):
    return min(max(beta * 2.0 ** ((kl > 1.5 * target) - (kl < target / 1.5)), lowest), highest)


RIGHT["adaptive-beta"] = [rule(), by_powers, as_a_tensor, by_logarithms, by_bools]
WRONG["adaptive-beta"] = {
    "the thresholds are a distance from the target, not a factor": (
        lambda beta, kl, target, lowest=1e-4, highest=1e4: rule()(beta, 1 + (kl - target) / 3, 1.0)
    ),
    "lowest and highest are exchanged": [
        lambda beta, kl, target, lowest=1e-4, highest=1e4: max(
            min(rule()(beta, kl, target), lowest), highest
        ),
        lambda beta, kl, target, lowest=1e-4, highest=1e4: min(rule()(beta, kl, target), lowest),
    ],
    "the KL does not come in": lambda beta, kl, target, lowest=1e-4, highest=1e4: rule()(beta, beta, target),
    "beta is multiplied by the KL over its target": (
        lambda beta, kl, target, lowest=1e-4, highest=1e4: min(max(beta * kl / target, lowest), highest)
    ),
    "nothing in between leaves it as it is": [
        rule(above=1.0, below=1.0),
        lambda beta, kl, target, lowest=1e-4, highest=1e4: (
            min(2 * beta, highest) if kl > 1.5 * target else max(beta / 2, lowest)
        ),
        lambda beta, kl, target, lowest=1e-4, highest=1e4: (
            max(beta / 2, lowest) if kl < target / 1.5 else min(2 * beta, highest)
        ),
    ],
    "both thresholds are on the same side of the target": [
        lambda beta, kl, target, lowest=1e-4, highest=1e4: (
            min(2 * beta, highest)
            if kl > 1.6 * target
            else max(beta / 2, lowest)
            if kl < 1.5 * target
            else beta
        ),
        rule(above=2.0, below=1.5),
        rule(above=1 / 1.5, below=0.5),
    ],
    "a threshold stands at the target itself": [rule(below=0.99), rule(above=1.0), rule(above=1.2)],
    "it is kept within its range only where it changes": held_where_it_moves,
    "the upper threshold is not 1.5 times the target": rule(above=2.0),
    "halved when it should be doubled": rule(up=0.5, down=2.0),
    "beta never changes": rule(up=1.0, down=1.0),
    "it adapts in one direction only": [rule(down=1.0), rule(up=1.0)],
    "the factors and the thresholds are exchanged": rule(up=1.5, down=1 / 1.5, above=2.0, below=0.5),
    "the lower threshold is not target / 1.5": rule(below=0.5),
    "nothing keeps it within its range": rule(held=False),
    "the range comes before the move, not after it": lambda beta, kl, target, lowest=1e-4, highest=1e4: rule(
        held=False
    )(min(max(beta, lowest), highest), kl, target),
    "the change is added, not multiplied": by_addition,
    "the target does not come in": target_of_its_own,
}
UNNAMED["adaptive-beta"] = [
    lambda beta, kl, target, lowest=1e-4, highest=1e4: rule()(beta, kl, target),
    lambda beta, kl, target, lowest=1e-4, highest=1e4: max(rule()(beta, kl, target), lowest),
    rule(above=1.55),
    lambda beta, kl, target, lowest=1e-4, highest=1e4: rule()(
        beta, kl * (1 + 1e-12) if kl > target else kl * (1 - 1e-12), target, lowest, highest
    ),
    lambda beta, kl, target, lowest=1e-3, highest=1e4: rule()(beta, kl, target, lowest, highest),
    lambda beta, kl, target, lowest=1e-4, highest=1e3: rule()(beta, kl, target, lowest, highest),
    lambda beta, kl, target, lowest=1e-4, highest=1e4: min(
        max(beta**2 if kl > 1.5 * target else beta**0.5 if kl < target / 1.5 else beta, lowest), highest
    ),
    rule(below=0.68),
    lambda beta, kl, target, lowest=1e-4, highest=1e4: (
        beta if kl == 0 else rule()(beta, kl, target, lowest, highest)
    ),
]
