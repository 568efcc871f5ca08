"""Models and tokenizers in plain data, for a checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from ppobook.language.model import Decoder, DecoderConfig
from ppobook.language.rewards import RewardModel
from ppobook.language.tokens import WordTokenizer


def describe(model: nn.Module) -> dict[str, Any]:
    """A model without its weights, in plain data, for a checkpoint."""
    if isinstance(model, Decoder):
        dtype = str(model.wte.weight.dtype).removeprefix("torch.")
        return {"kind": "decoder", "dtype": dtype, **asdict(model.config)}
    if isinstance(model, RewardModel):
        return {
            "kind": "reward_model",
            "body": describe(model.body),
            "bias": model.output.bias is not None,
            "pooling": model.pooling,
        }
    described: dict[str, Any] = model.description()  # type: ignore[operator]
    return described


def build(described: dict[str, Any]) -> Any:
    """The model that `describe` described, with arbitrary weights."""
    sizes = dict(described)
    kind = sizes.pop("kind")
    if kind == "decoder":
        dtype = getattr(torch, sizes.pop("dtype"))
        return Decoder(DecoderConfig(**sizes)).to(dtype)
    if kind == "reward_model":
        return RewardModel(build(sizes["body"]), sizes["pooling"], bias=sizes["bias"])
    from ppobook.language import pretrained

    return pretrained.build(described)


def describe_tokenizer(tokenizer: Any) -> dict[str, Any]:
    """A tokenizer in plain data, for a checkpoint."""
    if isinstance(tokenizer, WordTokenizer):
        return {"kind": "words", "words": list(tokenizer.words[2:])}
    described: dict[str, Any] = tokenizer.description()
    return described


def build_tokenizer(described: dict[str, Any]) -> Any:
    """The tokenizer that `describe_tokenizer` described."""
    if described["kind"] == "words":
        return WordTokenizer(described["words"])
    from ppobook.language import pretrained_tokenizer

    return pretrained_tokenizer.build_tokenizer(described)
