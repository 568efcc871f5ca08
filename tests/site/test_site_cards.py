"""The page of all cards: a small site is built from the book's own decks."""

from __future__ import annotations

import html
import re
import sqlite3
import zipfile
from pathlib import Path

import pytest
import yaml
from sphinx_process import sphinx

from ppobook.teaching import decks

site_cards = pytest.importorskip("site_cards", reason="Sphinx is not installed")

ROOT = Path(__file__).resolve().parents[2]
CARDS = site_cards.all_cards(ROOT)
CONF = """
extensions = ["myst_parser", "sphinx_design", "site_cards"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_baseurl = "https://example.org/book/"
project = "Steps"
myst_enable_extensions = ["colon_fence"]

def setup(app):
    app.add_config_value("book_meta", {"chapters": CHAPTERS}, "env")
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("book")
    (root / "reference").mkdir()
    for path in [*(ROOT / site_cards.FOLDER).glob("*.yml"), ROOT / "reference" / "cards.md"]:
        copy = root / path.relative_to(ROOT)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
    chapters = yaml.safe_load((ROOT / "book.yml").read_text(encoding="utf-8"))["meta"]["chapters"]
    (root / "conf.py").write_text(f"CHAPTERS = {chapters!r}\n{CONF}", encoding="utf-8")
    sections = sorted({card.section for _, card in CARDS.values()})
    stubs = "".join(f"({section})=\n## On {section}\n\nText.\n\n" for section in sections)
    shown = '```{raw} html\n<div class="ppobook-cards"></div>\n```\n'
    index = f"# Book\n\n```{{toctree}}\nreference/cards\n```\n\n{shown}{stubs}"
    (root / "index.md").write_text(index, encoding="utf-8")
    return root


def build(source: Path, builder: str, **environment: str) -> Path:
    out = source / "_build" / builder
    options = ["-q", "-E", "-b", builder, "-d", f"{source}/_build/trees"]
    done = sphinx(source, *options, str(source), str(out), **environment)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def site(source: Path) -> Path:
    return build(source, "html", SOURCE_DATE_EPOCH="1800000000")


@pytest.fixture(scope="module")
def page(site: Path) -> str:
    return (site / "reference" / "cards.html").read_text(encoding="utf-8")


def test_each_card_has_a_name_of_its_own() -> None:
    files = [*(ROOT / "lib/ppobook/teaching/cards").glob("*.yml"), ROOT / site_cards.FOLDER / "across.yml"]
    assert len(CARDS) == sum(len(decks.read(file)) for file in files) > 200


def test_every_card_is_a_fold_with_its_name_and_its_place_in_the_book(page: str) -> None:
    folds = dict(re.findall(r'<details id="card-([^"]+)" class="card-fold" data-keys="([^"]*)">', page))
    assert list(folds) == list(CARDS)
    for name, (deck, card) in CARDS.items():
        keys = html.unescape(folds[name]).split("|")
        assert {f"deck {deck}", f"tag {deck} {card.tag}"} <= set(keys)
        assert f'href="../index.html#{card.section}"' in page
    assert page.count("theme pitfalls") > 18
    fold = re.search(r'<details id="card-03-bad-action-become".*?</details>', page, re.S)
    assert fold is not None
    summary, _, answer = fold[0].partition("</summary>")
    assert re.search(r"<span class=\"math[^>]*>\\\(r &gt; 1 \+ \\varepsilon\\\)</span>", summary)
    assert '<div class="answer">' in answer
    assert "The four cases of the clip · " in answer


def test_the_desk_offers_each_deck_and_tag(page: str) -> None:
    values = {html.unescape(value) for value in re.findall(r'<option value="([^"]*)">', page)}
    keys = {
        key for keys in re.findall(r'data-keys="([^"]*)"', page) for key in html.unescape(keys).split("|")
    }
    assert keys <= values
    assert values - keys <= {"", "5", "10", "20", "100000"}
    words = re.findall(r'<option value="tag [^"]*">([^<]*)</option>', page)
    assert len(words) > 60
    # Words, and no tag as the decks have it.
    assert not {html.unescape(word) for word in words} & {card.tag for _, card in CARDS.values()}
    assert page.count('class="card-desk') == 1
    assert 'src="../_static/cards.js' in page


def test_a_chapters_cards_have_a_link_to_the_page(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert re.search(r'<a href="reference/cards.html">All decks.*?</p>\s*<div class="ppobook-cards">', text)


def test_the_package_for_anki_stands_beside_the_page(site: Path, page: str, tmp_path: Path) -> None:
    path = site / "reference" / site_cards.PACKAGE
    assert f'href="{site_cards.PACKAGE}" download' in page
    with zipfile.ZipFile(path) as archive:
        archive.extract("collection.anki2", tmp_path)
    database = sqlite3.connect(tmp_path / "collection.anki2")
    rows = {row[0]: row[1:] for row in database.execute("select guid, mod, tags, flds from notes")}
    assert set(rows) == {f"ppobook {name}" for name in CARDS}
    for name, (_, card) in CARDS.items():
        mod, tags, fields = rows[f"ppobook {name}"]
        front, back, where = fields.split("\x1f")
        assert mod == 1_800_000_000
        assert f"ppobook::{card.tag}" in tags.split()
        for said, text in (front, card.front), (back, card.back):
            formulas = re.findall(r"\\\(.*?\\\)", text, re.S)
            assert re.findall(r"\\\(.*?\\\)", html.unescape(said), re.S) == formulas
            assert "`" not in said
        assert where.startswith(f'<a href="https://example.org/book/index.html#{card.section}">On sec-')
