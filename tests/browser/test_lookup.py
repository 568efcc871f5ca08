"""Looking things up: the cheatsheet on three sheets of paper, and the glossary's words at their first use."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from .conftest import OpenPage, ready

CHAPTER = "/chapters/03_the_clipped_surrogate.html"
SHEET = "/reference/cheatsheet.html"
# The room between the margins of A4, in CSS pixels.
PAPER = {"width": round((210 - 16) / 25.4 * 96), "height": round((297 - 14) / 25.4 * 96)}


# --- the cheatsheet -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_cheatsheet_prints_on_three_sheets_of_a4(open_page: OpenPage, site_url: str, dark: bool) -> None:
    page = open_page(dark=dark)
    ready(page, site_url + SHEET)
    paper = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) == 3
    sizes = {tuple(map(float, box.split()[2:])) for box in re.findall(rb"/MediaBox\s*\[([^\]]*)\]", paper)}
    assert all(abs(width - 595) < 2 and abs(height - 842) < 2 for width, height in sizes), sizes


# --- words of the glossary ----------------------------------------------------------------------------------


def test_a_word_says_what_it_is_to_the_pointer_until_escape(page: Page, site_url: str) -> None:
    ready(page, site_url + CHAPTER)
    word, tip = page.locator("a.term:visible").first, page.locator("#term-tip")
    expect(tip).to_be_hidden()
    word.hover()
    expect(tip).to_be_visible()
    said = page.locator(f"#{word.get_attribute('aria-describedby')}").text_content()
    assert said
    expect(tip).to_have_text(said)
    tip.hover()
    page.wait_for_timeout(400)
    expect(tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_words_are_one_stop_of_the_keyboard_and_arrow_keys_lead_on(page: Page, site_url: str) -> None:
    ready(page, site_url + CHAPTER)
    words, tip = page.locator("a.term"), page.locator("#term-tip")
    assert words.count() >= 20
    expect(page.locator("a.term[tabindex='0']")).to_have_count(1)
    page.locator("a.term[tabindex='0']").focus()
    first = tip.text_content()
    expect(tip).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(tip).to_be_visible()
    assert tip.text_content() != first
    expect(page.locator("a.term[tabindex='0']")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/reference/glossary.html#term-*")
