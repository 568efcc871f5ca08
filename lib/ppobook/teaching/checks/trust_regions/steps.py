"""Checks of the exercises on taking a step: the line search, and TRPO's step with a stricter limit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, as_array, close, numbers, recognise
from ..beside.trust_regions import Policy, back_and_forth, far_beyond, over_the_edge, steeper
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, divergence, lowest, score_table, softmax, two


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
    gained, found, gain_tried, _ = ask(lambda s: (0.3 - s, 0.0))
    simple = ask(lambda s: (1.0, 0.0))[0]  # the whole step is good
    exact, faint = ask(lambda s: (1.0, 0.07))[0], ask(lambda s: (1e-12, 0.0))[0]  # and just so
    traded = ask(lambda s: (0.05, 1.0))[0]  # every try is too far
    stopped, success, all_tried, _ = ask(lambda s: (s, 1.0))
    still, still_success, _, _ = ask(lambda s: (0.0, 0.0))

    def spoilt(pair: tuple[float, float]) -> float:
        """The share that is taken where only shares below 0.3 have numbers for gain and KL."""
        return ask(lambda s: pair if s > 0.3 else (s, 0.0))[0]

    backwards = next((t for t in (tried, gain_tried) if min(t, default=0.0) < -0.01), [])
    given_up = next((t for t, ok in ((tried, good), (gain_tried, found)) if not ok and len(t) < 3), [])
    broken = [spoilt(pair) for pair in ((nan, nan), (1.0, nan), (nan, 0.0))]
    yield from recognise(
        tried,
        {
            "the tries grow": len(tried) > 1 and close(tried[1], 2.0),
            "each try begins where the last one ended": len(tried) > 1 and close(tried[1], 1.5),
            "it goes backwards": bool(backwards),
            "a step is returned, not parameters": good and close(row, [2.0, -2.0]),
            "what was found is not returned": good and close(near, 0.0),
            "gain and KL are exchanged": close(near, 0.0625) and close(traded, 1.0),
            "a comparison points the wrong way": close(simple, 0.0)
            and (close(near, 1.0) or close(gained, 1.0)),
            "it gives up too early": bool(given_up),
            "one of the two conditions is enough": close(near, 1.0) and close(gained, 1.0),
            "the KL is not asked": close(near, 1.0),
            "the gain is not asked": close(gained, 1.0),
            "the whole step is never tried": bool(tried) and close(max(tried), 0.5),
            "after a failure it does not go back": not close(stopped, 0.0),
            "a failure is called a success": success,
            "a gain of zero is enough": still_success or not close(still, 0.0),
            "what is no number passes": max(broken) > 0.3,
            "a KL of just max_kl is refused": close(simple, 1.0) and not close(exact, 1.0),
            "a small gain is refused": close(simple, 1.0) and not close(faint, 1.0),
            "it goes on after it has found one": 0.01 < gained < 0.2 and any(close(t, 0.25) for t in tried),
        },
        row=row,
        given_up=given_up,
        backwards=backwards,
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
            "unit": float(rng.choice([1e-9, 1, 1e6])),
            "near": float(rng.choice([0.98, 1.0])),
            "beyond": str(rng.choice(["it loses", "the KL is too large", "gain and KL are nan"])),
        }

    def judged(p: Problem, share: float) -> tuple[float, float]:
        if share <= p.good_up_to:
            return p.unit * share, p.near * p.max_kl
        bad = {
            "it loses": (-p.unit * share, 0.0),
            "the KL is too large": (50 * p.unit * share, 1.02 * p.max_kl),
        }
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


class _Step:
    """The effect of the reader's step on a policy, on a batch of observations or of one-hot states."""

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
        self.bias = np.zeros(0) if bias is None else np.asarray(bias, dtype=np.float32).astype(np.float64)
        policy = Policy(self.table, bias, bend)
        states, self.actions = np.asarray(batch[0]), np.array(batch[1])
        self.observations = states if states.ndim == 2 else np.eye(len(self.table))[states]
        self.weights, self.max_kl, self.damping = np.array(batch[2], dtype=np.float64), max_kl, damping
        self.logits = self.moved_to(np.zeros(self.table.size + self.bias.size))
        self.old = softmax(self.logits)
        before, observations = policy.row(), torch.tensor(self.observations, dtype=torch.float32)
        back = answer(
            policy,
            observations.clone(),
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
            logits = policy(observations).double().numpy()
        self.gain, kls, back_kls = self.judge(logits)
        self.kl, self.mean_kl, self.back_kl = float(kls.max()), float(kls.mean()), float(back_kls.max())

    def moved_to(self, change: np.ndarray) -> np.ndarray:
        """The logits after a change of the parameters, where nothing bends."""
        table = self.table + change[: self.table.size].reshape(self.table.shape)
        shift = self.bias + change[self.table.size :]
        return self.observations @ table + (shift if shift.size else 0.0)

    def judge(self, logits: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the gain of the surrogate with these logits, and each sample's KL in both directions."""
        with np.errstate(all="ignore"):
            new, taken = softmax(logits), (np.arange(len(self.actions)), self.actions)
            gain = float(((new[taken] / self.old[taken] - 1) * self.weights).mean())
            return gain, divergence(self.old, new), divergence(new, self.old)

    @cached_property
    def scores(self) -> np.ndarray:
        """[sample, action, parameter]: the slopes of log π(a | state)."""
        own = np.array([score_table(row) for row in self.logits])
        cells = np.einsum("nk,nab->nakb", self.observations, own).reshape(*own.shape[:2], -1)
        return np.concatenate([cells, own], axis=2) if self.bias.size else cells

    def gradient(self) -> np.ndarray:
        """∇ of the surrogate, sample by sample."""
        samples = zip(self.scores, self.actions, self.weights, strict=True)
        return np.mean([w * scores[a] for scores, a, w in samples], axis=0)

    def natural(self, damping: float, products: int = 10) -> np.ndarray:
        """The direction that so many iterations of conjugate gradient give."""
        return lowest(self.matrix(damping), self.gradient(), products)

    def matrix(self, damping: float) -> np.ndarray:
        """The damped Fisher matrix, written out."""
        fisher = np.einsum("na,nai,naj->ij", self.old, self.scores, self.scores) / len(self.actions)
        return fisher + damping * np.eye(len(fisher))

    def wanted(
        self, measure: Callable[[np.ndarray, np.ndarray], float] = lambda kls, back: kls.max()
    ) -> tuple[np.ndarray, float, float, list[float]]:
        """The change, its gain and its largest KL; and for each length how near it is to being refused."""
        matrix, direction = self.matrix(self.damping), self.natural(self.damping)
        size = direction @ matrix @ direction
        margins: list[float] = []
        for share in np.geomspace(1.0, 0.8**29, 30) * (np.sqrt(2 * self.max_kl / size) if size > 0 else 0.0):
            gain, *kls = self.judge(self.moved_to(share * direction))
            kl = float(measure(*kls))
            margins += [abs(kl / self.max_kl - 1), abs(gain) / np.abs(self.weights).max(initial=1e-9)]
            if gain > 0 and kl <= self.max_kl:
                return share * direction, gain, kl, margins
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
        """Make a step of which a share up to this is as forecast, and all above goes much too far."""
        return try_on(partial(far_beyond, share))

    steep, wavy, cliff = try_on(steeper), try_on(back_and_forth), try_on(over_the_edge)
    # In a single state the mean and the largest KL are one, so the first length that is tried shows.
    single = _Step(answer, table[:1], tuple(x[6:] for x in batch), 0.01, 1e-6)
    tried = float(single.judge(single.moved_to(single.first.ravel()))[1].max())
    far = plain.kl > 0.0101
    # A damping that is large enough to show in the direction; and one policy with a second parameter.
    heavy = _Step(answer, table, batch, 0.01, 0.5)
    aims = {d: _alike(heavy.first, heavy.natural(d)) for d in (1e-6, 1e-3, 0.01, 0.1, 0.5, 1)}
    # Many directions, so that it shows in how many of them it was searched. The state that moves most stands
    # in the middle and has no advantage, and the mean KL and the KL the other way round allow other lengths.
    rng = np.random.default_rng(78)
    rows = (rng.normal(size=(24, 10)) * rng.choice([0.5, 1, 2], size=(24, 1))).astype(np.float32)
    mixed = rows, rng.integers(4, size=24), np.where(rng.random(24) < 0.4, 0, rng.normal(size=24)).round(2)
    many = _Step(answer, 0.3 * rng.normal(size=(10, 4)), mixed, 0.02, 1e-3)
    counts = [n for n in range(1, 25) if _alike(many.first, many.natural(1e-3, n)) > 0.99995]

    def as_by(measure: Callable[[np.ndarray, np.ndarray], float]) -> bool:
        """Return whether the step has the length that this measure of the KLs allows."""
        return close(many.row, many.wanted(measure)[0], 1e-2)

    biased = _Step(answer, table, batch, 0.01, 1e-3, bias=[0.1, 0.0, -0.1])
    parts = [np.abs(part).max() > 1e-6 for part in np.split(biased.row, [table.size])]
    idle = _Step(answer, table, (states, actions, [0.0] * 12), 0.01, 1e-3)
    held = steep.kl <= steep.max_kl * 1.01
    yield from recognise(
        plain.gain,
        {
            "the KL the other way round": far and held and as_by(lambda kls, back: back.max()),
            "the mean KL, not the largest": far and held and as_by(lambda kls, back: kls.mean()),
            "it leaves the trust region": far and single.kl > 0.0101,
            "the plain gradient": _alike(plain.first, slope) > 0.999 > _alike(natural, slope),
            "a step that goes too far is taken": not held,
            "the damping is not the one that was given": max(aims.values()) > max(0.9999, aims[0.5]),
            "the iterations are not ten": bool(counts) and 10 not in counts,
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
        count=counts[0] if counts else 0,
        tried=tried,
        allowed=steep.max_kl,
        steep=steep.kl,
        loss=-wavy.gain,
    )
    over = [s for s in (plain, many) if not s.kl <= 1.01 * s.max_kl]
    yield Property(
        "in every state it stays in the trust region",
        not over,
        "; ".join(f"of {len(s.actions)} one moved by {s.kl:.4f}, and {s.max_kl} is allowed" for s in over),
    )
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
            large = rng.random() < 0.3
            features, samples, actions = (6, 24, 4) if large else rng.integers((1, 3, 2), (4, 9, 5))
            visited = rng.choice([0.5, 1, 2], size=(samples, 1)) * rng.normal(size=(samples, features)).round(
                2
            )
            worth = rng.choice([1e-7, 1e-3, 1, 100]) * rng.normal(size=samples)
            problem = {
                "table": 0.3 * rng.normal(size=(features, actions)),
                "bias": rng.normal(size=actions),
                "observations": visited if large else visited[rng.integers(samples, size=samples)],
                "actions": rng.integers(actions, size=samples),
                "advantages": worth * (rng.random(samples) < 0.6),
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
