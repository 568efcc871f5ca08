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
        lambda a, b, done, total: line()(a, b, max(done - 1, 0), total),
    ],
    "the last step is never reached": lambda a, b, done, total: line()(a, b, min(done, total - 1), total),
    "it falls towards zero, and stops at the last one": lambda a, b, done, total: (
        max(a * (1 - done / total), b) if b is not None and b < a else line()(a, b, done, total)
    ),
    "one of the two ways is at its end from the first step": [
        line(share=lambda x: x, of=lambda a, b, x: max(a + (b - a) * x, b)),
        line(share=lambda x: x, of=lambda a, b, x: min(a + (b - a) * x, b)),
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
        share=lambda x: x, of=lambda a, b, x: max(a + (b - a) * x, b) if b < a else a + (b - a) * x
    ),
    "it stops rising, and does not stop falling": line(
        share=lambda x: x, of=lambda a, b, x: min(a + (b - a) * x, b) if b > a else a + (b - a) * x
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
