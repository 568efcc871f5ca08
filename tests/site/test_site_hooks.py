"""The site's own hooks, without building it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ppobook.course import masters

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
site_hooks = pytest.importorskip("site_hooks", reason="Sphinx is not installed")

PAGE = "exercises/01_vanilla_policy_gradient"
READER = ROOT / f"{PAGE}.ipynb"
MASTER = ROOT / "exercises" / "masters" / READER.name


def app(solutions: bool, noted: list[str] | None = None) -> Any:
    """The part of Sphinx that a hook asks for."""
    env = SimpleNamespace(note_dependency=(noted if noted is not None else []).append)
    return SimpleNamespace(srcdir=str(ROOT), config=SimpleNamespace(book_solutions=solutions), env=env)


def cells_of(source: str) -> list[dict[str, Any]]:
    return json.loads(source)["cells"]


def test_each_blank_is_followed_by_its_solution_folded() -> None:
    noted: list[str] = []
    source = [READER.read_text(encoding="utf-8")]
    site_hooks.fold_in_solutions(app(True, noted), PAGE, source)
    cells, solutions = cells_of(source[0]), masters.solutions(MASTER)
    assert noted == [str(MASTER)]  # so that an edit of the master builds the page again
    assert solutions
    for name, solution in solutions.items():
        blank = next(
            i
            for i, cell in enumerate(cells)
            if (p := masters.part(cell)) is not None and p.name == name and p.role != "test"
        )
        below = cells[blank + 1]["source"]
        assert below.startswith(":::"), name
        assert "{dropdown}" in below.splitlines()[0]
        assert solution.source.splitlines()[-1] in below
    # Nothing else was touched, but for what only a notebook needs: places for answers, and names of blanks.
    rest = [c for c in cells if not str(c.get("id", "")).startswith("folded-")]
    for old, new in zip(cells_of(READER.read_text(encoding="utf-8")), rest, strict=True):
        place = "".join(old["source"]).startswith("**Your ")
        assert new["source"] == old["source"] or (place and not new["source"])
        assert "not yet: " not in str(new.get("outputs"))


def test_a_running_courses_site_has_no_solution() -> None:
    text = READER.read_text(encoding="utf-8")
    source = [text]
    site_hooks.fold_in_solutions(app(False), PAGE, source)
    assert source == [text]
    shown = ["".join(cell["source"]) for cell in cells_of(text)]
    for name, solution in masters.solutions(MASTER).items():
        assert not any(solution.source in cell for cell in shown), name


def test_formulas_in_docstrings_stay_as_they_are() -> None:
    lines = [
        "The reward-to-go, of [N, *obs] and |x|.",
        "",
        "    G_t = |r_t| + γ G_{t+1}",
        "",
        "Parameters",
        "----------",
        "x : array",
        "    Of shape [N, *obs].",
    ]
    site_hooks.keep_formulas(None, "", "", None, None, lines)
    assert lines == [
        r"The reward-to-go, of [N, \*obs] and \|x\|.",
        "",
        "::",
        "",
        "    G_t = |r_t| + γ G_{t+1}",
        "",
        "Parameters",
        "----------",
        "x : array",
        r"    Of shape [N, \*obs].",
    ]


def test_a_setting_is_listed_with_its_default_its_choices_and_its_help():
    found = {x[0]: x for x in site_hooks.settings_of("ppobook.settings.PPOSettings")}
    assert found["env_kwargs"][1] == "{}"
    assert found["clip_eps"] == ("clip_eps", "0.2", [], "ε: the ratio is clipped to [1 − ε, 1 + ε]")


def test_the_page_of_a_module_that_is_gone_goes(tmp_path: Path) -> None:
    (tmp_path / "lib/book").mkdir(parents=True)
    (tmp_path / "lib/book/here.py").touch()
    pages = [tmp_path / "autoapi" / name / "index.rst" for name in ("", "book", "book/here", "book/gone")]
    for page in pages:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
    site_hooks.drop_pages_of_gone_modules(SimpleNamespace(srcdir=tmp_path))
    assert [page.exists() for page in pages] == [True, True, True, False]
