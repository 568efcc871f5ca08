"""Checks of the clipped loss: written, hunted for two bugs, and with its gauges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems
from . import CHAPTER, near_the_ends

OLD = 0.25  # the old probability of every sample: ratios up to 4 are possible, and its logarithm is not 0
RATIOS = (0.5, 0.9, 1.0, 1.1, 1.5, 2.0)
GRID = np.array([(r, a, eps) for eps in (0.2, 0.4) for a in (1.0, -1.0, 3.0) for r in RATIOS])

Loss = Callable[..., Any]


def tensors(ratios: Any, advantages: Any, columns: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """logp, old_logp and advantages of samples that have these ratios, as leaves in `columns` columns."""
    shape = (-1, columns) if len(ratios) % columns == 0 and len(ratios) > 1 else (1, -1)
    logp = np.log(OLD * np.array(ratios)).reshape(shape)
    return leaf(logp), leaf(np.full_like(logp, np.log(OLD))), leaf(np.reshape(advantages, shape))


def loss_findings(call: Loss, dims: tuple[int, ...] = (2,), default: bool = True) -> Findings:
    """The findings about a clipped loss in torch: its gradient, then what it is at single samples.

    dims : of the tensors in the random problems
    default : whether eps may be left out
    """
    given = tensors([1.1, 0.9, 1.05, 0.95], [2.0, 2.0, -1.0, -1.0], 2)
    by_logp, by_old, by_worth = gradients(call(*given, 0.2), *given)
    yield from recognise(by_logp, {"no gradient reaches logp": 0})

    def objective(ratios: Any, advantages: Any, *eps: float) -> float:
        back = call(*tensors(ratios, advantages, 2), *eps)
        return -float(as_array(back, (), "your loss", finite=False))

    got = np.array([objective([r], [a], eps) for r, a, eps in GRID])
    pair, four = objective([1, 1], [1, 3], 0.2), objective([1] * 4, [1] * 4, 0.2)
    apart = objective([2, 1], [1, 3], 0.2)
    n = len(RATIOS)
    good, bad, triple = got[:n], got[n : 2 * n], got[2 * n : 3 * n]
    plain, grown = good[2], good[3]
    r, a, eps = GRID.T
    log, box = np.log(r), np.clip(r, 1 - eps, 1 + eps)
    divided = np.log(OLD * r) / np.log(OLD)
    flat = ((a > 0) & (r > 1 + eps)) | ((a < 0) & (r < 1 - eps))
    yield from recognise(
        got,
        {
            "the advantages are centred inside the loss": abs(apart) > 0.1
            and close([pair, *np.nan_to_num(good)], np.zeros(n + 1)),
            "a reward, not a loss": close(plain, -1.0) and grown < plain - 1e-4,
            "the ratio is upside down": close(grown, 1 / 1.1, 1e-3),
            "ratio by division": either(
                np.minimum(divided * a, np.clip(divided, 1 - eps, 1 + eps) * a), divided * a
            ),
            "the logarithm of the ratio, not the ratio": either(
                log * a,
                np.minimum(log * a, np.clip(log, 1 - eps, 1 + eps) * a),
                np.minimum(log * a, np.clip(log, -eps, eps) * a),
            ),
            "the clip range is around 0, not around 1": either(
                np.minimum(r * a, np.clip(r, -eps, eps) * a),
                np.minimum(r * a, np.clip(r - 1, -eps, eps) * a),
                np.clip(r, -eps, eps) * a,
            ),
            "the two ends of the clip range are exchanged": either(
                *(
                    choose(r * a, end * a)
                    for choose in (np.minimum, np.maximum)
                    for end in (1 - eps, 1 + eps)
                ),
            ),
            "the clip is put on the logarithm": either(
                *(
                    choose(r * a, np.exp(np.clip(log, low, high)) * a)
                    for choose in (np.minimum, lambda _, clipped: clipped)
                    for low, high in ((-eps, eps), (1 - eps, 1 + eps))
                )
            ),
            "a sum, not a mean": abs(plain) > 1e-4 and (close(four, 4 * plain) or close(four, 2 * plain)),
            "the clip is put on the advantage": either(
                *(
                    choose(r * a, r * np.clip(a, low, high))
                    for choose in (np.minimum, lambda _, clipped: clipped)
                    for low, high in ((1 - eps, 1 + eps), (-eps, eps))
                )
            ),
            "the clip is put on the product": either(
                np.minimum(r * a, np.clip(r * a, 1 - eps, 1 + eps)),
                np.minimum(r * a, np.clip(r * a, -eps, eps)),
                np.clip(r * a, 1 - eps, 1 + eps),
            ),
            "the ratio is always 1": a,
            "flat is taken for worth nothing": r * a * ~flat,
            "the mean leaves out what is flat": bool(
                np.isfinite(got[~flat]).all() and not np.isfinite(got[flat]).any()
            ),
            "min and max swapped": np.maximum(r * a, box * a),
            "the clip without the minimum": box * a,
            "the minimum is taken of the ratios": np.minimum(r, box) * a,
            "nothing is clipped": r * a,
            "clipped on one side only": either(
                np.minimum(r * a, np.minimum(r, 1 + eps) * a), np.minimum(r * a, np.maximum(r, 1 - eps) * a)
            ),
            "the sign of the advantage is lost": grown > 0.1 and close(good, bad),
            "the size of the advantage makes no difference": grown > 0.1 and close(good, triple),
            "eps is not used": grown > 0.1 and close(got[: 3 * n], got[3 * n :]),
        },
        good=good,
        bad=bad,
        plain=plain,
        pair=pair,
        four=four,
        wide=got[4 + 3 * n],
        triple=triple[2],
    )
    yield from recognise(  # after what is graver
        by_logp,
        {
            "old_logp is not detached": np.abs(by_old).max() > 1e-7,
            "the advantages are not detached": np.abs(by_worth).max() > 1e-7,
        },
        old=by_old.ravel(),
        worth=by_worth.ravel(),
    )
    worth, far = (3.0, 0.1, -0.5), objective([1e9], [-1], 0.2)
    even = [objective([1], [a], 0.2) for a in worth]
    yield Property(
        "at ρ = 1 the objective is the advantage, whatever it is",
        close(even, worth),
        f"for A = 3, 0.1 and −0.5 it is {numbers(even)}",
    )
    yield Property(
        "a good action counts in full until 1 + ε, and no more beyond",
        close(good, [0.5, 0.9, 1.0, 1.1, 1.2, 1.2]),
        f"for A = +1 and ρ = 0.5, 0.9, 1, 1.1, 1.5, 2 it is {numbers(good, 4)}",
    )
    yield Property(
        "a bad action counts at least 1 − ε, and in full above",
        close(bad, [-0.8, -0.9, -1.0, -1.1, -1.5, -2.0]) and close(far / 1e9, -1.0),
        f"for A = −1 and ρ = 0.5, 0.9, 1, 1.1, 1.5, 2 it is {numbers(bad, 4)}, at 10⁹ {far:.4g}",
    )

    if default:
        left_out = objective([1.5], [1.0])
        said = f"without it your objective at ρ = 1.5 and A = 1 is {left_out:.4g}"
        yield Property("eps is 0.2 where it is left out", close(left_out, 1.2), said)

    def pull(ratio: float, advantage: float) -> float:
        """The slope of the objective by log π, of one sample."""
        given = tensors([ratio], [advantage])
        return -float(gradients(call(*given, 0.2), given[0])[0].sum())

    first = [pull(1.0, 1.0), pull(1.0, -2.0)]
    yield Property(
        "at ρ = 1 it is the policy gradient",
        close(first, [1.0, -2.0]),
        f"for A = 1 and −2 the slope of your objective by log π is {numbers(first)}",
    )

    def slow(p: Problem) -> float:
        terms = []
        for new, old, a in zip(p.logp.flat, p.old_logp.flat, p.advantages.flat, strict=True):
            r = np.exp(new - old)
            nearest = sorted([1 - p.eps, r, 1 + p.eps])[1]
            terms.append(sorted([r * a, nearest * a])[0])
        return -sum(terms) / len(terms)

    held = ("old_logp", "advantages")
    yield agrees(call, slow, _problems(dims), what="your loss", by=("logp",), held=held)


def _problems(dims: tuple[int, ...]) -> list[Problem]:
    def draw(rng: np.random.Generator) -> dict[str, Any]:
        shape = tuple(rng.integers(1, 5, rng.choice(dims)))
        eps = float(rng.choice([0.05, 0.2, 0.3, 0.7]))
        old = -rng.choice([0.1, 1, 5]) * rng.exponential(size=shape)
        change = rng.choice([0.1, 0.5, 1.5]) * rng.normal(size=shape)
        worth = rng.choice([0.01, 1, 100]) * rng.normal(rng.choice([-1, 0, 1]), size=shape)
        return {
            "logp": old + np.where(rng.random(shape) < 0.3, np.log(near_the_ends(rng, eps, shape)), change),
            "old_logp": old,
            "advantages": worth * (rng.random(shape) < 0.8),
            "eps": eps,
        }

    return random_problems(draw)


@CHAPTER.check("clipped-loss", section="sec-clip")
def clipped_loss(answer: Answer) -> Findings:
    back = answer(leaf([[-1.0, -1.1], [-1.2, -1.3]]), torch.full((2, 2), -1.1), torch.ones(2, 2), 0.2)
    if isinstance(back, Tensor) and back.shape in ((2, 2), (2,)):
        yield Mistake("not averaged over all entries", shape=str(list(back.shape)))
    yield from loss_findings(answer, default=False)
    back = answer(torch.tensor([[-2000.0]]), torch.tensor([[-2000.125]]), torch.ones(1, 1), 0.2)
    tiny = as_array(back, (), "your loss", finite=False)
    yield Property(
        "it survives probabilities too small for a float",
        close(tiny, -np.exp(0.125)),
        f"for log-probabilities of −2000 and −2000.125 your loss is {numbers(tiny)}",
    )


@CHAPTER.check("hunt-two-bugs", section="sec-ratio-one")
def hunt_two_bugs(answer: Answer) -> Findings:
    def objective(r: float, a: float, eps: float) -> float:
        return -float(as_array(answer(*tensors([r], [a]), eps), (), "your loss", finite=False))

    got = np.array([objective(*sample) for sample in GRID])
    r, a, eps = GRID.T
    turned, box, upside = 1 / r, np.clip(r, 1 - eps, 1 + eps), np.clip(1 / r, 1 - eps, 1 + eps)
    yield from recognise(
        got,
        {
            "both bugs are still there": -np.maximum(turned * a, upside * a),
            "only the ratio is mended": -np.maximum(r * a, box * a),
            "only the maximum is mended": np.minimum(turned * a, upside * a),
        },
        first=got[2:4],
    )
    yield from loss_findings(answer)


# ---------------------------------------------------------------------------------------------------
# The gauges


KEYS = ("loss", "clip_fraction", "flat_fraction", "approx_kl", "ratio_mean", "ratio_std")


def _entries(back: Any) -> dict[str, Any]:
    if not isinstance(back, dict):
        raise Stop("returned", "no dictionary", f"it must be a dictionary with the keys {', '.join(KEYS)}.")
    missing = [key for key in KEYS if key not in back]
    if missing:
        raise Stop("returned", "keys are missing", f"your dictionary has no {', '.join(missing)}.")
    return back


@CHAPTER.check("clip-diagnostics", section="sec-diagnostics")
def clip_diagnostics(answer: Answer) -> Findings:
    def report(ratios: list[float], worth: list[float], eps: float = 0.2) -> dict[str, Any]:
        logp, old, advantages = tensors(ratios, worth)
        return _entries(answer(logp, old.detach(), advantages.detach(), eps))

    def gauge(name: str, ratios: list[float], worth: list[float], eps: float = 0.2) -> float:
        return float(as_array(report(ratios, worth, eps)[name], (), name))

    # Below the clip range a good action and three bad ones, above it two good ones and a bad one; one inside.
    sample = [0.5, 0.6, 0.7, 0.75, 1.3, 2.0, 1.5, 1.1], [1.0, -1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0]
    first = report(*sample)
    for name in KEYS[1:]:
        if isinstance(first[name], Tensor) and first[name].requires_grad:
            yield Mistake("a gauge is still on the graph", gauge=name)
    outside, flat = gauge("clip_fraction", *sample), gauge("flat_fraction", *sample)
    still = gauge("flat_fraction", [2.0, 0.5], [0.0, 0.0])
    good_low = gauge("flat_fraction", [0.5] * 2, [1.0] * 2)
    yield from recognise(
        np.array([outside, flat]),
        {
            "the two fractions are exchanged": [5 / 8, 7 / 8],
            "in percent, not a share": close(outside, 87.5) or close(flat, 62.5),
            "a count, not a share": outside > 1 or flat > 1,
            "clip_fraction counts one side only": close(outside, 3 / 8) or close(outside, 4 / 8),
            "clip_fraction counts the flat samples": close(outside, 5 / 8),
            "clip_fraction counts those inside": close(outside, 1 / 8),
            "flat_fraction counts all that are outside": close(flat, 7 / 8),
            "flat_fraction counts the wrong side": close(flat, 2 / 8) and close(good_low, 1.0),
            "flat_fraction counts good actions only": close(flat, 2 / 8) and close(good_low, 0.0),
            "flat_fraction counts bad actions only": close(flat, 3 / 8) and close(good_low, 0.0),
            "flat_fraction is a share of those outside": close(flat, 5 / 7),
            "flat_fraction counts samples without an advantage": close(flat, 5 / 8) and still > 0,
        },
        outside=outside,
        flat=flat,
    )
    for name, share in (("clip_fraction", outside), ("flat_fraction", flat)):
        # The ends of the clip range are not alike for log r: ln 0.81 = −0.21, ln 1.21 = 0.19.
        near = [gauge(name, [r] * 2, [np.sign(r - 1)] * 2) for r in (0.81, 0.83, 1.1, 1.21, 1.23)]
        wide = gauge(name, [1.3, 1.3], [1.0, 1.0], 0.4)
        yield from recognise(
            share,
            {
                "eps is not used in a gauge": share > 0.5 and wide > 0 and near[2] == 0,
                "the logarithm is compared with the clip range, not the ratio": close(near, [1, 0, 0, 0, 1]),
            },
            gauge=name,
        )
    two, half = (gauge("approx_kl", [r, r], [1.0, 1.0]) for r in (2.0, 0.5))
    both, zero = gauge("approx_kl", [2.0, 0.5], [1.0, 1.0]), gauge("approx_kl", [1.0, 1.0], [1.0, 1.0])
    tiny, huge = (gauge("approx_kl", [r, r], [1.0, 1.0]) for r in (1e-12, 1e12))
    ln2 = float(np.log(2))
    right = np.array([1 - ln2, ln2 - 0.5, 0.25])
    yield from recognise(
        np.array([two, half, both]),
        {
            "approx_kl has the wrong sign": -right,
            "r − 1 without the logarithm": [1.0, -0.5, 0.25],
            "log r alone": either([ln2, -ln2, 0], [-ln2, ln2, 0]),
            "the KL in the other direction": close([two, half], [2 * ln2 - 1, 0.5 - 0.5 * ln2]),
            "the ratio of the approx_kl is upside down": close([two, half], [ln2 - 0.5, 1 - ln2]),
            "half the squared logarithm": ln2**2 / 2,
            "the logarithm of the mean, not the mean of the logarithms": [*right[:2], 0.25 - np.log(1.25)],
            "approx_kl is a sum, not a mean": 2 * right,
        },
        two=two,
        half=half,
        both=both,
    )
    three = [0.4, 1.0, 1.6]
    mean, std = (gauge(name, three, [1.0] * 3) for name in ("ratio_mean", "ratio_std"))
    yield from recognise(
        std,
        {
            "the standard deviation is divided by one less than n": 0.6,
            "the variance, not the standard deviation": either(0.24, 0.36),
        },
    )
    yield from recognise(mean, {"the mean of the logarithms": either(np.log(0.64) / 3, 0.64 ** (1 / 3))})
    yield from loss_findings(lambda *given: _entries(answer(*given))["loss"], (1, 2, 3))
    said = (
        "of eight samples four are below the clip range and three above it, five of them flat; your "
        f"clip_fraction is {outside:.3g} and your flat_fraction {flat:.3g}"
    )
    yield Property("clip_fraction: outside the clip range, on either side", close(outside, 7 / 8), said)
    yield Property("flat_fraction: silenced by the clip", close(flat, 5 / 8), said)
    try:
        ends = [gauge(name, [1.0, 1.0], [1.0, -1.0], 0.0) for name in KEYS[1:3]]
    except Stop:  # a loss may refuse a clip range without width, as the library's does
        ends = [0.0, 0.0]
    yield Property(
        "exactly at an end of the clip range a sample is neither outside nor flat",
        close(ends, [0.0, 0.0]),
        f"with eps = 0 and ρ = 1 your clip_fraction is {ends[0]:.3g} and your flat_fraction {ends[1]:.3g}",
    )
    yield Property(
        "approx_kl: zero at ρ = 1, above zero on both sides, however far",
        close([two, half, both, zero, tiny, huge / 1e12], [*right, 0.0, -1 - np.log(1e-12), 1.0]),
        f"at ρ = 2 it is {two:.4g}, at 0.5 {half:.4g}, for the two together {both:.4g}, at 1 {zero:.4g}, at "
        f"10⁻¹² {tiny:.4g}, at 10¹² {huge:.4g}",
    )
    yield Property(
        "ratio_mean and ratio_std",
        close([mean, std], [1.0, 0.24**0.5]),
        f"for 0.4, 1 and 1.6 they are {mean:.4g} and {std:.4g}",
    )

    def slow(p: Problem) -> list[float]:
        """Sample by sample; flat is what a small move of the ratio leaves as it is."""
        rows = []
        for new, old, a in zip(p.logp.flat, p.old_logp.flat, p.advantages.flat, strict=True):
            r = np.exp(new - old)
            ends = [sorted([x * a, sorted([1 - p.eps, x, 1 + p.eps])[1] * a])[0] for x in (r, r * (1 + 1e-9))]
            nearest = sorted([1 - p.eps, r, 1 + p.eps])[1]
            rows.append((nearest != r, a != 0 and ends[0] == ends[1], r - 1 - (new - old), r))
        size = len(rows)
        gone, silent, far, mean = (sum(column) / size for column in zip(*rows, strict=True))
        return [gone, silent, far, mean, (sum((row[3] - mean) ** 2 for row in rows) / size) ** 0.5]

    def part(which: slice) -> Property:
        keys = KEYS[1:][which]

        def gauges(*given: Any) -> np.ndarray:
            found = _entries(answer(*given))
            return np.array([float(as_array(found[key], (), key)) for key in keys])

        problems = _problems((1, 2, 3))
        return agrees(gauges, lambda p: slow(p)[which], problems, what=f"({', '.join(keys)})")

    yield part(slice(2))  # apart from the others, where a large ratio would hide a wrong share
    yield part(slice(2, 5))
