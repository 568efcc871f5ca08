"""The editions as Chromium makes them: the PDF, formulas as MathML, and the zip opened from the disk."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
import tiny_site
from playwright.sync_api import Browser, expect
from pypdf import PdfReader

from edition_builder import archive, pages, pdf

from .conftest import OpenPage

MATHML = "{http://www.w3.org/1998/Math/MathML}"
pytestmark = pytest.mark.xdist_group("editions")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small site."""
    return tiny_site.build(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def printed(tiny: Path, chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> PdfReader:
    """The small book as a PDF."""
    book = pages.read(tiny.parents[1], tiny)
    pages.link(book, pdf.place)
    work = tmp_path_factory.mktemp("work")
    count = pdf.write(book, work / "tiny.pdf", chromium, work)
    reader = PdfReader(work / "tiny.pdf")
    assert count == len(reader.pages)
    return reader


def bookmarks(reader: PdfReader) -> list:
    """The titles, those below another one in a list after it."""

    def titles(entries: list) -> list:
        return [titles(entry) if isinstance(entry, list) else entry.title for entry in entries]

    return titles(reader.outline)


def test_a_chapter_starts_on_a_page_of_its_own_and_has_its_bookmarks(printed: PdfReader) -> None:
    starts = {name: number for name, number in pdf.page_numbers(printed).items() if "--" not in name}
    assert list(starts) == sorted(starts, key=lambda name: starts[name]) or len(set(starts.values())) == 3
    for name, title in (("chapters-01-one", "1 One"), ("chapters-02-two", "2 Two")):
        text = printed.pages[starts[name] - 1].extract_text()
        assert title in text
        assert f"\n{starts[name]}" in text or text.rstrip().endswith(str(starts[name]))
    contents, first, below, second, rest = bookmarks(printed)
    assert (contents, first, second) == ("Contents", "First part", "Second part")
    assert below[0] == "1 One"
    assert "Exercises 1: one" in below
    assert rest[0] == "2 Two"


def test_the_contents_say_the_page(printed: PdfReader) -> None:
    text = next(t for t in (page.extract_text() for page in printed.pages) if "Contents" in t)
    at = pdf.page_numbers(printed)
    for name, title in (("chapters-01-one", "1 One"), ("exercises-01-one", "Exercises 1: one")):
        assert re.search(rf"{title}\s+{at[name]}\b", text)


def test_what_is_folded_on_the_site_is_there_and_nothing_is_cut(printed: PdfReader) -> None:
    text = "\n".join(page.extract_text() for page in printed.pages)
    assert "Folded on the site." in text
    assert "Count." in text
    assert "Four." in text
    assert "draw_something" not in text
    assert text.count("long") == 60  # of a line of code far longer than the page is wide
    assert "39" in text  # the end of a formula that is as well


def test_a_page_has_a_pdf_of_its_own(tiny: Path, chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "one.pdf"
    assert pdf.write_page(tiny, "chapters/02_two", path, chromium) == 1
    page = PdfReader(path).pages[0]
    actions = [entry.get_object().get("/A", {}) for entry in page["/Annots"]]
    links = {action["/URI"] for action in actions if "/URI" in action}
    assert "https://example.org/tiny/chapters/01_one.html" in links
    assert not any(link.startswith("file:") for link in links)
    text = page.extract_text()
    assert "The end." in text
    assert "First part" not in text  # the sidebar


def test_the_zip_works_from_the_disk(site: Path, open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "book.zip"
    archive.write(site, path, 0)
    with zipfile.ZipFile(path) as archived:
        archived.extractall(tmp_path)
    page = open_page(dark=True)
    page.goto((tmp_path / "book" / "index.html").as_uri())
    page.get_by_role("link", name="Start with chapter 0").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("0 Setting out")
    page.wait_for_function("document.querySelectorAll('.katex').length > 10")
    live = "() => [...document.querySelectorAll('.ppobook-figure')].every(f => f.dataset.live)"
    page.wait_for_function(live)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Color mode").click()
    page.get_by_role("button", name="Light", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.goto(f"{(tmp_path / 'book' / 'search.html').as_uri()}?q=entropy bonus")
    page.locator("#search-results a").first.click()
    assert page.url.startswith(tmp_path.as_uri())
    expect(page.locator("article h1")).to_be_visible()
