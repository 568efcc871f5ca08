"""Checks of what is normalised and of what is bounded: running statistics, a saved policy, actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, either, numbers, recognise, words
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, parts

THREE = ("the count", "the mean", "the variance")


# ---------------------------------------------------------------------------------------------------
# Running statistics


@CHAPTER.check("running-norm", section="sec-ppo-normalize")
def running_norm(answer: Answer) -> Findings:
    def merge(stats: tuple[Any, Any, Any], batch: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        count, mean, var = stats
        given = (torch.tensor(np.asarray(x), dtype=torch.float64) for x in (mean, var, batch))
        count_, mean_, var_ = parts(answer(float(count), *given), THREE)
        shape = (batch.shape[1],)
        return (
            float(as_array(count_, (), "the count", finite=False)),
            as_array(mean_, shape, "the mean", finite=False),
            as_array(var_, shape, "the variance", finite=False),
        )

    def start(width: int) -> tuple[float, np.ndarray, np.ndarray]:
        return 0.0, np.zeros(width), np.ones(width)

    # Two features; the first batch has four rows, the second two, and their means are far apart.
    one = np.array([[0.0, 10.0], [2.0, 10.0], [4.0, 14.0], [2.0, 14.0]])
    two = np.array([[9.0, 12.0], [11.0, 24.0]])
    both = np.concatenate([one, two])
    first = merge(start(2), one)
    second = merge((4.0, one.mean(0), one.var(0)), two)
    merge(start(2), 100 + one)  # another chain begins, and the first is taken up again
    again = merge((4.0, one.mean(0), one.var(0)), two)
    count, mean, var = second
    yield from recognise(
        mean,
        {
            "earlier calls are remembered": not np.allclose(
                np.vstack(second[1:]), np.vstack(again[1:]), equal_nan=True
            )
        },
        again=again[1],
    )

    def with_first(k: float) -> np.ndarray:
        """The first batch's variance, if the placeholders counted for k rows."""
        apart = one.mean(0) ** 2 * 4 * k / (4 + k)
        return np.asarray((4 * one.var(0) + k + apart) / (4 + k))

    between = 4 * one.var(0) / 6 + 2 * two.var(0) / 6
    yield from recognise(
        mean,
        {
            "the batches count alike, however long they are": (one.mean(0) + two.mean(0)) / 2,
            "what came before is forgotten": two.mean(0),
            "the new batch is not taken in": one.mean(0),
            "the first mean is counted with": close(first[1], one.mean(0) * 4 / 5),
            "one mean for all features": bool(np.ptp(first[1]) < 1e-6),
            "the weights of the two are exchanged": (2 * one.mean(0) + 4 * two.mean(0)) / 6,
            "an average that forgets": bool(
                close((mean - one.mean(0)) / (two.mean(0) - one.mean(0)), [0.01] * 2, 1e-3)
                or close((mean - one.mean(0)) / (two.mean(0) - one.mean(0)), [0.1] * 2, 1e-3)
            ),
        },
        first=first[1],
        count=count,
    )
    yield from recognise(
        var,
        {
            "the distance between the means is forgotten": between,
            "the standard deviation, not the variance": both.std(0),
            "divided by n − 1, not by n": either(
                both.var(0, ddof=1),
                both.var(0)
                + (4 * (one.var(0, ddof=1) - one.var(0)) + 2 * (two.var(0, ddof=1) - two.var(0))) / 6,
                both.var(0) + 2 * (two.var(0, ddof=1) - two.var(0)) / 6,
            ),
            "the first variance is counted with": any(
                close(first[2], with_first(k), 1e-7) for k in (1, 1e-2, 1e-4)
            ),
            "the sum of squares, not its mean": both.var(0) * 6,
            "the variances are averaged": (one.var(0) + two.var(0)) / 2,
            "the distance between the means has too much weight": either(
                *(between + (two.mean(0) - one.mean(0)) ** 2 * share for share in (2 / 6, 4 / 6, 8 / 6, 1))
            ),
            "the distance between the means is not squared": between
            + np.abs(two.mean(0) - one.mean(0)) * 8 / 36,
            "nan at the first batch": bool(~np.isfinite(np.concatenate([first[1], first[2]])).all()),
        },
        between=between,
        right=first[2],
    )
    yield from recognise(
        np.array([first[0], count]),
        {
            "the count does not grow": either([0, 4], [4, 4], [4, 2]),
            "batches are counted, not rows": either([1, 5], [1, 2]),
            "every number is counted, not every row": [8, 8],
        },
        count=count,
    )
    spread = np.random.default_rng(0).normal(size=(64, 1))
    found = []
    for level in (0.0, 1e8):
        stats = start(1)
        for piece in np.split(level + spread, 8):
            stats = merge(stats, piece)
        found.append(float(stats[2][0]) / float(spread.var()))
    middle = float(merge(start(1), np.array([[1e8], [1e8 + 2]]))[1][0])
    lost = abs(found[0] - 1) < 1e-3 and not abs(found[1] - 1) < 0.02
    yield from recognise(
        stats[2],
        {
            "float64 is left on the way": lost and abs(middle - 1e8 - 1) > 0.5,
            "two large squares are subtracted": lost,
        },
        var=stats[2][0],
        middle=middle,
    )
    yield Property(
        "the first batch alone gives its own mean and variance",
        close(first[1], one.mean(0)) and close(first[2], one.var(0)) and first[0] == 4,
        f"from count 0 the mean is {numbers(first[1])} and the variance {numbers(first[2])}",
    )

    def run(*given: Any) -> np.ndarray:
        batch, cuts = given[0].double().numpy(), given[1].numpy()
        pieces, stats = np.split(batch, cuts), start(batch.shape[1])
        if given[2]:  # statistics of rows that the function never saw
            known = pieces.pop(0)
            stats = float(len(known)), known.mean(0), known.var(0)
        for piece in pieces:
            stats = merge(stats, piece)
        return np.array([np.full(batch.shape[1], stats[0]), stats[1], stats[2]])

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size, width = int(rng.integers(2, 12)), int(rng.integers(1, 4))
        cuts = np.sort(rng.choice(np.arange(1, size), rng.integers(0, min(size, 4)), replace=False))
        level = rng.choice([0.1, 1, 30]) * np.cumsum(rng.normal(size=(size, width)), axis=0)
        return {"batches": level, "cuts": cuts.astype(int), "first_is_known": bool(rng.random() < 0.5)}

    def slow(p: Problem) -> np.ndarray:
        rows = np.float32(p.batches).astype(float)
        mean = [sum(column) / len(column) for column in rows.T]
        var = [
            sum((x - m) ** 2 for x in column) / len(column) for column, m in zip(rows.T, mean, strict=True)
        ]
        return np.array([[len(rows)] * len(mean), mean, var])

    yield agrees(run, slow, random_problems(draw), what="count, mean and variance, batch after batch")


# ---------------------------------------------------------------------------------------------------
# A saved policy


@CHAPTER.check("hunt-statistics", section="sec-ppo-normalize")
def hunt_statistics(answer: Answer) -> Findings:
    def make(weights: Any, mean: Any, var: Any) -> tuple[Any, list[torch.Tensor]]:
        given = [torch.tensor(np.asarray(x), dtype=torch.float32) for x in (weights, mean, var)]
        # The tensors themselves: what training does to them later is part of the question.
        act = _Keeping(answer)(given)
        if not callable(act):
            wanted = "a function of observations must come back"
            if act is None:
                raise Stop("returned", "nothing came back", f"{wanted}. Is there a `return`?")
            raise Stop("returned", "no function", f"{wanted}; it is {words(act)}.")
        return act, given

    def ask(act: Any, x: Any, columns: int = 2) -> np.ndarray:
        rows = torch.tensor(np.asarray(x), dtype=torch.float32)
        try:
            back = act(rows)
        except (Stop, Mistake):
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise Stop("raised", type(error).__name__, said, "It was your act that was called.") from error
        return as_array(back, (len(rows), columns), "the scores", finite=False)

    weights = np.array([[1.0, 0.0], [0.0, 2.0]])
    mean, var = np.array([100.0, -3.0]), np.array([400.0, 0.25])
    x = np.array([[120.0, -3.0], [80.0, -2.5], [140.0, -4.0], [160.0, -3.5]])
    act, given = make(weights, mean, var)
    got = ask(act, x)
    again, alone = ask(act, x), np.concatenate([ask(act, row[None]) for row in x])
    right = np.array([[1.0, 0.0], [-1.0, 2.0], [2.0, -4.0], [3.0, -2.0]])
    own = (x - x.mean(0)) / x.std(0)
    sample = (x - x.mean(0)) / x.std(0, ddof=1)
    yield from recognise(
        got,
        {
            "the observations' own statistics": either(
                *(
                    np.clip(z, -10, 10) @ weights
                    for z in (own, sample, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-8))
                )
            ),
            "the statistics are left behind": either(x @ weights, np.clip(x, -10, 10) @ weights),
            "divided by the variance, not by its root": np.clip((x - mean) / var, -10, 10) @ weights,
            "multiplied, not divided": np.clip((x - mean) * np.sqrt(var), -10, 10) @ weights,
            "the mean is left in": np.clip(x / np.sqrt(var), -10, 10) @ weights,
            "only the mean is taken off": np.clip(x - mean, -10, 10) @ weights,
            "the statistics go on changing": close(got, right) and not close(again, got),
            "one observation is judged by the others": close(got, right) and not close(alone, got),
        },
        again=again[0],
        alone=alone[1],
        first=got[0],
    )
    yield from recognise(
        again, {"the statistics go on changing": not close(again, got)}, again=again[0], first=got[0]
    )
    if close(got, right):
        far = ask(act, [[100.0 + 20 * 50, -3.0 + 0.5 * 50]])
        yield from recognise(
            far,
            {
                "the clip at 10 is lost": [[50.0, 100.0]],
                "the scores are clipped, not the observations": [[10.0, 10.0]],
                "clipped elsewhere": not close(far, [[10.0, 20.0]]),
            },
        )
        make(2 * weights, mean + 1, var)
        beside, rows = ask(act, x), torch.tensor(x, dtype=torch.float32)
        act(rows)
        yield from recognise(
            beside,
            {
                "a second snapshot changes the first": not close(beside, right),
                "the observations are overwritten": not close(rows, x),
            },
            rows=rows.numpy(),
        )
        with torch.no_grad():
            given[0] *= 3
            moved = ask(act, x)
            given[0] /= 3
            given[1] += 7
            given[2] *= 4
            later = ask(act, x)
        yield from recognise(
            moved,
            {
                "training goes on in the saved weights": not close(moved, right),
                "training goes on in the saved statistics": not close(later, right),
            },
            later=later[0],
        )
        fresh, given = make(weights, mean, var)
        with torch.no_grad():
            given[1] += 7
        at_first = ask(fresh, x)
        yield from recognise(at_first, {"the copy is made at the first call": not close(at_first, right)})
    yield Property(
        "the policy sees what it saw in training",
        close(got, right, 1e-3),
        f"for the first of four observations the scores are {numbers(got[0])}",
    )

    def run(*problem: Any) -> np.ndarray:
        weights, mean, var, rows = (x.numpy() for x in problem)
        return ask(make(weights, mean, var)[0], rows, weights.shape[1])

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size, width, arms = rng.integers(1, 6), rng.integers(1, 4), rng.integers(2, 4)
        scale = rng.choice([0.1, 1, 30], size=width)
        mean = rng.normal(size=width) * 3
        return {
            "weights": rng.normal(size=(width, arms)),
            "mean": mean,
            "var": scale**2,
            "observations": mean + scale * rng.choice([1, 9]) * rng.normal(size=(size, width)),
        }

    def slow(p: Problem) -> np.ndarray:
        out = np.zeros((len(p.observations), p.weights.shape[1]))
        for i, row in enumerate(p.observations):
            for j, x in enumerate(row):
                z = sorted([-10.0, (x - p.mean[j]) / p.var[j] ** 0.5, 10.0])[1]
                out[i] += z * p.weights[j]
        return out

    yield agrees(run, slow, random_problems(draw), what="the scores")


class _Keeping:
    """The reader's function, called with tensors that are not copied first."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def __call__(self, given: list[torch.Tensor]) -> Any:
        def with_these() -> Any:
            return self._answer._function(*given)

        kept = [x.clone() for x in given]
        self.__code__ = getattr(self._answer._function, "__code__", None)
        with_these.__wrapped__ = self._answer._function  # type: ignore[attr-defined]
        back = Answer(self._answer._name, with_these)()
        for position, (old, new) in enumerate(zip(kept, given, strict=True), start=1):
            if not torch.equal(old, new):
                raise Mistake("an argument is overwritten", position=position)
        return back


# ---------------------------------------------------------------------------------------------------
# Actions within bounds


def _normal(x: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    return np.asarray(-(((x - mean) / std) ** 2) / 2 - np.log(std) - np.log(2 * np.pi) / 2)


@CHAPTER.check("act-in-a-box", section="sec-ppo-continuous")
def act_in_a_box(answer: Answer) -> Findings:
    names = ("what is stored", "what is sent", "its log-probability")

    def ask(mean: Any, std: Any, noise: Any, low: Any, high: Any) -> list[np.ndarray]:
        given = [torch.tensor(np.asarray(x), dtype=torch.float32) for x in (mean, std, noise, low, high)]
        back = parts(answer(*given), names)
        shape = np.shape(mean)
        shapes = (shape, shape, shape[:-1])
        return [as_array(x, s, n, finite=False) for x, s, n in zip(back, shapes, names, strict=True)]

    mean, std = np.array([[0.5, 0.0]]), np.array([1.0, 3.0])
    noise, low, high = np.array([[1.5, -0.25]]), np.array([-1.0, -3.0]), np.array([1.0, 3.0])
    stored, sent, logp = ask(mean, std, noise, low, high)
    twice = parts(answer(*(torch.tensor(x).float() for x in (mean, std, noise, low, high))), names)[:2]
    one = all(isinstance(x, Tensor) for x in twice) and twice[0].data_ptr() == twice[1].data_ptr()
    action, clipped = mean + std * noise, np.array([[1.0, -0.75]])
    right = _normal(action, mean, std)
    at_edge = _normal(clipped, mean, std)
    # A second component of 9, beyond the ends of both boxes.
    wide = ask(np.array([[0.0, 9.0]]), std, 0 * noise, low, high)[1]
    yield from recognise(
        [stored, sent],
        {
            "what is stored and what is sent are one tensor": one and close(stored, clipped),
            "the clipped action is stored": [clipped, clipped],
            "every component has the same bounds": close(stored, action)
            and any(
                close(sent, action.clip(*box)) and close(wide, np.array([[0.0, 9.0]]).clip(*box))
                for box in ((-1, 1), (-1, 3), (-3, 1), (-3, 3))
            ),
            "the action is sent as it was sampled": [action, action],
            "stored and sent are exchanged": [clipped, action],
            "the noise is clipped, not the action": either(
                *(
                    [a, b]
                    for x in (mean + std * np.clip(noise, low, high), np.clip(mean + std * noise, low, high))
                    for a, b in ((x, x), (action, mean + std * np.clip(noise, low, high)))
                    if not close(x, clipped) or not close(b, clipped)
                )
            ),
            "squashed, not clipped": either([action, np.tanh(action)], [np.tanh(action)] * 2),
            "the standard deviation is squared, or left out": either(
                [mean + std**2 * noise, np.clip(mean + std**2 * noise, low, high)],
                [mean + noise, np.clip(mean + noise, low, high)],
                [mean + std**0.5 * noise, np.clip(mean + std**0.5 * noise, low, high)],
            ),
        },
        stored=stored[0],
        sent=sent[0],
        wide=wide[0],
    )
    yield from recognise(
        logp,
        {
            "the log-probability of the clipped action": at_edge.sum(-1),
            "the mean over the components, not the sum": right.mean(-1),
            "the density, not its logarithm": np.exp(right.sum(-1)),
            "the normal's constant is missing": right.sum(-1) + np.log(2 * np.pi),
            "the logarithm of std is missing": right.sum(-1) + np.log(3),
        },
        edge=at_edge.sum(-1),
    )
    yield Property(
        "the environment never gets an action outside the bounds",
        bool((sent >= low).all() and (sent <= high).all()),
        f"it gets {numbers(sent[0])}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size, width = rng.integers(1, 5), rng.integers(1, 4)
        low = -rng.exponential(size=width)
        return {
            "mean": rng.choice([0.3, 3]) * rng.normal(size=(size, width)),
            "std": np.exp(rng.normal(size=width)),
            "noise": rng.normal(size=(size, width)),
            "low": low,
            "high": low + 0.1 + 2 * rng.exponential(size=width),
        }

    def slow(p: Problem) -> np.ndarray:
        rows = []
        for m, e in zip(p.mean, p.noise, strict=True):
            a = [x + s * z for x, s, z in zip(m, p.std, e, strict=True)]
            box = [sorted([lo, x, hi])[1] for x, lo, hi in zip(a, p.low, p.high, strict=True)]
            log = sum(float(_normal(np.array(x), y, s)) for x, y, s in zip(a, m, p.std, strict=True))
            rows.append([*a, *box, log])
        return np.array(rows)

    def run(*given: Any) -> np.ndarray:
        stored, sent, logp = ask(*(x.numpy() for x in given))
        return np.concatenate([stored, sent, logp[:, None]], axis=1)

    yield agrees(run, slow, random_problems(draw), what="stored, sent, log-probability, a row for each")


@CHAPTER.check("squashed-logp", section="sec-ppo-tanh")
def squashed_logp(answer: Answer) -> Findings:
    def ask(u: Any, mean: Any, std: Any) -> np.ndarray:
        given = [torch.tensor(np.asarray(x), dtype=torch.float32) for x in (u, mean, std)]
        return as_array(answer(*given), np.shape(u)[:-1], "the log-density", finite=False)

    u, mean, std = np.array([[0.5, -1.0], [0.0, 0.3]]), np.array([0.2, 0.0]), np.array([0.5, 3.0])
    got = ask(u, mean + 0 * u, std)
    normal = _normal(u, mean, std)
    log_det = np.log(1 - np.tanh(u) ** 2)
    single = ask(u[0, :1], mean[:1], std[:1])
    yield from recognise(
        got,
        {
            "the log-determinant is missing": normal.sum(-1),
            "the log-determinant has the wrong sign": (normal + log_det).sum(-1),
            "1 − tanh u, not 1 − tanh² u": (normal - np.log(1 - np.tanh(u))).sum(-1),
            "the determinant, not its logarithm": (normal - np.exp(log_det)).sum(-1),
            "half of the log-determinant is lost": close(got, normal.sum(-1) - log_det.sum(-1) / 2)
            and close(single, normal[0, 0] - log_det[0, 0] / 2),
            "the log-determinant is averaged over the components": normal.sum(-1) - log_det.mean(-1),
            "the log-determinant of one component only": either(
                normal.sum(-1) - log_det[:, 0], normal.sum(-1) - log_det[:, 1]
            ),
            "the mean over the components, not the sum": (normal - log_det).mean(-1),
            "the normal's density is taken at tanh u": either(
                (_normal(np.tanh(u), mean, std) - log_det).sum(-1), _normal(np.tanh(u), mean, std).sum(-1)
            ),
            "tanh is taken twice": (normal - np.log(1 - np.tanh(np.tanh(u)) ** 2)).sum(-1),
            "the density, not its logarithm": np.exp((normal - log_det).sum(-1)),
            "the normal's constant is missing": (normal - log_det).sum(-1) + np.log(2 * np.pi),
            "the logarithm of std is missing": (normal - log_det + np.log(std)).sum(-1),
            "the standard deviation is taken for the variance": (
                _normal(u, mean, np.sqrt(std)) - log_det
            ).sum(-1),
        },
        normal=normal.sum(-1),
        det=log_det.sum(-1),
    )
    alone = ask(u, mean + 0 * u, [0.5])  # one σ for both components
    spread = (_normal(u, mean, np.array([0.5])) - log_det).sum(-1)
    yield from recognise(
        alone,
        {
            "one σ counts once, not for every component": either(
                *(spread + np.log([0.5, 0.5 * (2 * np.pi) ** 0.5])[:, None])
            )
        },
        right=spread,
    )
    far = np.array([5.0, 7.0, 12.0, 40.0, 500.0])
    exact = 2 * (far - np.log(2) + np.log1p(np.exp(-2 * far)))  # minus the log-determinant, by hand
    edge = np.array([ask([[x]], [[x]], [1.0])[0] for x in far]) + np.log(2 * np.pi) / 2
    back = np.array([ask([[-x]], [[-x]], [1.0])[0] for x in far]) + np.log(2 * np.pi) / 2
    small = ~np.isfinite(edge) | ~np.isfinite(back)
    if close(edge[:1], exact[:1], 5e-2) and close(back[:1], exact[:1], 5e-2):
        yield from recognise(
            edge,
            {
                "it overflows at the edge of the bounds": bool(small.any()),
                "beyond some u the correction stands still": bool(
                    not close(edge[3], exact[3], 1e-2) and np.ptp([*edge[3:], *back[3:]]) < 1e-3
                ),
                "only one edge of the bounds is safe": not close(edge, back, 1e-2),
            },
            edge=edge,
            back=back,
            right=exact[3],
        )
    grid = np.linspace(-8, 8, 8001)
    masses = []
    for m, s in ((0.0, 1.0), (0.8, 0.3)):
        density = np.exp(ask(grid[:, None], np.full((8001, 1), m), [s]))
        masses.append(float((density[:-1] + density[1:]) @ np.diff(np.tanh(grid)) / 2))
    yield Property(
        "the probabilities of all actions in (−1, 1) add up to one",
        close(masses, [1.0, 1.0], 1e-2),
        f"for two Gaussians they add up to {numbers(masses)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        lead, width = tuple(rng.integers(1, 4, rng.integers(0, 3))), rng.integers(1, 4)
        mean = rng.choice([0.3, 2, 15]) * rng.normal(size=(*lead, width))
        shapes = [(width,), (1,), (), (*lead, 1), (*lead, width), (1,) * mean.ndim]
        std = np.array(np.exp(rng.normal(size=shapes[rng.integers(6)])))
        away = rng.choice([1, 1, 6]) * rng.normal(size=mean.shape)
        return {"u": mean + std * away, "mean": mean, "std": std}

    def slow(p: Problem) -> np.ndarray:
        """Return the probability of a short stretch of actions, by its own length: one number at a time."""
        out, std = np.zeros(p.u.shape[:-1]), np.broadcast_to(p.std, p.u.shape)
        for i in np.ndindex(p.u.shape):
            x, m, s = p.u[i], p.mean[i], std[i]
            # cosh⁻² is how fast tanh moves, and its logarithm from |x| alone is safe anywhere.
            slope = 2 * np.log(2 / (1 + np.exp(-2 * abs(x)))) - 2 * abs(x)
            out[i[:-1]] += float(_normal(np.array(x), m, s)) - slope
        return out

    def total(u: Any, mean: Any, std: Any) -> Any:
        return answer(u, mean, std).sum()

    yield agrees(answer, slow, random_problems(draw), what="the log-density")
    by = ("mean", "std")
    yield agrees(total, lambda p: float(slow(p).sum()), random_problems(draw, 8), what="their sum", by=by)
