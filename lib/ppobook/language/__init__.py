"""Policy optimization on tokens: a small language model, and what is done with the sentences it writes.

`ppobook.language.tokens` holds words, padding and completions; `ppobook.language.model` a decoder of GPT-2's
shape, and how it generates. The names below are at hand in `ppobook.language` itself; each brings in what it
needs when it is first used, so that importing this package loads neither torch nor a library of models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ppobook.language.model import (
        Decoder,
        DecoderConfig,
        LanguageModel,
        Scalar,
        generate,
        load_model,
        save_model,
    )
    from ppobook.language.tokens import (
        Completions,
        Pairs,
        Tokenizer,
        WordTokenizer,
        completion_logits,
        completion_values,
        left_pad,
        right_pad,
        token_entropy,
        token_logp,
    )

__all__ = [
    "Completions",
    "Decoder",
    "DecoderConfig",
    "LanguageModel",
    "Pairs",
    "Scalar",
    "Tokenizer",
    "WordTokenizer",
    "completion_logits",
    "completion_values",
    "generate",
    "left_pad",
    "load_model",
    "right_pad",
    "save_model",
    "token_entropy",
    "token_logp",
]

_MODEL = ["Decoder", "DecoderConfig", "LanguageModel", "Scalar", "generate", "load_model", "save_model"]
_HOME = {name: "model" if name in _MODEL else "tokens" for name in __all__}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ppobook.language' has no attribute {name!r}")
    return getattr(import_module(f"ppobook.language.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
