"""Generation by a `Decoder` whose parameters are looked up once and not at every token.

The plain form is `Decoder.start_cache` and `Decoder.step`, through the modules. At small sizes most of the
time of a step is spent between its products of matrices, so this takes a fifth off generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ppobook.fast.gelu import FastGELU, gelu
from ppobook.language.cache import KVCache, LayerCache

if TYPE_CHECKING:
    from ppobook.language.model import Decoder


def use(decoder: Decoder, fast: bool) -> None:
    """Let a decoder compute GELU in the fast form, or in the plain one; and let `generate` know which."""
    decoder.fast = fast
    for block in decoder.blocks:
        block.gelu = FastGELU() if fast else nn.GELU(approximate="tanh")


class FastDecoding:
    """`start_cache` and `step` of a decoder, for as long as its weights stay the same."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.weights = [Weights.of(block) for block in decoder.blocks]

    @torch.no_grad()
    def start_cache(self, tokens: Tensor, mask: Tensor | None, room: int) -> tuple[Tensor, KVCache]:
        """As `Decoder.start_cache`."""
        with torch.inference_mode():
            x, attention_mask, positions = self.decoder.embed(tokens, mask)
            cache = KVCache(self.decoder, tokens, mask, positions, room)
            hidden = self.blocks(x, attention_mask, cache)
        # Not in inference mode: a caller may write to these logits.
        return self.decoder.head(hidden), cache

    @torch.no_grad()
    def step(self, tokens: Tensor, cache: KVCache) -> Tensor:
        """As `Decoder.step`."""
        with torch.inference_mode():
            positions, attention_mask = cache.advance()
            x = F.embedding(tokens[:, None], self.decoder.wte.weight)
            x = x + F.embedding(positions, self.decoder.wpe.weight)
            hidden = self.blocks(x, attention_mask, cache)
        return self.decoder.head(hidden)

    def blocks(self, x: Tensor, attention_mask: Tensor | None, cache: KVCache) -> Tensor:
        """The final hidden state at the last column, [B, width]."""
        heads = self.decoder.config.heads
        for weights, layer in zip(self.weights, cache.layers, strict=True):
            x = block(x, weights, heads, attention_mask, layer)
        return self.decoder.ln_f(x[:, -1])


class Weights(NamedTuple):
    """The parameters of a block."""

    ln_1: Tensor
    ln_1_bias: Tensor
    qkv: Tensor
    qkv_bias: Tensor
    proj: Tensor
    proj_bias: Tensor
    ln_2: Tensor
    ln_2_bias: Tensor
    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor

    @classmethod
    def of(cls, block: Any) -> Weights:
        layers = (block.ln_1, block.qkv, block.proj, block.ln_2, block.up, block.down)
        return cls(*(x.detach() for layer in layers for x in (layer.weight, layer.bias)))


def block(x: Tensor, w: Weights, heads: int, attention_mask: Tensor | None, cache: LayerCache) -> Tensor:
    """As `Block.forward`, as a function of its parameters."""
    rows, length, width = x.shape
    qkv = F.linear(F.layer_norm(x, (width,), w.ln_1, w.ln_1_bias), w.qkv, w.qkv_bias)
    qkv = qkv.view(rows, length, 3, heads, -1).permute(2, 0, 3, 1, 4)  # [3, B, heads, L, d]
    start, cache.columns = cache.columns, cache.columns + length
    cache.memory.narrow(3, start, length).copy_(qkv[1:])
    keys, values = cache.memory.narrow(3, 0, cache.columns).unbind(0)
    causal = attention_mask is None and length > 1
    y = F.scaled_dot_product_attention(qkv[0], keys, values, attn_mask=attention_mask, is_causal=causal)
    x = x + F.linear(y.transpose(1, 2).reshape(rows, length, width), w.proj, w.proj_bias)
    inner = F.linear(F.layer_norm(x, (width,), w.ln_2, w.ln_2_bias), w.up, w.up_bias)
    return x + F.linear(gelu(inner), w.down, w.down_bias)
