"""Checks of what can be computed where all texts are listed: optima, and where probability goes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from torch import Tensor

from .. import Answer, Findings, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, finite_differences, random_problems, tensor
from ..rlhf import part, several
from . import CHAPTER, sigmoid


def _rows(x: Any) -> np.ndarray:
    """Each row divided by its sum."""
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(x / x.sum(-1, keepdims=True))


# --- the best policy

BEST = ("the policy", "its value")
P_REF = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
REWARDS = np.array([[0.0, 1, 2], [3, 1, 0]])


def _best(p_ref: Tensor, *rest: Any) -> list[tuple[int, ...]]:
    return [tuple(p_ref.shape), (len(p_ref),)]


def _value(p: np.ndarray, p_ref: np.ndarray, rewards: np.ndarray, beta: float) -> np.ndarray:
    """J of a policy at each prompt, text by text."""
    found = []
    for row, ref, pay in zip(p, p_ref, rewards, strict=True):
        terms = [q * (r - beta * math.log(q / f)) for q, f, r in zip(row, ref, pay, strict=True) if q > 0]
        found.append(math.fsum(terms))
    return np.array(found)


@CHAPTER.check("best-policy", section="sec-dpo-optimum")
def best_policy(answer: Answer) -> Findings:
    def ask(p_ref: Any, rewards: Any, beta: float) -> list[np.ndarray]:
        given = [tensor(np.asarray(x, dtype=np.float64)) for x in (p_ref, rewards)]
        return several(answer(*given, beta), _best(given[0]), BEST)

    # Two prompts with three texts each; β is 0.5.
    policy, value = ask(P_REF, REWARDS, 0.5)
    other = ask(P_REF, REWARDS, 2.0)[0]
    tilt = np.exp(REWARDS / 0.5)
    right, z = _rows(P_REF * tilt), (P_REF * tilt).sum(-1)
    greedy = np.eye(3)[[2, 0]]
    yield from recognise(
        policy,
        {
            "the policy does not add up to one": bool(np.abs(policy.sum(-1) - 1).max() > 1e-3),
            "the reference is left out": _rows(tilt),
            "the sign of the reward is reversed": _rows(P_REF / tilt),
            "β multiplies the reward": _rows(P_REF * np.exp(0.5 * REWARDS)),
            "β is not used": close([policy, other], [_rows(P_REF * np.exp(REWARDS))] * 2, 1e-3),
            "probabilities instead of logarithms": either(
                _rows(np.exp(P_REF + REWARDS / 0.5)), _rows(np.exp(P_REF + REWARDS))
            ),
            "the reference is taken to a power": either(
                _rows(P_REF**0.5 * np.exp(REWARDS)), _rows(P_REF**2 * tilt), _rows(P_REF**0.5 * tilt)
            ),
            "the exponential is missing": either(
                _rows(P_REF * REWARDS), _rows(P_REF * (1 + REWARDS / 0.5)), _rows(P_REF * REWARDS / 0.5)
            ),
            "all probability is on the best text": greedy,
            "nothing moves": P_REF,
        },
        sums=policy.sum(-1),
    )
    kl = (right * np.log(right / P_REF)).sum(-1)
    paid = (right * REWARDS).sum(-1)
    back = (P_REF * np.log(P_REF / right)).sum(-1)
    yield from recognise(
        value,
        {
            "the value is without β": np.log(z),
            "the value is Z, not its logarithm": either(z, 0.5 * z),
            "the value has the wrong sign": -0.5 * np.log(z),
            "the largest reward is not added back": either(
                0.5 * np.log(z) - REWARDS.max(-1), 0.5 * np.log(z) - REWARDS.max()
            ),
            "the value is the reward alone": paid,
            "the KL penalty is added": paid + 0.5 * kl,
            "the KL penalty is without β": paid - kl,
            "the KL has the wrong direction": paid - 0.5 * back,
            "the value belongs to the reference": (P_REF * REWARDS).sum(-1),
            "the value gives all texts the same weight": either(
                0.5 * np.log(tilt.sum(-1)), 0.5 * np.log(tilt.mean(-1)), np.log(tilt.sum(-1))
            ),
            "a mean over the texts": (right * (REWARDS - 0.5 * np.log(right / P_REF))).mean(-1),
        },
    )
    never = np.array([[0.5, 0.5, 0.0], [0.2, 0.0, 0.8]])
    # Rewards of 5000 and a little more; then rewards so far apart that most probabilities are 0 in float32.
    for rewards, what, name in (
        (REWARDS + 5000, "from 5000 to 5003", "the exponential overflows"),
        (1000 * REWARDS, "from 0 to 3000", "the logarithm of a probability of 0"),
    ):
        seen, worth = ask(P_REF, rewards, 0.5)
        lost = not (np.isfinite(seen).all() and np.isfinite(worth).all())
        # Where the policy itself is lost, or the value infinite, an exponential was too large.
        if lost and (np.isnan(seen).any() or np.isinf(worth).any()):
            name = "the exponential overflows"
        yield from recognise(seen, {name: lost}, value=worth, what=what)
    for top in (3.0, 1000.0):
        seen, worth = ask(never, np.where(never == 0, top, REWARDS), 0.5)
        lost = not (np.isfinite(seen).all() and np.isfinite(worth).all())
        yield from recognise(
            seen,
            {
                "the largest reward belongs to a text with probability 0": lost and top > 3,
                "a text that the reference never writes": lost or bool((seen[never == 0] > 1e-7).any()),
            },
            value=worth,
            top=top,
        )
    level, worth = ask(P_REF, REWARDS + np.array([[10.0], [-7.0]]), 0.5)
    said = "a number added to all rewards of a prompt changes its value but not its policy"
    yield Property(said, close(level, policy, 1e-3) and close(worth - value, [10, -7], 1e-3), numbers(level))

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        rows, size = int(rng.integers(1, 5)), int(rng.choice([1, 2, 3, 8, 20]))
        p_ref = _rows(rng.gamma(0.5, size=(rows, size)) + 1e-9)
        if size > 2 and rng.random() < 0.3:
            p_ref[:, 0] = 0.0
            p_ref = _rows(p_ref)
        rewards = rng.choice([0, 1, 20]) * rng.normal(size=(rows, size)) + rng.choice([0, 5])
        return {"p_ref": p_ref, "rewards": rewards, "beta": float(rng.choice([0.05, 0.5, 1, 10]))}

    problems = random_problems(draw, 30)
    yield agrees(part(answer, 0, BEST, _best), _slow_best, problems, what=BEST[0])
    yield agrees(
        part(answer, 1, BEST, _best),
        lambda p: _value(_slow_best(p), p.p_ref, p.rewards, p.beta),
        problems,
        what=BEST[1],
    )


def _slow_best(p: Problem) -> np.ndarray:
    """From the odds of each text against each other one."""
    found = []
    for ref, pay in zip(p.p_ref, p.rewards, strict=True):
        row = []
        for f, r in zip(ref, pay, strict=True):
            odds = [
                g / f * math.exp(min((s - r) / p.beta, 600)) if f else 0.0
                for g, s in zip(ref, pay, strict=True)
            ]
            row.append(1 / math.fsum(odds) if f else 0.0)
        found.append(row)
    return np.array(found)


# --- where probability goes

KIND = np.arange(4.0)[:, None]
FEW = np.array([0.4, 0.3, 0.2, 0.1])


@CHAPTER.check("both-fall", section="sec-dpo-fall")
def both_fall(answer: Answer) -> Findings:
    def ask(p_ref: Any, features: Any, theta: Any, chosen: int, rejected: int, beta: float) -> np.ndarray:
        given = [tensor(np.asarray(x, dtype=np.float64)) for x in (p_ref, features, theta)]
        return as_array(answer(*given, chosen, rejected, beta), (len(p_ref),), "the rates")

    # Texts with 0 to 3 kind words and one θ, which is 1; people chose 1 over 0. β is 0.5.
    got = ask(FEW, KIND, [1.0], 1, 0, 0.5)
    tilted = _rows(FEW * np.exp(KIND[:, 0]))
    k = KIND[:, 0]
    from_mean = k - tilted @ k
    weight = 0.5 * sigmoid(-0.5)
    yield from recognise(
        got,
        {
            "the sign is reversed": -weight * from_mean,
            "the policy's mean is not subtracted": weight * k,
            "the mean belongs to the reference": weight * (k - FEW @ k),
            "the mean gives all texts the same weight": weight * (k - k.mean()),
            "the policy leaves out the reference": weight * (k - _rows(np.exp(k)) @ k),
            "the slope of the probability, not of its logarithm": weight * tilted * from_mean,
            "the weight belongs to the first step": 0.25 * from_mean,
            "the weight is without β": sigmoid(-0.5) * from_mean,
            "β is only in front": either(0.5 * sigmoid(-1.0) * from_mean, sigmoid(-1.0) * from_mean),
            "the weight is certainty, not surprise": 0.5 * sigmoid(0.5) * from_mean,
            "the weight is missing": close(got, from_mean, 1e-3)
            and close(ask(FEW, KIND, [1.0], 1, 0, 2.0), got),
            "only the chosen text pushes": weight * (1 - tilted @ k) * from_mean,
            "the reference is in h twice": either(
                *(0.5 * sigmoid(-0.5 * (1 + s * math.log(0.3 / 0.4))) * from_mean for s in (1, -1))
            ),
        },
    )
    # A logit for each text: what the other texts lose or gain is shared.
    alone = ask(FEW, np.eye(4), np.zeros(4), 1, 0, 0.5)
    push = np.array([-1.0, 1, 0, 0])
    fair = 0.25 * (push - FEW @ push)
    yield from recognise(
        alone,
        {
            "the features are summed before the product": 0,
        },
    )
    yield Property(
        "with a logit for each text the chosen one rises, and with one θ for all it may fall",
        close(alone, fair, 1e-3) and bool(got[1] < 0),
        f"{numbers(alone)} and {numbers(got)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        texts, size = int(rng.choice([2, 3, 6])), int(rng.choice([1, 2, 4]))
        features = rng.normal(size=(texts, size))
        if rng.random() < 0.2:
            features, size = np.eye(texts), texts
        chosen, rejected = (int(i) for i in rng.choice(texts, size=2, replace=False))
        if rng.random() < 0.1:
            features[chosen] = features[rejected]  # equal pairs
        return {
            "p_ref": _rows(rng.gamma(1.0, size=texts) + 0.01),
            "features": features,
            "theta": rng.choice([0, 1, 3]) * rng.normal(size=size),
            "chosen": chosen,
            "rejected": rejected,
            "beta": float(rng.choice([0.1, 0.5, 2])),
        }

    yield agrees(answer, _slow_rates, random_problems(draw, 30), what="the rates", tolerance=2e-3)


def _slow_rates(p: Problem) -> np.ndarray:
    """By taking a small step, both ways, along a slope that was found by small steps."""

    def logs(theta: np.ndarray) -> np.ndarray:
        return np.log(_rows(p.p_ref * np.exp(p.features @ theta)))

    def loss(theta: np.ndarray) -> float:
        ratio = logs(theta) - np.log(p.p_ref)
        return float(np.logaddexp(0, -p.beta * (ratio[p.chosen] - ratio[p.rejected])))

    down = -finite_differences(loss, p.theta)
    return np.asarray((logs(p.theta + 1e-5 * down) - logs(p.theta - 1e-5 * down)) / 2e-5)


# --- without a reference


@CHAPTER.check("no-reference", section="sec-dpo-length")
def no_reference(answer: Answer) -> Findings:
    def ask(rewards: Any, lengths: Any, beta: float) -> np.ndarray:
        given = tensor(np.asarray(rewards, dtype=np.float64)), tensor(np.asarray(lengths))
        back = answer(*given, beta)
        return as_array(back, (len(rewards),), "the policy", finite=np.max(rewards) < 900)

    # Two texts that people like equally, of one token and of two: π = e^c and e^2c, which add up to 1.
    golden = (5**0.5 - 1) / 2
    even = ask([0.0, 0.0], [1, 2], 1.0)
    rewards, lengths = np.array([0.0, 1, 2]), np.array([1, 2, 4])
    got, turned, other = (
        ask(rewards, *x) for x in ((lengths, 2.0), (lengths[::-1].copy(), 2.0), (lengths, 0.5))
    )
    yield from recognise(
        even,
        {
            "the policy does not add up to one": bool(not close(even.sum(), 1, 0.05)),
            "lengths are not used": close(even, [0.5, 0.5], 1e-3) and close(got, turned),
            "lengths divide": either([1 - golden, golden], [1 / 3, 2 / 3], [2 / 3, 1 / 3]),
        },
        sums=even.sum(),
    )
    yield from recognise(
        got,
        {
            "the policy does not add up to one": bool(not close(got.sum(), 1, 0.05)),
            "normalized by a division, not by c": either(
                _rows(np.exp(lengths * rewards / 2)),
                _rows(np.exp(rewards / 2 / lengths)),
                _rows(np.exp(lengths * rewards)),
            ),
            "β multiplies the reward": _level(2 * rewards, lengths),
            "β is not used": close([got, other], [_level(rewards, lengths)] * 2, 1e-3),
            "the sign of the reward is reversed": _level(-rewards / 2, lengths),
            "the reward is per text, not per token": _level(rewards / 2 / lengths, lengths),
            "all probability is on the best text": [0, 0, 1],
        },
        sums=got.sum(),
    )
    # R/β is 3333 here, of which float32 keeps four digits behind the point, and lengths multiply the rest.
    pay, sizes = 1000 - np.array([0, 1 / 128, 1 / 32]), np.array([40, 37, 12])
    far, meant = ask(pay, sizes, 0.3), _level(pay / 0.3, sizes)
    rough = not close([got.sum(), far.sum()], [1, 1], 2e-4)
    yield from recognise(
        far,
        {
            "c is outside the interval": bool(not abs(far.sum() - 1) < 0.3),
            "too few digits, or too few steps": bool(rough and np.abs(far - meant).max() < 0.2),
        },
        sums=far.sum(),
        near=got,
        total=f"{got.sum():.4f}",
    )
    same = ask(rewards + 400, lengths, 2.0)
    said = "a number added to all rewards changes nothing"
    yield Property(said, close(same, got, 1e-3), f"{numbers(got)} becomes {numbers(same)}")
    singles = ask(rewards, np.ones(3, dtype=int), 2.0)
    said = "for texts of one token only the rewards matter"
    yield Property(said, close(singles, _rows(np.exp(rewards / 2)), 1e-3), f"you have {numbers(singles)}")

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size = int(rng.choice([1, 2, 3, 10]))
        return {
            "rewards": float(rng.choice([0, 1, 5])) * rng.normal(size=size) + float(rng.choice([0, 100])),
            "lengths": rng.integers(1, int(rng.choice([2, 5, 40])), size=size),
            "beta": float(rng.choice([0.3, 1, 5])),
        }

    yield agrees(
        answer,
        lambda p: _level(p.rewards / p.beta, p.lengths),
        random_problems(draw, 30),
        what="the policy",
        tolerance=2e-3,
    )


def _level(a_token: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """exp(|y| (a + c)) with the level c at which they add up to 1, from Newton's steps from the right."""
    a_token = np.asarray(a_token, dtype=np.float64)
    c = -float(a_token.max())
    for _ in range(200):
        terms = np.exp(lengths * (a_token + c))
        c -= (terms.sum() - 1) / (lengths * terms).sum()
    return np.asarray(np.exp(lengths * (a_token + c)))


# --- the whole of it

START = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
# prompt, chosen, rejected: at the first prompt 1 beats 0 three times to one, and 2 beats 1 twice to one.
CHOICES = np.array(
    [[0, 1, 0]] * 3 + [[0, 0, 1]] + [[0, 2, 1]] * 2 + [[0, 1, 2]]
    + [[1, 0, 2]] * 4 + [[1, 2, 0], [1, 1, 2], [1, 2, 1]]
)  # fmt: skip
STRENGTHS = np.array([[1.0, 3, 6], [4, 1, 1]])


@CHAPTER.check("dpo-train", section="sec-dpo-loss", seconds=60)
def dpo_train(answer: Answer) -> Findings:
    def ask(p_ref: Any, choices: Any, beta: float) -> np.ndarray:
        given = tensor(np.asarray(p_ref, dtype=np.float64)), tensor(np.asarray(choices))
        return as_array(answer(*given, beta), np.shape(p_ref), "the policy")

    got = ask(START, CHOICES, 0.5)
    right = _rows(START * STRENGTHS**2)
    # Votes that are as many as the pairs, and not as many each way.
    circle = np.array([[0, 0, 1], [0, 1, 2], [0, 2, 0], [0, 0, 2]])
    still = close(got, START, 2e-3)
    lost = still and not close(ask(START[:1], circle, 0.5), START[:1], 2e-3)
    plain = close(got, _rows(START * STRENGTHS), 2e-3)

    def tilted(by: Any, start: Any = START) -> np.ndarray:
        return _rows(start * np.asarray(by, dtype=np.float64))

    # Both prompts thrown together: what wins of all choices between two texts, whatever the prompt.
    thrown = _strengths(np.concatenate([0 * CHOICES[:, :1], CHOICES[:, 1:]], 1), (1, 3)) ** 2
    shown = np.array([[1.0, 1, 1], [1, 1, 1]])
    with np.errstate(all="ignore"):
        moved = np.log(got / START)
        worst = max(
            (
                (abs(_share(m, a, b) - chance), m, a, b, chance)
                for m, a, b in {tuple(row) for row in CHOICES.tolist()}
                for chance in [float(np.nan_to_num(sigmoid(0.5 * (moved[m, a] - moved[m, b])), nan=2))]
                if _share(m, a, b) > 0.5
            )
        )
    yield from recognise(
        got,
        {
            "the policy does not add up to one": bool(np.abs(got.sum(-1) - 1).max() > 1e-3),
            "equal choices count once": lost,
            "nothing moves": START,
            "chosen and rejected are exchanged": either(tilted(1 / STRENGTHS**2), tilted(1 / STRENGTHS)),
            "the reference is left out": either(tilted(STRENGTHS**2, shown), tilted(STRENGTHS, shown)),
            "β is not used": plain and close(ask(START, CHOICES, 2.0), got, 2e-3),
            "β multiplies where it should divide": tilted(STRENGTHS**0.5),
            "the prompts are mixed": either(
                tilted(thrown), np.broadcast_to(tilted(thrown, START[:1]), START.shape)
            ),
            "the majority decides": bool(got[0, 2] > 0.9 and got[1, 0] > 0.9),
            "the chosen texts are imitated": either(
                _counts(CHOICES), tilted(_counts(CHOICES)), tilted(_counts(CHOICES) ** 2)
            ),
            "the policy is not at rest": not close(got, right, 0.01),
        },
        tolerance=2e-3,
        sums=got.sum(-1),
        prompt=worst[1],
        text=worst[2],
        over=worst[3],
        share=_share(*worst[1:4]),
        chance=worst[4],
        first=got[0].round(3),
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        rows, size = int(rng.integers(1, 4)), int(rng.integers(2, 5))
        order = [rng.permutation(size) for _ in range(rows)]
        choices = []
        for m, texts in enumerate(order):
            tied = [*itertools.pairwise(texts)]  # each is tied to the next
            if size > 2:
                tied.append((texts[0], texts[-1]))
            for a, b in tied:
                choices += [[m, a, b]] * int(rng.integers(1, 5)) + [[m, b, a]] * int(rng.integers(1, 5))
        return {
            "p_ref": _rows(rng.gamma(1.0, size=(rows, size)) + 0.05),
            "choices": rng.permutation(np.array(choices)),
            "beta": float(rng.choice([0.3, 1, 2])),
        }

    def slow(p: Problem) -> np.ndarray:
        strengths = _strengths(p.choices, p.p_ref.shape)
        return _rows(p.p_ref * strengths ** (1 / p.beta))

    problems = random_problems(draw, 9)
    # And six texts, each pair of which was asked about many times.
    rng = np.random.default_rng(1)
    pairs = [(0, int(a), int(b)) for a, b in itertools.permutations(range(6), 2)]
    votes = np.repeat(pairs, rng.integers(2, 60, size=len(pairs)), axis=0)
    problems.append(Problem(p_ref=_rows(rng.gamma(1.0, size=(1, 6)) + 0.05), choices=votes, beta=1.0))
    yield agrees(answer, slow, problems, what="the policy", tolerance=1e-2)


def _share(prompt: int, text: int, over: int) -> float:
    """Return the share that chose this text among those who were asked about the two."""
    rows = CHOICES.tolist()
    ours, theirs = rows.count([prompt, text, over]), rows.count([prompt, over, text])
    return ours / (ours + theirs)


def _counts(choices: np.ndarray) -> np.ndarray:
    found = np.full((2, 3), 1e-9)
    for prompt, chosen, _ in choices:
        found[prompt, chosen] += 1
    return _rows(found)


def _strengths(choices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Bradley and Terry's e^R of each text, from Zermelo's iteration: no loss, and no policy."""
    met, won = np.zeros((*shape, shape[-1])), np.zeros(shape)
    for prompt, chosen, rejected in choices:
        met[prompt, chosen, rejected] += 1
        met[prompt, rejected, chosen] += 1
        won[prompt, chosen] += 1
    strengths = np.ones(shape)
    for _ in range(2000):
        pairs = met / (strengths[:, :, None] + strengths[:, None, :])
        before, strengths = strengths, won / pairs.sum(-1)
        strengths /= np.exp(np.log(strengths).mean(-1, keepdims=True))
        if np.allclose(strengths, before, rtol=1e-10, atol=0):
            break
    return strengths
