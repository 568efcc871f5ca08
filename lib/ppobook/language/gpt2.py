"""A `Decoder` as GPT-2 of Hugging Face's transformers: the same function, with copied weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from ppobook.language.model import Decoder
from ppobook.language.pretrained import library, own_randomness
from ppobook.language.tokens import WordTokenizer


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
