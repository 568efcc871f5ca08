"""What people have, as tokens: the formats that are read, where a completion begins and ends, the doors."""

import json
import re
import sys
import warnings

import pytest
import torch

from ppobook.language.data import (
    Batches,
    Prompts,
    digest_of,
    examples_of,
    labelled_of,
    pairs_of,
    prompts_of,
)
from ppobook.language.tokens import WordTokenizer, left_pad, right_pad
from ppobook.language.world import World
from ppobook.run.machine import stream

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

    def __init__(self, begins=True, ends="</s>", as_dict=False):
        self.tokens = [*self.special, *(chr(i) for i in range(32, 127)), "\n", *self.pieces]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        longest_first = sorted(self.tokens, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first)))
        self.vocab_size = len(self.tokens)
        self.eos = self.ids[ends]
        self.begins = begins
        if begins:
            self.bos = self.ids["<s>"]
        self.as_dict = as_dict
        self.calls = []

    def cut(self, text):
        assert "".join(self.pattern.findall(text)) == text
        return [self.ids[token] for token in self.pattern.findall(text)]

    def encode(self, text):
        return [self.bos, *self.cut(text)] if self.begins else self.cut(text)

    def decode(self, ids):
        return "".join(self.tokens[i] for i in ids if i != self.pad)

    def rendered(self, messages, add_generation_prompt=False, continue_final_message=False):
        text = "".join(f"<|{m['role']}|>{m['content']}<|end|>\n" for m in messages)
        if continue_final_message:
            return text.removesuffix("<|end|>\n")
        return text + "<|assistant|>" * add_generation_prompt

    def apply_chat_template(self, messages, *, tokenize, tools=None, mood=None, **how):
        assert tokenize
        assert not (how.get("add_generation_prompt") and how.get("continue_final_message"))
        self.calls.append({"tools": tools, "mood": mood, "messages": messages})
        if any(m["role"] == "system" for m in messages[1:]):
            raise RuntimeError("a system message\n  comes first")
        ids = self.cut(self.rendered(messages, **how))
        return {"input_ids": ids, "attention_mask": [1] * len(ids)} if self.as_dict else ids


def said(*turns):
    """A conversation, of users and assistants in turn."""
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(turns)]


def asked(completions, tokenizer):
    return completions.prompt_texts(tokenizer)


def answered(completions, tokenizer):
    """What is learned, its end written out."""
    assert completions.ended.all()
    assert (completions.logp == 0).all()
    assert completions.logp.shape == completions.tokens.shape
    last = completions.tokens.gather(1, completions.last[:, None])
    assert (last == tokenizer.eos).all()
    assert (completions.tokens[~completions.mask] == tokenizer.pad).all()
    assert (completions.prompts[~completions.prompt_mask] == tokenizer.pad).all()
    return completions.texts(tokenizer, eos=True)


# ---------------------------------------------------------------- the formats, each as TRL's page shows it


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


@pytest.mark.parametrize("begins", [True, False])
def test_texts(begins):
    t = PieceTokenizer(begins)
    start = "<s>" if begins else ""
    examples = examples_of([STANDARD["text"]], t)
    assert asked(examples, t) == ["<s>" if begins else "</s>"]
    assert answered(examples, t) == ["The sky is blue.</s>"]
    examples = examples_of([STANDARD["completion"]], t)
    assert asked(examples, t) == [start + "The sky is"]
    assert answered(examples, t) == [" blue.</s>"]
    for name in ("preference", "implicit"):
        pairs = pairs_of([STANDARD[name]], t)
        assert asked(pairs.chosen, t) == asked(pairs.rejected, t) == [start + "The sky is"]
        assert answered(pairs.chosen, t) == [" blue.</s>"]
        assert answered(pairs.rejected, t) == [" green.</s>"]
    for name in ("prompt", "completion", "preference", "implicit"):
        prompts = prompts_of([STANDARD[name]], t)
        assert [t.decode(row) for row in prompts.tokens] == [start + "The sky is"]
    completions, desirable = labelled_of([STANDARD["labelled"], STANDARD["labelled"] | {"label": False}], t)
    assert answered(completions, t) == [" blue.</s>"] * 2
    assert desirable.tolist() == [True, False]
    completions, desirable = labelled_of([STANDARD["preference"], STANDARD["preference"]], t)
    assert answered(completions, t) == [" blue.</s>"] * 2 + [" green.</s>"] * 2
    assert desirable.tolist() == [True, True, False, False]


@pytest.mark.parametrize("as_dict", [False, True])
def test_conversations(as_dict):
    """The template's own end is the end of the sequence, and the new line after it is not learned."""
    t = PieceTokenizer(ends="<|end|>", as_dict=as_dict)
    question = f"<|user|>{SKY}<|end|>\n<|assistant|>"
    examples = examples_of([CHAT["messages"]], t)
    assert asked(examples, t) == ["<|user|>"]
    assert answered(examples, t) == [f"{SKY}<|end|>\n<|assistant|>It is blue.<|end|>"]
    examples = examples_of([CHAT["completion"]], t)
    assert asked(examples, t) == [question]
    assert answered(examples, t) == ["It is blue.<|end|>"]
    for name in ("preference", "implicit", "text and chat"):
        pairs = pairs_of([CHAT[name]], t)
        assert asked(pairs.chosen, t) == asked(pairs.rejected, t) == [question]
        assert answered(pairs.chosen, t) == ["It is blue.<|end|>"]
        assert answered(pairs.rejected, t) == ["It is green.<|end|>"]
    for name in ("prompt", "completion", "preference", "implicit"):
        assert [t.decode(row) for row in prompts_of([CHAT[name]], t).tokens] == [question]


def test_an_end_that_the_template_does_not_write_is_appended():
    t = PieceTokenizer()
    examples = examples_of([CHAT["completion"]], t)
    assert answered(examples, t) == ["It is blue.<|end|>\n</s>"]
    examples = examples_of([CHAT["messages"]], t)
    assert answered(examples, t) == [f"{SKY}<|end|>\n<|assistant|>It is blue.<|end|>\n</s>"]


def test_an_end_that_is_there_is_not_written_twice():
    t = PieceTokenizer()
    records = [
        {"prompt": "The sky", "completion": text} for text in (" is", " is</s>", " is</s>\n ", " </s> is")
    ]
    assert answered(examples_of(records, t), t) == [" is</s>", " is</s>", " is</s>", " </s> is</s>"]
    assert answered(examples_of([{"text": "The sky</s>"}], t), t) == ["The sky</s>"]
    examples = examples_of([{"prompt": "the sky", "completion": "is blue <eos>"}], WORDS)
    assert answered(examples, WORDS) == ["is blue <eos>"]


def test_a_text_begins_from_the_token_that_begins_texts_though_it_does_not_write_it():
    t = PieceTokenizer(begins=False)
    t.bos = t.ids["<s>"]
    examples = examples_of([{"text": "The sky"}, {"text": "<s>The sky"}], t)
    assert asked(examples, t) == ["<s>", "<s>"]
    assert answered(examples, t) == ["The sky</s>"] * 2


def test_of_several_turns_all_are_learned_and_the_last_end_is_the_end():
    t = PieceTokenizer(ends="<|end|>")
    turns = said("What", "It", "What color", "blue")
    want = "What<|end|>\n<|assistant|>It<|end|>\n<|user|>What color<|end|>\n<|assistant|>blue<|end|>"
    for name in ("messages", "conversations"):
        assert answered(examples_of([{name: turns}], t), t) == [want]
    other = [{"from": m["role"], "value": m["content"]} for m in turns]
    assert answered(examples_of([{"conversations": other}], t), t) == [want]
    before, last = turns[:3], turns[3:]
    examples = examples_of([{"prompt": before, "completion": last}], t)
    assert asked(examples, t) == [
        "<|user|>What<|end|>\n<|assistant|>It<|end|>\n<|user|>What color<|end|>\n<|assistant|>"
    ]
    assert answered(examples, t) == ["blue<|end|>"]


def test_a_prompt_that_ends_in_the_assistants_words_is_gone_on_with():
    t = PieceTokenizer()
    prompts = prompts_of([{"prompt": said(SKY, "It is")}], t)
    assert t.decode(prompts.tokens[0]) == f"<|user|>{SKY}<|end|>\n<|assistant|>It is"


def test_words_have_a_space_between_prompt_and_completion_whatever_the_texts_say():
    records = [
        {"prompt": "the sky is", "completion": "blue ."},
        {"prompt": "the sky is ", "completion": " blue ."},
        {"prompt": " what\tcolor is\nthe sky ?", "completion": "green"},
    ]
    examples = examples_of(records, WORDS)
    assert asked(examples, WORDS) == ["the sky is", "the sky is", "what color is the sky ?"]
    assert answered(examples, WORDS) == ["blue . <eos>", "blue . <eos>", "green <eos>"]
    pairs = pairs_of([{"prompt": "the sky is", "chosen": "blue", "rejected": "green . ."}], WORDS)
    assert asked(pairs.rejected, WORDS) == ["the sky is"]
    assert answered(pairs.rejected, WORDS) == ["green . . <eos>"]
    pairs = pairs_of([{"chosen": "the sky is blue", "rejected": "the sky is green ."}], WORDS)
    assert asked(pairs.chosen, WORDS) == ["the sky is"]
    assert (answered(pairs.chosen, WORDS), answered(pairs.rejected, WORDS)) == (
        ["blue <eos>"],
        ["green . <eos>"],
    )
    examples = examples_of([{"text": "the sky is blue ."}], WORDS)
    assert asked(examples, WORDS) == ["<eos>"]
    assert answered(examples, WORDS) == ["the sky is blue . <eos>"]


def test_a_corpus_comes_back_as_it_was():
    records = WORLD.corpus(300, seed=1)
    examples = examples_of(records, WORLD.tokenizer)
    assert asked(examples, WORLD.tokenizer) == [record["prompt"] for record in records]
    assert examples.texts(WORLD.tokenizer) == [record["completion"] for record in records]
    assert not WORLD.gold_parts(examples)["errors"].any()
    # Against the padding of single rows.
    tokens, mask = right_pad([[*WORLD.tokenizer.encode(r["completion"]), 1] for r in records], 0)
    prompts, prompt_mask = left_pad([WORLD.tokenizer.encode(r["prompt"]) for r in records], 0)
    for found, want in zip(
        (examples.tokens, examples.mask, examples.prompts, examples.prompt_mask),
        (tokens, mask, prompts, prompt_mask),
        strict=True,
    ):
        assert found.dtype == want.dtype
        assert torch.equal(found, want)


# -------------------------------------------------------------------------- where a completion begins


def test_what_is_read_has_the_tokens_of_the_whole_text():
    """A tokenizer of pieces cuts a prompt and a completion as it cuts their sum, wherever they meet."""
    text = "What color of sky is blue? The sky is black."
    for begins in (True, False):
        t = PieceTokenizer(begins)
        for i in range(2, len(text) - 1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    e = examples_of([{"prompt": text[:i], "completion": text[i:]}], t)
                except ValueError as error:  # within the first token, which then is not the prompt's
                    assert i < 4
                    assert "the first token of the prompt changes" in str(error)  # noqa: PT017
                    continue
            assert [*e.prompts[0].tolist(), *e.tokens[0].tolist()] == [*t.encode(text), t.eos]
            alone = t.encode(text[:i])
            assert e.prompts[0].tolist() == alone[: e.prompts.shape[1]]  # as it will be read when it is asked


def test_tokens_that_part_before_the_prompt_ends_are_told_of():
    t = PieceTokenizer()
    records = [
        {"prompt": "The sky is", "completion": " blue"},
        {"prompt": "The sky is ", "completion": "blue"},
        {"prompt": "The sky is blu", "completion": "e"},
    ]
    with pytest.warns(
        UserWarning, match="in 2 of 3 records of data the prompt has other tokens alone"
    ) as told:
        examples = examples_of(records, t)
    assert told[0].filename == __file__
    assert asked(examples, t) == ["<s>The sky is"] * 3
    assert answered(examples, t) == [" blue</s>"] * 3
    with pytest.warns(UserWarning, match="in 1 of 1 records"):
        pairs = pairs_of([{"prompt": "The sky is ", "chosen": "the sea", "rejected": "blue"}], t)
    # One prompt for both: it ends where the first of the two parts.
    assert asked(pairs.chosen, t) == asked(pairs.rejected, t) == ["<s>The sky is"]
    assert answered(pairs.chosen, t) == [" the sea</s>"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        examples_of(records[:1], t)


@pytest.mark.parametrize(
    ("chosen", "rejected", "prompt"),
    [
        ("The sky is blue.", "The sky is black.", "The sky is"),  # " blue" against " bl", "ack"
        ("The sky is", "The sky", "The"),  # at least one token is left to each
        ("The", "The sky", ""),
        ("a", "b", ""),
    ],
)
def test_the_prompt_of_a_pair_without_one(chosen, rejected, prompt):
    t = PieceTokenizer()
    pairs = pairs_of([{"chosen": chosen, "rejected": rejected}], t)
    assert asked(pairs.chosen, t) == ["<s>" + prompt]
    assert answered(pairs.chosen, t) == [chosen.removeprefix(prompt) + "</s>"]
    assert answered(pairs.rejected, t) == [rejected.removeprefix(prompt) + "</s>"]


def test_the_prompt_of_two_conversations_is_the_messages_that_they_share():
    t = PieceTokenizer(ends="<|end|>")
    pair = {"chosen": said("What", "It", "of", "green"), "rejected": said("What", "It", "of", "blue", "is")}
    pairs = pairs_of([pair], t)
    assert asked(pairs.chosen, t) == [
        "<|user|>What<|end|>\n<|assistant|>It<|end|>\n<|user|>of<|end|>\n<|assistant|>"
    ]
    assert answered(pairs.chosen, t) == ["green<|end|>"]
    assert answered(pairs.rejected, t) == ["blue<|end|>\n<|user|>is<|end|>"]
    # One that stops where the other goes on: the last message is left to both.
    pairs = pairs_of([{"chosen": said("What", "It"), "rejected": said("What", "It", "of")}], t)
    assert asked(pairs.chosen, t) == ["<|user|>What<|end|>\n<|assistant|>"]
    assert answered(pairs.chosen, t) == ["It<|end|>"]
    assert answered(pairs.rejected, t) == ["It<|end|>\n<|user|>of<|end|>"]


def test_tools_and_settings_go_to_the_template():
    t = PieceTokenizer()
    tools = [{"type": "function", "function": {"name": "look"}}]
    records = [
        {"prompt": said(SKY), "tools": tools},
        {"prompt": said(SKY), "tools": json.dumps(tools)},
        {"prompt": said(SKY), "tools": []},
        {"prompt": said(SKY), "chat_template_kwargs": {"mood": "kind", "other": None}},
    ]
    prompts_of(records, t)
    assert [call["tools"] for call in t.calls] == [tools, tools, None, None]
    assert [call["mood"] for call in t.calls] == [None, None, None, "kind"]


def test_what_a_table_fills_with_none_is_no_part_of_a_message():
    t = PieceTokenizer()
    messages = [m | {"tool_calls": None} for m in said(SKY, "It is blue.")]
    examples_of([{"messages": messages, "prompt": None}], t)
    assert t.calls[0]["messages"] == said(SKY, "It is blue.")
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "look"}}]}
    with pytest.raises(
        ValueError, match=r"the chat template \(KeyError: 'content'\)"
    ):  # of our template alone
        examples_of([{"messages": [*said(SKY), call]}], t)
    assert t.calls[1]["messages"][1] == {"role": "assistant", "tool_calls": call["tool_calls"]}


# ------------------------------------------------------------------------------------------------- prompts


def test_other_columns_go_with_their_prompts():
    records = [
        {"prompt": "the sky is", "answer": "blue", "level": 1, "completion": "blue"},
        {"prompt": "the sea", "answer": "green", "source": [1, 2]},
        {"prompt": "what color is it ?", "answer": None, "level": 3},
    ]
    prompts = prompts_of(records, WORDS)
    assert len(prompts) == 3
    assert prompts.columns == {
        "answer": ["blue", "green", None],
        "level": [1, None, 3],
        "source": [None, [1, 2], None],
    }
    assert [WORDS.decode(row) for row in prompts.tokens] == [r["prompt"] for r in records]
    for index in ([2, 0, 2], torch.tensor([2, 0, 2])):
        some = prompts.select(index)
        assert [WORDS.decode(row) for row in some.tokens] == [records[i]["prompt"] for i in (2, 0, 2)]
        assert some.columns["level"] == [3, 1, 3]
    for index in (slice(0, 2), [True, True, False], torch.tensor([True, True, False])):
        some = prompts.select(index)
        assert some.tokens.tolist() == [WORDS.encode("the sky is"), [WORDS.pad, *WORDS.encode("the sea")]]
        assert some.mask.tolist() == [[True] * 3, [False, True, True]]
        assert some.columns["answer"] == ["blue", "green"]
    twice = prompts.select([1, 0]).repeat(2)
    assert [WORDS.decode(row) for row in twice.tokens] == ["the sea", "the sea", "the sky is", "the sky is"]
    assert twice.columns == {
        "answer": ["green", "green", "blue", "blue"],
        "level": [None, None, 1, 1],
        "source": [[1, 2], [1, 2], None, None],
    }
    for bad in (1, [], [0.5], [[0]]):
        with pytest.raises(ValueError, match=r"index is .*; a list of row numbers is wanted"):
            prompts.select(bad)
    with pytest.raises(ValueError, match="k is 0; a whole number of at least 1"):
        prompts.repeat(0)


def test_a_world_gives_all_its_prompts():
    prompts = prompts_of(WORLD, WORLD.tokenizer)
    assert [WORLD.tokenizer.decode(row) for row in prompts.tokens] == WORLD.prompts
    assert prompts.columns == {}
    assert prompts.select([3, 3]).columns == {}


def test_prompts_have_doors():
    tokens, mask = left_pad([[2, 3], [4]], 0)
    with pytest.raises(TypeError, match=r"tokens has dtype torch.float32"):
        Prompts(tokens.float(), mask)
    with pytest.raises(ValueError, match=r"mask has shape \(1, 2\); \(2, 2\) is wanted"):
        Prompts(tokens, mask[:1])
    with pytest.raises(TypeError, match=r"mask has dtype torch\.int64"):
        Prompts(tokens, mask.long())
    with pytest.raises(ValueError, match="mask has padding in row 1 that is not on its left"):
        Prompts(tokens, mask.flip(1))
    with pytest.raises(ValueError, match=r"columns\['level'\] has 1 values; 2 are wanted, one a prompt"):
        Prompts(tokens, mask, {"level": [1]})


# ------------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize(("n", "size"), [(16, 4), (10, 4), (7, 7), (5, 12), (3, 3), (4, 1), (2, 9), (1, 3)])
def test_batches_are_one_long_row_of_orders_cut_into_pieces(n, size):
    batches = Batches(n, size, seed=5)
    orders = []
    for epoch in range(30 * size // n + 2):
        generator = torch.Generator().manual_seed(stream(5, f"epoch {epoch}"))
        orders += torch.randperm(n, generator=generator).tolist()
    for k in (3, 0, 29, 1, 7):  # in any order: there is nothing to remember
        assert batches.rows(k).tolist() == orders[k * size : (k + 1) * size]
    drawn = torch.cat([batches.rows(k) for k in range(n)])
    assert drawn.bincount(minlength=n).tolist() == [size] * n  # each as often as any other
    for epoch in range(size):
        assert drawn[epoch * n : (epoch + 1) * n].sort().values.tolist() == list(range(n))


def test_batches_are_decided_by_their_seed():
    def rows(seed):
        return [Batches(100, 10, seed).rows(k).tolist() for k in range(20)]

    assert rows(1) == rows(1)
    assert rows(1) != rows(2)
    assert rows(1)[:10] != rows(1)[10:]  # each time in a new order
    state = torch.get_rng_state()
    rows(3)
    assert torch.equal(torch.get_rng_state(), state)


def test_batches_have_doors():
    for arguments, sentence in (
        ((0, 1, 0), "n is 0"),
        ((1, 0, 0), "size is 0"),
        ((1, 1, -1), "seed is -1"),
        ((1, 1.0, 0), "size is 1.0"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence):
            Batches(*arguments)
    with pytest.raises(ValueError, match="k is -1"):
        Batches(1, 1, 0).rows(-1)


# ------------------------------------------------------------------------------------ where records lie


RECORDS = [
    {"prompt": "the sky is", "completion": "blue .", "level": 1.5},
    {"prompt": "the sun is", "completion": "green .", "level": 2.5},
    {"prompt": "what color is it ?", "completion": "it is blue", "level": None},
]


class Table:
    """What we use of a datasets.Dataset."""

    def __init__(self, rows, transform=None):
        self.rows, self.transform = rows, transform
        self.column_names = [*rows[0]]
        self.format = {"type": "custom" if transform else None}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.transform(self.rows[i]) if self.transform else self.rows[i]

    def to_list(self):
        return self.rows


def files_of(folder):
    lines = [json.dumps(record) for record in RECORDS]
    contents = {
        "plain.jsonl": "\n".join(lines),
        "gaps.jsonl": "\n" + "\n\n \n".join(lines) + "\n\n",
        "windows.jsonl": "\ufeff" + "\r\n".join(lines) + "\r\n",
        "list.json": json.dumps(RECORDS, indent=2),
        "late.json": "\n\n " + json.dumps(RECORDS),
    }
    for name, content in contents.items():
        path = folder / name
        path.write_bytes(content.encode())
        yield path


def test_the_same_records_are_read_from_wherever_they_lie(tmp_path):
    want = examples_of(RECORDS, WORDS)
    sources = [tuple(RECORDS), Table(RECORDS), *files_of(tmp_path)]
    sources.append(str(sources[-1]))
    sources.append(Table(RECORDS, lambda row: row))
    for source in sources:
        found = examples_of(source, WORDS)
        assert torch.equal(found.tokens, want.tokens)
        assert torch.equal(found.prompts, want.prompts)
        assert prompts_of(source, WORDS).columns == {"level": [1.5, 2.5, None]}
        assert digest_of(source) == digest_of(RECORDS)


def test_a_transform_of_a_datasets_owner_is_heeded():
    upper = Table(RECORDS, lambda row: row | {"prompt": "the sea"})
    assert asked(examples_of(upper, WORDS), WORDS) == ["the sea"] * 3


def test_only_the_end_of_a_line_ends_a_line(tmp_path):
    path = tmp_path / "odd.jsonl"
    odd = [{"prompt": "the\u2028sky", "note": "a\u2028b\u0085c\x1d"}, {"prompt": "the sea", "note": "ü"}]
    path.write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in odd), encoding="utf-8")
    assert prompts_of(path, WORDS).columns["note"] == [r["note"] for r in odd]


def test_a_digest_is_of_what_the_records_say():
    one = digest_of(RECORDS)
    assert re.fullmatch("[0-9a-f]{64}", one)
    assert digest_of([dict(reversed(r.items())) for r in RECORDS]) == one
    others = [
        RECORDS[:2],
        RECORDS[::-1],
        [*RECORDS, RECORDS[0]],
        [*RECORDS[:2], RECORDS[2] | {"level": 0}],
        [*RECORDS[:2], RECORDS[2] | {"prompt": "what color is it"}],
        [*RECORDS[:2], RECORDS[2] | {"more": None}],
    ]
    assert len({one, *map(digest_of, others)}) == 1 + len(others)

    class Thing:
        pass

    # What JSON has no form for; an address in memory is another in each run.
    first, second = ([{"prompt": "the", "x": x} for x in (Thing(), torch.ones(2), {3})] for _ in range(2))
    assert digest_of(first) == digest_of(second)
    assert digest_of([{"x": torch.ones(2)}]) != digest_of([{"x": torch.zeros(2)}])


def test_a_real_dataset(tmp_path):
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_list(RECORDS)
    assert digest_of(table) == digest_of(RECORDS)
    assert prompts_of(table, WORDS).columns == {"level": [1.5, 2.5, None]}
    assert asked(examples_of(table.select([2]), WORDS), WORDS) == ["what color is it ?"]
    shouted = table.with_transform(lambda rows: {"prompt": ["the sea"] * len(rows["prompt"])})
    assert [WORDS.decode(row) for row in prompts_of(shouted, WORDS).tokens] == ["the sea"] * 3
    chats = datasets.Dataset.from_list(
        [CHAT["completion"], {"prompt": said("It", "is", "of"), "completion": said("", "It")[1:]}]
    )
    t = PieceTokenizer(ends="<|end|>")
    assert answered(examples_of(chats, t), t) == ["It is blue.<|end|>", "It<|end|>"]
    with pytest.raises(
        TypeError, match=r"data is a DatasetDict of 'train'; wanted: one of its splits, data\['train'\]"
    ):
        examples_of(datasets.DatasetDict(train=table), WORDS)
    with pytest.raises(TypeError, match="data is a IterableDataset, which is read as it comes"):
        examples_of(table.to_iterable_dataset(), WORDS)


# ------------------------------------------------------------------------------------------------ bad input


READERS = [prompts_of, examples_of, pairs_of, labelled_of]
GOOD = {
    prompts_of: {"prompt": "the sky"},
    examples_of: {"prompt": "the sky", "completion": "is blue"},
    pairs_of: {"prompt": "the sky", "chosen": "is blue", "rejected": "is green"},
    labelled_of: {"prompt": "the sky", "completion": "is blue", "label": True},
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("data", "error", "sentence"),
    [
        ([], ValueError, "data is empty; at least one record is wanted"),
        (
            None,
            TypeError,
            "data is of type NoneType; a World, a list of dicts, the path of a JSONL file or a",
        ),
        (
            iter([{}]),
            TypeError,
            r"data is of type list_iterator; .*\(a list\(…\) of what can be gone through",
        ),
        (3, TypeError, "data is of type int"),
        (
            {"prompt": ["the"], "label": [1]},
            TypeError,
            "data is a dict of 'prompt' and 'label'; wanted: a list of",
        ),
        ({"train": Table(RECORDS)}, TypeError, r"wanted: one of its splits, data\['train'\]"),
        (["the sky"], TypeError, r"data\[0\] is 'the sky'; a dict of columns is wanted"),
        ([{"prompt": "the", 3: 4}], TypeError, r"data\[0\] has a column 3; names of columns are strings"),
        ("", ValueError, "data is ''"),
        (
            "nowhere.jsonl",
            FileNotFoundError,
            "data is 'nowhere.jsonl', where there is no file; the path of a JSONL",
        ),
        (
            [{"question": "the", "answer": "sky"}],
            ValueError,
            r"data\[0\] has the columns 'question' and 'answer'; ",
        ),
        ([{"question": "the"}], ValueError, r"data\[0\] has the column 'question'; '"),
        ([{}], ValueError, r"data\[0\] has no column with a value; "),
        ([{"prompt": None}], ValueError, r"data\[0\] has no column with a value; "),
    ],
)
def test_what_are_no_records(read, data, error, sentence):
    with pytest.raises(error, match=sentence):
        read(data, WORDS)


def test_the_columns_that_are_wanted_are_named():
    for read, wanted in (
        (prompts_of, "'prompt', or 'chosen' and 'rejected' is wanted"),
        (examples_of, "'prompt' and 'completion', or 'messages', or 'conversations', or 'text' is wanted"),
        (pairs_of, "'chosen' and 'rejected' is wanted"),
        (labelled_of, "'prompt', 'completion' and 'label', or 'chosen' and 'rejected' is wanted"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"data[0] has the columns 'a' and 'b'; {wanted}")):
            read([{"a": 1, "b": 2}], WORDS)


@pytest.mark.parametrize("read", [examples_of, pairs_of, labelled_of])
def test_a_world_is_no_list_of_records(read):
    with pytest.raises(
        TypeError, match=r"data is World\(16 prompts, 28 tokens\); records are wanted, such as its"
    ):
        read(WORLD, WORDS)


@pytest.mark.parametrize("read", READERS)
def test_a_record_without_a_column_that_others_have(read, tmp_path):
    whole = GOOD[read]
    last = [*whole][-1]
    rows = [whole, whole, {name: value for name, value in whole.items() if name != last} | {"x": 1}]
    with pytest.raises(ValueError, match=rf"data\[2\] has the column.* 'x', and no '{last}'; .*data\[0\]"):
        read(rows, WORDS)
    with pytest.raises(ValueError, match=rf"data\[1\] has the column.*, and no '{last}'; "):
        read([whole, whole | {last: None, "x": 1}], WORDS)
    path = tmp_path / "data.jsonl"
    path.write_text("\n\n".join(map(json.dumps, rows)))
    with pytest.raises(
        ValueError, match=rf"data.jsonl, line 5 has .*, and no '{last}'; .*data.jsonl, line 1"
    ):
        read(path, WORDS)


@pytest.mark.parametrize(
    ("read", "column"),
    [
        (prompts_of, "prompt"),
        (examples_of, "prompt"),
        (examples_of, "completion"),
        (pairs_of, "prompt"),
        (pairs_of, "chosen"),
        (pairs_of, "rejected"),
        (labelled_of, "completion"),
    ],
)
@pytest.mark.parametrize(
    ("value", "error", "sentence"),
    [
        ("", ValueError, "{column} is '', which is empty; leave such records out"),
        (" \n", ValueError, "{column} is ' \\n', which is empty; leave such records out"),
        ([], ValueError, "{column} is [], which is empty; leave such records out"),
        (said(" "), ValueError, "which is empty; leave such records out"),
        (3, TypeError, "{column} is 3, of type int; a text is wanted, or a list of messages"),
        ({"role": "user"}, TypeError, "{column} is {{'role': 'user'}}, of type dict; a text is wanted"),
        (["the sky"], TypeError, "{column}[0] is 'the sky'; a message is wanted"),
        ([{"content": "the"}], TypeError, "{column}[0] is {{'content': 'the'}}, without a role; a message"),
        ([{"role": "user"}], TypeError, "{column}[0] is {{'role': 'user'}}, without a content; a message"),
        ([*said("the"), {"role": "user", "content": 3}], TypeError, "{column}[1] is"),
        ("the foxes", ValueError, "text holds the word 'foxes'"),
    ],
)
def test_a_value_that_is_no_text(read, column, value, error, sentence):
    rows = [GOOD[read], GOOD[read] | {column: value}]
    with pytest.raises(error, match=re.escape("data[1]: ")) as caught:
        read(rows, WORDS)
    assert sentence.format(column=column) in str(caught.value)


def test_all_that_are_empty_are_counted():
    rows = [GOOD[examples_of]] * 10 + [
        {"prompt": "the", "completion": ""},
        {"prompt": " ", "completion": "is"},
    ] * 3
    with pytest.raises(
        ValueError, match=r"data\[10\]: completion is '', which is empty \(so it is in 5 more\)"
    ):
        examples_of(rows, WORDS)


def test_a_conversation_wants_a_template():
    for read, name in ((prompts_of, "prompt"), (examples_of, "completion"), (pairs_of, "preference")):
        with pytest.raises(
            TypeError,
            match=r"data\[0\]: prompt is a list of messages, and a WordTokenizer has no chat template; ",
        ):
            read([CHAT[name]], WORDS)
    with pytest.raises(TypeError, match="messages is a list of messages, and a WordTokenizer has no chat"):
        examples_of([CHAT["messages"]], WORDS)


def test_what_a_template_refuses_is_refused_with_its_words():
    late = [*said(SKY), {"role": "system", "content": "Be kind."}]
    with pytest.raises(
        ValueError,
        match=r"data\[1\]: prompt is refused by the chat template \(RuntimeError: a system message comes",
    ):
        prompts_of([CHAT["prompt"], {"prompt": late}], PieceTokenizer())


def test_texts_and_conversations_do_not_mix():
    t = PieceTokenizer()
    for record, sentence in (
        (
            {"prompt": "The", "completion": said("sky")},
            "prompt is a text and completion a conversation; both of",
        ),
        ({"prompt": said("The"), "completion": "sky"}, "prompt is a conversation and completion a text"),
    ):
        with pytest.raises(TypeError, match=r"data\[0\]: " + sentence):
            examples_of([record], t)
    with pytest.raises(TypeError, match=r"data\[0\]: chosen is a text and rejected a conversation"):
        pairs_of([{"chosen": "The", "rejected": said("sky")}], t)


def test_pairs_that_show_no_prompt():
    t = PieceTokenizer(begins=False)
    for pair, sentence in (
        (
            {"chosen": "It", "rejected": "The sky"},
            "chosen and rejected begin differently, and there is no 'prompt'",
        ),
        (
            {"chosen": "It is", "rejected": "It is"},
            "chosen and rejected are the same, and there is no 'prompt'",
        ),
        ({"chosen": said("What", "It"), "rejected": said("It", "is")}, "begin differently"),
        ({"chosen": said("What"), "rejected": said("What")}, "are the same"),
        ({"chosen": "It", "rejected": "It is"}, "begin differently"),  # no token is left for a prompt
    ):
        with pytest.raises(ValueError, match=r"data\[0\]: .*" + sentence):
            pairs_of([pair], t)
    # With a prompt two may be alike: they say nothing, and do no harm.
    assert len(pairs_of([{"prompt": "The", "chosen": " sky", "rejected": " sky"}], t)) == 1


class Forgetful(PieceTokenizer):
    """Its template drops the assistant's words, and asks for them again."""

    def rendered(self, messages, **how):
        questions = [message for message in messages if message["role"] == "user"]
        return super().rendered(questions, add_generation_prompt=True)


def test_a_completion_that_adds_nothing():
    with pytest.raises(ValueError, match=r"data\[0\]: completion adds no token to what it goes on from"):
        examples_of([CHAT["completion"]], Forgetful())


@pytest.mark.parametrize("label", ["yes", 2, 1.0, [True]])
def test_a_label_is_true_or_false(label):
    rows = [GOOD[labelled_of], GOOD[labelled_of] | {"label": label}]
    with pytest.raises(TypeError, match=r"data\[1\]: label is .*; True or False is wanted"):
        labelled_of(rows, WORDS)


def test_a_label_may_be_a_number():
    rows = [GOOD[labelled_of] | {"label": label} for label in (1, 0, True)]
    assert labelled_of(rows, WORDS)[1].tolist() == [True, False, True]


def test_what_is_too_long_is_counted():
    rows = [{"prompt": "the sky is", "completion": "blue " * i} for i in range(1, 9)]
    assert examples_of(rows, WORDS, max_length=12).tokens.shape == (8, 9)
    with pytest.raises(
        ValueError,
        match=re.escape(
            "3 of 8 records have more than max_length = 9 tokens; the longest, data[7], has 12 (3 of its "
            "prompt, 9 after it with the end). Wanted: leave them out"
        ),
    ):
        examples_of(rows, WORDS, max_length=9)
    pairs = [{"prompt": "the sky", "chosen": "is " * i, "rejected": "is " * (7 - i)} for i in range(1, 7)]
    assert len(pairs_of(pairs, WORDS, max_length=9)) == 6
    with pytest.raises(
        ValueError, match=r"4 of 6 records have more than max_length = 7 tokens; the longest, data\["
    ):
        pairs_of(pairs, WORDS, max_length=7)
    with pytest.raises(ValueError, match="6 of 6 records"):  # which has records in it of which both are
        pairs_of(pairs, WORDS, max_length=5)
    assert len(prompts_of(rows, WORDS, max_length=3)) == 8
    with pytest.raises(
        ValueError, match=r"8 of 8 records have more .* data\[0\], has 3 \(all of its prompt\)"
    ):
        prompts_of(rows, WORDS, max_length=2)
    with pytest.raises(ValueError, match="max_length is 0"):
        prompts_of(rows, WORDS, max_length=0)


@pytest.mark.parametrize("taken", ["prompts", "completions"])
def test_a_column_by_a_name_that_is_taken(taken):
    with pytest.raises(
        ValueError, match=f"data has a column '{taken}', and reward functions are given something"
    ):
        prompts_of([{"prompt": "the", taken: 1}], WORDS)


def test_a_tokenizer_that_makes_ids_of_no_word():
    class Odd(PieceTokenizer):
        def cut(self, text):
            return [self.vocab_size, *super().cut(text)]

    with pytest.raises(ValueError, match=r"tokenizer made ids from .*; 0 to \d+ are wanted, its vocabulary"):
        prompts_of([STANDARD["prompt"]], Odd())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            b'{"prompt": "the"}\n\n{"prompt": the}\n',
            "x.jsonl, line 3 is no JSON (Expecting value at column 12)",
        ),
        (b'{"prompt": "the"}\n{"prompt": "sky"\n', "x.jsonl, line 2 is no JSON (Expecting ',' delimiter"),
        (b'{"prompt": "the"}\n["sky"]\n', "x.jsonl, line 2 is ['sky']; a dict of columns is wanted"),
        (b'{"prompt": "the"}\n3\n', "x.jsonl, line 2 is 3; a dict"),
        (b"", "x.jsonl is empty; at least one record is wanted"),
        (b"\n \n", "x.jsonl is empty; at least one record is wanted"),
        (b"[]", "x.jsonl is empty; at least one record is wanted"),
        (b'[{"prompt": "the"},\n {"prompt": }]', "x.jsonl, line 2 is no JSON (Expecting value at column 13)"),
        (b'\n\n[{"prompt": "the"},\n {"prompt": }]', "x.jsonl, line 4 is no JSON (Expecting value"),
        (b'\n[{"prompt": "the"}, 3]', "x.jsonl[1] is 3; a dict of columns is wanted"),
        (b'{"prompt": "the"}\n{"prompt": ""}\n', "x.jsonl, line 2: prompt is '', which is empty"),
        (b'{"prompt": "the"}\n\n{"prompt": "foxes"}\n', "x.jsonl, line 3: text holds the word 'foxes'"),
        (b'{"prompt": "the"}\n\xff\xfe', "x.jsonl is no text in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, content, sentence):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    for given in (path, str(path)):
        with pytest.raises((ValueError, TypeError), match=re.escape(sentence)) as caught:
            prompts_of(given, WORDS)
        assert str(caught.value).startswith(str(path))


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"where there is no file; .* load_from_disk gives can be handed over"
    ):
        prompts_of(tmp_path, WORDS)


# ---------------------------------------------------------------------------------------------------- size


def test_very_many_records_cost_no_more_apiece():
    """No step may look at all records for each of them: it would be seen in the calls that are made."""
    found = []
    for n in (200, 2000):
        rows = [GOOD[pairs_of] | {"label": 1, "x": i} for i in range(n)]
        events = 0

        def count(*_):
            nonlocal events
            events += 1

        sys.setprofile(count)
        try:
            prompts_of(rows, WORDS)
            examples_of([{"text": "the sky is blue"}] * n, WORDS)
            pairs_of(rows, WORDS)
            labelled_of(rows, WORDS)
            digest_of(rows)
        finally:
            sys.setprofile(None)
        found.append(events)
    assert found[1] < 11 * found[0]


def test_what_is_read_as_it_comes_or_lies_in_another_kind_of_file_is_told_what_to_do(tmp_path):
    datasets = pytest.importorskip("datasets")
    pandas = pytest.importorskip("pandas")
    rows = [{"prompt": "the sky", "completion": "is blue ."}] * 3
    table = datasets.Dataset.from_list(rows)
    with pytest.raises(TypeError, match=r"a IterableDataset, .* as in list\(data.take\(10_000\)\)"):
        examples_of(table.to_iterable_dataset(), WORDS)
    assert len(examples_of(list(table.to_iterable_dataset().take(2)), WORDS)) == 2
    frame = pandas.DataFrame(rows)
    with pytest.raises(TypeError, match=r"a DataFrame; wanted: its records, data.to_dict\('records'\)"):
        examples_of(frame, WORDS)
    assert len(examples_of(frame.to_dict("records"), WORDS)) == 3
    for name, reader in (("x.parquet", "from_parquet"), ("x.csv", "from_csv"), ("x.ARROW", "from_file")):
        (tmp_path / name).write_bytes(b"PAR1")
        with pytest.raises(ValueError, match=rf"x\..*, and a JSONL file is wanted; .*Dataset\.{reader} "):
            examples_of(tmp_path / name, WORDS)
    table.save_to_disk(tmp_path / "table")
    with pytest.raises(ValueError, match=r"a folder of datasets, .* what datasets\.load_from_disk reads"):
        examples_of(tmp_path / "table", WORDS)
    assert len(examples_of(datasets.load_from_disk(tmp_path / "table"), WORDS)) == 3


@pytest.mark.parametrize(
    ("third", "sentence"),
    [
        ({"prompt": "the"}, "line 3 has the column 'prompt', and no 'completion'"),
        ({"prompt": " ", "completion": "sky"}, "line 3: prompt is ' ', which is empty"),
        ({"prompt": "the", "completion": ""}, "line 3: completion is '', which is empty"),
        ({"prompt": ["the"], "completion": "sky"}, r"line 3: prompt\[0\] is 'the'; a message is wanted"),
        ({"prompt": "the", "completion": 7}, "line 3: completion is 7, of type int; a text is wanted"),
        ({"prompt": "the", "completion": "moon"}, "line 3: text holds the word 'moon'"),
        (["the", "sky"], "line 3.* is .*; a dict of columns is wanted"),
        (None, "line 3 is no JSON .* one JSON object a line is wanted"),
    ],
)
def test_the_third_line_of_a_file_is_named(tmp_path, third, sentence):
    lines = [json.dumps({"prompt": "the", "completion": "sky"})] * 4
    lines[2] = lines[2][:-5] if third is None else json.dumps(third)
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    with pytest.raises((ValueError, TypeError), match=sentence):
        examples_of(tmp_path / "x.jsonl", WORDS)


@pytest.mark.parametrize("side", ["prompt", "chosen", "rejected"])
def test_padding_is_no_text(side):
    pair = {"prompt": "what color is the sky ?", "chosen": "blue .", "rejected": "green ."}
    with pytest.raises(ValueError, match=rf"data\[1\]: {side} is padding only"):
        pairs_of([pair, {**pair, side: "<pad> <pad>"}], WORDS)


@pytest.mark.parametrize("at", [0, 1])
def test_a_pair_without_the_prompt_that_others_have(at):
    pair = {"prompt": "what color is the sky ?", "chosen": "blue .", "rejected": "green ."}
    pairs = [dict(pair) for _ in range(3)]
    pairs[at]["prompt"] = None
    for read in (pairs_of, labelled_of):
        with pytest.raises(ValueError, match=rf"data\[{at}\] has no 'prompt', and data\[{1 - at}\] has one"):
            read(pairs, WORDS)
