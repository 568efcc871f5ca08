"""Checks of chapter 2's exercises, trust regions and TRPO.

Each probe is small enough to be worked out by hand. Where a number must be known exactly it comes from a
definition that is slow and of no use to a reader in a hurry: a sum over every trajectory, finite differences,
a world whose tables are made up, a loop over states and actions. A mistake is recognised by what it does to
the probe.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ppobook.envs import Episodes, TabularMDP, chain

from . import Answer, Chapter, Findings, Mistake, Property, Stop, as_array, close, numbers

CHAPTER = Chapter(
    2,
    "Trust regions and TRPO",
    {
        "sec-ratios": "Weighing the past",
        "sec-ess": "How many samples are left?",
        "sec-difference": "The performance-difference lemma",
        "sec-surrogate": "What the ratio leaves out",
        "sec-bound": "How far does the theory let us go?",
        "sec-mean-kl": "A leash in place of a guarantee",
        "sec-natural-gradient": "The natural gradient",
        "sec-line-search": "Trying the step before taking it",
        "sec-trpo": "TRPO, in a page",
    },
)


# ---------------------------------------------------------------------------------------------------
# What several checks need


def leaf(values: Any, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(np.asarray(values), dtype=dtype, requires_grad=True)


def two(value: Any, expected: str) -> tuple[Any, Any]:
    """The two results of the reader's function."""
    if value is None:
        raise Stop("returned", "nothing came back", f"It is to return {expected}. Is there a `return`?")
    if not isinstance(value, tuple | list) or len(value) != 2:
        came = (
            f"{len(value)} results"
            if isinstance(value, tuple | list)
            else f"one thing, a {type(value).__name__}"
        )
        raise Stop("returned", "not two results", f"It is to return {expected}; what came back is {came}.")
    return value[0], value[1]


def slopes(value: Any, *leaves: Tensor, what: str, section: str) -> list[np.ndarray]:
    """The gradients of what the reader returned by the leaves, zeros where autograd finds no way to one."""
    if not isinstance(value, Tensor):
        kind = {"ndarray": "NumPy array"}.get(type(value).__name__, type(value).__name__)
        raise Stop("returned", "no tensor", f"{what} is a {kind}; autograd needs a tensor.")
    if not value.requires_grad:
        raise Stop(
            "mistake",
            "cut off from autograd",
            f"Seen: {what} remembers nothing of the tensors it was computed from (requires_grad is False).",
            "Think: which input must the gradient reach, and where did .detach(), .item(), .numpy() or "
            "no_grad "
            "cut the way?",
            f"Read: {CHAPTER.where(section)}.",
        )
    try:
        found = torch.autograd.grad(value, leaves, allow_unused=True, retain_graph=True)
    except RuntimeError as error:
        if "inplace" not in str(error):
            raise
        raise Stop(
            "mistake",
            "autograd's notes are overwritten",
            f"Seen: on the way to {what} some entries of a tensor were replaced in place, and autograd "
            "still needs what stood there.",
            "Think: t[where] = … and t.mul_(…) change a tensor, torch.where(…) and masked_fill(…) make a new "
            "one.",
            f"Read: {CHAPTER.where(section)}.",
        ) from None
    return [
        np.zeros(leaf.shape) if g is None else g.double().numpy()
        for leaf, g in zip(leaves, found, strict=True)
    ]


def softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def divergence(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """KL(q, p) of each row."""
    return (q * np.log(q / p)).sum(-1)


def curtain(world: Any, name: str, allowed: str, section: str) -> None:
    """Stop where a reader asks a world for more than the exercise allows."""
    if not hasattr(TabularMDP, name) and name not in vars(chain(1)):
        raise AttributeError(f"a world of this exercise has no {name}; it has {allowed}")
    raise Stop(
        "mistake",
        "it looks behind the curtain",
        f"Seen: your function asks the world for its {name}.",
        f"Think: {allowed} are all that this exercise needs. What could stand in place of {name}?",
        f"Read: {CHAPTER.where(section)}.",
    )


# ---------------------------------------------------------------------------------------------------
# Ratios


@CHAPTER.check("per-step-ratio", section="sec-ratios")
def per_step_ratio(answer: Answer) -> Findings:
    # Two trajectories, of three steps and of one; the last two entries of the second row are padding.
    new = np.array([[0.5, 0.25, 0.6], [0.3, 0.9, 0.5]])
    old = np.array([[0.25, 0.5, 0.2], [0.6, 0.45, 0.1]])
    mask = np.array([[True, True, True], [True, False, False]])
    real = np.array([2.0, 0.5, 3.0, 0.5])  # of the four steps that were taken
    logp, old_logp = leaf(np.log(new)), leaf(np.log(old))

    def ask(logp: Tensor, old_logp: Tensor, mask: np.ndarray) -> tuple[Any, Any]:
        back = answer(logp, old_logp, torch.tensor(mask))
        return two(back, "the ratios of the steps and those of the trajectories")

    each, product = ask(logp, old_logp, mask)
    steps, whole = as_array(each, (2, 3), "the first result"), as_array(product, (2,), "the second result")
    said = (
        f"an action that the new policy takes with 0.5 and the old one with 0.25 gets {numbers(steps[0, 0])}"
    )

    if close(steps[mask], (np.log(new) / np.log(old))[mask]):
        yield Mistake(
            "the logarithms are divided",
            seen=f"{said}.",
            think="the logarithm of a quotient is a difference. Of what, and how does one get back from it?",
            section="sec-ratios",
        )
    if close(steps[mask], np.log(new / old)[mask]):
        yield Mistake(
            "the exponential is missing",
            seen=f"{said}: for an unchanged policy it would be 0.",
            think="what should the ratio of two equal probabilities be?",
            section="sec-ratios",
        )
    if close(steps[mask], (old / new)[mask]):
        yield Mistake(
            "the ratio is upside down",
            seen=f"{said}: what the new policy does more often counts less.",
            think="the batch holds too few of the actions that became more probable. Which weight makes up "
            "for that?",
            section="sec-ratios",
        )
    if close(steps, np.where(mask, 1.0, new / old)):
        yield Mistake(
            "the mask is turned round",
            seen=f"{said}, and padding gets {numbers(steps[~mask])}.",
            think="where is mask True: where something was done, or where nothing was?",
            section="sec-ratios",
        )
    if close(steps[mask], (new - old)[mask]):
        yield Mistake(
            "a difference of probabilities, not a ratio",
            seen=f"{said}.",
            think="a weight makes one action count as many times as it is more frequent. Is that a sum or a "
            "product?",
            section="sec-ratios",
        )
    if close(steps[mask], real) and not close(steps[~mask], [1.0, 1.0]):
        yield Mistake(
            "padding gets a ratio of its own",
            seen=f"behind the end of the second trajectory your ratios are {numbers(steps[~mask])}.",
            think="nobody acted there, and what logp holds there is arbitrary. Which factor changes nothing?",
            section="sec-ratios",
        )
    shown = f"the steps' ratios are (2, 1/2, 3) and (1/2), and your trajectories get {numbers(whole)}"
    if close(whole, [3.0, 5.0]):
        yield Mistake(
            "padding is multiplied in",
            seen=f"{shown}.",
            think="how many actions were chosen in the second trajectory?",
            section="sec-ratios",
        )
    if any(close(whole, w) for w in ([5.5, 0.5], [5.5, 2.5], [5.5, 7.5])):
        yield Mistake(
            "the ratios are added, not multiplied",
            seen=f"{shown}.",
            think="how probable is a whole trajectory, given how probable its steps are?",
            section="sec-ratios",
        )
    if any(close(whole, w) for w in ([5.5 / 3, 0.5], [5.5 / 3, 2.5 / 3], [5.5 / 3, 0.5 / 3])):
        yield Mistake(
            "the ratios are averaged, not multiplied",
            seen=f"{shown}.",
            think="how probable is a whole trajectory, given how probable its steps are?",
            section="sec-ratios",
        )
    root = 3 ** (1 / 3)
    if any(close(whole, w) for w in ([root, 0.5], [root, 0.5 ** (1 / 3)])):
        yield Mistake(
            "the logarithms are averaged, not added",
            seen=f"{shown}: the geometric mean of the steps' ratios.",
            think="a product of probabilities becomes a sum of logarithms. Where does a division come in?",
            section="sec-ratios",
        )
    if close(whole, np.log([3.0, 0.5])):
        yield Mistake(
            "the exponential is missing",
            seen=f"{shown}: an unchanged policy would get 0.",
            think="the sum of the logarithms is the logarithm of what?",
            section="sec-ratios",
        )
    yield Property("the ratios of the steps are 2, 1/2, 3 and 1/2", close(steps[mask], real), said)
    yield Property("padding has the ratio 1", close(steps[~mask], [1.0, 1.0]), numbers(steps[~mask]))
    yield Property("those of the trajectories are 3 and 1/2", close(whole, [3.0, 0.5]), shown)
    # Of the trajectories, the gradient is looked at too: either result may be what a loss is made of.
    for result, what, rise in (
        (each, "the ratio of a step", real),
        (product, "the ratio of a trajectory", np.array([3.0, 3.0, 3.0, 0.5])),
    ):
        total = result.sum() if isinstance(result, Tensor) else result
        by_new, by_old = slopes(total, logp, old_logp, what=what, section="sec-surrogate")
        if not close(by_old, 0 * old) and close(by_new, 0 * new):
            yield Mistake(
                "the wrong policy is held still",
                seen=f"of {what}, the gradient reaches old_logp and not logp.",
                think="one of the two has played and is a note, the other is to learn. Which is which?",
                section="sec-surrogate",
            )
        if not close(by_old, 0 * old):
            yield Mistake(
                "the old policy can move",
                seen=f"of {what}, the gradient reaches old_logp too: {numbers(by_old[0])}.",
                think="the old policy has played, and its probabilities are notes. Who may still learn?",
                section="sec-surrogate",
            )
        if result is each or close(whole, [3.0, 0.5]):
            yield Property(
                f"where log π rises by a little, {what} grows by that share of itself",
                close(by_new[mask], rise),
                f"its slopes are {numbers(by_new[mask])}",
            )
    if not (close(steps[mask], real) and close(whole, [3.0, 0.5])):
        return
    # In float32, a product of a thousand ratios is lost on the way if many small ones, or many large ones,
    # meet first. In which order they meet is the library's choice, so several orders are tried.
    for group in (2, 4, 8, 16, 32, 64, 1024):
        change = np.where(np.arange(1024) % group < group // 2, -1.0, 1.0)[None]
        back = ask(leaf(change - 2.0), torch.full((1, 1024), -2.0), np.ones((1, 1024), dtype=bool))[1]
        far = as_array(back, (1,), "the second result", finite=False)
        if not close(far, [1.0], 1e-2):
            yield Mistake(
                "the product runs out of numbers",
                seen="512 steps with the ratio 1/e and 512 with the ratio e make 1, and you get "
                f"{numbers(far)}.",
                think="e to the power of −512 is too small for a float, and e to the power of 512 too large. "
                "Which quantity stays harmless on the way?",
                section="sec-ratios",
            )
    yield Property("a thousand ratios whose product is 1 give 1", close(far, [1.0], 1e-2))
    large = torch.zeros(2, 40) + torch.tensor([[1.0], [-1.0]])
    back = ask(leaf(large - 2.0), torch.full((2, 40), -2.0), np.ones((2, 40), dtype=bool))[1]
    ends = as_array(back, (2,), "the second result", finite=False)
    yield Property(
        "forty steps with the ratio e, and forty with 1/e, give e to the power of 40 and of −40",
        close(ends / np.exp([40.0, -40.0]), [1.0, 1.0], 1e-2),
        numbers(ends),
    )


@CHAPTER.check("ess", section="sec-ess")
def ess(answer: Answer) -> Findings:
    ratios = np.array([[2.0, 2.0], [1.0, 1.0], [1.0, 1.0], [1.0, 0.5]])
    weights = np.array([[2.0, 4.0], [1.0, 1.0], [1.0, 1.0], [1.0, 0.5]])  # multiplied along each row

    def ask(log_ratio: np.ndarray, *, finite: bool = True) -> np.ndarray:
        back = answer(torch.tensor(log_ratio, dtype=torch.float32))
        return as_array(back, (log_ratio.shape[1],), "the result", finite=finite)

    def size(w: np.ndarray) -> np.ndarray:
        """By its meaning: the squared error of equal weights over that of these, n times."""
        shares = w / w.sum(0)
        return np.array([1 / sum(x * x for x in column) for column in shares.T])

    got, log_ratio = ask(np.log(ratios)), np.log(ratios)
    said = f"for the weights (2, 1, 1, 1) after one step and (4, 1, 1, 1/2) after two you get {numbers(got)}"
    expected = size(weights)
    first, second = weights.sum(0), (weights**2).sum(0)

    if close(got, size(ratios)):
        yield Mistake(
            "each step is weighed on its own",
            seen=f"{said}: at the second step the first one is forgotten.",
            think="a trajectory's first two steps have happened with which probability, under each policy?",
            section="sec-ess",
        )
    if close(got, size(np.cumsum(ratios, 1))):
        yield Mistake(
            "the ratios of the steps are added, not multiplied",
            seen=f"{said}.",
            think="what is a trajectory's weight made of?",
            section="sec-ratios",
        )
    summed = np.cumsum(log_ratio, 1)
    if close(got, size(np.exp(np.cumsum(log_ratio, 0)))):
        yield Mistake(
            "summed over trajectories, not over time",
            seen=f"{said}.",
            think="the shape is [B, T]. Along which axis does time run?",
            section="sec-ess",
        )
    with np.errstate(all="ignore"):
        bare = summed.sum(0) ** 2 / (summed**2).sum(0)
    if close(got, bare):
        yield Mistake(
            "the logarithms themselves as weights",
            seen=f"{said}.",
            think="a trajectory that is just as probable as before has which weight, and which logarithm?",
            section="sec-ratios",
        )
    if close(got, expected / 4):
        yield Mistake(
            "a share, not a number of trajectories",
            seen=f"{said}: four equal weights would give 1.",
            think="four trajectories of equal weight are worth how many?",
            section="sec-ess",
        )
    if close(got, expected / 16) or close(got, expected * 4):
        yield Mistake(
            "a mean where a sum belongs",
            seen=f"{said}.",
            think="one of your two averages divides by the number of trajectories, the other does not. Try "
            "four equal weights.",
            section="sec-ess",
        )
    if close(got, 1 / expected):
        yield Mistake(
            "upside down",
            seen=f"{said}: the more even the weights, the smaller.",
            think="what should four equal weights give, and what four of which only one is not 0?",
            section="sec-ess",
        )
    if close(got, first / second) or close(got, first**2 / first):
        yield Mistake(
            "a square is missing",
            seen=f"{said}: with all weights twice as large it would be another.",
            think="a common factor of all weights must not matter. How often does it stand above, and how "
            "often "
            "below?",
            section="sec-ess",
        )
    if close(got, 1 / second):
        yield Mistake(
            "the weights do not add up to one",
            seen=f"{said}.",
            think="one over the sum of squares is right for shares. What makes shares of weights?",
            section="sec-ess",
        )
    if close(got, np.ones(2)) or close(got, 4 * np.ones(2)):
        yield Mistake(
            "the weights make no difference",
            seen=f"{said}, whatever the weights are.",
            think="shares add up to one, always. Which power of them tells even from uneven?",
            section="sec-ess",
        )
    if any(close(got, 4 / (1 + weights.var(0, ddof=d))) for d in (0, 1)):
        yield Mistake(
            "the mean weight is taken to be 1",
            seen=f"{said}.",
            think="over all trajectories that could be, the mean weight is 1. And over these four?",
            section="sec-ess",
        )
    if close(got, size(np.roll(weights, 1, axis=1) * [0, 1] + [1, 0])):
        yield Mistake(
            "one step too few",
            seen=f"{said}: after one step nothing has been weighed yet.",
            think="up to step t, or up to and including it?",
            section="sec-ess",
        )
    if close(got, size(np.cumprod(ratios[:, ::-1], axis=1)[:, ::-1])):
        yield Mistake(
            "weighed from the end, not from the start",
            seen=f"{said}.",
            think="after the first step, which ratios are known?",
            section="sec-ess",
        )
    own = np.exp(summed - summed.max(1, keepdims=True))
    if any(close(got, size(w)) for w in (own, np.exp(summed) / np.exp(summed).sum(1, keepdims=True))):
        yield Mistake(
            "each trajectory is scaled by itself",
            seen=f"{said}.",
            think="a factor may be taken off if all trajectories share it. Over which axis does it run?",
            section="sec-ess",
        )
    for far in (200.0, -200.0):
        if close(got, expected, 1e-3) and not close(ask(log_ratio + far, finite=False), got, 1e-3):
            yield Mistake(
                "it overflows",
                seen=f"with {far:.0f} added to every logarithm of a ratio you get "
                f"{numbers(ask(log_ratio + far, finite=False))}.",
                think="a factor that all weights share cancels. Which number could be taken off their "
                "logarithms, so that no exponential is too large and not all of them are 0?",
                section="sec-ess",
            )
    equal = ask(np.full((5, 2), 0.3))
    yield Property("equal weights are worth their number", close(equal, [5.0, 5.0]), numbers(equal))
    half = ask(np.log([[1.0, 3.0], [1.0, 1e-9], [1e-9, 1.0], [1e-9, 1.0]]), finite=False)
    yield Property(
        "where only two of four count, and equally, they are worth 2", close(half[0], 2.0), numbers(half[0])
    )
    lone = ask(np.array([[200.0, 0.0], [0.0, 0.0], [0.0, 200.0], [0.0, 0.0]]), finite=False)
    yield Property(
        "of weights 1, 1, 1 and e to the power of 200 one is left",
        close(lone[0], 1.0),
        numbers(lone[0]),
    )
    yield Property("the weights (2, 1, 1, 1) are worth 25/7", close(got[0], 25 / 7), said)
    yield Property("(4, 1, 1, 1/2) are worth 6.5²/18.25", close(got[1], expected[1]), said)


@CHAPTER.check("ratio-variance", section="sec-ratios")
def ratio_variance(answer: Answer) -> Findings:
    old = np.array([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.25, 0.5, 0.25]])
    new = np.array([[0.125, 0.375, 0.5], [0.5, 0.25, 0.25], [0.125, 0.5, 0.375]])

    def ask(old: np.ndarray, new: np.ndarray) -> float:
        return float(as_array(answer(torch.tensor(old), torch.tensor(new)), (), "the variance"))

    def listed(steps: int) -> float:
        """Every trajectory, its probability and its ratio."""
        mean = square = 0.0
        for actions in itertools.product(range(3), repeat=steps):
            path = np.arange(steps), list(actions)
            chance, ratio = float(np.prod(old[path])), float(np.prod(new[path] / old[path]))
            mean, square = mean + chance * ratio, square + chance * ratio**2
        return square - mean**2

    one, three = listed(1), listed(3)
    got, many = ask(old[:1], new[:1]), ask(old, new)
    said = f"for one step, with the ratios (1/4, 3/2, 2), you get {numbers(got, 4)}"
    shown = f"for three steps you get {numbers(many, 4)}"
    (first, *_), (after, *_) = old, new
    r, back = after / first, first / after
    each = np.array([o @ (n / o) ** 2 - 1 for o, n in zip(old, new, strict=True)])

    if close(got, one + 1):
        yield Mistake(
            "the mean square, not the variance",
            seen=f"{said}; for a policy that did not change it would be 1.",
            think="how far do ratios scatter that are all 1?",
            section="sec-ratios",
        )
    if close(got, one**0.5):
        yield Mistake(
            "the standard deviation",
            seen=f"{said}.",
            think="it is the root of what was asked for.",
            section="sec-ratios",
        )
    if any(
        close(got, v)
        for v in (first @ back**2 - (first @ back) ** 2, first @ back**2 - 1, after @ back**2 - 1)
    ):
        yield Mistake(
            "the ratio is upside down",
            seen=f"{said}.",
            think="which policy's average is to come out, and which one's samples are there?",
            section="sec-ratios",
        )
    if any(close(got, v) for v in (after @ r**2 - (after @ r) ** 2, after @ r**2 - 1)):
        yield Mistake(
            "averaged under the new policy",
            seen=f"{said}.",
            think="the batch was played by the old policy. How often does each ratio turn up in it?",
            section="sec-ratios",
        )
    if any(close(got, v) for v in (r.var(), r.var(ddof=1), (r**2).mean() - 1, (r**2).sum() - 1)):
        yield Mistake(
            "every action counted alike",
            seen=f"{said}.",
            think="an action that is seldom taken brings its ratio seldom.",
            section="sec-ratios",
        )
    if close(got, np.prod(after**2 / first) - 1):
        yield Mistake(
            "summed over time, not over actions",
            seen=f"{said}.",
            think="rows are steps, columns are actions. The mean of one step's ratio is a sum along which "
            "axis?",
            section="sec-ratios",
        )
    drift = float(divergence(first, after))
    if any(close(got, v) for v in (2 * drift, np.expm1(2 * drift), np.expm1(one))):
        yield Mistake(
            "the approximation for small steps",
            seen=f"{said}.",
            think="what (d) approximates is good where all ratios are near 1. What is exact?",
            section="sec-ratios",
        )
    if close(got, first @ np.log(r) ** 2 - (first @ np.log(r)) ** 2):
        yield Mistake(
            "the variance of the logarithm",
            seen=f"{said}.",
            think="(c) speaks of log w. Of what is the variance of (b)?",
            section="sec-ratios",
        )
    if close(got, one) and (close(many, each[0]) or close(many, each[-1])):
        yield Mistake(
            "one step stands for all",
            seen=f"{shown}, as if only one of them had been played.",
            think="does a product of three ratios scatter as one of them does?",
            section="sec-ratios",
        )
    if close(got, one) and (close(many, each.sum()) or close(many, each.mean())):
        yield Mistake(
            "variances of a sum, not of a product",
            seen=f"{shown}; the three steps by themselves have {numbers(each, 4)}.",
            think="independent variances add up when the numbers are added. What is done with the ratios "
            "here?",
            section="sec-ratios",
        )
    if close(got, one) and close(many, each.prod()):
        yield Mistake(
            "the variances are multiplied",
            seen=f"{shown}; the three steps by themselves have {numbers(each, 4)}.",
            think="for independent factors the *mean* of a product is the product of the means. Which means "
            "do "
            "you need, to get at a variance?",
            section="sec-ratios",
        )
    yield Property("for one step it is what a sum over the actions gives", close(got, one), said)
    yield Property(
        "for three steps it is what a sum over all 27 trajectories gives", close(many, three), shown
    )
    yield Property("it is 0 where nothing changed", close(ask(old, old), 0.0))
    back = answer(torch.tensor(old[:1]), torch.tensor([[0.0, 0.5, 0.5]], dtype=torch.float64))
    never = as_array(back, (), "the variance", finite=False)
    yield Property("an action that is given up altogether is no obstacle", close(never, 1.0), numbers(never))


# ---------------------------------------------------------------------------------------------------
# The performance difference, and its forecast


class _TwoPlays:
    """A world in which the old and the new policy play two episodes in turn, always the same.

    The discount is 1/4, so that a factor of γ, of 1 − γ or of their inverses looks like no other. Both
    advantage tables average to zero under their own policy, as advantages do. What stands behind the end of
    the second episode is a state and an action like any other.
    """

    n_states, n_actions, gamma = 3, 2, 0.25
    terminal = np.array([False, False, True])
    OLD = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    NEW = np.array([[0.25, 0.75], [0.75, 0.25], [0.5, 0.5]])
    WORTH: ClassVar = {
        "old": np.array([[2.0, -2.0], [6.0, -6.0], [0.0, 0.0]]),
        "new": np.array([[3.0, -1.0], [1.0, -3.0], [0.0, 0.0]]),
    }
    MASK = np.array([[True, True, True], [True, False, False]])
    STATES = np.array([[0, 1, 1], [0, 0, 0]])
    ACTIONS: ClassVar = {"old": np.array([[0, 1, 0], [0, 0, 0]]), "new": np.array([[1, 0, 1], [1, 0, 0]])}

    def __init__(self) -> None:
        self.played: list[str] = []
        self.episodes = 0  # of the new policy
        self.judged: list[str] = []

    def _who(self, probs: Any) -> str:
        table = np.asarray(probs.detach() if isinstance(probs, Tensor) else probs, dtype=np.float64)
        for name, policy in (("old", self.OLD), ("new", self.NEW)):
            if close(table, policy):
                return name
        raise Stop(
            "mistake",
            "another policy is asked",
            "Seen: your function asks about a policy that is neither the old nor the new one.",
            "Think: two policies play a part in the lemma, and each its own. Which is which?",
            f"Read: {CHAPTER.where('sec-difference')}.",
        )

    def sample_episodes(
        self, probs: Any, episodes: int, seed: Any = None, *, max_steps: Any = None
    ) -> Episodes:
        who = self._who(probs)
        rows = (len(self.played) + np.arange(int(episodes))) % 2
        self.played.extend([who] * len(rows))
        self.episodes += len(rows) * (who == "new")
        rewards = np.array([[1.0, 1.0, 5.0], [2.0, 0.0, 0.0]])
        steps = slice(int(self.MASK[rows].sum(1).max()))
        return Episodes(*(x[rows, steps] for x in (self.STATES, self.ACTIONS[who], rewards, self.MASK)))

    def advantages(self, probs: Any) -> Any:
        who = self._who(probs)
        self.judged.append(who)
        return torch.tensor(self.WORTH[who]) if isinstance(probs, Tensor) else self.WORTH[who].copy()

    def __getattr__(self, name: str) -> Any:
        return curtain(self, name, "sample_episodes, advantages, gamma", "sec-difference")


@CHAPTER.check("performance-difference", section="sec-difference")
def performance_difference(answer: Answer) -> Findings:
    script = _TwoPlays()
    back = answer(script, script.OLD.copy(), script.NEW.copy(), 2, 0)
    got = float(as_array(back, (), "the estimate"))
    said = f"two episodes were played, of three steps and of one, and your estimate is {numbers(got)}"
    if not script.judged:
        yield Mistake(
            "no advantage is asked for",
            seen="your function never asks for advantages.",
            think="the difference of two noisy returns is right on average as well, and far noisier. What "
            "does "
            "the lemma sum up in place of rewards?",
            section="sec-difference",
        )
    if set(script.judged) == {"new"} and set(script.played) == {"old"}:
        yield Mistake(
            "the roles are swapped",
            seen="it adds up advantages of the new policy along episodes of the old one.",
            think="write the lemma down with the two names exchanged. What stands on its left side then?",
            section="sec-difference",
        )
    if set(script.judged) == {"new"}:
        yield Mistake(
            "advantages of the new policy",
            seen="it adds up advantages of the new policy along the new policy's episodes.",
            think="what does a policy's own advantage average to, over its own actions? Better or worse than "
            "*whom* are the new policy's actions to be?",
            section="sec-difference",
        )
    if set(script.played) == {"old"}:
        yield Mistake(
            "episodes of the old policy",
            seen="it adds up advantages of the old policy along the old policy's episodes.",
            think="what does a policy's own advantage average to, over its own actions? Whose trajectories "
            "stand in the lemma?",
            section="sec-difference",
        )
    if script.episodes != 2:
        yield Mistake(
            "the number of episodes is not obeyed",
            seen=f"two episodes were asked for, and the new policy played {script.episodes}.",
            think="who says how many episodes there are to be?",
            section="sec-difference",
        )
    discounted = [-2 + 6 / 4 - 6 / 16, -2.0]
    expected = [-1 + 3 / 4 + 3 / 16, -1.0]  # with a mean over actions in place of the one that was taken
    plain, padding = [-2 + 6 - 6, -2.0], [discounted[0], -2 + 2 / 4 + 2 / 16]
    if close(got, np.mean(discounted) / 4):
        yield Mistake(
            "the first step is discounted already",
            seen=f"{said}: a quarter of what they give, and γ is 1/4.",
            think="with which power of γ does J count the first reward?",
            section="sec-difference",
        )
    if close(got, np.mean(discounted) * 0.75) or close(got, np.mean(discounted) / 0.75):
        yield Mistake(
            "normalised by 1 − γ",
            seen=f"{said}.",
            think="the lemma's sum runs along an episode. Where does a factor of 1 − γ come in, and why not "
            "here?",
            section="sec-difference",
        )
    if close(got, np.mean([-2 * 0.0625 + 6 / 4 - 6, -2 * 0.0625])) or close(
        got, np.mean([-2 * 0.0625 + 6 / 4 - 6, -2.0])
    ):
        yield Mistake(
            "discounted from the wrong end",
            seen=f"{said}.",
            think="which step counts in full, the first or the last?",
            section="sec-difference",
        )
    if close(got, np.mean(plain)):
        yield Mistake(
            "gamma is not used",
            seen=f"{said}.",
            think="J counts a reward t steps ahead with γ to the power of t. And an advantage that is met "
            "there?",
            section="sec-difference",
        )
    if close(got, np.mean(padding)):
        yield Mistake(
            "padding is counted as steps",
            seen=f"{said}: the second episode was over after one step.",
            think="where mask is False nothing happened, whatever the table of advantages says of state 0.",
            section="sec-difference",
        )
    if close(got, np.sum(discounted)):
        yield Mistake(
            "a sum over episodes, not a mean",
            seen=f"{said}.",
            think="an expectation over trajectories, estimated from two of them: what is there to divide by?",
            section="sec-difference",
        )
    if any(close(got, v) for v in (np.sum(discounted) / 4, np.sum(discounted) / 6, -0.875 / 6 - 1)):
        yield Mistake(
            "averaged over steps, not over episodes",
            seen=f"{said}.",
            think="the expectation is over trajectories, and within each stands a sum over its steps. What "
            "is "
            "there to divide by?",
            section="sec-difference",
        )
    if close(got, -np.mean(discounted)):
        yield Mistake(
            "the sign is turned round",
            seen=f"{said}.",
            think="where the new policy does what the old one held for better than usual, is it better or "
            "worse?",
            section="sec-difference",
        )
    # The action that was taken, or the new policy's mean over actions in its place: right on average, both.
    yield Property(
        "it is the mean of what its two episodes give",
        close(got, np.mean(discounted)) or close(got, np.mean(expected)),
        said,
    )
    again = _TwoPlays()
    answer(again, again.OLD.copy(), again.NEW.copy(), 6, 0)
    yield Property(
        "where six episodes are asked for, six are played", again.episodes == 6, f"{again.episodes} are"
    )

    world = chain(3, left_reward=0.4, slip=0.1, gamma=0.9)
    old = np.tile([0.5, 0.5], (5, 1))
    new = np.tile([0.2, 0.8], (5, 1))
    truth = world.objective(new) - world.objective(old)
    tries = [float(as_array(answer(world, old, new, 200, seed), (), "the estimate")) for seed in range(12)]
    error = np.std(tries, ddof=1) / np.sqrt(len(tries))
    yield Property(
        "in a chain it finds J(new) − J(old), to within its own scatter",
        abs(np.mean(tries) - truth) < 6 * error + 1e-9,
        f"it finds {np.mean(tries):.3f} ± {error:.3f}, and the truth is {truth:.3f}",
    )
    yield Property(
        "the same seed gives the same estimate",
        close(tries[0], as_array(answer(world, old, new, 200, 0), (), "the estimate"), 1e-9),
    )


@CHAPTER.check("surrogate-gradient", section="sec-surrogate")
def surrogate_gradient(answer: Answer) -> Findings:
    world = chain(2, left_reward=0.4, slip=0.1, gamma=0.9)
    logits = np.array([[0.0, 0.0], [0.0, 0.4], [0.3, -0.2], [0.0, 0.0]])
    old, new = softmax(logits), softmax(logits + np.array([[0, 0], [0.0, 1.0], [-1.5, 0.0], [0, 0]]))

    def tensor(table: np.ndarray) -> Tensor:
        return torch.tensor(table, dtype=torch.float64)

    def ask(policy: np.ndarray) -> float:
        return float(as_array(answer(world, tensor(old), tensor(policy)), (), "the surrogate"))

    # The surrogate is the line that touches J at the old policy: known from J alone, by finite differences.
    bit = 1e-5
    before, after = world.objective(old), world.objective(new)
    rise = (world.objective(old + bit * (new - old)) - world.objective(old - bit * (new - old))) / (2 * bit)
    here, there = ask(old), ask(new)
    said = (
        f"J is {before:.4f} before and {after:.4f} after, and you say {round(here, 4) + 0.0:.4f} and "
        f"{there:.4f}"
    )

    visits, worth, values = world.state_occupancy(old), world.advantages(old), world.policy_value(old)
    acting = ~world.terminal
    if close(there - here, rise) and close(here, 0.0):
        yield Mistake(
            "J of the old policy is missing",
            seen=f"{said}.",
            think="a forecast of no change is not a forecast of 0. From where does the surrogate start?",
            section="sec-surrogate",
        )
    if close(here, before) and close(there, after):
        yield Mistake(
            "J itself, not its forecast",
            seen=f"{said}: exactly right.",
            think="to be exactly right, something must have been asked of the new policy: the states that it "
            "visits, or its values. Which states does the batch hold?",
            section="sec-surrogate",
        )
    if close(there, here):
        yield Mistake(
            "it forecasts no change, ever",
            seen=f"{said}.",
            think="a policy's own advantages, averaged over its own actions, are zero. Which two policies "
            "must "
            "meet here?",
            section="sec-surrogate",
        )
    if close(here, before + visits @ values):
        yield Mistake(
            "what an action is worth, not how much better than usual",
            seen=f"{said}.",
            think="for an unchanged policy the sum must vanish. Which of Q and A averages to zero?",
            section="sec-difference",
        )
    if close(there - here, -rise):
        yield Mistake(
            "the sign is turned round",
            seen=f"{said}: where J rises you promise a fall.",
            think="which action should a policy take more often, to earn more?",
            section="sec-surrogate",
        )
    for factor in (1 - world.gamma, 1 / visits.sum()):
        if close(there - here, factor * rise):
            yield Mistake(
                "the visits are made a distribution",
                seen=f"{said}: the slope is {factor:.2f} times what it should be.",
                think="J adds up what is earned along an episode. What do the visits of all states add up "
                "to?",
                section="sec-difference",
            )
    for factor in (1 / old.size, 1 / len(old)):
        if close(there - here, factor * rise):
            yield Mistake(
                "a mean where a sum belongs",
                seen=f"{said}: the slope is {factor:.3g} times what it should be.",
                think="how often a state is visited stands in the visits already. What is there to divide?",
                section="sec-difference",
            )
    if close(there - here, visits @ ((new / old - 1) * worth).sum(1)):
        yield Mistake(
            "a ratio, and no weight for how often",
            seen=f"{said}.",
            think="the ratio corrects an average over the old policy's actions. Where is that average?",
            section="sec-ratios",
        )
    gains = (new * worth).sum(1)
    if any(close(there - here, v) for v in (gains.sum(), gains.mean(), gains[acting].mean())):
        yield Mistake(
            "every state counts alike",
            seen=f"{said}.",
            think="a state that is hardly ever visited hardly matters. What says how often each one is?",
            section="sec-difference",
        )
    if close(there - here, visits @ (old * (old / new) * worth).sum(1)):
        yield Mistake(
            "the ratio is upside down",
            seen=f"{said}.",
            think="under the old policy's actions, which ratio makes an average of the new one's?",
            section="sec-ratios",
        )
    if close(there - here, visits @ (old * np.log(new / old) * worth).sum(1)):
        yield Mistake(
            "the logarithm of the ratio",
            seen=f"{said}. At the old policy the slope is right; away from it the surrogate is bent.",
            think="an average under the new policy is linear in its probabilities. Is a logarithm?",
            section="sec-surrogate",
        )
    frozen, theta = leaf(old, torch.float64), leaf(logits, torch.float64)
    value = answer(world, tensor(old), theta.softmax(-1))
    (by_theta,) = slopes(value, theta, what="the surrogate", section="sec-surrogate")
    # Far from the old policy, since near it the surrogate hardly depends on which policy is the old one.
    far = leaf(new, torch.float64)
    (by_old,) = slopes(answer(world, frozen, far), frozen, what="the surrogate", section="sec-surrogate")
    if not close(by_old, 0 * old):
        yield Mistake(
            "the old policy can move",
            seen="the gradient of your surrogate reaches the old policy's probabilities too.",
            think="the visits and the advantages were measured, with a policy that is not going to change.",
            section="sec-surrogate",
        )
    slow = np.zeros_like(logits)
    for place in np.ndindex(logits.shape):
        bump = np.zeros_like(logits)
        bump[place] = bit
        slow[place] = (world.objective(softmax(logits + bump)) - world.objective(softmax(logits - bump))) / (
            2 * bit
        )
    yield Property("at the old policy it is J", close(here, before), said)
    yield Property(
        "at the old policy its gradient by the logits is that of J (finite differences)",
        close(by_theta, slow),
        f"it is {numbers(by_theta[acting])}, and J's is {numbers(slow[acting])}",
    )
    middle = ask((old + new) / 2)
    yield Property("half-way between two policies it is half-way between", close(middle, (here + there) / 2))
    yield Property("far away it goes on along the line that touches J", close(there, before + rise), said)
    misses = []
    for share in (0.02, 0.01):
        near = old + share * (new - old)
        misses.append(world.objective(near) - ask(near))
    yield Property(
        "half the change leaves a quarter of the error",
        3.5 < misses[0] / (misses[1] or np.inf) < 4.5,
        f"the errors are {misses[0]:.2g} and {misses[1]:.2g}",
    )


# ---------------------------------------------------------------------------------------------------
# The line search


@CHAPTER.check("hunt-line-search", section="sec-line-search")
def hunt_line_search(answer: Answer) -> Findings:
    start, step = torch.tensor([1.0, 2.0]), torch.tensor([8.0, -8.0])
    rows: list[np.ndarray] = []

    def ask(
        judge: Callable[[float], tuple[float, float]], max_kl: float, tries: int = 6
    ) -> tuple[float, bool, list[float]]:
        """The share of the step that is taken, whether it is called a success, and the shares tried."""
        asked: list[float] = []

        def evaluate(parameters: Any) -> tuple[float, float]:
            row = as_array(parameters, (2,), "what is evaluated", finite=False)
            asked.append(float((row[0] - 1) / 8))
            return judge(asked[-1])

        found, success = two(
            answer(evaluate, start.clone(), step.clone(), max_kl, tries, 0.5), "parameters and a flag"
        )
        row = as_array(found, (2,), "the first result", finite=False)
        flag = as_array(success, (), "the second result")
        rows.append(row)
        return float((row[0] - 1) / 8), bool(flag), asked

    # The KL of a share s of the step is s², the gain s: the first try that is near enough is a quarter.
    near, good, tried = ask(lambda s: (s, s * s), 0.07)
    # The KL is always fine; there is a gain only from a share of 0.3 downwards.
    gained, _, _ = ask(lambda s: (0.3 - s, 0.0), 0.07)
    said = f"where the KL of a share s of the step is s² and 0.07 is allowed, you try {numbers(tried)}"

    if len(tried) > 1 and close(tried[1], 2.0):
        yield Mistake(
            "the tries grow",
            seen=f"{said} of the step.",
            think="shrink is below 1. With which power of it does a length become shorter?",
            section="sec-line-search",
        )
    if any(share > 1.01 for share in tried):
        yield Mistake(
            "each try begins where the last one ended",
            seen=f"{said} of the step: a try that was too long is followed by a longer one.",
            think="from where should the second try be measured?",
            section="sec-line-search",
        )
    if min(tried, default=1.0) < -0.01:
        yield Mistake(
            "it goes backwards",
            seen=f"{said} of the step.",
            think="the step was chosen to gain something. Which way does it point?",
            section="sec-line-search",
        )
    if close(rows[0], [2.0, -2.0]) and good:
        yield Mistake(
            "a step is returned, not parameters",
            seen=f"you start at (1, 2), and what you return is {numbers(rows[0])}, a quarter of the step.",
            think="whoever called you puts what comes back into the policy.",
            section="sec-line-search",
        )
    if close(near, 0.0) and good:
        yield Mistake(
            "what was found is not returned",
            seen=f"{said}; then you return the start, and call it a success.",
            think="which of the rows that were tried was good enough?",
            section="sec-line-search",
        )
    simple, _, _ = ask(lambda s: (1.0, 0.0), 0.07)  # the whole step is good
    traded, _, _ = ask(lambda s: (0.05, 1.0), 0.07)  # every try is too far
    if close(near, 0.0625) and close(traded, 1.0):
        yield Mistake(
            "gain and KL are exchanged",
            seen="a gain of 0.05 and a KL of 1 pass, where 0.07 is allowed.",
            think="in which order does evaluate return the two?",
            section="sec-line-search",
        )
    if close(simple, 0.0) and (close(near, 1.0) or close(gained, 1.0)):
        yield Mistake(
            "a comparison points the wrong way",
            seen="a step that gains 1 and has a KL of 0 is refused, and a worse one is taken.",
            think="say both conditions aloud. Which of the two numbers is to be large, and which small?",
            section="sec-line-search",
        )
    if close(near, 0.0) and not good and len(tried) < 3:
        yield Mistake(
            "it gives up too early",
            seen=f"{said} of the step, and no more.",
            think="how many tries are there, and what ends them?",
            section="sec-line-search",
        )
    if close(near, 1.0) and close(gained, 1.0):
        yield Mistake(
            "one of the two conditions is enough",
            seen="a step that gains and goes too far is taken, and so is one that stays near and loses.",
            think="*and* or *or*?",
            section="sec-line-search",
        )
    if close(near, 1.0):
        yield Mistake(
            "the KL is not asked",
            seen="the whole step has a KL of 1, 0.07 is allowed, and you take it.",
            think="a step is measured by two numbers. Which of them did your search look at?",
            section="sec-line-search",
        )
    if close(gained, 1.0):
        yield Mistake(
            "the gain is not asked",
            seen="the whole step stays near enough, it loses 0.7, and you take it.",
            think="a step is measured by two numbers. Which of them did your search look at?",
            section="sec-line-search",
        )
    if tried and close(max(tried), 0.5):
        yield Mistake(
            "the whole step is never tried",
            seen=f"{said} of the step.",
            think="with which power of the shrinking factor should it begin?",
            section="sec-line-search",
        )
    stopped, success, all_tried = ask(lambda s: (s, 1.0), 0.07)
    if not close(stopped, 0.0):
        yield Mistake(
            "after a failure it does not go back",
            seen=f"every try was too far, and what you return is {stopped:.3g} of the step away from the "
            "start.",
            think="none of the tries was good enough, the last one included. Where is it known to be safe?",
            section="sec-line-search",
        )
    if success:
        yield Mistake(
            "a failure is called a success",
            seen="every try was too far, and your second result is true.",
            think="whoever logs the share of accepted steps looks at this flag. What will they conclude?",
            section="sec-line-search",
        )
    nowhere = float("nan")
    broken, _, _ = ask(lambda s: (nowhere, nowhere) if s > 0.3 else (s, 0.0), 0.07)
    half, _, _ = ask(lambda s: (s, nowhere) if s > 0.3 else (s, 0.0), 0.07)
    other, _, _ = ask(lambda s: (nowhere, 0.0) if s > 0.3 else (s, 0.0), 0.07)
    if max(broken, half, other) > 0.3:
        yield Mistake(
            "what is no number passes",
            seen="where the whole step gives nan, you take it.",
            think="nan > 0.07 is false, and so is nan <= 0.07. How is a condition worded that nan does not "
            "pass?",
            section="sec-line-search",
        )
    if near < 0.2 or gained < 0.2:
        yield Mistake(
            "it goes on after it has found one",
            seen="a quarter of the step was the longest that is good enough, and you take "
            f"{min(near, gained):.3g} of "
            "it.",
            think="the surrogate is a forecast and will always find a reason for another length. Which of "
            "the "
            "lengths that are good enough does a line search want?",
            section="sec-line-search",
        )
    yield Property("it takes the first length that is good enough", close([near, gained], [0.25, 0.25]))
    yield Property("a success is called one", good)
    yield Property(
        "each try is shrink times as long as the one before",
        close(all_tried, [0.5**k for k in range(len(all_tried))]),
        f"it tries {numbers(all_tried)}",
    )
    yield Property("it tries as often as it may", len(all_tried) == 6, f"{len(all_tried)} times, of 6")
    edge, _, _ = ask(lambda s: (s, s * s), 0.24)
    yield Property(
        "where 0.24 is allowed, a KL of 0.25 is too much",
        close(edge, 0.25),
        f"you take {numbers(edge)} of it",
    )
    yield Property("what it returns lies on the line from start to start + step", _on_the_line(answer))


def _on_the_line(answer: Answer) -> bool:
    start, step = torch.tensor([1.0, 2.0]), torch.tensor([8.0, -4.0])

    def evaluate(parameters: Any) -> tuple[float, float]:
        share = float((as_array(parameters, (2,), "what is evaluated")[0] - 1) / 8)
        return share, share

    found, _ = two(answer(evaluate, start, step, 0.6, 4, 0.5), "parameters and a flag")
    return close(as_array(found, (2,), "the first result"), [5.0, 0.0])


# ---------------------------------------------------------------------------------------------------
# The Fisher matrix and the natural step


def score_table(logits: np.ndarray) -> np.ndarray:
    """Row a: the slopes of log π(a) by each logit, from central differences and nothing else."""
    step, size = 1e-5, len(logits)
    columns = []
    for bump in step * np.eye(size):
        columns.append((np.log(softmax(logits + bump)) - np.log(softmax(logits - bump))) / (2 * step))
    return np.array(columns).T


@CHAPTER.check("fisher-softmax", section="sec-natural-gradient")
def fisher_softmax(answer: Answer) -> Findings:
    # One feature is always 1, so the second observation has logits (0, ln 2, ln 5) by itself.
    weights = np.array([[0.0, np.log(2), np.log(5)], [0.5, 0.0, -0.5]])
    observations = np.array([[1.0, 2.0], [1.0, 0.0], [1.0, -1.0], [1.0, 0.0]])
    v = np.array([[1.0, 2.0, -1.0], [0.0, -2.0, 4.0]])

    def ask(weights: np.ndarray, observations: np.ndarray, v: np.ndarray) -> np.ndarray:
        back = answer(*(torch.tensor(x, dtype=torch.float32) for x in (weights, observations, v)))
        return as_array(back, weights.shape, "the product")

    def slow(weights: np.ndarray, observations: np.ndarray, v: np.ndarray, alike: bool = False) -> np.ndarray:
        """Observation by observation, action by action: score times (score times v), averaged."""
        total = np.zeros_like(weights)
        for x in observations:
            scores = score_table(x @ weights)
            for p, score in zip(softmax(x @ weights), scores, strict=True):
                whole = np.outer(x, score)  # by the weights
                total += (1 / len(score) if alike else p) * whole * (whole * v).sum()
        return total / len(observations)

    got, expected = ask(weights, observations, v), slow(weights, observations, v)
    probs, push = softmax(observations @ weights), observations @ v
    said = f"the first row of your product is {numbers(got[0])}"
    count = len(observations)

    def looks_like(part: np.ndarray) -> bool:
        """Whether the product was made of this, by the logits of each observation."""
        return close(got, observations.T @ part / count, 1e-3)

    if looks_like(probs * push):
        yield Mistake(
            "the outer product is not subtracted",
            seen=f"{said}. And for v = (1, 1, 1) in each row your product would not be zero, though adding "
            "the "
            "same to all logits changes no policy.",
            think="a score by the logits is e_a − π. What do the two parts with π leave behind when it is "
            "multiplied with itself?",
            section="sec-natural-gradient",
        )
    if looks_like(probs * (1 - probs) * push):
        yield Mistake(
            "only the diagonal",
            seen=f"{said}: each logit is treated as if there were no other.",
            think="when one action becomes more probable, what happens to the others?",
            section="sec-natural-gradient",
        )
    if looks_like(push - (probs * push).sum(1, keepdims=True)):
        yield Mistake(
            "the weight of each action is missing",
            seen=f"{said}: what is left of the push is passed on alike for every action.",
            think="a rare action's logit moves the policy little. Which factor says how rare it is?",
            section="sec-natural-gradient",
        )
    crossed = softmax((observations @ weights).T).T
    if looks_like(crossed * (push - (crossed * push).sum(1, keepdims=True))):
        yield Mistake(
            "a softmax over the observations",
            seen=f"{said}.",
            think="the probabilities of which entries add up to one: those of a row, or those of a column?",
            section="sec-natural-gradient",
        )
    if looks_like(probs * (push - push.mean(1, keepdims=True))):
        yield Mistake(
            "every action counted alike",
            seen=f"{said}.",
            think="from the push of each logit a mean is taken off. The mean under which distribution?",
            section="sec-natural-gradient",
        )
    if looks_like(push):
        yield Mistake(
            "measured in logits, not in the policy",
            seen=f"{said}: every logit counts alike, however rare its action.",
            think="a change in the logit of an action that is never taken changes nothing. Where does π come "
            "in?",
            section="sec-natural-gradient",
        )
    if close(got, -expected, 1e-3):
        yield Mistake(
            "the sign is turned round",
            seen=f"{said}: v times its product would be below zero.",
            think="the product is a mean of score times (score times v). Which sign has v times that?",
            section="sec-natural-gradient",
        )
    if close(got, slow(weights, observations, v, alike=True), 1e-3):
        yield Mistake(
            "every action counted alike",
            seen=f"{said}.",
            think="the Fisher matrix is an expectation under the policy. How often is each action taken?",
            section="sec-natural-gradient",
        )
    if close(got, expected * count, 1e-3):
        yield Mistake(
            "a sum over the observations, not a mean",
            seen=f"{said}: a batch twice as large would give twice as much.",
            think="the KL that this matrix stands for is a mean over states.",
            section="sec-mean-kl",
        )
    if close(got, expected / 3, 1e-3):
        yield Mistake(
            "averaged over the actions too",
            seen=f"{said}.",
            think="over the actions stands a sum, with the probabilities as weights. Over what does the mean "
            "run?",
            section="sec-mean-kl",
        )
    centre = observations.mean(0, keepdims=True)
    if close(got, slow(weights, centre, v), 1e-3):
        yield Mistake(
            "one state in place of many",
            seen=f"{said}: the observations were averaged first, and then there was one policy.",
            think="the mean of a product is to be taken, over states. Which of the factors differ from "
            "state to "
            "state?",
            section="sec-mean-kl",
        )
    if np.abs(got).max() < 1e-6:
        yield Mistake(
            "averaged first, multiplied afterwards",
            seen="the product is zero.",
            think="the mean score is zero. Which mean is taken before, and which after the scores meet?",
            section="sec-natural-gradient",
        )
    if close(got - expected, (got - expected)[0, 0] / v[0, 0] * v, 1e-3) and not close(got, expected, 1e-3):
        yield Mistake(
            "damping is added",
            seen="besides F v there is a multiple of v in your product.",
            think="damping is for whoever solves the equations. Here F itself was asked for, null directions "
            "and all.",
            section="sec-natural-gradient",
        )
    flat = ask(weights, observations, np.array([[1.0, 1.0, 1.0], [-2.0, -2.0, -2.0]]))
    yield Property(
        "what pushes all logits alike counts for nothing",
        np.abs(flat).max() < 1e-5,
        f"for v with equal entries in each row you get {numbers(flat)}",
    )
    yield Property("it is what a loop over observations and actions gives", close(got, expected, 1e-3), said)
    rng = np.random.default_rng(2)
    other, seen, along = (rng.normal(size=shape) for shape in ((3, 4), (5, 3), (3, 4)))
    yield Property(
        "with other numbers of features and actions too",
        close(ask(other, seen, along), slow(other, seen, along), 1e-3),
    )
    # The ruler and the distance: the KL of a small step v is half of v times F v.
    small = 0.01 * v
    kl = float(divergence(probs, softmax(observations @ (weights + small))).mean())
    ruled = 0.5 * float((small * ask(weights, observations, small)).sum())
    yield Property(
        "half of v times the product is the mean KL of a small step v",
        abs(ruled / kl - 1) < 0.05,
        f"it is {ruled:.3g}, and the KL is {kl:.3g}",
    )


class _Matrix:
    """A matrix of which a reader sees products only; it writes down what it was asked."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = torch.tensor(np.asarray(matrix), dtype=torch.float64)
        self.asked: list[np.ndarray] = []

    def __call__(self, v: Any) -> Tensor:
        if not isinstance(v, Tensor):
            v = torch.tensor(np.asarray(v))
        if v.ndim != 1:
            raise Stop(
                "mistake",
                "it asks for the whole matrix",
                f"Seen: matvec was called with a tensor of shape {list(v.shape)}, many products at once.",
                "Think: a network has thousands of parameters. How many products may a step cost?",
                f"Read: {CHAPTER.where('sec-natural-gradient')}.",
            )
        self.asked.append(v.detach().double().numpy().copy())
        return (self.matrix @ v.double()).to(v.dtype)


@CHAPTER.check("natural-step", section="sec-natural-gradient")
def natural_step(answer: Answer) -> Findings:
    def ask(
        matrix: Any,
        gradient: Sequence[float],
        max_kl: float,
        iterations: int,
        start: Sequence[float] | None = None,
        *,
        finite: bool = True,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        machine = _Matrix(matrix)
        slope = torch.tensor(gradient, dtype=torch.float64)
        begin = torch.zeros_like(slope) if start is None else torch.tensor(start, dtype=torch.float64)
        back = answer(machine, slope, begin, max_kl, iterations)
        return as_array(back, (len(gradient),), "the step", finite=finite), machine.asked

    # F = diag(1, 4) and g = (2, 4): F x = g for x = (2, 1), and xᵀFx = 8. A KL of 0.04 allows a tenth of x.
    matrix, g, x = np.diag([1.0, 4.0]), np.array([2.0, 4.0]), np.array([2.0, 1.0])
    got, asked = ask(matrix, g.tolist(), 0.04, 2)
    said = f"for F = diag(1, 4), g = (2, 4) and a KL of 0.04 your step is {numbers(got)}"

    def along(line: np.ndarray, step: np.ndarray = got) -> bool:
        size = np.linalg.norm(step) * np.linalg.norm(line)
        return bool(size > 1e-12 and abs(step @ line) > (1 - 1e-9) * size)

    lines = [v for v in asked if np.linalg.norm(v) > 1e-12]
    length = float(got @ x / (x @ x))
    if len(lines) >= 2 and all(np.count_nonzero(v) == 1 and close(v.sum(), 1.0) for v in lines[:2]):
        yield Mistake(
            "it asks for the whole matrix",
            seen="the matrix was multiplied with the unit vectors, one after the other.",
            think="a network has thousands of parameters. How many products may a step cost?",
            section="sec-natural-gradient",
        )
    if not along(x) and not lines:
        yield Mistake(
            "the matrix is never asked",
            seen=f"{said}, and matvec was not called.",
            think="the gradient is measured in parameters. What turns it into a step measured in policies?",
            section="sec-natural-gradient",
        )
    if along(matrix @ g):
        yield Mistake(
            "multiplied by F, not by its inverse",
            seen=f"{said}: along F g.",
            think="in a direction in which the policy reacts strongly, should the step be longer or shorter?",
            section="sec-natural-gradient",
        )
    if along(g) and len(lines) == 2:
        more, _ = ask(matrix, g.tolist(), 0.04, 3)
        if along(x, more):
            yield Mistake(
                "one iteration too few",
                seen=f"{said}: along the gradient, as after one iteration. With three, two are made.",
                think="how often does your loop run for iterations = 1?",
                section="sec-natural-gradient",
            )
        yield Mistake(
            "iterations is not obeyed",
            seen=f"{said}: along the gradient, as after one iteration. With three iterations it is the same.",
            think="which number says how often the loop runs?",
            section="sec-natural-gradient",
        )
    if along(g) and len(lines) > 1 and all(along(v, g) for v in lines[:2]):
        yield Mistake(
            "what is missing is never updated",
            seen=f"{said}: along the gradient, and every product was asked along the gradient too.",
            think="after the first step of the search, part of g is accounted for. Which vector says what is "
            "still missing, and who updates it?",
            section="sec-natural-gradient",
        )
    if along(g):
        yield Mistake(
            "the plain gradient",
            seen=f"{said}: along the gradient itself.",
            think="the two parameters are not equally dear: a step in the second changes the policy four "
            "times "
            "as much. Where does your direction take that in?",
            section="sec-natural-gradient",
        )
    # The second direction asked shows how it was made: what is missing, plus so much of the first.
    left = g - (g @ g) / (g @ matrix @ g) * (matrix @ g)
    ratio = (left @ left) / (g @ g)
    turned_round = -1.0 if lines and lines[0] @ g < 0 else 1.0  # some write down F x − g, and step backwards
    follow = [(float(turned_round * v @ g / (g @ g)), turned_round * v) for v in lines[1:]]
    share = next((c for c, v in follow if close(v - c * g, left, 1e-6)), None)
    if share is None and not along(x) and follow:
        # Had the first stretch k times its length, this much of each would be in the second direction.
        across = float(follow[0][1] @ left / (left @ left))
        alike = close(follow[0][0], (1 - across) + (1 - across) ** 2 + across**2 * ratio, 1e-6)
        if alike and across < -1e-9:
            yield Mistake(
                "what was accounted for is added, not taken off",
                seen=f"the second direction is {numbers(follow[0][1])}; what is missing has grown.",
                think="x has moved by so much of p. By how much has F x moved, and what is left of g?",
                section="sec-natural-gradient",
            )
        if alike and across > 1e-9:
            yield Mistake(
                "the first stretch has the wrong length",
                seen=f"after one stretch along g = (2, 4) the next direction is {numbers(follow[0][1])}.",
                think="one goes along p until nothing of what is missing points along p. Which α is that?",
                section="sec-natural-gradient",
            )
    if share is not None and not close(share, ratio, 1e-6):
        if close(share, 0.0):
            yield Mistake(
                "each direction forgets the ones before",
                seen="the second direction is what is missing, and nothing else: steepest descent, which two "
                "steps do not finish.",
                think="two directions that are not in each other's way satisfy pᵀF p' = 0. What must be "
                "added "
                "to what is missing, to get there?",
                section="sec-natural-gradient",
            )
        yield Mistake(
            "the next direction takes the wrong share of the last one",
            seen=f"the second direction takes in {share:.3g} of the first, and pᵀF p' is not 0.",
            think="it is a quotient of two squared lengths: what is missing now, and what was missing "
            "before. "
            "Which stands above?",
            section="sec-natural-gradient",
        )
    if along(x + g):
        yield Mistake(
            "what is missing at the start is not noted",
            seen=f"{said}: along x + g, where F x = g, as if it had begun from g itself.",
            think="what is missing at the start is g − F x₀. For which x₀ is that g?",
            section="sec-natural-gradient",
        )
    if along(x) and length < 0:
        yield Mistake(
            "the sign is turned round",
            seen=f"{said}: it leads downhill.",
            think="the gradient is that of something to be made large.",
            section="sec-natural-gradient",
        )
    if along(x):
        shown = f"{said}, which has a KL of about {4 * length**2:.3g}"
        lengths = {
            "the 2 is missing under the root": [0.005**0.5],
            "the 2 stands in the wrong place": [0.05, 0.02**0.5],
            "the square root is missing": [0.01, 0.005],
            "measured in parameters, not in the policy": [
                (0.08 / 5) ** 0.5,
                (0.08 / 20) ** 0.5,
                0.04 / 5**0.5,
                0.08**0.5 / 5**0.5,
                0.04**0.5 / 5**0.5,
            ],
            "the step is not scaled to the KL": [1.0, 0.04, 0.08**0.5, 0.2],
        }
        thoughts = {
            "the 2 is missing under the root": "the KL of a step is *half* of step times F step. What does "
            "that "
            "make of the 2?",
            "the 2 stands in the wrong place": "the KL of a step is *half* of step times F step. Make that "
            "max_kl, and solve for the length.",
            "the square root is missing": "the KL grows with the square of the length. A step half as long "
            "has "
            "which KL?",
            "measured in parameters, not in the policy": "the length of a step in parameters means one thing "
            "here and another there. Which matrix measures it in the policy?",
            "the step is not scaled to the KL": "the length of x follows the unit of the reward. What "
            "should the "
            "step's length follow?",
        }
        for name, wrong in lengths.items():
            if any(close(length, value, 1e-6) for value in wrong):
                yield Mistake(
                    name,
                    seen=f"{shown} in place of 0.04.",
                    think=thoughts[name],
                    section="sec-natural-gradient",
                )
    yield Property("it points along the solution of F x = g", along(x) and length > 0, said)
    yield Property(
        "its KL, half of step times F step, is max_kl", close(0.5 * got @ matrix @ got, 0.04), said
    )
    if not along(x) or not close(0.5 * got @ matrix @ got, 0.04):
        return
    begun, _ = ask(matrix, g.tolist(), 0.04, 2, [1.0, 1.0], finite=False)
    if along(x - 1, begun):
        yield Mistake(
            "the start is not added again",
            seen=f"begun from x₀ = (1, 1) your step is {numbers(begun.round(6) + 0.0)}, along x − x₀, "
            "where F x = g.",
            think="you solved for what x₀ leaves missing. How does one get from there to x?",
            section="sec-natural-gradient",
        )
    if along(x + 1, begun):
        yield Mistake(
            "what is missing at the start is not noted",
            seen=f"begun from x₀ = (1, 1) your step is {numbers(begun.round(6) + 0.0)}, along x + x₀, "
            "where F x = g.",
            think="x₀ accounts for a part of g already, or for too much. How is that found out?",
            section="sec-natural-gradient",
        )
    there, _ = ask(matrix, g.tolist(), 0.04, 1, [4.0, 2.0])
    home, _ = ask(matrix, g.tolist(), 0.04, 1, [2.0, 1.0], finite=False)
    if along(x) and along(g, there) and along(g, home):
        yield Mistake(
            "the start is not used",
            seen="begun from the solution itself, one iteration leads away from it.",
            think="how much is missing where F x₀ is g already?",
            section="sec-natural-gradient",
        )
    if not np.isfinite(home).all():
        yield Mistake(
            "it goes on after it has arrived",
            seen=f"begun from the solution itself your step is {numbers(home)}.",
            think="when nothing is missing any more, what is divided by what?",
            section="sec-natural-gradient",
        )
    still, _ = ask(matrix, [0.0, 0.0], 0.04, 2, finite=False)
    if not np.isfinite(still).all():
        yield Mistake(
            "a gradient of zero gives nan",
            seen=f"for g = (0, 0) your step is {numbers(still)}.",
            think="there is nothing to improve. How long is the step then, and what did you divide by?",
            section="sec-natural-gradient",
        )
    late, _ = ask(matrix, g.tolist(), 0.04, 10, finite=False)
    if not np.isfinite(late).all():
        yield Mistake(
            "it goes on after it has arrived",
            seen=f"with 10 iterations, where 2 are enough, your step is {numbers(late)}.",
            think="when nothing is missing any more, what is divided by what?",
            section="sec-natural-gradient",
        )
    rng = np.random.default_rng(5)
    turned, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    large, slope = turned @ np.diag([1.0, 1.5, 2.0, 3.0, 5.0, 8.0]) @ turned.T, rng.normal(size=6)
    step, asked = ask(large, slope.tolist(), 0.01, 6)
    yield Property("six iterations solve six equations", along(np.linalg.solve(large, slope), step))
    first, few = ask(large, slope.tolist(), 0.01, 1)
    yield Property("one iteration gives the plain gradient's direction", along(slope, first))
    if len(few) > 3 or len(asked) > 8:
        yield Mistake(
            "too many products",
            seen=f"for one iteration {len(few)} products were asked for, for six iterations {len(asked)}.",
            think="each product costs as much as two gradients. Who says how many there may be, and is one "
            "of them asked for that is known already?",
            section="sec-natural-gradient",
        )
    half, _ = ask(large, slope.tolist(), 0.01, 3)
    exact = np.linalg.solve(large, slope)
    for begin in (rng.normal(size=6), 3 * exact):
        warm, _ = ask(large, slope.tolist(), 0.01, 6, begin.tolist())
        yield Property("wherever it begins, six iterations arrive", along(exact, warm), numbers(warm))
    yield Property("begun from the solution it stays there", along(x, home))
    yield Property("with three iterations its KL is max_kl too", close(0.5 * half @ large @ half, 0.01, 1e-5))
    early, _ = ask(large, slope.tolist(), 0.01, 2, (exact + rng.normal(size=6)).tolist())
    yield Property(
        "begun elsewhere, and with too few iterations, its KL is max_kl too",
        close(0.5 * early @ large @ early, 0.01, 1e-5),
        f"it is {0.5 * early @ large @ early:.3g} and not 0.01",
    )
    little, _ = ask(large, (1e-4 * slope).tolist(), 0.01, 6, finite=False)
    if not close(little, step, 1e-4):
        yield Mistake(
            "the unit of the reward matters",
            seen="with a gradient that is a ten-thousandth of what it was, the step is another: it begins "
            f"with {numbers(little[:2])} in place of {numbers(step[:2])}.",
            think="a reward in cents or in euros, it is the same world. Is there a fixed small number in "
            "your function that something is compared with, or to which something is added?",
            section="sec-natural-gradient",
        )
    paid, _ = ask(large, (100 * slope).tolist(), 0.01, 6)
    yield Property("a hundredfold gradient gives the same step", close(paid, step, 1e-5))
    flat, _ = ask(np.diag([1.0, 4.0, 0.0]), [2.0, 4.0, 0.0], 0.04, 3)
    yield Property("a direction in which nothing changes is left alone", close(flat, [0.2, 0.1, 0.0]))


@CHAPTER.check("hunt-fisher", section="sec-natural-gradient")
def hunt_fisher(answer: Answer) -> Findings:
    torch.manual_seed(3)
    policy = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 3)).double()
    with torch.no_grad():
        for p in policy.parameters():
            p.mul_(1.5)
    observations = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, -1.0], [0.5, 0.5]], dtype=torch.float64)
    parameters = list(policy.parameters())
    size = sum(p.numel() for p in parameters)

    def flat(tensors: Any) -> np.ndarray:
        return torch.cat([t.reshape(-1) for t in tensors]).detach().numpy()

    # One score at a time: mean over states, expectation over actions, of score scoreᵀ.
    fisher, raw, bare = (np.zeros((size, size)) for _ in range(3))
    for row in observations:
        logits = policy(row)
        probs = logits.softmax(-1).detach().numpy()
        for action, p in enumerate(probs):
            score = flat(torch.autograd.grad(logits.log_softmax(-1)[action], parameters, retain_graph=True))
            turn = flat(torch.autograd.grad(logits[action], parameters, retain_graph=True))
            fisher += p * np.outer(score, score) / len(observations)
            raw += p * np.outer(turn, turn) / len(observations)
            bare += np.outer(turn, turn) / len(observations)

    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3, size))

    def ask(v: np.ndarray, damping: float) -> np.ndarray:
        back = answer(policy, observations, torch.tensor(v), damping)
        return as_array(back, (size,), "the product")

    before = flat(parameters)
    got = np.array([ask(v, 0.0) for v in vectors])
    damped = np.array([ask(v, 0.5) for v in vectors])
    expected = vectors @ fisher
    said = f"the first entries of your product are {numbers(got[0, :3])}"

    if np.abs(got).max() < 1e-9:
        yield Mistake(
            "no curvature is left",
            seen="without damping your product is zero, for any v: nothing but the damping was at work.",
            think="of KL(old, new) only the new policy may move. If both of them move, what is the KL at "
            "every θ, and what are its derivatives? And the first derivative is zero either way: which one "
            "is the curvature?",
            section="sec-natural-gradient",
        )
    if close(got, expected) and close(damped, got):
        yield Mistake(
            "the damping is missing",
            seen="with a damping of 0.5 and without it your product is the same.",
            think="a matrix with null directions is hard to divide by. What was added to its diagonal?",
            section="sec-natural-gradient",
        )
    if close(got, expected + vectors):
        yield Mistake(
            "the damping is always 1",
            seen="with a damping of 0, v itself is in your product.",
            think="how much of v is to be added?",
            section="sec-natural-gradient",
        )
    factors = {
        "a sum over states, not a mean": (
            4.0,
            "a batch twice as large would give twice as much. What is the trust region a limit of: a sum of "
            "KLs, or their mean?",
        ),
        "averaged over the actions too": (
            1 / 3,
            "the KL of one state is a *sum* over actions, with the probabilities as weights. Over which axis "
            "does the mean run?",
        ),
        "the sign is turned round": (
            -1.0,
            "a KL is smallest where the two policies are equal. Which sign has its curvature there? If "
            "yours is written with the usual sign: do both places hold still in which the old policy stands?",
        ),
        "half of it": (0.5, "the KL of a small step is ½ vᵀF v. Where did the ½ go that you brought in?"),
        "twice as much": (2.0, "the KL of a small step is ½ vᵀF v. What is its second derivative?"),
    }
    for name, (factor, think) in factors.items():
        if close(got, factor * expected):
            yield Mistake(
                name,
                seen=f"your product is {factor:.3g} times what it should be.",
                think=think,
                section="sec-mean-kl" if "mean" in name else "sec-natural-gradient",
            )
    if close(got, vectors @ raw):
        yield Mistake(
            "the outer product is not subtracted",
            seen=f"{said}: what you have is the mean square of the slopes of the *logits*.",
            think="the scores are slopes of log π. What does log π have that a logit has not?",
            section="sec-natural-gradient",
        )
    if close(got, vectors @ bare):
        yield Mistake(
            "measured in logits, not in the policy",
            seen=f"{said}: every logit counts alike, however rare its action.",
            think="a change of the logit of an action that is never taken changes nothing. What does the KL "
            "say "
            "to that?",
            section="sec-natural-gradient",
        )
    if close(got, np.tile(got[0], (3, 1))):
        yield Mistake(
            "v is not used",
            seen="for three different v your product is the same.",
            think="∇KL is a vector. What is done with v before the second derivative is taken?",
            section="sec-natural-gradient",
        )
    yield Property(
        "it is the mean over states of E[score (score · v)], one score at a time", close(got, expected), said
    )
    yield Property(
        "with a damping of 0.5, v/2 is added",
        close(damped - got, vectors / 2),
        f"v begins with {numbers(vectors[0, :3])}, and {numbers((damped - got)[0, :3])} is added",
    )
    yield Property("uᵀF v is vᵀF u", close(vectors[1] @ got[0], vectors[0] @ got[1]))
    yield Property("the policy is left as it was", close(flat(parameters), before, 1e-9))


# ---------------------------------------------------------------------------------------------------
# The bound


class _MadeUp:
    """A world whose visits and advantages are made up, so that each part of the bound can be seen alone."""

    n_states, n_actions = 3, 2
    terminal = np.array([False, False, True])
    OLD = np.array([[0.75, 0.25], [0.5, 0.5], [0.5, 0.5]])
    NEW = np.array([[0.5, 0.5], [0.5, 0.5], [0.999, 0.001]])

    def __init__(self, gamma: float, visits: Sequence[float], worth: Sequence[Sequence[float]]) -> None:
        self.gamma = gamma
        self._visits, self._worth = np.array(visits), np.array(worth)
        self.asked: list[tuple[str, bool]] = []

    def _of(self, what: str, table: np.ndarray, probs: Any) -> Any:
        plain = np.asarray(probs.detach() if isinstance(probs, Tensor) else probs, dtype=np.float64)
        self.asked.append((what, close(plain, self.NEW)))
        return torch.tensor(table) if isinstance(probs, Tensor) else table.copy()

    def state_occupancy(self, probs: Any) -> Any:
        return self._of("visits", self._visits, probs)

    def advantages(self, probs: Any) -> Any:
        return self._of("advantages", self._worth, probs)

    def objective(self, probs: Any) -> Any:
        return self._of("J", np.zeros(()), probs)

    def __getattr__(self, name: str) -> Any:
        return curtain(self, name, "state_occupancy, advantages, gamma, terminal", "sec-bound")


@CHAPTER.check("bound-size", section="sec-bound")
def bound_size(answer: Answer) -> Findings:
    def ask(world: Any, old: np.ndarray, new: np.ndarray) -> float:
        return float(as_array(answer(world, old.copy(), new.copy()), (), "the promised gain"))

    # No visits: what is left is the penalty. The largest |A| is 3, γ is 1/2, and in the only state that
    # changed KL(old, new) is ¾ ln(3/2) − ¼ ln 2.
    lonely = _MadeUp(0.5, [0.0, 0.0, 0.0], [[1.0, -3.0], [1.0, -1.0], [0.0, 0.0]])
    paid = -ask(lonely, lonely.OLD, lonely.NEW)
    # No discount: no penalty. One visit of each state.
    short = _MadeUp(0.0, [1.0, 1.0, 0.0], [[1.0, -3.0], [1.0, -1.0], [0.0, 0.0]])
    hoped = ask(short, short.OLD, short.NEW)
    back, kl, wide = 0.5 * np.log(4 / 3), 0.25 * np.log(0.5) + 0.75 * np.log(1.5), 0.25
    end = float(divergence(lonely.OLD, lonely.NEW)[2])
    scale = 4 * 3 * 0.5 / 0.25
    said = (
        f"where nothing can be gained, γ is 1/2, the largest |A| is 3 and the largest KL is {kl:.4f}, "
        f"you take off {numbers(paid, 4)}"
    )

    # Visits and a discount: forecast and penalty meet.
    seen = _MadeUp(0.5, [1.0, 1.0, 0.0], [[1.0, -3.0], [1.0, -1.0], [0.0, 0.0]])
    both = ask(seen, seen.OLD, seen.NEW)
    # And one in which every part has another size.
    other = _MadeUp(0.8, [0.0, 0.0, 0.0], [[-3.0, 9.0], [-5.0, 5.0], [0.0, 0.0]])
    shown = -ask(other, other.OLD, np.array([[0.5, 0.5], [0.4, 0.6], [0.5, 0.5]]))
    less = float(divergence(np.array([0.5, 0.5]), np.array([0.4, 0.6])))
    again = 4 * 9 * 0.8 / 0.04

    if any(new for _, new in lonely.asked):
        yield Mistake(
            "the new policy is asked",
            seen="your function asks the world for visits, advantages or the return of the new policy.",
            think="the bound is to promise something before the new policy has taken a step. Whose visits "
            "are "
            "known?",
            section="sec-bound",
        )
    if close(paid, -scale * kl):
        yield Mistake(
            "the penalty is added, not taken off",
            seen=f"{said}.",
            think="the further the policies part, the less is promised.",
            section="sec-bound",
        )
    if close(shown, -again * less):
        yield Mistake(
            "the KL below zero",
            seen=f"in another world {numbers(-shown, 4)} is *added*, and nothing is taken off where one "
            "state's choice did not change.",
            think="a KL is never negative. In log(p/q), who stands above, and who weighs?",
            section="sec-bound",
        )
    if close([paid, shown], [0.0, 0.0]) and close(both, -1.0):
        yield Mistake(
            "a forecast, not a promise",
            seen=f"{said}.",
            think="the surrogate may be wrong in either direction. What does the theorem take off, to be "
            "safe?",
            section="sec-bound",
        )
    if close([paid, shown], [0.0, 0.0]) and both < -1.001:
        yield Mistake(
            "a mean KL, not the largest",
            seen=f"{said}; with visits, {numbers(-1 - both, 4)}. So the KLs are weighed by the visits.",
            think="the theorem's guarantee has to hold even if the worst state is the one that matters.",
            section="sec-mean-kl",
        )
    size = "an action that is much worse than usual can do as much harm as a good one can do good. What does "
    size += "the bar in |A| say?"
    # What the first world gives, and the other one: where two mistakes meet in one, they part in the other.
    table: dict[str, tuple[list[tuple[float, float]], str, str]] = {
        "a mean KL, not the largest": (
            [
                (scale * kl / 2, again * (kl + less) / 2),
                (scale * kl / 3, again * (kl + less) / 3),
                (scale * (kl + end) / 3, again * (kl + less) / 3),
                (scale * kl, again * (kl + less)),
            ],
            "the theorem's guarantee has to hold for the one worst state. A mean is what TRPO uses *in place "
            "of* the theorem, and a sum over states is in no theorem.",
            "sec-mean-kl",
        ),
        "1 − γ is not squared": (
            [(scale * kl / 2, again * kl / 5)],
            "one sum over time for how far the visits drift, one for what that costs. How often does 1/(1 − "
            "γ) come in?",
            "sec-bound",
        ),
        "the square stands in the wrong place": (
            [(scale * kl / 2, again * kl * 0.8), (scale * kl / 3, again * kl / 9)],
            "γ, 1 − γ, 1 − γ²: what is squared in C?",
            "sec-bound",
        ),
        "γ is missing above": (
            [(scale * kl * 2, again * kl / 0.8)],
            "with γ = 0 there is no later state to get wrong. What must the penalty be then?",
            "sec-bound",
        ),
        "the 4 is missing": (
            [(scale * kl / 4, again * kl / 4)],
            "look at the constant again.",
            "sec-bound",
        ),
        "the 4 is a 2": (
            [(scale * kl / 2, again * kl / 2)],
            "look at the constant again. (A sharper one is possible; it is not the theorem's.)",
            "sec-bound",
        ),
        "the largest advantage, not the largest in size": (
            [(scale * kl / 3, again * kl), (scale * kl, again * kl * 5 / 9)],
            size,
            "sec-bound",
        ),
        "a mean advantage, not the largest": (
            [
                *((scale * kl * m / 3, again * kl * n / 9) for m, n in ((1.5, 5.5), (1.0, 22 / 6))),
                (scale * kl / 3, again * kl * 3 / 9),
            ],
            "a bound must hold for the worst action in the worst state. A mean over the new policy's actions "
            "stands in a sharper one.",
            "sec-bound",
        ),
    }
    alone: dict[str, tuple[list[float], str]] = {
        "the KL the other way round": (
            [scale * back],
            "which policy comes first in the theorem, the one that has played or the one that is to play?",
        ),
        "the states where nobody acts": (
            [scale * end],
            "in the terminal state the two tables differ most, and no action is ever taken there.",
        ),
        "the total variation, not the KL": (
            [scale * wide**2, scale * wide, 2 * scale * wide, 4 * scale * wide**2],
            "the theorem is first stated with it, and correctly so. The exercise asks for the form with the "
            "KL, which is looser; by how much?",
        ),
    }
    for name, (values, think) in alone.items():
        if any(close(paid, value) for value in values):
            yield Mistake(name, seen=f"{said}.", think=think, section="sec-bound")
    for name, (pairs, think, section) in table.items():
        if any(close([paid, shown], pair) for pair in pairs):
            more = f"; in another world {numbers(shown, 4)}, where {numbers(again * kl, 4)} is right"
            yield Mistake(name, seen=f"{said}{more}.", think=think, section=section)
    if any(close(paid - scale * kl, v) for v in (1.0, 1 / 2, 1 / 3)):
        yield Mistake(
            "every state counts alike",
            seen="where no state is ever visited you forecast a change.",
            think="the sum over states has weights, and they do not add up to one. What are they?",
            section="sec-difference",
        )
    if close(hoped, -1.0 / 2) or close(hoped, -1.0 / 3):
        yield Mistake(
            "every state counts alike",
            seen=f"with one visit of each of two states your forecast is {numbers(hoped)}.",
            think="the sum over states has weights, and they do not add up to one. What are they?",
            section="sec-difference",
        )
    if close(hoped, 1.0):
        yield Mistake(
            "the sign of the forecast is turned round",
            seen="a policy that does more of what is bad is promised a gain.",
            think="take the advantages of the old policy over the actions of the new one.",
            section="sec-surrogate",
        )
    if close(paid, scale * kl) and close(hoped, 0.0):
        yield Mistake(
            "a forecast of nothing",
            seen="where the new policy does more of what is bad, and γ is 0, you forecast 0.",
            think="a policy's own advantages, averaged over its own actions, are zero. Which two policies "
            "meet in the surrogate?",
            section="sec-surrogate",
        )
    if close(hoped, -1.0) and close(both + scale * kl, -0.5):
        yield Mistake(
            "the visits are made a distribution",
            seen="with γ = 1/2 and one visit of each of two states your forecast is half of theirs.",
            think="J adds up what is earned along an episode. What do the visits of all states add up to?",
            section="sec-difference",
        )
    yield Property(
        "where nothing can be gained, the penalty is left: 4 · 3 · ½ / ¼ times ¾ ln(3/2) − ¼ ln 2",
        close(paid, scale * kl),
        said,
    )
    yield Property(
        "it is the largest KL, the largest |A| and the squared 1/(1 − γ), in another world too",
        close(shown, again * kl),
        f"there you take off {numbers(shown, 4)}",
    )
    # Even actions on advantages (1, −3): −1. The other state did not change its choice: 0.
    yield Property("with γ = 0 the forecast is left: −1", close(hoped, -1.0), f"you get {numbers(hoped)}")
    world = chain(3, left_reward=0.4, slip=0.1, gamma=0.8)
    rng = np.random.default_rng(1)
    even = np.full((5, 2), 0.5)
    if close(ask(world, even, even), world.objective(even)):
        yield Mistake(
            "the new return, not the gain",
            seen=f"a policy that does not change is promised {numbers(ask(world, even, even))}.",
            think="the theorem bounds J(π'), the exercise asks for J(π') − J(π). What of the surrogate is "
            "left out then?",
            section="sec-bound",
        )
    kept, small = True, 0.0
    for _ in range(8):
        logits = rng.normal(size=(5, 2))
        old, new = softmax(logits), softmax(logits + 0.3 * rng.normal(size=(5, 2)))
        promised, truth = ask(world, old, new), world.objective(new) - world.objective(old)
        kept, small = kept and promised <= truth + 1e-9, max(small, abs(ask(world, old, old)))
    yield Property("what it promises is kept, for eight pairs of policies in a chain", kept)
    yield Property("no change is promised nothing", small < 1e-9)


# ---------------------------------------------------------------------------------------------------
# TRPO's step


class _Policy(nn.Module):
    """Logits from a table, one row a state; it writes down every table that it was asked with.

    `bend` says what the policy makes of a change of its parameters: it may follow it as it is, or explode, or
    turn round, so that a step that was right on paper fails when it is tried.
    """

    def __init__(self, table: Any, bend: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.tensor(np.asarray(table), dtype=torch.float32))
        self.start = self.table.detach().clone()
        self.bend = bend
        self.seen: list[np.ndarray] = []

    def forward(self, observations: Tensor) -> Tensor:
        self.seen.append(self.table.detach().double().numpy().copy())
        logits = self.table if self.bend is None else self.start + self.bend(self.table - self.start)
        return observations @ logits


class _Step:
    """What the reader's step did to a policy, on a batch of one-hot states."""

    def __init__(
        self,
        answer: Answer,
        table: Any,
        states: Sequence[int],
        actions: Sequence[int],
        advantages: Sequence[float],
        max_kl: float,
        damping: float,
        bend: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.table = np.asarray(table, dtype=np.float32).astype(np.float64)
        policy = _Policy(self.table, bend)
        eye = torch.eye(len(self.table))[list(states)]
        self.states, self.actions = np.array(states), np.array(actions)
        self.weights, self.max_kl = np.array(advantages, dtype=np.float64), max_kl
        self.old = softmax(self.table)
        back = answer(
            policy, eye, torch.tensor(actions), torch.tensor(advantages, dtype=torch.float32), max_kl, damping
        )
        gain, kl = two(back, "the gain and the KL of the step that was taken")
        self.said_gain = float(as_array(gain, (), "the gain", finite=False))
        self.said_kl = float(as_array(kl, (), "the KL", finite=False))
        parameters = policy.table.detach().double().numpy().copy()
        self.change = parameters - self.table
        self.broken = not np.isfinite(parameters).all()
        with torch.no_grad():
            logits = policy(torch.eye(len(self.table))).double().numpy()
        moved = [seen - self.table for seen in policy.seen if np.abs(seen - self.table).max() > 1e-7]
        self.first = moved[0] if moved else None  # the first table that was tried
        self.gain, self.kl, self.mean_kl = self.judge(logits)
        with np.errstate(all="ignore"):
            self.back_kl = float(divergence(softmax(logits), self.old)[self.states].max())

    def judge(self, logits: np.ndarray) -> tuple[float, float, float]:
        """Of a table of logits the surrogate's gain, the largest KL of a visited state, and the mean KL."""
        with np.errstate(all="ignore"):
            new = softmax(logits)
            ratio = new[self.states, self.actions] / self.old[self.states, self.actions]
            apart = divergence(self.old, new)[self.states]
            return float(((ratio - 1) * self.weights).mean()), float(apart.max()), float(apart.mean())

    def gradient(self) -> np.ndarray:
        """∇ of the surrogate by the table, sample by sample."""
        total = np.zeros_like(self.table)
        for s, a, weight in zip(self.states, self.actions, self.weights, strict=True):
            total[s] += weight * score_table(self.table[s])[a]
        return total / len(self.states)

    def natural(self, damping: float) -> np.ndarray:
        """The direction (F + damping) x = g, from the matrix itself."""
        x, slope = np.zeros_like(self.table), self.gradient()
        for s in range(len(self.table)):
            scores = score_table(self.table[s])
            block = (self.states == s).mean() * np.einsum("a,ai,aj->ij", self.old[s], scores, scores)
            x[s] = np.linalg.solve(block + damping * np.eye(len(scores)), slope[s])
        return x


def _alike(left: np.ndarray, right: np.ndarray) -> float:
    size = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float((left * right).sum()) / size if size > 1e-20 else 0.0


# What a message calls them: “It was called with (a world, …)”.
_TwoPlays.__name__ = _MadeUp.__name__ = "world"
_Matrix.__name__, _Policy.__name__ = "function", "policy"


@CHAPTER.check("trust-step", section="sec-trpo")
def trust_step(answer: Answer) -> Findings:
    # Three states, one visited more often than the others.
    table = np.log(np.array([[1, 3, 4], [2, 2, 4], [1, 5, 2]]) / 8)
    states = [0] * 6 + [1] * 3 + [2] * 3
    actions = [0, 1, 2, 1, 2, 2, 0, 1, 2, 0, 1, 1]
    worth = [-3.0, 1.0, 0.5, 1.0, 0.5, 0.5, 1.0, -1.0, 0.0, -4.0, 1.0, 1.0]
    plain = _Step(answer, table, states, actions, worth, 0.01, 1e-3)
    slope, natural = plain.gradient(), plain.natural(1e-3)
    said = (
        f"with a KL of 0.01 allowed, the policy moved by {plain.kl:.4f} in one state and by "
        f"{plain.mean_kl:.4f} "
        f"on average, and the surrogate gained {plain.gain:.4f}"
    )

    if plain.broken:
        yield Mistake(
            "the parameters are no numbers any more",
            seen="after the step the policy holds nan or inf.",
            think="print the gradient, the direction and its length, one after the other. Which is the first "
            "that is none?",
            section="sec-trpo",
        )
    if np.abs(plain.change).max() < 1e-9:
        yield Mistake(
            "the policy does not move",
            seen="after your step the policy's parameters are what they were.",
            think="were all tries refused, or was one accepted and not assigned to the policy? Print gain "
            "and KL of each. Does the search compare with the *old* policy, noted before anything moved?",
            section="sec-trpo",
        )
    if plain.gain < 0:
        yield Mistake(
            "it goes downhill",
            seen=f"{said}.",
            think="is what you differentiate to be made large or small, and which way does the step go?",
            section="sec-trpo",
        )
    # One state, two even actions, and policies that do not follow their parameters in a straight line. Here a
    # step has little effect at first and then a large one: its KL is far above the forecast.
    even, turn = np.zeros((1, 2)), 0.2 / (1.5 * np.pi)

    def try_on(bend: Callable[[Tensor], Tensor]) -> _Step:
        return _Step(answer, even, [0] * 4, [0, 0, 1, 1], [1.0, 1.0, -1.0, -1.0], 0.02, 1e-6, bend)

    steep = try_on(lambda d: d + 400 * d**3)
    if plain.kl > 0.0101 and plain.back_kl <= 0.0101 and steep.kl <= steep.max_kl * 1.01:
        yield Mistake(
            "the KL the other way round",
            seen=f"{said}; from the new policy to the old one that is {plain.back_kl:.4f}.",
            think="“from the old policy to the new one”: which of the two has the actions that are averaged "
            "over?",
            section="sec-mean-kl",
        )
    if plain.kl > 0.0101 and plain.mean_kl <= 0.0101 and steep.kl <= steep.max_kl * 1.01:
        yield Mistake(
            "the mean KL, not the largest",
            seen=f"{said}.",
            think="that is TRPO's leash. The stricter one that the exercise asks for holds in every state.",
            section="sec-mean-kl",
        )
    # The lengths that were tried, in a single state, where the mean and the largest are one.
    single = _Step(
        answer, table[:1], [0] * 6, [0, 1, 2, 1, 2, 2], [-3.0, 1.0, 0.5, 1.0, 0.5, 0.5], 0.01, 1e-6
    )
    if plain.kl > 0.0101 and single.kl > 0.0101:
        yield Mistake(
            "it leaves the trust region",
            seen=f"{said}.",
            think="where is the step held against the KL itself, and between which two policies is that?",
            section="sec-line-search",
        )
    direction = plain.change if plain.first is None else plain.first
    if _alike(direction, slope) > 0.999 > _alike(natural, slope):
        yield Mistake(
            "the plain gradient",
            seen="your step points along the gradient itself.",
            think="where does the Fisher matrix come in? If it does, is there any curvature left in it?",
            section="sec-natural-gradient",
        )
    # A damping that is large enough to show in the direction.
    heavy = _Step(answer, table, states, actions, worth, 0.01, 0.5)
    expected, taken = heavy.natural(0.5), heavy.change if heavy.first is None else heavy.first
    if _alike(taken, expected) < 0.9999 and any(
        _alike(taken, heavy.natural(d)) > max(0.9999, _alike(taken, expected))
        for d in (1e-6, 1e-3, 0.01, 0.1, 1)
    ):
        yield Mistake(
            "the damping is not the one that was given",
            seen="with a damping of 0.5 your step points where another damping leads.",
            think="who says how much is added to the diagonal? Look for a default that speaks in your place.",
            section="sec-natural-gradient",
        )
    if single.first is not None:
        tried = single.judge(single.table + single.first)[2]
        shown = f"the first length that you try has a KL of {tried:.2g}, and 0.01 is allowed"
        if 0.0052 < tried < 0.0068:
            yield Mistake(
                "the whole step is never tried",
                seen=f"{shown}: about 0.64 of it.",
                think="with which power of 0.8 does the search begin?",
                section="sec-line-search",
            )
        if 0.014 < tried < 0.03 and _alike(single.first, single.change) > 0.999:
            yield Mistake(
                "the first try is longer than it should be",
                seen=f"{shown}: twice as much. The search made it shorter, and nobody would have noticed.",
                think="the KL of a step is *half* of step times F step.",
                section="sec-natural-gradient",
            )
        if 0.0075 < tried <= 0.0101 and np.abs(single.change - single.first).max() > 1e-6:
            yield Mistake(
                "a step that is good enough is refused",
                seen=f"{shown}; it gains, and you go on to a shorter one.",
                think="print what is held against max_kl. Is it one state's KL, a sum over the batch, or "
                "something else?",
                section="sec-line-search",
            )
    if single.first is not None and single.kl < 0.0058:
        if 0.0042 < tried < 0.0058:
            yield Mistake(
                "the 2 is missing under the root",
                seen=f"{shown}: half of it.",
                think="the KL of a step is *half* of step times F step.",
                section="sec-natural-gradient",
            )
        yield Mistake(
            "the step is not scaled to the KL",
            seen=f"{shown}.",
            think="the longest step that may be taken has which length, by the forecast of the Fisher "
            "matrix?",
            section="sec-natural-gradient",
        )
    # This one stays near and turns round: the whole step loses.
    wavy = try_on(lambda d: turn * torch.sin(d / turn))
    if wavy.gain < -1e-6:
        yield Mistake(
            "a step that loses is taken",
            seen=f"in a policy that turns round on the way, the KL stays below {wavy.max_kl}, and the "
            "surrogate "
            f"fell by {-wavy.gain:.3g}.",
            think="a step is accepted for two reasons, and both are needed.",
            section="sec-line-search",
        )
    if steep.kl > steep.max_kl * 1.01:
        yield Mistake(
            "a step that goes too far is taken",
            seen=f"in a policy that bends upwards on the way, {steep.max_kl} is allowed and the KL is "
            f"{steep.kl:.3g}.",
            think="the length came from the curvature at one point. Where is it held against the KL itself?",
            section="sec-line-search",
        )
    # And here any change at all is too much.
    cliff = try_on(lambda d: d + 1e3 * torch.sign(d).detach())
    if cliff.broken or np.abs(cliff.change).max() > 1e-9:
        yield Mistake(
            "after a failed search the policy is not what it was",
            seen="no length was good enough, and the policy kept the parameters of a try.",
            think="whoever tries parameters on a network must take them off again.",
            section="sec-line-search",
        )
    idle = _Step(answer, table, states, actions, [0.0] * 12, 0.01, 1e-3)
    if (
        idle.broken
        or np.abs(idle.change).max() > 1e-6
        or not np.isfinite([idle.said_gain, idle.said_kl]).all()
    ):
        yield Mistake(
            "advantages of zero are no reason to move",
            seen="with every advantage 0, the policy moved or became nan.",
            think="the gradient is zero. How long is the step then, and what did you divide by?",
            section="sec-trpo",
        )
    yield Property("in every state it stays in the trust region", plain.kl <= 0.0101, said)
    yield Property("it uses the room that it has", min(plain.kl, single.kl) >= 0.0058, said)
    yield Property(
        "it points along the natural gradient, found from the matrix itself",
        _alike(plain.change, natural) > 0.99,
        f"the cosine of the two is {_alike(plain.change, natural):.3f}",
    )
    yield Property(
        "where the whole step goes too far, a shorter one is taken", np.abs(steep.change).max() > 1e-9
    )
    far = try_on(lambda d: d + 3e6 * d**3)
    yield Property("where it must be a hundredth of the step, it is found", np.abs(far.change).max() > 1e-9)
    if close([plain.said_gain, plain.said_kl], [plain.gain + np.mean(worth), plain.kl], 1e-3):
        yield Mistake(
            "the surrogate itself, not its gain",
            seen=f"you report {plain.said_gain:.4f}; {said}.",
            think="which value does the surrogate have at the old policy, where every ratio is 1?",
            section="sec-line-search",
        )
    if close([plain.said_gain, plain.said_kl], [plain.gain, plain.mean_kl], 1e-3):
        yield Mistake(
            "the mean KL is reported",
            seen=f"you report {plain.said_kl:.4f}; {said}.",
            think="the leash holds in every state. Which number says how far it was stretched?",
            section="sec-mean-kl",
        )
    yield Property(
        "the gain and the KL that it reports are those of the step it took",
        close([plain.said_gain, plain.said_kl], [plain.gain, plain.kl], 1e-3),
        f"it says {plain.said_gain:.4f} and {plain.said_kl:.4f}; {said}",
    )
    yield Property(
        "where no step is taken it reports 0 and 0",
        close([cliff.said_gain, cliff.said_kl], [0.0, 0.0], 1e-6),
        f"it says {numbers([cliff.said_gain, cliff.said_kl])}",
    )
    paid = _Step(answer, table, states, actions, [100 * w for w in worth], 0.01, 1e-3)
    yield Property("a hundredfold pay gives the same step", np.abs(paid.change - plain.change).max() < 1e-3)
