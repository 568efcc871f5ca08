"""Slides of a chapter in a browser: nothing overflows, the keys work, and it prints a slide a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from ppobook.course import slides

from .conftest import ROOT

# How far a slide may be made smaller, so that it can still be read from the last row.
LEAST = 0.55
OVERFLOWS = """() => [...document.querySelectorAll(".slide")].filter((slide) => {
  const box = slide.getBoundingClientRect();
  return [...slide.querySelectorAll(".body *, h1, h2")].some((part) => {
    if (part.closest("math") && part.tagName.toLowerCase() !== "math") return false;
    const own = part.getBoundingClientRect();
    return own.width && (own.right > box.right + 1 || own.bottom > box.bottom + 1 ||
      own.left < box.left - 1 || own.top < box.top - 1);
  });
}).map((slide) => slide.id)"""


CHAPTERS = sorted(path.stem for path in (ROOT / "chapters").glob("*.ipynb"))


def written(folder: Path, chapter: str) -> str:
    """The slides of a chapter in a file, and its address."""
    file = folder / f"{chapter}.html"
    deck = slides.read_deck(ROOT / "chapters" / f"{chapter}.ipynb")
    file.write_text(slides.as_html(deck), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("slides"), "03_the_clipped_surrogate")


def opened(page: Page, address: str, width: int = 1280, height: int = 720) -> Page:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    return page


def here(page: Page) -> str:
    return str(page.evaluate("document.querySelector('.slide.here').id"))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_fits_is_not_tiny_and_asks_for_nothing(page: Page, tmp_path: Path, chapter: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    own = written(tmp_path, chapter)
    opened(page, own)
    assert [url for url in asked if not url.startswith("data:")] == [own]
    assert page.evaluate(OVERFLOWS) == []
    zooms = page.evaluate("[...document.querySelectorAll('.slide')].map(s => [s.id, +s.dataset.zoom])")
    assert {slide: zoom for slide, zoom in zooms if zoom < LEAST} == {}
    # Every picture and formula is drawn.
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth)")
    empty = "[...document.querySelectorAll('.slide math')].filter(m => !m.getBoundingClientRect().width)"
    assert page.evaluate(f"{empty}.length") == 0


def test_the_keys(page: Page, address: str) -> None:
    opened(page, address)
    assert here(page) == "s1"
    for key in ("ArrowRight", " ", "ArrowLeft", "PageDown"):
        page.keyboard.press(key)
    assert here(page) == "s3"
    assert page.url.endswith("#s3")
    page.keyboard.press("End")
    last = here(page)
    page.keyboard.press("ArrowRight")
    assert here(page) == last
    page.keyboard.press("Home")
    page.keyboard.press("n")
    assert page.locator(".notes.here").is_visible()
    page.keyboard.press("n")
    assert not page.locator(".notes.here").is_visible()
    page.keyboard.press("o")
    page.locator("#s5").click()
    assert here(page) == "s5"
    assert "overview" not in page.evaluate("document.body.className")


def test_it_prints_a_slide_a_page(page: Page, address: str) -> None:
    opened(page, address)
    count = page.locator(".slide").count()
    pdf = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == count
