"""Answers to stage 3, the loss."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributions import Categorical

from .variants import changes

BASE = """
def loss(policy, critic, batch, clip_eps, value_coef, entropy_coef):
    old = batch["logp"].detach()
    A = batch["advantages"].detach()
    G = batch["returns"].detach()
    logits = policy(batch["obs"])
    logp = logits.log_softmax(-1)
    taken = logp.gather(1, batch["actions"][:, None]).squeeze(1)
    r = torch.exp(taken - old)
    first, second = r * A, torch.clamp(r, 1 - clip_eps, 1 + clip_eps) * A
    policy_loss = -torch.minimum(first, second).mean()
    v = critic(batch["obs"]).squeeze(-1)
    value_loss = 0.5 * ((v - G) ** 2).mean()
    entropy = -(logp.exp() * logp).sum(-1).mean()
    return policy_loss + value_coef * value_loss - entropy_coef * entropy
"""
but = changes(BASE)


def like_cleanrl(policy, critic, mb, clip_eps, value_coef, entropy_coef):
    with torch.no_grad():
        advantages, returns, old = mb["advantages"] * 1, mb["returns"] * 1, mb["logp"] * 1
    probs = Categorical(logits=policy(mb["obs"]))
    logratio = probs.log_prob(mb["actions"].long()) - old
    ratio = logratio.exp()
    pg_loss1 = -advantages * ratio
    pg_loss2 = -advantages * torch.clamp(ratio, 1 - clip_eps, 1 + clip_eps)
    pg_loss = torch.max(pg_loss1, pg_loss2).mean()
    newvalue = critic(mb["obs"]).view(-1)
    v_loss = 0.5 * ((newvalue - returns) ** 2).mean()
    return pg_loss - entropy_coef * probs.entropy().mean() + v_loss * value_coef


class Loss:
    """Good and bad actions apart, the mean squared error of torch."""

    def __call__(self, policy, critic, batch, clip_eps, value_coef, entropy_coef):
        data = {name: entry.detach() for name, entry in batch.items()}
        probs = torch.softmax(policy(data["obs"]), dim=-1)
        now = probs[torch.arange(len(probs)), data["actions"]].log()
        self.ratio, worth = (now - data["logp"]).exp(), data["advantages"]
        good = self.ratio.clamp(max=1 + clip_eps) * worth.clamp(min=0)
        bad = self.ratio.clamp(min=1 - clip_eps) * worth.clamp(max=0)
        error = nn.functional.mse_loss(critic(data["obs"])[:, 0], data["returns"])
        entropy = torch.special.entr(probs).sum(1)
        return -(good + bad).mean() + value_coef / 2 * error - entropy_coef * entropy.mean()


def functional(policy, critic, batch, clip_eps, value_coef, entropy_coef):
    def one(obs, action, old, worth, target):
        logp = torch.log_softmax(policy(obs), -1)
        r = torch.exp(logp[action] - old)
        low, high = (1 - clip_eps, 1 + clip_eps)
        gain = min(r * worth, r.clip(low, high) * worth)
        return -gain + value_coef * (critic(obs)[0] - target) ** 2 / 2 + entropy_coef * (logp.exp() @ logp)

    entries = [batch[name].detach() for name in ("obs", "actions", "logp", "advantages", "returns")]
    return torch.stack([one(*sample) for sample in zip(*entries, strict=True)]).mean()


RIGHT = {"capstone-loss": [like_cleanrl, Loss(), functional, but()]}
WRONG = {
    "capstone-loss": {
        "not one number": but(
            "policy_loss = -torch.minimum(first, second).mean()",
            "policy_loss = -torch.minimum(first, second)",
        ),
        "it goes downhill": but("-torch.minimum", "torch.minimum"),
        "the ratio is inverted": but("taken - old", "old - taken"),
        "the larger of the two is taken": [
            but("-torch.minimum(first, second)", "-torch.maximum(first, second)"),
            but("-torch.minimum(first, second)", "torch.minimum(-first, -second)"),
        ],
        "nothing is clipped": but("torch.minimum(first, second)", "first"),
        "only the clipped product": but("torch.minimum(first, second)", "second"),
        "no exponential": but("torch.exp(taken - old)", "(taken - old)"),
        "the old log-probability is not read": [
            but("taken - old", "taken - taken.detach()"),
            but("torch.exp(taken - old)", "torch.exp(taken)"),
        ],
        "advantages are normalised here": [
            but("    G = ", "    A = (A - A.mean()) / (A.std(correction=0) + 1e-8)\n    G = "),
            but("    G = ", "    A = (A - A.mean()) / (A.std() + 1e-8)\n    G = "),
        ],
        "the stored logarithm is taken for a probability": [
            but("torch.exp(taken - old)", "torch.exp(taken) / old"),
            but("torch.exp(taken - old)", "taken / old"),
        ],
        "the smaller ratio, whatever the sign of A": [
            but("-torch.minimum(first, second)", "-(torch.minimum(first / A, second / A) * A)"),
            but("torch.minimum(first, second)", "(r.clamp(max=1 + clip_eps) * A)"),
        ],
        "one of the two products lacks its advantage": [
            but(
                "torch.clamp(r, 1 - clip_eps, 1 + clip_eps) * A", "torch.clamp(r, 1 - clip_eps, 1 + clip_eps)"
            ),
            but("first, second = r * A", "first, second = r"),
        ],
        "nothing is clipped where A is negative": but(
            "torch.minimum(first, second)", "torch.where(A > 0, torch.minimum(first, second), first)"
        ),
        "the policy's part is summed, not averaged": but("first, second).mean()", "first, second).sum()"),
        "clip_eps is not used": [
            but("1 - clip_eps, 1 + clip_eps", "0.8, 1.2"),
            but("1 - clip_eps, 1 + clip_eps", "0.9, 1.1"),
        ],
        "clipped samples count for nothing": [
            but("torch.minimum(first, second)", "(first * ((r - 1).abs() <= clip_eps + 1e-6))"),
            but("torch.minimum(first, second)", "torch.where(first <= second, first, 0)"),
        ],
        "values and returns meet crosswise": but(".squeeze(-1)", ""),
        "value_coef is not used": [
            but("value_coef * value_loss", "value_loss"),
            but("value_coef * value_loss", "0.5 * value_loss"),
        ],
        "no value loss": but(" + value_coef * value_loss", ""),
        "the value loss has the wrong sign": but("+ value_coef", "- value_coef"),
        "no half in the value loss": but("0.5 * ((v", "((v"),
        "the value loss is summed, not averaged": but("((v - G) ** 2).mean()", "((v - G) ** 2).sum()"),
        "the error is not squared": but("0.5 * ((v - G) ** 2)", "0.5 * ((v - G).abs())"),
        "large errors count less": [
            but("0.5 * ((v - G) ** 2)", "F.huber_loss(v, G, reduction='none', delta=2.5)"),
            but("0.5 * ((v - G) ** 2)", "F.smooth_l1_loss(v, G, reduction='none')"),
            but("0.5 * ((v - G) ** 2)", "0.5 * ((v - G) ** 2).clamp(max=9)"),
        ],
        "the entropy has the wrong sign": [
            but("- entropy_coef", "+ entropy_coef"),
            but("entropy = -(", "entropy = ("),
        ],
        "no entropy bonus": but(" - entropy_coef * entropy", ""),
        "the entropy is summed, not averaged": but(".sum(-1).mean()", ".sum()"),
        "entropy_coef is not used": but("entropy_coef * entropy", "entropy"),
        "the entropy is minus the log-probability of what was done": but(
            "-(logp.exp() * logp).sum(-1).mean()", "-taken.mean()"
        ),
        "the old log-probability is trained": but('batch["logp"].detach()', 'batch["logp"]'),
        "the advantages are trained": but('batch["advantages"].detach()', 'batch["advantages"]'),
        "the returns are trained": but('batch["returns"].detach()', 'batch["returns"]'),
        "the policy gets no gradient": [
            but(
                "    r = ",
                "    taken = taken.detach()\n    r = ",
                "entropy = -(logp.exp() * logp)",
                "entropy = -(logp.exp() * logp).detach()",
            ),
            but("    r = ", "    taken = taken.detach()\n    r = "),
        ],
        "the entropy trains nothing": but("(logp.exp() * logp)", "(logp.exp() * logp).detach()"),
        "the critic gets no gradient": but(".squeeze(-1)\n", ".squeeze(-1).detach()\n"),
    }
}
UNNAMED = {
    "capstone-loss": [
        but("r * A, ", "r * A.abs(), "),
        but("1 - clip_eps, 1 + clip_eps", "1 / (1 + clip_eps), 1 + clip_eps"),
        but("logp.exp() * logp).sum(-1)", "logp[:, :2].exp() * logp[:, :2]).sum(-1)"),
        but("torch.minimum(first, second)", "torch.minimum(first, second).maximum(3 * A.where(A < 0, -9))"),
        but("(v - G)", "(v - G).clamp(-10, 10)"),
        but("    r = ", "    A = A.clamp(-5, 5)\n    r = "),
        but(".gather(1, batch", ".roll(1, 0).gather(1, batch"),
    ]
}
