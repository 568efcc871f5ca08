"""The drill: six formulas from a blank cell, in random order, against the clock.

    from ppobook.teaching.drill import Drill
    drill = Drill(globals())
    drill.next()      # says what to write, and starts the clock
    drill.check()     # stops it, if what was written is right

What is asked for is the blank of an exercise, and the exercise's check judges it. The best time of each
formula is kept in the reader's folder, see `ppobook.teaching.progress`.
"""

from __future__ import annotations

import ast
import random
import time
import tomllib
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent, wrap
from typing import Any

from ppobook.teaching import progress, tags, workspace
from ppobook.teaching.checks import run
from ppobook.teaching.desk import clock

DATA = Path(__file__).with_name("drill.toml")


@dataclass(frozen=True)
class Formula:
    """One formula: its name, its title, the check of its exercise, and what is to be known to write it."""

    name: str
    title: str
    check: str
    ask: str


@dataclass(frozen=True)
class Blank:
    """The given part of an exercise: the function's name, and the text above its body."""

    function: str
    head: str


def formulas() -> tuple[Formula, ...]:
    """All formulas of the drill."""
    data = tomllib.loads(DATA.read_text(encoding="utf-8"))
    return tuple(Formula(name, **entry) for name, entry in data.items())


def blank(check: str, source: str | Path | None = None) -> Blank:
    """The blank of an exercise's part, as the book's exercises have it."""
    for path in sorted((workspace.find_source(source) / "exercises").glob("*.ipynb")):
        if f'"solution:{check}"' not in path.read_text(encoding="utf-8"):
            continue
        notebook = tags.read(path)
        found = next(one for one in tags.parts(notebook) if (one.role, one.name) == ("solution", check))
        text = notebook["cells"][found.index]["source"]
        last = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)][-1]
        stop = last.body[-1].lineno - 1
        return Blank(last.name, "\n".join(text.splitlines()[last.lineno - 1 : stop]))
    raise ValueError(f"check must be the part of an exercise that has a blank, got {check!r}")


class Drill:
    """A round of the drill after another, for the notebook whose names `namespace` holds: its globals().

    `now` is the clock, in seconds; `dice` draws the order; `source` is the book's folder.
    """

    def __init__(
        self,
        namespace: MutableMapping[str, Any],
        *,
        now: Callable[[], float] = time.monotonic,
        dice: random.Random | None = None,
        source: str | Path | None = None,
    ) -> None:
        self._space, self._now, self._dice, self._source = namespace, now, dice or random.Random(), source
        self._all = formulas()
        self._left: list[Formula] = []
        self._times: dict[str, float] = {}  # of this round
        self._asked: tuple[Formula, Blank] | None = None
        self._began = 0.0
        self._best: dict[str, float] = {}
        with suppress(OSError):
            folder = progress.place()
            self._best = progress.best(progress.read(folder)) if folder else {}

    def next(self) -> None:
        """Say which formula to write, forget a function of its name, and start the clock.

        One that was asked for and is not right yet is asked for again, at the end of the round.
        """
        if self._asked is not None:
            self._left.append(self._asked[0])
        if not self._left:
            self._left, self._times = self._dice.sample(self._all, len(self._all)), {}
        formula = self._left.pop(0)
        given = blank(formula.check, self._source)
        self._asked = formula, given
        self._space.pop(given.function, None)
        best = self._best.get(formula.name)
        print(f"{len(self._times) + 1} of {len(self._all)}: {formula.title}. Write it in the blank cell:\n")
        print(indent(given.head, "    "), end="\n\n")
        print("\n".join(wrap(formula.ask, 92)), end="\n\n")
        print(
            "The clock is running." if best is None else f"Your best is {clock(best)}. The clock is running."
        )
        self._began = self._now()

    def check(self) -> None:
        """Check what was written; where it is right, stop the clock and keep the time if it is the best."""
        seconds = self._now() - self._began
        if self._asked is None:
            print("Nothing is asked for: run drill.next() first.")
            return
        formula, given = self._asked
        answer = self._space.get(given.function)
        if not callable(answer):
            print(f"Not yet: there is no function {given.function}. Write it, and run its cell.")
            return
        verdict = run(formula.check, answer)
        print(verdict.message)
        if not verdict.right:
            print(f"\n{clock(seconds)} so far; the clock runs on.")
            return
        self._asked = None
        self._times[formula.name] = seconds
        best = self._best.get(formula.name)
        self._best[formula.name] = min(seconds, seconds if best is None else best)
        said = "" if best is None else f", your best was {clock(best)}"
        print(f"\n{formula.title}: {clock(seconds)}{said}.")
        self._keep(formula.name, seconds)
        if not self._left:
            print(f"\nThe round took {clock(sum(self._times.values()))}. drill.next() begins another.")

    def _keep(self, name: str, seconds: float) -> None:
        with suppress(OSError):
            if folder := progress.place():
                progress.record(folder, drill=name, seconds=round(seconds, 2))
            elif variable := progress.off():
                print(f"(It is not kept, because the environment variable {variable} is set.)")
            else:
                print("(It is kept only in copies that `ppobook work` or `make lab` made.)")

    def __repr__(self) -> str:
        wide = max(len(formula.title) for formula in self._all)
        rows = (
            (formula.title, clock(self._best[formula.name]) if formula.name in self._best else "–")
            for formula in self._all
        )
        return "\n".join(
            [f"{'formula':<{wide}}  best", *(f"{title:<{wide}}  {best}" for title, best in rows)]
        )
