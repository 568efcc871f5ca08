"""The sums: a pupil whose knowledge falls with the sum, two rules, and sums for a chat model."""

import re

import numpy as np
import pytest

from ppobook.language import Decoder, prompts_of, train
from ppobook.language.sums import (
    MAX_NEW_TOKENS,
    Sums,
    answer_is_right,
    chat_sums,
    last_is_right,
    last_number,
    one_is_right,
)


def test_prompts_have_their_sums():
    sums = Sums(3)
    assert len(sums.prompts) == 16
    for row in sums.prompts:
        a, plus, b, equals = row["prompt"].split()
        assert (plus, equals) == ("+", "=")
        assert int(a) + int(b) == row["answer"]
    assert prompts_of(sums.prompts, sums.tokenizer).tokens.shape == (16, 4)


def test_knowledge_falls_with_the_sum():
    sums = Sums()
    known = [sums.knows(answer) for answer in range(19)]
    assert known == sorted(known, reverse=True)
    assert known[9] == pytest.approx(0.5)
    assert known[0] > 0.99
    assert known[18] < 0.01


def test_the_workbook_is_the_pupils():
    sums = Sums()
    records = sums.workbook(4000, seed=1)
    assert records == sums.workbook(4000, seed=1) != sums.workbook(4000, seed=2)
    answers = {row["prompt"]: row["answer"] for row in sums.prompts}
    given = [(answers[row["prompt"]], row["completion"].split()) for row in records]
    for _, words in given:
        assert set(words[1::2]) <= {"no"}
        assert len(words) % 2 == 1
        assert len(words) < MAX_NEW_TOKENS  # an end of sequence follows
        assert set(sums.tokenizer.encode(" ".join(words))) <= set(range(sums.tokenizer.vocab_size))
    for low, high in ((0, 6), (8, 10), (13, 18)):
        some = [(answer, words) for answer, words in given if low <= answer <= high]
        right = np.mean([int(words[0]) == answer for answer, words in some])
        expected = np.mean([sums.knows(answer) for answer, _ in some])
        assert right == pytest.approx(expected, abs=0.06)
    wrong = [(answer, int(words[0])) for answer, words in given if answer >= 10 and int(words[0]) != answer]
    assert np.mean([attempt == answer - 10 for answer, attempt in wrong]) == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize(
    ("text", "last", "one"),
    [
        ("17", 1, 1),
        ("16 no 17", 1, 1),
        ("17 no 16", 0, 1),
        ("17 no", 0, 1),
        ("15 no 16 no 18", 0, 0),
        ("7", 0, 0),
        ("", 0, 0),
    ],
)
def test_the_two_rules(text, last, one):
    given = {"prompts": ["9 + 8 ="], "completions": [text], "answer": [17]}
    assert last_is_right(**given) == [last]
    assert one_is_right(**given) == [one]


def test_a_policy_is_trained_on_them():
    sums = Sums(2)
    decoder = sums.decoder(seed=3, layers=1, width=16, heads=2)
    assert isinstance(decoder, Decoder)
    few = {"updates": 2, "batch_size": 16, "progress": False}
    base = train("sft", decoder, sums.workbook(50), tokenizer=sums.tokenizer, eval_examples=0, **few)
    run = train("grpo", base, sums.prompts, reward=last_is_right, max_new_tokens=MAX_NEW_TOKENS, **few)
    assert run.history["reward"].between(0, 1).all()


@pytest.mark.parametrize(("digits", "low", "high"), [(1, 0, 9), (2, 10, 99)])
def test_no_sum_that_is_held_out_is_trained_on(digits, low, high):
    training, held_out = chat_sums(digits, seed=3, held_out=20)
    assert chat_sums(digits, seed=3) == (training, held_out) != chat_sums(digits, seed=4)
    read = [[], []]
    for numbers, rows in zip(read, (training, held_out), strict=True):
        for row in rows:
            (asked,) = row["prompt"]
            a, b = map(int, re.fullmatch(r"What is (\d+) \+ (\d+)\?", asked["content"]).groups())
            assert row["answer"] == a + b
            numbers.append((a, b))
    assert len(held_out) == 20
    others = {*read[0]}
    assert len(others) == len(read[0])
    assert not others & {pair for a, b in read[1] for pair in ((a, b), (b, a))}
    both = others | {pair for a, b in read[1] for pair in ((a, b), (b, a))}
    assert both == {(a, b) for a in range(low, high + 1) for b in range(low, high + 1)}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7 + 5 = 12.", 12),
        ("That is 1,250.", 1250),
        ("It is $18.00", 18),
        ("5 - 3", 3),
        ("x = -3", -3),
        ("1,2", 2),
        ("twelve", None),
        ("", None),
    ],
)
def test_the_last_number(text, number):
    assert last_number(text) == number
    assert answer_is_right([], [text], [12]) == [float(number == 12)]
    assert answer_is_right([], [text], ["12"]) == [float(number == 12)]
