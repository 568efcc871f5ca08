"""`PretrainedTokenizer`, a tokenizer of Hugging Face's transformers as a `Tokenizer`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ppobook import validation
from ppobook.language.hub import only_stored
from ppobook.language.pretrained import library
from ppobook.language.tokens import Tokenizer, ids_of, unknown_word


class PretrainedTokenizer:
    """A tokenizer of transformers as a `Tokenizer`.

    Without a padding token, end-of-sequence is used: masks tell the two apart. Of several end-of-sequence
    tokens, the tokenizer's `eos_token` is the one that is trained and that ends a completion.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase

    Attributes
    ----------
    words : tuple of str
        By their ids; None where an id has no token.
    vocab_size, eos, pad : int
    bos : int or None
        The token that the tokenizer puts before texts, if any.
    apply_chat_template : function
        The tokenizer's own. Absent if it has no chat template.

    Raises
    ------
    ValueError
        A tokenizer without an end-of-sequence token.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        if tokenizer.eos_token_id is None:
            raise ValueError("tokenizer must have an eos_token, which ends a completion, got None")
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
        self._left_out = {self.pad, self.bos} - {self.eos}
        self._description: dict[str, Any] | None = None
        if tokenizer.chat_template:
            self.apply_chat_template = tokenizer.apply_chat_template

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with `bos` if there is one, without end-of-sequence."""
        if not isinstance(text, str):
            raise TypeError(f"text must be a string, got {text!r}")
        try:
            ids: list[int] = self._ids(text)
        except Exception:  # of no type of its own, where a word is unknown and there is no token for such
            if (unknown := self._unknown(text)) is None:
                raise
            raise unknown_word(unknown, [word for word in self.words if word is not None]) from None
        return ids if self.bos is None else [self.bos, *ids]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return ids

    def _unknown(self, text: str) -> str | None:
        """The first word of a text that can't be encoded."""
        for word in text.split():
            try:
                self._ids(word)
            except Exception:
                return word
        return None

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, without padding and `bos` (unless they are the same token as eos)."""
        kept = [i for i in ids_of(ids) if i not in self._left_out]
        text: str = self.tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def description(self) -> dict[str, Any]:
        """The tokenizer's files as plain data, for a checkpoint: the argument of `build_tokenizer`."""
        if self._description is None:
            with tempfile.TemporaryDirectory() as folder:
                self.tokenizer.save_pretrained(folder)
                found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
                files = {str(p.relative_to(folder)): p.read_bytes().decode("latin-1") for p in found}
            self._description = {"kind": "transformers", "files": files}
        return self._description

    def save_pretrained(self, folder: str | Path) -> None:
        """Write it to a folder, for `AutoTokenizer.from_pretrained`."""
        self.tokenizer.save_pretrained(folder)

    def __repr__(self) -> str:
        return f"PretrainedTokenizer({type(self.tokenizer).__name__}, {self.vocab_size} tokens)"


def open_tokenizer(tokenizer: Any) -> Tokenizer:
    """A folder, a name on the hub or a tokenizer of transformers as a `Tokenizer`; one of ours as it is."""
    if isinstance(tokenizer, str | Path):
        must = "tokenizer must be a folder with a tokenizer's files, or a name on the hub, got"
        try:
            stored = not Path(tokenizer).exists() and only_stored(str(tokenizer))
        except LookupError as error:
            raise ValueError(f"{must} {error}") from None
        try:
            auto = library().AutoTokenizer
            found = auto.from_pretrained(tokenizer, trust_remote_code=False, local_files_only=stored)
            # Some kinds are made, with no words, from a folder without a tokenizer's files.
            if not found.get_vocab().keys() - found.all_special_tokens:
                raise ValueError("no vocabulary")
        except Exception as error:  # of many types
            raise ValueError(f"{must} {str(tokenizer)!r} ({validation.reason(error)})") from None
        tokenizer = found
    if hasattr(tokenizer, "eos_token_id"):
        return PretrainedTokenizer(tokenizer)
    for name in ("vocab_size", "eos", "pad", "encode", "decode"):
        if not hasattr(tokenizer, name):
            raise TypeError(
                "tokenizer must be a tokenizer of transformers, the folder of one, or a "
                f"ppobook.language.tokens.Tokenizer, got {type(tokenizer).__name__}, which has no {name}"
            )
    given: Tokenizer = tokenizer
    return given


def build_tokenizer(described: dict[str, Any]) -> PretrainedTokenizer:
    """A tokenizer from its `PretrainedTokenizer.description`."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in described["files"].items():
            path = Path(folder, name)
            if ".." in path.parts or not path.is_relative_to(folder):
                raise ValueError(f"the tokenizer's files must be inside its folder, got {name!r}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("latin-1"))
        return PretrainedTokenizer(library().AutoTokenizer.from_pretrained(folder, trust_remote_code=False))
