"""The sample of a desk: drawn as a reader's own, from the book as it is, and said to be a sample."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import site_desk  # noqa: E402
from ppobook.teaching import drill  # noqa: E402


@pytest.fixture
def app() -> Any:
    """The part of Sphinx that the sample needs."""
    env = SimpleNamespace(note_dependency=lambda _path: None)
    return SimpleNamespace(env=env, srcdir=ROOT, config=SimpleNamespace(book_meta={"chapters": {}}))


def cells(app: Any) -> list[dict[str, Any]]:
    source = [(ROOT / "desk" / "desk.ipynb").read_text(encoding="utf-8")]
    site_desk.stand_in(app, site_desk.PAGE, source)
    found: list[dict[str, Any]] = json.loads(source[0])["cells"]
    return found


@pytest.mark.parametrize("name", ["desk/desk", "desk/drill"])
def test_a_line_says_what_to_do_in_place_of_the_cells(app: Any, name: str) -> None:
    source = [(ROOT / f"{name}.ipynb").read_text(encoding="utf-8")]
    site_desk.stand_in(app, name, source)
    found = json.loads(source[0])["cells"]
    assert [cell["cell_type"] for cell in found] == ["markdown"] * len(found)
    assert sum("`make lab`" in cell["source"] for cell in found if cell["source"][0] == ":") == 1


def test_the_sample_says_what_it_is(app: Any) -> None:
    note, _, text = cells(app)[1]["source"].partition("\n\n")
    assert note.startswith(":::{note}\n")
    assert text.startswith(":::{admonition} An example\n")
    assert "made up" in text
    assert "fifteen-hours" in text
    assert "<a " not in text
    drawn = text.partition("{raw} html\n")[2].partition("\n```")[0]
    assert "\n\n" not in drawn
    assert drawn.count("<tr>") == 10  # a head, and nine chapters of the path
    assert "2 × the done mask is missing (reward-to-go)" in drawn


def test_its_mistakes_and_formulas_are_the_books() -> None:
    known: dict[str, set[str]] = {}
    for path in (ROOT / "lib/ppobook/teaching/checks").rglob("*.toml"):
        for check, mistakes in tomllib.loads(path.read_text(encoding="utf-8")).items():
            known.setdefault(check, set()).update(mistakes)
    for check, kind, name in site_desk.RECORDS:
        assert name in (known[check] | known["shared"] if kind == "mistake" else {check}), check
    assert {name for name, _ in site_desk.TIMES} <= {one.name for one in drill.formulas()}
