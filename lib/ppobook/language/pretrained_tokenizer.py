"""`PretrainedTokenizer`, a tokenizer of Hugging Face's transformers as a `Tokenizer`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ppobook.language.pretrained import library


class PretrainedTokenizer:
    """A tokenizer of transformers as a `Tokenizer`.

    Without a padding token, end-of-sequence is used: masks tell the two apart.

    Attributes
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
    words : tuple of str
        By their ids; None where an id has no token.
    begin : list of int
        The tokens that the tokenizer puts before texts: none, or bos, or several.
    end_tokens : list of int
        The ids that end a completion: `eos`, and those of the model that it was opened with.
    apply_chat_template : function
        The tokenizer's own. Absent if it has no chat template.
    """

    def __init__(self, tokenizer: Any, end_tokens: Iterable[int] = ()) -> None:
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
        self.end_tokens = sorted({self.eos, *end_tokens})
        self.pad: int = self.eos if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        # `begin` is what stands before a text whose tokens are not put there by the tokenizer.
        added = {*tokenizer.all_special_ids, *tokenizer.encode("")}
        some = tokenizer.decode([max(set(ids.values()) - added)])
        whole, text = (tokenizer.encode(some, add_special_tokens=special) for special in (True, False))
        self.begin: list[int] = whole[: whole.index(text[0])] if text else whole
        self._left_out = {self.pad, *self.begin} - {self.eos}
        if tokenizer.chat_template:
            self.apply_chat_template = tokenizer.apply_chat_template

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with `begin` once, without end-of-sequence."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return ids if ids[: len(self.begin)] == self.begin else [*self.begin, *ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, without padding and `begin` (unless it has eos)."""
        some = [i for i in map(int, ids) if i not in self._left_out]
        text: str = self.tokenizer.decode(some, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def description(self) -> dict[str, Any]:
        """The tokenizer's files as plain data, for a checkpoint: the argument of `build_tokenizer`."""
        with tempfile.TemporaryDirectory() as folder:
            self.tokenizer.save_pretrained(folder)
            found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
            files = {str(p.relative_to(folder)): p.read_bytes().decode("latin-1") for p in found}
        return {"kind": "transformers", "files": files, "end_tokens": self.end_tokens}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write it to a folder, for `AutoTokenizer.from_pretrained`."""
        self.tokenizer.save_pretrained(folder)


def open_tokenizer(tokenizer: Any) -> Any:
    """Open a folder, a name on the hub or a tokenizer of transformers as a `Tokenizer`; return ours as is."""
    if isinstance(tokenizer, str | Path):
        tokenizer = library().AutoTokenizer.from_pretrained(tokenizer, trust_remote_code=False)
    return PretrainedTokenizer(tokenizer) if hasattr(tokenizer, "eos_token_id") else tokenizer


def build_tokenizer(described: dict[str, Any]) -> PretrainedTokenizer:
    """Build a tokenizer from its `PretrainedTokenizer.description`."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in described["files"].items():
            path = Path(folder, name)
            # A checkpoint from a stranger must not write elsewhere.
            if ".." in path.parts or not path.is_relative_to(folder):
                raise ValueError(f"the tokenizer's files must be inside its folder, got {name!r}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("latin-1"))
        tokenizer = library().AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        return PretrainedTokenizer(tokenizer, described["end_tokens"])
