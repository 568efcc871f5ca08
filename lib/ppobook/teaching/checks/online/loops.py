"""Checks of who writes, who judges and when: four loops as data, and a budget of labels over rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, either, numbers, recognise, words
from ..probes import Problem, random_problems
from . import CHAPTER

ROWS = ("texts", "age", "pairs_age", "pairs", "steps")


def _as_given(row: np.ndarray) -> str:
    """With the None that the reader wrote."""
    return "[" + ", ".join("None" if np.isnan(x) else numbers(x) for x in row) + "]"


def _filled(back: Any) -> dict[str, np.ndarray]:
    wanted = "a dict with the rows " + ", ".join(ROWS)
    if isinstance(back, list | tuple) and len(back) == len(ROWS):
        back = dict(zip(ROWS, back, strict=True))
    if not isinstance(back, Mapping) or not set(ROWS) <= set(back):
        raise Stop("returned", "not the five rows", f"wanted {wanted}; got {words(back)}.")
    for name in ROWS:
        row = back[name]
        if row is ... or (isinstance(row, list | tuple) and any(entry is ... for entry in row)):
            raise Stop("returned", "an entry is still empty", f"“{name}” still has an empty entry.")
    return {name: as_array(back[name], (4,), f"“{name}”", finite=name != "pairs_age") for name in ROWS}


@CHAPTER.check("four-loops", section="sec-online-loops")
def four_loops(answer: Answer) -> Findings:
    table = _filled(answer())
    texts, age, newest, pairs, steps = (table[name] for name in ROWS)
    yield from recognise(
        texts,
        {
            "a pair is counted as one text": texts[2] == 1,
            "a group is counted as one text": texts[3] == 1,
            "the texts of a whole batch are counted": texts.min() >= 16,
        },
    )
    yield from recognise(
        age,
        {
            "the sampler is taken for the current policy": age[3] == 0,
            "an update's number, not an age": age[3] == 29 or age[0] == 37,
            "the reward model's age is taken for the texts'": age[1] == 7 or age[2] == 37,
        },
    )
    yield from recognise(
        newest,
        {
            "a rule is given an age": bool(np.isfinite(newest[3])),
            "a round's number, not an age": newest[1] == 30,
            "a round that is still to come": newest[1] in (-8, 8),
            "the refreshed model is as old as the frozen one": newest[1] == 37,
            "online texts are taken for online labels": newest[0] == 0 or newest[2] == 0,
        },
        got=_as_given(newest),
    )
    yield from recognise(
        pairs,
        {
            "the old pairs are thrown away": either([3000, 500, 3000, 0], [3000, 1500, 3000, 0]),
            "the round before update 0 is forgotten": pairs[1] == 4000,
            "a round that is still to come is counted": pairs[1] == 5000,
            "pairs that the reward model compared are counted as labels": pairs[2] > 3000,
            "a rule has learned from pairs": pairs[3] != 0,
        },
    )
    yield from recognise(
        steps,
        {
            "online DPO uses its pairs again": steps[2] > 1,
            "a batch is thrown away after one step": steps[0] == 1 or steps[3] == 1,
            "a lag is taken for reuse": steps[3] in (8, 9, 16, 18),
        },
    )
    right: tuple[list[float], ...] = (
        [1, 1, 2, 4],
        [0, 0, 0, 8],
        [37, 7, 37, np.nan],
        [3000, 4500, 3000, 0],
        [4, 4, 1, 2],
    )
    for name, meant in zip(ROWS, right, strict=True):
        holds = np.allclose(table[name], meant, equal_nan=True)
        yield Property(f"“{name}”", bool(holds), f"you have {_as_given(table[name])}")


# ---------------------------------------------------------------------------------------------------
# A budget of labels


class _Run:
    """People who label, and a reward model that learns: both keep a diary."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.measured: list[tuple[int, ...]] = []
        self.trained: list[tuple[int, ...]] = []
        self.order = ""
        self.count = 0

    def ask(self, update: int, n: int) -> list[int]:
        """n new pairs, each with a number of its own."""
        new = list(range(self.count, self.count + int(n)))
        self.count += int(n)
        self.asked.append((int(update), int(n)))
        self.order += "a"
        return new

    def accuracy(self, pairs: Any) -> float:
        self.measured.append(tuple(sorted(int(x) for x in pairs)))
        self.order += "m"
        return 0.5 + 0.01 * len(self.measured)

    def train(self, pairs: Any) -> None:
        self.trained.append(tuple(sorted(int(x) for x in pairs)))
        self.order += "t"


def _run(answer: Callable[..., Any], budget: int, updates: int, every: int) -> tuple[_Run, np.ndarray]:
    run = _Run()
    back = answer(budget, updates, every, run.ask, run.accuracy, run.train)
    rounds = len(range(0, updates, every))
    if back is None or isinstance(back, str | dict):
        raise Stop(
            "returned", "no accuracies", f"return a list with one accuracy per round; got {words(back)}."
        )
    if isinstance(back, list | tuple) and len(run.measured) and len(back) != rounds:
        if len(back) == len(run.asked) < rounds:
            when = [update for update, _ in run.asked]
            raise Mistake("a round is left out", updates=updates, every=every, when=when)
        raise Mistake(
            "a round at the last update" if len(back) == rounds + 1 else "not one accuracy per round",
            came=len(back),
            rounds=rounds,
        )
    return run, as_array(back, (rounds,), "the accuracies")


def _meant(p: Problem) -> tuple[list[tuple[int, int]], list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Label by label: the next one goes to the first of the rounds that have fewest."""
    starts = [n for n in range(p.updates) if n % p.every == 0]
    share = [0] * len(starts)
    for _ in range(p.budget):
        share[share.index(min(share))] += 1
    ends = [sum(share[: i + 1]) for i in range(len(share))]
    new = [tuple(range(end - n, end)) for end, n in zip(ends, share, strict=True)]
    return list(zip(starts, share, strict=True)), new, [tuple(range(end)) for end in ends]


@CHAPTER.check("label-rounds", section="sec-online-refresh")
def label_rounds(answer: Answer) -> Findings:
    # Eleven labels, rounds before the updates 0, 4 and 8 of ten: 4, 4 and 3.
    run, accuracies = _run(answer, 11, 10, 4)
    _, new, kept = _meant(Problem(budget=11, updates=10, every=4))
    when, share = [u for u, _ in run.asked], [n for _, n in run.asked]
    yield from recognise(
        0,
        {
            "the whole budget is spent in each round": len(share) > 1 and share[0] == 11,
            "all labels are asked for at once": len(share) == 1 or set(when) == {0},
            "no round before update 0": bool(when) and min(when) > 0,
            "rounds are counted, not updates": when == [0, 1, 2],
            "the rest of the division is lost": sum(share) < 11 and len(share) == 3,
            "the last round gets the rest": share == [3, 3, 5],
            "the first round gets the whole rest": share == [5, 3, 3],
            "the late rounds get more": share == [3, 4, 4],
        },
        when=when,
        share=share,
        total=sum(share),
    )
    trained = [len(x) for x in run.trained]
    yield from recognise(
        0,
        {
            "the reward model is never trained": not run.trained,
            "old pairs are thrown away": run.trained == new,
            "the first pairs stay out of the later trainings": len(run.trained) == 3
            and run.trained[2] == tuple(range(4, 11)),
            "pairs are in a training twice": any(len(set(x)) < len(x) for x in run.trained),
            "trained only when all labels are in": len(run.trained) == 1,
            "each training is one round behind": run.trained in (kept[:2], [(), *kept[:2]]),
        },
        trained=trained,
    )
    yield from recognise(
        0,
        {
            "the accuracy is taken after the training": run.order == "atm" * 3,
            "the accuracy is taken on old pairs too": run.measured == kept,
            "the accuracy is taken on the old pairs only": run.measured in (kept[:2], [(), *kept[:2]]),
        },
        first=[len(x) for x in run.measured],
    )
    yield Property(
        "each round asks, then measures, then trains",
        run.order == "amt" * 3,
        f"the order was {run.order} (a asks, m measures, t trains)",
    )
    yield Property(
        "the returned accuracies are those of the rounds",
        close(accuracies, [0.51, 0.52, 0.53]),
        f"the accuracies were 0.51, 0.52 and 0.53; you return {numbers(accuracies)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        updates, every = int(rng.integers(1, 40)), int(rng.integers(1, 12))
        rounds = len(range(0, updates, every))
        return {"budget": rounds + int(rng.integers(0, 60)), "updates": updates, "every": every}

    said = "budget, rounds and trainings are right in 40 random loops"
    for p in sorted(random_problems(draw, 40), key=lambda p: p.budget):
        run, accuracies = _run(answer, p.budget, p.updates, p.every)
        meant = _meant(p)
        pairs = ((run.measured, meant[1]), (run.trained, meant[2]))
        if run.asked != meant[0]:
            what = f"with a budget of {p.budget}, {p.updates} updates and a round every {p.every}"
            yield Property(said, False, f"{what}: (update, labels) were {run.asked}")
            return
        for name, (got, want) in zip(("measured", "trained"), pairs, strict=True):
            if got != want:
                shown = [len(x) for x in got]
                what = f"with a budget of {p.budget}, {p.updates} updates and a round every {p.every}"
                yield Property(said, False, f"{what}: {name} {shown}")
                return
        if not close(accuracies, [0.5 + 0.01 * (i + 1) for i in range(len(meant[0]))]):
            yield Property(said, False, f"with {p}\n the accuracies are {numbers(accuracies)}")
            return
    yield Property(said, True)
