"""The check of a whole update, in which two mistakes hide each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, numbers, recognise
from ..beside.descent import Moving, Watched
from ..probes import Problem, agrees, random_problems
from . import CHAPTER


def probabilities(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


class _Run:
    """One call of the reader's update on a batch of `learners` by `pulls`."""

    def __init__(self, answer: Answer, p: Problem, **settings: Any) -> None:
        logits = torch.tensor(p.logits, dtype=torch.float32).requires_grad_()
        self.before = logits.detach().double().numpy().copy()
        self.optimizer = Watched(logits, p.rate)
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
    """A batch; none of its ratios comes so near to an end of the clip range that rounding would decide."""
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
    passed : gets, for each step, how near a ratio came to an end of the clip range
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
    long = _problem(np.random.default_rng(0), 64, 1e-3)
    two, eight = (len(_Run(answer, long, epochs=1, minibatches=m).optimizer.felt) for m in (2, 8))
    # How far what is reported is from what happened, as a share of it.
    off = np.linalg.norm(count.reported - count.log_ratios) / (np.linalg.norm(count.log_ratios) + 1e-12)
    yield from recognise(
        count.log_ratios,
        {
            "the steps are taken by another optimizer": taken == 0 and moved > 1e-9,
            "the optimizer takes no step": taken == 0 or moved < 1e-9,
            "the size of a minibatch is fixed, not their number": two == eight > taken / 3,
            "one minibatch for each epoch": taken == 3,
            "one epoch, whatever epochs says": taken == 4,
            "not epochs times minibatches steps": taken != 12
            or len(finer.optimizer.felt) != 12
            or len(uneven.optimizer.felt) != 12,
            "the log ratios of before the last step": 2e-3 < off < 0.5,
            "what it reports is not what happened": off > 2e-3,
        },
        taken=taken,
        two=two,
        eight=eight,
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
    pushed = np.array([np.abs(step[0]).max(-1) for step in uneven.optimizer.gradients]) / apart.worth[0]
    touched = (pushed > 0).reshape(3, 4, 9)
    used, order = touched.sum(1), touched.argmax(1)  # how often each pull, and the first minibatch it is in
    # A pull that a minibatch holds twice is pushed twice as far as the others in it, for what it is worth.
    with np.errstate(invalid="ignore", divide="ignore"):
        times = pushed / np.where(pushed > 0, pushed, np.inf).min(1, keepdims=True)
    often = times.round().reshape(3, 4, 9).sum(1) if close(times, times.round(), 0.1) else used
    replaced = (often > 1).any(1) & (used == 0).any(1)
    which = replaced.argmax()
    yield from recognise(
        used,
        {
            "the gradients are not zeroed between the steps": bool((touched[:, 1:] >= touched[:, :-1]).all()),
            "pulls are drawn with replacement": bool(replaced.any()),
            "some pulls are in no minibatch": bool((used == 0).any()),
            "some pulls are in more than one minibatch": bool((used > 1).any()),
            "nothing is shuffled": bool((np.diff(order) >= 0).all()),
            "one shuffle for all epochs": bool((order == order[0]).all()),
        },
        used=used[(used != 1).any(1).argmax()],
        repeated=np.flatnonzero(often[which] > 1),
        never=np.flatnonzero(used[which] == 0),
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
