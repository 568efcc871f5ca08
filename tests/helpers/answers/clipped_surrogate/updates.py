"""Right and wrong updates with several steps on one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

from .losses import by_cases, in_torch

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def logp_of(logits, states, actions):
    return logits.log_softmax(-1)[torch.arange(len(logits))[:, None], states, actions]


def steps(
    *,
    old: Callable[[Any], Any] = lambda logits: logits.detach().clone(),
    sign: float = 1.0,
    most: int | None = None,
    report: Callable[..., Any] | None = None,
    zero: bool = True,
    step: bool = True,
    own_eps: float | None = None,
) -> Callable[..., Any]:
    def function(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
        before, kept = logits.detach().clone(), old(logits)
        eps = eps if own_eps is None else own_eps
        for _ in range(epochs if most is None else most):
            loss = in_torch()(
                logp_of(logits, states, actions), logp_of(kept, states, actions), advantages, eps
            )
            if zero:
                optimizer.zero_grad()
            (sign * loss).backward()
            if step:
                optimizer.step()
        now = logp_of(logits.detach(), states, actions)
        then = logp_of(before, states, actions)
        return now - then if report is None else report(logits, now, then)

    return function


def with_cases(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    first = logp_of(logits, states, actions).detach()
    for _ in range(epochs):
        change = logp_of(logits, states, actions) - first
        loss = -by_cases(change.exp(), advantages, eps).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return logp_of(logits, states, actions) - first


def all_log_probabilities_kept(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    table = torch.log_softmax(logits.data, dim=-1)
    return steps(old=lambda _: table)(logits, optimizer, states, actions, advantages, epochs, eps)


def reports_the_loop(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    first = logp_of(logits, states, actions).detach()
    for _ in range(epochs):
        logp = logp_of(logits, states, actions)
        optimizer.zero_grad()
        in_torch()(logp, first, advantages, eps).backward()
        optimizer.step()
    return (logp - first).detach()


def on_a_copy(logits, optimizer, *batch, **settings):
    return steps()(logits.detach().clone().requires_grad_(), optimizer, *batch, **settings)


def put_back(logits, optimizer, *batch, **settings):
    before = logits.detach().clone()
    shown = steps()(logits, optimizer, *batch, **settings)
    logits.data = before
    return shown


def anew_in_every_epoch(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    first = logp_of(logits, states, actions).detach()
    for _ in range(epochs):
        steps(most=1)(logits, optimizer, states, actions, advantages, 1, eps)
    return logp_of(logits, states, actions).detach() - first


def on_the_same_graph(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    first = logp_of(logits, states, actions)
    for _ in range(epochs):
        ratio = (logp_of(logits, states, actions) - first).exp()
        optimizer.zero_grad()
        (-by_cases(ratio, advantages, eps).mean()).backward()
        optimizer.step()
    return (logp_of(logits, states, actions) - first).detach()


def with_closures(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    first = logp_of(logits, states, actions).detach()

    def closure():
        optimizer.zero_grad()
        loss = in_torch()(logp_of(logits, states, actions), first, advantages, eps)
        loss.backward()
        return loss

    for _ in range(epochs):
        float(optimizer.step(closure))
    return logp_of(logits, states, actions).detach() - first


RIGHT["hunt-stale"] = [steps(), with_cases, all_log_probabilities_kept, with_closures]


def with_adam(logits, optimizer, *batch, **settings):
    return steps()(logits, torch.optim.Adam([logits], lr=0.1), *batch, **settings)


def normalised(correction):
    def function(logits, optimizer, states, actions, worth, epochs=20, eps=0.2):
        worth = (worth - worth.mean(1, keepdim=True)) / worth.std(1, keepdim=True, correction=correction)
        return steps()(logits, optimizer, states, actions, worth, epochs, eps)

    return function


def of_another_loss(term):
    def function(logits, optimizer, states, actions, worth, epochs=20, eps=0.2):
        first = logp_of(logits, states, actions).detach()
        for _ in range(epochs):
            loss = in_torch(term=term)(logp_of(logits, states, actions), first, worth, eps)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return logp_of(logits, states, actions).detach() - first

    return function


def first_learner(logits, optimizer, states, actions, worth, epochs=20, eps=0.2):
    first = logp_of(logits, states, actions).detach()
    for _ in range(epochs):
        loss = in_torch()(logp_of(logits, states, actions)[0], first[0], worth[0], eps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return logp_of(logits, states, actions).detach() - first


def more_epochs(by, scale=1):
    return lambda *batch, epochs=20, eps=0.2: steps()(*batch, scale * epochs + by, eps)


WRONG["hunt-stale"] = {
    "the ratios, not their logarithms": steps(report=lambda z, now, then: (now - then).exp()),
    "each step takes every ratio for 1": [
        steps(old=lambda logits: logits.detach()),
        steps(old=lambda logits: logits.data),
        anew_in_every_epoch,
        of_another_loss(lambda r, a, eps: r.log() * a),
    ],
    "the ratios are right, and nothing stops them": [
        of_another_loss(lambda r, a, eps: r * a),
        of_another_loss(lambda r, a, eps: torch.maximum(r * a, r.clamp(1 - eps, 1 + eps) * a)),
    ],
    "the steps are taken by another optimizer": with_adam,
    "epochs is not the number of steps": [
        more_epochs(1),
        lambda *batch, epochs=20, eps=0.2: steps()(*batch, min(epochs, 100), eps),
        more_epochs(-1),
        more_epochs(0, 2),
        steps(most=20),
    ],
    "the advantages are normalised again": [normalised(0), normalised(1)],
    "only the first learner learns": first_learner,
    "it goes downhill": steps(sign=-1.0),
    "one step, whatever epochs says": steps(most=1),
    "what it reports is not what happened": [
        steps(report=lambda z, now, then: 0 * now),
        steps(report=lambda z, now, then: then - now),
    ],
    "what comes back is still on the graph": steps(report=lambda z, now, then: z.sum() * 0 + now - then),
    "the gradients are not zeroed between the steps": steps(zero=False),
    "the optimizer takes no step": steps(step=False),
    "eps is not used": steps(own_eps=0.2),
    "the log ratios of before the last step": reports_the_loop,
    "the logits are left as they were": [on_a_copy, put_back],
    "old_logp is not detached": on_the_same_graph,
}
UNNAMED["hunt-stale"] = [
    lambda *batch, epochs=10, eps=0.2: steps()(*batch, epochs, eps),
    of_another_loss(lambda r, a, eps: r.clamp(1 - eps, 1 + eps) * a),
    lambda *batch, epochs=20, eps=0.2: steps()(*batch, epochs, min(eps, 0.2)),
    lambda z, optimizer, states, actions, a, epochs=20, eps=0.2: steps()(
        z, optimizer, states, actions, a.clamp(-3, 3), epochs, eps
    ),
    lambda z, optimizer, states, actions, a, epochs=20, eps=0.2: steps()(
        z, optimizer, 0 * states, actions, a, epochs, eps
    ),
]


# --- inside-the-box


def brought_back(
    *,
    together: bool = False,
    share: float = 0.8,
    eps_own: float | None = None,
    sign: float = 1.0,
    leave: bool = False,
    stay: bool = False,
    clamp_only: bool = False,
    measure: Callable[[Any], Any] = lambda change: (change.exp() - 1).abs(),
    halvings: int = 10_000,
    steps_taken: int | None = None,
) -> Callable[..., Any]:
    def function(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
        eps = eps if eps_own is None else eps_own
        before = logits.detach().clone()
        then = logp_of(before, states, actions)
        steps(sign=sign, most=steps_taken)(logits, optimizer, states, actions, advantages, epochs, eps)
        way = logits.detach() - before
        part = torch.ones(len(logits), 1, 1)
        for _ in range(0 if leave or clamp_only else halvings):
            out = measure(logp_of(before + part * way, states, actions) - then) > eps
            out = out.any()[None, None, None] if together else out.any(1)[:, None, None]
            if not out.any():
                break
            part = torch.where(out, share * part, part)
        with torch.no_grad():
            logits.copy_(before if stay else before + part * way)
        now = logp_of(logits.detach(), states, actions) - then
        return now.clamp(np.log(1 - eps), np.log(1 + eps)) if clamp_only else now

    return function


def bisected(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    """The plain surrogate, one step, and then the furthest point of the line that is inside."""
    before = logits.detach().clone()
    then = logp_of(before, states, actions)
    loss = -((logp_of(logits, states, actions) - then).exp() * advantages).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    way = logits.detach() - before
    low, high = torch.zeros(len(logits)), torch.ones(len(logits))
    for _ in range(60):
        middle = (low + high) / 2
        moved = logp_of(before + middle[:, None, None] * way, states, actions) - then
        inside = ((moved.exp() - 1).abs() <= eps).all(1)
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
    logits.data = before + low[:, None, None] * way
    return logp_of(logits.detach(), states, actions) - then


def epoch_by_epoch(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    """Each step is halved until the policy that it leads to is inside."""
    then = logp_of(logits, states, actions).detach()
    for _ in range(epochs):
        start = logits.detach().clone()
        loss = in_torch()(logp_of(logits, states, actions), then, advantages, eps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for _ in range(30):
            moved = (logp_of(logits.detach(), states, actions) - then).exp() - 1
            out = (moved.abs() > eps).any(1)[:, None, None]
            logits.data = torch.where(out, (start + logits.detach()) / 2, logits.detach())
        moved = (logp_of(logits.detach(), states, actions) - then).exp() - 1
        out = (moved.abs() > eps).any(1)[:, None, None]
        logits.data = torch.where(out, start, logits.detach())
    return logp_of(logits.detach(), states, actions) - then


def mixed_with_the_old_one(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    """The ratio of a mixture is the mixture of the ratios."""
    before = logits.detach().clone()
    then = logp_of(before, states, actions)
    steps()(logits, optimizer, states, actions, advantages, epochs, eps)
    with torch.no_grad():
        far = ((logp_of(logits, states, actions) - then).exp() - 1).abs().amax(1)
        share = (0.999 * eps / far.clamp(min=1e-9)).clamp(max=1)[:, None, None]
        logits.copy_(((1 - share) * before.softmax(-1) + share * logits.softmax(-1)).log())
        return logp_of(logits, states, actions) - then


def one_step_of_the_mean(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    """One step on the mean over all learners, each of which is then brought back, and the rate put back."""
    kept = optimizer.state_dict()
    shown = brought_back(share=0.5, steps_taken=1)(
        logits, optimizer, states, actions, advantages, epochs, eps
    )
    optimizer.load_state_dict(kept)
    return shown


def ten_halvings_or_the_old_one(logits, optimizer, *batch, epochs=20, eps=0.2):
    before = logits.detach().clone()
    shown = brought_back(share=0.5, halvings=10)(logits, optimizer, *batch, epochs, eps)
    out = ((shown.exp() - 1).abs() > eps).any(1, keepdim=True)
    with torch.no_grad():
        logits.copy_(torch.where(out[..., None], before, logits))
    return shown * ~out


def reports_the_optimizer(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    brought_back()(logits, optimizer, states, actions, advantages, epochs, eps)
    return torch.zeros(states.shape)


def reports_with_a_graph(logits, optimizer, states, actions, advantages, epochs=20, eps=0.2):
    shown = brought_back()(logits, optimizer, states, actions, advantages, epochs, eps)
    return shown + 0 * logits.sum()


RIGHT["inside-the-box"] = [
    brought_back(share=0.5),
    bisected,
    epoch_by_epoch,
    mixed_with_the_old_one,
    one_step_of_the_mean,
    ten_halvings_or_the_old_one,
]
WRONG["inside-the-box"] = {
    "the logarithm is compared with the clip range, not the ratio": brought_back(
        measure=lambda change: change.abs()
    ),
    "inside at one end of the clip range only": brought_back(measure=lambda change: change.exp() - 1),
    "a ratio is outside the clip range": [
        brought_back(share=0.5, halvings=5),
        brought_back(share=0.5, halvings=15),
        brought_back(leave=True),
        brought_back(clamp_only=True),
    ],
    "nothing moves": brought_back(stay=True),
    "it goes the wrong way": brought_back(sign=-1.0),
    "one learner holds up the others": brought_back(together=True),
    "eps is not used": brought_back(eps_own=0.2),
    "what it reports is not what happened": reports_the_optimizer,
    "the ratios, not their logarithms": lambda *batch, **settings: brought_back()(*batch, **settings).exp(),
    "what comes back is still on the graph": reports_with_a_graph,
}
UNNAMED["inside-the-box"] = [
    brought_back(measure=lambda change: (change.exp() - 1).abs() - 1e-3),
    brought_back(measure=lambda change: (change[:, :3].exp() - 1).abs()),
    brought_back(measure=lambda change: (change[..., -4:].exp() - 1).abs()),
    brought_back(measure=lambda change: (change[:, :10].exp() - 1).abs()),
]
