"""Checks of the exercises on baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, scores


@CHAPTER.check("leave-one-out", section="sec-baseline")
def leave_one_out(answer: Answer) -> Findings:
    def ask(*returns: float) -> np.ndarray:
        return as_array(answer(torch.tensor(returns, dtype=torch.float32)), (len(returns),), "your result")

    base = [1.0, 5.0, 3.0, 7.0]
    got = ask(*base)
    equal = as_array(answer(torch.full((4,), 4.0)), (4,), "your result", finite=False)
    # [i, j]: how a rise of return i moves the advantage of sample j
    rises = np.array([ask(*(np.array(base) + 100 * step)) - got for step in np.eye(4)]) / 100
    own, others = np.diag(rises), [np.delete(rises[:, j], j) for j in range(4)]
    yield from recognise(
        got,
        {
            "nothing is subtracted": base,
            "the sign is turned round": bool((own < -1e-3).all()),
            "the baseline, not the advantage": close(own, np.zeros(4), 1e-3),
            "divided by the spread": close(ask(*(2 * np.array(base) + 10)), got),
            "the baseline has seen the return that it judges": [-3, 1, -1, 3],
            "the own return is taken off the mean, not out of it": close(own, np.full(4, 1.75)),
            "the sum of the others, not their mean": close(own, np.ones(4))
            and close(others, -np.ones((4, 3))),
            "compared with one other, not with all the others": close(
                np.sort(others), np.tile([-1.0, 0.0, 0.0], (4, 1))
            ),
            "one too many in the divisor": close(rises[0, 1], -0.25) and close(own, np.ones(4)),
        },
        equal=equal,
    )
    pair = ask(1.0, 5.0)
    yield Property(
        "returns 1 and 5 become −4 and 4", close(pair, [-4.0, 4.0]), f"they become {numbers(pair)}"
    )
    yield Property("equal returns leave nothing to learn", close(equal, np.zeros(4)), numbers(equal))

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        spread, centre = rng.choice([0.1, 1, 100]), rng.choice([-10, 0, 0, 50])
        returns = rng.normal(size=rng.choice([*range(2, 9), 40]))
        return {"returns": centre + spread * (returns if rng.random() < 0.5 else returns.round())}  # ties

    def slow(p: Problem) -> list[float]:
        each = range(len(p.returns))
        return [np.mean([p.returns[i] - p.returns[j] for j in each if j != i]) for i in each]

    yield agrees(answer, slow, random_problems(draw))


@CHAPTER.check("hunt-perfect-baseline", section="sec-baseline")
def hunt_perfect_baseline(answer: Answer) -> Findings:
    # State 0 was visited four times, state 1 three times, state 2 never. In each state one action did better.
    states, actions = np.array([0, 0, 1, 0, 1, 0, 1]), np.array([0, 1, 0, 0, 1, 1, 0])
    returns = np.array([1.0, 5.0, 20.0, 3.0, 32.0, 7.0, 20.0])
    call = (torch.tensor(states), torch.tensor(actions), torch.tensor(returns, dtype=torch.float32))
    got = as_array(answer(*call), (7,), "your advantages", finite=False)
    if not np.isfinite(got).all():
        yield Mistake("a division by zero visits", got=got)

    def mean(p: Problem) -> list[float]:
        each = zip(p.states, p.returns, strict=True)
        return [g - np.mean([h for t, h in zip(p.states, p.returns, strict=True) if t == s]) for s, g in each]

    def of_the_others(p: Problem) -> list[float]:
        """The visit itself left out: a good baseline too, where a state was visited more than once."""
        spread = zip(mean(p), (sum(p.states == s) for s in p.states), strict=True)
        return [advantage * visits / (visits - 1) for advantage, visits in spread]

    probe = Problem(states=states, actions=actions, returns=returns)
    by_mean, by_others = np.array(mean(probe)), np.array(of_the_others(probe))
    pairs = [(states == s) & (actions == a) for s in (0, 1) for a in (0, 1)]
    subtracted = returns - got
    yield from recognise(
        got,
        {
            "the baseline still sees the action": all(abs(got[pair].mean()) < 1e-3 for pair in pairs),
            "no baseline is left": returns,
            "the baseline has forgotten the state": close(subtracted, np.full(7, subtracted[0]), 1e-3),
            "the sign is turned round": either(-by_mean, -by_others),
        },
        zero=got[[0, 3, 1, 5]],
        number=subtracted[0],
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        visits = 1 + rng.integers(5, size=rng.integers(1, rng.choice([5, 40]))) + (slow is of_the_others)
        states = rng.permutation(np.repeat(rng.permutation(rng.choice([40, 2000]))[: len(visits)], visits))
        far, spread = rng.choice([0, 10], size=2000), rng.choice([0.1, 1, 100])
        return {
            "states": states,
            "actions": rng.integers(rng.integers(1, 20), size=len(states)),
            "returns": spread * (far[states] + rng.normal(size=len(states)).round(rng.integers(2))),  # zeros
        }

    slow = of_the_others if close(got, by_others, 1e-3) else mean
    sums = [got[states == s].mean() for s in (0, 1)]
    yield Property(
        "in each state the advantages average to zero",
        close(sums, [0, 0], 1e-3),
        f"they average to {numbers(sums)}",
    )
    yield agrees(answer, slow, random_problems(draw), what="your advantages")


@CHAPTER.check("best-baseline", section="sec-best-baseline")
def best_baseline(answer: Answer) -> Findings:
    p, r = np.array([0.7, 0.2, 0.1]), np.array([1.0, 4.0, 10.0])
    call = (torch.tensor(p, dtype=torch.float32), torch.tensor(r, dtype=torch.float32))
    got = as_array(answer(*call), (3,), "your result")
    seven = torch.full((3,), 7.0)
    equal, row = as_array(answer(call[0], seven), (3,), "your result"), scores(np.log(p))
    size = np.abs(row)
    yield from recognise(
        got,
        {
            "the expected reward": p @ r,
            "every arm counted alike": r.mean(),
            "one baseline for all logits": got[0],
            "weighed by the size of the score, not by its square": (p * r) @ size / (p @ size),
            "the policy's own weights are missing": r @ row**2 / (row**2).sum(0),
            "the rewards are squared too": either(
                (p * r**2) @ row**2 / (p @ row**2), np.sqrt((p * r**2) @ row**2 / (p @ row**2))
            ),
            "the weights do not add up to one": not close(equal, [7, 7, 7], 1e-3),
        },
        equal=equal,
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        arms = rng.integers(2, 6)
        probs = rng.dirichlet(np.full(arms, rng.choice([0.3, 0.7, 5])))
        probs = (probs + 0.002) / (probs + 0.002).sum()
        pays = rng.choice([0.1, 1, 20]) * rng.normal(rng.choice([-3, 0, 3]), size=arms)
        return {"probs": probs, "rewards": pays}

    def slow(p: Problem) -> np.ndarray:
        """The lowest point of each component's variance, a parabola in b, from three of its points."""
        rows = scores(np.log(p.probs))

        def variances(b: float) -> np.ndarray:
            estimates = rows * (p.rewards[:, None] - b)
            return p.probs @ (estimates - p.probs @ estimates) ** 2

        left, middle, right = (variances(b) for b in (-1.0, 0.0, 1.0))
        return (left - right) / (left - 2 * middle + right) / 2

    yield agrees(answer, slow, random_problems(draw), what="your baselines")
