"""The planted answers of the checks' tests, in the process of a sandbox."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import answers

HERE = Path(answers.__file__).parent


def cell() -> str:
    """A cell that makes the modules of `answers` importable where it runs."""
    files = {
        str(path.relative_to(HERE.parent)): path.read_text(encoding="utf-8")
        for path in sorted(HERE.rglob("*.py"))
    }
    files["checks.py"] = "Right = Wrong = Unnamed = Answer = dict"
    return f"""
import importlib, pathlib, sys
for name, source in {files!r}.items():
    path = pathlib.Path("/tmp/planted", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
sys.path.insert(0, "/tmp/planted")

def planted(module, table, name, *keys):
    found = getattr(importlib.import_module(module), table)[name]
    for key in keys:
        found = found[key]
    return found
"""


def planted() -> Iterator[tuple[str, str, str, tuple[str | int, ...]]]:
    """Each planted answer: its module, its table, the exercise, and the keys below that."""
    for found in pkgutil.walk_packages([str(HERE)], "answers."):
        module = importlib.import_module(found.name)
        for table in ("RIGHT", "WRONG", "UNNAMED"):
            for name, rows in getattr(module, table, {}).items():
                if isinstance(rows, dict):
                    for mistake, row in rows.items():
                        if isinstance(row, list):
                            yield from ((found.name, table, name, (mistake, k)) for k in range(len(row)))
                        else:
                            yield found.name, table, name, (mistake,)
                else:
                    yield from ((found.name, table, name, (k,)) for k in range(len(rows)))


def here(module: str, table: str, name: str, keys: tuple[str | int, ...]) -> object:
    """One of them in this process."""
    found = getattr(importlib.import_module(module), table)[name]
    for key in keys:
        found = found[key]
    return found
