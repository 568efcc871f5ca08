"""Values that a cell prints as true or false, and the names that the verdict depends on."""

from __future__ import annotations

import ast
import re
from typing import Any

from cell_names import names_of

# Calls that answer yes or no.
ANSWERS = {"all", "allclose", "any", "array_equal", "equal", "isclose", "isfinite"}


def prints_a_verdict(cell: dict[str, Any]) -> bool:
    """Return True if its stored output says True or False other than in a line of code that is shown."""
    said = "".join(
        "".join(output.get("text", "")) for output in cell["outputs"] if output["output_type"] == "stream"
    )
    return re.search(r"^(?![-+ ]).*\b(?:True|False)\b", said, re.M) is not None


def printed_names(source: str) -> set[str]:
    """The names in what a cell prints, less those of its loops and functions, and of what it imports."""
    return _of_prints(source, verdicts=False)


def unclaimed(source: str, claimed: set[str]) -> set[str]:
    """Return what claims that read the names `claimed` leave out of the verdicts that a cell prints.

    They have to read every name in a printed comparison. Where the cell prints what it has compared before,
    or a list of answers, they have to read one of the names that it prints or binds.
    """
    compared = _of_prints(source, verdicts=True)
    if compared:
        return compared - claimed
    own = printed_names(source) | _data(source, set(names_of(source).binds))
    return set() if own & claimed else own


def _of_prints(source: str, verdicts: bool) -> set[str]:
    found: set[str] = set()
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "print":
            for argument in [*call.args, *call.keywords]:
                for node in ast.walk(argument):
                    if not verdicts or _is_verdict(node):
                        found |= _loaded(node)
    return _data(source, found)


def _is_verdict(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", getattr(node.func, "id", None)) in ANSWERS
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_not or isinstance(node, ast.Compare | ast.BoolOp)


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _data(source: str, names: set[str]) -> set[str]:
    tree = ast.parse(source)
    other = {name for name, _ in names_of(source).imports} | set(dir(__builtins__)) | {"np", "torch", "pd"}
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            other |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            other.add(node.name)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            other.add(node.func.id)
    return names - other
