"""Checks of the log-probabilities of tokens, and of the reward of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems
from . import CHAPTER, litter, masks, part, several

# Two rows of three columns of prompt and three of completion, four words. What the model says after each
# column of the first row; of the second row, with the words in the opposite order.
SAYS = np.array(
    [
        [0.10, 0.20, 0.30, 0.40],
        [0.70, 0.10, 0.15, 0.05],
        [0.25, 0.05, 0.60, 0.10],
        [0.02, 0.80, 0.05, 0.13],
        [0.40, 0.09, 0.20, 0.31],
        [0.15, 0.33, 0.45, 0.07],
    ]
)
CHANCES = np.array([SAYS, SAYS[:, ::-1]])
INPUTS = np.array([[3, 0, 1, 2, 0, 3], [0, 1, 3, 1, 2, 0]])
MASK = np.array([[True, True, True], [True, True, False]])


def _picked(table: np.ndarray, shift: int, words: np.ndarray = INPUTS[:, 3:]) -> np.ndarray:
    """From a table [2, 6, 4] the entries of the completion's words, read from so many columns before them."""
    columns = np.arange(3, 6) + shift
    return np.array([[table[b, k, w] for k, w in zip(columns, words[b], strict=True)] for b in range(2)])


def _softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


@CHAPTER.check("token-logp", section="sec-rlhf-masks")
def token_logp(answer: Answer) -> Findings:
    # A number added to all words of a column changes nothing about what is drawn.
    logits = np.log(CHANCES) + np.arange(6)[:, None]
    mask = torch.as_tensor(MASK)

    def ask(logits: Any, temperature: float = 1.0, inputs: Any = INPUTS, mask: Tensor = mask) -> np.ndarray:
        given = torch.tensor(np.asarray(logits), dtype=torch.float32)
        back = answer(given, torch.as_tensor(inputs), 3, mask, temperature)
        shape = tuple(getattr(back, "shape", ()))
        if len(shape) == 2 and shape[0] == len(mask) and shape[1] > 3:
            raise Mistake("the prompt is scored too", shape=list(shape))
        return as_array(back, (len(mask), 3), "the log-probabilities", finite=False)

    got = ask(logits)
    right, inside = np.log(_picked(CHANCES, -1)), MASK

    def masked(values: np.ndarray) -> np.ndarray:
        return np.where(inside, values, got)

    fine = close(got[MASK], right[MASK])
    across = [np.log(_picked(np.pad(_softmax(logits[:, 2:5], 1), ((0, 0), (2, 1), (0, 0))), -1))]
    across += [np.log(_picked(_softmax(logits, axis), -1)) for axis in (0, 1)]
    tops = CHANCES[:, 2:5].max(-1)
    yield from recognise(
        got,
        {
            "the logits are read one column late": masked(np.log(_picked(CHANCES, 0))),
            "the logits are read one column early": masked(np.log(_picked(CHANCES, -2))),
            "the columns of the prompt are read": masked(np.log(_picked(CHANCES, -3))),
            "logits, not log-probabilities": masked(_picked(logits, -1)),
            "a probability, not its logarithm": masked(_picked(CHANCES, -1)),
            "the sign is reversed": masked(-right),
            "normalized along the wrong axis": either(*map(masked, across)),
            "the most probable word, not the sampled one": masked(np.log(tops)),
            "the mask is inverted": close(got, np.where(inside, 0, right)),
            "the last token is left out": close(got[0, 0], right[0, 0])
            and close(got[:, 0] * (got[:, 1] != 0), right[:, 0] * (got[:, 1] != 0))
            and (got[0, 2] == 0 or got[1, 1] == 0),
            "the first token is left out": close(got[0], right[0] * [0, 1, 1]),
            "padding has a log-probability": fine and got[1, 2] != 0,
        },
        first=got[0],
        padding=got[1, 2],
    )
    warm = ask(logits, 2.0)
    softer = np.log(_softmax(logits / 2))
    yield from recognise(
        warm,
        {
            "the temperature is not used": right * MASK,
            "multiplied by the temperature, not divided": np.log(_picked(_softmax(2 * logits), -1)) * MASK,
            "the temperature comes after the softmax": right / 2 * MASK,
            "the temperature scales the result, too": either(
                _picked(softer, -1) / 2 * MASK, _picked(softer, -1) * 2 * MASK
            ),
        },
        right=right[0, 0],
        first=warm[0],
    )
    steep = np.where(CHANCES > 0.5, 300.0, 0.0)
    steep[:, 2] = [[0, 0, 0, 300.0]]
    far = ask(steep)[0, 0]
    yield from recognise(
        far,
        {
            "the softmax underflows": fine and not np.isfinite(far),
            "small probabilities have a minimum": fine and far > -250,
        },
    )
    # Now the padding holds what it may hold: an id that does not exist, and nan or infinity.
    ids = INPUTS.copy()
    ids[1, 5] = -100
    try:
        ask(logits, inputs=ids)
        ids[1, 5] = 10**6
        ask(logits, inputs=ids)
    except Stop as stop:
        if stop.kind != "raised" or stop.name not in ("IndexError", "RuntimeError"):
            raise
        raise Mistake("an id in the padding is looked up", id=int(ids[1, 5])) from None
    holes = logits.copy()
    for hole in (-np.inf, np.nan):
        holes[1, 4] = hole
        seen = ask(holes, inputs=ids)
        yield from recognise(
            seen,
            {"padding gets through": not np.isfinite(seen).all() or (got[1, 2] == 0 != seen[1, 2])},
        )
    given = leaf(holes)
    back = answer(given, torch.as_tensor(ids), 3, mask, 1.0)
    as_array(back, (2, 3), "the log-probabilities")
    slope = gradients(torch.as_tensor(back).sum(), given, what="the log-probabilities")[0]
    unread = np.ones(holes.shape, dtype=bool)
    unread[0, 2:5] = unread[1, 2:4] = False
    yield from recognise(
        np.nan_to_num(slope),
        {"padding gets into the gradient": bool((slope[unread] != 0).any() or np.isnan(slope).any())},
    )
    values = random_problems(_draw_logits, 40)
    yield agrees(answer, _slow_logp, values, what="the log-probabilities")
    weighed = random_problems(lambda rng: _draw_logits(rng, small=True), 12)
    rng = np.random.default_rng(0)
    for p in weighed:
        p.weights = rng.normal(size=p.mask.shape)

    def total(*arguments: Any) -> Any:
        *own, weights = arguments
        back = answer(*own)
        return (back * weights).sum() if isinstance(back, Tensor) else back

    found = agrees(
        total,
        lambda p: float((_slow_logp(p) * p.weights).sum()),
        weighed,
        by=("logits",),
        what="a weighted sum of the log-probabilities",
    )
    yield replace(
        found, words=f"its gradient agrees with finite differences on {len(weighed)} random problems"
    )


def _draw_logits(rng: np.random.Generator, small: bool = False) -> dict[str, Any]:
    rows, before = int(rng.integers(1, 3 if small else 5)), int(rng.integers(1, 4))
    width, words = int(rng.integers(1, 4 if small else 8)), int(rng.integers(2, 5 if small else 12))
    mask = masks(rng, (rows, width))
    read = np.ones((rows, before + width), dtype=bool)
    read[:, before - 1 : -1] = mask
    logits = rng.choice([1, 5] if small else [0.1, 1, 40, 300]) * rng.normal(
        size=(rows, before + width, words)
    )
    inputs = rng.integers(words, size=(rows, before + width))
    inputs[:, before:][~mask] = rng.choice([-100, -1, words, 60])
    return {
        "logits": litter(rng, logits, read[..., None]),
        "inputs": inputs,
        "prompt_columns": before,
        "mask": mask,
        "temperature": float(rng.choice([0.5, 1, 1.7])),
    }


def _slow_logp(p: Problem) -> np.ndarray:
    """Word by word: what was read last, and how much all words together weigh then."""
    found = np.zeros(p.mask.shape)
    for b, t in zip(*np.nonzero(p.mask), strict=True):
        row = p.logits[b, p.prompt_columns + t - 1] / p.temperature
        top = row.max()
        weights = sum(float(np.exp(x - top)) for x in row)
        found[b, t] = row[p.inputs[b, p.prompt_columns + t]] - top - np.log(weights)
    return found


# --- rewards

NAMES = ("the rewards", "the log-ratios")


def _two(old: Tensor, *rest: Any) -> list[tuple[int, ...]]:
    return [tuple(old.shape), (len(old),)]


@CHAPTER.check("token-rewards", section="sec-rlhf-objective")
def token_rewards(answer: Answer) -> Findings:
    # Three rows: four tokens, two tokens, none. Log-ratios 0.5, −1, 0.25, 1 and −1, 2.
    mask = np.arange(4) < np.array([[4], [2], [0]])
    old = np.array([[-1, -2, -3, -1], [-2, -1, -5, -5], [-5, -5, -5, -5.0]])
    ratio = np.array([[0.5, -1, 0.25, 1], [-1, 2, 3, 3], [3, 3, 3, 3]])
    inside = ratio * mask

    def ask(score: list[float], beta: float, hole: float | None = None) -> list[np.ndarray]:
        o, r = (x if hole is None else np.where(mask, x, hole) for x in (old, old - ratio))
        given = [torch.tensor(x, dtype=torch.float32) for x in (o, r)]
        back = answer(*given, torch.as_tensor(mask), torch.tensor(score), beta)
        return several(back, _two(given[0]), NAMES)

    paid, _ = ask([10.0, 20.0, 60.0], 0.0)
    full, unscored = ask([10.0, 20.0, 60.0], 0.5)[0], ask([0.0, 0.0, 0.0], 0.5)[0]
    at = {t: np.eye(4)[t] for t in range(4)}
    sent = paid[:2].sum(1)
    yield from recognise(
        paid,
        {
            "the score is in the last column, not at the last token": bool(paid[1, 3] and not paid[1, 1])
            and close(paid[0], 10 * at[3]),
            "the score is one column behind the text": bool(paid[1, 2] and not paid[1, 1]),
            "the score is one token before the end": close(paid[:2], [10 * at[2], 20 * at[0]]),
            "every token gets the score": close(paid[:2] * mask[:2], [[10] * 4, [20, 20, 0, 0]]),
            "the score is shared among the tokens": close(paid[:2], [[2.5] * 4, [10, 10, 0, 0]]),
            "the score is at the first token": close(paid[:2], [10 * at[0], 20 * at[0]]),
            "the score has the wrong sign": close(paid[:2], [-10 * at[3], -20 * at[1]]),
            "the scores are normalized": any(
                close(paid[:2].sum(1), x)
                for x in (
                    [-20, -10],
                    [-0.7559, -0.378],
                    [-0.9258, -0.4629],
                    [0.378, 0.7559],
                    [0.4629, 0.9258],
                )
            ),
            "every text gets the mean score": close(paid[:2], [30 * at[3], 30 * at[1]]),
            "the score of another text": close(paid[:2] != 0, [at[3], at[1]])
            and not close(sent, [10, 20])
            and all(min(abs(x - one) for one in (10, 20, 60)) < 0.01 for x in sent),
            "the score is multiplied by beta": not paid.any() and not close(full, unscored),
            "the score is missing": not paid.any(),
            # The last of them: who mends this alone must not find another one behind it.
            "an empty text gets a score": bool(paid[2].any()),
        },
        second=paid[1],
        third=paid[2],
    )
    price, kl = ask([0.0, 0.0, 0.0], 0.5)
    k3 = np.exp(-inside) - 1 + inside
    exchanged = close(price, 0.5 * inside)
    yield from recognise(
        price,
        {
            "the two policies are exchanged": exchanged and close(kl, -inside.sum(1)),
            "distance is rewarded": exchanged,
            "padding has a penalty": bool((price * ~mask).any()),
            "the penalty is not multiplied by beta": -inside,
            "divided by beta": -2 * inside,
            "one of the two policies is not used": either(-0.5 * old * mask, 0.5 * (old - ratio) * mask),
            "a square, not the log-ratio": either(-0.25 * inside**2, -0.5 * inside**2),
            "k3, not the log-ratio": -0.5 * k3,
            "the absolute log-ratio": -0.5 * np.abs(inside),
            "negative log-ratios are dropped": -0.5 * np.maximum(inside, 0),
            "a ratio of probabilities, not its logarithm": either(
                -0.5 * np.exp(ratio) * mask, -0.5 * (np.exp(ratio) - 1) * mask
            ),
            "weighted by the probability once more": -0.5 * np.exp(old) * inside,
            "the penalty of the whole text is at its last token": -0.5
            * np.array([0.75 * at[3], at[1], 0 * at[0]]),
            "every token pays for the whole text": -0.5 * inside.sum(1, keepdims=True) * mask,
            "every token pays the mean": -0.5 * np.array([[0.1875] * 4, [0.5, 0.5, 0, 0], [0] * 4]),
            "the penalty is missing": 0,
        },
        first=price[0],
        padding=price[1, 2:],
    )
    scored = ask([10.0, 20.0, 60.0], 0.5)[1]
    sums = inside.sum(1)
    yield from recognise(
        kl,
        {
            "the log-ratio of a text has the wrong sign": -sums,
            "a mean over tokens, not a sum": either(
                inside.mean(1), [0.1875, 0.5, 0], close(np.nan_to_num(kl), [0.1875, 0.5, 0])
            ),
            "the log-ratio of a text is multiplied by beta": either(0.5 * sums, -0.5 * sums),
            "the log-ratios of padding are in the sum": ratio.sum(1),
            "k3, not the log-ratio of the text": either(k3.sum(1), np.exp(-sums) - 1 + sums),
            "only the last token's log-ratio": [1, 2, 0],
            "negative log-ratios are changed": either(np.maximum(inside, 0).sum(1), np.abs(inside).sum(1)),
            "the score is in the log-ratio": not close(kl, scored),
        },
    )
    both, sums = ask([10.0, 20.0, 60.0], 0.5)
    last = np.array([at[3], at[1], 0 * at[0]])
    yield from recognise(
        both,
        {
            "the score replaces the penalty of the last token": np.where(
                last > 0, [[10.0], [20.0], [60.0]], -0.5 * inside
            ),
        },
        first=both[0],
    )
    yield Property(
        "a text's rewards add up to its score minus β times its log-ratio",
        close(both.sum(1), [10 - 0.375, 20 - 0.5, 0]),
        f"log-ratios of 0.75, 1 and 0, β = 0.5, scores of 10, 20 and 60: the sums are {numbers(both.sum(1))}",
    )
    for hole in (np.nan, -np.inf):
        rewards, sums = ask([10.0, 20.0, 60.0], 0.5, hole)
        clean = np.isfinite(rewards).all() and np.isfinite(sums).all()
        yield from recognise(rewards, {"padding gets through": not clean})
    problems = random_problems(_draw_rewards, 40)
    for which, (name, slow) in enumerate(zip(NAMES, (_slow_rewards, _slow_ratios), strict=True)):
        yield agrees(part(answer, which, NAMES, _two), slow, problems, what=name)


def _draw_rewards(rng: np.random.Generator) -> dict[str, Any]:
    shape = int(rng.integers(1, 6)), int(rng.integers(1, 9))
    mask = masks(rng, shape)
    old, moved = -rng.exponential(3, size=shape), rng.choice([0.01, 1, 5, 40]) * rng.normal(size=shape)
    score = rng.choice([0, 0.1, 10]) * rng.normal(rng.choice([-1, 0, 1]), size=shape[0])
    return {
        "old_logp": litter(rng, old, mask),
        "ref_logp": litter(rng, old - moved, mask),
        "mask": mask,
        "score": np.full(shape[0], score[0]) if rng.random() < 0.2 else score,
        "beta": float(rng.choice([0, 0.05, 1, 3])),
    }


def _cells(p: Problem, row: int) -> list[int]:
    return [t for t in range(p.mask.shape[1]) if p.mask[row, t]]


def _slow_rewards(p: Problem) -> np.ndarray:
    found = np.zeros(p.mask.shape)
    for b in range(len(found)):
        cells = _cells(p, b)
        for t in cells:
            found[b, t] = p.beta * (p.ref_logp[b, t] - p.old_logp[b, t])
            if t == cells[-1]:
                found[b, t] += p.score[b]
    return found


def _slow_ratios(p: Problem) -> np.ndarray:
    return np.array(
        [sum(p.old_logp[b, t] - p.ref_logp[b, t] for t in _cells(p, b)) for b in range(len(p.mask))]
    )
