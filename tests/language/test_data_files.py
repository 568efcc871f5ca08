"""Records in lists, files and datasets, and errors that name the record."""

import gzip
import json
import re

import pytest
import torch
from data_cases import (
    CHAT,
    RECORDS,
    WORDS,
    PieceTokenizer,
    answered,
    asked,
    said,
)

from ppobook.language.data import examples_of, pairs_of, prompts_of
from ppobook.language.records import digest_of


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
    for source in (tuple(RECORDS), *files_of(tmp_path)):
        found = examples_of(source, WORDS)
        assert torch.equal(found.tokens, want.tokens)
        assert torch.equal(found.prompts, want.prompts)
        assert prompts_of(source, WORDS).columns == {"level": [1.5, 2.5, None]}
        assert digest_of(source) == digest_of(RECORDS)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    contents = {"zip.jsonl": gzip.compress(b"{}"), "wide.jsonl": "{}".encode("utf-16"), "cut.json": b"[{}, {"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name} must be JSON in UTF-8, got: "):
            prompts_of(tmp_path / name, WORDS)
    with pytest.raises(TypeError, match="data must be a list, not an iterator"):
        prompts_of(iter(RECORDS), WORDS)


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
