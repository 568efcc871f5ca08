"""Checks of updates: several steps on one batch, and one that ends inside the clip range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, either, numbers, recognise
from ..beside.descent import GradientDescent, Moving
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, probabilities


class _World:
    """Learners with a batch each. Without more: one state, three equally likely actions, each taken once."""

    def __init__(self, rate: float, worth: Any = ((1.0, 0.0, -1.0),), learners: int = 1) -> None:
        self.worth = torch.tensor(worth)
        if len(self.worth) == 1:
            self.worth = self.worth.expand(learners, 3).contiguous()
        learners = len(self.worth)
        self.states = torch.zeros(learners, 3, dtype=torch.long)
        self.actions = torch.tensor([[0, 1, 2]]).expand(learners, 3).contiguous()
        self.begin(torch.zeros(learners, 1, 3), rate)

    def begin(self, logits: Tensor, rate: float) -> None:
        self.logits = logits.clone().requires_grad_()
        self.before = logits.double().numpy().copy()
        self.optimizer = GradientDescent(self.logits, rate)

    def run(self, answer: Answer, *args: Any, **settings: Any) -> np.ndarray:
        """The log ratios that the reader's update reports."""
        batch = self.optimizer, self.states, self.actions, self.worth
        back = Answer(answer._name, Moving(answer._function, self.logits))(*batch, *args, **settings)
        if isinstance(back, tuple | list):
            what = f"a {type(back).__name__} of length {len(back)}"
            raise Stop(
                "returned",
                "more than the log ratios",
                f"the log ratios alone must come back, and {what} did.",
            )
        if isinstance(back, np.ndarray):
            words = "it must be a tensor: the cell below the check goes on with it in torch."
            raise Stop("returned", "an array", words)
        if isinstance(back, Tensor) and back.requires_grad:
            raise Mistake("what comes back is still on the graph")
        return as_array(back, tuple(self.states.shape), "the log ratios")

    @property
    def ratios(self) -> np.ndarray:
        """The ratio of each pull's probability after the update to that before."""
        rows = np.arange(len(self.before))[:, None]
        taken = rows, self.states.numpy(), self.actions.numpy()
        now = self.logits.detach().double().numpy()
        return np.asarray(probabilities(now)[taken] / probabilities(self.before)[taken])

    @property
    def furthest(self) -> float:
        return float(np.abs(self.ratios - 1).max())


def _ends(weight: Callable[[np.ndarray, np.ndarray], np.ndarray], steps: int = 200) -> np.ndarray:
    """The ratios after short steps in which each of the three actions pushes with `weight(r, A)`."""
    worth, logits = np.array([1.0, 0.0, -1.0]), np.zeros(3)
    for _ in range(steps):
        new = probabilities(logits)
        pushes = weight(3 * new, worth) / 3
        logits = logits + 0.1 * (pushes - new * pushes.sum())
    return np.asarray(3 * probabilities(logits))


@CHAPTER.check("hunt-stale", section="sec-short-ppo")
def hunt_stale(answer: Answer) -> Findings:
    once, three = _World(rate=0.1), _World(rate=0.1)
    first, felt = once.run(answer, epochs=1), once.optimizer.felt
    if felt and once.furthest < 1e-7:
        yield Mistake(
            "the logits are left as they were"
            if any(slope is None or slope > 1e-6 for slope in felt)
            else "old_logp is not detached"
        )
    three.run(answer, epochs=3)
    long = _World(rate=1e-3)
    long.run(answer, epochs=150)
    taken, all_taken = len(three.optimizer.felt), len(long.optimizer.felt)
    yield from recognise(
        once.ratios,
        {
            "one step, whatever epochs says": taken == 1 == len(felt),
            "epochs is not the number of steps": taken not in (0, 3) or all_taken not in (0, 150),
            "the steps are taken by another optimizer": not felt and once.furthest > 1e-7,
            "the optimizer takes no step": not felt,
        },
        taken=taken,
        all=all_taken,
    )
    twice = _World(rate=0.1)
    twice.run(answer, epochs=2)
    went = np.log(twice.ratios[0, 0]) / np.log(once.ratios[0, 0])  # both steps are inside the clip range
    apart = _World(rate=0.1, worth=[[1.0, 0.0, -1.0], [-1.0, 0.0, 1.0]])
    apart.run(answer, epochs=1)
    # One step moves the logits by an amount that follows from the advantages as they were given.
    worth = np.array([3.0, 2.0, -2.0])
    large = _World(rate=0.1, worth=[worth.tolist()])
    large.run(answer, epochs=1)
    moved = large.logits.detach().double().numpy()[0, 0]

    def one_step(a: np.ndarray) -> np.ndarray:
        return 0.1 * (a - a.mean()) / 3

    centred = worth - worth.mean()
    yield from recognise(
        moved,
        {
            "it goes downhill": once.ratios[0, 0] < 1,
            "the gradients are not zeroed between the steps": went > 2.5,
            "the advantages are normalised again": either(
                *(one_step(a / worth.std(ddof=d)) for d in (0, 1) for a in (worth, centred))
            ),
            "only the first learner learns": abs(apart.ratios[1, 0] - 1) < 1e-6,
        },
        ratio=once.ratios[0, 0],
        went=went,
        ratios=apart.ratios[1],
    )
    many, narrow, unasked = (_World(rate=0.1) for _ in range(3))
    shown = many.run(answer, epochs=200)
    narrow.run(answer, epochs=200, eps=0.05)
    unasked.run(answer)
    ratios = many.ratios[0]

    yield from recognise(
        ratios,
        {
            "each step takes every ratio for 1": _ends(lambda r, a: a),
            "the ratios are right, and nothing stops them": _ends(lambda r, a: r * a),
            "the ratios, not their logarithms": close(shown[0], ratios, 1e-3),
            "what it reports is not what happened": not close(np.exp(shown[0]), ratios, 1e-3),
            "the log ratios of before the last step": not close(np.exp(first), once.ratios, 1e-3),
            "eps is not used": close(narrow.ratios, many.ratios, 1e-3),
        },
        tolerance=1e-2,
        ratios=ratios,
        shown=np.exp(shown[0]),
        first=np.exp(first[0]),
        single=once.ratios[0],
    )
    yield Property(
        "good and bad actions fall silent a little past the clip range",
        1.19 < ratios[0] < 1.3 and 0.75 < ratios[2] < 0.81,
        f"after 200 short steps the ratios are {numbers(ratios, 4)}",
    )

    steps = len(unasked.optimizer.felt)
    yield Property("epochs is 20 where it is left out", steps == 20, f"without it {steps} steps are taken")

    def run(logits: Tensor, states: Tensor, actions: Tensor, worth: Tensor, *rest: Any) -> np.ndarray:
        rate, epochs, eps = rest
        world = _World(rate)
        world.states, world.actions, world.worth = states, actions, worth
        world.begin(logits, rate)
        reported = world.run(answer, epochs=epochs, eps=eps)
        return np.array([np.log(world.ratios), reported])

    def slow(p: Problem) -> np.ndarray:
        """Each step from differences of the mean of the smaller products, logit by logit."""
        logits, change = p.logits.copy(), 1e-5
        rows = np.arange(len(logits))[:, None]

        def taken(table: np.ndarray) -> np.ndarray:
            return np.asarray(np.log(probabilities(table))[rows, p.states, p.actions])

        def objective(table: np.ndarray) -> float:
            r = np.exp(taken(table) - taken(p.logits))
            lowest = np.sort([r * p.worth, np.clip(r, 1 - p.eps, 1 + p.eps) * p.worth], axis=0)[0]
            return float(lowest.mean())

        for _ in range(p.epochs):
            slope = np.zeros(logits.shape)
            for where in np.ndindex(logits.shape):
                bump = np.zeros(logits.shape)
                bump[where] = change
                slope[where] = (objective(logits + bump) - objective(logits - bump)) / (2 * change)
            logits = logits + p.rate * slope
        return np.array([taken(logits) - taken(p.logits)] * 2)

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        learners, states, arms, pulls = rng.integers(1, 3), rng.integers(1, 3), *rng.integers(2, 5, 2)
        scale = rng.choice([0.1, 1, 10])
        return {
            "logits": rng.normal(size=(learners, states, arms)),
            "states": rng.integers(states, size=(learners, pulls)),
            "actions": rng.integers(arms, size=(learners, pulls)),
            "worth": scale * rng.normal(rng.choice([-1, 0, 1]), size=(learners, pulls)),
            "rate": float(rng.choice([0.1, 1]) / scale),
            "epochs": int(rng.integers(1, 6)),
            "eps": float(rng.choice([0.05, 0.2, 0.5])),
        }

    yield agrees(run, slow, random_problems(draw), what="(what became of log π, what is reported)")


@CHAPTER.check("inside-the-box", section="sec-box")
def inside_the_box(answer: Answer) -> Findings:
    for rate in (0.5, 30.0, 1e5):
        world = _World(rate, learners=2)
        shown, now = world.run(answer), world.ratios
        yield from recognise(
            now,
            {
                "nothing moves": rate < 1 and world.furthest < 1e-6,
                "it goes the wrong way": now[0, 0] < 1 or now[0, 2] > 1,
                "a ratio is outside the clip range": world.furthest > 0.2 + 1e-4,
                "the ratios, not their logarithms": close(shown, now, 1e-3),
                "what it reports is not what happened": not close(np.exp(shown), now, 1e-3),
            },
            ratios=now[0].round(4),
            rate=rate,
            past="a little" if world.furthest < 0.3 else "far",
            shown=np.exp(shown[0]),
            back=shown[0],
        )
    # One learner with a batch that leads far, beside one whose batch says nearly nothing.
    wild = _World(1.0, worth=[[30.0, 0.0, -30.0], [0.3, 0.0, -0.3]])
    wild.run(answer)
    calm = _World(1.0, worth=[[0.3, 0.0, -0.3]] * 2)  # as many, so that a mean over all weighs each the same
    calm.run(answer)
    narrow = _World(1.0)
    narrow.run(answer, eps=0.05)
    # Sixty learners that would go differently far, half of them with a good action, half with a bad one.
    good, bad = torch.tensor([1.0, -0.5, -0.5]), torch.tensor([-1.0, 0.5, 0.5])
    many = _World(60.0, worth=[(a * size).tolist() for size in torch.linspace(1, 3, 30) for a in (good, bad)])
    many.run(answer)
    top, bottom = float(many.ratios.max()), float(many.ratios.min())
    yield from recognise(
        wild.ratios[1],
        {
            "one learner holds up the others": np.abs(wild.ratios[1] - 1).max()
            < 0.5 * np.abs(calm.ratios[1] - 1).max(),
            "eps is not used": narrow.furthest > 0.05 + 1e-4,
            "the logarithm is compared with the clip range, not the ratio": 1.21 < top < np.exp(0.2) + 1e-4
            and bottom > 0.8 - 1e-4,
            "inside at one end of the clip range only": (top > 1.21 and bottom > 0.8 - 1e-4)
            or (bottom < 0.79 and top < 1.2 + 1e-4),
        },
        alone=calm.ratios[1],
        narrow=narrow.ratios[0],
        top=top,
        bottom=bottom,
    )
    # At a learning rate that overshoots, the way back need not be uphill; inside the clip range it has to be.
    rng = torch.Generator().manual_seed(0)
    failed = dict.fromkeys(("inside", "reported", "gained"), "")
    for trial in range(20):
        eps, rate, scale = (0.2, 0.05, 0.4)[trial % 3], (1.0, 0.1, 300.0)[trial % 3], (0.1, 1.0)[trial % 2]
        learners, states, arms, pulls = 1 + trial % 3, 1 + trial % 4, 2 + trial % 5, (1, 6, 11, 90)[trial % 4]
        world = _World(rate)
        world.begin(torch.randn(learners, states, arms, generator=rng), rate)
        world.states = torch.randint(states, (learners, pulls), generator=rng)
        world.actions = torch.randint(arms, (learners, pulls), generator=rng)
        world.worth = scale * torch.randn(learners, pulls, generator=rng)
        shown, now = world.run(answer, eps=eps), world.ratios
        gained = ((now - 1) * world.worth.numpy()).mean(1)
        setting = f"with {learners} learners, {states} states, {arms} arms, {pulls} pulls, eps = {eps} and"
        setting += f" a learning rate of {rate:g}"
        if world.furthest > eps + 1e-4:
            failed["inside"] = f"{setting} the furthest is at {now.flat[np.abs(now - 1).argmax()]:.5g}"
        if not close(np.exp(shown), now, 1e-3):
            off = np.exp(np.abs(shown - np.log(now)).max())
            failed["reported"] = f"{setting} they differ by a factor of {off:.4g}"
        if rate <= 1 and not (gained > 1e-9).all():
            failed["gained"] = f"{setting} it grows by {numbers(gained)}"
    yield Property(
        "every ratio of the batch is inside, in 20 random worlds, at any learning rate",
        not failed["inside"] and many.furthest < 0.2 + 1e-4,
        failed["inside"] or f"one is at {top:.4g}",
    )
    yield Property("what comes back is what happened", not failed["reported"], failed["reported"])
    yield Property("the surrogate grows, for every learner", not failed["gained"], failed["gained"])
