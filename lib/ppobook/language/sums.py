"""Tiny sums: a task whose reward is a rule, with prompts from easy to hopeless.

    9 + 8 =    16 no 17 <eos>

A number is one token. A completion is an attempt, or several with "no" between them; the last one counts. The
corpus is the workbook of a pupil who half knows sums, so a policy after SFT is right about small ones, is
hardly ever right about large ones, and one knows how often (`Sums.knows`).

    sums = Sums()
    base = train("sft", sums.decoder(), sums.workbook(3000), tokenizer=sums.tokenizer)
    tuned = train("grpo", base, sums.prompts, reward=last_is_right, max_new_tokens=12)

`last_is_right` is the rule that is meant. `one_is_right` has a hole: a list of all numbers satisfies it.

The same for a pretrained chat model, which answers in its own words:

    sums, held_out = chat_sums()
    tuned = train("grpo", "runs/smollm2", sums, reward=answer_is_right, max_new_tokens=16)
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ppobook.language.model import Decoder, DecoderConfig
from ppobook.language.tokens import WordTokenizer

# The pupil: the sum that is known half of the time, how fast knowledge falls with the sum, how often an
# attempt is followed by another, and in how many wrong attempts the ten is forgotten.
_HALF_KNOWN: Final = 9.0
_FALL: Final = 1.6
_DOUBT: Final = 0.3
_NO_CARRY: Final = 0.7

MAX_NEW_TOKENS: Final = 12

# A number: 1,000 or 1000, with decimals or without. The minus of "5 - 3" is no sign.
_NUMBER: Final = re.compile(r"(?:(?<![\d.)])-)?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?")


class Sums:
    """Sums of two numbers, and a workbook of attempts at them.

    Parameters
    ----------
    largest : int
        The largest of the two numbers; there are (largest + 1)² prompts.

    Attributes
    ----------
    tokenizer : WordTokenizer
    prompts : list of dict
        "prompt", such as ``"9 + 8 ="``, and "answer", a number.
    """

    def __init__(self, largest: int = 9) -> None:
        numbers = range(2 * largest + 2)
        self.tokenizer = WordTokenizer([*map(str, numbers), "+", "=", "no"])
        self.prompts: list[dict[str, Any]] = [
            {"prompt": f"{a} + {b} =", "answer": a + b}
            for a in range(largest + 1)
            for b in range(largest + 1)
        ]

    def __repr__(self) -> str:
        return f"Sums({len(self.prompts)} prompts, {self.tokenizer.vocab_size} tokens)"

    def knows(self, answer: int) -> float:
        """The probability that one attempt of the pupil is right."""
        return 1 / (1 + math.exp((answer - _HALF_KNOWN) / _FALL))

    def workbook(self, n: int, seed: int = 0) -> list[dict[str, str]]:
        """n records of a "prompt" and a "completion", for `train("sft")`."""
        rng = np.random.default_rng(seed)
        records = []
        for _ in range(n):
            record = self.prompts[int(rng.integers(len(self.prompts)))]
            attempts = [self._attempt(rng, record["answer"])]
            while rng.random() < _DOUBT and 2 * len(attempts) + 2 <= MAX_NEW_TOKENS:
                attempts.append(self._attempt(rng, record["answer"]))
            completion = " no ".join(map(str, attempts))
            records.append({"prompt": record["prompt"], "completion": completion})
        return records

    def _attempt(self, rng: np.random.Generator, answer: int) -> int:
        if rng.random() < self.knows(answer):
            return answer
        if answer >= 10 and rng.random() < _NO_CARRY:
            return answer - 10
        return abs(answer + int(rng.choice((-1, 1))))

    def decoder(self, seed: int = 0, *, layers: int = 2, width: int = 64, heads: int = 4) -> Decoder:
        """A new decoder for these words, with room for a prompt and `MAX_NEW_TOKENS`."""
        words = self.tokenizer
        config = DecoderConfig(
            words.vocab_size,
            context=4 + MAX_NEW_TOKENS,
            layers=layers,
            width=width,
            heads=heads,
            eos=words.eos,
            pad=words.pad,
        )
        return Decoder(config, seed=seed)


def last_is_right(prompts: Sequence[str], completions: Sequence[str], answer: Sequence[int]) -> list[float]:
    """1 where the last word of a completion is the sum, else 0: a reward function."""
    return [float(text.split()[-1:] == [str(n)]) for text, n in zip(completions, answer, strict=True)]


def one_is_right(prompts: Sequence[str], completions: Sequence[str], answer: Sequence[int]) -> list[float]:
    """1 where any word of a completion is the sum, else 0: a reward function with a hole."""
    return [float(str(n) in text.split()) for text, n in zip(completions, answer, strict=True)]


# ------------------------------------------------------------------------------------- for a chat model


def chat_sums(
    digits: int = 1, *, seed: int = 0, held_out: int = 20
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All sums of two numbers with this many digits: those to train on, and those held out.

    A record has a "prompt", a conversation that asks, and an "answer". No sum that is held out is in the
    first list, nor the same sum the other way round.
    """
    numbers = range(10 ** (digits - 1) if digits > 1 else 0, 10**digits)
    pairs = np.array([(a, b) for a in numbers for b in numbers if a <= b])
    pairs = np.random.default_rng(seed).permutation(pairs).tolist()
    training = [_chat_sum(*pair) for a, b in pairs[held_out:] for pair in sorted({(a, b), (b, a)})]
    return training, [_chat_sum(*pair) for pair in pairs[:held_out]]


def _chat_sum(a: int, b: int) -> dict[str, Any]:
    return {"prompt": [{"role": "user", "content": f"What is {a} + {b}?"}], "answer": a + b}


def last_number(text: str) -> float | None:
    """The last number of a text; None if it has none."""
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def answer_is_right(prompts: Sequence[str], completions: Sequence[str], answer: Sequence[Any]) -> list[float]:
    """1 where the last number of a completion is the answer, else 0: a reward function."""
    return [float(last_number(text) == float(n)) for text, n in zip(completions, answer, strict=True)]
