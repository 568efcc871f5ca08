"""Answers to the exercises on taking a step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from answers.trust_regions.curvature import forward_and_backward
from ppobook.trpo import conjugate_gradient, fisher_vector_product, line_search

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


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


def at_the_first_loss(evaluate, start, step, max_kl, tries, shrink):
    for k in range(tries):
        gain, kl = evaluate(start + shrink**k * step)
        if not gain > 0:
            break
        if kl <= max_kl:
            return start + shrink**k * step, True
    return start, False


def at_the_first_that_is_near(evaluate, start, step, max_kl, tries, shrink):
    for k in range(tries):
        gain, kl = evaluate(start + shrink**k * step)
        if kl <= max_kl:
            return (start + shrink**k * step, True) if gain > 0 else (start, False)
    return start, False


def with_much_of_the_first_gain(evaluate, start, step, max_kl, tries, shrink):
    first = evaluate(start + step)[0]
    good = picky(good=lambda gain, kl, m: gain > 0 and kl <= m and not gain < 0.1 * first)
    return good(evaluate, start, step, max_kl, tries, shrink)


def that_turns_round(evaluate, start, step, max_kl, tries, shrink):
    for k in range(tries):
        gain, kl = evaluate(start + shrink**k * step)
        if gain > 0 and kl <= max_kl:
            return start + shrink**k * step, True
        step = -step if gain < 0 else step
    return start, False


def all_at_once(evaluate, start, step, max_kl, tries, shrink):
    rows = [start + shrink**k * step for k in range(tries)]
    good = [row for row in rows for gain, kl in [evaluate(row)] if gain > 0 and not kl > max_kl]
    return (good[0], True) if good else (start, False)


def with_nan_named(evaluate, start, step, max_kl, tries, shrink):
    length = 1.0
    for _ in range(tries):
        gain, kl = evaluate(torch.add(start, step, alpha=length))
        if not (gain <= 0 or kl > max_kl or np.isnan(gain) or np.isnan(kl)):
            return torch.add(start, step, alpha=length), True
        length *= shrink
    return start, False


def with_its_own(*, tries: int | None = None, shrink: float | None = None) -> Callable[..., Any]:
    def function(evaluate, start, step, max_kl, allowed, factor):
        return searcher()(evaluate, start, step, max_kl, tries or allowed, shrink or factor)

    return function


def not_beyond(limit: float) -> Callable[..., Any]:
    return lambda evaluate, start, step, max_kl, tries, shrink: searcher()(
        evaluate, start, step, min(max_kl, limit), tries, shrink
    )


RIGHT["hunt-line-search"] = [
    searcher(),
    while_shrinking,
    the_librarys,
    picky(),
    with_nan_named,
]
UNNAMED["hunt-line-search"] = [
    with_much_of_the_first_gain,
    with_its_own(tries=6),
    with_its_own(shrink=0.5),
    with_its_own(tries=6, shrink=0.5),
    not_beyond(0.1),
    lambda evaluate, start, step, max_kl, tries, shrink: searcher()(
        evaluate, start, step, 1.5 * max_kl, tries, shrink
    ),
    lambda evaluate, start, step, max_kl, tries, shrink: searcher()(
        evaluate, start, step, max_kl, tries + 1, shrink
    ),
    lambda evaluate, start, step, max_kl, tries, shrink: searcher()(
        evaluate, start, step, max_kl, tries - 1, shrink
    ),
    lambda evaluate, start, step, max_kl, tries, shrink: (
        searcher()(evaluate, start, step, max_kl, tries, shrink)[0],
        True and searcher()(evaluate, start, step, max_kl, 6, shrink)[1],
    ),
]
WRONG["hunt-line-search"] = {
    "each try begins where the last one ended": searcher(cumulative=True),
    "it goes backwards": [searcher(sign=-1.0), that_turns_round],
    "one of the two conditions is enough": searcher(either=True),
    "the KL is not asked": searcher(near=False),
    "the gain is not asked": searcher(gains=False),
    "the whole step is never tried": searcher(first=1),
    "after a failure it does not go back": searcher(restore=False),
    "a failure is called a success": searcher(honest=False),
    "a gain of zero is enough": picky(good=lambda gain, kl, m: gain >= 0 and kl <= m),
    "what is no number passes": [
        searcher(refuse=True),
        all_at_once,
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
    "it gives up too early": [picky(once=True), at_the_first_loss, at_the_first_that_is_near],
    "a KL of just max_kl is refused": picky(good=lambda gain, kl, m: gain > 0 and kl < m),
    "a small gain is refused": [
        picky(good=lambda gain, kl, m, least=least: gain > least and kl <= m) for least in (1e-6, 1e-4, 0.01)
    ],
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
    iterations: int = 10,
    tolerance: float = 0.0,
    least: float = 0.0,
    slack: float = 1.0,
    noticed: bool = False,
    once: bool = False,
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
        mean = kl[advantages != 0].mean() if noticed and advantages.any() else kl.mean()
        if once:  # a state that was visited twice counts once
            logp = policy(observations.unique(dim=0)).log_softmax(-1)
            mean = (logp.detach().exp() * (logp.detach() - logp)).sum(-1).mean()
        slope = parameters_to_vector(torch.autograd.grad(mean, parameters, create_graph=True))

        def fisher(v):
            again = torch.autograd.grad(slope @ v, parameters, retain_graph=True)
            return parameters_to_vector(again) + damping * v

        x = g if plain or g.norm() <= tolerance else conjugate_gradient(fisher, g, iterations=iterations)
        step = sign * length(x, fisher(x), max_kl) * x
        found, said = None, (0.0, 0.0)
        with torch.no_grad():
            for k in range(first, tries):
                vector_to_parameters(start + shrink**k * step, parameters)
                gain, kl = measure()
                good = (gain > least or not gains) and (over(kl) <= slack * max_kl or not near)
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
    names = dict(policy.named_parameters())
    sizes, n = [p.numel() for p in names.values()], len(actions)

    def logits(row):
        parts = zip(names.items(), row.split(sizes), strict=True)
        parameters = {name: part.reshape(p.shape) for (name, p), part in parts}
        return torch.func.functional_call(policy, parameters, (observations,))

    start = parameters_to_vector(policy.parameters()).detach().clone()
    old = logits(start).log_softmax(-1)

    def gain(row):
        return (((logits(row).log_softmax(-1) - old)[torch.arange(n), actions].exp() - 1) * advantages).mean()

    def kl(row):
        return (old.exp() * (old - logits(row).log_softmax(-1))).sum(1)

    g = torch.autograd.functional.jacobian(gain, start)
    fisher = torch.autograd.functional.hessian(lambda row: kl(row).mean(), start)
    x = conjugate_gradient(lambda v: fisher @ v + damping * v, g, iterations=10)
    size = x @ (fisher @ x + damping * x)
    if size > 0:
        for k in range(30):
            row = start + 0.8**k * (2 * max_kl / size) ** 0.5 * x
            if gain(row) > 0 and kl(row).max() <= max_kl:
                vector_to_parameters(row, policy.parameters())
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


def the_first_parameter_alone(policy, observations, actions, advantages, max_kl, damping):
    held = list(policy.parameters())[1:]
    for p in held:
        p.requires_grad_(False)
    free = [p for p in policy.parameters() if p.requires_grad]
    parameters = policy.parameters
    policy.parameters = lambda: iter(free)
    try:
        return trpo()(policy, observations, actions, advantages, max_kl, damping)
    finally:
        policy.parameters = parameters


def with_the_matrix_of_scores(policy, observations, actions, advantages, max_kl, damping, *, exactly=False):
    """The Fisher matrix from its definition, one score a row."""
    parameters, taken = list(policy.parameters()), actions[:, None]
    logp = policy(observations).log_softmax(-1)
    old, start = logp.detach(), parameters_to_vector(parameters).detach().clone()
    rows = [
        parameters_to_vector(torch.autograd.grad(x, parameters, retain_graph=True)) for x in logp.flatten()
    ]
    scores = torch.stack(rows).double()
    fisher = (scores.T * old.double().exp().flatten()) @ scores / len(actions)
    fisher = fisher + damping * torch.eye(len(start))
    score = scores.reshape(*logp.shape, -1)[torch.arange(len(actions)), actions]
    g = score.T @ advantages.double() / len(actions)
    direction = torch.linalg.solve(fisher, g) if exactly else conjugate_gradient(fisher.mv, g, iterations=10)
    curvature = direction @ fisher @ direction
    if curvature == 0:
        return 0.0, 0.0
    step = ((2 * max_kl / curvature).sqrt() * direction).float()
    with torch.no_grad():
        for share in 0.8 ** np.arange(30):
            vector_to_parameters(start + float(share) * step, parameters)
            logp = policy(observations).log_softmax(-1)
            gain = float((((logp - old).gather(1, taken)[:, 0].exp() - 1) * advantages).mean())
            kl = float((old.exp() * (old - logp)).sum(1).max())
            if gain > 0 and kl <= max_kl:
                return gain, kl
        vector_to_parameters(start, parameters)
    return 0.0, 0.0


def with_the_library(
    policy, observations, actions, advantages, max_kl, damping, product=fisher_vector_product
):
    """With the three functions that the exercise's text names."""
    parameters, taken = list(policy.parameters()), (torch.arange(len(actions)), actions)
    old = policy(observations).log_softmax(-1).detach()
    start = parameters_to_vector(parameters).detach().clone()

    def fisher(v):
        return product(policy, observations, v, damping=damping)

    def gain():
        return (((policy(observations).log_softmax(-1) - old)[taken].exp() - 1) * advantages).mean()

    @torch.no_grad()
    def measure(row):
        vector_to_parameters(row, parameters)
        kl = (old.exp() * (old - policy(observations).log_softmax(-1))).sum(-1)
        return gain().item(), kl.max().item()

    x = conjugate_gradient(
        fisher, parameters_to_vector(torch.autograd.grad(gain(), parameters)), iterations=10
    )
    curvature = x @ fisher(x)
    if curvature <= 0:
        return 0.0, 0.0
    step = (2 * max_kl / curvature).sqrt() * x
    found = line_search(measure, start, step, max_kl=max_kl, steps=30, backtrack=0.8)
    vector_to_parameters(found.parameters, parameters)
    return found.gain, found.kl


def where_it_was_noticed(policy, observations, actions, advantages, max_kl, damping):
    """The KL is limited only where the advantage is not 0."""
    seen = advantages != 0 if advantages.any() else advantages == 0
    return trpo(over=lambda kl: kl[seen].max())(policy, observations, actions, advantages, max_kl, damping)


def that_says_the_limit(policy, observations, actions, advantages, max_kl, damping):
    gain, kl = trpo()(policy, observations, actions, advantages, max_kl, damping)
    return (gain, kl) if gain else (0.0, max_kl)


RIGHT["trust-step"] = [
    with_the_library,
    lambda *a: with_the_library(*a, product=forward_and_backward),
    with_the_matrix_of_scores,
    trpo(),
    trpo(clone=True),
    trpo(length=lambda x, fx, d: (2 * d / (x @ fx)).sqrt() if x.any() else torch.zeros(())),
    from_the_table_itself,
]
UNNAMED["trust-step"] = [
    trpo(once=True),
    trpo(tries=29),
    trpo(tries=10),
    trpo(over=lambda kl: kl[0]),
    trpo(over=lambda kl: kl[:4].max()),
    trpo(over=lambda kl: kl[:6].max()),
    trpo(over=lambda kl: kl[:8].max()),
    trpo(length=lambda x, fx, d: (2 * min(d, 0.03) / (x @ fx).clamp(min=1e-30)).sqrt()),
    trpo(report=False),
    trpo(tell=lambda kl: kl.sum()),
    trpo(tell=lambda kl: kl[0]),
    trpo(tell=lambda kl: kl.sort().values[-2]),
    trpo(restore=True, tell=lambda kl: torch.tensor(0.01)),
    that_says_the_limit,
    where_it_was_noticed,
    trpo(noticed=True),
    trpo(slack=1.05),
    trpo(slack=1.5),
    trpo(over=lambda kl: kl[-6:].max()),
    *(trpo(least=least) for least in (1e-3, 1e-4, 1e-8)),
    trpo(tolerance=1e-6),
    *(
        trpo(length=lambda x, fx, d, more=more: (2 * d / (x @ fx + more)).sqrt())
        for more in (1e-4, 1e-6, 1e-8)
    ),
]
WRONG["trust-step"] = {
    "the lengths shrink by another factor": [
        trpo(shrink=0.5),
        trpo(shrink=0.9, tries=60),
        trpo(shrink=0.9),
        trpo(shrink=0.7),
    ],
    "there are more tries than thirty": [trpo(tries=31), trpo(tries=100)],
    "some of the parameters are left out": the_first_parameter_alone,
    "it goes downhill": trpo(sign=-1.0, gains=False),
    "the plain gradient": trpo(plain=True),
    "the mean KL, not the largest": trpo(over=lambda kl: kl.mean()),
    "it leaves the trust region": [
        trpo(near=False, length=lambda x, fx, delta: 2 * (2 * delta / (x @ fx).clamp(min=1e-30)).sqrt()),
    ],
    "the iterations are not ten": [
        *(trpo(iterations=n) for n in (5, 6, 7, 8, 9, 11, 12, 20, 100)),
        lambda *a: with_the_matrix_of_scores(*a, exactly=True),
    ],
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
