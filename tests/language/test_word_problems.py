"""Problems whose solutions come out, a reward that reads the last number, and records of GSM8K's form."""

from fractions import Fraction

import pytest

from ppobook.language.word_problems import answer_is_right, final_number, records_of_questions, word_problems


def test_solutions_come_to_their_answers():
    problems = word_problems(300, seed=1, steps=3)
    assert problems == word_problems(300, seed=1, steps=3) != word_problems(300, seed=2, steps=3)
    assert len({row["prompt"] for row in problems}) == 300
    texts = [row["completion"] for row in problems]
    assert answer_is_right([], texts, [row["answer"] for row in problems]) == [1.0] * 300
    for row in problems:
        *worked, end = row["completion"].strip().split(". ")
        assert end == f"#### {row['answer']}"
        assert 1 <= len(worked) <= 3
        for line in worked:
            left, right = line.split(" = ")
            a, sign, b = left.split()
            assert int(a) + (1 if sign == "+" else -1) * int(b) == int(right) >= 0
        said = [int(word) for word in row["prompt"].split() if word.isdigit()]
        assert len(said) == len(worked) + 1


def test_slips_are_in_solutions_and_not_in_answers():
    problems = word_problems(400, steps=1, slips=0.3)
    texts, answers = [row["completion"] for row in problems], [row["answer"] for row in problems]
    assert sum(answer_is_right([], texts, answers)) / 400 == pytest.approx(0.7, abs=0.08)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5 + 3 = 8. #### 8", 8),
        ("#### 1,250.", 1250),
        ("It is $18.00", 18),
        ("5 - 3", 3),
        ("x = -3", -3),
        ("#### 0.5", Fraction(1, 2)),
        ("1,2", 2),
        ("8 #### none", None),
        ("", None),
        ("9" * 5000, None),
    ],
)
def test_final_number(text, number):
    assert final_number(text) == number


def test_a_list_of_numbers_is_not_right():
    assert answer_is_right([], ["1 2 3 4 5", "#### 3", "#### 3.0", "3 #### 4"], [3] * 4) == [0, 1, 1, 0]


def test_records_of_gsm8k():
    rows = [{"question": " How many? ", "answer": "He has 2*3=<<2*3=6>>6 eggs.\n#### 6"}]
    (row,) = records_of_questions(rows)
    assert row["prompt"] == "Question: How many?\nAnswer:"
    assert row["completion"] == " He has 2*3=6 eggs.\n#### 6"
    assert row["answer"] == 6
    (row,) = records_of_questions(rows, chat=True)
    assert row["completion"][0]["role"] == "assistant"
