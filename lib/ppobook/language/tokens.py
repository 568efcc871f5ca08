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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils.rnn import pad_sequence

from ppobook import validation

if TYPE_CHECKING:
    from ppobook.language.model import LanguageModel, Scalar

# ------------------------------------------------------------------------------------------- tokenizers


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
    """

    pad = 0
    eos = 1

    def __init__(self, words: Sequence[str]) -> None:
        self.words = ("<pad>", "<eos>", *words)
        self.ids = {word: i for i, word in enumerate(self.words)}

    @property
    def vocab_size(self) -> int:
        return len(self.words)

    def encode(self, text: str) -> list[int]:
        """The ids of the words of a text, which must all be in the vocabulary."""
        try:
            return [self.ids[word] for word in text.split()]
        except KeyError as error:
            word, known = error.args[0], self.words[1:]
            hint = validation.did_you_mean(word, known)
            raise ValueError(
                f"text must be of known words, {validation.one_of(known)}, got {word!r}{hint}"
            ) from None

    def decode(self, ids: Iterable[int]) -> str:
        """The words of some ids, joined by spaces, without padding."""
        return " ".join(self.words[int(i)] for i in ids if i != self.pad)

    def __repr__(self) -> str:
        return f"WordTokenizer({self.vocab_size} tokens: {' '.join(self.words[:8])} …)"


# --------------------------------------------------------------------------------------------- padding


def left_pad(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor, padded on the left: the convention for prompts.

    Parameters
    ----------
    rows : sequence of sequences of int
        None of them empty.

    Returns
    -------
    tokens : int64, shape (B, P)
    mask : bool, shape (B, P)
        False at padding.
    """
    return _padded(rows, pad, "left")


def right_pad(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor, padded on the right: the convention for completions. As `left_pad`."""
    return _padded(rows, pad, "right")


def logp_unknown(tokens: Tensor) -> Tensor:
    """Log-probabilities for tokens that no model has sampled, [B, T]: 0."""
    return torch.zeros(tokens.shape, dtype=torch.float32, device=tokens.device)


def _padded(rows: Sequence[Sequence[int]], pad: int, side: str) -> tuple[Tensor, Tensor]:
    ids = [torch.tensor(row, device="cpu") for row in rows]
    filled = [torch.ones(len(row), dtype=torch.bool, device="cpu") for row in rows]
    return pad_sequence(ids, True, pad, side), pad_sequence(filled, True, False, side)


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
    ValueError
        Padding on the wrong side, a row without a token.
    """

    prompts: Tensor
    prompt_mask: Tensor
    tokens: Tensor
    mask: Tensor
    logp: Tensor
    ended: Tensor

    def __post_init__(self) -> None:
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
            index = torch.as_tensor(index, device=self.tokens.device)
        return Completions(*(getattr(self, field.name)[index] for field in fields(self)))

    @staticmethod
    def join(parts: Sequence[Completions]) -> Completions:
        """One batch from several, in their order, padded with zeros to the widest."""

        def widest(name: str, left: bool = False) -> Tensor:
            tensors = [getattr(part, name) for part in parts]
            gaps = [max(x.shape[1] for x in tensors) - x.shape[1] for x in tensors]
            sides = [(gap, 0) if left else (0, gap) for gap in gaps]
            return torch.cat([F.pad(x, side) for x, side in zip(tensors, sides, strict=True)])

        prompts, prompt_mask = widest("prompts", left=True), widest("prompt_mask", left=True)
        ended = torch.cat([part.ended for part in parts])
        return Completions(prompts, prompt_mask, widest("tokens"), widest("mask"), widest("logp"), ended)

    def texts(self, tokenizer: Tokenizer, *, eos: bool = False) -> list[str]:
        """The completions as texts; with end-of-sequence if `eos` is True."""
        lengths = self.lengths if eos else self.lengths - self.ended.long()
        rows = zip(self.tokens.tolist(), lengths.tolist(), strict=True)
        return [tokenizer.decode(row[:length]) for row, length in rows]

    def prompt_texts(self, tokenizer: Tokenizer) -> list[str]:
        """The prompts as texts."""
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


# ------------------------------------------------------------------------- the model's output for each token


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
    values = model(completions.inputs, completions.input_mask)
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
    """
    return _of_tokens(_log_probs(logits, temperature, mask), tokens, mask)


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
    return _entropy(_log_probs(logits, temperature))


def token_logp_and_entropy(
    logits: Tensor, tokens: Tensor, temperature: float, mask: Tensor, *, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """`token_logp`, and `token_entropy` with or without a gradient, from one softmax."""
    log_probs = _log_probs(logits, temperature, mask)
    entropy = _entropy(log_probs if entropy_gradient else log_probs.detach())
    return _of_tokens(log_probs, tokens, mask), _at(mask, entropy)


def _log_probs(logits: Tensor, temperature: float, mask: Tensor | None = None) -> Tensor:
    """Log-probabilities, [..., V]; with a mask, [n, V] of the n tokens where it is True."""
    logits = logits if mask is None else logits[mask]
    # In half precision, a log-probability would have two or three digits.
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    logits = logits if temperature == 1 else logits / temperature
    return logits.log_softmax(dim=-1)


def _of_tokens(log_probs: Tensor, tokens: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return log_probs.gather(-1, tokens[..., None]).squeeze(-1)
    return _at(mask, log_probs.gather(-1, tokens[mask][:, None]).squeeze(-1))


def _at(mask: Tensor, numbers: Tensor) -> Tensor:
    """The numbers where the mask is True, 0 elsewhere."""
    return numbers.new_zeros(mask.shape).masked_scatter(mask, numbers)


def _entropy(log_probs: Tensor) -> Tensor:
    # −∞ is made finite, for 0 · log 0, which is 0. A million numbers at a time fit the processor's cache.
    least, size = torch.finfo(log_probs.dtype).min, log_probs.shape[-1]
    rows = log_probs.reshape(-1, size).split(2**20 // size + 1)
    parts = (x.clamp(min=least) for x in rows)
    return torch.cat([-(x.exp() * x).sum(dim=-1) for x in parts]).view(log_probs.shape[:-1])
