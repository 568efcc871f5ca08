"""Find the pack's own code that has to run before a student's answer can be tested.

A notebook also shows things: it trains with the reader's function, prints a table, draws. Nobody looks at
this when a submission is graded, and it is most of the cost. So of the pack's cells only those statements
are run that make a name which the student's cells, the tests, or other such statements use. The student's
own cells are run whole; where they could reach for names that can't be seen in them, everything is run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from .rebuild import RunCell
from .sources import check_call, names

# With these, code can use names that don't stand in it.
_REACHING = {
    *("globals", "locals", "vars", "dir", "eval", "exec", "get_ipython", "__import__", "importlib"),
    *("inspect", "gc", "sys", "__main__", "__builtins__", "builtins", "__dict__", "__globals__"),
}
# A call of a module that begins like this changes how others behave.
_SETTING = ("set_", "seed", "manual_seed", "register", "use", "simplefilter", "filterwarnings", "update")
_WORD = re.compile(r"[^\W\d]\w*")


def needed(cells: list[RunCell], asked: Iterable[str] = ()) -> list[RunCell]:
    """The cells with what nobody needs left out of the pack's; line numbers stay.

    `asked` are the expressions that the grader will ask for.
    """
    theirs = [cell.source for cell in cells if cell.kind != "pack"]
    if any(_REACHING.intersection(_WORD.findall(source)) for source in theirs):
        return cells
    wanted = set().union(*map(_used, theirs), *map(_used, asked))
    statements: list[tuple[int, ast.stmt]] = []
    imported: set[str] = set()
    for index, cell in enumerate(cells):
        try:
            body = ast.parse(cell.source).body if cell.kind == "pack" else []
        except SyntaxError:  # such as a magic
            return cells
        for statement in body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                imported |= _defined(statement)
            if check_call(statement):
                wanted |= _used(ast.unparse(statement))
            else:
                statements.append((index, statement))
    lines: dict[int, set[int]] = {}
    found: list[tuple[int, ast.stmt]] | None = None
    while found is None or found:
        found = [one for one in statements if wanted.intersection(_made(one[1], imported))]
        statements = [one for one in statements if one not in found]
        for index, statement in found:
            wanted |= _used(ast.unparse(statement))
            first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
            lines.setdefault(index, set()).update(range(first, (statement.end_lineno or first) + 1))
    return [
        replace(cell, source=_only(cell.source, lines.get(index, set()))) if cell.kind == "pack" else cell
        for index, cell in enumerate(cells)
    ]


def _only(source: str, lines: set[int]) -> str:
    found = (line if number in lines else "" for number, line in enumerate(source.split("\n"), start=1))
    return "\n".join(found).rstrip()


def _used(source: str) -> set[str]:
    """The names that code takes from around it; every word of it, where it's no Python."""
    found = names(source)
    return set(_WORD.findall(source)) if found is None else found.used


def _defined(statement: ast.stmt) -> set[str]:
    found = names(ast.unparse(statement))
    return found.defined if found else set()


def _made(statement: ast.stmt, imported: set[str]) -> Iterator[str]:
    """The names that a statement makes, or whose objects it may change."""
    yield from _defined(statement)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield from _base(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            for base in _base(node.func):
                if base not in imported or node.func.attr.startswith(_SETTING):
                    yield base


def _base(node: ast.expr) -> Iterator[str]:
    """The name that `a.b[c].d` begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
