"""The check of stage 4: an update must see every sample once an epoch, in a new order, and step as it should.

The optimizer and the networks write down what happens: which samples were looked at before each step, and
with which gradient the step was taken. That gradient is compared with differences of the loss.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from .. import Answer, Findings, Property, Stop, as_array, close, either, numbers, recognise
from ..beside.capstone import GradientDescent, Policy
from ..findings import DRAWN_FROM
from . import WHOLE as CHAPTER


class Case:
    """A batch of N environments and T steps, with advantages and old log-probabilities that are random."""

    def __init__(
        self,
        num_envs: int,
        steps: int,
        actions: int = 2,
        seed: int = 0,
        rate: float = 0.5,
        shared: bool = False,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.size = size = num_envs * steps
        self.seen: list[np.ndarray] = []
        table = rng.normal(size=(1 if shared else size, actions))
        self.policy = Policy(torch.tensor(table, dtype=torch.float32), self.seen)
        self.critic = nn.Linear(size, 1, bias=False)
        with torch.no_grad():
            self.critic.weight.copy_(torch.tensor(rng.normal(size=(1, size))))
        self.optimizer = GradientDescent([self.policy.weight, self.critic.weight], self.seen, rate)
        shape = (num_envs, steps)
        self.actions = rng.integers(actions, size=shape)
        self.start = self.taken(self.policy.weight.detach().double().numpy()).reshape(shape)
        self.logp = self.start - np.log(rng.choice([0.6, 0.93, 1.08, 1.5], size=shape))
        offsets = np.linspace(-3, 3, num_envs)[:, None]  # environments differ in level
        self.advantages = offsets + (1 + np.arange(num_envs)[:, None]) * rng.normal(size=shape)
        self.returns = rng.normal(size=shape)

    @staticmethod
    def all_logp(table: np.ndarray) -> np.ndarray:
        shifted = table - table.max(1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))

    def taken(self, table: np.ndarray) -> np.ndarray:
        """The log-probabilities of the actions that were taken, for a table of logits; [samples]."""
        rows = self.all_logp(np.broadcast_to(table, (self.size, table.shape[1])))
        return np.asarray(np.take_along_axis(rows, self.actions.reshape(-1, 1), 1)[:, 0])

    def kls(self, table: np.ndarray) -> np.ndarray:
        """(r - 1) - log r of each sample, for a table of logits."""
        log_ratio = self.taken(table) - self.logp.ravel()
        return np.asarray(np.expm1(log_ratio) - log_ratio)

    def run(self, answer: Answer, **settings: Any) -> float:
        given = {"epochs": 1, "minibatches": 1, "clip_eps": 0.2, "value_coef": 0.5, "entropy_coef": 0.0}
        self.settings = given | {"max_grad_norm": 1e9} | settings
        shape = self.actions.shape
        batch = {
            "obs": torch.eye(self.size).view(*shape, self.size),
            "actions": torch.tensor(self.actions),
            **{
                name: torch.tensor(getattr(self, name), dtype=torch.float32)
                for name in ("logp", "advantages", "returns")
            },
            "rewards": torch.zeros(shape),
            "terminated": torch.zeros(shape, dtype=torch.bool),
            "truncated": torch.zeros(shape, dtype=torch.bool),
            "values": torch.zeros(shape[0], shape[1] + 1),
            "final_values": torch.zeros(shape),
        }
        kept = {name: (entry, entry.clone()) for name, entry in batch.items()}
        came = answer(self.policy, self.critic, self.optimizer, batch, **self.settings)
        self.held = bool(getattr(came, "requires_grad", False))
        self.overwritten = [
            name
            for name, (entry, copy) in kept.items()
            if batch.get(name) is not entry or not torch.equal(entry, copy)
        ]
        return float(as_array(came, (), "approx_kl"))

    def expected(
        self, k: int, normal: str = "minibatch", ddof: int = 0, old: str = "stored", order: str = "same"
    ) -> list[np.ndarray]:
        """The gradients at step k by differences of the loss, at the weights and samples of that step."""
        table, values = self.optimizer.weights[k]
        rows = self.optimizer.samples[k]
        worth, logp, returns = (x.ravel() for x in (self.advantages, self.logp, self.returns))
        actions = self.actions.ravel()
        if normal == "each environment":
            spread = self.advantages.std(1, ddof=ddof, keepdims=True)
            worth = ((self.advantages - self.advantages.mean(1, keepdims=True)) / spread).ravel()
        elif normal == "each step":
            spread = self.advantages.std(0, ddof=ddof, keepdims=True) + 1e-8
            worth = ((self.advantages - self.advantages.mean(0, keepdims=True)) / spread).ravel()
        elif normal == "batch":
            worth = (worth - worth.mean()) / worth.std(ddof=ddof)
        if old == "as they are now":
            logp = self.taken(table)
        elif old == "as the update begins":
            logp = self.start.ravel()
        if order == "turned":  # the other entries flattened along the other axis
            logp, returns = self.logp.T.ravel(), self.returns.T.ravel()
            actions, worth = self.actions.T.ravel(), self.advantages.T.ravel()
        part = worth[rows]
        if normal == "minibatch":
            part = (part - part.mean()) / (part.std(ddof=ddof) + 1e-8)

        s = self.settings

        def loss_of(i: int, at: int, logits: np.ndarray, value: float) -> float:
            log_all = logits - logits.max()
            log_all = log_all - np.log(np.exp(log_all).sum())
            r = np.exp(log_all[actions[i]] - logp[i])
            gain = sorted([r * part[at], np.clip(r, 1 - s["clip_eps"], 1 + s["clip_eps"]) * part[at]])[0]
            surprise = -(np.exp(log_all) * log_all).sum()
            error = 0.5 * (value - returns[i]) ** 2
            return float(-gain + s["value_coef"] * error - s["entropy_coef"] * surprise) / len(rows)

        slopes, step = [np.zeros(table.shape), np.zeros(values.shape)], 1e-5
        for at, i in enumerate(rows):
            for action in range(table.shape[1]):
                bump = step * np.eye(table.shape[1])[action]
                slopes[0][i, action] = (
                    loss_of(i, at, table[i] + bump, 0.0) - loss_of(i, at, table[i] - bump, 0.0)
                ) / (2 * step)
            value = float(values[0, i])
            slopes[1][0, i] = (
                loss_of(i, at, table[i], value + step) - loss_of(i, at, table[i], value - step)
            ) / (2 * step)
        return slopes

    def is_step(self, k: int, **how: Any) -> bool:
        """Return whether step k used this description's gradient, for either standard deviation."""
        return any(
            all(
                close(got, want, 2e-3)
                for got, want in zip(
                    self.optimizer.slopes[k], self.expected(k, ddof=ddof, **how), strict=True
                )
            )
            for ddof in (0, 1)
        )

    def norm(self, k: int) -> list[float]:
        return [float(np.sqrt((slope**2).sum())) for slope in self.optimizer.slopes[k]]


def _together(steps: list[set[int]], rows: np.ndarray) -> bool:
    """Return whether each step holds at least one row as a whole, which hardly ever happens by chance."""
    return all(any({*row} <= step for row in rows.tolist()) for step in steps)


@CHAPTER.check("capstone-update", section="sec-ppo-loop")
def capstone_update(answer: Answer) -> Findings:
    case = Case(num_envs=4, steps=6)
    case.run(answer, epochs=3, minibatches=4)
    steps = [set(rows.tolist()) for rows in case.optimizer.samples]
    taken, everything = len(steps), set(range(24))
    epochs = [steps[4 * e : 4 * e + 4] for e in range(3)]
    covered = [set().union(*epoch) if epoch else set() for epoch in epochs]
    grid = np.arange(24).reshape(4, 6)
    in_order = [[{*rows} for rows in order.reshape(4, 6).tolist()] for order in (grid, grid.T.ravel())]
    second = Case(num_envs=4, steps=6)
    second.run(answer, epochs=1, minibatches=4)
    repeated = epochs[0] == [set(rows.tolist()) for rows in second.optimizer.samples]
    # Many readers look at everything first; what counts is what a step was taken with.
    whole = taken > 0 and all(step == everything for step in steps)
    yield from recognise(
        float(taken),
        {
            "the optimizer takes no step": taken == 0,
            "one epoch, whatever epochs says": taken == 4,
            "each epoch is one step on everything": taken == 3 or (whole and taken == 12),
            "one step a sample": taken == 72,
            "minibatches is taken for their size": taken == 18,
            "another number of steps": taken != 12,
            "networks are asked about no sample": any(not step for step in steps),
            "the batch is not covered": covered != [everything] * 3,
            "more than the minibatch is looked at before a step": everything in steps and not whole,
            "minibatches of different sizes": {len(step) for step in steps} != {6},
            "whole environments stay together": _together(steps, grid) and in_order[0] not in epochs[:1],
            "whole steps of time stay together": _together(steps, grid.T) and in_order[1] not in epochs[:1],
            "an epoch is not shuffled": any(order in epochs for order in in_order),
            "shuffled once for all epochs": len({frozenset(map(frozenset, e)) for e in epochs}) == 1,
            "every update has the same order": repeated,
        },
        taken=taken,
        steps=12,
        missing=len(everything - covered[0]),
        first=sorted(steps[0])[:8] if steps else [],
        sizes=[len(step) for step in steps[:4]],
        looked=[len(step) for step in steps[:8]],
    )

    exact = case.is_step(0)
    slopes = case.optimizer.slopes
    piled = close(slopes[1][0], case.expected(1)[0] + slopes[0][0], 2e-3) or close(
        slopes[1][0], case.expected(1, ddof=1)[0] + slopes[0][0], 2e-3
    )
    up = [close(-a, b, 2e-3) for a, b in zip(slopes[0], case.expected(0), strict=True)]
    yield from recognise(
        0.0,
        {
            "the gradients pile up": exact and piled,
            "it goes uphill": not exact and up[0] and float(np.abs(slopes[0][0]).max()) > 1e-6,
            "advantages are not normalised": case.is_step(0, normal="none"),
            "advantages are normalised over the whole batch": not exact and case.is_step(0, normal="batch"),
            "advantages are normalised in each environment": case.is_step(0, normal="each environment"),
            "advantages are normalised at each step of time": case.is_step(0, normal="each step"),
            "old log-probabilities are computed anew": not exact
            and (case.is_step(0, old="as they are now") or case.is_step(0, old="as the update begins")),
            "samples are mixed up": not exact
            and (case.is_step(0, order="turned") or case.is_step(0, order="turned", normal="none")),
            "every gradient is zero at the step": not max(np.abs(x).max() for x in slopes[0]) > 1e-9,
            "the critic is not trained": not np.abs(slopes[0][1]).max() > 1e-9,
            "approx_kl carries a graph": case.held,
            "the policy is not trained": not np.abs(slopes[0][0]).max() > 1e-9,
            "the caller's batch is overwritten": bool(case.overwritten),
        },
        entries=" and ".join(f"`{name}`" for name in case.overwritten),
    )
    equal = Case(num_envs=2, steps=2)
    equal.advantages[:] = 1.5
    try:
        equal.run(answer)
    except Stop as stop:
        if stop.name != "not finite":
            raise
    slope = equal.optimizer.slopes[0][0] if equal.optimizer.slopes else np.zeros(1)
    yield from recognise(
        0.0,
        {
            "the mean of the advantages is not subtracted": 1e3 < np.abs(slope).max() < np.inf,
            "equal advantages do not become 0": not np.abs(slope).max() < 1e-6,
        },
        slope=slope.ravel()[:4],
    )
    clipped = Case(num_envs=2, steps=4, seed=1)
    clipped.run(answer, epochs=1, minibatches=2, max_grad_norm=0.01)
    norms = clipped.norm(0)
    total = math.hypot(*norms)
    small = Case(num_envs=2, steps=4, seed=1)
    small.run(answer, epochs=1, minibatches=1, max_grad_norm=100.0)
    grown = math.hypot(*small.norm(0))
    yield from recognise(
        total,
        {
            "each network is clipped on its own": bool(np.allclose(norms, 0.01, rtol=0.01)),
            "only the policy is clipped": 0.0098 < norms[0] < 0.0102 and norms[1] > 0.02,
            "only the critic is clipped": 0.0098 < norms[1] < 0.0102 and norms[0] > 0.02,
            "the gradient is not clipped": total > 0.1,
            "each number is clipped, not their norm": total > 0.0102,
            "max_grad_norm is not used": total < 0.0098,
            "short gradients are made longer": 99 < grown < 101,
        },
        total=total,
        norms=norms,
    )

    failed, kls = "", ""
    common = Case(num_envs=2, steps=4, shared=True)
    kl = common.run(answer, epochs=2, minibatches=4)
    final = common.policy.weight.detach().double().numpy()
    before = [table for table, _ in common.optimizer.weights]
    passes = list(zip(common.optimizer.samples, before, [*before[1:], final], strict=True))
    each = np.array([[common.kls(table)[rows].mean() for table in tables] for rows, *tables in passes])
    right = common.kls(final).mean()
    if not close(kl, right, 1e-6):  # chance can bring the others as near as they're looked at
        yield from recognise(
            kl,
            {
                "approx_kl is that of the last minibatch": either(*each[-1]),
                "approx_kl is a mean over minibatches": either(*each.mean(0), *each[4:].mean(0)),
            },
            right=right,
        )
    if not close(kl, right, 2e-3):
        kls = f"with a policy of the same logits everywhere it is {kl:.4g}, and at the end {right:.4g}"
    rng = np.random.default_rng(DRAWN_FROM.get())
    for trial in range(6):
        n, t, parts = int(rng.integers(1, 4)), int(rng.integers(1, 4)) * 4, int(rng.choice([1, 2]))
        world = Case(n, t, actions=int(rng.integers(2, 4)), seed=10 + trial, rate=float(rng.choice([0.1, 2])))
        settings = {
            "epochs": int(rng.integers(1, 4)),
            "minibatches": parts,
            "clip_eps": float(rng.choice([0.05, 0.3])),
            "value_coef": float(rng.choice([0.25, 1.0])),
            "entropy_coef": float(rng.choice([0.0, 0.1])),
        }
        kl = world.run(answer, **settings)
        if len(world.optimizer.samples) != settings["epochs"] * parts:
            failed = f"with {settings} there are {len(world.optimizer.samples)} steps"
        for k in range(len(world.optimizer.samples)):
            if not failed and not world.is_step(k):
                failed = (
                    f"with {n} environments, {t} steps and {settings}, at step {k + 1} the gradient of the "
                )
                failed += (
                    f"logits begins with {numbers(world.optimizer.slopes[k][0].ravel()[:4])}, and not with "
                )
                failed += numbers(world.expected(k)[0].ravel()[:4])
        table = world.policy.weight.detach().double().numpy()
        d = world.taken(table) - world.logp.ravel()
        rows = {
            "approx_kl has the wrong sign": (d - np.expm1(d)).mean(),
            "approx_kl is minus the mean log ratio": -d.mean(),
            "approx_kl is the mean log ratio": d.mean(),
            "approx_kl has the ratio upside down": (np.expm1(-d) + d).mean(),
            "approx_kl is a sum": (np.expm1(d) - d).sum(),
        }
        right = (np.expm1(d) - d).mean()
        if not close(kl, right, 2e-3):
            yield from recognise(kl, rows, right=right)
            kls = kls or f"with {settings} it is {kl:.4g}, and after the last step it should be {right:.4g}"
    yield Property(
        "each step is taken with the gradient of the loss on its minibatch, in 6 random updates",
        not failed,
        failed,
    )
    yield Property(
        "what comes back is approx_kl of the whole batch, after the last step, to the policy that played",
        not kls,
        kls,
    )
