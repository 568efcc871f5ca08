"""Answers to the exercises on the score of a softmax, as readers might write them."""

from __future__ import annotations

import random

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- softmax-score


def by_autograd(logits, action, temperature):
    leaf = logits.clone().requires_grad_()
    return torch.autograd.grad((leaf / temperature).log_softmax(-1)[action], leaf)[0]


def by_numpy(logits, action, temperature):
    z = (logits.numpy() - logits.numpy().max()) / temperature
    return (np.eye(len(z))[action] - np.exp(z) / np.exp(z).sum()) / temperature


RIGHT["softmax-score"] = [by_autograd, by_numpy]
WRONG["softmax-score"] = {
    "the sign is turned round": lambda z, a, h: ((z / h).softmax(-1) - torch.eye(len(z))[a]) / h,
    "the gradient of π, not of log π": lambda z, a, h: (
        (z / h).softmax(-1)[a] * (torch.eye(len(z))[a] - (z / h).softmax(-1)) / h
    ),
    "the probabilities, not the score": lambda z, a, h: (z / h).softmax(-1),
    "only the logit of the arm taken": lambda z, a, h: torch.eye(len(z))[a] / h,
    "logits used as if they were probabilities": lambda z, a, h: torch.eye(len(z))[a] - z / h,
    "the policy does not come in": lambda z, a, h: torch.eye(len(z))[a] - 1 / len(z),
    "the temperature is missing from the derivative": lambda z, a, h: (
        torch.eye(len(z))[a] - (z / h).softmax(-1)
    ),
    "the temperature is not where it belongs": [
        lambda z, a, h: (torch.eye(len(z))[a] - z.softmax(-1)) / h,
        lambda z, a, h: h * (torch.eye(len(z))[a] - (z / h).softmax(-1)),
    ],
    "it overflows for large logits": lambda z, a, h: (
        (torch.eye(len(z))[a] - (z / h).exp() / (z / h).exp().sum()) / h
    ),
}


# --- score-mean


def outer_products(logits):
    p = logits.softmax(-1)
    scores = torch.eye(len(p)) - p
    return (p[:, None, None] * scores[:, :, None] * scores[:, None, :]).sum(0)


def jacobian(logits):
    return torch.autograd.functional.jacobian(lambda z: z.softmax(-1), logits)


def unweighted_sum(logits):
    return len(logits) * unweighted(logits)


def unweighted(logits):
    scores = torch.eye(len(logits)) - logits.softmax(-1)
    return scores.T @ scores / len(logits)


RIGHT["score-mean"] = [outer_products, jacobian]
WRONG["score-mean"] = {
    "averaged first, multiplied afterwards": lambda z: torch.zeros(len(z), len(z)),
    "no covariance between different logits": [
        lambda z: torch.diag(z.softmax(-1)),
        lambda z: torch.diag(z.softmax(-1) * (1 - z.softmax(-1))),
    ],
    "the sign off the diagonal": lambda z: (
        torch.diag(z.softmax(-1)) + torch.outer(z.softmax(-1), z.softmax(-1))
    ),
    "the sign is turned round": lambda z: (
        torch.outer(z.softmax(-1), z.softmax(-1)) - torch.diag(z.softmax(-1))
    ),
    "every arm counted alike": [unweighted_sum, unweighted],
}


# --- what only the last property refuses


def clamped(limit):
    def function(logits, action, temperature):
        z = (logits / temperature).clamp(-limit, limit)
        return (torch.eye(len(z))[action] - z.softmax(-1)) / temperature

    return function


def nan_to_zero(logits, action, temperature):
    raised = (logits / temperature).exp()
    return (torch.eye(len(logits))[action] - (raised / raised.sum()).nan_to_num()) / temperature


def sometimes_wrong(logits, action, temperature):
    score = by_autograd(logits, action, temperature)
    return score if random.random() > 0.2 else -score


def from_samples(logits):
    rows = torch.eye(len(logits))[logits.softmax(-1).multinomial(100_000, replacement=True)]
    scores = rows - logits.softmax(-1)
    return scores.T @ scores / len(scores)


UNNAMED["softmax-score"] = [
    lambda z, a, h: by_autograd(z, a, max(h, 0.1)),
    lambda z, a, h: by_autograd(z.clamp(min=-1000), a, h),
    lambda z, a, h: by_autograd(z, a, h) * ((z / h).softmax(-1)[a] < 0.9),
    clamped(50),
    clamped(60),
    clamped(100),
    nan_to_zero,
    sometimes_wrong,
]
UNNAMED["score-mean"] = [
    from_samples,
    lambda z: torch.eye(len(z)) - 1 / len(z),
    lambda z: -torch.outer(z.softmax(-1), z.softmax(-1)),
    lambda z: jacobian(z.clamp(-10, 10)),
    lambda z: torch.diag(z.exp() / z.exp().sum()) - torch.outer(z.exp(), z.exp()) / z.exp().sum() ** 2,
]
