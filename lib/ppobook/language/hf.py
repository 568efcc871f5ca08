"""Models of Hugging Face's transformers, opened for training and saved.

    model, tokenizer = open_pretrained("folder or name")          a LanguageModel and a Tokenizer
    run = train("grpo", "folder or name", data, reward=short)     the same, opened by `train`
    save_pretrained(run, "new folder")                            for from_pretrained to read

`ppobook.language.pretrained` says how a model is used. Each is tried when it is opened, on a row of four
tokens: with padding and without, at once and token by token, its logits must be those of its own forward
pass.

transformers is imported when something is opened.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.fast import choose
from ppobook.language.gpt2 import save_decoder
from ppobook.language.hub import only_stored
from ppobook.language.model import Decoder
from ppobook.language.pretrained import (
    Pretrained,
    dtype_name,
    library,
    lora_config,
    lora_settings,
    net_from_config,
    own_randomness,
    plain_config,
    weights_dtype,
)
from ppobook.language.pretrained_tokenizer import PretrainedTokenizer, open_tokenizer
from ppobook.language.rewards import RewardModel
from ppobook.language.run import Run, load_from
from ppobook.language.tokens import Completions, Tokenizer
from ppobook.run.folder import RunFolder, make_new
from ppobook.run.machine import float32_on_cpu

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
        The folder of a model, its name on the hub, or a model in memory, which is copied, and whose frozen
        parameters stay so: a causal model, or a sequence classifier with one label, which becomes a reward
        model. A model that `open_pretrained` returned is copied too.
    tokenizer : path, str, tokenizer of transformers, or Tokenizer, optional
        Default: the one in the folder. Required for a model in memory.
    dtype : "float32", "bfloat16" or "float64", optional
        What matrices are multiplied in. Default: float32, or float64 if a model in memory is.
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
    ValueError, TypeError
        A model that can't be read, is not causal, is of a class outside transformers, depends on padding, or
        has no cache; a tokenizer without end-of-sequence, or with more tokens than the model; transformers or
        peft is not installed.
    """
    return opened(model, tokenizer, dtype, lora, seed)


@float32_on_cpu()
def opened(
    model: Any,
    tokenizer: Any,
    dtype: str | None = None,
    lora: Mapping[str, Any] | None = None,
    seed: int = 0,
    *,
    besides: str = "",
) -> tuple[Any, Any]:
    """`open_pretrained`, whose error about what is no model says what else a model may be: `besides`."""
    refuse_unless_model(model, besides)
    if isinstance(model, nn.Module) and tokenizer is None:
        raise ValueError("tokenizer must be passed with a model in memory, got None")
    lora = None if lora is None else lora_settings(lora)
    if isinstance(getattr(model, "body", model), Pretrained):
        copied: Any = copy.deepcopy(model)
        body = getattr(copied, "body", copied)
        dtype = body.dtype if dtype is None else dtype_name(dtype)
        tokenizer = open_tokenizer(tokenizer)
        _check_vocabulary(tokenizer, body.vocab_size)
    else:
        dtype = _dtype_of(model) if dtype is None else dtype_name(dtype)
        weights = weights_dtype(dtype, lora)
        in_memory = isinstance(model, nn.Module)
        net = _net_copied(model, weights) if in_memory else _net_read(model, weights, besides)
        try:
            tokenizer = open_tokenizer(model if tokenizer is None else tokenizer)
        except ValueError as error:
            if tokenizer is not None:
                raise
            raise ValueError(
                f"tokenizer must be given with {str(model)!r}, which has none ({error})"
            ) from None
        _check_vocabulary(tokenizer, net.get_input_embeddings().weight.shape[0])
        copied = _adapted(net.eval(), tokenizer)
        body = getattr(copied, "body", copied)
    body.dtype = dtype
    if lora is not None:
        body.add_lora(lora, seed)
    return copied, tokenizer


def refuse_unless_model(model: Any, besides: str = "") -> None:
    """Raise TypeError for what `open_pretrained` can't open."""
    if isinstance(model, str | Path) or isinstance(getattr(model, "body", model), Pretrained):
        return
    # Where transformers is not imported, which takes seconds, there is no model of it.
    theirs = isinstance(model, nn.Module) and "transformers" in sys.modules
    if not (theirs and isinstance(model, library().PreTrainedModel)):
        merge = ". Call its merge_and_unload() first" if hasattr(model, "merge_and_unload") else ""
        hint = merge or validation.other_half(model, "ppobook.language")
        raise _not_a_model(type(model).__name__ + hint, TypeError, besides)


def open_reward_model(model: Any, tokenizer: Tokenizer) -> RewardModel:
    """A sequence classifier of transformers as reward model, for completions by this tokenizer.

    Of a model in memory, this is the tokenizer too.

    Raises
    ------
    ValueError, TypeError
        As `open_pretrained`; a language model; another vocabulary. It may have further tokens.
    """
    in_memory = isinstance(model, nn.Module)
    reward_model, own = open_pretrained(model, tokenizer if in_memory else None)
    if not isinstance(reward_model, RewardModel):
        found = f"a {type(model).__name__}" if in_memory else repr(str(model))
        raise ValueError(f"model must be a sequence classifier with one label, got {found}, a language model")
    if in_memory:
        return reward_model
    words = getattr(tokenizer, "words", None)
    if words is None or own.words[: len(words)] != tuple(words):
        raise ValueError(
            f"model must have the vocabulary of the policy, got {str(model)!r}, which has another"
        )
    return reward_model


def _not_a_model(found: str, kind: type[Exception], besides: str) -> Exception:
    return kind(
        f"model must be {besides}a model of transformers, the folder of one, or its name on the hub, "
        f"got {found}"
    )


def _dtype_of(model: Any) -> str:
    wide = isinstance(model, nn.Module) and any(p.dtype == torch.float64 for p in model.parameters())
    return "float64" if wide else "float32"


def _check_vocabulary(tokenizer: Tokenizer, words: int) -> None:
    if tokenizer.vocab_size > words:
        raise ValueError(
            f"tokenizer must have at most the {words} tokens of the model, got {tokenizer.vocab_size}"
        )


def _net_read(model: str | Path, weights: torch.dtype, besides: str) -> Any:
    """The model of transformers in a folder, or with this name on the hub."""
    transformers, path, got = library(), Path(model), repr(str(model))
    if path.is_file():
        raise _not_a_model(f"{got}, a file: pass its folder, {str(path.parent)!r}", ValueError, besides)
    if (path / "adapter_config.json").is_file() and not (path / "config.json").is_file():
        raise _not_a_model(
            f"{got}, an adapter: merge it into its model by merge_and_unload()", ValueError, besides
        )
    try:
        how: dict[str, Any] = {"local_files_only": not Path(model).exists() and only_stored(str(model))}
    except LookupError as error:
        raise _not_a_model(str(error), ValueError, besides) from None

    def read(auto: str, **more: Any) -> Any:
        try:
            return getattr(transformers, auto).from_pretrained(model, trust_remote_code=False, **how, **more)
        except Exception as error:  # of many types
            raise _not_a_model(f"{str(model)!r} ({validation.reason(error)})", ValueError, besides) from None

    config = read("AutoConfig")
    _check_causal(config)
    scores = any(name.endswith(_SCORES) for name in config.architectures or [])
    with own_randomness():
        net, info = read(_auto(scores), config=config, dtype=weights, output_loading_info=True)
    if info["missing_keys"]:
        missing = ", ".join(sorted(info["missing_keys"])[:3])
        raise ValueError(
            f"model must have all weights of a {type(net).__name__}, got {str(model)!r} without {missing}, …"
        )
    return _check_head(net)


def _net_copied(model: Any, weights: torch.dtype) -> Any:
    """A copy of a model in memory, made from its config and its weights, as from a checkpoint."""
    transformers, name = library(), type(model).__name__
    _check_causal(model.config)
    _check_head(model)
    auto = getattr(transformers, _auto(name.endswith(_SCORES)))
    try:
        net = net_from_config(auto, plain_config(model.config), model.config._attn_implementation, weights)
        if type(net) is not type(model):
            raise ValueError(f"its config makes a {type(net).__name__}")
        net.load_state_dict(model.state_dict())
        for parameter, x in model.named_parameters():
            net.get_parameter(parameter).requires_grad_(x.requires_grad)
    except (KeyError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"model must be of a class of transformers, got a {name} that can't be made from its config "
            f"({validation.reason(error)})"
        ) from None
    if hasattr(model, "generation_config"):
        net.generation_config = copy.deepcopy(model.generation_config)
    return net


_SCORES = "ForSequenceClassification"


def _auto(scores: bool) -> str:
    return "AutoModelForSequenceClassification" if scores else "AutoModelForCausalLM"


def _check_causal(config: Any) -> None:
    if getattr(config, "is_encoder_decoder", False):
        raise ValueError(f"model must be causal, got a {config.model_type}, an encoder and decoder")
    if getattr(config, "quantization_config", None) is not None:
        raise ValueError("model must have weights that can be trained, got quantized ones")


def _check_head(net: Any) -> Any:
    if any("lora_" in name for name, _ in net.named_parameters()):
        raise ValueError("model must have no adapters of peft, got some. Merge them by merge_and_unload()")
    scores = type(net).__name__.endswith(_SCORES)
    if net.base_model is net or not (scores or net.get_output_embeddings() is not None):
        raise ValueError(f"model must be a causal model, got a {type(net).__name__}, without a head")
    score = getattr(net, "score", None)
    if scores and (not isinstance(score, nn.Linear) or score.out_features != 1):
        raise ValueError(
            f"model must have num_labels=1 and a linear score for a reward model, got a {type(net).__name__}"
        )
    return net


def _adapted(net: Any, tokenizer: Tokenizer) -> Any:
    """A model of transformers as `LanguageModel` or reward model, after a trial on a row of four tokens.

    Raises
    ------
    ValueError
        Its outputs are not those of its own forward pass, or depend on padding.
    """
    name, kept = type(net).__name__, str(next(net.parameters()).dtype).removeprefix("torch.")

    def compare(why: str, mine: Tensor, expected: Tensor) -> None:
        tolerance = 5e-2 if kept == "bfloat16" else 1e-3
        mine, expected = mine.double(), expected.double()
        if mine.shape != expected.shape or not torch.allclose(
            mine, expected, rtol=0, atol=tolerance * max(1.0, expected.abs().max().item())
        ):
            raise ValueError(
                "model must compute the same logits with and without padding, at once and token by token, "
                f"got a {name} that differs {why}"
            )

    ids = [i for i in range(tokenizer.vocab_size) if i != tokenizer.pad]
    tokens = torch.tensor([[ids[k * (len(ids) - 1) // 3] for k in range(4)]])
    real, gap = torch.ones(1, 4, dtype=torch.bool), torch.zeros(1, 2, dtype=torch.bool)
    between, after = torch.cat([gap, real], dim=1), torch.cat([real, gap], dim=1)
    fill = tokens.new_full((1, 2), tokenizer.pad)
    with torch.no_grad():
        expected = net(input_ids=tokens).logits
        if expected.isnan().any():
            raise ValueError(f"model must have finite weights, got a {name} whose logits are NaN")
        if name.endswith(_SCORES):
            body = Pretrained(net.base_model, eos=tokenizer.eos, pad=tokenizer.pad, dtype=kept)
            opened: Any = RewardModel(body, "last", bias=net.score.bias is not None)
            opened.output.load_state_dict(net.score.state_dict())
            for parameter, x in net.score.named_parameters():
                opened.output.get_parameter(parameter).requires_grad_(x.requires_grad)
            opened.zero.fill_(getattr(net.config, "reward_zero", 0.0))
            one = Completions(
                tokens[:, :1], real[:, :1], tokens[:, 1:], real[:, 1:], real[:, 1:].float(), gap[:, 0]
            )
        else:
            body = opened = Pretrained(net, eos=tokenizer.eos, pad=tokenizer.pad, dtype=kept)
        for fast in (False, None):  # its own code, and its fast form
            choose.language_model(opened, fast)
            if opened is not body:
                compare("when its score is computed apart", opened.pooled(one), expected[:, 0])
            else:
                compare("when body and head are computed apart", opened(tokens), expected)
                decoding = choose.generation(opened)
                _, cache = decoding.start_cache(torch.cat([fill, tokens[:, :3]], dim=1), between[:, :5], 1)
                compare("token by token", decoding.step(tokens[:, 3], cache), expected[:, 3])
            whole = body.hidden(tokens)
            compare("after padding", body.hidden(torch.cat([fill, tokens], dim=1), between)[:, 2:], whole)
            compare("before padding", body.hidden(torch.cat([tokens, fill], dim=1), after)[:, :4], whole)
    return opened


# ----------------------------------------------------------------------------------------------- saving


def save_pretrained(model: Any, folder: str | Path, tokenizer: Any = None, *, merge: bool = True) -> Path:
    """Write a model for transformers to read.

    A language model is written for ``AutoModelForCausalLM.from_pretrained``, a `Decoder` as GPT-2.

    A `RewardModel` with pooling "last" is written for ``AutoModelForSequenceClassification.from_pretrained``.
    Its logits are rewards before `zero` is subtracted, which is ``reward_zero`` in the config. transformers
    takes the last token that is not padding, so a reward model whose pad is its eos gets a new padding token.

    Parameters
    ----------
    model : Run or its folder, Pretrained, RewardModel on one, or Decoder
    folder : path
        New or empty.
    tokenizer : Tokenizer, optional
        Written to the same folder. Default: that of a Run, else none.
    merge : bool
        Merge adapters of LoRA into the weights. False: write only the adapters, for
        ``peft.PeftModel.from_pretrained``.

    Raises
    ------
    ValueError, TypeError, OSError
        A model that is none of these, a RewardModel with pooling "sum", a folder that is not empty.
    """
    if isinstance(model, str | Path):
        model = load_from(RunFolder.at("model", model))
    if isinstance(model, Run):
        model, tokenizer = model.model, tokenizer or model.tokenizer
    body = model.body if isinstance(model, RewardModel) else model
    ours = isinstance(model, Decoder)
    if not ours and not isinstance(body, Pretrained):
        kind = type(model).__name__ + (f" of a {type(body).__name__}" if body is not model else "")
        raise TypeError(
            "model must be a language model, or a reward model from a model of transformers, got a "
            f"{kind}{validation.other_half(model, 'ppobook.language')}"
        )
    if isinstance(model, RewardModel) and model.pooling != "last":
        raise ValueError(
            "model must be a reward model with pooling='last' for transformers, got pooling="
            f"{model.pooling!r}. Run.save writes it"
        )
    merge = validation.flag("merge", merge)
    if not merge and (ours or body.lora is None or body is not model):
        raise ValueError("merge must be True for a model without LoRA, got False")
    if isinstance(tokenizer, PretrainedTokenizer):
        tokenizer = tokenizer.tokenizer
    if body is not model and body.pad == body.eos and not hasattr(tokenizer, "add_special_tokens"):
        raise ValueError("tokenizer must be passed, to give the reward model a padding token, got None")
    target = RunFolder.at("folder", folder)
    make_new(target)
    if ours:
        tokenizer = save_decoder(model, target.path, tokenizer)
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
    """A model of transformers with these weights, not copied."""
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
    lora_config(model.lora, task_type="CAUSAL_LM", inference_mode=True).save_pretrained(folder)
    library("safetensors.torch").save_file(weights, folder / "adapter_model.safetensors")
