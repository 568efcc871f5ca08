"""Checks of DPO's relatives, and of a loss on pairs that goes from logits to one number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from .. import Answer, Findings, as_array, close, either, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems, tensor
from ..rlhf import litter, several
from . import CHAPTER, log_sigmoid, one_of, sigmoid, unstacked

# --- relatives

LOSSES = ("IPO", "KTO", "SimPO")
LOGP = np.array([[-3.0, -6], [-9, -4]])
REF = np.array([[-5.0, -5], [-10, -7.2]])
LENGTHS = np.array([[2, 3], [5, 4]])


@CHAPTER.check("relatives", section="sec-dpo-family")
def relatives(answer: Answer) -> Findings:
    def ask(
        logp: Any = LOGP, ref: Any = REF, kl: float = 0.7, beta: float = 0.5, gamma: float = 0.4
    ) -> list[np.ndarray]:
        given = [tensor(np.asarray(x, dtype=np.float64)) for x in (logp, ref)]
        z = torch.tensor(kl, dtype=torch.float32)
        back = answer(*given, torch.as_tensor(LENGTHS), z, beta, gamma)
        return several(unstacked(back), [()] * 3, LOSSES)

    # Two pairs with log-ratios 2, −1 and 1, 3.2, so that h is 3 and −2.2; β is 0.5, z 0.7 and γ 0.4.
    ipo, kto, simpo = ask()
    # What no second value changes is not used; one alone may be right by accident.
    same_ref, same_z, same_beta, same_gamma = (
        [bool(close(x, y)) for x, y in zip(ask(**other), (ipo, kto, simpo), strict=True)]
        for other in ({"ref": REF + np.array([[2, 0], [-1, 3]])}, {"kl": 2.0}, {"beta": 0.2}, {"gamma": 1.5})
    )
    ratio = LOGP - REF
    h, a_token = ratio[:, 0] - ratio[:, 1], ratio / LENGTHS
    mean_h = a_token[:, 0] - a_token[:, 1]

    def square(x: Any) -> float:
        return float((np.asarray(x) ** 2).mean())

    yield from recognise(
        ipo,
        {
            "IPO: the target is missing": either(square(h), square(h / 2)),
            "IPO: the target has the wrong sign": square(h + 1),
            "IPO: the target is 1 / β, not half of it": square(h - 2),
            "IPO: the target is not in nats": either(square(h - 0.25), square(h - 0.5)),
            "IPO: in units of β": either(square(h / 2 - 0.5), square(h / 2 - 1)),
            "IPO: a mean over tokens": either(
                square(mean_h - 1), square((LOGP / LENGTHS)[:, 0] - (LOGP / LENGTHS)[:, 1] - 1)
            ),
            "IPO: the reference is missing": same_ref[0]
            and close(ipo, square(LOGP[:, 0] - LOGP[:, 1] - 1), 1e-3),
            "IPO: a sum, not a mean": either(2 * square(h - 1)),
            "IPO: half of the square": square(h - 1) / 2,
            "IPO: the distance, not its square": np.abs(h - 1).mean(),
            "IPO: a sigmoid remains": either(-log_sigmoid(h / 2).mean(), square(sigmoid(h / 2) - 1)),
        },
    )
    gain = 0.5 * (ratio - 0.7)
    liked, other = gain[:, 0], gain[:, 1]
    right = np.stack([sigmoid(-liked), sigmoid(other)])
    yield from recognise(
        kto,
        {
            "KTO: liked texts are pushed down": either(1 - right.mean(), -right.mean()),
            "KTO: a constant is missing": right.mean() - 1,
            "KTO: both kinds are pushed up": np.stack([sigmoid(-liked), sigmoid(-other)]).mean(),
            "KTO: z is not used": same_z[1]
            and close(kto, np.stack([sigmoid(-ratio[:, 0] / 2), sigmoid(ratio[:, 1] / 2)]).mean(), 1e-3),
            "KTO: the sign of z depends on the label": np.stack(
                [sigmoid(-liked), sigmoid(0.5 * (ratio[:, 1] + 0.7))]
            ).mean(),
            "KTO: z is added": np.stack(
                [sigmoid(-0.5 * (ratio[:, 0] + 0.7)), sigmoid(0.5 * (ratio[:, 1] + 0.7))]
            ).mean(),
            "KTO: z is not multiplied by β": np.stack(
                [sigmoid(-(ratio[:, 0] / 2 - 0.7)), sigmoid(ratio[:, 1] / 2 - 0.7)]
            ).mean(),
            "KTO: a logarithm remains": -np.log(1 - right).mean(),
            "KTO: a pair, not single texts": either(sigmoid(-h / 2).mean(), sigmoid(-(h / 2 - 0.35)).mean()),
            "KTO: a sum, not a mean": either(2 * right.mean(), 4 * right.mean()),
            "KTO: only the liked texts count": either(right[0].mean(), right[0].sum() / 4),
            "KTO: a mean over tokens": np.stack(
                [sigmoid(-0.5 * (a_token[:, 0] - 0.7)), sigmoid(0.5 * (a_token[:, 1] - 0.7))]
            ).mean(),
            "KTO: β is not used": same_beta[1]
            and close(kto, np.stack([sigmoid(-2 * liked), sigmoid(2 * other)]).mean(), 1e-3),
            "KTO: the reference is missing": same_ref[1]
            and close(
                kto,
                np.stack([sigmoid(-0.5 * (LOGP[:, 0] - 0.7)), sigmoid(0.5 * (LOGP[:, 1] - 0.7))]).mean(),
                1e-3,
            ),
        },
    )
    below = ask(kl=-6.0)[1]
    level = np.stack([sigmoid(-0.5 * ratio[:, 0]), sigmoid(0.5 * ratio[:, 1])]).mean()
    yield from recognise(
        below,
        {
            "KTO: z may be below 0": np.stack(
                [sigmoid(-0.5 * (ratio[:, 0] + 6)), sigmoid(0.5 * (ratio[:, 1] + 6))]
            ).mean()
        },
        meant=level,
    )
    means = LOGP / LENGTHS
    d = means[:, 0] - means[:, 1]

    def chance(x: Any) -> float:
        return float(-log_sigmoid(x).mean())

    yield from recognise(
        simpo,
        {
            "SimPO: sums, not means": either(chance(0.5 * (LOGP[:, 0] - LOGP[:, 1]) - 0.4)),
            "SimPO: a reference remains": either(chance(0.5 * mean_h - 0.4), chance(0.5 * h - 0.4)),
            "SimPO: γ is added": chance(0.5 * d + 0.4),
            "SimPO: γ is not used": same_gamma[2] and close(simpo, chance(0.5 * d), 1e-3),
            "SimPO: γ is multiplied by β": chance(0.5 * (d - 0.4)),
            "SimPO: γ is outside the sigmoid": either(chance(0.5 * d) + 0.4, chance(0.5 * d) - 0.4),
            "SimPO: β is not used": same_beta[2] and close(simpo, chance(d - 0.4), 1e-3),
            "SimPO: chosen and rejected are exchanged": chance(-0.5 * d - 0.4),
            "SimPO: one length for both": either(
                chance(0.5 * (LOGP[:, 0] - LOGP[:, 1]) / LENGTHS.sum(1) - 0.4),
                chance(0.5 * (LOGP[:, 0] - LOGP[:, 1]) / LENGTHS.mean(1) - 0.4),
                chance(0.5 * (LOGP[:, 0] - LOGP[:, 1]) / LENGTHS[:, 0] - 0.4),
            ),
            "SimPO: the lengths are exchanged": chance(
                0.5 * (LOGP[:, 0] / LENGTHS[:, 1] - LOGP[:, 1] / LENGTHS[:, 0]) - 0.4
            ),
            "SimPO: a sum, not a mean": 2 * chance(0.5 * d - 0.4),
            "SimPO: the sign is reversed": -chance(0.5 * d - 0.4),
        },
    )
    steep = np.array([[-2000.0, -3], [-3, -2000]])
    far = ask(logp=steep, ref=np.full((2, 2), -5.0), beta=1.0)
    fine = close(simpo, chance(0.5 * d - 0.4), 1e-3)
    yield from recognise(
        far[2],
        {
            "a loss overflows": not np.isfinite(far).all(),
            "SimPO: small probabilities have a minimum": bool(fine and far[2] < 450),
        },
        all=np.array(far),
    )
    calls = {name: one_of(answer, k, LOSSES) for k, name in enumerate(LOSSES)}
    for name in LOSSES:
        given = leaf(steep), leaf(np.full((2, 2), -5.0)), leaf(0.5)
        back = calls[name](given[0], given[1], torch.as_tensor(LENGTHS), given[2], 1.0, 0.4)
        felt = gradients(back, *given, what=name)[0]
        yield from recognise(felt, {"a gradient overflows": not np.isfinite(felt).all()}, which=name)
    for name in LOSSES:
        given = leaf(LOGP), leaf(REF), leaf(0.5)
        back = calls[name](given[0], given[1], torch.as_tensor(LENGTHS), given[2], 0.5, 0.4)
        _, by_ref, by_z = gradients(back, *given, what=name)
        yield from recognise(
            np.zeros(()),
            {
                "the reference gets a gradient": bool(np.abs(by_ref).max() > 1e-7),
                "KTO: z gets a gradient": bool(np.abs(by_z).max() > 1e-7),
            },
            which=name,
        )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size = int(rng.choice([1, 2, 6]))
        ref = -30 * rng.random(size=(size, 2))
        moved = ref + rng.choice([0, 0.3, 3, 300]) * rng.normal(size=(size, 2))
        if rng.random() < 0.2:
            moved[:, 1], ref[:, 1] = moved[:, 0], ref[:, 0]
        return {
            "logp": moved,
            "ref_logp": ref,
            "lengths": rng.integers(1, 25, size=(size, 2)),
            "kl": np.array(rng.normal()),
            "beta": float(rng.choice([0.1, 0.5, 2])),
            "gamma": float(rng.choice([0, 0.5, 1.5])),
        }

    slows: tuple[Callable[[Problem], float], ...] = (_slow_ipo, _slow_kto, _slow_simpo)
    problems = random_problems(draw, 15)
    for (name, call), slow in zip(calls.items(), slows, strict=True):
        yield agrees(call, slow, problems, by=("logp",), held=("ref_logp", "kl"), what=name)


def _rows(p: Problem) -> list[tuple[float, ...]]:
    """Each pair's log π, log π_ref and length: chosen, then rejected."""
    return [(*now, *ref, *size) for now, ref, size in zip(p.logp, p.ref_logp, p.lengths, strict=True)]


def _slow_ipo(p: Problem) -> float:
    total = 0.0
    for a, b, c, d, _, _ in _rows(p):
        total += ((a - c - b + d) - 0.5 / p.beta) ** 2
    return total / len(p.logp)


def _slow_kto(p: Problem) -> float:
    total, z = 0.0, max(float(p.kl), 0.0)
    for a, b, c, d, _, _ in _rows(p):
        for sign, ratio in ((1, a - c), (-1, b - d)):
            total += math.exp(-float(np.logaddexp(0, sign * p.beta * (ratio - z))))
    return total / (2 * len(p.logp))


def _slow_simpo(p: Problem) -> float:
    total = 0.0
    for a, b, _, _, m, n in _rows(p):
        total += float(np.logaddexp(0, p.gamma - p.beta * (a / m - b / n)))
    return total / len(p.logp)


# --- from logits to one number

PROMPT, WIDTH, WORDS = 2, 4, 4
SIZES = np.array([[3, 2], [2, 4]])  # tokens of the chosen and of the rejected text


def _table(seed: int) -> np.ndarray:
    """Logits [2, 2, 6, 4]; in a column nothing else has the same differences."""
    return np.round(2 * np.random.default_rng(seed).normal(size=(2, 2, PROMPT + WIDTH, WORDS)), 2)


def _picked(logits: np.ndarray, ids: np.ndarray, shift: int = -1, soft: bool = True) -> np.ndarray:
    """For each column of the rows, what the column `shift` away says of its token; 0 where there is none."""
    table = logits - np.log(np.exp(logits).sum(-1, keepdims=True)) if soft else logits
    found = np.zeros(ids.shape)
    for i, j, k in np.ndindex(*ids.shape):
        if 0 <= k + shift < ids.shape[2]:
            found[i, j, k] = table[i, j, k + shift, ids[i, j, k]]
    return found


@CHAPTER.check("hunt-pairs", section="sec-dpo-code")
def hunt_pairs(answer: Answer) -> Findings:
    ids = np.array([[[3, 1, 0, 2, 1, 0], [3, 1, 2, 1, 0, 0]], [[1, 2, 1, 3, 3, 3], [1, 2, 0, 0, 3, 1]]])
    now, ref = _table(0), _table(1)
    columns = np.arange(PROMPT + WIDTH)

    def ask(logits: Any, ref_logits: Any, lengths: Any = SIZES, beta: float = 0.5) -> float:
        given = [tensor(np.asarray(x, dtype=np.float64)) for x in (logits, ref_logits)]
        back = answer(*given, torch.as_tensor(ids), PROMPT, torch.as_tensor(lengths), beta)
        return float(as_array(back, (), "the loss", finite=False))

    def sums(first: int = 0, last: int = 0, *, shift: int = -1, soft: bool = True, cells: Any = None) -> Any:
        """Sums over a text's tokens, from so many columns after its first to so many after its last."""
        if cells is None:
            end = PROMPT + SIZES[..., None] + last
            cells = (columns >= PROMPT + first) & (columns < end)
        pair = [(_picked(x, ids, shift, soft) * cells).sum(-1) for x in (now, ref)]
        return pair[0], pair[1], cells.sum(-1)

    def margin(pair: Any) -> np.ndarray:
        gap = pair[0] - pair[1]
        return np.asarray(gap[:, 0] - gap[:, 1])

    def chance(x: Any) -> float:
        return float(-log_sigmoid(x).mean())

    def loss(pair: Any, beta: float = 0.5) -> float:
        return chance(beta * margin(pair))

    got, small, elsewhere = ask(now, ref), ask(now, ref, beta=0.1), ask(now, np.flip(now, 0).copy())
    right = sums()
    ratio = right[0] - right[1]
    h = ratio[:, 0] - ratio[:, 1]
    padded = (ratio / WIDTH)[:, 0] - (ratio / WIDTH)[:, 1]
    everything = np.broadcast_to(columns >= PROMPT, ids.shape)
    short = np.broadcast_to(columns >= PROMPT, ids.shape) & (columns < PROMPT + SIZES[..., None] - 1)
    unended = sums(cells=short)
    # As sums and as means, and with and without the end: several bugs may stand together.
    margins = [h, margin(unended)]
    margins += [margin([part / SIZES for part in one[:2]]) for one in (right, unended)]
    margins.append(margin([part / (SIZES - 1) for part in unended[:2]]))
    yield from recognise(
        got,
        {
            "the loss is log 2, whatever the policy": math.log(2),
            "h has the wrong sign": loss(right, -0.5),
            "the sign is reversed": -loss(right),
            "β is on the wrong side": either(
                *(0.5 * chance(one) for one in margins),
                *(0.5 * chance(one / 2) for one in margins),
                chance(2 * h),
            ),
            "β is not used": close([got, small], [loss(right, 1.0)] * 2, 1e-3),
            "a sum over pairs, not a mean": 2 * loss(right),
            "a mean, not a sum": either(*(chance(one / 2) for one in margins[2:])),
            "divided by the padded length": either(
                -log_sigmoid(0.5 * padded).mean(), -log_sigmoid(0.5 * h / (PROMPT + WIDTH)).mean()
            ),
            "the end of sequence is left out": either(loss(unended), loss(sums(last=-1))),
            "padding is counted": loss(sums(cells=everything)),
            "the first token is left out": loss(sums(first=1)),
            "the prompt is counted": either(
                loss(sums(first=-1)),
                loss(sums(first=-PROMPT)),
                loss(sums(first=-PROMPT + 1)),
                loss(sums(cells=0 * columns + 1)),
            ),
            "the window begins one column too early": loss(sums(first=-1, last=-1)),
            "one token too many": loss(sums(last=1)),
            "the logits are read one column late": loss(sums(shift=0)),
            "the logits are read one column early": loss(sums(shift=-2)),
            "logits, not log-probabilities": loss(sums(soft=False)),
            "the reference is missing": close(
                [got, elsewhere], [chance(0.5 * (right[0][:, 0] - right[0][:, 1]))] * 2, 1e-3
            ),
            "only the chosen text counts": -log_sigmoid(0.5 * ratio[:, 0]).mean(),
        },
    )
    fine = close(got, loss(right), 1e-3)
    # Whatever is not the text's may be anything: the prompt's own columns but the last, and the padding.
    read = (columns >= PROMPT - 1) & (columns < PROMPT + SIZES[..., None] - 1)
    for hole in (np.nan, -np.inf, np.inf):
        holes = [np.where(read[..., None], x, hole) for x in (now, ref)]
        seen = ask(holes[0], holes[1])
        yield from recognise(
            seen, {"unread logits affect the loss": bool(fine and not close(seen, got))}, hole=hole
        )
    for hole in (np.nan, -np.inf, np.inf):
        leaves = [leaf(np.where(read[..., None], x, hole)) for x in (now, ref)]
        back = answer(*leaves, torch.as_tensor(ids), PROMPT, torch.as_tensor(SIZES), 0.5)
        felt, by_ref = gradients(back, *leaves, what="the loss")
        yield from recognise(
            np.nan_to_num(felt),
            {
                "the reference gets a gradient": bool(np.nan_to_num(by_ref, nan=1.0).any()),
                "unread logits affect the gradient": bool(np.isnan(felt).any() or felt[~read].any()),
                "one text gets no gradient": not felt[:, 0].any() or not felt[:, 1].any(),
            },
            hole=hole,
        )
    far = ask(200 * now, ref, beta=1.0)
    yield from recognise(
        far,
        {
            "the loss overflows": not np.isfinite(far),
            "small probabilities have a minimum": bool(fine and far < 100),
        },
    )

    leaves = [leaf(200 * now), leaf(ref)]
    back = answer(*leaves, torch.as_tensor(ids), PROMPT, torch.as_tensor(SIZES), 1.0)
    felt = gradients(back, *leaves, what="the loss")[0]
    yield from recognise(felt, {"the gradient overflows": not np.isfinite(felt).all()})

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size, before = int(rng.integers(1, 3)), int(rng.integers(1, 4))
        width, words = int(rng.integers(1, 5)), int(rng.integers(2, 5))
        lengths = rng.integers(1, width + 1, size=(size, 2))
        places = np.arange(before + width)
        read = (places >= before - 1) & (places < before + lengths[..., None] - 1)
        scale = float(rng.choice([0.1, 1, 20]))
        logits = scale * rng.normal(size=(2, size, 2, before + width, words))
        if rng.random() < 0.2:
            logits[1] = logits[0]  # before the first step
        made = [litter(rng, x, read[..., None]) for x in logits]
        return {
            "logits": made[0],
            "ref_logits": made[1],
            "ids": rng.integers(words, size=(size, 2, before + width)),
            "prompt_columns": before,
            "lengths": lengths,
            "beta": float(rng.choice([0.1, 0.5, 2])),
        }

    yield agrees(answer, _slow_pairs, random_problems(draw, 30), what="the loss")
    few = [p for p in random_problems(draw, 40) if np.size(p.logits) <= 48][:12]
    found = agrees(answer, _slow_pairs, few, by=("logits",), held=("ref_logits",), what="the loss")
    yield replace(found, words=f"its gradient agrees with finite differences on {len(few)} random problems")


def _slow_pairs(p: Problem) -> float:
    """Token by token."""
    total = 0.0
    for b in range(len(p.ids)):
        h = 0.0
        for side, sign in ((0, 1), (1, -1)):
            for t in range(int(p.lengths[b, side])):
                column = p.prompt_columns + t
                word = p.ids[b, side, column]
                for table, part in ((p.logits, 1), (p.ref_logits, -1)):
                    row = table[b, side, column - 1]
                    top = max(row)
                    log_z = top + math.log(math.fsum(math.exp(x - top) for x in row))
                    h += sign * part * (row[word] - log_z)
        z = p.beta * h
        total += math.log1p(math.exp(-abs(z))) + max(-z, 0.0)
    return total / len(p.ids)
