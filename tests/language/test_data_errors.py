"""Data that can't be used, and the error that names the record."""

import json
import re

import pytest
from data_cases import CHAT, GOOD, READERS, SKY, WORDS, PieceTokenizer, said

from ppobook.language.data import examples_of, labelled_of, pairs_of, prompts_of


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("data", "error", "sentence"),
    [
        ([], ValueError, "data must have at least one record, got none"),
        (["the sky"], TypeError, r"data\[0\] must be a dict of columns, got 'the sky'"),
        ("nowhere.jsonl", FileNotFoundError, "nowhere.jsonl"),
        ([{"q": "the", "a": "sky"}], ValueError, r"data\[0\] must have '.*, got {'a': 'sky', 'q': 'the'}"),
    ],
)
def test_bad_data(read, data, error, sentence):
    with pytest.raises(error, match=sentence):
        read(data, WORDS)


@pytest.mark.parametrize(
    ("read", "columns"),
    [
        (prompts_of, "'prompt', or 'chosen' and 'rejected'"),
        (examples_of, "'prompt' and 'completion', or 'messages', or 'conversations', or 'text'"),
        (pairs_of, "'chosen' and 'rejected'"),
        (labelled_of, "'prompt' and 'completion' and 'label', or 'chosen' and 'rejected'"),
    ],
)
def test_the_columns_of_each_format_are_named(read, columns):
    with pytest.raises(ValueError, match=re.escape(f"data[0] must have {columns}, got")):
        read([{"a": 1, "b": 2}], WORDS)


@pytest.mark.parametrize("read", READERS)
def test_a_record_without_a_column_that_others_have(read, tmp_path):
    whole = GOOD[read]
    rows = [whole, whole, whole | {[*whole][-1]: None}]
    with pytest.raises(ValueError, match=r"data\[2\] must have .*, got"):
        read(rows, WORDS)
    path = tmp_path / "data.jsonl"
    path.write_text("\n\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match=r"data.jsonl, line 5 must have .*, got"):
        read(path, WORDS)


@pytest.mark.parametrize(
    ("read", "column"), [(prompts_of, "prompt"), (examples_of, "completion"), (pairs_of, "rejected")]
)
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (" \n", "must be a text or a list of messages, and not empty, got ' \\n'"),
        ([], "must be a text or a list of messages, and not empty, got []"),
        (3, "must be a text or a list of messages, and not empty, got 3"),
        ([{"content": "the"}], "a message must be "),
        ("the foxes", "text must be of known words"),
        (said("the"), "records must have texts for a tokenizer without chat template"),
    ],
)
def test_a_value_that_is_no_text(read, column, value, sentence):
    rows = [GOOD[read], GOOD[read] | {column: value}]
    if column != "prompt" and isinstance(value, list) and "role" in (value or [{}])[0]:
        rows[1]["prompt"] = value
    with pytest.raises((ValueError, TypeError), match=re.escape("data[1]: ")) as caught:
        read(rows, WORDS)
    assert sentence in str(caught.value)


def test_an_error_of_a_template_names_the_record():
    late = [*said(SKY), {"role": "system", "content": "Be kind."}]
    with pytest.raises(ValueError, match=r"data\[1\]: a system message"):
        prompts_of([CHAT["prompt"], {"prompt": late}], PieceTokenizer())


@pytest.mark.parametrize(
    "pair",
    [
        {"chosen": "It", "rejected": "The sky"},
        {"chosen": "It is", "rejected": "It is"},
        {"chosen": said("What", "It"), "rejected": said("It", "is")},
        {"chosen": "It", "rejected": "It is"},  # no token is left for a prompt
    ],
)
def test_pairs_that_show_no_prompt(pair):
    t = PieceTokenizer(begins=False)
    with pytest.raises(ValueError, match=r"data\[0\]: chosen and rejected must have a common beginning"):
        pairs_of([pair], t)


def test_a_label_is_true_or_false():
    rows = [GOOD[labelled_of] | {"label": label} for label in (1, 0, True)]
    assert labelled_of(rows, WORDS)[1].tolist() == [True, False, True]
    with pytest.raises(ValueError, match=r"data\[1\]: label must be True or False, got 'yes'"):
        labelled_of([rows[0], rows[0] | {"label": "yes"}], WORDS)


def test_the_longest_record_is_named():
    rows = [{"prompt": "the sky is", "completion": "blue " * i} for i in range(1, 9)]
    assert examples_of(rows, WORDS, max_length=12).tokens.shape == (8, 9)
    with pytest.raises(ValueError, match=r"at most max_length = 9 tokens, got 12 in data\[7\]"):
        examples_of(rows, WORDS, max_length=9)
    pairs = [{"prompt": "the sky", "chosen": "is", "rejected": "is " * i} for i in range(1, 7)]
    with pytest.raises(ValueError, match=r"at most max_length = 7 tokens, got 9 in data\[5\]"):
        pairs_of(pairs, WORDS, max_length=7)
    with pytest.raises(ValueError, match=r"at most max_length = 2 tokens, got 3 in data\[0\]"):
        prompts_of(rows, WORDS, max_length=2)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"prompt": "the"}\n\n{"prompt": the}\n', ", line 3 must be a JSON object, got: Expecting value"),
        ('{"prompt": "the"}\n["sky"]\n', ", line 2 must be a dict of columns, got ['sky']"),
        ("\n \n", " must have at least one record"),
        ('{"prompt": "the"}\n{"prompt": ""}\n', ", line 2: prompt must be a text"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, content, sentence):
    path = tmp_path / "x.jsonl"
    path.write_text(content)
    with pytest.raises((ValueError, TypeError), match=re.escape(f"x.jsonl{sentence}")):
        prompts_of(path, WORDS)
