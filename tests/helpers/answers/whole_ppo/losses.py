"""Right and wrong parts of the loss: the critic's, the entropies, the whole, where the clip is flat."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from checks import Right, Unnamed, Wrong

from ppobook.objectives import ppo_loss, value_loss

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- critic-loss


def critic(
    *,
    box: Callable[..., Any] = lambda v, old, r, eps: old + (v - old).clamp(-eps, eps),
    choose: Callable[..., Any] = torch.maximum,
    error: Callable[..., Any] = lambda v, r: (v - r) ** 2,
    reduce: Callable[..., Any] = torch.mean,
    factor: float = 0.5,
    keep_returns: bool = False,
    keep_old: bool = False,
    own_eps: float | None = None,
) -> Callable[..., Any]:
    def function(values, returns, old_values=None, clip_eps=None):
        returns = returns if keep_returns else returns.detach()
        errors = error(values, returns)
        if clip_eps is not None:
            old = old_values if keep_old else old_values.detach()
            eps = clip_eps if own_eps is None else own_eps
            errors = choose(errors, error(box(values, old, returns, eps), returns))
        return factor * reduce(errors)

    return function


def critic_by_cases(values, returns, old_values=None, clip_eps=None):
    terms = []
    for i, (v, r) in enumerate(zip(values.flatten(), returns.detach().flatten(), strict=True)):
        term = (v - r).square()
        if clip_eps is not None:
            old = float(old_values.flatten()[i])
            near = v if abs(float(v) - old) <= clip_eps else old + math.copysign(clip_eps, float(v) - old)
            other = (near - r) ** 2
            term = term if term >= other else other + 0 * v
        terms.append(term)
    return sum(terms) / (2 * len(terms))


def critic_in_halves(values, returns):
    """The square as a product of two errors, each with its gradient."""
    return torch.mul(values - returns.detach(), (values - returns.detach()) / 2).mean()


def clipped_unasked(values, returns, old_values=None, clip_eps=None):
    eps = 0.2 if clip_eps is None else clip_eps
    return critic()(values, returns, old_values, None if old_values is None else eps)


def half_the_gradient(values, returns, old_values=None, clip_eps=None):
    if clip_eps is not None:
        return critic()(values, returns, old_values, clip_eps)
    return 0.5 * ((values - returns.detach()) * (values - returns).detach()).mean()


def critic_by_relu(values, returns, old_values=None, clip_eps=None):
    free = F.mse_loss(values, returns.detach(), reduction="none")
    if clip_eps is None:
        return free.mean() / 2
    old = old_values.detach()
    near = torch.clamp(values, old - clip_eps, old + clip_eps)
    return (free + F.relu((near - returns.detach()) ** 2 - free)).mean() / 2


RIGHT["critic-loss"] = [
    critic_by_cases,
    critic_by_relu,
    value_loss,
    lambda v, r, old=None, clip_eps=None: critic()(
        v.double(), r.double(), None if old is None else old.double(), clip_eps
    ),
    critic(reduce=lambda x: x.sum() / x.numel()),
    lambda v, r, *rest, **more: (
        critic_in_halves(v, r) if len(rest) + len(more) < 2 else value_loss(v, r, *rest, **more)
    ),
]
WRONG["critic-loss"] = {
    "the half is forgotten": [critic(factor=1.0), critic(error=lambda v, r: 2 * (v - r) ** 2)],
    "the half is there twice": critic(factor=0.25),
    "the error is not squared": [
        critic(error=lambda v, r: (v - r).abs(), factor=1.0),
        critic(error=lambda v, r: v - r),
    ],
    "a reward, not a loss": critic(factor=-0.5),
    "a sum, not a mean": critic(reduce=torch.sum),
    "no gradient reaches the values": lambda v, r, *rest: critic()(v.detach(), r, *rest) + 0 * v.sum(),
    "cut off from autograd": lambda v, r, *rest: critic()(v.detach(), r, *rest),
    "the returns are not detached": critic(keep_returns=True),
    "the old values are not detached": critic(keep_old=True),
    "the smaller error, not the larger": critic(choose=torch.minimum),
    "the clip without the larger of the two": critic(choose=lambda free, box: box),
    "nothing is clipped": [
        critic(choose=lambda free, box: free),
        critic(box=lambda v, old, r, eps: v),
    ],
    "it clips without clip_eps": [
        clipped_unasked,
        lambda v, r, old=None, clip_eps=0.2: critic()(v, r, old, None if old is None else clip_eps),
    ],
    "a part of the gradient is cut off": half_the_gradient,
    "the clip is put on the value itself": critic(box=lambda v, old, r, eps: v.clamp(-eps, eps)),
    "the clip is a share of the old value": critic(
        box=lambda v, old, r, eps: torch.clamp(v, old * (1 - eps), old * (1 + eps))
    ),
    "the clip is around the return": critic(
        box=lambda v, old, r, eps: r + (v - r).clamp(-eps, eps), choose=lambda free, box: box
    ),
    "clipped on one side only": [
        critic(box=lambda v, old, r, eps: old + (v - old).clamp(max=eps)),
        critic(box=lambda v, old, r, eps: old + (v - old).clamp(min=-eps)),
    ],
    "clip_eps is not used": [critic(own_eps=0.2), critic(own_eps=0.5)],
    "the two errors are added": critic(choose=torch.add),
    "the half is on one of the two only": [
        critic(choose=lambda free, box: torch.maximum(free, 2 * box)),
        critic(choose=lambda free, box: torch.maximum(2 * free, box)),
    ],
    "with clip_eps the half is forgotten": critic(choose=lambda free, box: 2 * torch.maximum(free, box)),
    "divided by the length of one axis": [
        critic(reduce=lambda x: x.sum() / len(x)),
        critic(reduce=lambda x: x.sum() / x.shape[-1]),
    ],
    "the larger of two means": lambda v, r, old=None, eps=None: (
        critic()(v, r)
        if eps is None
        else torch.max(critic()(v, r), critic(choose=lambda free, box: box)(v, r, old, eps))
    ),
    "an argument is detached in place": lambda v, r, *rest: critic(keep_returns=True)(v, r.detach_(), *rest),
}
UNNAMED["critic-loss"] = [
    critic(error=lambda v, r: F.smooth_l1_loss(v, r, reduction="none", beta=4.0) * 8),
    critic(reduce=lambda x: x.reshape(*x.shape[:1], -1).mean(-1).median()),
    critic(choose=lambda free, box: torch.maximum(free, box.detach() + free - free.detach())),
    lambda v, r, old=None, eps=None: critic()(v, r.clamp(-10, 10), old, eps),
    lambda v, r, old=None, eps=None: critic()(v, r, old, None if eps is None else min(eps, 1.0)),
]


# --- value-clip-slope


def pushes(
    flat: Callable[..., Any], push: Callable[..., Any] = lambda v, r, box: v - r
) -> Callable[..., Any]:
    def function(values, old_values, returns, eps):
        box = old_values + (values - old_values).clamp(-eps, eps)
        silent = flat(values, old_values, returns, eps, box)
        return torch.where(silent, torch.zeros_like(values), push(values, returns, box))

    return function


def out(v, old, r, eps, box):
    return (v - old).abs() > eps


def nearer(v, old, r, eps, box):
    return out(v, old, r, eps, box) & ((v - r).abs() < (box - r).abs())


def further(v, old, r, eps, box):
    return out(v, old, r, eps, box) & ((v - old) * (r - v) > 0)


def pushes_by_autograd(values, old_values, returns, eps):
    v = values.detach().clone().requires_grad_()
    box = torch.clamp(v, old_values - eps, old_values + eps)
    loss = 0.5 * torch.max((v - returns) ** 2, (box - returns) ** 2).sum()
    return torch.autograd.grad(loss, v)[0]


def pushes_by_midpoint(values, old_values, returns, eps):
    result = []
    for v, old, r in zip(values.tolist(), old_values.tolist(), returns.tolist(), strict=True):
        up = v > old + eps and r > (v + old + eps) / 2
        down = v < old - eps and r < (v + old - eps) / 2
        result.append(0.0 if up or down else v - r)
    return result


RIGHT["value-clip-slope"] = [
    pushes_by_autograd,
    pushes_by_midpoint,
    lambda v, old, r, eps: pushes(nearer)(v.double(), old.double(), r.double(), eps),
    lambda v, old, r, eps: pushes(nearer)(v, old, r, eps).numpy(),
]
WRONG["value-clip-slope"] = {
    "the way the value goes, not the gradient": pushes(nearer, lambda v, r, box: r - v),
    "the slope without the half": pushes(nearer, lambda v, r, box: 2 * (v - r)),
    "averaged already": lambda *a: pushes_by_autograd(*a) / len(a[0]),
    "nothing is flat": lambda v, old, r, eps: v - r,
    "flat wherever the value has left the clip range": pushes(out),
    "flat only where the target lies further on": pushes(further),
    "flat where the error at the end of the clip range is the smaller": pushes(
        lambda v, old, r, eps, box: out(v, old, r, eps, box) & ((box - r).abs() < (v - r).abs())
    ),
    "flat as soon as the target lies beyond the clip range": pushes(
        lambda v, old, r, eps, box: ((v > old + eps) & (r > old + eps)) | ((v < old - eps) & (r < old - eps))
    ),
    "flat on the wrong side": pushes(lambda *a: out(*a) & ~further(*a)),
    "the error at the end of the clip range": [
        lambda v, old, r, eps: old + (v - old).clamp(-eps, eps) - r,
        pushes(
            lambda *a: torch.zeros_like(a[0]).bool(),
            lambda v, r, box: torch.where((box - r).abs() > (v - r).abs(), box - r, v - r),
        ),
    ],
    "the loss, not its slope": lambda v, old, r, eps: (
        0.5 * torch.max((v - r) ** 2, (old + (v - old).clamp(-eps, eps) - r) ** 2)
    ),
    "flat in one direction only": [
        pushes(lambda v, *a: nearer(v, *a) & (v > a[0])),
        pushes(lambda v, *a: nearer(v, *a) & (v < a[0])),
        pushes(lambda v, *a: further(v, *a) & (v > a[0])),
    ],
    "the size of the error is lost": pushes(nearer, lambda v, r, box: (v - r).sign()),
}
UNNAMED["value-clip-slope"] = [
    lambda v, old, r, eps: pushes(nearer)(v, old, r, 0.5),
    lambda v, old, r, eps: pushes(nearer)(v, old, r, eps).clamp(-3, 3),
    pushes(lambda v, old, r, eps, box: nearer(v, old, r, eps, box) & (old > 0)),
]


# --- two-entropies


HALF = 0.5 * math.log(2 * math.pi * math.e)


def of_logits(z):
    logs = z.log_softmax(-1)
    return -(logs.exp() * logs).sum(-1)


def both(discrete: Callable[..., Any] = of_logits, gaussian: Any = lambda s: (HALF + s.log()).sum(-1)) -> Any:
    return lambda logits, std: (discrete(logits), gaussian(std))


def by_torch(logits, std):
    return (
        torch.distributions.Categorical(logits=logits).entropy(),
        torch.distributions.Normal(torch.zeros_like(std), std).entropy().sum(-1),
    )


def by_entr(logits, std):
    return [
        torch.special.entr(logits.softmax(dim=-1)).sum(-1),
        0.5 * torch.log(2 * math.pi * math.e * std**2).sum(-1),
    ]


def one_shift_for_all_rows(z):
    weights = (z - z.max()).exp()
    p = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
    return -(p * p.clamp(min=1e-30).log()).sum(-1)


def by_cases(z):
    p = z.softmax(-1)
    return -torch.where(p > 0, p * p.log(), torch.zeros_like(p)).sum(-1)


def by_cross_entropy(logits, std):
    mean = (logits.softmax(-1) * logits).sum(-1)
    return logits.logsumexp(-1) - mean, HALF * std.shape[-1] + std.prod(-1).log()


def without_underflow(z):
    p = z.softmax(-1)
    return -(p * p.clamp(min=1e-30).log()).sum(-1)


RIGHT["two-entropies"] = [
    by_torch,
    by_cross_entropy,
    both(discrete=without_underflow),
    both(discrete=lambda z: -(z.softmax(-1) * z.log_softmax(-1).detach()).sum(-1)),
    lambda logits, std: both()(logits.double(), std.double()),
]
WRONG["two-entropies"] = {
    "cut off from autograd": [
        both(discrete=lambda z: of_logits(z).detach()),
        lambda logits, std: both()(logits, std.detach()),
    ],
    "a categorical entropy below zero": both(discrete=lambda z: -of_logits(z)),
    "in bits, not in nats": both(discrete=lambda z: of_logits(z) / math.log(2)),
    "the mean over the actions, not the sum": both(discrete=lambda z: of_logits(z) / z.shape[-1]),
    "the logits are taken for log-probabilities": both(discrete=lambda z: -(z.softmax(-1) * z).sum(-1)),
    "the logits are taken for probabilities": both(discrete=lambda z: -(z * z.log()).sum(-1)),
    "log π without π": [
        both(discrete=lambda z: -z.log_softmax(-1).sum(-1)),
        both(discrete=lambda z: -z.log_softmax(-1).mean(-1)),
    ],
    "the sign of the Gaussian's entropy": both(gaussian=lambda s: -(HALF + s.log()).sum(-1)),
    "the mean over the components, not the sum": both(gaussian=lambda s: (HALF + s.log()).mean(-1)),
    "a Gaussian's entropy kept above zero": [
        both(gaussian=lambda s: (HALF + s.log()).clamp(min=0).sum(-1)),
        both(gaussian=lambda s: (HALF + s.log()).sum(-1).clamp(min=0)),
        both(gaussian=lambda s: (HALF + s.log()).sum(-1).abs()),
    ],
    "the standard deviation is taken for the variance": both(
        gaussian=lambda s: (0.5 * (2 * math.pi * math.e * s).log()).sum(-1)
    ),
    "the standard deviation is squared once too often": both(gaussian=lambda s: (HALF + 2 * s.log()).sum(-1)),
    "the Gaussian's half is missing": both(gaussian=lambda s: (HALF - 0.5 + s.log()).sum(-1)),
    "the standard deviation is taken for its logarithm": both(gaussian=lambda s: (HALF + s).sum(-1)),
    "only the logarithms": both(gaussian=lambda s: s.log().sum(-1)),
    "the constant is counted once": both(gaussian=lambda s: HALF + s.log().sum(-1)),
    "nan where an action is certain": both(discrete=lambda z: -(z.softmax(-1) * z.softmax(-1).log()).sum(-1)),
    "nan in the gradient where an action is certain": [
        both(discrete=by_cases),
        by_entr,
        both(discrete=lambda z: -(z.softmax(-1) * z.softmax(-1).log()).nan_to_num(0.0).sum(-1)),
    ],
    "an entropy without a gradient": [
        both(discrete=lambda z: of_logits(z.detach()) + 0 * z.sum()),
        both(discrete=lambda z: -(z.softmax(-1).detach() * z.log_softmax(-1)).sum(-1)),
        both(gaussian=lambda s: (HALF + s.detach().log() + 0 * s).sum(-1)),
    ],
}
UNNAMED["two-entropies"] = [
    both(gaussian=lambda s: (HALF + s.log()).sum(-1).clamp(min=-5)),
    both(discrete=lambda z: -(z.softmax(-1) * (z.softmax(-1) + 1e-2).log()).sum(-1)),
    both(discrete=lambda z: of_logits(z.clamp(-8, 8))),
    both(discrete=lambda z: one_shift_for_all_rows(z)),
    both(discrete=lambda z: of_logits(z).clamp(max=1.05)),
    both(gaussian=lambda s: (HALF + s.clamp(0.01, 2.0).log()).sum(-1)),
    both(gaussian=lambda s: (HALF + (s + 1e-3).log()).sum(-1)),
]


# --- hunt-entropy


def bonus(
    *,
    entropy: Callable[..., Any] = of_logits,
    sign: float = -1.0,
    coef: Callable[[float], float] = lambda c: c,
    policy: float = -1.0,
    reduce: Callable[..., Any] = torch.mean,
    keep: bool = False,
) -> Callable[..., Any]:
    def function(logits, actions, advantages, entropy_coef):
        logp = logits.log_softmax(-1).gather(-1, actions[:, None])[:, 0]
        worth = advantages if keep else advantages.detach()
        return policy * reduce(logp * worth) + sign * coef(entropy_coef) * reduce(entropy(logits))

    return function


def plus_of_a_negative(logits, actions, advantages, entropy_coef):
    log_probs = logits.log_softmax(-1)
    logp = log_probs[torch.arange(len(actions)), actions]
    negative = (log_probs.exp() * log_probs).sum(-1)
    return -(logp * advantages.detach()).mean() + entropy_coef * negative.mean()


def with_a_distribution(logits, actions, advantages, entropy_coef):
    policy = torch.distributions.Categorical(logits=logits)
    gain = policy.log_prob(actions) * advantages.detach() + entropy_coef * policy.entropy()
    return -gain.mean()


RIGHT["hunt-entropy"] = [
    plus_of_a_negative,
    with_a_distribution,
    bonus(entropy=lambda z: torch.special.entr(z.softmax(-1)).sum(-1)),
    lambda z, a, w, c: F.nll_loss(z.log_softmax(-1) * w.detach()[:, None], a) - c * of_logits(z).mean(),
]


def of_taken(logits, actions, advantages, entropy_coef):
    logp = logits.log_softmax(-1).gather(-1, actions[:, None])[:, 0]
    return -(logp * advantages.detach()).mean() + entropy_coef * logp.mean()


WRONG["hunt-entropy"] = {
    "the sign of the entropy is still wrong": [
        bonus(entropy=lambda z: -of_logits(z)),
        bonus(sign=1.0),
    ],
    "no bonus is left": bonus(coef=lambda c: 0.0),
    "the mean over the actions, not the sum": bonus(entropy=lambda z: of_logits(z) / z.shape[-1]),
    "log π of the sampled action, not the entropy": of_taken,
    "the entropy of the mean policy": bonus(
        entropy=lambda z: of_logits(z.softmax(-1).mean(0, keepdim=True).log())
    ),
    "the coefficient is not used": [bonus(coef=lambda c: 0.1), bonus(coef=lambda c: 1.0)],
    "a sum, not a mean": bonus(reduce=torch.sum),
    "the policy's part is turned round": bonus(policy=1.0),
    "no policy part is left": bonus(policy=0.0),
    "an entropy without a gradient": [
        bonus(entropy=lambda z: of_logits(z).detach()),
        bonus(entropy=lambda z: -(z.softmax(-1).detach() * z.log_softmax(-1)).sum(-1)),
    ],
}
UNNAMED["hunt-entropy"] = [
    lambda z, a, w, c: bonus()(z, a, w - w.mean(), c),
    bonus(entropy=lambda z: torch.special.entr(z.softmax(0)).sum(0)),
    bonus(keep=True),
    bonus(coef=abs, entropy=lambda z: of_logits(z / 2)),
    bonus(coef=lambda c: min(c, 1.0)),
]


# --- whole-loss


def whole(
    *,
    critic: Callable[..., Any] = lambda v, r: 0.5 * (v[:, 0] - r) ** 2,
    term: Callable[..., Any] = lambda r, a, eps: torch.minimum(r * a, r.clamp(1 - eps, 1 + eps) * a),
    signs: tuple[float, float, float] = (-1.0, 1.0, -1.0),
    reduce: Callable[..., Any] = torch.mean,
    kept: tuple[str, ...] = (),
    cut: tuple[str, ...] = (),
    coefs: Callable[..., Any] = lambda eps, v, e: (eps, v, e),
) -> Callable[..., Any]:
    def function(
        logp,
        old_logp,
        advantages,
        values,
        returns,
        entropy,
        clip_eps=0.2,
        value_coef=0.5,
        entropy_coef=0.01,
    ):
        clip_eps, value_coef, entropy_coef = coefs(clip_eps, value_coef, entropy_coef)
        old = old_logp if "old_logp" in kept else old_logp.detach()
        worth = advantages if "advantages" in kept else advantages.detach()
        target = returns if "returns" in kept else returns.detach()
        logp = logp.detach() + 0 * logp if "logp" in cut else logp
        values = values.detach() + 0 * values if "values" in cut else values
        entropy = entropy.detach() if "entropy" in cut else entropy
        r = (logp - old).exp()
        return (
            signs[0] * reduce(term(r, worth, clip_eps))
            + signs[1] * value_coef * reduce(critic(values, target))
            + signs[2] * entropy_coef * reduce(entropy)
        )

    return function


def by_the_library(*given, clip_eps=0.2, value_coef=0.5, entropy_coef=0.01):
    logp, old, worth, values, returns, entropy = given
    return ppo_loss(
        logp,
        old,
        worth,
        values.squeeze(-1),
        returns,
        entropy,
        clip_eps=clip_eps,
        value_coef=value_coef,
        entropy_coef=entropy_coef,
    )[0]


def step_by_step(
    logp, old_logp, advantages, values, returns, entropy, clip_eps=0.2, value_coef=0.5, entropy_coef=0.01
):
    total = 0.0
    for i in range(len(logp)):
        r, a = torch.exp(logp[i] - old_logp[i].item()), advantages[i].item()
        total = total - min(r * a, r.clamp(1 - clip_eps, 1 + clip_eps) * a)
        total = total + value_coef * (values[i, 0] - returns[i].item()) ** 2 / 2 - entropy_coef * entropy[i]
    return total / len(logp)


RIGHT["whole-loss"] = [
    by_the_library,
    step_by_step,
    whole(critic=lambda v, r: 0.5 * (v - r[:, None]) ** 2),
    whole(critic=lambda v, r: 0.5 * F.mse_loss(v.flatten(), r, reduction="none")),
    whole(term=lambda r, a, eps: torch.where(a > 0, r.clamp(max=1 + eps), r.clamp(min=1 - eps)) * a),
]
WRONG["whole-loss"] = {
    "values and returns are broadcast against each other": whole(critic=lambda v, r: 0.5 * (v - r) ** 2),
    "the half is forgotten": whole(critic=lambda v, r: (v[:, 0] - r) ** 2),
    "the half is there twice": whole(critic=lambda v, r: 0.25 * (v[:, 0] - r) ** 2),
    "the critic is asked to be wrong": whole(signs=(-1, -1, -1)),
    "the critic's part is missing": whole(signs=(-1, 0, -1)),
    "the two coefficients are exchanged": whole(coefs=lambda eps, v, e: (eps, e, v)),
    "the critic's coefficient is not used": [
        whole(coefs=lambda eps, v, e: (eps, 1.0, e)),
        whole(coefs=lambda eps, v, e: (eps, 1.0, 1.0)),
        whole(coefs=lambda eps, v, e: (eps, 0.5, 0.01)),
        whole(coefs=lambda eps, v, e: (0.2, 0.5, 0.01)),
    ],
    "a sum, not a mean": whole(reduce=torch.sum),
    "the entropy is punished": whole(signs=(-1, 1, 1)),
    "the bonus is missing": whole(signs=(-1, 1, 0)),
    "the bonus's coefficient is not used": whole(coefs=lambda eps, v, e: (eps, v, 1.0)),
    "the advantages are normalised inside the loss": [
        whole(term=lambda r, a, eps: whole_term(r, (a - a.mean()) / (a.std(correction=0) + 1e-8), eps)),
        whole(term=lambda r, a, eps: whole_term(r, (a - a.mean()) / (a.std() + 1e-8), eps)),
        whole(term=lambda r, a, eps: whole_term(r, a - a.mean(), eps)),
    ],
    "a reward, not a loss": whole(signs=(1, 1, -1)),
    "nothing is clipped": whole(term=lambda r, a, eps: r * a),
    "min and max swapped": [
        whole(term=lambda r, a, eps: torch.maximum(r * a, r.clamp(1 - eps, 1 + eps) * a)),
        whole(term=lambda r, a, eps: torch.min(-r * a, -r.clamp(1 - eps, 1 + eps) * a), signs=(1, 1, -1)),
    ],
    "the clip without the minimum": whole(term=lambda r, a, eps: r.clamp(1 - eps, 1 + eps) * a),
    "the policy's part is missing": whole(signs=(0, 1, -1)),
    "clip_eps is not used": whole(coefs=lambda eps, v, e: (0.2, v, e)),
    "the probabilities are 0 in a float": lambda logp, old, *g, **more: whole()(
        (logp.exp() / old.detach().exp()).log(), 0 * old.detach(), *g, **more
    ),
    "no gradient reaches logp": lambda logp, *rest, **more: whole()(logp.detach(), *rest, **more),
    "no gradient reaches the values": lambda *g, **more: whole()(*g[:3], g[3].detach(), *g[4:], **more),
    "no gradient reaches the entropy": whole(cut=("entropy",)),
    "old_logp is not detached": whole(kept=("old_logp",)),
    "the advantages are not detached": whole(kept=("advantages",)),
    "the returns are not detached": whole(kept=("returns",)),
}


def whole_term(r, a, eps):
    return torch.minimum(r * a, r.clamp(1 - eps, 1 + eps) * a)


UNNAMED["whole-loss"] = [
    lambda *g, clip_eps=0.1, value_coef=0.5, entropy_coef=0.01: whole()(
        *g, clip_eps, value_coef, entropy_coef
    ),
    whole(critic=lambda v, r: 0.5 * F.smooth_l1_loss(v[:, 0], r, reduction="none", beta=2.5) * 5),
    whole(coefs=lambda eps, v, e: (eps, v, e or 0.01)),
    whole(coefs=lambda eps, v, e: (eps, min(v, 0.99) if v > 0.6 else v, e)),
    whole(term=lambda r, a, eps: whole_term(r, a.clamp(-3, 3), eps)),
    lambda *g, clip_eps=0.2, value_coef=1.0, entropy_coef=0.0: whole()(
        *g, clip_eps, value_coef, entropy_coef
    ),
    lambda *g, **more: whole()(*g[:5], g[5].clamp(min=0), **more),
]
