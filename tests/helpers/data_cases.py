"""Tokenizers, records and conversations for the tests of ppobook.language.data."""

import re

from ppobook.language.tokens import WordTokenizer
from ppobook.language.world import World

WORDS = WordTokenizer(["the", "sky", "is", "blue", "green", "what", "color", "?", "it", ".", "sea", "sun"])
WORLD = World()


class PieceTokenizer:
    """Pieces of words, the longest that fits first: as byte-pair encodings have them, and a chat template.

    A conversation is "<|role|>content<|end|>\\n" for each message, and then "<|assistant|>" if an answer is
    to come.
    """

    special = ("<pad>", "</s>", "<s>", "<|user|>", "<|assistant|>", "<|system|>", "<|tool|>", "<|end|>")
    pad = 0
    pieces = ("The", " sky", " is", " bl", " blue", " green", "ack", "What", " color", " of", "It")

    def __init__(self, begins=True, ends="</s>"):
        self.tokens = [*self.special, *(chr(i) for i in range(32, 127)), "\n", *self.pieces]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        longest_first = sorted(self.tokens, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first)))
        self.vocab_size = len(self.tokens)
        self.eos = self.ids[ends]
        self.begins = begins
        if begins:
            self.begin = [self.ids["<s>"]]
        self.calls = []

    def cut(self, text):
        assert "".join(self.pattern.findall(text)) == text
        return [self.ids[token] for token in self.pattern.findall(text)]

    def encode(self, text):
        return [*self.begin, *self.cut(text)] if self.begins else self.cut(text)

    def decode(self, ids):
        return "".join(self.tokens[i] for i in ids if i != self.pad)

    def rendered(self, messages, add_generation_prompt=False, continue_final_message=False):
        text = "".join(f"<|{m['role']}|>{m['content']}<|end|>\n" for m in messages)
        if continue_final_message:
            return text.removesuffix("<|end|>\n")
        return text + "<|assistant|>" * add_generation_prompt

    def apply_chat_template(self, messages, *, tokenize, tools, system="", **how):
        assert tokenize
        messages = [{"role": "system", "content": system}] * bool(system) + messages
        messages = [{"role": "tool", "content": tool} for tool in tools or ()] + messages
        assert not (how.get("add_generation_prompt") and how.get("continue_final_message"))
        self.calls.append({"messages": messages})
        if any(m["role"] == "system" for m in messages[1:]):
            raise RuntimeError("a system message\n  comes first")
        ids = self.cut(self.rendered(messages, **how))
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}  # as transformers' tokenizers


def said(*turns):
    """A conversation, of users and assistants in turn."""
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(turns)]


def asked(completions, tokenizer):
    return completions.prompt_texts(tokenizer)


def answered(completions, tokenizer):
    """Return what is learned, its end written out."""
    assert completions.ended.all()
    assert (completions.logp == 0).all()
    assert completions.logp.shape == completions.tokens.shape
    last = completions.tokens.gather(1, completions.last[:, None])
    assert set(last.flatten().tolist()) <= {*getattr(tokenizer, "end_tokens", [tokenizer.eos])}
    assert (completions.tokens[~completions.mask] == tokenizer.pad).all()
    assert (completions.prompts[~completions.prompt_mask] == tokenizer.pad).all()
    return completions.texts(tokenizer, eos=True)


SKY = "What color is the sky?"
STANDARD = {
    "text": {"text": "The sky is blue."},
    "prompt": {"prompt": "The sky is"},
    "completion": {"prompt": "The sky is", "completion": " blue."},
    "preference": {"prompt": "The sky is", "chosen": " blue.", "rejected": " green."},
    "implicit": {"chosen": "The sky is blue.", "rejected": "The sky is green."},
    "labelled": {"prompt": "The sky is", "completion": " blue.", "label": True},
}
CHAT = {
    "messages": {"messages": said(SKY, "It is blue.")},
    "prompt": {"prompt": said(SKY)},
    "completion": {"prompt": said(SKY), "completion": said(SKY, "It is blue.")[1:]},
    "preference": {
        "prompt": said(SKY),
        "chosen": said(SKY, "It is blue.")[1:],
        "rejected": said(SKY, "It is green.")[1:],
    },
    "implicit": {"chosen": said(SKY, "It is blue."), "rejected": said(SKY, "It is green.")},
    "text and chat": {
        "prompt": SKY,
        "chosen": said(SKY, "It is blue."),
        "rejected": said(SKY, "It is green."),
    },
}

RECORDS = [
    {"prompt": "the sky is", "completion": "blue .", "level": 1.5},
    {"prompt": "the sun is", "completion": "green .", "level": 2.5},
    {"prompt": "what color is it ?", "completion": "it is blue", "level": None},
]
