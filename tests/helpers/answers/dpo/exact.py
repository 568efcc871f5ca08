"""Right and wrong answers where all texts are listed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong
from torch.nn import functional as F  # noqa: N812

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}

# --- best-policy


def by_softmax(p_ref, rewards, beta):
    return (p_ref.log() + rewards / beta).softmax(1)


def log_z(p_ref, rewards, beta):
    return beta * (p_ref.log() + rewards / beta).logsumexp(1)


def best(policy: Callable[..., Any] = by_softmax, value: Callable[..., Any] = log_z) -> Callable[..., Any]:
    return lambda p_ref, rewards, beta: (policy(p_ref, rewards, beta), value(p_ref, rewards, beta))


def in_double(p_ref, rewards, beta):
    p_ref, rewards = p_ref.double().numpy(), rewards.double().numpy()
    top = np.where(p_ref > 0, rewards, -np.inf).max(1, keepdims=True)
    weights = p_ref * np.exp(np.minimum((rewards - top) / beta, 0))
    z = weights.sum(1, keepdims=True)
    return weights / z, (top + beta * np.log(z))[:, 0]


def by_the_bracket(p_ref, rewards, beta):
    """J from the policy, with care where there is no probability."""
    policy = torch.softmax(p_ref.double().log() + rewards.double() / beta, dim=-1)
    price = beta * (torch.xlogy(policy, policy) - torch.xlogy(policy, p_ref.double()))
    return [policy, (policy * rewards - price).sum(-1)]


def in_lists(p_ref, rewards, beta):
    policies, values = [], []
    for ref, pay in zip(p_ref.tolist(), rewards.tolist(), strict=True):
        top = max(r for f, r in zip(ref, pay, strict=True) if f)
        weights = [f * math.exp((r - top) / beta) if f else 0.0 for f, r in zip(ref, pay, strict=True)]
        policies.append([w / sum(weights) for w in weights])
        values.append(top + beta * math.log(sum(weights)))
    return policies, values


def naive(p_ref, rewards, beta):
    weights = p_ref * (rewards / beta).exp()
    return weights / weights.sum(1, keepdim=True)


def ones(x):
    return x / x.sum(1, keepdim=True)


def of_policy(form: Callable[..., Any]) -> Callable[..., Any]:
    """A value from the right policy."""
    return best(value=lambda f, r, b: form(by_softmax(f, r, b), f, r, b))


def from_the_best_text(among: Callable[..., Any] = lambda f, r: r.masked_fill(f == 0, -math.inf)):
    def function(p_ref, rewards, beta):
        possible = among(p_ref, rewards)
        top = possible.max(1, keepdim=True).values
        weights = p_ref * torch.exp((possible - top) / beta)
        z = weights.sum(1, keepdim=True)
        return weights / z, top[:, 0] + beta * z[:, 0].log()

    return function


def reward_less_price(p_ref, rewards, beta):
    policy = by_softmax(p_ref, rewards, beta)
    kl = torch.where(policy > 0, policy * (policy.log() - p_ref.log()), 0.0).sum(1)
    return policy, (policy * rewards).sum(1) - beta * kl


RIGHT["best-policy"] = [in_double, by_the_bracket, in_lists, from_the_best_text(), reward_less_price]
WRONG["best-policy"] = {
    "the policy does not add up to one": [
        best(lambda f, r, b: f * (r / b).exp()),
        best(lambda f, r, b: (f.log() + r / b).flatten().softmax(0).reshape(f.shape)),
        best(lambda f, r, b: (f.log() + r / b).softmax(0)),
    ],
    "the reference is left out": best(lambda f, r, b: (r / b).softmax(1)),
    "the sign of the reward is reversed": best(lambda f, r, b: (f.log() - r / b).softmax(1)),
    "β multiplies the reward": best(lambda f, r, b: (f.log() + r * b).softmax(1)),
    "β is not used": best(lambda f, r, b: (f.log() + r).softmax(1)),
    "the largest reward is not added back": [
        best(value=lambda f, r, b: log_z(f, r, b) - r.max(1).values),
        best(value=lambda f, r, b: log_z(f, r, b) - r.max()),
    ],
    "probabilities instead of logarithms": best(lambda f, r, b: (f + r / b).softmax(1)),
    "the reference is taken to a power": [
        best(lambda f, r, b: (b * f.log() + r).softmax(1)),
        best(lambda f, r, b: ((f.log() + r) / b).softmax(1)),
    ],
    "the exponential is missing": [
        best(lambda f, r, b: ones(f * r)),
        best(lambda f, r, b: ones(f * (1 + r / b))),
    ],
    "all probability is on the best text": best(lambda f, r, b: F.one_hot(r.argmax(1), r.shape[1]).float()),
    "nothing moves": best(lambda f, r, b: f),
    "the value is without β": best(value=lambda f, r, b: (f.log() + r / b).logsumexp(1)),
    "the value is Z, not its logarithm": best(value=lambda f, r, b: (f * (r / b).exp()).sum(1)),
    "the value has the wrong sign": best(value=lambda f, r, b: -log_z(f, r, b)),
    "the value is the reward alone": of_policy(lambda p, f, r, b: (p * r).sum(1)),
    "the KL penalty is added": of_policy(lambda p, f, r, b: (p * (r + b * (p / f).log())).sum(1)),
    "the KL penalty is without β": of_policy(lambda p, f, r, b: (p * (r - (p / f).log())).sum(1)),
    "the KL has the wrong direction": of_policy(lambda p, f, r, b: (p * r - b * f * (f / p).log()).sum(1)),
    "the value belongs to the reference": best(value=lambda f, r, b: (f * r).sum(1)),
    "the value gives all texts the same weight": [
        best(value=lambda f, r, b: b * (r / b).logsumexp(1)),
        best(value=lambda f, r, b: b * ((r / b).logsumexp(1) - math.log(r.shape[1]))),
    ],
    "a mean over the texts": of_policy(lambda p, f, r, b: (p * (r - b * (p / f).log())).mean(1)),
    "the exponential overflows": best(naive, lambda f, r, b: b * (f * (r / b).exp()).sum(1).log()),
}
WRONG["best-policy"]["a text that the reference never writes"] = [
    of_policy(lambda p, f, r, b: (p * r).sum(1) - b * (p * p.clamp(min=1e-37).log() - p * f.log()).sum(1)),
    lambda f, r, b: best()(f.clamp(min=1e-5), r, b),
    lambda f, r, b: best()(f + 1e-12, r, b),
]
WRONG["best-policy"]["the largest reward belongs to a text with probability 0"] = from_the_best_text(
    lambda f, r: r
)
WRONG["best-policy"]["the logarithm of a probability of 0"] = of_policy(
    lambda p, f, r, b: (p * (r - b * (p / f).log())).sum(1)
)
UNNAMED["best-policy"] = [
    best(value=lambda f, r, b: (by_softmax(f, r, b) * r).sum(1) / 2 + log_z(f, r, b) / 2),
    best(lambda f, r, b: (f.log() + r.clamp(max=2.5) / b).softmax(1)),
    best(lambda f, r, b: (f.log() + r / (2 * b)).softmax(1)),
]

# --- both-fall


def fall(
    *,
    policy: Callable[..., Any] = lambda f, x, t: (f.log() + x @ t).softmax(0),
    mean: Callable[..., Any] = lambda p, f, x: p @ x,
    weight: Callable[..., Any] = lambda b, h: b * torch.sigmoid(-b * h),
    margin: Callable[..., Any] = lambda h, f, c, r: h,
    out: Callable[..., Any] = lambda rate, p: rate,
) -> Callable[..., Any]:
    """The rates with one part changed."""

    def function(p_ref, features, theta, chosen, rejected, beta):
        p = policy(p_ref, features, theta)
        d = features[chosen] - features[rejected]
        w = weight(beta, margin(theta @ d, p_ref, chosen, rejected))
        return out(w * (features - mean(p, p_ref, features)) @ d, p)

    return function


def by_jacobian(p_ref, features, theta, chosen, rejected, beta):
    """Both slopes from autograd."""

    def logs(t):
        return (p_ref.double().log() + features.double() @ t).log_softmax(0)

    def loss(t):
        ratio = logs(t) - p_ref.double().log()
        return -F.logsigmoid(beta * (ratio[chosen] - ratio[rejected]))

    theta = theta.double()
    step = -torch.autograd.functional.jacobian(loss, theta)
    return torch.autograd.functional.jacobian(logs, theta) @ step


def in_numpy_text_by_text(p_ref, features, theta, chosen, rejected, beta):
    f, x, t = (a.double().numpy() for a in (p_ref, features, theta))
    weights = [f[k] * math.exp(float(x[k] @ t)) for k in range(len(f))]
    p = [w / sum(weights) for w in weights]
    center = sum(p[k] * x[k] for k in range(len(f)))
    d = x[chosen] - x[rejected]
    w = beta / (1 + math.exp(beta * float(d @ t)))
    return [w * float(d @ (row - center)) for row in x]


def from_the_log_ratios(p_ref, features, theta, chosen, rejected, beta):
    policy = p_ref * torch.exp(features @ theta)
    policy = policy / policy.sum()
    moved = policy.log() - p_ref.log()
    d = features[chosen] - features[rejected]
    weight = beta * (1 - torch.sigmoid(beta * (moved[chosen] - moved[rejected])))
    return (weight * (features @ d - (policy * (features @ d)).sum())).numpy()


RIGHT["both-fall"] = [by_jacobian, in_numpy_text_by_text, from_the_log_ratios, fall()]
WRONG["both-fall"] = {
    "the sign is reversed": fall(out=lambda rate, p: -rate),
    "the policy's mean is not subtracted": fall(mean=lambda p, f, x: 0.0),
    "the mean belongs to the reference": fall(mean=lambda p, f, x: f @ x),
    "the mean gives all texts the same weight": fall(mean=lambda p, f, x: x.mean(0)),
    "the policy leaves out the reference": fall(policy=lambda f, x, t: (x @ t).softmax(0)),
    "the slope of the probability, not of its logarithm": fall(out=lambda rate, p: p * rate),
    "the weight belongs to the first step": fall(weight=lambda b, h: b / 2),
    "the weight is without β": fall(weight=lambda b, h: torch.sigmoid(-b * h)),
    "β is only in front": fall(weight=lambda b, h: b * torch.sigmoid(-h)),
    "the weight is certainty, not surprise": fall(weight=lambda b, h: b * torch.sigmoid(b * h)),
    "the weight is missing": fall(weight=lambda b, h: 1.0),
    "only the chosen text pushes": lambda f, x, t, c, r, b: (
        b
        * torch.sigmoid(-b * (t @ (x[c] - x[r])))
        * (x - (f.log() + x @ t).softmax(0) @ x)
        @ (x[c] - (f.log() + x @ t).softmax(0) @ x)
    ),
    "the reference is in h twice": [
        fall(margin=lambda h, f, c, r: h + (f[c] / f[r]).log()),
        fall(margin=lambda h, f, c, r: h - (f[c] / f[r]).log()),
    ],
    "the features are summed before the product": lambda f, x, t, c, r, b: (
        b
        * torch.sigmoid(-b * (t @ (x[c] - x[r])))
        * (x - (f.log() + x @ t).softmax(0) @ x).sum(1)
        * (x[c] - x[r]).sum()
    ),
}
UNNAMED["both-fall"] = [
    fall(weight=lambda b, h: b * torch.sigmoid(-b * h.clamp(max=1))),
    fall(mean=lambda p, f, x: x[(p > 0.99 * p.max())].mean(0)),
    fall(weight=lambda b, h: 2 * b),
]

# --- no-reference


def simpo(
    rewards: Callable[..., Any] = lambda r, n, b: r / b, power: Callable[..., Any] = lambda n: n
) -> Callable[..., Any]:
    """By halving an interval."""

    def function(r, lengths, beta):
        n = power(lengths.double())
        a = rewards(r.double(), lengths, beta)
        low, high = -a.max() - 60, -a.max() + 60
        for _ in range(90):
            c = (low + high) / 2
            low, high = (low, c) if ((n * (a + c)).exp().sum() > 1) else (c, high)
        return (n * (a + c)).exp()

    return function


def by_newton(rewards, lengths, beta):
    a, n = rewards.double().numpy() / beta, lengths.numpy()
    c = -a.max()
    for _ in range(100):
        p = np.exp(n * (a + c))
        c = (
            c - math.log(p.sum()) * p.sum() / (n * p).sum()
            if abs(p.sum() - 1) > 1e-3
            else (c - (p.sum() - 1) / (n * p).sum())
        )
    return np.exp(n * (a + c))


def by_polynomial(rewards, lengths, beta):
    """Each e^c is tried, and c is moved by a shrinking step."""
    a = [r / beta for r in rewards.tolist()]
    c, step = -max(a), 1.0
    for _ in range(400):
        total = sum(math.exp(min(n * (x + c), 50)) for n, x in zip(lengths.tolist(), a, strict=True))
        if total > 1:
            c -= step
        else:
            c += step
            step /= 2
    return [math.exp(n * (x + c)) for n, x in zip(lengths.tolist(), a, strict=True)]


def halved(*, steps: int = 60, single: bool = False, ones: bool = False, level: bool = False):
    """The hint's interval, with too few steps or digits; perhaps divided by the sum; from the best reward."""

    def function(rewards, lengths, beta):
        a = (rewards if single else rewards.double()) / beta
        if level:
            a = a - a.max()
        low, high = -a.max() - math.log(len(rewards)), -a.max()
        for _ in range(steps):
            c = (low + high) / 2
            if (lengths * (a + c)).exp().sum() > 1:
                high = c
            else:
                low = c
        policy = (lengths * (a + c)).exp()
        return policy / policy.sum() if ones else policy

    return function


RIGHT["no-reference"] = [
    simpo(),
    by_newton,
    by_polynomial,
    halved(ones=True),
    halved(single=True, level=True),
    halved(single=True, ones=True),
]


def within(bound: float) -> Callable[..., Any]:
    """The level is looked for between two fixed numbers."""

    def function(rewards, lengths, beta):
        a, n, low, high = rewards.double() / beta, lengths.double(), -bound, bound
        for _ in range(200):
            c = (low + high) / 2
            low, high = (low, c) if (n * (a + c)).logsumexp(0) > 0 else (c, high)
        return (n * (a + c)).exp()

    return function


WRONG["no-reference"] = {
    "the policy does not add up to one": [
        lambda r, n, b: (n * r / b).exp(),
    ],
    "lengths are not used": [lambda r, n, b: (r / b).softmax(0), lambda r, n, b: r.softmax(0)],
    "too few digits, or too few steps": [
        halved(single=True),
        halved(steps=8),
        halved(steps=10),
    ],
    "c is outside the interval": within(100.0),
    "lengths divide": [
        simpo(power=lambda n: 1 / n),
        lambda r, n, b: 1 / n / (1 / n).sum(),
    ],
    "normalized by a division, not by c": [
        lambda r, n, b: (n * r / b).softmax(0),
        lambda r, n, b: simpo()(r, n, b) if not r.any() else (n * r / b).softmax(0),
    ],
    "β multiplies the reward": simpo(lambda r, n, b: r * b),
    "β is not used": simpo(lambda r, n, b: r),
    "the sign of the reward is reversed": simpo(lambda r, n, b: -r / b),
    "the reward is per text, not per token": simpo(lambda r, n, b: r / b / n),
    "all probability is on the best text": lambda r, n, b: (
        F.one_hot(r.argmax(), len(r)).double() if r.any() else simpo()(r, n, b)
    ),
}
UNNAMED["no-reference"] = [
    simpo(power=lambda n: n.clamp(max=6)),
    simpo(lambda r, n, b: r / b - (r / b).clamp(min=3) + 3),
    simpo(lambda r, n, b: 2 * r / b),
    halved(steps=10, ones=True),
]

# --- dpo-train


def table(
    *,
    start: Callable[..., Any] = lambda f: f.log(),
    reference: Callable[..., Any] = lambda f: f.log(),
    columns: tuple[int, int, int] = (0, 1, 2),
    scale: Callable[..., Any] = lambda b: b,
    loss: Callable[..., Any] = lambda z: -F.logsigmoid(z).mean(),
    steps: int = 2500,
    rate: Callable[..., Any] = lambda b: 3 / b**2,
    mix: Callable[..., Any] = lambda choices: choices,
    out: Callable[..., Any] = lambda logits: logits.softmax(1),
) -> Callable[..., Any]:
    def function(p_ref, choices, beta):
        prompts, chosen, rejected = (mix(choices)[:, k] for k in columns)
        logits = start(p_ref).clone().requires_grad_()
        for _ in range(steps):
            ratio = logits.log_softmax(1) - reference(p_ref)
            h = ratio[prompts, chosen] - ratio[prompts, rejected]
            step = rate(beta) * torch.autograd.grad(loss(scale(beta) * h), logits)[0]
            logits = (logits - step).detach().requires_grad_()
            if step.abs().max() < 1e-5:
                break
        return out(logits.detach())

    return function


def by_lbfgs(p_ref, choices, beta):
    theta = torch.zeros(p_ref.shape, dtype=torch.float64, requires_grad=True)
    m, w, lost = choices.unbind(1)
    optimizer = torch.optim.LBFGS([theta], max_iter=300, line_search_fn="strong_wolfe", tolerance_grad=1e-9)

    def closure():
        optimizer.zero_grad()
        loss = F.softplus(-beta * (theta[m, w] - theta[m, lost])).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    return (p_ref.double().log() + theta.detach()).softmax(1)


def by_hand_in_numpy(p_ref, choices, beta):
    f, rows = p_ref.double().numpy(), choices.numpy()
    moved = np.zeros(f.shape)
    for _ in range(3000):
        h = moved[rows[:, 0], rows[:, 1]] - moved[rows[:, 0], rows[:, 2]]
        push = 3 / beta / len(rows) / (1 + np.exp(beta * h))
        np.add.at(moved, (rows[:, 0], rows[:, 1]), push)
        np.add.at(moved, (rows[:, 0], rows[:, 2]), -push)
    weights = f * np.exp(moved)
    return weights / weights.sum(1, keepdims=True)


def by_adam(p_ref, choices, beta):
    logits = p_ref.log().clone().requires_grad_()
    adam = torch.optim.Adam([logits], lr=0.1)
    m, w, lost = choices.T
    start = p_ref.log()
    for step in range(1200):
        adam.param_groups[0]["lr"] = 0.15 * 0.995**step / min(beta, 1)
        ratio = logits.log_softmax(1) - start
        loss = -F.logsigmoid(beta * (ratio[m, w] - ratio[m, lost])).sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
    return logits.detach().softmax(1).tolist()


def majority(choices):
    """Only the choices of each pair's majority."""
    rows = choices.tolist()
    kept = [r for r in rows if rows.count(r) > rows.count([r[0], r[2], r[1]])]
    return torch.tensor(kept)


def copied(p_ref, choices, beta):
    counts = torch.zeros(p_ref.shape)
    counts.index_put_((choices[:, 0], choices[:, 1]), torch.ones(len(choices)), accumulate=True)
    return counts / counts.sum(1, keepdim=True)


def together(choices):
    return torch.cat([0 * choices[:, :1], choices[:, 1:]], 1)


def shared_row(p_ref, choices, beta):
    """One row of moves for all prompts."""
    moved = table()(torch.ones_like(p_ref[:1]), together(choices), beta)
    return (p_ref.log() + moved.log()).softmax(1)


def against_the_first(p_ref, choices, beta):
    """Log-odds against text 0; what people said of other pairs is not read."""
    wins = torch.zeros(*p_ref.shape, p_ref.shape[1])
    for m, a, b in choices.tolist():
        wins[m, a, b] += 1
    odds = wins[:, :, 0].clamp(min=0.5).log() - wins[:, 0].clamp(min=0.5).log()
    odds[:, 0] = 0
    return (p_ref.log() + odds / beta).softmax(1)


RIGHT["dpo-train"] = [by_lbfgs, by_hand_in_numpy, by_adam]
WRONG["dpo-train"] = {
    "the policy does not add up to one": [table(out=lambda x: x), table(out=lambda x: x.softmax(0))],
    "nothing moves": [table(steps=0), lambda f, c, b: f.clone()],
    "equal choices count once": table(mix=lambda choices: torch.unique(choices, dim=0)),
    "chosen and rejected are exchanged": [
        table(columns=(0, 2, 1)),
        table(loss=lambda z: -F.logsigmoid(-z).mean()),
    ],
    "the reference is left out": [
        table(start=lambda f: 0 * f, reference=lambda f: 0 * f),
        table(reference=lambda f: 0 * f),
    ],
    "β is not used": table(scale=lambda b: 1.0, rate=lambda b: 3.0),
    "β multiplies where it should divide": table(scale=lambda b: 1 / b, rate=lambda b: 3 * b**2),
    "the prompts are mixed": shared_row,
    "the majority decides": table(mix=majority),
    "the chosen texts are imitated": copied,
    "the policy is not at rest": [
        table(steps=10),
        table(rate=lambda b: 0.1, steps=200),
        against_the_first,
        table(scale=lambda b: 2 * b, rate=lambda b: 0.7 / b**2),
    ],
}
UNNAMED["dpo-train"] = [
    table(scale=lambda b: max(b, 0.4)),
    table(scale=lambda b: min(b, 1.0), rate=lambda b: 3.0),
    lambda f, c, b: table()(f, c, b) if len(f) == 2 else table(scale=lambda b: 0.8 * b)(f, c, b),
]
