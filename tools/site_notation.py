"""The notation ledger; conf.py loads this file as an extension.

`{notation} NAME` shows a table of reference/notation.toml: symbol, name in the library, what it is, shape,
unit, and the chapter in which it is first met, which is looked up in the chapters' text. A test holds the
names and the shapes against the library.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from sphinx.application import Sphinx

from site_way_in import Written

DATA: Final = "reference/notation.toml"
FORMULA: Final = re.compile(r"\{math\}`([^`]+)`|^\$\$\n(.*?)^\$\$", re.M | re.S)
#: TeX that changes the look of a formula and not what it says.
LOOK: Final = re.compile(r"[{}]|\\(?:[bB]igg?[lr]?|left|right|q?quad|[,;:!. ])")


def tokens_of(tex: str) -> list[str]:
    r"""`\pi_{\theta}` as `\pi`, `_`, `\theta`."""
    found = re.findall(r"\\[A-Za-z]+|\\.|[^\s]", tex)
    return [token for token in found if not LOOK.fullmatch(token)]


def in_formulas(symbol: str, chapter: str) -> bool:
    """Return whether a symbol stands in a formula of a chapter's text."""
    wanted = tokens_of(symbol)
    for found in FORMULA.finditer(chapter):
        tokens = tokens_of(found[1] or found[2])
        for at in range(len(tokens) - len(wanted) + 1):
            if tokens[at : at + len(wanted)] == wanted:
                return True
    return False


def first_chapter(row: dict[str, Any], chapters: dict[str, str]) -> str:
    """The first chapter, by name, that has a row's symbol; or its name in code, where the row says so.

    Raises
    ------
    LookupError
        No chapter has it.
    """
    seek = row.get("seek") or (row["symbols"][0] if row["symbols"] else "name")
    for name, text in sorted(chapters.items()):
        if seek == "name":
            met = any(re.search(rf"\b{re.escape(one)}\b", text) for one in row["names"])
        else:
            met = in_formulas(seek, text)
        if met:
            return name
    raise LookupError(f"{seek} must stand in a chapter, and stands in none: {row['what']}")


def link_of(name: str, place: str) -> str:
    """A name in code, as a link to where the library has it."""
    target = place.partition(":")[0]
    return f"{{py:obj}}`{name} <ppobook.{target}>`"


def line_of(row: dict[str, Any], chapter: str) -> str:
    """A row as a line of a table."""
    symbols = ", ".join(f"${symbol}$" for symbol in row["symbols"])
    names = ", ".join(link_of(name, row["places"][name]) for name in row["names"])
    shape = f"`{row['shape']}`" if "shape" in row else ""
    met = f"[{int(chapter[:2])}](/chapters/{chapter}.ipynb)"
    return f"| {symbols} | {names} | {row['what']} | {shape} | {row.get('unit', '')} | {met} |"


def anchor_of(table: str, row: dict[str, Any]) -> str:
    """Return a row's anchor: `symbol-earned-hat-A_t`, of its table and its first symbol or else its name."""
    return f"symbol-{table}-" + re.sub(r"[^A-Za-z0-9_]+", "-", (row["symbols"] or row["names"])[0]).strip("-")


def rows_of(text: str) -> dict[str, list[dict[str, Any]]]:
    """The tables of the data, by name; each row with its symbols, its names and their places."""
    tables = {}
    for name, table in tomllib.loads(text).items():
        tables[name] = [
            {"symbols": [], **row, "places": row.get("code", {}), "names": list(row.get("code", {}))}
            for row in table["rows"]
        ]
    return tables


class Notation(Written):
    """`{notation} NAME`: a table of symbols."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row a symbol."""
        names = sorted(path.stem for path in Path(self.env.srcdir).glob("chapters/*.md"))
        chapters = {name: self.read(f"chapters/{name}.md") for name in names}
        lines = ["| symbol | in code | what it is | shape | unit | chapter |", "|---|---|---|---|---|---|"]
        rows = rows_of(self.read(DATA))[self.arguments[0]]
        lines += [line_of(row, first_chapter(row, chapters)) for row in rows]
        block = self.block("symbols", lines)  # (sphinx-proof has a style of its own for "notation")
        for row, shown in zip(rows, list(block[0].findall(nodes.row))[1:], strict=True):
            shown["ids"].append(anchor_of(self.arguments[0], row))
        return block


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("notation", Notation)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
