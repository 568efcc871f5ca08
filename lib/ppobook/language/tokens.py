"""Words and ids, padding, completions, and the log-probabilities of tokens.

    prompts, padded on the left          completions, padded on the right
    [  ·     ·    tell  fox   barn  :  | the   fox   sings  .    eos   ·   ·  ]
    [  tell  the  owl   and   hen   :  | the   kind  owl    by   the   by  the ]

Prompts end at one column and completions begin at the next, so one slice separates the two in all rows. What
stands at padding counts for nothing anywhere: each tensor of tokens goes with a mask that is True where a
token is real.

A model that has read a token predicts the next one. That shift by one is made in `completion_logits` and in
`completion_values`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ppobook import validation

if TYPE_CHECKING:
    from ppobook.language.model import LanguageModel, Scalar

# ---------------------------------------------------------------------------------------- words and ids


class Tokenizer(Protocol):
    """What turns text into tokens and back."""

    @property
    def vocab_size(self) -> int:
        """How many ids there are, from 0."""

    @property
    def eos(self) -> int:
        """The id that ends a sequence."""

    @property
    def pad(self) -> int:
        """The id that fills a row up."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text; no end of sequence is added."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids."""


class WordTokenizer:
    """One word is one token: a text is split at white space, and nothing else.

    Id 0 is the padding, id 1 the end of a sequence, the words follow in their order. The end is written
    ``<eos>`` in a text, and read from it; padding is left out of texts. So decoding what was encoded gives
    the same words, with one space between two of them.

    Parameters
    ----------
    words : sequence of str
        All different, each without white space in it.

    Raises
    ------
    ValueError, TypeError
        No word, the same one twice, one with white space, one that is ``<pad>`` or ``<eos>``.
    """

    pad = 0
    eos = 1

    def __init__(self, words: Sequence[str]) -> None:
        if isinstance(words, str):
            raise TypeError(f"words is the string {words!r}; a list of words is wanted")
        self.words = ("<pad>", "<eos>", *words)
        self.ids: dict[str, int] = {}
        for i, word in enumerate(self.words):
            where = f"words[{i - 2}]"
            if not isinstance(word, str):
                raise TypeError(f"{where} is {word!r}; a string is wanted")
            if word.split() != [word]:
                raise ValueError(f"{where} is {word!r}; a word without white space is wanted")
            if word in self.ids:
                kind = "is a token of its own already" if self.ids[word] < 2 else "stands there twice"
                raise ValueError(f"{where} is {word!r}, which {kind}; words that differ are wanted")
            self.ids[word] = i
        if len(self.words) == 2:
            raise ValueError("words is empty; at least one word is wanted")

    @property
    def vocab_size(self) -> int:
        return len(self.words)

    def encode(self, text: str) -> list[int]:
        """The ids of the words of a text. A word that is not in the vocabulary is refused by name."""
        if not isinstance(text, str):
            raise TypeError(f"text is {text!r}; a string is wanted")
        try:
            return [self.ids[word] for word in text.split()]
        except KeyError as error:
            unknown = error.args[0]
        known = self.words[1:]
        raise ValueError(
            f"text must be of known words, {validation.one_of(known)}, got {unknown!r}"
            f"{validation.did_you_mean(unknown, known)}"
        )

    def decode(self, ids: Iterable[int]) -> str:
        """The words of some ids, with a space between two of them; padding is left out."""
        listed = [int(i) for i in ids]
        for i in listed:
            if not 0 <= i < len(self.words):
                raise ValueError(f"ids holds {i}; 0 to {len(self.words) - 1} are wanted")
        return " ".join(self.words[i] for i in listed if i != self.pad)

    def __repr__(self) -> str:
        return f"WordTokenizer({self.vocab_size} tokens: {' '.join(self.words[:8])} …)"


# --------------------------------------------------------------------------------------------- padding


def left_pad(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of ids of any length as one tensor, filled up on the left: the way of prompts.

    Parameters
    ----------
    rows : sequence of sequences of int
        None of them empty.
    pad : int
        What to fill up with.

    Returns
    -------
    tokens : int64, shape (B, P)
    mask : bool, shape (B, P)
        True where a token came from its row.
    """
    return _padded(rows, pad, left=True)


def right_pad(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """The same, filled up on the right: the way of completions."""
    return _padded(rows, pad, left=False)


def _padded(rows: Sequence[Sequence[int]], pad: int, left: bool) -> tuple[Tensor, Tensor]:
    pad = validation.count("pad", pad, low=0)
    listed = [[validation.count(f"rows[{b}]", i, low=0) for i in row] for b, row in enumerate(rows)]
    if not listed:
        raise ValueError("rows is empty; at least one row is wanted")
    for b, row in enumerate(listed):
        if not row:
            raise ValueError(f"rows[{b}] is empty; at least one token is wanted")
    width = max(map(len, listed))
    tokens, mask = [], []
    for row in listed:
        fill = [pad] * (width - len(row))
        tokens.append(fill + row if left else row + fill)
        real, filled = [True] * len(row), [False] * len(fill)
        mask.append(filled + real if left else real + filled)
    return torch.tensor(tokens), torch.tensor(mask)


def mask_of(name: str, mask: Any, tokens: Tensor) -> Tensor:
    """The mask as booleans; it must be of the shape of these tokens, and bool or 0/1."""
    validation.present(**{name: mask})
    return torch.as_tensor(
        validation.flags(name, mask, tokens.shape, "one entry a token"), device=tokens.device
    )


def refuse_unless_ids(name: str, tokens: Any) -> None:
    """Refuse what is no int64 tensor of rows of tokens."""
    if not isinstance(tokens, Tensor):
        raise TypeError(f"{name} is of type {type(tokens).__name__}; a torch tensor is wanted")
    if tokens.dtype != torch.int64:
        raise TypeError(f"{name} has dtype {tokens.dtype}; torch.int64 is wanted")
    if tokens.ndim != 2:
        raise ValueError(f"{name} has shape {tuple(tokens.shape)}; one row of tokens a sequence is wanted")
    validation.not_empty(name, tokens)


def refuse_unless_padded(name: str, mask: Tensor, *, left: bool) -> None:
    """Refuse a row without a token, and padding anywhere but on that side."""
    toward_end = mask if left else mask.flip(-1)
    bad = ~toward_end[:, -1] | (toward_end[:, :-1] & ~toward_end[:, 1:]).any(dim=-1)
    if bad.any():
        row = int(bad.nonzero()[0])
        if not mask[row].any():
            raise ValueError(f"{name} is False in all of row {row}; at least one token a row is wanted")
        side = "left" if left else "right"
        raise ValueError(f"{name} has padding in row {row} that is not on its {side}; there it is wanted")


# ----------------------------------------------------------------------------------------- completions


@dataclass(frozen=True)
class Completions:
    """Prompts, and how a policy went on from each.

    B sequences, P columns for prompts, T for completions. The tokens that were sampled are those where `mask`
    is True; an end of sequence is one of them.

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
        Whether the last token is an end of sequence. If not, the completion was cut at the limit.

    Raises
    ------
    ValueError, TypeError
        Shapes or dtypes that do not fit, padding on the wrong side, a row without a token.
    """

    prompts: Tensor
    prompt_mask: Tensor
    tokens: Tensor
    mask: Tensor
    logp: Tensor
    ended: Tensor

    def __post_init__(self) -> None:
        refuse_unless_ids("prompts", self.prompts)
        refuse_unless_ids("tokens", self.tokens)
        rows, columns = self.tokens.shape
        validation.shape("prompts", self.prompts, (rows, self.prompts.shape[1]), "a row a completion")
        validation.shape("prompt_mask", self.prompt_mask, self.prompts.shape, "the shape of prompts")
        validation.shape("mask", self.mask, (rows, columns), "the shape of tokens")
        validation.shape("logp", validation.tensor("logp", self.logp), (rows, columns), "the shape of tokens")
        validation.shape("ended", self.ended, (rows,), "one entry a completion")
        for name, x in (("prompt_mask", self.prompt_mask), ("mask", self.mask), ("ended", self.ended)):
            if x.dtype != torch.bool:
                raise TypeError(f"{name} has dtype {x.dtype}; torch.bool is wanted")
        refuse_unless_padded("prompt_mask", self.prompt_mask, left=True)
        refuse_unless_padded("mask", self.mask, left=False)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def inputs(self) -> Tensor:
        """Prompts and completions side by side, [B, P + T]."""
        return torch.cat([self.prompts, self.tokens], dim=1)

    @property
    def input_mask(self) -> Tensor:
        """Where `inputs` are real, [B, P + T]."""
        return torch.cat([self.prompt_mask, self.mask], dim=1)

    @property
    def lengths(self) -> Tensor:
        """How many tokens each completion has, its end included, [B]."""
        return self.mask.sum(dim=1)

    @property
    def last(self) -> Tensor:
        """The column of each completion's last token, [B]."""
        return self.lengths - 1

    @property
    def terminated(self) -> Tensor:
        """True at each end of sequence that was sampled, and nowhere else, [B, T]."""
        return self._at_last & self.ended[:, None]

    @property
    def truncated(self) -> Tensor:
        """True at the last token of each completion that was cut, [B, T]."""
        return self._at_last & ~self.ended[:, None]

    @property
    def _at_last(self) -> Tensor:
        return torch.arange(self.tokens.shape[1], device=self.tokens.device) == self.last[:, None]

    def select(self, index: Any) -> Completions:
        """Some of the completions: by a list or tensor of row numbers, a slice, or a bool mask of rows."""
        if not isinstance(index, slice):
            index = torch.as_tensor(index, device=self.tokens.device)
            if index.ndim != 1 or len(index) == 0 or index.is_floating_point():
                raise ValueError(f"index is {index}; a list of row numbers is wanted, of at least one")
        return Completions(*(getattr(self, field.name)[index] for field in fields(self)))

    @staticmethod
    def join(parts: Sequence[Completions]) -> Completions:
        """One batch from several, in their order, padded to the widest. Padding that is new holds zeros."""
        parts = list(parts)
        if not parts:
            raise ValueError("parts is empty; at least one batch of completions is wanted")

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
        """What was written, one text a completion. The end of a sequence is decoded too if `eos` is True."""
        lengths = self.lengths if eos else self.lengths - self.ended.long()
        rows = zip(self.tokens.tolist(), lengths.tolist(), strict=True)
        return [tokenizer.decode(row[:length]) for row, length in rows]

    def prompt_texts(self, tokenizer: Tokenizer) -> list[str]:
        """What was asked, one text a completion."""
        rows = zip(self.prompts.tolist(), self.prompt_mask.sum(dim=1).tolist(), strict=True)
        return [tokenizer.decode(row[len(row) - length :]) for row, length in rows]


@dataclass(frozen=True)
class Pairs:
    """Preferences: of two completions of the same prompt, the one that was chosen and the one that was not.

    Attributes
    ----------
    chosen, rejected : Completions
        Row by row of the same prompts.

    Raises
    ------
    ValueError
        Prompts that differ.
    """

    chosen: Completions
    rejected: Completions

    def __post_init__(self) -> None:
        mine, other = self.chosen, self.rejected
        if not (
            torch.equal(mine.prompt_mask, other.prompt_mask)
            and torch.equal(mine.prompts[mine.prompt_mask], other.prompts[other.prompt_mask])
        ):
            raise ValueError("rejected has other prompts than chosen; the same, row by row, are wanted")

    def __len__(self) -> int:
        return len(self.chosen)

    def select(self, index: Any) -> Pairs:
        """Some of the pairs, as `Completions.select` takes them."""
        return Pairs(self.chosen.select(index), self.rejected.select(index))


# --------------------------------------------------------------------------- what a model says of tokens


def completion_logits(model: LanguageModel, completions: Completions) -> Tensor:
    """The logits that each token of the completions was, or would be, drawn from.

        logits[b, t]  =  the model's, when it has read the prompt and tokens[b, 0 … t − 1]

    The first completion token is predicted where the last prompt token was read, so the row of `inputs` that
    predicts column P + t is row P + t − 1. The last token is never read: nothing is predicted from it.

    Parameters
    ----------
    model : LanguageModel
    completions : Completions

    Returns
    -------
    tensor, shape (B, T, V)
        With a gradient. At padding it means nothing.
    """
    start = completions.prompts.shape[1] - 1
    hidden = model.hidden(completions.inputs[:, :-1], completions.input_mask[:, :-1])
    return model.head(hidden[:, start:])


def completion_values(model: Scalar, completions: Completions) -> Tensor:
    """A critic's value of each state that a completion passes through, [B, T + 1].

        values[b, t]  =  the model's number, when it has read the prompt and tokens[b, 0 … t − 1]

    Entry t goes with the choice of token t, and entry t + 1 with what that token led to: the shape that
    `ppobook.returns.gae` wants. A completion of n tokens that was cut has entry n to bootstrap from; what
    comes after it is 0. For a reward model, which speaks of the tokens it has read, ``[:, 1:]`` are the
    numbers of the completion's own tokens.
    """
    start = completions.prompts.shape[1] - 1
    return model(completions.inputs, completions.input_mask)[:, start:]


def token_logp(
    logits: Tensor, tokens: Tensor, temperature: float = 1.0, *, mask: Tensor | None = None
) -> Tensor:
    """Log-probability of each token: log softmax(logits / temperature), at the token.

    Parameters
    ----------
    logits : tensor, shape (..., T, V)
    tokens : int64, shape (..., T)
    temperature : float above 0
        The one that the tokens were sampled at, if this is to be the policy that sampled them.
    mask : bool, shape (..., T), optional
        Elsewhere the result is 0, no gradient flows, and logits and tokens may be anything.

    Returns
    -------
    tensor, shape (..., T)
        In the dtype of logits, or float32 where that is a half precision.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, a token that is no column of logits, a temperature that is not above 0.
    """
    logits = _tempered(logits, temperature)
    validation.shape("tokens", tokens, logits.shape[:-1], "the shape of logits without its last axis")
    if mask is not None:
        mask = mask_of("mask", mask, tokens)
        logits, tokens = logits.masked_fill(~mask[..., None], 0.0), tokens.masked_fill(~mask, 0)
    try:
        logp = logits.log_softmax(dim=-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    except RuntimeError as error:
        if "out of bounds" not in str(error):
            raise
        raise ValueError(
            f"tokens holds ids from {int(tokens.min())} to {int(tokens.max())}; "
            f"0 to {logits.shape[-1] - 1} are wanted, the columns of logits"
        ) from None
    return logp if mask is None else logp.masked_fill(~mask, 0.0)


def token_entropy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Entropy in nats of the distribution that each token is drawn from, −Σ_v p(v) log p(v).

    Parameters
    ----------
    logits : tensor, shape (..., V), finite
    temperature : float above 0

    Returns
    -------
    tensor, shape (...)
    """
    log_probs = _tempered(logits, temperature).log_softmax(dim=-1)
    return -(log_probs.exp() * log_probs).sum(dim=-1)


def _tempered(logits: Tensor, temperature: float) -> Tensor:
    validation.last_axis("logits", validation.tensor("logits", logits), "the vocabulary")
    temperature = validation.number("temperature", temperature, above=0)
    # Of a logarithm in half precision, two or three digits would be left.
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits if temperature == 1 else logits / temperature
