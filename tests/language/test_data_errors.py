"""Data that can't be used, and the error that names the record."""

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
