"""Right and wrong answers to pass@k and to a rule that pays for answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from math import comb, exp, lgamma
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- pass-at-k


def as_product(n, c, k):
    if n - c < k:
        return 1.0
    return 1.0 - float(np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def by_draws(n, c, k):
    none = Fraction(1)
    for i in range(k):
        none *= Fraction(max(n - c - i, 0), n - i)
    return torch.tensor(float(1 - none))


def by_logs(n, c, k):
    if n - c < k:
        return 1
    w = n - c
    return 1 - exp(lgamma(w + 1) - lgamma(w - k + 1) - lgamma(n + 1) + lgamma(n - k + 1))


def floating_factorial(n, c, k):
    def factorial(m):
        return float(np.prod(np.arange(1, m + 1, dtype=float))) if m >= 0 else np.inf

    with np.errstate(all="ignore"):

        def choose(a, b):
            return factorial(a) / np.float64(factorial(b) * factorial(a - b)) if a >= b else 0.0

        return 1 - choose(n - c, k) / choose(n, k)


def falling(n, c, k):
    """Two products of k factors, as floats."""
    with np.errstate(all="ignore"):
        none = np.prod(np.arange(n - c - k + 1, n - c + 1, dtype=float))
        return 1 - none / np.prod(np.arange(n - k + 1, n + 1, dtype=float))


def shifted(first: int, end: int) -> Callable[..., float]:
    def function(n, c, k):
        if n - c < k:
            return 1.0
        return 1.0 - float(np.prod(1.0 - k / np.arange(n - c + first, n + end)))

    return function


def sure_too_soon(n, c, k):
    return 1.0 if n - c <= k else 1 - comb(n - c, k) / comb(n, k)


def by_dice(n, c, k, tries=500):
    dice, right = np.random.default_rng(), np.arange(n) < c
    return float(np.mean([right[dice.choice(n, k, replace=False)].any() for _ in range(tries)]))


RIGHT["pass-at-k"] = [as_product, by_draws, by_logs, lambda n, c, k: 1 - comb(n - c, k) / comb(n, k)]
WRONG["pass-at-k"] = {
    "the share of right samples, to the power of k": lambda n, c, k: 1 - (1 - c / n) ** k,
    "all k must be right": [lambda n, c, k: comb(c, k) / comb(n, k), lambda n, c, k: (c / n) ** k],
    "the probability that none is right": [
        lambda n, c, k: comb(n - c, k) / comb(n, k),
        lambda n, c, k: (1 - c / n) ** k,
    ],
    "k is not used": lambda n, c, k: c / n,
    "probabilities are added": [lambda n, c, k: min(1.0, k * c / n), lambda n, c, k: k * c / n],
    "any right sample counts, whatever k is": lambda n, c, k: c > 0,
    "blocks of k are cut off": lambda n, c, k: min(1, c / (n // k)),
    "exactly one is right": lambda n, c, k: c * comb(n - c, k - 1) / comb(n, k),
    "fewer than k are wrong, but the result is not 1": lambda n, c, k: (
        as_product(n, c, k) if n - c >= k else 0.0
    ),
    "large numbers overflow": [floating_factorial, falling],
    "a factor of the product is one off": [shifted(0, 0), shifted(2, 1), shifted(0, 1)],
    "exactly k are wrong, but the result is 1": sure_too_soon,
    "the result is random": by_dice,
}
UNNAMED["pass-at-k"] = [
    lambda n, c, k: as_product(n, c, k) if n < 15 else min(1.0, c * k / n),
    lambda n, c, k: round(as_product(n, c, k), 1),
    lambda n, c, k: as_product(n, c, k) if n > 5 else 1 - (1 - c / n) ** k,
]


# --- hunt-rule


def rule(
    *,
    last: bool = True,
    behind: Callable[[list[str], str], Any] = lambda words, right: words == [right],
    end: bool = True,
    word: bool = True,
    right: Callable[[int, int], Any] = lambda a, b: a + b,
    form: float = 0.0,
    alone: bool = False,
) -> Callable[..., Any]:
    """The rule with one part changed."""

    def function(prompt, completion, ended):
        a, b = (int(x) for x in prompt.split("+"))
        words = completion.split()
        if end and not ended:
            return 0.0
        if "answer" not in words:
            return float(not word and behind(words[-1:], str(right(a, b))))
        if alone and words[0] != "answer":
            return 0.0
        at = len(words) - 1 - words[::-1].index("answer") if last else words.index("answer")
        found = bool(behind(words[at + 1 :], str(right(a, b))))
        return 1.0 if found else form

    return function


def by_pattern(prompt, completion, ended):
    total = sum(map(int, re.findall(r"\d+", prompt)))
    return bool(ended) and re.search(rf"(^|\s)answer\s+{total}\s*$", completion) is not None


def by_partition(prompt, completion, ended):
    a, _, b = prompt.partition(" + ")
    _, word, behind = f" {completion} ".rpartition(" answer ")
    return torch.tensor(1.0 if ended and word and behind.strip() == str(int(a) + int(b)) else 0.0)


def from_the_back(prompt, completion, ended):
    words = completion.split()
    total = str(sum(int(x) for x in prompt.split()[::2]))
    return int(len(words) >= 2 and words[-1] == total and words[-2] == "answer" and bool(ended))


def lenient(words, right):
    try:
        return len(words) == 1 and int(words[0]) == int(right)
    except ValueError:
        return False


def empty_is_nought(words, right):
    return words == [right] or (not words and right == "0")


RIGHT["hunt-rule"] = [rule(), by_pattern, by_partition, from_the_back]
WRONG["hunt-rule"] = {
    "a right answer is not rewarded": [
        lambda p, c, ended: 0.0,
        rule(behind=lambda words, right: words == [right] and len(right) == 1),
    ],
    "a right answer after some working is not rewarded": rule(alone=True),
    "numbers of several digits are not read": [
        lambda p, c, ended: float(
            ended and c.split()[-2:] == ["answer", str(int(p[0]) + int(p[-1]))],
        ),
        lambda p, c, ended: rule()(" + ".join(x[-1] for x in p.split(" + ")), c, ended),
    ],
    "the reward is another number than 1": lambda p, c, ended: 2 * rule()(p, c, ended),
    "a list of all numbers is rewarded": [
        lambda p, c, ended: float(str(sum(int(x) for x in p.split("+"))) in c),
        lambda p, c, ended: float(str(sum(int(x) for x in p.split("+"))) in c.split()),
        rule(behind=lambda words, right: right in words),
    ],
    "a number inside another one is rewarded": [
        rule(behind=lambda words, right: len(words) == 1 and right in words[0]),
        rule(behind=lambda words, right: len(words) == 1 and words[0].startswith(right)),
    ],
    "a number without the word answer is rewarded": [
        rule(word=False),
        lambda p, c, ended: rule()(p, c.lower(), ended),
        lambda p, c, ended: rule()(p, c.replace(":", ""), ended),
        lambda p, c, ended: float(ended and c.endswith(f"answer {sum(map(int, p.split(' + ')))}")),
    ],
    "what follows the number is not read": rule(behind=lambda words, right: words[:1] == [right]),
    "the first answer counts, not the last": rule(last=False),
    "a completion without an end is rewarded": rule(end=False),
    "a wrong sum is rewarded": [
        rule(behind=lambda words, right: len(words) == 1 and words[0].isdigit()),
        rule(behind=lambda words, right: len(words) == 1 and words[0] in (right, "12")),
    ],
    "the form alone is rewarded": rule(form=0.1),
    "an empty completion is rewarded": rule(behind=empty_is_nought),
}
UNNAMED["hunt-rule"] = [rule(behind=lenient)]


def twice_is_once(words: list[str], right: str) -> Any:
    return words in ([right], [right, "so"])


UNNAMED["hunt-rule"] += [rule(behind=twice_is_once)]
