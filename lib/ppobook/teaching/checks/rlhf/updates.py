"""Checks of advantages along texts, and of the clipped loss on tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems
from . import CHAPTER, litter, masks, part, several

NAMES = ("the advantages", "the targets")
WIDTH = 5
# Five texts: one that ended in the last column, one that ended after three tokens, two that were truncated,
# after five tokens and after two, and padding only.
LENGTHS = np.array([5, 3, 5, 2, 0])
MASK = np.arange(WIDTH) < LENGTHS[:, None]
ENDED = np.array([True, True, False, False, False])


def _two(rewards: Tensor, *rest: Any) -> list[tuple[int, ...]]:
    return [tuple(rewards.shape)] * 2


def _read(mask: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """Return the values that an estimate reads: the tokens' states, and one more after a truncated text."""
    lengths = mask.sum(1)
    upto = np.where(ended | (lengths == 0), lengths, lengths + 1)
    return np.asarray(np.arange(mask.shape[1] + 1) < upto[:, None])


@CHAPTER.check("text-gae", section="sec-rlhf-ppo")
def text_gae(answer: Answer) -> Findings:
    def ask(rewards: Any, values: Any, lam: float = 0.5) -> list[np.ndarray]:
        given = [
            torch.tensor(np.broadcast_to(x, (5, n)).copy(), dtype=torch.float32)
            for x, n in zip((rewards, values), (WIDTH, WIDTH + 1), strict=True)
        ]
        back = answer(*given, torch.as_tensor(MASK), torch.as_tensor(ENDED), lam)
        return several(back, _two(given[0]), NAMES)

    first, second = ask(np.zeros(WIDTH), np.eye(WIDTH + 1)[0])
    yield from recognise(first, {"the targets come first": close(first[0, 0], 0) and close(second[0, 0], -1)})
    nothing, none = np.zeros(WIDTH), np.zeros(WIDTH + 1)
    uneven = MASK * np.array([1.0, 0, 2, 0, 3]), np.array([0.0, 1, 0, 1, 2, 1]) * _read(MASK, ENDED)
    once, twice = (ask(size * uneven[0], size * uneven[1])[0] for size in (1, 2))
    yield from recognise(
        once,
        {
            "the advantages are already normalized": bool(once.any()) and close(once, twice),
            "the mean is subtracted": bool(once.any()) and close(once.sum(), 0, 1e-3),
        },
    )
    # [k, b, t]: what a reward of 1 at token k, and a value of 1 after k tokens, adds at token t of text b.
    reward = np.array([ask(MASK * one, none)[0] for one in np.eye(WIDTH)])
    value = np.array([ask(nothing, one * _read(MASK, ENDED))[0] for one in np.eye(WIDTH + 1)])
    alone = np.zeros((5, WIDTH))
    alone[0] = 1
    own, reach, last = reward[0, 0, 0], reward[1, 0, 0], reward[2, 1, 2]
    cut = np.array([value[5, 2, 4], value[2, 3, 1]])
    yield from recognise(
        reward[:, 0],
        {
            "texts are mixed": bool((ask(alone, none)[0] * MASK)[1:].any()),
            "the recursion runs forward": bool(reward[0, 0, 1:].any()),
            "the sign is reversed": close(own, -1) and close(value[0, 0, 0], 1),
            "V(s_t) and V(s_t+1) are exchanged": close(own, 1) and value[0, 0, 0] > 0.1,
            "the value of the state is not subtracted": close(own, 1) and close(value[0, 0, 0], 0),
            "the values are read one step off": close(own, 1) and not close(value[0, 0, 0], -1),
            "the last token is left out": close(reward[0, 0, 0], 1) and last == 0,
            "the TD error is scaled": close(own, 0.5),
            "lam is not used": close(reach, 1),
            "only the TD error": close(reach, 0),
            "a discount is used": 0.4 < reach < 0.4999,
        },
        own=own,
        reach=reach,
        cut=cut,
        first=value[0, 0, 0],
        later=reward[0, 0],
        end=reward[2, 1],
    )
    littered = np.where(MASK, 1.0, 7.0), np.where(_read(MASK, ENDED), 1.0, 9.0)
    advantages, targets = ask(*littered)
    clean = ask(np.where(MASK, 1.0, 0.0), np.where(_read(MASK, ENDED), 1.0, 0.0))
    # With a value of 1 beyond each text's end, which says nothing there unless the text was truncated.
    beyond = np.array([ask(nothing, np.eye(WIDTH + 1)[k])[0] for k in range(WIDTH + 1)])
    yield from recognise(
        value[:, 0],
        {
            "no TD error looks ahead": close(value[1, 0, 0], -0.5),
            "lam is in delta": close(value[1, 0, 0], 0),
            "a text that ended is given a future": bool(beyond[5, 0, 4] > 0.1 or beyond[3, 1, 2] > 0.1),
            "the value before the last token, not after it": close(cut, [0, 0])
            and close([value[4, 2, 4], value[1, 3, 1]], [0, 0]),
            "a truncation counts as an end": close(cut, [0, 0]),
            "the last column's value, not the value after the last token": bool(cut[0] and beyond[5, 3, 1])
            and not cut[1],
            "a text of full length counts as ended": close(cut, [0, 1]),
            "a short text counts as ended": close(cut, [1, 0]),
            "a discount is used": bool(0.9 < cut[0] < 0.9999),
            "padding is carried back into the text": close(cut, [1, 0.5]),
            "the value after the end is scaled": not close(cut, [1, 1]),
        },
        second=advantages[3],
        meant=clean[0][3],
        ahead=value[1, 0, 0],
        before=np.array([value[4, 2, 4], value[1, 3, 1]]),
        future=beyond[5, 0, 4] if beyond[5, 0, 4] else beyond[3, 1, 2],
        length=5 if beyond[5, 0, 4] else 3,
        cut=cut,
        reach=reach,
    )
    yield from recognise(
        advantages,
        {
            "an empty text has an advantage": bool(advantages[4].any())
            and not (advantages * ~MASK)[:4].any(),
            "padding has advantages": bool((advantages * ~MASK).any()),
            "padding is carried back into the text": not close(advantages, clean[0]),
        },
        last=advantages[4],
        padding=advantages[1, 3:],
        second=advantages[3],
        meant=clean[0][3],
    )
    ramp = np.broadcast_to(np.arange(1.0, WIDTH + 2), (5, WIDTH + 1)) * _read(MASK, ENDED)
    advantages, targets = ask(np.where(MASK, 1.0, 0.0), ramp)
    here = ramp[:, :-1] * MASK
    # The last token's value, and all rewards from here on: as λ = 1 would have it.
    left = np.cumsum(MASK[:, ::-1], axis=1)[:, ::-1] * MASK
    onward = left + MASK * np.where(ENDED, 0.0, [ramp[b, n] for b, n in enumerate(LENGTHS)])[:, None]
    yield from recognise(
        targets - advantages,
        {
            "the targets are the advantages again": 0,
            "the values are added one step off": close((targets - advantages) * MASK, ramp[:, 1:] * MASK),
            "the values are the targets": close(targets, here),
            "the targets ignore lam": close(targets, left) or close(targets, onward),
            "padding has targets": bool((targets * ~MASK).any()),
            "the values are subtracted again": close(targets - advantages, -here),
        },
        padding=targets[3, 2:],
        first=targets[0],
    )
    for hole in (np.nan, np.inf):
        seen = ask(np.where(MASK, 1.0, hole), np.where(_read(MASK, ENDED), 1.0, hole))
        finite = all(np.isfinite(one).all() for one in seen)
        yield from recognise(seen[0], {"padding gets through": not finite})
    off, shown = not close(targets, advantages + here, 1e-3), targets[0]
    for size, lam in ((-20.0, 0.0), (5.0, 1.0), (-0.1, 0.95)):
        some, aims = ask(np.where(MASK, -size, 0.0), size * ramp, lam)
        if not off and not close(aims, some + size * here, 1e-3):
            off, shown = True, aims[0]
    yield Property(
        "the targets are the advantages plus the values",
        not off,
        f"in the first text they are {numbers(shown)}",
    )
    problems = random_problems(_draw_texts, 40)
    for which, (name, slow) in enumerate(zip(NAMES, (_slow_advantages, _slow_targets), strict=True)):
        yield agrees(part(answer, which, NAMES, _two), slow, problems, what=name)


def _draw_texts(rng: np.random.Generator) -> dict[str, Any]:
    shape = int(rng.integers(1, 6)), int(rng.choice([1, 2, 3, 6, 12]))
    mask = masks(rng, shape)
    ended = rng.random(shape[0]) < 0.5
    rewards = rng.choice([0.1, 1, 20]) * rng.normal(rng.choice([-1, 0]), size=shape)
    values = rng.choice([0, 1, 20]) * rng.normal(size=(shape[0], shape[1] + 1))
    return {
        "rewards": litter(rng, rewards, mask),
        "values": litter(rng, values, _read(mask, ended)),
        "mask": mask,
        "ended": ended,
        "lam": float(rng.choice([0, 0.5, 0.95, 1])),
    }


def _slow_advantages(p: Problem) -> np.ndarray:
    """Each cell by itself: a sum over all the tokens from there on."""
    found = np.zeros(p.mask.shape)
    for b, t in zip(*np.nonzero(p.mask), strict=True):
        length = int(p.mask[b].sum())
        for k in range(t, length):
            after = 0.0 if k == length - 1 and p.ended[b] else p.values[b, k + 1]
            found[b, t] += p.lam ** (k - t) * (p.rewards[b, k] + after - p.values[b, k])
    return found


def _slow_targets(p: Problem) -> np.ndarray:
    values = np.array([row[:-1] for row in p.values])
    return _slow_advantages(p) + np.where(p.mask, values, 0.0)


# --- the loss


@CHAPTER.check("token-loss", section="sec-rlhf-ppo")
def token_loss(answer: Answer) -> Findings:
    # Ratios 1.5, 0.5 and 1 with advantages 1, −1 and 2.5; in the second text 1.6 with −1, and padding.
    mask = np.array([[True, True, True], [True, False, False]])
    old = np.array([[-1.3, -2, -2.2], [-2, -4, -4]])
    ratio = np.array([[1.5, 0.5, 1], [1.6, 1, 1]])
    advantage = np.array([[1.0, -1, 2.5], [-1, 3, 3]])
    logp = old + np.log(ratio)
    shown = torch.as_tensor(mask)

    def ask(
        logp: np.ndarray = logp,
        old: np.ndarray = old,
        advantage: np.ndarray = advantage,
        mask: Tensor = shown,
        eps: float = 0.2,
        finite: bool = False,
    ) -> tuple[float, list[np.ndarray]]:
        leaves = [leaf(x) for x in (logp, old, advantage)]
        loss = answer(*leaves, mask, eps)
        if not mask.any() and isinstance(loss, Tensor) and not loss.requires_grad:
            raise Mistake("an empty mask cuts the gradient off")
        found = float(as_array(loss, (), "the loss", finite=finite))
        if not np.isfinite(found):
            return found, [np.zeros(logp.shape)] * 3
        return found, gradients(loss, *leaves)

    def clipped(r: np.ndarray, eps: float = 0.2, pick: Any = np.minimum) -> np.ndarray:
        return np.asarray(pick(r * advantage, np.clip(r, 1 - eps, 1 + eps) * advantage))

    whole = np.array([[0.75] * 3, [1.6] * 3])
    right = clipped(ratio) * mask
    normal = advantage - advantage[mask].mean()
    scaled = normal / advantage[mask].std()
    both = [
        np.minimum(ratio * a, np.clip(ratio, 0.8, 1.2) * a)[mask].mean()
        for a in (normal, scaled, advantage / advantage[mask].std())
    ]
    one_sided = np.minimum(ratio, 1.2), np.maximum(ratio, 0.8)
    got, _ = ask(finite=True)
    yield from recognise(
        got,
        {
            "a mean over all cells, padding too": either(-right.sum() / 6, -clipped(ratio).mean()),
            "padding is in the sum": -clipped(ratio).sum() / 4,
            "each text counts the same": -(2.9 / 3 - 1.6) / 2,
            "a sum, not a mean": either(-right.sum(), -right.sum() / 2),
            "the sign is reversed": right.sum() / 4,
            "the mask is inverted": -3,
            "the larger of the two, not the smaller": -clipped(ratio, pick=np.maximum)[mask].mean(),
            "nothing is clipped": -(ratio * advantage)[mask].mean(),
            "only the clipped term": -(np.clip(ratio, 0.8, 1.2) * advantage)[mask].mean(),
            "the clip has only one side": either(
                *(-np.minimum(ratio * advantage, r * advantage)[mask].mean() for r in one_sided)
            ),
            "the ratio is upside down": -clipped(1 / ratio)[mask].mean(),
            "one ratio for the whole text": either(
                -clipped(whole)[mask].mean(), -clipped(whole ** (1 / np.array([[3], [1]])))[mask].mean()
            ),
            "the advantages are normalized once more": either(*(-x for x in both)),
            "the quotient of the logarithms": either(
                -clipped(logp / old)[mask].mean(), -clipped(old / logp)[mask].mean()
            ),
            "the logarithm of the ratio, not the ratio": -clipped(np.log(ratio))[mask].mean(),
            "the probability, not the ratio": -clipped(np.exp(logp))[mask].mean(),
            "the log-probability, not the ratio": -(logp * advantage)[mask].mean(),
        },
    )
    wide = ask(eps=0.4)[0]
    held = np.minimum(ratio * advantage, np.exp(np.clip(np.log(ratio), -0.4, 0.4)) * advantage)
    yield from recognise(
        wide,
        {
            "eps is not used": close(wide, got) and not close(wide, -clipped(ratio, 0.4)[mask].mean()),
            "the logarithm of the ratio is clipped": -held[mask].mean(),
        },
        wide=wide,
    )
    value, (slope, to_old, to_advantage) = ask()
    yield from recognise(
        value,
        {
            "the gradient reaches the old policy": bool(to_old.any()),
            "the gradient reaches the advantages": bool(to_advantage.any()),
            "the gradient has the wrong sign": close(slope[0, 2], 0.625),
        },
        slope=slope[0],
    )
    for holes in ((np.nan,) * 3, (-np.inf,) * 3, (0.0, -1000.0, 3.0), (0.0, 0.0, np.inf)):
        given = [np.where(mask, x, hole) for x, hole in zip((logp, old, advantage), holes, strict=True)]
        value, (slope, *_) = ask(given[0], given[1], given[2])
        yield from recognise(
            value,
            {
                "padding gets through": not close(value, got),
                "padding gets into the gradient": bool(
                    np.isnan(slope).any() or np.isinf(slope).any() or slope[~mask].any()
                ),
            },
        )
    nothing = torch.zeros_like(shown)
    value, (slope, *_) = ask(mask=nothing)
    yield from recognise(
        value,
        {"the mean of nothing": not np.isfinite(value) or not np.isfinite(slope).all()},
    )
    values = [value]
    for hole in (np.nan, -np.inf, np.inf):
        full = np.full(mask.shape, hole)
        filled, (slope, *_) = ask(full, full, full, mask=nothing)
        touched = not np.isfinite(filled) or not np.isfinite(slope).all()
        values.append(filled)
        yield from recognise(filled, {"an empty mask lets padding through": touched}, hole=hole)
    yield Property("an empty mask is a loss of 0", not any(values), f"you have {numbers(values)}")
    yield agrees(
        answer,
        _slow_surrogate,
        random_problems(_draw_loss, 30),
        by=("logp",),
        held=("old_logp", "advantages"),
        what="the loss",
    )


def _draw_loss(rng: np.random.Generator) -> dict[str, Any]:
    shape = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    mask = masks(rng, shape) & (rng.random() < 0.9)  # sometimes padding only
    old = -rng.exponential(2, size=shape)
    moved = rng.choice([0.02, 0.4, 2, 8]) * rng.normal(size=shape)
    advantages = rng.choice([0.1, 1, 20]) * rng.normal(rng.choice([-1, 0, 1]), size=shape)
    return {
        "logp": litter(rng, old + moved, mask),
        "old_logp": litter(rng, old, mask),
        "advantages": litter(rng, advantages, mask),
        "mask": mask,
        "eps": float(rng.choice([0.05, 0.2, 0.5])),
    }


def _slow_surrogate(p: Problem) -> float:
    """Token by token."""
    total, count = 0.0, 0
    for b, t in zip(*np.nonzero(p.mask), strict=True):
        ratio = float(np.exp(p.logp[b, t] - p.old_logp[b, t]))
        held = min(max(ratio, 1 - p.eps), 1 + p.eps)
        total -= min(ratio * p.advantages[b, t], held * p.advantages[b, t])
        count += 1
    return total / count if count else 0.0
