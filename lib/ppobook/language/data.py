"""Data as people have them, made into tokens: lists, files and datasets of texts or of conversations.

    function      columns of a record                           for
    prompts_of    prompt                                        what samples: PPO, GRPO, online
    examples_of   prompt, completion | messages | text          SFT
    pairs_of      prompt, chosen, rejected | chosen, rejected   reward models, DPO
    labelled_of   prompt, completion, label | as pairs_of       KTO

These are the formats that TRL documents ("Dataset formats and types"), so that its users' files are read as
they are. A record is a dict. What it says is a text, or a conversation: a list of messages such as
``{"role": "user", "content": "Tell me of the fox."}``, which the tokenizer's chat template makes tokens of.

A reward function is given texts in either case (`ppobook.language.rewards`): a conversation as its chat
template has written it. TRL hands it the messages; whoever wants them keeps them in one more column, which is
handed on by its name.

Everything is read and looked at before anything is trained on. What cannot be used is refused by a sentence
that names the record, ``data[7]`` or the line of a file.
"""

from __future__ import annotations

import itertools
import json
import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ppobook import validation
from ppobook.language.records import EmptyError, Record, Records, digest_of, records_of
from ppobook.language.tokens import (
    Completions,
    Pairs,
    Tokenizer,
    WordTokenizer,
    check_padding,
    check_tokens,
)
from ppobook.language.world import World
from ppobook.run.machine import stream

__all__ = [
    "Batches",
    "Prompts",
    "digest_of",
    "examples_of",
    "labelled_of",
    "pairs_of",
    "prompts_of",
]

Text = str | list[dict[str, Any]]  # a text, or the messages of a conversation
Sides = tuple[list[int], list[list[int]]]  # the tokens of a prompt, and of each completion of it

# A reward function is handed prompts and completions by these names, so no column may have one.
_TAKEN = ("prompts", "completions")


# ----------------------------------------------------------------------------------------------- prompts


@dataclass(frozen=True)
class Prompts:
    """What to go on from, and what else the data say of each.

    Attributes
    ----------
    tokens : [N, P] int64
        Padded on the left.
    mask : [N, P] bool
    columns : dict of lists
        Every other column, N values each, for reward functions; None where a record has no such column.

    Raises
    ------
    ValueError, TypeError
        Shapes or dtypes that do not fit, padding on the right, a row without a token.
    """

    tokens: Tensor
    mask: Tensor
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_tokens("tokens", self.tokens)
        validation.shape("mask", self.mask, self.tokens.shape, "the shape of tokens")
        if self.mask.dtype != torch.bool:
            raise TypeError(f"mask has dtype {self.mask.dtype}; torch.bool is wanted")
        check_padding("mask", self.mask, left=True)
        for name, column in self.columns.items():
            if len(column) != len(self.tokens):
                raise ValueError(
                    f"columns[{name!r}] has {len(column)} values; {len(self.tokens)} are wanted, one a prompt"
                )

    def __len__(self) -> int:
        return len(self.tokens)

    def select(self, index: Any) -> Prompts:
        """Some of them: by a list or tensor of row numbers, a slice, or a bool mask of rows.

        Columns that are padding in all of these are left out: a batch is as wide as its longest prompt.
        """
        if not isinstance(index, slice):
            index = torch.as_tensor(index, device=self.tokens.device)
            if index.ndim != 1 or len(index) == 0 or index.is_floating_point():
                raise ValueError(f"index is {index}; a list of row numbers is wanted, of at least one")
        rows = torch.arange(len(self))[index.cpu() if isinstance(index, Tensor) else index].tolist()
        mask = self.mask[index]
        gap = int(mask.any(dim=0).long().argmax())
        columns = {name: [column[row] for row in rows] for name, column in self.columns.items()}
        return Prompts(self.tokens[index][:, gap:], mask[:, gap:], columns)

    def repeat(self, k: int) -> Prompts:
        """Each prompt k times in a row, with its columns: the k of a group stand side by side."""
        k = validation.count("k", k)
        columns = {name: [x for x in column for _ in range(k)] for name, column in self.columns.items()}
        return Prompts(
            self.tokens.repeat_interleave(k, dim=0), self.mask.repeat_interleave(k, dim=0), columns
        )


class Batches:
    """Which rows of the data each update is made from.

    The data are gone through again and again, each time in a new random order; a batch is the next `size`
    rows. So each row comes once before any comes again, and all batches are of one size, one that is larger
    than the data too. A batch depends on its number and the seed alone: there is nothing to remember.

    Parameters
    ----------
    n : int
        How many rows there are.
    size : int
        Of a batch.
    seed : int
    """

    def __init__(self, n: int, size: int, seed: int) -> None:
        self.n = validation.count("n", n)
        self.size = validation.count("size", size)
        self.seed = validation.count("seed", seed, low=0)

    def rows(self, k: int) -> Tensor:
        """The row numbers of batch k, counted from 0, [size] int64."""
        begin = validation.count("k", k, low=0) * self.size
        first, last = begin // self.n, (begin + self.size - 1) // self.n
        orders = torch.cat([self._order(epoch) for epoch in range(first, last + 1)])
        begin -= first * self.n
        return orders[begin : begin + self.size]

    def _order(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(stream(self.seed, f"epoch {epoch}"))
        return torch.randperm(self.n, generator=generator)


# ----------------------------------------------------------------------------------- from records to tokens


def prompts_of(data: Any, tokenizer: Tokenizer, *, max_length: int | None = None) -> Prompts:
    """The prompts of some data, for a stage that samples.

    Parameters
    ----------
    data : World, list of dicts, path, or datasets.Dataset
        Records with a "prompt"; or with "chosen" and "rejected", of which the common beginning is taken. Of a
        World, all its prompts.
    tokenizer : Tokenizer
    max_length : int, optional
        The most tokens that a prompt may have.

    Returns
    -------
    Prompts
        With all columns but "prompt" and "completion": reward functions are given texts by these names.

    Raises
    ------
    ValueError, TypeError, FileNotFoundError
        What `records_of` refuses; a column that is missing, or of another type; a prompt that is empty or too
        long; a column by a name that is taken.
    """
    if isinstance(data, World):
        return Prompts(*data.prompt_tokens())
    records = records_of(data)
    encoder = _Encoder(tokenizer)
    if records.format(["prompt"], ["chosen", "rejected"])[0] == "prompt":
        rows = records.each(encoder.prompt)
    else:
        _refuse_some_prompts(records)
        rows = [prompt for prompt, _ in records.each(encoder.pair)]
    _refuse_long(records, [(row, []) for row in rows], max_length)
    names = dict.fromkeys(name for row in records.rows for name in row)
    for name in _TAKEN:
        if name in names:
            raise ValueError(
                f"{records.source} has a column {name!r}, and reward functions are given something else by "
                "that name; another is wanted"
            )
    columns = {name: [row.get(name) for row in records.rows] for name in names}
    for name in ("prompt", "completion"):
        columns.pop(name, None)
    return Prompts(*_padded(rows, tokenizer, left=True), columns)


def examples_of(data: Any, tokenizer: Tokenizer, *, max_length: int | None = None) -> Completions:
    """What a model is to learn to write, for SFT.

    ==================  ===============================  =============================
    a record has        what is read only                what is learned
    ==================  ===============================  =============================
    prompt, completion  the prompt                       the completion
    messages            the first token of the template  all of it, users' turns too
    text                a token that begins or ends      all of it
    ==================  ===============================  =============================

    As in TRL, whoever wants only the last answer of a conversation learned gives all before it as "prompt"
    and the answer as "completion". "conversations" is another name for "messages".

    Each ends in an end of sequence: one is appended where neither the text nor the template has put it there.
    White space that a template writes behind it is left out, since nobody will sample it. (TRL, in
    conversations, learns that white space, and appends nothing.)

    Parameters
    ----------
    data : list of dicts, path, or datasets.Dataset
    tokenizer : Tokenizer
        For "text", the token before it is ``tokenizer.bos`` if it has one, else its ``eos``.
    max_length : int, optional
        The most tokens that a prompt and its completion may have together, the end included.

    Returns
    -------
    Completions
        All of them ended; `logp` is 0.

    Raises
    ------
    ValueError, TypeError, FileNotFoundError
        What `records_of` refuses; a column that is missing, or of another type; a prompt or a completion that
        is empty or too long; a conversation without a chat template.
    """
    records = records_of(data)
    wanted = records.format(["prompt", "completion"], ["messages"], ["conversations"], ["text"])
    if wanted[0] == "prompt":
        return _made(records, tokenizer, max_length, _Encoder.example)
    return _made(records, tokenizer, max_length, lambda encoder, row: encoder.alone(row, wanted[0]))


def pairs_of(data: Any, tokenizer: Tokenizer, *, max_length: int | None = None) -> Pairs:
    """Preferences: two completions of each prompt, one of which was chosen.

    A record has "prompt", "chosen" and "rejected". Where it has no prompt, or a text for one beside two
    conversations, the prompt is what these begin with alike: the same messages, or of texts the same tokens.
    At least one message or token remains to each.

    Parameters
    ----------
    data : list of dicts, path, or datasets.Dataset
    tokenizer : Tokenizer
    max_length : int, optional
        The most tokens that a prompt and a completion may have together, the end included.

    Returns
    -------
    Pairs

    Raises
    ------
    ValueError, TypeError, FileNotFoundError
        As `examples_of`; and, without a prompt, two that begin differently or are the same.
    """
    records = records_of(data)
    records.format(["chosen", "rejected"])
    _refuse_some_prompts(records)
    both = _made(records, tokenizer, max_length, _Encoder.pair)
    return Pairs(both.select(slice(len(records.rows))), both.select(slice(len(records.rows), None)))


def refuse_unless_apart(pairs: Pairs) -> None:
    """Refuse preferences from which nothing can be learned: in no pair do the two completions differ."""
    if torch.equal(pairs.chosen.tokens, pairs.rejected.tokens):
        raise ValueError("data has no pair whose 'chosen' and 'rejected' differ; some that do are wanted")


def labelled_of(
    data: Any, tokenizer: Tokenizer, *, max_length: int | None = None
) -> tuple[Completions, Tensor]:
    """Completions, each called desirable or not, for KTO.

    A record has "prompt", "completion" and "label", which is True or False. Or it is a pair: what was chosen
    is desirable, what was rejected is not. Then first come all of the former, then all of the latter.

    Parameters
    ----------
    As `pairs_of`.

    Returns
    -------
    completions : Completions
    desirable : bool, shape (B,)

    Raises
    ------
    As `pairs_of`; and a label that is neither True nor False.
    """
    records = records_of(data)
    if records.format(["prompt", "completion", "label"], ["chosen", "rejected"])[0] == "chosen":
        _refuse_some_prompts(records)
        both = _made(records, tokenizer, max_length, _Encoder.pair)
        return both, torch.arange(len(both)) < len(records.rows)
    labels = torch.tensor(records.each(_label))
    return _made(records, tokenizer, max_length, _Encoder.example), labels


def _refuse_some_prompts(records: Records) -> None:
    """Refuse pairs of which some have a prompt and some none: for these it would be guessed."""
    has = [row.get("prompt") is not None for row in records.rows]
    if any(has) and not all(has):
        raise ValueError(
            f"{records.place(has.index(False))} has no 'prompt', and {records.place(has.index(True))} has "
            "one; in all records it is wanted, or in none"
        )


class _Encoder:
    """One record into tokens, with one tokenizer.

    Attributes
    ----------
    parted : int
        How many prompts have other tokens alone than before their completion.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.parted = 0

    def prompt(self, record: Record) -> list[int]:
        """The tokens of a record's prompt, ready to go on from."""
        return self._opened(record, _text(record, "prompt"))

    def alone(self, record: Record, name: str) -> Sides:
        """A text or a conversation without a prompt: what it begins from, and the rest."""
        text = _text(record, name)
        ids = self._whole(record, name, text)
        bos = getattr(self.tokenizer, "bos", None)
        if not isinstance(text, str) or ids[0] == bos:
            return ids[:1], [self._ended(name, ids[1:])]
        return [self.tokenizer.eos if bos is None else bos], [self._ended(name, ids)]

    def example(self, record: Record) -> Sides:
        """A prompt and its completion."""
        return self._after(record, _text(record, "prompt"), {"completion": _text(record, "completion")})

    def pair(self, record: Record) -> Sides:
        """A prompt, what was chosen, and what was rejected."""
        chosen, rejected = _text(record, "chosen"), _text(record, "rejected")
        if isinstance(chosen, str) != isinstance(rejected, str):
            raise TypeError(
                f"chosen is {_kind(chosen)} and rejected {_kind(rejected)}; both of one kind are wanted"
            )
        if record.get("prompt") is not None:
            prompt = _text(record, "prompt")
            if isinstance(prompt, str) == isinstance(chosen, str):
                return self._after(record, prompt, {"chosen": chosen, "rejected": rejected})
        if isinstance(chosen, str):
            one = self._whole(record, "chosen", chosen)
            other = self._whole(record, "rejected", rejected)
            n = _common(one, other)
            return one[:n], [self._ended("chosen", one[n:]), self._ended("rejected", other[n:])]
        n = _common(chosen, rejected)
        return self._after(record, chosen[:n], {"chosen": chosen[n:], "rejected": rejected[n:]})

    def _after(self, record: Record, prompt: Text, completions: dict[str, Text]) -> Sides:
        for name, text in completions.items():
            if isinstance(text, str) != isinstance(prompt, str):
                raise TypeError(
                    f"prompt is {_kind(prompt)} and {name} {_kind(text)}; both of one kind are wanted"
                )
        begun = self._opened(record, prompt)
        if isinstance(self.tokenizer, WordTokenizer) and isinstance(prompt, str):
            # Words are put side by side with a space between, whether the texts have one or not.
            return begun, [
                self._ended(name, self._whole(record, name, text)) for name, text in completions.items()
            ]
        # Elsewhere a space belongs to one side, and begins or ends a token: only the text as a whole has the
        # tokens that it will be read in. A completion begins where these part from the prompt's own.
        joined = {name: prompt + text for name, text in completions.items()}  # type: ignore[operator]
        wholes = [self._whole(record, name, text) for name, text in joined.items()]
        n = min(_agreeing(begun, whole) for whole in wholes)
        if n == 0:
            raise ValueError("the first token of the prompt changes when the completion follows it")
        self.parted += n < len(begun)
        return begun[:n], [
            self._ended(name, whole[n:]) for name, whole in zip(completions, wholes, strict=True)
        ]

    def _opened(self, record: Record, prompt: Text) -> list[int]:
        """A prompt's tokens; those of a conversation up to where the answer begins, or goes on."""
        if isinstance(prompt, str):
            ids = self._whole(record, "prompt", prompt)
            self._refuse_padding("prompt", ids)
            return ids
        goes_on = prompt[-1]["role"] == "assistant"
        how = {"continue_final_message": True} if goes_on else {"add_generation_prompt": True}
        return self._rendered(record, "prompt", prompt, **how)

    def _whole(self, record: Record, name: str, text: Text) -> list[int]:
        ids = (
            list(self.tokenizer.encode(text))
            if isinstance(text, str)
            else self._rendered(record, name, text, add_generation_prompt=False)
        )
        if not ids:
            raise EmptyError(f"{name} has no token")
        return ids

    def _rendered(self, record: Record, name: str, messages: Text, **how: bool) -> list[int]:
        """A conversation's tokens, by the chat template."""
        template = getattr(self.tokenizer, "apply_chat_template", None)
        if template is None:
            raise TypeError(
                f"{name} is a list of messages, and a {type(self.tokenizer).__name__} has no chat template; "
                "texts are wanted, or a tokenizer with a template"
            )
        tools = record.get("tools")
        tools = json.loads(tools) if isinstance(tools, str) else tools
        # Some templates speak of tools even where the list is empty.
        extra = {"tools": tools} if tools else {}
        given = record.get("chat_template_kwargs") or {}
        extra |= {key: value for key, value in given.items() if value is not None}
        try:
            ids = template(messages, tokenize=True, **how, **extra)
        except Exception as error:  # a template's own, of whatever kind
            raise ValueError(f"{name} is refused by the chat template ({validation.reason(error)})") from None
        return list(ids["input_ids"] if isinstance(ids, Mapping) else ids)

    def _refuse_padding(self, name: str, ids: list[int]) -> None:
        """Refuse what is nothing but padding, unless that is how a sequence ends."""
        pad = self.tokenizer.pad
        if pad != self.tokenizer.eos and all(i == pad for i in ids):
            raise EmptyError(f"{name} is padding only")

    def _ended(self, name: str, ids: list[int]) -> list[int]:
        """Up to its end of sequence, which is appended if it has none; white space after it goes."""
        eos = self.tokenizer.eos
        if not ids:
            raise EmptyError(f"{name} adds no token to what it goes on from")
        self._refuse_padding(name, ids)
        if eos in ids:
            end = len(ids) - ids[::-1].index(eos)
            if not self.tokenizer.decode(ids[end:]).strip():
                return ids[:end]
        return [*ids, eos]


def _text(record: Record, name: str) -> Text:
    """A column that is a text or a conversation, with something in it."""
    value = record.get(name)
    if isinstance(value, str):
        if not value.strip():
            raise EmptyError(f"{name} is {value!r}, which is empty")
        return value
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"{name} is {reprlib.repr(value)}, of type {type(value).__name__}; "
            "a text is wanted, or a list of messages"
        )
    messages = [_message(f"{name}[{i}]", message) for i, message in enumerate(value)]
    if not any(_says_something(message) for message in messages):
        raise EmptyError(f"{name} is {reprlib.repr(value)}, which is empty")
    return messages


# Files of the "conversations" kind have these names.
_RENAMED = {"from": "role", "value": "content"}


def _message(where: str, message: Any) -> dict[str, Any]:
    wanted = 'a message is wanted, {"role": …, "content": …}'
    if not isinstance(message, Mapping):
        raise TypeError(f"{where} is {reprlib.repr(message)}; {wanted}")
    renamed = {str(_RENAMED.get(key, key)): x for key, x in message.items()}
    # A dataset's table gives all messages all keys, and None where there was nothing.
    kept = {key: x for key, x in renamed.items() if x is not None}
    if not isinstance(kept.get("role"), str):
        raise TypeError(f"{where} is {reprlib.repr(message)}, without a role; {wanted}")
    if len(kept) == 1 or not isinstance(kept.get("content", ""), str | list):
        raise TypeError(f"{where} is {reprlib.repr(message)}, without a content; {wanted}")
    return kept


def _says_something(message: dict[str, Any]) -> bool:
    content = message.get("content", "")
    said = content.strip() if isinstance(content, str) else content
    return bool(said) or any(value for key, value in message.items() if key not in ("role", "content"))


def _label(record: Record) -> bool:
    label = record["label"]
    return bool(label) if type(label) is int and label in (0, 1) else validation.flag("label", label)


def _kind(text: Text) -> str:
    return "a text" if isinstance(text, str) else "a conversation"


def _agreeing(a: Sequence[Any], b: Sequence[Any]) -> int:
    """How many entries two sequences have in common at their beginning."""
    if b[: len(a)] == a:
        return len(a)
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _common(chosen: Sequence[Any], rejected: Sequence[Any]) -> int:
    """How much of a pair without a prompt is its prompt."""
    if chosen == rejected:
        raise ValueError("chosen and rejected are the same, and there is no 'prompt'; one is wanted")
    n = min(_agreeing(chosen, rejected), len(chosen) - 1, len(rejected) - 1)
    if n == 0:
        raise ValueError("chosen and rejected begin differently, and there is no 'prompt'; one is wanted")
    return n


# ----------------------------------------------------------------------------------------------- as tensors


def _made(
    records: Records, tokenizer: Tokenizer, max_length: int | None, read: Callable[[_Encoder, Record], Sides]
) -> Completions:
    """What is read of each record. Of two completions each, all first ones come, then all second ones."""
    encoder = _Encoder(tokenizer)
    made = records.each(lambda row: read(encoder, row))
    if encoder.parted:
        warnings.warn(
            f"in {encoder.parted} of {len(made)} records of {records.source} the prompt has other tokens "
            "alone than before its completion, which is taken to begin where they part. A prompt that does "
            "not end in a space, or another chat template, avoids this",
            stacklevel=3,
        )
    rows = [(prompt, each[side]) for side in range(len(made[0][1])) for prompt, each in made]
    _refuse_long(records, rows, max_length)
    prompts, prompt_mask = _padded([prompt for prompt, _ in rows], tokenizer, left=True)
    tokens, mask = _padded([ids for _, ids in rows], tokenizer, left=False)
    ended = torch.ones(len(rows), dtype=torch.bool)
    return Completions(prompts, prompt_mask, tokens, mask, torch.zeros(tokens.shape), ended)


def _refuse_long(records: Records, rows: list[tuple[list[int], list[int]]], max_length: int | None) -> None:
    """Refuse data of which something is longer than the model can read."""
    if max_length is None:
        return
    max_length = validation.count("max_length", max_length)
    lengths = [len(prompt) + len(ids) for prompt, ids in rows]
    # What was chosen and what was rejected are rows of one record.
    n = len(records.rows)
    long = {i % n for i, length in enumerate(lengths) if length > max_length}
    if long:
        worst = max(range(len(lengths)), key=lengths.__getitem__)
        prompt, after = map(len, rows[worst])
        of_these = f"{prompt} of its prompt, {after} after it with the end" if after else "all of its prompt"
        raise ValueError(
            f"{len(long)} of {n} records have more than max_length = {max_length} tokens; the longest, "
            f"{records.place(worst % n)}, has {prompt + after} ({of_these}). Wanted: leave them out, shorten "
            "them, or take a model of longer context"
        )


def _padded(rows: list[list[int]], tokenizer: Tokenizer, *, left: bool) -> tuple[Tensor, Tensor]:
    """As `left_pad` and `right_pad`, for very many rows at once."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum()))
    if flat.min() < 0 or flat.max() >= tokenizer.vocab_size:
        raise ValueError(
            f"tokenizer made ids from {flat.min()} to {flat.max()}; "
            f"0 to {tokenizer.vocab_size - 1} are wanted, its vocabulary"
        )
    column = np.arange(lengths.max())
    mask = column >= (lengths.max() - lengths)[:, None] if left else column < lengths[:, None]
    tokens = np.full(mask.shape, tokenizer.pad, dtype=np.int64)
    tokens[mask] = flat
    return torch.from_numpy(tokens), torch.from_numpy(mask)
