"""Checks of a price instead of a clip: the penalised loss, and the weight that adapts."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from .. import Answer, Findings, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems
from . import CHAPTER

OLD = 0.25  # the old probability of every sample
# One sample each: ratio, advantage, KL, β.
GRID = np.array([(r, a, kl, b) for r in (0.5, 1, 1.1, 2) for a in (1, 2, -1) for kl, b in ((0, 0), (0.1, 3))])


@CHAPTER.check("hunt-division", section="sec-ppo-kl")
def hunt_division(answer: Answer) -> Findings:
    def tensors(ratios: list[float], worth: list[float]) -> tuple[Tensor, Tensor, Tensor]:
        return leaf([np.log(OLD * np.array(ratios))]), leaf([[np.log(OLD)] * len(ratios)]), leaf([worth])

    def value(ratios: list[float], worth: list[float], kl: list[float], beta: float) -> float:
        back = answer(*tensors(ratios, worth), leaf([kl]), beta)
        return -float(as_array(back, (), "your loss", finite=False))

    got = np.array([value([r], [a], [kl], b) for r, a, kl, b in GRID])
    r, a, kl, beta = GRID.T
    log, divided = np.log(r), np.log(OLD * r) / np.log(OLD)
    still, priced, grown = got[6], got[7], got[12]  # A = 1: at r = 1, the same at β = 3, and at r = 1.1
    cheap = value([1.0], [1.0], [0.1], 1.0)
    two = value([1.0] * 2, [1.0] * 2, [0.0] * 2, 3.0), value([1.0] * 2, [1.0] * 2, [0.1] * 2, 3.0)
    even, apart = (value([r, 1.0], [1.0, 3.0], [0.0] * 2, 3.0) for r in (1.0, 2.0))
    leaves = *tensors([1.1, 0.9], [2.0, -1.0]), leaf([[0.01, 0.02]])
    by_logp, by_old, by_worth, by_kl = gradients(answer(*leaves, 3.0), *leaves)
    price = beta * kl
    yield from recognise(
        got,
        {
            "a reward, not a loss": close(still, -1.0),
            "the ratio is upside down": close(grown, 1 / 1.1, 1e-3),
            "the ratio is still a division": either(divided * a - price, divided * a, divided * a + price),
            "the logarithm of the ratio, not the ratio": either(log * a - price, log * a, log * a + price),
            "a clip has come in": either(
                np.clip(r, 0.8, 1.2) * a - price, np.minimum(r * a, np.clip(r, 0.8, 1.2) * a) - price
            ),
            "the penalty is a bonus": r * a + price,
            "the penalty is gone": r * a,
            "the KL that was given does not come in": close(priced, still),
            "beta is not used": close(priced, cheap),
            "the penalty is multiplied with the advantage": (r - price) * a,
            "the advantages are centred inside the loss": close(even, 0)
            and abs(apart) > 0.1
            and not np.nan_to_num(got[(price == 0) & (r != 1)]).any(),
            "a sum, not a mean": (abs(still) > 0.1 and close(two[0], 2 * still))
            or (abs(priced - still) > 0.1 and close(two[1] - two[0], 2 * (priced - still))),
            "no gradient reaches logp": close(by_logp, 0 * by_logp),
            "old_logp is not detached": np.abs(by_old).max() > 1e-7,
            "the advantages are not detached": np.abs(by_worth).max() > 1e-7,
            "the KL is detached": close(by_kl, 0 * by_kl, 1e-7),
        },
        still=still,
        grown=grown,
        far=value([2.0], [1.0], [0.0], 0.0),
        priced=priced,
        one=priced - still,
        pair=two[0],
        both=two[1],
        old=by_old,
        worth=by_worth,
    )
    counts, far = [value([x], [2.0], [0.0], 0.0) for x in (0.5, 1.5, 3.0)], value([1e9], [2.0], [0.0], 0.0)
    yield Property(
        "an action counts ρ A, however far it has gone",
        close(counts, [1.0, 3.0, 6.0]) and close(far / 1e9, 2.0),
        f"for A = 2 and ρ = 0.5, 1.5, 3 it counts {numbers(counts, 4)}, at 10⁹ {far:.4g}",
    )
    yield Property(
        "distance costs β times the KL, averaged",
        close([priced, cheap], [0.7, 0.9]) and close(by_kl, [[1.5, 1.5]]),
        f"at ρ = 1 and KL = 0.1 it leaves {priced:.4g} of 1 for β = 3, and {cheap:.4g} for β = 1; with β = 3 "
        f"the gradient of the loss by the KLs of two samples is {numbers(by_kl)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size = tuple(rng.integers(1, 5, 2))  # learners, and pulls of each
        old = -rng.choice([0.1, 1, 5]) * rng.exponential(size=size)
        return {
            "logp": old + rng.choice([0.1, 0.5, 1.5]) * rng.normal(size=size),
            "old_logp": old,
            "advantages": rng.choice([0.01, 1, 100]) * rng.normal(rng.choice([-1, 0, 1]), size=size),
            "kl": rng.choice([0.01, 1]) * rng.exponential(size=size),
            "beta": float(rng.choice([0, 0.1, 3, 40])),
        }

    def slow(p: Problem) -> float:
        samples = zip(*(x.flat for x in (p.logp, p.old_logp, p.advantages, p.kl)), strict=True)
        terms = [np.exp(new) / np.exp(old) * a - p.beta * kl for new, old, a, kl in samples]
        return -sum(terms) / len(terms)

    yield agrees(
        answer,
        slow,
        random_problems(draw),
        what="your loss",
        by=("logp", "kl"),
        held=("old_logp", "advantages"),
    )


# ---------------------------------------------------------------------------------------------------
# The weight that adapts


@CHAPTER.check("adaptive-beta", section="sec-ppo-kl")
def adaptive_beta(answer: Answer) -> Findings:
    def ask(kl: float, beta: float = 1.0, target: float = 0.03, *ends: float) -> float:
        return float(as_array(answer(beta, kl, target, *ends), (), "the new β"))

    target = 0.03
    factors = np.array([0.03, 0.6, 0.65, 0.7, 1.0, 1.4, 1.6, 10.0, 100.0])
    got = np.array([[ask(factor * target, beta) for factor in factors] for beta in (1.0, 7.0)])
    low, high, beyond = got[0, 0], got[0, -2], got[0, -1]
    stays = close(got[:, 0], [1.0, 7.0]), close(got[:, -2], [1.0, 7.0])
    added = close(got[1, -2] - 7.0, high - 1.0) and high > 1
    bounds = np.array([ask(0.03, 5.0, 0.03, 1.0, 3.0), ask(0.03, 0.1, 0.03, 1.0, 3.0)])
    ends = np.array([ask(0.001, 1.5, 0.03, 1.0, 3.0), ask(0.3, 2.0, 0.03, 1.0, 3.0)])
    free = ask(0.001, beta=1e-4) < 0.9e-4 or ask(0.3, beta=1e4) > 1.1e4
    aims = np.array([[ask(kl, 7.0, aim) for kl in (0.001, 0.03, 0.3, 2.0)] for aim in (0.03, 3.0)])
    moves = got[0]
    yield from recognise(
        got,
        {
            "beta is multiplied by the KL over its target": np.array([[1.0], [7.0]]) * factors,
            "halved when it should be doubled": high < 1 < low,
            "the thresholds are a distance from the target, not a factor": all(stays) and beyond > 1,
            "beta never changes": all(stays),
            "lowest and highest are exchanged": close(got, np.full(got.shape, low))
            and (low <= 1e-4 or low >= 1e4),
            "the KL does not come in": close(got[0], np.full(9, low))
            and close(got[1], np.full(9, got[1, 0])),
            "the change is added, not multiplied": added,
            "it adapts in one direction only": any(stays),
            "the target does not come in": close(aims[0], aims[1]),
            "nothing in between leaves it as it is": bool((np.abs(np.delete(moves, 4) - 1) > 0.1).all()),
            "both thresholds are on the same side of the target": not close(moves[4], 1.0),
            "a threshold stands at the target itself": not close(moves[5], 1.0) or not close(moves[3], 1.0),
            "the factors and the thresholds are exchanged": close(high, 1.5) or close(low, 1 / 1.5),
            "the lower threshold is not target / 1.5": close([high, low], [2.0, 0.5])
            and not close(moves[1:3], [0.5, 0.5]),
            "the upper threshold is not 1.5 times the target": close([high, low, moves[6]], [2.0, 0.5, 1.0]),
            "nothing keeps it within its range": free and not close(bounds, [3.0, 1.0]),
            "the range comes before the move, not after it": free,
            "it is kept within its range only where it changes": close(ends, [1.0, 3.0])
            and not close(bounds, [3.0, 1.0]),
        },
        low=low,
        high=high,
        beyond=beyond,
        seven=got[1, -2],
        which="lowers" if stays[0] else "raises",
        near=moves[3:6],
        bounds=bounds,
        tiny=ask(0.001, beta=1e-4),
        huge=ask(0.3, beta=1e4),
        below=moves[1:3],
    )
    far = np.array([got[:, 0], got[:, -2]])
    yield Property(
        "too near it is halved, too far doubled",
        close(far, [[0.5, 3.5], [2.0, 14.0]]),
        f"β = 1 and β = 7 become {numbers(far[0])} at a KL of 0.0009, and {numbers(far[1])} at 0.3",
    )
    yield Property(
        "in between it stays",
        close(moves[3:6], [1.0] * 3),
        f"at 0.7, 1 and 1.4 times the target β = 1 becomes {numbers(moves[3:6])}",
    )
    yield Property(
        "it stays within lowest and highest",
        close([*ends, *bounds], [1.0, 3.0, 3.0, 1.0]),
        f"in [1, 3], half of 1.5 becomes {ends[0]:.3g}, twice 2 becomes {ends[1]:.3g}",
    )

    edges = [ask(kl, 1.0, 0.06) for kl in (0.06 / 1.5, 0.06 * 1.5)]
    yield Property(
        "exactly at a threshold it stays",
        close(edges, [1.0, 1.0]),
        f"with a target of 0.06 β = 1 becomes {edges[0]:.3g} at a KL of 0.04, and {edges[1]:.3g} at 0.09",
    )
    unasked = np.array([ask(0.001, 1e-4), ask(0.001, 4e-4), ask(0.3, 1e4), ask(0.3, 4e3)])
    yield Property(
        "lowest is 0.0001 and highest 10000 where they are left out",
        close(unasked / [1e-4, 2e-4, 1e4, 8e3], [1.0] * 4),
        f"half of 0.0001 and of 0.0004, twice 10000 and 4000 become {numbers(unasked)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        target = float(rng.choice([1e-3, 0.02, 1.0]))
        lowest, width = ((1e-4, 1e8), (0.5, 3.0), (2.0, 1.0))[rng.choice(3, p=[0.6, 0.2, 0.2])]
        near = rng.choice([1 / 1.5, 1.5]) * rng.uniform(0.97, 1.03)
        factor = rng.choice([0.0, rng.uniform(0, 3), rng.uniform(3, 99), near, near, near, near])
        return {
            "beta": float(np.exp(rng.uniform(-3, 3))),
            "kl": target * float(factor),
            "target": target,
            "lowest": lowest,
            "highest": lowest * width,
        }

    def slow(p: Problem) -> float:
        """Out of three moves the one that the rule names, then the nearest number of the range."""
        too_far, too_near = p.kl / p.target > 1.5, p.target > 1.5 * p.kl
        moved = p.beta * {(True, False): 2.0, (False, True): 0.5, (False, False): 1.0}[too_far, too_near]
        return float(sorted([p.lowest, moved, p.highest])[1])

    yield agrees(answer, slow, random_problems(draw, 80), what="the new β")
