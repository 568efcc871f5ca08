"""Units: how a number, a tensor or a table is said in a course, and the way back to the book.

A unit is named in text, as the declarations have it: "percent", "times:3" with a parameter, "bits each" for
each entry of a list, "square or none" where None may come, "negated then percent" for one after the other.
Both ways are kept as expressions, so that what is computed and what a reference solution shows are the same.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ppobook.teaching.checks.findings import Stop, words

__all__ = ["expression", "said", "to_book", "to_course", "translate"]

# Name: from the book's form to the course's, the way back, and what a statement says of it.
UNITS: dict[str, tuple[str, str, str]] = {
    "negated": ("-{x}", "-{x}", "{name} has the opposite sign"),
    "times": ("{k} * {x}", "{x} / {k}", "{name} is {k} times as large"),
    "plus": ("{x} + {k}", "{x} - {k}", "{name} is larger by {k}"),
    "percent": ("100 * {x}", "{x} / 100", "{name} is in percent"),
    "thousandths": ("1000 * {x}", "{x} / 1000", "{name} is in thousandths"),
    "bits": ("{x} / math.log(2)", "{x} * math.log(2)", "{name} is in bits (logarithms to the base 2)"),
    "inverse": ("1 / {x}", "1 / {x}", "{name} is given as 1/x in place of x"),
    "horizon": (
        "(math.inf if {x} == 1 else 1 / (1 - {x}))",
        "1 - 1 / {x}",
        "{name} is given as a horizon, 1/(1 − x) in place of x, which is infinite for x = 1",
    ),
    "complement": ("1 - {x}", "1 - {x}", "{name} is given as 1 − x in place of x"),
    "flipped": ("~{x}", "~{x}", "{name} is `True` where the book has `False`, and the other way round"),
    "not": ("not {x}", "not {x}", "{name} is `True` where the book has `False`, and the other way round"),
    "log": ("math.log({x})", "math.exp({x})", "{name} is given as ln x in place of x"),
    "exp": ("math.exp({x})", "math.log({x})", "{name} is given as exp(x) in place of x"),
    "log10": ("math.log10({x})", "10**{x}", "{name} is given as log10(x) in place of x"),
    "square": ("{x} ** 2", "{x} ** 0.5", "{name} is given as its square"),
    "root": ("{x} ** 0.5", "{x} ** 2", "{name} is given as its square root"),
    "logs": ("{x}.log()", "{x}.exp()", "{name} is given as natural logarithms"),
    "exps": ("{x}.exp()", "{x}.log()", "{name} is given as exponentials"),
    "softmax": ("{x}.softmax(-1)", "{x}.log()", "{name} is given as probabilities"),
    "np-logs": ("np.log({x})", "np.exp({x})", "{name} is given as natural logarithms"),
    "np-exps": ("np.exp({x})", "np.log({x})", "{name} is given as exponentials"),
    "swapped": ("{x}.swapaxes(0, 1)", "{x}.swapaxes(0, 1)", "{name} has its first two axes exchanged"),
    "reversed": ("{x}[::-1]", "{x}[::-1]", "{name} is in the opposite order"),
    "axes": ("np.transpose({x}, ({k}))", "np.transpose({x}, np.argsort(({k})))", "{name} has other axes"),
    "columns": (
        "{x}[:, [{k}]]",
        "{x}[:, [({k}).index(i) for i in range({x}.shape[1])]]",
        "{name} has its columns in another order",
    ),
    "turned": ("({x}[1], {x}[0])", "({x}[1], {x}[0])", "{name} is in the opposite order"),
    "middle": (
        "(({x}[0] + {x}[1]) / 2, ({x}[1] - {x}[0]) / 2)",
        "({x}[0] - {x}[1], {x}[0] + {x}[1])",
        "{name} is given as its middle and half its width",
    ),
    "width": (
        "({x}[0], {x}[1] - {x}[0])",
        "({x}[0], {x}[0] + {x}[1])",
        "{name} is given as its lower end and its width",
    ),
    # A table that is filled by hand: the columns that grow with an advantage, counted from the last, since a
    # row may begin with its key; and by how much.
    "table": (
        "{r: tuple(v * {k1} if i - len(row) in ({k0},) else v for i, v in enumerate(row)) "
        "for r, row in {x}.items()}",
        "rows({x}, lambda row: tuple(v / {k1} if i - len(row) in ({k0},) else v for i, v in enumerate(row)))",
        "{name} has larger entries",
    ),
    "slopes": (
        "{(r, {k0} * a): tuple({k1} * {k0} * v for v in row) for (r, a), row in {x}.items()}",
        "rows({x}, lambda row: "
        "tuple(v / ({k1} * {k0}) if i - len(row) >= -2 else v for i, v in enumerate(row)), "
        "lambda case: (case[0], case[1] / {k0}))",
        "{name} has larger entries",
    ),
    # A table of lists whose entries stand in another order.
    "places": (
        "{key: [v[i] for i in ({k})] for key, v in {x}.items()}",
        "rows({x}, lambda row: [row[({k}).index(i)] for i in range(len(row))])",
        "The entries of {name} stand in another order",
    ),
    # A function that comes back.
    "costs": (
        "lambda *given, f={x}: -f(*given)",
        "lambda *given, f={x}: -f(*given)",
        "{name} gives the opposite sign",
    ),
    "by-feature": (
        "lambda rows, f={x}: f(rows.swapaxes(0, 1))",
        "lambda rows, f={x}: f(rows.swapaxes(0, 1))",
        "{name} takes its argument with the first two axes exchanged",
    ),
    "signed": ("2 * {x} - 1", "({x} + 1) / 2", "{name} runs from -1 to 1"),
    "moment": ("{x} + 1", "{x} - 1", "{name} is larger by one"),
}


def rows(table: Any, row: Callable[[Any], Any], key: Callable[[Any], Any] = lambda key: key) -> Any:
    """A table with its rows changed, and the keys of a dictionary; without keys it is rows one by one."""
    if isinstance(table, dict):
        return {key(name): row(one) for name, one in table.items()}
    return [row(one) for one in table]


def _split(unit: str) -> tuple[tuple[str, str, str], str, int]:
    """The expressions of one unit, its parameter, and how deep in lists it stands."""
    name, _, depth = unit.removesuffix(" or none").partition(" ")
    name, _, parameter = name.partition(":")
    if name not in UNITS or depth.replace("each", "").strip():
        raise ValueError(f"unit must be one of {', '.join(UNITS)}, got {unit!r}.")
    return UNITS[name], parameter, depth.count("each")


def expression(unit: str, x: str, *, back: bool) -> str:
    """Return the Python that converts `x` to the course's form or, with `back`, to the book's."""
    steps = unit.split(" then ")
    for step in reversed(steps) if back else steps:
        ways, parameter, depth = _split(step)
        inner = "x" if depth else (x if x.isidentifier() or x.endswith("]") else f"({x})")
        text = ways[back].replace("{k}", parameter)
        for number, piece in enumerate(parameter.split(":")):
            text = text.replace(f"{{k{number}}}", piece)
        text = text.replace("{x}", inner)
        for level in range(depth):
            inside = x if level == depth - 1 else "x"
            text = f"[{text} for x in {inside}]"
        x = f"(None if {x} is None else {text})" if step.endswith(" or none") else text
    return x


def said(unit: str, name: str) -> str:
    """Return the statement's text on `name` in this unit, without the full stop."""
    sentences = []
    for step in unit.split(" then "):
        ways, parameter, _ = _split(step)
        sentences.append(ways[2].replace("{k}", parameter).replace("{name}", name))
    return ", and ".join(sentences)


@functools.cache
def _compiled(unit: str, back: bool) -> Callable[[Any], Any]:
    code = compile(f"lambda x: {expression(unit, 'x', back=back)}", f"<unit {unit}>", "eval")
    # Only the expressions above are evaluated, with the parameters of a declaration of the instructor's.
    return eval(code, {"math": math, "np": np, "rows": rows})


def to_course(unit: str, value: Any) -> Any:
    """A value of the book in the course's unit; None and text stay as they are."""
    return value if value is None or isinstance(value, str) else _compiled(unit, False)(value)


def to_book(unit: str, value: Any) -> Any:
    """A value of the course in the book's unit; None stays.

    Raises
    ------
    Stop
        It cannot be converted. Left as it is, it would pass where it is right in the book's unit.
    """
    if value is None:
        return None
    if _has_blank(value):
        raise Stop("returned", "an entry is still empty", "There is still an entry to fill.")
    convert = _compiled(unit, True)
    # Numbers may come in a list, in text, or as an array where the unit is written for tensors.
    for form in (lambda x: x, _array, _tensor):
        try:
            with np.errstate(all="ignore"):
                return convert(form(value))
        except (TypeError, AttributeError, ValueError, IndexError, KeyError, ArithmeticError, RuntimeError):
            continue
    raise Stop("returned", "not in this course's form", f"It cannot be read as stated: {words(value)}.")


def _has_blank(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return value is ... or (isinstance(value, list | tuple) and any(map(_has_blank, value)))


def _array(value: Any) -> np.ndarray:
    found = np.asarray(value.detach() if hasattr(value, "detach") else value)
    return found if found.dtype.kind in "biuf" else found.astype(np.float64)


def _tensor(value: Any) -> Any:
    import torch  # a command that makes a pack starts without it

    return torch.from_numpy(_array(value))


def translate(value: Any, mapping: dict[Any, Any]) -> Any:
    """A dictionary with its keys renamed, and anything else as it is."""
    return (
        {mapping.get(key, key): entry for key, entry in value.items()} if isinstance(value, dict) else value
    )
