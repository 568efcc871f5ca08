"""A language model of GPT-2's shape, small enough to read, and how it writes.

    x_i = E[token_i] + P[position_i]                      E: one row a word, P: one row a position
    for each block
        q, k, v = qkv(norm(x))                            each cut into heads
        x += proj( Σ_{j ≤ i} softmax_j(q_i · k_j / √d) v_j )
        x += down( gelu( up(norm(x)) ) )
    logits_i = E norm(x_i)                                what comes after token i

Padding may stand anywhere in a row. It is attended to by no token and counted by no position, so it changes
nothing: not where a row begins, not by what it holds. A decoder draws no random number after its first
weights; it has no dropout.

Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.3, on the transformer of
Vaswani et al. 2017, "Attention is all you need", section 3. Weights of GPT-2 fit: its c_attn is `qkv`, its
attn.c_proj `proj`, its mlp.c_fc `up` and mlp.c_proj `down` (it keeps these matrices transposed).
"""

from __future__ import annotations

import copy
import math
import os
import pickle
import zipfile
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ppobook import validation
from ppobook.language.tokens import (
    Completions,
    mask_of,
    refuse_unless_ids,
    refuse_unless_padded,
)


class LanguageModel(Protocol):
    """What training and generation ask of a model, ours or another's behind an adapter.

    It is a torch module as well. `generate` calls `start_cache` once and then `step` for each further token.
    """

    vocab_size: int
    eos: int
    pad: int
    context: int
    width: int

    def hidden(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """What the last layer makes of each token, ready for `head`: [B, L] to [B, L, width]."""

    def head(self, hidden: Tensor) -> Tensor:
        """The logits of the next token, [..., width] to [..., V]."""

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """``head(hidden(tokens, mask))``, [B, L, V]."""

    def __call__(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor: ...

    def start_cache(self, tokens: Tensor, mask: Tensor | None, room: int) -> tuple[Tensor, Any]:
        """Read prompts [B, P]: the logits of what comes next, [B, V], and a cache with room for more."""

    def step(self, tokens: Tensor, cache: Any) -> Tensor:
        """Read one more token a row, [B], and say what comes next, [B, V]. The cache is written to."""


# -------------------------------------------------------------------------------------------- the model


@dataclass(frozen=True)
class DecoderConfig:
    """The sizes of a decoder, and the two ids that it must know.

    Parameters
    ----------
    vocab_size : int
    context : int
        The most tokens that a row may have; padding does not count.
    layers, width, heads : int
        Width is a multiple of heads. The hidden layer of each block is four times as wide.
    eos, pad : int
        The ids that end a sequence and fill one up. They may be the same: masks tell them apart.
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
        for name in ("vocab_size", "context", "layers", "width", "heads"):
            validation.count(name, getattr(self, name))
        for name in ("eos", "pad"):
            validation.count(name, getattr(self, name), low=0, high=self.vocab_size - 1)
        if self.width % self.heads:
            raise ValueError(
                f"width is {self.width} and heads is {self.heads}; a multiple of heads is wanted"
            )


class Decoder(nn.Module):
    """Tokens in, logits of each next token out.

    First weights are GPT-2's: normal with deviation 0.02, those that write into the residual stream smaller
    by √(2 · layers), so that its size does not grow with depth; biases 0. Input and output share one table of
    words (Press and Wolf 2017, "Using the output embedding to improve language models").

    Parameters
    ----------
    config : DecoderConfig
    seed : int or torch.Generator
        For the first weights. torch's own random state is left as it was.
    """

    def __init__(self, config: DecoderConfig, *, seed: int | torch.Generator = 0) -> None:
        super().__init__()
        self.config = config
        self.vocab_size, self.context, self.width = config.vocab_size, config.context, config.width
        self.eos, self.pad = config.eos, config.pad
        # Not by skip_init, which for a table imports torch's compiler: a second and a half.
        self.wte, self.wpe = (
            nn.Embedding.from_pretrained(torch.empty(rows, config.width), freeze=False)
            for rows in (config.vocab_size, config.context)
        )
        self.blocks = nn.ModuleList(Block(config.width, config.heads) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.width)

        if not isinstance(seed, torch.Generator):
            seed = torch.Generator().manual_seed(validation.count("seed", seed, low=0))
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                into_stream = name.endswith(("proj.weight", "down.weight"))
                scale = 1 / math.sqrt(2 * config.layers) if into_stream else 1.0
                nn.init.normal_(parameter, std=0.02 * scale, generator=seed)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The logits of what comes after each token: [B, L] to [B, L, V].

        Parameters
        ----------
        tokens : int64, shape (B, L)
        mask : bool, shape (B, L), optional
            True where a token is real. Elsewhere `tokens` may hold anything, and what comes back is finite
            and means nothing.

        Raises
        ------
        ValueError, TypeError
            Another shape or dtype, an id that is none of the vocabulary's, a row of more tokens than the
            context has room for.
        """
        return self.head(self.hidden(tokens, mask))

    def hidden(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The same without the last matrix, [B, L, width]."""
        x, bias, _ = self._read(tokens, mask)
        for block in self.blocks:
            x = block(x, bias)
        return self.ln_f(x)

    def head(self, hidden: Tensor) -> Tensor:
        """How well each word of the vocabulary goes with a hidden vector, [..., width] to [..., V]."""
        return F.linear(hidden, self.wte.weight)

    @torch.no_grad()
    def start_cache(self, tokens: Tensor, mask: Tensor | None, room: int) -> tuple[Tensor, Cache]:
        """Read prompts whose last column is real, and remember their keys and values.

        Parameters
        ----------
        tokens, mask : shape (B, P), as for `forward`
        room : int
            How many more tokens a row the cache will take.

        Returns
        -------
        logits : tensor, shape (B, V)
            Of the first token after the prompt.
        cache : Cache
            For `step`. It belongs to this batch and to these weights.
        """
        room = validation.count("room", room, low=0)
        with torch.inference_mode():
            x, bias, positions = self._read(tokens, mask)
            cache = Cache(self, tokens, mask, positions, room)
            hidden = self._go_on(x, bias, cache)
        return self.head(hidden), cache

    @torch.no_grad()
    def step(self, tokens: Tensor, cache: Cache) -> Tensor:
        """The logits after one more token in each row: [B] to [B, V]. Equal to reading all from the start."""
        if cache.columns == cache.room:
            raise ValueError(f"the cache has room for {cache.room} columns, and all of them are filled")
        with torch.inference_mode():
            x = (self._words(tokens) + cache.places[:, cache.columns - cache.start])[:, None]
            cache.columns += 1
            bias = None if cache.padding is None else cache.padding[..., : cache.columns]
            hidden = self._go_on(x, bias, cache)
        # Not in there: a caller may write to these logits, and not to what inference mode has made.
        return self.head(hidden)

    def _go_on(self, x: Tensor, bias: Tensor | None, cache: Cache) -> Tensor:
        """Through all blocks with what the cache holds, [B, width] at the last column."""
        for weights, past in zip(cache.weights, cache.layers, strict=True):
            x = transform(x, weights, cache.heads, bias, past.narrow(3, 0, cache.columns))
        return self.ln_f(x[:, -1])

    def _read(self, tokens: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor]:
        """Embedded tokens [B, L, width], what is added to scores of attention, and positions [B or 1, L]."""
        refuse_unless_ids("tokens", tokens)
        length, device = tokens.shape[1], self.wte.weight.device
        if tokens.device != device:
            raise ValueError(f"tokens is on {tokens.device} and the model on {device}; one device is wanted")
        if mask is None:
            positions = torch.arange(length, device=device)[None]
        else:
            mask = mask_of("mask", mask, tokens)
            tokens = tokens.masked_fill(~mask, self.pad)
            positions = (mask.cumsum(dim=1) - 1).clamp_(min=0)
        if length > self.context and (longest := int(positions.max()) + 1) > self.context:
            raise ValueError(
                f"tokens has a row of {longest} tokens; at most context = {self.context} are wanted"
            )
        # On a CPU the table itself notices an id that it has no row for. An accelerator would be lost to it.
        if device.type != "cpu":
            self._refuse_unless_words(tokens)
        x = self._words(tokens) + F.embedding(positions, self.wpe.weight)
        return x, _bias(mask, x), positions

    def _words(self, tokens: Tensor) -> Tensor:
        try:
            return F.embedding(tokens, self.wte.weight)
        except IndexError:
            self._refuse_unless_words(tokens)
            raise

    def _refuse_unless_words(self, tokens: Tensor) -> None:
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= self.vocab_size:
            raise ValueError(f"tokens holds ids from {low} to {high}; 0 to {self.vocab_size - 1} are wanted")


class Weights(NamedTuple):
    """The parameters of one block, out of their modules."""

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


class Block(nn.Module):
    """Look back, then think: attention and a hidden layer, each added to what comes in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.qkv = nn.utils.skip_init(nn.Linear, width, 3 * width)
        self.proj = nn.utils.skip_init(nn.Linear, width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.up = nn.utils.skip_init(nn.Linear, width, 4 * width)
        self.down = nn.utils.skip_init(nn.Linear, 4 * width, width)

    def weights(self) -> Weights:
        layers: tuple[Any, ...] = (self.ln_1, self.qkv, self.proj, self.ln_2, self.up, self.down)
        return Weights(*(x for layer in layers for x in (layer.weight, layer.bias)))

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """[B, L, width] to the same; `bias` as for `transform`."""
        return transform(x, self.weights(), self.heads, bias)


def transform(
    x: Tensor, w: Weights, heads: int, bias: Tensor | None = None, past: Tensor | None = None
) -> Tensor:
    """What a block does, [B, L, width] to the same.

    A function of its weights, so that generation looks them up once and not at every token: at small sizes
    that is a fifth of its time.

    Parameters
    ----------
    bias : tensor that broadcasts to [B, heads, L, columns], optional
        Added to the scores of attention. None: each token looks at all columns up to its own.
    past : tensor, shape (2, B, heads, columns, d), optional
        Keys and values of all columns so far. Those of x are the last of them, and are filled in here.
    """
    rows, length, width = x.shape
    qkv = F.linear(F.layer_norm(x, (width,), w.ln_1, w.ln_1_bias), w.qkv, w.qkv_bias)
    qkv = qkv.view(rows, length, 3, heads, -1).permute(2, 0, 3, 1, 4)  # [3, B, heads, L, d]
    query, keys, values = qkv.unbind(0)
    if past is not None:
        past.narrow(3, past.shape[3] - length, length).copy_(qkv[1:])
        keys, values = past.unbind(0)
    # A single query stands at the last column, and may look at all of them.
    causal = bias is None and length > 1
    seen = F.scaled_dot_product_attention(query, keys, values, attn_mask=bias, is_causal=causal)
    x = x + F.linear(seen.transpose(1, 2).reshape(rows, length, width), w.proj, w.proj_bias)
    inner = F.linear(F.layer_norm(x, (width,), w.ln_2, w.ln_2_bias), w.up, w.up_bias)
    return x + F.linear(gelu(inner), w.down, w.down_bias)


class Cache:
    """Keys and values of all tokens read so far, so that none is read twice.

    Attributes
    ----------
    layers : list of tensors, each [2, B, heads, room, d]
        Made once, with room for all that will come.
    columns : int
        How many of them are filled; `start`, with the prompt.
    places : [B or 1, room − start, width]
        The embedded positions of the columns to come.
    padding : [B, 1, 1, room], or None
        −inf where a prompt has padding, if any has.
    """

    def __init__(
        self, model: Decoder, tokens: Tensor, mask: Tensor | None, positions: Tensor, room: int
    ) -> None:
        rows, self.start = tokens.shape
        self.columns, self.room = self.start, self.start + room
        last = positions[:, -1:]
        if (longest := int(last.max()) + 1) + room > model.context:
            raise ValueError(
                f"tokens has a row of {longest} tokens and room is {room}; together at most "
                f"context = {model.context} are wanted"
            )
        to_come = last + torch.arange(1, room + 1, device=last.device)
        self.places = F.embedding(to_come, model.wpe.weight)
        blocks: Any = model.blocks
        self.weights = [Weights(*(x.detach() for x in block.weights())) for block in blocks]
        self.heads = model.config.heads
        like, depth = model.wte.weight, model.width // self.heads
        self.layers = [like.new_empty(2, rows, self.heads, self.room, depth) for _ in self.weights]
        self.padding: Tensor | None = None
        real = None if mask is None else mask_of("mask", mask, tokens)
        if real is not None and not real.all():
            self.padding = like.new_zeros(rows, 1, 1, self.room)
            self.padding[:, 0, 0, : self.start].masked_fill_(~real, -math.inf)


def _bias(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """What keeps attention from the future and from padding, [B, 1, L, L]; None where the triangle does.

    Padding after the last token of every row is in the future of all tokens already. A padded place may look
    at itself: not all that computes attention takes a softmax over nothing for 0, and not for NaN.
    """
    if mask is None or not (mask[:, 1:] & ~mask[:, :-1]).any():
        return None
    length = mask.shape[1]
    past = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril_()
    itself = torch.eye(length, dtype=torch.bool, device=mask.device)
    allowed = (past & mask[:, None, :]) | itself
    return torch.where(allowed, 0.0, -math.inf).to(like.dtype)[:, None]


# ½ x (1 + tanh(z / 2)) is x σ(z): here z = c x + d x³.
_C = 2 * math.sqrt(2 / math.pi)
_D = _C * 0.044715
_C_OF = {dtype: torch.tensor(_C, dtype=dtype) for dtype in (torch.float32, torch.float64)}


def gelu(x: Tensor) -> Tensor:
    """GELU in the approximation that GPT-2 was trained with.

        ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))

    Hendrycks and Gimpel 2016, "Gaussian error linear units (GELUs)", section 2.
    """
    # torch's own is the same, but on a CPU its tanh takes a sixth of a training step.
    if x.device.type != "cpu" or x.dtype not in _C_OF:
        return F.gelu(x, approximate="tanh")
    return _Gelu.apply(x)[0] if x.requires_grad else _gate(x).mul_(x)


def _gate(x: Tensor) -> Tensor:
    return torch.addcmul(_C_OF[x.dtype], x, x, value=_D).mul_(x).sigmoid_()


class _Gelu(torch.autograd.Function):
    """x σ(z), and its slope σ(z) (1 + x z' (1 − σ(z)))."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        gate = _gate(x)
        return x * gate, gate

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs, output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, _: None) -> Tensor | None:
        if gradient is None:
            return None
        x, gate = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again, which nothing written in place can be
            gate = torch.sigmoid(x * (_C + _D * x * x))
            return gradient * gate * (1 + x * (_C + 3 * _D * x * x) * (1 - gate))
        slope = torch.addcmul(_C_OF[x.dtype], x, x, value=3 * _D).mul_(x)
        slope.addcmul_(slope, gate, value=-1)
        return slope.add_(1).mul_(gate).mul_(gradient)


class Scalar(nn.Module):
    """One number a token: a language model's body with a single output in place of the vocabulary.

    As a critic, the value of the state in which a token has been read; as a reward model, what the token
    adds, or, read at the last one, what the whole is worth. The new output starts at 0 for every token.

    Parameters
    ----------
    body : LanguageModel
        Its weights are copied: training the one leaves the other as it is.
    bias : bool
        Whether a constant is added to each number. A *sum* over tokens would pay it once a token.
    """

    def __init__(self, body: Any, bias: bool = True) -> None:
        super().__init__()
        # A model may have a head that is not its table of words, and nothing here reads it.
        self.body = body.headless() if hasattr(body, "headless") else copy.deepcopy(body)
        like = next(self.body.parameters())
        self.output = nn.utils.skip_init(
            nn.Linear, body.width, 1, bias=validation.flag("bias", bias), dtype=like.dtype, device=like.device
        )
        for parameter in self.output.parameters():
            nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """[B, L] to [B, L]; 0 at padding."""
        numbers = self.output(self.body.hidden(tokens, mask)).squeeze(-1)
        return numbers if mask is None else numbers.masked_fill(~mask_of("mask", mask, tokens), 0.0)


# ------------------------------------------------------------------------------------------- generation


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompts: Tensor,
    prompt_mask: Tensor | None,
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    numbers: Tensor | None = None,
    at_once: int | None = None,
) -> Completions:
    """Let a model go on from each prompt, until all have ended or the limit is reached.

        z = logits / temperature
        keep the top_k most probable words, then of these the fewest whose share reaches top_p
        draw one

    All rows are written side by side, one token a step, with a cache of keys and values. A row that has
    sampled an end of sequence samples nothing more. Each token costs the generator one number in each row and
    each of the `max_new_tokens` columns, drawn before the first token: what one row writes, or when it ends,
    does not change what another is given.

    Parameters
    ----------
    model : LanguageModel
    prompts : int64, shape (B, P)
        Padded on the left, as `left_pad` does.
    prompt_mask : bool, shape (B, P), or None
        True where a token is real. None: everywhere.
    max_new_tokens : int
        Prompt and completion together must fit the model's context.
    temperature : float of at least 0
        Above 1 flatter, below 1 sharper. 0 is greedy: always the most probable word, and no generator.
    top_k : int of at least 1, optional
    top_p : float above 0 and at most 1, optional
    generator : torch.Generator
        On the model's device.
    numbers : float64, shape (B, max_new_tokens), optional
        Numbers of [0, 1) in place of a generator: who does some rows of a batch gives these rows their own.
    at_once : int, optional
        Rows that are written side by side; the others wait. Left out: all of them.

    Returns
    -------
    Completions
        With as many columns as the longest needs. `logp` is that of the distribution at `temperature`
        *before* top_k and top_p have cut it, since that is the policy that a ratio compares with; for a
        greedy completion it is that at temperature 1.

    Raises
    ------
    ValueError, TypeError
        An empty prompt, padding that is not on the left, an id that is none of the vocabulary's, a prompt
        that leaves no room for the new tokens, a setting out of its range, no generator.
    FloatingPointError
        The model's logits are NaN or infinite.

    References
    ----------
    Fan, Lewis and Dauphin 2018, "Hierarchical neural story generation", for top_k. Holtzman et al. 2020, "The
    curious case of neural text degeneration", section 3.1, for top_p.
    """
    prompts, prompt_mask = _prompts(model, prompts, prompt_mask, max_new_tokens)
    temperature = validation.number("temperature", temperature, low=0)
    top_k = None if top_k is None else validation.count("top_k", top_k)
    top_p = None if top_p is None else validation.number("top_p", top_p, above=0, high=1)
    rows, device = len(prompts), prompts.device
    if numbers is not None:
        validation.shape("numbers", numbers, (rows, max_new_tokens), "a number a row and a new token")
    elif temperature > 0 and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator is {generator!r}; a torch.Generator to draw from is wanted, but at temperature 0"
        )

    elif temperature > 0:
        numbers = torch.rand(rows, max_new_tokens, generator=generator, dtype=torch.float64, device=device)
    if at_once is not None and rows > validation.count("at_once", at_once):
        how: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        return Completions.join(
            [
                generate(
                    model,
                    prompts[some],
                    prompt_mask[some],
                    max_new_tokens,
                    numbers=None if numbers is None else numbers[some],
                    **how,
                )
                for some in torch.arange(rows, device=device).split(at_once)
            ]
        )

    tokens = torch.full((rows, max_new_tokens), model.pad, device=device)
    alive = torch.ones(rows, dtype=torch.bool, device=device)
    mask, logp = [], []
    logits, cache = model.start_cache(prompts, prompt_mask, max_new_tokens - 1)
    for t in range(max_new_tokens):
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        log_probs = (logits / (temperature or 1.0)).log_softmax(dim=-1)
        if temperature > 0:
            assert numbers is not None
            drawn = draw(restrict(log_probs, top_k, top_p), numbers[:, t])
        else:
            drawn = log_probs.argmax(dim=-1)
        mask.append(alive)
        logp.append(log_probs.gather(-1, drawn[:, None]))
        tokens[:, t] = drawn
        alive = alive & (drawn != model.eos)
        if t + 1 == max_new_tokens or not alive.any():
            break
        logits = model.step(drawn, cache)

    real = torch.stack(mask, dim=1)
    each_logp = torch.cat(logp, dim=1).masked_fill_(~real, 0.0)
    if not math.isfinite(each_logp.sum().item()):
        raise FloatingPointError("the model's logits are not finite; a model that can be sampled is wanted")
    tokens = tokens[:, : len(mask)].masked_fill_(~real, model.pad)
    return Completions(prompts, prompt_mask, tokens, real, each_logp, ended=~alive)


def restrict(logits: Tensor, top_k: int | None = None, top_p: float | None = None) -> Tensor:
    """The logits [..., V], with −inf at all words but those that may be drawn.

    The `top_k` largest are kept; then, of what these have together, the fewest whose probability reaches
    `top_p`, the most probable first. That one is always kept.
    """
    top_p = None if top_p == 1 else top_p
    top_k = None if top_k is None or top_k >= logits.shape[-1] else top_k
    if top_k is None and top_p is None:
        return logits
    ranked, order = logits.sort(descending=True) if top_k is None else logits.topk(top_k)
    if top_p is not None:
        p = ranked.softmax(dim=-1)
        ranked = ranked.masked_fill(p.cumsum(dim=-1) - p >= top_p, -math.inf)
    return torch.full_like(logits, -math.inf).scatter(-1, order, ranked)


def draw(logits: Tensor, uniform: Tensor) -> Tensor:
    """A word a row, by its place: lay the probabilities end to end, and take the one that u falls on.

    logits [B, V], numbers of [0, 1) [B], to ids [B]. A word of probability 0 is never taken.
    """
    edges = logits.softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    place = torch.searchsorted(edges, uniform[:, None] * edges[:, -1:], right=True)
    # Only among NaN is there a place past the last edge.
    return place.squeeze(-1).clamp_(max=logits.shape[-1] - 1)


def _prompts(
    model: LanguageModel, prompts: Tensor, prompt_mask: Tensor | None, max_new_tokens: int
) -> tuple[Tensor, Tensor]:
    refuse_unless_ids("prompts", prompts)
    if prompt_mask is None:
        prompt_mask = torch.ones_like(prompts, dtype=torch.bool)
    prompt_mask = mask_of("prompt_mask", prompt_mask, prompts)
    refuse_unless_padded("prompt_mask", prompt_mask, left=True)
    prompts = prompts.masked_fill(~prompt_mask, model.pad)
    low, high = int(prompts.min()), int(prompts.max())
    if low < 0 or high >= model.vocab_size:
        raise ValueError(f"prompts holds ids from {low} to {high}; 0 to {model.vocab_size - 1} are wanted")
    max_new_tokens = validation.count("max_new_tokens", max_new_tokens)
    longest = int(prompt_mask.sum(dim=1).max())
    if longest + max_new_tokens > model.context:
        raise ValueError(
            f"prompts has a row of {longest} tokens and max_new_tokens is {max_new_tokens}; together at most "
            f"context = {model.context} are wanted"
        )
    return prompts, prompt_mask


# --------------------------------------------------------------------------------------------- on disk


def save_model(model: Decoder | Scalar, path: str | Path) -> None:
    """Write a decoder, or a `Scalar` on one, to a file: sizes and weights. The file is whole or as it was."""
    scalar = isinstance(model, Scalar)
    decoder = model.body if isinstance(model, Scalar) else model
    if not isinstance(decoder, Decoder):
        raise TypeError(
            f"model is of type {type(decoder).__name__}; a Decoder, or a Scalar on one, is wanted"
        )
    content = {
        "config": asdict(decoder.config),
        "scalar": scalar,
        "bias": isinstance(model, Scalar) and model.output.bias is not None,
        "weights": model.state_dict(),
    }
    path = Path(path)
    beside = path.with_name(path.name + ".part")
    torch.save(content, beside)
    os.replace(beside, path)


def load_model(path: str | Path, device: str | torch.device = "cpu") -> Any:
    """The model that `save_model` wrote: a `Decoder` or a `Scalar`. The file can't run code.

    Raises
    ------
    FileNotFoundError
    ValueError
        The file holds something else.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"path is {path}, where there is no file; one that save_model wrote is wanted"
        )
    try:
        validation.whole_archive(path)
        content = torch.load(path, map_location=device, weights_only=True)
        if not isinstance(content, dict):
            raise TypeError(f"a {type(content).__name__} and no dict")
        config, weights = DecoderConfig(**content["config"]), content["weights"]
        model: Any = Decoder(config)
        if content["scalar"]:
            model = Scalar(model, content["bias"])
        model.to(device=device, dtype=next(iter(weights.values())).dtype).load_state_dict(weights)
    except (
        pickle.UnpicklingError,
        LookupError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
        EOFError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(
            f"path is {path}, which holds no model ({validation.reason(error)}); what save_model wrote is wanted"
        ) from None
    return model
