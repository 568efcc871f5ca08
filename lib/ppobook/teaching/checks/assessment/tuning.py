"""The check of the third task: a search for a learning rate that keeps to an order."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Answer, Findings, Property, Stop, as_array, close, recognise
from ..probes import Problem, agrees, random_problems
from . import PRACTICE as CHAPTER

LADDER = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03)


class Landscape:
    """A search's view of the score and the largest KL of a learning rate. It records each question."""

    def __init__(self, rates: Any, scores: Any, kls: Any) -> None:
        self.rates = [float(x) for x in rates]
        self.found = list(zip(map(float, scores), map(float, kls), strict=True))
        self.asked: list[int] = []

    def __call__(self, rate: Any) -> tuple[float, float]:
        at = next((i for i, x in enumerate(self.rates) if close(x, as_array(rate, (), "a rate"), 1e-9)), None)
        if at is None:
            raise Stop("returned", "not one of the rates", "`measure` was called with none of `rates`.")
        self.asked.append(at)
        return self.found[at]


def _walk(land: Landscape, start: int) -> int | None:
    """Go the way that the task describes; which rate it ends with."""
    counted: dict[int, float] = {}

    def gains(at: int) -> bool:
        score, kl = land(land.rates[at])
        best = max(counted.values(), default=-np.inf)
        if kl <= 1:
            counted[at] = score
        return kl <= 1 and score > best

    up, down = start, start
    if gains(start):
        while up + 1 < len(land.rates) and gains(up + 1):
            up += 1
    while up == start and down > 0:
        down, some = down - 1, bool(counted)
        if not gains(down) and some:
            break
    return min(counted, key=lambda at: (-counted[at], at), default=None)


@CHAPTER.check("final-tune", section="sec-practice-tuning")
def final_tune(answer: Answer) -> Findings:
    def ask(scores: Any, kls: Any, start: int) -> tuple[list[int], int | None]:
        """Return the rates that were asked for and those that came back; None for none."""
        land = Landscape(LADDER[: len(scores)], scores, kls)
        back = answer(land.rates, start, land)
        if back is None:
            return land.asked, None
        chosen = as_array(back, (), "the learning rate")
        return land.asked, next((i for i, x in enumerate(land.rates) if close(x, chosen, 1e-9)), -1)

    calm = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]
    peaks = ask([10, 20, 40, 80, 70, 90], calm, 1)
    if peaks[1] is None:
        raise Stop("returned", "nothing came back", "return one number. Is there a `return`?")
    wild = ask([10, 20, 40, 95, 60, 50], [0.01, 0.02, 0.3, 3.0, 0.2, 0.2], 1)
    high = ask([10, 50, 80, 60, 40, 30], calm, 3)
    ill = ask([10, 30, 50, 40, 90, 95], [0.01, 0.02, 0.2, 0.3, 2.0, 4.0], 5)
    twice = [asked for asked, _ in (peaks, wild, high, ill) if len(set(asked)) < len(asked)]
    yield from recognise(
        0.0,
        {
            "all rates are measured": all(len(asked) == 6 for asked, _ in (peaks, wild, high, ill)),
            "a rate is measured twice": bool(twice),
            "it never goes up": 2 not in peaks[0],
            "it goes on after a step that gained nothing": 5 in peaks[0],
            "both directions are tried": 0 in peaks[0],
            "the last rate that was measured": peaks[1] == 4,
            "the largest KL is not looked at": wild[1] == 3 or 4 in wild[0],
            "the rate with the smallest KL": peaks[1] == 1 and high[1] != 2,
            "it never goes down": 2 not in high[0],
            "it stops going down too soon": 1 not in high[0],
            "it stops at a start that does not count": 3 not in ill[0],
        },
        asked=[LADDER[at] for at in peaks[0]],
        wild=[LADDER[at] for at in wild[0]],
        high=[LADDER[at] for at in high[0]],
        ill=[LADDER[at] for at in ill[0]],
    )
    nothing = ask([1, 2, 3], [2.0, 3.0, 4.0], 2)
    yield Property(
        "if every rate has a KL above 1, it returns None",
        nothing[1] is None,
        "with a KL above 1 at every rate, you return a rate",
    )

    def walked(rates: Any, start: int, scores: Any, kls: Any) -> np.ndarray:
        land = Landscape(rates, scores, kls)
        back = answer(land.rates, start, land)
        return _noted(land, 0.0 if back is None else float(as_array(back, (), "the learning rate")))

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        n = int(rng.integers(1, 7))
        return {
            "rates": np.sort(rng.choice([1e-5, *LADDER, 0.1], size=n, replace=False)),
            "start": int(rng.integers(n)),
            "scores": rng.integers(-2, 4, size=n) * rng.choice([1, 40]),
            "kls": rng.choice([0.02, 0.5, 1.0, 1.5, 8.0], size=n),
        }

    def slow(p: Problem) -> np.ndarray:
        land = Landscape(p.rates, p.scores, p.kls)
        at = _walk(land, p.start)
        return _noted(land, 0.0 if at is None else land.rates[at])

    what = "when each rate was measured (0: never), and the one that came back"
    yield agrees(walked, slow, random_problems(draw, 60), arrays=True, what=what)


def _noted(land: Landscape, chosen: float) -> np.ndarray:
    times = [land.asked.index(at) + 1 if at in land.asked else 0 for at in range(len(land.rates))]
    return np.array([*times, len(land.asked), chosen])
