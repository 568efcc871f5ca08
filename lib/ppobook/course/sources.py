"""Sources of cells, read so that their formatting makes no difference."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import symtable
from typing import NamedTuple

# What a notebook takes beside Python: magics, shell commands, questions.
_MAGIC = re.compile(r"^([ \t]*+)(?:[%!?].*|.*\?)$", re.M)
_LONG = 20_000  # characters; a longer source is not kept in memory and compared as text
_WITH_DOCSTRINGS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def parsed(source: str) -> ast.Module | None:
    """Return the tree of a code cell without docstrings and magics; None where it is no Python."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    for attempt in (text, _MAGIC.sub(lambda found: found[1] and f"{found[1]}pass", text)):
        try:
            tree = ast.parse(attempt)
            ast.dump(tree)  # a tree that is too deep for this is too deep for all that follows
        except (SyntaxError, ValueError):
            continue
        except (RecursionError, MemoryError):
            return None
        for node in ast.walk(tree):
            # Formatters indent docstrings anew.
            if isinstance(node, _WITH_DOCSTRINGS) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        return ast.fix_missing_locations(tree)
    return None


def check_call(statement: ast.stmt) -> ast.Call | None:
    """Return the call of `check` that a statement is; None for another statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call if isinstance(call, ast.Call) and ast.unparse(call.func) == "check" else None


def plain(source: str, code: bool = True) -> str:
    """A digest of a source that white space, line ends and, in code, quotes and comments don't change."""
    return _digest(source, code) if len(source) < _LONG else _digest.__wrapped__(source, False)


@functools.lru_cache(maxsize=2048)
def _digest(source: str, code: bool) -> str:
    tree = parsed(source) if code else None
    text = " ".join(source.split()) if tree is None else ast.dump(tree)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def lines(tree: ast.Module) -> list[str]:
    """Return the lines of a tree as Python itself would write them, without values that are written out.

    Whoever fills a table by hand writes the same numbers. A tree too deep to be written has no lines.
    """
    try:
        text = ast.unparse(tree)
    except (RecursionError, ValueError):
        return []
    return [line.strip() for line in text.splitlines() if not _written_out(line.strip())]


def _written_out(line: str) -> bool:
    try:
        (node,) = ast.parse(line).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the head of a function, or none
        return False
    value = node.value if isinstance(node, ast.Assign | ast.Return) else None
    return value is not None and not any(isinstance(one, ast.Name) for one in ast.walk(value))


class Names(NamedTuple):
    """The names that code defines at its top level, and those that it takes from around it."""

    defined: set[str]
    used: set[str]


def names(source: str) -> Names | None:
    """Return the names that code defines and uses; None where it is no plain Python."""
    try:
        top = symtable.symtable(source, "a cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    defined = {
        symbol.get_name()
        for symbol in top.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    used, waiting = set(), [top]
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        own = table.get_type() == "function"
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or not own):
                used.add(symbol.get_name())
    return Names(defined, used)
