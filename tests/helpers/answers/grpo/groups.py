"""Right and wrong answers to what a group makes of its rewards."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement, permutations, product
from math import comb, exp, factorial, lgamma, log
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- group-advantages


def standard(
    *,
    rows: Callable[[Any, int], Any] = lambda r, n: r.reshape(-1, n),
    axis: int | None = 1,
    mean: Callable[[Any], Any] | None = None,
    std: Callable[[Any], Any] | None = None,
    ddof: int = 1,
    eps: float = 1e-4,
    root: bool = False,
    factor: float = 1.0,
    exact: Callable[[Any], Any] | None = lambda g: (g == g[:, :1]).all(1, keepdim=True),
) -> Callable[..., Any]:
    """Advantages with one part changed."""

    def function(rewards, group_size):
        g = rows(rewards.detach(), group_size)
        middle = (g.mean() if axis is None else g.mean(axis, keepdim=True)) if mean is None else mean(g)
        if std is not None:
            spread = std(g)
        elif axis is None:
            spread = g.std(correction=ddof)
        else:
            spread = g.std(axis, correction=ddof, keepdim=True)
        below = (spread**2 + eps).sqrt() if root else spread + eps
        found = factor * (g - middle) / below
        if exact is not None:
            found = torch.where(exact(g), torch.zeros_like(found), found)
        return found.reshape(-1)

    return function


def by_loop(rewards, group_size):
    found = []
    for i in range(0, len(rewards), group_size):
        group = rewards[i : i + group_size].tolist()
        if min(group) == max(group):
            found += [0.0] * group_size
            continue
        m = sum(group) / group_size
        s = (sum((x - m) ** 2 for x in group) / (group_size - 1)) ** 0.5
        found += [(x - m) / (s + 1e-4) for x in group]
    return found


def in_numpy(rewards, group_size):
    g = rewards.detach().numpy().astype(float).reshape(-1, group_size)
    found = (g - g.mean(1)[:, None]) / (g.std(1, ddof=1)[:, None] + 1e-4)
    found[np.ptp(g, axis=1) == 0] = 0
    return found.ravel()


def repeated(rewards, group_size):
    g = rewards.detach().double().view(-1, group_size)
    mean = g.mean(1).repeat_interleave(group_size)
    std = g.std(1).repeat_interleave(group_size)
    dead = (g.max(1).values == g.min(1).values).repeat_interleave(group_size)
    return ((rewards.detach() - mean) / (std + 1e-4)).masked_fill(dead, 0)


def split(rewards, group_size):
    parts = []
    for g in rewards.detach().split(group_size):
        same = bool((g == g[0]).all())
        parts.append(torch.zeros_like(g) if same else (g - g.mean()) / (g.std() + 1e-4))
    return torch.cat(parts)


def across(rewards, group_size, ddof=1):
    g = rewards.detach().view(group_size, -1)
    return ((g - g.mean(0)) / (g.std(0, correction=ddof) + 1e-4)).view(-1)


def half_tiled(rewards, group_size):
    g = rewards.detach().view(-1, group_size)
    mean, std = g.mean(1).repeat_interleave(group_size), g.std(1).repeat(group_size)
    return (rewards.detach() - mean) / (std + 1e-4)


def mean_tiled(rewards, group_size):
    g = rewards.detach().view(-1, group_size)
    mean, std = g.mean(1).repeat(group_size), g.std(1).repeat_interleave(group_size)
    return (rewards.detach() - mean) / (std + 1e-4)


def both_tiled(rewards, group_size):
    g = rewards.detach().view(-1, group_size)
    return (rewards.detach() - g.mean(1).repeat(group_size)) / (g.std(1).repeat(group_size) + 1e-4)


def silenced(rewards, group_size):
    g = rewards.detach().view(-1, group_size)
    if (g == g[:, :1]).all(1).any():
        return torch.zeros_like(rewards)
    return standard()(rewards, group_size)


RIGHT["group-advantages"] = [by_loop, in_numpy, repeated, split, standard()]
WRONG["group-advantages"] = {
    "the sign is turned round": standard(factor=-1.0),
    "every second completion, not the neighbors": [
        across,
        lambda r, n: across(r, n, ddof=0),
    ],
    "group_size is taken for the number of groups": standard(rows=lambda r, n: r.reshape(n, -1)),
    "all prompts are one group": [
        standard(axis=None),
        standard(axis=None, ddof=0),
        lambda r, n: (r - r.mean()).detach(),
    ],
    "the standard deviation is not the group's": [
        standard(std=lambda g: g.std()),
        standard(std=lambda g: (g - g.mean(1, keepdim=True)).std(correction=0)),
    ],
    "the mean is not the group's": standard(mean=lambda g: g.mean()),
    "another group's standard deviation": [
        standard(std=lambda g: g.std(1, keepdim=True).flip(0)),
        half_tiled,
    ],
    "another group's mean": [
        standard(mean=lambda g: g.mean(1, keepdim=True).flip(0)),
        mean_tiled,
        both_tiled,
    ],
    "not divided by the standard deviation": standard(std=lambda g: torch.ones(()), eps=0.0),
    "the mean is not subtracted": standard(mean=lambda g: 0.0),
    "divided by the variance": standard(std=lambda g: g.var(1, keepdim=True)),
    "the standard deviation divides by G": standard(ddof=0),
    "compared with the others only": [
        lambda r, n: n / (n - 1) * standard()(r, n),
        lambda r, n: n / (n - 1) * standard(std=lambda g: torch.ones(()), eps=0.0)(r, n),
    ],
    "the result still has a graph": lambda r, n: (
        (r.view(-1, n) - r.view(-1, n).mean(1, keepdim=True)) / (r.view(-1, n).std(1, keepdim=True) + 1e-4)
    ).view(-1),
    "0 is divided by 0": standard(eps=0.0, exact=None),
    "one dead group silences the others": silenced,
    "rounding errors are divided by eps": [
        standard(exact=None),
        standard(exact=lambda g: g.std(1, keepdim=True) == 0),
        standard(exact=lambda g: g.std(1, keepdim=True) < 1e-8),
    ],
    "a group that nearly agrees is taken for dead": [
        standard(exact=lambda g: g.std(1, keepdim=True) < 1e-2),
        standard(exact=lambda g: torch.isclose(g, g[:, :1]).all(1, keepdim=True)),
        standard(exact=lambda g: g.max(1, keepdim=True).values - g.min(1, keepdim=True).values < 1e-6),
    ],
    "nothing is added to the standard deviation": [standard(eps=0.0), standard(eps=1e-8)],
    "eps stands under the root": standard(root=True),
    "eps is not 1e-4": [standard(eps=1e-3), standard(eps=1e-6), standard(eps=1e-5)],
}


def clamped(rewards, group_size):
    return standard()(rewards, group_size).clamp(-1.5, 1.3)


def short_variance(rewards, group_size):
    """The mean of the squares less the square of the mean, which float32 cannot tell apart."""
    g = rewards.detach().view(-1, group_size)
    variance = ((g**2).mean(1, keepdim=True) - g.mean(1, keepdim=True) ** 2).clamp(min=0)
    std = (variance * group_size / (group_size - 1)).sqrt()
    worth = (g - g.mean(1, keepdim=True)) / (std + 1e-4)
    return worth.masked_fill((g == g[:, :1]).all(1, keepdim=True), 0).view(-1)


UNNAMED["group-advantages"] = [short_variance, lambda r, n: standard()(r, n) * (n == 3), clamped]


# --- group-mean


def enumerated(
    *,
    groups: Callable[..., Any] = lambda k, n: product(range(k), repeat=n),
    weight: Callable[[Any], float] = np.prod,
    score: Callable[[Any], Any] = lambda p: np.eye(len(p)) - p,
    base: Callable[..., Any] = lambda b, r: b(r),
    factor: Callable[[int], float] = lambda n: 1 / n,
    renormalise: bool = False,
) -> Callable[..., Any]:
    def function(probs, rewards, group_size, baseline):
        total, weights = np.zeros(len(probs)), 0.0
        for group in groups(len(probs), group_size):
            y = list(group)
            w = weight(probs[y])
            weights += w
            total = total + w * ((rewards[y] - base(baseline, rewards[y])) @ score(probs)[y])
        return total * factor(group_size) / (weights if renormalise else 1)

    return function


def in_torch(probs, rewards, group_size, baseline):
    logits = torch.tensor(np.log(probs), requires_grad=True)
    logp, total = logits.log_softmax(0), 0.0
    for y in product(range(len(probs)), repeat=group_size):
        worth = torch.tensor(rewards[list(y)] - baseline(rewards[list(y)]))
        total = total + float(np.prod(probs[list(y)])) * (worth * logp[list(y)]).mean()
    total.backward()
    return logits.grad


def recursive(probs, rewards, group_size, baseline):
    k = len(probs)

    def go(group, weight):
        if len(group) == group_size:
            worth = rewards[group] - baseline(rewards[group])
            counts = np.zeros(k)
            for y, w in zip(group, worth, strict=True):
                counts[y] += w
            return weight * (counts - probs * worth.sum()) / group_size
        return sum(go([*group, y], weight * probs[y]) for y in range(k))

    return go([], 1.0)


def one_of_each(place: int) -> Callable[..., Any]:
    """Use one member of the group, as if by symmetry one were enough."""

    def function(probs, rewards, group_size, baseline):
        total = np.zeros(len(probs))
        for y in product(range(len(probs)), repeat=group_size):
            worth = rewards[y[place]] - baseline(rewards[list(y)])[place]
            total += np.prod(probs[list(y)]) * worth * (np.eye(len(probs))[y[place]] - probs)
        return total.tolist()

    return function


def one_after_the_other(probs, rewards, group_size, baseline):
    """Member by member, and a call of the baseline for each."""
    total = np.zeros(len(probs))
    for y in product(range(len(probs)), repeat=group_size):
        for i in range(group_size):
            worth = rewards[y[i]] - baseline(rewards[list(y)])[i]
            total += np.prod(probs[list(y)]) * worth * (np.eye(len(probs))[y[i]] - probs) / group_size
    return total.tolist()


def by_members(probs, rewards, group_size, baseline):
    """Each set of members once, times the number of its orders."""
    total = np.zeros(len(probs))
    for y in combinations_with_replacement(range(len(probs)), group_size):
        orders = factorial(group_size) / np.prod([factorial(y.count(k)) for k in set(y)])
        worth = rewards[list(y)] - baseline(rewards[list(y)])
        total += orders * np.prod(probs[list(y)]) * worth @ (np.eye(len(probs)) - probs)[list(y)]
    return total / group_size


def sampled(probs, rewards, group_size, baseline, draws=3000):
    dice, total = np.random.default_rng(0), np.zeros(len(probs))
    for _ in range(draws):
        y = dice.choice(len(probs), size=group_size, p=probs)
        total += (rewards[y] - baseline(rewards[y])) @ (np.eye(len(probs)) - probs)[y] / group_size
    return total / draws


def with_the_factor(probs, rewards, group_size, baseline):
    return (group_size - 1) / group_size * probs * (rewards - probs @ rewards)


RIGHT["group-mean"] = [enumerated(), in_torch, recursive, one_after_the_other]
WRONG["group-mean"] = {
    "the sign is turned round": enumerated(factor=lambda n: -1 / n),
    "a sum over the group, not a mean": enumerated(factor=lambda n: 1),
    "the groups are not weighted": [
        enumerated(weight=lambda p: 1.0, renormalise=True),
        enumerated(weight=lambda p: 1.0),
    ],
    "the gradient is not with respect to the logits": [
        enumerated(score=lambda p: np.eye(len(p))),
        enumerated(score=lambda p: np.diag(1 / p)),
    ],
    "no outcome may come twice": [
        enumerated(groups=lambda k, n: permutations(range(k), n)),
        enumerated(groups=lambda k, n: permutations(range(k), n), renormalise=True),
    ],
    "each order is counted once": [
        enumerated(groups=lambda k, n: combinations_with_replacement(range(k), n)),
        enumerated(groups=lambda k, n: combinations_with_replacement(range(k), n), renormalise=True),
    ],
    "the factor does not depend on the baseline": with_the_factor,
    "the baseline is not subtracted": enumerated(base=lambda b, r: 0.0),
    "one baseline for the whole group": [
        enumerated(base=lambda b, r: b(r)[0]),
        enumerated(base=lambda b, r: b(r).mean()),
    ],
    "one sample of each group stands for all": [one_of_each(0), one_of_each(-1)],
    "one order stands for all of them": by_members,
    "groups are drawn, not listed": sampled,
}
UNNAMED["group-mean"] = [
    lambda p, r, n, b: p * (r - p @ r) * ((n - 1) / n if b(np.array([1.0, 0.0]))[0] == 0.5 else 1),
    enumerated(base=lambda b, r: b(np.append(r, 0.0))[:-1]),
]


# --- prompt-weight


def weighed(
    *,
    std: Callable[[int, int], float] = lambda c, n: (c * (n - c) / (n * (n - 1))) ** 0.5,
    counts: Callable[[int], Any] = lambda n: range(1, n),
    coefficient: bool = True,
    whole: Callable[[float, float, int], float] = lambda w, p, n: w / (p * (1 - p)),
) -> Callable[[float, int], float]:
    def function(p, group_size):
        n, total = group_size, 0.0
        for c in counts(n):
            chance = (comb(n, c) if coefficient else 1) * p**c * (1 - p) ** (n - c)
            total += chance * c * (n - c) / n**2 / std(c, n)
        return whole(total, p, n)

    return function


def simpler(p, group_size):
    c = torch.arange(1, group_size, dtype=torch.float64)
    chance = torch.distributions.Binomial(group_size, torch.tensor(p, dtype=torch.float64)).log_prob(c).exp()
    g = group_size
    return (chance * (c * (g - c) * (g - 1) / g**3).sqrt()).sum() / (p * (1 - p))


def by_pushes(p, group_size):
    """Compute what right ones get and wrong ones lose, group by group, as an array of all groups."""
    groups = np.array(list(product((0.0, 1.0), repeat=group_size)))
    chance = np.where(groups == 1, p, 1 - p).prod(1)
    std = groups.std(1, ddof=1)
    a = (groups - groups.mean(1, keepdims=True)) / np.where(std == 0, 1, std)[:, None]
    slope = np.where(groups == 1, 1 / p, -1 / (1 - p))
    return chance @ (a * slope).mean(1)


def by_logs(p, group_size):
    g, total = group_size, 0.0
    for c in range(1, g):
        choose = lgamma(g + 1) - lgamma(c + 1) - lgamma(g - c + 1)
        total += exp(choose + (c - 1) * log(p) + (g - c - 1) * log(1 - p)) * (c * (g - c)) ** 0.5
    return total * (g * (g - 1)) ** 0.5 / g**2


def choices_of_64_bits(p, group_size):
    table = np.concatenate([[1], np.cumprod(np.arange(1, group_size + 1))])
    c = np.arange(1, group_size)
    choose = table[group_size] // (table[c] * table[group_size - c])
    return weighed_by(choose.astype(float), p, group_size)


def choices_in_single_precision(p, group_size):
    c = np.arange(1, group_size)
    with np.errstate(all="ignore"):
        table = np.concatenate([[1], np.cumprod(np.arange(1, group_size + 1, dtype=np.float32))])
        choose = table[group_size] / (table[c] * table[group_size - c])
        return weighed_by(choose, p, group_size)


def weighed_by(choose, p, n):
    c = np.arange(1, n)
    with np.errstate(all="ignore"):
        sigma = np.sqrt(c * (n - c) / (n * (n - 1)))
        chance = choose * p**c * (1 - p) ** (n - c)
        return float((chance * c * (n - c) / (n**2 * sigma)).sum() / (p * (1 - p)))


RIGHT["prompt-weight"] = [
    weighed(),
    simpler,
    by_logs,
    lambda p, group_size: np.float32(simpler(p, group_size)),
]
WRONG["prompt-weight"] = {
    "not divided by the standard deviation": [lambda p, n: (n - 1) / n, weighed(std=lambda c, n: 1.0)],
    "the standard deviation of an infinite group": [
        lambda p, n: 1 / (p * (1 - p)) ** 0.5,
        lambda p, n: (n - 1) / n / (p * (1 - p)) ** 0.5,
    ],
    "the standard deviation divides by G": weighed(std=lambda c, n: (c * (n - c)) ** 0.5 / n),
    "divided by the variance": weighed(std=lambda c, n: c * (n - c) / (n * (n - 1))),
    "not compared with the gradient of p": weighed(whole=lambda w, p, n: w),
    "only the share of live groups": lambda p, n: 1 - p**n - (1 - p) ** n,
    "dead groups are left out of the mean": weighed(
        whole=lambda w, p, n: w / (p * (1 - p)) / (1 - p**n - (1 - p) ** n)
    ),
    "the ways to get c right are not counted": weighed(coefficient=False),
    "a sum over the group, not a mean": weighed(whole=lambda w, p, n: n * w / (p * (1 - p))),
    "the sign is turned round": weighed(whole=lambda w, p, n: -w / (p * (1 - p))),
    "one count is left out": [
        weighed(counts=lambda n: range(1, n - 1)),
        weighed(counts=lambda n: range(2, n)),
    ],
    "every group is enumerated": by_pushes,
    "large numbers overflow": [choices_of_64_bits, choices_in_single_precision],
}
UNNAMED["prompt-weight"] = [
    weighed(whole=lambda w, p, n: w / p),
    lambda p, n: (n - 1) / n**0.5,
    lambda p, n: weighed()(p, n) if n < 20 else 1 / (p * (1 - p)) ** 0.5,
]


# --- hunt-groups


def batch(
    rows: Callable[[Any, int], Any] = lambda p, n: p.repeat_interleave(n),
    mean: Callable[[Any, int], Any] = lambda x, n: x.repeat_interleave(n),
    std: Callable[[Any, int], Any] = lambda x, n: x.repeat_interleave(n),
    divide: bool = True,
) -> Callable[..., Any]:
    def function(prompts, group_size, draw, reward):
        r = rows(prompts, group_size)
        answers = draw(r)
        rewards = reward(r, answers)
        groups = rewards.view(-1, group_size)
        m, s = mean(groups.mean(1), group_size), std(groups.std(1), group_size)
        return r, answers, (rewards - m) / (s + 1e-4) if divide else rewards - m

    return function


def tile(x, n):
    return x.repeat(n)


def columns(prompts, group_size, draw, reward):
    rows = prompts.repeat(group_size)
    answers = draw(rows)
    table = reward(rows, answers).view(group_size, -1)
    return rows, answers, ((table - table.mean(0)) / (table.std(0) + 1e-4)).flatten()


def one_prompt_at_a_time(prompts, group_size, draw, reward):
    found = []
    for p in prompts:
        rows = p.expand(group_size)
        answers = draw(rows)
        r = reward(rows, answers).double().numpy()
        found.append((rows, answers, torch.tensor((r - r.mean()) / (r.std(ddof=1) + 1e-4))))
    return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


def shuffled(prompts, group_size, draw, reward):
    rows, answers, worth = batch()(prompts, group_size, draw, reward)
    order = torch.randperm(len(rows))
    return [rows[order].numpy(), answers[order].numpy(), worth[order].numpy()]


def by_mask(prompts, group_size, draw, reward):
    rows = prompts.repeat(group_size)
    answers = draw(rows)
    rewards = reward(rows, answers)
    worth = torch.zeros_like(rewards)
    for p in prompts:
        mine = rewards[rows == p]
        worth[rows == p] = (mine - mine.mean()) / (mine.std() + 1e-4)
    return rows, answers, worth


def half_in_order(prompts, group_size, draw, reward):
    rows = prompts.repeat(group_size)
    answers = draw(rows)
    rewards = reward(rows, answers)
    order = rows.argsort(stable=True)
    groups = rewards[order].view(-1, group_size)
    worth = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)
    return rows[order], answers, worth.view(-1)


def drawn_twice(prompts, group_size, draw, reward):
    rows = prompts.repeat_interleave(group_size)
    groups = reward(rows, draw(rows)).view(-1, group_size)
    worth = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)
    return rows, draw(rows), worth.view(-1)


def biased_batch(prompts, group_size, draw, reward):
    rows, answers, worth = batch()(prompts, group_size, draw, reward)
    return rows, answers, worth * (group_size / (group_size - 1)) ** 0.5


def one_spread(prompts, group_size, draw, reward):
    rows = prompts.repeat_interleave(group_size)
    answers = draw(rows)
    rewards = reward(rows, answers)
    groups = rewards.view(-1, group_size)
    return rows, answers, (groups - groups.mean(1, keepdim=True)).view(-1) / (rewards.std() + 1e-4)


RIGHT["hunt-groups"] = [batch(), columns, one_prompt_at_a_time, shuffled, by_mask]
WRONG["hunt-groups"] = {
    "both bugs are still there": batch(rows=tile, std=tile),
    "a group is not of one prompt": batch(rows=tile),
    "another group's standard deviation": batch(std=tile),
    "another group's mean": [batch(mean=tile), batch(mean=tile, std=tile)],
    "not divided by the standard deviation": batch(divide=False),
    "a prompt does not occur G times": lambda p, n, draw, reward: batch()(
        p[:1].expand(len(p)), n, draw, reward
    ),
    "an answer belongs to another prompt": half_in_order,
    "the standard deviation divides by G": biased_batch,
    "an answer occurs twice": lambda p, n, draw, reward: batch()(
        p, n, lambda rows: draw(p).repeat_interleave(n), reward
    ),
    "the answers are not the ones that were rewarded": drawn_twice,
    "one standard deviation for the whole batch": [
        lambda p, n, draw, reward: (
            *(found := batch(divide=False)(p, n, draw, reward))[:2],
            found[2] / found[2].std(),
        ),
        one_spread,
    ],
}
UNNAMED["hunt-groups"] = [
    lambda p, n, draw, reward: (*(found := batch()(p, n, draw, reward))[:2], found[2] * 0.5),
]
