"""Gradients without autograd, and updates that follow them."""

from __future__ import annotations

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def log_softmax(logits):
    shifted = logits - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def flat(ratio, worth, eps):
    return np.where(worth > 0, ratio > 1 + eps, ratio < 1 - eps)


def gradient(
    push=lambda r, a, eps: np.where(flat(r, a, eps), 0, r * a),
    ratio=lambda now, old: np.exp(np.minimum(now - old, 700)),
    score=lambda hot, p: hot - p,
    bonus=lambda p, logp, hot: -p * (logp - (p * logp).sum(1, keepdims=True)),
    share=lambda n: 1 / n,
    sign=1.0,
):
    def function(logits, actions, old_logp, advantages, clip_eps, entropy_coef):
        logp, hot = log_softmax(logits), np.eye(logits.shape[1])[actions]
        p = np.exp(logp)
        r = ratio((logp * hot).sum(1), old_logp)
        pushed = push(r, advantages, clip_eps)[:, None] * score(hot, p)
        return share(len(actions)) * (sign * pushed + entropy_coef * bonus(p, logp, hot))

    return function


def by_autograd(logits, actions, old_logp, advantages, clip_eps, entropy_coef):
    z, a = torch.tensor(logits, requires_grad=True), torch.tensor(advantages)
    now = torch.distributions.Categorical(logits=z)
    r = (now.log_prob(torch.tensor(actions)) - torch.tensor(old_logp)).clamp(max=700).exp()
    gain = torch.minimum(r * a, r.clamp(1 - clip_eps, 1 + clip_eps) * a)
    (gain + entropy_coef * now.entropy()).mean().backward()
    return z.grad


def sample_by_sample(logits, actions, old_logp, advantages, clip_eps, entropy_coef):
    rows = []
    for i in range(len(actions)):
        one = logits[i : i + 1], actions[i : i + 1], old_logp[i : i + 1]
        rows.append(gradient()(*one, advantages[i : i + 1], clip_eps, entropy_coef)[0] / len(actions))
    return [list(row) for row in rows]


RIGHT["final-gradient"] = [gradient(), by_autograd, sample_by_sample]
WRONG["final-gradient"] = {
    "the score is the indicator alone": gradient(score=lambda hot, p: hot),
    "it goes downhill": gradient(sign=-1.0),
    "nothing is clipped": gradient(push=lambda r, a, eps: r * a),
    "what is outside is flat on either side": gradient(
        push=lambda r, a, eps: np.where(abs(r - 1) > eps, 0, r * a)
    ),
    "the clipped ratio pushes on": [
        gradient(push=lambda r, a, eps: r.clip(1 - eps, 1 + eps) * a),
        gradient(push=lambda r, a, eps: np.minimum(r * a, r.clip(1 - eps, 1 + eps) * a)),
    ],
    "the larger of the two is followed": gradient(
        push=lambda r, a, eps: np.where(flat(r, -a, eps), 0, r * a)
    ),
    "the ratio is missing from the slope": [
        gradient(push=lambda r, a, eps: np.where(flat(r, a, eps), 0, a)),
        gradient(push=lambda r, a, eps: a),
    ],
    "the ratio is upside down": gradient(ratio=lambda now, old: np.exp(old - now)),
    "the wrong side is flat for bad actions": gradient(
        push=lambda r, a, eps: np.where(r > 1 + eps, 0, r * a)
    ),
    "the range is not 1 − eps to 1 + eps": [
        gradient(push=lambda r, a, eps: np.where(r > eps, 0, r * a)),
        gradient(push=lambda r, a, eps: np.where(np.where(a > 0, r > eps, r < -eps), 0, r * a)),
    ],
    "a sum, not a mean": gradient(share=lambda n: 1.0),
    "the entropy is made small": gradient(
        bonus=lambda p, logp, hot: p * (logp - (p * logp).sum(1, keepdims=True))
    ),
    "the bonus is not there": gradient(bonus=lambda p, logp, hot: 0 * p),
    "the bonus's slope by the probabilities": [
        gradient(bonus=lambda p, logp, hot: -(logp + 1)),
        gradient(bonus=lambda p, logp, hot: -p * (logp + 1)),
    ],
    "the bonus is the entropy itself": gradient(
        bonus=lambda p, logp, hot: -(p * logp).sum(1, keepdims=True) + 0 * p
    ),
    "the bonus counts the drawn action only": gradient(
        bonus=lambda p, logp, hot: -(logp * hot).sum(1, keepdims=True) * (hot - p)
    ),
}


def overflowing(logits, *rest):
    """Exponentials of the logits as they come."""
    found = gradient()(logits, *rest)
    return found if logits.max() < 700 else np.full_like(found, np.nan)


UNNAMED["final-gradient"] = [
    overflowing,
    gradient(push=lambda r, a, eps: np.where(flat(r, a, 0.2), 0, r * a)),
    gradient(share=lambda n: 0.5 if n > 2 else 1 / n),
]


# --- final-update


def update(
    gradient=gradient(),  # noqa: B008
    moving=False,
    still=False,
    add=np.add.at,
    chosen=lambda minibatches, n: minibatches,
    sign=1.0,
    share=lambda rows, n: 1.0,
    everywhere=False,
):
    def function(table, states, actions, advantages, minibatches, rate, clip_eps, entropy_coef):
        new, n = table.copy(), len(states)
        for rows in chosen(minibatches, n):
            s = states[rows]
            old = log_softmax(new if moving else table)[s, actions[rows]]
            source = table if still else new
            step = gradient(source[s], actions[rows], old, advantages[rows], clip_eps, entropy_coef)
            add(new, s, sign * rate * share(rows, n) * step)
            if everywhere:
                unseen = np.setdiff1d(np.arange(len(table)), s)
                logp = log_softmax(new[unseen])
                p = np.exp(logp)
                new[unseen] -= rate * entropy_coef * p * (logp - (p * logp).sum(1, keepdims=True))
        return new

    return function


def assigned(x, rows, y):
    x[rows] += y


def by_loops(table, states, actions, advantages, minibatches, rate, clip_eps, entropy_coef):
    new = [list(row) for row in table]
    old = log_softmax(table)[states, actions]
    for rows in minibatches:
        part = np.array(new)[states[rows]]
        step = gradient()(part, actions[rows], old[rows], advantages[rows], clip_eps, entropy_coef)
        for i, change in zip(rows, step, strict=True):
            for k, x in enumerate(change):
                new[states[i]][k] += rate * x
    return new


def by_one_hot(table, states, actions, advantages, minibatches, rate, clip_eps, entropy_coef):
    where = np.eye(len(table))[states]
    new, old = table + 0.0, log_softmax(table)[states, actions]
    for rows in minibatches:
        step = by_autograd(
            new[states[rows]], actions[rows], old[rows], advantages[rows], clip_eps, entropy_coef
        )
        new = new + rate * where[rows].T @ step.numpy()
    return new


RIGHT["final-update"] = [update(), by_loops, by_one_hot]
WRONG["final-update"] = {
    "nothing has moved": lambda table, *rest: table.copy(),
    "it goes downhill": update(sign=-1.0),
    "the old policy moves along": update(moving=True),
    "samples of one state overwrite each other": update(add=assigned),
    "all steps start from the same table": update(still=True),
    "every step takes the whole batch": update(chosen=lambda parts, n: [np.arange(n) for _ in parts]),
    "only the first minibatch": update(chosen=lambda parts, n: parts[:1]),
    "the last minibatch is left out": update(chosen=lambda parts, n: parts[:-1]),
    "divided by the whole batch": update(share=lambda rows, n: len(rows) / n),
    "states that nobody saw are moved": update(everywhere=True),
    "an argument is overwritten": lambda table, *rest: table.__iadd__(update()(table, *rest) - table),
}
UNNAMED["final-update"] = [
    update(gradient=gradient(push=lambda r, a, eps: r * a)),
    update(chosen=lambda parts, n: parts[::-1]),
    update(gradient=gradient(bonus=lambda p, logp, hot: 0 * p)),
]
