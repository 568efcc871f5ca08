"""The cheatsheet: what it names exists, and what it says of measurements is what the tables say."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest

import site_cheatsheet
import site_hooks

ROOT = Path(__file__).resolve().parents[2]
DATA = tomllib.loads((ROOT / site_cheatsheet.DATA).read_text(encoding="utf-8"))
CHAPTERS = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "chapters").glob("*.md"))]
ENTRIES = [entry for group in DATA["equations"].values() for entry in group["entries"]]
ROWS = [row for table in DATA["settings"].values() for row in table["rows"]]


def named(rows, key="name"):
    return [row[key] for row in rows]


@pytest.mark.parametrize("entry", ENTRIES, ids=named(ENTRIES))
def test_each_formula_has_its_label_its_code_and_its_figure(entry):
    for label in entry["labels"]:
        assert sum(f"$$ ({label})" in text for text in CHAPTERS) == 1
    for name in entry["code"]:
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(f"ppobook.{module}"), last)
    for figure in entry.get("figures", []):
        assert any(re.search(rf"name: {figure}$", text, re.M) for text in CHAPTERS)


@pytest.mark.parametrize("row", ROWS, ids=named(ROWS))
def test_each_setting_is_the_librarys_and_is_explained_somewhere(row):
    assert row["name"] in {name for name, *_ in site_hooks.settings_of(f"ppobook.{row['of']}")}
    assert any(f"({row['section']})=" in text for text in CHAPTERS)
    assert row.get("sweeps") or row.get("presets") or row.get("note")


def table_of(name):
    return (ROOT / "results" / name / "table.csv").read_text(encoding="utf-8")


SWEEPS = [(row["name"], one) for row in ROWS for one in row.get("sweeps", [])]


@pytest.mark.parametrize(("name", "one"), SWEEPS, ids=[f"{name}-{one['title']}" for name, one in SWEEPS])
def test_a_sweep_is_what_its_tables_say(name, one):
    tables = [(table_of(take["table"]), take) for take in one["tables"]]
    found = site_cheatsheet.sweep(tables, one["by"], one["value"])
    assert len(found) >= 2
    for take in one["tables"]:
        table = pd.read_csv(ROOT / "results" / take["table"] / "table.csv").assign(**take.get("add", {}))
        for column, wanted in take.get("where", {}).items():
            table = table[table[column].isin(wanted if isinstance(wanted, list) else [wanted])]
        if "update" in table:
            table = table.loc[table.groupby([one["by"], "seed"])["update"].idxmax()]
        means = table.groupby(one["by"])[one["value"]].mean()
        here = {key if isinstance(key, str) else float(key): mean for key, mean in means.items()}
        ours = {key if key in here else float(key): sum(x) / len(x) for key, x in found.items()}
        assert {key: ours[key] for key in here} == pytest.approx(here)
