"""Right and wrong answers to the loss: the policy's part, the KL in it, and the one with three bugs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def clipped(r: Any, a: Any, eps: float) -> Any:
    return torch.minimum(r * a, r.clamp(1 - eps, 1 + eps) * a)


def by_row(x: Any, mask: Any) -> Any:
    return (torch.where(mask, x, 0.0).sum(1) / mask.sum(1)).mean()


def loss(
    *,
    ratio: Callable[[Any, Any], Any] = lambda new, old: (new - old).exp(),
    objective: Callable[[Any, Any, float], Any] = clipped,
    reduce: Callable[[Any, Any], Any] = by_row,
    seen: Callable[[Any], Any] = lambda mask: mask,
    detach_old: bool = True,
    detach_worth: bool = True,
    spread: Callable[[Any], Any] = lambda a: a[:, None],
    fill: bool = True,
    sign: float = -1.0,
) -> Callable[..., Any]:
    """The policy's loss with one part changed."""

    def function(logp, old_logp, advantages, mask, clip_eps):
        mask = seen(mask)
        old = old_logp.detach() if detach_old else old_logp
        worth = advantages.detach() if detach_worth else advantages
        if fill:
            logp, old = torch.where(mask, logp, -1.0), torch.where(mask, old, -1.0)
        return sign * reduce(objective(ratio(logp, old), spread(worth), clip_eps), mask)

    return function


def row_by_row(logp, old_logp, advantages, mask, clip_eps):
    rows = []
    for new, old, a, inside in zip(logp, old_logp.detach(), advantages.detach(), mask, strict=True):
        r = torch.exp(new[inside] - old[inside])
        rows.append(-clipped(r, a, clip_eps).mean())
    return torch.stack(rows).mean()


def flat_weights(logp, old_logp, advantages, mask, clip_eps):
    """All tokens in one list, each with the weight 1/(B |y|)."""
    weight = (1 / mask.sum(1).double() / len(mask))[:, None].expand(mask.shape)[mask]
    a = advantages.detach().double()[:, None].expand(mask.shape)[mask]
    r = (logp.double()[mask] - old_logp.detach().double()[mask]).exp()
    return (torch.maximum(-r * a, -r.clamp(1 - clip_eps, 1 + clip_eps) * a) * weight).sum()


def cases(logp, old_logp, advantages, mask, clip_eps):
    """The clip as two cases of the advantage's sign."""
    a = advantages.detach()[:, None]
    r = (logp.masked_fill(~mask, 0) - old_logp.detach().masked_fill(~mask, 0)).exp()
    bounded = torch.where(a >= 0, r.clamp(max=1 + clip_eps), r.clamp(min=1 - clip_eps))
    return -torch.where(mask, bounded * a, 0).sum(1).div(mask.float().sum(1)).mean()


def cut_off(mask):
    """One token too early, where there is more than one."""
    short = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1)
    return torch.where(short.any(1, keepdim=True), short, mask)


def later(mask):
    return torch.cat([mask[:, :1], mask[:, :-1]], dim=1)


def without_first(mask):
    found = mask.clone()
    found[:, 0] = mask.sum(1) < 2
    return found


def padded_mean(x, mask):
    return torch.where(mask, x, 0.0).mean()


def token_mean(x, mask):
    return x[mask].mean()


def sums(x, mask):
    return torch.where(mask, x, 0.0).sum(1).mean()


def sum_of_means(x, mask):
    return (torch.where(mask, x, 0.0).sum(1) / mask.sum(1)).sum()


def whole_sum(x, mask):
    return torch.where(mask, x, 0.0).sum()


def of_the_text(power: Callable[[Any], Any]) -> Callable[..., Any]:
    """One ratio for each completion: a product of its tokens' to some power."""

    def function(logp, old_logp, advantages, mask, clip_eps):
        new, old = (torch.where(mask, x, 0.0) for x in (logp, old_logp.detach()))
        ratio = ((new - old).sum(1) * power(mask.sum(1))).exp()
        return -clipped(ratio, advantages.detach(), clip_eps).mean()

    return function


def wrong_axis(advantages):
    return advantages if advantages.shape[0] == 2 else advantages[:, None]


POLICY: dict[str, Any] = {
    "an advantage goes to the wrong tokens": loss(spread=wrong_axis),
    "no gradient reaches logp": [
        loss(ratio=lambda new, old: (new - new).exp()),
        loss(ratio=lambda new, old: (new.detach() - old).exp() + 0 * new),
    ],
    "old_logp is not detached": loss(detach_old=False),
    "the advantages are not detached": loss(detach_worth=False),
    "the mask is one column off": loss(seen=later),
    "padding is pushed too": [
        loss(seen=torch.ones_like, fill=False),
        loss(reduce=lambda x, mask: x.mean(), fill=False),
    ],
    "the first token is left out": loss(seen=without_first),
    "the last token is left out": loss(seen=cut_off),
    "a reward, not a loss": [loss(sign=1.0), lambda *given: -row_by_row(*given)],
    "a mean over all tokens": loss(reduce=token_mean),
    "the mean is over the padded length": loss(reduce=padded_mean),
    "the length is not divided by": loss(reduce=sums),
    "the completions are added up": [loss(reduce=sum_of_means), loss(reduce=whole_sum)],
    "the advantages are centered inside the loss": [
        loss(spread=lambda a: (a - a.mean())[:, None]),
        loss(spread=lambda a: ((a - a.mean()) / (a.std(correction=0) + 1e-4))[:, None]),
    ],
    "ratio by division": loss(ratio=lambda new, old: new / old),
    "the ratio is upside down": loss(ratio=lambda new, old: (old - new).exp()),
    "the ratio is always 1": loss(ratio=lambda new, old: (new - new.detach()).exp()),
    "nothing is clipped": loss(objective=lambda r, a, eps: r * a),
    "min and max swapped": [
        loss(objective=lambda r, a, eps: torch.maximum(r * a, r.clamp(1 - eps, 1 + eps) * a)),
    ],
    "the clip without the minimum": loss(objective=lambda r, a, eps: r.clamp(1 - eps, 1 + eps) * a),
    "the minimum is taken of the ratios": loss(objective=lambda r, a, eps: r.clamp(max=1 + eps) * a),
    "eps is not used": loss(objective=lambda r, a, eps: clipped(r, a, 0.2)),
    "the logarithm of the ratio is clipped": loss(
        objective=lambda r, a, eps: torch.minimum(r * a, r.log().clamp(-eps, eps).exp() * a)
    ),
    "one ratio for the whole completion": [of_the_text(lambda n: 1 / n), of_the_text(lambda n: 1)],
    "padding is read": [
        loss(fill=False),
        loss(fill=False, ratio=lambda new, old: torch.where((new - old).isnan(), 0.0, new - old).exp()),
        loss(fill=False, reduce=lambda x, mask: ((x * mask).sum(1) / mask.sum(1)).mean()),
    ],
}

RIGHT["grpo-token-loss"] = [loss(), row_by_row, flat_weights, cases]
WRONG["grpo-token-loss"] = POLICY
UNNAMED["grpo-token-loss"] = [
    loss(objective=lambda r, a, eps: 1000 * clipped(r, a, eps)),
    loss(objective=lambda r, a, eps: torch.maximum(clipped(r, a, eps), -2 * a.abs())),
    loss(spread=lambda a: (a - a.mean() * (len(a) > 2))[:, None]),
    loss(objective=lambda r, a, eps: clipped(r, a, min(eps, 0.2))),
    loss(reduce=lambda x, mask: by_row(x, mask) * len(mask) / max(len(mask), 2)),
]


# --- kl-in-loss


def k3(x: Any) -> Any:
    """x = log π_ref − log π."""
    return x.exp() - 1 - x


POLICY_LOSS = loss()


def with_kl(
    kl: Callable[..., Any] = lambda new, old, ref: k3(ref - new),
    *,
    policy: Callable[..., Any] = POLICY_LOSS,
    reduce: Callable[[Any, Any], Any] = by_row,
    coef: Callable[[float], float] = lambda beta: beta,
    detach_ref: bool = True,
    fill: bool = True,
) -> Callable[..., Any]:
    """The whole loss with one part changed."""

    def function(logp, old_logp, ref_logp, advantages, mask, clip_eps, kl_coef):
        ref = ref_logp.detach() if detach_ref else ref_logp
        new, old, ref = (torch.where(mask, x, 0.0) if fill else x for x in (logp, old_logp.detach(), ref))
        price = reduce(kl(new, old, ref), mask)
        return policy(logp, old_logp, advantages, mask, clip_eps) + coef(kl_coef) * price

    return function


def token_by_token(logp, old_logp, ref_logp, advantages, mask, clip_eps, kl_coef):
    rows = []
    for b in range(len(logp)):
        terms = []
        for t in range(int(mask[b].sum())):
            r = torch.exp(logp[b, t] - old_logp[b, t].detach())
            a = advantages[b].detach()
            away = torch.exp(ref_logp[b, t].detach() - logp[b, t])
            terms.append(clipped(r, a, clip_eps) - kl_coef * (away - torch.log(away) - 1))
        rows.append(sum(terms) / len(terms))
    return -sum(rows) / len(rows)


def inside_one_mean(logp, old_logp, ref_logp, advantages, mask, clip_eps, kl_coef):
    new, old, ref = (
        torch.where(mask, x, torch.zeros_like(x)).double()
        for x in (logp, old_logp.detach(), ref_logp.detach())
    )
    each = -clipped((new - old).exp(), advantages.detach().double()[:, None], clip_eps) + kl_coef * (
        torch.expm1(ref - new) - (ref - new)
    )
    return ((each * mask).sum(-1) / mask.sum(-1)).mean(0)


KL: dict[str, Any] = {
    "there is no KL in the loss": with_kl(coef=lambda beta: 0.0),
    "the KL is subtracted": with_kl(coef=lambda beta: -beta),
    "the KL is to the old policy": [
        with_kl(lambda new, old, ref: k3(old - new)),
        with_kl(lambda new, old, ref: k3(new - old)),
    ],
    "the ratio in the KL is reversed": with_kl(lambda new, old, ref: k3(new - ref)),
    "k1, which has no gradient on average": with_kl(lambda new, old, ref: new - ref),
    "k2, half the square": [
        with_kl(lambda new, old, ref: (new - ref) ** 2 / 2),
        with_kl(lambda new, old, ref: (new - ref) ** 2),
    ],
    "the logarithm is missing": with_kl(lambda new, old, ref: torch.expm1(ref - new)),
    "the KL is weighted by the ratio": with_kl(lambda new, old, ref: (new - old).exp() * k3(ref - new)),
    "the KL carries no gradient": with_kl(lambda new, old, ref: k3(ref - new).detach()),
    "ref_logp is not detached": with_kl(detach_ref=False),
    "kl_coef is not used": with_kl(coef=lambda beta: 1.0 if beta else 0.0),
    "the padding has a KL": [
        with_kl(reduce=lambda x, mask: x.sum(1).mean(), fill=False),
        with_kl(reduce=lambda x, mask: x.sum() / mask.sum(), fill=False),
    ],
    "the KL has a mean of its own": [
        with_kl(reduce=token_mean),
        with_kl(reduce=padded_mean),
        with_kl(reduce=lambda x, mask: x.mean()),
        with_kl(reduce=sums),
        with_kl(reduce=whole_sum),
    ],
    "padding is read": with_kl(reduce=lambda x, mask: ((x * mask).sum(1) / mask.sum(1)).mean(), fill=False),
}

RIGHT["kl-in-loss"] = [with_kl(), token_by_token, inside_one_mean, with_kl(policy=row_by_row)]
WRONG["kl-in-loss"] = KL | {
    "min and max swapped": with_kl(policy=POLICY["min and max swapped"][0]),
    "the mean is over the padded length": with_kl(policy=POLICY["the mean is over the padded length"]),
    "the last token is left out": with_kl(policy=POLICY["the last token is left out"]),
}
UNNAMED["kl-in-loss"] = [
    with_kl(lambda new, old, ref: k3((ref - new).clamp(-1, 1)), reduce=by_row),
    with_kl(lambda new, old, ref: k3((ref - new).clamp(-2, 2)), reduce=by_row),
    with_kl(coef=lambda beta: min(beta, 2.0)),
]


# --- hunt-three


def from_logits(
    inner: Callable[..., Any],
    early: int = 0,
    fill: Callable[[Any, Any], Any] = lambda x, mask: x.masked_fill(~mask[..., None], 0.0),
) -> Callable[..., Any]:
    def function(logits, tokens, lengths, old_logp, ref_logp, advantages, clip_eps, kl_coef):
        mask = torch.arange(tokens.shape[1]) < lengths[:, None] - early
        logp = fill(logits, mask).log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
        return inner(logp, old_logp, ref_logp, advantages, mask, clip_eps, kl_coef)

    return function


def as_it_is(early: int = 1, exchanged: bool = True, padded: bool = True, holes: bool = False) -> Any:
    """The exercise's own lines, with some of its bugs: nothing is detached."""

    def function(logits, tokens, lengths, old_logp, ref_logp, advantages, clip_eps, kl_coef):
        mask = torch.arange(tokens.shape[1]) < lengths[:, None] - early
        if not holes:
            logits = logits.masked_fill(~mask[..., None], 0.0)
            old_logp, ref_logp = (x.masked_fill(~mask, 0.0) for x in (old_logp, ref_logp))
        logp = logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
        ratio, worth = (logp - old_logp).exp(), advantages[:, None]
        policy = torch.min(ratio * worth, ratio.clamp(1 - clip_eps, 1 + clip_eps) * worth)
        difference = logp - ref_logp if exchanged else ref_logp - logp
        kl = difference.exp() - 1 - difference
        losses = torch.where(mask, kl_coef * kl - policy, 0.0)
        return losses.mean() if padded else (losses.sum(1) / mask.sum(1)).mean()

    return function


def suspicious(early: int = 1, exchanged: bool = True, padded: bool = True) -> Callable[..., Any]:
    """The loss of the exercise, with some of its bugs, and safer than it is."""

    def function(logits, tokens, lengths, old_logp, ref_logp, advantages, clip_eps, kl_coef):
        mask = torch.arange(tokens.shape[1]) < lengths[:, None] - early
        logits = torch.where(mask[..., None], logits, 0.0)
        logp = logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
        logp = torch.where(mask, logp, 0.0)
        old, ref = (torch.where(mask, x.detach(), 0.0) for x in (old_logp, ref_logp))
        policy = clipped((logp - old).exp(), advantages.detach()[:, None], clip_eps)
        x = logp - ref if exchanged else ref - logp
        losses = torch.where(mask, kl_coef * k3(x) - policy, 0.0)
        return losses.mean() if padded else (losses.sum(1) / mask.sum(1)).mean()

    return function


def every_logit(logits, tokens, lengths, old_logp, ref_logp, advantages, clip_eps, kl_coef):
    """With an index in place of `gather`, and a cross entropy in place of a logarithm."""
    rows = []
    for b, n in enumerate(lengths.tolist()):
        new = -torch.nn.functional.cross_entropy(logits[b, :n], tokens[b, :n], reduction="none")
        a = advantages[b].detach()
        r = torch.exp(new - old_logp[b, :n].detach())
        x = ref_logp[b, :n].detach() - new
        rows.append((kl_coef * k3(x) - clipped(r, a, clip_eps)).mean())
    return torch.stack(rows).mean()


def wrong_word(logits, tokens, lengths, old_logp, ref_logp, advantages, clip_eps, kl_coef):
    mask = torch.arange(tokens.shape[1]) < lengths[:, None]
    logp = torch.where(mask[..., None], logits, 0.0).log_softmax(-1)[..., 0]
    return with_kl()(logp, old_logp, ref_logp, advantages, mask, clip_eps, kl_coef)


RIGHT["hunt-three"] = [
    from_logits(with_kl()),
    from_logits(inside_one_mean),
    suspicious(0, exchanged=False, padded=False),
    as_it_is(0, exchanged=False, padded=False),
    every_logit,
]
WRONG["hunt-three"] = {
    "the last token is left out": [
        suspicious(),
        suspicious(exchanged=False),
        as_it_is(holes=True),
        as_it_is(exchanged=False, padded=False, holes=True),
    ],
    "the mean is over the padded length": [
        suspicious(0),
        suspicious(0, exchanged=False),
        as_it_is(0, exchanged=False, holes=True),
    ],
    "the ratio in the KL is reversed": [
        suspicious(0, padded=False),
        as_it_is(0, padded=False),
        as_it_is(0, padded=False, holes=True),
    ],
    "padding is read": as_it_is(0, exchanged=False, padded=False, holes=True),
    "the mask is one column off": from_logits(with_kl(), early=-1),
    "a mean over all tokens": from_logits(with_kl(policy=loss(reduce=token_mean), reduce=token_mean)),
    "the length is not divided by": from_logits(with_kl(policy=loss(reduce=sums), reduce=sums)),
    "the KL is subtracted": from_logits(KL["the KL is subtracted"]),
    "k2, half the square": from_logits(KL["k2, half the square"][0]),
    "there is no KL in the loss": from_logits(KL["there is no KL in the loss"]),
    "padding gets into the gradient": [
        from_logits(with_kl(), fill=lambda x, mask: x),
        from_logits(with_kl(), fill=lambda x, mask: torch.where(x.isnan(), 0.0, x)),
    ],
}
UNNAMED["hunt-three"] = [wrong_word]
