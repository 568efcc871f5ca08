"""Answers to the exercises on the Fisher matrix and the step that it measures."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ppobook.trpo import conjugate_gradient, fisher_vector_product

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


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
    p = np.exp(x @ w - (x @ w).max(1, keepdims=True))
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


def with_exponentials_as_they_are(weights, observations, v):
    p = (observations @ weights).exp()
    p, u = p / p.sum(1, keepdim=True), observations @ v
    return observations.T @ (p * (u - (p * u).sum(1, keepdim=True))) / len(p)


def in_einsum(weights, observations, v):
    p = torch.softmax(torch.einsum("nk,ka->na", observations, weights), 1)
    u = torch.einsum("nk,ka->na", observations, v)
    inner = torch.einsum("na,na->n", p, u)
    return torch.einsum("nk,na->ka", observations, p * u - p * inner[:, None]) / observations.shape[0]


def a_matrix_for_each_observation(weights, observations, v):
    p = torch.softmax(observations @ weights, 1)
    blocks = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    return observations.mT @ (blocks @ (observations @ v)[:, :, None]).squeeze(-1) / len(p)


def row_by_row(weights, observations, v):
    total = torch.zeros_like(v)
    for x in observations:
        p, u = (x @ weights).softmax(0), x @ v
        total = total + torch.outer(x, p * (u - p @ u)) / len(observations)
    return total


def action_by_action(weights, observations, v):
    p, u = (observations @ weights).softmax(1), observations @ v
    mean = sum(p[:, a] * u[:, a] for a in range(p.shape[1]))
    columns = [observations.T @ (p[:, a] * (u[:, a] - mean)) for a in range(p.shape[1])]
    return torch.stack(columns, dim=1) / len(p)


def by_a_forward_derivative(weights, observations, v):
    _, turned = torch.func.jvp(lambda w: (observations @ w).softmax(-1), (weights,), (v,))
    return observations.T @ turned / len(observations)


def by_torch_func(weights, observations, v):
    def kl(w):
        logp = (observations @ w).log_softmax(-1)
        return (logp.exp().detach() * (logp.detach() - logp)).sum(1).mean()

    return torch.func.jvp(torch.func.grad(kl), (weights,), (v,))[1]


RIGHT["fisher-softmax"] = [
    product(),
    in_numpy,
    in_einsum,
    a_matrix_for_each_observation,
    lambda weights, x, v: product()(weights + torch.zeros(weights.shape[1]), x, v).double(),
]
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
    "the matrix is written out": with_the_matrix,
    "derivatives are asked of autograd": [by_derivatives, by_a_forward_derivative, by_torch_func],
    "a loop where one product would do": [row_by_row, action_by_action],
}
UNNAMED["fisher-softmax"] = [
    product(push=lambda p, u: p * (u - (p * u).sum(1, keepdim=True)).clamp(-5, 5)),
    lambda weights, x, v: product()(weights.clamp(-2, 2), x, v),
    product(scale=lambda x, weights: 0.25),
    lambda weights, x, v: product()(weights, x[:4], v),
    lambda weights, x, v: product()(weights, x, v) / v.norm() * 26**0.5,
    lambda weights, x, v: product(push=lambda p, u: p * (u - (p[:1] * u).sum(1, keepdim=True)))(
        weights, x, v
    ),
    product(push=lambda p, u: p**2 * (u - (p * u).sum(1, keepdim=True))),
    with_exponentials_as_they_are,
]


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


def guarded(where: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
    def function(matvec, g, start, max_kl, iterations):
        if where(g - matvec(start), g):
            return instead(start)
        return own_loop()(matvec, g, start, max_kl, iterations)

    return function


def the_whole_matrix(matvec, gradient, start, max_kl, iterations):
    matrix = torch.stack([matvec(e) for e in torch.eye(len(gradient), dtype=gradient.dtype)])
    x = torch.linalg.pinv(matrix) @ gradient
    return x * (2 * max_kl / (x @ matrix @ x).clamp(min=1e-30)).sqrt()


def within(matvec, gradient, start, max_kl, iterations):
    """The parallel directions written down, and the plane that they span searched as a whole."""
    x, fx = start.clone(), matvec(start)
    basis, products = [], []
    for _ in range(min(iterations, len(gradient))):
        missing = gradient - fx
        if missing.norm() <= 1e-9 * gradient.norm():
            break
        p = missing
        for q, fq in zip(basis, products, strict=True):
            p = p - (p @ fq) / (q @ fq) * q
        fp = matvec(p)
        a = (p @ missing) / (p @ fp)
        x, fx = x + a * p, fx + a * fp
        basis.append(p)
        products.append(fp)
    size = x @ matvec(x)
    return x if size <= 0 else x * torch.sqrt(2 * max_kl / size)


RIGHT["natural-step"] = [
    within,
    stepper(),
    stepper(length=lambda x, fx, g, delta: (2 * delta / (x @ fx).clamp(min=1e-30)).sqrt()),
    the_librarys_solver,
    hestenes_and_stiefel,
    own_loop(),
    own_loop(sign=-1.0),  # F x − g, and back along it
]


UNNAMED["natural-step"] = [
    stepper(extra=1),
    own_loop(alpha=lambda r, p, fp: (p @ p) / (p @ fp)),
    stepper(length=lambda x, fx, g, delta: (2 * delta / (x @ g).abs().clamp(min=1e-30)).sqrt()),
    lambda matvec, g, start, max_kl, n: stepper()(matvec, g, start, max_kl, min(n, 6)) * min(1, n / 2),
    lambda matvec, g, start, max_kl, n: stepper()(matvec, g, start, min(max_kl, 0.2), n),
    lambda matvec, g, start, max_kl, n: stepper()(matvec, g, start, max_kl, max(n, 2)),
    lambda matvec, g, start, max_kl, n: stepper()(matvec, g, start.clamp(0, 2), max_kl, n),
    lambda matvec, g, start, max_kl, n: stepper()(matvec, g, start, max_kl, n).abs(),
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
        stepper(length=lambda x, fx, g, delta: (2 * delta / (x @ fx).clamp(min=1e-8)).sqrt()),
        *(own_loop(tiny=lambda g, tiny=tiny: tiny) for tiny in (1e-6, 1e-14, 1e-16, 1e-20)),
        lambda matvec, g, *rest: 0 * g if g.norm() < 1e-6 else stepper()(matvec, g, *rest),
    ],
    "where nothing is missing there is no step": [
        guarded(lambda missing, g: missing.norm() <= 1e-10 * g.norm(), lambda start: 0 * start),
        guarded(lambda missing, g: not missing.any(), lambda start: 0 * start),
    ],
    "a start that is the solution is not scaled": guarded(
        lambda missing, g: missing.norm() <= 1e-10 * g.norm(), lambda start: start
    ),
    "max_kl is not obeyed": [
        lambda matvec, g, start, max_kl, n: stepper()(matvec, g, start, 0.01, n),
        stepper(length=lambda x, fx, g, delta: (0.08 / (x @ fx)).sqrt()),
        lambda matvec, g, start, max_kl, n: stepper()(matvec, g, start, min(max_kl, 0.04), n),
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


def by_backward(policy, observations, v, damping, *, clean=False):
    """Two calls of backward(), which adds to what is in .grad already."""
    if clean:
        policy.zero_grad()
    logp = policy(observations).log_softmax(-1)
    kl = (logp.detach().exp() * (logp.detach() - logp)).sum(-1).mean()
    slope = torch.autograd.grad(kl, list(policy.parameters()), create_graph=True)
    (parameters_to_vector(slope) @ v).backward()
    return parameters_to_vector([p.grad for p in policy.parameters()]) + damping * v


def by_finite_differences(policy, observations, v, damping):
    """The slope of the KL, a little further on, in a copy of the policy."""
    free, step = copy.deepcopy(policy), 1e-5 / float(v.norm())
    start = parameters_to_vector(free.parameters()).detach().clone()
    old = policy(observations).log_softmax(-1).detach()
    ends = []
    for sign in (1, -1):
        vector_to_parameters(start + sign * step * v, free.parameters())
        kl = (old.exp() * (old - free(observations).log_softmax(-1))).sum(-1).mean()
        ends.append(parameters_to_vector(torch.autograd.grad(kl, list(free.parameters()))))
    return (ends[0] - ends[1]) / (2 * step) + damping * v


def with_an_action_sampled(policy, observations, v, damping):
    logp = policy(observations).log_softmax(-1)
    action = torch.multinomial(logp.exp(), 1)
    total = torch.zeros_like(v)
    for entry in logp.gather(1, action)[:, 0]:
        slope = torch.autograd.grad(entry, list(policy.parameters()), retain_graph=True)
        score = parameters_to_vector(slope)
        total = total + (score @ v) * score / len(observations)
    return total + damping * v


def that_leaves_the_policy_moved(policy, observations, v, damping):
    product = curvature()(policy, observations, v, damping)
    with torch.no_grad():
        moved = parameters_to_vector(policy.parameters()) + 1e-3 * v
        vector_to_parameters(moved, policy.parameters())
    return product


def by_distributions(policy, observations, v, damping):
    p = torch.distributions.Categorical(logits=policy(observations).detach())
    q = torch.distributions.Categorical(logits=policy(observations))
    parameters = list(policy.parameters())
    slope = torch.autograd.grad(torch.distributions.kl_divergence(p, q).mean(), parameters, create_graph=True)
    dot = sum(
        (s * part.view_as(s)).sum()
        for s, part in zip(slope, v.split([s.numel() for s in slope]), strict=True)
    )
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(dot, parameters)]) + damping * v


def forward_and_backward(policy, observations, v, damping):
    """v through the network, F of the softmax, and back through the network."""
    named = {name: p.detach() for name, p in policy.named_parameters()}
    parts = zip(named.items(), v.split([p.numel() for p in named.values()]), strict=True)
    change = {name: part.view_as(p) for (name, p), part in parts}

    def logits(parameters):
        return torch.func.functional_call(policy, parameters, (observations,))

    out, push = torch.func.jvp(logits, (named,), (change,))
    probs = out.softmax(-1)
    push = probs * (push - (probs * push).sum(-1, keepdim=True)) / len(observations)
    back = torch.func.vjp(logits, named)[1](push)[0]
    return torch.cat([back[name].reshape(-1) for name in named]) + damping * v


RIGHT["hunt-fisher"] += [
    forward_and_backward,
    lambda *a: by_backward(*a, clean=True),
    by_finite_differences,
    by_distributions,
]


def with_the_slope_kept():
    """Finds the slope of the KL once for each policy: for other observations too, and when it moved."""
    slopes = {}

    def product(policy, observations, v, damping):
        parameters = list(policy.parameters())
        if policy not in slopes:
            logp = policy(observations).log_softmax(-1)
            kl = (logp.detach().exp() * (logp.detach() - logp)).sum(-1).mean()
            slope = torch.autograd.grad(kl, parameters, create_graph=True)
            slopes[policy] = torch.cat([part.flatten() for part in slope])
        product = torch.autograd.grad(slopes[policy] @ v, parameters, retain_graph=True)
        return torch.cat([part.flatten() for part in product]) + damping * v

    return product


UNNAMED["hunt-fisher"] = [
    with_the_slope_kept(),
    lambda policy, x, v, damping: curvature()(policy, x, v, damping) * v.norm().clamp(max=1),
    lambda policy, x, v, damping: curvature()(policy, x[:1], v, damping),
    lambda policy, x, v, damping: curvature()(policy, x[x.any(1)], v, damping),
    curvature(damped=lambda v, damping: min(damping, 1.0) * v),
    curvature(damped=lambda v, damping: damping * v.sign()),
    curvature(damped=lambda v, damping: damping**2 * v),
    lambda policy, x, v, damping: curvature()(policy, x, v, damping).abs(),
    with_an_action_sampled,
    that_leaves_the_policy_moved,
    lambda policy, x, v, damping: curvature()(policy, x, v + 0.01 * torch.randn_like(v), damping),
]
WRONG["hunt-fisher"] = {
    "the gradients of earlier calls are added": by_backward,
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
