"""Right and wrong schedules, gradient limits, minibatches and updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- schedule


def line(share: Callable[[float], float] = lambda x: min(x, 1.0), of: Any = None) -> Callable[..., Any]:
    def function(start, final, done, total):
        if final is None:
            return start
        return (of or (lambda a, b, x: a + (b - a) * x))(start, final, share(done / total))

    return function


RIGHT["schedule"] = [
    line(of=lambda a, b, x: (1 - x) * a + x * b),
    lambda a, b, done, total: a if b is None else float(np.interp(done / total, [0, 1], [a, b])),
    lambda a, b, done, total: torch.lerp(
        torch.tensor(a), torch.tensor(a if b is None else b), min(1.0, done / total)
    ),
    lambda a, b, done, total: a if b is None else b + (a - b) * max(total - done, 0) / total,
]
WRONG["schedule"] = {
    "the two ends are exchanged": line(share=lambda x: 1 - min(x, 1.0)),
    "the way is a step too short, or too long": [
        lambda a, b, done, total: a if b is None else line()(a, b, done, max(total - 1, 1)),
        lambda a, b, done, total: a if b is None else line()(a, b, done, total + 1),
    ],
    "a last value of zero is taken for none": lambda a, b, done, total: line()(a, b or None, done, total),
    "it falls to zero, whatever the last one is": line(of=lambda a, b, x: a * (1 - x)),
    "it never changes": line(of=lambda a, b, x: a),
    "a jump, not a line": [
        lambda a, b, done, total: a if b is None else a + (b - a) * min(done // total, 1),
        lambda a, b, done, total: a if b is None else (a if done < total else b),
    ],
    "the same factor in each step, not the same difference": lambda a, b, done, total: (
        a if b is None else a * ((b + 1e-9) / (a + 1e-9)) ** min(done / total, 1.0)
    ),
    "twice the way": [line(share=lambda x: min(2 * x, 1.0)), line(share=lambda x: 2 * x)],
    "it goes on past the end": line(share=lambda x: x),
    "it stops falling, and does not stop rising": line(
        share=lambda x: x, of=lambda a, b, x: max(a + (b - a) * x, b)
    ),
    "it stops rising, and does not stop falling": line(
        share=lambda x: x, of=lambda a, b, x: min(a + (b - a) * x, b)
    ),
}
UNNAMED["schedule"] = [
    lambda a, b, done, total: 0.0 if b is None else line()(a, b, done, total),
    lambda a, b, done, total: line()(a, b, done, max(total, 1000)),
    line(share=lambda x: round(min(x, 1.0), 2)),
]


# --- global-norm


def together(gradients):
    return torch.cat([g.flatten() for g in gradients]).norm()


def limit(
    *,
    norm: Callable[..., Any] = together,
    factor: Callable[..., Any] = lambda most, n: min(1.0, most / (float(n) + 1e-12)),
    report: Callable[..., Any] = lambda n, after, factor: n,
    sign: float = 1.0,
) -> Callable[..., Any]:
    def function(gradients, max_norm):
        n = norm(gradients)
        f = 1.0 if max_norm is None else factor(max_norm, n)
        after = [sign * f * g for g in gradients]
        return after, report(together(gradients), after, f)

    return function


def limit_by_torch(gradients, max_norm):
    parameters = [torch.nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = g.clone()
    norm = torch.nn.utils.clip_grad_norm_(parameters, float("inf") if max_norm is None else max_norm)
    return [p.grad for p in parameters], norm


def limit_in_numpy(gradients, max_norm):
    long = float(np.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients)))
    scale = 1.0 if max_norm is None or long == 0 else min(1.0, max_norm / long)
    return [scale * g.numpy() for g in gradients], long


RIGHT["global-norm"] = [limit_by_torch, limit_in_numpy, limit(), lambda g, m: list(limit()(g, m))]


def overwritten(gradients, max_norm):
    after, norm = limit()(gradients, max_norm)
    for g, new in zip(gradients, after, strict=True):
        g.copy_(new)
    return gradients, norm


WRONG["global-norm"] = {
    "an argument is overwritten": overwritten,
    "each tensor has a norm of its own": lambda g, m: (
        [limit()([x], m)[0][0] for x in g],
        together(g),
    ),
    "each entry is clamped": lambda g, m: (
        [x if m is None else x.clamp(-m, m) for x in g],
        together(g),
    ),
    "the norm's square is taken for the norm": [
        limit(norm=lambda g: together(g) ** 2),
        limit(report=lambda n, after, f: n**2),
    ],
    "a sum of norms, not the norm of all": [
        limit(norm=lambda g: sum(x.norm() for x in g)),
        limit(norm=lambda g: sum(x.abs().sum() for x in g)),
        limit(report=lambda n, after, f: sum(x.norm() for x in after) / f),
    ],
    "the largest entry is taken for the norm": limit(norm=lambda g: max(x.abs().max() for x in g)),
    "nothing is clipped": limit(factor=lambda most, n: 1.0),
    "the direction of the step is turned": limit(sign=-1.0),
    "a short gradient is made longer": limit(factor=lambda most, n: most / (float(n) + 1e-12)),
    "a short gradient is changed": limit(
        factor=lambda most, n: most / (most + float(n)) if n < most else most / float(n)
    ),
    "the norm after the clipping, not before": limit(report=lambda n, after, f: together(after)),
    "the factor, not the norm": limit(report=lambda n, after, f: f),
    "a limit of zero is taken for none": lambda g, m: limit()(g, m or None),
    "nan where there is no gradient": [
        limit(factor=lambda most, n: (most / n).clamp(max=1.0) if n > 0 else n / n),
        lambda g, m: (
            ([x * torch.clamp(m / together(g), max=1) * together(g) / together(g) for x in g], together(g))
            if m
            else (g, together(g))
        ),
    ],
}
UNNAMED["global-norm"] = [
    limit(factor=lambda most, n: min(1.0, most / (float(n) + 1e-1))),
    limit(norm=lambda g: together(g[:2])),
    lambda g, m: limit()(g, m) if m is not None and together(g) > m else (g, together(g)),
    lambda g, m: limit(norm=lambda g: together([x for x in g if x.ndim]) if g[0].numel() < 9 else 0)(g, m),
    lambda g, m: limit()(g, 0.5 if m is None else m),
    limit(factor=lambda most, n: min(1.0, most / float(n)) if n > 0.2 else 1.0),
]


# --- minibatches


def dealt(
    *,
    order: Callable[..., Any] = lambda n, rng: torch.randperm(n, generator=rng),
    cut: Callable[..., Any] = lambda order, count: order.tensor_split(count),
    normal: Callable[..., Any] = lambda w: (w - w.mean()) / (w.std(correction=0) + 1e-8),
    whole: Callable[..., Any] = lambda w: w,
) -> Callable[..., Any]:
    def function(advantages, count, rng):
        parts = cut(order(len(advantages), rng), count)
        worth = whole(advantages)
        return [(part, normal(worth[part])) for part in parts]

    return function


def as_lists(advantages, count, rng):
    order = torch.randperm(len(advantages), generator=rng).tolist()
    for i in range(count):
        part = order[i::count]
        x = [float(advantages[j]) for j in part]
        mean = sum(x) / len(x)
        std = (sum((y - mean) ** 2 for y in x) / len(x)) ** 0.5
        yield part, [(y - mean) / std if std > 1e-9 else 0.0 for y in x]


def by_sorting_noise(advantages, count, rng):
    order = torch.rand(len(advantages), generator=rng).argsort().numpy()
    pairs = []
    for part in np.array_split(order, count):
        w = advantages.numpy()[part]
        pairs.append([part, (w - w.mean()) / max(w.std(), 1e-8)])
    return pairs


RIGHT["minibatches"] = [
    as_lists,
    by_sorting_noise,
    dealt(normal=lambda w: (w - w.mean()) / torch.sqrt(w.var(correction=0) + 1e-12)),
    dealt(normal=lambda w: (w.double() - w.double().mean()) / (w.double().std(correction=0) + 1e-9)),
]


def floor_cut(order, count):
    size = len(order) // count
    return [order[i * size : (i + 1) * size] for i in range(count)]


def rest_in_the_last(order, count):
    size = len(order) // count
    return [order[i * size : (i + 1) * size if i < count - 1 else len(order)] for i in range(count)]


def overlapping(order, count):
    size = -(-len(order) // count)
    return [torch.cat([order, order])[i * size : (i + 1) * size] for i in range(count)]


def normalised_before_the_shuffle(advantages, count, rng):
    order = torch.randperm(len(advantages), generator=rng)
    parts = advantages.tensor_split(count)
    normal = [(w - w.mean()) / (w.std(correction=0) + 1e-8) for w in parts]
    return list(zip(order.tensor_split(count), normal, strict=True))


def fixed(n, rng):
    return torch.randperm(n, generator=torch.Generator().manual_seed(3))


WRONG["minibatches"] = {
    "steps are drawn with replacement": dealt(order=lambda n, rng: torch.randint(n, (n,), generator=rng)),
    "count is taken for the size of a minibatch": dealt(cut=lambda order, count: order.split(count)),
    "not as many minibatches as were asked for": dealt(
        cut=lambda order, count: order.tensor_split(2 * count)
    ),
    "steps are left out": dealt(cut=floor_cut),
    "steps are used twice": dealt(cut=overlapping),
    "one minibatch is much larger": dealt(cut=rest_in_the_last),
    "the batch is not shuffled": dealt(order=lambda n, rng: torch.arange(n)),
    "the batch is not shuffled, only dealt out": [
        dealt(
            order=lambda n, rng: torch.arange(n),
            cut=lambda order, count: [order[i::count] for i in range(count)],
        ),
        dealt(order=lambda n, rng: torch.arange(n).roll(4 * int(torch.randint(1, n, (1,), generator=rng)))),
    ],
    "every epoch has the same order": [
        dealt(order=fixed),
        dealt(order=lambda n, rng: torch.randperm(n, generator=rng.clone_state())),
        dealt(order=lambda n, rng: torch.randperm(n, generator=rng.manual_seed(rng.initial_seed()))),
    ],
    "the generator is not used": dealt(order=lambda n, rng: torch.randperm(n)),
    "normalised over the batch, not over the minibatch": dealt(
        whole=lambda w: (w - w.mean()) / w.std(correction=0), normal=lambda w: w
    ),
    "nothing is normalised": dealt(normal=lambda w: w),
    "divided by n − 1, not by n": dealt(normal=lambda w: (w - w.mean()) / (w.std() + 1e-8)),
    "divided by the variance, not by its root": dealt(
        normal=lambda w: (w - w.mean()) / (w.var(correction=0) + 1e-8)
    ),
    "only the mean is taken off": dealt(normal=lambda w: w - w.mean()),
    "only divided, the mean left in": dealt(normal=lambda w: w / (w.std(correction=0) + 1e-8)),
    "the sign is turned round": dealt(normal=lambda w: (w.mean() - w) / (w.std(correction=0) + 1e-8)),
    "not the advantages of these indices": normalised_before_the_shuffle,
    "nan where a minibatch has one step": dealt(
        normal=lambda w: (
            (w - w.mean()) / w.std(correction=0)
            if len(w) == 1
            else (w - w.mean()) / (w.std(correction=0) + 1e-8)
        )
    ),
    "nan where all advantages are equal": dealt(
        normal=lambda w: 0 * w if len(w) == 1 else (w - w.mean()) / w.std(correction=0)
    ),
}
UNNAMED["minibatches"] = [
    dealt(normal=lambda w: (w - w.mean()) / (w.std(correction=0) + 1e-2)),
    dealt(normal=lambda w: ((w - w.mean()) / (w.std(correction=0) + 1e-8)).clamp(-2, 2)),
    dealt(normal=lambda w: (w - w.median()) / (w.std(correction=0) + 1e-8)),
    dealt(cut=lambda order, count: order.chunk(count)),
    dealt(normal=lambda w: w if len(w) == 1 else (w - w.mean()) / (w.std(correction=0) + 1e-8)),
]


# --- hunt-epochs


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


WRONG["hunt-epochs"] = {
    "the optimizer takes no step": trained(step=False),
    "the steps are taken by another optimizer": lambda z, optimizer, *rest, **more: trained()(
        z, torch.optim.SGD([z], lr=0.1), *rest, **more
    ),
    "one minibatch for each epoch": trained(plan=lambda e, m: (e, 1)),
    "one epoch, whatever epochs says": trained(plan=lambda e, m: (1, m)),
    "not epochs times minibatches steps": [
        trained(plan=lambda e, m: (e + 1, m)),
        trained(plan=lambda e, m: (4, m)),
        trained(plan=lambda e, m: (e, min(m, 4))),
        trained(cut=lambda order, minibatches: order.chunk(minibatches)),
    ],
    "some pulls are in no minibatch": [
        trained(cut=floor_cut),
        trained(shuffle=lambda n: torch.randint(n, (n,))),
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
