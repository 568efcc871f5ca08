"""Grade-school sums in words: problems made here, and a reward that reads the last number of a completion.

    Question: Ana has 12 apples. Ana buys 5 more apples. Ana gives 3 apples to Ben. How many apples …?
    Answer: 12 + 5 = 17. 17 - 3 = 14. #### 14

The form is that of GSM8K, whose solutions end in ``#### 14`` too, so its records can stand in the place of
these: `records_of_questions`.

    problems = word_problems(500, seed=0)
    base = train("sft", "my-model", problems, lora={"r": 8, "alpha": 16})
    tuned = train("grpo", base, problems, reward=answer_is_right, max_new_tokens=64)

Cobbe et al. 2021, "Training verifiers to solve math word problems" (GSM8K).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from ppobook import validation

_NAMES: Final = ("Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gita", "Hugo")
_THINGS: Final = ("apples", "books", "cards", "coins", "eggs", "pens", "shells", "stamps")

# A number: 1,000 or 1000, with a fraction or without. Its sign is no minus between two numbers.
_NUMBER: Final = re.compile(r"(?:(?<![\d.)])-)?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?")
_LONGEST: Final = 40
_MARK: Final = "####"


def word_problems(
    n: int, seed: int = 0, *, steps: int = 2, largest: int = 20, slips: float = 0.0, chat: bool = False
) -> list[dict[str, Any]]:
    """n problems, no two of them alike.

    Parameters
    ----------
    n : int
    seed : int
    steps : int
        The most sums in a problem; each number of them is as likely.
    largest : int of at least 2
        The largest number in a problem. Intermediate results may be larger, and none is negative.
    slips : float
        The probability that a result in a solution is off by one or by ten. Later sums go on from it, and
        "answer" stays the right one. For a policy that still has something to learn.
    chat : bool
        Make conversations, for a tokenizer with a chat template.

    Returns
    -------
    list of dict
        "prompt", "completion", a worked solution, and "answer", an integer.

    Raises
    ------
    ValueError
        A number that is out of its range, or more problems than there are.
    """
    n, steps = validation.count("n", n), validation.count("steps", steps)
    largest = validation.count("largest", largest, low=2)
    slips = validation.number("slips", slips, low=0, high=1)
    rng = np.random.default_rng(validation.count("seed", seed, low=0))
    seen: set[str] = set()
    records: list[dict[str, Any]] = []
    in_vain = 0
    while len(records) < n:
        question, solution, answer = _problem(rng, int(rng.integers(1, steps + 1)), largest, slips)
        in_vain = in_vain + 1 if question in seen else 0
        if in_vain > 1000:
            raise ValueError(
                f"n must be at most about {len(records)} with steps={steps} and largest={largest}, got {n}"
            )
        if not in_vain:
            seen.add(question)
            records.append(_record(question, solution, chat) | {"answer": answer})
    return records


def _problem(rng: np.random.Generator, steps: int, largest: int, slips: float) -> tuple[str, str, int]:
    who, other = rng.choice(_NAMES, size=2, replace=False)
    what = rng.choice(_THINGS)
    right = written = int(rng.integers(2, largest + 1))
    said, worked = [f"{who} has {right} {what}."], []
    for _ in range(steps):
        number, gains = int(rng.integers(2, largest + 1)), bool(rng.random() < 0.5)
        if not gains and number > right:
            gains = True
        if gains:
            said.append(f"{who} buys {number} more {what}.")
        else:
            said.append(f"{who} gives {number} {what} to {other}.")
        sign, change = ("+", number) if gains else ("-", -number)
        result = written + change
        if rng.random() < slips:
            result = abs(result + int(rng.choice((-10, -1, 1, 10))))
        worked.append(f"{written} {sign} {number} = {result}.")
        right, written = right + change, result
    said.append(f"How many {what} does {who} have now?")
    return " ".join(said), f"{' '.join(worked)} {_MARK} {written}", right


def _record(question: str, solution: str, chat: bool) -> dict[str, Any]:
    if chat:
        ask = f"{question}\nEnd with {_MARK} and the number."
        return {
            "prompt": [{"role": "user", "content": ask}],
            "completion": [{"role": "assistant", "content": solution}],
        }
    return {"prompt": f"Question: {question}\nAnswer:", "completion": f" {solution}"}


def records_of_questions(rows: Iterable[Mapping[str, Any]], *, chat: bool = False) -> list[dict[str, Any]]:
    """Records as those of `word_problems`, from rows with "question" and "answer", as GSM8K has them.

    Its "answer" is a solution, which ends in ``#### 18``. Notes of a calculator, ``<<2*3=6>>``, are left out.

    Raises
    ------
    ValueError, TypeError
        A row without one of the two, or a solution without a number.
    """
    records = []
    for i, row in enumerate(rows):
        for name in ("question", "answer"):
            if not isinstance(row, Mapping) or not isinstance(row.get(name), str):
                raise TypeError(f"rows[{i}] must have a text {name!r}, got {type(row).__name__}")
        solution = re.sub(r"<<[^>]*>>", "", row["answer"]).strip()
        if (answer := final_number(solution)) is None:
            raise ValueError(f"rows[{i}]['answer'] must have a number, got {row['answer'][:60]!r}")
        kept = int(answer) if answer.denominator == 1 else float(answer)
        records.append(_record(row["question"].strip(), solution, chat) | {"answer": kept})
    return records


def final_number(text: str) -> Fraction | None:
    """The number after the last ``####``, else the last number of the text; None if there is none.

    ``"#### 1,250."`` is 1250; ``"5 - 3"`` ends in 3; ``"#### none"`` has no number.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {text!r}")
    _, mark, after = text.rpartition(_MARK)
    numbers = _NUMBER.findall(after)
    if not numbers:
        return None
    found = numbers[0] if mark else numbers[-1]
    return None if len(found) > _LONGEST else Fraction(found.replace(",", ""))


def answer_is_right(prompts: Sequence[str], completions: Sequence[str], answer: Sequence[Any]) -> list[float]:
    """1 where `final_number` is the answer, else 0: a reward function."""
    return [
        float(final_number(text) == Fraction(str(n))) for text, n in zip(completions, answer, strict=True)
    ]
