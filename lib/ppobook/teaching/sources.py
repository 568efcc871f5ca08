"""The library's code as a chapter prints it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def source_of(function: Callable[..., Any]) -> str:
    """Return the source of a function or method as it runs, without its docstring."""
    source = textwrap.dedent(inspect.getsource(function))
    first = ast.parse(source).body[0].body[0]  # type: ignore[attr-defined]
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
        return source.rstrip()
    lines = source.splitlines()
    return "\n".join(lines[: first.lineno - 1] + lines[first.end_lineno :]).rstrip()
