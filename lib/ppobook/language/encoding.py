"""One record into tokens: texts by the tokenizer, conversations by its chat template."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from ppobook.language.records import Record
from ppobook.language.tokens import WordTokenizer

Text = str | list[dict[str, Any]]  # a text, or the messages of a conversation
Sides = tuple[list[int], list[list[int]]]  # the tokens of a prompt, and of each completion of it


class Encoder:
    """From records to tokens, by one tokenizer.

    Attributes
    ----------
    retokenized : int
        The number of prompts that have other tokens alone than before their completion.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.retokenized = 0
        self.record: Record = {}

    def prompt(self, record: Record) -> list[int]:
        """The tokens of a record's prompt."""
        self.record = record
        return self._opened(text_of(record, "prompt"))

    def alone(self, record: Record, name: str) -> Sides:
        """A text or a conversation without a prompt: its first token, and the rest."""
        self.record = record
        text = text_of(record, name)
        ids = self._whole(text)
        if isinstance(text, str) and not getattr(self.tokenizer, "begin", []):
            return [self.tokenizer.eos], [self._ended(ids)]
        n = len(self.tokenizer.begin) if isinstance(text, str) else 1
        return ids[:n], [self._ended(ids[n:])]

    def example(self, record: Record) -> Sides:
        """A prompt and its completion."""
        self.record = record
        return self._after(text_of(record, "prompt"), [text_of(record, "completion")])

    def pair(self, record: Record) -> Sides:
        """A prompt, the chosen and the rejected completion."""
        self.record = record
        chosen, rejected = text_of(record, "chosen"), text_of(record, "rejected")
        _check_one_kind(chosen, rejected)
        if record.get("prompt") is not None:
            prompt = text_of(record, "prompt")
            repeated = isinstance(prompt, list) and chosen[: len(prompt)] == prompt
            if isinstance(prompt, str) == isinstance(chosen, str) and not repeated:
                return self._after(prompt, [chosen, rejected])
        if isinstance(chosen, str):
            one, other = self._whole(chosen), self._whole(rejected)
            n = _prompt_length(one, other)
            return one[:n], [self._ended(one[n:]), self._ended(other[n:])]
        n = _prompt_length(chosen, rejected)
        return self._after(chosen[:n], [chosen[n:], rejected[n:]])

    def _after(self, prompt: Text, completions: list[Text]) -> Sides:
        _check_one_kind(prompt, *completions)
        begun = self._opened(prompt)
        if isinstance(self.tokenizer, WordTokenizer):
            # Words are joined by spaces, with or without spaces in the texts.
            return begun, [self._ended(self._whole(text)) for text in completions]
        # With other tokenizers, tokens may span the end of the prompt: only the whole text has the tokens
        # that the model will see. The completion starts where these differ from the prompt's own.
        wholes = [self._whole(prompt + text) for text in completions]  # type: ignore[operator]
        n = min(_common_prefix(begun, whole) for whole in wholes)
        if n == 0:
            raise ValueError("prompt must keep its first token before the completion, got another")
        self.retokenized += n < len(begun)
        return begun[:n], [self._ended(whole[n:]) for whole in wholes]

    def _opened(self, prompt: Text) -> list[int]:
        """A prompt's tokens; those of a conversation with the beginning of the answer."""
        if isinstance(prompt, str):
            return self._whole(prompt)
        continued = prompt[-1]["role"] == "assistant"
        how = {"continue_final_message": True} if continued else {"add_generation_prompt": True}
        return self._rendered(prompt, **how)

    def _whole(self, text: Text) -> list[int]:
        if isinstance(text, str):
            return list(self.tokenizer.encode(text))
        return self._rendered(text, add_generation_prompt=False)

    def _rendered(self, messages: list[dict[str, Any]], **how: bool) -> list[int]:
        """A conversation's tokens, by the chat template and the record's own arguments for it."""
        template = getattr(self.tokenizer, "apply_chat_template", None)
        if template is None:
            raise TypeError("records must have texts for a tokenizer without chat template, got messages")
        own = self.record.get("chat_template_kwargs") or {}
        ids = template(messages, tokenize=True, tools=self.record.get("tools"), **own, **how)
        return list(ids["input_ids"] if isinstance(ids, Mapping) else ids)

    def _ended(self, ids: list[int]) -> list[int]:
        """The ids up to an end token, without white space after it; eos is appended if none is at the end."""
        if not ids:
            raise ValueError("a completion must add a token to its prompt, got none")
        ends = getattr(self.tokenizer, "end_tokens", [self.tokenizer.eos])
        end = max((i for i, token in enumerate(ids, start=1) if token in ends), default=0)
        if end and not self.tokenizer.decode(ids[end:]).strip():
            return ids[:end]
        return [*ids, self.tokenizer.eos]


def text_of(record: Record, name: str) -> Text:
    """A column that must be a text or a conversation, and not empty."""
    value = record.get(name)
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list | tuple) and value:
        return [_message(message) for message in value]
    raise ValueError(f"{name} must be a text or a list of messages, and not empty, got {reprlib.repr(value)}")


def _message(message: Any) -> dict[str, Any]:
    """A message, with its content as one text."""
    if not isinstance(message, Mapping) or "role" not in message:  # a template would write nothing for it
        raise ValueError(f"a message must have a 'role' and a 'content', got {reprlib.repr(message)}")
    # In a dataset's table all messages have all keys, some of them None.
    kept = {key: x for key, x in message.items() if x is not None}
    content = kept.get("content", "")
    if not isinstance(content, str):
        parts = content if isinstance(content, list | tuple) else [content]
        texts: list[Any] = [part.get("text") if isinstance(part, Mapping) else None for part in parts]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"content must be a text or parts of text, got {reprlib.repr(content)}")
        kept["content"] = "".join(texts)
    return kept


def _check_one_kind(*texts: Text) -> None:
    if len({isinstance(text, str) for text in texts}) > 1:
        raise ValueError("a prompt and its completions must be all texts or all lists of messages, got both")


def label_of(record: Record) -> bool:
    """The label of a record, which must be True or False."""
    label = record["label"]
    if label not in (0, 1):
        raise ValueError(f"label must be True or False, got {label!r}")
    return bool(label)


def _common_prefix(a: Sequence[Any], b: Sequence[Any]) -> int:
    """The length of the common prefix."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _prompt_length(chosen: Sequence[Any], rejected: Sequence[Any]) -> int:
    """The length of the prompt of a pair without one."""
    common = _common_prefix(chosen, rejected)
    n = min(common, len(chosen) - 1, len(rejected) - 1)
    if n == 0 or chosen == rejected:
        got = "one that is the beginning of the other" if common else "two that begin differently"
        raise ValueError(
            "chosen and rejected must begin alike and go on differently, or have a prompt of their kind "
            f"(text or messages), got {'the same twice' if chosen == rejected else got}"
        )
    return n
