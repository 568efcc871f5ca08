"""The words that a screen reader hears of interactive figures: the values, once they have come to rest."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from .figure_site import live

COUNT = """(figure) => {
  const spoken = figure.querySelector(".unseen[role=status]");
  window.spoken = [];
  new MutationObserver(() => window.spoken.push(spoken.textContent))
    .observe(spoken, { childList: true, characterData: true, subtree: true });
}"""


# (What the others say is tested beside what they show.)
@pytest.mark.parametrize("name", ["simplex", "parts", "sweep", "pair"])
def test_a_figure_says_its_values_once_they_rest(page: Page, http: str, name: str) -> None:
    figure = live(page, http, name)
    figure.evaluate(COUNT)
    slider = figure.locator("input[type=range]:visible").last
    slider.focus()
    before = slider.input_value()
    # The end that is farther away, so that several steps change it.
    low, high = (float(slider.get_attribute(end) or 0) for end in ("min", "max"))
    key = "ArrowRight" if float(before) < (low + high) / 2 else "ArrowLeft"
    for _ in range(4):
        page.keyboard.press(key)
    assert slider.input_value() != before
    expect(figure.locator(".unseen[role=status]")).not_to_be_empty()
    page.wait_for_timeout(400)
    said = page.evaluate("window.spoken")
    # Four steps, fewer sentences; the last has numbers in it.
    assert 1 <= len(said) <= 3
    assert any(letter.isdigit() for letter in said[-1])
