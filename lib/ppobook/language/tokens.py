"""Tokenizers, padding, completions, and the log-probabilities of tokens.

    prompts, padded on the left          completions, padded on the right
    [  ·     ·    tell  fox   barn  :  | the   fox   sings  .    eos   ·   ·  ]
    [  tell  the  owl   and   hen   :  | the   kind  owl    by   the   by  the ]

All prompts end at one column and all completions begin at the next, so one slice separates the two. Each
tensor of tokens comes with a mask that is False at padding, whose content is never used.

After reading a token, a model predicts the next one. That shift by one is made in `completion_logits` and in
`completion_values`, and nowhere else.
"""

from __future__ import annotations

import itertools
import operator
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ppobook import validation

if TYPE_CHECKING:
    from ppobook.language.model import LanguageModel, Scalar

# ------------------------------------------------------------------------------------------- tokenizers


def unknown_word(word: str, known: Sequence[str]) -> ValueError:
    """The error about a word that a tokenizer of whole words does not have."""
    return ValueError(
        f"text must be of known words, {validation.one_of(known)}, got {word!r}"
        f"{validation.did_you_mean(word, known)}"
    )


def ids_of(ids: Any) -> list[int]:
    """The ids of one sequence, a list or a tensor, as integers."""
    if getattr(ids, "ndim", 1) != 1:
        raise ValueError(f"ids must be those of one sequence, got shape {tuple(ids.shape)}")
    try:
        return [operator.index(i) for i in ids]
    except TypeError:
        raise TypeError(f"ids must be integers, got {reprlib.repr(ids)}") from None


class Tokenizer(Protocol):
    """The interface of a tokenizer."""

    @property
    def vocab_size(self) -> int:
        """The number of ids, which start at 0."""

    @property
    def eos(self) -> int:
        """The id of end-of-sequence."""

    @property
    def pad(self) -> int:
        """The id of padding."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without an end of sequence."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids."""


class WordTokenizer:
    """A tokenizer that splits at white space: one word is one token.

    Id 0 is padding and id 1 end-of-sequence; the words follow in their order. End-of-sequence is written
    ``<eos>`` in a text. Padding is left out of decoded texts.

    Parameters
    ----------
    words : sequence of str
        Distinct, without white space.

    Raises
    ------
    ValueError, TypeError
        No words, a duplicate, a word with white space, ``<pad>`` or ``<eos>`` among them.
    """

    pad = 0
    eos = 1

    def __init__(self, words: Sequence[str]) -> None:
        if isinstance(words, str) or not isinstance(words, Iterable):
            raise TypeError(f"words must be a list of words, got {words!r}")
        self.words = ("<pad>", "<eos>", *words)
        self.ids: dict[str, int] = {}
        for i, word in enumerate(self.words):
            where = f"words[{i - 2}]"
            if not isinstance(word, str):
                raise TypeError(f"{where} must be a string, got {word!r}")
            if word.split() != [word]:
                raise ValueError(f"{where} must be a word without white space, got {word!r}")
            if word in self.ids:
                raise ValueError(f"{where} must differ from <pad>, <eos> and the other words, got {word!r}")
            self.ids[word] = i
        if len(self.words) == 2:
            raise ValueError("words must have at least one word, got none")

    @property
    def vocab_size(self) -> int:
        return len(self.words)

    def encode(self, text: str) -> list[int]:
        """The ids of the words of a text, which must all be in the vocabulary."""
        if not isinstance(text, str):
            raise TypeError(f"text must be a string, got {text!r}")
        try:
            return [self.ids[word] for word in text.split()]
        except KeyError as error:
            raise unknown_word(error.args[0], self.words[1:]) from None

    def decode(self, ids: Iterable[int]) -> str:
        """The words of some ids, joined by spaces, without padding."""
        listed = ids_of(ids)
        for i in listed:
            if not 0 <= i < len(self.words):
                raise ValueError(f"ids must be in [0, {len(self.words) - 1}], got {i}")
        return " ".join(self.words[i] for i in listed if i != self.pad)

    def __repr__(self) -> str:
        return f"WordTokenizer({self.vocab_size} tokens: {' '.join(self.words[:8])} …)"


# --------------------------------------------------------------------------------------------- padding


def left_pad(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor, padded on the left: the convention for prompts.

    Parameters
    ----------
    rows : sequence of sequences of int
        None of them empty.
    pad : int

    Returns
    -------
    tokens : int64, shape (B, P)
    mask : bool, shape (B, P)
        False at padding.
    """
    return padded(*_checked_rows(rows, pad), left=True)


def right_pad(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor, padded on the right: the convention for completions. As `left_pad`."""
    return padded(*_checked_rows(rows, pad), left=False)


def _checked_rows(rows: Sequence[Sequence[int]], pad: int) -> tuple[list[list[int]], int]:
    pad = validation.count("pad", pad, low=0)
    try:
        listed = [list(row) for row in rows]
    except TypeError:
        raise TypeError(f"rows must be a list of lists of ids, got {reprlib.repr(rows)}") from None
    checked = [[validation.count(f"rows[{b}]", i, low=0) for i in row] for b, row in enumerate(listed)]
    if not checked:
        raise ValueError("rows must have at least one row, got none")
    for b, row in enumerate(checked):
        if not row:
            raise ValueError(f"rows[{b}] must have at least one token, got none")
    return checked, pad


def logp_unknown(tokens: Tensor) -> Tensor:
    """Log-probabilities for tokens that no model has sampled, [B, T]: 0."""
    return torch.zeros(tokens.shape, dtype=torch.float32, device=tokens.device)


def padded(rows: Sequence[Sequence[int]], pad: int, *, left: bool) -> tuple[Tensor, Tensor]:
    """`left_pad` and `right_pad`, for rows that have been checked."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    width = lengths.max()
    column = np.arange(width)
    mask = column >= (width - lengths)[:, None] if left else column < lengths[:, None]
    tokens = np.full(mask.shape, pad, dtype=np.int64)
    tokens[mask] = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum()))
    return torch.from_numpy(tokens), torch.from_numpy(mask)


def mask_of(name: str, mask: Any, tokens: Tensor) -> Tensor:
    """A mask of bool or 0/1 in the shape of these tokens, as booleans on their device."""
    validation.present(**{name: mask})
    return torch.as_tensor(
        validation.flags(name, mask, tokens.shape, "the shape of the tokens"), device=tokens.device
    )


def check_tokens(name: str, tokens: Any, device: torch.device | None = None) -> None:
    """Check that these are rows of ids, int64 [B, L] with B, L ≥ 1; and on the model's device, if passed."""
    if not isinstance(tokens, Tensor):
        raise TypeError(f"{name} must be a torch tensor, got {type(tokens).__name__}")
    if tokens.dtype != torch.int64:
        raise TypeError(f"{name} must be a tensor of torch.int64, got {tokens.dtype}")
    if tokens.ndim != 2:
        raise ValueError(f"{name} must have shape (B, L), one row a sequence, got {tuple(tokens.shape)}")
    validation.not_empty(name, tokens)
    if device is not None and tokens.device != device:
        raise ValueError(f"{name} must be on {device}, as the model is, got {tokens.device}")


def check_ids(name: str, tokens: Tensor, vocab_size: int) -> None:
    """Check that all ids are in the vocabulary."""
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= vocab_size:
        raise ValueError(f"{name} must be in [0, {vocab_size - 1}], got ids from {low} to {high}")


@contextmanager
def embedding_errors(tokens: Tensor, vocab_size: int) -> Iterator[None]:
    """Raise ValueError for an id outside the vocabulary, where an embedding on a CPU raises IndexError."""
    if tokens.device.type != "cpu":  # where an index out of range makes the device unusable
        check_ids("tokens", tokens, vocab_size)
    try:
        yield
    except IndexError:
        check_ids("tokens", tokens, vocab_size)
        raise


def check_padding(name: str, mask: Tensor, *, left: bool) -> None:
    """Check that each row has a token, and padding on one side only."""
    toward_end = mask if left else mask.flip(-1)
    bad = ~toward_end[:, -1] | (toward_end[:, :-1] & ~toward_end[:, 1:]).any(dim=-1)
    if bad.any():
        row, side = int(bad.nonzero()[0]), "left" if left else "right"
        found = "elsewhere" if mask[row].any() else "no token"
        raise ValueError(
            f"{name} must have a token in each row and padding on the {side} only, got {found} in row {row}"
        )


# ----------------------------------------------------------------------------------------- completions


@dataclass(frozen=True)
class Completions:
    """Prompts and a policy's completion of each: B sequences, P columns of prompts, T of completions.

    The sampled tokens are those where `mask` is True; end-of-sequence is one of them.

    Attributes
    ----------
    prompts : [B, P] int64
        Padded on the left.
    prompt_mask : [B, P] bool
    tokens : [B, T] int64
        Padded on the right.
    mask : [B, T] bool
    logp : [B, T]
        Log-probability of each token under the policy that sampled it, π_old; 0 at padding.
    ended : [B] bool
        Whether the last token is end-of-sequence. If not, the completion was truncated at the limit.

    Raises
    ------
    ValueError, TypeError
        A wrong shape or dtype, padding on the wrong side, a row without a token.
    """

    prompts: Tensor
    prompt_mask: Tensor
    tokens: Tensor
    mask: Tensor
    logp: Tensor
    ended: Tensor

    def __post_init__(self) -> None:
        check_tokens("prompts", self.prompts)
        check_tokens("tokens", self.tokens)
        rows, columns = self.tokens.shape
        for name in ("prompt_mask", "mask", "ended"):
            validation.instance(name, getattr(self, name), Tensor)
        validation.shape("prompts", self.prompts, (rows, self.prompts.shape[1]), "a row for each completion")
        validation.shape("prompt_mask", self.prompt_mask, self.prompts.shape, "the shape of prompts")
        validation.shape("mask", self.mask, (rows, columns), "the shape of tokens")
        validation.shape("logp", validation.tensor("logp", self.logp), (rows, columns), "the shape of tokens")
        validation.shape("ended", self.ended, (rows,), "one entry for each completion")
        for name, x in (("prompt_mask", self.prompt_mask), ("mask", self.mask), ("ended", self.ended)):
            if x.dtype != torch.bool:
                raise TypeError(f"{name} must be a tensor of torch.bool, got {x.dtype}")
        check_padding("prompt_mask", self.prompt_mask, left=True)
        check_padding("mask", self.mask, left=False)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def inputs(self) -> Tensor:
        """Prompts and completions side by side, [B, P + T]."""
        return torch.cat([self.prompts, self.tokens], dim=1)

    @property
    def input_mask(self) -> Tensor:
        """The mask of `inputs`, [B, P + T]."""
        return torch.cat([self.prompt_mask, self.mask], dim=1)

    @property
    def lengths(self) -> Tensor:
        """The number of tokens of each completion, end-of-sequence included, [B]."""
        return self.mask.sum(dim=1)

    @property
    def last(self) -> Tensor:
        """The column of each completion's last token, [B]."""
        return self.lengths - 1

    @property
    def terminated(self) -> Tensor:
        """True at each sampled end-of-sequence, [B, T]."""
        return self._at_last & self.ended[:, None]

    @property
    def truncated(self) -> Tensor:
        """True at the last token of each truncated completion, [B, T]."""
        return self._at_last & ~self.ended[:, None]

    @property
    def _at_last(self) -> Tensor:
        return torch.arange(self.tokens.shape[1], device=self.tokens.device) == self.last[:, None]

    def select(self, index: Any) -> Completions:
        """Some rows: by a list or tensor of row numbers, a slice, or a bool mask."""
        if not isinstance(index, slice):
            index = checked_index(index, self.tokens)
        return Completions(*(getattr(self, field.name)[index] for field in fields(self)))

    @staticmethod
    def join(parts: Sequence[Completions]) -> Completions:
        """One batch from several, in their order, padded with zeros to the widest."""
        if not isinstance(parts, Sequence) or not parts:
            raise ValueError(f"parts must be a list of at least one batch of completions, got {parts!r}")
        for i, part in enumerate(parts):
            validation.instance(f"parts[{i}]", part, Completions)

        def widest(name: str, left: bool) -> Tensor:
            tensors = [getattr(part, name) for part in parts]
            width = max(x.shape[1] for x in tensors)
            gaps = [width - x.shape[1] for x in tensors]
            sides = [(gap, 0) if left else (0, gap) for gap in gaps]
            return torch.cat(
                [torch.nn.functional.pad(x, side) for x, side in zip(tensors, sides, strict=True)]
            )

        return Completions(
            prompts=widest("prompts", left=True),
            prompt_mask=widest("prompt_mask", left=True),
            tokens=widest("tokens", left=False),
            mask=widest("mask", left=False),
            logp=widest("logp", left=False),
            ended=torch.cat([part.ended for part in parts]),
        )

    def texts(self, tokenizer: Tokenizer, *, eos: bool = False) -> list[str]:
        """The completions as texts; with end-of-sequence if `eos` is True."""
        refuse_unless_tokenizer(tokenizer)
        lengths = self.lengths if validation.flag("eos", eos) else self.lengths - self.ended.long()
        rows = zip(self.tokens.tolist(), lengths.tolist(), strict=True)
        return [tokenizer.decode(row[:length]) for row, length in rows]

    def prompt_texts(self, tokenizer: Tokenizer) -> list[str]:
        """The prompts as texts."""
        refuse_unless_tokenizer(tokenizer)
        rows = zip(self.prompts.tolist(), self.prompt_mask.sum(dim=1).tolist(), strict=True)
        return [tokenizer.decode(row[len(row) - length :]) for row, length in rows]


@dataclass(frozen=True)
class Pairs:
    """Preferences: the chosen and the rejected one of two completions of each prompt.

    Attributes
    ----------
    chosen, rejected : Completions
        Of the same prompts, row by row.

    Raises
    ------
    ValueError
        The prompts differ.
    """

    chosen: Completions
    rejected: Completions

    def __post_init__(self) -> None:
        mine, other = self.chosen, self.rejected
        for name, side in (("chosen", mine), ("rejected", other)):
            validation.instance(name, side, Completions)
        if not (
            torch.equal(mine.prompt_mask, other.prompt_mask)
            and torch.equal(mine.prompts[mine.prompt_mask], other.prompts[other.prompt_mask])
        ):
            raise ValueError("rejected must have the same prompts as chosen, row by row, got others")

    def __len__(self) -> int:
        return len(self.chosen)

    def select(self, index: Any) -> Pairs:
        """Some rows, as in `Completions.select`."""
        return Pairs(self.chosen.select(index), self.rejected.select(index))


def checked_index(index: Any, tokens: Tensor) -> Tensor:
    """Row numbers, or a mask of rows, as a tensor on the device of the tokens."""
    index = validation.to_tensor("index", index, device=tokens.device)
    if index.ndim != 1 or len(index) == 0 or index.is_floating_point():
        raise ValueError(f"index must be a list of at least one row number, got {index}")
    return index


# ------------------------------------------------------------------------- the model's output for each token


def refuse_unless_language_model(model: Any, has: str = "hidden", name: str = "model") -> None:
    """Raise TypeError for what has no such method of a `LanguageModel`."""
    if not hasattr(model, has):
        raise TypeError(
            f"{name} must be a language model, such as Run.model or one that open_pretrained returns, got a "
            f"{validation.got_instead(model)}"
        )


def refuse_unless_tokenizer(tokenizer: Any) -> None:
    """Raise TypeError for what cannot decode ids."""
    if not callable(getattr(tokenizer, "decode", None)):
        raise TypeError(
            "tokenizer must be a tokenizer, such as Run.tokenizer, got a " + validation.got_instead(tokenizer)
        )


def completion_logits(model: LanguageModel, completions: Completions) -> Tensor:
    """The logits of the distribution that each token of the completions is sampled from.

        logits[b, t]  =  the model's after reading the prompt and tokens[b, 0 … t − 1]

    The first token of the completion is predicted at the last token of the prompt, so column P + t of
    `inputs` is predicted at column P + t − 1. The last token is not read: nothing is predicted from it.

    Parameters
    ----------
    model : LanguageModel
    completions : Completions

    Returns
    -------
    tensor, shape (B, T, V)
        With a gradient. Meaningless at padding.
    """
    refuse_unless_language_model(model)
    validation.instance("completions", completions, Completions)
    start = completions.prompts.shape[1] - 1
    hidden = model.hidden(completions.inputs[:, :-1], completions.input_mask[:, :-1])
    return model.head(hidden[:, start:])


def completion_values(model: Scalar, completions: Completions) -> Tensor:
    """A critic's value of each state that a completion passes through, [B, T + 1].

        values[b, t]  =  the model's after reading the prompt and tokens[b, 0 … t − 1]

    Entry t is the value of the state in which token t is sampled, and entry t + 1 that of the next state:
    the shape that `ppobook.returns.gae` takes. A truncated completion of n tokens bootstraps from entry n;
    entries after it are 0. Of a reward model, ``[:, 1:]`` are the numbers at the completion's own tokens.
    """
    validation.instance("completions", completions, Completions)
    if not callable(model):
        raise TypeError(f"model must be a Scalar, such as a RewardModel, got {validation.got_instead(model)}")
    values = model(completions.inputs, completions.input_mask)
    validation.shape(
        "the model's output", values, completions.inputs.shape, "one number a token, as a Scalar's"
    )
    start = completions.prompts.shape[1] - 1
    return values[:, start:]


def token_logp(
    logits: Tensor, tokens: Tensor, temperature: float = 1.0, *, mask: Tensor | None = None
) -> Tensor:
    """Log-probability of each token: log softmax(logits / temperature), at the token.

    Parameters
    ----------
    logits : tensor, shape (..., T, V)
    tokens : int64, shape (..., T)
    temperature : float above 0
        The one at which the tokens were sampled, for the log-probability under the policy that sampled them.
    mask : bool, shape (..., T), optional
        Where it is False, the result is 0 without a gradient, and logits and tokens may be anything.

    Returns
    -------
    tensor, shape (..., T)
        In the dtype of logits, but at least float32.

    Raises
    ------
    ValueError, TypeError
        A wrong shape or dtype, an id outside the vocabulary, a temperature that is not above 0.
    """
    logits = _tempered(logits, temperature)
    if not isinstance(tokens, Tensor):
        raise TypeError(f"tokens must be a torch tensor, got {type(tokens).__name__}")
    if tokens.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"tokens must be a tensor of torch.int64, got {tokens.dtype}")
    validation.shape("tokens", tokens, logits.shape[:-1], "the shape of logits without its last axis")
    if mask is not None:
        mask = mask_of("mask", mask, tokens)
        logits, tokens = logits.masked_fill(~mask[..., None], 0.0), tokens.masked_fill(~mask, 0)
    try:
        logp = logits.log_softmax(dim=-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    except RuntimeError as error:
        if "out of bounds" not in str(error):
            raise
        check_ids("tokens", tokens, logits.shape[-1])
        raise
    return logp if mask is None else logp.masked_fill(~mask, 0.0)


def checked_temperature(temperature: Any, **limits: float) -> float:
    """A temperature within these limits, and one that logits in float32 can be divided by."""
    temperature = validation.number("temperature", temperature, **limits)
    if temperature and not 1e-30 <= temperature <= 1e30:
        greedy = "" if "above" in limits else " or 0, which is greedy"
        raise ValueError(f"temperature must be in [1e-30, 1e+30]{greedy}, got {temperature:g}")
    return temperature


def token_entropy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Entropy in nats of the distribution that each token is sampled from, −Σ_v p(v) log p(v).

    Parameters
    ----------
    logits : tensor, shape (..., V)
        −∞ is a token that is never sampled.
    temperature : float above 0

    Returns
    -------
    tensor, shape (...)
    """
    log_probs = _tempered(logits, temperature).log_softmax(dim=-1)
    entropy = -(log_probs.exp() * log_probs).sum(dim=-1)
    if entropy.isnan().any():  # of 0 · log 0, which is 0
        log_probs = log_probs.clamp(min=torch.finfo(log_probs.dtype).min)
        entropy = -(log_probs.exp() * log_probs).sum(dim=-1)
    return entropy


def _tempered(logits: Tensor, temperature: float) -> Tensor:
    validation.last_axis("logits", validation.tensor("logits", logits), "the vocabulary")
    temperature = checked_temperature(temperature, above=0)
    # In half precision, a log-probability would have two or three digits.
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits if temperature == 1 else logits / temperature
