"""The check of a whole update: what happens to the weights, and what is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, either, numbers, recognise, words
from ..beside.grpo import Batch
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, probabilities


def _losses(
    batch: Batch, answer: Answer, rewards: Any, size: int, eps: float, beta: float, epochs: int
) -> np.ndarray:
    """The losses that are reported."""
    given = (
        batch.logp_of,
        batch.optimizer,
        batch.ref_logp.clone(),
        torch.tensor(rewards, dtype=torch.float32),
    )
    back = answer(*given, batch.mask.clone(), size, eps, beta, epochs)
    if back is None or isinstance(back, str | dict) or (isinstance(back, list | tuple) and not back):
        raise Stop("returned", "no losses", f"return a list with one loss per step; got {words(back)}.")
    if isinstance(back, list | tuple):
        back = [x.item() if isinstance(x, Tensor) and x.numel() == 1 else x for x in back]
    if np.ndim(back) == 1 and len(back) != epochs and len(batch.optimizer.felt) == epochs:
        raise Mistake("not one loss per step", came=len(back), epochs=epochs)
    return as_array(back, (epochs,), "the losses", finite=False)


# How hard a token is pushed, from log π − log π_old and log π_ref − log π.
Push = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _steps(batch: Batch, push: Push, rate: float, epochs: int) -> np.ndarray:
    """Return the new logits after pushing each token like this and averaging over a completion."""
    logits, tokens = batch.before.copy(), batch.tokens.numpy()
    rows, columns = np.nonzero(batch.mask.numpy())
    prompts, taken = batch.prompt.numpy()[rows], tokens[rows, columns]
    lengths = batch.mask.sum(1).numpy()[rows]
    ref = batch.ref_logp.double().numpy()[rows, columns]

    def logp(table: np.ndarray) -> np.ndarray:
        return np.log(probabilities(table))[prompts, columns, taken]

    old = logp(logits)
    for _ in range(epochs):
        now, pi = logp(logits), probabilities(logits)
        slope = np.zeros(logits.shape)
        pushes = zip(prompts, columns, taken, push(now - old, ref - now), lengths, strict=True)
        for p, t, word, weight, length in pushes:
            slope[p, t] += weight / length / len(tokens) * ((np.arange(logits.shape[-1]) == word) - pi[p, t])
        logits = logits + rate * slope
    return logits - batch.before


def _standard(rewards: np.ndarray, size: int = 3) -> np.ndarray:
    """The advantages of step 1."""
    groups = np.asarray(rewards, dtype=np.float64).reshape(-1, size)
    std = groups.std(1, ddof=1, keepdims=True)
    return np.asarray((groups - groups.mean(1, keepdims=True)) / (std + 1e-4)).ravel()


def _cut(moved: np.ndarray, wanted: np.ndarray) -> bool:
    """Is it the wanted step made shorter, or the wanted step with a bound on each entry?"""
    share, bound = float(np.linalg.norm(moved) / np.linalg.norm(wanted)), float(np.abs(moved).max())
    return share < 0.99 and (close(moved, share * wanted) or close(moved, np.clip(wanted, -bound, bound)))


@CHAPTER.check("grpo-update", section="sec-grpo-code")
def grpo_update(answer: Answer) -> Findings:
    tokens = np.array([[0, 1, 2], [1, 1, 0], [2, 0, 1], [0, 2, 2], [1, 0, 0], [2, 2, 1]])
    mask = np.arange(3) < np.array([3, 2, 1, 3, 1, 2])[:, None]
    rewards = np.array([1.0, 0, 0, 40, 10, 10])
    logits = np.array([[[0.3, -0.2, 0.1]] * 3, [[0.0, 0.4, -0.1]] * 3])
    size, groups = 3, rewards.reshape(2, 3)

    def made(rate: float = 0.2, gap: Any = 0.0) -> Batch:
        return Batch(logits, tokens, mask, np.broadcast_to(gap, mask.shape), rate)

    one, three, short = made(), made(), made()
    first = _losses(one, answer, rewards, size, 0.2, 0.0, 1)
    if one.optimizer.felt == [0.0]:
        yield Mistake("old_logp is not detached")
    losses = _losses(three, answer, rewards, size, 0.2, 0.0, 3)
    _losses(short, answer, rewards, size, 0.2, 0.0, 5)
    worth = _standard(rewards)
    rows = np.nonzero(mask)[0]

    def step(a: np.ndarray) -> np.ndarray:
        return _steps(made(), lambda r, _: a[rows], 0.2, 1)

    right = step(worth)
    whole, within = rewards - rewards.mean(), (groups - groups.mean(1, keepdims=True)).ravel()
    taken = len(three.optimizer.felt), len(short.optimizer.felt)
    yield from recognise(
        one.moved,
        {
            "one step, whatever epochs says": taken == (1, 1),
            "epochs is not the number of steps": taken != (3, 5) and any(taken),
            "the weights are left as they were": bool(np.abs(one.moved).max() < 1e-6),
            "it goes uphill": -right,
            "the rewards themselves are the advantages": step(rewards),
            "all prompts are one group": either(
                *(step(x) for x in (whole, whole / rewards.std(), whole / rewards.std(ddof=1)))
            ),
            "every second completion, not the neighbors": step(
                (
                    (rewards.reshape(3, 2) - rewards.reshape(3, 2).mean(0))
                    / rewards.reshape(3, 2).std(0, ddof=1)
                ).ravel()
            ),
            "not divided by the standard deviation": step(within),
        },
        taken=taken,
    )
    # Long steps, without a KL: old and new policy soon differ, and some tokens fall silent.
    many = made(1.0)
    reported = _losses(many, answer, rewards, size, 0.2, 0.0, 6)

    def clipped(log_ratio: np.ndarray, _: np.ndarray) -> np.ndarray:
        a, ratio = worth[rows], np.exp(log_ratio)
        return np.where(((a > 0) & (ratio > 1.2)) | ((a < 0) & (ratio < 0.8)), 0.0, ratio * a)

    added = made(0.05)
    _losses(added, answer, rewards, size, 0.2, 0.0, 2)
    single = made(0.05)
    _losses(single, answer, rewards, size, 0.2, 0.0, 1)
    went = float(np.abs(added.moved).max() / np.abs(single.moved).max())
    narrow = made(1.0)
    _losses(narrow, answer, rewards, size, 0.05, 0.0, 6)
    yield from recognise(
        many.moved,
        {
            "the gradients are not zeroed between the steps": went > 2.5,
            "each step takes every ratio for 1": _steps(made(), lambda r, _: worth[rows], 1.0, 6),
            "nothing is clipped": _steps(made(), lambda r, _: np.exp(r) * worth[rows], 1.0, 6),
            "eps is not used": close(narrow.moved, many.moved),
        },
        went=went,
    )
    # And a reference that likes some tokens better and some less, with rewards that are all equal.
    likes = np.array([0.7, -0.4, 0.3])
    away, twice, behind, heavy, mixed, dearer = (made(gap=likes) for _ in range(6))
    _losses(away, answer, np.ones(6), size, 0.2, 1.0, 1)
    _losses(twice, answer, np.ones(6), size, 0.2, 2.0, 1)
    swing = made(10.0, likes)  # steps so long that the loss rises
    rising = _losses(swing, answer, np.ones(6), size, 0.2, 1.0, 3)
    _losses(heavy, answer, np.ones(6), size, 0.2, 100.0, 1)
    _losses(mixed, answer, rewards, size, 0.2, 0.3, 1)
    _losses(dearer, answer, rewards, size, 0.2, 3.0, 1)
    _losses(behind, answer, rewards, size, 0.2, 0.0, 1)

    def priced(push: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return _steps(made(gap=likes), lambda _, x: push(x), 0.2, 1)

    def priced_as(price: np.ndarray) -> np.ndarray:
        worth = _standard(-price)
        return _steps(made(gap=likes), lambda *_: worth[rows], 0.2, 1)

    kl = (-likes * mask).sum(1)
    toward = priced(lambda x: np.exp(x) - 1)
    to_reference = _steps(made(gap=likes), lambda _, x: clipped(-x, x), 0.2, 1)
    yield from recognise(
        away.moved,
        {
            "the reference stands in for the old policy": close(behind.moved, to_reference),
            "there is no KL in the loss": 0,
            "the KL is subtracted": -toward,
            "the ratio in the KL is reversed": priced(lambda x: 1 - np.exp(-x)),
            "k1, which has no gradient on average": either(priced(np.ones_like), -priced(np.ones_like)),
            "k2, half the square": either(priced(lambda x: x), priced(lambda x: 2 * x)),
            "the KL is in the reward": either(*(priced_as(x) for x in (kl, kl / mask.sum(1)))),
            "kl_coef is not used": close(away.moved, twice.moved) and close(mixed.moved, dearer.moved),
            "a step is left out where the loss rises": len(swing.optimizer.felt) != 3,
            # A gradient a hundred times as large, and a step that is not.
            "the gradient is clipped": close(away.moved, toward, 1e-3)
            and close(twice.moved, 2 * toward, 1e-3)
            and _cut(heavy.moved, 100 * toward),
        },
        rising=rising,
        steps=len(swing.optimizer.felt),
        length=float(np.linalg.norm(heavy.moved / 0.2)),
        whole=float(np.linalg.norm(toward / 0.2)) * 100,
    )
    yield Property(
        "the losses are those before each step",
        close(first[0], -float(np.mean(worth)), 1e-3) and abs(first[0]) < 1e-3 and np.isfinite(losses).all(),
        f"before the first step each ratio is 1, so the loss should be 0; your first loss is {first[0]:.4g}",
    )
    yield Property(
        "the loss falls from step to step",
        bool(losses[0] > losses[1] > losses[2]),
        f"the losses of three steps are {numbers(losses)}",
    )
    yield Property(
        "tokens lose their gradient a little beyond the clip",
        close(many.moved, _steps(made(), clipped, 1.0, 6), 1e-3),
        f"six long steps moved the logits by up to {np.abs(many.moved).max():.3g}, to a loss of "
        f"{numbers(reported[-1])}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        prompts, size, columns = int(rng.integers(1, 4)), int(rng.choice([2, 3, 5])), int(rng.integers(1, 4))
        shape = prompts * size, columns
        rewards = rng.choice([0.1, 1, 10]) * rng.normal(size=shape[0])
        if rng.random() < 0.4:
            rewards = (rewards > 0).astype(float)
        beta = float(rng.choice([0, 0.04, 1, 20]))
        return {
            "logits": rng.normal(size=(prompts, columns, 3)),
            "tokens": rng.integers(3, size=shape),
            "mask": np.arange(columns) < rng.integers(1, columns + 1, size=(shape[0], 1)),
            "gap": 0.3 * rng.normal(size=shape),
            "rewards": rewards,
            "group_size": size,
            "clip_eps": float(rng.choice([0.1, 0.2, 0.5])),
            "kl_coef": beta,
            "epochs": int(rng.integers(1, 5)),
            "rate": 0.05 if beta > 1 else float(rng.choice([0.1, 1.0, 4.0])),
        }

    def run(*given: Any) -> np.ndarray:
        plain: list[Any] = [np.asarray(x) if isinstance(x, Tensor) else x for x in given]
        logits, tokens, mask, gap, rewards, size, eps, beta, epochs, rate = plain
        batch = Batch(logits, tokens, mask, gap, rate)
        reported = _losses(batch, answer, rewards, size, eps, beta, epochs)
        return np.append(batch.moved.ravel(), reported)

    def slow(p: Problem) -> np.ndarray:
        """Each step by differences of the loss, logit by logit."""
        logits, losses, change = p.logits.copy(), [], 1e-5
        prompt = np.arange(len(p.tokens)) // p.group_size

        def logp(table: np.ndarray, b: int, t: int) -> float:
            return float(np.log(probabilities(table[prompt[b], t]))[p.tokens[b, t]])

        def advantage(b: int) -> float:
            group = [float(r) for r, q in zip(p.rewards, prompt, strict=True) if q == prompt[b]]
            variance = sum((x - y) ** 2 for x in group for y in group) / (2 * len(group) * (len(group) - 1))
            return (float(p.rewards[b]) - sum(group) / len(group)) / (variance**0.5 + 1e-4)

        worth = [advantage(b) for b in range(len(p.tokens))]
        places = [[t for t in range(p.tokens.shape[1]) if p.mask[b, t]] for b in range(len(p.tokens))]
        old = {(b, t): logp(p.logits, b, t) for b, row in enumerate(places) for t in row}

        def loss(table: np.ndarray) -> float:
            total = 0.0
            for b, row in enumerate(places):
                for t in row:
                    now = logp(table, b, t)
                    r, x = np.exp(now - old[b, t]), old[b, t] + float(p.gap[b, t]) - now
                    inside = sorted([1 - p.clip_eps, r, 1 + p.clip_eps])[1]
                    term = -min(r * worth[b], inside * worth[b]) + p.kl_coef * (np.exp(x) - 1 - x)
                    total += term / len(row) / len(places)
            return total

        for _ in range(p.epochs):
            losses.append(loss(logits))
            slope = np.zeros(logits.shape)
            for where in np.ndindex(logits.shape):
                bump = np.zeros(logits.shape)
                bump[where] = change
                slope[where] = (loss(logits + bump) - loss(logits - bump)) / (2 * change)
            logits = logits - p.rate * slope
        return np.append((logits - p.logits).ravel(), losses)

    problems = random_problems(draw, 8)
    yield agrees(run, slow, problems, what="(how the logits moved, the losses)", arrays=True, tolerance=2e-3)
