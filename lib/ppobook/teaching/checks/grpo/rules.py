"""Checks of pass@k, and of a rule that pays for answers."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from .. import Answer, Findings, Property, Stop, as_array, close, either, numbers, recognise, words
from ..probes import Problem, agrees, random_problems
from . import CHAPTER


def _product(first: int, end: int, k: int) -> float:
    """(1 − k/m) multiplied over these m, as readers cut it off: 0 where fewer than k are wrong."""
    found = 1.0
    for m in range(first, end):
        found *= max(1 - k / m, 0)
    return found


@CHAPTER.check("pass-at-k", section="sec-grpo-verifiable")
def pass_at_k(answer: Answer) -> Findings:
    def ask(n: int, c: int, k: int) -> float:
        return float(as_array(answer(n, c, k), (), "pass@k", finite=n < 100))

    # Ten samples, three or one or none or nine of them right.
    cases = ((10, 3, 4), (10, 1, 4), (10, 0, 4), (10, 9, 4), (10, 3, 1))
    got = np.array([ask(*case) for case in cases])

    def each(function: Any) -> np.ndarray:
        return np.array([function(*case) for case in cases])

    yield from recognise(
        got,
        {
            "the share of right samples, to the power of k": each(lambda n, c, k: 1 - (1 - c / n) ** k),
            "all k must be right": either(
                each(lambda n, c, k: comb(c, k) / comb(n, k)), each(lambda n, c, k: (c / n) ** k)
            ),
            "the probability that none is right": either(
                each(lambda n, c, k: comb(n - c, k) / comb(n, k)), each(lambda n, c, k: (1 - c / n) ** k)
            ),
            "k is not used": each(lambda n, c, k: c / n),
            "probabilities are added": either(
                each(lambda n, c, k: min(1, k * c / n)), each(lambda n, c, k: k * c / n)
            ),
            "any right sample counts, whatever k is": each(lambda n, c, k: float(c > 0)),
            "blocks of k are cut off": each(lambda n, c, k: min(1, c / (n // k))),
            "a factor of the product is one off": either(
                *(
                    each(lambda n, c, k, a=a, b=b: 1 - _product(n - c + a, n + b, k))
                    for a, b in ((0, 0), (1, 0), (0, 1), (2, 1), (2, 2))
                )
            ),
            "exactly one is right": each(lambda n, c, k: c * comb(n - c, k - 1) / comb(n, k)),
            "fewer than k are wrong, but the result is not 1": close(got[:3], [5 / 6, 0.4, 0])
            and not close(got[3], 1),
        },
        three=got[0],
        one=got[1],
        nine=got[3],
    )
    # Two numbers by chance are the same now and then; nine are not.
    again = next((x for x in (ask(10, 3, 4) for _ in range(8)) if x != got[0]), got[0])
    half = ask(5, 3, 2)
    small = close(got, [5 / 6, 0.4, 0, 1, 0.3])
    yield from recognise(
        got,
        {
            "exactly k are wrong, but the result is 1": small and close(half, 1),
            "the result is random": again != got[0],
        },
        again=again,
        three=got[0],
        half=half,
    )
    wide, medium = True, close(ask(20, 5, 4), 1 - comb(15, 4) / comb(20, 4), 1e-3)
    for n, c, k in ((2000, 100, 50), (2000, 1, 200), (2000, 5, 1000), (200, 3, 150), (2000, 1999, 1)):
        large, none = ask(n, c, k), 1.0
        for i in range(k):
            none *= max(n - c - i, 0) / (n - i)
        lost = small and medium and not 0 < large < 1
        yield from recognise(large, {"large numbers overflow": lost}, n=n, c=c, k=k)
        if wide and not close(large, 1 - none):
            wide, strange = False, f"with {c} of {n} right and k = {k} you get {large:.4g}"
    p, n, k = 0.3, 6, 2
    on_average = sum(comb(n, c) * p**c * (1 - p) ** (n - c) * ask(n, c, k) for c in range(n + 1))
    yield Property(
        "the mean over all outcomes of six samples is 1 − (1 − p)^k",
        close(on_average, 1 - (1 - p) ** k),
        f"with p = 0.3 and k = 2 the mean is {on_average:.4g}, but 1 − 0.7² = 0.51",
    )
    yield Property(
        "2000 samples work",
        wide,
        "" if wide else strange,
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        n = int(rng.integers(1, 10))
        return {"n": n, "c": int(rng.integers(0, n + 1)), "k": int(rng.integers(1, n + 1))}

    def slow(p: Problem) -> float:
        """All choices of k among the samples, of which the first c are right."""
        found = [min(chosen) < p.c for chosen in combinations(range(p.n), p.k)]
        return sum(found) / len(found)

    yield agrees(answer, slow, random_problems(draw, 40), what="pass@k")


# ---------------------------------------------------------------------------------------------------
# A rule


@CHAPTER.check("hunt-rule", section="sec-grpo-verifiable")
def hunt_rule(answer: Answer) -> Findings:
    def paid(prompt: str, completion: str, ended: bool = True) -> float:
        back = answer(prompt, completion, ended)
        if isinstance(back, str):
            raise Stop("returned", "no number", f"return 1.0 or 0.0; got {words(back)}.")
        return float(as_array(back, (), "the reward"))

    sums = {"3 + 4": 7, "9 + 8": 17, "2 + 0": 2, "0 + 0": 0, "6 + 6": 12}
    plain = [paid(p, f"answer {s}") for p, s in sums.items()]
    worked = [paid("3 + 4", text) for text in ("3 plus 4 is 7 so answer 7", "is it 8 ? no : answer 7")]
    second = paid("3 + 4", "answer 8 no wait answer 7")
    long = [paid(p, f"answer {s}") for p, s in (("12 + 5", 17), ("7 + 19", 26), ("250 + 31", 281))]
    others = ("7", "it is 7", "answer is 7", "noanswer 7", "Answer 7", "answer: 7")
    loose = [text for text in others if paid("3 + 4", text) > 0]
    all_of_them = " ".join(map(str, range(19)))
    yield from recognise(
        np.array(plain),
        {
            "a right answer is not rewarded": min(plain) <= 0,
            "a right answer after some working is not rewarded": min(worked) <= 0,
            "numbers of several digits are not read": min(long) <= 0,
            "the reward is another number than 1": not close(plain, np.ones(5)),
            "the form alone is rewarded": max(
                paid("3 + 4", x) for x in ("answer", "answer x", "answer answer")
            )
            > 0,
            "a wrong sum is rewarded": max(paid("3 + 4", f"answer {x}") for x in (3, 4, 8, 34, 12, 0)) > 0,
            "a list of all numbers is rewarded": max(
                paid("3 + 4", all_of_them), paid("3 + 4", f"answer {all_of_them}")
            )
            > 0,
            "a number inside another one is rewarded": max(
                paid("3 + 4", f"answer {x}") for x in ("17", "70", "5777", "7.5", "7th")
            )
            > 0,
            "a number without the word answer is rewarded": bool(loose),
            "what follows the number is not read": paid("3 + 4", "answer 7 or 8") > 0
            or paid("3 + 4", "answer 7 7") > 0,
            "the first answer counts, not the last": paid("3 + 4", "answer 7 no wait answer 8") > 0
            or second <= 0,
            "a completion without an end is rewarded": paid("3 + 4", "answer 7", ended=False) > 0,
            "an empty completion is rewarded": max(paid("0 + 0", x) for x in ("", " ", "answer")) > 0,
        },
        plain=plain,
        worked=worked,
        long=long,
        loose=", ".join(f"“{text}”" for text in loose),
    )
    odd = {x: paid("3 + 4", f"answer {x}") for x in ("07", "+7", "7.0", "seven", "3+4", "0x7", "7_", "-7")}
    other = [x for x, reward in odd.items() if reward != 0]
    yield Property(
        "only one way to write a number is rewarded",
        not other,
        f"for “3 + 4” it also rewards “answer {other[0]}”" if other else "",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        a, b = (int(x) for x in rng.integers(0, rng.choice([10, 10, 300]), size=2))
        pieces = [str(a + b), str(a), str(int(rng.integers(0, 19))), "answer", "so", "is", f"answer {a + b}"]
        body = " ".join(str(x) for x in rng.choice(pieces, size=int(rng.integers(0, 6))))
        tail = str(rng.choice(["", f"answer {a + b}", f"answer {a + b + 1}", f"answer {a + b} so", "answer"]))
        return {
            "prompt": f"{a} + {b}",
            "completion": f"{body} {tail}".strip(),
            "ended": bool(rng.random() < 0.8),
        }

    def slow(p: Problem) -> float:
        """Word by word: what stands behind the last `answer`, collected and compared."""
        behind: list[str] | None = None
        for word in p.completion.split():
            if word == "answer":
                behind = []
            elif behind is not None:
                behind.append(word)
        a, _, b = p.prompt.split()
        return float(p.ended and behind == [str(int(a) + int(b))])

    problems = random_problems(draw, 150)
    wrong = [p for p in problems if paid(p.prompt, p.completion, p.ended) != slow(p)]
    first = wrong[0] if wrong else problems[0]
    said = f"“{first.prompt}”, “{first.completion}”, {'ended' if first.ended else 'not ended'}"
    yield Property(
        "the rewards follow the rule of the exercise, on 150 random completions",
        not wrong,
        f"for {said} the reward is {numbers(paid(first.prompt, first.completion, first.ended))}",
    )
