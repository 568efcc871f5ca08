"""Digests of what the outputs of a notebook depend on."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from ppobook.teaching.tags import Notebook


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@functools.cache
def code_digest(source: str) -> str:
    """A digest of what a module does: its syntax tree, less docstrings, the same on every Python of the book.

    `ast.dump` differs between Pythons: in empty fields, and in how the text of an f-string is split.
    """
    return digest(repr(_plain(ast.parse(source))))


def _plain(node: Any) -> Any:
    if isinstance(node, ast.AST):
        fields = dict(ast.iter_fields(node))
        if isinstance(node, ast.JoinedStr):
            fields["values"] = _joined(node.values)
        names = sorted(fields.keys() - {"kind", "type_comment"})
        plain = ((name, _plain(fields[name])) for name in names)
        return (type(node).__name__, *((name, value) for name, value in plain if value not in (None, [])))
    if isinstance(node, list):
        return [_plain(item) for item in node if not _is_remark(item)]
    # The repr of a constant distinguishes 1 from 1.0 and from True.
    return repr(node) if node is not None else None


def _is_remark(node: Any) -> bool:
    """Return whether a statement is only a string: a docstring, or a note below an attribute."""
    alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return alone and isinstance(node.value.value, str)


def _joined(values: list[ast.expr]) -> list[ast.expr]:
    merged: list[ast.expr] = []
    for value in values:
        if isinstance(value, ast.Constant) and merged and isinstance(merged[-1], ast.Constant):
            merged[-1] = ast.Constant(f"{merged[-1].value}{value.value}")
        else:
            merged.append(value)
    return [value for value in merged if not (isinstance(value, ast.Constant) and value.value == "")]


def _module_file(name: str, root: Path) -> Path | None:
    path = root / "lib" / Path(*name.split("."))
    candidates = (path / "__init__.py", path.with_suffix(".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _file_digest(path: Path) -> str:
    # Line ends differ between checkouts on Windows and elsewhere.
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:16]


def _pins_digest(root: Path) -> str:
    path = root / "constraints.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return digest(*(pin for line in lines if (pin := line.split("#")[0].strip())))


def code_cells_digest(notebook: Notebook) -> str:
    return digest(*(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"))


def outputs_digest(notebook: Notebook) -> str:
    outputs = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return digest(json.dumps(outputs, sort_keys=True))


def record(notebook: Notebook, modules: list[str], files: list[str], root: Path) -> dict[str, Any]:
    """Return what the outputs of an executed notebook depend on, as digests, to be kept in its metadata."""
    kept: dict[str, Any] = {
        "code": code_cells_digest(notebook),
        "outputs": outputs_digest(notebook),
        "modules": {},
        "files": {},
    }
    for name in modules:
        path = _module_file(name, root)
        if path is not None:
            kept["modules"][name] = code_digest(path.read_text(encoding="utf-8"))
    for path in map(Path, sorted(files)):  # (a reader has those of the checkout only)
        kept["files"][path.relative_to(root.resolve()).as_posix()] = _file_digest(path)
    kept["constraints"] = _pins_digest(root)
    return kept


def changes(kept: dict[str, Any], notebook: Notebook, root: Path) -> list[str]:
    """Why stored outputs no longer stand for what the notebook would do now."""
    said = []
    if kept["code"] != code_cells_digest(notebook):
        said.append("its code cells changed since it was executed")
    for name, digest in kept["modules"].items():
        path = _module_file(name, root)
        if path is None:
            said.append(f"it imported {name}, which is gone")
        elif code_digest(path.read_text(encoding="utf-8")) != digest:
            said.append(f"{path.relative_to(root).as_posix()} changed")
    for file, digest in kept["files"].items():
        if not (root / file).is_file():
            said.append(f"it read {file}, which is gone")
        elif _file_digest(root / file) != digest:
            said.append(f"{file} changed")
    if kept["constraints"] != _pins_digest(root):
        said.append("constraints.txt pins other versions")
    return said
