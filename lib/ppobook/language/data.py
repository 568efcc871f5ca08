"""Tokens from lists, files and datasets of texts or conversations.

    function      columns of a record                           for
    prompts_of    prompt                                        PPO, GRPO, the online stages
    examples_of   prompt, completion | messages | text          SFT
    pairs_of      prompt, chosen, rejected | chosen, rejected   reward models, DPO
    labelled_of   prompt, completion, label | as pairs_of       KTO

These are the formats that TRL documents ("Dataset formats and types"). A record is a dict. Its columns hold
texts, or conversations: lists of messages such as ``{"role": "user", "content": "Tell me of the fox."}``,
which are formatted by the tokenizer's chat template, with the columns "tools" and "chat_template_kwargs".

Reward functions are passed texts in either case (`ppobook.language.rewards`): a conversation as its chat
template writes it. TRL passes the messages; to have them, put them in a further column, which is passed by
its name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from ppobook.language.encoding import Encoder, Sides, label_of
from ppobook.language.records import Record, Records, records_of
from ppobook.language.tokens import Completions, Pairs, Tokenizer, left_pad, logp_unknown, right_pad
from ppobook.language.world import World
from ppobook.run.machine import stream

Stored = TypeVar("Stored", Completions, Pairs)


# ----------------------------------------------------------------------------------------------- prompts


@dataclass(frozen=True)
class Prompts:
    """Prompts, and the other columns of their records.

    Attributes
    ----------
    tokens : [N, P] int64
        Padded on the left.
    mask : [N, P] bool
    columns : dict of lists
        N values each, for reward functions; None where a record lacks the column.
    """

    tokens: Tensor
    mask: Tensor
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tokens)

    def select(self, index: Any) -> Prompts:
        """Some rows: by a list or tensor of row numbers, a slice, or a bool mask.

        The result is as wide as its longest prompt.
        """
        rows = torch.arange(len(self))[index.cpu() if isinstance(index, Tensor) else index].tolist()
        mask = self.mask[index]
        gap = int(mask.any(dim=0).long().argmax())
        columns = {name: [column[row] for row in rows] for name, column in self.columns.items()}
        return Prompts(self.tokens[index][:, gap:], mask[:, gap:], columns)

    def repeat(self, k: int) -> Prompts:
        """Each prompt k times, with its columns: the k of a group are consecutive."""
        columns = {name: [x for x in column for _ in range(k)] for name, column in self.columns.items()}
        return Prompts(
            self.tokens.repeat_interleave(k, dim=0), self.mask.repeat_interleave(k, dim=0), columns
        )


class Batches:
    """The rows of the data in the batch of each update.

    Batches are consecutive pieces of epochs, each of which is a new random order of all rows. All batches
    have the same size, which may exceed n. A batch depends on its number and the seed alone, so there is no
    state.
    """

    def __init__(self, n: int, size: int, seed: int) -> None:
        self.n, self.size, self.seed = n, size, seed

    def rows(self, k: int) -> Tensor:
        """The row numbers of batch k, counted from 0, [size] int64."""
        begin = k * self.size
        first, last = begin // self.n, (begin + self.size - 1) // self.n
        orders = torch.cat([self._order(epoch) for epoch in range(first, last + 1)])
        begin -= first * self.n
        return orders[begin : begin + self.size]

    def _order(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(stream(self.seed, f"epoch {epoch}"))
        return torch.randperm(self.n, generator=generator)


# ----------------------------------------------------------------------------------- from records to tokens


def prompts_of(data: Any, tokenizer: Tokenizer, *, max_length: int | None = None) -> Prompts:
    """Prompts, for a stage that samples.

    Parameters
    ----------
    data : World, list of dicts, path, or datasets.Dataset
        Records with "prompt", or with "chosen" and "rejected", whose common prefix is taken. All prompts of a
        World.
    tokenizer : Tokenizer
    max_length : int, optional
        The most tokens in a prompt.

    Returns
    -------
    Prompts
        With all other columns but "completion".
    """
    if isinstance(data, World):
        return Prompts(*data.prompt_tokens())
    records = records_of(data)
    encoder = Encoder(tokenizer)
    if records.format(["prompt"], ["chosen", "rejected"])[0] == "prompt":
        rows = records.map(encoder.prompt)
    else:
        rows = [prompt for prompt, _ in records.map(encoder.pair)]
    _check_lengths(records, [(row, []) for row in rows], max_length)
    names = dict.fromkeys(name for row in records.rows for name in row)
    columns = {name: [row.get(name) for row in records.rows] for name in names}
    for name in ("prompt", "completion"):
        columns.pop(name, None)
    return Prompts(*left_pad(rows, tokenizer.pad), columns)


def examples_of(data: Any, tokenizer: Tokenizer, *, max_length: int | None = None) -> Completions:
    """Prompts and completions, for SFT.

    ==================  ===============================  =============================
    columns             prompt, without loss             completion, with loss
    ==================  ===============================  =============================
    prompt, completion  the prompt                       the completion
    messages            the first token of the template  the rest, users' turns too
    text                a token that begins or ends      the text
    ==================  ===============================  =============================

    As in TRL, to train on the last answer of a conversation only, pass the messages before it as "prompt" and
    the answer as "completion".

    Every completion ends in end-of-sequence, which is appended if neither text nor template has it. White
    space that a template writes after it is left out. (TRL trains on that white space in conversations, and
    appends nothing.)

    Parameters
    ----------
    data : list of dicts, path, or datasets.Dataset
    tokenizer : Tokenizer
        Before a "text" stand the tokens ``tokenizer.begin`` if there are any, else ``eos``.
    max_length : int, optional
        The most tokens that a prompt and its completion may have together, the end included.

    Returns
    -------
    Completions
        All of them ended; `logp` is 0.

    Raises
    ------
    ValueError, TypeError, FileNotFoundError
        As `records_of`; a missing column; a text that is empty or too long. The error names the record.
    """
    records = records_of(data)
    columns = records.format(["prompt", "completion"], ["messages"], ["text"])
    if columns[0] == "prompt":
        return _encoded(records, tokenizer, max_length, Encoder.example)
    return _encoded(records, tokenizer, max_length, lambda encoder, row: encoder.alone(row, columns[0]))


def pairs_of(data: Any, tokenizer: Tokenizer, *, max_length: int | None = None) -> Pairs:
    """Preferences: a chosen and a rejected completion of each prompt.

    A record has "prompt", "chosen" and "rejected". Without a prompt, or with a text as prompt of two
    conversations, the prompt is their common prefix of messages, or of tokens for texts. At least one message
    or token remains for each.

    Parameters
    ----------
    data, tokenizer, max_length
        As `examples_of`.
    """
    records = records_of(data)
    records.format(["chosen", "rejected"])
    both = _encoded(records, tokenizer, max_length, Encoder.pair)
    return Pairs(both.select(slice(len(records.rows))), both.select(slice(len(records.rows), None)))


def labelled_of(
    data: Any, tokenizer: Tokenizer, *, max_length: int | None = None
) -> tuple[Completions, Tensor]:
    """Completions that are desirable or not, for KTO.

    A record has "prompt", "completion" and "label", which is True or False. Or it is a pair: chosen
    completions are desirable and come first, all rejected ones follow.

    Parameters
    ----------
    data, tokenizer, max_length
        As `examples_of`.

    Returns
    -------
    completions : Completions
    desirable : bool, shape (B,)
    """
    records = records_of(data)
    if records.format(["prompt", "completion", "label"], ["chosen", "rejected"])[0] == "chosen":
        both = _encoded(records, tokenizer, max_length, Encoder.pair)
        return both, torch.arange(len(both), device="cpu") < len(records.rows)
    labels = torch.tensor(records.map(label_of), device="cpu")
    return _encoded(records, tokenizer, max_length, Encoder.example), labels


# ----------------------------------------------------------------------------------------------- as tensors


def _encoded(
    records: Records, tokenizer: Tokenizer, max_length: int | None, read: Callable[[Encoder, Record], Sides]
) -> Completions:
    """All records as tokens. With two completions each, all first ones come before all second ones."""
    encoder = Encoder(tokenizer)
    made = records.map(lambda row: read(encoder, row))
    if encoder.retokenized:
        warnings.warn(
            f"in {encoder.retokenized} of {len(made)} records of {records.source} the prompt has other "
            "tokens alone than before its completion, which starts where they differ. A prompt that does not "
            "end in a space, or another chat template, avoids this",
            stacklevel=3,
        )
    rows = [(prompt, each[side]) for side in range(len(made[0][1])) for prompt, each in made]
    _check_lengths(records, rows, max_length)
    prompts, prompt_mask = left_pad([prompt for prompt, _ in rows], tokenizer.pad)
    tokens, mask = right_pad([ids for _, ids in rows], tokenizer.pad)
    ended = torch.ones(len(rows), dtype=torch.bool, device="cpu")
    return Completions(prompts, prompt_mask, tokens, mask, logp_unknown(tokens), ended)


def _check_lengths(records: Records, rows: list[tuple[list[int], list[int]]], max_length: int | None) -> None:
    """Check that no row is longer than the model's context."""
    lengths = [len(prompt) + len(ids) for prompt, ids in rows]
    longest = max(range(len(rows)), key=lengths.__getitem__)
    if max_length is not None and lengths[longest] > max_length:
        # A chosen and a rejected completion are rows of one record.
        place = records.place(longest % len(records.rows))
        raise ValueError(
            f"records must have at most max_length = {max_length} tokens, got {lengths[longest]} in {place}"
        )


# ------------------------------------------------------------------------------ rows of completions and pairs


def take_rows(stored: Stored, rows: Tensor, device: str = "cpu") -> Stored:
    """Take some rows to a device, without the columns that are padding in all of them."""
    if isinstance(stored, Pairs):
        return Pairs(take_rows(stored.chosen, rows, device), take_rows(stored.rejected, rows, device))
    some = stored.select(rows)
    first = some.prompt_mask.shape[1] - int(some.prompt_mask.sum(dim=1).max())
    length = int(some.lengths.max())
    return Completions(
        some.prompts[:, first:].to(device),
        some.prompt_mask[:, first:].to(device),
        some.tokens[:, :length].to(device),
        some.mask[:, :length].to(device),
        some.logp[:, :length].to(device),
        some.ended.to(device),
    )


def part_of(completions: Completions, rows: Tensor, device: str = "cpu") -> Completions:
    """Take rows as `take_rows` does, but return all rows as they are, without a copy."""
    return completions if len(rows) == len(completions) else take_rows(completions, rows, device)


def join_rows(parts: list[Tensor]) -> Tensor:
    """Join parts along the rows; narrower ones are padded with zeros."""
    if parts[0].ndim == 1:
        return torch.cat(parts)
    width = max(x.shape[1] for x in parts)
    return torch.cat([F.pad(x, (0, width - x.shape[1])) for x in parts])


def train_eval_split(stored: Stored, wanted: int, seed: int) -> tuple[Stored, Stored | None]:
    """Split into rows for training and held-out rows: `wanted`, but at most a tenth of all.

    Of fewer than ten rows none is held out. The choice depends on the seed.
    """
    n, number = len(stored), min(wanted, len(stored) // 10)
    if number == 0:
        return stored, None
    generator = torch.Generator().manual_seed(stream(seed, "held out"))
    rows = torch.randperm(n, generator=generator)
    return stored.select(rows[number:]), stored.select(rows[:number])
