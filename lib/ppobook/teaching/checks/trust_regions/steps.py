"""Checks of the exercises on taking a step: the line search, and TRPO's step with a stricter limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import Answer, Findings, Mistake, Property, as_array, close, numbers, recognise
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, divergence, score_table, softmax, two


@CHAPTER.check("hunt-line-search", section="sec-line-search")
def hunt_line_search(answer: Answer) -> Findings:
    start, step, nan = torch.tensor([1.0, 2.0]), torch.tensor([8.0, -8.0]), float("nan")

    def ask(judge: Callable[[float], tuple[float, float]]) -> tuple[float, bool, list[float], np.ndarray]:
        """The share of the step that is taken, the flag, the shares tried, and the row that came back."""
        asked: list[float] = []

        def evaluate(parameters: Any) -> tuple[float, float]:
            row = as_array(parameters, (2,), "what is evaluated", finite=False)
            asked.append(float((row[0] - 1) / 8))
            return judge(asked[-1])

        back = answer(evaluate, start.clone(), step.clone(), 0.07, 6, 0.5)
        found, success = two(back, "parameters and a flag")
        row = as_array(found, (2,), "the first result", finite=False)
        flag = bool(as_array(success, (), "the second result"))
        return float((row[0] - 1) / 8), flag, asked, row

    # The KL of a share s of the step is s², the gain s: the first try that is near enough is a quarter.
    near, good, tried, row = ask(lambda s: (s, s * s))
    # The KL is always fine; there is a gain only from a share of 0.3 downwards.
    gained = ask(lambda s: (0.3 - s, 0.0))[0]
    simple = ask(lambda s: (1.0, 0.0))[0]  # the whole step is good
    traded = ask(lambda s: (0.05, 1.0))[0]  # every try is too far
    stopped, success, all_tried, _ = ask(lambda s: (s, 1.0))
    still, still_success, _, _ = ask(lambda s: (0.0, 0.0))

    def spoilt(pair: tuple[float, float]) -> float:
        """The share that is taken where only shares below 0.3 have numbers for gain and KL."""
        return ask(lambda s: pair if s > 0.3 else (s, 0.0))[0]

    broken = [spoilt(pair) for pair in ((nan, nan), (1.0, nan), (nan, 0.0))]
    yield from recognise(
        tried,
        {
            "the tries grow": len(tried) > 1 and close(tried[1], 2.0),
            "each try begins where the last one ended": len(tried) > 1 and close(tried[1], 1.5),
            "it goes backwards": min(tried, default=1.0) < -0.01,
            "a step is returned, not parameters": good and close(row, [2.0, -2.0]),
            "what was found is not returned": good and close(near, 0.0),
            "gain and KL are exchanged": close(near, 0.0625) and close(traded, 1.0),
            "a comparison points the wrong way": close(simple, 0.0)
            and (close(near, 1.0) or close(gained, 1.0)),
            "it gives up too early": close(near, 0.0) and not good and len(tried) < 3,
            "one of the two conditions is enough": close(near, 1.0) and close(gained, 1.0),
            "the KL is not asked": close(near, 1.0),
            "the gain is not asked": close(gained, 1.0),
            "the whole step is never tried": bool(tried) and close(max(tried), 0.5),
            "after a failure it does not go back": not close(stopped, 0.0),
            "a failure is called a success": success,
            "a gain of zero is enough": still_success or not close(still, 0.0),
            "what is no number passes": max(broken) > 0.3,
            "it goes on after it has found one": gained < 0.2 and min(np.abs(np.array(tried) - 0.25)) < 1e-3,
        },
        row=row,
        stopped=stopped,
        least=gained,
    )
    shares = [0.5**k for k in range(6)]
    yield Property(
        "it tries as often as it may, each time shrink times as far",
        close(list(dict.fromkeys(all_tried)), shares),
        f"of six tries it makes {numbers(all_tried)}",
    )
    yield Property(
        "it takes the first length that is good enough",
        close([near, gained], [0.25, 0.25]),
        f"it takes {numbers([near, gained])} of the step where 0.25 is right",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size, shrink = rng.integers(1, 5), rng.choice([0.3, 0.5, 0.7, 0.9])
        tries, end = int(rng.integers(1, 12)), int(rng.integers(12))
        edge = float(shrink ** (end - 0.5))  # from here on it is good enough
        return {
            "start": rng.normal(size=size),
            "step": rng.choice([0.1, 1, 10]) * rng.normal(size=size),
            "max_kl": float(rng.choice([0.001, 0.05, 1.5])),
            "tries": tries,
            "shrink": float(shrink),
            "good_up_to": edge,
            "beyond": str(rng.choice(["it loses", "the KL is too large", "gain and KL are nan"])),
        }

    def judged(p: Problem, share: float) -> tuple[float, float]:
        if share <= p.good_up_to:
            return share, 0.98 * p.max_kl
        bad = {"it loses": (-share, 0.0), "the KL is too large": (share, 1.02 * p.max_kl)}
        return bad.get(p.beyond, (nan, nan))

    def search(start: Tensor, step: Tensor, max_kl: float, tries: int, shrink: float, *rest: Any) -> Any:
        p = Problem(**dict(zip(vars(problems[0]), (start, step, max_kl, tries, shrink, *rest), strict=True)))

        def evaluate(parameters: Any) -> tuple[float, float]:
            moved = as_array(parameters, tuple(start.shape), "what is evaluated") - start.numpy()
            return judged(p, float(moved @ step.numpy() / (step @ step)))

        back = answer(evaluate, start.clone(), step.clone(), max_kl, tries, shrink)
        found, flag = two(back, "parameters and a flag")
        row = as_array(found, tuple(start.shape), "the first result")
        return np.append(row, as_array(flag, (), "the second result"))

    def slow(p: Problem) -> np.ndarray:
        good = [s for s in p.shrink ** np.arange(p.tries) if s <= p.good_up_to]
        return np.append(p.start + max(good, default=0.0) * p.step, float(bool(good)))

    problems = random_problems(draw)
    yield agrees(search, slow, problems, what="your parameters and, as 0 or 1, your flag")


class _Policy(nn.Module):
    """Logits from a table, one row a state, and a bias; it writes down every table that it was asked with.

    `bend` says what the policy makes of a change of its parameters: it may follow it as it is, or explode, or
    turn round, so that a step that was right on paper fails when it is tried.
    """

    def __init__(self, table: Any, bias: Any = None, bend: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.tensor(np.asarray(table), dtype=torch.float32))
        if bias is not None:
            self.bias = nn.Parameter(torch.tensor(np.asarray(bias), dtype=torch.float32))
        self.start, self.bend = self.table.detach().clone(), bend
        self.seen: list[np.ndarray] = []
        self.note = self.seen.append  # a copy of the policy notes in the same place

    def forward(self, observations: Tensor) -> Tensor:
        self.note(self.table.detach().double().numpy().copy())
        logits = self.table if self.bend is None else self.start + self.bend(self.table - self.start)
        return observations @ logits + getattr(self, "bias", 0.0)

    def row(self) -> np.ndarray:
        return np.concatenate([p.detach().double().numpy().ravel() for p in self.parameters()])


_Policy.__name__ = "policy"  # as a message calls it: “It was called with (a policy, …)”


class _Step:
    """What the reader's step did to a policy, on a batch of one-hot states."""

    def __init__(
        self,
        answer: Callable[..., Any],
        table: Any,
        batch: tuple[Any, ...],
        max_kl: float,
        damping: float,
        *,
        bias: Any = None,
        bend: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.table = np.asarray(table, dtype=np.float32).astype(np.float64)
        self.bias = None if bias is None else np.asarray(bias, dtype=np.float32).astype(np.float64)
        policy = _Policy(self.table, bias, bend)
        self.states, self.actions = np.array(batch[0]), np.array(batch[1])
        self.weights, self.max_kl, self.damping = np.array(batch[2], dtype=np.float64), max_kl, damping
        self.logits = self.table + (0.0 if self.bias is None else self.bias)
        self.old = softmax(self.logits)
        before = policy.row()
        back = answer(
            policy,
            torch.eye(len(self.table))[self.states],
            torch.tensor(self.actions),
            torch.tensor(self.weights, dtype=torch.float32),
            max_kl,
            damping,
        )
        gain, kl = two(back, "the gain and the KL of the step that was taken")
        self.said_gain = float(as_array(gain, (), "the gain", finite=False))
        self.said_kl = float(as_array(kl, (), "the KL", finite=False))
        self.row = policy.row() - before
        self.change = self.row[: self.table.size].reshape(self.table.shape)
        self.moved = not bool(np.abs(self.row).max() < 1e-9)  # also where it is nan
        self.broken = not np.isfinite(self.row).all()
        moved = [seen - self.table for seen in policy.seen if np.abs(seen - self.table).max() > 1e-7]
        self.first = moved[0] if moved else self.change  # the first table that was tried
        with torch.no_grad():
            logits = policy(torch.eye(len(self.table))).double().numpy()
        self.gain, self.kl, self.mean_kl = self.judge(logits)
        with np.errstate(all="ignore"):
            self.back_kl = float(divergence(softmax(logits), self.old)[self.states].max())

    def judge(self, logits: np.ndarray) -> tuple[float, float, float]:
        """Of a table of logits the surrogate's gain, the largest KL of a visited state, and the mean KL."""
        with np.errstate(all="ignore"):
            new = softmax(logits)
            ratio = new[self.states, self.actions] / self.old[self.states, self.actions]
            apart = divergence(self.old, new)[self.states]
            return float(((ratio - 1) * self.weights).mean()), float(apart.max()), float(apart.mean())

    def scores(self, state: int) -> np.ndarray:
        """Row a: the slopes of log π(a | state) by every parameter."""
        own, (count, actions) = score_table(self.logits[state]), self.table.shape
        cells = np.zeros((actions, count, actions))
        cells[:, state] = own
        rows = cells.reshape(actions, -1)
        return rows if self.bias is None else np.concatenate([rows, own], axis=1)

    def gradient(self) -> np.ndarray:
        """∇ of the surrogate, sample by sample."""
        samples = zip(self.states, self.actions, self.weights, strict=True)
        return sum(w * self.scores(s)[a] for s, a, w in samples) / len(self.states)

    def matrix(self, damping: float) -> np.ndarray:
        """The damped Fisher matrix, written out."""
        parts = []
        for s in self.states:
            scores = self.scores(s)
            parts.append(np.einsum("a,ai,aj->ij", self.old[s], scores, scores))
        return np.mean(parts, axis=0) + damping * np.eye(len(parts[0]))

    def natural(self, damping: float) -> np.ndarray:
        return np.linalg.solve(self.matrix(damping), self.gradient())

    def wanted(self) -> tuple[np.ndarray, float, float, list[float]]:
        """The change, its gain and its largest KL; and for each length how near it is to being refused."""
        matrix, direction = self.matrix(self.damping), self.natural(self.damping)
        size = direction @ matrix @ direction
        margins: list[float] = []
        for share in np.geomspace(1.0, 0.8**29, 30) * (np.sqrt(2 * self.max_kl / size) if size > 0 else 0.0):
            change = share * direction
            table = change[: self.table.size].reshape(self.table.shape)
            logits = self.logits + table + (0.0 if self.bias is None else change[self.table.size :])
            gain, kl, _ = self.judge(logits)
            margins += [abs(kl / self.max_kl - 1), abs(gain) / np.abs(self.weights).max(initial=1e-9)]
            if gain > 0 and kl <= self.max_kl:
                return change, gain, kl, margins
        return 0 * direction, 0.0, 0.0, margins


def _alike(left: np.ndarray, right: np.ndarray) -> float:
    size = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left.ravel() @ right.ravel()) / size if size > 1e-20 else 0.0


@CHAPTER.check("trust-step", section="sec-trpo")
def trust_step(answer: Answer) -> Findings:
    # Three states, one visited more often than the others.
    table = np.log(np.array([[1, 3, 4], [2, 2, 4], [1, 5, 2]]) / 8)
    states = [2] * 3 + [1] * 3 + [0] * 6
    actions = [0, 1, 1, 0, 1, 2, 0, 1, 2, 1, 2, 2]
    worth = [-4.0, 1.0, 1.0, 1.0, -1.0, 0.0, -3.0, 1.0, 0.5, 1.0, 0.5, 0.5]
    batch = (states, actions, worth)
    plain = _Step(answer, table, batch, 0.01, 1e-3)
    slope, natural = plain.gradient(), plain.natural(1e-3)
    said = {"kl": plain.kl, "mean": plain.mean_kl, "back": plain.back_kl, "gain": plain.gain}
    yield from recognise(
        plain.gain,
        {
            "the parameters are no numbers any more": plain.broken,
            "the policy does not move": not plain.moved,
            "it goes downhill": plain.gain < 0,
        },
        **said,
    )
    # One state, two even actions, and policies that do not follow their parameters in a straight line: the
    # whole step changes each logit by 0.2.
    even = ([0] * 4, [0, 0, 1, 1], [1.0, 1.0, -1.0, -1.0])

    def try_on(bend: Callable[[Tensor], Tensor]) -> _Step:
        return _Step(answer, np.zeros((1, 2)), even, 0.02, 1e-6, bend=bend)

    def sound_up_to(share: float) -> _Step:
        """Of the step, a share up to this is as it was forecast, and all above goes much too far."""
        return try_on(lambda d: torch.where(d.abs() > 0.2 * share, 1e3 * d, d))

    steep, turn = try_on(lambda d: d + 400 * d**3), 0.2 / (1.5 * np.pi)
    wavy = try_on(lambda d: turn * torch.sin(d / turn))  # it stays near and turns round: the whole step loses
    cliff = try_on(lambda d: d + 1e3 * torch.sign(d).detach())  # any change at all is too much
    # In a single state the mean and the largest KL are one, so the first length that is tried shows.
    single = _Step(answer, table[:1], tuple(x[6:] for x in batch), 0.01, 1e-6)
    tried, far = single.judge(single.table + single.first)[2], plain.kl > 0.0101
    # A damping that is large enough to show in the direction; and one policy with a second parameter.
    heavy = _Step(answer, table, batch, 0.01, 0.5)
    aims = {d: _alike(heavy.first, heavy.natural(d)) for d in (1e-6, 1e-3, 0.01, 0.1, 0.5, 1)}
    biased = _Step(answer, table, batch, 0.01, 1e-3, bias=[0.1, 0.0, -0.1])
    parts = [np.abs(part).max() > 1e-6 for part in np.split(biased.row, [table.size])]
    idle = _Step(answer, table, (states, actions, [0.0] * 12), 0.01, 1e-3)
    held = steep.kl <= steep.max_kl * 1.01
    yield from recognise(
        plain.gain,
        {
            "the KL the other way round": far and plain.back_kl <= 0.0101 and held,
            "the mean KL, not the largest": far and plain.mean_kl <= 0.0101 and held,
            "it leaves the trust region": far and single.kl > 0.0101,
            "the plain gradient": _alike(plain.first, slope) > 0.999 > _alike(natural, slope),
            "a step that goes too far is taken": not held,
            "the damping is not the one that was given": max(aims.values()) > max(0.9999, aims[0.5]),
            "the whole step is never tried": 0.0052 < tried < 0.0068,
            "the first try is longer than it should be": 0.014 < tried < 0.03
            and _alike(single.first, single.change) > 0.999,
            "a step that is good enough is refused": 0.0075 < tried <= 0.0101
            and np.abs(single.change - single.first).max() > 1e-6,
            "the 2 is missing under the root": single.kl < 0.0058 and 0.0042 < tried < 0.0058,
            "the step is not scaled to the KL": single.kl < 0.0058,
            "a step that loses is taken": wavy.gain < -1e-6,
            "after a failed search the policy is not what it was": cliff.moved,
            "advantages of zero are no reason to move": idle.broken
            or np.abs(idle.row).max() > 1e-6
            or not np.isfinite([idle.said_gain, idle.said_kl]).all(),
            "some of the parameters are left out": parts[0] != parts[1],
        },
        **said,
        tried=tried,
        allowed=steep.max_kl,
        steep=steep.kl,
        loss=-wavy.gain,
    )
    yield Property("in every state it stays in the trust region", not far, f"one moved by {plain.kl:.4f}")
    short = float(np.abs(sound_up_to(0.7).change).max() / 0.2)
    if plain.moved and not close(short, 0.64, 5e-3):
        yield Mistake("the lengths shrink by another factor", short=short)
    last, beyond = sound_up_to(0.8**28.5), sound_up_to(0.8**29.5)
    if beyond.moved:
        yield Mistake("there are more tries than thirty")
    yield Property(
        "where only the thirtieth try is near enough, it is taken", last.moved, "the policy did not move"
    )
    yield from recognise(
        [plain.said_gain, plain.said_kl],
        {
            "the surrogate itself, not its gain": [plain.gain + np.mean(worth), plain.kl],
            "the mean KL is reported": [plain.gain, plain.mean_kl],
        },
        **{"surrogate": plain.gain, "kl": plain.kl},
    )
    yield Property(
        "the gain and the KL that it reports are those of the step it took",
        close([plain.said_gain, plain.said_kl], [plain.gain, plain.kl], 1e-3),
        f"it says {numbers([plain.said_gain, plain.said_kl])} of {numbers([plain.gain, plain.kl])}",
    )
    yield Property(
        "where no step is taken it reports 0 and 0",
        close([cliff.said_gain, cliff.said_kl], [0.0, 0.0], 1e-6),
        f"it says {numbers([cliff.said_gain, cliff.said_kl])}",
    )

    def step(table: Any, bias: Any, *batch: Any) -> _Step:
        *samples, max_kl, damping = batch
        samples = [np.asarray(x) for x in samples]
        return _Step(lambda *_: (0.0, 0.0), table, tuple(samples), max_kl, damping, bias=bias)

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        """Problems in which no try is so close to the limit that rounding would decide."""
        while True:
            count, samples, actions = rng.integers((1, 3, 2), (4, 9, 5))
            problem = {
                "table": rng.normal(size=(count, actions)),
                "bias": rng.normal(size=actions),
                "states": rng.integers(count, size=samples),
                "actions": rng.integers(actions, size=samples),
                "advantages": rng.choice([0.1, 1, 100]) * rng.normal(size=samples),
                "max_kl": float(rng.choice([0.001, 0.01, 0.1])),
                "damping": float(rng.choice([0.01, 0.1, 1])),
            }
            change, *_, margins = step(*problem.values()).wanted()
            if change.any() and min(margins) > 0.03 * problem["max_kl"] and min(margins[::2]) > 0.03:
                return problem

    def taken(table: Tensor, bias: Tensor, *batch: Any) -> _Step:
        *samples, max_kl, damping = batch
        arrays = tuple(x.numpy() for x in samples)
        return _Step(answer, table.numpy(), arrays, max_kl, damping, bias=bias.numpy())

    def moved(p: Problem) -> np.ndarray:
        return step(*vars(p).values()).wanted()[0]

    def reported(*values: Any) -> np.ndarray:
        came = taken(*values)
        return np.array([came.said_gain / np.abs(came.weights).max(), came.said_kl])

    def measured(p: Problem) -> np.ndarray:
        _, gain, kl, _ = step(*vars(p).values()).wanted()
        return np.array([gain / np.abs(p.advantages).max(), kl])

    problems = random_problems(draw)
    what = "the change of the parameters"
    yield agrees(lambda *a: taken(*a).row, moved, problems, what=what, tolerance=2e-2)
    what = "the gain, divided by the largest advantage, and the KL that you report"
    yield agrees(reported, measured, problems, what=what, tolerance=2e-2)
