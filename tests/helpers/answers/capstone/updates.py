"""Answers to stage 4, the update."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from .losses import Loss, like_cleanrl
from .losses import functional as loss
from .variants import changes

BASE = """
def update(policy, critic, optimizer, batch, epochs, minibatches, clip_eps, value_coef, entropy_coef,
           max_grad_norm):
    obs = batch["obs"].flatten(0, 1)
    rest = {k: batch[k].flatten() for k in ("actions", "logp", "advantages", "returns")}
    n = len(obs)
    both = list(policy.parameters()) + list(critic.parameters())
    for epoch in range(epochs):
        order = torch.randperm(n)
        for i in range(minibatches):
            size = n // minibatches
            rows = order[i * size : (i + 1) * size]
            mb = {"obs": obs[rows], **{k: x[rows] for k, x in rest.items()}}
            A = mb["advantages"]
            mb["advantages"] = (A - A.mean()) / (A.std(correction=0) + 1e-8)
            total = loss(policy, critic, mb, clip_eps, value_coef, entropy_coef)
            optimizer.zero_grad()
            total.backward()
            nn.utils.clip_grad_norm_(both, max_grad_norm)
            optimizer.step()
    with torch.no_grad():
        logp = policy(obs).log_softmax(-1).gather(1, rest["actions"][:, None])[:, 0]
    d = logp - rest["logp"]
    return (d.exp() - 1 - d).mean()
"""
but = changes(BASE, loss=loss)


def cleanrl(
    policy, critic, optimizer, batch, epochs, minibatches, clip_eps, value_coef, entropy_coef, max_grad_norm
):
    """Shuffled indices of NumPy, time first."""
    flat = {k: batch[k].transpose(0, 1).reshape(-1, *batch[k].shape[2:]) for k in ("obs", "actions")}
    flat |= {k: batch[k].T.reshape(-1) for k in ("logp", "advantages", "returns")}
    size = len(flat["obs"])
    inds = np.arange(size)
    for _ in range(epochs):
        np.random.shuffle(inds)  # noqa: NPY002
        for start in range(0, size, size // minibatches):
            mb = {k: x[inds[start : start + size // minibatches]] for k, x in flat.items()}
            mb["advantages"] = (mb["advantages"] - mb["advantages"].mean()) / (mb["advantages"].std() + 1e-8)
            optimizer.zero_grad()
            like_cleanrl(policy, critic, mb, clip_eps, value_coef, entropy_coef).backward()
            nn.utils.clip_grad_norm_([*policy.parameters(), *critic.parameters()], max_grad_norm)
            optimizer.step()
    with torch.no_grad():
        new = torch.distributions.Categorical(logits=policy(flat["obs"])).log_prob(flat["actions"])
        logratio = new - flat["logp"]
        return ((logratio.exp() - 1) - logratio).mean().item()


class Updater:
    """Gradients clipped by hand, a data loader's splitting, settings by keyword."""

    def __call__(self, policy, critic, optimizer, batch, **s):
        self.nets = nn.ModuleList([policy, critic])
        flat = {
            name: batch[name].flatten(0, 1) for name in ("obs", "actions", "logp", "advantages", "returns")
        }
        for _ in range(s["epochs"]):
            for rows in torch.randperm(len(flat["obs"])).view(s["minibatches"], -1):
                self.step(optimizer, {k: v[rows] for k, v in flat.items()}, s)
        with torch.no_grad():
            now = policy(flat["obs"]).log_softmax(-1)
            ratio = (now[range(len(now)), flat["actions"]] - flat["logp"]).exp()
        return float(torch.mean(ratio - 1 - ratio.log()))

    def step(self, optimizer, part, s):
        std, mean = torch.std_mean(part["advantages"])
        part["advantages"] = (part["advantages"] - mean) / (std + 1e-8)
        policy, critic = self.nets
        value = Loss()(policy, critic, part, s["clip_eps"], s["value_coef"], s["entropy_coef"])
        self.nets.zero_grad()
        value.backward()
        slopes = [p.grad for p in self.nets.parameters()]
        norm = torch.cat([g.flatten() for g in slopes]).norm()
        if norm > s["max_grad_norm"]:
            for g in slopes:
                g.mul_(s["max_grad_norm"] / norm)
        optimizer.step()


NORMAL = "(A - A.mean()) / (A.std(correction=0) + 1e-8)"
CLIP = "nn.utils.clip_grad_norm_(both, max_grad_norm)"
BEGIN = "    for epoch"
# The log of a minibatch, taken before or after its step.
AFTER = "    with torch.no_grad():\n        logp = policy(obs)"
KEEP = """            with torch.no_grad():
                now = policy(mb["obs"]).log_softmax(-1).gather(1, mb["actions"][:, None])[:, 0]
                log.append((torch.exp(now - mb["logp"]) - 1 - (now - mb["logp"])).mean())
"""
LOGGED = (BEGIN, "    log = []\n" + BEGIN, "(d.exp() - 1 - d).mean()", "sum(log) / len(log)")
RIGHT = {"capstone-update": [cleanrl, Updater(), but()]}
WRONG = {
    "capstone-update": {
        "the optimizer takes no step": but("            optimizer.step()\n", ""),
        "one epoch, whatever epochs says": but("range(epochs)", "range(1)"),
        "each epoch is one step on everything": [
            but("range(minibatches)", "range(1)", "n // minibatches", "n"),
            but("rows = order[i * size : (i + 1) * size]", "rows = order"),
        ],
        "one step a sample": but("range(minibatches)", "range(n)", "n // minibatches", "1"),
        "minibatches is taken for their size": but(
            "range(minibatches)", "range(n // minibatches)", "size = n // minibatches", "size = minibatches"
        ),
        "another number of steps": but("range(epochs)", "range(epochs + 1)"),
        "networks are asked about no sample": but(
            "            total = ",
            "            with torch.no_grad():\n                out = policy(mb['obs'])\n"
            "            total = ((critic(mb['obs'])[:, 0] - mb['returns'])**2).mean() #",
        ),
        "the batch is not covered": [
            but("rows = order[i * size : (i + 1) * size]", "rows = torch.randint(n, (size,))"),
            but("rows = order[i * size : (i + 1) * size]", "rows = torch.randperm(n)[:size]"),
            but("range(minibatches):", "range(minibatches):\n            i = 0"),
        ],
        "more than the minibatch is looked at before a step": [
            but("        order = ", "        before = policy(obs).log_softmax(-1)\n        order = "),
            but("            optimizer.step()", "            optimizer.step()\n            policy(obs)"),
        ],
        "minibatches of different sizes": but(
            "rows = order[i * size : (i + 1) * size]", "rows = order[i * size + (i > 0) : (i + 1) * size + 1]"
        ),
        "an epoch is not shuffled": [
            but("torch.randperm(n)", "torch.arange(n)"),
            but("torch.randperm(n)", "torch.randperm(n) if epoch == 0 else torch.arange(n)"),
            but(
                "torch.randperm(n)",
                "torch.arange(n).view(A0.shape).T.flatten()",
                "    n = len(obs)",
                "    n, A0 = len(obs), batch['logp']",
            ),
        ],
        "whole environments stay together": but(
            "torch.randperm(n)",
            "torch.arange(n).view(A0.shape)[torch.randperm(len(A0))].flatten()",
            "    n = len(obs)",
            "    n, A0 = len(obs), batch['logp']",
        ),
        "whole steps of time stay together": but(
            "torch.randperm(n)",
            "torch.arange(n).view(A0.shape).T[torch.randperm(A0.shape[1])].flatten()",
            "    n = len(obs)",
            "    n, A0 = len(obs), batch['logp']",
        ),
        "every update has the same order": [
            but(
                "torch.randperm(n)",
                "torch.randperm(n, generator=new)",
                "    n = len(obs)",
                "    n, new = len(obs), torch.Generator().manual_seed(0)",
            ),
            but("    n = len(obs)", "    n = len(obs)\n    torch.manual_seed(0)"),
        ],
        "shuffled once for all epochs": but(
            "        order = torch.randperm(n)\n", "", BEGIN, "    order = torch.randperm(n)\n" + BEGIN
        ),
        "the gradients pile up": but("            optimizer.zero_grad()\n", ""),
        "it goes uphill": but("total.backward()", "(-total).backward()"),
        "advantages are not normalised": but(NORMAL, "A"),
        "advantages are normalised over the whole batch": but(
            NORMAL,
            "A",
            BEGIN,
            '    A = rest["advantages"]\n    rest["advantages"] = ' + NORMAL + "\n" + BEGIN,
        ),
        "advantages are normalised in each environment": but(
            NORMAL,
            "A",
            BEGIN,
            '    A = batch["advantages"]\n    spread = A.std(1, keepdim=True)\n'
            '    rest["advantages"] = ((A - A.mean(1, keepdim=True)) / spread).flatten()\n' + BEGIN,
        ),
        "advantages are normalised at each step of time": but(
            NORMAL,
            "A",
            BEGIN,
            '    A = batch["advantages"]\n'
            '    rest["advantages"] = ((A - A.mean(0)) / (A.std(0) + 1e-8)).flatten()\n' + BEGIN,
        ),
        "old log-probabilities are computed anew": [
            but(
                "            total = ",
                "            with torch.no_grad():\n"
                '                now = policy(mb["obs"]).log_softmax(-1)\n'
                '                mb["logp"] = now.gather(1, mb["actions"][:, None])[:, 0]\n'
                "            total = ",
            ),
            but(
                BEGIN,
                "    with torch.no_grad():\n"
                "        now = policy(obs).log_softmax(-1)\n"
                '        rest["logp"] = now.gather(1, rest["actions"][:, None])[:, 0]\n' + BEGIN,
            ),
        ],
        "samples are mixed up": but("batch[k].flatten() for k", "batch[k].T.flatten() for k", NORMAL, "A"),
        "every gradient is zero at the step": [
            but(
                "            optimizer.zero_grad()\n",
                "",
                "total.backward()",
                "total.backward()\n            optimizer.zero_grad()",
            ),
            but("            total.backward()\n", "", CLIP, ""),
        ],
        "the mean of the advantages is not subtracted": but(NORMAL, "A / (A.std() + 1e-8)"),
        "equal advantages do not become 0": [
            but(NORMAL, "(A - A.mean()) / A.std()"),
            but(NORMAL, "(A - A.mean()) / A.std() if A.std() > 0 else A"),
        ],
        "the caller's batch is overwritten": [
            but("    n = len(obs)", "    n = len(obs)\n    batch['obs'] = obs"),
            but(
                "    d = logp - ",
                "    batch['logp'].copy_(logp.view_as(batch['logp']))\n    d = logp - ",
                "batch[k].flatten() for",
                "batch[k].flatten().clone() for",
            ),
        ],
        "the critic is not trained": but(
            "            optimizer.step()", "            critic.zero_grad()\n            optimizer.step()"
        ),
        "the policy is not trained": but(
            "            optimizer.step()", "            policy.zero_grad()\n            optimizer.step()"
        ),
        "the gradient is not clipped": [
            but("            " + CLIP + "\n", ""),
            but(
                "            " + CLIP + "\n", "", "total.backward()", CLIP + "\n            total.backward()"
            ),
        ],
        "each network is clipped on its own": but(
            CLIP, "[nn.utils.clip_grad_norm_(net.parameters(), max_grad_norm) for net in (policy, critic)]"
        ),
        "only the policy is clipped": but("clip_grad_norm_(both", "clip_grad_norm_(policy.parameters()"),
        "only the critic is clipped": but("clip_grad_norm_(both", "clip_grad_norm_(critic.parameters()"),
        "each number is clipped, not their norm": but(CLIP, "nn.utils.clip_grad_value_(both, max_grad_norm)"),
        "max_grad_norm is not used": but(
            "clip_grad_norm_(both, max_grad_norm)", "clip_grad_norm_(both, max_grad_norm / 2)"
        ),
        "short gradients are made longer": but(
            CLIP,
            "norm = torch.cat([p.grad.flatten() for p in both]).norm()\n"
            "            most = max_grad_norm if max_grad_norm < 1e6 else norm\n"
            "            [p.grad.mul_(most / norm) for p in both]",
        ),
        "approx_kl carries a graph": but(
            "    with torch.no_grad():\n        logp = policy", "    if True:\n        logp = policy"
        ),
        "approx_kl is a mean over minibatches": [
            but(*LOGGED, AFTER, KEEP + AFTER),
            but(*LOGGED, "            total = ", KEEP + "            total = "),
        ],
        "approx_kl is that of the last minibatch": but(
            *LOGGED, AFTER, KEEP + AFTER, "sum(log) / len(log)", "log[-1]"
        ),
        "approx_kl has the wrong sign": but("(d.exp() - 1 - d)", "(d - (d.exp() - 1))"),
        "approx_kl is minus the mean log ratio": but("(d.exp() - 1 - d)", "(-d)"),
        "approx_kl is the mean log ratio": but("(d.exp() - 1 - d)", "(d)"),
        "approx_kl has the ratio upside down": but('d = logp - rest["logp"]', 'd = rest["logp"] - logp'),
        "approx_kl is a sum": but("- d).mean()", "- d).sum()"),
    }
}
UNNAMED = {
    "capstone-update": [
        but(
            "clip_eps, value_coef, entropy_coef)\n            opt",
            "0.2, value_coef, entropy_coef)\n            opt",
        ),
        but(
            "clip_eps, value_coef, entropy_coef)\n            opt",
            "clip_eps, 0.5, entropy_coef)\n            opt",
        ),
        but(
            "clip_eps, value_coef, entropy_coef)\n            opt",
            "clip_eps, value_coef, 0.0)\n            opt",
        ),
        but("(d.exp() - 1 - d)", "(0.5 * d**2)"),
        but("total.backward()", "(2 * total).backward()"),
        but('"advantages"] = (A', '"advantages"] = 0.7 * (A'),
    ]
}
