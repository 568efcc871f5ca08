"""Checks of the exercises on the score of a softmax."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, finite_differences, random_problems
from . import CHAPTER, log_probability, scores

LOGITS = np.log([1.0, 2.0, 5.0])  # probabilities 1/8, 2/8, 5/8
PROBS = np.array([1, 2, 5]) / 8


def _far_apart(rng: np.random.Generator) -> np.ndarray:
    """Logits of many scales, some of them around a number far from zero."""
    size, scale = rng.integers(1, 9), rng.choice([0.1, 1, 5, 100, 100])
    return (scale * rng.normal(size=size) + rng.choice([0, 0, 70, -1000, 1000])).round(3)


@CHAPTER.check("softmax-score", section="sec-bandit")
def softmax_score(answer: Answer) -> Findings:
    def ask(logits: np.ndarray, heat: float = 1.0) -> np.ndarray:
        given = torch.tensor(logits, dtype=torch.float32)
        return np.array([as_array(answer(given, a, heat), (3,), "the score") for a in range(3)])

    slopes, got = scores(LOGITS), ask(LOGITS)
    yield from recognise(
        got,
        {
            "the sign is turned round": -slopes,
            "the gradient of π, not of log π": slopes * PROBS[:, None],
            "the probabilities, not the score": np.tile(PROBS, (3, 1)),
            "only the logit of the arm taken": np.eye(3),
            "logits used as if they were probabilities": np.eye(3) - LOGITS,
            "the policy does not come in": np.eye(3) - 1 / 3,
        },
        one=got[1],
    )
    warm = ask(2 * LOGITS, 2.0)  # the same probabilities again
    if close(got, slopes, 1e-3):
        yield from recognise(
            warm,
            {
                "the temperature is missing from the derivative": slopes,
                "the temperature is not where it belongs": not close(warm, slopes / 2, 1e-3),
            },
            one=warm[1],
        )
    big = as_array(answer(torch.tensor([1000.0, 0.0, -1000.0]), 0, 1.0), (3,), "the score", finite=False)
    if not np.isfinite(big).all():
        yield Mistake("it overflows for large logits", got=big)
    yield Property(
        "its entries add up to zero", close(got.sum(1), np.zeros(3)), f"they add up to {numbers(got.sum(1))}"
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        heat = float(rng.choice([0.02, 0.1, 0.5, 1, 3, 20]))
        logits = _far_apart(rng) if rng.random() < 0.8 else LOGITS
        if heat < 0.1:
            logits = heat * rng.normal(size=5)  # further apart, float32 would leave too little of them
        action = rng.choice([rng.integers(len(logits)), logits.argmax()])  # often one that is nearly sure
        return {"logits": logits, "action": int(action), "temperature": heat}

    def slow(p: Problem) -> np.ndarray:
        return finite_differences(lambda z: log_probability(z / p.temperature, p.action), p.logits)

    yield agrees(answer, slow, random_problems(draw, 60), what="your score")


@CHAPTER.check("score-mean", section="sec-bandit")
def score_mean(answer: Answer) -> Findings:
    rows = scores(LOGITS)
    got = as_array(answer(torch.tensor(LOGITS, dtype=torch.float32)), (3, 3), "the covariance")
    off = got[~np.eye(3, dtype=bool)]
    yield from recognise(
        got,
        {
            "averaged first, multiplied afterwards": 0,
            "no covariance between different logits": close(off, 0 * off),
            "the sign is turned round": -(PROBS * rows.T) @ rows,
            "the sign off the diagonal": bool((off > 1e-3).all()),
            "every arm counted alike": either(rows.T @ rows / 3, rows.T @ rows),
        },
    )
    yield Property("each row adds up to zero", close(got.sum(1), np.zeros(3)), f"you get {numbers(got)}")

    def slow(p: Problem) -> np.ndarray:
        probs = [np.exp(log_probability(p.logits, a)) for a in range(len(p.logits))]
        return sum(chance * np.outer(row, row) for chance, row in zip(probs, scores(p.logits), strict=True))

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return {
            "logits": rng.choice([0.3, 1, 3, 20]) * rng.normal(size=rng.integers(1, 7)) + rng.choice([0, 100])
        }

    yield agrees(answer, slow, random_problems(draw), what="the covariance")
