"""Checks of the loss and its parts: the critic's, the entropy, the whole, and where the clip is flat."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems
from . import CHAPTER, parts

# V, V_old, return: moved up or down, within a clip range of 0.5 or beyond, towards the target or past it.
SAMPLES = np.array(
    [
        (1.2, 1.0, 3.0),
        (2.0, 1.0, 3.0),
        (2.0, 1.0, 1.0),
        (0.0, 1.0, 2.0),
        (-1.0, 1.0, -3.0),
        (2.0, 1.0, 1.9),
        (5.0, 4.0, 9.0),
    ]
)
EPS = 0.5


def log_softmax(z: np.ndarray) -> np.ndarray:
    z = z - z.max(-1, keepdims=True)
    return np.asarray(z - np.log(np.exp(z).sum(-1, keepdims=True)))


# ---------------------------------------------------------------------------------------------------
# The critic's part


@CHAPTER.check("critic-loss", section="sec-ppo-value-loss")
def critic_loss(answer: Answer) -> Findings:
    def ask(v: Any, r: Any, old: Any = None, eps: float | None = None) -> float:
        given = [torch.tensor(np.atleast_1d(x), dtype=torch.float32) for x in (v, r)]
        rest: list[Any] = [] if old is None else [torch.tensor(np.atleast_1d(old), dtype=torch.float32)]
        rest += [] if eps is None else [eps]
        return float(as_array(answer(*given, *rest), (), "your loss", finite=False))

    plain, four, unasked = ask(2.0, 5.0), ask([2.0] * 4, [5.0] * 4), ask(2.0, 5.0, old=1.0)
    grid = ask(np.full((2, 3), 2.0), np.full((2, 3), 5.0))
    leaves = leaf([[2.0, 4.0]]), leaf([[5.0, 4.5]]), leaf([[1.0, 4.1]])
    by_value = gradients(answer(*leaves[:2]), leaves[0])[0]
    _, by_return, by_old = gradients(answer(*leaves, 0.5), *leaves)
    yield from recognise(
        by_value,
        {
            "no gradient reaches the values": 0,
            "the returns are not detached": np.abs(by_return).max() > 1e-7,
            "the old values are not detached": np.abs(by_old).max() > 1e-7,
        },
        returns=by_return.ravel(),
        old=by_old.ravel(),
    )
    yield from recognise(
        plain,
        {
            "the half is forgotten": 9.0,
            "the half is there twice": 2.25,
            "the error is not squared": either(3.0, 1.5, -3.0, -1.5),
            "a reward, not a loss": either(-4.5, -9.0),
            "a sum, not a mean": close(plain, 4.5) and close(four, 18.0),
            "divided by the length of one axis": close([plain, four], [4.5, 4.5])
            and (close(grid, 4.5 * 3) or close(grid, 4.5 * 2)),
            "it clips without clip_eps": not close(unasked, plain),
            "a part of the gradient is cut off": close(by_value, [[-0.75, -0.125]]),
        },
        four=four,
        grid=grid,
        unasked=unasked,
        slope=by_value[0],
    )
    got = np.array([ask(v, r, old, EPS) for v, old, r in SAMPLES])
    narrow = np.array([ask(v, r, old, 0.1) for v, old, r in SAMPLES])
    v, old, r = SAMPLES.T
    free, box = (v - r) ** 2 / 2, (np.clip(v, old - EPS, old + EPS) - r) ** 2 / 2

    def around(centre: Any, low: Any, high: Any) -> Any:
        away = (centre + np.clip(v - centre, low, high) - r) ** 2 / 2
        return either(away, np.maximum(free, away), np.minimum(free, away))

    pair = ask([2.0, 2.0], [3.0, 1.0], [1.0, 1.0], EPS)
    yield from recognise(
        got,
        {
            "the smaller error, not the larger": np.minimum(free, box),
            "the clip without the larger of the two": box,
            "nothing is clipped": free,
            "the clip is put on the value itself": around(0, -EPS, EPS),
            "the clip is a share of the old value": around(0, old * (1 - EPS), old * (1 + EPS)),
            "the clip is around the return": around(r, -EPS, EPS),
            "clipped on one side only": either(
                *(
                    choose(free, ((old + cut - r) ** 2) / 2)
                    for cut in (np.minimum(v - old, EPS), np.maximum(v - old, -EPS))
                    for choose in (np.maximum, lambda _, cut: cut)
                )
            ),
            "clip_eps is not used": close(got, narrow),
            "the two errors are added": either(free + box, (free + box) / 2),
            "with clip_eps the half is forgotten": 2 * np.maximum(free, box),
            "the half is on one of the two only": either(
                np.maximum(2 * free, box), np.maximum(free, 2 * box)
            ),
            "the larger of two means": close(got, np.maximum(free, box))
            and close(pair, max((free[1] + free[2]) / 2, (box[1] + box[2]) / 2)),
        },
        towards=got[1],
        back=got[2],
        pair=pair,
        first=got[1],
        second=got[2],
        narrow=narrow[1],
    )
    yield Property(
        "a value inside the clip range is judged as if there were none",
        close(got[0], free[0]),
        f"V = 1.2, V_old = 1, return 3: {got[0]:.4g}",
    )
    yield Property(
        "a value that has left the clip range towards its target is judged at the end of the clip range",
        close(got[[1, 4]], [1.125, 6.125]),
        f"at V = 2 and −1, V_old = 1, returns 3 and −3 it is {numbers(got[[1, 4]])}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        shape = tuple(rng.integers(1, 4, rng.integers(0, 4)))
        scale = rng.choice([0.1, 1, 50])
        old = np.array(scale * rng.normal(size=shape))
        eps = scale * float(rng.choice([0.05, 0.2, 1]))
        moved = rng.choice([0.3, 3]) * eps * rng.normal(size=shape)
        returns = np.array(old + scale * rng.normal(size=shape))
        return {"values": np.array(old + moved), "returns": returns, "old_values": old, "clip_eps": eps}

    def unclipped(rng: np.random.Generator) -> dict[str, Any]:
        left_out = rng.choice(["clip_eps", "old_values"])
        drawn = draw(rng) | {"clip_eps": None}
        return {name: value for name, value in drawn.items() if name not in (left_out, "clip_eps")}

    def slow(p: Problem) -> float:
        errors = []
        for i, (now, target) in enumerate(zip(p.values.flat, p.returns.flat, strict=True)):
            squares = [(now - target) ** 2]
            if hasattr(p, "clip_eps"):
                before = p.old_values.flat[i]
                nearest = sorted([before - p.clip_eps, now, before + p.clip_eps])[1]
                squares.append((nearest - target) ** 2)
            errors.append(sorted(squares)[-1])
        return sum(errors) / len(errors) / 2

    bare, held = random_problems(unclipped, 10), ("returns", "old_values")
    yield agrees(answer, slow, bare, what="your loss, unclipped,", by=("values",), held=held[:1])
    yield agrees(answer, slow, random_problems(draw), what="your loss", by=("values",), held=held)


@CHAPTER.check("value-clip-slope", section="sec-ppo-value-loss")
def value_clip_slope(answer: Answer) -> Findings:
    def ask(samples: np.ndarray, eps: float) -> np.ndarray:
        given = [torch.tensor(column, dtype=torch.float32) for column in samples.T]
        return as_array(answer(*given, eps), (len(samples),), "the pushes")

    got = ask(SAMPLES, EPS)
    v, old, r = SAMPLES.T
    full, away = v - r, np.abs(v - old) > EPS
    further = np.sign(v - old) * (r - v) > 0
    box = np.clip(v, old - EPS, old + EPS)
    right = np.array([-1.8, 0.0, 1.0, -2.0, 0.0, 0.0, 0.0])  # of the seven samples, by hand
    yield from recognise(
        got,
        {
            "the way the value goes, not the gradient": either(-right, -full, -full * ~away),
            "the slope without the half": either(2 * right, 2 * full),
            "averaged already": either(right / 7, full / 7),
            "nothing is flat": full,
            "flat wherever the value has left the clip range": full * ~away,
            "flat only where the target lies further on": full * ~(away & further),
            "flat where the error at the end of the clip range is the smaller": full
            * ~(away & (np.abs(box - r) < np.abs(v - r))),
            "flat on the wrong side": full * ~(away & ~further),
            "the error at the end of the clip range": either(
                box - r, np.where(np.abs(box - r) > np.abs(v - r), box - r, full)
            ),
            "the loss, not its slope": either(full**2 / 2, np.maximum(full**2, (box - r) ** 2) / 2),
            "flat in one direction only": either(
                full * ~(away & further & (v > old)),
                full * ~(away & (np.abs(box - r) > np.abs(v - r)) & (v > old)),
                full * ~(away & (np.abs(box - r) > np.abs(v - r)) & (v < old)),
            ),
            "the size of the error is lost": close(got, np.sign(right)),
        },
        last=got[5],
        towards=got[1],
        back=got[2],
    )
    near = ask(np.array([[2.0, 1.0, 1.6]]), EPS)[0]
    yield from recognise(near, {"flat as soon as the target lies beyond the clip range": 0})
    yield Property(
        "inside the clip range the push is V − R",
        close(got[0], -1.8),
        f"at V = 1.2, V_old = 1 and return 3 it is {got[0]:.4g}",
    )
    yield Property(
        "a value that moved the wrong way is always pushed back",
        close(got[2], 1.0),
        f"at V = 2, V_old = 1 and return 1 it is {got[2]:.4g}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size, scale = rng.integers(1, 8), rng.choice([0.1, 1, 50])
        eps = scale * float(rng.choice([0.05, 0.2, 1]))
        old = scale * rng.normal(size=size)
        values = old + rng.choice([0.5, 2, 5]) * eps * rng.normal(size=size)
        # Targets near the value, on either side of it, and far away.
        near = values - np.sign(values - old) * eps * rng.uniform(-1, 2, size)
        returns = np.where(rng.random(size) < 0.6, near, old + scale * rng.normal(size=size))
        return {"values": values, "old_values": old, "returns": returns, "eps": eps}

    def slow(p: Problem) -> list[float]:
        """By differences of half the larger square, one sample at a time."""

        def half(now: float, before: float, target: float) -> float:
            nearest = sorted([before - p.eps, now, before + p.eps])[1]
            return sorted([(now - target) ** 2, (nearest - target) ** 2])[-1] / 2

        rows, h = zip(p.values, p.old_values, p.returns, strict=True), 1e-7 * p.eps
        return [(half(a + h, b, c) - half(a - h, b, c)) / (2 * h) for a, b, c in rows]

    yield agrees(answer, slow, random_problems(draw, 40), what="the pushes")


# ---------------------------------------------------------------------------------------------------
# The entropy


@CHAPTER.check("two-entropies", section="sec-ppo-entropy")
def two_entropies(answer: Answer) -> Findings:
    def ask(logits: Any, std: Any, shape: tuple[int, ...], finite: bool = True) -> list[np.ndarray]:
        given = (torch.tensor(np.asarray(x), dtype=torch.float32) for x in (logits, std))
        both = parts(answer(*given), ("the categorical entropy", "the Gaussian one"))
        kinds = ("the categorical entropy", "the Gaussian entropy")
        return [as_array(x, shape, kind, finite=finite) for x, kind in zip(both, kinds, strict=True)]

    def slopes(logits: Any, std: Any) -> list[np.ndarray]:
        leaves = leaf(logits), leaf(std)
        both = parts(answer(*leaves), ("the categorical entropy", "the Gaussian one"))
        kinds = ("the categorical entropy", "the Gaussian entropy")
        return [
            gradients(x.sum() if isinstance(x, Tensor) else x, of, what=kind)[0]
            for x, of, kind in zip(both, leaves, kinds, strict=True)
        ]

    logits = np.log([[0.5, 0.25, 0.25], [0.8, 0.1, 0.1]]) + 3
    std = np.array([[0.1, 2.0], [0.01, 0.5]])
    by_logits, by_std = slopes(logits, std)
    discrete, gaussian = ask(logits, std, (2,), finite=False)
    p = np.array([[0.5, 0.25, 0.25], [0.8, 0.1, 0.1]])
    h = -(p * np.log(p)).sum(1)
    yield from recognise(
        discrete,
        {
            "a categorical entropy below zero": -h,
            "in bits, not in nats": h / np.log(2),
            "the mean over the actions, not the sum": h / 3,
            "the logits are taken for log-probabilities": either(-(p * logits).sum(1), (p * logits).sum(1)),
            "the logits are taken for probabilities": either(
                -(logits * np.log(logits)).sum(1), (logits * np.log(logits)).sum(1)
            ),
            "log π without π": either(-np.log(p).sum(1), -np.log(p).mean(1)),
        },
    )
    per = 0.5 * np.log(2 * np.pi * np.e) + np.log(std)
    right = per.sum(1)
    yield from recognise(
        gaussian,
        {
            "the sign of the Gaussian's entropy": -right,
            "the mean over the components, not the sum": right / 2,
            "a Gaussian's entropy kept above zero": either(
                per.clip(0).sum(1), right.clip(0), np.abs(per).sum(1), np.abs(right)
            ),
            "the standard deviation is taken for the variance": (per - np.log(std) / 2).sum(1),
            "the standard deviation is squared once too often": (per + np.log(std)).sum(1),
            "the Gaussian's half is missing": (per - 0.5).sum(1),
            "the standard deviation is taken for its logarithm": (per - np.log(std) + std).sum(1),
            "only the logarithms": np.log(std).sum(1),
            "the constant is counted once": right - 0.5 * np.log(2 * np.pi * np.e),
        },
    )
    certain = [[0.0, -2000.0, -200.0]]
    sure = ask(certain, [[1.0]], (1,), finite=False)[0]
    yield from recognise(sure, {"nan where an action is certain": bool(~np.isfinite(sure).all())})
    at_certain = slopes(certain, [[1.0]])[0]
    for kind, slope in (("the categorical entropy", by_logits), ("the Gaussian entropy", by_std)):
        yield from recognise(
            slope,
            {
                "an entropy without a gradient": 0,
                "nan in the gradient where an action is certain": bool(~np.isfinite(at_certain).all()),
            },
            what=kind,
            slope=at_certain[0],
        )
    even = [float(ask(np.zeros((1, n)), [[1.0]], (1,))[0][0]) for n in (1, 2, 5)]
    yield Property(
        "n equally likely actions have ln n",
        close(even, np.log([1, 2, 5])),
        f"with 1, 2 and 5 of them it is {numbers(even)}",
    )
    twice = [float(ask([[0.0]], [[s]], (1,))[1][0]) for s in (0.05, 0.1)]
    yield Property(
        "a Gaussian twice as wide has ln 2 more",
        close(twice[1] - twice[0], np.log(2)),
        f"for std 0.05 and 0.1 it is {numbers(twice)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        lead = tuple(rng.integers(1, 4, rng.integers(0, 4)))
        scale, offset = rng.choice([0.3, 2, 10]), rng.choice([-200, 0, 0, 100], size=(*lead, 1))
        return {
            "logits": scale * rng.normal(size=(*lead, rng.integers(1, 6))) + offset,
            "std": np.exp(rng.choice([0.2, 2, 3]) * rng.normal(size=(*lead, rng.integers(1, 4)))),
        }

    def slow(p: Problem) -> np.ndarray:
        """One distribution at a time; the Gaussian's by a sum over a fine grid."""
        z = np.linspace(-9, 9, 3601)
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        out = np.zeros((2, *p.logits.shape[:-1]))
        for i in np.ndindex(p.logits.shape[:-1]):
            weights = [np.exp(x - max(p.logits[i])) for x in p.logits[i]]
            shares = [w / sum(weights) for w in weights]
            out[(0, *i)] = sum(q * np.log(1 / q) for q in shares if q > 0)
            for s in p.std[i]:
                out[(1, *i)] += float(-(density * np.log(density / s)).sum() * (z[1] - z[0]))
        return out

    def stacked(*given: Any) -> np.ndarray:
        shape = tuple(given[0].shape[:-1])
        both = parts(answer(*given), ("the categorical entropy", "the Gaussian one"))
        return np.stack([as_array(x, shape, "an entropy") for x in both])

    def total(logits: Tensor, std: Tensor) -> Any:
        both = parts(answer(logits, std), ("the categorical entropy", "the Gaussian one"))
        return both[0].sum() + both[1].sum()

    yield agrees(stacked, slow, random_problems(draw), what="the categorical and the Gaussian entropy")
    by = ("logits", "std")
    gentle = [Problem(logits=p.logits, std=p.std.clip(0.02)) for p in random_problems(draw, 8)]
    yield agrees(total, lambda p: float(slow(p).sum()), gentle, what="their sum", by=by)


@CHAPTER.check("hunt-entropy", section="sec-ppo-entropy")
def hunt_entropy(answer: Answer) -> Findings:
    def ask(probs: Any, actions: Any, worth: Any, coef: float) -> float:
        logits = torch.tensor(np.log(probs) + 1, dtype=torch.float32)
        call = logits, torch.tensor(actions), torch.tensor(worth, dtype=torch.float32), coef
        return float(as_array(answer(*call), (), "your loss"))

    # Two states with the same entropy. Without an advantage only the bonus is left.
    p, weight = np.array([[0.5, 0.3, 0.2], [0.5, 0.2, 0.3]]), 0.5
    bonus, policy = ask(p, [0, 0], [0.0, 0.0], weight), ask(p[:1], [0], [2.0], 0.0)
    pair, apart = ask(p[[0, 1, 0, 1]], [0] * 4, [0.0] * 4, weight), ask(p, [0, 1], [2.0, -1.0], 0.0)
    h = float(-(p[0] * np.log(p[0])).sum())
    twice = ask(p, [0, 0], [0.0, 0.0], 2 * weight)
    yield from recognise(
        bonus,
        {
            "the sign of the entropy is still wrong": weight * h,
            "no bonus is left": 0,
            "the entropy of the mean policy": weight * (p.mean(0) * np.log(p.mean(0))).sum(),
            "the mean over the actions, not the sum": either(-weight * h / 3, weight * h / 3),
            "log π of the sampled action, not the entropy": either(
                weight * np.log(0.5), -weight * np.log(0.5), 0.5 * weight * np.log(0.5)
            ),
            "the coefficient is not used": close(bonus, twice),
            "a sum, not a mean": close(bonus, -2 * weight * h) and close(pair, 2 * bonus),
        },
        h=h,
        bonus=bonus,
    )
    yield from recognise(
        policy,
        {
            "the policy's part is turned round": 2 * np.log(0.5),
            "no policy part is left": close([policy, apart], [0, 0]),
        },
        policy=policy,
    )

    logits = leaf(np.log(p))
    felt = gradients(answer(logits, torch.tensor([0, 0]), torch.zeros(2), weight), logits, what="your loss")[
        0
    ]
    yield from recognise(felt, {"an entropy without a gradient": 0}, what="the bonus")

    def slow(p: Problem) -> float:
        total = 0.0
        for z, action, a in zip(p.logits, p.actions, p.advantages, strict=True):
            logs = log_softmax(z)
            unsure = sum(np.exp(log) * -log for log in logs)
            total -= a * logs[action] + p.entropy_coef * unsure
        return total / len(p.actions)

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size, arms = rng.integers(1, 7), rng.integers(2, 6)
        return {
            "logits": rng.choice([0.3, 2]) * rng.normal(size=(size, arms)),
            "actions": rng.integers(arms, size=size),
            "advantages": rng.choice([0.01, 1, 20]) * rng.normal(rng.choice([-1, 0, 1]), size=size),
            "entropy_coef": float(rng.choice([0.0, 0.01, 0.3, 2])),
        }

    held = ("advantages",)
    yield agrees(answer, slow, random_problems(draw), what="your loss", by=("logits",), held=held)


# ---------------------------------------------------------------------------------------------------
# The whole


@CHAPTER.check("whole-loss", section="sec-ppo-three-parts")
def whole_loss(answer: Answer) -> Findings:
    def call(*given: Any, **coefs: float) -> Any:
        logp, old, worth, values, returns, entropy = given
        return answer(logp, old, worth, values[..., None], returns, entropy, **coefs)

    def ask(v: float, e: float, ratios: Any = (1.0, 1.0), worth: Any = (1.0, -1.0), **more: Any) -> float:
        n = len(ratios)
        old = torch.full((n,), more.get("level", -1.0))
        given = (
            old + torch.tensor(ratios).log(),
            old,
            torch.tensor(worth),
            torch.tensor(more.get("values", [0.0] * n)),
            torch.tensor(more.get("returns", [0.0] * n)),
            torch.tensor(more.get("entropy", [0.0] * n)),
        )
        eps = more.get("eps", 0.2)
        back = call(*given, clip_eps=eps, value_coef=v, entropy_coef=e)
        return float(as_array(back, (), "your loss", finite=n > 1 and "values" in more))

    critic = {"values": [1.0, 4.0], "returns": [2.0, 6.0]}  # the errors −1 and −2
    value, half = (ask(v, 0.0, **critic) for v in (1.0, 0.5))
    bonus, more = (ask(0.0, e, entropy=[0.6, 1.0]) for e in (1.0, 0.25))
    mixed = ask(0.0, 1.0, **critic)
    four = ask(1.0, 0.0, (1.0,) * 4, (1.0, -1.0) * 2, values=[1.0] * 4, returns=[3.0] * 4)
    yield from recognise(
        value,
        {
            "a sum, not a mean": close(four, 8.0),
            "the critic's coefficient is not used": close(value, half) and abs(value) > 1e-3,
            "values and returns are broadcast against each other": either(4.25, 8.5),
            "the half is forgotten": 2.5,
            "the half is there twice": 0.625,
            "the critic is asked to be wrong": either(-1.25, -2.5),
            "the critic's part is missing": close(value, 0) and close(half, 0) and close(mixed, 0),
            "the two coefficients are exchanged": close(value, 0) and close(mixed, 1.25),
        },
        half=half,
        four=four,
    )
    yield from recognise(
        bonus,
        {
            "the entropy is punished": 0.8,
            "the bonus is missing": close(bonus, 0) and close(more, 0),
            "the bonus's coefficient is not used": close(bonus, more),
            "a sum, not a mean": -1.6,
        },
        four=four,
        more=more,
    )
    good = [ask(0.0, 0.0, (r,), (1.0,)) for r in (0.5, 1.1, 1.5)]
    bad = [ask(0.0, 0.0, (r,), (-1.0,)) for r in (0.5, 1.1, 1.5)]
    pair = ask(0.0, 0.0, (1.0, 1.0), (1.0, 3.0))
    rare = ask(0.0, 0.0, (1.1,), (1.0,), level=-200.0)
    wide, apart = ask(0.0, 0.0, (1.5,), (1.0,), eps=0.7), ask(0.0, 0.0, (1.1, 0.9), (1.0, -1.0))
    yield from recognise(
        [np.array(good), np.array(bad)],
        {
            "the policy's part is missing": close([pair, apart, *good, *bad], np.zeros(8)),
            "the advantages are normalised inside the loss": close(pair, 0) or not np.isfinite(good[0]),
            "a reward, not a loss": [[0.5, 1.1, 1.2], [-0.8, -1.1, -1.5]],
            "nothing is clipped": [[-0.5, -1.1, -1.5], [0.5, 1.1, 1.5]],
            "min and max swapped": either(
                [[-0.8, -1.1, -1.5], [0.5, 1.1, 1.2]], [[0.8, 1.1, 1.5], [-0.5, -1.1, -1.2]]
            ),
            "the clip without the minimum": [[-0.8, -1.1, -1.2], [0.8, 1.1, 1.2]],
            "a sum, not a mean": close(pair, -4.0),
            "the probabilities are 0 in a float": not np.isfinite(rare),
            "clip_eps is not used": close(good, [-0.5, -1.1, -1.2]) and close(wide, -1.2),
        },
        pair=pair,
        good=good,
        bad=bad,
        four=four,
        wide=wide,
    )
    names = ("logp", "old_logp", "advantages", "values", "returns", "entropy")
    rows = ([-1.0, -1.2], [-1.05, -1.1], [1.0, -2.0], [1.0, 4.0], [2.0, 6.0], [0.6, 1.0])
    leaves = [leaf(row) for row in rows]
    loss = call(*leaves, clip_eps=0.2, value_coef=1.0, entropy_coef=1.0)
    felt = dict(zip(names, gradients(loss, *leaves), strict=True))
    reached = {name: bool(np.abs(slope).max() > 1e-7) for name, slope in felt.items()}
    yield from recognise(
        felt["logp"],
        {
            "no gradient reaches logp": not reached["logp"],
            "no gradient reaches the values": not reached["values"],
            "no gradient reaches the entropy": not reached["entropy"],
            "old_logp is not detached": reached["old_logp"],
            "the advantages are not detached": reached["advantages"],
            "the returns are not detached": reached["returns"],
        },
        old=felt["old_logp"],
        worth=felt["advantages"],
        returns=felt["returns"],
    )
    rows = ([-0.9, -1.2], [-1.05, -0.95], *rows[2:])  # two ratios between 0.7 and 1.3, and no others
    given = [torch.tensor(row) for row in rows]
    left_out = float(as_array(call(*given), (), "your loss"))
    full = float(as_array(call(*given, clip_eps=0.2, value_coef=0.5, entropy_coef=0.01), (), "your loss"))
    yield Property(
        "the settings left out are 0.2, 0.5 and 0.01",
        close(left_out, full),
        f"without them your loss is {left_out:.4g}, with them {full:.4g}",
    )

    def slow(p: Problem) -> float:
        total, n = 0.0, len(p.logp)
        for i in range(n):
            r, a = np.exp(p.logp[i] - p.old_logp[i]), p.advantages[i]
            nearest = sorted([1 - p.clip_eps, r, 1 + p.clip_eps])[1]
            total -= sorted([r * a, nearest * a])[0] / n
            total += p.value_coef * (p.values[i, 0] - p.returns[i]) ** 2 / 2 / n
            total -= p.entropy_coef * p.entropy[i] / n
        return total

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        n, scale = rng.integers(1, 8), rng.choice([0.1, 1, 20])
        old = rng.choice([0, 0, -120]) - rng.exponential(size=n)
        return {
            "logp": old + rng.choice([0.1, 0.5]) * rng.normal(size=n),
            "old_logp": old,
            "advantages": rng.choice([0.1, 1, 10]) * rng.normal(rng.choice([-1, 0, 1]), size=n),
            "values": scale * rng.normal(size=(n, 1)),
            "returns": scale * rng.normal(size=n),
            "entropy": rng.normal(0.5, size=n),  # a Gaussian's may be negative
            "clip_eps": float(rng.choice([0.1, 0.2, 0.4])),
            "value_coef": float(rng.choice([0.0, 0.5, 1.0])),
            "entropy_coef": float(rng.choice([0.0, 0.01, 0.5])),
        }

    def by_name(*given: Any) -> Any:
        keys = ("clip_eps", "value_coef", "entropy_coef")
        return answer(*given[:6], **dict(zip(keys, given[6:], strict=True)))

    by, held = ("logp", "values", "entropy"), ("old_logp", "advantages", "returns")
    yield agrees(by_name, slow, random_problems(draw), what="your loss", by=by, held=held)
