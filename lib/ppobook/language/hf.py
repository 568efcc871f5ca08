"""Models and tokenizers of Hugging Face's transformers, opened and saved. Their model, our losses.

    model, tokenizer = open_pretrained("folder or name")          a LanguageModel and a Tokenizer
    run = train("grpo", "folder or name", data, reward=short)     the same, opened by `train`
    save_pretrained(run, "new folder")                            what from_pretrained reads

How a model is used is said in `ppobook.language.pretrained`. Because all that follows depends on it, each is
tried when it is opened, on a row of four tokens: with padding and without, at once and token by token, its
logits must be those of its own forward pass.

transformers is imported when something is opened, and not before.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.fast import choose
from ppobook.language.model import Decoder, DecoderConfig
from ppobook.language.pretrained import (
    Pretrained,
    build,
    dtype_name,
    library,
    lora_config,
    lora_settings,
    net_from_config,
    own_randomness,
    plain_config,
    weights_dtype,
)
from ppobook.language.rewards import RewardModel
from ppobook.language.tokens import Completions, Tokenizer, WordTokenizer
from ppobook.run.folder import RunFolder, make_new

__all__ = [
    "Pretrained",
    "PretrainedTokenizer",
    "build",
    "build_tokenizer",
    "from_decoder",
    "open_pretrained",
    "open_reward_model",
    "open_tokenizer",
    "save_pretrained",
    "to_decoder",
]

# ---------------------------------------------------------------------------------------------- opening


def open_pretrained(
    model: Any,
    tokenizer: Any = None,
    *,
    dtype: str | None = None,
    lora: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> tuple[Any, Any]:
    """A model of transformers and its tokenizer, ready to be trained here.

    Parameters
    ----------
    model : path, str, or transformers.PreTrainedModel
        The folder of a model, its name on the hub, or a model in memory, which is copied. A causal model; or
        one that classifies sequences by one label, which is read as a reward model. What
        `open_pretrained` has returned is copied.
    tokenizer : path, str, tokenizer of transformers, or Tokenizer, optional
        Left out: the one in the folder. With a model in memory one is wanted.
    dtype : "float32", "bfloat16" or "float64", optional
        What matrices are multiplied in. Left out: float32; or what a model in memory is in, if that is wider.
    lora : dict, optional
        Train adapters beside a frozen model: `Pretrained.add_lora`.
    seed : int
        For the adapters.

    Returns
    -------
    model : Pretrained, or RewardModel on one
    tokenizer : Tokenizer

    Raises
    ------
    ValueError, TypeError
        What cannot be read; a tokenizer without an end of sequence, or with more words than the model; a
        model that is not causal, whose class is none of transformers', that does not read padding as nothing,
        or keeps no cache; transformers or peft is not installed.
    """
    if not isinstance(model, str | Path | nn.Module):
        raise TypeError(
            f"model is of type {type(model).__name__}; a model of transformers, the folder of one, or its "
            "name on the hub is wanted"
        )
    if isinstance(model, nn.Module) and tokenizer is None:
        raise ValueError("tokenizer is None; with a model in memory one is wanted")
    lora = None if lora is None else lora_settings(lora)
    if isinstance(getattr(model, "body", model), Pretrained):
        opened: Any = copy.deepcopy(model)
        body = getattr(opened, "body", opened)
        dtype = body.dtype if dtype is None else dtype_name(dtype)
        tokenizer = open_tokenizer(tokenizer)
        _refuse_more_words(tokenizer, body.vocab_size)
    else:
        dtype = _dtype_of(model) if dtype is None else dtype_name(dtype)
        weights = weights_dtype(dtype, lora)
        net = _net_copied(model, weights) if isinstance(model, nn.Module) else _net_read(model, weights)
        tokenizer = open_tokenizer(model if tokenizer is None else tokenizer)
        _refuse_more_words(tokenizer, net.get_input_embeddings().weight.shape[0])
        opened = _adapted(net.eval(), tokenizer)
        body = getattr(opened, "body", opened)
    body.dtype = dtype
    if lora is not None:
        body.add_lora(lora, seed)
    return opened, tokenizer


def open_reward_model(model: Any, tokenizer: Tokenizer) -> RewardModel:
    """A reward model of transformers', for what somebody says with this tokenizer.

    Raises
    ------
    ValueError, TypeError
        As `open_pretrained`; a language model; other words. It may know more of them.
    """
    reward_model, own = open_pretrained(model)
    if not isinstance(reward_model, RewardModel):
        raise ValueError(
            f"reward is {str(model)!r}, a language model; a model that classifies sequences by one "
            "label is wanted"
        )
    words = getattr(tokenizer, "words", None)
    if words is None or own.words[: len(words)] != tuple(words):
        raise ValueError(
            f"reward is {str(model)!r}, which has other words than the model; the same are wanted"
        )
    return reward_model


def _dtype_of(model: Any) -> str:
    wide = isinstance(model, nn.Module) and any(p.dtype == torch.float64 for p in model.parameters())
    return "float64" if wide else "float32"


def _refuse_more_words(tokenizer: Tokenizer, words: int) -> None:
    if tokenizer.vocab_size > words:
        raise ValueError(
            f"tokenizer has ids up to {tokenizer.vocab_size - 1}, and the model has {words} words; at most "
            "as many as the model has are wanted"
        )


def _net_read(model: str | Path, weights: torch.dtype) -> Any:
    """The model of transformers that is in a folder, or has this name on the hub."""
    transformers = library()

    def read(auto: str, **how: Any) -> Any:
        try:
            # A model that brings code of its own is not run.
            return getattr(transformers, auto).from_pretrained(model, trust_remote_code=False, **how)
        except Exception as error:  # of many kinds, by what is missing or damaged
            here = "" if Path(model).exists() else "is no folder here, and which "
            raise ValueError(
                f"model is {str(model)!r}, which {here}transformers cannot read ({validation.reason(error)}); "
                "the folder of a model, or its name on the hub, is wanted"
            ) from None

    config = read("AutoConfig")
    _refuse_unless_causal(config)
    scores = any(name.endswith(_SCORES) for name in config.architectures or [])
    with own_randomness():
        net, told = read(_auto(scores), config=config, dtype=weights, output_loading_info=True)
    if told["missing_keys"]:
        lacking = ", ".join(sorted(told["missing_keys"])[:3])
        raise ValueError(
            f"model is {str(model)!r}, which lacks weights of a {type(net).__name__} ({lacking}, …); "
            "a whole causal model is wanted"
        )
    return _refuse_without_head(net)


def _net_copied(model: nn.Module, weights: torch.dtype) -> Any:
    """A copy of a model in memory, made as a checkpoint would make it."""
    transformers, name = library(), type(model).__name__
    if not isinstance(model, transformers.PreTrainedModel):
        merge = "after merge_and_unload(), " if hasattr(model, "merge_and_unload") else ""
        raise TypeError(
            f"model is of type {name}; {merge}a model of transformers, the folder of one, or its name on the "
            "hub is wanted"
        )
    _refuse_unless_causal(model.config)
    _refuse_without_head(model)
    auto = getattr(transformers, _auto(name.endswith(_SCORES)))
    try:
        net = net_from_config(auto, plain_config(model.config), model.config._attn_implementation, weights)
        if type(net) is not type(model):
            raise ValueError(f"a {type(net).__name__} is what belongs to its config")
        net.load_state_dict(model.state_dict())
    except (KeyError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"model is a {name} that cannot be made again from its config ({validation.reason(error)}); "
            "a causal model as transformers has it is wanted"
        ) from None
    if hasattr(model, "generation_config"):
        net.generation_config = copy.deepcopy(model.generation_config)
    return net


_SCORES = "ForSequenceClassification"


def _auto(scores: bool) -> str:
    return "AutoModelForSequenceClassification" if scores else "AutoModelForCausalLM"


def _refuse_unless_causal(config: Any) -> None:
    if getattr(config, "is_encoder_decoder", False):
        raise ValueError(
            f"model is a {config.model_type}, of an encoder and a decoder; a causal one is wanted"
        )
    if getattr(config, "quantization_config", None) is not None:
        raise ValueError("model is quantized, and such weights cannot be trained; whole ones are wanted")


def _refuse_without_head(net: Any) -> Any:
    if any("lora_" in name for name, _ in net.named_parameters()):
        raise ValueError(
            "model has adapters of peft in it; wanted: merge them first (merge_and_unload), then lora={…} "
            "for new ones"
        )
    scores = type(net).__name__.endswith(_SCORES)
    if net.base_model is net or not (scores or net.get_output_embeddings() is not None):
        raise ValueError(
            f"model is a {type(net).__name__}, without a head over a vocabulary; a causal model is wanted"
        )
    score = getattr(net, "score", None)
    if scores and (not isinstance(score, nn.Linear) or score.out_features != 1):
        raise ValueError(
            f"model is a {type(net).__name__}; to be a reward model, one with num_labels=1 and a linear "
            "score is wanted"
        )
    return net


def _adapted(net: Any, tokenizer: Tokenizer) -> Any:
    """A model of transformers behind the adapter, after it was tried on a row of four tokens.

    Raises
    ------
    ValueError
        It does not do what `LanguageModel` says.
    """
    name, kept = type(net).__name__, str(next(net.parameters()).dtype).removeprefix("torch.")

    def compare(why: str, mine: Tensor, expected: Tensor) -> None:
        tolerance = 5e-2 if kept == "bfloat16" else 1e-3
        mine, expected = mine.double(), expected.double()
        if mine.shape != expected.shape or not torch.allclose(
            mine, expected, rtol=0, atol=tolerance * max(1.0, expected.abs().max().item())
        ):
            raise ValueError(
                f"model is a {name}, which says something else {why}; wanted: a causal model that reads "
                "padding as nothing, and token by token as all at once"
            )

    said = [i for i in range(tokenizer.vocab_size) if i != tokenizer.pad]
    tokens = torch.tensor([[said[k * (len(said) - 1) // 3] for k in range(4)]])
    real, gap = torch.ones(1, 4, dtype=torch.bool), torch.zeros(1, 2, dtype=torch.bool)
    between, after = torch.cat([gap, real], dim=1), torch.cat([real, gap], dim=1)
    fill = tokens.new_full((1, 2), tokenizer.pad)
    with torch.no_grad():
        expected = net(input_ids=tokens).logits
        if name.endswith(_SCORES):
            body = Pretrained(net.base_model, eos=tokenizer.eos, pad=tokenizer.pad, dtype=kept)
            opened: Any = RewardModel(body, "last", bias=net.score.bias is not None)
            opened.output.load_state_dict(net.score.state_dict())
            opened.zero.fill_(getattr(net.config, "reward_zero", 0.0))
            one = Completions(
                tokens[:, :1], real[:, :1], tokens[:, 1:], real[:, 1:], real[:, 1:].float(), gap[:, 0]
            )
        else:
            body = opened = Pretrained(net, eos=tokenizer.eos, pad=tokenizer.pad, dtype=kept)
        for fast in (False, None):  # its own code, and what computes in its place, if anything does
            choose.language_model(opened, fast)
            if opened is not body:
                compare("when its score is read apart", opened.pooled(one), expected[:, 0])
            else:
                compare("when body and head are taken apart", opened(tokens), expected)
                decoding = choose.generation(opened)
                _, cache = decoding.start_cache(torch.cat([fill, tokens[:, :3]], dim=1), between[:, :5], 1)
                compare("token by token", decoding.step(tokens[:, 3], cache), expected[:, 3])
            whole = body.hidden(tokens)
            compare("after padding", body.hidden(torch.cat([fill, tokens], dim=1), between)[:, 2:], whole)
            compare("before padding", body.hidden(torch.cat([tokens, fill], dim=1), after)[:, :4], whole)
    return opened


# ---------------------------------------------------------------------------------------- the tokenizer


class PretrainedTokenizer:
    """A tokenizer of transformers as a `Tokenizer`.

    A model without a pad of its own is padded with its end of sequence: masks tell the two apart. Where a
    model knows several ends, the tokenizer's `eos_token` is the one that is stopped at and taught.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase

    Attributes
    ----------
    words : tuple of str
        By their ids; None where there is no word.
    vocab_size, eos, pad : int
    bos : int or None
        What texts begin with, if the tokenizer puts something there.
    apply_chat_template : function
        The tokenizer's own. Without a chat template there is no such attribute.

    Raises
    ------
    ValueError
        A tokenizer without an end of sequence: nothing would tell a model where to stop.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        if tokenizer.eos_token_id is None:
            raise ValueError(
                "tokenizer has no end of sequence, which a model stops at; one with an eos_token is wanted"
            )
        ids = tokenizer.get_vocab()
        self.vocab_size: int = max(ids.values()) + 1
        words: list[str | None] = [None] * self.vocab_size
        for word, i in ids.items():
            words[i] = word
        self.words = tuple(words)
        self.eos: int = tokenizer.eos_token_id
        self.pad: int = self.eos if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        begin = tokenizer.encode("", add_special_tokens=True)[:1]
        self.bos: int | None = begin[0] if begin and begin[0] == tokenizer.bos_token_id else None
        self._unsaid = {self.pad, self.bos} - {self.eos}
        self._description: dict[str, Any] | None = None
        if tokenizer.chat_template:
            self.apply_chat_template = tokenizer.apply_chat_template

    def encode(self, text: str) -> list[int]:
        """The ids of a text as a model reads it: with what texts begin with, without an end of sequence."""
        if not isinstance(text, str):
            raise TypeError(f"text is {text!r}; a string is wanted")
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return ids if self.bos is None else [self.bos, *ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids. What fills up and what texts begin with is left out, if it is no eos."""
        said = [i for i in map(int, ids) if i not in self._unsaid]
        text: str = self.tokenizer.decode(said, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def description(self) -> dict[str, Any]:
        """The tokenizer's files as text, for a checkpoint."""
        if self._description is None:
            with tempfile.TemporaryDirectory() as folder:
                self.tokenizer.save_pretrained(folder)
                found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
                files = {str(p.relative_to(folder)): p.read_bytes().decode("latin-1") for p in found}
            self._description = {"kind": "transformers", "files": files}
        return self._description

    def save_pretrained(self, folder: str | Path) -> None:
        """Write it to a folder, from which `AutoTokenizer.from_pretrained` reads it."""
        self.tokenizer.save_pretrained(folder)

    def __repr__(self) -> str:
        return f"PretrainedTokenizer({type(self.tokenizer).__name__}, {self.vocab_size} tokens)"


def open_tokenizer(tokenizer: Any) -> Tokenizer:
    """A folder, a name on the hub or a tokenizer of transformers as a `Tokenizer`; one of ours as it is."""
    if isinstance(tokenizer, str | Path):
        auto = library().AutoTokenizer
        try:
            tokenizer = auto.from_pretrained(tokenizer, trust_remote_code=False)
        except Exception as error:  # of many kinds, by what is missing
            raise ValueError(
                f"tokenizer of {str(tokenizer)!r} cannot be read by transformers ({validation.reason(error)}); "
                "a folder with a tokenizer's files, or a name on the hub, is wanted"
            ) from None
    if hasattr(tokenizer, "eos_token_id"):
        return PretrainedTokenizer(tokenizer)
    for name in ("vocab_size", "eos", "pad", "encode", "decode"):
        if not hasattr(tokenizer, name):
            raise TypeError(
                f"tokenizer is of type {type(tokenizer).__name__}, which has no {name}; a tokenizer of "
                "transformers, the folder of one, or a ppobook.language.tokens.Tokenizer is wanted"
            )
    given: Tokenizer = tokenizer
    return given


def build_tokenizer(described: dict[str, Any]) -> PretrainedTokenizer:
    """The tokenizer that `PretrainedTokenizer.description` described."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in described["files"].items():
            path = Path(folder, name)
            if ".." in path.parts or not path.is_relative_to(folder):
                raise ValueError(f"tokenizer has a file {name!r}; one inside its folder is wanted")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("latin-1"))
        return PretrainedTokenizer(library().AutoTokenizer.from_pretrained(folder, trust_remote_code=False))


# ----------------------------------------------------------------------------------------------- written


def save_pretrained(model: Any, folder: str | Path, tokenizer: Any = None, *, merge: bool = True) -> Path:
    """Write a model so that transformers reads it.

    A language model is written for ``AutoModelForCausalLM.from_pretrained``, a `Decoder` as GPT-2.

    A `RewardModel` that reads the last token is written for ``AutoModelForSequenceClassification.from_pretrained``;
    its logits are rewards before `zero` is subtracted, which stands in the config as ``reward_zero``.
    transformers finds the last token by what is no padding, so a reward model whose pad is its eos is given a pad of
    its own, one word more.

    Parameters
    ----------
    model : Run, Pretrained, RewardModel on one, or Decoder
    folder : path
        New.
    tokenizer : Tokenizer, optional
        Written as well. A Run has its own.
    merge : bool
        Adapters of LoRA are added to the weights. False: only they are written, as
        ``peft.PeftModel.from_pretrained`` reads them.

    Raises
    ------
    ValueError, TypeError, OSError
        A model that is none of transformers', a RewardModel that sums over tokens, a folder that holds something.
    """
    if hasattr(model, "model") and hasattr(model, "tokenizer"):  # a Run
        model, tokenizer = model.model, tokenizer or model.tokenizer
    body = model.body if isinstance(model, RewardModel) else model
    ours = isinstance(model, Decoder)
    if not ours and not isinstance(body, Pretrained):
        raise TypeError(
            f"model is a {type(model).__name__} of a {type(body).__name__}; a language model, or one of "
            "rewards that began as a model of transformers, is wanted"
        )
    if isinstance(model, RewardModel) and model.pooling != "last":
        raise ValueError(
            f"model is a reward model with pooling={model.pooling!r}, which transformers has no class "
            "for; pooling='last' is wanted, or Run.save"
        )
    if not merge and (ours or body.lora is None or body is not model):
        raise ValueError("merge is False, and model is no language model with LoRA; wanted: leave it out")
    if isinstance(tokenizer, PretrainedTokenizer):
        tokenizer = tokenizer.tokenizer
    if body is not model and body.pad == body.eos and not hasattr(tokenizer, "add_special_tokens"):
        raise ValueError("tokenizer is None; to give the reward model a pad of its own, one is wanted")
    target = RunFolder.at("folder", folder)
    make_new(target)
    if ours:
        tokenizer = _save_decoder(model, target.path, tokenizer)
    elif not merge:
        _save_adapters(body, target.path)
    elif isinstance(model, RewardModel):
        tokenizer = _save_reward_model(model, target.path, tokenizer)
    else:
        net = _filled(_auto(False), body, body.output.state_dict())
        net.generation_config = body.output.generation_config
        net.save_pretrained(target.path)
    if hasattr(tokenizer, "save_pretrained"):
        tokenizer.save_pretrained(target.path)
    return target.path


def _filled(auto: str, body: Pretrained, head: dict[str, Tensor], **changed: Any) -> Any:
    """A model of transformers with these weights, which are not copied."""
    config = plain_config(body.config) | changed
    with torch.device("meta"):
        net = net_from_config(getattr(library(), auto), config, None, body.kept)
    named = {f"{net.base_model_prefix}.{name}": x for name, x in body.body_weights().items()}
    net.load_state_dict(named | head, assign=True)
    net.tie_weights()
    return net


def _save_reward_model(reward_model: RewardModel, folder: Path, tokenizer: Any) -> Any:
    body, bias = reward_model.body, reward_model.output.bias
    zero = reward_model.zero.item() - (0.0 if bias is None else bias.item())
    net = _filled(
        _auto(True),
        body,
        {"score.weight": reward_model.output.weight.detach()},
        num_labels=1,
        pad_token_id=body.pad,
        reward_zero=zero,
    )
    tokenizer = copy.deepcopy(tokenizer)
    if hasattr(tokenizer, "padding_side"):
        tokenizer.padding_side = "right"  # by itself, GPT-2 counts what stands on the left of a text
    if body.pad == body.eos:
        tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
        net.config.pad_token_id = tokenizer.pad_token_id
        if tokenizer.pad_token_id >= body.vocab_size:
            with own_randomness():
                net.resize_token_embeddings(tokenizer.pad_token_id + 1, mean_resizing=False)
    net.save_pretrained(folder)
    return tokenizer


def _save_adapters(model: Pretrained, folder: Path) -> None:
    prefix = f"base_model.model.{model.output.base_model_prefix}"
    weights = {
        f"{prefix}.{name.replace('.default', '')}": x.detach().contiguous()
        for name, x in model.decoder.named_parameters()
    }
    lora_config(model.lora, task_type="CAUSAL_LM", inference_mode=True).save_pretrained(folder)
    library("safetensors.torch").save_file(weights, folder / "adapter_model.safetensors")


# ----------------------------------------------------------------------------------- GPT-2 and our decoder


def to_decoder(model: Any, *, eos: int, pad: int) -> Decoder:
    """GPT-2 of transformers as a `Decoder`: the same function, on parameters of its own.

    Parameters
    ----------
    model : transformers.GPT2LMHeadModel
    eos, pad : int

    Raises
    ------
    ValueError
        Another model; a GPT-2 with another activation or hidden layer, or words that are not tied.
    """
    c: Any = getattr(model, "config", None)
    if getattr(c, "model_type", None) != "gpt2" or not hasattr(model, "lm_head"):
        raise ValueError(f"model is a {type(model).__name__}; a GPT2LMHeadModel is wanted")
    plain = {
        "activation_function": ("gelu_pytorch_tanh", "gelu_new"),
        "n_inner": (4 * c.n_embd, None),
        "layer_norm_epsilon": (1e-5,),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "tie_word_embeddings": (True,),
    }
    for name, known in plain.items():
        if getattr(c, name) not in known:
            raise ValueError(f"model has {name}={getattr(c, name)!r}; GPT-2's own, {known[-1]!r}, is wanted")
    config = DecoderConfig(c.vocab_size, c.n_positions, c.n_layer, c.n_embd, c.n_head, eos=eos, pad=pad)
    decoder, weights = Decoder(config).to(next(model.parameters())), model.transformer.state_dict()
    decoder.load_state_dict({name: _turned(name, weights[_gpt2_name(name)]) for name in decoder.state_dict()})
    return decoder


def from_decoder(decoder: Decoder) -> Any:
    """A `Decoder` as GPT-2 of transformers, a GPT2LMHeadModel without dropout."""
    c, transformers = decoder.config, library()
    config = transformers.GPT2Config(
        vocab_size=c.vocab_size,
        n_positions=c.context,
        n_embd=c.width,
        n_layer=c.layers,
        n_head=c.heads,
        bos_token_id=c.eos,
        eos_token_id=c.eos,
        pad_token_id=c.pad,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
    )
    with own_randomness():
        net = transformers.GPT2LMHeadModel(config).to(decoder.wte.weight).eval()
    weights = decoder.state_dict().items()
    net.transformer.load_state_dict({_gpt2_name(name): _turned(name, x) for name, x in weights})
    return net


_GPT2 = {"qkv": "attn.c_attn", "proj": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}


def _gpt2_name(name: str) -> str:
    """What GPT-2 calls a weight of ours: of blocks.0.qkv.bias, h.0.attn.c_attn.bias."""
    parts = ["h" if part == "blocks" else _GPT2.get(part, part) for part in name.split(".")]
    return ".".join(parts)


def _turned(name: str, x: Tensor) -> Tensor:
    """GPT-2 keeps the matrices of its blocks transposed."""
    return x.T if x.ndim == 2 and name.split(".")[-2] in _GPT2 else x


def _save_decoder(decoder: Decoder, folder: Path, tokenizer: Any) -> Any:
    from_decoder(decoder).save_pretrained(folder)
    if not isinstance(tokenizer, WordTokenizer):
        return tokenizer
    parts = library("tokenizers")
    ids = {word: i for i, word in enumerate(tokenizer.words)}
    backend = parts.Tokenizer(parts.models.WordLevel(ids))
    backend.pre_tokenizer = parts.pre_tokenizers.WhitespaceSplit()
    return library().PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>", model_max_length=decoder.context
    )
