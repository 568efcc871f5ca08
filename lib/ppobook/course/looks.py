"""Find oddities in a submission that an instructor may want to look at: notes, never a deduction.

The notes come from a look at the source alone. Who hides what is done is not seen, and what looks copied may
be the one short way to write it; a talk about the code says more.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from ppobook.course.pack import Pack
from ppobook.course.rebuild import RunCell, Unreadable, rebuild
from ppobook.teaching.tags import part

__all__ = ["looks"]

# What a solution has no use for: what the pack calls by itself, and what says how a check is made.
_WORDS = {
    "_form": "the form of a private variant",
    "book_form": "the form of a private variant",
    "__wrapped__": "the function below a private variant",
    "co_consts": "the constants of compiled code",
    "_registry": "the register of checks",
    "get_objects": "every object in memory",
}
_MODULES = ("ppobook.teaching", "ppobook.course")
# Below this many nodes of its tree a function has hardly another form.
_SHORT = 25
_ALIKE = 0.9
_WORD = re.compile(r"[^\W\d]\w*")
_LONGEST = 3000  # nodes; a longer solution is not compared


def looks(pack: Pack, submission: bytes, public: Mapping[str, str]) -> list[str]:
    """Return the oddities in a submission's own cells.

    Parameters
    ----------
    pack : what was handed out
    submission : the bytes of the notebook that was handed in
    public : by part, the source of the solution that anybody can read

    Returns
    -------
    list of str
        Sentences without line breaks, each with the place that it is about.
    """
    try:
        cells = rebuild(pack.notebook, submission).cells
    except Unreadable:
        return []
    given = {cell["source"].strip() for cell in pack.notebook["cells"]}
    known = {
        p.name: cell["source"]
        for cell in pack.notebook["cells"]
        if (p := part(cell)) and p.role == "solution"
    }
    library = _library(cells)
    found: list[str] = []
    for cell in cells:
        if cell.kind == "pack" or cell.source.strip() in given:
            continue
        found += (f"{cell.place}: {said}" for said in _said(cell, public))
        if cell.kind == "solution":
            beside = _WORD.findall(known.get(cell.name, "") + public.get(cell.name, ""))
            for name in sorted(library.intersection(_WORD.findall(cell.source)).difference(beside)):
                found.append(f"{cell.place}: uses `{name}`, which the pack imports from the book's library")
    return list(dict.fromkeys(found))[:50]


def _library(cells: list[RunCell]) -> set[str]:
    """The functions of the book's library that the pack imports."""
    found: set[str] = set()
    for cell in cells:
        if cell.kind != "pack":
            continue
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:  # such as a magic
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ppobook."):
                found |= {alias.asname or alias.name for alias in node.names}
    return found - {"check"}


def _said(cell: RunCell, public: Mapping[str, str]) -> Iterator[str]:
    try:
        tree = ast.parse(cell.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    try:
        for node in ast.walk(tree):
            yield from _reached(node, functions if cell.kind == "solution" else set())
        own = _shapes(tree)
        for name, source in public.items():
            if _alike(own, _shapes(ast.parse(source))):
                yield f"looks like the public solution of {name}"
    except RecursionError:
        return


def _reached(node: ast.AST, functions: set[str]) -> Iterator[str]:
    """Return the names in a node that a solution has no use for."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in _WORDS:
        name = node.value
    if name in _WORDS:
        yield f"looks at {_WORDS[name]} (`{name}`)"
    if name.removeprefix("book_") in functions and name != name.removeprefix("book_"):
        yield f"calls `{name}`, the form that the pack makes of this function"
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom):
        modules += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    for module in modules:
        if module.startswith(_MODULES) and not _plain_check(node):
            yield f"imports `{module}`"
        if module == "ppobook.objectives":
            yield "imports the book's own functions (`ppobook.objectives`)"


def _plain_check(node: ast.AST) -> bool:
    """Return whether it is the import that every pack has, of `check` and the drawing modules."""
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "ppobook.teaching"
        and {alias.name for alias in node.names} <= {"check", "style", "cards", "quiz"}
    )


# --- whether two sources are alike --------------------------------------------------------------------------


def _shapes(tree: ast.AST) -> list[list[str]]:
    """Return the kinds of each function's nodes in order, without docstrings or names.

    So new names, comments and line breaks change nothing; what is called stays.
    """
    return [_shape(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _shape(function: ast.FunctionDef) -> list[str]:
    body = function.body[ast.get_docstring(function) is not None :]
    found: list[str] = []
    left: list[ast.AST] = [*reversed(body)]
    while left and len(found) <= _LONGEST:
        node = left.pop()
        if isinstance(node, ast.expr_context):
            continue
        kind = type(node).__name__
        if isinstance(node, ast.Attribute):
            kind += f".{node.attr}"
        elif isinstance(node, ast.Constant):
            kind += f" {re.sub(r'[^0-9.eE-]', '', repr(node.value))[:20]}"
        found.append(kind)
        left += reversed([*ast.iter_child_nodes(node)])
    return found


def _alike(own: list[list[str]], public: list[list[str]]) -> bool:
    """Return whether a function has nearly the shape of the longest public one, in a wrapper or not."""
    wanted = max(public, key=len, default=[])
    if not _SHORT <= len(wanted) <= _LONGEST:
        return False
    return any(_share(one, wanted) >= _ALIKE for one in own)


def _share(one: list[str], other: list[str]) -> float:
    """The share of runs of three nodes that two shapes have in common, by the longer one."""
    runs = [Counter(zip(x, x[1:], x[2:], strict=False)) for x in (one, other)]
    most = max(sum(runs[0].values()), sum(runs[1].values()), 1)
    return sum((runs[0] & runs[1]).values()) / most
