"""A causal model of transformers behind this library's door, and LoRA.

    tokens and a mask  →  body (theirs)  →  hidden vectors  →  head (theirs)  →  logits of what comes next

A model's forward pass and its cache of keys and values are its own; a GPT-2's are this library's, on its own
parameters (`ppobook.language.gpt2`), which is the same and faster. What stands between is the convention:
padding on either side is read as nothing, and positions are counted from the first real token.

**No dropout.** A model stays in eval mode while it is trained. Ratios and KLs compare log-probabilities of
one token under two sets of weights, and dropout would add noise to each of them.

**Precision.** Weights that are trained are float32, whatever they were loaded from: in bfloat16, a step of
1e-6 is lost to rounding. ``dtype="bfloat16"`` says what matrices are multiplied in (autocast).

transformers and peft are imported when they are first needed, and not before.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.fast.gpt2 import Borrowed, borrowed
from ppobook.language import model as decoders
from ppobook.language.tokens import mask_of, refuse_unless_ids

DTYPES = ("float32", "bfloat16", "float64")

ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")

# The settings of LoRA, by peft's names but for alpha, and what they are where they are left out. All linear
# layers of the body have adapters; the table of words and the head have none.
LORA: dict[str, Any] = {"r": 8, "alpha": 16, "target_modules": "all-linear", "use_rslora": False}


def library(name: str = "transformers") -> Any:
    """A library of the extra "hf".

    Raises
    ------
    ValueError
        It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(f"{name} is not installed; wanted: pip install 'ppobook[hf]'") from None


# -------------------------------------------------------------------------------------------- the model


class Pretrained(nn.Module):
    """A causal model of transformers as a `LanguageModel`.

    Parameters
    ----------
    net : transformers.PreTrainedModel
        A causal model; or the body of one, which has no head. It is taken apart.
    eos, pad : int
        The ids that end a sequence and fill one up.
    dtype : str
        "float32", "bfloat16" or "float64": what matrices are multiplied in.

    Attributes
    ----------
    decoder : torch module
        The body, from tokens to hidden vectors.
    output : torch module or None
        The rest, with whatever it does to logits after the last matrix.
    lora : dict or None
        The settings of LoRA, if there are adapters.
    """

    def __init__(self, net: Any, *, eos: int, pad: int, dtype: str = "float32") -> None:
        super().__init__()
        self.config = net.config
        text = net.config.get_text_config()
        self.decoder = net.base_model
        self.output: Any = None
        # In a tuple, since its parameters are the body's and are listed there.
        self._borrowed = (borrowed(net, eos=eos, pad=pad),)
        self.width: int = getattr(text, "word_embed_proj_dim", None) or text.hidden_size
        self.vocab_size: int = net.get_input_embeddings().weight.shape[0]
        if net.base_model is not net:
            self.vocab_size, self.width = net.get_output_embeddings().weight.shape
            setattr(net, net.base_model_prefix, _Given())
            self.output = net
        # Where positions are made by a formula, nothing may say how many there are.
        self.context: int = getattr(text, "max_position_embeddings", None) or sys.maxsize
        self.eos = validation.count("eos", eos, low=0, high=self.vocab_size - 1)
        self.pad = validation.count("pad", pad, low=0, high=self.vocab_size - 1)
        self.dtype = dtype_name(dtype)
        # What padding is filled with: an id that transformers does not warn of.
        self.filler = int(getattr(net.config, "pad_token_id", None) == 0)
        self.lora: Any = None
        # Whether it is told of positions; it may count in another way.
        self.counts = "position_ids" in inspect.signature(self.decoder.forward).parameters
        self.eval()

    def train(self, mode: bool = True) -> Pretrained:
        """Nothing changes: there is no dropout."""
        super().train(mode)
        for part in self.children():
            part.eval()
        return self

    @property
    def ours(self) -> Borrowed | None:
        """What computes in the place of the model's own code, if anything does."""
        return self._borrowed[0] if self.lora is None and self.dtype != "bfloat16" else None

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The logits of what comes after each token: [B, L] to [B, L, V].

        Parameters
        ----------
        tokens : int64, shape (B, L)
        mask : bool, shape (B, L), optional
            True where a token is real. Elsewhere `tokens` may hold anything.

        Raises
        ------
        ValueError, TypeError
            Another shape or dtype, an id that is none of the vocabulary's, a row of more tokens than the
            context has room for.
        """
        return self.head(self.hidden(tokens, mask))

    def hidden(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The same without the head, [B, L, width]; float32 or wider."""
        if self.ours is not None:
            return self.ours.hidden(tokens, mask)
        tokens, real = self._read(tokens, mask)
        return self._decode(tokens, use_cache=False, **self._placed(real))[0]

    def head(self, hidden: Tensor) -> Tensor:
        """Logits from hidden vectors, [..., width] to [..., V]."""
        if self.output is None:
            raise ValueError("the model has no head: it is the body of a reward model or of a critic")
        if self.ours is not None:
            return self.ours.head(hidden)
        rows = hidden if hidden.ndim == 3 else hidden.reshape(1, -1, self.width)
        with self._precision(hidden):
            logits: Tensor = self.output(inputs_embeds=rows, use_cache=False).logits
        return logits if hidden.ndim == 3 else logits.view(*hidden.shape[:-1], -1)

    @torch.no_grad()
    def start_cache(
        self, tokens: Tensor, mask: Tensor | None, room: int
    ) -> tuple[Tensor, Cache | decoders.Cache]:
        """Read prompts whose last column is real, and keep their keys and values.

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
            For `step`.
        """
        if self.ours is not None and self.output is not None:
            return self.ours.start_cache(tokens, mask, room)
        room = validation.count("room", room, low=0)
        tokens, real = self._read(tokens, mask, room)
        with torch.inference_mode():
            hidden, past = self._decode(tokens, use_cache=True, **self._placed(real))
        if past is None:
            raise ValueError(
                "the model keeps no keys and values to go on from; a causal one of attention is wanted"
            )
        cache = Cache(past, tokens.shape[1], tokens.shape[1] + room)
        if real is not None:
            cache.mask = torch.nn.functional.pad(real.long(), (0, room), value=1)
            cache.positions = real.sum(dim=1)
        return self.head(hidden[:, -1]), cache

    @torch.no_grad()
    def step(self, tokens: Tensor, cache: Cache | decoders.Cache) -> Tensor:
        """The logits after one more token in each row: [B] to [B, V]."""
        if isinstance(cache, decoders.Cache):
            assert self.ours is not None
            return self.ours.step(tokens, cache)
        if cache.columns == cache.room:
            raise ValueError(f"the cache has room for {cache.room} columns, and all of them are filled")
        cache.columns += 1
        placed: dict[str, Tensor] = {}
        if cache.mask is not None and cache.positions is not None:
            placed["attention_mask"] = cache.mask[:, : cache.columns]
            if self.counts:
                placed["position_ids"] = cache.positions[:, None]
            cache.positions = cache.positions + 1
        with torch.inference_mode():
            hidden, cache.past = self._decode(
                tokens[:, None], use_cache=True, past_key_values=cache.past, **placed
            )
        # Not in there: a caller may write to these logits, and not to what inference mode has made.
        return self.head(hidden[:, -1])

    def _read(self, tokens: Tensor, mask: Tensor | None, room: int = 0) -> tuple[Tensor, Tensor | None]:
        """Tokens fit to be read, and where they are real; None where the model need not be told."""
        refuse_unless_ids("tokens", tokens)
        device = next(self.decoder.parameters()).device
        if tokens.device != device:
            raise ValueError(f"tokens is on {tokens.device} and the model on {device}; one device is wanted")
        real = None if mask is None else mask_of("mask", mask, tokens)
        if real is not None:
            tokens = tokens.masked_fill(~real, self.filler)
        if tokens.shape[1] + room > self.context:
            longest = tokens.shape[1] if real is None else int(real.sum(dim=1).max())
            if longest + room > self.context:
                more = f" and room is {room}; together" if room else ";"
                raise ValueError(
                    f"tokens has a row of {longest} tokens{more} at most context = {self.context} are wanted"
                )
        elif real is not None and not (real[:, 1:] & ~real[:, :-1]).any():
            real = None  # padding after the last token of every row is in the future of all tokens already
        # On a CPU the table itself notices an id that it has no row for. An accelerator would be lost to it.
        if device.type != "cpu":
            self._refuse_unless_words(tokens)
        return tokens, real

    def _placed(self, real: Tensor | None) -> dict[str, Tensor]:
        """What tells the model of padding."""
        if real is None:
            return {}
        placed = {"attention_mask": real.long()}
        if self.counts:
            placed["position_ids"] = (real.cumsum(dim=1) - 1).clamp_(min=0)
        return placed

    def _decode(self, tokens: Tensor, **how: Any) -> tuple[Tensor, Any]:
        with self._precision(tokens):
            try:
                out = self.decoder(input_ids=tokens, **how)
            except IndexError:
                self._refuse_unless_words(tokens)
                raise
        # Wide enough for what is trained on top.
        hidden = out.last_hidden_state.to(torch.promote_types(out.last_hidden_state.dtype, torch.float32))
        return hidden, getattr(out, "past_key_values", None)

    def _refuse_unless_words(self, tokens: Tensor) -> None:
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= self.vocab_size:
            raise ValueError(f"tokens holds ids from {low} to {high}; 0 to {self.vocab_size - 1} are wanted")

    def _precision(self, x: Tensor) -> contextlib.AbstractContextManager[Any]:
        if self.dtype != "bfloat16":
            return contextlib.nullcontext()
        return torch.autocast(x.device.type, dtype=torch.bfloat16)

    # ------------------------------------------------------------------------------------------- LoRA

    def add_lora(self, lora: Mapping[str, Any], seed: int = 0) -> Pretrained:
        """Freeze the model as it is, and put adapters beside its matrices. In place.

            W x   becomes   W x + (α / r) B A x            A random, B = 0: at first nothing changes

        What is frozen is no parameter any more but a buffer, so that nothing trains it by mistake; copies of
        the model have adapters of their own and share the rest.

        Parameters
        ----------
        lora : dict
            r, the rank (8); alpha (16); target_modules, the names of the matrices, or "all-linear", which is
            the default; use_rslora, to scale by α / √r. As in peft.
        seed : int
            For A.

        Raises
        ------
        ValueError
            A setting that there is none of; a model that has adapters; peft is not installed.
        """
        if self.lora is not None:
            raise ValueError(
                "lora was given, and the model has adapters already; wanted: leave it out to train these, or "
                "begin from model.merged()"
            )
        peft, self.lora = library("peft"), lora_settings(lora)
        transposed = any(type(module).__name__ == "Conv1D" for module in self.modules())
        config = lora_config(self.lora, fan_in_fan_out=transposed)
        weights = weights_dtype(self.dtype, self.lora)
        base = {id(p): p.detach().to(weights) for p in self.parameters()}
        try:
            with own_randomness(seed):
                peft.inject_adapter_in_model(config, self.decoder)
        except ValueError as error:
            raise ValueError(f"lora does not fit the model ({validation.reason(error)})") from None
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
        # torch keeps parameters tied that are moved to another device. Frozen ones are buffers.
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
        """Use another model's frozen base, as far as it is the same, in place of a copy of it."""
        if self.lora is None or getattr(other, "lora", None) is None:
            return
        theirs = dict(other.named_buffers(remove_duplicate=False))
        for name, mine in list(self.named_buffers(remove_duplicate=False)):
            same = theirs.get(name)
            if same is not None and same.device == mine.device and torch.equal(same, mine):
                where, _, last = name.rpartition(".")
                self.get_submodule(where)._buffers[last] = same

    def headless(self) -> Pretrained:
        """A copy without the head, for a body that has no use for one."""
        return copy.deepcopy(self, {} if self.output is None else {id(self.output): None})

    def merged(self) -> Pretrained:
        """A copy whose weights are what base and adapters come to; all of them can be trained."""
        wide = torch.promote_types(self.kept, torch.float32)  # what is trained is never in half precision
        weights = str(wide).removeprefix("torch.")
        plain = build(self.description() | {"lora": None, "weights": weights})
        plain.to(next(self.parameters()).device)
        plain.decoder.load_state_dict(self.body_weights())
        if self.output is not None:
            plain.output.load_state_dict(self.output.state_dict())
        return plain

    def body_weights(self) -> dict[str, Tensor]:
        """The body's weights under transformers' names, adapters added in."""
        if self.lora is None:
            return self.decoder.state_dict()
        whole = build(self.description())  # to share nothing: what is frozen is written to
        whole.load_state_dict(self.state_dict())
        for module in whole.decoder.modules():
            if hasattr(module, "get_base_layer"):
                module.merge()
        weights = whole.decoder.state_dict().items()
        return {name.replace("base_layer.", ""): x for name, x in weights if "lora_" not in name}

    # ---------------------------------------------------------------------------------------- for files

    @property
    def kept(self) -> torch.dtype:
        """The dtype of its weights, adapters aside."""
        dtype: torch.dtype = self.decoder.get_input_embeddings().weight.dtype
        return dtype

    def description(self) -> dict[str, Any]:
        """All but the weights, in plain data: `build` makes a model of the same shape from it."""
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
            "weights": str(self.kept).removeprefix("torch."),
            "lora": None if self.lora is None else dict(self.lora),
        }


@dataclass
class Cache:
    """What a model has read, and how far `generate` has come.

    Attributes
    ----------
    past : transformers.Cache
        Keys and values, in the model's own way.
    columns, room : int
        How many columns are filled, and how many there may be.
    mask : [B, room] int64, or None
        1 where a column is real; None where all are.
    positions : [B] int64, or None
        Of the next token in each row.
    """

    past: Any
    columns: int
    room: int
    mask: Tensor | None = None
    positions: Tensor | None = None


class _Given(nn.Module):
    """Stands where a causal model's body stood, and hands on the hidden vectors that it is given.

    So what a model does to its logits, a scale or a soft cap, is done by its own code.
    """

    def forward(self, *args: Any, inputs_embeds: Any = None, **kwargs: Any) -> Any:
        return _Said(inputs_embeds)

    @property
    def decoder(self) -> _Given:
        """Some models call their body's decoder."""
        return self


class _Said:
    """The output of a body: hidden vectors, and None for all else that it might be asked for."""

    def __init__(self, hidden: Tensor) -> None:
        self.last_hidden_state = hidden

    def __getattr__(self, name: str) -> None:
        return None

    def __getitem__(self, index: Any) -> Any:
        return (self.last_hidden_state,)[index]


def lora_settings(lora: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of LoRA, with defaults, after a door."""
    if not isinstance(lora, Mapping):
        raise TypeError(f"lora is {lora!r}; a dict is wanted, such as {{'r': 8, 'alpha': 16}}")
    for name in lora:
        validation.choice("lora has a setting which", name, LORA)
    made = LORA | dict(lora)
    for name in ("r", "alpha"):
        validation.count(f"lora[{name!r}]", made[name])
    validation.flag("lora['use_rslora']", made["use_rslora"])
    names = made["target_modules"]
    if not isinstance(names, str):
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"lora['target_modules'] is {names!r}; names, or 'all-linear', are wanted")
        made["target_modules"] = list(names)
    return made


def lora_config(lora: dict[str, Any], **more: Any) -> Any:
    """The settings of LoRA as peft has them."""
    theirs = {"lora_alpha" if name == "alpha" else name: x for name, x in lora.items()}
    return library("peft").LoraConfig(**theirs, **more)


# --------------------------------------------------------------------------------- made from a description


def build(described: dict[str, Any]) -> Pretrained:
    """The model that `Pretrained.description` described, with weights of no meaning."""
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
    """A dtype that matrices may be multiplied in, by its name."""
    return validation.choice("dtype", str(dtype).removeprefix("torch."), DTYPES)


def weights_dtype(dtype: str, lora: Any) -> torch.dtype:
    """The dtype of a model's weights: half precision only where none of them is trained."""
    if dtype == "bfloat16":
        return torch.float32 if lora is None else torch.bfloat16
    return torch.float64 if dtype == "float64" else torch.float32


def plain_config(config: Any) -> dict[str, Any]:
    """A config of transformers as numbers, strings, lists and dicts."""
    plain: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    for name in ("_name_or_path", "dtype", "transformers_version", "auto_map"):
        plain.pop(name, None)
    return plain


def net_from_config(auto: Any, config: dict[str, Any], attention: str | None, weights: torch.dtype) -> Any:
    """A new model of transformers, with weights of no meaning."""
    kind = library().CONFIG_MAPPING[config["model_type"]]
    # Other names are those of code on the hub, which a checkpoint is not to fetch.
    how = {"attn_implementation": attention} if attention in ATTENTION else {}
    half = torch.bfloat16 if weights == torch.bfloat16 else torch.float32
    with own_randomness():
        # Tables of angles are made in float32 in any case, and so they are in a model that is made wide.
        net = auto.from_config(kind.from_dict(dict(config)), dtype=half, **how)
    return net.double() if weights == torch.float64 else net


@contextlib.contextmanager
def own_randomness(seed: int = 0) -> Iterator[None]:
    """First weights are drawn from the seed, and torch's own random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
