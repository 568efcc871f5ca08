"""Right and wrong answers to what the estimators of a KL lead down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def parts(u: Any, estimator: str) -> tuple[Any, Any]:
    """An estimate, and its slope by log π."""
    return {
        "k1": (u, np.ones_like(u)),
        "k2": (u**2 / 2, u),
        "k3": (np.exp(-u) - 1 + u, 1 - np.exp(-u)),
    }[estimator]


def by_hand(
    *,
    weights: Callable[[Any, Any], Any] = lambda p, q: p,
    in_loss: Callable[[Any, Any], Any] = lambda value, slope: slope,
    in_reward: Callable[[Any, Any], Any] = lambda value, slope: value,
    score: Callable[[Any], Any] = lambda p: np.eye(len(p)) - p,
    sign: float = 1.0,
) -> Callable[..., Any]:
    def function(logits, ref_logits, estimator, place):
        p, q = (np.exp(x - x.max()) for x in (logits.double().numpy(), ref_logits.double().numpy()))
        p, q = p / p.sum(), q / q.sum()
        value, slope = parts(np.log(p / q), estimator)
        chosen = in_loss(value, slope) if place == "loss" else in_reward(value, slope)
        return sign * (weights(p, q) * chosen) @ score(p)

    return function


def autograd(logits, ref_logits, estimator, place):
    theta = logits.double().requires_grad_()
    logp, ref = torch.log_softmax(theta, 0), torch.log_softmax(ref_logits.double(), 0)
    u = logp - ref
    k = u if estimator == "k1" else 0.5 * u.square() if estimator == "k2" else torch.expm1(ref - logp) + u
    inner = k if place == "loss" else k.detach() * logp
    return torch.autograd.grad((logp.exp().detach() * inner).sum(), theta)[0].tolist()


def word_by_word(logits, ref_logits, estimator, place):
    total = torch.zeros_like(logits)
    ref = ref_logits.log_softmax(0)
    for y in range(len(logits)):
        theta = logits.clone().requires_grad_()
        logp = theta.log_softmax(0)[y]
        u = logp - ref[y]
        k = {"k1": lambda u: u, "k2": lambda u: u * u / 2, "k3": lambda u: torch.exp(-u) - 1 + u}[estimator](
            u
        )
        (logp * k.detach() if place == "reward" else k).backward()
        total += logp.exp().detach() * theta.grad
    return total


def exchanged(logits, ref_logits, estimator, place):
    theta = logits.double().requires_grad_()
    logp = theta.log_softmax(0)
    u = ref_logits.double().log_softmax(0) - logp
    k = {"k1": u, "k2": u**2 / 2, "k3": torch.exp(-u) - 1 + u}[estimator]
    inner = k if place == "loss" else k.detach() * logp
    return torch.autograd.grad((logp.exp().detach() * inner).sum(), theta)[0]


def through_the_weights(logits, ref_logits, estimator, place):
    theta = logits.double().requires_grad_()
    logp = theta.log_softmax(0)
    u = logp - ref_logits.double().log_softmax(0)
    k = {"k1": u, "k2": u**2 / 2, "k3": torch.exp(-u) - 1 + u}[estimator]
    return torch.autograd.grad((logp.exp() * k).sum(), theta)[0]


def forgets_k2(logits, ref_logits, estimator, place):
    return by_hand()(logits, ref_logits, "k1" if (estimator, place) == ("k2", "reward") else estimator, place)


def raw_reference(logits, ref_logits, estimator, place):
    """The reference's logits taken for its log-probabilities, which in the probe they are."""
    u = (logits.log_softmax(0) - ref_logits).double().numpy()
    p = np.exp(logits.double().log_softmax(0).numpy())
    value, slope = parts(u, estimator)
    return (p * (slope if place == "loss" else value)) @ (np.eye(len(p)) - p)


def raw_policy(logits, ref_logits, estimator, place):
    """The logits taken for log-probabilities, which in the probe they are."""
    u = (logits - ref_logits.log_softmax(0)).double().numpy()
    p = logits.double().exp().numpy()
    value, slope = parts(u, estimator)
    return (p * (slope if place == "loss" else value)) @ (np.eye(len(p)) - p)


def upside_down(logits, ref_logits, estimator, place):
    """k1 and k2 as they should be, and π/π_ref in k3."""
    theta = logits.double().requires_grad_()
    logp = theta.log_softmax(0)
    u = logp - ref_logits.double().log_softmax(0)
    k = {"k1": u, "k2": u**2 / 2, "k3": u.exp() - 1 - u}[estimator]
    inner = k if place == "loss" else k.detach() * logp
    return torch.autograd.grad((logp.exp().detach() * inner).sum(), theta)[0]


def graph_kept(logits, ref_logits, estimator, place):
    """In the reward the estimate is not detached."""
    theta = logits.double().requires_grad_()
    logp = theta.log_softmax(0)
    u = logp - ref_logits.double().log_softmax(0)
    k = {"k1": u, "k2": u**2 / 2, "k3": torch.exp(-u) - 1 + u}[estimator]
    inner = k if place == "loss" else k * logp
    return torch.autograd.grad((logp.exp().detach() * inner).sum(), theta)[0]


RIGHT["kl-gradients"] = [by_hand(), autograd, word_by_word]
WRONG["kl-gradients"] = {
    "the outcomes are not weighted": [
        by_hand(weights=lambda p, q: 1.0),
        by_hand(weights=lambda p, q: 1 / len(p)),
    ],
    "weighted by the reference": by_hand(weights=lambda p, q: q),
    "the weights are differentiated too": [
        through_the_weights,
        by_hand(in_loss=lambda value, slope: value + slope),
    ],
    "the sign is turned round": by_hand(sign=-1.0),
    "the gradient is not with respect to the logits": by_hand(score=lambda p: np.eye(len(p))),
    "the two policies are exchanged": exchanged,
    "the score times the number, in the loss too": by_hand(in_loss=lambda value, slope: value),
    "k3 has its ratio upside down": upside_down,
    "logits are taken for log-probabilities": raw_policy,
    "the reference's logits are taken for log-probabilities": raw_reference,
    "k2 is taken for the KL in the reward too": forgets_k2,
    "place is not read": by_hand(in_reward=lambda value, slope: slope),
    "the estimate is differentiated in the reward, too": [
        by_hand(in_reward=lambda value, slope: value + slope),
        graph_kept,
    ],
    "the penalty is subtracted": by_hand(in_reward=lambda value, slope: -value),
    "in the reward the outcomes are not weighted": lambda x, y, k, place: by_hand(
        weights=(lambda p, q: p) if place == "loss" else (lambda p, q: 1.0)
    )(x, y, k, place),
    "the score is not that of the logits": lambda x, y, k, place: by_hand(
        score=(lambda p: np.eye(len(p)) - p) if place == "loss" else (lambda p: np.eye(len(p)))
    )(x, y, k, place),
}


UNNAMED["kl-gradients"] = [
    lambda x, y, k, place: by_hand()(x, y, k, place)[:4].tolist() + [0.0] * (len(x) - 4)
]
