"""Checks of a broken lower bound, and of what a clip range means for a KL."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from .. import Answer, Findings, Property, Stop, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, random_problems
from . import CHAPTER


@CHAPTER.check("lower-bound", section="sec-lower-bound")
def lower_bound(answer: Answer) -> Findings:
    old = np.array([[0.1, 0.9], [0.5, 0.5], [0.5, 0.5]])
    new = as_array(answer(), (3, 2), "the policy")
    if (new < -1e-9).any() or not close(new.sum(1), np.ones(3), 1e-6):
        words = f"each row is a distribution: no entry below 0, and a sum of 1. Yours are {numbers(new)}."
        raise Stop("returned", "not a policy", words)
    # Over both rooms. In the hall all advantages are 0. In a room the first button has 1/2 and counts at most
    # 1.2 times, the second has −1/2 and counts at least 0.8 times.
    rooms = range(2)
    gained = sum(new[0, side] * new[1 + side, 0] - old[0, side] * old[1 + side, 0] for side in rooms)
    promised = sum(
        old[0, side] * 0.25 * (min(new[1 + side, 0] / 0.5, 1.2) - max(new[1 + side, 1] / 0.5, 0.8))
        for side in rooms
    )
    said = {"promised": f"{promised:+.3f}", "gained": f"{gained:+.3f}"}
    yield from recognise(
        new,
        {
            "the old policy, unchanged": old,
            "the promise is kept": gained > -0.005 and promised > 0.005,
            "nothing was promised": promised < 0.005 and gained < -0.005,
        },
        tolerance=1e-6,
        **said,
    )
    words = "the clipped surrogate promises {promised}, and the truth is {gained}".format(**said)
    yield Property("the clipped surrogate promises 0.02 or more", promised >= 0.02 - 1e-9, words)
    yield Property("in truth the return falls by 0.02 or more", gained <= -0.02 + 1e-9, words)


@CHAPTER.check("eps-kl", section="sec-eps-kl")
def eps_kl(answer: Answer) -> Findings:
    def ask(low: float, high: float) -> np.ndarray:
        back = answer(low, high)
        if not isinstance(back, tuple | list | np.ndarray | Tensor) or np.ndim(back) > 1 or len(back) != 3:
            raise Stop("returned", "not three numbers", "it must be three numbers, in the order of the text.")
        return np.array([float(as_array(bound, (), "a bound")) for bound in back])

    def search(p: Problem) -> np.ndarray:
        """Over policies of two actions with ratios on a grid in the clip range, and over single ratios."""
        r, q = np.meshgrid(np.linspace(1 - p.eps, 1, 41)[:-1], np.linspace(1, 1 + p.eps_high, 41)[1:])
        old = (q - 1) / (q - r)  # the old probability of the action with ratio r: the mean ratio is 1
        forward = -old * np.log(r) - (1 - old) * np.log(q)
        backward = old * r * np.log(r) + (1 - old) * q * np.log(q)
        single = [np.max(x - 1 - np.log(x)) for x in (r, q)]
        return np.array([forward.max(), backward.max(), max(single)])

    got, uneven = ask(0.2, 0.2), ask(0.2, 0.5)
    found, wide = search(Problem(eps=0.2, eps_high=0.2)), search(Problem(eps=0.2, eps_high=0.5))
    even_ends, ends = np.array([0.8, 1.2]), np.array([0.8, 1.5])
    lever = np.array([0.2, 0.5]) / 0.7  # a mean ratio of 0.8 · 2/7 + 1.5 · 5/7 = 1.3, which no policy has
    middle = np.array([0.5, 0.5])

    def one_of_two(values: Any, first: Any, second: Any, tolerance: float) -> bool:
        return any(close(v, x, tolerance) for v, x in zip(values, (first, second), strict=False))

    yield from recognise(
        got,
        {
            "in bits, not in nats": found / np.log(2),
            "every ratio at the same end of the clip range": any(
                one_of_two(got, abs(np.log(end)), end * np.log(end), 1e-3) for end in even_ends
            ),
            "the approximation, not the bound": one_of_two(got, 0.02, 0.02, 1e-6),
            "the two directions are exchanged": close(got[:2], found[[1, 0]], 2e-5),
            "the wrong end of the clip range for a sample": close(got[2], 0.2 - np.log(1.2)),
            "the sample's KL in the other direction": either(
                [*found[:2], 0.8 * np.log(0.8) + 0.2], [*found[:2], 1.2 * np.log(1.2) - 0.2]
            ),
            "the upper end does not come in": close(uneven, got) or close(uneven[:2], got[:2]),
            "both ends weighed alike": one_of_two(
                uneven, middle @ -np.log(ends), middle @ (ends * np.log(ends)), 1e-4
            ),
            "the weights of the two ends are exchanged": one_of_two(
                uneven, lever @ -np.log(ends), lever @ (ends * np.log(ends)), 1e-4
            ),
            "the larger end of the clip range is not always the lower one": close(uneven[2], found[2]),
        },
        tolerance=1e-4,
        found=found,
        uneven=uneven,
        wide=wide,
    )
    said = f"at 0.2 and 0.2 you get {numbers(got, 4)}"
    yield Property(
        "no policy of two actions in the clip range goes beyond", bool((got >= found - 1e-6).all()), said
    )
    yield Property("one policy in the clip range reaches each", close(got, found), said)
    small = ask(0.02, 0.02) / 0.02**2  # no smaller: float32 has too few digits for a KL of a millionth
    yield Property(
        "for small ε all three are near ε²/2",
        close(small, [0.5] * 3, 1e-2),
        f"at 0.02 they are {numbers(small)} ε²",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return {"eps": float(rng.uniform(0.05, 0.8)), "eps_high": float(rng.uniform(0.05, 3))}

    problems = random_problems(draw)
    yield agrees(ask, search, problems, what="(KL(old, new), KL(new, old), a sample's part)")
