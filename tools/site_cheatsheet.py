"""The cheatsheet; conf.py loads this file as an extension.

- `{equations} NAME` shows a group of reference/cheatsheet.toml. The formulas are those of the chapters, found
  by their labels; the file says what each is called, why it is there, and what to link.
- `{settings} NAME` shows a table of settings: the default is read from the library, what was measured from
  the tables in results/.
"""

from __future__ import annotations

import ast
import csv
import re
import tomllib
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from docutils import nodes
from sphinx.application import Sphinx

from site_hooks import settings_of
from site_way_in import Written

DATA: Final = "reference/cheatsheet.toml"
EQUATION: Final = re.compile(r"^\$\$\n(?P<tex>(?:(?!\$\$).*\n)+)\$\$ \((?P<label>[a-z0-9-]+)\)", re.M)
# The mark that ends an equation belongs to the sentence of the chapter.
MARK: Final = re.compile(r"\s*(?<!\\)[,.;](\s*\\end\{\w+\})?$")


def equations_in(text: str) -> dict[str, str]:
    """The labelled equations of a chapter's text, by label."""
    return {
        found["label"]: in_lines(MARK.sub(r"\1", found["tex"].strip())) for found in EQUATION.finditer(text)
    }


def in_lines(tex: str) -> str:
    """Break a formula that goes on after words in two lines: a column of the sheet is narrow."""
    first, words, rest = tex.partition("\n\\qquad \\text{")
    if not words or "\\begin" in tex:
        return tex
    return f"\\begin{{gathered}}\n{first}\\\\\n\\text{{{rest}\n\\end{{gathered}}"


# --- measurements -------------------------------------------------------------------------------------------


def rows_of(text: str, where: dict[str, Any]) -> list[dict[str, str]]:
    """The rows of a table (CSV) in which each of these columns has this value, or one of these."""

    def fits(row: dict[str, str]) -> bool:
        return all(
            any(same(row[column], one) for one in (wanted if isinstance(wanted, list) else [wanted]))
            for column, wanted in where.items()
        )

    return [row for row in csv.DictReader(text.splitlines()) if fits(row)]


def same(cell: str, wanted: Any) -> bool:
    """Return whether a cell holds this value."""
    if isinstance(wanted, str | bool):
        return cell == str(wanted)
    return bool(cell) and float(cell) == wanted


def last_of_each_run(rows: list[dict[str, str]], by: str) -> list[dict[str, str]]:
    """Keep the last row of each run that has a row for each update."""
    if rows and "update" in rows[0]:
        last = {(row[by], row["seed"]): row for row in sorted(rows, key=lambda row: int(row["update"]))}
        return list(last.values())
    return rows


def sweep(tables: list[tuple[str, dict[str, Any]]], by: str, value: str) -> dict[str, list[float]]:
    """Return what each seed came to, for each value of a setting, in the order of the values.

    Each table is its text and what to take of it: `where`, and `add`, columns with one value in all its rows.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for text, take in tables:
        rows = [{**row, **take.get("add", {})} for row in rows_of(text, take.get("where", {}))]
        for row in last_of_each_run(rows, by):
            found[row[by]].append(float(row[value]))
    if any(re.fullmatch(r"[-\d.e]+", key) is None for key in found):
        return dict(found)
    return dict(sorted(found.items(), key=lambda entry: float(entry[0])))


def said(found: dict[str, list[float]], digits: int) -> str:
    """`0.1 → 488, 0.2 → **499** (10 seeds)`: the means, the largest of those that are printed in bold."""
    means = {key: fmean(values) for key, values in found.items()}
    best = f"{max(means.values()):.{digits}f}"
    cells = []
    for key, mean in means.items():
        number = f"{mean:.{digits}f}"
        shown = number.replace("-", "−")
        cells.append(f"{key} → **{shown}**" if number == best else f"{key} → {shown}")
    seeds = {len(values) for values in found.values()}
    return f"{', '.join(cells)} ({' to '.join(map(str, sorted({min(seeds), max(seeds)})))} seeds)"


def presets_of(text: str, setting: str) -> dict[str, Any]:
    """Return what PPO's presets have for a setting, by environment."""
    assigned = (node for node in ast.parse(text).body if isinstance(node, ast.AnnAssign) and node.value)
    presets = next(ast.literal_eval(node.value) for node in assigned if ast.unparse(node.target) == "PPO")
    return {env: own[setting] for env, own in presets.items() if setting in own}


# --- directives ---------------------------------------------------------------------------------------------


class OfTheSheet(Written):
    """A directive that shows a part of the data."""

    required_arguments = 1

    def data(self, table: str) -> dict[str, Any]:
        """Return what the file has under this name."""
        found: dict[str, Any] = tomllib.loads(self.read(DATA))[table][self.arguments[0]]
        return found


class Equations(OfTheSheet):
    """`{equations} NAME`: formulas, each with its number, why it is there, its function and its figure."""

    def run(self) -> list[nodes.Node]:
        """One box a formula."""
        known: dict[str, str] = {}
        for chapter in sorted(Path(self.env.srcdir).glob("chapters/*.md")):
            known |= equations_in(self.read(f"chapters/{chapter.name}"))
        boxes = []
        for entry in self.data("equations")["entries"]:
            boxes += self.block("entry", entry_lines(entry, known))
        return boxes


def entry_lines(entry: dict[str, Any], equations: dict[str, str]) -> list[str]:
    """An entry as MyST."""
    numbers = ", ".join(f"{{eq}}`{label}`" for label in entry["labels"])
    lines = [f"**{entry['name']}** {numbers}", ""]
    for label in entry["labels"]:
        lines += ["$$", *equations[label].splitlines(), "$$", ""]
    links = [f"{{py:obj}}`{place.rpartition('.')[2]} <ppobook.{place}>`" for place in entry["code"]]
    links += [f"{{numref}}`{figure}`" for figure in entry.get("figures", [])]
    return [*lines, *entry["why"].strip().splitlines(), "", " · ".join(links)]


class Settings(OfTheSheet):
    """`{settings} NAME`: a table with the default, the usual range, and what was measured."""

    def run(self) -> list[nodes.Node]:
        """One row a setting."""
        lines = ["| setting | default | usual | measured in this book |", "|---|---|---|---|"]
        for row in self.data("settings")["rows"]:
            symbol = f"${row['symbol']}$ " if "symbol" in row else ""
            stage = re.search(r"language.*\.(?:Lagged)?(\w+)Settings", row["of"])
            of = f" of {stage[1]}" if stage else ""
            cells = [f"{symbol}`{row['name']}`{of}", self.default(row), row["usual"], self.measured(row)]
            lines.append(f"| {' | '.join(cells)} |")
        return self.block("settings", lines)

    def default(self, row: dict[str, Any]) -> str:
        """The library's default."""
        module = row["of"].rpartition(".")[0]
        self.read(f"lib/ppobook/{module.replace('.', '/')}.py")
        defaults = {name: text for name, text, *_ in settings_of(f"ppobook.{row['of']}")}
        return "none" if defaults[row["name"]] == "None" else defaults[row["name"]]

    def measured(self, row: dict[str, Any]) -> str:
        """Return what sweeps and presets say, and where to read on."""
        said_here = []
        if row.get("presets"):
            presets = presets_of(self.read("lib/ppobook/presets.py"), row["name"])
            shown = ", ".join(f"{presets[env]} {env.partition('-')[0]}" for env in row["presets"])
            said_here.append(f"presets: {shown}")
        for one in row.get("sweeps", []):
            tables = [(self.read(f"results/{take['table']}/table.csv"), take) for take in one["tables"]]
            found = sweep(tables, one["by"], one["value"])
            said_here.append(f"{one['title']}: {said(found, one.get('digits', 0))}")
        said_here += [row["note"]] if "note" in row else []
        return (
            f"{'; '.join(said_here)}. {{ref}}`Chapter {self.chapter_with(row['section'])} <{row['section']}>`"
        )

    def chapter_with(self, label: str) -> int:
        """The number of the chapter that has a section of this label."""
        for path in sorted(Path(self.env.srcdir).glob("chapters/*.md")):
            if f"({label})=" in self.read(f"chapters/{path.name}"):
                return int(path.name[:2])
        raise self.error(f"section must be the label of one in chapters/, got {label}")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("equations", Equations)
    app.add_directive("settings", Settings)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
