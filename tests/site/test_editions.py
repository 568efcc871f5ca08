"""The book's editions, on a small site; what needs Chromium is tested in tests/browser."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
pytest.importorskip("sphinx_book_theme", reason="Sphinx is not installed")

import tiny_site  # noqa: E402

from edition_builder import archive, epub, pages, pdf  # noqa: E402

DAY = 1_700_000_000
OPF = {"o": "http://www.idpf.org/2007/opf"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small site."""
    return tiny_site.build(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def book(site: Path, monkeypatch: pytest.MonkeyPatch) -> pages.Book:
    """The book that it is."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(DAY))
    return pages.read(site.parents[1], site)


def text_of(page: pages.Page) -> str:
    return pages.words(page.article)


def test_solutions_stand_at_the_end_with_links_there_and_back(book: pages.Book) -> None:
    article = book.pages[1].article
    last = article.find_all("section", recursive=False)[-1]
    assert [pages.words(heading) for heading in last.find_all(["h2", "h3"])] == [
        "Solutions",
        "1.1 The first",
        "1.2 The second",
    ]
    assert "Hint Count." in pages.words(article.find(id="the-first"))
    assert r"It is \(2\)." in pages.words(last)
    exercise = article.find(id="the-first")
    assert "It is" not in pages.words(exercise)
    there = exercise.find(class_="to-solution").a
    group = article.find(id=there["href"].removeprefix("#"))
    assert group.h3.a["href"] == "#the-first"
    assert group.find("em") is not None  # a title keeps its mark-up


def test_links_lead_to_places_of_the_edition_and_else_to_the_site(book: pages.Book) -> None:
    pages.link(book, epub.place)
    links = {a.get_text(): a["href"] for a in book.pages[0].article.find_all("a", href=True)}
    assert links["the second"] == "chapters-02-two.xhtml"
    assert links["a place in it"] == "chapters-02-two.xhtml#there"
    assert links["the library"] == "https://example.org/tiny/autoapi/tiny/index.html"
    assert links["https://example.org/elsewhere"] == "https://example.org/elsewhere"


def test_without_an_address_a_link_out_of_the_edition_leaves_its_words(book: pages.Book) -> None:
    book.address = ""
    pages.link(book, pdf.place)
    one = book.pages[0]
    assert "the library" in text_of(one)
    assert "the library" not in [a.get_text() for a in one.article.find_all("a")]
    assert "#chapters-02-two--there" in [a.get("href") for a in one.article.find_all("a")]


def test_the_printed_text_has_every_anchor_once_and_every_file(book: pages.Book) -> None:
    pages.link(book, pdf.place)
    text = pdf.merged(book)
    anchors = re.findall(r'\sid="([^"]*)"', text)
    assert len(anchors) == len(set(anchors))
    targets = set(re.findall(r'href="#([^"]*)"', text))
    assert targets <= set(anchors)
    assert "chapters-02-two--there" in targets
    for address in re.findall(r'(?:src|href)="file://([^"]*)"', text):
        assert Path(address).is_file(), address
    # One level for parts, one for pages.
    assert re.findall(r"<h1>(.*?)</h1>", text) == ["Contents", "First part", "Second part"]
    assert len(re.findall(r"<h2\b", text)) == 3


def test_the_epub_is_whole_and_the_same_twice(book: pages.Book, tmp_path: Path, site: Path) -> None:
    sign = '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>x</mi></math>'

    def make(book: pages.Book, name: str) -> Path:
        pages.link(book, epub.place)
        asked = {(tex, apart): sign for p in book.pages for _, tex, apart in pages.formulas(p.article)}
        assert (r"\alpha \le \beta_1", False) in asked
        assert any(apart and tex.startswith(r"\sum") for tex, apart in asked)
        epub.write(book, tmp_path / name, asked, b"cover")
        return tmp_path / name

    path = make(book, "one.epub")
    again = make(pages.read(site.parents[1], site), "two.epub")
    assert path.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(path) as archived:
        names = archived.namelist()
        first = archived.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
        package = ElementTree.fromstring(archived.read("EPUB/package.opf"))
        items = {item.get("href"): item for item in package.findall(".//o:item", OPF)}
        assert {f"EPUB/{name}" for name in items} == set(names) - {
            "mimetype",
            "META-INF/container.xml",
            "EPUB/package.opf",
        }
        inside = {}
        for name in items:
            if name.endswith(".xhtml"):
                inside[name] = ElementTree.fromstring(archived.read(f"EPUB/{name}"))  # well-formed
                assert ("mathml" in (items[name].get("properties") or "")) == (
                    b"<math" in archived.read(f"EPUB/{name}")
                )
        assert archived.read("EPUB/images/dot.svg").count(b'id="dot"') == 1
        for name, page in inside.items():
            assert not any("\\(" in text for text in page.itertext()), name
            for tag in page.iter():
                if tag.tag.endswith("}img"):
                    assert tag.get("alt") is not None
                    assert tag.get("src") in items
                target = tag.get("href") or ""
                if tag.tag.endswith("}a") and "://" not in target:
                    file, _, anchor = target.partition("#")
                    assert not anchor or any(t.get("id") == anchor for t in inside[file or name].iter()), (
                        target
                    )


def test_the_zip_has_the_site_and_is_the_same_twice(site: Path, tmp_path: Path) -> None:
    (site / "404.html").write_text("for a server only", encoding="utf-8")
    one, two = tmp_path / "a" / "tiny.zip", tmp_path / "b" / "tiny.zip"
    for path in (one, two):
        path.parent.mkdir()
        archive.write(site, path, DAY)
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as archived:
        names = set(archived.namelist())
    assert {"tiny/index.html", "tiny/chapters/01_one.html", "tiny/_static/book.css"} <= names
    assert not any(name.startswith(("tiny/404", "tiny/.")) for name in names)


# --- where they are offered ---------------------------------------------------------------------------------
