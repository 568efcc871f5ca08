"""Checks of what happens to a batch: schedule, gradient limit, minibatches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, either, numbers, recognise, words
from ..findings import DRAWN_FROM
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, parts


@CHAPTER.check("schedule", section="sec-ppo-defaults")
def schedule(answer: Answer) -> Findings:
    def ask(*given: Any) -> float:
        return float(as_array(answer(*given), (), "the setting"))

    steps = (0, 250, 500, 1000, 1500)
    share = np.array(steps) / 1000
    got = np.array([ask(0.3, 0.1, done, 1000) for done in steps])
    rising = np.array([ask(0.0, 2.0, done, 1000) for done in steps])
    line = 0.3 - 0.2 * share
    half, last = ask(0.3, 0.1, 1, 2), ask(0.3, 0.1, 2, 2)
    to_zero = np.array([ask(0.3, 0.0, done, 1000) for done in steps])
    yield from recognise(
        got[:4],
        {
            "the way is a step too short, or too long": close(got, np.maximum(line, 0.1), 2e-3)
            and any(close(half, x) for x in (0.1, 0.3, 0.3 - 0.2 / 3)),
            "the last step is never reached": close(got, np.maximum(line, 0.1), 2e-3)
            and close([half, last], [0.2, 0.2]),
            "the two ends are exchanged": (0.1 + 0.2 * share)[:4],
            "it falls to zero, whatever the last one is": (0.3 * (1 - share))[:4],
            "it falls towards zero, and stops at the last one": np.maximum(0.3 * (1 - share), 0.1)[:4],
            "one of the two ways is at its end from the first step": close(got[:4], [0.1] * 4)
            or (close(got[:4], line[:4]) and close(rising[:4], [2.0] * 4)),
            "it never changes": 0.3,
            "a jump, not a line": either([0.3, 0.3, 0.3, 0.1], [0.3, 0.3, 0.1, 0.1], [0.3, 0.1, 0.1, 0.1]),
            "the same factor in each step, not the same difference": 0.3 * 3 ** -share[:4],
            "twice the way": either(
                [0.3, 0.2, 0.1, -0.1],
                [0.3, 0.2, 0.1, 0.1],
            ),
        },
        half=got[2],
        middle=half,
        last=last,
        rising=rising[:4],
    )
    yield from recognise(to_zero, {"a last value of zero is taken for none": 0.3})
    yield from recognise(
        np.array([got[4], rising[4]]),
        {
            "it goes on past the end": [line[4], 3.0],
            "it stops falling, and does not stop rising": [0.1, 3.0],
            "it stops rising, and does not stop falling": [line[4], 2.0],
        },
        past=got[4],
        over=rising[4],
    )
    constant = [ask(3e-4, None, done, 1000) for done in steps]
    yield Property(
        "without a last value it stays where it is",
        close(np.array(constant) / 3e-4, np.ones(5)),
        f"from 3e-4 to None it is {numbers(constant)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        total = int(rng.choice([1, 7, 1000, 10**6]))
        ends = rng.choice([1e-4, 0.1, 1, 30]) * rng.uniform(0, 1, 2) * rng.choice([0, 1, 1, 1], 2)
        done = int(rng.integers(0, 2 * total + 1))
        return {"start": float(ends[0]), "final": float(ends[1]), "done": done, "total": total}

    def slow(p: Problem) -> float:
        """Step by step, where there are few; from a table of the two ends where there are many."""
        return float(np.interp(p.done, [0, p.total], [p.start, p.final]))

    def scaled(start: float, final: float, done: int, total: int) -> float:
        """In units of the larger end, so that small settings are compared as exactly as large ones."""
        return ask(start, final, done, total) / (max(start, final) or 1)

    yield agrees(
        scaled,
        lambda p: slow(p) / (max(p.start, p.final) or 1),
        random_problems(draw, 60),
        what="the setting, as a share of the larger end",
    )


# ---------------------------------------------------------------------------------------------------
# The gradient's norm


class _Held:
    """The reader's function, given a list of gradients that it must leave as they were."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def __call__(self, arrays: list[np.ndarray], max_norm: float | None) -> tuple[list[np.ndarray], float]:
        given = [torch.tensor(array, dtype=torch.float32) for array in arrays]
        kept = [tensor.clone() for tensor in given]
        back, norm = parts(self._answer(given, max_norm), ("the gradients", "the norm"))
        if not isinstance(back, list | tuple) or len(back) != len(arrays):
            wanted = f"a list of {len(arrays)} tensors, as many as came in"
            raise Stop("returned", "no list of gradients", f"wanted {wanted}, got {words(back)}.")
        if any(not torch.equal(old, new) for old, new in zip(kept, given, strict=True)):
            raise Mistake("an argument is overwritten", position=1)
        found = [
            as_array(x, a.shape, f"gradient {i}", finite=False)
            for i, (x, a) in enumerate(zip(back, arrays, strict=True), start=1)
        ]
        return found, float(as_array(norm, (), "the norm", finite=False))


@CHAPTER.check("global-norm", section="sec-ppo-loop")
def global_norm(answer: Answer) -> Findings:
    ask = _Held(answer)
    arrays = [np.array([[2.0], [3.0], [6.0]]), np.array([8.0, 16.0, 16.0])]  # norms 7 and 24, together 25
    back, norm = ask(arrays, 5.0)
    got = np.concatenate([x.ravel() for x in back])
    was = np.concatenate([x.ravel() for x in arrays])
    small, its = ask(arrays, 50.0)
    same = np.concatenate([x.ravel() for x in small])
    yield from recognise(
        got,
        {
            "each tensor has a norm of its own": was * 5 / np.repeat([7, 24], 3),
            "each entry is clamped": was.clip(max=5),
            "the norm's square is taken for the norm": was * 5 / 625,
            "a sum of norms, not the norm of all": either(was * 5 / 31, was * 5 / 51),
            "the largest entry is taken for the norm": was * 5 / 16,
            "nothing is clipped": was,
            "the direction of the step is turned": -was / 5,
        },
        norm=norm,
    )
    yield from recognise(
        same,
        {
            "a short gradient is made longer": was * 2,
            "a short gradient is changed": not close(same, was),
        },
        its=its,
    )
    yield from recognise(
        norm,
        {
            "the norm after the clipping, not before": 5.0,
            "the norm's square is taken for the norm": 625.0,
            "a sum of norms, not the norm of all": either(31.0, 51.0),
            "the factor, not the norm": 0.2,
        },
        norm=norm,
    )
    zero, none = ask([np.zeros(2), np.zeros((1, 1))], 0.5)
    silent = np.concatenate([x.ravel() for x in zero])
    yield from recognise(
        silent, {"nan where there is no gradient": bool(~np.isfinite([*silent, none]).all())}
    )
    still = np.concatenate([x.ravel() for x in ask(arrays, 0.0)[0]])
    yield from recognise(still, {"a limit of zero is taken for none": was})
    given = [torch.tensor(array) for array in arrays]
    returned = [parts(answer(given, limit), ("the gradients", "the norm"))[0] for limit in (50.0, None)]
    yield Property(
        "a new list comes back, also where nothing is shortened",
        all(back is not given for back in returned),
        "the list that came back is the very one that you got",
    )
    free, whole = ask(arrays, None)
    yield Property(
        "without a limit nothing is changed, and the norm is reported",
        close(np.concatenate([x.ravel() for x in free]), was) and close(whole, 25.0),
        f"with None 2, 3, 6, 8, 16, 16 become {numbers(np.concatenate([x.ravel() for x in free]))}",
    )

    def run(*given: Any) -> np.ndarray:
        flat, limit, cuts = given
        pieces = np.split(flat.numpy(), cuts.numpy())
        shaped = [p.reshape({1: (), 2: (2, 1)}.get(len(p), (-1,))) for p in pieces]
        back, norm = ask(shaped, limit)
        return np.concatenate([*(x.ravel() for x in back), [norm]])

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size = int(rng.integers(2, 9))
        scale = rng.choice([0.01, 1, 100])
        limit = None if rng.random() < 0.1 else float(scale * rng.uniform(0.2, 5))
        cuts = np.sort(rng.choice(np.arange(1, size), rng.integers(0, size - 1), replace=False))
        return {"gradients": scale * rng.normal(size=size), "max_norm": limit, "cuts": cuts.astype(int)}

    def slow(p: Problem) -> list[float]:
        long = 0.0
        for g in p.gradients:
            long = np.hypot(long, g)
        shrink = 1.0 if p.max_norm is None else sorted([1.0, p.max_norm / long])[0]
        return [*(g * shrink for g in p.gradients), long]

    problems = random_problems(draw)
    numbered = [p for p in problems if p.max_norm is not None]
    yield agrees(run, slow, numbered, what="your gradients, in one row, and the norm")


# ---------------------------------------------------------------------------------------------------
# Minibatches


class _Pieces:
    """The result of the reader's function: indices and normalized advantages of each minibatch."""

    def __init__(self, answer: Answer, advantages: Any, count: int, seed: int | Generator = 0) -> None:
        self.advantages = np.asarray(advantages, dtype=np.float64)
        rng = Generator().manual_seed(seed) if isinstance(seed, int) else seed
        back = answer(torch.tensor(self.advantages, dtype=torch.float32), count, rng)
        if back is None:
            raise Stop("returned", "nothing came back", "wanted a list of pairs. Is there a `return`?")
        if isinstance(back, dict | str | float | Tensor | np.ndarray) or not hasattr(back, "__iter__"):
            raise Stop("returned", "no list", f"wanted a list of {count} pairs, got {words(back)}.")
        pairs = list(back)
        self.chosen: list[np.ndarray] = []
        self.normal: list[np.ndarray] = []
        for pair in pairs:
            indices, values = parts(pair, ("the indices", "the normalised advantages"))
            row = np.asarray(indices.tolist() if isinstance(indices, Tensor) else indices)
            if row.ndim != 1:
                raise Stop("returned", "no row of indices", f"wanted a row of indices, got {words(indices)}.")
            if row.dtype.kind not in "iu" and len(row):
                raise Stop("returned", "no indices", f"the indices must be integers, got {numbers(row)}.")
            self.chosen.append(row.astype(int))
            what = "the advantages of a minibatch"
            self.normal.append(as_array(values, row.shape, what, finite=False))
        self.order = np.concatenate([*self.chosen, np.zeros(0, dtype=int)])

    def slow(self, ddof: int = 0) -> list[np.ndarray]:
        """Each minibatch normalised, from its members' advantages."""
        found = []
        for chosen in self.chosen:
            values = [self.advantages[i] for i in chosen]
            mean = sum(values) / len(values)
            variance = sum((x - mean) ** 2 for x in values) / max(len(values) - ddof, 1)
            found.append(np.array([(x - mean) / variance**0.5 if variance > 1e-20 else 0.0 for x in values]))
        return found

    def are(self, others: list[np.ndarray]) -> bool:
        return len(others) == len(self.normal) and all(map(close, self.normal, others, [2e-3] * len(others)))


@CHAPTER.check("minibatches", section="sec-ppo-loop")
def minibatches(answer: Answer) -> Findings:
    worth = np.array([5.0, -1.0, 2.0, 8.0, 0.0, -3.0, 1.0, 7.0, -6.0, 10.0, 3.0, 11.0])
    made = _Pieces(answer, worth, 3)
    odd = _Pieces(answer, worth[:11], 3)
    again, other = _Pieces(answer, worth, 3), _Pieces(answer, worth, 3, seed=1)
    generator = Generator().manual_seed(0)
    earlier, later = (_Pieces(answer, worth, 3, generator) for _ in range(2))
    sizes, uneven = [len(x) for x in made.chosen], [len(x) for x in odd.chosen]
    each = sorted(made.order.tolist())
    yield from recognise(
        made.order,
        {
            "steps are drawn with replacement": len(made.order) == 12 and len(set(each)) < 12,
            "count is taken for the size of a minibatch": sizes == [3, 3, 3, 3],
            "not as many minibatches as were asked for": len(sizes) != 3,
            "steps are left out": len(set(made.order.tolist()) | set(odd.order.tolist())) < 12
            or len(odd.order) < 11,
            "steps are used twice": len(odd.order) > 11 or len(made.order) > 12,
            "one minibatch is much larger": max(uneven) - min(uneven) > 1,
            "the batch is not shuffled": list(range(12)),
            "the batch is not shuffled, only dealt out": all(
                (np.diff(x) == np.diff(x)[0]).all() for x in made.chosen
            ),
            "every epoch has the same order": close(made.order, other.order)
            or close(earlier.order, later.order),
            "the generator is not used": not close(made.order, again.order),
        },
        sizes=sizes,
        uneven=uneven,
        order=made.order,
    )
    batch = (worth - worth.mean()) / worth.std()
    yield from recognise(
        np.concatenate(made.normal),
        {
            "normalised over the batch, not over the minibatch": either(
                batch[made.order], (worth - worth.mean())[made.order] / worth.std(ddof=1)
            ),
            "nothing is normalised": worth[made.order],
            "divided by n − 1, not by n": made.are(made.slow(1)),
            "divided by the variance, not by its root": made.are(
                [x / worth[i].std() for x, i in zip(made.slow(), made.chosen, strict=True)]
            ),
            "only the mean is taken off": made.are([worth[i] - worth[i].mean() for i in made.chosen]),
            "only divided, the mean left in": made.are([worth[i] / worth[i].std() for i in made.chosen]),
            "the sign is turned round": made.are([-x for x in made.slow()]),
            "not the advantages of these indices": bool(
                max(abs(x.mean()) for x in made.normal) < 1e-3
                and max(abs(x.std() - 1) for x in made.normal) < 1e-3
                and not made.are(made.slow())
            ),
        },
        chosen=made.chosen[0],
        got0=made.normal[0],
        mean=made.normal[0].mean(),
        std=made.normal[0].std(),
    )
    single = _Pieces(answer, [3.0, -1.0], 2)
    equal = _Pieces(answer, [2.0] * 4, 2)
    alone = np.concatenate(single.normal)
    yield from recognise(alone, {"nan where a minibatch has one step": bool(~np.isfinite(alone).all())})
    flat = np.concatenate(equal.normal)
    yield from recognise(flat, {"nan where all advantages are equal": bool(~np.isfinite(flat).all())})
    yield Property(
        "a minibatch of one step, or of equal ones, has nothing to learn",
        close(alone, [0.0, 0.0]) and close(flat, [0.0] * 4),
        f"one step each: {numbers(alone)}; two equal ones each: {numbers(flat)}",
    )
    firsts = {tuple(sorted(_Pieces(answer, worth, 3, seed=s).chosen[0])) for s in range(12)}
    yield Property(
        "any steps may meet in a minibatch",
        len(firsts) > 6,
        f"twelve shuffles gave {len(firsts)} different first minibatches",
    )
    rng = np.random.default_rng(DRAWN_FROM.get())
    wrong = ""
    for trial in range(20):
        size = int(rng.integers(1, 30))
        count = int(rng.integers(1, min(size, 6) + 1))
        scale = rng.choice([0.1, 1, 1000])
        found = _Pieces(
            answer, (scale * rng.normal(rng.choice([-1, 0, 3]), size=size)).round(6), count, trial
        )
        lengths = [len(x) for x in found.chosen]
        if sorted(found.order.tolist()) != list(range(size)) or len(lengths) != count:
            wrong = wrong or f"{size} steps in {count} parts: the indices are {numbers(found.order)}"
        elif max(lengths) - min(lengths) > 1:
            wrong = wrong or f"{size} steps in {count} parts: their sizes are {numbers(lengths)}"
        elif not found.are(found.slow()):
            where = next(
                i
                for i, (x, y) in enumerate(zip(found.normal, found.slow(), strict=True))
                if not close(x, y, 2e-3)
            )
            raw = found.advantages[found.chosen[where]]
            wrong = wrong or f"the advantages {numbers(raw)} became {numbers(found.normal[where])}"
    yield Property("each of 20 random batches is covered once, and normalised by parts", not wrong, wrong)
