"""The table of notation: each name in it is one that the library uses."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "reference" / "notation.md").read_text(encoding="utf-8")
ROWS = [line.strip("|").split("|") for line in PAGE.splitlines() if re.match(r"\| (?!symbol)", line)]


@pytest.fixture(scope="module")
def names():
    """Names of arguments, fields and functions of the library."""
    found = set()
    for path in (ROOT / "lib" / "ppobook").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def test_each_row_has_two_columns_and_says_what_it_is():
    assert len(ROWS) > 20
    assert all(len(row) == 2 and row[1].strip() for row in ROWS), ROWS


def test_each_name_is_the_librarys(names):
    in_code = [name for row in ROWS for name in re.findall(r"`(\w+)(?:\(\))?`", row[0])]
    assert len(in_code) > 15
    assert not [name for name in in_code if name not in names]


def test_no_symbol_and_no_name_stands_twice():
    signs = [sign for row in ROWS for sign in re.findall(r"`[^`]+`|\$[^$]+\$", row[0])]
    assert len(signs) == len(set(signs))
