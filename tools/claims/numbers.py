"""The numbers that a sentence states, in digits and in words, and whether what stands behind it says them too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

WORDS = dict(zip(
    "zero two three four five six seven eight nine ten eleven twelve".split(),
    (0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    strict=True,
)) | {
    "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18,
    "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90, "hundred": 100, "thousand": 1000,
}  # fmt: skip
PARTS = {"half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4, "fifth": 1 / 5, "sixth": 1 / 6, "seventh": 1 / 7,
         "eighth": 1 / 8, "ninth": 1 / 9, "tenth": 1 / 10, "twelfth": 1 / 12, "hundredth": 1 / 100,
         "thousandth": 1 / 1000}  # fmt: skip
TIMES = {"twice": 2, "double": 2, "doubled": 2, "doubles": 2, "twofold": 2, "threefold": 3, "fourfold": 4,
         "fivefold": 5, "tenfold": 10, "hundredfold": 100}  # fmt: skip

_HIDDEN = re.compile(
    r"\{(?:cite|ref|eq|numref|doc|py|source|term)[\w:]*\}`[^`]*`|\{math\}`[^`]*`|`[^`]*`|\$[^$]+\$|\]\([^)]*\)"
    r"|\b[Cc]hapters? \d+(?:(?:,| and| to) \d+)*|\b(?:section|table|figure|step|equation|unit) \d[\d.]*"
    r"|\b[Hh]alf-way|\b(?:hold|holds|out|include|includes|contain|contains|below|above|than|at least|past|near|not|from) zero\b"
    r"|\b(?:seed|GPT-?|phi-?|k) ?\d+\b|95 %"
)
_WORD = "|".join(WORDS)
_NUMBER = re.compile(
    rf"(?<![\w.,])(?P<top>one|once|\d+|{_WORD}) (?:\w+ )?in (?:a )?(?!100\b)(?P<one_in>(?:{_WORD}|\d+)(?:-(?:{_WORD}))?)(?!\.?\d|\w|%)"
    r"|(?P<digits>(?<![\w.])[-−+]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)(?P<percent> ?%| per cent|(?: \w+)? in 100\b)?"
    rf"|\b(?:(?P<count>{_WORD}|one|a|an) )?(?P<part>{'|'.join(PARTS)})s?\b(?! (?:time|run|policy|column|line|row|one))"
    rf"|\b(?P<times>{'|'.join(TIMES)})\b"
    rf"|\b(?P<word>one(?= (?:of|seed|run)\b)|{_WORD})(?P<more>[- ](?:{_WORD}|one)\b)?(?P<fold>fold)?\b",
    re.I,
)
_ABOUT = re.compile(
    r"(?:about|some|nearly|almost|roughly|around|just|close to|near|not quite|hardly|or so)(?: \w+)? \*?$"
)
_ABOVE = re.compile(r"(?:more than|over|above|at least|beyond)(?: an?)? \*?$")
_BELOW = re.compile(r"(?:less than|fewer than|under|below|at most|within|up to)(?: an?)? \*?$")
_MORE = re.compile(r" (?:as (?:much|many|long|large) )?(?:again|more|longer|higher|larger|as much again)\b")
_GONE = re.compile(r" of (?:\w+ )?\w+ (?:is|are|were) (?:gone|lost)\b")
_LESS = re.compile(r" (?:less|fewer|shorter|lower|smaller)\b")


@dataclass(frozen=True)
class Number:
    """A number of a sentence: as it stands there, its value, and how far it may be rounded."""

    text: str
    value: float
    digits: int | None
    """Digits after the point; None for words such as "a third", which are never exact."""
    percent: bool = False
    bound: int = 0
    """1 where the sentence says that what is measured lies above, −1 below, 0 where neither."""
    about: bool = False
    change: int = 0
    """1 for "a quarter more", −1 for "a quarter less"."""


def in_sentence(text: str) -> list[Number]:
    """The numbers of a sentence, without those in formulas, code and references."""
    text = _HIDDEN.sub(lambda found: " " * len(found[0]), text)
    return [_number(found, text[: found.start()], text[found.end() :]) for found in _NUMBER.finditer(text)]


def _number(found: re.Match[str], before: str, after: str) -> Number:
    parts, said = found.groupdict(), found[0].strip().rstrip(",")
    bound = bool(_ABOVE.search(before)) - bool(_BELOW.search(before))
    about = bool(_ABOUT.search(before))
    if digits := parts["digits"]:
        digits = digits.rstrip(",")
        value = float(digits.replace(",", "").replace("−", "-"))
        places = None if "e" in digits else len(digits.partition(".")[2])
        return Number(said, abs(value), places, bool(parts["percent"]), bound, about)
    if parts["part"]:
        count = (parts["count"] or "a").lower()
        value = WORDS.get(count, 1) * PARTS[parts["part"].lower()]
        change = bool(_MORE.match(after)) - bool(_LESS.match(after))
        change = change or bool(re.search(r"\bby (?:about |nearly )?$", before))
        gone = bool(_GONE.match(after))
        return Number(said, 1 - value if gone else value, None, bound=bound, about=about, change=change)
    if one_in := parts["one_in"]:
        whole = sum(float(WORDS.get(word, 0) or word) for word in one_in.lower().split("-"))
        top = parts["top"].lower()
        return Number(
            said, float(WORDS.get(top, 1) if top.isalpha() else top) / whole, None, bound=bound, about=about
        )
    if parts["times"]:
        return Number(said, TIMES[parts["times"].lower()], None, bound=bound, about=about)
    value = float(WORDS.get(parts["word"].lower(), 1))
    if more := (parts["more"] or "")[1:].lower():
        other = WORDS.get(more, 1)
        value = value * other if other >= 100 else value + other
    round_number = parts["fold"] or value >= 1000
    return Number(said, value, None if round_number else 0, bound=bound, about=about)


def in_text(text: str) -> list[float]:
    """All numbers of an output."""
    text = text.replace("−", "-")
    return [float(x.replace(",", "")) for x in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?", text)]


def says(number: Number, values: Iterable[float], spans: Iterable[tuple[float, float]] = ()) -> bool:
    """Whether one of the values is the number, rounded as the sentence rounds it, or a narrow span holds it."""
    forms = {number.value, number.value / 100 if number.percent else number.value}
    forms |= {1 / number.value} if number.digits is None and number.value else set()
    forms |= {1 + number.change * number.value} if number.change else set()
    if any(low <= form <= high for low, high in spans for form in forms):
        return True
    return any(_is(number, abs(x)) for value in values for x in _forms(number, value))


def _forms(number: Number, value: float) -> list[float]:
    forms = [value]
    if number.change:
        forms.append(abs(value - 1))
    if number.percent or number.digits is None:
        forms.append(100 * value)
    if number.digits is None:
        forms += [value / 100, *([1 / value] if value else [])]
    return forms


def _is(number: Number, x: float) -> bool:
    value = number.value
    if number.digits is not None and abs(x - value) <= 0.5 * 10.0**-number.digits + 1e-9:
        return True
    # "more than a third", "less than half", "about 300", "a quarter"
    room = 0.35 if number.digits is None else 0.2
    if number.bound > 0:
        return value <= x <= (1 + room) * value
    if number.bound < 0:
        return (1 - room) * value <= x <= value
    loose = 0.12 if number.digits is None or number.about else 0.0
    round_thousand = 0.05 if number.digits == 0 and value >= 1000 and value % 100 == 0 else 0.0
    return abs(x - value) <= max(loose, round_thousand) * value
