"""Data that can't be used, and the error that names the record."""

import json
import re

import pytest
from data_cases import WORDS, said

from ppobook.language.data import examples_of, pairs_of, prompts_of


@pytest.mark.parametrize(
    ("data", "error", "sentence"),
    [
        ([], ValueError, "data must have at least one record, got none"),
        (["the sky"], TypeError, r"data\[0\] must be a dict of columns, got 'the sky'"),
        ("nowhere.jsonl", FileNotFoundError, "nowhere.jsonl"),
        ([{"q": "the", "a": "sky"}], ValueError, r"data\[0\] must have '.*, got {'a': 'sky', 'q': 'the'}"),
    ],
)
def test_bad_data(data, error, sentence):
    with pytest.raises(error, match=sentence):
        prompts_of(data, WORDS)


@pytest.mark.parametrize(
    ("pair", "got"),
    [
        ({"chosen": "sky", "rejected": "sky is"}, "one that is the beginning of the other"),
        ({"chosen": "the sky", "rejected": "the sky"}, "the same twice"),
        ({"prompt": "the", "chosen": said("sky"), "rejected": said("sea")}, "two that begin differently"),
    ],
)
def test_a_pair_without_a_prompt_of_its_kind(pair, got):
    with pytest.raises(
        ValueError, match=rf"data\[0\]: .* must begin alike and .*prompt of their kind.*{got}"
    ):
        pairs_of([pair], WORDS)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (
            {"messages": [{"from": "human", "value": "sky"}]},
            "a message must have a 'role' and a 'content', got",
        ),
        ({"messages": ["sky", "is"]}, "a message must have a 'role' and a 'content', got 'sky'"),
        ({"messages": [{"role": "user", "content": 3}]}, "content must be a text or parts of text, got 3"),
        ({"prompt": said("sky"), "completion": "is"}, "must be all texts or all lists of messages, got both"),
    ],
)
def test_a_conversation_that_a_template_would_write_in_part(record, sentence):
    with pytest.raises(ValueError, match=rf"data\[0\]: .*{sentence}"):
        examples_of([record], WORDS)


def test_a_record_without_a_column_that_others_have(tmp_path):
    whole = {"prompt": "the sky", "chosen": "is blue", "rejected": "is green"}
    path = tmp_path / "data.jsonl"
    path.write_text("\n\n".join(map(json.dumps, [whole, whole, whole | {"rejected": None}])))
    with pytest.raises(ValueError, match=r"data.jsonl, line 5 must have .*, got"):
        pairs_of(path, WORDS)


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
