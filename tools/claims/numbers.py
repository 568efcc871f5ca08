"""The numbers that a sentence states, in digits and in words, and whether what is behind it says them too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
# "One" is a number only where it is counted: "one of ten", "one run", "one in four".
WORDS = {word: value for value, word in enumerate(ONES) if word != "one"}
WORDS |= {word: 10 * value for value, word in enumerate(TENS, 2)} | {"hundred": 100, "thousand": 1000}
PARTS = {
    "half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10, "twelfth": 12, "hundredth": 100, "thousandth": 1000,
}  # fmt: skip
TIMES = {
    "twice": 2, "double": 2, "doubled": 2, "doubles": 2, "twofold": 2, "threefold": 3, "fourfold": 4,
    "fivefold": 5, "tenfold": 10, "hundredfold": 100,
}  # fmt: skip

# What no number is looked for in.
_HIDDEN = re.compile(
    r"""\{[\w:-]+\}`[^`]*` | `[^`]*` | \$[^$]+\$ | \]\([^)]*\)
    | \b[Cc]hapters?\ \d+(?:(?:,|\ and|\ to)\ \d+)* | \b(?:section|table|figure|step|equation|unit)\ \d[\d.]*
    | \b(?:seed|GPT-?|phi-?|k)\ ?\d+\b | 95\ % | \b[Hh]alf-way
    | \b(?:holds?|out|includes?|contains?|below|above|than|at\ least|past|near|not|from)\ zero\b""",
    re.X,
)
_WORD = "|".join(WORDS)
_NUMBER = re.compile(
    rf"""(?<![\w.,])(?P<top>one|once|\d+|{_WORD})\ (?:\w+\ )?in\ (?:a\ )?(?!100\b)  # nine in ten
        (?P<one_in>(?:{_WORD}|\d+)(?:-(?:{_WORD}))?)(?!\.?\d|\w|%)
    | (?P<digits>(?<![\w.])[-−+]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)
        (?P<percent>\ ?%|\ per\ cent|(?:\ \w+)?\ in\ 100\b)?
    | \b(?:(?P<count>{_WORD}|one|a|an)\ )?(?P<part>{"|".join(PARTS)})s?\b       # two thirds
        (?!\ (?:time|run|policy|column|line|row|one))
    | \b(?P<times>{"|".join(TIMES)})\b
    | \b(?P<word>one(?=\ (?:of|seed|run)\b)|{_WORD})(?P<more>[-\ ](?:{_WORD}|one)\b)?(?P<fold>fold)?\b""",
    re.I | re.X,
)
_ABOUT = re.compile(
    r"(?:about|some|nearly|almost|roughly|around|just|close to|near|not quite|hardly|or so)(?: \w+)? \*?$",
    re.I,
)
_ABOVE = re.compile(r"(?:more than|over|above|at least|beyond)(?: an?)? \*?$", re.I)
_BELOW = re.compile(r"(?:less than|fewer than|under|below|at most|within|up to)(?: an?)? \*?$", re.I)
_MORE = re.compile(r" (?:as (?:much|many|long|large) )?(?:again|more|longer|higher|larger)\b")
_GONE = re.compile(r" of (?:\w+ )?\w+ (?:is|are|were) (?:gone|lost)\b")
_LESS = re.compile(r" (?:less|fewer|shorter|lower|smaller)\b")
# "Three of ten", of which there is a whole number.
_COUNTED = re.compile(rf" of (?:(?:the|these|its|them) ?)?(?:\d|{_WORD}|seeds|runs)\b", re.I)
_BY = re.compile(r"\bby (?:about |nearly )?$")


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
    """1 for "a quarter more" and "by a quarter", −1 for "a quarter less"."""
    sign: int = 0
    """1 or −1 where the sentence has the sign."""
    counted: bool = False
    """True if it counts things, and so is exact."""


def in_sentence(text: str) -> list[Number]:
    """The numbers of a sentence, without those in formulas, code and references."""
    text = _HIDDEN.sub(lambda found: " " * len(found[0]), text)
    return [_number(found, text[: found.start()], text[found.end() :]) for found in _NUMBER.finditer(text)]


def _number(found: re.Match[str], before: str, after: str) -> Number:
    parts = {name: (part or "").lower() for name, part in found.groupdict().items()}
    value, digits, change, sign = 0.0, None, 0, 0
    if parts["digits"]:
        bare = parts["digits"].rstrip(",").replace(",", "").replace("−", "-")
        sign = {"-": -1, "+": 1}.get(bare[0], 0)
        value = abs(float(bare))
        digits = None if "e" in bare else len(bare.partition(".")[2])
    elif parts["part"]:
        value = WORDS.get(parts["count"], 1) / PARTS[parts["part"]]
        value = 1 - value if _GONE.match(after) else value
        change = bool(_MORE.match(after) or _BY.search(before)) - bool(_LESS.match(after))
    elif parts["one_in"]:
        value = _value(parts["top"]) / sum(map(_value, parts["one_in"].split("-")))
    elif parts["times"]:
        value = TIMES[parts["times"]]
    else:
        value = _value(parts["word"])
        if parts["more"]:
            other = _value(parts["more"][1:])
            value = value * other if other >= 100 else value + other
        digits = None if parts["fold"] or value >= 1000 else 0
    return Number(
        found[0].strip().rstrip(","),
        value,
        digits,
        percent=bool(parts["percent"]),
        bound=bool(_ABOVE.search(before)) - bool(_BELOW.search(before)),
        about=bool(_ABOUT.search(before)),
        change=change,
        sign=sign,
        counted=digits == 0 and not parts["percent"] and bool(_COUNTED.match(after)),
    )


def _value(word: str) -> float:
    return float(word) if word.isdigit() else float(WORDS.get(word, 1))


def in_text(text: str) -> list[float]:
    """All numbers of an output."""
    found = re.findall(r"(?:(?<![\w.)])[-−])?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?", text)
    return [float(number.replace(",", "").replace("−", "-")) for number in found]


def says(number: Number, values: Iterable[float], spans: Iterable[tuple[float, float]] = ()) -> bool:
    """Return whether a value is the number, rounded as the sentence rounds it, or a narrow span holds it."""
    forms = {number.value / 100 if number.percent else number.value, number.value}
    if number.digits is None and number.value:
        forms |= {1 / number.value}
    if number.change:
        forms |= {1 + number.change * number.value}
    if number.sign >= 0 and any(low <= form <= high for low, high in spans for form in forms):
        return True
    return any(_is(number, x) for value in values for x in _forms(number, value))


def _forms(number: Number, value: float) -> list[float]:
    """The value, and what else the number may say of it: its percentage, its inverse, its part above 1."""
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
    if number.sign * x < 0 or (number.counted and x % 1 != 0):
        return False
    x = abs(x)
    if number.digits is not None and abs(x - value) <= 0.5 * 10.0**-number.digits + 1e-9:
        return True
    # "more than a third", "less than half", "about 300", "40,000 steps"
    room = 0.35 if number.digits is None else 0.2
    if number.bound:
        low, high = sorted((value, (1 + number.bound * room) * value))
        return low <= x <= high
    loose = 0.12 if number.digits is None or number.about else 0.0
    whole_hundreds = 0.05 if number.digits == 0 and value >= 1000 and value % 100 == 0 else 0.0
    return abs(x - value) <= max(loose, whole_hundreds) * value
