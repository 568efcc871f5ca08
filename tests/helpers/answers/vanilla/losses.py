"""Answers to the exercises on losses, as readers might write them."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- pg-loss


def episode_by_episode(logp, advantages, mask):
    total = 0.0
    for row, weights, real in zip(logp, advantages.detach().tolist(), mask.tolist(), strict=True):
        for t, inside in enumerate(real):
            if inside:
                total = total - weights[t] * row[t]
    return total / len(logp)


RIGHT["pg-loss"] = [
    lambda logp, a, mask: (-logp * a.detach() * mask).sum(dim=1).mean(),
    lambda logp, a, mask: -torch.dot(logp[mask], a[mask].detach()) / len(logp),
    lambda logp, a, mask: -torch.where(mask, logp * a.data, 0.0).sum() / logp.shape[0],
    episode_by_episode,
]
WRONG["pg-loss"] = {
    "a reward, not a loss": lambda logp, a, m: (logp * a.detach() * m).sum() / len(logp),
    "the advantages are not detached": lambda logp, a, m: -(logp * a * m).sum() / len(logp),
    "a sum over episodes, not a mean": lambda logp, a, m: -(logp * a.detach() * m).sum(),
    "averaged over steps, not over episodes": [
        lambda logp, a, m: -(logp * a.detach())[m].mean(),
        lambda logp, a, m: -(logp * a.detach() * m).mean(),
    ],
    "the axes of episodes and steps are mixed up": lambda logp, a, m: -(logp * a.detach() * m).sum(0).mean(),
    "each episode is divided by its own length": lambda logp, a, m: (
        -((logp * a.detach() * m).sum(1) / m.sum(1)).mean()
    ),
    "the mask is turned round": lambda logp, a, m: -(logp * a.detach() * ~m).sum(1).mean(),
    "bad actions are not made rarer": [
        lambda logp, a, m: -(logp * a.detach().relu() * m).sum(1).mean(),
        lambda logp, a, m: -(logp * a.detach().abs() * m).sum(1).mean(),
    ],
    "the size of the advantage makes no difference": [
        lambda logp, a, m: -(logp * a.detach().sign() * m).sum(1).mean(),
        lambda logp, a, m: -(logp * a.detach().clamp(-1, 1) * m).sum(1).mean(),
    ],
    "padding is pushed too": lambda logp, a, m: -(logp * a.detach()).sum(1).mean(),
    "probabilities where log-probabilities belong": lambda logp, a, m: (
        -(logp.exp() * a.detach() * m).sum(1).mean()
    ),
    "every action gets the same push": [
        lambda logp, a, m: -logp[m].mean() * a.detach()[m].mean(),
        lambda logp, a, m: -(logp * m).sum() / len(logp),
    ],
    "cut off from autograd": lambda logp, a, m: -(logp.detach() * a.detach() * m).sum(1).mean(),
    "no gradient reaches logp": lambda logp, a, m: -(0 * logp * a.detach() * m).sum(1).mean(),
    "the advantages are centred inside the loss": lambda logp, a, m: (
        -(logp * (a - a[m].mean()).detach() * m).sum(1).mean()
    ),
    "every step is credited with the whole episode": [
        lambda logp, a, m: -((logp * m).sum(1) * (a.detach() * m).sum(1)).mean(),
        lambda logp, a, m: -(logp.sum(1) * a.detach().sum(1)).mean(),
    ],
}


# --- hunt-broadcast


def gathered(logits, actions):
    return logits.log_softmax(-1).gather(-1, actions[:, None])


RIGHT["hunt-broadcast"] = [
    lambda z, actions, a: -(z.log_softmax(-1)[torch.arange(len(actions)), actions] * a.detach()).mean(),
    lambda z, actions, a: -(torch.distributions.Categorical(logits=z).log_prob(actions) * a.detach()).mean(),
    lambda z, actions, a: (F.cross_entropy(z, actions, reduction="none") * a.detach()).mean(),
    lambda z, actions, a: -(z.log_softmax(-1).gather(-1, actions[:, None]) * a.detach()[:, None]).mean(),
]
WRONG["hunt-broadcast"] = {
    "every action still meets every advantage": lambda z, actions, a: (
        -(gathered(z, actions) * a.detach()).mean()
    ),
    "it overflows for large logits": lambda z, actions, a: (
        -(z.softmax(-1).log().gather(-1, actions[:, None])[:, 0] * a.detach()).mean()
    ),
    "no gradient reaches the policy": lambda z, actions, a: (
        -(gathered(z, actions)[:, 0].detach() * a.detach()).mean() + 0 * z.sum()
    ),
    "the advantages are centred inside the loss": [
        lambda z, actions, a: -(gathered(z, actions)[:, 0] * (a - a.mean()).detach()).mean(),
        lambda z, actions, a: -(gathered(z, actions)[:, 0] * F.layer_norm(a.detach(), a.shape)).mean(),
    ],
    "bad actions are not made rarer": [
        lambda z, actions, a: -(gathered(z, actions)[:, 0] * a.detach().relu()).mean(),
        lambda z, actions, a: -(gathered(z, actions)[:, 0] * a.detach().abs()).mean(),
    ],
    "the size of the advantage makes no difference": [
        lambda z, actions, a: -(gathered(z, actions)[:, 0] * a.detach().sign()).mean(),
        lambda z, actions, a: -(gathered(z, actions)[:, 0] * a.detach().clamp(-1, 1)).mean(),
    ],
    "samples are mixed": lambda z, actions, a: (
        -(z.log_softmax(0)[torch.arange(len(actions)), actions] * a.detach()).mean()
    ),
    "a reward, not a loss": lambda z, actions, a: (gathered(z, actions)[:, 0] * a.detach()).mean(),
    "a sum, not a mean": lambda z, actions, a: -(gathered(z, actions)[:, 0] * a.detach()).sum(),
    "the advantages are not detached": lambda z, actions, a: -(gathered(z, actions)[:, 0] * a).mean(),
}


# --- hunt-flattering-critic

RIGHT["hunt-flattering-critic"] = [
    lambda logp, v, g: 0.5 * F.mse_loss(v, g) - torch.mean(logp * (g - v).detach()),
    lambda logp, v, g: (0.5 * (v - g).square() - logp * (g - v.data)).sum() / len(g),
]
WRONG["hunt-flattering-critic"] = {
    "the policy term still pulls at the critic": lambda logp, v, g: (
        -(logp * (g - v)).mean() + 0.5 * ((v - g) ** 2).mean()
    ),
    "every action meets every advantage": lambda logp, v, g: (
        -(logp * (g - v.detach())[:, None]).mean() + 0.5 * ((v - g) ** 2).mean()
    ),
    "the errors are averaged before they are squared": [
        lambda logp, v, g: -(logp * (g - v.detach())).mean() + (v - g).mean() ** 2,
        lambda logp, v, g: -(logp * (g - v.detach())).mean() + 0.5 * (v - g).mean() ** 2,
    ],
    "the critic is fitted to something else": lambda logp, v, g: (
        -(logp * (g - v.detach())).mean() + 0.5 * ((v - g - logp.detach()) ** 2).mean()
    ),
    "the critic no longer learns": lambda logp, v, g: (
        -(logp * (g - v.detach())).mean() + 0.5 * ((v.detach() - g) ** 2).mean()
    ),
    "a reward, not a loss": lambda logp, v, g: (logp * (g - v.detach())).mean() + 0.5 * ((v - g) ** 2).mean(),
    "no gradient reaches the policy": lambda logp, v, g: (
        -(logp.detach() * (g - v.detach())).mean() + 0.5 * ((v - g) ** 2).mean()
    ),
    "the critic runs away from the returns": lambda logp, v, g: (
        -(logp * (g - v.detach())).mean() - 0.5 * ((v - g) ** 2).mean()
    ),
    "the advantages are centred inside the loss": [
        lambda logp, v, g: (0.5 * (v - g) ** 2 - logp * ((g - v) - (g - v).mean()).detach()).mean(),
        lambda logp, v, g: (0.5 * (v - g) ** 2 - logp * F.layer_norm((g - v).detach(), g.shape)).mean(),
        lambda logp, v, g: (
            0.5 * (v - g) ** 2 - logp * (g - v - (g - v).mean()).data / ((g - v).data.std() + 1e-8)
        ).mean(),
    ],
}


# --- what only the last property refuses

UNNAMED["pg-loss"] = [
    lambda logp, a, m: -(logp * a.detach() * m).sum() / max(1, len(logp) - 1),
    lambda logp, a, m: -(logp * a.detach() * m).sum(1).sum() / 2,  # the probe's number of episodes
    lambda logp, a, m: -(logp * a.detach().clamp(-10, 10) * m).sum(1).mean(),
    lambda logp, a, m: -(logp * a.detach() * m).sum(1).mean() * (1 if len(logp) > 1 else 0.5),
]
UNNAMED["hunt-broadcast"] = [
    lambda z, actions, a: -gathered(z, actions).mean(),
    lambda z, actions, a: -(gathered(z.clamp(-20, 20), actions)[:, 0] * a.detach()).mean(),
    lambda z, actions, a: F.cross_entropy(z, actions, reduction="none") @ a.detach() / min(len(a), 10),
    lambda z, actions, a: -(gathered(z, actions)[:, 0] * a.detach().exp()).mean(),
    lambda z, actions, a: -(gathered(z, actions)[:, 0] * a.detach()).sum() / 4,  # the probe's batch
    lambda z, actions, a: -(gathered(z, actions)[:, 0] * a.detach().clamp(-2, 2)).mean(),
]
UNNAMED["hunt-flattering-critic"] = [
    lambda logp, v, g: (0.5 * (v - g) ** 2 - logp.clamp(min=-20) * (g - v).detach()).mean(),
    lambda logp, v, g: -(logp * (g - v.detach())).sum() / 2 + ((v - g) ** 2).sum() / 4,
    lambda logp, v, g: -(logp * (g - v.detach())).mean() + F.smooth_l1_loss(v, g, beta=5.0) * 5,
]
