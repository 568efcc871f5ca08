"""Checks of chapter 3's exercises, the clipped surrogate.

Most probes are one sample: a ratio, an advantage, and what the reader's function makes of them. The ratios
are those of the tables that the reader fills by hand, so each number in a message can be checked with a
pencil. Where a value must be known in advance it comes from a definition that is slow and of no use to a
reader in a hurry: differences, a search over a grid, a sum over every action.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import Answer, Chapter, Findings, Mistake, Property, Stop, as_array, close, numbers

CHAPTER = Chapter(
    3,
    "The clipped surrogate",
    {
        "sec-clip": "A surrogate that stops promising",
        "sec-four-cases": "Four cases",
        "sec-knee": "The knee, and two words for what is clipped",
        "sec-lower-bound": "Never above the plain surrogate, for either sign",
        "sec-ratio-one": "Ratio 1, and the first step",
        "sec-short-ppo": "PPO, short",
        "sec-eps-kl": "From ε to a KL, and what it takes",
        "sec-box": "Real training leaves the box",
        "sec-three-actions": "Three actions, step by step",
        "sec-ppo-kl": "A price instead of a clip",
        "sec-diagnostics": "Reading an update",
    },
)

OLD = 0.25  # the old probability of every sample: ratios up to 4 are possible, and its logarithm is not 0


# ---------------------------------------------------------------------------------------------------
# Two tables


def _flag(value: Any, where: str) -> bool:
    if isinstance(value, str) and (word := value.strip().lower()) in (
        *("yes", "y", "true", "flat"),
        *("no", "n", "false", "not flat"),
    ):
        return word in ("yes", "y", "true", "flat")
    if isinstance(value, bool | np.bool_) or (isinstance(value, int | float) and value in (0, 1)):
        return bool(value)
    raise Stop("returned", "not a yes or no", f"{where}: the last entry is True or False; it is {value!r}.")


def _table(back: Any, ratios: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The reader's rows, in the order of `ratios`: four numbers each, and the column flat?."""
    expected = f"the result must be a table with a row for each of the {len(ratios)} ratios"
    if back is None:
        raise Stop("returned", "nothing came back", f"{expected}. Is the last line `return table`?")
    if isinstance(back, dict):
        keys = [key for key in back if isinstance(key, int | float)]
        rows = [next((back[key] for key in keys if abs(key - r) < 1e-9), None) for r in ratios]
    elif isinstance(back, list | tuple | np.ndarray):
        rows = list(back)
        if len(rows) != len(ratios):
            raise Stop("returned", "rows are missing", f"{expected}; there are {len(rows)}.")
    else:
        raise Stop("returned", "no table", f"{expected}.")
    found = []
    for r, row in zip(ratios, rows, strict=True):
        where = f"row r = {r}"
        if row is None:
            raise Stop("returned", "rows are missing", f"{expected}; there is none for r = {r}.")
        if not isinstance(row, list | tuple | np.ndarray) or len(row) not in (5, 6):
            raise Stop("returned", "not a row", f"{where}: it must have five entries.")
        entries = list(row)[-5:]  # a sixth, in front, would be r itself
        if any(entry is ... or entry is None for entry in entries):
            raise Stop("returned", "an entry is still empty", f"{where} still has an entry to fill.")
        four = [float(as_array(entry, (), f"{where}: an entry")) for entry in entries[:4]]
        found.append((four, _flag(entries[4], where)))
    return np.array([four for four, _ in found]), np.array([flag for _, flag in found])


def _rows(ratios: tuple[float, ...], table: np.ndarray, flat: np.ndarray, advantage: float) -> Findings:
    """One property a row, so that a reader sees row by row what is right."""
    box = np.linspace(0.8, 1.2, 401)
    for r, (plain, clipped, product, least), is_flat in zip(ratios, table, flat, strict=True):
        nearest = box[np.abs(box - r).argmin()]
        lower = sorted([plain, product])[0]
        lowest = sorted([r * advantage, nearest * advantage])[0]
        wrong = []
        if not close(plain, r * advantage):
            wrong.append("r A")
        if not close(clipped, nearest):
            wrong.append("clip(r)")
        # An entry that follows from a wrong one to its left is not wrong once more, nor is a right one.
        if not close(product, clipped * advantage) and not close(product, nearest * advantage):
            wrong.append("clip(r) A")
        if not close(least, lower) and not close(least, lowest):
            wrong.append("min")
        # The clip has taken something away only where the smaller product is truly below r A.
        if is_flat not in (lower < r * advantage - 1e-6, lowest < r * advantage - 1e-6):
            wrong.append("flat?")
        yield Property(f"r = {r}", not wrong, f"look again at {', '.join(wrong)}")


def _shared_table_mistakes(
    ratios: tuple[float, ...], table: np.ndarray, flat: np.ndarray, advantage: float
) -> Iterator[Mistake]:
    r = np.array(ratios)
    plain, clipped, product, least = table.T
    outside = (r < 0.79) | (r > 1.21)
    right_plain = close(plain, r * advantage)
    row = {value: i for i, value in enumerate(ratios)}

    def at(ratio: float, column: np.ndarray) -> str:
        return numbers(column[row[ratio]])

    low, high = clipped[r < 0.79], clipped[r > 1.21]
    open_below, open_above = close(low, r[r < 0.79]), close(high, r[r > 1.21])
    if open_below and open_above:
        yield Mistake(
            "the column clip(r) is r itself",
            seen=f"clip(0.5) is {at(0.5, clipped)} in your table, and clip(1.5) is {at(1.5, clipped)}.",
            think="a clipped ratio is in the box. Which number of [0.8, 1.2] is nearest to 0.5?",
            section="sec-clip",
        )
    if (open_below and close(high, 0 * high + 1.2)) or (open_above and close(low, 0 * low + 0.8)):
        yield Mistake(
            "clipped on one side only",
            seen=f"clip(0.5) is {at(0.5, clipped)} in your table, and clip(1.5) is {at(1.5, clipped)}.",
            think="a clip has two ends. Which number of the box [0.8, 1.2] is nearest to "
            f"{0.5 if open_below else 1.5}?",
            section="sec-clip",
        )
    if (
        right_plain
        and not close(clipped, plain)
        and close(product, np.clip(plain, 0.8, 1.2))
        and advantage < 0
    ):
        yield Mistake(
            "the clip is put on the product",
            seen=f"in the row r = 1.5 clip(r) A is {at(1.5, product)}.",
            think="what is clipped is the ratio alone. Multiply with A afterwards.",
            section="sec-clip",
        )
    if right_plain and close(product, clipped * advantage) and not close(product, plain):
        if close(least, np.where(plain > product, plain, product)):
            other = 2.0 if advantage < 0 else 1.5
            yield Mistake(
                "the smaller in size, not the smaller number" if advantage < 0 else "the larger of the two",
                seen=f"in the row r = {other} the two products are {at(other, plain)} and "
                f"{at(other, product)}, and you took {at(other, least)}.",
                think="which of the two is further to the left on the number line?",
                section="sec-four-cases",
            )
        if close(least, product):
            r_seen = 0.5 if advantage > 0 else 2.0
            yield Mistake(
                "the clip without the minimum",
                seen=f"the column min is the column clip(r) A, also in the row r = {r_seen}, where r A is "
                f"{at(r_seen, plain)}.",
                think="which of the two products is the smaller one there?",
                section="sec-four-cases",
            )
        if close(least, plain):
            r_seen = 1.5 if advantage > 0 else 0.5
            yield Mistake(
                "the clip never counts",
                seen=f"the column min is the column r A, also in the row r = {r_seen}, where clip(r) A is "
                f"{at(r_seen, product)}.",
                think="which of the two products is the smaller one there?",
                section="sec-four-cases",
            )
    if not flat.any():
        yield Mistake(
            "nothing is flat",
            seen="the last column is False in every row.",
            think="between which two neighbouring rows does the column min stay what it is, though r moves?",
            section="sec-four-cases",
        )
    if flat.all():
        yield Mistake(
            "everything is flat",
            seen="the last column is True in every row.",
            think="in the rows near r = 1, does the column min move with r?",
            section="sec-four-cases",
        )
    flat_side = (r > 1.21) if advantage > 0 else (r < 0.79)
    if (flat != flat_side).all():
        on = 1.1 if advantage > 0 else 1.2
        yield Mistake(
            "flat and not flat are exchanged",
            seen=f"you call r = {on} flat, and everywhere else, too, the last column is the opposite of what "
            "the column min does.",
            think=f"move r from {on} a little. Does min move with it? And flat is what does not move.",
            section="sec-four-cases",
        )
    if (flat[outside] != flat_side[outside]).all():
        yield Mistake(
            "flat on the wrong side",
            seen="you call flat what has moved against the wish of the advantage, and not what has moved "
            "with it.",
            think="of which of the two should the learner say: enough?",
            section="sec-four-cases",
        )
    if flat[outside].all():
        on = 0.5 if advantage > 0 else 2.0
        yield Mistake(
            "flat is not the same as outside the box",
            seen=f"you call every row outside the box flat, r = {on} too, where min is {at(on, least)}.",
            think=f"move r from {on} a little. Does min stay? Two words are needed for two different things.",
            section="sec-knee",
        )
    other_bound, knee = (0.8, 1.2) if advantage > 0 else (1.2, 0.8)
    if flat[row[other_bound]]:
        yield Mistake(
            f"r = {other_bound} is no knee here",
            seen=f"for A = {advantage:+.0f} you call r = {other_bound} flat.",
            think="it is an end of the box. Does the objective take any notice of it, for this sign?",
            section="sec-knee",
        )
    if flat[row[knee]]:
        yield Mistake(
            "the knee itself is called flat",
            seen=f"you call r = {knee} flat.",
            think="at the knee there are two slopes to choose from, and the exercise says which one to take.",
            section="sec-knee",
        )


@CHAPTER.check("clip-table-up", section="sec-four-cases")
def clip_table_up(answer: Answer) -> Findings:
    ratios = (0.5, 0.8, 1.0, 1.1, 1.2, 1.3, 1.5, 2.0)
    table, flat = _table(answer(), ratios)
    yield from _shared_table_mistakes(ratios, table, flat, 1.0)
    yield from _rows(ratios, table, flat, 1.0)


@CHAPTER.check("clip-table-down", section="sec-four-cases")
def clip_table_down(answer: Answer) -> Findings:
    ratios = (0.5, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0)
    table, flat = _table(answer(), ratios)
    plain, _, _, least = table.T
    if (plain > 0).all():
        yield Mistake(
            "the sign of the advantage is lost",
            seen=f"the column r A is {numbers(plain)}.",
            think="A is −1 in this table.",
            section="sec-four-cases",
        )
    if close(least.min(), -0.8) and close(least[-1], -0.8):
        yield Mistake(
            "−0.8 is taken for a floor",
            seen=f"the column min is {numbers(least)}: it never falls below −0.8.",
            think="the column min takes the smaller of the two. How small can r A become as r grows?",
            section="sec-lower-bound",
        )
    yield from _shared_table_mistakes(ratios, table, flat, -1.0)
    yield from _rows(ratios, table, flat, -1.0)


# ---------------------------------------------------------------------------------------------------
# The clipped loss


Probe = Callable[[list[float], list[float], float], float]


def _loss_mistakes(ask: Probe) -> Iterator[Mistake]:
    """What a clipped loss gets wrong, seen from its values alone.

    `ask` gives the *loss* for ratios, advantages and ε. It may be NaN.
    """

    def one(ratio: float, advantage: float, eps: float = 0.2) -> float:
        return -ask([ratio], [advantage], eps)

    plain, grown, shrunk = one(1.0, 1.0), one(1.1, 1.0), one(0.9, 1.0)
    alike = [one(0.5, 1.0), one(1.5, 1.0), one(1.0, -2.0), -ask([1.1, 0.9], [1.0, 3.0], 0.2)]
    if np.isfinite(plain) and close(alike, [plain] * 4):
        yield Mistake(
            "the loss is always the same",
            seen=f"whatever the ratio and the advantage, your loss is {-plain:.3g}.",
            think="of which of its arguments is it made? Does a loop add up what it computes?",
            section="sec-clip",
        )
    if close(plain, -1.0):
        yield Mistake(
            "a reward, not a loss",
            seen="for one action with advantage +1 and r = 1 your loss is +1, and for r = 1.1 it is "
            f"{-grown:.3g}: descending it makes good actions rarer.",
            think="gradient descent lowers the loss. What do you want raised?",
            section="sec-clip",
        )
    pair = -ask([1.0, 1.0], [1.0, 3.0], 0.2)
    silent = abs(plain) < 1e-4 and abs(one(2.0, 1.0)) < 1e-4
    if close(pair, 0.0) and (not np.isfinite(plain) or silent or abs(plain) > 1e-4):
        yield Mistake(
            "the advantages are centred inside the loss",
            seen=f"for two actions with r = 1 and the advantages 1 and 3 your objective is {pair:.3g}, and "
            f"for one alone it is {plain:.3g}.",
            think="normalising is a choice, and one that the caller should see. What should a loss do with "
            "the numbers it was given?",
            section="sec-clip",
        )
    if close(grown, 1 / 1.1, 1e-3):
        yield Mistake(
            "the ratio is upside down",
            seen=f"at r = 1.1 and A = +1 your objective is {grown:.4g}, and at r = 0.9 it is {shrunk:.4g}.",
            think="π_new over π_old. Which of the two logarithms has the minus?",
            section="sec-clip",
        )
    if close(plain, 1.0) and grown < plain - 1e-4:
        yield Mistake(
            "ratio by division",
            seen=f"a good action became likelier, from r = 1 to r = 1.1, and your objective fell from "
            f"{plain:.4g} to {grown:.4g}.",
            think="what you have are logarithms of probabilities, negative numbers. Is the quotient of two "
            "logarithms the logarithm of a quotient?",
            section="sec-clip",
        )
    if abs(plain) < 1e-4 and close(one(2.0, 1.0), np.log(2), 1e-2):
        yield Mistake(
            "the logarithm of the ratio, not the ratio",
            seen=f"at r = 1 and A = +1 your objective is {plain:.3g}, at r = 2 it is {one(2.0, 1.0):.4g}.",
            think="the difference of two logarithms is the logarithm of the ratio. One step is missing.",
            section="sec-clip",
        )
    far = one(2.0, 1.0)
    if close([far, one(2.0, 1.0, 0.4)], [0.2, 0.4]) and (
        abs(plain) < 1e-4 or close([plain, one(1.0, 1.0, 0.4)], [0.2, 0.4])
    ):
        yield Mistake(
            "the box is around 0, not around 1",
            seen=f"for A = +1 your objective is {plain:.3g} at r = 1, and {far:.3g} at r = 2.",
            think="at r = 1 nothing has moved yet, and nothing should be cut off. Where is the middle of the "
            "box?",
            section="sec-clip",
        )
    if close([plain, one(1.0, 1.0, 0.4)], [0.8, 0.6]) or close([plain, one(1.0, 1.0, 0.4)], [1.2, 1.4]):
        yield Mistake(
            "the two ends of the box are exchanged",
            seen=f"for A = +1 your objective is {plain:.3g} at r = 1, and {one(1.0, 1.0, 0.4):.3g} with "
            "eps = 0.4: the clip has moved a ratio that was in the middle of the box.",
            think="a clip takes the lower end first.",
            section="sec-clip",
        )
    if close(far, np.exp(0.2)) or close(one(1.0, -1.0), -np.exp(0.8)):
        yield Mistake(
            "the clip is put on the logarithm",
            seen=f"at r = 2 and A = +1 your objective is {far:.4g}, at r = 1 and A = −1 it is "
            f"{one(1.0, -1.0):.4g}.",
            think="the box is one for ratios. Which comes first, the clip or the exponential?",
            section="sec-clip",
        )
    four = -ask([1.0] * 4, [1.0] * 4, 0.2)
    if abs(plain) > 1e-4 and (close(four, 4 * plain) or close(four, 2 * plain)):
        yield Mistake(
            "a sum, not a mean",
            seen=f"one sample with A = +1 and r = 1 gives {plain:.3g}, four of them give {four:.3g}.",
            think="how should the step depend on the size of the batch?",
            section="sec-clip",
        )
    double = one(1.0, 2.0)
    if abs(plain) > 1e-4 and not close(double, 2 * plain):
        word = "advantage" if close(one(1.1, 2.0), 1.1 * double) else "product"
        yield Mistake(
            f"the clip is put on the {word}",
            seen=f"at r = 1 an action with A = 2 gives {double:.3g}.",
            think="what is kept near 1 is the ratio. An advantage may have any size.",
            section="sec-clip",
        )
    low, high = one(0.5, 1.0), one(1.5, 1.0)
    bad_low, bad_high = one(0.5, -1.0), one(1.5, -1.0)
    said = (
        f"with A = +1 your objective is {low:.3g} at r = 0.5 and {high:.3g} at r = 1.5; with A = −1 it is "
        f"{bad_low:.3g} and {bad_high:.3g}"
    )
    if 1e-4 < abs(plain) < np.inf and close([low, high], [plain, plain]):
        yield Mistake(
            "the ratio is always 1",
            seen=f"{said}: whatever the new policy does, the objective is that of r = 1.",
            think="a ratio compares two policies. Which two logarithms do you subtract?",
            section="sec-ratio-one",
        )
    if close([low, grown], [0.5, 1.1]) and close([high, bad_low], [0.0, 0.0]):
        yield Mistake(
            "flat is taken for worth nothing",
            seen=f"{said}.",
            think="past the knee the objective stops growing. Does it fall back to zero? Compare the column "
            "min of your tables.",
            section="sec-four-cases",
        )
    if np.isfinite(plain) and not np.isfinite(high) and not np.isfinite(bad_low):
        yield Mistake(
            "the mean leaves out what is flat",
            seen=f"{said}: a batch in which every sample is flat has no loss.",
            think="a sample that has fallen silent is still a sample. By how many is the sum divided?",
            section="sec-four-cases",
        )
    if close(low, 0.8) and close(high, 1.5):
        yield Mistake(
            "min and max swapped",
            seen=f"{said}.",
            think="should a good action that has already become much likelier go on being rewarded? Compare "
            "with your tables.",
            section="sec-four-cases",
        )
    if close(low, 0.8) and close(high, 1.2):
        yield Mistake(
            "the clip without the minimum",
            seen=f"{said}.",
            think="a good action at r = 0.5 has gone the wrong way. If the objective is level there, what "
            "brings it back?",
            section="sec-four-cases",
        )
    if close(low, 0.5) and close(high, 1.2) and close(bad_low, -0.5) and close(bad_high, -1.2):
        yield Mistake(
            "the minimum is taken of the ratios",
            seen=f"{said}.",
            think="multiplying with a negative number turns the order round. Which two things does the "
            "minimum compare?",
            section="sec-lower-bound",
        )
    if close(high, 1.5) and close(bad_low, -0.5) and close(low, 0.5):
        yield Mistake(
            "nothing is clipped",
            seen=f"{said}.",
            think="past the knee the objective should no longer grow.",
            section="sec-four-cases",
        )
    one_end = close([high, bad_low], [1.2, -0.5]) or close([high, bad_low], [1.5, -0.8])
    if one_end and close(low, 0.5) and close(bad_high, -1.5):
        yield Mistake(
            "clipped on one side only",
            seen=f"{said}.",
            think="a good action has its knee at 1 + ε. Where is that of a bad one?",
            section="sec-four-cases",
        )
    wide = one(1.5, 1.0, 0.4)
    if close(high, 1.2) and close(wide, 1.2):
        yield Mistake(
            "eps is not used",
            seen=f"at r = 1.5 your objective is {wide:.3g}, for eps = 0.2 and for eps = 0.4.",
            think="the box reaches from 1 − ε to 1 + ε, whatever ε the caller asks for.",
            section="sec-clip",
        )


def _loss_properties(ask: Probe) -> Iterator[Property]:
    def one(ratio: float, advantage: float, eps: float = 0.2) -> float:
        return -ask([ratio], [advantage], eps)

    worth = (3.0, 0.1, -0.5)
    even = [one(1.0, a) for a in worth]
    yield Property(
        "at r = 1 the objective is the advantage, whatever it is",
        close(even, worth),
        f"for A = 3, 0.1 and −0.5 it is {numbers(even)}",
    )
    good = [one(r, 1.0) for r in (0.5, 1.1, 1.3, 2.0)]
    yield Property(
        "a good action counts in full until 1 + ε, and no more beyond",
        close(good, [0.5, 1.1, 1.2, 1.2]) and close(one(1.3, 1.0, 0.4), 1.3),
        f"for A = +1 and r = 0.5, 1.1, 1.3, 2 it is {numbers(good, 4)}",
    )
    bad = [one(r, -1.0) for r in (0.5, 0.9, 1.3, 2.0)]
    yield Property(
        "a bad action counts at least 1 − ε, and in full above",
        close(bad, [-0.8, -0.9, -1.3, -2.0]) and close(one(0.5, -1.0, 0.4), -0.6),
        f"for A = −1 and r = 0.5, 0.9, 1.3, 2 it is {numbers(bad, 4)}",
    )
    both = -ask([0.5, 1.5, 0.5, 1.5], [2.0, 2.0, -1.0, -1.0], 0.2)
    yield Property(
        "several samples are averaged", close(both, (1.0 + 2.4 - 0.8 - 1.5) / 4), f"you get {both:.4g}"
    )


@CHAPTER.check("clipped-loss-numpy", section="sec-clip")
def clipped_loss_numpy(answer: Answer) -> Findings:
    def ask(ratios: list[float], advantages: list[float], eps: float) -> float:
        back = answer(
            np.log(OLD * np.array(ratios)), np.full(len(ratios), np.log(OLD)), np.array(advantages), eps
        )
        return float(as_array(back, (), "your loss", finite=False))

    several = answer(np.log([0.25, 0.275]), np.log([0.25, 0.25]), np.array([1.0, 3.0]), 0.2)
    if isinstance(several, np.ndarray) and several.shape == (2,):
        yield Mistake(
            "one loss for each step",
            seen="for two steps an array of two numbers comes back.",
            think="the objective is an average over the steps.",
            section="sec-clip",
        )
    as_array(several, (), "your loss")
    yield from _loss_mistakes(ask)
    yield from _loss_properties(ask)
    tiny = answer(np.array([-2000.0]), np.array([-2000.1]), np.array([1.0]), 0.2)
    yield Property(
        "it survives probabilities too small for a float",
        close(as_array(tiny, (), "your loss", finite=False), -np.exp(0.1)),
        f"for log-probabilities of −2000 and −2000.1 your loss is {numbers(tiny)}",
    )


def _backward(loss: Any, *leaves: Tensor) -> list[np.ndarray]:
    """The gradients of the reader's loss by the leaves, zeros where autograd finds no way to one."""
    value = as_array(loss, (), "your loss")
    if not isinstance(loss, Tensor):
        raise Stop("returned", "no tensor", f"the loss is the number {value:.3g}; autograd needs a tensor.")
    if not loss.requires_grad:
        raise Stop(
            "mistake",
            "cut off from autograd",
            "Seen: the loss remembers nothing of the tensors it was computed from (requires_grad is False).",
            "Think: which input must the gradient reach, and where did .detach(), .item() or no_grad cut "
            "the way?",
            f"Read: {CHAPTER.where('sec-clip')}.",
        )
    if not all(leaf.requires_grad for leaf in leaves):
        raise Stop(
            "mistake",
            "an argument is detached in place",
            "Seen: a tensor that you were given has lost its graph, and so has whoever gave it to you.",
            "Think: a name with an underscore at its end changes the tensor itself. Is there one without?",
            f"Read: {CHAPTER.where('sec-short-ppo')}.",
        )
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    return [
        np.zeros(leaf.shape) if g is None else g.double().numpy()
        for leaf, g in zip(leaves, found, strict=True)
    ]


def _leaf(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, requires_grad=True)


def _torch_loss(call: Callable[[Tensor, Tensor, Tensor, float], Any], columns: int = 1) -> Findings:
    """The findings about a loss in torch, of samples laid out in `columns` columns."""

    def tensors(ratios: list[float], advantages: list[float]) -> tuple[Tensor, Tensor, Tensor]:
        shape = (-1, columns) if len(ratios) % columns == 0 and len(ratios) > 1 else (1, -1)
        logp = np.log(OLD * np.array(ratios)).reshape(shape)
        return _leaf(logp), _leaf(np.full_like(logp, np.log(OLD))), _leaf(np.reshape(advantages, shape))

    def ask(ratios: list[float], advantages: list[float], eps: float) -> float:
        back = call(*tensors(ratios, advantages), eps)
        return float(as_array(back, (), "your loss", finite=False))

    ratios, worth = [1.1, 0.9, 1.05, 0.95], [2.0, 2.0, -1.0, -1.0]
    logp, old_logp, advantages = tensors(ratios, worth)
    by_logp, by_old, by_worth = _backward(call(logp, old_logp, advantages, 0.2), logp, old_logp, advantages)
    if np.abs(by_logp).max() < 1e-7:
        yield Mistake(
            "no gradient reaches logp",
            seen="at ratios near 1 the gradient by logp is zero everywhere.",
            think="the policy learns through logp and through nothing else.",
            section="sec-ratio-one",
        )
    if np.abs(by_old).max() > 1e-7:
        yield Mistake(
            "old_logp is not detached",
            seen=f"the gradient reaches old_logp: {numbers(by_old)}. A ratio could also be raised by making "
            "the old policy less sure.",
            think="the old policy is the anchor. Who may move it?",
            section="sec-short-ppo",
        )
    if np.abs(by_worth).max() > 1e-7:
        yield Mistake(
            "the advantages are not detached",
            seen=f"the gradient reaches the advantages: {numbers(by_worth)}.",
            think="the loss could also be lowered by changing what we say an action was worth. Which part "
            "of it may learn from this loss?",
            section="sec-short-ppo",
        )
    yield from _loss_mistakes(ask)
    yield from _loss_properties(ask)

    def pull(ratio: float, advantage: float) -> float:
        """The slope of the objective by log π, of one sample."""
        logp, old, worth = tensors([ratio], [advantage])
        return -float(_backward(call(logp, old, worth, 0.2), logp)[0].sum())

    yield Property(
        "the gradient is zero past the knee, and only there",
        abs(pull(1.3, 1.0)) < 1e-6
        and abs(pull(0.7, -1.0)) < 1e-6
        and close([pull(0.7, 1.0), pull(1.3, -1.0)], [0.7, -1.3]),
        f"at r = 1.3 and A = +1 it is {pull(1.3, 1.0):.3g}, at r = 1.3 and A = −1 {pull(1.3, -1.0):.3g}",
    )
    first = [pull(1.0, 1.0), pull(1.0, -2.0)]
    yield Property(
        "at r = 1 it is the policy gradient",
        close(first, [1.0, -2.0]),
        f"for A = 1 and −2 the slope of your objective by log π is {numbers(first)}",
    )


@CHAPTER.check("clipped-loss", section="sec-clip")
def clipped_loss(answer: Answer) -> Findings:
    back = answer(_leaf([[-1.0, -1.1], [-1.2, -1.3]]), torch.full((2, 2), -1.1), torch.ones(2, 2), 0.2)
    if isinstance(back, Tensor) and back.shape in ((2, 2), (2,)):
        yield Mistake(
            "not averaged over all entries",
            seen=f"for tensors of shape [2, 2] a tensor of shape {list(back.shape)} comes back.",
            think="the result must be a scalar: the mean over everything.",
            section="sec-clip",
        )
    yield from _torch_loss(answer, columns=2)
    back = answer(torch.tensor([[-2000.0]]), torch.tensor([[-2000.125]]), torch.ones(1, 1), 0.2)
    tiny = as_array(back, (), "your loss", finite=False)
    yield Property(
        "it survives probabilities too small for a float",
        close(tiny, -np.exp(0.125)),
        f"for log-probabilities of −2000 and −2000.125 your loss is {numbers(tiny)}",
    )


@CHAPTER.check("hunt-minmax", section="sec-four-cases")
def hunt_minmax(answer: Answer) -> Findings:
    yield from _torch_loss(answer, columns=2)


@CHAPTER.check("hunt-division", section="sec-ppo-kl")
def hunt_division(answer: Answer) -> Findings:
    def tensors(ratios: list[float], worth: list[float]) -> tuple[Tensor, Tensor, Tensor]:
        return _leaf(np.log(OLD * np.array(ratios))), _leaf([np.log(OLD)] * len(ratios)), _leaf(worth)

    def value(ratios: list[float], worth: list[float], kl: list[float], beta: float) -> float:
        back = answer(*tensors(ratios, worth), _leaf(kl), beta)
        return -float(as_array(back, (), "your loss"))

    still, grown = (value([r], [1.0], [0.0], 0.0) for r in (1.0, 1.1))
    if close(still, -1.0):
        yield Mistake(
            "a reward, not a loss",
            seen="for one action with advantage +1 and r = 1, without a penalty, your loss is +1.",
            think="gradient descent lowers the loss. What do you want raised?",
            section="sec-ppo-kl",
        )
    if close(grown, 1 / 1.1, 1e-3):
        yield Mistake(
            "the ratio is upside down",
            seen=f"a good action became likelier, from r = 1 to 1.1, and your objective is {grown:.4g}.",
            think="π_new over π_old. Which of the two logarithms has the minus?",
            section="sec-clip",
        )
    if close(still, 1.0) and grown < still - 1e-4:
        yield Mistake(
            "the ratio is still a division",
            seen="a good action became likelier, from r = 1 to 1.1, and your objective fell from "
            f"{still:.4g} to {grown:.4g}.",
            think="both numbers are logarithms. Which function turns a difference of logarithms into a "
            "quotient?",
            section="sec-clip",
        )
    if abs(still) < 1e-4 and abs(grown) < 0.5:
        yield Mistake(
            "the logarithm of the ratio, not the ratio",
            seen=f"at r = 1 and A = +1 your objective is {still:.3g}, at r = 1.1 it is {grown:.4g}.",
            think="the difference of two logarithms is the logarithm of the ratio. One step is missing.",
            section="sec-clip",
        )
    far = value([2.0], [1.0], [0.0], 0.0)
    if close(far, 1.2):
        yield Mistake(
            "a clip has come in",
            seen=f"at r = 2 and A = +1, with no penalty, your objective is {far:.3g}.",
            think="this objective has a price and no clip. Repair the bug, and leave the method.",
            section="sec-ppo-kl",
        )
    priced, cheap = (value([1.0], [1.0], [0.1], beta) for beta in (3.0, 1.0))
    if close(priced, 1.3):
        yield Mistake(
            "the penalty is a bonus",
            seen=f"with KL = 0.1 and β = 3 the objective rises from 1 to {priced:.3g}.",
            think="distance should cost something.",
            section="sec-ppo-kl",
        )
    if close(priced, 1.0):
        yield Mistake(
            "the penalty is gone",
            seen="with KL = 0.1 and β = 3 the objective is what it is without a penalty.",
            think="without a price on distance, what keeps twenty steps on one batch from going anywhere?",
            section="sec-ppo-kl",
        )
    if close(priced, cheap):
        yield Mistake(
            "beta is not used",
            seen=f"with KL = 0.1 the objective is {priced:.3g}, for β = 3 and for β = 1.",
            think="β says how dear distance is, and the caller says β.",
            section="sec-ppo-kl",
        )
    if close(value([1.0], [2.0], [0.1], 3.0), 2.0 - 0.6):
        yield Mistake(
            "the penalty is multiplied with the advantage",
            seen="with A = 2 the same KL costs twice as much as with A = 1, and with A = −1 it would be a "
            "bonus.",
            think="which terms of the objective has the advantage for a factor? Look at the brackets.",
            section="sec-ppo-kl",
        )
    two = value([1.0, 1.0], [1.0, 1.0], [0.0, 0.0], 3.0), value([1.0, 1.0], [1.0, 1.0], [0.1, 0.1], 3.0)
    if close(two[0], 2 * still) or close(two[1] - two[0], 2 * (priced - still)):
        yield Mistake(
            "a sum, not a mean",
            seen=f"one sample at r = 1 gives {still:.3g}, and two of them give {two[0]:.3g}; with KL = 0.1 "
            f"and β = 3 one gives {priced:.3g}, and two give {two[1]:.3g}.",
            think="how should the step depend on the size of the batch?",
            section="sec-ppo-kl",
        )
    logp, old, worth = tensors([1.1, 0.9], [2.0, -1.0])
    kl = _leaf([0.01, 0.02])
    by_logp, by_old, by_worth, by_kl = _backward(answer(logp, old, worth, kl, 3.0), logp, old, worth, kl)
    if np.abs(by_logp).max() < 1e-7:
        yield Mistake(
            "no gradient reaches logp",
            seen="at ratios near 1 the gradient by logp is zero everywhere: only the penalty pulls.",
            think="which of the two policies is data, and which one is trained?",
            section="sec-ratio-one",
        )
    if np.abs(by_old).max() > 1e-7:
        yield Mistake(
            "old_logp is not detached",
            seen=f"the gradient reaches old_logp: {numbers(by_old)}.",
            think="the old policy is the anchor. Who may move it?",
            section="sec-short-ppo",
        )
    if np.abs(by_worth).max() > 1e-7:
        yield Mistake(
            "the advantages are not detached",
            seen=f"the gradient reaches the advantages: {numbers(by_worth)}.",
            think="when they come from a learned baseline, who else would be moved by this loss?",
            section="sec-short-ppo",
        )
    if np.abs(by_kl).max() < 1e-7:
        yield Mistake(
            "the KL is detached",
            seen="the loss depends on the KL, and its gradient does not.",
            think="a price that no gradient feels changes what is printed, and nothing that is done.",
            section="sec-ppo-kl",
        )
    counts = [value([r], [2.0], [0.0], 0.0) for r in (0.5, 1.5, 3.0)]
    yield Property(
        "a good action counts r A, however far it has gone",
        close(counts, [1.0, 3.0, 6.0]),
        f"for A = 2 and r = 0.5, 1.5, 3 it counts {numbers(counts, 4)}",
    )
    yield Property(
        "distance costs β times the KL, averaged",
        close([priced, cheap], [0.7, 0.9]) and close(by_kl, [1.5, 1.5]),
        f"at r = 1 and KL = 0.1 it leaves {priced:.4g} of 1 for β = 3, and {cheap:.4g} for β = 1",
    )
    yield Property(
        "each sample pushes with r A, averaged",
        close(by_logp, [-1.1, 0.45]),
        f"at the ratios 1.1 and 0.9, with A = 2 and −1, the loss has the gradient {numbers(by_logp)}",
    )


# ---------------------------------------------------------------------------------------------------
# Ratio 1


@CHAPTER.check("ratio-one", section="sec-ratio-one")
def ratio_one(answer: Answer) -> Findings:
    def ask(ratios: list[float], worth: list[float], eps: float = 0.2) -> np.ndarray:
        back = answer(torch.tensor(ratios), torch.tensor(worth), eps)
        return as_array(back, (len(ratios),), "the weights")

    one = ask([1.0] * 3, [2.0, -1.0, 0.5])
    up, down = ask([0.5, 1.1, 1.5], [2.0] * 3), ask([0.5, 0.9, 1.5], [-2.0] * 3)
    said = (
        f"at the ratios 0.5, 1.1, 1.5 and A = +2 your weights are {numbers(up)}; at 0.5, 0.9, 1.5 and "
        f"A = −2 they are {numbers(down)}"
    )
    if close(one, [-2.0, 1.0, -0.5]):
        yield Mistake(
            "the weights of the loss, not of the objective",
            seen=f"at r = 1 the advantages 2, −1, 0.5 get the weights {numbers(one)}.",
            think="the formula above the blank has no minus. Which way does a good action want to go?",
            section="sec-ratio-one",
        )
    if close(one, np.array([2.0, -1.0, 0.5]) / 3):
        yield Mistake(
            "averaged already",
            seen=f"at r = 1 the advantages 2, −1, 0.5 get the weights {numbers(one)}.",
            think="the 1/T stands outside in the formula.",
            section="sec-ratio-one",
        )
    if close(up, [2.0, 2.0, 0.0]) and close(down, [0.0, -2.0, -2.0]):
        yield Mistake(
            "the slope by r, not by θ",
            seen=f"{said}: right where r is 1, and the same at every other r.",
            think="∇r is not ∇ log π. What stands between the two?",
            section="sec-four-cases",
        )
    if close(up, [1.0, 2.2, 3.0]) != close(down, [-1.0, -1.8, -3.0]) and (
        close(up, [1.0, 2.2, 0.0]) or close(down, [0.0, -1.8, -3.0])
    ):
        sign = "good" if close(down, [-1.0, -1.8, -3.0]) else "bad"
        yield Mistake(
            "flat for one sign of the advantage only",
            seen=f"{said}: only {sign} actions ever fall silent.",
            think="there are two tables. Where is the knee of the other one?",
            section="sec-four-cases",
        )
    if close(one, [0.0] * 3) and close(up, [1.0, 0.0, 0.0]):
        yield Mistake(
            "nothing pushes inside the box",
            seen=f"at r = 1 the advantages 2, −1, 0.5 get the weights {numbers(one)}.",
            think="inside the box the two products are equal. Is a sample flat there?",
            section="sec-four-cases",
        )
    if close(up, [2.0] * 3) or close(up, [1.0, 2.2, 3.0]):
        yield Mistake(
            "nothing is flat",
            seen=f"{said}.",
            think="past the knee, how does the clipped term change with r?",
            section="sec-four-cases",
        )
    if close(up, [1.0, 2.2, 2.4]) or close(up, [1.6, 2.2, 2.4]):
        yield Mistake(
            "the value, not the slope",
            seen=f"{said}.",
            think="where the term has stopped growing, its value is what it is. And its derivative?",
            section="sec-four-cases",
        )
    if close(up, [0.0, 2.2, 0.0]):
        yield Mistake(
            "flat is not the same as outside the box",
            seen=f"{said}.",
            think="a good action at r = 0.5 has gone the wrong way. Is it left there?",
            section="sec-knee",
        )
    if close(up[[0, 2]], [0.0, 3.0]):
        yield Mistake(
            "flat on the wrong side",
            seen=f"{said}.",
            think="which of the two should stop: the one that has gone the way it should, or the other?",
            section="sec-four-cases",
        )
    if close(up, [1.0, 2.2, 0.0]) and close(down[[0, 2]], [-1.0, 0.0]):
        yield Mistake(
            "the sign of the advantage is not asked for",
            seen=f"{said}: the same side is flat for good and for bad actions.",
            think="where is the knee of a bad action?",
            section="sec-four-cases",
        )
    if close(up, [1.0, 2.2, 0.0]) and close(ask([1.5], [2.0], 0.6), [0.0]):
        yield Mistake(
            "eps is not used",
            seen="at r = 1.5 a good action has the weight 0, also for eps = 0.6.",
            think="the box reaches from 1 − ε to 1 + ε, whatever ε the caller asks for.",
            section="sec-clip",
        )
    yield Property(
        "at r = 1 the weight is the advantage, for any ε",
        close(one, [2.0, -1.0, 0.5]) and close(ask([1.0], [3.0], 0.01), [3.0]),
        f"the advantages 2, −1, 0.5 get {numbers(one)}",
    )
    yield Property(
        "a good action stops past 1 + ε, and pushes with r A before", close(up, [1.0, 2.2, 0.0]), said
    )
    yield Property(
        "a bad action stops below 1 − ε, and pushes with r A above", close(down, [0.0, -1.8, -3.0]), said
    )


# ---------------------------------------------------------------------------------------------------
# The adaptive price


@CHAPTER.check("adaptive-beta", section="sec-ppo-kl")
def adaptive_beta(answer: Answer) -> Findings:
    def ask(kl: float, beta: float = 1.0, target: float = 0.03) -> float:
        return float(as_array(answer(beta, kl, target), (), "the new β"))

    target = 0.03
    low, high = ask(0.001), ask(0.3)
    said = f"with a target of 0.03 and β = 1 a KL of 0.3 gives {high:.4g}, and one of 0.001 gives {low:.4g}"
    if high < 1 < low:
        yield Mistake(
            "halved when it should be doubled",
            seen=f"{said}.",
            think="the policy went ten times too far. Should going far now become cheaper or dearer?",
            section="sec-ppo-kl",
        )
    seven = ask(0.001, beta=7.0), ask(0.3, beta=7.0)  # a β of 1 is its own square, and its own root
    stays = close([low, seven[0]], [1.0, 7.0]), close([high, seven[1]], [1.0, 7.0])
    if all(stays) and ask(3.0) > 1:
        yield Mistake(
            "the thresholds are a distance from the target, not a factor",
            seen=f"{said}; only a KL of 3 makes it {ask(3.0):.4g}.",
            think="1.5 stands beside a target of 0.03. Is it added to it?",
            section="sec-ppo-kl",
        )
    if all(stays):
        yield Mistake(
            "beta never changes",
            seen=f"{said}.",
            think="is the new β returned, or only computed?",
            section="sec-ppo-kl",
        )
    if close([low, high, *seven], [low] * 4) and (low <= 1e-4 or low >= 1e4):
        yield Mistake(
            "lowest and highest are exchanged",
            seen=f"{said}, and a β of 7 becomes the same.",
            think="try it with β = 1 in [0, 10]: what is the larger of 1 and 0, and what the smaller of that "
            "and 10?",
            section="sec-ppo-kl",
        )
    if close(low, high) and close(*seven):
        yield Mistake(
            "the KL does not come in",
            seen=f"{said}.",
            think="two quantities are compared. Which two?",
            section="sec-ppo-kl",
        )
    if close(ask(0.3, beta=4.0) - 4.0, high - 1.0) and high > 1:
        yield Mistake(
            "the change is added, not multiplied",
            seen=f"{said}, and β = 4 becomes {ask(0.3, beta=4.0):.4g}.",
            think="β may have to cross several orders of magnitude. How many additions would that take?",
            section="sec-ppo-kl",
        )
    if any(stays):
        which = "cheaper" if stays[0] else "dearer"
        yield Mistake(
            "it adapts in one direction only",
            seen=f"{said}: distance never becomes {which}.",
            think="a leash may be too long, and it may be too short.",
            section="sec-ppo-kl",
        )
    kls = (0.001, 0.03, 0.3, 2.0)
    if close([ask(kl) for kl in kls], [ask(kl, target=3.0) for kl in kls]):
        yield Mistake(
            "the target does not come in",
            seen=f"a KL of 0.3 gives {high:.4g}, whether the target is 0.03 or 3.",
            think="too far and too near are meant in comparison with the target.",
            section="sec-ppo-kl",
        )
    near = {factor: ask(factor * target) for factor in (0.7, 1.0, 1.4)}
    if not close(near[1.4], 1.0) or not close(near[0.7], 1.0):
        yield Mistake(
            "the thresholds stand at the target itself",
            seen=f"a KL of 1.4 times the target makes β {near[1.4]:.3g}, one of 0.7 times makes it "
            f"{near[0.7]:.3g}.",
            think="a KL is never exactly on target. If β answers every miss, when does it rest?",
            section="sec-ppo-kl",
        )
    if close(high, 1.5) or close(low, 1 / 1.5):
        yield Mistake(
            "the factors and the thresholds are exchanged",
            seen=f"{said}.",
            think="1.5 says when to act, and another number says how much.",
            section="sec-ppo-kl",
        )
    below = ask(0.6 * target)
    if close(high, 2.0) and close(low, 0.5) and close(below, 1.0):
        yield Mistake(
            "the lower threshold is not target / 1.5",
            seen="a KL of 0.6 times the target leaves β as it is.",
            think="the thresholds are a factor away from the target, the same up and down. What is 1 / 1.5?",
            section="sec-ppo-kl",
        )
    if close([high, low, ask(1.6 * target)], [2.0, 0.5, 1.0]):
        yield Mistake(
            "the upper threshold is not 1.5 times the target",
            seen="a KL of 1.6 times the target leaves β as it is.",
            think="the thresholds are a factor away from the target, the same up and down. Which factor?",
            section="sec-ppo-kl",
        )
    if ask(0.001, beta=1e-4) < 0.9e-4 or ask(0.3, beta=1e4) > 1.1e4:
        yield Mistake(
            "nothing keeps it within its range",
            seen=f"β = 0.0001 becomes {ask(0.001, beta=1e-4):.3g}, and β = 10000 becomes "
            f"{ask(0.3, beta=1e4):.3g}.",
            think="lowest and highest are arguments too.",
            section="sec-ppo-kl",
        )
    yield Property(
        "far above the target β doubles, just above 1.5 times the target too",
        close([high, ask(1.6 * target), seven[1]], [2.0, 2.0, 14.0]),
        f"{said}, one of 1.6 times the target gives {ask(1.6 * target):.4g}",
    )
    yield Property(
        "far below the target β is halved, just below target / 1.5 too",
        close([low, ask(0.65 * target), seven[0]], [0.5, 0.5, 3.5]),
        f"{said}, one of 0.65 times the target gives {ask(0.65 * target):.4g}",
    )
    yield Property(
        "in between it stays",
        close(list(near.values()), [1.0] * 3),
        f"you get {numbers(list(near.values()))}",
    )
    ends = [
        float(as_array(answer(beta, kl, 0.03, lowest=1.0, highest=3.0), (), "the new β"))
        for beta, kl in ((1.5, 0.001), (2.0, 0.3))
    ]
    yield Property(
        "it stays within lowest and highest",
        close(ends, [1.0, 3.0]),
        f"in [1, 3], half of 1.5 becomes {ends[0]:.3g}, and twice 2 becomes {ends[1]:.3g}",
    )


# ---------------------------------------------------------------------------------------------------
# The gauges


KEYS = ("loss", "clip_fraction", "flat_fraction", "approx_kl", "ratio_mean", "ratio_std")


@CHAPTER.check("clip-diagnostics", section="sec-diagnostics")
def clip_diagnostics(answer: Answer) -> Findings:
    def report(ratios: list[float], worth: list[float], eps: float = 0.2) -> dict[str, Any]:
        logp = _leaf(np.log(OLD * np.array(ratios)))
        back = answer(logp, torch.full((len(ratios),), float(np.log(OLD))), torch.tensor(worth), eps)
        if not isinstance(back, dict):
            raise Stop(
                "returned",
                "no dictionary",
                f"the result must be a dictionary with the keys {', '.join(KEYS)}.",
            )
        missing = [key for key in KEYS if key not in back]
        if missing:
            raise Stop("returned", "keys are missing", f"your dictionary has no {', '.join(missing)}.")
        return back

    def gauge(name: str, ratios: list[float], worth: list[float], eps: float = 0.2) -> float:
        return float(as_array(report(ratios, worth, eps)[name], (), name))

    # Below the box one good action and three bad ones, above it two good ones and a bad one, and one inside.
    ratios = [0.5, 0.6, 0.7, 0.75, 1.3, 2.0, 1.5, 1.1]
    worth = [1.0, -1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0]
    first = report(ratios, worth)
    for name in KEYS[1:]:
        if isinstance(first[name], Tensor) and first[name].requires_grad:
            yield Mistake(
                "a gauge is still on the graph",
                seen=f"{name} requires a gradient.",
                think="a log that keeps tensors with their graphs keeps every batch in memory. Which of the "
                "entries is trained on?",
                section="sec-diagnostics",
            )
    outside, flat = gauge("clip_fraction", ratios, worth), gauge("flat_fraction", ratios, worth)
    drawn = "of eight samples four are below the box and three above it, and five of these seven are flat"
    said = f"{drawn}; your clip_fraction is {outside:.3g} and your flat_fraction {flat:.3g}"
    if outside > 1 or flat > 1:
        yield Mistake(
            "a count, not a share",
            seen=f"{said}.",
            think="a fraction should not depend on the size of the batch.",
            section="sec-knee",
        )
    if close([outside, flat], [5 / 8, 7 / 8]):
        yield Mistake(
            "the two fractions are exchanged",
            seen=f"{said}.",
            think="which of the two words asks for the sign of the advantage?",
            section="sec-knee",
        )
    if close(outside, 3 / 8) or close(outside, 4 / 8):
        yield Mistake(
            "clip_fraction counts one side only",
            seen=f"{said}.",
            think="a ratio can leave the box at either end.",
            section="sec-knee",
        )
    if close(outside, 5 / 8):
        yield Mistake(
            "clip_fraction counts the flat samples",
            seen=f"{said}.",
            think="two words for two things. Which of them asks for the sign of the advantage?",
            section="sec-knee",
        )
    if close(outside, 1 / 8):
        yield Mistake(
            "clip_fraction counts those inside",
            seen=f"{said}.",
            think="it should be 0 before the first step of an update.",
            section="sec-knee",
        )
    if close(flat, 7 / 8):
        yield Mistake(
            "flat_fraction counts all that are outside",
            seen=f"{said}.",
            think="a good action at r = 0.5 is outside. Has the clip taken its gradient?",
            section="sec-knee",
        )
    if close(flat, 2 / 8):
        yield Mistake(
            "flat_fraction counts the wrong side"
            if close(gauge("flat_fraction", [0.5] * 2, [1.0] * 2), 1.0)
            else "flat_fraction counts good actions only",
            seen=f"{said}.",
            think="on which side of 1 does a good action fall silent, and on which side a bad one?",
            section="sec-four-cases",
        )
    if close(flat, 3 / 8) and close(gauge("flat_fraction", [2.0] * 2, [1.0] * 2), 0.0):
        yield Mistake(
            "flat_fraction counts bad actions only",
            seen=f"{said}.",
            think="on which side of 1 does a good action fall silent?",
            section="sec-four-cases",
        )
    if close(flat, 5 / 7):
        yield Mistake(
            "flat_fraction is a share of those outside",
            seen=f"{said}.",
            think="a share of what? Both fractions are shares of the same.",
            section="sec-knee",
        )
    if close(flat, 5 / 8) and gauge("flat_fraction", [2.0, 0.5], [0.0, 0.0]) > 0:
        yield Mistake(
            "flat_fraction counts samples without an advantage",
            seen="two samples outside the box whose advantage is 0 are counted as flat.",
            think="they have no gradient, clip or no clip. What has been taken from them?",
            section="sec-knee",
        )
    for name, share in (("clip_fraction", outside), ("flat_fraction", flat)):
        if share > 0.5 and gauge(name, [1.3, 1.3], [1.0, 1.0], 0.4) > 0:
            yield Mistake(
                "eps is not used",
                seen=f"{name} counts a ratio of 1.3 with eps = 0.4.",
                think="the box is the caller's.",
                section="sec-knee",
            )
        # The ends of the box are not alike for log r: ln 0.81 = −0.21, ln 1.21 = 0.19.
        if share > 0.5 and gauge(name, [0.81] * 2, [-1.0] * 2) > gauge(name, [1.21] * 2, [1.0] * 2):
            yield Mistake(
                "the logarithm is compared with the box, not the ratio",
                seen=f"{name} counts a ratio of 0.81, and does not count one of 1.21.",
                think="the box is one for ratios. Which of 0.81 and 1.21 is outside of [0.8, 1.2]?",
                section="sec-knee",
            )
    two, half = (gauge("approx_kl", [r, r], [1.0, 1.0]) for r in (2.0, 0.5))
    shown = f"at r = 2 your approx_kl is {two:.4g}, at r = 0.5 it is {half:.4g}"
    ln2 = float(np.log(2))
    if close([two, half], [ln2 - 1, 0.5 - ln2]):
        yield Mistake(
            "approx_kl has the wrong sign",
            seen=f"{shown}.",
            think="a KL is never negative.",
            section="sec-eps-kl",
        )
    if close([two, half], [1.0, -0.5]):
        yield Mistake(
            "r − 1 without the logarithm",
            seen=f"{shown}.",
            think="r − 1 is zero on average whatever the new policy is. So what does it measure?",
            section="sec-eps-kl",
        )
    if close(np.abs([two, half]), [ln2, ln2]) and two * half < 0:
        yield Mistake(
            "log r alone",
            seen=f"{shown}.",
            think="its mean is the KL, up to the sign, but single samples are of both signs. What is added "
            "to it that is zero on average?",
            section="sec-eps-kl",
        )
    if close([two, half], [2 * ln2 - 1, 0.5 - 0.5 * ln2]):
        yield Mistake(
            "the KL in the other direction",
            seen=f"{shown}: it is the KL of the new policy from the old one, weighed by r.",
            think="the samples came from the old policy. What needs no weights then?",
            section="sec-eps-kl",
        )
    if close([two, half], [ln2 - 0.5, 1 - ln2]):
        yield Mistake(
            "the ratio of the approx_kl is upside down",
            seen=f"{shown}.",
            think="r is new over old in every gauge.",
            section="sec-eps-kl",
        )
    if close([two, half], [ln2**2 / 2] * 2):
        yield Mistake(
            "half the squared logarithm",
            seen=f"{shown}: the same for a doubled and for a halved probability.",
            think="that is another estimate of the KL, and a biased one. The table has the formula.",
            section="sec-eps-kl",
        )
    both = gauge("approx_kl", [2.0, 0.5], [1.0, 1.0])
    if close([two, half], [1 - ln2, ln2 - 0.5]) and close(both, 0.25 - np.log(1.25)):
        yield Mistake(
            "the logarithm of the mean, not the mean of the logarithms",
            seen=f"{shown}, and for the two together it is {both:.4g}.",
            think="the mean is taken of what one sample gives. Is it the last step in your formula?",
            section="sec-eps-kl",
        )
    three = [0.4, 1.0, 1.6]
    mean, std = (gauge(name, three, [1.0] * 3) for name in ("ratio_mean", "ratio_std"))
    if close(std, 0.6):
        yield Mistake(
            "the standard deviation is divided by one less than n",
            seen=f"the ratios 0.4, 1 and 1.6 have a ratio_std of {std:.4g}.",
            think="torch divides by n − 1 by default. The table says which.",
            section="sec-diagnostics",
        )
    if close(std, 0.24) or close(std, 0.36):
        yield Mistake(
            "the variance, not the standard deviation",
            seen=f"the ratios 0.4, 1 and 1.6 have a ratio_std of {std:.4g}.",
            think="how far is each of the three from their mean?",
            section="sec-diagnostics",
        )
    if close(mean, np.log(0.64) / 3) or close(mean, 0.64 ** (1 / 3)):
        yield Mistake(
            "the mean of the logarithms",
            seen=f"the ratios 0.4, 1 and 1.6 have a ratio_mean of {mean:.4g}.",
            think="under the old policy the ratios have mean 1. Have their logarithms?",
            section="sec-diagnostics",
        )
    yield from _torch_loss(lambda *given: _loss_of(answer(*given)))
    yield Property("clip_fraction: outside the box, on either side", close(outside, 7 / 8), said)
    yield Property("flat_fraction: silenced by the clip", close(flat, 5 / 8), said)
    yield Property(
        "approx_kl: zero at r = 1, above zero on both sides",
        close([two, half, gauge("approx_kl", [1.0, 1.0], [1.0, 1.0])], [1 - ln2, ln2 - 0.5, 0.0])
        and close(both, 0.25),
        f"{shown}, and for the two together {both:.4g}",
    )
    yield Property(
        "ratio_mean and ratio_std",
        close([mean, std], [1.0, 0.24**0.5]),
        f"for 0.4, 1 and 1.6 they are {mean:.4g} and {std:.4g}",
    )
    square = answer(_leaf([[-1.0, -1.5], [-2.0, -0.5]]), torch.full((2, 2), -1.0), torch.ones(2, 2), 0.2)
    shapes = [np.shape(as_array(square[key], (), key)) for key in KEYS]
    yield Property("tensors of any shape", all(shape == () for shape in shapes))


def _loss_of(report: Any) -> Any:
    return report["loss"] if isinstance(report, dict) and "loss" in report else report


# ---------------------------------------------------------------------------------------------------
# Several steps on one batch


class _Moving:
    """The reader's function with its first argument given: the logits, which it is meant to write into.

    `Answer` refuses a function that changes its arguments; of the others that is still true.
    """

    def __init__(self, function: Callable[..., Any], logits: Tensor) -> None:
        self._function, self._logits = function, logits
        self.__code__ = getattr(function, "__code__", None)  # so that an exception is shown with its line

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(self._logits, *args, **kwargs)


class _GradientDescent:
    """Gradient descent, with what a reader asks of an optimizer. Torch's own takes seconds to be loaded."""

    def __init__(self, parameter: Tensor, rate: float) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": [parameter], "lr": rate}]
        self.defaults: dict[str, Any] = {"lr": rate}
        self.state: dict[Any, Any] = {}
        self.felt: list[float | None] = []  # the largest gradient at each step; None where there was none

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.param_groups[0]["params"][0].grad = None

    def state_dict(self) -> dict[str, Any]:
        group = {key: value for key, value in self.param_groups[0].items() if key != "params"}
        return {"state": {}, "param_groups": [group | {"params": [0]}]}

    def load_state_dict(self, kept: dict[str, Any]) -> None:
        group = {key: value for key, value in kept["param_groups"][0].items() if key != "params"}
        self.param_groups[0].update(group)

    def step(self) -> None:
        parameter, rate = self.param_groups[0]["params"][0], self.param_groups[0]["lr"]
        self.felt.append(None if parameter.grad is None else float(parameter.grad.abs().max()))
        if parameter.grad is not None:
            with torch.no_grad():
                parameter -= rate * parameter.grad


_GradientDescent.__name__ = "gradient-descent optimizer"  # as messages call it


class _OneState:
    """One learner, one state, three equally likely actions, each taken once, with advantages 1, 0 and −1."""

    def __init__(self, rate: float, learners: int = 1) -> None:
        self.logits = torch.zeros(learners, 1, 3, requires_grad=True)
        self.optimizer = _GradientDescent(self.logits, rate)
        self.states = torch.zeros(learners, 3, dtype=torch.long)
        self.actions = torch.tensor([[0, 1, 2]]).expand(learners, 3).contiguous()
        self.worth = torch.tensor([[1.0, 0.0, -1.0]]).expand(learners, 3).contiguous()

    def run(self, answer: Answer, **settings: Any) -> Any:
        batch = self.optimizer, self.states, self.actions, self.worth
        return Answer(answer._name, _Moving(answer._function, self.logits))(*batch, **settings)

    @property
    def ratios(self) -> np.ndarray:
        return (3 * self.logits.detach().softmax(-1)[:, 0]).double().numpy()


def _log_ratios(back: Any, shape: tuple[int, ...]) -> np.ndarray:
    if isinstance(back, tuple | list):
        raise Stop(
            "returned",
            "more than the log ratios",
            f"the log ratios alone must come back, and a {type(back).__name__} of length {len(back)} did.",
        )
    if isinstance(back, np.ndarray):
        raise Stop(
            "returned", "an array", "it must be a tensor: the cell below the check goes on with it in torch."
        )
    if isinstance(back, Tensor) and back.requires_grad:
        raise Stop(
            "mistake",
            "what comes back is still on the graph",
            "Seen: the log ratios require a gradient.",
            "Think: they are for a log. Who would want to train on them?",
            f"Read: {CHAPTER.where('sec-diagnostics')}.",
        )
    return as_array(back, shape, "the log ratios")


@CHAPTER.check("hunt-stale", section="sec-short-ppo")
def hunt_stale(answer: Answer) -> Findings:
    once = _OneState(rate=0.1)
    first = _log_ratios(once.run(answer, epochs=1), (1, 3))
    felt = once.optimizer.felt
    if np.abs(once.ratios - 1).max() < 1e-7 and not felt:
        yield Mistake(
            "the optimizer takes no step",
            seen="with epochs = 1 the optimizer was not once asked to step.",
            think="a gradient alone moves nothing.",
            section="sec-short-ppo",
        )
    if np.abs(once.ratios - 1).max() < 1e-7 and (felt[0] is None or felt[0] > 1e-6):
        yield Mistake(
            "the logits are left as they were",
            seen="the optimizer took a step, and the logits hold what they held before.",
            think="it moves the very logits that you were given. Is the loss computed from these, and does "
            "anything write the old ones back?",
            section="sec-short-ppo",
        )
    if np.abs(once.ratios - 1).max() < 1e-7:
        yield Mistake(
            "old_logp is not detached",
            seen="after one step nothing has moved.",
            think="if both logarithms hang on the same logits, how does their difference change when these "
            "move?",
            section="sec-short-ppo",
        )
    if once.ratios[0, 0] < 1:
        yield Mistake(
            "it goes downhill",
            seen=f"after one step the ratio of the good action is {once.ratios[0, 0]:.4g}.",
            think="one sign decides between making good actions likelier and rarer.",
            section="sec-clip",
        )
    twice = _OneState(rate=0.1)
    twice.run(answer, epochs=2)
    went = np.log(twice.ratios[0, 0]) / np.log(once.ratios[0, 0])  # both steps are inside the box
    if went > 2.5 and len(twice.optimizer.felt) == 2:
        yield Mistake(
            "the gradients are not zeroed between the steps",
            seen=f"inside the box two steps take the good action {went:.3g} times as far as one.",
            think="backward adds to what stands in .grad. Who empties it?",
            section="sec-short-ppo",
        )
    few, many = _OneState(rate=0.1), _OneState(rate=0.1)
    few.run(answer, epochs=5)
    shown = _log_ratios(many.run(answer, epochs=200), (1, 3))
    good, _, bad = many.ratios[0]
    said = (
        f"three equally likely actions with advantages 1, 0, −1 and 200 short steps on them: the ratios end "
        f"at {numbers(many.ratios[0], 4)}"
    )
    if close(many.ratios, once.ratios, 1e-6):
        yield Mistake(
            "one step, whatever epochs says",
            seen="one epoch and 200 epochs lead to the same policy.",
            think="the batch was to be used more than once.",
            section="sec-short-ppo",
        )
    if good > 1.5:
        yield Mistake(
            "the old policy still moves along",
            seen=f"{said}: nothing ever stopped them.",
            think="with the ratios to the policy of *before* the first step, the first and the last action "
            "would have fallen silent soon after 1.2 and 0.8. To which policy are yours?",
            section="sec-short-ppo",
        )
    reported = np.exp(shown[0])
    if not close(reported, many.ratios[0], 1e-3):
        yield Mistake(
            "what it reports is not what happened",
            seen=f"{said}, and the log ratios that came back say {numbers(reported, 4)}.",
            think="the ratio after the last step, to the policy of before the first one.",
            section="sec-diagnostics",
        )
    if not close(np.exp(first), once.ratios, 1e-3):
        yield Mistake(
            "the log ratios of before the last step",
            seen=f"after a single step the ratios are {numbers(once.ratios[0], 4)}, and the log ratios that "
            f"came back say {numbers(np.exp(first[0]), 4)}.",
            think="which logits were the last log-probabilities computed from: those of before the step, or "
            "of after it?",
            section="sec-diagnostics",
        )
    narrow = _OneState(rate=0.1)
    narrow.run(answer, epochs=200, eps=0.05)
    if close(narrow.ratios, many.ratios, 1e-3):
        yield Mistake(
            "eps is not used",
            seen=f"{said}, for eps = 0.2 and for eps = 0.05.",
            think="the box is the caller's.",
            section="sec-clip",
        )
    yield Property("the good action goes up and the bad one down", good > 1.1 and bad < 0.9, said)
    yield Property("they fall silent a little past the box", 1.19 < good < 1.3 and 0.75 < bad < 0.81, said)
    yield Property(
        "with a smaller ε sooner",
        1.04 < narrow.ratios[0, 0] < 1.1,
        f"with eps = 0.05 the good action ends at {narrow.ratios[0, 0]:.4g}",
    )
    yield Property("more epochs go further until then", 1.0 < few.ratios[0, 0] < good)


@CHAPTER.check("inside-the-box", section="sec-box")
def inside_the_box(answer: Answer) -> Findings:
    def furthest(world: _OneState) -> float:
        return float(np.abs(world.ratios - 1).max())

    results = {}
    for rate in (0.5, 30.0, 1000.0):
        world = _OneState(rate, learners=2)
        shown = _log_ratios(world.run(answer), (2, 3))
        results[rate] = world.ratios
        said = f"with a learning rate of {rate:g} the ratios end at {numbers(world.ratios[0], 4)}"
        if furthest(world) < 1e-6:
            yield Mistake(
                "nothing moves",
                seen=f"with a learning rate of {rate:g} the policy is what it was.",
                think="the old policy is inside the box, to be sure. It is not the only one.",
                section="sec-box",
            )
        if world.ratios[0, 0] < 1 or world.ratios[0, 2] > 1:
            yield Mistake(
                "it goes the wrong way",
                seen=f"{said}, for the advantages 1, 0 and −1.",
                think="whatever shortens the step should not turn it round.",
                section="sec-box",
            )
        if furthest(world) > 0.2 + 1e-4:
            past = "a little" if furthest(world) < 0.3 else "far"
            yield Mistake(
                "a ratio is outside the box",
                seen=f"{said}: {past} outside.",
                think="the clip takes the push away and leaves the ratio where it is. What puts it back?",
                section="sec-box",
            )
        if not close(np.exp(shown), world.ratios, 1e-3):
            yield Mistake(
                "what it reports is not what happened",
                seen=f"{said}, and the log ratios that came back say {numbers(np.exp(shown[0]), 4)}.",
                think="a clamp on the reported ratio leaves the policy where it was. Move the policy.",
                section="sec-box",
            )
    # One learner with a batch that leads far, beside one whose batch says nearly nothing.
    wild = _OneState(1.0, learners=2)
    wild.worth = torch.tensor([[30.0, 0.0, -30.0], [0.3, 0.0, -0.3]])
    wild.run(answer)
    calm = _OneState(1.0, learners=2)  # as many, so that a mean over all of them weighs each the same
    calm.worth = torch.tensor([[0.3, 0.0, -0.3], [0.3, 0.0, -0.3]])
    calm.run(answer)
    beside, in_peace = numbers(wild.ratios[1], 4), numbers(calm.ratios[1], 4)
    if np.abs(wild.ratios[1] - 1).max() < 0.5 * np.abs(calm.ratios[1] - 1).max():
        yield Mistake(
            "one learner holds up the others",
            seen=f"a learner with small advantages ends at {in_peace} beside one of its kind, and beside a "
            f"wild neighbour at {beside}.",
            think="each learner has a ratio of its own to mind. Along which axis do you ask whether any is "
            "outside?",
            section="sec-box",
        )
    narrow = _OneState(1.0)
    narrow.run(answer, eps=0.05)
    if furthest(narrow) > 0.05 + 1e-4:
        yield Mistake(
            "eps is not used",
            seen=f"with eps = 0.05 the ratios end at {numbers(narrow.ratios[0], 4)}.",
            think="the box is the caller's.",
            section="sec-clip",
        )
    # Sixty learners that would go differently far, half of them with a good action, half with a bad one.
    many = _OneState(60.0, learners=60)
    many.worth = torch.tensor([[1.0, -0.5, -0.5], [-1.0, 0.5, 0.5]]).repeat(30, 1)
    many.worth = many.worth * torch.linspace(1, 3, 60)[:, None]
    many.run(answer)
    top, bottom = float(many.ratios.max()), float(many.ratios.min())
    if 1.2001 < top < np.exp(0.2) + 1e-4 and bottom > 0.8 - 1e-4:
        yield Mistake(
            "the logarithm is compared with the box, not the ratio",
            seen=f"of sixty learners one ends with a ratio of {top:.4g}, and none below {bottom:.4g}.",
            think="the box is one for ratios. What is e to the power of 0.2?",
            section="sec-box",
        )
    if (top > 1.2 + 1e-4) != (bottom < 0.8 - 1e-4):
        yield Mistake(
            "inside at one end of the box only",
            seen="of sixty learners, half with a good action and half with a bad one, the ratios are "
            f"between {bottom:.4g} and {top:.4g}.",
            think="a ratio may leave the box upwards and downwards. Do you look for both?",
            section="sec-box",
        )
    # Ten states; what was not pulled is nobody's business, and what was is inside.
    rng = torch.Generator().manual_seed(0)
    large = _OneState(3.0)
    large.logits = torch.randn(4, 10, 5, generator=rng).requires_grad_()
    large.optimizer = _GradientDescent(large.logits, 100.0)
    large.states = torch.randint(10, (4, 64), generator=rng)
    large.actions = torch.randint(5, (4, 64), generator=rng)
    large.worth = torch.randn(4, 64, generator=rng)
    before = large.logits.detach().clone()
    shown = _log_ratios(large.run(answer), (4, 64))
    rows = torch.arange(4)[:, None]
    pulled = [
        table.log_softmax(-1)[rows, large.states, large.actions] for table in (large.logits.detach(), before)
    ]
    moved = (pulled[0] - pulled[1]).exp().double().numpy()
    gained = ((moved - 1) * large.worth.numpy()).mean(1)
    yield Property(
        "every ratio of the batch is inside, at any learning rate",
        bool(np.abs(moved - 1).max() < 0.2 + 1e-4)
        and close(np.exp(shown), moved, 1e-3)
        and furthest(many) < 0.2 + 1e-4,
        f"in a larger world the furthest is at {moved.flat[np.abs(moved - 1).argmax()]:.4g}",
    )
    yield Property(
        "the surrogate grows, for every learner",
        bool((gained > 1e-4).all()),
        f"it grows by {numbers(gained)}",
    )
    yield Property("with a smaller ε the box is smaller", furthest(narrow) > 0.005)


# ---------------------------------------------------------------------------------------------------
# A lower bound of what?


@CHAPTER.check("lower-bound", section="sec-lower-bound")
def lower_bound(answer: Answer) -> Findings:
    old = np.array([[0.1, 0.9], [0.5, 0.5], [0.5, 0.5]])
    new = as_array(answer(), (3, 2), "the policy")
    if (new < -1e-9).any() or not close(new.sum(1), np.ones(3), 1e-6):
        raise Stop(
            "returned",
            "not a policy",
            f"each row is a distribution: no entry below 0, and a sum of 1. Yours are {numbers(new)}.",
        )

    def earns(policy: np.ndarray) -> float:
        """Over all four ways through the house."""
        return float(
            sum(
                policy[0, side] * policy[1 + side, button] * (button == 0)
                for side, button in itertools.product(range(2), range(2))
            )
        )

    # In the hall all advantages are 0. In a room the first button has 1/2 and the second −1/2: the first
    # counts at most 1.2 times, the second at least 0.8 times.
    promised = sum(
        old[0, side]
        * 0.25
        * (np.minimum(new[1 + side, 0] / 0.5, 1.2) - np.maximum(new[1 + side, 1] / 0.5, 0.8))
        for side in range(2)
    )
    gained = earns(new) - earns(old)
    said = f"the clipped surrogate promises {promised:+.3f}, and the truth is {gained:+.3f}"
    if close(new, old, 1e-6):
        yield Mistake(
            "the old policy, unchanged",
            seen=f"{said}.",
            think="something has to become worse without the surrogate's noticing. What does it not look at?",
            section="sec-lower-bound",
        )
    if gained > -0.005 and promised > 0.005:
        yield Mistake(
            "the promise is kept",
            seen=f"{said}.",
            think="the surrogate counts each room as often as the old policy enters it. Who decides how "
            "often the new one does?",
            section="sec-lower-bound",
        )
    if promised < 0.005 and gained < -0.005:
        yield Mistake(
            "nothing was promised",
            seen=f"{said}: here the surrogate warns.",
            think="it should be pleased by what it sees. Which room does it see most of?",
            section="sec-lower-bound",
        )
    yield Property("the clipped surrogate promises 0.02 or more", promised >= 0.02 - 1e-9, said)
    yield Property("in truth the return falls by 0.02 or more", gained <= -0.02 + 1e-9, said)


# ---------------------------------------------------------------------------------------------------
# Three actions


def _probs(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@CHAPTER.check("three-actions-target", section="sec-three-actions")
def three_actions_target(answer: Answer) -> Findings:
    worth = np.array([1.0, 0.0, -1.0])
    even, tilted = np.zeros(3), np.log([0.2, 0.5, 0.3])

    def ask(logits: np.ndarray, advantages: np.ndarray) -> np.ndarray:
        return as_array(answer(logits, advantages), logits.shape, "the probabilities")

    def value(new: np.ndarray, old: np.ndarray) -> float:
        return float((new * worth).sum() - (new * np.log(new / old)).sum())

    got, other = ask(even, worth), ask(tilted, worth)
    if not close(got.sum(), 1.0, 1e-3) or (got < -1e-6).any():
        yield Mistake(
            "not probabilities",
            seen=f"for old logits of zero you get {numbers(got)}.",
            think="they should be positive and add up to 1. Are these logits, or ratios?",
            section="sec-three-actions",
        )
    if got.max() > 0.999:
        yield Mistake(
            "the price of distance is left out",
            seen=f"for old logits of zero you get {numbers(got)}.",
            think="that is the best without any leash. How dear is it to have a probability of zero where "
            "the old policy has one third?",
            section="sec-three-actions",
        )
    if close(got, ask(tilted, worth)) and not close(got, np.full(3, 1 / 3)):
        yield Mistake(
            "the old policy does not come in",
            seen=f"from three equal probabilities and from (0.2, 0.5, 0.3) you arrive at the same place, "
            f"{numbers(got)}.",
            think="distance is measured from the old policy.",
            section="sec-three-actions",
        )

    def gaps(new: np.ndarray, old: np.ndarray, how: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        shifted = how(np.clip(new, 1e-9, None) / old)
        return shifted - shifted.mean()

    if close(gaps(got, np.full(3, 1 / 3), lambda r: -1 / r), worth, 1e-2):
        yield Mistake(
            "the KL in the other direction",
            seen=f"for old logits of zero you get {numbers(got)}, the best for KL(old, new).",
            think="here the expectation in the KL is under the *new* policy.",
            section="sec-three-actions",
        )
    if close(gaps(got, np.full(3, 1 / 3), np.log), worth / 3, 1e-3):
        yield Mistake(
            "one gradient step, not the optimum",
            seen=f"for old logits of zero you get {numbers(got)}.",
            think="a step of length 1 along the gradient by the logits goes a third of the way here. Where "
            "is the derivative of the objective zero?",
            section="sec-three-actions",
        )
    if close(got, np.full(3, 1 / 3)) and close(other, _probs(tilted)):
        yield Mistake(
            "the advantages do not come in",
            seen=f"for old logits of zero you get {numbers(got)}: the old policy.",
            think="that is the cheapest policy. What does a small step towards the first action earn, and "
            "what does it cost?",
            section="sec-three-actions",
        )
    if close(got, np.full(3, 1 / 3)):
        yield Mistake(
            "the advantages are lost at logits of zero",
            seen=f"for old logits of zero and the advantages 1, 0 and −1 you get {numbers(got)}.",
            think="set the derivative to zero once more, and mind how log π and A stand to each other in it.",
            section="sec-three-actions",
        )
    if close(gaps(got, np.full(3, 1 / 3), np.log), -worth, 1e-3):
        yield Mistake(
            "the bad action is preferred",
            seen=f"for old logits of zero and the advantages 1, 0 and −1 you get {numbers(got)}.",
            think="which of the three should become likelier?",
            section="sec-three-actions",
        )
    steep = gaps(got, np.full(3, 1 / 3), np.log)
    if steep[0] > 0.1 and close(steep, steep[0] * worth, 1e-3) and not close(steep[0], 1.0, 1e-2):
        yield Mistake(
            "the price of distance is not 1",
            seen=f"for old logits of zero you get {numbers(got)}, the best at a price of {1 / steep[0]:.3g}.",
            think="what stands before the KL in the objective?",
            section="sec-three-actions",
        )
    raw = np.exp(_probs(tilted) + worth)
    if close(other, raw / raw.sum()):
        yield Mistake(
            "the old probabilities stand where their logarithms belong",
            seen="for old logits of zero your answer is right, and from (0.2, 0.5, 0.3) you get "
            f"{numbers(other)}.",
            think="what you solved is an equation for log π. Which old quantity is on its other side?",
            section="sec-three-actions",
        )
    for new, old, words in (
        (got, np.full(3, 1 / 3), "three equal ones"),
        (other, _probs(tilted), "(0.2, 0.5, 0.3)"),
    ):
        best = value(np.clip(new, 1e-9, None), old)
        nearby = max(
            value(moved / moved.sum(), old)
            for i, j in itertools.permutations(range(3), 2)
            for size in (0.003, 0.03)
            if (moved := new + size * (np.eye(3)[i] - np.eye(3)[j])).min() > 1e-6
        )
        yield Property(
            f"from {words}, no policy near it is better",
            best >= nearby - 1e-9,
            f"at yours the objective is {best:.5f}, near it there is {nearby:.5f}",
        )
    yield Property("the probabilities add up to 1", close([got.sum(), other.sum()], [1.0, 1.0], 1e-5))
    yield Property(
        "where all advantages are alike, the old policy is best",
        close(ask(tilted, np.full(3, 0.7)), _probs(tilted)),
    )


def _clipped_value(logits: np.ndarray, old: np.ndarray, worth: np.ndarray, eps: float) -> float:
    """The expectation written out: a term grows with slope A from 1 to its ratio, or to its knee."""
    total = 0.0
    for p, q, a in zip(old, _probs(logits), worth, strict=True):
        reached = q / p
        if a > 0 and reached > 1 + eps:
            reached = 1 + eps
        if a < 0 and reached < 1 - eps:
            reached = 1 - eps
        total += p * (a + a * (reached - 1))
    return total


def _slopes(logits: np.ndarray, old: np.ndarray, worth: np.ndarray, eps: float) -> np.ndarray:
    step = 1e-6
    return np.array(
        [
            (_clipped_value(logits + bump, old, worth, eps) - _clipped_value(logits - bump, old, worth, eps))
            / (2 * step)
            for bump in step * np.eye(len(logits))
        ]
    )


@CHAPTER.check("three-actions-slope", section="sec-three-actions")
def three_actions_slope(answer: Answer) -> Findings:
    worth, even = np.array([1.0, 0.0, -1.0]), np.zeros(3)

    def ask(logits: np.ndarray, old: np.ndarray, advantages: np.ndarray, eps: float = 0.2) -> np.ndarray:
        return as_array(answer(logits, old, advantages, eps), logits.shape, "the gradient")

    lopsided = np.array([2.0, 0.0, -1.0])
    tilted = np.log([0.2, 0.5, 0.3])
    away = tilted + np.array([0.1, 0.0, -0.05])
    start, there = ask(even, even, worth), ask(away, tilted, lopsided)
    said = f"at the old policy your gradient is {numbers(start)}"
    if close(start, [-1 / 3, 0.0, 1 / 3], 1e-3):
        yield Mistake(
            "downhill",
            seen=f"{said}: it pushes the good action down.",
            think="this is the gradient of the objective, not of a loss.",
            section="sec-three-actions",
        )
    if close(start, [1.0, 0.0, -1.0], 1e-3) and close(there, lopsided, 1e-3):
        yield Mistake(
            "the gradient by the probabilities, not by the logits",
            seen=f"{said}, and elsewhere it is the advantages too.",
            think="the logits were asked for. How does a probability move when a logit does?",
            section="sec-three-actions",
        )
    if close(start, [1 / 9, 0.0, -1 / 9], 1e-3):
        yield Mistake(
            "a mean over the actions, on top of the expectation",
            seen=f"{said}.",
            think="an expectation is a sum in which each action has the weight of its probability. Is it "
            "divided by the number of actions as well?",
            section="sec-three-actions",
        )
    if close(start, [1.0, 0.0, -1.0], 1e-3):
        yield Mistake(
            "a sum over the actions, not an expectation",
            seen=f"{said}.",
            think="how often does the old policy take each of the three?",
            section="sec-three-actions",
        )
    if close(start, [2 / 3, -1 / 3, -1 / 3], 1e-3):
        yield Mistake(
            "one sample, not the expectation",
            seen=f"{said}: that is what the first action alone would say.",
            think="the third action has something to say as well, a third of the time.",
            section="sec-three-actions",
        )
    exact = _slopes(away, _probs(tilted), lopsided, 0.2)
    if close(there, _probs(away) * lopsided, 1e-3) or close(there, _probs(tilted) * lopsided, 1e-3):
        yield Mistake(
            "the softmax is forgotten",
            seen=f"from other logits, with the advantages 2, 0 and −1, your gradient is {numbers(there)}: "
            "the second logit is not pushed at all.",
            think="a logit stands in the denominator of every probability. What does raising one do to the "
            "others?",
            section="sec-three-actions",
        )
    under_new = _probs(away)
    surrogate = under_new * under_new / _probs(tilted) * lopsided
    if close(there, surrogate - under_new * surrogate.sum(), 1e-3):
        yield Mistake(
            "the expectation is taken under the new policy",
            seen="at the old policy your gradient is right, and away from it each action counts as often as "
            "the *new* policy takes it, with its ratio on top.",
            think="who played the batch? The ratio is there to correct for that, once.",
            section="sec-three-actions",
        )
    vanilla = _probs(tilted) * lopsided
    if close(there, vanilla - under_new * vanilla.sum(), 1e-3):
        yield Mistake(
            "the ratio is left out of the slope",
            seen="at the old policy your gradient is right, and a little away from it it is "
            f"{numbers(there)}, where differences give {numbers(exact)}.",
            think="∇r is r times the score.",
            section="sec-ratio-one",
        )
    past = np.log([0.45, 0.4, 0.15])  # both acting samples past their knees
    beyond = ask(past, even, worth)
    wrong_way = np.log([0.2, 0.35, 0.45])  # both have moved against their advantages, out of the box
    back = ask(wrong_way, even, worth)
    if np.abs(back).max() < 1e-6 < np.abs(beyond).max():
        yield Mistake(
            "flat on the wrong side",
            seen="at the ratios (0.6, 1.05, 1.35) your gradient is zero, and at (1.35, 1.2, 0.45) it is "
            f"{numbers(beyond)}.",
            think="which of the two should stop: what has gone the way it should, or the other?",
            section="sec-four-cases",
        )
    if np.abs(beyond).max() > 1e-6:
        free = _slopes(past, np.full(3, 1 / 3), worth, 1e9)
        if close(beyond, free, 1e-3):
            yield Mistake(
                "nothing is clipped",
                seen=f"at the ratios (1.35, 1.2, 0.45) your gradient is {numbers(beyond)}.",
                think="the first is past its knee, and so is the third. Who still pushes?",
                section="sec-four-cases",
            )
    if np.abs(back).max() < 1e-6:
        yield Mistake(
            "flat is not the same as outside the box",
            seen="at the ratios (0.6, 1.05, 1.35) your gradient is zero: both have moved the wrong way.",
            think="who brings them back?",
            section="sec-four-cases",
        )
    wide = ask(past, even, worth, 0.6)
    if np.abs(wide).max() < 1e-6 and np.abs(beyond).max() < 1e-6:
        yield Mistake(
            "eps is not used",
            seen="at the ratios (1.35, 1.2, 0.45) your gradient is zero, for eps = 0.2 and for eps = 0.6.",
            think="the box reaches from 1 − ε to 1 + ε, whatever ε the caller asks for.",
            section="sec-clip",
        )
    yield Property(
        "at the old policy it is the policy gradient", close(start, [1 / 3, 0.0, -1 / 3], 1e-3), said
    )
    yield Property(
        "it is what differences give, at other logits too",
        close(there, exact, 1e-3) and close(back, _slopes(wrong_way, np.full(3, 1 / 3), worth, 0.2), 1e-3),
        f"you get {numbers(there)}, differences give {numbers(exact)}",
    )
    yield Property(
        "past both knees it is zero",
        np.abs(beyond).max() < 1e-6,
        f"at the ratios (1.35, 1.2, 0.45) it is {numbers(beyond)}",
    )
    one_left = np.log([0.42, 0.3, 0.28])  # ratios 1.26, 0.9, 0.84: only the third still pushes
    yield Property(
        "past one knee the other sample still moves all three logits",
        close(ask(one_left, even, worth), _slopes(one_left, np.full(3, 1 / 3), worth, 0.2), 1e-3),
        f"at the ratios (1.26, 0.9, 0.84) it is {numbers(ask(one_left, even, worth))}",
    )
    knee = np.log([0.28, 0.42, 0.3])  # from the tilted policy: the ratios 1.4, 0.84, 1
    there = ask(knee, tilted, lopsided)
    yield Property(
        "the knees are those of the old policy's ratios, whatever the old policy is",
        close(there, _slopes(knee, _probs(tilted), lopsided, 0.2), 1e-3),
        f"from (0.2, 0.5, 0.3), at the ratios (1.4, 0.84, 1), it is {numbers(there)}",
    )
    yield Property(
        "ε is the caller's",
        close(wide, _slopes(past, np.full(3, 1 / 3), worth, 0.6), 1e-3),
        f"with eps = 0.6, at the ratios (1.35, 1.2, 0.45), it is {numbers(wide)}",
    )
    yield Property("its entries add up to zero", close(there.sum(), 0.0), f"they add up to {there.sum():.3g}")


@CHAPTER.check("three-actions", section="sec-three-actions")
def three_actions(answer: Answer) -> Findings:
    worth = np.array([1.0, 0.0, -1.0])

    def ask(
        step: float, most: int = 5000, old: np.ndarray | None = None, a: np.ndarray = worth
    ) -> np.ndarray:
        start = np.zeros(3) if old is None else np.log(old)
        back = answer(start, a, step, most)
        if back is None:
            raise Stop(
                "returned",
                "nothing came back",
                "an array [steps + 1, 3] must come back. Is there a `return`?",
            )
        try:
            path = np.asarray(back, dtype=np.float64)
        except (TypeError, ValueError):
            raise Stop("returned", "wrong type", "it must be an array [steps + 1, 3].") from None
        if path.ndim == 1 and path.shape == (3,):
            raise Stop(
                "returned", "only the end", "the ratios after *each* step must come back, and at the start."
            )
        if path.ndim != 2 or path.shape[1] != 3 or not len(path):
            raise Stop(
                "returned", "wrong shape", f"it must have shape [steps + 1, 3], and has {list(path.shape)}."
            )
        if not np.isfinite(path).all():
            raise Stop("returned", "not finite", "a ratio that is not finite came back.")
        return path

    path = ask(0.005)
    first, last = path[0], path[-1]
    said = f"with steps of 0.005 you end at {numbers(last, 5)} after {len(path) - 1} steps"
    if close(first, np.full(3, 1 / 3)) or close(first, np.zeros(3)):
        yield Mistake(
            "probabilities, not ratios" if close(first, np.full(3, 1 / 3)) else "logarithms, not ratios",
            seen=f"your path begins at {numbers(first)}.",
            think="new over old. What is it before the first step?",
            section="sec-three-actions",
        )
    if not close(first, np.ones(3)):
        yield Mistake(
            "the start is missing",
            seen=f"your path begins at {numbers(first, 5)}.",
            think="the first row is that of the old policy, before any step.",
            section="sec-three-actions",
        )
    if len(path) == 1:
        yield Mistake(
            "it stops before its first step",
            seen="for three equally likely actions with the advantages 1, 0, −1 only the start comes back.",
            think="one entry of the slope is zero there. Are all of them?",
            section="sec-three-actions",
        )
    if close(np.mean(1 / last), 1.0) and not close(np.mean(last), 1.0):
        yield Mistake(
            "the ratio is upside down",
            seen=f"{said}: new probabilities of a third times these would add up to {np.mean(last):.4g}.",
            think="new over old.",
            section="sec-clip",
        )
    if last[0] < 1:
        yield Mistake(
            "downhill",
            seen=f"{said}: the good action became rarer.",
            think="climb.",
            section="sec-three-actions",
        )
    if last[0] > 1.3 and len(path) > 100:
        yield Mistake(
            "the anchor moves along",
            seen=f"{said}.",
            think="the ratio, and so the clip, refers to the policy that played the batch. Which logits do "
            "you pass as the old ones? (And does the slope that you climb know of the clip?)",
            section="sec-three-actions",
        )
    if 1.195 < last[0] < 1.2035 and last[2] > 0.805:
        yield Mistake(
            "it stops when the first action falls silent",
            seen=f"{said}.",
            think="the third action still pushes. Is the slope zero *everywhere*?",
            section="sec-three-actions",
        )
    if (
        last[0] <= 1.2 + 1e-9
        and last[2] >= 0.8 - 1e-9
        and (abs(last[0] - 1.2) < 1e-6 or abs(last[2] - 0.8) < 1e-6)
    ):
        yield Mistake(
            "the policy is put back into the box",
            seen=f"{said}.",
            think="the clip takes a gradient away. Does it put anything anywhere?",
            section="sec-three-actions",
        )
    if len(path) > 100 and close(path[-1], path[-2], 1e-12):
        yield Mistake(
            "it goes on when nothing pushes",
            seen=f"{said}, and of these the last ones do not move at all.",
            think="how does the loop learn that the slope is zero everywhere?",
            section="sec-three-actions",
        )
    other = ask(0.005, most=3, old=np.array([0.2, 0.5, 0.3]))[0]
    if not close(other, np.ones(3)):
        yield Mistake(
            "it does not begin at the old policy",
            seen=f"from the old policy (0.2, 0.5, 0.3) your path begins at {numbers(other)}.",
            think="with old logits of zero it is right. Where does the climb begin when they are others?",
            section="sec-three-actions",
        )
    whole = ask(0.005, most=7)
    if len(whole) != 8:
        yield Mistake(
            "most is not the number of steps",
            seen=f"with most = 7 your path has {len(whole)} rows.",
            think="the start, and one row after each step.",
            section="sec-three-actions",
        )
    single = ask(0.3, most=1)
    moved = np.log(single[-1])
    yield Property("it begins at the ratios 1", close(first, np.ones(3)))
    yield Property(
        "the first step moves the logits by `step` times (1/3, 0, −1/3)",
        close(moved - moved.mean(), [0.1, 0.0, -0.1], 1e-3),
        f"with a step of 0.3 they move by {numbers(moved - moved.mean())}",
    )
    yield Property(
        "the first action passes its knee, and the third still carries it on",
        bool(1.205 < last[0] < 1.225 and (path[:, 0] > 1.2).sum() > 3),
        said,
    )
    yield Property("it ends where both are past their knees", last[0] > 1.2 and 0.79 < last[2] < 0.8, said)
    yield Property("the second loses, though its advantage is zero", 0.98 < last[1] < 0.99, said)
    # A good action near its knee's limit pushes another one out of the box, against its small advantage.
    crowd, small = np.array([0.7, 0.2, 0.1]), np.array([1.0, 0.1, 0.0])
    route, logits = ask(1.0, most=12, old=crowd, a=small), np.log(crowd)
    differences = [np.ones(3)]
    for _ in range(12):
        logits = logits + _slopes(logits, crowd, small, 0.2)
        differences.append(_probs(logits) / crowd)
    yield Property(
        "each step adds `step` times the slope that differences give, outside the box too",
        close(route, differences, 1e-3),
        "from (0.7, 0.2, 0.1), with the advantages 1, 0.1, 0, twelve steps of 1 lead to "
        f"{numbers(route[-1], 4)}, and by differences to {numbers(differences[-1], 4)}",
    )
    far = ask(10.0)
    yield Property(
        "a long step overshoots more", far[-1][0] > 2, f"with steps of 10 you end at {numbers(far[-1])}"
    )
    alone = ask(0.005, old=np.array([0.25, 0.25, 0.5]), a=np.array([1.0, 0.0, 0.0]))[-1]
    yield Property(
        "from another old policy, a good action alone stops at its knee",
        bool(1.2 < alone[0] < 1.203),
        f"from (0.25, 0.25, 0.5), with the advantages 1, 0, 0, you end at {numbers(alone, 5)}",
    )


# ---------------------------------------------------------------------------------------------------
# From a box to a KL


@CHAPTER.check("eps-kl", section="sec-eps-kl")
def eps_kl(answer: Answer) -> Findings:
    def ask(low: float, high: float) -> np.ndarray:
        back = answer(low, high)
        if not isinstance(back, tuple | list | np.ndarray | Tensor) or len(back) != 3:
            raise Stop("returned", "not three numbers", "it must be three numbers, in the order of the text.")
        return np.array([float(as_array(bound, (), "a bound")) for bound in back])

    def search(low: float, high: float) -> np.ndarray:
        """Over policies of two actions whose ratios lie on a grid in the box; and over single ratios."""
        worst = np.zeros(3)
        below, above = np.linspace(1 - low, 1, 41)[:-1], np.linspace(1, 1 + high, 41)[1:]
        for r, q in itertools.product(below, above):
            p = (q - 1) / (q - r)  # the old probability of the action with ratio r: the mean ratio is 1
            forward = -p * np.log(r) - (1 - p) * np.log(q)
            backward = p * r * np.log(r) + (1 - p) * q * np.log(q)
            worst = np.maximum(worst, [forward, backward, 0])
        single = max(r - 1 - np.log(r) for r in (*below, *above))
        return np.array([worst[0], worst[1], single])

    got = ask(0.2, 0.2)
    found = search(0.2, 0.2)
    said = f"at 0.2 and 0.2 you get {numbers(got, 4)}"
    if close(got * np.log(2), found):
        yield Mistake(
            "in bits, not in nats",
            seen=f"{said}.",
            think="which logarithm?",
            section="sec-eps-kl",
        )
    if close(got[0], -np.log(0.8), 1e-3) or close(got[0], np.log(1.2), 1e-3):
        yield Mistake(
            "every ratio at the same end of the box",
            seen=f"{said}: the first is what −log r would be if all actions had one and the same ratio.",
            think="the new probabilities add up to 1. Can all of them be smaller than the old ones?",
            section="sec-eps-kl",
        )
    if close(got[1], 0.8 * np.log(0.8), 1e-3) or close(got[1], 1.2 * np.log(1.2), 1e-3):
        yield Mistake(
            "every ratio at the same end of the box",
            seen=f"{said}: the second is what r log r would be if all actions had one and the same ratio.",
            think="the new probabilities add up to 1. Can all of them be larger than the old ones?",
            section="sec-eps-kl",
        )
    if close(got[0], 0.02, 1e-6) or close(got[1], 0.02, 1e-6):
        yield Mistake(
            "the approximation, not the bound",
            seen=f"{said}: a policy of two actions with the ratios 0.8 and 1.2 has KL(old, new) = "
            f"{found[0]:.4f}.",
            think="ε²/2 is what both come near to as ε becomes small. The bounds themselves are logarithms.",
            section="sec-eps-kl",
        )
    if close(got[:2], found[[1, 0]], 2e-5):
        yield Mistake(
            "the two directions are exchanged",
            seen=f"{said}.",
            think="KL(old, new) averages −log r under the old policy. Which of the two is r log r?",
            section="sec-eps-kl",
        )
    if close(got[2], 0.2 - np.log(1.2), 1e-4) and not close(got[2], found[2], 1e-3):
        yield Mistake(
            "the wrong end of the box for a sample",
            seen=f"{said}; a sample at r = 0.8 gives {found[2]:.4f}.",
            think="try both ends.",
            section="sec-eps-kl",
        )
    if close(got[2], 0.8 * np.log(0.8) + 0.2, 1e-4):
        yield Mistake(
            "the sample's KL in the other direction",
            seen=f"{said}; (r − 1) − log r at r = 0.8 is {found[2]:.4f}.",
            think="there is no r in front of the logarithm in approx_kl.",
            section="sec-eps-kl",
        )
    uneven = ask(0.2, 0.5)
    wide = search(0.2, 0.5)
    shown = f"for the box [0.8, 1.5] you get {numbers(uneven, 4)}"
    if close(uneven, got, 1e-4) or close(uneven[:2], got[:2], 1e-4):
        yield Mistake(
            "the upper end does not come in",
            seen=f"{shown}, as for [0.8, 1.2].",
            think="the box reaches further now, and a policy may use that.",
            section="sec-eps-kl",
        )
    middle = np.array([-np.log([0.8, 1.5]).mean(), (np.array([0.8, 1.5]) * np.log([0.8, 1.5])).mean()])
    if close(uneven[0], middle[0], 1e-4) or close(uneven[1], middle[1], 1e-4):
        yield Mistake(
            "both ends weighed alike",
            seen=f"{shown}; the largest that a search over two actions finds is {numbers(wide, 4)}.",
            think="the ratios have mean 1. Can half of the probability be at 0.8 and half at 1.5?",
            section="sec-eps-kl",
        )
    low, high = 0.8, 1.5
    lever = np.array([0.2, 0.5]) / 0.7  # a mean ratio of 0.8 · 2/7 + 1.5 · 5/7 = 1.3, which no policy has
    turned = lever @ -np.log([low, high]), lever @ (np.array([low, high]) * np.log([low, high]))
    if close(uneven[0], turned[0], 1e-4) or close(uneven[1], turned[1], 1e-4):
        yield Mistake(
            "the weights of the two ends are exchanged",
            seen=f"{shown}; the largest that a search over two actions finds is {numbers(wide, 4)}.",
            think="the ratios have mean 1. Which end is nearer to 1, and so needs the larger weight?",
            section="sec-eps-kl",
        )
    if close(uneven[2], found[2], 1e-4):
        yield Mistake(
            "the larger end of the box is not always the lower one",
            seen=f"{shown}; a sample at r = 1.5 gives {wide[2]:.4f}.",
            think="try both ends.",
            section="sec-eps-kl",
        )
    yield Property("no policy of two actions in the box goes beyond", bool((got >= found - 1e-6).all()), said)
    yield Property("one policy in the box reaches each", close(got, found, 1e-4), said)
    yield Property("in a box that reaches further up too", close(uneven, wide, 1e-3), shown)
    small = ask(0.02, 0.02) / 0.02**2  # no smaller: float32 has too few digits for a KL of a millionth
    yield Property(
        "for small ε all three are near ε²/2",
        close(small, [0.5] * 3, 1e-2),
        f"at 0.02 they are {numbers(small)} ε²",
    )
