"""Checks of the exercises on losses: the policy gradient's, one that broadcasts, one with a critic."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems
from . import CHAPTER, log_probability, scores


@CHAPTER.check("pg-loss", section="sec-loss-code")
def pg_loss(answer: Answer) -> Findings:
    # Two episodes, of three steps and of one; the last two entries of the second row are padding.
    probs = np.array([[0.5, 0.25, 0.125], [0.5, 0.1, 0.2]])
    good = np.array([[1.0, -2.0, 4.0], [5.0, 7.0, -3.0]])
    mask = np.array([[True, True, True], [True, False, False]])
    real = np.where(mask, good, 0.0)

    def push(good: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logp, advantages = leaf(np.log(probs)), leaf(good)
        by_logp, back = gradients(answer(logp, advantages, torch.tensor(mask)), logp, advantages)
        return by_logp, back

    (got, back), (moved, _) = push(good), push(good + 3)
    logp, twice = (
        leaf(np.tile(np.log(probs), (2, 1))),
        torch.tensor(np.tile(good, (2, 1)), dtype=torch.float32),
    )
    (four,) = gradients(answer(logp, twice, torch.tensor(np.tile(mask, (2, 1)))), logp)
    if not close(back, 0 * good):
        yield Mistake("the advantages are not detached", back=back)
    yield from recognise(
        got,
        {
            "no gradient reaches logp": 0,
            "the mask is turned round": close(got[mask], np.zeros(4)),
            "every action gets the same push": close(got[mask], np.full(4, got[0, 0])),
            "every step is credited with the whole episode": np.ptp(got[0]) < 1e-6,
            "padding is pushed too": np.abs(got[~mask]).max() > 1e-6,
            "a reward, not a loss": bool((np.sign(got) == np.sign(real)).all()),
            "a sum over episodes, not a mean": close(got, -real) and close(four, -np.tile(real, (2, 1))),
            "averaged over steps, not over episodes": either(-real / 4, -real / 6),
            "the axes of episodes and steps are mixed up": -real / 3,
            "each episode is divided by its own length": -real / np.array([[6.0], [2.0]]),
            "probabilities where log-probabilities belong": -real * probs / 2,
            "the size of the advantage makes no difference": either(
                -np.sign(real) / 2, -real.clip(-1, 1) / 2, -np.tanh(real) / 2
            ),
            "bad actions are not made rarer": either(-real.clip(0) / 2, -np.abs(real) / 2),
            "the advantages are centred inside the loss": close(moved, got),
        },
    )
    yield Property(
        "each action is pushed in proportion to its own advantage",
        close(got, got[0, 0] * real),
        f"for the advantages (1, −2, 4) and (5) the gradient by logp is {numbers(got)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        episodes, steps = rng.integers(1, 6, 2)
        lengths = rng.integers(1, steps + 1, size=(episodes, 1))
        advantages = rng.choice([0.01, 1, 1e5]) * rng.normal(rng.choice([-2, 0, 2]), size=(episodes, steps))
        logp = -rng.choice([0.1, 1, 10]) * rng.exponential(size=(episodes, steps))
        return {"logp": logp, "advantages": advantages, "mask": np.arange(steps) < lengths}

    def slow(p: Problem) -> float:
        steps = zip(*np.nonzero(p.mask), strict=True)
        return -sum(p.logp[step] * p.advantages[step] for step in steps) / len(p.mask)

    yield agrees(
        answer, slow, random_problems(draw), what="your loss", by=("logp",), held=("advantages",), value=False
    )


@CHAPTER.check("hunt-broadcast", section="sec-loss-code")
def hunt_broadcast(answer: Answer) -> Findings:
    table = [[0.0, 0.5, -0.5], [1.0, 0.0, 0.0], [0.2, 0.1, 0.0], [0.0, 0.0, 2.0]]
    actions = torch.tensor([0, 2, 1, 2])
    score = np.array([scores(np.array(row))[a] for row, a in zip(table, actions.tolist(), strict=True)])

    def push(worth: list[float]) -> tuple[np.ndarray, np.ndarray]:
        logits, advantages = leaf(table), leaf(worth)
        by_logits, back = gradients(answer(logits, actions, advantages), logits, advantages)
        return by_logits, back

    def by(*weights: float) -> np.ndarray:
        return -score * np.array(weights)[:, None] / 4

    (first, _), (mixed, back) = push([1.0, 0.0, 0.0, 0.0]), push([1.0, -1.0, 2.0, -2.0])
    (shifted, _), (none, _) = push([4.0, 2.0, 5.0, 1.0]), push([0.0, 0.0, 0.0, 0.0])
    surprised = answer(torch.tensor([[200.0, 0.0]]), torch.tensor([1]), torch.ones(1))
    far = as_array(surprised, (), "your loss", finite=False)
    yield from recognise(
        [first, mixed],
        {
            "no gradient reaches the policy": [0, 0],
            "every action still meets every advantage": [
                either(by(0.25, 0.25, 0.25, 0.25), by(1, 1, 1, 1), by(4, 4, 4, 4)),
                0,
            ],
            "the advantages are centred inside the loss": close(shifted, mixed) and close(none, 0 * none),
            "samples are mixed": not close(first[1:], none[1:], 1e-6),
            "a reward, not a loss": [-by(1, 0, 0, 0), -by(1, -1, 2, -2)],
            "a sum, not a mean": [4 * by(1, 0, 0, 0), 4 * by(1, -1, 2, -2)],
            "bad actions are not made rarer": [
                by(1, 0, 0, 0),
                either(by(1, 0, 2, 0), by(1, 1, 2, 2)),
            ],
            "the size of the advantage makes no difference": [by(1, 0, 0, 0), by(1, -1, 1, -1)],
            "the advantages are not detached": not close(back, np.zeros(4)),
            "it overflows for large logits": not np.isfinite(far),
        },
        far=far,
        first=first,
        mixed=mixed,
        back=back,
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        batch, arms = rng.choice([1, 1, 2, 3, 5, 7, 20]), rng.integers(2, 6)
        return {
            "logits": rng.choice([0.1, 1, 5, 100]) * rng.normal(size=(batch, arms)),
            "actions": rng.integers(arms, size=batch),
            "advantages": rng.choice([0.01, 1, 30]) * rng.normal(rng.choice([-2, 0, 2]), size=batch),
        }

    def slow(p: Problem) -> float:
        rows = zip(p.logits, p.actions, p.advantages, strict=True)
        return -sum(log_probability(row, action) * worth for row, action, worth in rows) / len(p.logits)

    yield agrees(
        answer,
        slow,
        random_problems(draw),
        what="your loss",
        by=("logits",),
        held=("advantages",),
        value=False,
    )


@CHAPTER.check("hunt-flattering-critic", section="sec-learned-value")
def hunt_flattering_critic(answer: Answer) -> Findings:
    def slopes(values: list[float], returns: list[float]) -> list[np.ndarray]:
        """The gradients by the values and by logp, for two samples whose log π is −1.5 and −0.5."""
        v, lp = leaf(values), leaf([-1.5, -0.5])
        return gradients(answer(lp, v, torch.tensor(returns)), v, lp)

    # A critic that is exactly right: nothing may move it. One 1 too low and 1 too high. One that is too low.
    (right, _), (off, _) = slopes([1.0, 2.0], [1.0, 2.0]), slopes([0.0, 3.0], [1.0, 2.0])
    low, raised = slopes([0.0, 0.0], [1.0, 3.0])
    logp = np.array([-1.5, -0.5])
    yield from recognise(
        raised,
        {
            "no gradient reaches the policy": 0,
            "every action meets every advantage": either([-1, -1], [-2, -2], [-4, -4]),
            "the advantages are centred inside the loss": abs(raised.sum()) < 1e-3,
            "a reward, not a loss": bool((raised > 0).all()),
        },
        pushed=-raised,
    )
    yield from recognise(
        [right, off, low],
        {
            "the critic no longer learns": [0, 0, 0],
            "the errors are averaged before they are squared": [0, 0, either([-1, -1], [-2, -2])],
            "the policy term still pulls at the critic": [
                either(logp / 2, logp / 4, logp),
                off,
                low,
            ],
            "the critic is fitted to something else": not close(right, np.zeros(2)),
            "the critic runs away from the returns": off[0] > 0,
        },
        pushed=-right,
        off=-off,
        low=-low,
    )
    yield Property(
        "the value term has the weight that it had",
        close(off, [-0.5, 0.5]),
        f"in a batch of two, values that are 1 too low and 1 too high are pushed by {numbers(-off)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        batch, scale = rng.integers(1, 7), rng.choice([0.1, 1, 1000])
        return {
            "logp": -rng.choice([1, 30]) * rng.exponential(size=batch),
            "values": scale * rng.normal(size=batch),
            "returns": scale * rng.normal(rng.choice([-1, 0, 1]), size=batch),
        }

    def slow(p: Problem) -> dict[str, Any]:
        surprise = [g - v for g, v in zip(p.returns, p.values, strict=True)]
        return {name: [-x / len(surprise) for x in surprise] for name in ("logp", "values")}

    yield agrees(answer, slow, random_problems(draw), what="your loss")
