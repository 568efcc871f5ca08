"""Checks of what is filled in by hand: the two tables, a diagnosis, and the weights of the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .. import Answer, Findings, Property, Stop, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, near_the_ends

WORDS = dict.fromkeys(("yes", "y", "true", "flat"), True) | dict.fromkeys(
    ("no", "n", "false", "not flat"), False
)


def _flag(value: Any, where: str) -> bool:
    if isinstance(value, str) and (word := value.strip().lower()) in WORDS:
        return WORDS[word]
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if number in (0, 1) and not isinstance(value, str):
        return bool(number)
    raise Stop("returned", "not a yes or no", f"{where}: the last entry is True or False; it is {value!r}.")


def _rows(back: Any, keys: tuple[Any, ...], entries: int, name: str = "ρ") -> dict[Any, list[Any]]:
    """The entries of the reader's rows, in the order of `keys`."""
    expected = f"the result must be a table with a row for each {name}: {', '.join(map(str, keys))}"
    if back is None:
        raise Stop("returned", "nothing came back", f"{expected}. Is the last line `return table`?")
    if isinstance(back, dict):
        found: dict[Any, Any] = {
            key: next((row for given, row in back.items() if _same_key(given, key)), None) for key in keys
        }
    elif isinstance(back, list | tuple | np.ndarray | torch.Tensor):
        if len(back) != len(keys):
            raise Stop("returned", "rows are missing", f"{expected}; there are {len(back)}.")
        found = dict(zip(keys, back, strict=True))
    else:
        raise Stop("returned", "no table", f"{expected}.")
    for key, row in found.items():
        if row is None:
            raise Stop("returned", "rows are missing", f"{expected}; there is none for {name} = {key}.")
        if not isinstance(row, list | tuple | np.ndarray | torch.Tensor) or len(row) not in (
            entries,
            entries + 1,
        ):
            raise Stop("returned", "not a row", f"row {name} = {key}: it must have {entries} entries.")
        found[key] = list(row)[-entries:]  # one more, in front, would be the key itself
        if any(entry is ... or entry is None for entry in found[key]):
            raise Stop(
                "returned", "an entry is still empty", f"row {name} = {key} still has an entry to fill."
            )
    return found


def _same_key(given: Any, key: Any) -> bool:
    try:
        return bool(np.allclose(np.array(given, dtype=float), key, atol=1e-6))
    except (TypeError, ValueError):
        return False


def _table_findings(back: Any, ratios: tuple[float, ...], a: float) -> Findings:
    rows = _rows(back, ratios, 5)
    numbers_of = [
        [float(as_array(x, (), f"row ρ = {r}: an entry")) for x in row[:4]] for r, row in rows.items()
    ]
    flat = np.array([_flag(row[4], f"row ρ = {r}") for r, row in rows.items()])
    table, r = np.array(numbers_of), np.array(ratios)
    plain, clipped, product, least = table.T
    at = {str(ratio): table[i] for i, ratio in enumerate(ratios)}
    shown = {"plain": plain, "clipped": clipped, "product": product, "least": least, "low": at["0.5"]}
    shown |= {"high": at["1.5"], "a": "+1" if a > 0 else "−1"}
    good = a > 0
    side, bound, knee = (r > 1.21, 0.8, 1.2) if good else (r < 0.79, 1.2, 0.8)
    outside, box = np.abs(r - 1) > 0.21, np.clip(r, 0.8, 1.2)
    right_plain, right_clip = close(plain, r * a), close(clipped, box)
    follows = right_plain and close(product, clipped * a) and not close(product, plain)
    # What the column min is where it ought to be something else: the row that shows a wrong choice.
    shown |= {"other": "ρ = 1.5", "pair": at["1.5"]} if good else {"other": "ρ = 0.5", "pair": at["0.5"]}
    back_side = at["0.5"] if good else at["1.5"]
    shown |= {"astray": "ρ = 0.5" if good else "ρ = 1.5", "back": back_side}
    yield from recognise(
        table,
        {
            "the sign of the advantage is lost": not good and bool((plain > 0).all()),
            "the column clip(r) is r itself": close(clipped, r),
            "clipped on one side only": close(clipped, np.minimum(r, 1.2))
            or close(clipped, np.maximum(r, 0.8)),
            "the clip is put on the product": right_plain and not good and close(product, 0 * r + 0.8),
            "−0.8 is taken for a floor": not good and close(least.min(), -0.8) and close(least[-1], -0.8),
            "the larger of the two": follows and good and close(least, np.maximum(plain, product)),
            "the smaller in size, not the smaller number": follows
            and not good
            and close(least, np.maximum(plain, product)),
            "the clip without the minimum": follows and close(least, product),
            "the clip never counts": follows and close(least, plain),
            "nothing is flat": not flat.any(),
            "everything is flat": flat.all(),
            "flat and not flat are exchanged": (flat != side).all(),
            "flat on the wrong side": (flat[outside] != side[outside]).all(),
            "flat is not the same as outside the clip range": flat[outside].all(),
            "an end of the clip range that is no knee here": right_clip
            and flat[np.abs(r - bound) < 0.01].any(),
            "the knee itself is called flat": right_clip and flat[np.abs(r - knee) < 0.01].any(),
        },
        bound=bound,
        knee=knee,
        **shown,
    )
    for i, ratio in enumerate(ratios):
        wrong = []
        if not close(plain[i], ratio * a):
            wrong.append("ρ A")
        if not close(clipped[i], box[i]):
            wrong.append("clip(ρ)")
        # An entry that follows from a wrong one to its left is not wrong once more, nor is a right one.
        if not close(product[i], clipped[i] * a) and not close(product[i], box[i] * a):
            wrong.append("clip(ρ) A")
        lower, lowest = sorted([plain[i], product[i]])[0], sorted([ratio * a, box[i] * a])[0]
        if not close(least[i], lower) and not close(least[i], lowest):
            wrong.append("min")
        # The clip has taken something away only where the smaller product is truly below r A.
        if flat[i] not in (lower < ratio * a - 1e-6, lowest < ratio * a - 1e-6):
            wrong.append("flat?")
        yield Property(f"r = {ratio}", not wrong, f"look again at {', '.join(wrong)}")


@CHAPTER.check("clip-table-up", section="sec-four-cases")
def clip_table_up(answer: Answer) -> Findings:
    yield from _table_findings(answer(), (0.5, 0.8, 1.1, 1.2, 1.5), 1.0)


@CHAPTER.check("clip-table-down", section="sec-four-cases")
def clip_table_down(answer: Answer) -> Findings:
    yield from _table_findings(answer(), (0.5, 0.8, 1.0, 1.2, 1.5), -1.0)


# ---------------------------------------------------------------------------------------------------
# What a faulty loss does


CASES = ((0.5, 1), (1.5, 1), (0.5, -1), (1.5, -1))


@CHAPTER.check("hunt-minmax", section="sec-four-cases")
def hunt_minmax(answer: Answer) -> Findings:
    rows = _rows(answer(), CASES, 2, "(ρ, A)")
    got = np.array([[float(as_array(x, (), f"row {k}: an entry")) for x in row] for k, row in rows.items()])
    faulty, healthy = got.T
    # Worked out by differences: how the objective of one sample changes with r, for either choice.
    step = 1e-4
    slopes = np.zeros((4, 2))
    for i, (r, a) in enumerate(CASES):
        for j, last in enumerate((1, 0)):  # the larger of the two products, and the smaller
            ends = [sorted([x * a, sorted([0.8, x, 1.2])[1] * a])[last] for x in (r - step, r + step)]
            slopes[i, j] = (ends[1] - ends[0]) / (2 * step)
    r, a = np.array(CASES).T
    values = np.maximum(r * a, np.clip(r, 0.8, 1.2) * a), np.minimum(r * a, np.clip(r, 0.8, 1.2) * a)
    yield from recognise(
        got,
        {
            "the two columns are exchanged": slopes[:, ::-1],
            "the slopes of the loss, not of the objective": either(-slopes, -slopes[:, ::-1]),
            "the values, not the slopes": close(faulty, values[0])
            or close(faulty, -values[0])
            or close(healthy, values[1]),
            "the slope by log π, not by r": either(slopes * r[:, None], slopes[:, ::-1] * r[:, None]),
            "the same in both": close(faulty, healthy),
            "flat is not the same as outside the clip range": close(faulty, 0 * r) or close(healthy, 0 * r),
            "nothing is flat": close(faulty, a) or close(healthy, a),
            "the sign of the advantage is lost": close(got, np.abs(slopes)),
        },
        faulty=faulty,
        healthy=healthy,
    )
    for (ratio, sign), found, wanted in zip(CASES, got, slopes, strict=True):
        wrong = [
            word
            for word, x, y in zip(("suspicious", "healthy"), found, wanted, strict=True)
            if not close(x, y, 1e-3)
        ]
        yield Property(
            f"r = {ratio}, A = {'+1' if sign > 0 else '−1'}",
            not wrong,
            f"look again at the column {' and at '.join(wrong)}: you have {numbers(found)}",
        )


# ---------------------------------------------------------------------------------------------------
# Ratio 1


@CHAPTER.check("ratio-one", section="sec-ratio-one")
def ratio_one(answer: Answer) -> Findings:
    def ask(ratios: list[float], worth: list[float], eps: float = 0.2) -> np.ndarray:
        return as_array(answer(torch.tensor(ratios), torch.tensor(worth), eps), (len(ratios),), "the weights")

    one = ask([1.0] * 3, [2.0, -1.0, 0.5])
    up, down = ask([0.5, 1.1, 1.5], [2.0] * 3), ask([0.5, 0.9, 1.5], [-2.0] * 3)
    knees = ask([1.0, 1.0], [2.0, -2.0], 0.0)  # without a rounding error, however the ratio is taken
    wide = ask([1.5], [2.0], 0.6)
    all_up, all_down, good, bad = [1.0, 2.2, 3.0], [-1.0, -1.8, -3.0], [1.0, 2.2, 0.0], [0.0, -1.8, -3.0]
    yield from recognise(
        [one, up, down],
        {
            "the weights of the loss, not of the objective": close(one, [-2.0, 1.0, -0.5]),
            "averaged already": close(one, np.array([2.0, -1.0, 0.5]) / 3),
            "the slope by r, not by θ": [[2.0, -1.0, 0.5], [2.0, 2.0, 0.0], [0.0, -2.0, -2.0]],
            "the sign of the advantage is not asked for": either(
                [one, good, [-1.0, -1.8, 0.0]], [one, [0.0, 2.2, 3.0], bad]
            ),
            "flat for one sign of the advantage only": either([one, good, all_down], [one, all_up, bad]),
            "nothing pushes inside the clip range": close(one, 0 * one) and close(up, [1.0, 0.0, 0.0]),
            "nothing is flat": close(up, [2.0] * 3) or close(up, all_up),
            "the value, not the slope": close(up, [1.0, 2.2, 2.4]) or close(up, [1.6, 2.2, 2.4]),
            "flat is not the same as outside the clip range": close(up, [0.0, 2.2, 0.0]),
            "flat on the wrong side": close(up[[0, 2]], [0.0, 3.0]),
            "eps is not used": close(up, good) and close(wide, [0.0]),
            "the knee itself is called flat": close(up, good) and close(knees, [0.0, 0.0]),
        },
        one=one,
        up=up,
        down=down,
        knees=knees,
        sign="good" if close(down, all_down) else "bad",
    )
    yield Property(
        "at ρ = 1 the weight is the advantage, for any ε",
        close(one, [2.0, -1.0, 0.5]) and close(ask([1.0], [3.0], 0.01), [3.0]),
        f"the advantages 2, −1, 0.5 get {numbers(one)}",
    )
    yield Property(
        "a good action stops past 1 + ε, and pushes with ρ A before",
        close(up, good),
        f"at ρ = 0.5, 1.1, 1.5 and A = +2 the weights are {numbers(up)}",
    )
    yield Property(
        "a bad action stops below 1 − ε, and pushes with ρ A above",
        close(down, bad),
        f"at ρ = 0.5, 0.9, 1.5 and A = −2 the weights are {numbers(down)}",
    )
    yield Property(
        "exactly at a knee it still pushes",
        close(knees, [2.0, -2.0]),
        f"with eps = 0 and ρ = 1 the advantages 2 and −2 get the weights {numbers(knees)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        size, eps = rng.integers(1, 8), float(rng.choice([0.05, 0.2, 0.3, 0.7]))
        anywhere = np.exp(rng.choice([0.1, 0.5, 1.5, 5]) * rng.normal(size=size))
        return {
            "ratio": np.where(rng.random(size) < 0.5, near_the_ends(rng, eps, size), anywhere),
            "advantages": rng.choice([1e-4, 1, 100]) * rng.normal(rng.choice([-1, 0, 1]), size=size),
            "eps": eps,
        }

    def slow(p: Problem) -> list[float]:
        """Differentiate each sample's own term with respect to log π, by finite differences."""

        def term(change: float, r: float, a: float) -> float:
            moved = r * np.exp(change)
            return float(sorted([moved * a, sorted([1 - p.eps, moved, 1 + p.eps])[1] * a])[0])

        pairs = zip(p.ratio, p.advantages, strict=True)
        return [(term(1e-6, r, a) - term(-1e-6, r, a)) / 2e-6 for r, a in pairs]

    yield agrees(answer, slow, random_problems(draw, 60), what="the weights")
