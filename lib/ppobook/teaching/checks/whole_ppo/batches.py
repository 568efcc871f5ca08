"""Checks of what happens to a batch: schedule, gradient limit, minibatches, and a whole update."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, either, numbers, recognise, words
from ..descent import GradientDescent, Moving
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
    half, to_zero = ask(0.3, 0.1, 1, 2), np.array([ask(0.3, 0.0, done, 1000) for done in steps])
    yield from recognise(
        got[:4],
        {
            "the way is a step too short, or too long": close(got, np.maximum(line, 0.1), 2e-3)
            and any(close(half, x) for x in (0.1, 0.3 - 0.2 / 3)),
            "the two ends are exchanged": (0.1 + 0.2 * share)[:4],
            "it falls to zero, whatever the last one is": (0.3 * (1 - share))[:4],
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
    """What a call of the reader's function gives: indices and normalised advantages of each minibatch."""

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
    rng = np.random.default_rng(0)
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


# ---------------------------------------------------------------------------------------------------
# A whole update: two mistakes that hide each other


def probabilities(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


class _Watched(GradientDescent):
    """Gradient descent that writes down which entries of the logits each step has a gradient by."""

    def __init__(self, parameter: Tensor, rate: float) -> None:
        super().__init__(parameter, rate)
        self.touched: list[np.ndarray] = []

    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        gradient = self.param_groups[0]["params"][0].grad
        self.touched.append(np.zeros(0) if gradient is None else (gradient != 0).numpy())
        return loss


_Watched.__name__ = GradientDescent.__name__


class _Run:
    """One call of the reader's update on a batch of `learners` by `pulls`."""

    def __init__(self, answer: Answer, p: Problem, **settings: Any) -> None:
        logits = torch.tensor(p.logits, dtype=torch.float32).requires_grad_()
        self.before = logits.detach().double().numpy().copy()
        self.optimizer = _Watched(logits, p.rate)
        batch = torch.tensor(p.states), torch.tensor(p.actions), torch.tensor(p.worth, dtype=torch.float32)
        back = Answer(answer._name, Moving(answer._function, logits))(self.optimizer, *batch, **settings)
        if isinstance(back, np.ndarray):
            raise Stop(
                "returned", "an array", "it must be a tensor: the cell below goes on with it in torch."
            )
        if isinstance(back, Tensor) and back.requires_grad:
            raise Mistake("what comes back is still on the graph")
        self.reported = as_array(back, p.states.shape, "the log ratios")
        self.after = logits.detach().double().numpy()
        rows = np.arange(len(self.before))[:, None]
        taken = rows, p.states, p.actions
        self.log_ratios = np.log(probabilities(self.after)[taken] / probabilities(self.before)[taken])


def _problem(
    rng: np.random.Generator, pulls: int, rate: float, epochs: int = 5, eps: float = 0.2, learners: int = 2
) -> Problem:
    """A batch; none of its ratios comes so near to an end of the box that rounding would decide."""
    while True:
        states, arms = int(rng.integers(1, 4)), int(rng.integers(2, 5))
        problem = Problem(
            logits=rng.normal(size=(learners, states, arms)),
            states=rng.integers(states, size=(learners, pulls)),
            actions=rng.integers(arms, size=(learners, pulls)),
            worth=rng.normal(rng.choice([-1, 0, 1]), size=(learners, pulls)),
            rate=rate,
        )
        passed: list[float] = []
        _climb(problem, epochs, eps, passed=passed)
        if min(passed) > 1e-3:
            return problem


def _climb(
    p: Problem, epochs: int, eps: float, anchor: str = "first", passed: list[float] | None = None
) -> np.ndarray:
    """The log ratios after full-batch steps, by differences of the mean of the smaller products.

    anchor : "first" compares with the policy before the update, "epoch" with the one before each step
    passed : gets, for each step, how near a ratio came to an end of the box
    """

    def taken(table: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(probabilities(table))[np.arange(len(table))[:, None], p.states, p.actions])

    logits, change = p.logits.copy(), 1e-5
    for _ in range(epochs):
        old = taken(p.logits if anchor == "first" else logits)
        if passed is not None:
            passed.append(float(np.abs(np.abs(np.exp(taken(logits) - old) - 1) - eps).min()))

        def objective(table: np.ndarray, old: np.ndarray = old) -> float:
            r = np.exp(taken(table) - old)
            return float(np.sort([r * p.worth, np.clip(r, 1 - eps, 1 + eps) * p.worth], axis=0)[0].mean())

        slope = np.zeros(logits.shape)
        for where in np.ndindex(logits.shape):
            bump = np.zeros(logits.shape)
            bump[where] = change
            slope[where] = (objective(logits + bump) - objective(logits - bump)) / (2 * change)
        logits = logits + p.rate * slope
    return taken(logits) - taken(p.logits)


@CHAPTER.check("hunt-epochs", section="sec-ppo-loop")
def hunt_epochs(answer: Answer) -> Findings:
    rng = np.random.default_rng(0)
    short = _problem(rng, 12, 1e-3)
    count = _Run(answer, short, epochs=3, minibatches=4)
    unasked, finer = _Run(answer, short), _Run(answer, short, epochs=2, minibatches=6)
    taken, default = len(count.optimizer.felt), len(unasked.optimizer.felt)
    moved = np.abs(count.after - count.before).max()
    # Nine pulls of as many states: which of them a step is made of shows in its gradient.
    nine = np.arange(9)[None]
    apart = Problem(
        logits=np.zeros((1, 9, 2)), states=nine, actions=nine % 2, worth=(nine + 1) ** 2 / 10, rate=1e-3
    )
    uneven = _Run(answer, apart, epochs=3, minibatches=4)
    # How far what is reported is from what happened, as a share of it.
    off = np.linalg.norm(count.reported - count.log_ratios) / (np.linalg.norm(count.log_ratios) + 1e-12)
    yield from recognise(
        count.log_ratios,
        {
            "the steps are taken by another optimizer": taken == 0 and moved > 1e-9,
            "the optimizer takes no step": taken == 0 or moved < 1e-9,
            "one minibatch for each epoch": taken == 3,
            "one epoch, whatever epochs says": taken == 4,
            "not epochs times minibatches steps": taken != 12
            or len(finer.optimizer.felt) != 12
            or len(uneven.optimizer.felt) != 12,
            "the log ratios of before the last step": 2e-3 < off < 0.5,
            "what it reports is not what happened": off > 2e-3,
        },
        taken=taken,
        finer=len(finer.optimizer.felt),
        uneven=len(uneven.optimizer.felt),
    )
    # In one epoch every pull is used once, so short steps add up to the full gradient.
    full = _climb(short, 1, 0.2)
    once = _Run(answer, short, epochs=1, minibatches=4)
    by_parts = once.log_ratios / 4
    twice = _Run(answer, short, epochs=2, minibatches=1).log_ratios
    yield from recognise(
        by_parts * 1e3,
        {
            "it goes downhill": close(by_parts * 1e3, -full * 1e3, 0.05),
            "the gradients are not zeroed between the steps": close(twice * 1e3, full * 3e3, 0.05),
        },
    )
    touched = np.array([step[0].any(-1) for step in uneven.optimizer.touched]).reshape(3, 4, 9)
    used, order = touched.sum(1), touched.argmax(1)  # how often each pull, and the first minibatch it is in
    yield from recognise(
        used,
        {
            "the gradients are not zeroed between the steps": bool((touched[:, 1:] >= touched[:, :-1]).all()),
            "some pulls are in no minibatch": bool((used == 0).any()),
            "some pulls are in more than one minibatch": bool((used > 1).any()),
            "nothing is shuffled": bool((np.diff(order) >= 0).all()),
            "one shuffle for all epochs": bool((order == order[0]).all()),
        },
        used=used[(used != 1).any(1).argmax()],
        order=order,
    )
    # Longer steps on the whole batch: the order is of no account, and the anchor and its order are.
    rows = []
    for seed in range(4):
        p = _problem(np.random.default_rng(seed), 9, 3.0)
        rows.append((p, _Run(answer, p, epochs=5, minibatches=1)))
    seen = [r.log_ratios for _, r in rows]
    anchored = [_climb(p, 5, 0.2) for p, _ in rows]
    each = [_climb(p, 5, 0.2, "epoch") for p, _ in rows]
    first = [_Run(answer, p, epochs=1, minibatches=1).log_ratios for p, _ in rows]
    start = [_climb(p, 1, 0.2) for p, _ in rows]
    even = [Problem(**{**vars(p), "logits": 0 * p.logits}) for p, _ in rows]
    level = [_Run(answer, p, epochs=1, minibatches=1).log_ratios for p in even]
    alike = all(close(x, _climb(p, 1, 0.2), 2e-3) for x, p in zip(level, even, strict=True))
    p = rows[0][0]
    narrow = _Run(answer, p, epochs=5, minibatches=1, eps=0.05).log_ratios
    yield from recognise(
        seen,
        {
            "every epoch begins with a new old policy": each,
            "nothing is clipped": [_climb(p, 5, 1e9) for p, _ in rows],
            "eps is not used": close(narrow, seen[0]),
            # Where all old log-probabilities are equal it does not matter whose one takes.
            "old_logp is another pull's": alike and not all(map(close, first, start, [2e-3] * 4)),
        },
        tolerance=2e-3,
        first=first[0][0],
        start=start[0][0],
        furthest=float(max(np.exp(np.abs(x)).max() for x in seen)),
        bound=float(max(np.exp(np.abs(x)).max() for x in anchored)),
    )
    yield Property(
        "small steps through all minibatches add up to the step of the whole batch",
        close(by_parts * 1e3, full * 1e3, 0.02),
        f"for one learner {numbers(by_parts[0])}, and by the slow definition {numbers(full[0])}",
    )
    many = {
        tuple(np.round(_Run(answer, _problem(np.random.default_rng(9), 8, 1.0), epochs=1, minibatches=8)
        .after.ravel(), 5))
        for _ in range(4)
    }  # fmt: skip
    yield Property(
        "the minibatches are shuffled anew",
        len(many) > 1,
        "four updates on the same batch, one pull at a time, ended in the same place",
    )
    given = [_Run(answer, p, epochs=5, minibatches=1, eps=0.2).log_ratios for p, _ in rows]
    single = len(_Run(answer, short, epochs=1).optimizer.felt)
    yield Property(
        "epochs is 4 and minibatches 4 where they are left out",
        (default, single) == (16, 4),
        f"without them {default} steps are taken, and {single} in one epoch",
    )
    yield Property(
        "eps is 0.2 where it is left out",
        all(map(close, seen, given, [2e-3] * 4)),
        f"with one minibatch and five epochs the log ratios are {numbers(seen[0][0])}, "
        f"and with 0.2 {numbers(given[0][0])}",
    )

    def run(*given: Any) -> np.ndarray:
        arrays = [x.numpy() if isinstance(x, Tensor) else x for x in given[:4]]
        p = Problem(**dict(zip(("logits", "states", "actions", "worth"), arrays, strict=True)), rate=given[4])
        found = _Run(answer, p, epochs=given[5], minibatches=1, eps=given[6])
        return np.array([found.log_ratios, found.reported])

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        pulls, learners, epochs = int(rng.integers(1, 9)), int(rng.integers(1, 4)), int(rng.integers(1, 6))
        rate, eps = float(rng.choice([0.3, 3])), float(rng.choice([0.05, 0.2, 0.5]))
        return {**vars(_problem(rng, pulls, rate, epochs, eps, learners)), "epochs": epochs, "eps": eps}

    def slow(p: Problem) -> np.ndarray:
        return np.array([_climb(p, p.epochs, p.eps)] * 2)

    what = "(what became of log π, what is reported), with one minibatch"
    yield agrees(run, slow, random_problems(draw), what=what)
