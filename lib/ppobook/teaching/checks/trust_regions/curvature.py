"""Checks of the exercises on the Fisher matrix: products with it, and the step that it measures."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..beside.trust_regions import watch_a_call
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, lowest, score_table, softmax


def _watched(answer: Answer, *arguments: Tensor) -> SimpleNamespace:
    """Measure one call: `count` operations, `largest` tensor, and whether it asks for `derivatives`."""
    return SimpleNamespace(**answer.beside(watch_a_call, *arguments))


@CHAPTER.check("fisher-softmax", section="sec-natural-gradient")
def fisher_softmax(answer: Answer) -> Findings:
    # One feature is always 1, so the second observation has logits (0, ln 2, ln 5) by itself.
    weights = np.array([[0.0, np.log(2), np.log(5)], [0.5, 0.0, -0.5]])
    observations = np.array([[1.0, 2.0], [1.0, 0.0], [1.0, -1.0], [1.0, 0.0]])
    v = np.array([[1.0, 2.0, -1.0], [0.0, -2.0, 4.0]])

    def ask(weights: np.ndarray, observations: np.ndarray, v: np.ndarray) -> np.ndarray:
        back = answer(*(torch.tensor(x, dtype=torch.float32) for x in (weights, observations, v)))
        return as_array(back, weights.shape, "the product")

    def slow(p: Problem, *, alike: bool = False) -> np.ndarray:
        """Observation by observation, action by action: score times (score times v), averaged."""
        total = np.zeros(p.weights.shape)
        for x in p.observations:
            scores = score_table(x @ p.weights)
            for chance, score in zip(softmax(x @ p.weights), scores, strict=True):
                whole = np.outer(x, score)  # by the weights
                total += (1 / len(score) if alike else chance) * whole * (whole * p.v).sum()
        return total / len(p.observations)

    probe = Problem(weights=weights, observations=observations, v=v)
    got, right = ask(weights, observations, v), slow(probe)
    probs, push, count = softmax(observations @ weights), observations @ v, len(observations)
    crossed = softmax((observations @ weights).T).T
    centre = Problem(weights=weights, observations=observations.mean(0, keepdims=True), v=v)

    def made_of(part: np.ndarray) -> np.ndarray:
        """The product that is made of this, by the logits of each observation."""
        return observations.T @ part / count

    def centred(p: np.ndarray) -> np.ndarray:
        return push - (p * push).sum(1, keepdims=True)

    added = (got - right)[0, 0] / v[0, 0]
    yield from recognise(
        got,
        {
            "the outer product is not subtracted": made_of(probs * push),
            "only the diagonal": made_of(probs * (1 - probs) * push),
            "the weight of each action is missing": made_of(centred(probs)),
            "a softmax over the observations": made_of(crossed * centred(crossed)),
            "every action counted alike": either(
                made_of(probs * (push - push.mean(1, keepdims=True))), slow(probe, alike=True)
            ),
            "measured in logits, not in the policy": made_of(push),
            "the sign is turned round": -right,
            "a sum over the observations, not a mean": right * count,
            "averaged over the actions too": right / 3,
            "one state in place of many": slow(centre),
            "averaged first, multiplied afterwards": 0.0,
            "damping is added": abs(added) > 1e-3 and close(got - right, added * v, 1e-3),
        },
    )
    flat = ask(weights, observations, np.array([[1.0, 1.0, 1.0], [-2.0, -2.0, -2.0]]))
    yield Property(
        "what pushes all logits alike counts for nothing",
        np.abs(flat).max() < 1e-5,
        f"for v with equal entries in each row you get {numbers(flat)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        count, features, actions = rng.integers((1, 1, 2), (6, 5, 6))
        return {
            "weights": rng.choice([0.1, 1, 3, 300]) * rng.normal(size=(features, actions)),
            "observations": rng.choice([0.3, 1]) * rng.normal(size=(count, features)),
            "v": rng.choice([0.01, 1, 100]) * rng.normal(size=(features, actions)),
        }

    agreed = agrees(answer, slow, random_problems(draw), what="your product")
    if agreed.holds:
        sizes, rng = ((5, 5), (45, 5), (5, 45)), np.random.default_rng(0)
        short, long, wide = (
            _watched(answer, *(torch.tensor(rng.normal(size=s)).float() for s in ((6, a), (n, 6), (6, a))))
            for n, a in sizes
        )
        yield from recognise(
            got,
            {
                "derivatives are asked of autograd": short.derivatives,
                "the matrix is written out": short.largest >= 30 * 30,
                "a loop where one product would do": max(long.count, wide.count) - short.count >= 40,
            },
            largest=short.largest,
            counts=[short.count, long.count, wide.count],
        )
    yield agreed


class _Matrix:
    """A matrix of which a reader sees products only; it writes down what it was asked."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = torch.tensor(np.asarray(matrix), dtype=torch.float64)
        self.asked: list[np.ndarray] = []

    def __call__(self, v: Any) -> Tensor:
        if not isinstance(v, Tensor):
            v = torch.tensor(np.asarray(v))
        if v.ndim != 1:
            raise Mistake("it asks for the whole matrix")
        self.asked.append(v.detach().double().numpy().copy())
        return (self.matrix @ v.double()).to(v.dtype)


_Matrix.__name__ = "function"  # as a message calls it: “It was called with (a function, …)”


@CHAPTER.check("natural-step", section="sec-natural-gradient")
def natural_step(answer: Answer) -> Findings:
    def ask(
        matrix: Any,
        gradient: Sequence[float],
        max_kl: float,
        iterations: int,
        start: Sequence[float] | None = None,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        machine = _Matrix(matrix)
        slope = torch.tensor(gradient, dtype=torch.float64)
        begin = torch.zeros_like(slope) if start is None else torch.tensor(start, dtype=torch.float64)
        back = answer(machine, slope, begin, max_kl, iterations)
        return as_array(back, (len(gradient),), "the step", finite=False), machine.asked

    # F = diag(1, 4) and g = (2, 4): F x = g for x = (2, 1), and xᵀFx = 8. A KL of 0.04 allows a tenth of x.
    matrix, g, x = np.diag([1.0, 4.0]), np.array([2.0, 4.0]), np.array([2.0, 1.0])
    got, asked = ask(matrix, g.tolist(), 0.04, 2)
    more, _ = ask(matrix, g.tolist(), 0.04, 3)
    wide, _ = ask(matrix, g.tolist(), 0.16, 2)

    def along(line: np.ndarray, step: np.ndarray = got) -> bool:
        size = np.linalg.norm(step) * np.linalg.norm(line)
        return bool(size > 1e-12 and abs(step @ line) > (1 - 1e-9) * size)

    lines = [v for v in asked if np.linalg.norm(v) > 1e-12]
    units = [v for v in lines[:2] if np.count_nonzero(v) == 1 and close(v.sum(), 1.0)]
    # The second direction asked shows how it was made: what is missing, plus so much of the first.
    left = g - (g @ g) / (g @ matrix @ g) * (matrix @ g)
    ratio = (left @ left) / (g @ g)
    turned_round = -1.0 if lines and lines[0] @ g < 0 else 1.0  # some write down F x − g, and step backwards
    follow = [(float(turned_round * v @ g / (g @ g)), turned_round * v) for v in lines[1:]]
    share = next((c for c, v in follow if close(v - c * g, left, 1e-6)), None)
    taken, across = 0.0 if share is None else share, 0.0
    if share is None and not along(x) and follow:
        # Had the first stretch another length, this much of each would be in the second direction.
        part = float(follow[0][1] @ left / (left @ left))
        across = part if close(follow[0][0], (1 - part) + (1 - part) ** 2 + part**2 * ratio, 1e-6) else 0.0
    yield from recognise(
        got,
        {
            "it asks for the whole matrix": len(units) == 2,
            "the matrix is never asked": not along(x) and not lines,
            "multiplied by F, not by its inverse": along(matrix @ g),
            "one iteration too few": along(g) and len(lines) == 2 and along(x, more),
            "iterations is not obeyed": along(g) and len(lines) == 2,
            "what is missing is never updated": along(g)
            and len(lines) > 1
            and all(along(v, g) for v in lines[:2]),
            "the plain gradient": along(g),
            "what was accounted for is added, not taken off": across < -1e-9,
            "the first stretch has the wrong length": across > 1e-9,
            "each direction forgets the ones before": share is not None and close(share, 0.0),
            "the next direction takes the wrong share of the last one": share is not None
            and not close(share, ratio, 1e-6),
            "what is missing at the start is not noted": along(x + g),
            "the sign is turned round": along(x) and got @ x < 0,
        },
        second=follow[0][1] if follow else "",
        share=taken,
    )
    if along(x):
        length = float(got @ x / (x @ x))
        yield from recognise(
            length,
            {
                "max_kl is not obeyed": close(wide, got) and not close(length, 1.0),
                "the 2 is missing under the root": 0.005**0.5,
                "the 2 stands in the wrong place": either(0.05, 0.02**0.5),
                "the square root is missing": either(0.01, 0.005),
                "measured in parameters, not in the policy": either(
                    (0.08 / 5) ** 0.5,
                    (0.08 / 20) ** 0.5,
                    0.04 / 5**0.5,
                    0.08**0.5 / 5**0.5,
                    0.04**0.5 / 5**0.5,
                ),
                "the step is not scaled to the KL": either(1.0, 0.04, 0.08**0.5, 0.2),
            },
            tolerance=1e-6,
            step=got,
            kl=4 * length**2,
        )
    yield Property("it points along the solution of F x = g", along(x) and got @ x > 0, numbers(got))
    kl = 0.5 * got @ matrix @ got
    yield Property(
        "its KL, half of step times F step, is max_kl", close(kl, 0.04), f"it is {numbers(kl)}, not 0.04"
    )
    if not along(x) or not close(kl, 0.04):
        return
    begun, _ = ask(matrix, g.tolist(), 0.04, 2, [1.0, 1.0])
    there, _ = ask(matrix, g.tolist(), 0.04, 1, [4.0, 2.0])
    home, _ = ask(matrix, g.tolist(), 0.04, 1, [2.0, 1.0])
    still, _ = ask(matrix, [0.0, 0.0], 0.04, 2)
    late, _ = ask(matrix, g.tolist(), 0.04, 10)
    yield from recognise(
        begun,
        {
            "the start is not added again": along(x - 1, begun),
            "what is missing at the start is not noted": along(x + 1, begun),
            "the start is not used": along(g, there) and along(g, home),
            "it goes on after it has arrived": not np.isfinite([home, late]).all(),
            "a gradient of zero gives nan": not np.isfinite(still).all(),
            "where nothing is missing there is no step": np.abs(home).max() < 1e-9,
            "a start that is the solution is not scaled": close(home, x),
        },
        still=still,
        home=home,
    )
    yield Property("begun from the solution, it is the same step", close(home, got), numbers(home))
    rng = np.random.default_rng(5)
    turned, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    large, slope = turned @ np.diag([1.0, 1.5, 2.0, 3.0, 5.0, 8.0]) @ turned.T, rng.normal(size=6)
    step, asked = ask(large, slope.tolist(), 0.01, 6)
    first, few = ask(large, slope.tolist(), 0.01, 1)
    yield Property("one iteration gives the plain gradient's direction", along(slope, first))
    if len(few) > 3 or len(asked) > 8:
        yield Mistake("too many products", one=len(few), six=len(asked))
    for unit, how in (
        (1e-4, "ten thousand times shorter"),
        (1e-10, "1e10 times shorter"),
        (1e8, "1e8 times longer"),
    ):
        other, _ = ask(large, (unit * slope).tolist(), 0.01, 6)
        if not close(other, step, 1e-4):
            yield Mistake("the unit of the reward matters", how=how, other=other[:2], step=step[:2])
    flat, _ = ask(np.diag([1.0, 4.0, 0.0]), [2.0, 4.0, 0.0], 0.04, 3)
    yield Property("a direction in which nothing changes is left alone", close(flat, [0.2, 0.1, 0.0]))

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size = rng.integers(1, 7)
        turned, _ = np.linalg.qr(rng.normal(size=(size, size)))
        matrix = turned @ np.diag(rng.uniform(0.2, 5, size=size)) @ turned.T
        gradient = rng.choice([0.001, 1, 10]) * rng.normal(size=size)
        begin = np.linalg.solve(matrix, gradient) * rng.choice([0.0, 0.5, 2, -3])
        begin = begin + (np.abs(begin).max() * rng.normal(size=size) if rng.random() < 0.7 else 0)
        return {
            "F": matrix.tolist(),
            "gradient": gradient,
            "start": begin,
            "max_kl": float(rng.choice([0.001, 0.01, 0.3])),
            "iterations": int(rng.integers(1, 8)),
        }

    def slow(p: Problem) -> np.ndarray:
        F = np.array(p.F)  # noqa: N806
        x = p.start + lowest(F, p.gradient - F @ p.start, p.iterations)
        return x * np.sqrt(2 * p.max_kl / (x @ F @ x))

    def by_product(F: Any, gradient: Tensor, start: Tensor, *rest: Any) -> Any:  # noqa: N803
        return answer(_Matrix(F), gradient.double(), start.double(), *rest)

    yield agrees(by_product, slow, random_problems(draw), what="your step")


class _Network:
    """A small network whose slow Fisher matrix is known: one score at a time, by central differences."""

    def __init__(self, first: Any, second: Any) -> None:
        self.tables = [np.asarray(table, dtype=np.float64) for table in (first, second)]

    def module(self) -> nn.Module:
        """The tables hold weights [out, in] and, in their last column, biases."""
        layers = []
        for table in self.tables:
            layer = nn.Linear(table.shape[1] - 1, table.shape[0]).double()
            with torch.no_grad():
                layer.weight.copy_(torch.tensor(table[:, :-1]))
                layer.bias.copy_(torch.tensor(table[:, -1]))
            layers.append(layer)
        return nn.Sequential(layers[0], nn.Tanh(), layers[1])

    def flat(self) -> np.ndarray:
        return np.concatenate([part.ravel() for t in self.tables for part in (t[:, :-1], t[:, -1])])

    def logits(self, row: np.ndarray, x: np.ndarray) -> np.ndarray:
        begin, h = 0, x
        for i, table in enumerate(self.tables):
            out, inner = table.shape[0], table.shape[1] - 1
            weight = row[begin : begin + out * inner].reshape(out, inner)
            begin += out * inner
            h = weight @ h + row[begin : begin + out]
            begin += out
            h = np.tanh(h) if i == 0 else h
        return h

    def matrices(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The Fisher matrix; and what comes of slopes of the logits, weighed by π or not at all."""
        row = self.flat()
        fisher, raw, bare = (np.zeros((len(row), len(row))) for _ in range(3))
        bumps = 1e-5 * np.eye(len(row))
        for x in observations:
            ends = [[self.logits(row + sign * bump, x) for bump in bumps] for sign in (1, -1)]
            slopes = (np.array(ends[0]) - np.array(ends[1])).T / 2e-5  # [actions, parameters]
            probs = softmax(self.logits(row, x))
            scores = slopes - probs @ slopes
            for p, score, slope in zip(probs, scores, slopes, strict=True):
                fisher += p * np.outer(score, score) / len(observations)
                raw += p * np.outer(slope, slope) / len(observations)
                bare += np.outer(slope, slope) / len(observations)
        return fisher, raw, bare


@CHAPTER.check("hunt-fisher", section="sec-natural-gradient")
def hunt_fisher(answer: Answer) -> Findings:
    rng = np.random.default_rng(3)
    network = _Network(rng.normal(size=(3, 3)), rng.normal(size=(3, 4)))
    observations = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, -1.0], [0.5, 0.5]])
    fisher, raw, bare = network.matrices(observations)
    policy, size = network.module(), len(fisher)
    vectors = rng.normal(size=(3, size))

    def ask(v: np.ndarray, damping: float) -> np.ndarray:
        back = answer(policy, torch.tensor(observations), torch.tensor(v), damping)
        return as_array(back, (size,), "the product")

    got = np.array([ask(v, 0.0) for v in vectors])
    again = ask(vectors[0], 0.0)
    damped, right = np.array([ask(v, 0.5) for v in vectors]), vectors @ fisher
    parameters = np.concatenate([p.detach().numpy().ravel() for p in policy.parameters()])
    same = [
        Property(
            "the policy is left as it was",
            close(parameters, network.flat(), 1e-9),
            f"they began with {numbers(network.flat()[:3], 6)}, and now with {numbers(parameters[:3], 6)}",
        ),
        Property(
            "asked twice for the same product, it says the same twice",
            close(again, got[0]),
            f"it says {numbers(got[0, :3])} and then {numbers(again[:3])}",
        ),
    ]
    summed = any(p.grad is not None for p in policy.parameters()) and not same[1].holds
    if not all(found.holds for found in same) and not summed:
        yield from same
        return
    yield from recognise(
        got,
        {
            "the gradients of earlier calls are added": summed,
            "no curvature is left": np.abs(got).max() < 1e-9,
            "the damping is missing": close(got, right) and close(damped, got),
            "the damping is always 1": right + vectors,
            "a sum over states, not a mean": 4 * right,
            "averaged over the actions too": right / 3,
            "the sign is turned round": -right,
            "half of it": right / 2,
            "twice as much": 2 * right,
            "the outer product is not subtracted": vectors @ raw,
            "measured in logits, not in the policy": vectors @ bare,
            "v is not used": np.tile(got[0], (3, 1)),
        },
        first=got[0, :3],
        again=again[:3],
    )
    yield Property(
        "with a damping of 0.5, v/2 is added",
        close(damped - got, vectors / 2),
        f"v begins with {numbers(vectors[0, :3])}, and {numbers((damped - got)[0, :3])} is added",
    )
    yield from same
    moved, observations = _Network(rng.normal(size=(3, 3)), rng.normal(size=(3, 4))), observations[1:]
    torch.nn.utils.vector_to_parameters(torch.tensor(moved.flat()), policy.parameters())
    later, wanted = ask(vectors[0], 0.0), moved.matrices(observations)[0] @ vectors[0]
    yield Property(
        "after the policy was moved, with other observations, the product is another",
        close(later, wanted),
        f"it says {numbers(later[:3])}, and in sums over the actions it is {numbers(wanted[:3])}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        count, features, hidden, actions = rng.integers((1, 1, 1, 2), (5, 4, 4, 5))
        first, second = (hidden, features + 1), (actions, hidden + 1)
        parameters = hidden * (features + 1) + actions * (hidden + 1)
        return {
            "first_layer": rng.normal(size=first).tolist(),
            "second_layer": (rng.choice([0.3, 2]) * rng.normal(size=second)).tolist(),
            "observations": rng.normal(size=(count, features)) * (rng.random((count, 1)) < 0.8),
            "v": rng.choice([0.01, 1, 100]) * rng.normal(size=parameters),
            "damping": float(rng.choice([0.0, 0.01, 2])),
        }

    def product(first: Any, second: Any, observations: Tensor, v: Tensor, damping: float) -> Any:
        return answer(_Network(first, second).module(), observations.double(), v.double(), damping)

    def slow(p: Problem) -> np.ndarray:
        fisher, _, _ = _Network(p.first_layer, p.second_layer).matrices(p.observations)
        return fisher @ p.v + p.damping * p.v

    yield agrees(product, slow, random_problems(draw), what="your product")
