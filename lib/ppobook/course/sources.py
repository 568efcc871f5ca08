"""Sources of cells, read so that their formatting makes no difference."""

from __future__ import annotations

import ast
import functools
import re

__all__ = ["lines", "parsed", "plain"]

# What a notebook takes beside Python: magics, shell commands, questions.
_MAGIC = re.compile(r"^([ \t]*)(?:[%!?].*|.*\?)$", re.M)
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


@functools.lru_cache(maxsize=4096)
def plain(source: str, code: bool = True) -> str:
    """Return a source in a form that white space, line ends and, in code, quotes and comments don't change."""
    tree = parsed(source) if code else None
    return " ".join(source.split()) if tree is None else ast.dump(tree)


def lines(tree: ast.Module) -> list[str]:
    """Return the lines of a tree as Python itself would write them, without values that are written out.

    Whoever fills a table by hand writes the same numbers.
    """
    return [line.strip() for line in ast.unparse(tree).splitlines() if not _written_out(line.strip())]


def _written_out(line: str) -> bool:
    try:
        (node,) = ast.parse(line).body
    except (SyntaxError, ValueError):  # the head of a function, or none
        return False
    if not isinstance(node, ast.Assign):
        return False
    return not any(isinstance(one, ast.Name | ast.Call) for one in ast.walk(node.value))
