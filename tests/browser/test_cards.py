"""The page of cards: studied by keyboard, over days, and with what a browser may do to what is kept."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

PAGE = "reference/cards.html"
BEGIN = datetime(2030, 1, 1, 9)


def opened(page: Page, address: str, day: int = 0) -> Locator:
    """The page, that many days after the beginning, and its desk."""
    page.clock.set_fixed_time(BEGIN + timedelta(days=day))
    page.goto(address)
    desk = page.locator("div.card-desk")
    expect(desk).to_be_visible()
    return desk


def kept(page: Page) -> dict[str, Any]:
    return json.loads(page.evaluate("() => localStorage.getItem('ppobook-cards') ?? 'null'"))


def answer(desk: Locator, key: str) -> None:
    """Turn the card by keyboard, and say whether it was known."""
    expect(desk.locator(".question")).to_be_focused()
    desk.page.keyboard.press("Space")
    expect(desk.locator(".answer")).to_be_focused()
    desk.page.keyboard.press(key)


@pytest.mark.parametrize("where", ["server", "file"])
def test_by_keyboard_from_a_server_and_from_a_file(page: Page, site: Path, site_url: str, where: str) -> None:
    address = f"{site_url}/{PAGE}" if where == "server" else f"file://{site}/{PAGE}"
    desk = opened(page, address)
    expect(desk.get_by_role("status")).to_contain_text("0 due")
    desk.get_by_role("combobox", name="New ones a day").select_option("5")
    desk.get_by_role("button", name="Study").focus()
    page.keyboard.press("Enter")
    expect(desk.locator(".answer")).to_be_hidden()
    first = desk.locator(".question").inner_text()
    answer(desk, "1")
    for _ in range(4):
        answer(desk, "2")
    expect(desk.locator(".question")).to_have_text(first, use_inner_text=True)  # the one that was not known
    answer(desk, "2")
    expect(desk.get_by_role("status")).to_contain_text("Done with 5 cards.")
    for _ in range(4):  # a busy Chromium opens one file in a hundred without what it keeps
        page.reload()
        expect(desk.get_by_role("status")).to_contain_text("0 due")
        if kept(page):
            break
    expect(desk.get_by_role("button", name="Study")).to_be_disabled()
    assert sorted(box for box, _ in kept(page)["boxes"].values()) == [1] * 5


def later(page: Page, day: int) -> None:
    """Another day, on which the reader comes back to the page that is still open."""
    page.clock.set_fixed_time(BEGIN + timedelta(days=day))
    page.evaluate("() => dispatchEvent(new Event('pageshow'))")


def test_a_card_that_is_known_comes_again_after_1_3_7_16_35_and_80_days(page: Page, site_url: str) -> None:
    desk = opened(page, f"{site_url}/{PAGE}")
    desk.get_by_role("combobox", name="Which cards").select_option("tag 03_the_clipped_surrogate eps-to-kl")
    mark = page.locator("#card-03-all-ratios-state .when")
    day = 0
    for gap in (1, 3, 7, 16, 35, 80, 80):
        desk.get_by_role("button", name="Study").click()
        for _ in range(2):
            answer(desk, "2")
        expect(mark).to_have_text(f" in {gap} day{'s' * (gap > 1)}")
        later(page, day + gap - 1)
        expect(mark).to_have_text(" in 1 day")
        expect(desk.get_by_role("button", name="Study")).to_be_disabled()
        day += gap
        later(page, day)
        expect(mark).to_have_text(" due")
    desk.get_by_role("button", name="Study").click()
    answer(desk, "1")
    page.keyboard.press("Escape")
    assert sorted(box for box, _ in kept(page)["boxes"].values()) == [0, 6]


def test_choosing_shows_those_cards_only_and_a_link_shows_all(page: Page, site_url: str) -> None:
    desk = opened(page, f"{site_url}/{PAGE}")
    which = desk.get_by_role("combobox", name="Which cards")
    every = page.locator("details.card-fold:visible").count()
    assert every > 200
    which.select_option("theme questions")
    expect(which).to_be_focused()
    expect(page.locator("details.card-fold:visible")).to_have_count(8)
    expect(desk.get_by_role("status")).to_contain_text("8 cards")
    expect(page.locator("#cards-00")).to_be_hidden()
    page.locator("#cards-pitfalls a[href='#card-03-wrong-loss']").click()
    card = page.locator("#card-03-wrong-loss")
    expect(card).to_have_attribute("open", "")
    expect(card).to_be_in_viewport()
    expect(page.locator("details.card-fold:visible")).to_have_count(every)
