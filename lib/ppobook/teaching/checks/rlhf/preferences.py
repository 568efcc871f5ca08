"""Checks of the loss of a reward model, of its level, and of a price for a reward of any unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, part, several

# --- the loss


def _shapes(first: Tensor, *rest: Any) -> list[tuple[int, ...]]:
    return [(), tuple(first.shape)]


NAMES = ("the loss", "the gradient")


def _choices(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def _surprise(x: float) -> float:
    """−log σ(x), without a large exponential."""
    return math.log1p(math.exp(-abs(x))) + max(-x, 0.0)


def _chance(x: float) -> float:
    return math.exp(-_surprise(x))


@CHAPTER.check("bt-loss", section="sec-rlhf-bradley-terry")
def bt_loss(answer: Answer) -> Findings:
    # Differences of 1, 0 and 3; four, one and two people; of the last pair both chose the second text.
    first, second = _choices([1, 0, 2]), _choices([0, 0, -1])
    wins, losses = _choices([3, 1, 0]), _choices([1, 0, 2])
    loss, slope = several(answer(first, second, wins, losses), _shapes(first), NAMES)
    yes = np.array([0.313262, 0.693147, 0.048587])  # −log σ(Δ)
    no = yes + np.array([1, 0, 3])  # −log σ(−Δ)
    w, n = np.array([3, 1, 0]), np.array([1, 0, 2])
    each = w * yes + n * no
    up, down = 1 - np.exp(-yes), 1 - np.exp(-no)
    yield from recognise(
        loss,
        {
            "the sign is reversed": -each.sum() / 7,
            "first and second are exchanged": (w * no + n * yes).sum() / 7,
            "the choices are added up, not averaged": each.sum(),
            "a mean over pairs, not over choices": either(each.sum() / 3, (each / [4, 1, 2]).sum() / 3),
            "votes for the second text are left out": either(
                (w * yes).sum() / 7, (w * yes).sum() / 4, (w * yes).sum() / 3, yes.mean()
            ),
            "only what the majority chose": either((yes[0] + yes[1] + no[2]) / 3, yes[0] + yes[1] + no[2]),
            "a probability, not its logarithm": either(
                (w * np.exp(-yes) + n * np.exp(-no)).sum() / 7,
                -(w * np.exp(-yes) + n * np.exp(-no)).sum() / 7,
            ),
            "a difference, not a log-probability": either(
                -((w - n) * [1, 0, 3]).sum() / 7, ((w - n) * [1, 0, 3]).sum() / 7
            ),
            "a squared error": either(
                (w * up**2 + n * down**2).sum() / 7, ((np.exp(-yes) - w / (w + n)) ** 2).mean()
            ),
        },
    )
    right = -(w * up - n * down) / 7
    yield from recognise(
        slope,
        {
            "the gradient's sign is reversed": -right,
            "the gradient belongs to the sum": 7 * right,
            "the gradient is averaged over pairs": 7 / 3 * right,
            "the gradient weights by certainty, not by surprise": either(
                -(w * down - n * up) / 7, -(w * np.exp(-yes) - n * np.exp(-no)) / 7
            ),
            "the gradient leaves out votes for the second text": -w * up / 7,
            "the gradient counts votes for the second text with the wrong sign": -(w * up + n * down) / 7,
            "the gradient ignores the votes": either(-up / 3, -up),
        },
    )
    near = close(loss, each.sum() / 7, 1e-3)
    far = [_choices(v) for v in ([-90.0, 2000.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0])]
    loss, slope = several(answer(*far), _shapes(far[0]), NAMES)
    yield from recognise(
        loss,
        {
            "the loss overflows": not np.isfinite(loss) or not np.isfinite(slope).all(),
            "small probabilities have a minimum": bool(near and 0 < loss < 44),
        },
        slope=slope,
        gap=90,
    )
    further, _ = several(answer(_choices([-400.0, 0.0]), *far[1:]), _shapes(far[0]), NAMES)
    yield from recognise(
        further, {"small probabilities have a minimum": bool(near and 0 < further < 198)}, gap=400
    )
    problems = random_problems(_votes, 40)
    for which, name in enumerate(NAMES):
        slow = _slow_loss if which == 0 else _slow_slope
        yield agrees(part(answer, which, NAMES, _shapes), slow, problems, what=name)


def _votes(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.choice([1, 2, 3, 7, 30]))
    scores = rng.choice([0.1, 1, 30, 300]) * rng.normal(rng.choice([-2, 0, 2]), size=(2, size))
    if rng.random() < 0.2:
        scores[1] = scores[0]  # equal rewards
    votes = rng.integers(0, rng.choice([2, 5, 50]), size=(2, size)).astype(float)
    if not votes.sum():
        votes[0, 0] = 1.0
    return {"first": scores[0], "second": scores[1], "wins": votes[0], "losses": votes[1]}


def _slow_loss(p: Problem) -> float:
    """Person by person."""
    total = count = 0.0
    for a, b, w, n in zip(p.first, p.second, p.wins, p.losses, strict=True):
        for sign, people in ((1, w), (-1, n)):
            for _ in range(int(people)):
                total, count = total + _surprise(sign * (a - b)), count + 1
    return total / count


def _slow_slope(p: Problem) -> np.ndarray:
    count = sum(p.wins) + sum(p.losses)
    found = []
    for a, b, w, n in zip(p.first, p.second, p.wins, p.losses, strict=True):
        found.append((n * _chance(a - b) - w * _chance(b - a)) / count)
    return np.array(found)


# --- its level


@CHAPTER.check("centred", section="sec-rlhf-identifiable")
def centred(answer: Answer) -> Findings:
    # Two prompts, 7 and 3; the reference has 1 and 3 at the first, and 10, 11 and 18 at the second.
    scores, prompts = _choices([5, 1, 4]), torch.tensor([7, 7, 3])
    theirs, whose = _choices([3, 11, 1, 10, 18]), torch.tensor([7, 3, 7, 3, 3])
    got = as_array(answer(scores, prompts, theirs, whose), (3,))
    plain = np.array([5.0, 1, 4])
    stds = (np.array([2.0, 2, 13]), np.array([1, 1, 12.66667**0.5]), np.array([2**0.5, 2**0.5, 19**0.5]))
    yield from recognise(
        got,
        {
            "the sign is reversed": [-3, 1, 9],
            "the level is added, not subtracted": plain + stds[0],
            "nothing is subtracted": plain,
            "one level for all prompts": either(plain - 8.6, plain - 7.5),
            "the level of the policy's own texts": either(plain - [3, 3, 4], plain - 10 / 3),
            "reference and own texts together": plain - [2.5, 2.5, 10.75],
            "divided by the standard deviation": either(*((plain - stds[0]) / s for s in stds[1:])),
            "the median, not the mean": plain - [2, 2, 11],
            "the best or the worst of the reference": either(plain - [3, 3, 18], plain - [1, 1, 10]),
            "a single text of the reference": either(plain - [3, 3, 11], plain - [1, 1, 18]),
            "a sum, not a mean": plain - [4, 4, 39],
            "the level, not the scores above it": stds[0],
            "the levels of the prompts are exchanged": plain - [13, 13, 2],
            "one prompt's level for all": either(plain - 2, plain - 13),
            "a running mean with the wrong weights": plain - [2, 2, 14.25],
            "the reference's prompts are assumed to be sorted": plain - [1, 1, 14],
        },
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        ids = rng.choice(np.arange(-5, 40), size=rng.integers(1, 6), replace=False)
        level = dict(zip(ids.tolist(), 10 * rng.normal(size=len(ids)), strict=True))
        size = rng.choice([0.1, 1, 20])
        whose = np.concatenate([ids, rng.choice(ids, size=rng.integers(0, 12))])
        whose = rng.permutation(whose)
        prompts = rng.choice(ids, size=rng.integers(1, 9))

        def some(of: np.ndarray) -> np.ndarray:
            return np.array([level[i] for i in of.tolist()]) + size * rng.gumbel(size=len(of))

        equal = rng.random() < 0.15
        ref_scores = np.full(len(whose), 3.0) if equal else some(whose)
        return {"scores": some(prompts), "prompts": prompts, "ref_scores": ref_scores, "ref_prompts": whose}

    def slow(p: Problem) -> list[float]:
        found = []
        for score, prompt in zip(p.scores, p.prompts, strict=True):
            same = [s for s, q in zip(p.ref_scores, p.ref_prompts, strict=True) if q == prompt]
            found.append(score - sum(same) / len(same))
        return found

    yield agrees(answer, slow, random_problems(draw, 40), what="the scores")


# --- its unit


def distance(rewards: np.ndarray, beta: float) -> float:
    """The KL of the optimum at a price, mean over prompts, from exponentials one by one."""
    total = 0.0
    for row in np.asarray(rewards, dtype=np.float64):
        weights = [math.exp(max((r - row.max()) / beta, -700)) for r in row]
        for w in weights:
            p = w / sum(weights)
            total += p * math.log(p * len(row)) if p > 1e-300 else 0.0
    return total / len(rewards)


def _price(answer: Callable[..., Any], rewards: Tensor, nats: float) -> float:
    beta = float(as_array(answer(rewards, nats), (), "β"))
    if not beta > 0:
        raise Mistake("β is not above zero", beta=beta)
    return beta


@CHAPTER.check("beta-for", section="sec-rlhf-beta", seconds=60)
def beta_for(answer: Answer) -> Findings:
    # Two texts, rewards 0 and 1: at β = 0.5 the weights are 0.119 and 0.881, and the KL is 0.328 nats.
    pair = torch.tensor([[0.0, 1.0]])
    nats = 0.327814
    unit = _price(answer, pair, nats)
    yield from recognise(
        unit,
        {
            "the KL has the wrong direction": 0.585078,
            "the formula for small KLs": either(0.617512, 0.873294),
            "the inverse of β": 2,
            "the search ended at an edge": unit < 0.02 or unit > 40,
        },
    )
    larger = _price(answer, 1e6 * pair, nats)
    moved = _price(answer, torch.tensor([[50.0, 51.0]]), nats)
    levels = _price(answer, torch.tensor([[0.0, 1.0], [40.0, 41.0]]), nats)
    double = _price(answer, torch.tensor([[0.0, 1.0], [0.0, 1.0]]), nats)
    wide = _price(answer, pair, 0.02)
    # The second prompt's rewards are spread six times as far: one price for both is 1.5.
    uneven = _price(answer, torch.tensor([[0.0, 1.0], [0.0, 6.0]]), nats)
    yield from recognise(
        unit,
        {
            "β does not follow the unit": not close(larger / 1e6, unit, 0.05),
            "a level changes β": not close(moved, unit, 0.05),
            "the prompts' distances are added up": not close(double, unit, 0.05),
            "the prompts are mixed": not close(levels, unit, 0.05),
            "the distance is not used": close(wide, unit, 1e-3),
            "the mean of one β per prompt": close(uneven, 3.5 * unit, 0.01),
        },
        uneven=uneven,
        larger=larger,
        moved=moved,
        levels=levels,
        double=double,
    )

    prices = {way: _price(answer, pair, way) for way in (0.01, 0.1, 0.5)}
    ways = {way: distance(pair.numpy(), beta) for way, beta in ({0.02: wide, nats: unit} | prices).items()}
    off = {way: abs(came / way - 1) for way, came in ways.items()}
    worst = max(off, key=lambda way: off[way])
    yield from recognise(
        unit,
        {"β is close, but not within 1 %": 0.01 < off[worst] < 0.3},
        wanted=worst,
        came=ways[worst],
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        rows, size = int(rng.integers(1, 6)), int(rng.choice([2, 3, 8, 40]))
        rewards = rng.choice([rng.normal(size=(rows, size)), rng.gumbel(size=(rows, size))])
        rewards = np.round(rewards, int(rng.choice([0, 1, 6])))  # ties
        if rows > 1 and rng.random() < 0.3:
            rewards[0] = rewards[0, 0]  # a prompt whose texts are all paid alike
        if not np.ptp(rewards[-1]):
            rewards[-1, 0] += 1
        most = sum(math.log(size / (row == row.max()).sum()) for row in rewards) / rows
        share = float(rng.choice([0.1, 0.4, 0.79]))
        return {
            "rewards": rewards + rng.choice([0, 1, 5]) * rng.normal(size=(rows, 1)),
            "power_of_ten": int(rng.integers(-4, 7)),
            "nats": max(share * most, 0.01),
        }

    def reached(rewards: Tensor, power_of_ten: int, nats: float) -> float:
        given = rewards.double() * 10.0**power_of_ten
        return distance(given.numpy(), _price(answer, given.float(), nats))

    problems = random_problems(draw, 25)
    yield agrees(
        reached, lambda p: p.nats, problems, what="the KL of the best policy at your β", tolerance=1e-2
    )
    seen = ", ".join(f"{way} nats: {numbers(beta)}" for way, beta in prices.items())
    falling = sorted(prices.values(), reverse=True) == [*prices.values()]
    yield Property("a larger distance needs a smaller β", falling, seen)
