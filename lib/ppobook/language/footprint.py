"""Memory and arithmetic that training a causal model of transformers takes, by a formula.

    P weights, A of them trained (with LoRA the adapters, else all)      w, a: bytes of a number
    fixed         w P + 4 A adapters + 4 A gradients + 8 A moments of Adam + 4 A reference
    generating    g rows:   keys and values 2 a L k (X + Y) g            + 28 V g, or the prompts at once
    scoring       m rows:   12 V Y m, or a pass of which nothing is kept
    training      m rows:   activations of L layers, (X + Y) m tokens    + 12 V Y m
    peak          fixed + the largest of the three

    L layers, width h, inner width f, queries of width q, keys of width k, V words in the vocabulary;
    X tokens of a prompt, Y of a completion; with bfloat16, 10 for scoring's 12 and 30 for the 28;
    with gradient checkpointing, one layer or the logits, whichever is larger, beside the layers' inputs

For models of the kind of Llama: RMS norms, rotary positions, a gated MLP, grouped keys and values. The
coefficients are read off the code that runs here: which tensors it keeps for the backward pass, and how many
copies of the logits it has at once. `results/language_footprint` holds them against measurements.

What the formula leaves out: the library's own code (a GPU's context, about half a gigabyte), fragments
between the allocator's blocks, and what a kernel needs while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ppobook import validation

KINDS = ("llama", "mistral", "qwen2", "qwen3")

# ----------------------------------------------------------------------------------------------- the model


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model. `biases` and `norms` are those of a layer; `tied`: the head is the embedding."""

    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    biases: int = 0
    norms: int = 0

    @classmethod
    def of(cls, config: Any) -> Sizes:
        """The sizes in a config of transformers; ValueError for a kind of model other than `KINDS`."""
        kind = getattr(config, "model_type", type(config).__name__)
        if kind not in KINDS:
            raise ValueError(
                f"config must be of a model of the kind {validation.one_of(KINDS)}, got {kind!r}"
            )
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        query, keys = config.num_attention_heads * head_dim, config.num_key_value_heads * head_dim
        of_all = bool(getattr(config, "attention_bias", False))  # Llama's and Qwen3's
        biases = query + 2 * keys + config.hidden_size if of_all else 0
        if kind == "qwen2":
            biases = query + 2 * keys
        if getattr(config, "mlp_bias", False):
            biases += 2 * config.intermediate_size + config.hidden_size
        return cls(
            layers=config.num_hidden_layers,
            width=config.hidden_size,
            inner=config.intermediate_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=head_dim,
            vocab=config.vocab_size,
            tied=bool(config.tie_word_embeddings),
            biases=biases,
            norms=2 * config.hidden_size + (2 * head_dim if kind == "qwen3" else 0),
        )

    @property
    def query(self) -> int:
        """The width of all queries together."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """The width of all keys together."""
        return self.kv_heads * self.head_dim

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Width in and width out of a layer's matrices, by transformers' names."""
        h, f, q, k = self.width, self.inner, self.query, self.keys
        return {
            "q_proj": (h, q),
            "k_proj": (h, k),
            "v_proj": (h, k),
            "o_proj": (q, h),
            "gate_proj": (h, f),
            "up_proj": (h, f),
            "down_proj": (f, h),
        }

    def multiplied(self) -> int:
        """The weights that a token is multiplied with, without the head."""
        return self.layers * sum(a * b for a, b in self.matrices().values())

    def weights(self) -> int:
        """All weights."""
        embeddings = self.vocab * self.width * (1 if self.tied else 2)
        return self.multiplied() + self.layers * (self.biases + self.norms) + self.width + embeddings

    def adapters(self, r: int) -> int:
        """The weights of LoRA's adapters of rank r beside all matrices of the layers."""
        return self.layers * r * sum(a + b for a, b in self.matrices().values())


# ------------------------------------------------------------------------------------------------ the work


@dataclass(frozen=True)
class Work:
    """The work of one update.

    Attributes
    ----------
    rows : int
        Completions of an update, `batch_size`.
    prompt, completion : int
        Tokens of a prompt and of a completion, the longest.
    micro_rows, generation_rows : int or None
        `micro_batch_size` and `generation_rows`. None: as the library has it.
    rank : int or None
        r of LoRA. None: all weights are trained.
    dtype : "float32" or "bfloat16"
    gradient_checkpointing : bool
    stage : "sft" or "grpo"
        SFT neither samples nor has a reference.
    epochs : int
        How often GRPO trains on what it has sampled.
    """

    rows: int
    prompt: int
    completion: int
    micro_rows: int | None = None
    generation_rows: int | None = None
    rank: int | None = None
    dtype: str = "float32"
    gradient_checkpointing: bool = False
    stage: str = "grpo"
    epochs: int = 1

    @property
    def half(self) -> bool:
        """True if matrices are multiplied in half precision."""
        return self.dtype == "bfloat16"

    @property
    def half_weights(self) -> bool:
        """True if the model's weights are in half precision, which requires that none of them is trained."""
        return self.half and self.rank is not None

    @property
    def columns(self) -> int:
        """Tokens that are read of a row: all but the last, from which nothing is predicted."""
        return self.prompt + self.completion - 1

    @property
    def trained_rows(self) -> int:
        """Rows of a forward pass."""
        return min(self.rows, self.micro_rows or self.rows)

    @property
    def sampled_rows(self) -> int:
        """Rows that are generated side by side."""
        return min(self.rows, self.generation_rows or self.micro_rows or self.rows)


# -------------------------------------------------------------------------------------------------- memory


def memory(sizes: Sizes, work: Work) -> dict[str, int]:
    """Bytes at the peak of an update, by their parts.

    Returns
    -------
    dict of int
        weights, adapters, gradients, moments, reference: what is there all the time. generating, scoring,
        training: what is there beside it in a phase, and of training the activations and logits. peak: the
        first five, and the largest of the three.
    """
    trained = sizes.weights() if work.rank is None else sizes.adapters(work.rank)
    parts = {
        "weights": sizes.weights() * (2 if work.half_weights else 4),
        "adapters": 0 if work.rank is None else 4 * trained,
        "gradients": 4 * trained,
        "moments": 8 * trained,
        "reference": 4 * trained if work.stage == "grpo" else 0,
    }
    fixed = sum(parts.values())
    samples = work.stage == "grpo"
    parts["generating"] = _generating(sizes, work) if samples else 0
    parts["scoring"] = _scoring(sizes, work) if samples else 0
    read = work.trained_rows * work.columns
    layer, kept = activations(sizes, work)
    parts["activations"] = kept * read
    if work.half and work.rank is None:  # copies of the matrices in half precision, which are kept as well
        parts["activations"] += 2 * sizes.multiplied()
    logits = sizes.vocab * work.completion * work.trained_rows
    parts["logits"] = 12 * logits
    if samples:  # the entropy, of at most a million logits at a time
        some = min(logits, 2**20 + sizes.vocab)
        parts["logits"] = max(12 * logits, (6 if work.half else 8) * logits + 12 * some)
    again = 5 * layer // 4 * read if work.gradient_checkpointing else 0
    parts["training"] = parts["activations"] + max(parts["logits"], again)
    return parts | {"peak": fixed + max(parts["generating"], parts["scoring"], parts["training"])}


def cache(sizes: Sizes, work: Work) -> int:
    """Bytes of the keys and values of the tokens that are generated side by side, when all are there."""
    # Keys are in float32 where the positions that turn them are; values never are.
    bytes_of = (2 if work.half_weights else 4) + (2 if work.half else 4)
    return sizes.layers * sizes.keys * bytes_of * work.sampled_rows * work.columns


def _generating(sizes: Sizes, work: Work) -> int:
    """The last token: the cache, and copies of its logits; or the prompts, which are read at once."""
    last = cache(sizes, work) + (30 if work.half else 28) * sizes.vocab * work.sampled_rows
    if work.half and not work.half_weights:  # the head's copy in half precision
        last += 2 * sizes.vocab * sizes.width
    first = cache(sizes, work) * work.prompt // work.columns
    return max(last, first + passing(sizes, work) * work.sampled_rows * work.prompt)


def _scoring(sizes: Sizes, work: Work) -> int:
    logits = (10 if work.half else 12) * sizes.vocab * work.completion * work.trained_rows
    return max(logits, passing(sizes, work) * work.trained_rows * work.columns)


def activations(sizes: Sizes, work: Work) -> tuple[int, int]:
    """Bytes of a token that one layer computes for the backward pass, and that the model keeps for it.

    Of the widths h, f and q, and r the rank:

    ====================  ==========================
    float32               4 (6 h + 4 f + 4 q)
    float32, LoRA         4 (4 h + 4 f + 4 q + 7 r)
    bfloat16              26 h + 8 f + 8 q
    bfloat16, LoRA        18 h + 8 f + 10 q + 14 r
    ====================  ==========================

    and for each of them the mask, a (X + Y). Grouped keys and values are repeated where rows have padding,
    so each counts as a q. In half precision with LoRA an input is rounded once for each matrix that reads it.
    With gradient checkpointing the input of each layer is kept, h numbers, and the rest of one layer at a
    time is there in the backward pass.
    """
    h, f, q, r = sizes.width, sizes.inner, sizes.query, work.rank or 0
    if not work.half:
        layer, end = 4 * ((4 if r else 6) * h + 4 * f + 4 * q + 7 * r), 4 * (2 if r else 3) * h
    elif r == 0:
        layer, end = 26 * h + 8 * f + 8 * q, 12 * h
    else:
        layer, end = 18 * h + 8 * f + 10 * q + 14 * r, 8 * h
    layer += (2 if work.half else 4) * (work.prompt + work.completion) + 8 + 4 * sizes.heads
    if work.gradient_checkpointing:
        return layer, sizes.layers * (2 if work.half and r else 4) * h + end
    return layer, sizes.layers * layer + end


def passing(sizes: Sizes, work: Work) -> int:
    """Bytes of a token in a forward pass of which nothing is kept: those in the middle of an MLP."""
    h, f, mask = sizes.width, sizes.inner, work.prompt + work.completion
    if work.half:
        return (8 * f + 10 * h if work.rank is None else 10 * f + 6 * h) + 2 * mask
    return 4 * ((3 * f + 4 * h if work.rank is None else 5 * f + 2 * h) + mask)


# ---------------------------------------------------------------------------------------------- arithmetic


def arithmetic(sizes: Sizes, work: Work) -> dict[str, int]:
    """Multiplications and additions of an update, by phase: generating, scoring, training.

    A forward pass multiplies each token with each weight once, which is 2 operations; attention adds 4 q for
    each token that is looked at. A backward pass is as much again for the gradients of inputs, and as much
    for those of weights, where they are trained: with LoRA, those of the adapters alone.
    """
    rank, n = work.rank, work.rows
    columns, read = work.columns, n * work.columns
    body, head = 2 * sizes.multiplied() * read, 2 * sizes.width * sizes.vocab * n * work.completion
    adapters = 0 if rank is None else 2 * sizes.adapters(rank) * read
    look = 4 * sizes.query * sizes.layers
    forward = body + adapters + head + look * read * columns
    if rank is None:
        backward = 2 * (body + head + look * read * columns)
    else:
        backward = body + 2 * adapters + head + 2 * look * read * columns
        # The first layer's input is not trained: it needs no gradient.
        first = sizes.query + 2 * sizes.keys
        backward -= 2 * sizes.width * (first + 3 * rank) * read
    again = forward - head if work.gradient_checkpointing else 0
    training = work.epochs * (forward + backward + again)
    if work.stage == "sft":
        return {"generating": 0, "scoring": 0, "training": training}
    looked = n * (work.prompt**2 + sum(work.prompt + t for t in range(1, work.completion)))
    generating = body + adapters + head + look * looked
    return {"generating": generating, "scoring": forward, "training": training}
