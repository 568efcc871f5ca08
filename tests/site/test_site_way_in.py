"""Ways into the book: counts, the library's page, the list of pages, without building the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import repository

site_way_in = pytest.importorskip("site_way_in", reason="Sphinx is not installed")
nodes = pytest.importorskip("docutils.nodes")

ROOT = Path(__file__).resolve().parents[2]


def test_every_public_module_stands_on_the_librarys_page() -> None:
    text = (ROOT / "reference" / "library.md").read_text(encoding="utf-8")
    shown = {name for line in re.findall(r"^```\{modules\} (.*)$", text, re.M) for name in line.split()}
    package = ROOT / "lib" / "ppobook"
    modules = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }
    public = {name for name in modules if not name.startswith("_")}
    assert {name for name in shown if "." not in name} == public
    for name in shown:
        path = package / name.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__init__.py").exists(), name


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("One line.", "One line."),
        ("Two parts: of one\nsentence. And more.", "Two parts: of one sentence."),
        ("With an algorithm:\n\n    step", "With an algorithm."),
        ("It holds 0.5 of it. `x` is left.", "It holds 0.5 of it."),
    ],
)
def test_of_a_docstring_the_first_sentence_is_shown(docstring: str, sentence: str) -> None:
    assert site_way_in.first_sentence(docstring) == sentence


@pytest.mark.parametrize(
    ("address", "pages"),
    [
        ("https://github.com/Ada/steps", "https://ada.github.io/steps/"),
        ("https://github.com/ada/Ada.github.io", "https://ada.github.io/"),
        ("https://gitlab.com/ada/steps", ""),
        ("", ""),
    ],
)
def test_where_a_repositorys_site_is(address: str, pages: str) -> None:
    assert repository.pages(address) == pages
