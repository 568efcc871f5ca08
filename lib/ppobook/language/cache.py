"""The keys and values of tokens that a `Decoder` has read, so that generation reads each token once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from ppobook.language.model import Decoder


class LayerCache:
    """Keys and values of one layer, in memory that is allocated once.

    Parameters
    ----------
    memory : tensor, shape (2, B, heads, columns, d)
    """

    def __init__(self, memory: Tensor) -> None:
        self.memory = memory
        self.columns = 0

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store those of further tokens, [B, heads, L, d]; returns those of all tokens so far."""
        start, self.columns = self.columns, self.columns + keys.shape[2]
        past = self.memory[:, :, :, : self.columns]
        past[0, :, :, start:] = keys
        past[1, :, :, start:] = values
        return past[0], past[1]


class KVCache:
    """The caches of all layers, and what the next token needs: its position, and where padding is.

    Parameters
    ----------
    decoder : Decoder
    tokens, mask : shape (B, P)
        The prompts.
    positions : int64, shape (B or 1, P)
        Of the prompts' tokens.
    room : int
        How many more tokens a row there is memory for.

    Attributes
    ----------
    layers : list of LayerCache
    columns : int
        How many tokens a row have been read, padding included; at most `capacity`.
    positions : int64, shape (B or 1, 1)
        Of the tokens read last.
    padding : tensor, shape (B, 1, 1, capacity), or None
        Added to the attention scores: −∞ at padding, 0 elsewhere. None if there is no padding.
    """

    def __init__(
        self, decoder: Decoder, tokens: Tensor, mask: Tensor | None, positions: Tensor, room: int
    ) -> None:
        self.positions = positions[:, -1:]
        if (longest := int(self.positions.max()) + 1) + room > decoder.context:
            raise ValueError(
                f"tokens and room must have at most context = {decoder.context} tokens a row together, "
                f"got {longest} and room = {room}"
            )
        rows, self.columns = tokens.shape
        self.capacity = self.columns + room
        heads, like = decoder.config.heads, decoder.wte.weight
        shape = (2, rows, heads, self.capacity, decoder.width // heads)
        self.layers = [LayerCache(like.new_empty(shape)) for _ in decoder.blocks]
        self.padding: Tensor | None = None
        if mask is not None and not mask.all():
            self.padding = like.new_zeros(rows, 1, 1, self.capacity)
            self.padding[:, 0, 0, : self.columns].masked_fill_(~mask, -math.inf)

    def advance(self) -> tuple[Tensor, Tensor | None]:
        """Go on to the next token: its position in each row, and the attention mask for it."""
        if self.columns == self.capacity:
            raise ValueError(f"the cache must have room for another token, got all {self.capacity} in use")
        self.columns += 1
        self.positions = self.positions + 1
        return self.positions, None if self.padding is None else self.padding[..., : self.columns]
