"""Records as tokens: the formats, where a completion begins and ends, prompts, batches."""

import warnings

import pytest
import torch
from data_cases import (
    CHAT,
    SKY,
    STANDARD,
    WORDS,
    PieceTokenizer,
    answered,
    asked,
    said,
)

from ppobook.language.data import Batches, examples_of, labelled_of, pairs_of, prompts_of
from ppobook.run.machine import stream

# --- the formats, each as TRL's page shows it ---------------------------------------------------------------


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


def test_conversations():
    """The template's own end is the end of the sequence, and the new line after it is not learned."""
    t = PieceTokenizer(ends="<|end|>")
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


def test_the_columns_for_the_chat_template_are_passed_to_it():
    t = PieceTokenizer(ends="<|end|>")
    tools = prompts_of([{**CHAT["prompt"], "tools": ["It is"]}], t)
    assert t.decode(tools.tokens[0]) == f"<|tool|>It is<|end|>\n<|user|>{SKY}<|end|>\n<|assistant|>"
    system = pairs_of([{**CHAT["preference"], "chat_template_kwargs": {"system": "It is"}}], t)
    assert asked(system.rejected, t) == [f"<|system|>It is<|end|>\n<|user|>{SKY}<|end|>\n<|assistant|>"]
    assert answered(system.rejected, t) == ["It is green.<|end|>"]


def test_an_end_that_is_there_is_not_written_twice():
    t = PieceTokenizer()
    t.end_tokens = [t.eos, t.ids["<|end|>"]]  # as of models with an end of turn
    assert answered(examples_of([CHAT["completion"]], t), t) == ["It is blue.<|end|>"]
    records = [
        {"prompt": "The sky", "completion": text} for text in (" is", " is</s>", " is</s>\n ", " </s> is")
    ]
    assert answered(examples_of(records, t), t) == [" is</s>", " is</s>", " is</s>", " </s> is</s>"]
    assert answered(examples_of([{"text": "The sky</s>"}], t), t) == ["The sky</s>"]
    examples = examples_of([{"prompt": "the sky", "completion": "is blue <eos>"}], WORDS)
    assert answered(examples, WORDS) == ["is blue <eos>"]


def test_of_several_turns_all_are_learned_and_the_last_end_is_the_end():
    t = PieceTokenizer(ends="<|end|>")
    turns = said("What", "It", "What color", "blue")
    want = "What<|end|>\n<|assistant|>It<|end|>\n<|user|>What color<|end|>\n<|assistant|>blue<|end|>"
    assert answered(examples_of([{"messages": turns}], t), t) == [want]
    before, last = turns[:3], turns[3:]
    examples = examples_of([{"prompt": before, "completion": last}], t)
    assert asked(examples, t) == [
        "<|user|>What<|end|>\n<|assistant|>It<|end|>\n<|user|>What color<|end|>\n<|assistant|>"
    ]
    assert answered(examples, t) == ["blue<|end|>"]


def test_words_have_a_space_between_prompt_and_completion_whatever_the_texts_say():
    records = [
        {"prompt": "the sky is", "completion": "blue ."},
        {"prompt": "the sky is ", "completion": " blue ."},
        {"prompt": " what\tcolor is\nthe sky ?", "completion": "green"},
    ]
    examples = examples_of(records, WORDS)
    assert asked(examples, WORDS) == ["the sky is", "the sky is", "what color is the sky ?"]
    assert answered(examples, WORDS) == ["blue . <eos>", "blue . <eos>", "green <eos>"]


# --- where a completion begins ------------------------------------------------------------------------------


def test_what_is_read_has_the_tokens_of_the_whole_text():
    """Prompt and completion are tokenized as one text, wherever they meet."""
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
                    assert "prompt must keep its first token" in str(error)  # noqa: PT017
                    continue
            assert [*e.prompts[0].tolist(), *e.tokens[0].tolist()] == [*t.encode(text), t.eos]
            alone = t.encode(text[:i])
            assert e.prompts[0].tolist() == alone[: e.prompts.shape[1]]  # as it will be read when it is asked


def test_a_prompt_that_is_tokenized_differently_alone_is_warned_of():
    t = PieceTokenizer()
    records = [
        {"prompt": "The sky is", "completion": " blue"},
        {"prompt": "The sky is ", "completion": "blue"},
        {"prompt": "The sky is blu", "completion": "e"},
    ]
    with pytest.warns(
        UserWarning, match="in 2 of 3 records of data the prompt has other tokens alone"
    ) as warned:
        examples = examples_of(records, t)
    assert warned[0].filename == __file__
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
    # A prompt that both repeat stands there once.
    assert asked(pairs_of([pair | {"prompt": said("What")}], t).chosen, t) == asked(pairs.chosen, t)
    # One that stops where the other goes on: the last message is left to both.
    pairs = pairs_of([{"chosen": said("What", "It"), "rejected": said("What", "It", "of")}], t)
    assert asked(pairs.chosen, t) == ["<|user|>What<|end|>\n<|assistant|>"]
    assert answered(pairs.chosen, t) == ["It<|end|>"]
    assert answered(pairs.rejected, t) == ["It<|end|>\n<|user|>of<|end|>"]


def test_what_a_table_fills_with_none_is_no_part_of_a_message():
    t = PieceTokenizer()
    messages = [m | {"tool_calls": None} for m in said(SKY, "It is blue.")]
    examples_of([{"messages": messages, "prompt": None}], t)
    assert t.calls[0]["messages"] == said(SKY, "It is blue.")
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "look"}}]}
    with pytest.raises(ValueError, match=r"data\[0\]: 'content'"):
        examples_of([{"messages": [*said(SKY), call]}], t)
    assert t.calls[1]["messages"][1] == {"role": "assistant", "tool_calls": call["tool_calls"]}


def test_parts_of_text_are_joined_and_others_refused():
    """In prompts, completions, pairs and conversations, as in the form of OpenAI's messages."""

    def parts(messages, kind="text"):
        halves = [(m, m["content"][:2], m["content"][2:]) for m in messages]
        return [m | {"content": [{"type": kind, kind: half} for half in two]} for m, *two in halves]

    t = PieceTokenizer(ends="<|end|>")
    record = {"messages": said(SKY, "It is blue.")}
    a, b = examples_of([record], t), examples_of([{"messages": parts(record["messages"])}], t)
    assert torch.equal(a.tokens, b.tokens)
    for reader, name in [(prompts_of, "prompt"), (examples_of, "completion"), (pairs_of, "preference")]:
        record = CHAT[name]
        changed = {key: parts(x) if isinstance(x, list) else x for key, x in record.items()}
        assert str(reader([changed], t)) == str(reader([record], t))
        changed = {key: parts(x, "image") if isinstance(x, list) else x for key, x in record.items()}
        with pytest.raises(ValueError, match=r"data\[0\]: content must be a text or parts of text, got \["):
            reader([changed], t)


# --- prompts ------------------------------------------------------------------------------------------------


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


# --- batches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "size"), [(10, 4), (7, 7), (5, 12)])
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
