"""A decoder-only transformer of GPT-2's architecture.

    x_i = E[token_i] + P[position_i]
    in each block:
        q, k, v = qkv(norm(x))                                    each split into heads
        x = x + proj( Σ_{j ≤ i} softmax_j(q_i · k_j / √d) v_j )
        x = x + down( gelu( up(norm(x)) ) )
    logits_i = E norm(x_i)                                        of token i + 1

Padding may stand anywhere in a row. No token attends to it, and it does not count for positions, so it has
no effect on the logits at tokens or on gradients. There is no dropout.

Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.3, on the transformer of
Vaswani et al. 2017, "Attention is all you need", section 3. Weights of GPT-2 fit: its c_attn is `qkv`, its
attn.c_proj `proj`, its mlp.c_fc `up` and its mlp.c_proj `down` (stored transposed); its n_layer, n_embd,
n_head and n_positions are `layers`, `width`, `heads` and `context`.
"""

from __future__ import annotations

import copy
import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ppobook.language.cache import KVCache, LayerCache


class LanguageModel(Protocol):
    """The interface that training and generation use; a model is a torch module as well.

    `generate` calls `start_cache` once, then `step` for each further token.
    """

    vocab_size: int
    eos: int
    pad: int
    context: int
    width: int

    def hidden(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The final hidden states, the input of `head`: [B, L] to [B, L, width]."""

    def head(self, hidden: Tensor) -> Tensor:
        """Next-token logits, [..., width] to [..., V]."""

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """``head(hidden(tokens, mask))``, [B, L, V]."""

    def __call__(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor: ...

    def start_cache(self, tokens: Tensor, mask: Tensor | None, room: int) -> tuple[Tensor, Any]:
        """Read prompts [B, P]: next-token logits [B, V], and a cache with room for `room` more tokens."""

    def step(self, tokens: Tensor, cache: Any) -> Tensor:
        """Read one more token a row, [B]: next-token logits [B, V]. Updates the cache in place."""


@dataclass(frozen=True)
class DecoderConfig:
    """The sizes of a `Decoder`, and its special tokens.

    `context` is the most tokens in a row, without padding; `width` must be a multiple of `heads`. The ids of
    end-of-sequence and padding, `eos` and `pad`, may be the same: masks tell the two apart.
    """

    vocab_size: int
    context: int = 48
    layers: int = 2
    width: int = 64
    heads: int = 4
    _: KW_ONLY
    eos: int
    pad: int

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads = {self.heads}, got {self.width}")


class Block(nn.Module):
    """A pre-norm transformer block: attention and an MLP, each with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.qkv = nn.utils.skip_init(nn.Linear, width, 3 * width)
        self.proj = nn.utils.skip_init(nn.Linear, width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.up = nn.utils.skip_init(nn.Linear, width, 4 * width)
        self.down = nn.utils.skip_init(nn.Linear, 4 * width, width)

    def forward(
        self, x: Tensor, attention_mask: Tensor | None = None, cache: LayerCache | None = None
    ) -> Tensor:
        """[B, L, width] to the same. For the other arguments see `attention`."""
        x = x + self.attention(self.ln_1(x), attention_mask, cache)
        return x + self.mlp(self.ln_2(x))

    def attention(self, x: Tensor, attention_mask: Tensor | None, cache: LayerCache | None) -> Tensor:
        """Causal multi-head self-attention.

        Parameters
        ----------
        attention_mask : tensor that broadcasts to [B, heads, L, columns], or None
            bool: which columns each token attends to. None: all up to its own.
        cache : LayerCache or None
            Keys and values of earlier tokens. Those of x are appended.
        """
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = self.qkv(x).split(width, dim=-1)
        q = q.view(split).transpose(1, 2)  # [B, heads, L, d]
        k = k.view(split).transpose(1, 2)
        v = v.view(split).transpose(1, 2)
        if cache is not None:
            k, v = cache.append(k, v)
        # scores = q kᵀ / √d, −∞ where a token may not look; weights = softmax(scores); y = weights v.
        # A single query is the last token, and attends to all columns.
        causal = attention_mask is None and length > 1
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask, is_causal=causal)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))

    def mlp(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Decoder(nn.Module):
    """Tokens in, next-token logits out. Input and output embeddings are tied (Press and Wolf 2017).

    Parameters
    ----------
    config : DecoderConfig
    seed : int or torch.Generator
        For the initial weights. torch's global random state is not changed.
    """

    def __init__(self, config: DecoderConfig, *, seed: int | torch.Generator = 0) -> None:
        super().__init__()
        self.config = config
        self.vocab_size, self.context, self.width = config.vocab_size, config.context, config.width
        self.eos, self.pad = config.eos, config.pad
        # Not by skip_init, which imports torch's compiler for an embedding: 1.5 seconds.
        self.wte, self.wpe = (
            nn.Embedding.from_pretrained(torch.empty(rows, config.width), freeze=False)
            for rows in (config.vocab_size, config.context)
        )
        self.blocks = nn.ModuleList(Block(config.width, config.heads) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.width)
        self.init_weights(seed)

    def init_weights(self, seed: int | torch.Generator) -> None:
        """GPT-2's initialization: biases 0, weights normal with standard deviation 0.02.

        Those of the layers that write to the residual stream are scaled by 1/√(2 · layers), so that its
        variance does not grow with depth.
        """
        if not isinstance(seed, torch.Generator):
            seed = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                residual = name.endswith(("proj.weight", "down.weight"))
                scale = 1 / math.sqrt(2 * self.config.layers) if residual else 1.0
                nn.init.normal_(parameter, std=0.02 * scale, generator=seed)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits of the token after each token: [B, L] to [B, L, V].

        Parameters
        ----------
        tokens : int64, shape (B, L)
        mask : bool, shape (B, L), optional
            False at padding, where `tokens` may hold anything and the logits are finite but meaningless.
        """
        return self.head(self.hidden(tokens, mask))

    def hidden(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The final hidden states, [B, L] to [B, L, width]."""
        x, attention_mask, _ = self.embed(tokens, mask)
        for block in self.blocks:
            x = block(x, attention_mask)
        return self.ln_f(x)

    def head(self, hidden: Tensor) -> Tensor:
        """Next-token logits, [..., width] to [..., V]."""
        return F.linear(hidden, self.wte.weight)

    def embed(self, tokens: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor]:
        """Embedded tokens [B, L, width], the attention mask for them, and their positions [B or 1, L]."""
        if mask is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
        else:
            tokens = tokens.masked_fill(~mask, self.pad)
            positions = (mask.cumsum(dim=1) - 1).clamp_(min=0)
        x = self.wte(tokens) + self.wpe(positions)
        return x, causal_padding_mask(mask), positions

    @torch.no_grad()
    def start_cache(self, tokens: Tensor, mask: Tensor | None, room: int) -> tuple[Tensor, KVCache]:
        """Read prompts, and keep the keys and values of their tokens.

        Parameters
        ----------
        tokens, mask : shape (B, P)
            As in `forward`; the last column must hold no padding.
        room : int
            How many more tokens a row the cache has room for.

        Returns
        -------
        logits : tensor, shape (B, V)
        cache : KVCache
            For `step`, as long as the weights stay the same.
        """
        with torch.inference_mode():
            x, attention_mask, positions = self.embed(tokens, mask)
            cache = KVCache(self, tokens, mask, positions, room)
            for block, layer in zip(self.blocks, cache.layers, strict=True):
                x = block(x, attention_mask, layer)
        return self.head(self.ln_f(x[:, -1])), cache

    @torch.no_grad()
    def step(self, tokens: Tensor, cache: KVCache) -> Tensor:
        """Logits after one more token in each row, [B] to [B, V]: those of `forward` on all tokens."""
        with torch.inference_mode():
            positions, attention_mask = cache.advance()
            x = self.wte(tokens[:, None]) + self.wpe(positions)
            for block, layer in zip(self.blocks, cache.layers, strict=True):
                x = block(x, attention_mask, layer)
        return self.head(self.ln_f(x[:, -1]))


def causal_padding_mask(mask: Tensor | None) -> Tensor | None:
    """Build the mask, [B, L] to [B, 1, L, L], by which columns attend to tokens up to them and to themselves.

    A softmax over nothing, at padding before the first token, could be NaN: hence itself. None if padding
    stands only after the last token of each row: causal attention alone keeps tokens from it.
    """
    if mask is None or not (mask[:, 1:] & ~mask[:, :-1]).any():
        return None
    length = mask.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril_()
    itself = torch.eye(length, dtype=torch.bool, device=mask.device)
    return ((causal & mask[:, None, :]) | itself)[:, None]


class Scalar(nn.Module):
    """A language model with a scalar head: one number a token, in place of logits.

    As a critic, the value of the state after a token; in a reward model, the token's contribution to the
    reward, or, at the last token, the reward. The head starts at 0; the body's weights are copied. Without
    `bias`, a sum over tokens adds no constant for each.
    """

    def __init__(self, body: Any, bias: bool = True) -> None:
        super().__init__()
        # A pretrained model may have a head that is not tied to its embedding; it is not copied.
        self.body = body.headless() if hasattr(body, "headless") else copy.deepcopy(body)
        like = next(self.body.parameters())
        self.output = nn.utils.skip_init(
            nn.Linear, body.width, 1, bias=bias, dtype=like.dtype, device=like.device
        )
        for parameter in self.output.parameters():
            nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """[B, L] to [B, L]; 0 at padding."""
        values = self.output(self.body.hidden(tokens, mask)).squeeze(-1)
        return values if mask is None else values.masked_fill(~mask, 0.0)
