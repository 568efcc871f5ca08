"""Data that can't be used, and the error that names the record."""

import json
import re

import pytest
from data_cases import (
    CHAT,
    GOOD,
    READERS,
    RECORDS,
    SKY,
    STANDARD,
    WORDS,
    WORLD,
    PieceTokenizer,
    Table,
    said,
)

from ppobook.language import train
from ppobook.language.data import examples_of, labelled_of, pairs_of, prompts_of


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("data", "error", "sentence"),
    [
        ([], ValueError, "data must have at least one record, got none"),
        (
            None,
            TypeError,
            "data must be a World, a list of dicts, the path of a JSONL file or .*, got NoneType",
        ),
        (iter([{}]), TypeError, "data must be a World, .*, got list_iterator. Make a list of an iterator"),
        (3, TypeError, "data must be a World, .*, got int"),
        (
            {"prompt": ["the"], "label": [1]},
            TypeError,
            "data must be a list of dicts, one a record, got a dict of 'prompt' and 'label'",
        ),
        (
            {"train": Table(RECORDS)},
            TypeError,
            r"data must be one split, such as data\['train'\], got a dict",
        ),
        (["the sky"], TypeError, r"data\[0\] must be a dict of columns, got 'the sky'"),
        ([{"prompt": "the", 3: 4}], TypeError, r"data\[0\] must have strings as column names, got 3"),
        ("", ValueError, "data must be the path .*, got ''"),
        (
            "nowhere.jsonl",
            FileNotFoundError,
            "data must be a JSONL file, got 'nowhere.jsonl', where there is none",
        ),
        ([{"q": "the", "a": "sky"}], ValueError, r"data\[0\] must have '.*, got the columns 'q' and 'a'"),
        ([{"q": "the"}], ValueError, r"data\[0\] must have '.*, got the column 'q'"),
        ([{"q": "the", "a": None}], ValueError, r"got the column 'q' \(and None in 'a'\)"),
        ([{}], ValueError, r"data\[0\] must have '.*, got no column with a value"),
        ([{"prompt": None}], ValueError, r"data\[0\] must have '.*, got no column with a value"),
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
        (labelled_of, "'prompt', 'completion' and 'label', or 'chosen' and 'rejected'"),
    ],
)
def test_the_columns_of_each_format_are_named(read, columns):
    sentence = f"data[0] must have {columns}, got the columns 'a' and 'b'"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read([{"a": 1, "b": 2}], WORDS)
    if read is not prompts_of:
        with pytest.raises(TypeError, match=r"data must be records, such as .*, got World\(16 prompts"):
            read(WORLD, WORDS)


@pytest.mark.parametrize("read", READERS)
def test_a_record_without_a_column_that_others_have(read, tmp_path):
    whole = GOOD[read]
    last = [*whole][-1]
    rows = [whole, whole, {name: value for name, value in whole.items() if name != last} | {"x": 1}]
    with pytest.raises(
        ValueError, match=rf"data\[2\] must have .*, as data\[0\] has, got .* 'x' without '{last}'"
    ):
        read(rows, WORDS)
    with pytest.raises(ValueError, match=rf"data\[1\] must have .*, got .* without '{last}'"):
        read([whole, whole | {last: None, "x": 1}], WORDS)
    path = tmp_path / "data.jsonl"
    path.write_text("\n\n".join(map(json.dumps, rows)))
    with pytest.raises(
        ValueError, match=rf"line 5 must have .*, as .*data.jsonl, line 1 has, got .* without '{last}'"
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
        ("", ValueError, "{column} must not be empty, got ''. Leave such records out"),
        (" \n", ValueError, "{column} must not be empty, got ' \\n'. Leave such records out"),
        ([], ValueError, "{column} must not be empty, got []. Leave such records out"),
        (said(" "), ValueError, "{column} must not be empty, got"),
        (3, TypeError, "{column} must be a text or a list of messages, got 3 (int)"),
        (
            {"role": "user"},
            TypeError,
            "{column} must be a text or a list of messages, got {{'role': 'user'}} (dict)",
        ),
        (["the sky"], TypeError, "{column}[0] must be a message"),
        ([{"content": "the"}], TypeError, "got {{'content': 'the'}}, without a role"),
        ([{"role": "user"}], TypeError, "got {{'role': 'user'}}, without a content"),
        ([*said("the"), {"role": "user", "content": 3}], TypeError, "{column}[1] must be a message"),
        ("the foxes", ValueError, "text must be of known words"),
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
        ValueError, match=r"data\[10\]: completion must not be empty, got '' \(and in 5 more\)"
    ):
        examples_of(rows, WORDS)


def test_a_conversation_wants_a_template():
    for read, name in ((prompts_of, "prompt"), (examples_of, "completion"), (pairs_of, "preference")):
        with pytest.raises(
            TypeError,
            match=r"data\[0\]: prompt must be a text for a tokenizer without chat template \(WordTokenizer\)",
        ):
            read([CHAT[name]], WORDS)
    with pytest.raises(TypeError, match="messages must be a text for a tokenizer without chat template"):
        examples_of([CHAT["messages"]], WORDS)


def test_what_a_template_refuses_is_refused_with_its_words():
    late = [*said(SKY), {"role": "system", "content": "Be kind."}]
    with pytest.raises(
        ValueError,
        match=r"data\[1\]: prompt must be accepted by the chat template, got RuntimeError: a system message",
    ):
        prompts_of([CHAT["prompt"], {"prompt": late}], PieceTokenizer())


def test_texts_and_conversations_do_not_mix():
    t = PieceTokenizer()
    for record, sentence in (
        (
            {"prompt": "The", "completion": said("sky")},
            "completion must be a text, as prompt is, got a conversation",
        ),
        (
            {"prompt": said("The"), "completion": "sky"},
            "completion must be a conversation, as prompt is, got a text",
        ),
    ):
        with pytest.raises(TypeError, match=r"data\[0\]: " + sentence):
            examples_of([record], t)
    with pytest.raises(
        TypeError, match=r"data\[0\]: rejected must be a text, as chosen is, got a conversation"
    ):
        pairs_of([{"chosen": "The", "rejected": said("sky")}], t)


def test_pairs_that_show_no_prompt():
    t = PieceTokenizer(begins=False)
    for pair, sentence in (
        (
            {"chosen": "It", "rejected": "The sky"},
            "chosen and rejected must begin alike if there is no 'prompt'",
        ),
        (
            {"chosen": "It is", "rejected": "It is"},
            "chosen and rejected must differ if there is no 'prompt'",
        ),
        ({"chosen": said("What", "It"), "rejected": said("It", "is")}, "must begin alike"),
        ({"chosen": said("What"), "rejected": said("What")}, "must differ"),
        ({"chosen": "It", "rejected": "It is"}, "must begin alike"),  # no token is left for a prompt
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
    with pytest.raises(ValueError, match=r"data\[0\]: completion must add a token to its prompt, got none"):
        examples_of([CHAT["completion"]], Forgetful())


@pytest.mark.parametrize("label", ["yes", 2, 1.0, [True]])
def test_a_label_is_true_or_false(label):
    rows = [GOOD[labelled_of], GOOD[labelled_of] | {"label": label}]
    with pytest.raises(TypeError, match=r"data\[1\]: label must be True or False, got"):
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
            "records must have at most max_length = 9 tokens, got more in 3 of 8. The longest, data[7], has "
            "12 (3 of its prompt, 9 of its completion). In training, max_length is the model's context"
        ),
    ):
        examples_of(rows, WORDS, max_length=9)
    pairs = [{"prompt": "the sky", "chosen": "is " * i, "rejected": "is " * (7 - i)} for i in range(1, 7)]
    assert len(pairs_of(pairs, WORDS, max_length=9)) == 6
    with pytest.raises(
        ValueError, match=r"at most max_length = 7 tokens, got more in 4 of 6. The longest, data\["
    ):
        pairs_of(pairs, WORDS, max_length=7)
    with pytest.raises(ValueError, match="got more in 6 of 6"):  # which has records in it of which both are
        pairs_of(pairs, WORDS, max_length=5)
    assert len(prompts_of(rows, WORDS, max_length=3)) == 8
    with pytest.raises(ValueError, match=r"got more in 8 of 8. .* data\[0\], has 3 \(all of its prompt\)"):
        prompts_of(rows, WORDS, max_length=2)
    with pytest.raises(ValueError, match="max_length must be an integer of at least 1, got 0"):
        prompts_of(rows, WORDS, max_length=0)


@pytest.mark.parametrize("taken", ["prompts", "completions"])
def test_a_column_by_a_name_that_is_taken(taken):
    with pytest.raises(
        ValueError, match=f"data must have no column '{taken}', an argument of reward functions"
    ):
        prompts_of([{"prompt": "the", taken: 1}], WORDS)


def test_a_tokenizer_that_makes_ids_of_no_word():
    class Odd(PieceTokenizer):
        def cut(self, text):
            return [self.vocab_size, *super().cut(text)]

    with pytest.raises(ValueError, match=r"the tokenizer's ids must be in \[0, \d+\], got ids from"):
        prompts_of([STANDARD["prompt"]], Odd())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            b'{"prompt": "the"}\n\n{"prompt": the}\n',
            ", line 3 must be a JSON object, got Expecting value at column 12",
        ),
        (
            b'{"prompt": "the"}\n{"prompt": "sky"\n',
            ", line 2 must be a JSON object, got Expecting ',' delimiter",
        ),
        (b'{"prompt": "the"}\n["sky"]\n', ", line 2 must be a dict of columns, got ['sky']"),
        (b'{"prompt": "the"}\n3\n', ", line 2 must be a dict of columns, got 3"),
        (b"", " must have at least one record"),
        (b"\n \n", " must have at least one record"),
        (b"[]", " must have at least one record"),
        (b'[{"prompt": "the"},\n {"prompt": }]', ", line 2 must be part of a JSON list"),
        (
            b'\n\n[{"prompt": "the"},\n {"prompt": }]',
            ", line 4 must be part of a JSON list of objects, got Expecting",
        ),
        (b'\n[{"prompt": "the"}, 3]', "[1] must be a dict of columns, got 3"),
        (
            b'{"prompt": "the"}\n\n{"prompt": "a", "prompt": "b"}',
            ", line 3 must have each key once, got 'prompt' twice",
        ),
        (
            b'\n[{"prompt": [{"a": 1}]},\n\n {"n": 0, "prompt":\n[{"role": 1, "role": 2}]}]',
            ", line 4 must have each key once, got 'role' twice",
        ),
        (b'{"prompt": "the"}\n{"prompt": ""}\n', ", line 2: prompt must not be empty, got ''"),
        (b'{"prompt": "the"}\n\n{"prompt": "foxes"}\n', ", line 3: text must be of known words"),
        (b'{"prompt": "the"}\n\xff\xfe', ", line 2 must be UTF-8, got invalid start byte"),
        (b'{"prompt": "na\xe9"}\n', ", line 1 must be UTF-8, got invalid continuation byte"),
        (b'{"prompt": "the"}\n' * 2000 + b"\xe9", ", line 2001 must be UTF-8, got unexpected end of data"),
        (b'{"prompt": "the"}\n{"prompt": "t', ", line 2 must be a JSON object, got Unterminated string"),
        (
            b'{"prompt": "the"}\n{"x": ' + b"1" * 5000 + b"}",
            ", line 2 must be a JSON object, got an integer of more than 4,300 digits at column 7",
        ),
        (
            b'{"x": ' + b"[" * 100_000,
            ", line 1 must be a JSON object, got brackets that are nested too deeply",
        ),
        (b"[" * 100_000, ", line 1 must be part of a JSON list of objects, got brackets that are nested"),
        (b'{"prompt": "a\n', ", line 1 must be a JSON object, got Unterminated string starting at column 12"),
        (b'{"prompt":\n', ", line 1 must be a JSON object, got Expecting value at column 11"),
        (
            b'[{"prompt":\n\n',
            ", line 1 must be part of a JSON list of objects, got Expecting value at column",
        ),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, content, sentence):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    for given in (path, str(path)):
        with pytest.raises((ValueError, TypeError), match=re.escape(f"x.jsonl{sentence}")) as caught:
            prompts_of(given, WORDS)
        assert str(caught.value).startswith(str(path))


def test_a_run_is_no_data(tmp_path):
    (tmp_path / "base" / "checkpoint-000004").mkdir(parents=True)
    said = re.escape(f"data must be a JSONL file, got {str(tmp_path / 'base')!r}, a run: pass it as model")
    with pytest.raises(ValueError, match=said):
        train("grpo", [{"prompt": "the"}], str(tmp_path / "base"))


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ValueError, match=r"a folder\. .*load_from_disk returns can be passed"):
        prompts_of(tmp_path, WORDS)


def test_streams_tables_and_other_files_are_refused_with_a_hint(tmp_path):
    datasets = pytest.importorskip("datasets")
    pandas = pytest.importorskip("pandas")
    rows = [{"prompt": "the sky", "completion": "is blue ."}] * 3
    table = datasets.Dataset.from_list(rows)
    with pytest.raises(TypeError, match=r"such as list\(data.take\(10_000\)\), .* got a IterableDataset"):
        examples_of(table.to_iterable_dataset(), WORDS)
    assert len(examples_of(list(table.to_iterable_dataset().take(2)), WORDS)) == 2
    frame = pandas.DataFrame(rows)
    with pytest.raises(TypeError, match=r"data must be records, data.to_dict\('records'\), got a DataFrame"):
        examples_of(frame, WORDS)
    assert len(examples_of(frame.to_dict("records"), WORDS)) == 3
    for name, reader in (("x.parquet", "from_parquet"), ("x.csv", "from_csv"), ("x.ARROW", "from_file")):
        (tmp_path / name).write_bytes(b"PAR1")
        with pytest.raises(ValueError, match=rf"a JSONL file, got .*x\..*Dataset\.{reader} "):
            examples_of(tmp_path / name, WORDS)
    (tmp_path / "x.jsonl.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(ValueError, match=r"x\.jsonl\.gz', a compressed one: unpack it"):
        examples_of(tmp_path / "x.jsonl.gz", WORDS)
    table.save_to_disk(tmp_path / "table")
    with pytest.raises(ValueError, match=r"a folder of datasets. Pass what datasets\.load_from_disk reads"):
        examples_of(tmp_path / "table", WORDS)
    assert len(examples_of(datasets.load_from_disk(tmp_path / "table"), WORDS)) == 3


@pytest.mark.parametrize(
    ("third", "sentence"),
    [
        ({"prompt": "the"}, "line 3 must have .*, got the column 'prompt' without 'completion'"),
        ({"prompt": " ", "completion": "sky"}, "line 3: prompt must not be empty, got ' '"),
        ({"prompt": "the", "completion": ""}, "line 3: completion must not be empty, got ''"),
        ({"prompt": ["the"], "completion": "sky"}, r"line 3: prompt\[0\] must be a message .*, got 'the'"),
        ({"prompt": "the", "completion": 7}, r"line 3: completion must be a text .*, got 7 \(int\)"),
        ({"prompt": "the", "completion": "moon"}, "line 3: text must be of known words.*'moon'"),
        (["the", "sky"], "line 3 must be a dict of columns, got"),
        (None, "line 3 must be a JSON object, got"),
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
    with pytest.raises(ValueError, match=rf"data\[1\]: {side} must have a token, got padding only"):
        pairs_of([pair, {**pair, side: "<pad> <pad>"}], WORDS)


@pytest.mark.parametrize("at", [0, 1])
def test_a_pair_without_the_prompt_that_others_have(at):
    pair = {"prompt": "what color is the sky ?", "chosen": "blue .", "rejected": "green ."}
    pairs = [dict(pair) for _ in range(3)]
    pairs[at]["prompt"] = None
    for read in (pairs_of, labelled_of):
        with pytest.raises(
            ValueError, match=rf"or none, got one in data\[{1 - at}\] and none in data\[{at}\]"
        ):
            read(pairs, WORDS)
