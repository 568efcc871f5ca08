"""Checks of what is done with ids alone: the cells of a batch, by eye, and a batch made from lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Answer, Findings, Mistake, Property, Stop, close, either, numbers, recognise, words
from ..probes import Problem, random_problems
from . import CHAPTER, several

PARTS = ("logits_at", "mask", "reward_at", "ended")
SHAPES = ((6,), (2, 6), (2,), (2,))


def _filled(back: Any) -> list[np.ndarray]:
    def empty(entry: Any) -> bool:
        return entry is ... or entry is None or (isinstance(entry, list | tuple) and any(map(empty, entry)))

    if isinstance(back, list | tuple) and len(back) == len(PARTS):
        for name, one in zip(PARTS, back, strict=True):
            if empty(one):
                raise Stop("returned", "an entry is still empty", f"“{name}” still has an empty entry.")
    return several(back, SHAPES, PARTS, finite=True)


@CHAPTER.check("token-table", section="sec-rlhf-masks")
def token_table(answer: Answer) -> Findings:
    logits, mask, reward, ended = _filled(answer())
    columns = np.arange(6)
    yield from recognise(
        logits,
        {
            "the logits are read one column late": columns + 5,
            "the logits are read one column early": columns + 3,
            "columns are counted from the completion": either(columns, columns - 1),
        },
    )
    long, short = mask[1], mask[0]
    yield from recognise(
        mask,
        {
            "the mask is inverted": close(short, [0, 0, 0, 0, 0, 1]),
            "the end of sequence is not an action": short[4] == 0 and close(short[:4], 1 + 0 * short[:4]),
            "padding is counted": short[5] != 0,
            "the last word of a truncated text is left out": long[5] == 0,
        },
        short=short,
        long=long,
    )
    yield from recognise(
        reward,
        {
            "columns are counted from the prompt": [9, 10],
            "the reward is in the last column, not at the last token": [5, 5],
            "the reward is before the end": either([3, 4], [3, 5]),
            "the reward is at the first token": [0, 0],
        },
    )
    yield from recognise(
        ended,
        {
            "the flags are exchanged": [0, 1],
            "a truncation counts as an end": [1, 1],
            "no text has ended": [0, 0],
        },
    )
    right = (columns + 4, np.array([[1, 1, 1, 1, 1, 0], [1] * 6]), np.array([4, 5]), np.array([1, 0]))
    for name, got, meant in zip(PARTS, (logits, mask, reward, ended), right, strict=True):
        yield Property(name, close(got, meant), f"you have {numbers(got)}")


END = 1


def _batch(back: Any, rows: int, columns: int, width: int) -> list[np.ndarray]:
    """inputs, input_mask and mask, [rows, …]."""
    shapes = ((rows, columns + width), (rows, columns + width), (rows, width))
    if isinstance(back, list | tuple) and len(back) == 3 and hasattr(back[2], "shape"):
        got = tuple(back[2].shape)
        if got == shapes[1] != shapes[2]:
            raise Mistake("the prompt is in the mask", shape=list(got), meant=list(shapes[2]))
    return several(back, shapes, ("inputs", "input_mask", "mask"), finite=True)


@CHAPTER.check("hunt-collate", section="sec-rlhf-masks")
def hunt_collate(answer: Answer) -> Findings:
    # Three texts: one that ended, a short one that was truncated, and a long one that ended. Five columns of
    # prompts, four of texts; in the third prompt the id of padding is a token.
    prompts = [[5, 6], [7, 8, 9], [4, END, 5, 6, 7]]
    texts = [[8, END], [3, 4], [2, 3, 4, END]]
    problem = Problem(prompts=prompts, texts=texts, pad=END)
    inputs, there, mask = _batch(answer(prompts, texts, END), 3, 5, 4)
    drawn = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
    unended = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]])
    front, back = inputs[:, :5], inputs[:, 5:]
    head, tail = there[:, :5], there[:, 5:]
    sides = np.array([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [1] * 5])
    full = np.ones((3, 4))
    yield from recognise(
        inputs,
        {
            "prompts are padded on the right": close(front[0], [5, 6, END, END, END]),
            "texts are padded on the left": close(back[0], [END, END, 8, END]),
            "prompt and text are padded as one": close(inputs[0, -4:], [5, 6, 8, END])
            or close(inputs[0, :4], [5, 6, 8, END]),
        },
        first=inputs[0],
    )
    yield from recognise(
        mask,
        {
            "the mask is derived from the ids": unended,
            "the first end is kept, even if it is padding": np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1] * 4]),
            "all padding is masked in": full,
            "the mask is inverted": 1 - drawn,
            "the mask ends one token early": np.array([[1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]]),
        },
        short=mask[1],
        long=mask[2],
    )
    yield from recognise(
        there,
        {
            "input_mask is true in all columns": 1,
            "input_mask is derived from the ids": close(mask, drawn)
            and (close(tail, unended) or close(head[2], [1, 0, 1, 1, 1])),
            "input_mask has the prompt's padding on the right": close(head, sides[:, ::-1])
            and not close(head, sides),
        },
        head=head[0],
        third=there[2],
    )
    yield Property(
        "the ids of three texts are where they belong",
        close(inputs, _slow(problem)[0]),
        f"you have {numbers(inputs)}",
    )
    yield _on_random(answer)


def _slow(p: Problem) -> list[np.ndarray]:
    """Cell by cell: which token, if any, stands in this column?"""
    prompts, texts = p.prompts, p.texts
    columns, width = (max(len(row) for row in rows) for rows in (prompts, texts))
    inputs = np.full((len(texts), columns + width), p.pad)
    there = np.zeros(inputs.shape)
    for b, k in np.ndindex(*inputs.shape):
        row, place = (prompts[b], k - columns + len(prompts[b])) if k < columns else (texts[b], k - columns)
        if 0 <= place < len(row):
            inputs[b, k], there[b, k] = row[place], 1
    return [inputs, there, there[:, columns:]]


def _on_random(answer: Answer) -> Property:
    said = "it agrees with a slow definition on 30 random problems"

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        rows, pad = int(rng.integers(1, 6)), int(rng.choice([0, 1, 11]))
        prompts = [rng.integers(12, size=rng.integers(1, 6)).tolist() for _ in range(rows)]
        texts = [rng.integers(2, 10, size=rng.integers(1, 6)).tolist() for _ in range(rows)]
        return {"prompts": prompts, "texts": [t + [1] * int(rng.integers(2)) for t in texts], "pad": pad}

    for p in sorted(random_problems(draw, 30), key=lambda p: len(p.texts)):
        meant = _slow(p)
        came = answer([list(row) for row in p.prompts], [list(row) for row in p.texts], p.pad)
        got = _batch(came, len(p.texts), meant[0].shape[1] - meant[2].shape[1], meant[2].shape[1])
        for name, mine, theirs in zip(("inputs", "input_mask", "mask"), got, meant, strict=True):
            if not close(mine, theirs):
                problem = f"with prompts {p.prompts}, texts {p.texts} and pad {words(p.pad)}"
                seen = (
                    f"{problem} {name} is\n{numbers(mine)}\nand the slow definition gives\n{numbers(theirs)}"
                )
                return Property(said, False, seen)
    return Property(said, True)
