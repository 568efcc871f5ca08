"""Models of Hugging Face's transformers, opened for training and saved.

    model, tokenizer = open_pretrained("folder or name")          a LanguageModel and a Tokenizer
    run = train("grpo", "folder or name", data, reward=short)     the same, opened by `train`
    save_pretrained(run, "new folder")                            for from_pretrained to read

Folders and names are read by transformers' own `from_pretrained`. Each model is tried when it is opened, on a
row of four tokens: with padding and without, at once and token by token, its logits must be those of its own
forward pass.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ppobook.evaluation import evaluation_mode
from ppobook.language.model import Decoder
from ppobook.language.pretrained import (
    Pretrained,
    dtype_name,
    library,
    lora_config,
    net_from_config,
    own_randomness,
    plain_config,
    weights_dtype,
)
from ppobook.language.pretrained_tokenizer import PretrainedTokenizer, open_tokenizer
from ppobook.language.rewards import RewardModel
from ppobook.language.run import Run, load
from ppobook.language.tokens import Tokenizer, WordTokenizer
from ppobook.run.folder import RunFolder, make_new
from ppobook.run.machine import float32_on_cpu

_SCORES = "ForSequenceClassification"

# ---------------------------------------------------------------------------------------------- opening


@float32_on_cpu()
def open_pretrained(
    model: Any,
    tokenizer: Any = None,
    *,
    dtype: str | None = None,
    lora: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> tuple[Any, Any]:
    """Open a model of transformers and its tokenizer, ready to be trained here.

    Parameters
    ----------
    model : path, str, or transformers.PreTrainedModel
        The folder of a model, its name on the hub, or a model in memory, which is copied, and whose frozen
        parameters stay so: a causal model, or a sequence classifier with one label, which becomes a reward
        model.
    tokenizer : path, str, tokenizer of transformers, or Tokenizer, optional
        Default: the one in the folder. Required for a model in memory.
    dtype : "float32", "bfloat16" or "float64", optional
        The precision of matrix products. Default: float32, or float64 if a model in memory is.
    lora : dict, optional
        Train low-rank adapters of a frozen model: see `Pretrained.add_lora`.
    seed : int
        For the adapters.

    Returns
    -------
    model : Pretrained, or RewardModel on one
    tokenizer : Tokenizer

    Raises
    ------
    ValueError
        A model in memory without a tokenizer; a model with adapters of peft; a model whose logits depend on
        padding.
    OSError, ValueError
        What transformers raises for a folder or a name that it can't read.
    """
    in_memory = isinstance(model, nn.Module)
    if in_memory and tokenizer is None:
        raise ValueError("tokenizer must be passed with a model in memory, got None")
    tokenizer = open_tokenizer(model if tokenizer is None else tokenizer)
    if isinstance(getattr(model, "body", model), Pretrained):
        opened: Any = copy.deepcopy(model)
    else:
        if dtype is None and in_memory and next(model.parameters()).dtype == torch.float64:
            dtype = "float64"
        weights = weights_dtype(dtype_name(dtype or "float32"), lora)
        net = model if in_memory else _read(model, weights)
        if any("lora_" in name for name, _ in net.named_parameters()):
            raise ValueError("model must have no adapters of peft: pass merge_and_unload().requires_grad_()")
        opened = _adapted(_copy_of(net, weights) if in_memory else net, net, tokenizer)
    body = getattr(opened, "body", opened)
    if isinstance(tokenizer, PretrainedTokenizer):
        tokenizer = copy.copy(tokenizer)
        tokenizer.end_tokens = body.end_tokens
    body.dtype = body.dtype if dtype is None else dtype_name(dtype)
    if lora is not None:
        body.add_lora(lora, seed)
    return opened, tokenizer


def _read(model: str | Path, weights: torch.dtype) -> Any:
    """Read the model of transformers in a folder, or with this name on the hub."""
    if Path(model, "adapter_config.json").exists():
        raise ValueError(
            "model must be whole, got adapters: peft.AutoPeftModelForCausalLM reads and merges them"
        )
    config = library().AutoConfig.from_pretrained(model, trust_remote_code=False)
    auto = _auto_class(any(name.endswith(_SCORES) for name in config.architectures or []))
    with own_randomness():
        return auto.from_pretrained(model, config=config, dtype=weights, trust_remote_code=False)


def _copy_of(model: Any, weights: torch.dtype) -> Any:
    """A copy of a model in memory, made from its config and its weights, as from a checkpoint."""
    auto = _auto_class(type(model).__name__.endswith(_SCORES))
    net = net_from_config(auto, plain_config(model.config), model.config._attn_implementation, weights)
    net.load_state_dict(model.state_dict())
    for name, parameter in model.named_parameters():
        net.get_parameter(name).requires_grad_(parameter.requires_grad)
    net.generation_config = copy.deepcopy(getattr(model, "generation_config", None))
    return net


def _auto_class(scores: bool) -> Any:
    transformers = library()
    return transformers.AutoModelForSequenceClassification if scores else transformers.AutoModelForCausalLM


def _adapted(net: Any, given: Any, tokenizer: Tokenizer) -> Any:
    """Adapt a model of transformers as `LanguageModel` or reward model, and try it on a row of four tokens.

    `net` is the one that was given or a copy, which has lost what is neither in its config nor in its
    weights: a forward pass of its own, hooks, a head that was tied or untied by hand.
    """
    kind, dtype = type(given).__name__, str(next(net.parameters()).dtype).removeprefix("torch.")
    size = net.get_input_embeddings().num_embeddings
    if tokenizer.vocab_size > size:
        raise ValueError(
            f"tokenizer must have only the model's {size} tokens, got {tokenizer.vocab_size}: "
            "resize_token_embeddings() adds tokens"
        )
    special: dict[str, Any] = {"eos": tokenizer.eos, "pad": tokenizer.pad, "dtype": dtype}
    opened: Any
    ids = [i for i in range(tokenizer.vocab_size) if i != tokenizer.pad]
    tokens = torch.tensor([[ids[k * (len(ids) - 1) // 3] for k in range(4)]])
    padded = F.pad(tokens, (2, 0), value=tokenizer.pad)
    mask = F.pad(torch.ones_like(tokens, dtype=torch.bool), (2, 0))
    with torch.no_grad(), evaluation_mode(given):
        whole = given(input_ids=tokens.to(given.device)).logits.to(net.device, net.dtype)
        if type(net).__name__.endswith(_SCORES):
            opened = _reward_model(net, special)
            pairs = [(opened(padded, mask)[:, -1:], whole)]
        else:
            opened = Pretrained(net, **special)
            _, cache = opened.start_cache(padded[:, :-1], mask[:, :-1], 1)
            pairs = [(opened(padded, mask)[:, 2:], whole), (opened.step(padded[:, -1], cache), whole[:, -1])]
    half = min(net.dtype.itemsize, given.dtype.itemsize) == 2
    tolerance = (5e-2 if half else 1e-3) * max(1.0, whole.abs().max().item())
    if not all(torch.allclose(mine, theirs, rtol=0, atol=tolerance) for mine, theirs in pairs):
        raise ValueError(
            "model must compute the same logits with and without padding, at once and token by token, as its "
            f"config and weights say, got a {kind} that does not"
        )
    return opened


def _reward_model(net: Any, special: dict[str, Any]) -> RewardModel:
    """A sequence classifier with one label as reward model."""
    if not hasattr(net, "score"):
        raise ValueError(f"model must be a classifier with a head `score`, got a {type(net).__name__}")
    reward_model = RewardModel(Pretrained(net.base_model, **special), "last", bias=net.score.bias is not None)
    reward_model.output.load_state_dict(net.score.state_dict())
    for name, parameter in net.score.named_parameters():
        reward_model.output.get_parameter(name).requires_grad_(parameter.requires_grad)
    reward_model.zero.fill_(getattr(net.config, "reward_zero", 0.0))
    return reward_model


# ----------------------------------------------------------------------------------------------- saving


def save_pretrained(model: Any, folder: str | Path, tokenizer: Any = None, *, merge: bool = True) -> Path:
    """Write a model for transformers to read.

    A language model is written for ``AutoModelForCausalLM.from_pretrained``, a `Decoder` as GPT-2, a
    `RewardModel` with pooling "last" for ``AutoModelForSequenceClassification.from_pretrained``. The latter's
    logits are rewards before `zero` is subtracted, which is ``reward_zero`` in the config. transformers takes
    the last token that is not padding, so a reward model whose pad is its eos gets a new padding token.

    Parameters
    ----------
    model : Run or its folder, Pretrained, RewardModel on one, or Decoder
    folder : path
        New or empty.
    tokenizer : Tokenizer, optional
        Written to the same folder. Default: that of a Run, else none.
    merge : bool
        Merge adapters of LoRA into the weights. False: write only the adapters of a language model, for
        ``peft.PeftModel.from_pretrained``.
    """
    if isinstance(model, str | Path):
        model = load(model)
    if isinstance(model, Run):
        model, tokenizer = model.model, tokenizer or model.tokenizer
    if isinstance(model, RewardModel) and model.pooling != "last":
        raise ValueError(
            f"model must be a reward model with pooling='last' for transformers, got {model.pooling!r}"
        )
    if isinstance(model, RewardModel) and not merge:
        raise ValueError("merge must be True for a reward model, whose head is no adapter")
    if isinstance(tokenizer, PretrainedTokenizer):
        tokenizer = tokenizer.tokenizer
    target = RunFolder.at("folder", folder)
    make_new(target)
    if isinstance(model, Decoder):
        tokenizer = save_decoder(model, target.path, tokenizer)
    elif isinstance(model, RewardModel):
        tokenizer = _save_reward_model(model, target.path, tokenizer)
    elif merge:
        net = _filled(_auto_class(scores=False), model, model.output.state_dict())
        net.generation_config = copy.deepcopy(model.output.generation_config)
        net.generation_config.eos_token_id = model.end_tokens
        net.save_pretrained(target.path)
    else:
        _save_adapters(model, target.path)
    if hasattr(tokenizer, "save_pretrained"):
        tokenizer.save_pretrained(target.path)
    return target.path


def _filled(auto: Any, body: Pretrained, head: dict[str, Tensor], **changed: Any) -> Any:
    """A model of transformers with these weights, not copied."""
    with torch.device("meta"):
        net = net_from_config(auto, plain_config(body.config) | changed, None, body.weights)
    named = {f"{net.base_model_prefix}.{name}": x for name, x in body.body_weights().items()}
    net.load_state_dict(named | head, assign=True)
    net.tie_weights()
    return net


def _save_reward_model(reward_model: RewardModel, folder: Path, tokenizer: Any) -> Any:
    body, bias = reward_model.body, reward_model.output.bias
    zero = reward_model.zero.item() - (0.0 if bias is None else bias.item())
    net = _filled(
        _auto_class(scores=True),
        body,
        {"score.weight": reward_model.output.weight.detach()},
        num_labels=1,
        pad_token_id=body.pad,
        reward_zero=zero,
    )
    tokenizer = copy.deepcopy(tokenizer)
    if hasattr(tokenizer, "padding_side"):
        tokenizer.padding_side = "right"  # on the left, it would count for GPT-2's positions
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
    lora_config(model.lora or {}, task_type="CAUSAL_LM", inference_mode=True).save_pretrained(folder)
    library("safetensors.torch").save_file(weights, folder / "adapter_model.safetensors")


# ----------------------------------------------------------------------------- our decoder as GPT-2


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
    net.transformer.load_state_dict({_gpt2_name(name): _transposed(name, x) for name, x in weights})
    return net


_GPT2 = {"qkv": "attn.c_attn", "proj": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}


def _gpt2_name(name: str) -> str:
    """GPT-2's name of a weight of `Decoder`: h.0.attn.c_attn.bias for blocks.0.qkv.bias."""
    parts = ["h" if part == "blocks" else _GPT2.get(part, part) for part in name.split(".")]
    return ".".join(parts)


def _transposed(name: str, x: Tensor) -> Tensor:
    """GPT-2 stores the matrices of its blocks transposed."""
    return x.T if x.ndim == 2 and name.split(".")[-2] in _GPT2 else x


def save_decoder(decoder: Decoder, folder: Path, tokenizer: Any) -> Any:
    """Write a decoder as GPT-2; returns the tokenizer, a `WordTokenizer` as one of transformers."""
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
