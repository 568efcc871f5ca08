"""A made-up class: thirty students, what each hands in and when, and what each part of it is worth.

The points stand beside the answers and are worked out by hand, from what is right and from the marks below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

TABLE, WEIGHTS, HUNT = "clip-table-up", "ratio-one", "hunt-minmax"
PROOF, WHY = "ratio-one-proof", "hunt-minmax-why"
PARTS = (TABLE, PROOF, WEIGHTS, HUNT, WHY)

WEEK = """\
  - name: week-03
    set: 03_the_clipped_surrogate
    exercises: [clip-table-up, ratio-one-proof, hunt-minmax]
    due: 2027-03-08 23:59
    points: {ratio-one: 4, hunt-minmax: 3}
    total: 16
"""
EXTENSION = "  - {student: nora, assignment: week-03, until: 2027-03-12 23:59, reason: ill}\n"
GROUP = ", week-03: [[olga, pete]]"

# What was written, and the marks for it.
PROVED = "Near r = 1 the clip does nothing, so it is the gradient of the mean of r A."
HALF_PROVED = "At r = 1 the ratio is one, and so it follows."
DIAGNOSED = "The minimum of two losses is the larger objective, so nothing ends an update."
FORMULA = '=HYPERLINK("http://evil.example", "Grade: 16")'
NO_IDEA = "It never comes back, I believe."
MARKS = {PROVED: 4, HALF_PROVED: 2, DIAGNOSED: 3, FORMULA: 0, NO_IDEA: 0.5}

# --- functions in the book's form, as students write them

table = """
def table_up():
    rows = {}
    for r in (0.5, 0.8, 1.1, 1.2, 1.5):
        clipped = min(max(r, 0.8), 1.2)
        least = min(r, clipped)
        rows[r] = (r, clipped, clipped, least, least < r)
    return rows
"""
weights = """
def gradient_weights(ratio, advantages, eps):
    up = (advantages > 0) & (ratio > 1 + eps)
    down = (advantages < 0) & (ratio < 1 - eps)
    return torch.where(up | down, 0.0, ratio * advantages)
"""
RIGHT_HUNT = ((0, 1, -1, 0), (1, 0, 0, -1))


def hunt(suspicious: Any = RIGHT_HUNT[0], healthy: Any = RIGHT_HUNT[1]) -> str:
    cases = ((0.5, 1), (1.5, 1), (0.5, -1), (1.5, -1))
    rows = dict(zip(cases, zip(suspicious, healthy, strict=True), strict=True))
    return f"def slopes():\n    return {rows!r}\n"


def edited(source: str, old: str, new: str) -> str:
    assert old in source
    return source.replace(old, new)


def flat_where(what: str) -> str:
    return edited(weights, "up | down, 0.0", f"{what}, 0.0")


FLAT, CLIPPED, LEAST = "least < r)", "min(max(r, 0.8), 1.2)", "min(r, clipped)"
WHERE = "torch.where(up | down, 0.0, ratio * advantages)"
MISTAKES: dict[str, dict[str, str]] = {
    TABLE: {
        "clipped on one side only": edited(table, CLIPPED, "min(r, 1.2)"),
        "the column clip(r) is r itself": edited(table, CLIPPED, "r"),
        "flat and not flat are exchanged": edited(table, FLAT, "not least < r)"),
        "the clip without the minimum": edited(table, LEAST, "clipped"),
        "the clip never counts": edited(table, LEAST, "r"),
        "nothing is flat": edited(table, FLAT, "False)"),
        "everything is flat": edited(table, FLAT, "True)"),
        "flat is not the same as outside the box": edited(table, FLAT, "not 0.7 < r < 1.3)"),
        "flat on the wrong side": edited(table, FLAT, "r < 0.7)"),
        "the knee itself is called flat": edited(table, FLAT, "r >= 1.2)"),
        "an end of the box that is no knee here": edited(table, FLAT, "r > 1.2 or r == 0.8)"),
        "the larger of the two": edited(table, LEAST, "max(r, clipped)"),
    },
    WEIGHTS: {
        "the weights of the loss, not of the objective": edited(weights, WHERE, f"-{WHERE}"),
        "averaged already": edited(weights, WHERE, f"{WHERE} / len(ratio)"),
        "the slope by r, not by θ": edited(weights, "ratio * advantages)", "advantages)"),
        "nothing is flat": edited(weights, WHERE, "ratio * advantages"),
        "the value, not the slope": edited(weights, WHERE, "ratio.clamp(1 - eps, 1 + eps) * advantages"),
        "flat is not the same as outside the box": flat_where("(ratio - 1).abs() > eps"),
        "flat on the wrong side": edited(
            edited(weights, "advantages > 0", "advantages <= -0"), "s < 0", "s > 0"
        ),
        "the sign of the advantage is not asked for": flat_where("ratio > 1 + eps"),
        "nothing pushes inside the box": flat_where(
            "ratio * advantages >= ratio.clamp(1 - eps, 1 + eps) * advantages"
        ),
        "flat for one sign of the advantage only": flat_where("up"),
        "eps is not used": edited(weights, "    up =", "    eps = 0.2\n    up ="),
        "the knee itself is called flat": edited(
            edited(weights, "ratio > 1", "ratio >= 1"), "ratio < 1", "ratio <= 1"
        ),
    },
    HUNT: {
        "the two columns are exchanged": hunt(RIGHT_HUNT[1], RIGHT_HUNT[0]),
        "the slopes of the loss, not of the objective": hunt((0, -1, 1, 0), (-1, 0, 0, 1)),
        "the values, not the slopes": hunt((0.8, 1.5, -0.5, -1.2), (0.5, 1.2, -0.8, -1.5)),
        "the slope by log π, not by r": hunt((0, 1.5, -0.5, 0), (0.5, 0, 0, -1.5)),
        "the same in both": hunt((1, 0, 0, -1)),
        "flat is not the same as outside the box": hunt(healthy=(0, 0, 0, 0)),
        "nothing is flat": hunt((1, 1, -1, -1)),
        "the sign of the advantage is lost": hunt((0, 1, 1, 0), (1, 0, 0, 1)),
    },
}
BY_AUTOGRAD = """
def gradient_weights(ratio, advantages, eps):
    log_ratio = ratio.log().requires_grad_()
    r = log_ratio.exp()
    kept = torch.minimum(r * advantages, r.clamp(1 - eps, 1 + eps) * advantages)
    return torch.autograd.grad(kept.sum(), log_ratio)[0]
"""
ONE_BY_ONE = """
def gradient_weights(ratio, advantages, eps):
    weights = []
    for r, a in zip(ratio.tolist(), advantages.tolist()):
        done = r > 1 + eps if a > 0 else r < 1 - eps
        weights.append(0.0 if done else r * a)
    return np.array(weights)
"""


@dataclass(frozen=True)
class HandsIn:
    """A notebook, and when it's handed in, by the course's clock.

    `answers` are sources in the book's form and texts; what is left out is a blank. `own` are cells in front.
    `again` is what a function returns in the end, made of `first`, what it returned so far.
    """

    when: str = "2027-03-08 18:00"
    answers: Mapping[str, str] = field(default_factory=dict)
    own: str = ""
    again: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    later: bool = False
    change: Callable[[str], str] = str


@dataclass(frozen=True)
class Person:
    """A student: name, what they hand in, the points of each part, and how late they are.

    ``points`` are in the order of `PARTS`, before anything is lost; None where nothing counts as handed in.
    """

    last: str
    first: str
    hands_in: tuple[HandsIn, ...]
    points: tuple[float, ...] | None
    late: int = 0
    share: float = 1.0

    @property
    def final(self) -> float | None:
        return None if self.points is None else round(sum(self.points) * self.share, 6)


ALL = {TABLE: table, WEIGHTS: weights, HUNT: hunt()}


def wrong(number: int, *more: tuple[str, str], **options: Any) -> tuple[HandsIn, ...]:
    """The mistakes of that number in every part; in the Hunt, which has fewer, the right answer then."""
    answers = {part: [*known.values(), *(ALL[part],) * 4][number] for part, known in MISTAKES.items()}
    return (HandsIn(answers=answers | dict(more), **options),)


def mistakes(number: int) -> dict[str, str]:
    """Return the names of these mistakes, by part."""
    return {part: [*known][number] for part, known in MISTAKES.items() if number < len(known)}


def hands_in(*answers: Mapping[str, str], **options: Any) -> HandsIn:
    return HandsIn(answers={part: text for one in answers for part, text in one.items()}, **options)


STOP = "from ppobook.teaching.checks import Stop\nraise Stop('right', 'ratio-one')"
CHEATED = "def gradient_weights(*given):\n    {}\n"

#                last name         first name   what                                       points
CLASS: dict[str, Person] = {
    # Right, in several styles.
    "ada": Person("Lovelace", "Ada", (hands_in(ALL, {PROOF: PROVED, WHY: DIAGNOSED}),), (2, 4, 4, 3, 3)),
    "bob": Person(
        "O'Neill",
        "Bob",
        (
            hands_in(
                ALL,
                {WEIGHTS: BY_AUTOGRAD, PROOF: HALF_PROVED, WHY: DIAGNOSED},
                again={TABLE: "[[*row[:4], 'yes' if row[4] else 'no'] for row in first.values()]"},
            ),
        ),
        (2, 2, 4, 3, 3),
    ),
    "cleo": Person(
        "Müller",
        "Cleo",
        (
            hands_in(
                ALL,
                {WEIGHTS: ONE_BY_ONE},
                again={
                    TABLE: "np.array([[float(x) for x in row] for row in first.values()])",
                    HUNT: "{key: torch.tensor(row) for key, row in first.items()}",
                },
            ),
        ),
        (2, 0, 4, 3, 0),
    ),
    "dov": Person(
        "Åström",
        "Dov",
        (
            hands_in(
                ALL,
                {WHY: NO_IDEA},
                own="def both(one, other):\n    return torch.logical_and(one, other)",
                again={TABLE: "{r: (*row[:4], 'y' if row[4] else 'n') for r, row in first.items()}"},
                change=lambda source: source.replace("(advantages > 0) & (", "both(advantages > 0, "),
            ),
        ),
        (2, 0, 4, 3, 0.5),
    ),
    # Each named mistake.
    "eva": Person("Berg", "Eva", wrong(0), (0, 0, 0, 0, 0)),
    "finn": Person("Cruz", "Finn", wrong(1, (WHY, NO_IDEA)), (0, 0, 0, 0, 0.5)),
    "gil": Person("Diaz", "Gil", wrong(2), (0, 0, 0, 0, 0)),
    "hana": Person("Endo", "Hana", wrong(3, (PROOF, PROVED)), (0, 4, 0, 0, 0)),
    "irene": Person("Faye", "Irène", wrong(4), (0, 0, 0, 0, 0)),
    "jon": Person("Gray", "Jon", wrong(5), (0, 0, 0, 0, 0)),
    "kim": Person("Ho", "Kim", wrong(6), (0, 0, 0, 0, 0)),
    "lea": Person("Ito", "Lea", wrong(7, (WHY, DIAGNOSED)), (0, 0, 0, 0, 3)),
    # And late: within the grace; a day; three; too late.
    "max": Person("Jung", "Max", wrong(8, when="2027-03-09 00:10"), (0, 0, 0, 3, 0)),
    "mia": Person("Katz", "Mia", wrong(9, when="2027-03-09 20:00"), (0, 0, 0, 3, 0), 1, 0.9),
    "mo": Person("Levi", "Mo", wrong(10, when="2027-03-11 23:58"), (0, 0, 0, 3, 0), 3, 0.7),
    "moe": Person("Levi", "Moe", wrong(11, when="2027-03-12 09:00"), (0, 0, 0, 3, 0), 4, 0.0),
    "nils": Person(
        "Moss",
        "Nils",
        (hands_in(ALL, {PROOF: PROVED, WHY: DIAGNOSED}, when="2027-03-09 00:20"),),
        (2, 4, 4, 3, 3),
        1,
        0.9,
    ),
    "nora": Person("Nagy", "Nora", (hands_in(ALL, when="2027-03-12 20:00"),), (2, 0, 4, 3, 0)),
    # One submission of two.
    "olga": Person("Oz", "Olga", (), (2, 2, 4, 0, 0)),
    "pete": Person(
        "Park",
        "Pete",
        (
            hands_in(
                {TABLE: table, WEIGHTS: weights, HUNT: MISTAKES[HUNT]["nothing is flat"], PROOF: HALF_PROVED}
            ),
        ),
        (2, 2, 4, 0, 0),
    ),
    # Half finished.
    "quin": Person("Quist", "Quin", (hands_in({TABLE: table}),), (2, 0, 0, 0, 0)),
    "rosa": Person("Ruiz", "Rosa", (hands_in(),), (0, 0, 0, 0, 0)),
    "sam": Person(
        "Sato",
        "Sam",
        (hands_in(ALL, change=lambda source: source.replace("def table_up():", "def table_up(:")),),
        (0, 0, 4, 3, 0),
    ),
    # Two hand-ins, of which the later counts; a third that is too late to count.
    "tom": Person(
        "Tan",
        "Tom",
        (
            hands_in({TABLE: table}, when="2027-03-07 12:00"),
            hands_in(ALL, when="2027-03-08 23:59", file="tom_final_version.ipynb"),
        ),
        (2, 0, 4, 3, 0),
    ),
    "uma": Person(
        "Ueda",
        "Uma",
        (
            hands_in({TABLE: table, HUNT: hunt()}, when="2027-03-08 20:00"),
            hands_in(ALL, when="2027-03-09 20:00", later=True),
        ),
        (2, 0, 0, 3, 0),
    ),
    "vera": Person("Vogt", "Vera", (hands_in(ALL, file="vear.ipynb"),), None),
    # Hostile.
    "walt": Person(
        "=SUM(A1:A9)",
        "Walt",
        (hands_in(ALL, {WEIGHTS: CHEATED.format("import os; os._exit(0)")}),),
        (2, 0, 0, 3, 0),
    ),
    "xena": Person(
        "<b>Xu</b>",
        "Xena",
        (hands_in(ALL, {WEIGHTS: CHEATED.format("; ".join(STOP.splitlines())), WHY: FORMULA}),),
        (2, 0, 0, 3, 0),
    ),
    "yan": Person(
        "Yu",
        "Yan",
        (
            hands_in(
                {WEIGHTS: CHEATED.format("return given[0] * 0")},
                own="import numpy as np, torch\nnp.allclose = torch.allclose = lambda *a, **k: True",
            ),
        ),
        (0, 0, 0, 0, 0),
    ),
    "zoe": Person("Zweig", "Zoë", (), None),
}
