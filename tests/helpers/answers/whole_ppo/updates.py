"""Right and wrong updates: two epochs' mistakes that hide each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

from .batches import floor_cut, overlapping, rest_in_the_last

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def logp_of(logits, states, actions):
    learner = torch.arange(len(logits))[:, None]
    return logits.log_softmax(-1)[learner, states, actions]


def clipped(r, a, eps):
    return torch.minimum(r * a, r.clamp(1 - eps, 1 + eps) * a)


def trained(
    *,
    anew: bool = False,
    astray: bool = False,
    shuffle: Callable[..., Any] = torch.randperm,
    term: Callable[..., Any] = clipped,
    sign: float = -1.0,
    zero: bool | str = True,
    step: bool = True,
    report: Callable[..., Any] = lambda now, then: now - then,
    plan: Callable[..., Any] = lambda epochs, minibatches: (epochs, minibatches),
    own_eps: float | None = None,
    cut: Callable[..., Any] = lambda order, minibatches: order.tensor_split(minibatches),
) -> Callable[..., Any]:
    def function(logits, optimizer, states, actions, advantages, epochs=4, minibatches=4, eps=0.2):
        eps = eps if own_eps is None else own_eps
        epochs, minibatches = plan(epochs, minibatches)
        first = logp_of(logits, states, actions).detach()
        old = first
        for _ in range(epochs):
            order = shuffle(states.shape[1])
            if zero == "epoch":
                optimizer.zero_grad()
            if anew:
                old = logp_of(logits, states, actions).detach()
            read = old if not astray else old[:, order.argsort()]
            for part in cut(order, minibatches):
                ratio = (logp_of(logits, states[:, part], actions[:, part]) - read[:, part]).exp()
                loss = sign * term(ratio, advantages[:, part], eps).mean()
                if zero is True:
                    optimizer.zero_grad()
                loss.backward()
                if step:
                    optimizer.step()
        return report(logp_of(logits, states, actions).detach(), first)

    return function


def everything_is_shuffled(logits, optimizer, states, actions, advantages, epochs=4, minibatches=4, eps=0.2):
    then = logp_of(logits, states, actions).detach()
    s, a, w, old = states, actions, advantages, then.clone()
    for _ in range(epochs):
        order = torch.randperm(s.shape[1])
        s, a, w, old = s[:, order], a[:, order], w[:, order], old[:, order]
        for part in torch.arange(s.shape[1]).tensor_split(minibatches):
            r = torch.exp(logp_of(logits, s[:, part], a[:, part]) - old[:, part])
            worth = w[:, part]
            loss = -(torch.where(worth > 0, r.clamp(max=1 + eps), r.clamp(min=1 - eps)) * worth).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return logp_of(logits, states, actions).detach() - then


def from_a_frozen_copy(logits, optimizer, states, actions, advantages, epochs=4, minibatches=4, eps=0.2):
    old = logits.detach().clone()
    for _ in range(epochs):
        for part in np.array_split(torch.randperm(states.shape[1]).numpy(), minibatches):
            s, a = states[:, part], actions[:, part]
            ratio = (logp_of(logits, s, a) - logp_of(old, s, a)).exp()
            logits.grad = None
            (-clipped(ratio, advantages[:, part], eps).mean()).backward()
            optimizer.step()
    with torch.no_grad():
        return logp_of(logits, states, actions) - logp_of(old, states, actions)


def shuffled_per_learner(logits, optimizer, states, actions, advantages, epochs=4, minibatches=4, eps=0.2):
    then = logp_of(logits, states, actions).detach()
    for _ in range(epochs):
        order = torch.rand(states.shape).argsort(1)
        for part in order.tensor_split(minibatches, dim=1):
            s, a = states.gather(1, part), actions.gather(1, part)
            ratio = (logp_of(logits, s, a) - then.gather(1, part)).exp()
            loss = -clipped(ratio, advantages.gather(1, part), eps).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return (logp_of(logits, states, actions) - then).detach()


def one_shuffle(logits, optimizer, states, actions, advantages, epochs=4, minibatches=4, eps=0.2):
    order = torch.randperm(states.shape[1])
    back = trained(shuffle=torch.arange)(
        logits, optimizer, states[:, order], actions[:, order], advantages[:, order], epochs, minibatches, eps
    )
    return back[:, order.argsort()]


RIGHT["hunt-epochs"] = [
    trained(cut=rest_in_the_last),
    trained(),
    everything_is_shuffled,
    from_a_frozen_copy,
    shuffled_per_learner,
]


def reports_in_another_order(logits, optimizer, states, actions, advantages, *rest, **more):
    return trained(report=lambda now, then: (now - then).flip(1))(
        logits, optimizer, states, actions, advantages, *rest, **more
    )


def reports_the_loop(logits, optimizer, states, actions, advantages, epochs=4, minibatches=4, eps=0.2):
    then = logp_of(logits, states, actions).detach()
    last = then
    for _ in range(epochs):
        for part in torch.randperm(states.shape[1]).tensor_split(minibatches):
            last = logp_of(logits, states, actions)
            ratio = (last - then)[:, part].exp()
            loss = -clipped(ratio, advantages[:, part], eps).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return last.detach() - then


def only_the_line_moved(logits, optimizer, states, actions, advantages, epochs=4, minibatches=4, eps=0.2):
    batch, old = (states, actions), logp_of(logits, states, actions).detach()
    before = old
    for _ in range(epochs):
        order = torch.randperm(states.shape[1])
        states, actions, advantages = states[:, order], actions[:, order], advantages[:, order]
        for part in torch.arange(states.shape[1]).tensor_split(minibatches):
            ratio = (logp_of(logits, states[:, part], actions[:, part]) - old[:, part]).exp()
            loss = -clipped(ratio, advantages[:, part], eps).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return logp_of(logits, *batch).detach() - before


def drawn_anew(order, minibatches):
    return [torch.randint(len(order), (len(order) // minibatches,)) for _ in range(minibatches)]


def drawn_within(order, minibatches):
    """Each minibatch keeps to its own share of the pulls, and draws from it with replacement."""
    return [part[torch.randint(len(part), part.shape)] for part in order.tensor_split(minibatches)]


WRONG["hunt-epochs"] = {
    "the optimizer takes no step": trained(step=False),
    "the steps are taken by another optimizer": lambda z, optimizer, *rest, **more: trained()(
        z, torch.optim.SGD([z], lr=0.1), *rest, **more
    ),
    "the size of a minibatch is fixed, not their number": [
        trained(cut=lambda order, minibatches: order.split(16)),
        trained(cut=lambda order, minibatches: order.split(3)),
    ],
    "one minibatch for each epoch": trained(plan=lambda e, m: (e, 1)),
    "one epoch, whatever epochs says": trained(plan=lambda e, m: (1, m)),
    "not epochs times minibatches steps": [
        trained(plan=lambda e, m: (e + 1, m)),
        trained(plan=lambda e, m: (4, m)),
        trained(plan=lambda e, m: (e, min(m, 4))),
        trained(cut=lambda order, minibatches: order.chunk(minibatches)),
    ],
    "some pulls are in no minibatch": trained(cut=floor_cut),
    "pulls are drawn with replacement": [
        trained(shuffle=lambda n: torch.randint(n, (n,))),
        trained(cut=drawn_anew),
        trained(cut=drawn_within),
    ],
    "some pulls are in more than one minibatch": trained(cut=overlapping),
    "nothing is shuffled": trained(shuffle=torch.arange),
    "one shuffle for all epochs": one_shuffle,
    "nothing is clipped": trained(term=lambda r, a, eps: r * a),
    "eps is not used": [trained(own_eps=0.2), trained(own_eps=0.1)],
    "the log ratios of before the last step": reports_the_loop,
    "what it reports is not what happened": [
        reports_in_another_order,
        trained(report=lambda now, then: (now - then).exp()),
        trained(report=lambda now, then: then - now),
        trained(report=lambda now, then: 0 * now),
    ],
    "what comes back is still on the graph": lambda z, *rest, **more: (
        trained()(z, *rest, **more) + 0 * z.sum()
    ),
    "it goes downhill": trained(sign=1.0),
    "the gradients are not zeroed between the steps": [trained(zero=False), trained(zero="epoch")],
    "every epoch begins with a new old policy": [trained(anew=True), trained(anew=True, astray=False)],
    "old_logp is another pull's": [only_the_line_moved, trained(astray=True)],
}
UNNAMED["hunt-epochs"] = [
    lambda z, o, s, a, w, epochs=10, minibatches=4, eps=0.2: trained()(
        z, o, s, a, w, epochs, minibatches, eps
    ),
    trained(term=lambda r, a, eps: r.clamp(1 - eps, 1 + eps) * a),
    trained(term=lambda r, a, eps: torch.minimum(r * a, r.clamp(max=1 + eps) * a)),
    lambda z, o, s, a, w, epochs=8, minibatches=2, eps=0.2: trained()(
        z, o, s, a, w, epochs, minibatches, eps
    ),
    lambda z, o, s, a, w, epochs=4, minibatches=4, eps=0.1: trained()(
        z, o, s, a, w, epochs, minibatches, eps
    ),
    lambda z, o, s, a, w, *rest, **more: trained()(z, o, s, a, (w - w.mean(1, keepdim=True)), *rest, **more),
]
