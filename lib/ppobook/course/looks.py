"""Notes on a submission for the instructor: what was seen in its source, never a deduction.

Only cells that differ from what the student was handed are read, whatever their formatting. The notes are
easy to avoid and may name somebody who found the short way; a talk about the code says more.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from ppobook.course.rebuild import RunCell, Unreadable, rebuild
from ppobook.course.records import Pack
from ppobook.course.sources import lines, parsed, plain
from ppobook.teaching.tags import Notebook

_CALLED = {"exec", "eval", "compile", "__import__"}
_DECODING = {"a85decode", "b32decode", "b64decode", "b85decode", "decompress", "fromhex", "unhexlify"}
# A model answer with less than this of its own has hardly another form.
_LINES, _CHARACTERS = 3, 80
_MOST = 50


class Looks:
    """Finds notes on the cells of submissions that are the student's own, each with its place.

    `model` has by part the source of the solution that anybody can read, `handed_out` all notebooks that
    students were handed for the assignment.
    """

    def __init__(self, pack: Pack, model: Mapping[str, str], handed_out: Collection[Notebook]) -> None:
        self.pack, self.model = pack, model
        code = [cell for notebook in handed_out for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.same = {plain(cell["source"]) for cell in code}
        trees = [tree for cell in code if (tree := parsed(cell["source"])) is not None]
        self.modules = {module for tree in trees for module in _imports(tree)} | {"ppobook.teaching"}
        self.lines = {line for tree in trees for line in lines(tree)}

    def of(self, submission: bytes) -> list[str]:
        try:
            cells = rebuild(self.pack.notebook, submission).cells
            own = (cell for cell in cells if cell.kind != "pack" and plain(cell.source) not in self.same)
            found = [f"{cell.place}: {said}" for cell in own for said in self.notes(cell)]
        except Unreadable:
            return []
        except Exception as error:  # a note must not cost points
            return [f"its cells could not be looked at ({type(error).__name__})"]
        return list(dict.fromkeys(found))[:_MOST]

    def notes(self, cell: RunCell) -> Iterator[str]:
        tree = parsed(cell.source)
        if tree is None:
            yield "is no Python that can be read, so it was not looked at"
            return
        for node in ast.walk(tree):
            name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
            if isinstance(node, ast.Name) and name in _CALLED:
                yield f"uses `{name}`"
            if name in _DECODING:
                yield f"decodes something (`{name}`)"
        for module in _imports(tree):
            if module.startswith("ppobook.") and module not in self.modules:
                yield f"imports `{module}`, which the pack does not"
        if cell.kind == "solution" and cell.name in self.model:
            answer = parsed(self.model[cell.name]) or ast.Module([], [])
            theirs, ours = ([line for line in lines(one) if line not in self.lines] for one in (tree, answer))
            if len(ours) >= _LINES and len("".join(ours)) >= _CHARACTERS and _within(ours, theirs):
                yield f"has the {len(ours)} lines of the book's solution"


def _imports(tree: ast.AST) -> Iterator[str]:
    """The modules that a tree imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _within(ours: list[str], theirs: list[str]) -> bool:
    return any(theirs[i : i + len(ours)] == ours for i in range(len(theirs) - len(ours) + 1))
