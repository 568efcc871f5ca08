"""Answers to stage 2, GAE."""

from __future__ import annotations

import numpy as np
import torch

from .variants import changes

BASE = """
def gae(rewards, values, terminated, truncated, final_values, gamma, lam):
    terminated, truncated = terminated.bool(), truncated.bool()
    n, T = rewards.shape
    advantages = torch.zeros(n, T)
    for i in range(n):
        last = 0.0
        for t in reversed(range(T)):
            after = values[i, t + 1]
            if truncated[i, t]:
                after = final_values[i, t]
            if terminated[i, t]:
                after = 0.0
            delta = rewards[i, t] + gamma * after - values[i, t]
            if terminated[i, t] or truncated[i, t]:
                last = 0.0
            last = delta + gamma * lam * last
            advantages[i, t] = last
    returns = advantages + values[:, :T]
    return advantages, returns
"""
but = changes(BASE)


def like_cleanrl(rewards, values, terminated, truncated, final_values, gamma, lam):
    """Time first, masks as floats."""
    rewards, values, final_values = rewards.T, values.T, torch.nan_to_num(final_values).T
    terminated, truncated = terminated.T.float(), (truncated & ~terminated).T.float()
    advantages = torch.zeros_like(rewards)
    lastgaelam = 0
    for t in reversed(range(len(rewards))):
        nextvalues = (1 - truncated[t]) * values[t + 1] + truncated[t] * final_values[t]
        nextnonterminal = 1.0 - terminated[t]
        delta = rewards[t] + gamma * nextvalues * nextnonterminal - values[t]
        going = (1.0 - terminated[t]) * (1.0 - truncated[t])
        advantages[t] = lastgaelam = delta + gamma * lam * going * lastgaelam
    return advantages.T, (advantages + values[:-1]).T


class Estimator:
    """With NumPy, each row cut into its episodes."""

    def __call__(self, rewards, values, terminated, truncated, final_values, gamma, lam):
        self.gamma, self.lam = gamma, lam
        arrays = [x.numpy().astype(float) for x in (rewards, values, terminated, truncated, final_values)]
        rows = [self.row(*row) for row in zip(*arrays, strict=True)]
        found = torch.tensor(np.array(rows), dtype=torch.float32)
        return found, found + values[:, :-1]

    def row(self, rewards, values, terminated, truncated, final_values):
        out, begin = [], 0
        for t in range(len(rewards)):
            if terminated[t] or truncated[t] or t == len(rewards) - 1:
                follows = final_values[t] if truncated[t] else values[t + 1]
                tail = 0.0 if terminated[t] else follows
                out += self.episode(rewards[begin : t + 1], [*values[begin : t + 1], tail])
                begin = t + 1
        return out

    def episode(self, rewards, values):
        found = [0.0]
        for r, v, w in zip(rewards[::-1], values[-2::-1], values[:0:-1], strict=True):
            found.append(r + self.gamma * w - v + self.gamma * self.lam * found[-1])
        return found[:0:-1]


def functional(rewards, values, terminated, truncated, final_values, gamma, lam):
    ends = terminated | truncated
    after = values[:, 1:].where(~truncated, final_values).where(~terminated, torch.zeros(()))
    deltas = rewards + gamma * after - values[:, :-1]

    def advantages(t):
        if t == rewards.shape[1]:
            return []
        rest = advantages(t + 1)
        later = rest[0] if rest else torch.zeros(len(rewards))
        return [deltas[:, t] + torch.where(ends[:, t], 0.0, gamma * lam * later), *rest]

    found = torch.stack(advantages(0), 1)
    return found, found + values[:, :-1]


NO_STOP = "            if terminated[i, t] or truncated[i, t]:\n                last = 0.0\n"
OVER = "            if terminated[i, t]:\n                after = 0.0\n"
CUT = "            if truncated[i, t]:\n                after = final_values[i, t]\n"
RIGHT = {"capstone-gae": [like_cleanrl, Estimator(), functional, but()]}
WRONG = {
    "capstone-gae": {
        "entries that say nothing are read": but(
            "            if truncated[i, t]:\n                after = final_values[i, t]\n",
            "            c = truncated[i, t].float()\n"
            "            after = c * final_values[i, t] + (1 - c) * after\n",
        ),
        "episodes are not ended at all": but(OVER, "", NO_STOP, ""),
        "the value after a terminated step is counted": but(OVER, ""),
        "the sum runs on into the next episode": but(NO_STOP, ""),
        "the sum runs on past a truncation": but(
            "if terminated[i, t] or truncated[i, t]:", "if terminated[i, t]:"
        ),
        "a truncation is taken for an end": but("after = final_values[i, t]", "after = 0.0"),
        "after a truncation the value of the next episode is read": but(CUT, ""),
        "where both are set, truncated wins": but(CUT, "", OVER, OVER + CUT),
        "final_values are read where nothing was truncated": [
            but("if truncated[i, t]:", "if not final_values[i, t].isnan():"),
            but("if truncated[i, t]:", "if final_values[i, t].nan_to_num() != 0:"),
        ],
        "the last value is not read": but(
            "after = values[i, t + 1]", "after = values[i, t + 1] if t < T - 1 else 0.0"
        ),
        "lam is not used": but("gamma * lam * last", "gamma * last"),
        "only one step": but("delta + gamma * lam * last", "delta"),
        "gamma is missing in the sum": but("gamma * lam * last", "lam * last"),
        "gamma is not used": but("gamma * after", "after", "gamma * lam", "lam"),
        "the order is turned round": but("return advantages, returns", "return advantages.flip(1), returns"),
        "the sign is turned round": but("advantages[i, t] = last", "advantages[i, t] = -last"),
        "returns in place of advantages": but("return advantages, returns", "return returns, advantages"),
        "normalised already": but(
            "    return adv",
            "    A = advantages\n    advantages = (A - A.mean()) / A.std(correction=0)\n    return adv",
        ),
        "the advantages come twice": but("returns = advantages + values[:, :T]", "returns = advantages"),
        "returns less the values": but("advantages + values[:, :T]", "advantages - values[:, :T]"),
        "returns from the values after the step": but("values[:, :T]", "values[:, 1:]"),
    }
}
UNNAMED = {
    "capstone-gae": [
        but("gamma * lam * last", "gamma * lam**2 * last"),
        but("terminated[i, t] or truncated[i, t]:", "(terminated | truncated)[0, t]:"),
        but("reversed(range(T))", "range(T)"),
        but("rewards[i, t] + gamma", "rewards[i, t].clamp(-1, 1) + gamma"),
        but("gamma * lam * last", "0.99 * 0.95 * last"),
        but("if truncated[i, t]:", "if truncated[i, t] and t < T - 1:"),
        but("if truncated[i, t]:", "if truncated[i, t] and final_values[i, t] != 0:"),
    ]
}
