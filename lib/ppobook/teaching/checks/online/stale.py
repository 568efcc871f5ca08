"""Checks of what stale texts are weighed with: exact gradients, the loss with two ratios, what is left."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems
from ..rlhf import litter, masks, several
from . import CHAPTER

# ---------------------------------------------------------------------------------------------------
# The average gradient, over all texts


def plain(ratio: Any) -> Any:
    """The weight that corrects: the ratio itself."""
    return ratio


def none(ratio: Any) -> Any:
    """No correction."""
    return 0 * ratio + 1


def truncated(ratio: Any) -> Any:
    """min(ratio, 2)."""
    return torch.clamp(ratio, max=2.0) if isinstance(ratio, torch.Tensor) else np.minimum(ratio, 2.0)


def squared(ratio: Any) -> Any:
    """A weight that nobody uses."""
    return ratio**2


WEIGHTS = (plain, none, truncated, squared)


@CHAPTER.check("stale-gradient", section="sec-online-lag")
def stale_gradient(answer: Answer) -> Findings:
    mu, pi, rewards = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6]), np.array([0.0, 1.0, 3.0])
    ratio, unit = pi / mu, np.eye(3)

    def ask(weight: Callable[..., Any], baseline: float, sampler: np.ndarray = mu) -> np.ndarray:
        back = answer(sampler, pi, rewards, weight, baseline)
        return as_array(back, (3,), "the mean gradient", finite=False)

    def made(w: np.ndarray, b: float, by: np.ndarray = mu, score: np.ndarray = pi) -> np.ndarray:
        return np.asarray((by * w * (rewards - b)) @ (unit - score))

    got, bare = ask(truncated, 0.7), ask(none, 0.7)
    cut = np.minimum(ratio, 2)
    unmoved = close(ask(truncated, -3.0), got)
    right = made(cut, 0.7)
    yield from recognise(
        got,
        {
            "the sign is turned round": -right,
            "the weight is not used": made(np.ones(3), 0.7),
            "the ratio is used, whatever the weight": made(ratio, 0.7),
            "the ratio is upside down": made(np.minimum(1 / ratio, 2), 0.7),
            "the texts are drawn from the policy": made(cut, 0.7, by=pi),
            "the score is the sampler's": made(cut, 0.7, score=mu),
            "the baseline is not subtracted": unmoved and close(got, made(cut, 0), 1e-3),
            "the sampler's mean is the baseline, whatever is given": unmoved
            and any(close(got, made(cut, float(p @ rewards)), 1e-3) for p in (mu, pi)),
            "every text counts the same": either(
                made(cut, 0.7, by=np.ones(3)), made(cut, 0.7, by=unit[0] * 0 + 1 / 3)
            ),
            "the score has lost its mean": mu * cut * (rewards - 0.7),
            "the weights are made to add up to one": either(right / (mu @ cut), right / cut.sum()),
        },
    )
    # A text that the sampler never writes, and the policy does.
    never = np.array([0.6, 0.4, 0.0])
    silent = ask(plain, 0.7, never)
    kept = made(np.array([pi[0] / 0.6, pi[1] / 0.4, 0]), 0.7, by=never)
    half = np.array([0.5, 0.5, 0])  # pi among the first two
    there = made(np.array([0.5 / 0.6, 0.5 / 0.4, 0]), 0.7, by=never, score=half)
    yield from recognise(
        silent,
        {
            "a text that is never written has a weight": not np.isfinite(silent).all()
            or close(silent, pi * (rewards - pi @ rewards)),
            "a text that is never written keeps its logit": close(silent, kept * [1, 1, 0]),
            "the policy is made to add up to one over what is written": close(silent, there),
        },
        third=silent[2],
    )
    yield Property(
        "with the ratio as the weight, it is the policy's own gradient, for any baseline",
        close(ask(plain, 0.7), pi * (rewards - pi @ rewards), 1e-4)
        and close(ask(plain, -40.0), pi * (rewards - pi @ rewards), 1e-3),
        f"with baselines 0.7 and −40 you get {numbers(ask(plain, 0.7))} and {numbers(ask(plain, -40.0))}",
    )
    yield Property(
        "its entries add up to 0",
        max(abs(bare.sum()), abs(silent.sum())) < 1e-4,
        f"without a correction you get {numbers(bare)}; if one completion is never written, "
        f"{numbers(silent)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size = int(rng.integers(1, 7))
        sampler = rng.dirichlet(np.full(size, 2.0))
        if size > 2 and rng.random() < 0.3:
            sampler[rng.integers(size)] = 0.0
            sampler /= sampler.sum()
        return {
            "mu": sampler,
            "pi": rng.dirichlet(np.full(size, 2.0)),
            "rewards": rng.choice([0.1, 1, 30]) * rng.normal(size=size),
            "weight": int(rng.integers(4)),
            "baseline": float(rng.choice([0, 1, -20]) * rng.normal()),
        }

    def slow(p: Problem) -> list[float]:
        """Logit by logit and text by text."""
        found = []
        for k in range(len(p.mu)):
            total = 0.0
            for y in range(len(p.mu)):
                if p.mu[y] > 0:
                    slope = (1.0 if y == k else 0.0) - float(p.pi[k])
                    w = float(WEIGHTS[p.weight](np.float64(p.pi[y] / p.mu[y])))
                    total += float(p.mu[y]) * w * (float(p.rewards[y]) - p.baseline) * slope
            found.append(total)
        return found

    def named(mu: Any, pi: Any, rewards: Any, weight: int, baseline: float) -> Any:
        return answer(mu, pi, rewards, WEIGHTS[weight], baseline)

    yield agrees(named, slow, random_problems(draw, 40), what="the mean gradient", arrays=True)


# ---------------------------------------------------------------------------------------------------
# The loss with two ratios


def _rows(rows: Any) -> np.ndarray:
    return np.array([[np.nan if x is None else x for x in row] for row in rows], dtype=np.float64)


@CHAPTER.check("two-ratio-loss", section="sec-online-lag")
def two_ratio_loss(answer: Answer) -> Findings:
    # Three tokens and one. Ratios of the update 1.1, 1.5, 0.6 and 0.7; ages 0.3, 3, 1.25 and 4; clip at 0.2,
    # weights up to 2.
    mask = np.array([[True, True, True], [True, False, False]])
    moved, age = np.array([1.1, 1.5, 0.6, 0.7]), np.array([0.3, 3, 1.25, 4])
    worth, length = np.array([2.0, 2, 2, -1]), np.array([3, 3, 3, 1])
    begin = np.array([-1.0, -2, -0.5, -1.5])
    advantages = np.array([2.0, -1])

    def table(values: np.ndarray, filler: float = 0.0) -> np.ndarray:
        found = np.full((2, 3), filler)
        found[mask] = values
        return found

    def ask(
        eps: float, bound: float, *, filler: float = 0.0, graph: tuple[str, ...] = ()
    ) -> tuple[Any, list[Any]]:
        given = {
            "logp": leaf(table(begin + np.log(moved), filler)),
            "begin": leaf(table(begin, filler))
            if graph
            else torch.tensor(table(begin, filler), dtype=torch.float32),
            "sampler": leaf(table(begin - np.log(age), filler))
            if graph
            else torch.tensor(table(begin - np.log(age), filler), dtype=torch.float32),
            "advantages": leaf(advantages) if graph else torch.tensor(advantages, dtype=torch.float32),
        }
        back = answer(*given.values(), torch.tensor(mask), eps, bound)
        return back, [given["logp"], *(given[name] for name in graph)]

    def slopes_at(eps: float) -> np.ndarray:
        back, leaves = ask(eps, 2.0)
        return gradients(back, *leaves, what="the loss")[0]

    def number(eps: float, bound: float) -> float:
        return float(as_array(ask(eps, bound)[0], (), "the loss"))

    def mean(x: np.ndarray) -> float:
        """Average over the tokens of each text, then over texts."""
        return float((x / length).sum() / 2)

    def clip(ratio: np.ndarray, a: np.ndarray, eps: float = 0.2) -> np.ndarray:
        return np.minimum(ratio * a, np.clip(ratio, 1 - eps, 1 + eps) * a)

    got = number(0.2, 2.0)
    weight = np.minimum(age, 2)
    right = clip(moved, worth) * weight
    whole = np.array([np.prod(age[:3])] * 3 + [age[3]])
    yield from recognise(
        got,
        {
            "the sign is turned round": mean(right),
            "the text's age is left out": -mean(clip(moved, worth)),
            "one ratio, to the sampler": -mean(clip(moved * age, worth)),
            "the age is counted twice": -mean(clip(moved * age, worth) * weight),
            "the weight is not truncated": -mean(clip(moved, worth) * age),
            "the weight is bounded from below too": either(
                -mean(clip(moved, worth) * np.clip(age, 1, 2)),
                -mean(clip(moved, worth) * np.clip(age, 0.5, 2)),
            ),
            "the weight has the clip's bounds": -mean(clip(moved, worth) * np.clip(age, 0.8, 1.2)),
            "the weight is upside down": -mean(clip(moved, worth) * np.minimum(1 / age, 2)),
            "the weight uses the policy during the update": either(
                -mean(clip(moved, worth) * np.minimum(moved * age, 2)),
                -mean(worth * np.minimum(moved * age, 2)),
            ),
            "the weight is the whole text's": -mean(clip(moved, worth) * np.minimum(whole, 2)),
            "nothing is clipped": -mean(moved * worth * weight),
            "the clip has no minimum": -mean(np.clip(moved, 0.8, 1.2) * worth * weight),
            "the weights are made to average one": either(
                -mean(clip(moved, worth) * weight / weight.mean()),
                -mean(clip(moved, worth) * weight / np.array([weight[:3].mean()] * 3 + [weight[3]])),
            ),
            "the weight is inside the clip": -mean(clip(moved * weight, worth)),
            "a mean over all tokens": -float(right.sum() / 4),
            "a mean over the padded table": -float(right.sum() / 6),
            "the length is not divided by": -float(right.sum() / 2),
        },
    )
    padded = as_array(ask(0.2, 2.0, filler=math.nan)[0], (), "the loss", finite=False)
    if not np.isfinite(padded):
        yield Mistake("padding is read")
        return
    back, leaves = ask(0.2, 2.0, filler=math.nan, graph=("begin", "sampler", "advantages"))
    found = gradients(back, *leaves)
    slope, others = found[0], [np.nan_to_num(x) for x in found[1:]]
    silent = np.array([1.0, 0, 1, 0])  # 1.5 is beyond 1.2; 0.7, with a negative advantage, below 0.8
    to_sampler = bool(np.abs(others[1]).max() > 1e-6)
    # At ε = 0.05 the first token is silent too, at 0.7 none is.
    ends = [(0.2, silent), (0.05, np.array([0.0, 0, 1, 0])), (0.7, np.ones(4))]
    felt = [(slope if eps == 0.2 else slopes_at(eps))[mask] for eps, _ in ends]
    near = [close(np.abs(x) > 1e-6, heard) for x, (_, heard) in zip(felt, ends, strict=True)]
    yield from recognise(
        slope[mask],
        {
            "padding is read": not np.isfinite(slope).all(),
            "the ratio's old policy keeps its graph": not to_sampler
            and close(others[0][mask], -slope[mask])
            and bool(np.abs(others[0]).max() > 1e-6),
            "the gradient goes through the weight": to_sampler or bool(np.abs(others[0]).max() > 1e-6),
            "the gradient goes through the advantages": bool(np.abs(others[2]).max() > 1e-6),
        },
    )
    yield Property(
        "a token beyond the clip range has a gradient of 0, however old it is",
        all(near),
        f"at ε = 0.2, 0.05 and 0.7 the gradients of logp are {', '.join(map(numbers, felt))}",
    )
    yield Property(
        "with a fresh sampler it is the clipped surrogate",
        _fresh(answer),
        "with begin_logp equal to sampler_logp the two losses differ",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        shape = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        mask = masks(rng, shape, empty=False)
        begin = -rng.exponential(1.5, size=shape)
        far = float(rng.choice([0.05, 0.3, 1.0, 4.0]))
        return {
            "logp": litter(rng, begin + far * rng.normal(size=shape), mask),
            "begin_logp": litter(rng, begin, mask),
            "sampler_logp": litter(rng, begin + 2 * far * rng.normal(size=shape), mask),
            "advantages": rng.choice([0.1, 1, 20]) * rng.normal(size=shape[0]),
            "mask": mask,
            "clip_eps": float(rng.choice([0.05, 0.2, 0.4])),
            "max_weight": float(rng.choice([0.5, 1, 2, 10])),
        }

    def value(p: Problem) -> float:
        """Token by token."""
        total = 0.0
        for b, row in enumerate(p.mask):
            places = [t for t in range(len(row)) if row[t]]
            for t in places:
                r = math.exp(p.logp[b, t] - p.begin_logp[b, t])
                w = min(math.exp(p.begin_logp[b, t] - p.sampler_logp[b, t]), p.max_weight)
                inside = sorted([1 - p.clip_eps, r, 1 + p.clip_eps])[1]
                a = float(p.advantages[b])
                total -= w * min(r * a, inside * a) / len(places) / len(p.mask)
        return total

    def slopes(p: Problem) -> dict[str, np.ndarray]:
        found = np.zeros(p.mask.shape)
        for b, t in zip(*np.nonzero(p.mask), strict=True):
            r, a = math.exp(p.logp[b, t] - p.begin_logp[b, t]), float(p.advantages[b])
            w = min(math.exp(p.begin_logp[b, t] - p.sampler_logp[b, t]), p.max_weight)
            if not ((a > 0 and r > 1 + p.clip_eps) or (a < 0 and r < 1 - p.clip_eps)):
                found[b, t] = -w * r * a / p.mask[b].sum() / len(p.mask)
        return {"logp": found}

    problems = random_problems(draw, 30)
    yield agrees(answer, value, problems, what="the loss")
    yield agrees(answer, slopes, problems, what="the loss", held=("begin_logp", "sampler_logp", "advantages"))


def _fresh(answer: Answer) -> bool:
    mask = torch.ones(1, 2, dtype=torch.bool)
    old = torch.tensor([[-1.0, -2.0]])
    logp = leaf([[-1.0 + math.log(1.5), -2.0 + math.log(0.9)]])
    back = answer(logp, old, old.clone(), torch.tensor([2.0]), mask, 0.2, 3.0)
    return close(as_array(back, (), "the loss", finite=False), -(1.2 + 0.9), 1e-3)


# ---------------------------------------------------------------------------------------------------
# What is left after weighing

NAMES = ("the share of tokens", "the share of texts")


def _both(back: Any) -> list[np.ndarray]:
    flat = getattr(back, "shape", None) == (2,)
    return several(list(back) if flat else back, ((), ()), NAMES)


@CHAPTER.check("samples-left", section="sec-online-ess")
def samples_left(answer: Answer) -> Findings:
    # Two texts, of three tokens and of one, in four columns: ratios 2, 2, ½ and 1; so texts weigh 2 and 1.
    mask = np.arange(4) < np.array([3, 1])[:, None]
    log = np.zeros((2, 4))
    log[0, :3] = np.log([2, 2, 0.5])
    tokens, texts = np.array([2, 2, 0.5, 1]), np.array([2.0, 1])

    def ask(log: np.ndarray, mask: np.ndarray, base: float = -1.0, filler: float = 0.0) -> list[np.ndarray]:
        mu = np.where(mask, base, filler)
        given = (torch.tensor(x, dtype=torch.float32) for x in (np.where(mask, base + log, filler), mu))
        return _both(answer(*given, torch.tensor(mask)))

    def share(w: np.ndarray) -> float:
        return float(w.sum() ** 2 / (w**2).sum() / len(w))

    of_tokens, of_texts = ask(log, mask)
    rows = [np.array([2, 2, 0.5]), np.array([1.0])]
    yield from recognise(
        of_tokens,
        {
            "a number of samples, not a share": share(tokens) * 4,
            "padding is counted": share(np.append(tokens, [1, 1, 1, 1])),
            "padding has a weight of zero and is counted": share(np.append(tokens, [0, 0, 0, 0])),
            "the ratio is upside down": share(1 / tokens),
            "the inverse of the share": 1 / share(tokens),
            "each text's share, averaged": (share(rows[0]) + 1) / 2,
            "log-ratios are taken for ratios": either(share(np.log(tokens)), share(np.abs(np.log(tokens)))),
            "the square is missing": either(
                tokens.sum() / (tokens**2).sum(), tokens.sum() ** 2 / tokens.sum() / 4
            ),
            "the two shares are exchanged": bool(
                close(of_tokens, share(texts)) and close(of_texts, share(tokens))
            ),
        },
    )
    yield from recognise(
        of_texts,
        {
            "the share of texts is a number": share(texts) * 2,
            "the texts' sum is divided by the tokens": either(share(texts) / 2, share(texts) / 4),
            "a text's ratio is the mean of its tokens'": share(np.array([1.5, 1])),
            "a text's ratio is the sum of its tokens'": share(np.array([4.5, 1])),
            "a text's ratio is the geometric mean": share(np.array([2 ** (1 / 3), 1])),
            "padding is added to the text's ratio": share(np.array([5.5, 4])),
            "the share of texts is that of tokens": share(tokens),
        },
    )
    littered = np.array(ask(log, mask, filler=math.nan))
    # Two thousand tokens, each with ratio 2 in one text and ½ in the other: 2^2000 and 2^−2000.
    far = np.log(2) * np.array([[1.0] * 2000, [-1.0] * 2000])
    there = np.ones(far.shape, dtype=bool)
    long, flat = (np.array(ask(x, there)) for x in (far, far[[1, 1]]))
    yield from recognise(
        long,
        {
            "padding is read": not np.isfinite(littered).all(),
            "long texts overflow": not np.isfinite(long).all(),
            "long texts underflow": not np.isfinite(flat).all() or flat[1] == 0,
        },
        flat=flat,
    )
    # Three texts with the log-weights 30, 60 and 90, then 400, 800 and 1200, and the same below zero.
    steps = np.array([[1.0], [2], [3]]) * np.ones((3, 200)) / 200
    sizes = (30, -30, 400, -400)
    three = {size: ask(size * steps, np.ones(steps.shape, dtype=bool)) for size in sizes}
    for size, (_, of_three) in three.items():
        yield from recognise(
            of_three,
            {"the texts' log-weights are cut off": either(2 / 3, 1)},
            logs=[size, 2 * size, 3 * size],
        )
    yield Property(
        "if the weights of completions are far apart, one completion is left",
        close([long[1], *(left for _, left in three.values())], [1 / 2, *[1 / 3] * 4], 1e-2),
        f"for two and three completions you get {numbers([long[1], *(left for _, left in three.values())])}",
    )
    yield Property(
        "two long completions with equal weights are both left",
        close(flat[1], 1, 1e-2),
        f"for two completions of 2,000 tokens with equal, tiny weights you get {numbers(flat[1])}",
    )
    level = ask(np.zeros((2, 4)), mask)
    equal = ask(np.where(mask, 0.4 / mask.sum(1, keepdims=True), 0.0), mask)
    yield Property(
        "with a fresh sampler, all tokens and completions are left",
        close(np.array(level), [1, 1]),
        f"with ratios of 1 you get {numbers(np.array(level))}",
    )
    yield Property(
        "a common factor of all weights changes nothing",
        close(equal[1], level[1]),
        f"for two weights of 1 the share of texts is {numbers(level[1])}, "
        f"and for two of 1.49 {numbers(equal[1])}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        shape = int(rng.integers(1, 7)), int(rng.choice([1, 2, 5, 60]))
        mask = masks(rng, shape, empty=False)
        mu = -rng.exponential(1.5, size=shape)
        moved = mu + float(rng.choice([0.1, 1, 3])) * rng.normal(size=shape)
        moved += float(rng.choice([0, 0.3, 1.5])) * rng.normal(size=(shape[0], 1))  # text by text
        dirt = litter(rng, np.zeros(shape), mask)
        return {"logp": np.where(mask, moved, dirt), "sampler_logp": np.where(mask, mu, dirt), "mask": mask}

    def slow(p: Problem) -> list[float]:
        """From pairs of weights, each ratio divided by the largest."""

        def left(logs: list[float]) -> float:
            w = [math.exp(x - max(logs)) for x in logs]
            return sum(a * b for a in w for b in w) / sum(a * a for a in w) / len(w)

        rows = [
            [float(a - b) for a, b, m in zip(*row, strict=True) if m]
            for row in zip(p.logp, p.sampler_logp, p.mask, strict=True)
        ]
        return [left([x for row in rows for x in row]), left([sum(row) for row in rows])]

    def both(*given: Any) -> np.ndarray:
        return np.array(_both(answer(*given)))

    yield agrees(both, slow, random_problems(draw, 40), what="(the share of tokens, the share of texts)")
