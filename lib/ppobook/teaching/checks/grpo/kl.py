"""The check of what the estimators of a KL lead down, as a loss and as a reward."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .. import Answer, Findings, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, finite_differences, random_problems
from . import CHAPTER, probabilities

ESTIMATORS, PLACES = ("k1", "k2", "k3"), ("loss", "reward")


@CHAPTER.check("kl-gradients", section="sec-grpo-kl")
def kl_gradients(answer: Answer) -> Findings:
    policy, reference = np.log([0.5, 0.3, 0.2]), np.log([0.2, 0.2, 0.6])
    pi, ref = np.exp(policy), np.exp(reference)
    gap = policy - reference
    values = {"k1": gap, "k2": gap**2 / 2, "k3": ref / pi - 1 + gap}

    def ask(estimator: str, place: str, up: float = 0.0, ref_up: float = 0.0) -> np.ndarray:
        given = (torch.tensor(x, dtype=torch.float32) for x in (policy + up, reference + ref_up))
        back = answer(*given, estimator, place)
        return as_array(back, (3,), f"the mean gradient of {estimator}", finite=False)

    got = {(k, place): ask(k, place) for k in ESTIMATORS for place in PLACES}
    # Rounded: what is 0 on paper need not be in float32.
    loss, reward = (np.array([got[k, place] for k in ESTIMATORS]).round(6) for place in PLACES)
    forward = pi * (gap - pi @ gap)  # of KL(π, π_ref), by the logits
    back = pi - ref  # of KL(π_ref, π)
    score = np.eye(3) - pi  # row y: of log π(y)
    slopes = np.array([np.ones(3), gap, 1 - ref / pi])  # of each estimator by log π(y)

    def mean(weights: np.ndarray) -> np.ndarray:
        return (slopes * weights) @ score

    upside = np.array([np.zeros(3), forward, (pi * (pi / ref - 1)) @ score])
    scores = np.array([(pi * values[k]) @ score for k in ESTIMATORS])
    yield from recognise(
        loss,
        {
            "the outcomes are not weighted": either(mean(np.ones(3) / 3), mean(np.ones(3))),
            "weighted by the reference": mean(ref),
            "the weights are differentiated too": mean(pi) + scores,
            "the sign is turned round": -mean(pi),
            "the gradient is not with respect to the logits": either(slopes * pi, slopes),
            # With both policies exchanged the three losses are the same: in the reward k1 has another sign.
            "k3 has its ratio upside down": close(loss, upside) and close(reward[0], forward),
            "the two policies are exchanged": either(
                np.array([np.ones(3), gap, -(pi / ref - 1)]) * -pi @ score,
                np.array([-np.ones(3), gap, pi / ref - 1]) * pi @ score,
                upside,
            ),
            "the score times the number, in the loss too": scores,
            "place is not read": close(loss, mean(pi)) and close(reward, loss),
        },
        k1=loss[0],
        k2=loss[1],
        k3=loss[2],
        forward=forward,
    )
    yield from recognise(
        reward,
        {
            "the estimate is differentiated in the reward, too": either(
                mean(pi) + scores, mean(pi * policy) + scores
            ),
            "k2 is taken for the KL in the reward too": close(reward[1], forward)
            and close(reward[[0, 2]], scores[[0, 2]]),
            "the penalty is subtracted": -scores,
            "in the reward the outcomes are not weighted": either(
                *(np.array([values[k] for k in ESTIMATORS]) * w @ score for w in (1.0, 1 / 3))
            ),
            "the score is not that of the logits": np.array([pi * values[k] for k in ESTIMATORS]),
        },
        k1=reward[0],
        k2=reward[1],
        k3=reward[2],
    )
    # A number that is added to all logits changes no probability.
    moved = [[ask(k, place, *up) for k in ESTIMATORS for place in PLACES] for up in ((2.0, 0.0), (0.0, 2.0))]
    still = [close(one, list(got.values()), 1e-3) for one in moved]
    yield from recognise(
        loss,
        {
            "logits are taken for log-probabilities": not still[0],
            "the reference's logits are taken for log-probabilities": not still[1],
        },
        moved=moved[0 if not still[0] else 1][4],
        before=got["k3", "loss"],
    )
    yield Property(
        "in the loss k1 gives 0, k2 the gradient of KL(π, π_ref), and k3 that of KL(π_ref, π)",
        close(loss, [np.zeros(3), forward, back]),
        f"with π = 0.5, 0.3, 0.2 and π_ref = 0.2, 0.2, 0.6 the three gradients are {numbers(loss)}",
    )
    yield Property(
        "in the reward k1 gives the gradient of KL(π, π_ref), and k3 that of the difference of the two",
        close(reward[[0, 2]], [forward, forward - back]),
        f"with the same two policies the gradients are {numbers(reward[[0, 2]])}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        outcomes = int(rng.integers(2, 7))
        return {
            "logits": rng.choice([0.3, 1]) * rng.normal(size=outcomes) + rng.choice([0, 5]),
            "ref_logits": rng.choice([0.3, 1]) * rng.normal(size=outcomes),
            "estimator": str(rng.choice(ESTIMATORS)),
            "place": str(rng.choice(PLACES)),
        }

    def slow(p: Problem) -> np.ndarray:
        """Slopes of divergences, by differences; for k2 as a reward, that of its own mean."""
        q = probabilities(p.ref_logits)

        def kl(logits: np.ndarray, turned: bool) -> float:
            first, second = (q, probabilities(logits)) if turned else (probabilities(logits), q)
            return float((first * np.log(first / second)).sum())

        def towards(turned: bool) -> np.ndarray:
            return finite_differences(lambda x: kl(x, turned), p.logits)

        if p.place == "loss":
            kinds = {
                "k1": lambda: np.zeros(len(q)),
                "k2": lambda: towards(False),
                "k3": lambda: towards(True),
            }
            return np.asarray(kinds[p.estimator]())
        if p.estimator == "k2":
            still = np.log(probabilities(p.logits) / q) ** 2 / 2
            return finite_differences(lambda x: probabilities(x) @ still, p.logits)
        return towards(False) - (towards(True) if p.estimator == "k3" else 0)

    yield agrees(answer, slow, random_problems(draw, 30), what="the mean gradient")
