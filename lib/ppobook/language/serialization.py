"""Models and tokenizers as plain data, for checkpoints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from ppobook.language import pretrained
from ppobook.language.model import Decoder, DecoderConfig, Scalar
from ppobook.language.rewards import RewardModel
from ppobook.language.tokens import WordTokenizer


def describe(model: nn.Module) -> dict[str, Any]:
    """Describe a model without its weights in plain data."""
    if isinstance(model, Decoder):
        dtype = str(model.wte.weight.dtype).removeprefix("torch.")
        return {"kind": "decoder", "dtype": dtype, **asdict(model.config)}
    if isinstance(model, Scalar):
        described = {"body": describe(model.body), "bias": model.output.bias is not None}
        if isinstance(model, RewardModel):
            return {"kind": "reward_model", **described, "pooling": model.pooling}
        return {"kind": "scalar", **described}
    plain: dict[str, Any] = model.description()  # type: ignore[operator]
    return plain


def build(described: dict[str, Any]) -> Any:
    """Build the model that `describe` described, with arbitrary weights."""
    sizes = dict(described)
    kind = sizes.pop("kind")
    if kind == "decoder":
        dtype = getattr(torch, sizes.pop("dtype"))
        return Decoder(DecoderConfig(**sizes)).to(dtype)
    if kind == "reward_model":
        return RewardModel(build(sizes["body"]), sizes["pooling"], bias=sizes["bias"])
    if kind == "scalar":
        return Scalar(build(sizes["body"]), sizes["bias"])
    return pretrained.build(described)


def describe_tokenizer(tokenizer: Any) -> dict[str, Any]:
    """Describe a tokenizer in plain data."""
    if isinstance(tokenizer, WordTokenizer):
        return {"kind": "words", "words": list(tokenizer.words[2:])}
    described: dict[str, Any] = tokenizer.description()
    return described


def build_tokenizer(described: dict[str, Any]) -> Any:
    """Build the tokenizer that `describe_tokenizer` described."""
    if described["kind"] == "words":
        return WordTokenizer(described["words"])
    from ppobook.language import pretrained_tokenizer

    return pretrained_tokenizer.build_tokenizer(described)
