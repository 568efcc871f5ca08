"""Right and wrong answers to the cells of a batch, and to a batch made from lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}

# --- token-table

LOGITS, REWARD, ENDED = [4, 5, 6, 7, 8, 9], [4, 5], [1, 0]
SHORT, LONG = [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]


def by_eye(
    logits: Any = LOGITS, short: Any = SHORT, long: Any = LONG, reward: Any = REWARD, ended: Any = ENDED
) -> Callable[[], Any]:
    return lambda: (logits, [short, long], reward, ended)


RIGHT["token-table"] = [
    by_eye(ended=[True, False], short=[True] * 5 + [False]),
    lambda: [np.arange(4, 10), np.array([SHORT, LONG]), np.array(REWARD), np.array(ENDED)],
    lambda: (torch.arange(6) + 4, torch.tensor([SHORT, LONG]), tuple(REWARD), torch.tensor(ENDED).bool()),
]
WRONG["token-table"] = {
    "the logits are read one column late": by_eye([5, 6, 7, 8, 9, 10]),
    "the logits are read one column early": by_eye([3, 4, 5, 6, 7, 8]),
    "columns are counted from the completion": [by_eye([0, 1, 2, 3, 4, 5]), by_eye([-1, 0, 1, 2, 3, 4])],
    "the mask is inverted": by_eye(short=[0, 0, 0, 0, 0, 1], long=[0] * 6),
    "the end of sequence is not an action": by_eye(short=[1, 1, 1, 1, 0, 0]),
    "padding is counted": by_eye(short=LONG),
    "the last word of a truncated text is left out": by_eye(long=SHORT),
    "columns are counted from the prompt": by_eye(reward=[9, 10]),
    "the reward is in the last column, not at the last token": by_eye(reward=[5, 5]),
    "the reward is before the end": [by_eye(reward=[3, 4]), by_eye(reward=[3, 5])],
    "the reward is at the first token": by_eye(reward=[0, 0]),
    "the flags are exchanged": by_eye(ended=[0, 1]),
    "a truncation counts as an end": by_eye(ended=[1, 1]),
    "no text has ended": by_eye(ended=[0, 0]),
}
UNNAMED["token-table"] = [
    by_eye([4, 5, 6, 7, 8, 10]),
    by_eye(short=[0, 1, 1, 1, 1, 0]),
    by_eye(long=[0, 1, 1, 1, 1, 1]),
    by_eye(reward=[4, 4]),
]

# --- hunt-collate


def collate(
    *,
    prompts_left: bool = True,
    texts_left: bool = False,
    head_mask_left: bool | None = None,
    change: Callable[[Any, Any, Any, Any, Any], Any] = lambda inputs, there, mask, pad, texts: (
        inputs,
        there,
        mask,
    ),
) -> Callable[..., Any]:
    """A batch from lists with one part changed; `change` gets NumPy arrays and gives the three results."""

    def side(rows: Any, pad: Any, left: bool, fill: bool = True) -> Any:
        width = max(map(len, rows))
        gaps = [[pad] * (width - len(row)) for row in rows]
        own = rows if fill else [[1] * len(row) for row in rows]
        return np.array([g + list(r) if left else list(r) + g for g, r in zip(gaps, own, strict=True)])

    def function(prompts, texts, pad):
        inputs = np.concatenate([side(prompts, pad, prompts_left), side(texts, pad, texts_left)], 1)
        left = prompts_left if head_mask_left is None else head_mask_left
        mask = side(texts, 0, texts_left, False)
        there = np.concatenate([side(prompts, 0, left, False), mask], 1)
        return change(inputs, there, mask, pad, texts)

    return function


def by_ids(inputs, there, mask, pad, texts):
    there = inputs != pad
    return inputs, there, there[:, -mask.shape[1] :]


def loss_mask_by_ids(inputs, there, mask, pad, texts):
    return inputs, there, mask * (inputs[:, -mask.shape[1] :] != pad)


def to_the_first_end(inputs, there, mask, pad, texts):
    own = inputs[:, -mask.shape[1] :] == pad
    mask = own.cumsum(1) - own < 1
    return inputs, np.concatenate([there[:, : -mask.shape[1]], mask], 1), mask


def one_early(inputs, there, mask, pad, texts):
    return inputs, there, mask * np.append(mask[:, 1:], 0 * mask[:, :1], 1)


def as_one(prompts, texts, pad):
    rows = [list(p) + list(t) for p, t in zip(prompts, texts, strict=True)]
    columns, width = max(map(len, prompts)), max(map(len, texts))
    inputs = np.array([[pad] * (columns + width - len(row)) + row for row in rows])
    there = np.array([[0] * (columns + width - len(row)) + [1] * len(row) for row in rows])
    return inputs, there, there[:, columns:]


def by_library(prompts, texts, pad):
    from ppobook.language.tokens import left_pad, right_pad

    (p, p_mask), (t, t_mask) = left_pad(prompts, pad), right_pad(texts, pad)
    return torch.cat([p, t], 1), torch.cat([p_mask, t_mask], 1), t_mask


def by_columns(prompts, texts, pad):
    columns, width = max(len(p) for p in prompts), max(len(t) for t in texts)
    inputs = torch.full((len(texts), columns + width), pad)
    k = torch.arange(columns + width)
    starts = torch.tensor([columns - len(p) for p in prompts])[:, None]
    ends = torch.tensor([columns + len(t) for t in texts])[:, None]
    there = (k >= starts) & (k < ends)
    for row, (p, t) in enumerate(zip(prompts, texts, strict=True)):
        inputs[row, there[row]] = torch.tensor(p + t)
    return inputs, there, there[:, columns:]


def as_lists(prompts, texts, pad):
    found = collate()(prompts, texts, pad)
    return [one.tolist() for one in found]


RIGHT["hunt-collate"] = [collate(), by_library, by_columns, as_lists]
WRONG["hunt-collate"] = {
    "prompts are padded on the right": [
        collate(prompts_left=False),
        collate(prompts_left=False, change=by_ids),
    ],
    "texts are padded on the left": collate(texts_left=True),
    "prompt and text are padded as one": as_one,
    "the mask is derived from the ids": [collate(change=by_ids), collate(change=loss_mask_by_ids)],
    "the first end is kept, even if it is padding": collate(change=to_the_first_end),
    "all padding is masked in": collate(change=lambda i, there, m, p, t: (i, there, 0 * m + 1)),
    "the mask is inverted": collate(change=lambda i, there, m, p, t: (i, there, 1 - m)),
    "the mask ends one token early": collate(change=one_early),
    "the prompt is in the mask": collate(change=lambda i, there, m, p, t: (i, there, there)),
    "input_mask is true in all columns": collate(change=lambda i, there, m, p, t: (i, 0 * there + 1, m)),
    "input_mask is derived from the ids": collate(change=lambda i, there, m, p, t: (i, i != p, m)),
    "input_mask has the prompt's padding on the right": collate(head_mask_left=False),
}
UNNAMED["hunt-collate"] = [
    collate(change=lambda i, there, m, p, t: (np.where(there == 1, i, 0), there, m)),  # another padding
    lambda prompts, texts, pad: collate()(prompts, texts, 1),
]
