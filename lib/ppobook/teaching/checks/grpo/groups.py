"""Checks of what a group makes of its rewards: advantages, baselines, the weight of a prompt."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, either, numbers, recognise, words
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, probabilities


def _plain(back: Any) -> Any:
    if isinstance(back, Tensor) and back.requires_grad:
        raise Mistake("the result still has a graph")
    return back


@CHAPTER.check("group-advantages", section="sec-grpo-group")
def group_advantages(answer: Answer) -> Findings:
    def ask(rewards: Any, size: int, *, graph: bool = False) -> np.ndarray:
        given = torch.tensor(rewards, dtype=torch.float32, requires_grad=graph)
        back = _plain(answer(given, size))
        return as_array(back, (len(rewards),), "the advantages", finite=False)

    # The groups 0, 2, 4 and 10, 10, 40, with the means 2 and 20 and the standard deviations 2 and √300.
    r, size = np.array([0.0, 2, 4, 10, 10, 40]), 3
    got = ask(r.tolist(), size)
    rows, columns, pairs = r.reshape(2, 3), r.reshape(3, 2), r.reshape(3, 2)
    centred = rows - rows.mean(1, keepdims=True)
    std, biased = (rows.std(1, ddof=d, keepdims=True) for d in (1, 0))
    right = (centred / std).ravel()

    def standard(x: np.ndarray, axis: int | None, d: int) -> np.ndarray:
        return ((x - x.mean(axis, keepdims=True)) / x.std(axis, ddof=d, keepdims=True)).ravel()

    yield from recognise(
        got,
        {
            "the sign is turned round": -right,
            "every second completion, not the neighbors": either(
                *(standard(columns, 0, d) for d in (0, 1)), (columns - columns.mean(0)).ravel()
            ),
            "group_size is taken for the number of groups": either(
                *(standard(pairs, 1, d) for d in (0, 1)), (pairs - pairs.mean(1, keepdims=True)).ravel()
            ),
            "all prompts are one group": either(*(standard(r, None, d) for d in (0, 1)), r - r.mean()),
            "the standard deviation is not the group's": either(
                *((centred / x.std(ddof=d)).ravel() for x in (r, centred) for d in (0, 1))
            ),
            "the mean is not the group's": either(*(((rows - r.mean()) / s).ravel() for s in (std, biased))),
            "another group's standard deviation": either(
                *((centred / s[::-1]).ravel() for s in (std, biased)),
                *((centred / np.resize(s.ravel(), 6).reshape(2, 3)).ravel() for s in (std, biased)),
            ),
            "another group's mean": either(
                *(((rows - rows.mean(1)[::-1, None]) / s).ravel() for s in (std, biased)),
                *((r - np.resize(rows.mean(1), 6)) / s.repeat(3) for s in (std, biased)),
                (r - np.resize(rows.mean(1), 6)) / np.resize(std, 6),
            ),
            "not divided by the standard deviation": centred.ravel(),
            "the mean is not subtracted": either(*((rows / s).ravel() for s in (std, biased))),
            "divided by the variance": either(*((centred / s**2).ravel() for s in (std, biased))),
            "the standard deviation divides by G": (centred / biased).ravel(),
            "compared with the others only": either(
                1.5 * centred.ravel(), 1.5 * right, (1.5 * centred / biased).ravel()
            ),
        },
        first=got[:3],
        second=got[3:],
    )
    ask(r.tolist(), size, graph=True)
    mixed = ask([5.0, 5, 5, 0, 2, 4], size)
    # In float32 the mean of seven numbers 1000.1 is not 1000.1; of one row torch's `std` is not 0 either.
    large = np.append(ask([1000.1] * 7 + [0.1] * 7, 7), ask([1000.1] * 7, 7))
    near, fits = ask([0.0, 1e-4, 2e-4], size), close(got, right, 1e-3)
    alike = [[0.0, 1e-4, 2e-4], [1000.0, 1000.005, 1000.008], [0.0, 3e-7, 6e-7]]
    silent = [rewards for rewards in alike if not ask(rewards, size).any()]
    yield from recognise(
        mixed,
        {
            "0 is divided by 0": not np.isfinite(mixed).all(),
            "one dead group silences the others": not mixed.any(),
            "rounding errors are divided by eps": fits and np.abs(np.append(mixed[:3], large)).max() > 0,
            "a group that nearly agrees is taken for dead": fits and bool(silent),
            "nothing is added to the standard deviation": fits and close(near, [-1, 0, 1], 2e-3),
            "eps stands under the root": close(near, [-0.01, 0, 0.01], 1e-3),
            "eps is not 1e-4": fits and not close(near, [-0.5, 0, 0.5], 1e-2),
        },
        large=np.abs(large).max(),
        near=near,
        alike=", ".join(f"{x:.7g}" for x in (silent or alike)[0]),
    )
    yield Property(
        "in each group they add up to 0",
        close(got.reshape(2, 3).sum(1), [0, 0], 1e-3),
        f"from the rewards 0, 2, 4 and 10, 10, 40 you get {numbers(got)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        groups, size = int(rng.integers(1, 6)), int(rng.choice([2, 3, 5, 7, 8]))
        rewards = rng.choice([0.01, 1, 100]) * rng.normal(rng.choice([-2, 0, 2, 500]), size=(groups, size))
        if rng.random() < 0.4:
            rewards = (rewards > 0).astype(float)
        equal = rng.random(groups) < 0.2
        rewards[equal] = rewards[equal, :1]
        return {"rewards": rewards.ravel(), "group_size": size}

    def slow(p: Problem) -> list[float]:
        """The variance from all pairs of a group."""
        found: list[float] = []
        for start in range(0, len(p.rewards), p.group_size):
            group = [float(x) for x in p.rewards[start : start + p.group_size]]
            n = len(group)
            variance = sum((a - b) ** 2 for a in group for b in group) / (2 * n * (n - 1))
            found += [sum(a - b for b in group) / n / (variance**0.5 + 1e-4) for a in group]
        return found

    yield agrees(answer, slow, random_problems(draw, 40), what="the advantages")


# ---------------------------------------------------------------------------------------------------
# Baselines, over all groups that there are


def nothing(rewards: np.ndarray) -> np.ndarray:
    return np.zeros(len(rewards))


def mean_of_all(rewards: np.ndarray) -> np.ndarray:
    return np.full(len(rewards), rewards.mean())


def mean_of_others(rewards: np.ndarray) -> np.ndarray:
    return (rewards.sum() - rewards) / (len(rewards) - 1)


def mean_so_far(rewards: np.ndarray) -> np.ndarray:
    return np.asarray(np.cumsum(rewards) / np.arange(1, len(rewards) + 1))


def best_of_all(rewards: np.ndarray) -> np.ndarray:
    return np.full(len(rewards), rewards.max())


def worst_of_others(rewards: np.ndarray) -> np.ndarray:
    return np.array([min(np.delete(rewards, i)) for i in range(len(rewards))])


BASELINES = {
    f.__name__: f for f in (nothing, mean_of_all, mean_of_others, mean_so_far, best_of_all, worst_of_others)
}


@CHAPTER.check("group-mean", section="sec-grpo-group")
def group_mean(answer: Answer) -> Findings:
    pi, r = np.array([0.5, 0.3, 0.2]), np.array([1.0, 0.0, 4.0])

    def ask(baseline: Callable[[np.ndarray], np.ndarray], size: int = 2) -> np.ndarray:
        back = answer(pi.copy(), r.copy(), size, baseline)
        return as_array(back, (3,), "the mean gradient", finite=False)

    gradient = pi * (r - pi @ r)  # of the expected reward, by the logits
    # Of the pushes R(e − π) of each outcome: their sums with other weights than π.
    pushes = r[:, None] * (np.eye(3) - pi)
    apart, same = (w @ pushes for w in (pi * (1 - pi), pi**2))
    seen: list[int] = []

    def counted(rewards: np.ndarray) -> np.ndarray:
        seen.append(len(rewards))
        return nothing(rewards)

    plain, own, others = ask(counted), ask(mean_of_all), ask(mean_of_others, 3)
    best, so_far = ask(best_of_all), ask(mean_so_far)
    # With that baseline the second of two counts for half of what it has more than the first.
    sorted_pushes = sum(
        (1 + (i != j)) * pi[i] * pi[j] * (r[j] - r[i]) / 4 * (np.eye(3)[j] - pi)
        for i in range(3)
        for j in range(i, 3)
    )
    fits = close(plain, gradient) and close(own, gradient / 2) and close(others, gradient)
    yield from recognise(
        plain,
        {
            "the sign is turned round": -gradient,
            "a sum over the group, not a mean": either(2 * gradient, 4 * gradient),
            "the groups are not weighted": either(pushes.sum(0) / 3, pushes.sum(0), 3 * pushes.sum(0)),
            "the gradient is not with respect to the logits": either(pi * r, r, r / 3),
            "no outcome may come twice": either(apart, apart / (1 - pi @ pi)),
            "each order is counted once": either(apart / 2 + same, (apart / 2 + same) / (0.5 + pi @ pi / 2)),
            "the factor does not depend on the baseline": close(plain, gradient / 2),
            "the baseline is not subtracted": close(plain, gradient)
            and close(own, gradient)
            and close(best, gradient),
            "one baseline for the whole group": close(others, gradient * 2 / 3) and close(plain, gradient),
            "one sample of each group stands for all": fits
            and (close(so_far, np.zeros(3)) or close(so_far, gradient / 2)),
            "one order stands for all of them": fits and close(so_far, sorted_pushes),
            # Nine groups: a right answer may ask more than once for each, not a hundred times.
            "groups are drawn, not listed": len(seen) > 100 and not close(plain, gradient),
        },
        own=own,
        others=others,
        so_far=so_far,
        right=gradient / 4,
        calls=len(seen),
        gradient=gradient,
    )
    yield Property(
        "with the group's mean it is (G − 1)/G of the gradient",
        close(own, gradient / 2) and close(ask(mean_of_all, 4), gradient * 3 / 4),
        f"at G = 2 you get {numbers(own)}, and the gradient is {numbers(gradient)}",
    )
    yield Property(
        "with the mean of the others it is the gradient",
        close(others, gradient),
        f"at G = 3 you get {numbers(others)}, and the gradient is {numbers(gradient)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        outcomes = int(rng.integers(2, 5))
        return {
            "probs": probabilities(rng.normal(size=outcomes)),
            "rewards": rng.choice([0.1, 1, 100]) * rng.normal(rng.choice([-2, 0, 2]), size=outcomes),
            "group_size": int(rng.choice([2, 3] if outcomes > 3 else [2, 3, 4])),
            "baseline": str(rng.choice(list(BASELINES))),
        }

    def slow(p: Problem) -> np.ndarray:
        """The slope of what old groups, weighted by a new policy, say of it; one logit at a time."""
        logits, change = np.log(p.probs), 1e-5
        groups = list(product(range(len(logits)), repeat=p.group_size))
        worth = [p.rewards[list(g)] - BASELINES[p.baseline](p.rewards[list(g)]) for g in groups]

        def surrogate(moved: np.ndarray) -> float:
            ratio = probabilities(moved) / p.probs
            return float(
                sum(
                    np.prod(p.probs[list(g)]) * np.mean(ratio[list(g)] * w)
                    for g, w in zip(groups, worth, strict=True)
                )
            )

        bumps = change * np.eye(len(logits))
        return np.array([(surrogate(logits + b) - surrogate(logits - b)) / (2 * change) for b in bumps])

    def by_name(probs: np.ndarray, rewards: np.ndarray, size: int, name: str) -> Any:
        return answer(probs, rewards, size, BASELINES[name])

    yield agrees(by_name, slow, random_problems(draw, 15), what="the mean gradient", arrays=True)


# ---------------------------------------------------------------------------------------------------
# The weight of a prompt


@CHAPTER.check("prompt-weight", section="sec-grpo-divisions")
def prompt_weight(answer: Answer) -> Findings:
    def ask(p: float, size: int, *, finite: bool = True) -> float:
        return float(as_array(answer(p, size), (), "the weight", finite=finite))

    got = np.array([ask(p, size) for p, size in ((0.2, 4), (0.5, 4), (0.2, 3))])

    def each(function: Callable[[float, int], float]) -> np.ndarray:
        return np.array([function(p, size) for p, size in ((0.2, 4), (0.5, 4), (0.2, 3))])

    def over_counts(
        p: float,
        n: int,
        std: Callable[[int, int], float] | None = None,
        coefficient: bool = True,
        counts: tuple[int, int] = (1, 0),
    ) -> float:
        total = 0.0
        for c in range(counts[0], n + counts[1]):
            sigma = (c * (n - c) / (n * (n - 1))) ** 0.5 if std is None else std(c, n)
            chance = (comb(n, c) if coefficient else 1) * p**c * (1 - p) ** (n - c)
            total += chance * c * (n - c) / n**2 / sigma
        return total / (p * (1 - p))

    def alive(p: float, n: int) -> float:
        return 1 - p**n - (1 - p) ** n

    yield from recognise(
        got,
        {
            "not divided by the standard deviation": each(lambda p, n: (n - 1) / n),
            "the standard deviation of an infinite group": either(
                each(lambda p, n: (p * (1 - p)) ** -0.5),
                each(lambda p, n: (n - 1) / n * (p * (1 - p)) ** -0.5),
                each(lambda p, n: ((n - 1) / n) ** 0.5 * (p * (1 - p)) ** -0.5),
            ),
            "the standard deviation divides by G": each(
                lambda p, n: over_counts(p, n, lambda c, m: (c * (m - c)) ** 0.5 / m)
            ),
            "divided by the variance": each(
                lambda p, n: over_counts(p, n, lambda c, m: c * (m - c) / (m * (m - 1)))
            ),
            "not compared with the gradient of p": each(lambda p, n: p * (1 - p) * over_counts(p, n)),
            "only the share of live groups": either(
                each(alive), each(lambda p, n: alive(p, n) * (n - 1) / n)
            ),
            "dead groups are left out of the mean": each(lambda p, n: over_counts(p, n) / alive(p, n)),
            "the ways to get c right are not counted": each(
                lambda p, n: over_counts(p, n, coefficient=False)
            ),
            "one count is left out": either(
                each(lambda p, n: over_counts(p, n, counts=(1, -1))),
                each(lambda p, n: over_counts(p, n, counts=(2, 0))),
                each(lambda p, n: over_counts(p, n, counts=(2, -1))),
            ),
            "a sum over the group, not a mean": each(lambda p, n: n * over_counts(p, n)),
            "the sign is turned round": each(lambda p, n: -over_counts(p, n)),
        },
        one=got[0],
        half=got[1],
    )
    right = close(got, each(over_counts), 1e-3)

    def seconds_for(size: int) -> float:
        began = time.process_time()
        ask(0.5, size)
        return time.process_time() - began

    # The best of several, since a slow moment at 9 would hide 2¹⁸ groups, and 2³⁴ do not fit in memory.
    small, seconds = min(seconds_for(9) for _ in range(5)), min(seconds_for(18) for _ in range(2))
    slow_down = right and seconds > max(0.02, 20 * small)
    yield from recognise(got, {"every group is enumerated": slow_down}, seconds=seconds)
    off = []
    for p, size in ((0.5, 21), (0.5, 34), (0.5, 64), (0.01, 64)):
        heavy = ask(p, size, finite=False)
        meant = over_counts(p, size)
        lost = right and not meant / 10 < heavy < 10 * meant
        yield from recognise(np.array(heavy), {"large numbers overflow": lost}, size=size, p=p)
        if not close(heavy, meant, 1e-3):
            off.append(f"at G = {size} and p = {p} the weight is {heavy:.4g}")
    yield Property("groups of up to 64 work", not off, "; ".join(off[:1]))
    mirrored = [ask(p, 5) for p in (0.1, 0.9)]
    yield Property(
        "an easy prompt weighs as much as a hard one",
        close(*mirrored),
        f"at G = 5 and p = 0.1 and 0.9 the weights are {numbers(mirrored)}",
    )
    rare = [ask(1e-6, size) for size in (4, 9)]
    yield Property(
        "a prompt that is hardly ever solved weighs (G − 1)/√G",
        close(rare, [1.5, 8 / 3], 1e-3),
        f"at p = 10⁻⁶ and G = 4 and 9 the weights are {numbers(rare)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return {
            "p": float(rng.choice([0.01, 0.1, 0.3, 0.5, 0.77, 0.99])),
            "group_size": int(rng.integers(2, 10)),
        }

    def slow(p: Problem) -> float:
        """All groups of rights and wrongs: the push on the logit of p, and the slope of p by it."""
        total = 0.0
        for group in product((1.0, 0.0), repeat=p.group_size):
            r = np.array(group)
            if r.std() == 0:
                continue
            pushes = (r - r.mean()) / r.std(ddof=1) * (r - p.p)  # the slope of log π by the logit is r − p
            total += float(np.prod(np.where(r == 1, p.p, 1 - p.p)) * pushes.mean())
        return total / (p.p * (1 - p.p))

    yield agrees(answer, slow, random_problems(draw, 20), what="the weight")


# ---------------------------------------------------------------------------------------------------
# A hunt: what belongs together


class _World:
    """Prompts with answers that are all different, and the reward of each."""

    def __init__(self, prompts: np.ndarray, size: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.prompts, self.size = prompts, size
        self.level = {int(p): 10.0 * i for i, p in enumerate(prompts)}
        self.spread = {int(p): 1.0 + i for i, p in enumerate(prompts)}
        self.noise = rng.normal(size=4096)
        self.drawn: list[int] = []
        self.rewarded: set[int] = set()

    def draw(self, rows: Any) -> Tensor:
        """An answer for each row: its number, which no other answer has."""
        first = len(self.drawn)
        self.drawn += [int(p) for p in rows]
        return torch.arange(first, len(self.drawn))

    def reward(self, rows: Any, answers: Any) -> Tensor:
        self.rewarded |= {int(a) for a in np.asarray(answers).ravel()}
        pairs = zip(np.asarray(rows).ravel(), np.asarray(answers).ravel(), strict=True)
        return torch.tensor([self._of(int(p), int(a)) for p, a in pairs], dtype=torch.float32)

    def _of(self, prompt: int, answer: int) -> float:
        return self.level[prompt] + self.spread[prompt] * float(self.noise[answer % 4096])

    def run(self, answer: Answer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows that came back, their rewards and their advantages."""
        back = answer(torch.tensor(self.prompts), self.size, self.draw, self.reward)
        if not isinstance(back, tuple | list) or len(back) != 3:
            came = "nothing" if back is None else words(back)
            raise Stop("returned", "not three things", f"return rows, answers and advantages; got {came}.")
        n = len(self.prompts) * self.size
        if len(self.drawn) > 4 * n:  # among thousands some have equal rewards, and advantages of zero
            raise Stop(
                "returned",
                "far more answers than asked for",
                f"the batch needs {n} answers, one for each row, but {len(self.drawn)} were drawn.",
            )
        names = "the rows", "the answers", "the advantages"
        found = [as_array(_plain(x), (n,), name) for x, name in zip(back, names, strict=True)]
        rows, answers = (x.astype(int) for x in found[:2])
        counts = [int((rows == p).sum()) for p in self.prompts]
        if counts != [self.size] * len(counts):
            raise Mistake("a prompt does not occur G times", counts=counts, size=self.size)
        fit = [0 <= a < len(self.drawn) and self.drawn[a] == p for p, a in zip(rows, answers, strict=True)]
        if not all(fit):
            raise Mistake("an answer belongs to another prompt", wrong=n - sum(fit))
        if (different := len(set(answers.tolist()))) < n:
            raise Mistake("an answer occurs twice", different=different, n=n)
        if strange := set(answers.tolist()) - self.rewarded:
            raise Mistake("the answers are not the ones that were rewarded", strange=len(strange), n=n)
        rewards = np.array([self._of(p, a) for p, a in zip(rows, answers, strict=True)])
        return rows, rewards, found[2]


@CHAPTER.check("hunt-groups", section="sec-grpo-code")
def hunt_groups(answer: Answer) -> Findings:
    rows, r, got = _World(np.array([4, 0, 7]), 4, seed=1).run(answer)

    def spread_out(groups: np.ndarray, tiled: bool) -> np.ndarray:
        return np.resize(groups, r.size) if tiled else groups.repeat(r.size // len(groups))

    def variant(mean_tiled: bool, std_tiled: bool, ddof: int = 1) -> np.ndarray:
        groups = r.reshape(3, 4)
        mean, std = groups.mean(1), groups.std(1, ddof=ddof)
        return (r - spread_out(mean, mean_tiled)) / (spread_out(std, std_tiled) + 1e-4)

    one = all(len(set(group)) == 1 for group in rows.reshape(3, 4).tolist())
    by_hand = np.zeros(r.size)
    for p in set(rows.tolist()):
        mine = r[rows == p]
        by_hand[rows == p] = mine - mine.mean()
    yield from recognise(
        got,
        {
            "both bugs are still there": not one and close(got, variant(False, True), 1e-3),
            "a group is not of one prompt": not one and close(got, variant(False, False), 1e-3),
            "another group's standard deviation": one and close(got, variant(False, True), 1e-3),
            "another group's mean": one
            and (close(got, variant(True, False), 1e-3) or close(got, variant(True, True), 1e-3)),
            "not divided by the standard deviation": by_hand,
            "the standard deviation divides by G": one and close(got, variant(False, False, 0), 1e-3),
            "one standard deviation for the whole batch": either(
                *(by_hand / x.std(ddof=d) for x in (r, by_hand) for d in (0, 1))
            ),
        },
        rows=rows,
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        count = int(rng.integers(1, 6))
        return {
            "prompts": rng.permutation(9)[:count],
            "group_size": int(rng.choice([2, 3, count + 1, 5, 7])),
            "seed": int(rng.integers(1000)),
        }

    sizes = []
    for p in random_problems(draw, 20):
        rows, r, got = _World(p.prompts, p.group_size, p.seed).run(answer)
        wanted = np.zeros(r.size)
        for prompt in set(rows.tolist()):
            mine = [float(x) for x in r[rows == prompt]]
            n = len(mine)
            variance = sum((a - b) ** 2 for a in mine for b in mine) / (2 * n * (n - 1))
            wanted[rows == prompt] = [sum(a - b for b in mine) / n / (variance**0.5 + 1e-4) for a in mine]
        if not close(got, wanted, 2e-3):
            sizes.append(f"with {len(p.prompts)} prompts and G = {p.group_size} they are {numbers(got)}")
    yield Property(
        "each answer is compared with answers to its own prompt, on 20 random batches",
        not sizes,
        sizes[0] if sizes else "",
    )
