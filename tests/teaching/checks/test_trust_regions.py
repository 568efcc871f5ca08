"""The checks of chapter 2\'s exercises: answers as readers might write them, and the messages."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from checks import CheckTests, Exercises, Right, Wrong
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ppobook.teaching import checks
from ppobook.teaching.checks import trust_regions
from ppobook.trpo import conjugate_gradient, fisher_vector_product, line_search

RIGHT: Right = {}
WRONG: Wrong = {}


# --- per-step-ratio


def by_where(logp, old_logp, mask):
    change = torch.where(mask, logp - old_logp.detach(), 0.0)
    return change.exp(), change.sum(1).exp()


def trajectory_by_trajectory(logp, old_logp, mask):
    steps, whole = torch.ones_like(logp), []
    for i in range(len(logp)):
        inside = mask[i]
        change = logp[i, inside] - old_logp.data[i, inside]
        steps = steps.index_put((torch.tensor(i), torch.nonzero(inside)[:, 0]), change.exp())
        whole.append(change.sum().exp())
    return [steps, torch.stack(whole)]


def a_product_in_double(logp, old_logp, mask):
    steps = torch.where(mask, (logp - old_logp.detach()).double().exp(), 1.0)
    return steps, steps.prod(1)


def ratios(
    *,
    step: Callable[..., Any] = lambda new, old: (new - old).exp(),
    whole: Callable[..., Any] = lambda logs, mask: (logs * mask).sum(1).exp(),
    masked: bool = True,
) -> Callable[..., Any]:
    def function(logp, old_logp, mask):
        old_logp = old_logp.detach()
        steps = step(logp, old_logp)
        steps = torch.where(mask, steps, 1.0) if masked else steps
        return steps, whole(logp - old_logp, mask)

    return function


def not_detached(logp, old_logp, mask):
    change = (logp - old_logp) * mask
    return change.exp(), change.sum(1).exp()


def ones_written_into_it(logp, old_logp, mask):
    steps = (logp - old_logp.detach()).exp()
    steps[~mask] = 1.0
    return steps, by_where(logp, old_logp, mask)[1]


RIGHT["per-step-ratio"] = [
    by_where,
    trajectory_by_trajectory,
    a_product_in_double,
    ratios(step=lambda new, old: new.exp() / old.exp()),
]
WRONG["per-step-ratio"] = {
    "the logarithms are divided": ratios(step=lambda new, old: new / old),
    "the exponential is missing": [
        ratios(step=lambda new, old: new - old),
        ratios(whole=lambda logs, mask: (logs * mask).sum(1)),
    ],
    "the ratio is upside down": ratios(step=lambda new, old: (old - new).exp()),
    "a difference of probabilities, not a ratio": ratios(step=lambda new, old: new.exp() - old.exp()),
    "padding gets a ratio of its own": [
        ratios(masked=False),
        lambda new, old, mask: ((new - old).exp() * mask, ((new - old) * mask).sum(1).exp()),
    ],
    "padding is multiplied in": ratios(whole=lambda logs, mask: logs.sum(1).exp()),
    "the ratios are added, not multiplied": [
        ratios(whole=lambda logs, mask: (logs.exp() * mask).sum(1)),
        ratios(whole=lambda logs, mask: (logs * mask).exp().sum(1)),
    ],
    "the ratios are averaged, not multiplied": ratios(
        whole=lambda logs, mask: (logs.exp() * mask).sum(1) / mask.sum(1)
    ),
    "the logarithms are averaged, not added": ratios(
        whole=lambda logs, mask: ((logs * mask).sum(1) / mask.sum(1)).exp()
    ),
    "the product runs out of numbers": ratios(
        whole=lambda logs, mask: torch.where(mask, logs.exp(), 1.0).prod(1)
    ),
    "cut off from autograd": [
        lambda new, old, mask: tuple(x.detach() for x in by_where(new, old, mask)),
        lambda new, old, mask: (by_where(new, old, mask)[0], by_where(new, old, mask)[1].detach()),
    ],
    "the old policy can move": [
        not_detached,
        lambda new, old, mask: (by_where(new, old, mask)[0], ((new - old) * mask).sum(1).exp()),
    ],
    "the mask is turned round": lambda new, old, mask: by_where(new, old, ~mask),
    "the wrong policy is held still": lambda new, old, mask: (
        ((new.detach() - old) * mask).exp(),
        ((new.detach() - old) * mask).sum(1).exp(),
    ),
    "autograd's notes are overwritten": ones_written_into_it,
}


# --- ess


def sizes(
    *,
    weights: Callable[..., Any] = lambda logs: logs.cumsum(1),
    size: Callable[..., Any] = lambda w: w.sum(0) ** 2 / (w**2).sum(0),
    safe: bool = True,
) -> Callable[..., Any]:
    def function(log_ratio):
        logs = weights(log_ratio)
        return size((logs - logs.max(0).values if safe else logs).exp())

    return function


def shares(logs: Any) -> Any:
    return logs.softmax(0)


def from_the_variance(log_ratio):
    share = shares(log_ratio.double().cumsum(1)).numpy()
    n = len(share)
    return n / (1 + share.var(0) * n**2)


def one_step_after_the_other(log_ratio):
    found = []
    for t in range(1, log_ratio.shape[1] + 1):
        w = torch.stack([row[:t].sum() for row in log_ratio])
        w = (w - w.max()).exp()
        found.append(float(w.sum() ** 2 / (w @ w)))
    return np.array(found)


RIGHT["ess"] = [
    sizes(),
    lambda logs: 1 / (shares(logs.cumsum(1)) ** 2).sum(0),
    lambda logs: (2 * logs.cumsum(1).logsumexp(0) - (2 * logs.cumsum(1)).logsumexp(0)).exp(),
    from_the_variance,
    one_step_after_the_other,
]
WRONG["ess"] = {
    "each step is weighed on its own": sizes(weights=lambda logs: logs),
    "the ratios of the steps are added, not multiplied": lambda logs: sizes(weights=lambda x: x)(
        logs.exp().cumsum(1).log()
    ),
    "summed over trajectories, not over time": sizes(weights=lambda logs: logs.cumsum(0)),
    "the logarithms themselves as weights": lambda logs: (
        logs.cumsum(1).sum(0) ** 2 / (logs.cumsum(1) ** 2).sum(0)
    ),
    "a share, not a number of trajectories": sizes(size=lambda w: w.mean(0) ** 2 / (w**2).mean(0)),
    "a mean where a sum belongs": [
        sizes(size=lambda w: w.mean(0) ** 2 / (w**2).sum(0)),
        sizes(size=lambda w: w.sum(0) ** 2 / (w**2).mean(0)),
    ],
    "upside down": sizes(size=lambda w: (w**2).sum(0) / w.sum(0) ** 2),
    "a square is missing": [
        sizes(size=lambda w: w.sum(0) / (w**2).sum(0), safe=False),
        sizes(size=lambda w: w.sum(0) ** 2 / w.sum(0), safe=False),
    ],
    "the weights do not add up to one": sizes(size=lambda w: 1 / (w**2).sum(0), safe=False),
    "the weights make no difference": [
        lambda logs: 1 / shares(logs.cumsum(1)).sum(0),
        lambda logs: len(logs) / shares(logs.cumsum(1)).sum(0),
    ],
    "the mean weight is taken to be 1": sizes(
        size=lambda w: len(w) / (1 + w.var(0, correction=0)), safe=False
    ),
    "it overflows": [
        sizes(safe=False),
        lambda logs: sizes(weights=lambda x: x.cumsum(1).clamp(max=60), safe=False)(logs),
    ],
    "one step too few": sizes(weights=lambda logs: logs.cumsum(1) - logs),
    "weighed from the end, not from the start": sizes(weights=lambda logs: logs.flip(1).cumsum(1).flip(1)),
    "each trajectory is scaled by itself": lambda logs: sizes(
        weights=lambda x: x - x.max(1, keepdim=True).values
    )(logs.cumsum(1)),
}


# --- ratio-variance


def by_moments(old, new):
    old, new = old.numpy(), new.numpy()
    moment = 1.0
    for o, n in zip(old, new, strict=True):
        r = n / o
        moment *= 1 + o @ (r - 1) ** 2
    return moment - 1


def per_step(old: Any, new: Any) -> Any:
    return (new**2 / old).sum(1) - 1


RIGHT["ratio-variance"] = [
    lambda old, new: (new**2 / old).sum(1).prod() - 1,
    lambda old, new: float(((old * (new / old) ** 2).sum(1).log().sum()).expm1()),
    by_moments,
]
WRONG["ratio-variance"] = {
    "the mean square, not the variance": lambda o, n: (1 + per_step(o, n)).prod(),
    "the standard deviation": lambda o, n: ((1 + per_step(o, n)).prod() - 1).sqrt(),
    "the ratio is upside down": [
        lambda o, n: (o**2 / n.clamp(min=1e-9)).sum(1).prod() - 1,
        lambda o, n: (o * (o / n.clamp(min=1e-9)) ** 2).sum(1).prod() - 1,
    ],
    "averaged under the new policy": lambda o, n: (n**3 / o**2).sum(1).prod() - 1,
    "every action counted alike": [
        lambda o, n: ((n / o) ** 2).mean(1).prod() - 1,
        lambda o, n: (n / o).var(1).sum(),
        lambda o, n: ((n / o) ** 2).sum(1).prod() - 1,
    ],
    "one step stands for all": lambda o, n: per_step(o, n)[0],
    "variances of a sum, not of a product": lambda o, n: per_step(o, n).sum(),
    "the variances are multiplied": lambda o, n: per_step(o, n).prod(),
    "summed over time, not over actions": lambda o, n: (n**2 / o).sum(0).prod() - 1,
    "the approximation for small steps": [
        lambda o, n: torch.expm1(2 * (o * (o / n).log()).sum()),
        lambda o, n: torch.expm1(per_step(o, n).sum()),
    ],
    "the variance of the logarithm": lambda o, n: (
        (o * (n / o).log() ** 2).sum(1) - (o * (n / o).log()).sum(1) ** 2
    ).sum(),
}


# --- performance-difference


def estimator(
    *,
    play: str = "new",
    judge: str = "old",
    discount: bool = True,
    masked: bool = True,
    per: str = "episode",
    sign: float = 1.0,
    peek: str = "",
) -> Callable[..., Any]:
    def function(world, old, new, episodes, seed):
        who = {"old": old, "new": new, "half": (old + new) / 2}
        if peek:
            getattr(world, peek)
        batch = world.sample_episodes(who[play], episodes, seed)
        mask = batch.mask if masked else np.ones_like(batch.mask)
        terms = world.advantages(who[judge])[batch.states, batch.actions] * mask
        if discount:
            terms = terms * world.gamma ** np.arange(mask.shape[1])
        total = sign * terms.sum()
        return total / {"episode": len(mask), "step": mask.sum(), "entry": mask.size, "batch": 1}[per]

    return function


def in_a_loop(world, old, new, episodes, seed):
    batch, worth = world.sample_episodes(new, episodes, seed), world.advantages(old)
    sums = []
    for s, a, inside in zip(batch.states, batch.actions, batch.mask, strict=True):
        steps = range(int(inside.sum()))
        sums.append(sum(world.gamma**t * worth[s[t], a[t]] for t in steps))
    return sum(sums) / len(sums)


def in_torch(world, old, new, episodes, seed):
    batch = world.sample_episodes(torch.tensor(new), episodes, np.random.default_rng(seed))
    worth = world.advantages(torch.tensor(old))[batch.states, batch.actions]
    powers = world.gamma ** torch.arange(batch.mask.shape[1])
    return torch.where(torch.tensor(batch.mask), worth * powers, 0.0).sum(1).mean()


def two_returns(world, old, new, episodes, seed):
    def mean(probs):
        batch = world.sample_episodes(probs, episodes, seed)
        return (batch.rewards * world.gamma ** np.arange(batch.mask.shape[1])).sum(1).mean()

    return mean(new) - mean(old)


def one_episode_at_a_time(world, old, new, episodes, seed):
    dice, worth, total = np.random.default_rng(seed), world.advantages(old), 0.0
    for _ in range(episodes):
        batch = world.sample_episodes(new, 1, dice)
        powers = world.gamma ** np.arange(batch.mask.shape[1])
        total += (worth[batch.states, batch.actions] * powers * batch.mask).sum()
    return total / episodes


def averaged_over_actions(world, old, new, episodes, seed):
    """In place of the action that was taken, the mean over those that might have been."""
    batch = world.sample_episodes(new, episodes, seed)
    powers = world.gamma ** np.arange(batch.mask.shape[1])
    return ((new * world.advantages(old)).sum(1)[batch.states] * powers * batch.mask).sum() / episodes


def with_powers(powers: Callable[..., Any]) -> Callable[..., Any]:
    def function(world, old, new, episodes, seed):
        batch = world.sample_episodes(new, episodes, seed)
        terms = world.advantages(old)[batch.states, batch.actions] * batch.mask
        return (terms * powers(world.gamma, np.arange(terms.shape[1]))).sum(1).mean()

    return function


def a_mean_for_each_episode(world, old, new, episodes, seed):
    batch = world.sample_episodes(new, episodes, seed)
    powers = world.gamma ** np.arange(batch.mask.shape[1])
    terms = world.advantages(old)[batch.states, batch.actions] * powers * batch.mask
    return (terms.sum(1) / batch.mask.sum(1)).mean()


RIGHT["performance-difference"] = [
    estimator(),
    in_a_loop,
    in_torch,
    one_episode_at_a_time,
    averaged_over_actions,
]
WRONG["performance-difference"] = {
    "episodes of the old policy": estimator(play="old"),
    "advantages of the new policy": estimator(judge="new"),
    "the roles are swapped": estimator(play="old", judge="new"),
    "another policy is asked": estimator(play="half"),
    "gamma is not used": estimator(discount=False),
    "padding is counted as steps": estimator(masked=False),
    "a sum over episodes, not a mean": estimator(per="batch"),
    "averaged over steps, not over episodes": [
        estimator(per="step"),
        estimator(per="entry"),
        a_mean_for_each_episode,
    ],
    "the sign is turned round": estimator(sign=-1.0),
    "it looks behind the curtain": [estimator(peek="objective"), estimator(peek="P")],
    "no advantage is asked for": two_returns,
    "the first step is discounted already": with_powers(lambda gamma, t: gamma ** (t + 1)),
    "discounted from the wrong end": with_powers(lambda gamma, t: gamma ** t[::-1]),
    "normalised by 1 − γ": [
        with_powers(lambda gamma, t: gamma**t * (1 - gamma)),
        with_powers(lambda gamma, t: gamma**t / (1 - gamma)),
    ],
    "the number of episodes is not obeyed": lambda world, old, new, episodes, seed: estimator()(
        world, old, new, 1, seed
    ),
}


# --- surrogate-gradient


def forecast(
    *,
    visits: Callable[..., Any] = lambda world, old, new: world.state_occupancy(old),
    worth: Callable[..., Any] = lambda world, old, new: world.advantages(old),
    choice: Callable[..., Any] = lambda old, new: new,
    start: bool = True,
    sign: float = 1.0,
    frozen: bool = True,
) -> Callable[..., Any]:
    def function(world, old, new):
        old = old.detach() if frozen else old
        gain = visits(world, old, new) @ (choice(old, new) * worth(world, old, new)).sum(1)
        return sign * gain + (world.objective(old) if start else 0.0)

    return function


def state_by_state(world, old, new):
    old = old.detach().numpy()
    total = torch.tensor(world.objective(old), dtype=new.dtype)
    visits, q, v = world.state_occupancy(old), world.q_values(old), world.policy_value(old)
    for s in range(world.n_states):
        for a in range(world.n_actions):
            total = total + visits[s] * new[s, a] * (q[s, a] - v[s])
    return total


RIGHT["surrogate-gradient"] = [
    forecast(),
    forecast(choice=lambda old, new: new - old),
    forecast(choice=lambda old, new: old * (new / old)),
    state_by_state,
]
WRONG["surrogate-gradient"] = {
    "J of the old policy is missing": forecast(start=False),
    "J itself, not its forecast": [
        lambda world, old, new: world.objective(new),
        forecast(visits=lambda world, old, new: world.state_occupancy(new)),
    ],
    "it forecasts no change, ever": [
        forecast(worth=lambda world, old, new: world.advantages(new)),
        forecast(choice=lambda old, new: old + 0 * new),
    ],
    "what an action is worth, not how much better than usual": forecast(
        worth=lambda world, old, new: world.q_values(old)
    ),
    "the sign is turned round": forecast(sign=-1.0),
    "the visits are made a distribution": [
        forecast(visits=lambda world, old, new: world.state_occupancy(old) * (1 - world.gamma)),
        forecast(
            visits=lambda world, old, new: world.state_occupancy(old) / world.state_occupancy(old).sum()
        ),
    ],
    "every state counts alike": [
        forecast(visits=lambda world, old, new: torch.ones_like(old[:, 0])),
        forecast(visits=lambda world, old, new: torch.ones_like(old[:, 0]) / len(old)),
    ],
    "the ratio is upside down": forecast(choice=lambda old, new: old * old / new),
    "the logarithm of the ratio": [
        forecast(choice=lambda old, new: old * (new / old).log()),
        forecast(choice=lambda old, new: old * new.log()),
    ],
    "the old policy can move": forecast(frozen=False),
    "cut off from autograd": forecast(choice=lambda old, new: new.detach()),
    "a mean where a sum belongs": [
        forecast(visits=lambda world, old, new: world.state_occupancy(old) / len(old)),
        forecast(visits=lambda world, old, new: world.state_occupancy(old) / old.numel()),
    ],
    "a ratio, and no weight for how often": forecast(choice=lambda old, new: new / old - 1),
}


# --- hunt-line-search


def searcher(
    *,
    near: bool = True,
    gains: bool = True,
    either: bool = False,
    restore: bool = True,
    honest: bool = True,
    cumulative: bool = False,
    first: int = 0,
    sign: float = 1.0,
    refuse: bool = False,
    to_the_end: bool = False,
) -> Callable[..., Any]:
    def function(evaluate, start, step, max_kl, tries, shrink):
        found, candidate = None, start
        for k in range(first, first + tries):
            candidate = (candidate if cumulative else start) + sign * shrink**k * step
            gain, kl = evaluate(candidate)
            if refuse:  # worded the other way round, which nan passes
                bad = (near and kl > max_kl) or (gains and gain <= 0)
                good = not bad
            elif either:
                good = gain > 0 or kl <= max_kl
            else:
                good = (gain > 0 or not gains) and (kl <= max_kl or not near)
            if good:
                found = candidate
                if not to_the_end:
                    return candidate, True
        if found is not None:
            return found, True
        return (start if restore else candidate), not honest

    return function


def while_shrinking(evaluate, start, step, max_kl, tries, shrink):
    length = step.clone()
    while tries > 0:
        gain, kl = evaluate(start + length)
        if kl <= max_kl and gain > 0:
            return start + length, torch.tensor(True)
        length, tries = shrink * length, tries - 1
    return start.clone(), torch.tensor(False)


def the_librarys(evaluate, start, step, max_kl, tries, shrink):
    found = line_search(evaluate, start, step, max_kl=max_kl, steps=tries, backtrack=shrink)
    return found.parameters, found.accepted


def the_best_of_all(evaluate, start, step, max_kl, tries, shrink):
    rows = [start + shrink**k * step for k in range(tries)]
    judged = [evaluate(row) for row in rows]
    good = [(gain, k) for k, (gain, kl) in enumerate(judged) if gain > 0 and kl <= max_kl]
    return (rows[max(good)[1]], True) if good else (start, False)


def picky(
    *,
    good: Callable[..., Any] = lambda gain, kl, max_kl: gain > 0 and kl <= max_kl,
    power: float = 1.0,
    found: Callable[..., Any] = lambda candidate, start: candidate,
    once: bool = False,
) -> Callable[..., Any]:
    def function(evaluate, start, step, max_kl, tries, shrink):
        for k in range(1 if once else tries):
            candidate = start + shrink ** (power * k) * step
            if good(*evaluate(candidate), max_kl):
                return found(candidate, start), True
        return start, False

    return function


RIGHT["hunt-line-search"] = [searcher(), while_shrinking, the_librarys, picky()]
WRONG["hunt-line-search"] = {
    "each try begins where the last one ended": searcher(cumulative=True),
    "it goes backwards": searcher(sign=-1.0),
    "one of the two conditions is enough": searcher(either=True),
    "the KL is not asked": searcher(near=False),
    "the gain is not asked": searcher(gains=False),
    "the whole step is never tried": searcher(first=1),
    "after a failure it does not go back": searcher(restore=False),
    "a failure is called a success": searcher(honest=False),
    "what is no number passes": [
        searcher(refuse=True),
        picky(good=lambda gain, kl, m: not gain <= 0 and kl <= m),
    ],
    "it goes on after it has found one": [searcher(to_the_end=True), the_best_of_all],
    "the tries grow": picky(power=-1.0),
    "what was found is not returned": picky(found=lambda candidate, start: start),
    "a step is returned, not parameters": picky(found=lambda candidate, start: candidate - start),
    "gain and KL are exchanged": picky(good=lambda kl, gain, m: gain > 0 and kl <= m),
    "a comparison points the wrong way": [
        picky(good=lambda gain, kl, m: gain > 0 and kl >= m),
        picky(good=lambda gain, kl, m: gain < 0 and kl <= m),
    ],
    "it gives up too early": picky(once=True),
}


# --- fisher-softmax


def product(
    *,
    push: Callable[..., Any] = lambda p, u: p * (u - (p * u).sum(1, keepdim=True)),
    scale: Callable[..., Any] = lambda x, weights: 1 / len(x),
    damping: float = 0.0,
) -> Callable[..., Any]:
    def function(weights, observations, v):
        probs = (observations @ weights).softmax(-1)
        pushed = push(probs, observations @ v)
        return scale(observations, weights) * observations.T @ pushed + damping * v

    return function


def with_the_matrix(weights, observations, v):
    total = torch.zeros(weights.numel(), weights.numel())
    for x in observations:
        p = (x @ weights).softmax(0)
        total += torch.kron(torch.outer(x, x), torch.diag(p) - torch.outer(p, p))
    return (total @ v.reshape(-1) / len(observations)).reshape(v.shape)


def by_derivatives(weights, observations, v):
    free = weights.clone().requires_grad_()
    logp = (observations @ free).log_softmax(-1)
    old = logp.detach()
    kl = (old.exp() * (old - logp)).sum(1).mean()
    (slope,) = torch.autograd.grad(kl, free, create_graph=True)
    return torch.autograd.grad((slope * v).sum(), free)[0]


def in_numpy(weights, observations, v):
    w, x, v = (t.numpy().astype(float) for t in (weights, observations, v))
    p = np.exp(x @ w)
    p /= p.sum(1, keepdims=True)
    blocks = np.einsum("na,ab->nab", p, np.eye(p.shape[1])) - np.einsum("na,nb->nab", p, p)
    return np.einsum("nk,nab,nb->ka", x, blocks, x @ v) / len(x)


def scores_unweighted(weights, observations, v):
    p, u = (observations @ weights).softmax(-1), observations @ v
    scores = torch.eye(p.shape[1]) - p[:, None, :]
    pushed = (scores * (scores @ u[:, :, None])).mean(1)
    return observations.T @ pushed / len(observations)


def along_the_wrong_axis(weights, observations, v):
    p, u = (observations @ weights).softmax(0), observations @ v
    return observations.T @ (p * (u - (p * u).sum(1, keepdim=True))) / len(observations)


RIGHT["fisher-softmax"] = [product(), with_the_matrix, by_derivatives, in_numpy]
WRONG["fisher-softmax"] = {
    "the outer product is not subtracted": product(push=lambda p, u: p * u),
    "only the diagonal": product(push=lambda p, u: p * (1 - p) * u),
    "every action counted alike": [
        product(push=lambda p, u: p * (u - u.mean(1, keepdim=True))),
        scores_unweighted,
    ],
    "measured in logits, not in the policy": product(push=lambda p, u: u),
    "the sign is turned round": product(push=lambda p, u: p * ((p * u).sum(1, keepdim=True) - u)),
    "a sum over the observations, not a mean": product(scale=lambda x, weights: 1.0),
    "averaged over the actions too": product(scale=lambda x, weights: 1 / (len(x) * weights.shape[1])),
    "one state in place of many": lambda weights, x, v: product()(weights, x.mean(0, keepdim=True), v),
    "averaged first, multiplied afterwards": lambda weights, x, v: torch.zeros_like(v),
    "damping is added": product(damping=0.1),
    "the weight of each action is missing": product(push=lambda p, u: u - (p * u).sum(1, keepdim=True)),
    "a softmax over the observations": along_the_wrong_axis,
}


# --- natural-step


def stepper(
    *,
    update: bool = True,
    begin: str = "start",
    noted: bool = True,
    share: Callable[..., Any] = lambda now, before: now / before,
    length: Callable[..., Any] = lambda x, fx, g, delta: (2 * delta / (x @ fx)).sqrt(),
    stop: bool = True,
    extra: int = 0,
    sign: float = 1.0,
    nothing: bool = True,
) -> Callable[..., Any]:
    def function(matvec, gradient, start, max_kl, iterations):
        x = {"start": start, "zero": torch.zeros_like(start), "g": gradient}[begin]
        r = gradient - matvec(x) if noted and (x != 0).any() else gradient
        p = r
        for _ in range(iterations + extra):
            if stop and r @ r <= 1e-20 * (gradient @ gradient):
                break
            fp = matvec(p)
            alpha = (r @ r) / (p @ fp)
            x = x + alpha * p
            left = r - alpha * fp if update else r
            p = left + share(left @ left, r @ r) * p
            r = left
        if nothing and (gradient == 0).all():
            return torch.zeros_like(gradient)
        return sign * length(x, matvec(x), gradient, torch.tensor(max_kl, dtype=x.dtype)) * x

    return function


def the_librarys_solver(matvec, gradient, start, max_kl, iterations):
    missing = gradient - matvec(start)
    if missing.norm() <= 1e-9 * gradient.norm():
        x = start
    else:
        x = start + conjugate_gradient(matvec, missing, iterations=iterations)
    return x * (2 * max_kl / (x @ matvec(x)).clamp(min=1e-30)).sqrt()


def hestenes_and_stiefel(matvec, gradient, start, max_kl, iterations):
    """Other formulas for the same two numbers, and the products of x kept along the way."""
    x, fx = start.clone(), matvec(start)
    r = gradient - fx
    p = r.clone()
    for _ in range(iterations):
        if float(r.norm()) <= 1e-10 * float(gradient.norm()):
            break
        fp = matvec(p)
        alpha = (r @ p) / (p @ fp)
        x, fx = x + alpha * p, fx + alpha * fp
        r = r - alpha * fp
        p = r - (r @ fp) / (p @ fp) * p
    size = float(x @ fx)
    return x * (2 * max_kl / size) ** 0.5 if size > 0 else torch.zeros_like(x)


def own_loop(
    *,
    alpha: Callable[..., Any] = lambda r, p, fp: (r @ r) / (p @ fp),
    left: Callable[..., Any] = lambda r, alpha, fp: r - alpha * fp,
    tiny: Callable[..., Any] = lambda g: 1e-20 * (g @ g),
    add: bool = True,
    sign: float = 1.0,
    twice: bool = False,
) -> Callable[..., Any]:
    def function(matvec, g, start, max_kl, iterations):
        x = start if add else torch.zeros_like(start)
        r = sign * (g - matvec(start))
        p = r
        for _ in range(iterations):
            if r @ r <= tiny(g):
                break
            fp = matvec(p)
            a = sign * alpha(r, p, fp)
            x = x + a * p
            now = g - matvec(x) if twice else left(r, sign * a, fp)
            p, r = now + (now @ now) / (r @ r) * p, now
        return x * (2 * max_kl / (x @ matvec(x)).clamp(min=1e-30)).sqrt()

    return function


def the_whole_matrix(matvec, gradient, start, max_kl, iterations):
    matrix = torch.stack([matvec(e) for e in torch.eye(len(gradient), dtype=gradient.dtype)])
    x = torch.linalg.pinv(matrix) @ gradient
    return x * (2 * max_kl / (x @ matrix @ x).clamp(min=1e-30)).sqrt()


RIGHT["natural-step"] = [
    stepper(),
    stepper(length=lambda x, fx, g, delta: (2 * delta / (x @ fx).clamp(min=1e-30)).sqrt()),
    the_librarys_solver,
    hestenes_and_stiefel,
    own_loop(),
    own_loop(sign=-1.0),  # F x − g, and back along it
]
WRONG["natural-step"] = {
    "what is missing is never updated": stepper(update=False),
    "each direction forgets the ones before": stepper(share=lambda now, before: 0.0),
    "the next direction takes the wrong share of the last one": [
        stepper(share=lambda now, before: before / now),
        stepper(share=lambda now, before: -now / before),
        stepper(share=lambda now, before: (now / before).sqrt()),
    ],
    "what is missing at the start is not noted": [stepper(begin="g", noted=False), stepper(noted=False)],
    "the start is not used": stepper(begin="zero"),
    "the 2 is missing under the root": stepper(length=lambda x, fx, g, delta: (delta / (x @ fx)).sqrt()),
    "the square root is missing": [
        stepper(length=lambda x, fx, g, delta: 2 * delta / (x @ fx)),
        stepper(length=lambda x, fx, g, delta: delta / (x @ fx)),
    ],
    "measured in parameters, not in the policy": [
        stepper(length=lambda x, fx, g, delta: (2 * delta / (x @ x)).sqrt()),
        stepper(length=lambda x, fx, g, delta: (2 * delta / (g @ g)).sqrt()),
        stepper(length=lambda x, fx, g, delta: delta / x.norm()),
    ],
    "the step is not scaled to the KL": [
        stepper(length=lambda x, fx, g, delta: 1.0),
        stepper(length=lambda x, fx, g, delta: delta),
    ],
    "the sign is turned round": stepper(sign=-1.0),
    "a gradient of zero gives nan": stepper(nothing=False),
    "it goes on after it has arrived": stepper(stop=False),
    "too many products": [stepper(extra=8), own_loop(twice=True)],
    "one iteration too few": stepper(extra=-1),
    "iterations is not obeyed": lambda matvec, g, start, max_kl, n: stepper()(matvec, g, start, max_kl, 1),
    "the 2 stands in the wrong place": [
        stepper(length=lambda x, fx, g, delta: (delta / 2 / (x @ fx)).sqrt()),
        stepper(length=lambda x, fx, g, delta: 2 * (delta / (x @ fx)).sqrt()),
    ],
    "the unit of the reward matters": [
        stepper(length=lambda x, fx, g, delta: (2 * delta / (x @ fx + 1e-8)).sqrt()),
        own_loop(tiny=lambda g: 1e-6),
    ],
    "the start is not added again": own_loop(add=False),
    "what was accounted for is added, not taken off": own_loop(left=lambda r, alpha, fp: r + alpha * fp),
    "the first stretch has the wrong length": [
        own_loop(left=lambda r, alpha, fp: r - fp),
        own_loop(alpha=lambda r, p, fp: (p @ fp) / (r @ r)),
    ],
    "it asks for the whole matrix": [
        lambda matvec, g, start, max_kl, n: matvec(torch.eye(len(g), dtype=g.dtype)) @ g,
        the_whole_matrix,
    ],
    "the matrix is never asked": lambda matvec, g, start, max_kl, n: (
        g * (2 * max_kl / (g @ g).clamp(min=1e-9)).sqrt()
    ),
    "the plain gradient": lambda matvec, g, start, max_kl, n: (
        g * (2 * max_kl / (g @ matvec(g)).clamp(min=1e-9)).sqrt()
    ),
    "multiplied by F, not by its inverse": lambda matvec, g, start, max_kl, n: (
        matvec(g) * (2 * max_kl / (g @ matvec(g)).clamp(min=1e-9)).sqrt()
    ),
}


# --- hunt-fisher


def curvature(
    *,
    frozen: bool = True,
    states: Callable[..., Any] = lambda kl: kl.mean(),
    actions: Callable[..., Any] = lambda terms: terms.sum(-1),
    damped: Callable[..., Any] = lambda v, damping: damping * v,
    scale: float = 1.0,
    reverse: bool = False,
    first: bool = False,
) -> Callable[..., Any]:
    def function(policy, observations, v, damping):
        parameters = list(policy.parameters())
        new = policy(observations).log_softmax(-1)
        old = new.detach() if frozen else policy(observations).log_softmax(-1)
        terms = new.exp() * (new - old) if reverse else old.exp() * (old - new)
        slope = parameters_to_vector(
            torch.autograd.grad(states(actions(terms)), parameters, create_graph=True)
        )
        if first:
            return slope.detach() + damping * v
        curved = parameters_to_vector(torch.autograd.grad(slope @ v, parameters))
        return scale * curved + damped(v, damping)

    return function


class _AsThePolicyOfTheBook(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def distribution(self, observations):
        from ppobook.policies import Categorical

        return Categorical(self.network(observations))


def the_librarys_product(policy, observations, v, damping):
    return fisher_vector_product(_AsThePolicyOfTheBook(policy), observations, v, damping=damping)


def by_scores(policy, observations, v, damping):
    parameters = list(policy.parameters())
    logp = policy(observations).log_softmax(-1)
    total = torch.zeros_like(v)
    for row in logp:
        for entry in row:
            score = parameters_to_vector(torch.autograd.grad(entry, parameters, retain_graph=True))
            total = total + entry.exp().detach() * (score @ v) * score
    return total / len(logp) + damping * v


def gauss_newton(*, weighted: bool) -> Callable[..., Any]:
    def function(policy, observations, v, damping):
        parameters, total = list(policy.parameters()), torch.zeros_like(v)
        for logits in policy(observations):
            probs = logits.softmax(-1).detach() if weighted else torch.ones_like(logits)
            for p, entry in zip(probs, logits, strict=True):
                turn = parameters_to_vector(torch.autograd.grad(entry, parameters, retain_graph=True))
                total = total + p * (turn @ v) * turn
        return total / len(observations) + damping * v

    return function


RIGHT["hunt-fisher"] = [
    curvature(),
    curvature(reverse=True),  # the other KL has the same curvature there
    the_librarys_product,
    by_scores,
]
WRONG["hunt-fisher"] = {
    "no curvature is left": [curvature(frozen=False), curvature(first=True)],
    "the damping is missing": curvature(damped=lambda v, damping: 0.0),
    "the damping is always 1": curvature(damped=lambda v, damping: v),
    "a sum over states, not a mean": curvature(states=lambda kl: kl.sum()),
    "averaged over the actions too": curvature(actions=lambda terms: terms.mean(-1)),
    "the sign is turned round": curvature(scale=-1.0),
    "half of it": curvature(scale=0.5),
    "twice as much": curvature(scale=2.0),
    "v is not used": lambda policy, x, v, damping: (
        curvature()(policy, x, torch.ones_like(v), 0.0) + damping * v
    ),
    "the outer product is not subtracted": gauss_newton(weighted=True),
    "measured in logits, not in the policy": gauss_newton(weighted=False),
}


# --- bound-size


def bound(
    *,
    distance: Callable[..., Any] = lambda old, new: (old * np.log(old / new)).sum(1),
    largest: Callable[..., Any] = np.max,
    epsilon: Callable[..., Any] = lambda worth: np.abs(worth).max(),
    constant: Callable[..., Any] = lambda gamma: 4 * gamma / (1 - gamma) ** 2,
    acting: bool = True,
    sign: float = -1.0,
    visits: Callable[..., Any] = lambda world, old, new: world.state_occupancy(old),
    forecast_sign: float = 1.0,
) -> Callable[..., Any]:
    def function(world, old, new):
        kept = ~world.terminal if acting else np.ones_like(world.terminal)
        worth = world.advantages(old)
        gain = visits(world, old, new) @ (new * worth).sum(1)
        price = constant(world.gamma) * epsilon(worth[~world.terminal])
        return forecast_sign * gain + sign * price * largest(distance(old, new)[kept])

    return function


def in_loops(world, old, new):
    worth, visits = world.advantages(old), world.state_occupancy(old)
    gain = far = size = 0.0
    for s in range(world.n_states):
        if world.terminal[s]:
            continue
        gain += visits[s] * sum(new[s, a] * worth[s, a] for a in range(world.n_actions))
        far = max(far, sum(p * (np.log(p) - np.log(q)) for p, q in zip(old[s], new[s], strict=True)))
        size = max(size, *(abs(x) for x in worth[s]))
    return gain - 4 * size * world.gamma * far / (1 - world.gamma) ** 2


def in_tensors(world, old, new):
    o, n = torch.tensor(old), torch.tensor(new)
    kl = torch.distributions.kl_divergence(
        torch.distributions.Categorical(probs=o), torch.distributions.Categorical(probs=n)
    )[torch.tensor(~world.terminal)]
    worth = world.advantages(o)
    price = 4 * worth.abs().max() * world.gamma / (1 - world.gamma) ** 2
    start = world.objective(o)  # L starts from J, and the gain leaves it out again
    return start + world.state_occupancy(o) @ ((n - o) * worth).sum(1) - start - price * kl.max()


def variation(old: Any, new: Any) -> Any:
    return np.abs(old - new).sum(1) / 2


def weighed_by_visits(world, old, new):
    worth, visits = world.advantages(old), world.state_occupancy(old)
    price = 4 * np.abs(worth).max() * world.gamma / (1 - world.gamma) ** 2
    return visits @ (new * worth).sum(1) - price * visits @ (old * np.log(old / new)).sum(1)


def of_the_new_choices(world, old, new):
    """The ε of a sharper bound."""
    worth = world.advantages(old)
    mean = (new * worth).sum(1)
    price = 4 * np.abs(mean).max() * world.gamma / (1 - world.gamma) ** 2
    return world.state_occupancy(old) @ mean - price * (old * np.log(old / new)).sum(1)[~world.terminal].max()


RIGHT["bound-size"] = [bound(), in_loops, in_tensors]
WRONG["bound-size"] = {
    "a mean KL, not the largest": [
        bound(largest=np.mean),
        bound(largest=np.mean, acting=False),
        bound(largest=np.sum),
        weighed_by_visits,
    ],
    "the KL the other way round": bound(distance=lambda old, new: (new * np.log(new / old)).sum(1)),
    "the states where nobody acts": bound(acting=False),
    "the total variation, not the KL": [
        bound(distance=variation),
        bound(distance=lambda o, n: variation(o, n) ** 2),
    ],
    "1 − γ is not squared": bound(constant=lambda gamma: 4 * gamma / (1 - gamma)),
    "γ is missing above": bound(constant=lambda gamma: 4 / (1 - gamma) ** 2),
    "the 4 is missing": bound(constant=lambda gamma: gamma / (1 - gamma) ** 2),
    "the 4 is a 2": bound(constant=lambda gamma: 2 * gamma / (1 - gamma) ** 2),
    "the largest advantage, not the largest in size": [
        bound(epsilon=np.max),
        bound(epsilon=lambda worth: -worth.min()),
    ],
    "a mean advantage, not the largest": [
        bound(epsilon=lambda worth: np.abs(worth).mean()),
        of_the_new_choices,
    ],
    "the penalty is added, not taken off": bound(sign=1.0),
    "a forecast, not a promise": bound(sign=0.0),
    "the new policy is asked": [
        bound(visits=lambda world, old, new: world.state_occupancy(new)),
        lambda world, old, new: world.objective(new) - world.objective(old),
    ],
    "every state counts alike": [
        bound(
            visits=lambda world, old, new: (
                world.state_occupancy(old) / max(world.state_occupancy(old).sum(), 1)
            )
        ),
        bound(visits=lambda world, old, new: np.ones(world.n_states)),
    ],
    "the sign of the forecast is turned round": bound(forecast_sign=-1.0),
    "it looks behind the curtain": lambda world, old, new: world.rewards,
    "the square stands in the wrong place": [
        bound(constant=lambda g: 4 * g**2 / (1 - g) ** 2),
        bound(constant=lambda g: 4 * g / (1 - g**2)),
    ],
    "the KL below zero": bound(distance=lambda o, n: (o * np.log(n / o)).sum(1)),
    "a forecast of nothing": bound(forecast_sign=0.0),
    "the visits are made a distribution": bound(
        visits=lambda world, old, new: world.state_occupancy(old) * (1 - world.gamma)
    ),
    "the new return, not the gain": lambda world, old, new: world.objective(old) + bound()(world, old, new),
}


# --- trust-step


def trpo(
    *,
    sign: float = 1.0,
    plain: bool = False,
    length: Callable[..., Any] = lambda x, fx, delta: (2 * delta / (x @ fx).clamp(min=1e-30)).sqrt(),
    over: Callable[..., Any] = lambda kl: kl.max(),
    near: bool = True,
    gains: bool = True,
    restore: bool = True,
    assign: bool = True,
    shrink: float = 0.8,
    tries: int = 30,
    report: bool = True,
    clone: bool = False,
    refuse: bool = False,
    first: int = 0,
    baseline: float = 1.0,
    backwards: bool = False,
    own_damping: float | None = None,
    tell: Callable[..., Any] = lambda kl: kl.max(),
) -> Callable[..., Any]:
    """TRPO's step in one piece, with one part left out."""

    def function(policy, observations, actions, advantages, max_kl, damping):
        damping = damping if own_damping is None else own_damping
        original, policy = policy, copy.deepcopy(policy) if clone else policy
        parameters, taken = list(policy.parameters()), (torch.arange(len(actions)), actions)
        old = policy(observations).log_softmax(-1).detach()
        start = parameters_to_vector(parameters).detach().clone()

        def measure():
            logp = policy(observations).log_softmax(-1)
            gain = (((logp - old)[taken].exp() - baseline) * advantages).mean()
            return gain, (logp.exp() * (logp - old) if backwards else old.exp() * (old - logp)).sum(-1)

        gain, kl = measure()
        g = parameters_to_vector(torch.autograd.grad(gain, parameters, retain_graph=True))
        slope = parameters_to_vector(torch.autograd.grad(kl.mean(), parameters, create_graph=True))

        def fisher(v):
            again = torch.autograd.grad(slope @ v, parameters, retain_graph=True)
            return parameters_to_vector(again) + damping * v

        x = g if plain else conjugate_gradient(fisher, g, iterations=20)
        step = sign * length(x, fisher(x), max_kl) * x
        found, said = None, (0.0, 0.0)
        with torch.no_grad():
            for k in range(first, tries):
                vector_to_parameters(start + shrink**k * step, parameters)
                gain, kl = measure()
                good = (gain > 0 or not gains) and (over(kl) <= max_kl or not near)
                if refuse:  # worded the other way round, which nan passes
                    good = not (gain <= 0 or over(kl) > max_kl)
                if good:
                    found, said = start + shrink**k * step, (gain.item(), tell(kl).item())
                    break
            if found is None and restore:
                found = start
            if found is not None and assign:
                vector_to_parameters(found, list(original.parameters()))
            elif not assign:
                vector_to_parameters(start, list(original.parameters()))
        return said if report else (0.0, 0.0)

    return function


def from_the_table_itself(policy, observations, actions, advantages, max_kl, damping):
    """With the explicit matrix, and without assigning anything before it is accepted."""
    (table,) = policy.parameters()
    shape, n = table.shape, len(actions)

    def logits(row):
        return torch.func.functional_call(policy, {"table": row.reshape(shape)}, (observations,))

    start = table.detach().reshape(-1).clone()
    old = logits(start).log_softmax(-1)

    def gain(row):
        return (((logits(row).log_softmax(-1) - old)[torch.arange(n), actions].exp() - 1) * advantages).mean()

    def kl(row):
        return (old.exp() * (old - logits(row).log_softmax(-1))).sum(1)

    g = torch.autograd.functional.jacobian(gain, start)
    fisher = torch.autograd.functional.hessian(lambda row: kl(row).mean(), start)
    x = torch.linalg.solve((fisher + damping * torch.eye(len(g))).double(), g.double()).float()
    size = x @ (fisher @ x + damping * x)
    if size > 0:
        for k in range(30):
            row = start + 0.8**k * (2 * max_kl / size) ** 0.5 * x
            if gain(row) > 0 and kl(row).max() <= max_kl:
                table.data = row.reshape(shape)
                return float(gain(row)), float(kl(row).max())
    return 0.0, 0.0


def by_the_forecast_alone(policy, observations, actions, advantages, max_kl, damping):
    """As long as the forecast of the largest KL allows, and never held against the KL itself."""
    probe = copy.deepcopy(policy)
    gain, _ = trpo()(probe, observations, actions, advantages, max_kl, damping)
    start = parameters_to_vector(policy.parameters()).detach().clone()
    x = parameters_to_vector(probe.parameters()).detach() - start
    with torch.no_grad():
        old = policy(observations).log_softmax(-1)
        vector_to_parameters(start + 0.1 * x, policy.parameters())
        largest = (old.exp() * (old - policy(observations).log_softmax(-1))).sum(-1).max()
        if gain == 0:
            vector_to_parameters(start, policy.parameters())
            return 0.0, 0.0
        vector_to_parameters(start + 0.095 * (max_kl / largest).sqrt() * x, policy.parameters())
        ratio = (policy(observations).log_softmax(-1) - old)[torch.arange(len(actions)), actions].exp()
        if ((ratio - 1) * advantages).mean() <= 0:
            vector_to_parameters(start, policy.parameters())
    return gain, max_kl


RIGHT["trust-step"] = [
    trpo(),
    trpo(clone=True),
    trpo(shrink=0.9, tries=60),
    trpo(length=lambda x, fx, d: (2 * d / (x @ fx)).sqrt() if x.any() else torch.zeros(())),
    from_the_table_itself,
]
WRONG["trust-step"] = {
    "it goes downhill": trpo(sign=-1.0, gains=False),
    "the plain gradient": trpo(plain=True),
    "the mean KL, not the largest": trpo(over=lambda kl: kl.mean()),
    "it leaves the trust region": trpo(
        near=False, length=lambda x, fx, delta: 2 * (2 * delta / (x @ fx).clamp(min=1e-30)).sqrt()
    ),
    "the 2 is missing under the root": trpo(
        length=lambda x, fx, delta: (delta / (x @ fx).clamp(min=1e-30)).sqrt()
    ),
    "the step is not scaled to the KL": [
        trpo(length=lambda x, fx, delta: 2 * delta / (x @ fx).clamp(min=1e-30)),
        trpo(length=lambda x, fx, delta: delta),
    ],
    "a step that loses is taken": trpo(gains=False),
    "a step that goes too far is taken": [trpo(near=False), by_the_forecast_alone],
    "the KL the other way round": trpo(backwards=True),
    "the whole step is never tried": trpo(first=1),
    "the first try is longer than it should be": trpo(
        length=lambda x, fx, delta: 2 * (delta / (x @ fx).clamp(min=1e-30)).sqrt()
    ),
    "a step that is good enough is refused": trpo(over=lambda kl: kl.sum()),
    "the damping is not the one that was given": [trpo(own_damping=0.1), trpo(own_damping=1e-5)],
    "the surrogate itself, not its gain": trpo(baseline=0.0),
    "the mean KL is reported": trpo(tell=lambda kl: kl.mean()),
    "the policy does not move": [trpo(assign=False), trpo(sign=-1.0)],
    "after a failed search the policy is not what it was": trpo(restore=False),
    "the parameters are no numbers any more": trpo(
        near=False, gains=False, length=lambda x, fx, delta: torch.tensor(float("nan"))
    ),
    "advantages of zero are no reason to move": trpo(
        length=lambda x, fx, delta: (2 * delta / (x @ fx)).sqrt(), refuse=True
    ),
}


# --- tests


class TestChecks(CheckTests):
    module = trust_regions
    exercises = Exercises("02_trust_regions")
    right, wrong = RIGHT, WRONG
    kinds = {"Prove": 2, "Build": 3, "Hunt": 2, "Reflect": 1}  # noqa: RUF012


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        (
            "per-step-ratio",
            ratios(whole=lambda logs, mask: (logs * mask).sum(1).clamp(-20, 20).exp()),
            "forty steps with the ratio e, and forty with 1/e, give e to the power of 40 and of −40",
        ),
        # No mistake of its own, and no longer called by that of another.
        (
            "per-step-ratio",
            ratios(whole=lambda logs, mask: logs[:, 0].exp()),
            "those of the trajectories are",
        ),
        (
            "ess",
            lambda logs: sizes(weights=lambda x: x - x.mean(0), safe=False)(logs.cumsum(1)),
            "of weights 1, 1, 1 and e to the power of 200 one is left",
        ),
        ("ess", lambda logs: 1 / (logs.cumsum(1).softmax(1) ** 2).sum(0), "equal weights are worth"),
        (
            "hunt-line-search",
            lambda evaluate, start, step, max_kl, tries, shrink: searcher()(
                evaluate, start, step, 1.5 * max_kl, tries, shrink
            ),
            "where 0.24 is allowed, a KL of 0.25 is too much",
        ),
        ("natural-step", stepper(extra=1), "one iteration gives the plain gradient's direction"),
        ("natural-step", own_loop(alpha=lambda r, p, fp: (p @ p) / (p @ fp)), "it points along the solution"),
        (
            "natural-step",
            stepper(length=lambda x, fx, g, delta: (2 * delta / (x @ g).abs().clamp(min=1e-30)).sqrt()),
            "begun elsewhere, and with too few iterations, its KL is max_kl too",
        ),
        (
            "bound-size",
            lambda world, old, new: max(0.0, bound()(world, old, new)),
            "where nothing can be gained, the penalty is left",
        ),
        ("trust-step", trpo(tries=10), "where it must be a hundredth of the step, it is found"),
    ],
)
def test_what_has_no_name_is_told_the_property_it_breaks(
    name: str, answer: Callable[..., Any], words: str
) -> None:
    verdict = checks.run(name, answer)
    assert verdict.kind == "property", verdict.message
    assert verdict.name.startswith(words)


@pytest.mark.parametrize(("name", "of"), [("per-step-ratio", "ratios"), ("trust-step", "the gain")])
def test_a_forgotten_return_is_asked_about(name: str, of: str) -> None:
    verdict = checks.run(name, lambda *args: None)
    assert verdict.name == "nothing came back"
    assert of in verdict.message
    assert "`return`" in verdict.message


def test_an_unforeseen_mistake_is_told_the_property_it_breaks() -> None:
    verdict = checks.run("ess", lambda logs: 1 / shares(logs.cumsum(1)).max(0).values)
    assert verdict.kind == "property"
    assert "this fails: the weights (2, 1, 1, 1) are worth 25/7" in verdict.message
    assert "Read: chapter 2" in verdict.message
