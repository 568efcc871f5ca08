"""One record into tokens: texts by the tokenizer, conversations by its chat template."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from ppobook import validation
from ppobook.language.records import EmptyError, Record
from ppobook.language.tokens import WordTokenizer

Text = str | list[dict[str, Any]]  # a text, or the messages of a conversation
Sides = tuple[list[int], list[list[int]]]  # the tokens of a prompt, and of each completion of it


class Encoder:
    """From records to tokens, by one tokenizer.

    Attributes
    ----------
    retokenized : int
        How many prompts have other tokens alone than before their completion.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not hasattr(tokenizer, "eos"):
            raise TypeError(
                "tokenizer must be a Tokenizer, such as Run.tokenizer or one that open_pretrained returns, "
                f"got {type(tokenizer).__name__}"
            )
        self.tokenizer = tokenizer
        self.retokenized = 0

    def prompt(self, record: Record) -> list[int]:
        """The tokens of a record's prompt."""
        return self._opened(record, text_of(record, "prompt"))

    def alone(self, record: Record, name: str) -> Sides:
        """A text or a conversation without a prompt: its first token, and the rest."""
        text = text_of(record, name)
        ids = self._whole(record, name, text)
        bos = getattr(self.tokenizer, "bos", None)
        if not isinstance(text, str) or ids[0] == bos:
            return ids[:1], [self._ended(name, ids[1:])]
        return [self.tokenizer.eos if bos is None else bos], [self._ended(name, ids)]

    def example(self, record: Record) -> Sides:
        """A prompt and its completion."""
        return self._after(record, text_of(record, "prompt"), {"completion": text_of(record, "completion")})

    def pair(self, record: Record) -> Sides:
        """A prompt, the chosen and the rejected completion."""
        chosen, rejected = text_of(record, "chosen"), text_of(record, "rejected")
        if isinstance(chosen, str) != isinstance(rejected, str):
            raise TypeError(f"rejected must be {_kind(chosen)}, as chosen is, got {_kind(rejected)}")
        if record.get("prompt") is not None:
            prompt = text_of(record, "prompt")
            if isinstance(prompt, str) == isinstance(chosen, str):
                return self._after(record, prompt, {"chosen": chosen, "rejected": rejected})
        if isinstance(chosen, str):
            one = self._whole(record, "chosen", chosen)
            other = self._whole(record, "rejected", rejected)
            n = _prompt_length(one, other)
            return one[:n], [self._ended("chosen", one[n:]), self._ended("rejected", other[n:])]
        n = _prompt_length(chosen, rejected)
        return self._after(record, chosen[:n], {"chosen": chosen[n:], "rejected": rejected[n:]})

    def _after(self, record: Record, prompt: Text, completions: dict[str, Text]) -> Sides:
        for name, text in completions.items():
            if isinstance(text, str) != isinstance(prompt, str):
                raise TypeError(f"{name} must be {_kind(prompt)}, as prompt is, got {_kind(text)}")
        begun = self._opened(record, prompt)
        if isinstance(self.tokenizer, WordTokenizer) and isinstance(prompt, str):
            # Words are joined by spaces, whether the texts have them or not.
            return begun, [
                self._ended(name, self._whole(record, name, text)) for name, text in completions.items()
            ]
        # With other tokenizers, tokens may span the end of the prompt: only the whole text has the tokens
        # that the model will see. The completion starts where these differ from the prompt's own.
        joined = {name: prompt + text for name, text in completions.items()}  # type: ignore[operator]
        wholes = [self._whole(record, name, text) for name, text in joined.items()]
        n = min(_common_prefix(begun, whole) for whole in wholes)
        if n == 0:
            raise ValueError("prompt must keep its first token before the completion, got another")
        self.retokenized += n < len(begun)
        return begun[:n], [
            self._ended(name, whole[n:]) for name, whole in zip(completions, wholes, strict=True)
        ]

    def _opened(self, record: Record, prompt: Text) -> list[int]:
        """A prompt's tokens; those of a conversation with what opens the answer."""
        if isinstance(prompt, str):
            ids = self._whole(record, "prompt", prompt)
            self._check_padding("prompt", ids)
            return ids
        continued = prompt[-1]["role"] == "assistant"
        how = {"continue_final_message": True} if continued else {"add_generation_prompt": True}
        return self._rendered(record, "prompt", prompt, **how)

    def _whole(self, record: Record, name: str, text: Text) -> list[int]:
        ids = (
            list(self.tokenizer.encode(text))
            if isinstance(text, str)
            else self._rendered(record, name, text, add_generation_prompt=False)
        )
        if not ids:
            raise EmptyError(f"{name} must have a token, got none")
        return ids

    def _rendered(self, record: Record, name: str, messages: Text, **how: bool) -> list[int]:
        """A conversation's tokens, by the chat template."""
        template = getattr(self.tokenizer, "apply_chat_template", None)
        if template is None:
            raise TypeError(
                f"{name} must be a text for a tokenizer without chat template "
                f"({type(self.tokenizer).__name__}), got a list of messages"
            )
        tools = record.get("tools")
        tools = json.loads(tools) if isinstance(tools, str) else tools
        # Some templates write about tools even if the list is empty.
        extra = {"tools": tools} if tools else {}
        given = record.get("chat_template_kwargs") or {}
        extra |= {key: value for key, value in given.items() if value is not None}
        try:
            ids = template(messages, tokenize=True, **how, **extra)
        except Exception as error:  # of any type
            raise ValueError(
                f"{name} must be accepted by the chat template, got {validation.reason(error)}"
            ) from None
        return list(ids["input_ids"] if isinstance(ids, Mapping) else ids)

    def _check_padding(self, name: str, ids: list[int]) -> None:
        """Raise if all tokens are padding, unless the padding token is end-of-sequence."""
        pad = self.tokenizer.pad
        if pad != self.tokenizer.eos and all(i == pad for i in ids):
            raise EmptyError(f"{name} must have a token, got padding only")

    def _ended(self, name: str, ids: list[int]) -> list[int]:
        """The ids up to end-of-sequence, without white space after it; appended if none is at the end."""
        eos = self.tokenizer.eos
        if not ids:
            raise EmptyError(f"{name} must add a token to its prompt, got none")
        self._check_padding(name, ids)
        if eos in ids:
            end = len(ids) - ids[::-1].index(eos)
            if not self.tokenizer.decode(ids[end:]).strip():
                return ids[:end]
        return [*ids, eos]


def text_of(record: Record, name: str) -> Text:
    """A column that must be a text or a conversation, and not empty."""
    value = record.get(name)
    if isinstance(value, str):
        if not value.strip():
            raise EmptyError(f"{name} must not be empty, got {value!r}")
        return value
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"{name} must be a text or a list of messages, got {reprlib.repr(value)} ({type(value).__name__})"
        )
    messages = [_message(f"{name}[{i}]", message) for i, message in enumerate(value)]
    if not any(_has_content(message) for message in messages):
        raise EmptyError(f"{name} must not be empty, got {reprlib.repr(value)}")
    return messages


# Names in files with "conversations".
_RENAMED = {"from": "role", "value": "content"}


def _message(where: str, message: Any) -> dict[str, Any]:
    expected, found = 'must be a message {"role": …, "content": …}', reprlib.repr(message)
    if not isinstance(message, Mapping):
        raise TypeError(f"{where} {expected}, got {found}")
    renamed = {str(_RENAMED.get(key, key)): x for key, x in message.items()}
    # In a dataset's table all messages have all keys, some of them None.
    kept = {key: x for key, x in renamed.items() if x is not None}
    if not isinstance(kept.get("role"), str):
        raise TypeError(f"{where} {expected}, got {found}, without a role")
    if len(kept) == 1 or not isinstance(kept.get("content", ""), str | list):
        raise TypeError(f"{where} {expected}, got {found}, without a content")
    return kept


def _has_content(message: dict[str, Any]) -> bool:
    content = message.get("content", "")
    stripped = content.strip() if isinstance(content, str) else content
    return bool(stripped) or any(value for key, value in message.items() if key not in ("role", "content"))


def label_of(record: Record) -> bool:
    label = record["label"]
    return bool(label) if isinstance(label, int) and label in (0, 1) else validation.flag("label", label)


def _kind(text: Text) -> str:
    return "a text" if isinstance(text, str) else "a conversation"


def _common_prefix(a: Sequence[Any], b: Sequence[Any]) -> int:
    """The length of the common prefix."""
    if b[: len(a)] == a:
        return len(a)
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _prompt_length(chosen: Sequence[Any], rejected: Sequence[Any]) -> int:
    """The length of the prompt of a pair without one."""
    if chosen == rejected:
        raise ValueError("chosen and rejected must differ if there is no 'prompt', got the same")
    n = min(_common_prefix(chosen, rejected), len(chosen) - 1, len(rejected) - 1)
    if n == 0:
        raise ValueError("chosen and rejected must begin alike if there is no 'prompt', got different ones")
    return n
