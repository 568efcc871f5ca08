"""Checks of the first task: a gradient without autograd, and the update that follows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Answer, Findings, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, finite_differences, random_problems
from . import WHOLE as CHAPTER

SINGLE = np.array([(r, a) for a in (1.0, -1.0) for r in (0.5, 0.9, 1.1, 1.5)])


def _away_from_knees(rng: np.random.Generator, count: int, eps: float) -> np.ndarray:
    """Ratios below, in and above the clip range, none so near an end that a difference straddles it."""
    parts = [rng.uniform(0.2, 0.97 - eps), rng.uniform(1.03 - eps, 0.97 + eps), rng.uniform(1.03 + eps, 3)]
    return rng.choice(parts, size=count)


@CHAPTER.check("final-gradient", section="sec-four-cases")
def final_gradient(answer: Answer) -> Findings:
    def ask(logits: Any, actions: Any, old_logp: Any, advantages: Any, eps: float, coef: float) -> np.ndarray:
        given = (np.array(logits), np.array(actions), np.array(old_logp), np.array(advantages), eps, coef)
        return as_array(answer(*given), given[0].shape, "the gradient")

    # Two actions, equally likely now. Of the first one the score is (0.5, −0.5).
    singles = [ask([[0.0, 0.0]], [0], [np.log(0.5 / r)], [a], 0.2, 0.0)[0] for r, a in SINGLE]
    first, second = 2 * np.array(singles).T
    r, a = SINGLE.T
    box, inside = r.clip(0.8, 1.2), np.abs(r - 1) < 0.2
    moved = ((a > 0) & (r > 1.2)) | ((a < 0) & (r < 0.8))
    other = ((a > 0) & (r < 0.8)) | ((a < 0) & (r > 1.2))
    right, inverse = np.where(moved, 0, r * a), 1 / r
    back = ((a > 0) & (inverse > 1.2)) | ((a < 0) & (inverse < 0.8))
    alone = close(second, np.zeros(8)) and np.abs(first).max() > 0.1
    yield from recognise(
        first,
        {
            "the score is the indicator alone": alone,
            "it goes downhill": either(-right, -r * a),
            "nothing is clipped": r * a,
            "what is outside is flat on either side": r * a * inside,
            "the clipped ratio pushes on": either(box * a, np.where(moved, box * a, r * a)),
            "the larger of the two is followed": np.where(other, 0, r * a),
            "the ratio is missing from the slope": either(np.where(moved, 0, a), a, np.where(other, 0, a)),
            "the ratio is upside down": either(np.where(back, 0, inverse * a), inverse * a),
            "the wrong side is flat for bad actions": np.where(r > 1.2, 0, r * a),
            "the range is not 1 − eps to 1 + eps": either(
                np.where(r > 0.2, 0, r * a),
                np.where(((a > 0) & (r > 0.2)) | ((a < 0) & (r < -0.2)), 0, r * a),
            ),
        },
        good=first[:4],
        bad=first[4:],
        both=[first[1] / 2, second[1] / 2],
    )
    pair = ask([[0.0, 0.0]] * 2, [0, 0], [np.log(0.5)] * 2, [1.0, 1.0], 0.2, 0.0)
    yield from recognise(
        pair,
        {"a sum, not a mean": np.array([[0.5, -0.5]] * 2)},
        one=pair[0],
    )
    # The bonus alone: probabilities 0.8 and 0.2.
    sure = [np.log(0.8), np.log(0.2)]
    bonus = ask([sure], [0], [sure[0]], [0.0], 0.2, 1.0)[0]
    p, log = np.array([0.8, 0.2]), np.array(sure)
    slope = -p * (log - (p * log).sum())
    yield from recognise(
        bonus,
        {
            "the entropy is made small": -slope,
            "the bonus is not there": 0,
            "the bonus's slope by the probabilities": either(-(log + 1), -p * (log + 1), -log, -p * log),
            "the bonus is the entropy itself": -(p * log).sum(),
            "the bonus counts the drawn action only": either(
                -log[0] * np.array([0.2, -0.2]), np.array([-0.2, 0.2])
            ),
        },
        right=slope,
    )
    far = answer(np.array([[1000.0, 0.0]]), np.array([1]), np.array([-1000.0]), np.array([1.0]), 0.2, 0.1)
    yield Property(
        "logits of a thousand work",
        bool(np.isfinite(as_array(far, (1, 2), "the gradient", finite=False)).all()),
        "with the logits 1000 and 0 the gradient contains nan or inf",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        n, k, eps = int(rng.integers(1, 6)), int(rng.integers(2, 5)), float(rng.choice([0.1, 0.2, 0.4]))
        logits, actions = rng.choice([0.3, 2]) * rng.normal(size=(n, k)), rng.integers(k, size=n)
        logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        old = logp[np.arange(n), actions] - np.log(_away_from_knees(rng, n, eps))
        return {
            "logits": logits + rng.choice([0, 5]),
            "actions": actions,
            "old_logp": old,
            "advantages": rng.choice([0.1, 1, 10]) * rng.normal(size=n),
            "clip_eps": eps,
            "entropy_coef": float(rng.choice([0, 0.01, 0.5])),
        }

    def slow(p: Problem) -> np.ndarray:
        """Central differences of the objective, sample by sample."""

        def objective(logits: np.ndarray) -> float:
            total = 0.0
            for i, row in enumerate(logits):
                probs = np.exp(row) / np.exp(row).sum()
                r, a = probs[p.actions[i]] / np.exp(p.old_logp[i]), p.advantages[i]
                kept = min(max(r, 1 - p.clip_eps), 1 + p.clip_eps)
                total += min(r * a, kept * a) - p.entropy_coef * sum(q * np.log(q) for q in probs)
            return total / len(logits)

        return finite_differences(objective, p.logits)

    yield agrees(answer, slow, random_problems(draw), arrays=True, what="the gradient")


@CHAPTER.check("final-update", section="sec-ppo-loop")
def final_update(answer: Answer) -> Findings:
    table, rate, eps, coef = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, -0.5]]), 2.0, 0.2, 0.05
    states, actions = np.array([0, 0, 1, 0]), np.array([0, 0, 1, 1])
    advantages = np.array([1.0, 2.0, 1.0, -0.5])
    minibatches = [np.array(rows) for rows in ([0, 1], [2, 3], [1, 2], [0, 3], [1, 0])]

    def ask(minibatches: Any, rate: float, coef: float = coef) -> np.ndarray:
        back = answer(table, states, actions, advantages, minibatches, rate, eps, coef)
        return as_array(back, table.shape, "the table")

    def gradient(logits: np.ndarray, rows: np.ndarray, old: np.ndarray, coef: float) -> np.ndarray:
        """The gradient by the logits that each sample sees, by its cases."""
        found = np.zeros((len(rows), logits.shape[1]))
        for k, i in enumerate(rows):
            p = np.exp(logits[states[i]]) / np.exp(logits[states[i]]).sum()
            r, a = p[actions[i]] / old[i], advantages[i]
            push = 0.0 if (r > 1 + eps if a > 0 else r < 1 - eps) else r * a
            entropy = -(p * np.log(p)).sum()
            found[k] = push * (np.eye(len(p))[actions[i]] - p) - coef * p * (np.log(p) + entropy)
        return found / len(rows)

    def simulated(
        moving: bool = False,
        still: bool = False,
        lost: bool = False,
        whole: bool = False,
        sign: float = 1.0,
        steps: int | None = None,
        share: float = 1.0,
        every: bool = False,
    ) -> np.ndarray:
        now, chosen = table.copy(), [np.arange(4)] * len(minibatches) if whole else minibatches
        for rows in chosen[:steps]:
            source = table if still else now
            probs = np.exp(now if moving else table)
            probs /= probs.sum(1, keepdims=True)
            found = sign * rate * share * gradient(source, rows, probs[states, actions], coef)
            if lost:
                now[states[rows]] += found
            else:
                np.add.at(now, states[rows], found)
            if every:  # states that were not seen get the bonus too
                p = np.exp(now) / np.exp(now).sum(1, keepdims=True)
                h = -(p * np.log(p)).sum(1, keepdims=True)
                unseen = ~np.isin(np.arange(len(now)), states[rows])
                now[unseen] -= (rate * coef * p * (np.log(p) + h))[unseen]
        return now

    got = ask(minibatches, rate)
    yield from recognise(
        got,
        {
            "nothing has moved": table,
            "it goes downhill": simulated(sign=-1.0),
            "the old policy moves along": simulated(moving=True),
            "samples of one state overwrite each other": simulated(lost=True),
            "all steps start from the same table": simulated(still=True),
            "every step takes the whole batch": simulated(whole=True),
            "only the first minibatch": simulated(steps=1),
            "the last minibatch is left out": simulated(steps=-1),
            "divided by the whole batch": simulated(share=0.5),
            "states that nobody saw are moved": simulated(every=True),
        },
        tolerance=1e-4,
        right=simulated()[0],
        first=got[0],
        moved=got - table,
    )
    none = ask([], rate)
    yield Property("without a minibatch nothing moves", close(none, table), f"the table: {numbers(none)}")

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        n, s, k = int(rng.integers(1, 9)), int(rng.integers(1, 4)), int(rng.integers(2, 4))
        size, steps = int(rng.integers(1, n + 1)), int(rng.integers(1, 7))
        return {
            "table": rng.normal(size=(s, k)),
            "states": rng.integers(s, size=n),
            "actions": rng.integers(k, size=n),
            "advantages": rng.choice([0.1, 1]) * rng.normal(size=n),
            "minibatches": np.array([rng.permutation(n)[:size] for _ in range(steps)]),
            "rate": float(rng.choice([0.1, 1, 5])),
            "clip_eps": float(rng.choice([0.1, 0.3])),
            "entropy_coef": float(rng.choice([0, 0.1])),
        }

    def slow(p: Problem) -> np.ndarray:
        """Step by step, sample by sample."""
        now = p.table.copy()
        old = np.exp(now) / np.exp(now).sum(1, keepdims=True)
        for rows in p.minibatches:
            change = np.zeros_like(now)
            for i in rows:
                s, b, worth = p.states[i], p.actions[i], p.advantages[i]
                probs = np.exp(now[s]) / np.exp(now[s]).sum()
                r = probs[b] / old[s, b]
                done = (worth > 0 and r > 1 + p.clip_eps) or (worth < 0 and r < 1 - p.clip_eps)
                entropy = -sum(q * np.log(q) for q in probs)
                for j, q in enumerate(probs):
                    score = (j == b) - q
                    bonus = -q * (np.log(q) + entropy)
                    change[s, j] += ((not done) * r * worth * score + p.entropy_coef * bonus) / len(rows)
            now = now + p.rate * change
        return now

    yield agrees(answer, slow, random_problems(draw), arrays=True, what="the table")
