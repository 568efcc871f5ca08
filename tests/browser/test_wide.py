"""Things wider than a phone: each says that there is more of it, and the keyboard can get there."""

from __future__ import annotations

from .conftest import OpenPage, ready

EXERCISES = "/exercises/03_the_clipped_surrogate.html"

# Of each box that could scroll, whether it does, and what it says of it.
BOXES = """() => [...document.querySelectorAll(
  ".bd-article :is(div.math > span:not(.eqno), .pst-scrollable-table-container, div:has(> table.dataframe))"
)].filter((box) => box.checkVisibility()).map((box) => ({
  wide: getComputedStyle(box).overflowX === "auto" && box.scrollWidth > box.clientWidth,
  more: box.dataset.more ?? "",
  fades: getComputedStyle(box).maskImage !== "none",
  stop: box.getAttribute("tabindex") === "0" && box.getAttribute("role") === "region",
  name: box.getAttribute("aria-label") ?? "",
}))"""


def test_what_scrolls_on_a_phone_fades_at_its_end_and_is_a_stop_with_a_name(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_page(phone=True)
    ready(page, site_url + EXERCISES)
    page.wait_for_function("document.querySelectorAll('[data-more]').length > 3")
    boxes = page.evaluate(BOXES)
    wide = [box for box in boxes if box["wide"]]
    assert len(wide) >= 2
    assert [box for box in wide if not (box["more"] == "after" and box["fades"] and box["stop"])] == []
    assert len({box["name"] for box in wide}) == len(wide)
    assert [box for box in boxes if not box["wide"] and (box["more"] or box["fades"] or box["stop"])] == []
