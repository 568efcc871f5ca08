"""`Pretrained`, a causal model of Hugging Face's transformers as a `LanguageModel`; and LoRA.

    tokens and a mask  →  body (theirs)  →  hidden states  →  head (theirs)  →  next-token logits

The forward pass and the cache of keys and values are the model's own. This adapter adds the convention for
padding, which may stand on either side: it has no effect, and positions are counted from the first token.

**No dropout.** Ratios and KLs compare log-probabilities of one token under two sets of weights, and dropout
would add noise to each of them.

**Precision.** Weights that are trained are float32: in bfloat16, an update of 1e-6 is lost to rounding.
``dtype="bfloat16"`` is the precision of matrix products (autocast).
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ppobook import validation

DTYPES = ("float32", "bfloat16", "float64")

ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")

# The settings of LoRA by peft's names (but for alpha), and their defaults. "all-linear": all linear layers of
# the body, without embedding and head.
LORA: dict[str, Any] = {"r": 8, "alpha": 16, "target_modules": "all-linear", "use_rslora": False}


def library(name: str = "transformers") -> Any:
    """Import a library of the extra "hf"."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(f"{name} must be installed: pip install 'ppobook[hf]'") from None


# -------------------------------------------------------------------------------------------- the model


class Pretrained(nn.Module):
    """A causal model of transformers as a `LanguageModel`.

    Parameters
    ----------
    net : transformers.PreTrainedModel
        A causal model, or the body of one, without a head. It is taken apart.
    eos, pad : int
        The ids of end-of-sequence and padding.
    dtype : str
        The precision of matrix products: "float32", "bfloat16" or "float64".

    Attributes
    ----------
    decoder : torch module
        The body, from tokens to final hidden states.
    output : torch module or None
        The head, with all that the model does to its logits after the last matrix.
    end_tokens : list of int
        The ids that end a completion: `eos`, and those in the config and the generation config of the model.
    lora : dict or None
        The settings of LoRA, if there are adapters.
    """

    def __init__(self, net: Any, *, eos: int, pad: int, dtype: str = "float32") -> None:
        super().__init__()
        self.config = net.config
        text = net.config.get_text_config()
        self.decoder = net.base_model
        self.output: Any = None
        self.width: int = getattr(text, "word_embed_proj_dim", None) or text.hidden_size
        self.vocab_size: int = net.get_input_embeddings().weight.shape[0]
        if net.base_model is not net:
            self.vocab_size, self.width = net.get_output_embeddings().weight.shape
            setattr(net, net.base_model_prefix, _PassThrough())
            self.output = net
        # A model whose positions are computed may have no limit in its config.
        self.context: int = getattr(text, "max_position_embeddings", None) or sys.maxsize
        if (getattr(text, "rope_parameters", None) or {}).get("rope_type") == "longrope":
            # Past it, all positions are rotated otherwise: a token would have another probability afterwards.
            self.context = text.original_max_position_embeddings
        self.eos, self.pad = eos, pad
        if max(eos, pad) >= self.vocab_size:
            raise ValueError(
                f"tokenizer must have eos and pad among the model's {self.vocab_size} tokens, got {eos} and "
                f"{pad}: resize_token_embeddings() adds tokens"
            )
        configs = (text, getattr(net, "generation_config", None))
        self.end_tokens = sorted({eos}.union(*(_end_tokens(config) for config in configs)))
        self.dtype = dtype_name(dtype)
        # The id written to padding: not the model's own pad, about which transformers would warn.
        self.filler = int(getattr(net.config, "pad_token_id", None) == 0)
        self.lora: Any = None
        self.recompute = False
        # Keys and values can be repeated for other rows; the states of recurrent layers would be overwritten.
        caches, kept = library("transformers.cache_utils"), library().DynamicCache(config=self.config).layers
        self.shares = {type(x) for x in kept} <= {caches.DynamicLayer, caches.DynamicSlidingWindowLayer}
        # Some models have no argument for positions.
        self.takes_positions = "position_ids" in inspect.signature(self.decoder.forward).parameters
        self.eval()

    def train(self, mode: bool = True) -> Pretrained:
        """Change nothing: there is no dropout."""
        super().train(mode)
        for part in self.children():
            part.eval()
        return self

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits of the token after each token, [B, L] to [B, L, V]; as `Decoder.forward`."""
        return self.head(self.hidden(tokens, mask))

    def hidden(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The final hidden states, [B, L] to [B, L, width]; float32 or wider."""
        return self._read(self._rows(tokens, mask))[0]

    def head(self, hidden: Tensor) -> Tensor:
        """Next-token logits, [..., width] to [..., V]."""
        rows = hidden.reshape(1, -1, self.width)  # of three axes, each row would be a product by itself
        with self._precision(hidden):
            logits: Tensor = self.output(inputs_embeds=rows, use_cache=False).logits
        return logits.view(*hidden.shape[:-1], -1)

    @torch.no_grad()
    def start_cache(self, tokens: Tensor, mask: Tensor | None, room: int) -> tuple[Tensor, Cache]:
        """Read prompts, and keep the keys and values of their tokens; as `Decoder.start_cache`."""
        rows = self._rows(tokens, mask)
        with torch.inference_mode():
            hidden, past = self._read(rows, keep=True)
        cache = Cache(past, tokens.shape[1])
        real = rows >= 0
        if not real.all():
            cache.mask = torch.nn.functional.pad(real.long(), (0, room), value=1)
            cache.positions = real.sum(dim=1)
        return self.head(hidden[:, -1]), cache

    @torch.no_grad()
    def step(self, tokens: Tensor, cache: Cache) -> Tensor:
        """Logits after one more token in each row: [B] to [B, V]."""
        cache.columns += 1
        placed: dict[str, Tensor] = {}
        if cache.mask is not None and cache.positions is not None:
            placed["attention_mask"] = cache.mask[:, : cache.columns]
            if self.takes_positions:
                placed["position_ids"] = cache.positions[:, None]
            cache.positions = cache.positions + 1
        with torch.inference_mode():
            hidden, cache.past = self._decode(
                tokens[:, None], use_cache=True, past_key_values=cache.past, **placed
            )
        # Not in inference mode: a caller may write to these logits.
        return self.head(hidden[:, -1])

    def _rows(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Tokens with −1 at padding that the model must be told of."""
        if mask is None:
            return tokens
        real = mask.bool()
        if tokens.shape[1] <= self.context and not (real[:, 1:] & ~real[:, :-1]).any():
            # Padding after the last token of every row comes after all tokens.
            return tokens.masked_fill(~real, self.filler)
        return tokens.masked_fill(~real, -1)

    def _read(self, rows: Tensor, keep: bool = False) -> tuple[Tensor, Any]:
        """The hidden states of rows, and their keys and values if `keep`.

        What several rows begin with, such as the prompt of a group's completions, is read once: its keys and
        values, through which gradients flow, are repeated for each row.
        """
        begin, past, columns = [], None, self._shared_columns(rows)
        if columns:
            distinct, of_row = rows[:, :columns].unique(dim=0, return_inverse=True)
            hidden, past = self._read(distinct, keep=True)
            past.batch_select_indices(of_row)
            begin.append(hidden[of_row])
            if columns == rows.shape[1]:
                return begin[0], past
        placed, real = {}, rows >= 0
        if not real.all():
            placed["attention_mask"] = real.long()
            if self.takes_positions:
                placed["position_ids"] = (real.cumsum(dim=1) - 1).clamp_(min=0)[:, columns:]
        rest = rows.where(real, self.filler)[:, columns:]
        use_cache = keep or past is not None
        hidden, past = self._decode(rest, use_cache=use_cache, past_key_values=past, **placed)
        return torch.cat([*begin, hidden], dim=1), past

    def _shared_columns(self, rows: Tensor) -> int:
        """The number of first columns to read once for all rows that agree in them, or 0.

        Those that save most of the reading, if that is a quarter or more.
        """
        if not self.shares or (self.recompute and torch.is_grad_enabled()):
            return 0
        distinct = rows.unique(dim=0)  # sorted, so that rows that begin alike are neighbors
        same = (distinct[1:] == distinct[:-1]).long().cumprod(dim=1).sum(dim=0) + len(rows) - len(distinct)
        saved = same * torch.arange(1, rows.shape[1] + 1, device=rows.device)
        return int(saved.argmax()) + 1 if 4 * saved.max() >= rows.numel() else 0

    def _decode(self, tokens: Tensor, **how: Any) -> tuple[Tensor, Any]:
        with self._precision(tokens), self._layers_recomputed():
            out = self.decoder(input_ids=tokens, **how)
        # At least float32, for a head that is trained on top.
        hidden = out.last_hidden_state.to(torch.promote_types(out.last_hidden_state.dtype, torch.float32))
        return hidden, getattr(out, "past_key_values", None)

    def _precision(self, x: Tensor) -> contextlib.AbstractContextManager[Any]:
        if self.dtype != "bfloat16":
            return contextlib.nullcontext()
        return torch.autocast(x.device.type, dtype=torch.bfloat16)

    # ------------------------------------------------------------------------- gradient checkpointing

    def set_gradient_checkpointing(self) -> None:
        """Keep only the inputs of layers for the backward pass, and compute the rest there once more."""
        if not self._layers():
            raise ValueError(
                "gradient_checkpointing must be False for a model whose layers can't be computed again, "
                f"such as {type(self.decoder).__name__}, got True"
            )
        self.recompute = True

    def _layers(self) -> list[Any]:
        kind = library("transformers.modeling_layers").GradientCheckpointingLayer
        return [module for module in self.decoder.modules() if isinstance(module, kind)]

    @contextlib.contextmanager
    def _layers_recomputed(self) -> Iterator[None]:
        """Let layers keep only their inputs, if that was asked for and there is a gradient."""
        layers = self._layers() if self.recompute and torch.is_grad_enabled() else []
        again = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
        for layer in layers:
            # A layer asks if it is in training mode. Its parts stay as they were: there is no dropout.
            layer.gradient_checkpointing, layer.training = True, True
            layer._gradient_checkpointing_func = again
        try:
            yield
        finally:
            for layer in layers:
                layer.gradient_checkpointing, layer.training = False, False

    # ------------------------------------------------------------------------------------------- LoRA

    def add_lora(self, lora: Mapping[str, Any], seed: int = 0) -> Pretrained:
        """Freeze the weights, and add low-rank adapters to the linear layers. In place.

            W x   becomes   W x + (α / r) B A x            A random, B = 0: at first nothing changes

        Frozen weights become buffers, so that nothing trains them by mistake. Copies of the model have
        adapters of their own and share the frozen weights.

        Parameters
        ----------
        lora : dict
            As in peft: r, the rank (8); alpha (16); target_modules, names of linear layers, or "all-linear"
            (the default); use_rslora, to scale by α / √r.
        seed : int
            For A.
        """
        if self.lora is not None:
            raise ValueError(f"lora must be None for a model with adapters, got {dict(lora)!r}")
        for name in lora:
            validation.choice("each setting of lora", name, LORA)
        peft, self.lora = library("peft"), LORA | dict(lora)
        layers = [f".{x}" for x, layer in self.decoder.named_modules() if not isinstance(layer, nn.Embedding)]
        targets = self.lora["target_modules"]
        for name in [targets] if isinstance(targets, str) else targets:
            # peft would leave out in silence what the body does not have.
            if name != "all-linear" and not any(layer.endswith(f".{name}") for layer in layers):
                raise ValueError(f"target_modules of lora must be linear layers of the body, got {name!r}")
        transposed = any(type(module).__name__ == "Conv1D" for module in self.modules())
        config = lora_config(self.lora, fan_in_fan_out=transposed)
        weights = weights_dtype(self.dtype, self.lora)
        base = {id(p): p.detach().to(weights) for p in self.parameters()}
        with own_randomness(seed):
            peft.inject_adapter_in_model(config, self.decoder)
        for module in self.modules():
            for name, parameter in list(module._parameters.items()):
                if id(parameter) in base:
                    del module._parameters[name]
                    module.register_buffer(name, base[id(parameter)])
                elif parameter is not None:
                    parameter.data = parameter.data.to(torch.promote_types(parameter.dtype, torch.float32))
        self.eval()
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Pretrained:
        if self.lora is not None:
            memo.update((id(frozen), frozen) for frozen in self.buffers())
        copied: Pretrained = object.__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__ = {name: copy.deepcopy(x, memo) for name, x in self.__dict__.items()}
        return copied

    def _apply(self, fn: Any, recurse: bool = True) -> Pretrained:
        # torch keeps tied parameters tied when they are moved, but not tied buffers, which frozen ones are.
        places: dict[int, list[tuple[nn.Module, str]]] = {}
        for module in self.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    places.setdefault(id(buffer), []).append((module, name))
        super()._apply(fn, recurse)
        for (first, its_name), *others in places.values():
            for module, name in others:
                module._buffers[name] = first._buffers[its_name]
        return self

    def share(self, other: Any) -> None:
        """Share the frozen weights of another model that are equal to this one's, to save memory."""
        if self.lora is None or getattr(other, "lora", None) is None:
            return
        theirs = dict(other.named_buffers(remove_duplicate=False))
        for name, mine in list(self.named_buffers(remove_duplicate=False)):
            same = theirs.get(name)
            if same is not None and same.device == mine.device and torch.equal(same, mine):
                where, _, last = name.rpartition(".")
                self.get_submodule(where)._buffers[last] = same

    def headless(self) -> Pretrained:
        """A copy without the head."""
        return copy.deepcopy(self, {} if self.output is None else {id(self.output): None})

    def body_weights(self) -> dict[str, Tensor]:
        """The body's weights by transformers' names, with the adapters merged."""
        if self.lora is None:
            return self.decoder.state_dict()
        whole = build(self.description())  # not a copy, which would share the frozen weights: they change
        whole.load_state_dict(self.state_dict())
        for module in whole.decoder.modules():
            if hasattr(module, "get_base_layer"):
                module.merge()
        weights = whole.decoder.state_dict().items()
        return {name.replace("base_layer.", ""): x for name, x in weights if "lora_" not in name}

    # ---------------------------------------------------------------------------------------- for files

    @property
    def weights(self) -> torch.dtype:
        """The dtype of the weights, without adapters."""
        dtype: torch.dtype = self.decoder.get_input_embeddings().weight.dtype
        return dtype

    def description(self) -> dict[str, Any]:
        """All but the weights, as plain data: the argument of `build`."""
        generation = getattr(self.output, "generation_config", None)
        return {
            "kind": "transformers",
            "config": plain_config(self.config),
            "attention": self.config._attn_implementation,
            "generation": None if generation is None else plain_config(generation),
            "head": self.output is not None,
            "eos": self.eos,
            "pad": self.pad,
            "dtype": self.dtype,
            "weights": str(self.weights).removeprefix("torch."),
            "lora": None if self.lora is None else dict(self.lora),
        }


@dataclass
class Cache:
    """The state of generation: keys and values, and the number of tokens a row read so far, padding included.

    With padding also `mask`, [B, prompt + room], 0 there; and `positions`, [B], of the next token in each
    row.
    """

    past: Any
    columns: int
    mask: Tensor | None = None
    positions: Tensor | None = None


class _PassThrough(nn.Module):
    """In place of a causal model's body: so what the model does to its logits is done by its own code."""

    def forward(self, *args: Any, inputs_embeds: Any = None, **kwargs: Any) -> Any:
        return _BodyOutput(inputs_embeds)

    @property
    def decoder(self) -> _PassThrough:
        """Some models call their body's decoder."""
        return self


class _BodyOutput:
    """The output of a body: hidden states, and None for every other field."""

    def __init__(self, hidden: Tensor) -> None:
        self.last_hidden_state = hidden

    def __getattr__(self, name: str) -> None:
        return None

    def __getitem__(self, index: Any) -> Any:
        return (self.last_hidden_state,)[index]


def _end_tokens(config: Any) -> list[int]:
    """The end-of-sequence tokens of a config, which may have none, one or several."""
    ids = getattr(config, "eos_token_id", None)
    if ids is None:
        return []
    return [ids] if isinstance(ids, int) else list(ids)


def lora_config(lora: dict[str, Any], **more: Any) -> Any:
    """The settings of LoRA as peft's LoraConfig."""
    theirs = {"lora_alpha" if name == "alpha" else name: x for name, x in lora.items()}
    return library("peft").LoraConfig(**theirs, **more)


# ------------------------------------------------------------------------------------- from a description


def build(described: dict[str, Any]) -> Pretrained:
    """Build a model from its `Pretrained.description`, with arbitrary weights."""
    transformers = library()
    auto = transformers.AutoModelForCausalLM if described["head"] else transformers.AutoModel
    weights = described["weights"]
    net = net_from_config(auto, described["config"], described["attention"], getattr(torch, weights))
    if described["generation"] is not None:
        net.generation_config = transformers.GenerationConfig.from_dict(described["generation"])
    model = Pretrained(net, eos=described["eos"], pad=described["pad"], dtype=weights)
    if described["lora"] is not None:
        model.add_lora(described["lora"])
    model.dtype = described["dtype"]
    return model


def dtype_name(dtype: Any) -> str:
    """The name of a dtype for matrix products."""
    return validation.choice("dtype", str(dtype).removeprefix("torch."), DTYPES)


def weights_dtype(dtype: str, lora: Any) -> torch.dtype:
    """The dtype of a model's weights: half precision only if none of them is trained."""
    if dtype == "bfloat16":
        return torch.float32 if lora is None else torch.bfloat16
    return torch.float64 if dtype == "float64" else torch.float32


def plain_config(config: Any) -> dict[str, Any]:
    """A config of transformers as plain data."""
    plain: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    for name in ("_name_or_path", "dtype", "transformers_version", "auto_map"):
        plain.pop(name, None)
    return plain


def net_from_config(auto: Any, config: dict[str, Any], attention: str | None, weights: torch.dtype) -> Any:
    """Create a model of transformers with arbitrary weights."""
    kind = library().CONFIG_MAPPING[config["model_type"]]
    # Any other name would be downloaded from the hub, as code.
    how = {"attn_implementation": attention} if attention in ATTENTION else {}
    half = torch.bfloat16 if weights == torch.bfloat16 else torch.float32
    with own_randomness():
        # Rotary embeddings are computed in float32, as they are in a model that is loaded and then widened.
        net = auto.from_config(kind.from_dict(dict(config)), dtype=half, **how)
    return net.double() if weights == torch.float64 else net


@contextlib.contextmanager
def own_randomness(seed: int = 0) -> Iterator[None]:
    """Draw initial weights from the seed; torch's global random state is restored."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
