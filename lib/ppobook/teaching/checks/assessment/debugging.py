"""The check of the fourth task: advantages and targets with three bugs, of which each hides another."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Answer, Findings, Property, Stop, as_array, close, numbers, recognise, words
from ..probes import Problem, agrees, random_problems
from . import GAE as CHAPTER

STEPS = 6


def _pair(back: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(back, tuple | list) or len(back) != 2:
        raise Stop("returned", "not two things", f"wanted (advantages, targets), got {words(back)}.")
    first, second = (
        as_array(x, (steps,), what) for x, what in zip(back, ("the advantages", "the targets"), strict=True)
    )
    return first, second


@CHAPTER.check("final-debug", section="sec-gae-ends")
def final_debug(answer: Answer) -> Findings:
    # Six steps: an episode ends with the third, and the rollout stops in the middle of the next one.
    rewards, values = np.array([1.0, 0, 2, 0, 1, 0]), np.array([0.5, 1, -1, 2, 0, 1])
    over, last, gamma, lam = np.array([False, False, True, False, False, False]), 3.0, 0.9, 0.5

    def ask(rewards: Any, values: Any, last: float, over: Any) -> tuple[np.ndarray, np.ndarray]:
        back = answer(np.array(rewards), np.array(values), last, np.array(over), gamma, lam)
        return _pair(back, len(rewards))

    def written(
        runs_on: bool = False,
        dead: bool = False,
        scaled: bool = False,
        future: bool = False,
        late: bool = False,
        decay: float = gamma * lam,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Advantages before they are normalized, and targets, with some of the bugs."""
        found, later = np.zeros(STEPS), 0.0
        ends = np.append(over[1:], False) if late else over
        for t in reversed(range(STEPS)):
            ahead = (0.0 if dead else last) if t + 1 == STEPS else values[t + 1]
            goes_on = 1.0 if future else 1.0 - ends[t]
            delta = rewards[t] + gamma * ahead * goes_on - values[t]
            later = delta + decay * later * (1.0 if runs_on else 1.0 - ends[t])
            found[t] = later
        targets = (norm(found) if scaled else found) + values
        return found, targets

    def norm(x: np.ndarray) -> np.ndarray:
        return (x - x.mean()) / (x.std() + 1e-8)

    got, targets = ask(rewards, values, last, over)
    bugs = ("runs_on", "dead", "scaled")
    sets = [{bug for k, bug in enumerate(bugs) if which >> k & 1} for which in range(1, 8)]

    def shows(**what: bool) -> bool:
        raw, goal = written(**what)
        return close(got, norm(raw), 1e-3) and close(targets, goal, 1e-3)

    left = [found for found in sets if shows(**dict.fromkeys(found, True))]
    many = left[0] if left else set()
    raw, right = written()
    yield from recognise(
        targets,
        {
            "all three bugs are still there": len(many) == 3,
            "two bugs are still there": len(many) == 2,
            "the sum runs on across an end": many == {"runs_on"},
            "the rollout's last step has no future": many == {"dead"},
            "the targets are made of normalized advantages": many == {"scaled"},
            "a finished episode is given a future": shows(future=True),
            "the flags are read one step late": shows(late=True),
            "the advantages are not normalized": close(got, raw, 1e-3) and got.std() > 0.1,
            "the targets are normalized, too": close(targets, norm(right), 1e-3),
            "the targets lack the values": close(targets, raw, 1e-3) or close(targets, norm(raw), 1e-3),
            "the sum does not look further than a step": close(targets, written(decay=0.0)[1], 1e-3),
        },
        tolerance=1e-3,
        advantages=got,
        third=targets[2],
        end=targets[-1],
        left="two of the three",
    )
    longer = ask(rewards[3:], values[3:], last, over[3:])[1]
    yield Property(
        "targets after the end of an episode do not depend on what came before it",
        close(targets[3:], longer, 1e-3),
        f"the targets of the last three steps are {numbers(targets[3:])}, and {numbers(longer)} on their own",
    )
    shifted = ask(rewards, values, last, over)[0]
    yield Property("the advantages have the mean 0", abs(float(shifted.mean())) < 1e-3, numbers(shifted))

    def asked(rewards: Any, values: Any, last: Any, over: Any, gamma: Any, lam: Any) -> np.ndarray:
        return np.stack(_pair(answer(rewards, values, last, over, gamma, lam), len(rewards)))

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        steps = int(rng.integers(2, 9))
        return {
            "rewards": rng.normal(size=steps),
            "values": rng.choice([0.1, 5]) * rng.normal(size=steps),
            "last_value": float(rng.normal()),
            "terminated": rng.random(steps) < 0.3,
            "gamma": float(rng.choice([0.5, 0.99])),
            "lam": float(rng.choice([0.0, 0.9, 1.0])),
        }

    def slow(p: Problem) -> np.ndarray:
        """Every step's sum of errors on its own."""
        n, found = len(p.rewards), []
        for t in range(n):
            total, weight = 0.0, 1.0
            for k in range(t, n):
                ahead = p.values[k + 1] if k + 1 < n else p.last_value
                total += weight * (p.rewards[k] + p.gamma * ahead * (not p.terminated[k]) - p.values[k])
                weight *= p.gamma * p.lam
                if p.terminated[k]:
                    break
            found.append(total)
        mean = sum(found) / n
        spread = (sum((x - mean) ** 2 for x in found) / n) ** 0.5
        return np.stack([[(x - mean) / (spread + 1e-8) for x in found], np.array(found) + p.values])

    yield agrees(asked, slow, random_problems(draw, 30), arrays=True, what="advantages and targets")
