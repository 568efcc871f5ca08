"""Declarations: what may vary in each part of a master, from the `.variants.toml` beside it.

A table for each part:

    [pg-loss]
    order = "any"                     # the arguments in any other order; or the names that change places
    outputs = "steps whole"           # several results: they come back in any other order
    choices = [                       # of each row one option is drawn
      [{ result = "negated", say = "It returns the objective to climb, not a loss to descend." }],
      [{}, { mask = "flipped" }],     # {} is the book's own
    ]

An option gives units (`units.UNITS`) by argument, by result, or for "result", all that comes back. Besides it
may hold `say`, its sentence for the statement in place of the units' own; `k`, numbers that make one option
each, with {k} for the number and ⟨3⟩ for three times it; `keys`, the names of a dictionary's entries that
change; `text`, pairs of old and new text for the cells of the notebook; `bug`, what is wrong in a Hunt whose
`text` plants another bug; `hints = "dropped"` where the hints would speak of something else; `rubric`, for
what a person marks in that exercise, in place of the master's. `letters` are the cases of a clinic, which are
lettered in another way. `practice` says why a part does not vary.
"""

from __future__ import annotations

import ast
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppobook import _reads
from ppobook.course import masters

from .units import expression

__all__ = ["Declaration", "Option", "beside", "declared", "lettered", "permutation"]

_WORDS = ("say", "k", "keys", "text", "hints", "bug", "rubric")


@dataclass(frozen=True)
class Option:
    """One way in which a part may differ: units by name, sentences, and changes of the exercise's text."""

    units: Mapping[str, str] = field(default_factory=dict)
    say: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    text: tuple[tuple[str, str], ...] = ()
    hints: bool = True
    bug: str = ""
    rubric: str = ""


@dataclass(frozen=True)
class Declaration:
    """The variations allowed in one part, and the signature of its function in the book."""

    part: str
    function: str
    parameters: tuple[str, ...]
    optional: tuple[str, ...]
    moving: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    choices: tuple[tuple[Option, ...], ...] = ()
    letters: str = ""
    letters_text: tuple[tuple[str, str], ...] = ()
    practice: str = ""

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of possibilities of each twist: order, outputs, letters, then the choices."""
        orders, returns = (math.factorial(len(n)) - 1 if n else 1 for n in (self.moving, self.outputs))
        letters = math.factorial(len(self.letters) - 1) if self.letters else 1
        return (orders, returns, letters, *map(len, self.choices))

    @property
    def count(self) -> int:
        """The number of variants that can be drawn; 0 for a part that is for practice only."""
        return 0 if self.practice else math.prod(self.counts)


def permutation(items: Sequence[str], number: int) -> tuple[str, ...]:
    """The permutation of that number, from 0, in the order of `itertools.permutations`."""
    left, found = list(items), []
    for size in range(len(left), 0, -1):
        place, number = divmod(number, math.factorial(size - 1))
        found.append(left.pop(place))
    return tuple(found)


def lettered(letters: str, number: int) -> dict[str, str]:
    """Another letter for each letter: the book's, and the course's. `number` says which of the ways."""
    first, *others = list(letters)
    ring = [first, *permutation(others, number)]
    return dict(zip(ring, [*ring[1:], first], strict=True))


def beside(master: str | Path) -> Path:
    """The file of declarations that belongs to a master, whether it is there or not."""
    path = Path(master)
    return path.with_name(f"{path.stem}.variants.toml")


def declared(master: str | Path) -> dict[str, Declaration]:
    """Read the declared variations of each part of a master; none without a file.

    Raises
    ------
    ValueError
        A declaration names a part, an argument or a unit that there is not.
    """
    path = beside(master)
    if not path.exists():
        return {}
    tables = tomllib.loads(_reads.note(path).read_text(encoding="utf-8"))
    solutions = {name: s for name, s in masters.solutions(master).items() if s.kind == "code"}
    found = {}
    for part, table in tables.items():
        if part not in solutions:
            raise ValueError(f"{path.name}: part must be one of the master's, got {part!r}.")
        try:
            found[part] = _declaration(part, table, solutions[part].source)
        except ValueError as error:
            raise ValueError(f"{path.name}, {part}: {error}") from None
    return found


def function_of(source: str) -> ast.FunctionDef:
    """The function that a solution's cell defines: the last one at its top level."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    if not functions:
        raise ValueError("source must define a function, got none.")
    return functions[-1]


def _declaration(part: str, table: Mapping[str, Any], source: str) -> Declaration:
    function = function_of(source)
    names = [argument.arg for argument in function.args.args]
    needed = len(names) - len(function.args.defaults)
    required, optional = tuple(names[:needed]), tuple(names[needed:])
    unknown = set(table) - {"order", "outputs", "choices", "letters", "letters_text", "practice"}
    if unknown:
        raise ValueError(f"a declaration must have no other words, got {', '.join(sorted(unknown))}.")
    order = table.get("order", "")
    moving = required if order == "any" else tuple(order.split())
    if not set(moving) <= set(required):
        raise ValueError(f"order must name arguments without a default, got {order!r}.")
    outputs = tuple(table.get("outputs", "").split())
    known = {*names, *outputs, "result"}
    choices = tuple(
        tuple(o for row in rows for o in _options(row, known)) for rows in table.get("choices", ())
    )
    made = Declaration(
        part=part,
        function=function.name,
        parameters=required,
        optional=optional,
        moving=moving,
        outputs=outputs,
        choices=choices,
        letters=table.get("letters", ""),
        letters_text=tuple((old, new) for old, new in table.get("letters_text", ())),
        practice=table.get("practice", ""),
    )
    if not made.practice and (made.count < 1 or made == _nothing(made)):
        raise ValueError("a declaration must vary something or say practice, got neither.")
    return made


def _nothing(made: Declaration) -> Declaration:
    return Declaration(made.part, made.function, made.parameters, made.optional)


def _options(row: Mapping[str, Any], known: set[str]) -> Iterator[Option]:
    """The options of one row of the file: one, or one for each `k`."""
    units = {name: unit for name, unit in row.items() if name not in _WORDS}
    if not set(units) <= known:
        raise ValueError(f"an option must name arguments or results, got {', '.join(set(units) - known)}.")
    for k in row.get("k", [None]):
        option = Option(
            units={name: _with(k, unit) for name, unit in units.items()},
            say=_with(k, row.get("say", "")),
            keys=row.get("keys", {}),
            text=tuple((old, _with(k, new)) for old, new in row.get("text", ())),
            hints=row.get("hints", "kept") != "dropped",
            bug=row.get("bug", ""),
            rubric=row.get("rubric", "").strip(),
        )
        for unit in option.units.values():
            expression(unit, "x", back=True)
        yield option


def _with(k: float | None, text: str) -> str:
    """Text with a number put where {k} stands, and its multiples where ⟨2⟩ stands."""
    if k is None:
        return text
    pieces = text.replace("{k}", f"{k:g}").split("⟨")
    out = [pieces[0]]
    for piece in pieces[1:]:
        number, rest = piece.split("⟩", 1)
        out.append(f"{float(number) * k:g}".replace("-", "−" if "−" in text else "-") + rest)
    return "".join(out)
