"""Deeper boxes, as a reader's browser has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from edition_builder import pdf

from .conftest import ready

CHAPTER = "/chapters/02_trust_regions.html"
# What has an anchor: the section around the box, and titles, formulas and figures within.
ANCHORS = "box => [box.parentElement.id, ...[...box.querySelectorAll('.inside [id]')].map(e => e.id)]"
FOLLOW = """anchor => {
  const link = document.createElement("a");
  link.href = "#" + anchor;
  document.body.append(link);
  link.click();
}"""
ON_PAPER = """addEventListener("beforeprint", () => {
  const inside = [...document.querySelectorAll("details.deeper > .inside")];
  window.shown = inside.map((part) => part.checkVisibility());
})"""


@pytest.fixture
def boxes(page: Page, site_url: str) -> Locator:
    ready(page, site_url + CHAPTER)
    found = page.locator("details.deeper")
    assert found.count() >= 2
    return found


def is_open(box: Locator) -> bool:
    return bool(box.evaluate("box => box.open"))


def test_they_are_closed_and_open_by_mouse_and_keyboard(boxes: Locator) -> None:
    assert not any(is_open(box) for box in boxes.all())
    box, inside = boxes.first, boxes.first.locator(".inside")
    expect(box.locator(".about").first).to_be_visible()
    expect(inside).to_be_hidden()
    box.locator("summary").first.click()
    expect(inside).to_be_visible()
    box.locator("summary").first.focus()
    boxes.page.keyboard.press("Enter")
    expect(inside).to_be_hidden()


def test_a_link_to_what_is_inside_opens_them(boxes: Locator) -> None:
    page = boxes.page
    address = page.url
    anchors = [anchor for anchor in boxes.first.evaluate(ANCHORS) if anchor]
    for anchor in (anchors[0], anchors[-1]):
        page.goto("about:blank")
        page.goto(f"{address}#{anchor}")  # on arrival
        expect(boxes.first).to_have_attribute("open", "")
        expect(page.locator(f'[id="{anchor}"]')).to_be_in_viewport()
        boxes.first.evaluate("box => { box.open = false }")
        # From within the page, and the same link once more.
        page.evaluate(FOLLOW, anchor)
        expect(boxes.first).to_have_attribute("open", "")


def test_paper_has_the_boxes_that_a_reader_has_opened(boxes: Locator) -> None:
    page = boxes.page
    boxes.nth(1).locator("summary").first.click()
    page.evaluate(ON_PAPER)
    page.pdf()
    assert page.evaluate("window.shown") == [at == 1 for at in range(boxes.count())]


@pytest.mark.parametrize("name", ["chapters/07_rlhf", "exercises/03_the_clipped_surrogate"])
def test_a_page_has_no_more_than_25_sheets(site: Path, chromium: Browser, tmp_path: Path, name: str) -> None:
    assert pdf.write_page(site, name, tmp_path / "page.pdf", chromium) <= 25


def arrive(page: Page, to: str, word: str) -> None:
    """Come to a place as by a search for a word that is in it."""
    found = {"to": to, "words": [word], "word": r"[\p{L}\p{N}]+"}
    page.evaluate("found => sessionStorage.setItem('book-found', JSON.stringify(found))", found)
    page.goto(to)


def test_what_a_search_has_found_is_not_hidden(page: Page, site_url: str) -> None:
    ready(page, site_url + CHAPTER)
    first = page.locator("details.deeper:has(> .inside > p)").first
    word = (first.locator("> .inside > p").first.text_content() or "").split()[0]
    place = first.evaluate("box => box.parentElement.id")
    to = f"{site_url}{CHAPTER}#{place}"
    arrive(page, to, word)
    box = page.locator(f"#{place} > details.deeper").first
    expect(box.locator("> .inside > p").first).to_be_visible()
    expect(box).to_have_attribute("open", "")
    assert page.evaluate("(CSS.highlights.get('book-found')?.size ?? 0) > 0")
